//! Contents of files: planning places for blocks, and the removal of blocks.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::rc::Rc;

use block::{Buffer, IoError, zeros};
use bytes::Bytes;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use vfs::{FileKind, FsError};
use vnode::{Content, Space as Kind, Vnode};

use crate::floor::{BLOCKS_PER_UPDATE, File, Floor};
use crate::format::pointer::{HIGHEST, Pointer, capacity, reach};
use crate::format::run::Run;
use crate::format::{CHUNKS, FAN, sum};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::live::Waits;
use crate::node::{Node, Parent, Stem};
use crate::planted::{Bug, is_planted};
use crate::update::{Cut, Placed, Update};
use crate::waiting::Sort;

/// New contents of blocks of a file.
pub type Contents = BTreeMap<u64, Content>;

/// Bytes of one operation that go with its update, at most; or one block.
const RIDES: usize = 16 << 10;

/// Blocks of pointers that are read ahead: they cover somewhat more data than is read ahead.
const LOADED_AHEAD: u64 = 8;

/// New contents of a block, and their checksum.
pub struct Block {
    /// The contents.
    pub data: Bytes,
    /// The checksum.
    pub sum: u64,
    /// Whether its memory is a part of a larger buffer that is shared.
    pub is_part: bool,
}

/// Data with its places.
#[derive(Default)]
pub struct Payload {
    /// Adjacent blocks, by their first units.
    runs: Vec<(u64, Vec<Block>)>,
    /// The data is moved, not requested by a client, so it is not cached.
    pub is_moved: bool,
}

impl Payload {
    /// Adds a block of this many units at a place.
    pub fn add(&mut self, address: u64, block: Block, units: u64) {
        match self.runs.last_mut() {
            Some((start, blocks)) if *start + blocks.len() as u64 * units == address => {
                blocks.push(block);
            }
            _ => self.runs.push((address, vec![block])),
        }
    }
}

/// A walk through a tree from its end, for a truncation.
struct Behind {
    cut: Cut,
    /// The first leaf to be removed.
    from: u64,
    /// The last leaf that was found: all leaves behind it were.
    last: u64,
    is_full: bool,
}

impl Behind {
    /// Handles a wrong block, whose children are unknown. It is removed if all of them are behind
    /// the end; otherwise the file cannot be truncated further than the walk has got.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the walk has found nothing to remove.
    fn lose(&mut self, lost: (&Parent, u64, Pointer), level: u8) -> Result<(), FsError> {
        let (parent, index, pointer) = lost;
        let first = index * reach(level);
        let cut = &mut self.cut;
        let late = u64::from(is_planted(Bug::LateLosses));
        if first >= self.from + late && cut.lost.len() < BLOCKS_PER_UPDATE {
            self.last = first;
            cut.lost.push((parent.clone(), index, pointer));
            return Ok(());
        }
        self.is_full = true;
        let is_empty = cut.leaves.is_empty() && cut.nodes.is_empty() && cut.lost.is_empty();
        if is_empty { Err(FsError::Corrupt) } else { Ok(()) }
    }
}

impl<L: Layout> Floor<L> {
    /// Takes places for blocks of a file.
    pub async fn plan_data(
        &self,
        update: &mut Update<L>,
        file: &File,
        set: &BTreeMap<u64, Content>,
    ) -> Result<Payload, FsError> {
        let stem = file.look(|inode| inode.stem(file.ino));
        let count = set.len() as u64;
        let last = set.last_key_value().map_or(0, |(&last, _)| last);
        let height = self.height_with(&stem, last).ok_or(FsError::FileTooLarge)?;
        // The blocks of pointers that lead to them, at most.
        let mut above: Vec<u64> = set.keys().map(|lbn| lbn / FAN).collect();
        above.dedup();
        let pointers = u64::from(height) * (above.len() as u64 + 1) + 1;
        let cost = 2 * self.cost_of_inode() + pointers;
        if !is_planted(Bug::BoundlessTrees) {
            self.wait_for_room(count, cost, update).await?;
            self.check_growth(&stem, last, update.kind)?;
        }
        let (mut added, mut beside, mut parents) = (0, 0, Vec::new());
        if count > 0 {
            // The tree gets its height before any parent is looked up.
            self.nodes.make_parent(&stem, 0, last, &mut update.taken.made).await?;
        }
        for &lbn in set.keys() {
            let parent = self.nodes.make_parent(&stem, 0, lbn, &mut update.taken.made).await?;
            let old = self.nodes.child_of(&parent, lbn);
            added += u64::from(old.is_null());
            beside += u64::from(!old.is_null() && self.pins.holds(old.birth.get()));
            parents.push(parent);
        }
        let grows = added + beside > 0 && !update.may_take_pool();
        if count > 0 && !self.may_take(count, cost, update, grows) {
            return Err(FsError::NoSpace);
        }
        let runs = self.layout.place(count).await.ok_or(FsError::NoSpace)?;
        update.taken.hold(&runs);
        update.inode(file).facts.units += added * self.per_block();
        update.fills_holes |= grows;
        update.cost += cost;
        let places =
            runs.iter().flat_map(|run| (run.start..run.end()).step_by(self.per_block() as usize));
        let mut payload = Payload::default();
        for (((&lbn, content), parent), address) in set.iter().zip(parents).zip(places) {
            let (data, is_part) = self.whole(content);
            let sum = sum(&data);
            payload.add(address, Block { data, sum, is_part }, self.per_block());
            update.blocks.push(Placed { parent, index: lbn, address, sum, was: None });
        }
        Ok(payload)
    }

