//! Data of a file that was written UNSTABLE and has no place on the disk yet.
//!
//! A page is one block of a file. It holds the block's bytes from its start; bytes that are missing
//! up to the end of the file are zero. A page is always dirty: when its data is written back it
//! goes, and reads go to the device again.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// One block of data.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The bytes from the block's start on; at most a block.
    pub(crate) data: Bytes,
    /// The range of them that may differ from the disk.
    pub(crate) changed: Range<usize>,
    /// Whether it shares its memory with other pages.
    pub(crate) is_part: bool,
    /// Whole blocks of disk reserved for it.
    pub(crate) reserved: u64,
}

/// Distance in pages within which all pages lie that share memory with one.
const NEIGHBOURS: u64 = block::PART as u64 / block::ALIGNMENT as u64;

/// The dirty pages of a file by block number.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Page>,
}

impl Page {
    /// Bytes of memory that the page takes.
    pub(crate) fn memory(&self) -> usize {
        block::memory_of(self.data.len()) + size_of::<Self>()
    }

    /// The content to write back.
    pub(crate) fn content(&self) -> Content {
        let (data, changed, is_part) = (self.data.clone(), self.changed.clone(), self.is_part);
        Content { from: 0, data, changed, is_part, place: None }
    }

    /// Whether it shares its memory with the page whose data was at `start`.
    fn is_beside(&self, start: *const u8) -> bool {
        self.is_part && self.data.as_ptr().addr() / block::PART == start.addr() / block::PART
    }
}

/// The content of a block that is to be written.
#[derive(Clone, Debug)]
pub struct Content {
    /// Offset in the block at which `data` begins: 0, unless the block is certain to stay in place,
    /// or is a hole, which is zero before.
    pub from: usize,
    /// Its bytes from there on; missing bytes are zero.
    pub data: Bytes,
    /// The bytes that may differ from the disk, if the block stays in place.
    pub changed: Range<usize>,
    /// Whether its memory is a part of a piece of [`block::PART`] bytes that others share: only
    /// where the engine takes such parts.
    pub is_part: bool,
    /// The location of the block, if it is known already.
    pub place: Option<Place>,
}

/// The location of a block of a file.
#[derive(Clone, Debug)]
pub enum Place {
    /// A hole: the block is zero.
    Hole,
    /// At this byte of the device.
    Disk(u64),
    /// The same, as one unit with this checksum: what does not fit it is not the block.
    Summed(u64, u64),
    /// In memory, as these bytes; missing bytes are zero.
    Memory(Bytes),
}

impl Content {
    /// The content of a block that is written as a whole.
    pub fn whole(data: Bytes) -> Self {
        Self { from: 0, data, changed: 0..usize::MAX, is_part: false, place: None }
    }
}

impl Pages {
    /// The page of a block.
    pub(crate) fn get(&self, lbn: u64) -> Option<&Page> {
        self.pages.get(&lbn)
    }

    /// The page of a block, for changes.
    pub(crate) fn get_mut(&mut self, lbn: u64) -> Option<&mut Page> {
        self.pages.get_mut(&lbn)
    }

    /// Puts a page in place of the old one; the old one is given back.
    pub(crate) fn insert(&mut self, lbn: u64, page: Page) -> Option<Page> {
        self.pages.insert(lbn, page)
    }

    /// Takes a page out.
    pub(crate) fn remove(&mut self, lbn: u64) -> Option<Page> {
        self.pages.remove(&lbn)
    }

    /// The page of a block, `gone`, is removed: pages that shared its memory get memory of their
    /// own.
    pub(crate) fn own_beside(&mut self, lbn: u64, gone: &Page) {
        if !gone.is_part {
            return;
        }
        let around = lbn.saturating_sub(NEIGHBOURS)..lbn.saturating_add(NEIGHBOURS);
        let start = gone.data.as_ptr();
        for (_, page) in self.pages.range_mut(around).filter(|(_, page)| page.is_beside(start)) {
            page.data = block::Buffer::copied(&page.data).freeze();
            page.is_part = false;
        }
    }

    /// Number of pages.
    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }

    /// Whether nothing is dirty.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Whether the page of a block still has this content.
    pub(crate) fn is_still(&self, lbn: u64, content: &Content) -> bool {
        // While the old bytes are held, no others can be at their address.
        let is_same = |data: &Bytes| (data.as_ptr(), data.len());
        self.get(lbn).is_some_and(|page| is_same(&page.data) == is_same(&content.data))
    }

    /// The contents of the first `limit` pages among these blocks.
    pub(crate) fn contents(&self, blocks: Range<u64>, limit: usize) -> BTreeMap<u64, Content> {
        let first = self.pages.range(blocks).take(limit);
        first.map(|(&lbn, page)| (lbn, page.content())).collect()
    }

    /// The end of the last page, in bytes of the file; 0 without any.
    pub(crate) fn end(&self, block_size: u64) -> u64 {
        let last = self.pages.last_key_value();
        last.map_or(0, |(&lbn, page)| lbn * block_size + page.data.len() as u64)
    }

    /// Block numbers of the pages.
    pub(crate) fn blocks(&self) -> Vec<u64> {
        self.pages.keys().copied().collect()
    }
}
