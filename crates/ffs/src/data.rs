//! File data: reading it, keeping UNSTABLE writes as pages, and landing pages on the disk.
//!
//! Landing is the only way in which data reaches a file. It takes the fragments that are missing,
//! writes the payload, and only when the device has it all is the Update staged that points at
//! it; the policy flushes before any pointer goes out. An overwrite goes to where the old data is,
//! in parallel with nothing: its Update follows it.
//!
//! Invariants (all under the file's lock):
//! 1. The size on disk covers only data that has landed, or holes.
//! 2. Whenever a file grows, the rest of its old last block is written anew: what lay on the disk
//!    behind the old end never shows.
//! 3. A page goes when its data has landed, or when its data was lost; then the verifier changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::Io;
use bytes::Bytes;
use futures::future::join_all;
use vfs::{FsError, Sequence, Stability};

use crate::alloc::Near;
use crate::engine::Ffs;
use crate::inode::{Node, Volatile};
use crate::layout::DIRECT_POINTERS;
use crate::map::{block_count, depth, run_length};
use crate::pages::Page;
use crate::update::{Budget, Intent, Update};

/// Pages that land with one Update, so that Updates stay bounded.
const PAGES_PER_UPDATE: usize = 128;

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
        let reads = pieces.into_iter().map(|piece| self.fetch(piece));
        let data = join_all(reads).await.into_iter().collect::<Result<Vec<_>, _>>()?;
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
        let dinode = node.dinode();
        let address = self.map().find(&dinode, None, lbn).await?;
        // Behind the size on disk nothing has landed, whatever stands there.
        let landed = dinode.size.get().saturating_sub(lbn * self.geometry().block_size) as usize;
        let there = if address == 0 { start } else { landed.clamp(start, start + length) };
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

    async fn fetch(&self, piece: Piece) -> Result<Bytes, FsError> {
        match piece {
            Piece::Memory(data) => Ok(data),
            Piece::Zeros(length) => Ok(zeros(length)),
            Piece::Disk { start, length } => {
                let unit = self.geometry().fragment_size;
                let skip = (start % unit) as usize;
                let size = (skip + length).next_multiple_of(unit as usize);
                let buffer = self.home.read(start / unit, size).await?;
                Ok(buffer.freeze().slice(skip..skip + length))
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
        let landed = node.dinode().size.get().saturating_sub(start);
        let count = landed.min(self.geometry().block_size);
        if count == 0 || self.map().find(&node.dinode(), None, lbn).await? == 0 {
            return Ok(Bytes::new());
        }
        let (data, _) = self.read_data(node, start, count).await?;
        Ok(gather(&data, 0, data.iter().map(Bytes::len).sum()))
    }

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

    fn drop_page(&self, node: &Node, lbn: u64) {
        if let Some(page) = node.pages.borrow_mut().remove(lbn) {
            self.dirty_bytes.set(self.dirty_bytes.get() - page.data.len() as u64);
            self.allocator.unreserve_blocks(page.reserved);
        }
    }

    /// Lands the dirty pages of blocks `first` up to `end`. Under the exclusive lock.
    ///
    /// # Errors
    /// [`FsError::Io`] when data was lost: those pages are gone, and the verifier is another.
    pub(crate) async fn land_range(
        &self,
        node: &Rc<Node>,
        first: u64,
        end: u64,
    ) -> Result<(), FsError> {
        loop {
            let blocks = node.pages.borrow().blocks(first, end, PAGES_PER_UPDATE);
            let Some(&last) = blocks.last() else { break };
            let volatile = node.volatile.get().expect("dirty pages have their size and time");
            let size = ((last + 1) * self.geometry().block_size)
                .min(volatile.size)
                .max(node.dinode().size.get());
            let set = blocks
                .iter()
                .filter_map(|&lbn| Some((lbn, node.pages.borrow().get(lbn)?.data.clone())))
                .collect();
            let landed = self.land(node, set, size, Budget::Reserved, |_| ()).await;
            blocks.iter().for_each(|&lbn| self.drop_page(node, lbn));
            self.settle_volatile(node);
            if let Err(error) = landed {
                self.rotate_verifier();
                return Err(error);
            }
        }
        Ok(())
    }

    /// A file has ended: its UNSTABLE data ends with it.
    pub(crate) fn discard_pages(&self, node: &Node) {
        let blocks = node.pages.borrow().blocks(0, u64::MAX, usize::MAX);
        blocks.into_iter().for_each(|lbn| self.drop_page(node, lbn));
        self.settle_volatile(node);
    }

    fn settle_volatile(&self, node: &Node) {
        if node.pages.borrow().is_empty() {
            node.volatile.set(None);
            self.dirty_nodes.borrow_mut().remove(&node.ino);
        }
    }

    /// Writes whole blocks of data, makes the file point at them and be `size` bytes long, all in
    /// one Update. Never shortens a file.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`]; then nothing changed but,
    /// perhaps, the bytes of blocks that were overwritten.
    pub(crate) async fn land(
        &self,
        node: &Rc<Node>,
        mut set: BTreeMap<u64, Bytes>,
        size: u64,
        budget: Budget,
        also: impl FnOnce(&mut crate::layout::Dinode),
    ) -> Result<Sequence, FsError> {
        let mut update = Update::new(budget);
        let old = node.dinode();
        let old_size = old.size.get();
        if size > old_size {
            self.add_tail(node, &mut set, old_size, size).await?;
        }
        let mut payload = Payload::default();
        for (&lbn, data) in &set {
            let address = self.place(&mut update, node, lbn, old_size, size).await?;
            let length = run_length(self.geometry(), size, lbn) * self.geometry().fragment_size;
            payload.add(self.geometry().fragment_size, address, data, length as usize);
        }
        if !set.is_empty() {
            for result in join_all(payload.write(self)).await {
                result.map_err(|_| FsError::Io)?;
            }
            update.push_payload();
        }
        let moved = {
            let new = update.dinode(node);
            let indirect = update.items.iter().any(|item| item.intent == Intent::PointerSet);
            size != old_size || indirect || new.sectors != old.sectors || new.direct != old.direct
        };
        update.touch_inode(node, |dinode| {
            dinode.size.set(size);
            also(dinode);
        });
        if moved {
            update.change_inode(node, Intent::SizeSet, |_| ());
        }
        Ok(self.commit(update))
    }

    /// A file that grows writes its old last block anew if that has to become longer, or ends
    /// within a fragment (invariant 2).
    async fn add_tail(
        &self,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Bytes>,
        old_size: u64,
        size: u64,
    ) -> Result<(), FsError> {
        let geometry = self.geometry();
        let Some(tail) = block_count(geometry, old_size).checked_sub(1) else { return Ok(()) };
        let grows = run_length(geometry, size, tail) > run_length(geometry, old_size, tail);
        let ragged = !old_size.is_multiple_of(geometry.fragment_size);
        let hole = self.map().find(&node.dinode(), None, tail).await? == 0;
        if !hole && (grows || ragged) && !set.contains_key(&tail) {
            // An unlanded page of the tail would do as well, but would land before its time.
            let start = tail * geometry.block_size;
            let (data, _) = self.read_landed(node, start, old_size - start).await?;
            set.insert(tail, data);
        }
        Ok(())
    }

    /// What has landed of a block, past any page of it.
    async fn read_landed(
        &self,
        node: &Rc<Node>,
        start: u64,
        count: u64,
    ) -> Result<(Bytes, u64), FsError> {
        let lbn = start / self.geometry().block_size;
        let address = self.map().find(&node.dinode(), None, lbn).await?;
        let size = (count as usize).next_multiple_of(self.geometry().fragment_size as usize);
        let data = self.home.read(address, size).await?.freeze();
        Ok((data.slice(..count as usize), address))
    }

    /// Where block `lbn` goes when the file grows from `old_size` to `size`: where it is, longer in
    /// place, or somewhere new.
    async fn place(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        lbn: u64,
        old_size: u64,
        size: u64,
    ) -> Result<u64, FsError> {
        let geometry = self.geometry();
        let map = self.map();
        let need = run_length(geometry, size, lbn);
        let here = map.find(&update.dinode(node), Some(update), lbn).await?;
        if here != 0 {
            let have = run_length(geometry, old_size, lbn);
            if lbn >= block_count(geometry, old_size) || have >= need {
                return Ok(here);
            }
            if self.allocator.extend(update, here, have, need).await? {
                let more = crate::map::sectors(geometry, need - have);
                update.touch_inode(node, |dinode| dinode.sectors.set(dinode.sectors.get() + more));
                return Ok(here);
            }
            let new = map.take(update, node, Near::Fragment(here), need).await?;
            map.set(update, node, lbn, new).await?;
            map.give_back(update, node, here, have).await?;
            return Ok(new);
        }
        let near = self.near(update, node, lbn).await?;
        let new = map.take(update, node, near, need).await?;
        map.set(update, node, lbn, new).await?;
        Ok(new)
    }

    /// Behind the block before, unless the file has had its share of the group.
    pub(crate) async fn near(
        &self,
        update: &Update,
        node: &Rc<Node>,
        lbn: u64,
    ) -> Result<Near, FsError> {
        let geometry = self.geometry();
        let home = Near::Group(geometry.group_of_inode(node.ino));
        if lbn == 0 {
            return Ok(home);
        }
        let before = self.map().find(&update.dinode(node), Some(update), lbn - 1).await?;
        if lbn.is_multiple_of(geometry.max_blocks_per_group) {
            let last =
                if before == 0 { geometry.inode_position(node.ino).fragment } else { before };
            return Ok(Near::Group(self.allocator.roomy_group(last)));
        }
        let behind = before + geometry.fragments_per_block;
        Ok(if before == 0 { home } else { Near::Fragment(behind) })
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

/// Writes of data, joined where they meet on the disk.
#[derive(Default)]
struct Payload {
    /// Address, pieces, and the fragment behind the last.
    runs: Vec<(u64, Vec<Bytes>, u64)>,
}

impl Payload {
    fn add(&mut self, fragment_size: u64, address: u64, data: &Bytes, length: usize) {
        let mut pieces = vec![data.slice(..data.len().min(length))];
        if data.len() < length {
            pieces.push(zeros(length - data.len()));
        }
        let end = address + length as u64 / fragment_size;
        match self.runs.last_mut() {
            Some((_, before, behind)) if *behind == address => {
                before.append(&mut pieces);
                *behind = end;
            }
            _ => self.runs.push((address, pieces, end)),
        }
    }

    fn write(self, engine: &Ffs) -> Vec<Io<()>> {
        let write = |(address, pieces, _)| engine.home.write(address, pieces);
        self.runs.into_iter().map(write).collect()
    }
}

/// A stretch of several pieces: by reference if it lies in one, else copied together.
fn gather(data: &[Bytes], start: usize, length: usize) -> Bytes {
    let pieces = slices(data, start, length);
    match <[Bytes; 1]>::try_from(pieces) {
        Ok([piece]) => piece,
        Err(pieces) => {
            let mut buffer = block::Buffer::zeroed(length);
            let mut at = 0;
            for piece in pieces {
                buffer[at..at + piece.len()].copy_from_slice(&piece);
                at += piece.len();
            }
            buffer.freeze()
        }
    }
}

/// The parts of several pieces that make up a stretch of them.
fn slices(data: &[Bytes], start: usize, length: usize) -> Vec<Bytes> {
    let mut skip = start;
    let mut left = length;
    let mut parts = Vec::new();
    for piece in data {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let take = (piece.len() - skip).min(left);
        if take > 0 {
            parts.push(piece.slice(skip..skip + take));
        }
        left -= take;
        skip = 0;
    }
    parts
}

/// Zero bytes, shared.
pub(crate) fn zeros(length: usize) -> Bytes {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    if length <= ZEROS.len() {
        Bytes::from_static(&ZEROS[..length])
    } else {
        block::Buffer::zeroed(length).freeze()
    }
}
