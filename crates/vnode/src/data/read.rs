//! Reading: from dirty pages, from the device, or zeros.

use std::io::ErrorKind;
use std::ops::Range;

use block::{gather, zeros};
use bytes::Bytes;
use futures::future::try_join_all;
use vfs::FsError;

use crate::engine::{Engine, File, of_memory};
use crate::files::Files;
use crate::pages::Place;

/// An extent of a file to be returned to a reader.
enum Piece {
    Memory(Bytes),
    Zeros(usize),
    /// Bytes of the device.
    Disk {
        start: u64,
        length: usize,
        /// Checksums of its units, if they are known.
        sums: Vec<u64>,
    },
}

impl<E: Engine> Files<E> {
    /// Reads at most `count` bytes, and whether they end at the end of the file. Under the shared
    /// lock.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn read_data(
        &self,
        node: &File<E>,
        offset: u64,
        count: u64,
    ) -> Result<(Vec<Bytes>, bool), FsError> {
        let size = node.size();
        let end = size.min(offset.saturating_add(count));
        let mut pieces = Vec::new();
        let mut at = offset;
        while at < end {
            let block_size = self.block_size();
            let start = at % block_size;
            let length = (block_size - start).min(end - at) as usize;
            self.piece(node, at / block_size, start as usize, length, &mut pieces).await?;
            at += length as u64;
        }
        let mut data = try_join_all(pieces.into_iter().map(|piece| self.fetch(piece))).await?;
        let data = match &mut data[..] {
            [only] => std::mem::take(only),
            _ => data.into_iter().flatten().collect(),
        };
        Ok((data, end == size || offset >= size))
    }

    /// Adds a part of one block to the pieces to read, and merges extents that are adjacent on the
    /// disk.
    async fn piece(
        &self,
        node: &File<E>,
        lbn: u64,
        start: usize,
        length: usize,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), FsError> {
        let page = node.pages.borrow().get(lbn).map(|page| page.data.clone());
        if let Some(data) = page {
            let there = data.len().clamp(start, start + length);
            if there > start {
                pieces.push(Piece::Memory(data.slice(start..there)));
            }
            if there < start + length {
                pieces.push(Piece::Zeros(start + length - there));
            }
            return Ok(());
        }
        // Behind the size on disk nothing is stored, whatever bytes are there.
        let stored = node.stored_size().saturating_sub(lbn * self.block_size()) as usize;
        let mut there = stored.clamp(start, start + length);
        match self.engine.place(node, lbn).await? {
            _ if there == start => {}
            Place::Hole => there = start,
            Place::Memory(data) => {
                let data = of_memory(&data, start..there);
                there = start + data.len();
                pieces.push(Piece::Memory(data));
            }
            Place::Disk(block) => join(pieces, block + start as u64, there - start, None),
            Place::Summed(block, sum) => {
                join(pieces, block + start as u64, there - start, Some(sum));
            }
        }
        if there < start + length {
            pieces.push(Piece::Zeros(start + length - there));
        }
        Ok(())
    }

    async fn fetch(&self, piece: Piece) -> Result<Vec<Bytes>, FsError> {
        match piece {
            Piece::Memory(data) => Ok(vec![data]),
            Piece::Zeros(length) => Ok(vec![zeros(length)]),
            Piece::Disk { start, length, sums } => {
                self.read_disk(start..start + length as u64, &sums).await
            }
        }
    }

    /// The bytes of one block as readers see them now, without trailing zeros that were never
    /// written.
    pub(crate) async fn block_data(&self, node: &File<E>, lbn: u64) -> Result<Bytes, FsError> {
        if let Some(page) = node.pages.borrow().get(lbn) {
            return Ok(page.data.clone());
        }
        let start = lbn * self.block_size();
        let stored = node.stored_size().saturating_sub(start);
        let count = stored.min(self.block_size());
        if count == 0 || matches!(self.engine.place(node, lbn).await?, Place::Hole) {
            return Ok(Bytes::new());
        }
        let (data, _) = self.read_data(node, start, count).await?;
        Ok(gather(&data, 0, data.iter().map(Bytes::len).sum()))
    }

    /// Reads bytes of the device that are data of a file.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] when they do not fit their checksums; else [`FsError::Io`].
    async fn read_disk(&self, range: Range<u64>, sums: &[u64]) -> Result<Vec<Bytes>, FsError> {
        let path = self.engine.data().expect("a place on the disk comes with a way to it");
        path.read(range, sums).await.map_err(|error| match error.kind {
            ErrorKind::InvalidData => FsError::Corrupt,
            _ => FsError::Io,
        })
    }

    /// Reads the stored bytes of a block at `place`.
    pub(super) async fn read_place(
        &self,
        place: &Place,
        range: Range<usize>,
    ) -> Result<Vec<Bytes>, FsError> {
        match place {
            _ if range.is_empty() => Ok(Vec::new()),
            Place::Hole => Ok(vec![zeros(range.len())]),
            Place::Memory(data) => {
                let data = of_memory(data, range.clone());
                let missing = range.len() - data.len();
                Ok(vec![data, zeros(missing)])
            }
            Place::Disk(byte) => {
                self.read_disk(byte + range.start as u64..byte + range.end as u64, &[]).await
            }
            Place::Summed(byte, sum) => {
                let bytes = byte + range.start as u64..byte + range.end as u64;
                self.read_disk(bytes, std::slice::from_ref(sum)).await
            }
        }
    }
}

/// Adds bytes of the device to the pieces to read; adjacent extents are read together.
fn join(pieces: &mut Vec<Piece>, byte: u64, more: usize, sum: Option<u64>) {
    match pieces.last_mut() {
        Some(Piece::Disk { start, length, sums }) if *start + *length as u64 == byte => {
            *length += more;
            sums.extend(sum);
        }
        _ => pieces.push(Piece::Disk { start: byte, length: more, sums: Vec::from_iter(sum) }),
    }
}
