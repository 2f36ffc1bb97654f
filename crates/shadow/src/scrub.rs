//! Scrubbing: every block that a superblock leads to is read, and compared with its checksum.
//!
//! Metadata is walked as readers see it, and the addresses and checksums of blocks are collected,
//! as many at a time as memory allows. They are sorted by address and read in that order, in large
//! pieces. A wrong block is mended if the disk has another version of it. If it is metadata of the
//! live tree, and in memory, it is written elsewhere with the next update. Else it is lost, and
//! reported with the name of its file.
//!
//! The live tree comes first, and then the blocks of each snapshot that neither the live tree nor a
//! snapshot before it has. Blocks of the live tree that were freed before they were read are read
//! with the snapshot. Snapshots that are made meanwhile come last: they may hold blocks that the
//! live tree has lost by then.
//!
//! Clients change the volume meanwhile. Blocks that were written since the scrub began are skipped,
//! and the pointer of a wrong block is looked up again: a block that was freed or replaced is no
//! loss, and nor is one of a deleted snapshot. A scrub gives way to foreground I/O
//! ([`crate::scrubbing`]).
//!
//! Invariants:
//! 1. Each collected block is on the disk: the update that wrote it was durable when the scrub
//!    began.
//! 2. A block is reported as lost only if a pointer leads to it that is the same as when it was
//!    read.
//! 3. No more than [`BATCH`] blocks are collected at once.
//! 4. A block is reported as mended only when that is durable.
//!
//! Not asserted: 1 and 2, which scrubs beside clients test; 4, which cuts after scrubs test.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, IoError};
use cache::{Budget, DataPath};
use cow::format::head::{index, is};
use cow::format::inode::{Facts, Record};
use cow::format::snapshot::{State, Told};
use cow::seen::Seen;
use cow::{
    CHUNKS, FAN, Head, INODES, Place, Pointer, Secret, Stem, UNIT, WIDTH, is_still, reach, sum,
};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use runtime::sync::yield_now;
use vfs::{FileKind, FsError, Sequence, SnapshotNumber};
use vnode::scrub::{Lost, ScrubError, Scrubbed, Watch};

use crate::anchors::find_anchor;
use crate::belief::{Chosen, believe, choose};
use crate::commit::Commits;
use crate::engine::Shadow;
use crate::error::OpenError;
use crate::format::kind;
use crate::format::record;
use crate::open::read_pins_left;
use crate::planted::{Bug, is_planted};
use crate::scrubbing::GiveWay;
use crate::twins;
use crate::units::{LOG, MAP, Nodes, Units, tree_of};
use directory::entry::CHUNK_SIZE;

/// Blocks whose addresses are collected before they are read.
pub(crate) const BATCH: usize = 1 << 18;
/// Bytes that are read at once,
const LARGE: u64 = 1 << 20;
/// and beside foreground I/O, which one long read delays less than many short ones,
const LARGE_BESIDE: u64 = 4 << 20;
/// and the largest gap between two blocks that are still read together.
const GAP: u64 = 128 << 10;
/// Blocks of metadata that are read ahead at once on the walk,
const AHEAD: u64 = 32;
/// and beside foreground I/O.
const AHEAD_BESIDE: u64 = 8;
/// Steps of the walk after which the scrub yields.
const STEPS: u64 = 256;
/// Losses that are reported one by one.
const TOLD: usize = 100_000;
/// Owner of records: no tree has this number.
pub(crate) const RECORDS: u64 = u64::MAX;

/// A block to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block {
    /// First byte and length of the block.
    pub(crate) at: u64,
    pub(crate) length: u64,
    /// Birth and checksum in its pointer.
    pub(crate) birth: u64,
    pub(crate) sum: u64,
    /// Its place: the owner of its tree, its level and its index.
    pub(crate) owner: u64,
    pub(crate) level: u8,
    pub(crate) index: u64,
}

/// Whether a block may have another copy.
fn stands_twice(block: &Block) -> bool {
    block.owner == 0 && block.index == 0
}

/// The lost part of a file, or of files: from this byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Damage {
    /// The files, by their numbers; none if the first is greater than the last.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Position in the file.
    pub(crate) offset: u64,
    /// Position on the volume.
    pub(crate) at: u64,
}

