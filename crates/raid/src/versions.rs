//! Alternative versions of the data that a read returned.
//!
//! A reader may verify data better than the checksums here: a checksum on a disk that lost both a
//! write and the checksum's update fits the old bytes. So `mend` distrusts each member in turn and
//! reconstructs its data from the others; on a mirror it takes each member's copy in turn. The
//! version that the reader accepts is written wherever a different one is stored.
//!
//! The stripes are locked meanwhile, so the judged version is still the one on disk when it is
//! written.

use block::{Buffer, IoError, IsRight};
use futures::future::join_all;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::layout::{Level, Piece};
use crate::parity::missing;
use crate::stripe::Column;

impl Array {
    /// Implements [`block::BlockDevice::mend`] for whole blocks of 4 KiB.
    pub(crate) async fn mend(
        &self,
        at: u64,
        length: u64,
        is_right: IsRight,
    ) -> Result<Option<Buffer>, IoError> {
        let are_blocks = at.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK);
        if self.layout.level == Level::Striped || !are_blocks {
            return Ok(None);
        }
        let pieces: Vec<Piece> = self.layout.pieces(at, length).collect();
        let mut stripes: Vec<u64> =
            pieces.iter().map(|piece| piece.offset / self.layout.unit).collect();
        stripes.dedup();
        let mut alone = Vec::with_capacity(stripes.len());
        for &stripe in &stripes {
            alone.push(self.stripes.alone(stripe).await); // in order, so that no two calls deadlock
        }
        if !stripes.iter().all(|&stripe| self.written.has(stripe)) {
            return Ok(None);
        }
        for turn in 0..self.layout.members {
            let parts = join_all(pieces.iter().map(|piece| self.part(piece, turn))).await;
            let Some(parts) = parts.into_iter().collect::<Option<Vec<Vec<u8>>>>() else { continue };
            let version = parts.concat();
            if is_right(&version) {
                for (piece, part) in pieces.iter().zip(&parts) {
                    self.put_version(piece, part).await;
                }
                return Ok(Some(Buffer::copied(&version)));
            }
        }
        Ok(None)
    }

    fn column_of(&self, piece: &Piece) -> Column {
        let (stripe, from) = (piece.offset / self.layout.unit, piece.offset % self.layout.unit);
        Column { stripe, from, to: from + piece.length }
    }

    /// A piece in the version of this turn: on a mirror, the copy of member `turn`; else the
    /// member's own bytes, or a reconstruction from the others if its member is the distrusted one.
    /// `None` if the disks cannot give it.
    async fn part(&self, piece: &Piece, turn: usize) -> Option<Vec<u8>> {
        let (column, there) = (self.column_of(piece), self.stripe());
        let give = async |slot: usize| {
            // Read the disk, not the cache.
            self.blocks.forget_range(slot, piece.offset, piece.length);
            let given = there.give(&column, slot).await;
            given.is_good().then_some(given.bytes)
        };
        if self.layout.level == Level::Mirrored {
            return give(turn).await;
        }
        if piece.member != turn {
            return give(piece.member).await;
        }
        let all = self.layout.members_of(column.stripe);
        let others = all.into_iter().filter(|&slot| slot != turn);
        let others = join_all(others.map(give)).await;
        let others: Option<Vec<Vec<u8>>> = others.into_iter().collect();
        Some(missing(column.length(), others?.iter().map(Vec::as_slice)))
    }

    /// Writes the accepted version wherever a different one is stored.
    async fn put_version(&self, piece: &Piece, right: &[u8]) {
        let (column, there) = (self.column_of(piece), self.stripe());
        let slots = match self.layout.level {
            Level::Mirrored => (0..self.layout.members).collect(),
            _ => vec![piece.member],
        };
        for slot in slots.into_iter().filter(|&slot| self.members.has(slot)) {
            let given = there.give(&column, slot).await;
            let blocks = right.chunks(BLOCK as usize).enumerate();
            for (block, right) in blocks {
                if !given.has(block) || given.block(block) != right {
                    let at = piece.offset + block as u64 * BLOCK;
                    there.put(slot, at, right).await;
                    self.blocks.forget_range(slot, at, BLOCK);
                }
            }
        }
    }
}