    /// The height of a tree that has this leaf; none if no tree has it.
    fn height_with(&self, stem: &Stem, leaf: u64) -> Option<u8> {
        (self.nodes.height(stem)..=HIGHEST).find(|&height| leaf < capacity(height))
    }

    /// Waits until there is room for this many blocks, at least with the pool, as long as plans or
    /// updates under way may free some.
    async fn wait_for_room(
        &self,
        blocks: u64,
        cost: u64,
        update: &Update<L>,
    ) -> Result<(), FsError> {
        let mut waits = None;
        while blocks > 0 && !self.may_take(blocks, cost, update, false) {
            if self.live.horizon.has_stopped() {
                return Err(FsError::Io);
            }
            if self.is_refused() && !update.manner.goes_on {
                return Err(FsError::NoSpace);
            }
            let sort = update.sort();
            if !update.may_take_pool() || !self.more_comes(sort, waits.is_some()) {
                return Err(FsError::NoSpace);
            }
            waits.get_or_insert_with(|| Waits::begin(sort, &self.live));
            self.live.released.wait().await;
        }
        Ok(())
    }

    /// Whether there is room for this many blocks, and no other plan comes first.
    fn may_take(&self, blocks: u64, cost: u64, update: &Update<L>, grows: bool) -> bool {
        let comes_first = update.may_take_pool() || !self.live.promised.waiting.has_steps();
        comes_first && self.has_room(blocks, cost, update.kind, grows)
    }

    /// Whether plans or updates under way may free room for a plan of this sort. `waits` says
    /// whether it waits already. If there are none, the engine may begin an update for it.
    pub(crate) fn more_comes(&self, sort: Sort, waits: bool) -> bool {
        self.live.horizon.through().0 + 1 < self.next.get()
            || self.live.promised.waiting.holds_up(sort, waits)
            || self.layout.makes_room()
    }

    /// All bytes of a block, with zeros around the given ones; and whether they are a part of a
    /// larger buffer.
    fn whole(&self, content: &Content) -> (Bytes, bool) {
        let size = self.block_size() as usize;
        if content.from == 0 && content.data.len() == size {
            return (content.data.clone(), content.is_part);
        }
        let behind = size - content.from - content.data.len();
        let all = Buffer::joined(&[zeros(content.from), content.data.clone(), zeros(behind)]);
        (all.freeze(), false)
    }

    /// Starts to read the blocks of pointers that follow the block `last`: a file that is read from
    /// its beginning needs them soon. Errors are ignored, since they are not needed yet.
    pub(crate) fn load_ahead(&self, stem: Stem, last: u64) {
        let height = self.nodes.height(&stem);
        for index in last + 1..=last + LOADED_AHEAD {
            let is_there = (index * FAN) < capacity(height) && height > 0;
            if is_there && self.nodes.find(&stem, 1, index).is_none() {
                let (nodes, stem) = (self.nodes.clone(), stem.clone());
                let load = async move { _ = nodes.get(&stem, 1, index).await };
                self.runtime.tasks.spawn(load.boxed_local());
            }
        }
    }