/// A scrub in progress.
pub(crate) struct Scrub<'a> {
    pub(crate) nodes: &'a Nodes,
    /// The inodes that it walks through: those of the live tree, or of a snapshot.
    pub(crate) inodes: Stem,
    pub(crate) held: Option<Told>,
    /// Blocks with this birth or an earlier one were read with another snapshot.
    since: u64,
    /// Blocks with this birth or an earlier one may be held by snapshots;
    until: u64,
    /// those of them that were read with the live tree.
    seen: Seen,
    /// None if the volume is not open.
    pub(crate) volume: Option<&'a Shadow>,
    /// Its throttle, if there may be foreground I/O.
    way: Option<GiveWay<'a>>,
    ends: &'a Cell<bool>,
    /// Units of a block of a file.
    block: u64,
    /// The last update that was durable at its beginning.
    begun: u64,
    /// All inodes from this number on are free.
    pub(crate) next_ino: u64,
    /// The oldest record at that time: it changes with a fold.
    oldest: Option<u64>,
    batch: Vec<Block>,
    steps: u64,
    /// Number of mended blocks when last counted.
    counted: u64,
    /// Changes that rewrite blocks that have rotted on the disk.
    again: Vec<Sequence>,
    /// Rotten blocks of the books that the next fold replaces, each with the change that goes with
    /// the fold.
    pub(crate) renewed: Vec<(Sequence, Block)>,
    /// Blocks that could not be read on the walk, by owner, level and index, and lost ones that
    /// lead to others.
    pub(crate) unwalked: BTreeSet<(u64, u8, u64)>,
    pub(crate) reported: BTreeSet<(u64, u8, u64)>,
    scrubbed: Scrubbed,
    pub(crate) damage: Vec<Damage>,
    watch: Watch<'a>,
}

/// Scrubs a volume that is not open. If it is at rest, wrong anchors and superblocks are mended as
/// well.
///
/// # Errors
/// [`OpenError`] if there is none.
pub async fn scrub(
    device: Rc<dyn BlockDevice>,
    watch: Watch<'_>,
) -> Result<Result<Scrubbed, ScrubError>, OpenError> {
    let anchor = find_anchor(&*device).await?;
    let Chosen { superblock, at, highest, mended } = choose(&*device, &anchor).await?;
    if !mended.is_empty() {
        believe(&*device, (&superblock, at), &mended, &anchor.secret)
            .await
            .map_err(OpenError::Io)?;
    }
    let shape = anchor.shape;
    let block_size = shape.block * UNIT as u64;
    let budget = Budget::new(64 << 20, block_size, false);
    let path = Rc::new(DataPath::new(device.clone(), budget.clone(), (block_size, block_size)));
    let trees = superblock.trees();
    let nodes = Nodes::new(Units::of(&path), path, budget, trees, anchor.secret);
    let used = shape.capacity().saturating_sub(anchor.free);
    let ends = Cell::new(false);
    let mut scrub = Scrub {
        begun: superblock.number,
        next_ino: superblock.next_ino,
        ..Scrub::of(&nodes, &ends, watch, (used, shape.block))
    };
    scrub.scrubbed.mended = mended.len() as u64;
    if highest == anchor.rest {
        let mended = twins::mend(&*device, &anchor, (&superblock, at)).await;
        scrub.scrubbed.mended += mended.map_err(OpenError::Io)?;
    }
    scrub.records(superblock.record, &anchor.secret).await;
    // A lost block of the lines of lists is reported like any other.
    let (pins, _) = read_pins_left(&nodes, &superblock, shape.units).await?;
    Ok(scrub.all(pins.holding()).await)
}

impl<'a> Scrub<'a> {
    /// A scrub that has not begun, of a volume that is not open. It has so many units in use, and
    /// so many in a block of a file.
    fn of(
        nodes: &'a Nodes,
        ends: &'a Cell<bool>,
        watch: Watch<'a>,
        (used, block): (u64, u64),
    ) -> Self {
        Self {
            nodes,
            inodes: Stem::Inodes,
            held: None,
            since: 0,
            until: 0,
            seen: Seen::default(),
            volume: None,
            way: None,
            ends,
            block,
            begun: 0,
            next_ino: 0,
            oldest: None,
            batch: Vec::new(),
            steps: 0,
            counted: nodes.mended(),
            again: Vec::new(),
            renewed: Vec::new(),
            unwalked: BTreeSet::new(),
            reported: BTreeSet::new(),
            scrubbed: Scrubbed { total_bytes: used * UNIT as u64, ..Scrubbed::default() },
            damage: Vec::new(),
            watch,
        }
    }
}

