//! Writing: pieces of a call go to the disk at once, or become pages; by reference where a piece
//! covers the bytes to be written.
//!
//! The memory of a page is counted, and no page pins the memory of others: the payload of a call
//! comes in pieces that have memory of their own, and a page copies its part of a piece that is
//! much larger than a page. Where the engine takes parts, all pages of such a piece share its
//! memory; when one of them goes and another stays, the one that stays gets a copy.

use std::collections::BTreeMap;
use std::ops::Range;

use block::{gather, slices};
use bytes::Bytes;
use namespace::{AttributeChange, Witness};
use vfs::{FsError, Stability, Timestamp};

use crate::engine::{Engine, File, Space};
use crate::files::Files;
use crate::pages::{Content, Page, Place};
use crate::planted::{Bug, is_planted};
use crate::vnode::{Vnode, Volatile};

/// Blocks of one Update that were never pages: a WRITE of 1 MiB that begins within a block of 4 KiB
/// has this many. A longer one takes several Updates, so that these stay bounded.
const BLOCKS_PER_UPDATE: u64 = 257;

impl<E: Engine> Files<E> {
    /// Takes the pieces of `data` into pages if UNSTABLE will do and there is room for the most
    /// that pages may need; else writes them now, with the attributes that `also` changes. Under
    /// the exclusive lock. Returns how durable the data is. `witness` sees each step; only a write
    /// longer than one Update has several.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; [`FsError::Io`] when the data was lost.
    pub(crate) async fn write_data(
        &self,
        node: &File<E>,
        (offset, data): (u64, &[Bytes]),
        (stability, space): (Stability, Space),
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Stability, FsError> {
        let stretch = Stretch::new(self.block_size(), offset, data);
        let lazy = is_planted(Bug::LazyDataSync) && stability == Stability::DataSync;
        if stability == Stability::Unstable || lazy {
            match self.make_pages(node, &stretch, space).await {
                Err(FsError::NoSpace) => {} // a write to the disk takes no more than it needs
                pages => {
                    self.put_pages(node, pages?, stretch.end, witness);
                    let bounded = self.bound_memory(node).await;
                    if bounded.is_err() {
                        witness.after(node.depends()); // its pages may be gone again
                    }
                    return bounded.map(|()| stability);
                }
            }
        }
        // Its pages are newer than the data on the disk.
        self.write_back(node, stretch.blocks.start, stretch.blocks.end).await?;
        node.promise_written_back(); // some of it may be in the same blocks
        loop {
            match self.write_now(node, &stretch, space, also, witness).await {
                // The pages have reserved more than they need.
                Err(FsError::NoSpace) if !node.pages.borrow().is_empty() => {
                    self.write_back(node, 0, u64::MAX).await?;
                }
                written => return written.map(|()| Stability::FileSync),
            }
        }
    }

    /// Takes the pieces of `data` into pages, if there is memory for them, and room for the most
    /// that they may need; returns whether there was. Under the lock, borrowed.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`], of reading old data; then nothing changed.
    pub(crate) async fn keep_data(
        &self,
        node: &File<E>,
        offset: u64,
        data: &[Bytes],
        space: Space,
        witness: &mut dyn Witness,
    ) -> Result<bool, FsError> {
        if self.is_memory_short() {
            return Ok(false);
        }
        let stretch = Stretch::new(self.block_size(), offset, data);
        match self.make_pages(node, &stretch, space).await {
            Err(FsError::NoSpace) => return Ok(false),
            pages => self.put_pages(node, pages?, stretch.end, witness),
        }
        self.begin_write_behind(node);
        Ok(true)
    }

    /// Inserts the pages of a write that ends at `end`. Nothing was awaited since their blocks were
    /// reserved.
    fn put_pages(
        &self,
        node: &File<E>,
        pages: Vec<(u64, Page)>,
        end: u64,
        witness: &mut dyn Witness,
    ) {
        witness.before();
        for (lbn, page) in pages {
            self.put_page(node, lbn, page);
        }
        let size = node.size().max(end);
        let (mtime, ctime) = self.times_of_write(node);
        node.set_volatile(Some(Volatile { size, mtime, ctime }));
        self.note_dirty(node);
        witness.after(node.depends()); // a reply about data that may be lost is not remembered
    }

    /// Makes the pages of a write. Reserving their blocks is the last step.
    async fn make_pages(
        &self,
        node: &File<E>,
        stretch: &Stretch<'_>,
        space: Space,
    ) -> Result<Vec<(u64, Page)>, FsError> {
        let mut pages = Vec::new();
        let stored = node.stored_size();
        // The first write behind the end also reserves for an old last block that has to grow, with
        // its last page: when that is written back, the block has grown.
        let tail = u64::from(stretch.end > stored && node.size() <= stored);
        for lbn in stretch.blocks.clone() {
            let Content { data, changed, is_part, .. } = self.merge(node, lbn, stretch).await?;
            let follows = lbn > stretch.blocks.start;
            let reserved = self.page_reservation(node, lbn, follows).await?;
            pages.push((lbn, Page { data, changed, is_part, reserved }));
        }
        let early = is_planted(Bug::EarlyTails);
        let payer = if early { pages.first_mut() } else { pages.last_mut() };
        if let Some((_, payer)) = payer {
            payer.reserved += tail;
        }
        let all = pages.iter().map(|(_, page)| page.reserved).sum();
        self.engine.claim(all, space)?;
        Ok(pages)
    }

    /// Writes data that was never a page: to the fragment that the data takes, whatever is there
    /// before it. Blocks with pages come later.
    async fn write_now(
        &self,
        node: &File<E>,
        stretch: &Stretch<'_>,
        space: Space,
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<(), FsError> {
        let block_size = self.block_size();
        let (mtime, ctime) = self.times_of_write(node);
        let also = AttributeChange {
            mtime: also.mtime.or(Some(mtime)),
            ctime: also.ctime.or(Some(ctime)),
            ..*also
        };
        let visible = node.size().max(stretch.end);
        let mut blocks = stretch.blocks.clone();
        while !blocks.is_empty() {
            let end = blocks.end.min(blocks.start + BLOCKS_PER_UPDATE);
            let old_size = node.stored_size();
            let size = (end * block_size).min(visible).max(old_size);
            let mut set = BTreeMap::new();
            for lbn in blocks.start..end {
                set.insert(lbn, self.written(node, lbn, stretch, (old_size, size)).await?);
            }
            let refusals = self.refusals();
            let written =
                self.write_blocks(self.plan(space), node, &mut set, size, &also, witness).await;
            if written.is_err() && (written == Err(FsError::Io) || self.refusals() > refusals) {
                self.rotate_verifier(); // UNSTABLE data may have been there
            }
            written?;
            blocks.start = end;
        }
        Ok(())
    }

    /// The new content of a block without a page after a write into it, with which the file grows
    /// from the first of these sizes to the second: only the part that the engine needs. Data that
    /// one piece covers is taken by reference, and old data is read only if it is needed.
    async fn written(
        &self,
        node: &File<E>,
        lbn: u64,
        stretch: &Stretch<'_>,
        (old_size, size): (u64, u64),
    ) -> Result<Content, FsError> {
        let (start, new) = stretch.part(lbn);
        let end = start + new.len();
        let place = self.engine.place(node, lbn).await?;
        let in_file = old_size.saturating_sub(lbn * self.block_size()).min(self.block_size());
        let stored = if matches!(place, Place::Hole) { 0 } else { in_file as usize };
        let changed = start.min(stored)..end;
        let part = self.engine.needed(lbn, &place, start..end, (old_size, size));
        let (from, to) = (part.start, part.end);
        if part == (start..end) {
            let (data, is_part) = self.taken(stretch, new);
            return Ok(Content { from, data, changed, is_part, place: Some(place) });
        }
        let needed = from..if to > end { to } else { changed.start };
        let old = self.read_place(&place, needed).await?;
        let data = stretch.over(&old, start - from, new, to - from);
        Ok(Content { from, data, changed, is_part: false, place: Some(place) })
    }

    /// The part of a call's data that goes to a block: shared with its piece where the engine takes
    /// parts and it can be, else a copy.
    fn taken(&self, stretch: &Stretch<'_>, new: Range<usize>) -> (Bytes, bool) {
        let part = if self.engine.takes_parts() { stretch.part_of_piece(&new) } else { None };
        match part {
            Some(data) => (data, true),
            None => (gather(stretch.data, new.start, new.len()), false),
        }
    }

    /// The content of a block after a write into it. A block that is covered by one piece is taken
    /// by reference.
    async fn merge(
        &self,
        node: &File<E>,
        lbn: u64,
        stretch: &Stretch<'_>,
    ) -> Result<Content, FsError> {
        let (start, new) = stretch.part(lbn);
        let end = start + new.len();
        let visible = node.size().saturating_sub(lbn * self.block_size());
        if start == 0 && end as u64 >= visible.min(self.block_size()) {
            let (data, is_part) = self.taken(stretch, new);
            return Ok(Content { is_part, ..Content::whole(data) });
        }
        let old = self.block_data(node, lbn).await?;
        let (changed, length) = (start.min(old.len())..end, end.max(old.len()));
        let data = stretch.over(&[old], start, new, length);
        Ok(Content { from: 0, data, changed, is_part: false, place: None })
    }

    /// The modification and change times of a file that is written now.
    fn times_of_write(&self, node: &Vnode<E::Inode>) -> (Timestamp, Timestamp) {
        let now = self.now();
        let stale = is_planted(Bug::StaleChangeTimes);
        (now, if stale { node.attributes().ctime } else { now })
    }

    /// Whole blocks to reserve so that writing this page back cannot meet a full disk: its own and
    /// the pointer blocks that lead to it, unless the page before it, which it `follows`, pays for
    /// these.
    async fn page_reservation(
        &self,
        node: &File<E>,
        lbn: u64,
        follows: bool,
    ) -> Result<u64, FsError> {
        if node.pages.borrow().get(lbn).is_some() {
            return Ok(0);
        }
        let has_neighbour = follows || lbn > 0 && node.pages.borrow().get(lbn - 1).is_some();
        self.engine.page_cost(node, lbn, has_neighbour).await
    }

    fn put_page(&self, node: &Vnode<E::Inode>, lbn: u64, mut page: Page) {
        let mut pages = node.pages.borrow_mut();
        let old = pages.remove(lbn);
        if let Some(old) = &old {
            page.reserved += old.reserved;
            page.changed.start = page.changed.start.min(old.changed.start);
            page.changed.end = page.changed.end.max(old.changed.end);
        }
        self.count_dirty(page.memory(), old.as_ref().map_or(0, Page::memory));
        old.iter().for_each(|old| pages.own_beside(lbn, old));
        pages.insert(lbn, page);
    }

    /// Dirty data counts with the metadata: it has first claim on the memory of a volume.
    fn count_dirty(&self, more: usize, less: usize) {
        self.dirty_bytes.set(self.dirty_bytes.get() + more as u64 - less as u64);
        let budget = self.engine.budget();
        budget.beside().add(more);
        budget.beside().subtract(less);
        if more > less {
            budget.bound_data();
        }
    }

    /// The block of a page is allocated, and needs no reserved space.
    pub(super) fn release_page(&self, node: &Vnode<E::Inode>, lbn: u64) {
        if let Some(page) = node.pages.borrow_mut().get_mut(lbn) {
            self.engine.release(std::mem::take(&mut page.reserved));
        }
    }

    pub(super) fn drop_pages(&self, node: &Vnode<E::Inode>, blocks: impl IntoIterator<Item = u64>) {
        let mut pages = node.pages.borrow_mut();
        let gone = blocks.into_iter().filter_map(|lbn| Some((lbn, pages.remove(lbn)?)));
        let gone: Vec<(u64, Page)> = gone.collect();
        for (lbn, page) in gone {
            self.count_dirty(0, page.memory());
            self.engine.release(page.reserved);
            pages.own_beside(lbn, &page);
        }
    }
}

/// Copies a range of several pieces to `target`.
fn put(target: &mut [u8], data: &[Bytes], start: usize) {
    let mut at = 0;
    for piece in slices(data, start, target.len()) {
        target[at..at + piece.len()].copy_from_slice(&piece);
        at += piece.len();
    }
}

/// The range of a file that the data of one call is written to.
struct Stretch<'a> {
    block_size: u64,
    offset: u64,
    end: u64,
    blocks: Range<u64>,
    data: &'a [Bytes],
}

impl<'a> Stretch<'a> {
    fn new(block_size: u64, offset: u64, data: &'a [Bytes]) -> Self {
        let length: usize = data.iter().map(Bytes::len).sum();
        let end = offset + length as u64;
        let blocks = offset / block_size..end.div_ceil(block_size);
        Self { block_size, offset, end, blocks, data }
    }

