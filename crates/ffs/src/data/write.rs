//! Writing: pieces of a call go to the disk at once, or become pages; by reference where a piece
//! covers what is to be written.
//!
//! What a page keeps is counted, and no page keeps the memory of its neighbours: the payload of a
//! call comes in pieces that have memory of their own, and of a piece that is much larger than a
//! page the page has a copy.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::{gather, slices};
use bytes::Bytes;
use namespace::Witness;
use ufs2::layout::{DIRECT_POINTERS, Dinode};
use ufs2::map::depth;
use vfs::{FsError, Stability, Timestamp};

use super::write_back::grows;
use crate::engine::Ffs;
use crate::inode::{Node, Volatile};
use crate::item::Budget;
use crate::pages::{Content, Page};
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Blocks of one Update that were never pages: so many has a WRITE of 1 MiB that begins
/// within a block of 4 KiB. A longer one takes several Updates, so that these stay bounded.
const BLOCKS_PER_UPDATE: u64 = 257;

impl Ffs {
    /// Takes the pieces of `data` into pages if UNSTABLE will do and there is room for the most
    /// that pages may need; else writes them now, with the attributes that `also` changes. Under
    /// the exclusive lock. Returns how durable they are. `witness` sees each step; there are
    /// several only of a write that is longer than an Update may be.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; [`FsError::Io`] when the data was lost.
    pub(crate) async fn write_data(
        &self,
        node: &Rc<Node>,
        (offset, data): (u64, &[Bytes]),
        (stability, privileged): (Stability, bool),
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Stability, FsError> {
        let stretch = Stretch::new(self.geometry().block_size, offset, data);
        let lazy = is_planted(Bug::LazyDataSync) && stability == Stability::DataSync;
        if stability == Stability::Unstable || lazy {
            match self.make_pages(node, &stretch, privileged).await {
                Err(FsError::NoSpace) => {} // what is written now takes no more than it needs
                pages => {
                    self.put_pages(node, pages?, stretch.end, witness);
                    let bounded = self.bound_memory(node).await;
                    if bounded.is_err() {
                        witness.after(node.sequence()); // its pages may be gone again
                    }
                    return bounded.map(|()| stability);
                }
            }
        }
        let budget = if privileged { Budget::Superuser } else { Budget::User };
        // Its pages are newer than what is on the disk.
        self.write_back(node, stretch.blocks.start, stretch.blocks.end).await?;
        loop {
            match self.write_now(node, &stretch, budget, &also, witness).await {
                // More is set aside for the pages than they need.
                Err(FsError::NoSpace) if !node.pages.borrow().is_empty() => {
                    self.write_back(node, 0, u64::MAX).await?;
                }
                written => return written.map(|()| Stability::FileSync),
            }
        }
    }

    /// Takes the pieces of `data` into pages, if there is memory for them, and room for the most
    /// that they may need; says whether there was. Under the lock, borrowed.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`], of what has to be read; then nothing changed.
    pub(crate) async fn keep_data(
        &self,
        node: &Rc<Node>,
        offset: u64,
        data: &[Bytes],
        privileged: bool,
        witness: &mut dyn Witness,
    ) -> Result<bool, FsError> {
        if self.is_memory_short() {
            return Ok(false);
        }
        let stretch = Stretch::new(self.geometry().block_size, offset, data);
        match self.make_pages(node, &stretch, privileged).await {
            Err(FsError::NoSpace) => return Ok(false),
            pages => self.put_pages(node, pages?, stretch.end, witness),
        }
        self.begin_write_behind(node);
        Ok(true)
    }

    /// Puts the pages of a write that ends at `end`. Nothing was awaited since blocks were set
    /// aside for them.
    fn put_pages(
        &self,
        node: &Rc<Node>,
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
        node.volatile.set(Some(Volatile { size, mtime, ctime }));
        self.note_dirty(node);
        witness.after(node.sequence()); // what may be lost is not remembered
    }

    /// The pages of a write, with blocks set aside for them, which is done last.
    async fn make_pages(
        &self,
        node: &Rc<Node>,
        stretch: &Stretch<'_>,
        privileged: bool,
    ) -> Result<Vec<(u64, Page)>, FsError> {
        let mut pages = Vec::new();
        let stored = node.dinode().size.get();
        // The first write behind the end also pays for an old last block that has to grow.
        let mut tail = u64::from(stretch.end > stored && node.size() <= stored);
        for lbn in stretch.blocks.clone() {
            let Content { data, changed, .. } = self.merge(node, lbn, stretch).await?;
            let follows = lbn > stretch.blocks.start;
            let need = self.page_reservation(node, lbn, follows).await? + std::mem::take(&mut tail);
            pages.push((lbn, Page { data, changed, reserved: need }));
        }
        let all = pages.iter().map(|(_, page)| page.reserved).sum();
        self.allocator.reserve_blocks(all, privileged)?;
        Ok(pages)
    }

    /// Writes what was never a page: to the fragment what the data takes, whatever is there before
    /// it. Blocks of which there are pages come later.
    async fn write_now(
        &self,
        node: &Rc<Node>,
        stretch: &Stretch<'_>,
        budget: Budget,
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<(), FsError> {
        let block_size = self.geometry().block_size;
        let (mtime, ctime) = self.times_of_write(node);
        let stamp = |dinode: &mut Dinode| {
            dinode.set_modify_time(mtime);
            dinode.set_change_time(ctime);
            also(dinode);
        };
        let visible = node.size().max(stretch.end);
        let mut blocks = stretch.blocks.clone();
        while !blocks.is_empty() {
            let end = blocks.end.min(blocks.start + BLOCKS_PER_UPDATE);
            let old_size = node.look(|dinode| dinode.size.get());
            let size = (end * block_size).min(visible).max(old_size);
            let mut set = BTreeMap::new();
            for lbn in blocks.start..end {
                set.insert(lbn, self.written(node, lbn, stretch, (old_size, size)).await?);
            }
            let refusals = self.home.data().refusals().count();
            let written =
                self.write_blocks(Update::new(budget), node, &mut set, size, &stamp, witness).await;
            if written.is_err()
                && (written == Err(FsError::Io) || self.home.data().refusals().count() > refusals)
            {
                self.rotate_verifier(); // UNSTABLE data may have stood there
            }
            written?;
            blocks.start = end;
        }
        Ok(())
    }

    /// The content of a block that has no page after a write into it, with which the file grows
    /// from `old_size` to `size`. Of a block that stays where it is, and as long as it is, only the
    /// fragments count in which something changes, and, where the file grows behind its old end,
    /// those up to that; of a hole only the new data. What one piece covers is taken by reference,
    /// and nothing is read that is not needed.
    async fn written(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        stretch: &Stretch<'_>,
        (old_size, size): (u64, u64),
    ) -> Result<Content, FsError> {
        let geometry = self.geometry();
        let fragment = geometry.fragment_size as usize;
        let (start, new) = stretch.part(lbn);
        let end = start + new.len();
        let place = self.map().find(node, None, lbn).await?;
        let in_file = old_size.saturating_sub(lbn * geometry.block_size).min(geometry.block_size);
        let stored = if place == 0 { 0 } else { in_file as usize };
        let changed = start.min(stored)..end;
        let stays = stored > 0 && !grows(geometry, lbn, old_size, size);
        // Of the old last block what comes to be in the file behind its old end is written anew.
        let grows_behind = size > old_size && (stored as u64) < geometry.block_size;
        let (from, to) = match stays {
            true => {
                let whole = grows_behind && !is_planted(Bug::TornTails);
                let fragments = if whole { stored } else { end.next_multiple_of(fragment) };
                (changed.start - changed.start % fragment, fragments.min(stored).max(end))
            }
            false if place == 0 => (start, end),
            false => (0, end.max(stored)),
        };
        if (from, to) == (start, end) {
            let data = gather(stretch.data, new.start, new.len());
            return Ok(Content { from, data, changed, place: Some(place) });
        }
        let needed = from..if to > end { to } else { changed.start };
        let old = match needed.is_empty() {
            true => Vec::new(),
            false => {
                let byte = geometry.byte_address(place);
                let needed = byte + needed.start as u64..byte + needed.end as u64;
                self.home.read_data(needed).await?
            }
        };
        let data = stretch.over(&old, start - from, new, to - from);
        Ok(Content { from, data, changed, place: Some(place) })
    }

    /// The content of a block after a write into it. A block that is covered by one piece is taken
    /// by reference.
    async fn merge(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        stretch: &Stretch<'_>,
    ) -> Result<Content, FsError> {
        let (start, new) = stretch.part(lbn);
        let end = start + new.len();
        let visible = node.size().saturating_sub(lbn * self.geometry().block_size);
        if start == 0 && end as u64 >= visible.min(self.geometry().block_size) {
            return Ok(Content::whole(gather(stretch.data, new.start, new.len())));
        }
        let old = self.block_data(node, lbn).await?;
        let (changed, length) = (start.min(old.len())..end, end.max(old.len()));
        let data = stretch.over(&[old], start, new, length);
        Ok(Content { from: 0, data, changed, place: None })
    }

    /// The times of a file that is written now.
    fn times_of_write(&self, node: &Node) -> (Timestamp, Timestamp) {
        let now = self.now();
        let stale = is_planted(Bug::StaleChangeTimes);
        (now, if stale { node.attributes().ctime } else { now })
    }

    /// Whole blocks to set aside so that writing this page back cannot meet a full disk: its own
    /// and those that lead to it, unless the page before it, which it `follows`, pays for these. A
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
        if self.map().find(node, None, lbn).await? != 0 {
            return Ok(0);
        }
        let geometry = self.geometry();
        let levels = depth(geometry, lbn)?;
        let has_neighbour = follows || lbn > 0 && node.pages.borrow().get(lbn - 1).is_some();
        let begins = lbn >= DIRECT_POINTERS as u64
            && (lbn - DIRECT_POINTERS as u64).is_multiple_of(geometry.pointers_per_indirect);
        let is_paid = has_neighbour && !begins || is_planted(Bug::UnpaidWays);
        let leading = if is_paid { 0 } else { levels };
        Ok(1 + leading)
    }

    fn put_page(&self, node: &Node, lbn: u64, mut page: Page) {
        let mut pages = node.pages.borrow_mut();
        let old = pages.remove(lbn);
        if let Some(old) = &old {
            page.reserved += old.reserved;
            page.changed.start = page.changed.start.min(old.changed.start);
            page.changed.end = page.changed.end.max(old.changed.end);
        }
        self.count_dirty(page.memory(), old.map_or(0, |old| old.memory()));
        pages.insert(lbn, page);
    }

    /// Dirty data counts with the metadata: it has first claim on the memory of a volume.
    fn count_dirty(&self, more: usize, less: usize) {
        self.dirty_bytes.set(self.dirty_bytes.get() + more as u64 - less as u64);
        self.home.budget().beside().add(more);
        self.home.budget().beside().subtract(less);
        if more > less {
            self.home.budget().bound_data();
        }
    }

    /// The block of a page is there, and needs no space that was set aside.
    pub(super) fn release_page(&self, node: &Node, lbn: u64) {
        if let Some(page) = node.pages.borrow_mut().get_mut(lbn) {
            self.allocator.unreserve_blocks(std::mem::take(&mut page.reserved));
        }
    }

    pub(super) fn drop_page(&self, node: &Node, lbn: u64) {
        if let Some(page) = node.pages.borrow_mut().remove(lbn) {
            self.count_dirty(0, page.memory());
            self.allocator.unreserve_blocks(page.reserved);
        }
    }
}

/// Copies a stretch of several pieces to where it is to be.
fn put(target: &mut [u8], data: &[Bytes], start: usize) {
    let mut at = 0;
    for piece in slices(data, start, target.len()) {
        target[at..at + piece.len()].copy_from_slice(&piece);
        at += piece.len();
    }
}

/// Where the data of one call goes.
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

    /// Where the data begins in a block, and which part of the data that is.
    fn part(&self, lbn: u64) -> (usize, Range<usize>) {
        let start = (lbn * self.block_size).max(self.offset);
        let stop = ((lbn + 1) * self.block_size).min(self.end);
        let part = (start - self.offset) as usize..(stop - self.offset) as usize;
        ((start % self.block_size) as usize, part)
    }

    /// `length` bytes: these old ones, and over them from byte `start` on a part of the data. What
    /// lies between their end and that is zero.
    fn over(&self, old: &[Bytes], start: usize, part: Range<usize>, length: usize) -> Bytes {
        let there = block::length_of(old) as usize;
        let mut merged = block::Buffer::unfilled(length);
        put(&mut merged[..there], old, 0);
        merged[there.min(start)..start].fill(0);
        put(&mut merged[start..start + part.len()], self.data, part.start);
        merged.freeze()
    }
}
