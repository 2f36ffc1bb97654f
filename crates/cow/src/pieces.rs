//! Leaves of a tree, read in large pieces: adjacent leaves with one read.
//!
//! An opening reads the whole map and all replies in this way. Nothing of it stays in memory.

use std::collections::BTreeMap;

use block::Buffer;
use bytes::Bytes;
use futures::future::try_join_all;
use vfs::FsError;

use crate::format::pointer::Pointer;
use crate::format::{FAN, UNIT, sum};
use crate::layout::Disk;
use crate::node::Stem;
use crate::nodes::Nodes;

/// Pieces that are read at once.
const AT_ONCE: usize = 64;
/// Units of a piece at most.
const LONGEST: usize = 256;

impl<D: Disk> Nodes<D> {
    /// Reads these leaves, none of which is in memory, by their numbers; holes are left out.
    ///
    /// # Errors
    /// As [`Nodes::get`].
    pub async fn pieces(
        &self,
        stem: &Stem,
        leaves: &[u64],
    ) -> Result<BTreeMap<u64, Bytes>, FsError> {
        let mut above: Vec<u64> = leaves.iter().map(|leaf| leaf / FAN).collect();
        above.sort_unstable();
        above.dedup();
        for some in above.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|&index| self.get(stem, 1, index))).await?;
        }
        let mut places: Vec<(u64, u64, Pointer)> = Vec::new();
        for &leaf in leaves {
            let pointer = self.leaf(stem, leaf).await?;
            if !pointer.is_null() {
                places.push((self.locate(pointer).ok_or(FsError::Corrupt)?, leaf, pointer));
            }
        }
        places.sort_unstable_by_key(|&(at, ..)| at);
        let pieces: Vec<_> = places.chunk_by(|one, next| one.0 + UNIT as u64 == next.0).collect();
        let pieces: Vec<_> = pieces.iter().flat_map(|piece| piece.chunks(LONGEST)).collect();
        let mut all = BTreeMap::new();
        for some in pieces.chunks(AT_ONCE) {
            let read = some.iter().map(|piece| self.piece(stem, piece));
            all.extend(try_join_all(read).await?.into_iter().flatten());
        }
        Ok(all)
    }

    /// Reads adjacent leaves.
    async fn piece(
        &self,
        stem: &Stem,
        piece: &[(u64, u64, Pointer)],
    ) -> Result<Vec<(u64, Bytes)>, FsError> {
        let room = Buffer::unfilled(piece.len() * UNIT);
        let read = self.path.device().read(piece[0].0, room).await;
        let bytes = read.map_err(|_| FsError::Io)?.freeze();
        let units = (0..bytes.len()).step_by(UNIT).map(|from| bytes.slice(from..from + UNIT));
        let mut leaves = Vec::new();
        for (&(_, leaf, pointer), mut bytes) in piece.iter().zip(units) {
            if sum(&bytes) != pointer.sum.get() {
                let mended = self.mend(pointer, 1).await;
                bytes = mended.ok_or(FsError::Corrupt)?.freeze();
            }
            self.check(stem, (0, leaf), &bytes, pointer)?;
            leaves.push((leaf, bytes));
        }
        Ok(leaves)
    }
}