impl Shadow {
    /// Scrubs an open volume.
    ///
    /// # Errors
    /// [`ScrubError`].
    pub async fn scrub(&self, watch: Watch<'_>) -> Result<Scrubbed, ScrubError> {
        if self.scrubbing.is_under_way.replace(true) {
            return Err(ScrubError::Busy);
        }
        let scrubbed = self.scrub_all(watch).await;
        self.scrubbing.is_under_way.set(false);
        self.released().notify(); // a stop may wait for it
        scrubbed
    }

    async fn scrub_all(&self, watch: Watch<'_>) -> Result<Scrubbed, ScrubError> {
        let used = self.space.total() - self.space.free_units();
        let last = self.commits.superblock.borrow().clone();
        let mut scrub = Scrub {
            volume: Some(self),
            way: Some(GiveWay::new(&self.callers, &*self.runtime.clock)),
            begun: last.durable,
            next_ino: self.commits.live.next_ino.get(),
            oldest: self.commits.unfolded.borrow().units.first().copied(),
            ..Scrub::of(&self.nodes, &self.scrubbing.ends, watch, (used, self.per_block()))
        };
        // The blocks of an update on its way are on the disk when it is durable.
        scrub.until_durable(last.number).await?;
        let scrubbed = async {
            scrub.records(last.record, self.nodes.secret()).await;
            scrub.all(self.pins.holding()).await
        };
        self.callers.apart(scrubbed).await
    }

    /// Ends the current scrub, if there is one.
    pub(crate) async fn end_scrub(&self) {
        self.scrubbing.ends.set(true);
        self.released().notify();
        while self.scrubbing.is_under_way.get() {
            self.released().wait().await;
        }
    }
}

impl<'a> Scrub<'a> {
    async fn all(mut self, holding: Vec<Told>) -> Result<Scrubbed, ScrubError> {
        let of_snapshots = [Stem::Snapshots, Stem::Lists, Stem::Died];
        let others = [MAP, LOG, Stem::Answers, Stem::Inodes];
        self.until = match self.volume {
            Some(_) => self.begun, // there may be a snapshot soon
            None => holding.iter().map(|told| told.update).max().unwrap_or(0),
        };
        for stem in of_snapshots.into_iter().chain(others) {
            self.tree(&stem, None).await?;
        }
        self.read_batch().await?;
        self.walk_again().await?;
        let (begun, mut last) = (self.begun, 0);
        let mut those: Vec<Told> =
            holding.into_iter().filter(|told| told.update <= begun).collect();
        loop {
            for told in those {
                last = told.number;
                self.snapshot(told).await?;
            }
            those = self.made_since(last).await?;
            if those.is_empty() {
                break;
            }
        }
        self.go_on()?;
        self.scrubbed.total_bytes = self.scrubbed.done_bytes;
        (self.watch)(&self.scrubbed);
        Ok(self.scrubbed)
    }

    /// Walks through the blocks that a snapshot holds, and none before it.
    async fn snapshot(&mut self, told: Told) -> Result<(), ScrubError> {
        self.inodes = Stem::Pinned(Rc::new(told.inodes));
        let update = told.update;
        self.held = Some(told);
        self.tree(&self.inodes.clone(), None).await?;
        self.read_batch().await?;
        self.walk_again().await?;
        // A snapshot that went meanwhile may have shared blocks that were not read.
        if self.is_held_still() {
            self.since = update;
        }
        Ok(())
    }

    /// Snapshots with higher numbers than this, once they are on the disk.
    async fn made_since(&mut self, last: u64) -> Result<Vec<Told>, ScrubError> {
        let Some(commits) = self.commits() else { return Ok(Vec::new()) };
        let mut made = commits.pins.holding();
        made.retain(|told| told.number > last);
        self.until_durable(made.last().map_or(0, |told| told.update)).await?;
        self.next_ino = commits.live.next_ino.get();
        Ok(made)
    }

    /// Waits for an update.
    async fn until_durable(&mut self, number: u64) -> Result<(), ScrubError> {
        self.until(|commits| commits.superblock.borrow().durable >= number).await
    }

