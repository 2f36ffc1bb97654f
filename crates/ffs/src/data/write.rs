//! Writing: pieces of a call become pages, by reference where a piece covers a block.

use std::rc::Rc;

use bytes::Bytes;
use vfs::{FsError, Stability};

use super::{gather, slices};
use crate::engine::Ffs;
use crate::inode::{Node, Volatile};
use crate::layout::DIRECT_POINTERS;
use crate::map::{block_count, depth};
use crate::pages::Page;

impl Ffs {
    /// Takes the pieces of `data` into pages and, unless UNSTABLE will do, lands them. Under the
    /// exclusive lock. Returns how durable they are.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] before anything changed; [`FsError::Io`] when the data was lost.
    pub(crate) async fn write_data(
        &self,
        node: &Rc<Node>,
        offset: u64,
        data: &[Bytes],
        stability: Stability,
        privileged: bool,
    ) -> Result<Stability, FsError> {
        let length: usize = data.iter().map(Bytes::len).sum();
        let end = offset + length as u64;
        let block_size = self.geometry().block_size;
        let blocks = offset / block_size..block_count(self.geometry(), end);
        let mut pages = Vec::new();
        let mut reserved = Reservation { engine: self, blocks: 0 };
        let landed = node.dinode().size.get();
        // The first write behind the end also pays for an old last block that has to grow.
        let mut tail = u64::from(end > landed && node.size() <= landed);
        for lbn in blocks.clone() {
            let start = (lbn * block_size).max(offset);
            let stop = ((lbn + 1) * block_size).min(end);
            let new = (start - offset) as usize..(stop - offset) as usize;
            let bytes = self.merge(node, lbn, start % block_size, data, new).await?;
            let follows = lbn > blocks.start;
            let need = self.page_reservation(node, lbn, follows).await? + std::mem::take(&mut tail);
            reserved.add(need, privileged)?;
            pages.push((lbn, Page { data: bytes, reserved: need }));
        }
        reserved.blocks = 0; // the pages own it now
        for (lbn, page) in pages {
            self.put_page(node, lbn, page);
        }
        let size = node.size().max(end);
        let now = self.now();
        node.volatile.set(Some(Volatile { size, mtime: now, ctime: now }));
        self.dirty_nodes.borrow_mut().insert(node.ino, node.clone());
        if stability == Stability::Unstable && self.dirty_bytes.get() <= self.dirty_limit {
            return Ok(Stability::Unstable);
        }
        self.land_range(node, blocks.start, blocks.end).await?;
        Ok(stability.max(Stability::FileSync))
    }

    /// The content of a block after a write into it. A block that is covered by one piece is taken
    /// by reference.
    async fn merge(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        start: u64,
        data: &[Bytes],
        new: std::ops::Range<usize>,
    ) -> Result<Bytes, FsError> {
        let start = start as usize;
        let end = start + new.len();
        let visible = node.size().saturating_sub(lbn * self.geometry().block_size);
        if start == 0 && end as u64 >= visible.min(self.geometry().block_size) {
            return Ok(gather(data, new.start, new.len()));
        }
        let old = self.block_data(node, lbn).await?;
        let mut merged = block::Buffer::zeroed(end.max(old.len()));
        merged[..old.len()].copy_from_slice(&old);
        let mut at = start;
        for piece in slices(data, new.start, new.len()) {
            merged[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        Ok(merged.freeze())
    }

    /// Whole blocks to set aside so that landing this page cannot meet a full disk: its own and
    /// those that lead to it, unless the page before it, which it `follows`, pays for these. A
    /// block that is there is overwritten where it is, and needs none.
    async fn page_reservation(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        follows: bool,
    ) -> Result<u64, FsError> {
        if node.pages.borrow().get(lbn).is_some() {
            return Ok(0);
        }
        if self.map().find(&node.dinode(), None, lbn).await? != 0 {
            return Ok(0);
        }
        let geometry = self.geometry();
        let levels = depth(geometry, lbn)?;
        let has_neighbour = follows || lbn > 0 && node.pages.borrow().get(lbn - 1).is_some();
        let begins = lbn >= DIRECT_POINTERS as u64
            && (lbn - DIRECT_POINTERS as u64).is_multiple_of(geometry.pointers_per_indirect);
        let leading = if has_neighbour && !begins { 0 } else { levels };
        Ok(1 + leading)
    }

    fn put_page(&self, node: &Node, lbn: u64, mut page: Page) {
        let mut pages = node.pages.borrow_mut();
        let old = pages.remove(lbn);
        page.reserved += old.as_ref().map_or(0, |old| old.reserved);
        let bytes = self.dirty_bytes.get() + page.data.len() as u64;
        self.dirty_bytes.set(bytes - old.map_or(0, |old| old.data.len() as u64));
        pages.insert(lbn, page);
    }

    pub(super) fn drop_page(&self, node: &Node, lbn: u64) {
        if let Some(page) = node.pages.borrow_mut().remove(lbn) {
            self.dirty_bytes.set(self.dirty_bytes.get() - page.data.len() as u64);
            self.allocator.unreserve_blocks(page.reserved);
        }
    }
}

/// Blocks that were set aside and are given back unless somebody takes them over.
struct Reservation<'a> {
    engine: &'a Ffs,
    blocks: u64,
}

impl Reservation<'_> {
    fn add(&mut self, blocks: u64, privileged: bool) -> Result<(), FsError> {
        self.engine.allocator.reserve_blocks(blocks, privileged)?;
        self.blocks += blocks;
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.engine.allocator.unreserve_blocks(self.blocks);
    }
}
