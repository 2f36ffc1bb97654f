//! Reading: from pages that are not written back, from the device, or zeros.

use std::rc::Rc;

use block::{gather, zeros};
use bytes::Bytes;
use futures::future::try_join_all;
use vfs::FsError;

use crate::engine::Ffs;
use crate::inode::Node;

/// A stretch of a file on its way to a reader.
enum Piece {
    Memory(Bytes),
    Zeros(usize),
    /// Bytes of the device.
    Disk {
        start: u64,
        length: usize,
    },
}

impl Ffs {
    /// Reads at most `count` bytes; whether they end at the end of the file. Under the shared lock.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn read_data(
        &self,
        node: &Rc<Node>,
        offset: u64,
        count: u64,
    ) -> Result<(Vec<Bytes>, bool), FsError> {
        let size = node.size();
        let end = size.min(offset.saturating_add(count));
        let mut pieces = Vec::new();
        let mut at = offset;
        while at < end {
            let block_size = self.geometry().block_size;
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

    /// Adds a part of one block to what has to be read, joining what lies together on the disk.
    async fn piece(
        &self,
        node: &Rc<Node>,
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
        let size = node.dinode().size.get();
        let address = self.map().find(node, None, lbn).await?;
        // Behind the size on disk nothing is stored, whatever stands there.
        let stored = size.saturating_sub(lbn * self.geometry().block_size) as usize;
        let there = if address == 0 { start } else { stored.clamp(start, start + length) };
        if there > start {
            let byte = self.geometry().byte_address(address) + start as u64;
            match pieces.last_mut() {
                Some(Piece::Disk { start, length }) if *start + *length as u64 == byte => {
                    *length += there - (byte - self.geometry().byte_address(address)) as usize;
                }
                _ => pieces.push(Piece::Disk { start: byte, length: there - start }),
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
            Piece::Disk { start, length } => {
                self.home.read_data(start..start + length as u64).await
            }
        }
    }

    /// The bytes of one block as readers see them now, without trailing zeros that were never
    /// written.
    pub(crate) async fn block_data(&self, node: &Rc<Node>, lbn: u64) -> Result<Bytes, FsError> {
        if let Some(page) = node.pages.borrow().get(lbn) {
            return Ok(page.data.clone());
        }
        let start = lbn * self.geometry().block_size;
        let stored = node.dinode().size.get().saturating_sub(start);
        let count = stored.min(self.geometry().block_size);
        if count == 0 || self.map().find(node, None, lbn).await? == 0 {
            return Ok(Bytes::new());
        }
        let (data, _) = self.read_data(node, start, count).await?;
        Ok(gather(&data, 0, data.iter().map(Bytes::len).sum()))
    }
}