    /// Waits for a condition that updates bring about. If there is no room below, it may never
    /// hold.
    async fn until(&mut self, is_so: impl Fn(&Commits) -> bool) -> Result<(), ScrubError> {
        let Some(volume) = self.volume else { return Ok(()) };
        while !is_so(&volume.commits) {
            self.go_on()?;
            volume.commits.next_release().await.map_err(|error| match error {
                FsError::NoSpace => ScrubError::NoRoom,
                _ => ScrubError::Stopped,
            })?;
        }
        Ok(())
    }

    /// Walks through the records since the last fold, which are few.
    async fn records(&mut self, last: Pointer, secret: &Secret) {
        let mut next = last;
        while !next.is_null() {
            let block = self.block_of((RECORDS, 0, 0), next, 1);
            self.scrubbed.done_bytes += block.length;
            let read = self.read(block.at, block.length).await;
            let is_it = |bytes: &Buffer| {
                let place = Place { kind: kind::RECORD, owner: 0, level: 0, index: index(bytes) };
                sum(bytes) == block.sum && is(bytes, place, block.birth, secret)
            };
            let bytes = match read.ok().filter(is_it) {
                Some(bytes) => Some(bytes),
                None => self.wrong(&block).await,
            };
            let Some(read) = bytes.and_then(|bytes| record::read(&bytes)) else { return };
            next = read.previous;
        }
    }

    fn block_of(&self, (owner, level, index): (u64, u8, u64), at: Pointer, units: u64) -> Block {
        let (at, birth, sum) = (at.address.get(), at.birth.get(), at.sum.get());
        let unit = UNIT as u64;
        Block { at: at.saturating_mul(unit), length: units * unit, birth, sum, owner, level, index }
    }

    /// Collects the blocks of a tree. `file` has the attributes that its file had, if it belongs to
    /// one.
    async fn tree(&mut self, stem: &Stem, file: Option<&Facts>) -> Result<(), ScrubError> {
        let height = self.nodes.height(stem);
        self.below(stem, file, height, 0, WIDTH as u64).await
    }