    /// Writes data to its places, or lets it go with the update. Returns whether it was written.
    pub async fn write_data(
        &self,
        update: &mut Update<L>,
        payload: Payload,
    ) -> Result<bool, FsError> {
        let blocks: usize = payload.runs.iter().map(|(_, blocks)| blocks.len()).sum();
        if blocks <= (RIDES / self.block_size() as usize).max(1) {
            for (start, blocks) in payload.runs {
                let addresses = (start..).step_by(self.per_block() as usize);
                let own = |block: &Block| Buffer::copied(&block.data).freeze();
                update.riding.extend(addresses.zip(blocks.iter().map(own)));
            }
            return Ok(false);
        }
        let places = payload.runs.iter().map(|(start, blocks)| {
            let length = blocks.len() as u64 * self.per_block();
            Run { start: *start, length }
        });
        self.layout.prepare(places).await;
        let writes = payload.runs.iter().map(|(start, blocks)| {
            let pieces = blocks.iter().map(|block| block.data.clone()).collect();
            self.path.write(self.byte_of(*start), pieces)
        });
        // All writes have ended before any place has a new owner, even if some failed.
        let written = join_all(writes.collect::<Vec<_>>()).await;
        let written: Result<Vec<()>, IoError> = written.into_iter().collect();
        if !is_planted(Bug::UnheardFailures) {
            written
                .map_err(|error| if error.is_full() { FsError::NoSpace } else { FsError::Io })?;
        }
        for (start, blocks) in payload.runs {
            let addresses = (start..).step_by(self.per_block() as usize);
            update.written.extend(addresses.zip(&blocks).map(|(at, block)| (at, block.sum)));
            if !payload.is_moved {
                self.keep_written(start, &blocks);
            }
        }
        Ok(true)
    }

    /// Caches data that was written side by side. Blocks that make up most of a shared buffer are
    /// cached as it; others that are parts of one are copied, so that none keeps much more memory
    /// than its own.
    fn keep_written(&self, start: u64, blocks: &[Block]) {
        let mut at = self.byte_of(start);
        let piece = |block: &Block| block.data.as_ptr().addr() / block::PART;
        let are_one =
            |one: &Block, next: &Block| one.is_part && next.is_part && piece(one) == piece(next);
        for together in blocks.chunk_by(are_one) {
            let pieces: Vec<Bytes> = together.iter().map(|block| block.data.clone()).collect();
            let length = block::length_of(&pieces);
            if together[0].is_part && 2 * length > block::PART as u64 {
                self.path.keep_written_together(at, &pieces);
            } else {
                for (at, block) in (at..).step_by(self.block_size() as usize).zip(together) {
                    let own = || Buffer::copied(&block.data).freeze();
                    let data = if block.is_part { own() } else { block.data.clone() };
                    self.path.keep_written(at, &data);
                }
            }
            at += length;
        }
    }

    /// The blocks to remove if a file ends before the leaf `keep`: all, or as many as one Update
    /// takes; and the first leaf that goes with them.
    pub(crate) async fn cut_behind(
        &self,
        file: &Vnode<Inode>,
        keep: u64,
    ) -> Result<(Cut, u64), FsError> {
        let stem = file.look(|inode| inode.stem(file.ino));
        let cut = Cut::default();
        let mut behind = Behind { cut, from: keep, last: keep, is_full: false };
        if !file.look(|inode| inode.facts.is_inline()) {
            let is_names = file.kind == FileKind::Directory;
            self.look_behind(&stem, None, is_names, &mut behind).await?;
        }
        let left = if behind.is_full { behind.last } else { keep };
        Ok((behind.cut, left))
    }