    /// The offset in a block at which the data begins, and the part of the data that goes there.
    fn part(&self, lbn: u64) -> (usize, Range<usize>) {
        let start = (lbn * self.block_size).max(self.offset);
        let stop = ((lbn + 1) * self.block_size).min(self.end);
        let part = (start - self.offset) as usize..(stop - self.offset) as usize;
        ((start % self.block_size) as usize, part)
    }

    /// A part of the data that lies within one piece, if all of the piece becomes whole blocks and
    /// has no more memory than one shared buffer.
    fn part_of_piece(&self, part: &Range<usize>) -> Option<Bytes> {
        let mut start = 0;
        let piece = self.data.iter().find(|piece| {
            start += piece.len();
            part.start < start
        })?;
        start -= piece.len();
        let block = self.block_size as usize;
        let begins_one = (self.offset + start as u64).is_multiple_of(self.block_size);
        let is_cut = begins_one && piece.len().is_multiple_of(block) && piece.len() > block;
        let is_within = part.len() == block && part.end <= start + piece.len();
        // Memory of buffers begins at a multiple of its size, which shows which pages share it.
        // Other memory is not shared: pages copy it.
        let is_buffer = block::memory_of(piece.len()) == block::PART
            && piece.as_ptr().addr().is_multiple_of(block::PART);
        let is_it = is_cut && is_within && is_buffer;
        is_it.then(|| piece.slice(part.start - start..part.end - start))
    }

    /// `length` bytes: the old ones, with a part of the data written over them from byte `start`
    /// on. The gap between their end and the data is zero.
    fn over(&self, old: &[Bytes], start: usize, part: Range<usize>, length: usize) -> Bytes {
        let there = block::length_of(old) as usize;
        let mut merged = block::Buffer::unfilled(length);
        put(&mut merged[..there], old, 0);
        merged[there.min(start)..start].fill(0);
        put(&mut merged[start..start + part.len()], self.data, part.start);
        merged.freeze()
    }
}
