//! Writing: pieces of a call become pages, by reference where a piece covers a block.
//!
//! What a page keeps is counted, and no page keeps the memory of its neighbours: the payload of a
//! call comes in pieces that have memory of their own, and of a piece that is much larger than a
//! page the page has a copy.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use ufs2::layout::{DIRECT_POINTERS, Dinode};
use ufs2::map::depth;
use vfs::{FsError, Stability, Timestamp};

use super::{gather, slices};
use crate::engine::Ffs;
use crate::inode::{Node, Volatile};
use crate::pages::{Content, Page};
use crate::planted::{Bug, is_planted};
use crate::update::{Budget, Update};

/// Blocks that one Update lands that were never pages: so many has a WRITE of 1 MiB that begins
/// within a block of 4 KiB. A longer one takes several Updates, so that these stay bounded.
const BLOCKS_PER_UPDATE: usize = 257;

impl Ffs {
    /// Takes the pieces of `data` into pages and, unless UNSTABLE will do, lands them. Where there
    /// is no room for the most that pages may need, writes through. Under the exclusive lock.
    /// Returns how durable they are.
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
        let stretch = Stretch::new(self.geometry().block_size, offset, data);
        let lazy = is_planted(Bug::LazyDataSync) && stability == Stability::DataSync;
        let may_wait = stability == Stability::Unstable || lazy;
        if !may_wait && self.replaces(node, &stretch).await? {
            return self.replace(node, &stretch, privileged).await;
        }
        let pages = match self.make_pages(node, &stretch, privileged).await {
            Err(FsError::NoSpace) => return self.write_through(node, &stretch, privileged).await,
            pages => pages?,
        };
        let _veil = (!may_wait).then(|| node.veil());
        self.put_pages(node, pages, stretch.end);
        if may_wait {
            self.bound_memory(node).await?;
            return Ok(stability);
        }
        self.land_range(node, stretch.blocks.start, stretch.blocks.end).await?;
        Ok(stability.max(Stability::FileSync))
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
    ) -> Result<bool, FsError> {
        if self.is_memory_short() {
            return Ok(false);
        }
        let stretch = Stretch::new(self.geometry().block_size, offset, data);
        match self.make_pages(node, &stretch, privileged).await {
            Err(FsError::NoSpace) => return Ok(false),
            pages => self.put_pages(node, pages?, stretch.end),
        }
        self.begin_write_behind(node);
        Ok(true)
    }

    /// Puts the pages of a write that ends at `end`. Nothing was awaited since blocks were set
    /// aside for them.
    fn put_pages(&self, node: &Rc<Node>, pages: Vec<(u64, Page)>, end: u64) {
        for (lbn, page) in pages {
            self.put_page(node, lbn, page);
        }
        let size = node.size().max(end);
        let (mtime, ctime) = self.times_of_write(node);
        node.volatile.set(Some(Volatile { size, mtime, ctime }));
        self.note_dirty(node);
    }

    /// The pages of a write, with blocks set aside for them, which is done last.
    async fn make_pages(
        &self,
        node: &Rc<Node>,
        stretch: &Stretch<'_>,
        privileged: bool,
    ) -> Result<Vec<(u64, Page)>, FsError> {
        let mut pages = Vec::new();
        let landed = node.dinode().size.get();
        // The first write behind the end also pays for an old last block that has to grow.
        let mut tail = u64::from(stretch.end > landed && node.size() <= landed);
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

    /// Writes without pages, on a volume that is nearly full: takes what the data needs, to the
    /// fragment, where pages would have to set whole blocks aside for the worst case.
    async fn write_through(
        &self,
        node: &Rc<Node>,
        stretch: &Stretch<'_>,
        privileged: bool,
    ) -> Result<Stability, FsError> {
        self.land_range(node, 0, u64::MAX).await?;
        let mut set = BTreeMap::new();
        for lbn in stretch.blocks.clone() {
            set.insert(lbn, self.merge(node, lbn, stretch).await?);
        }
        self.land_now(node, set, stretch.end, privileged).await
    }

    /// Lands blocks that were never pages, with a write that ends at `end`.
    async fn land_now(
        &self,
        node: &Rc<Node>,
        mut set: BTreeMap<u64, Content>,
        end: u64,
        privileged: bool,
    ) -> Result<Stability, FsError> {
        let budget = if privileged { Budget::Superuser } else { Budget::User };
        let (mtime, ctime) = self.times_of_write(node);
        let stamp = |dinode: &mut Dinode| {
            dinode.set_modify_time(mtime);
            dinode.set_change_time(ctime);
        };
        while !set.is_empty() {
            let next = set.keys().nth(BLOCKS_PER_UPDATE).copied();
            let rest = next.map_or_else(BTreeMap::new, |lbn| set.split_off(&lbn));
            let end = next.map_or(end, |lbn| lbn * self.geometry().block_size);
            let size = node.size().max(end);
            let refusals = self.home.refusals();
            let landed = self.land(Update::new(budget), node, &mut set, size, stamp, &mut ()).await;
            if landed.is_err() && (landed == Err(FsError::Io) || self.home.refusals() > refusals) {
                self.rotate_verifier(); // UNSTABLE data may have stood there
            }
            landed?;
            set = rest;
        }
        Ok(Stability::FileSync)
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
        let (end, data) = (start + new.len(), stretch.data);
        let visible = node.size().saturating_sub(lbn * self.geometry().block_size);
        if start == 0 && end as u64 >= visible.min(self.geometry().block_size) {
            return Ok(Content::whole(gather(data, new.start, new.len())));
        }
        let old = self.block_data(node, lbn).await?;
        let mut merged = block::Buffer::unfilled(end.max(old.len()));
        merged[..old.len()].copy_from_slice(&old);
        // What lies between the old end and the new data becomes zero.
        merged[old.len().min(start)..start].fill(0);
        put(&mut merged[start..end], data, new.start);
        Ok(Content { from: 0, data: merged.freeze(), changed: start.min(old.len())..end })
    }

    /// Whether a write takes the place of bytes that have landed, and of nothing else.
    async fn replaces(&self, node: &Rc<Node>, stretch: &Stretch<'_>) -> Result<bool, FsError> {
        if stretch.end > node.dinode().size.get() || !node.pages.borrow().is_empty() {
            return Ok(false);
        }
        for lbn in stretch.blocks.clone() {
            if self.map().find(node, None, lbn).await? == 0 {
                return Ok(false); // a hole
            }
        }
        Ok(true)
    }

    /// Writes where [`Ffs::replaces`] holds. Every block stays where it is and as long as it is, so
    /// that only the fragments count that are written, and only those are read that are not
    /// covered.
    async fn replace(
        &self,
        node: &Rc<Node>,
        stretch: &Stretch<'_>,
        privileged: bool,
    ) -> Result<Stability, FsError> {
        let mut set = BTreeMap::new();
        for lbn in stretch.blocks.clone() {
            set.insert(lbn, self.replaced(node, lbn, stretch).await?);
        }
        self.land_now(node, set, stretch.end, privileged).await
    }

    /// The fragments of a block in which a write changes something, as they are then.
    async fn replaced(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        stretch: &Stretch<'_>,
    ) -> Result<Content, FsError> {
        let geometry = self.geometry();
        let fragment = geometry.fragment_size as usize;
        let (start, new) = stretch.part(lbn);
        let changed = start..start + new.len();
        let at = lbn * geometry.block_size;
        let visible = (node.size() - at).min(geometry.block_size) as usize;
        let from = start - start % fragment;
        let end = changed.end.next_multiple_of(fragment).min(visible);
        let data = if changed == (from..end) {
            gather(stretch.data, new.start, new.len())
        } else {
            let (old, _) = self.read_data(node, at + from as u64, (end - from) as u64).await?;
            let mut merged = block::Buffer::unfilled(end - from);
            put(&mut merged, &old, 0);
            put(&mut merged[start - from..changed.end - from], stretch.data, new.start);
            merged.freeze()
        };
        Ok(Content { from, data, changed })
    }

    /// The times of a file that is written now.
    fn times_of_write(&self, node: &Node) -> (Timestamp, Timestamp) {
        let now = self.now();
        let stale = is_planted(Bug::StaleChangeTimes);
        (now, if stale { node.attributes().ctime } else { now })
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
        self.home.beside().add(more);
        self.home.beside().subtract(less);
        if more > less {
            self.home.bound_data();
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
}