    /// Walks through the blocks below a block, or the root, the last first.
    fn look_behind<'a>(
        &'a self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        is_names: bool,
        behind: &'a mut Behind,
    ) -> LocalBoxFuture<'a, Result<(), FsError>> {
        async move {
            let (parent, level, places) = self.nodes.below(stem, above.as_ref());
            for index in places.rev() {
                if (index + 1) * reach(level) <= behind.from {
                    break;
                }
                if level > 0 || is_names {
                    let node = match self.nodes.get(stem, level, index).await {
                        Err(FsError::Corrupt) if !is_planted(Bug::StuckChains) => {
                            let pointer = self.nodes.child_of(&parent, index);
                            behind.lose((&parent, index, pointer), level)?;
                            if behind.is_full {
                                return Ok(());
                            }
                            continue;
                        }
                        node => node?,
                    };
                    let Some(node) = node else { continue };
                    if level > 0 {
                        self.look_behind(stem, Some(node.clone()), is_names, behind).await?;
                    } else if behind.cut.nodes.len() >= BLOCKS_PER_UPDATE {
                        behind.is_full = true;
                    } else {
                        behind.last = index;
                    }
                    if behind.is_full {
                        return Ok(());
                    }
                    if index * reach(level) >= behind.from {
                        behind.cut.nodes.push(node);
                    }
                    continue;
                }
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() {
                    continue;
                }
                if behind.cut.leaves.len() == BLOCKS_PER_UPDATE {
                    behind.is_full = true;
                    return Ok(());
                }
                behind.last = index;
                behind.cut.leaves.push((parent.clone(), index, pointer));
            }
            Ok(())
        }
        .boxed_local()
    }

    /// Plans the removal of a file's blocks behind `size`, or of a part of them; returns the size
    /// that is left.
    pub(crate) async fn plan_cut(
        &self,
        update: &mut Update<L>,
        file: &File,
        size: u64,
    ) -> Result<u64, FsError> {
        let keep = size.div_ceil(self.leaf_bytes(file));
        let (cut, left) = self.cut_behind(file, keep).await?;
        let leaves = cut.leaves.len() as u64 * self.per_block();
        let names = cut.nodes.iter().filter(|node| node.place.level == 0).count() as u64;
        let stem = file.look(|inode| inode.stem(file.ino));
        update.cost += self.cost_of(&stem) + self.cost_of_inode();
        update.cut = cut;
        let left = if left > keep { left * self.leaf_bytes(file) } else { size };
        let facts = &mut update.inode(file).facts;
        facts.units = facts.units.saturating_sub(leaves + names);
        if left == 0 {
            facts.units = 0; // also if the blocks below a wrong one are unknown
        }
        facts.size = left.min(facts.size);
        Ok(left)
    }

    fn leaf_bytes(&self, file: &Vnode<Inode>) -> u64 {
        match file.kind {
            FileKind::Directory => CHUNKS * CHUNK_SIZE as u64,
            _ => self.block_size(),
        }
    }

    /// The same, including the last block. If that has rotted, so that its bytes behind the end
    /// cannot be zeroed, the file keeps all of it.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the file cannot become shorter than it is.
    pub async fn plan_shorter(
        &self,
        update: &mut Update<L>,
        file: &File,
        size: u64,
    ) -> Result<u64, FsError> {
        let left = self.plan_cut(update, file, size).await?;
        if left > size {
            return Ok(left);
        }
        match self.plan_tail(update, file, size).await {
            Err(FsError::Corrupt) => {}
            tail => return tail.map(|()| left),
        }
        let before = file.look(|inode| inode.facts.size);
        let whole = size.next_multiple_of(self.block_size()).min(before);
        if whole == before {
            return Err(FsError::Corrupt);
        }
        update.inode(file).facts.size = whole;
        Ok(whole)
    }

    /// Plans zeros behind the new end in the last block of a truncated file.
    pub(crate) async fn plan_tail(
        &self,
        update: &mut Update<L>,
        file: &File,
        size: u64,
    ) -> Result<(), FsError> {
        let (lbn, there) = (size / self.block_size(), (size % self.block_size()) as usize);
        let stem = file.look(|inode| inode.stem(file.ino));
        let is_whole = there == 0 || is_planted(Bug::RaggedTails);
        let pointer = if is_whole { Pointer::NULL } else { self.nodes.leaf(&stem, lbn).await? };
        if pointer.is_null() {
            return Ok(());
        }
        let at = self.nodes.byte_of(pointer);
        let data =
            self.path.read(at..at + there as u64, &[pointer.sum.get()]).await.map_err(|error| {
                match error.kind {
                    ErrorKind::InvalidData if !is_planted(Bug::StuckChains) => FsError::Corrupt,
                    _ => FsError::Io,
                }
            })?;
        let data = block::gather(&data, 0, there);
        let set = BTreeMap::from([(lbn, Content::whole(data))]);
        // The new place is needed in addition if a snapshot holds the old one: the pool is for
        // that.
        update.takes_pool = true;
        let payload = self.plan_data(update, file, &set).await?;
        self.write_data(update, payload).await.map(drop)
    }

    /// Refuses a leaf that needs a higher tree if there is no room for that: the tree grows before
    /// room is reserved, and then goes out with the next update.
    pub(crate) fn check_growth(&self, stem: &Stem, leaf: u64, kind: Kind) -> Result<(), FsError> {
        let height = self.height_with(stem, leaf).ok_or(FsError::FileTooLarge)?;
        let levels = u64::from(height - self.nodes.height(stem));
        let units = levels + self.cost_of(stem);
        let has_room = || self.has_room(0, units, kind, kind != Kind::Reserved);
        if levels == 0 || has_room() || is_planted(Bug::BoundlessTrees) {
            return Ok(());
        }
        Err(FsError::NoSpace)
    }

    /// Number of blocks to claim for one that is written UNSTABLE, including the metadata that
    /// leads to it.
    pub fn claim_for(&self, file: &Vnode<Inode>, lbn: u64, has_neighbour: bool) -> u64 {
        if has_neighbour && !lbn.is_multiple_of(FAN) || is_planted(Bug::HollowClaims) {
            return 1;
        }
        let stem = file.look(|inode| inode.stem(file.ino));
        let height = self.height_with(&stem, lbn).unwrap_or(HIGHEST);
        let units = u64::from(height) + 1 + self.cost_of_inode();
        1 + units.div_ceil(self.per_block())
    }
}