    /// Collects blocks of a level, and all below them.
    pub(crate) fn below<'s>(
        &'s mut self,
        stem: &'s Stem,
        file: Option<&'s Facts>,
        level: u8,
        first: u64,
        count: u64,
    ) -> LocalBoxFuture<'s, Result<(), ScrubError>> {
        async move {
            let is_data = level == 0 && file.is_some_and(|it| it.kind != FileKind::Directory);
            let units = if is_data { self.block } else { 1 };
            for index in first..first + count {
                let is_inodes = matches!(stem, Stem::Inodes | Stem::Pinned(_));
                let leads_on = level > 0 || is_inodes;
                let ahead = if self.is_called() { AHEAD_BESIDE } else { AHEAD };
                if leads_on && (index - first).is_multiple_of(ahead) {
                    // Unreadable blocks are found with the others of their batch.
                    let ahead = index..(index + ahead).min(first + count);
                    let read = ahead.map(|index| self.nodes.get(stem, level, index));
                    self.work(join_all(read)).await;
                }
                if !is_still(stem, file) {
                    return Ok(()); // the file is gone, and its number may be another's
                }
                let parent = self.work(self.nodes.parent(stem, level, index)).await;
                let Ok(Some(parent)) = parent else {
                    self.note_unwalked(parent.is_err(), (stem.owner(), level + 1, index / FAN));
                    continue;
                };
                if !is_still(stem, file) {
                    return Ok(());
                }
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() || pointer.birth.get() <= self.since {
                    continue;
                }
                // Invariant 1.
                if pointer.birth.get() <= self.begun || is_planted(Bug::ScrubbedWrites) {
                    let twin = pointer.at(self.nodes.twin_of(&parent, index));
                    for copy in [pointer, twin].into_iter().filter(|copy| !copy.is_null()) {
                        let block = self.block_of((stem.owner(), level, index), copy, units);
                        if !self.is_seen(&copy) {
                            self.gather(block).await?;
                        }
                    }
                }
                if level > 0 {
                    self.below(stem, file, level - 1, index * FAN, FAN).await?;
                } else if is_inodes {
                    self.files(index).await?;
                }
                self.take_turns().await?;
            }
            Ok(())
        }
        .boxed_local()
    }

    /// Collects the blocks of the files whose inodes are in a block.
    pub(crate) async fn files(&mut self, block: u64) -> Result<(), ScrubError> {
        for slot in 0..INODES {
            let home = self.work(self.nodes.get(&self.inodes, 0, block)).await;
            let Ok(Some(home)) = home else {
                self.note_unwalked(home.is_err(), (0, 0, block));
                return Ok(());
            };
            let facts = home.inode(slot, Record::facts);
            let Some(facts) = facts.filter(|facts| !facts.is_inline()) else { continue };
            let stem = Stem::File(block * INODES + slot, home, slot);
            self.tree(&stem, Some(&facts)).await?;
        }
        Ok(())
    }

    /// Lets other tasks run, keeps memory in bounds, and checks for an order to end.
    pub(crate) async fn take_turns(&mut self) -> Result<(), ScrubError> {
        self.steps += 1;
        self.nodes.relieve();
        if self.steps.is_multiple_of(STEPS) {
            yield_now().await;
            self.go_on()?;
        }
        self.give_way().await
    }

    fn is_called(&self) -> bool {
        self.way.as_ref().is_some_and(GiveWay::is_called)
    }

    /// Waits for the device, and counts the time for the throttle.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.way {
            Some(way) => way.work(work).await,
            None => work.await,
        }
    }

    /// Rests as long as is due, and as long as there is foreground I/O.
    async fn give_way(&mut self) -> Result<(), ScrubError> {
        let mut left = self.way.as_ref().map_or(Duration::ZERO, GiveWay::due);
        while !left.is_zero()
            && let Some(way) = &self.way
            && way.is_called()
        {
            left = way.nap(left).await;
            self.go_on()?;
        }
        Ok(())
    }

    /// The committer; none if the volume is not open.
    fn commits(&self) -> Option<&'a Commits> {
        self.volume.map(|volume| &*volume.commits)
    }

    pub(crate) fn go_on(&mut self) -> Result<(), ScrubError> {
        self.scrubbed.mended += self.nodes.mended() - self.counted; // mended on the walk
        self.counted = self.nodes.mended();
        let scrubbed = &mut self.scrubbed;
        scrubbed.total_bytes = scrubbed.total_bytes.max(scrubbed.done_bytes);
        let is_wanted = (self.watch)(scrubbed);
        let has_stopped = self.commits().is_some_and(|commits| commits.live.horizon.has_stopped());
        match (is_wanted && !self.ends.get(), has_stopped) {
            (_, true) => Err(ScrubError::Stopped),
            (false, _) => Err(ScrubError::Ended),
            _ => Ok(()),
        }
    }

    /// Whether a snapshot shares a block with the live tree, where it was read. Notes the blocks of
    /// the live tree for this.
    fn is_seen(&mut self, pointer: &Pointer) -> bool {
        let unit = pointer.address.get();
        if self.held.is_some() {
            return self.seen.has(unit);
        }
        if pointer.birth.get() <= self.until {
            self.seen.insert(unit);
        }
        false
    }

    async fn gather(&mut self, block: Block) -> Result<(), ScrubError> {
        self.batch.push(block);
        assert!(self.batch.len() <= BATCH, "invariant 3");
        if self.batch.len() == BATCH { self.read_batch().await } else { Ok(()) }
    }

    /// Reads the collected blocks, in the order of their addresses.
    pub(crate) async fn read_batch(&mut self) -> Result<(), ScrubError> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_unstable();
        let mut rest = &batch[..];
        while let Some(first) = rest.first() {
            let start = first.at;
            let end_of = |block: &Block| block.at.saturating_add(block.length);
            let mut end = end_of(first);
            let mut count = 1;
            let large = if self.is_called() { LARGE_BESIDE } else { LARGE };
            while let Some(next) = rest.get(count)
                && next.at <= end.saturating_add(GAP)
                && end_of(next) - start <= large
            {
                (end, count) = (end.max(end_of(next)), count + 1);
            }
            let (blocks, others) = rest.split_at(count);
            rest = others;
            self.read_run(start, end, blocks).await;
            yield_now().await; // a disk may answer at once
            self.go_on()?;
            self.give_way().await?;
        }
        self.come_to_rest().await?;
        self.name_damage().await
    }

    /// Reads blocks that are near each other.
    async fn read_run(&mut self, start: u64, end: u64, blocks: &[Block]) {
        let read = self.read(start, end.saturating_sub(start)).await;
        for block in blocks {
            self.scrubbed.done_bytes += block.length;
            let within = (block.at - start) as usize;
            let fits = match &read {
                Ok(bytes) => sum(&bytes[within..within + block.length as usize]) == block.sum,
                // An unreadable block must not hide the others.
                Err(_) => {
                    let alone = self.read(block.at, block.length).await;
                    alone.is_ok_and(|bytes| sum(&bytes) == block.sum)
                }
            };
            if !fits {
                self.wrong(block).await;
            }
        }
    }

    async fn read(&self, at: u64, length: u64) -> Result<Buffer, IoError> {
        let device = self.nodes.path.device();
        // A pointer that makes no sense may have any address.
        device.geometry().check(block::Verb::Read, at, length)?;
        self.work(device.read(at, Buffer::unfilled(length as usize))).await
    }

    /// Mends a wrong block, if possible; returns its contents then.
    async fn wrong(&mut self, block: &Block) -> Option<Buffer> {
        let looks_again = !is_planted(Bug::BelievedGathering);
        let unit = UNIT as u64;
        if looks_again && !self.is_there(block).await {
            self.seen.remove(block.at / unit); // a snapshot may hold it
            return None;
        }
        let pointer = Pointer::new(block.at / unit, block.birth, block.sum);
        let mended = self.nodes.mend(pointer, block.length / unit).await;
        if let Some(bytes) = mended {
            self.scrubbed.mended += 1;
            return Some(bytes);
        }
        if let Some(sequence) = self.write_again(block, pointer).await {
            self.again.push(sequence);
            self.seen.remove(block.at / unit); // a snapshot may hold it
            return None;
        }
        if self.copied_again(block, pointer).await {
            self.scrubbed.mended += 1;
            return None;
        }
        if self.renews(block) {
            self.seen.remove(block.at / unit);
            return None;
        }
        // Invariant 2.
        if !looks_again || self.is_there(block).await {
            self.note_loss(block);
        } else {
            self.seen.remove(block.at / unit);
        }
        None
    }

    /// Writes a block elsewhere that is in memory, but rotten on the disk, or that has a whole
    /// other copy; returns the change that does so.
    async fn write_again(&self, block: &Block, pointer: Pointer) -> Option<Sequence> {
        let volume = self.volume.filter(|_| self.held.is_none() && block.owner != RECORDS)?;
        let stem = self.stem_of(block.owner).await.ok()??;
        let node = if stands_twice(block) {
            self.nodes.get(&stem, block.level, block.index).await.ok()??
        } else {
            self.nodes.find(&stem, block.level, block.index)?
        };
        let is_it = node.is_at(pointer);
        is_it.then(|| volume.write_again([node], volume.floor.cost_of(&stem)))?
    }

    /// Waits until rewritten blocks are durable: then they count as mended.
    async fn come_to_rest(&mut self) -> Result<(), ScrubError> {
        let last = self.again.last().max(self.renewed.last().map(|(sequence, _)| sequence));
        let last = last.filter(|_| !is_planted(Bug::EarlyMending)).copied();
        if let Some(last) = last {
            self.until(|commits| commits.live.horizon.through() >= last).await?;
        }
        self.scrubbed.mended += self.again.drain(..).len() as u64; // invariant 4
        for (_, block) in std::mem::take(&mut self.renewed) {
            if self.is_there(&block).await {
                self.note_loss(&block); // a fold has failed
            } else {
                self.scrubbed.mended += 1;
            }
        }
        Ok(())
    }

    /// Notes a lost block, for the report.
    fn note_loss(&mut self, block: &Block) {
        if block.level > 0 || block.owner == 0 {
            self.reported.insert((block.owner, block.level, block.index));
        }
        let damage = self.damage_of(block);
        self.damage.push(damage);
    }

    /// Whether a pointer still leads to a collected block. There is no await between the check and
    /// the return.
    async fn is_there(&self, block: &Block) -> bool {
        if !self.is_held_still() {
            return false;
        }
        if block.owner == RECORDS {
            let Some(commits) = self.commits() else { return true };
            let (units, unit) = (&commits.unfolded.borrow().units, block.at / UNIT as u64);
            return units.first() == self.oldest.as_ref() && units.contains(&unit);
        }
        // If its parent cannot be read any more, that is reported.
        self.pointers_to(block).await.is_ok_and(|pointers| {
            let is_it = |pointer: &Pointer| {
                let now = self.block_of((block.owner, block.level, block.index), *pointer, 1);
                Block { length: block.length, ..now } == *block
            };
            pointers.iter().any(is_it)
        })
    }

    /// Whether the current snapshot, if there is one, still holds its blocks.
    fn is_held_still(&self) -> bool {
        let (Some(commits), Some(told)) = (self.commits(), &self.held) else { return true };
        let now = commits.pins.told(SnapshotNumber(told.number));
        now.is_some_and(|(now, _)| now.state != State::Gone)
    }

    /// Pointers to a block and its other copy; null for none.
    pub(crate) async fn pointers_to(&self, block: &Block) -> Result<[Pointer; 2], FsError> {
        let none = [Pointer::NULL; 2];
        let Some(stem) = self.stem_of(block.owner).await? else { return Ok(none) };
        let parent = self.nodes.parent(&stem, block.level, block.index).await?;
        Ok(parent.map_or(none, |parent| {
            let pointer = self.nodes.child_of(&parent, block.index);
            [pointer, pointer.at(self.nodes.twin_of(&parent, block.index))]
        }))
    }

    /// Rewrites a rotten copy of a block from the other, if that is whole.
    async fn copied_again(&self, block: &Block, pointer: Pointer) -> bool {
        if !stands_twice(block) {
            return false;
        }
        let Ok(copies) = self.pointers_to(block).await else { return false };
        let other = copies.into_iter().find(|&copy| copy != pointer && !copy.is_null());
        let Some(other) = other.filter(|_| copies.contains(&pointer)) else { return false };
        let may_mend = || self.is_held_still();
        let Ok(bytes) = self.nodes.copy_at(other, &may_mend).await else { return false };
        // No await between this check and the write.
        self.is_there(block).await && self.nodes.write_copy(pointer, &bytes).await
    }

    /// The stem of a tree; none if it is that of a file whose block of inodes is missing.
    pub(crate) async fn stem_of(&self, owner: u64) -> Result<Option<Stem>, FsError> {
        match (owner, tree_of(owner)) {
            (0, _) => Ok(Some(self.inodes.clone())),
            (_, Some(stem)) => Ok(Some(stem)),
            (ino, None) => {
                let home = self.nodes.get(&self.inodes, 0, ino / INODES).await?;
                Ok(home.map(|home| Stem::File(ino, home, ino % INODES)))
            }
        }
    }

    /// The files damaged by the loss of a block, and where.
    pub(crate) fn damage_of(&self, block: &Block) -> Damage {
        let leaf = block.index * reach(block.level);
        let (first, last, offset) = match block.owner {
            0 => (leaf * INODES, (leaf + reach(block.level)) * INODES - 1, 0),
            1 | 3..=7 | RECORDS => (1, 0, 0),
            ino => (ino, ino, leaf),
        };
        Damage { first, last, offset, at: block.at }
    }

    /// Bytes of a leaf of a file.
    pub(crate) fn leaf_bytes(&self, kind: FileKind) -> u64 {
        match kind {
            FileKind::Directory => CHUNKS * CHUNK_SIZE as u64,
            _ => self.block * UNIT as u64,
        }
    }

    /// Reports the losses since the last call, with the names of files. If the scrub ends
    /// meanwhile, they are reported without names.
    pub(crate) async fn name_damage(&mut self) -> Result<(), ScrubError> {
        let mut damage = std::mem::take(&mut self.damage);
        if damage.is_empty() {
            return Ok(());
        }
        damage.sort_unstable();
        let found = self.names_of(&damage).await;
        let (named, done) = match found {
            Ok(named) => (named, Ok(())),
            Err(error) => (BTreeMap::new(), Err(error)),
        };
        let name = |told: &Told| told.name.as_bytes().escape_ascii().to_string();
        let snapshot = self.held.as_ref().map(name);
        for one in damage {
            let before = self.scrubbed.lost.len();
            if one.first <= one.last {
                for (paths, leaf_bytes) in named.range(one.first..=one.last).map(|(_, it)| it) {
                    for path in paths {
                        let (path, offset) = (Some(path.clone()), one.offset * leaf_bytes);
                        self.tell(Lost { path, snapshot: snapshot.clone(), offset });
                    }
                }
            }
            if self.scrubbed.lost.len() == before {
                self.tell(Lost { path: None, snapshot: snapshot.clone(), offset: one.at });
            }
        }
        (self.watch)(&self.scrubbed);
        done
    }

    fn tell(&mut self, lost: Lost) {
        if self.scrubbed.lost.len() < TOLD {
            self.scrubbed.lost.push(lost);
        }
    }
}

const _: () = assert!(size_of::<Head>() + CHUNKS as usize * CHUNK_SIZE <= UNIT);
