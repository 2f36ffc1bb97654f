//! Compaction (garbage collection): zones are emptied, so that new blocks have adjacent free units.
//!
//! When few zones are empty, the zones worth emptying are chosen, and one walk finds the blocks in
//! all of them. Data is read, zone by zone and in large pieces. If it matches its checksum it
//! becomes a block elsewhere, with the same checksum, by an Update of its file. Metadata is marked
//! dirty, as if it had changed, and goes out with the next update. Blocks of snapshots stay, since
//! a move would take their room twice; so do rotten blocks, which a scrub reports. A zone in which
//! blocks have to stay is left alone until more of them are gone.
//!
//! Clients come first: a compaction takes only unreserved space, leaves more than that free, and
//! ends where there is not enough. A client that finds no room meanwhile waits for the space that
//! is freed.
//!
//! Invariants:
//! 1. A block is moved only if its pointer is the same as when the block was read, and under the
//!    lock of its file.
//! 2. A block that a snapshot holds is not moved.
//! 3. A rolled-back or stopped volume is not changed any more.
//!
//! Not asserted: 1, which the floor asserts; 2, which is checked before each move; 3, which is up
//! to those who end it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::Buffer;
use bytes::Bytes;
use cow::{FAN, HIGHEST, UNIT, sum};
use futures::FutureExt;
use futures::future::select;
use vfs::{FileKind, FsError};
use vnode::{Engine, Files, Space as Kind};

use crate::commit::Staged;
use crate::engine::{Shadow, Update};
use crate::owners::{Owner, Tenants, Walk};
use crate::pace::{Ended, Pace};
use crate::planted::{Bug, is_planted};
use cow::content::{Block, Payload};
use cow::floor::File;
use cow::update::Placed;

/// Checks per interval, while there is nothing to do.
const LOOKS: u32 = 5;
/// After a vain attempt, the time until the next check doubles, up to this factor.
const LONGEST: u32 = 64;
/// Time to wait for a file that clients change. Then it stays where it is.
const WAIT: Duration = Duration::from_millis(200);
/// Bytes that are read at once,
const LARGE: u64 = 1 << 20;
/// and the largest gap between two blocks that are still read together.
const GAP: u64 = 128 << 10;
/// Bytes that are read before they are written.
const BATCH: u64 = 8 << 20;
/// Bytes that are moved before they become durable.
const UPDATE: u64 = 1 << 20;
/// Blocks of a file that are moved at once: it is locked while they are written.
const MOVES: usize = 64;
/// Blocks of metadata that go out together.
const NODES: usize = 64;

/// A block that was read, and matches its pointer.
type Read = (Owner, Bytes);

/// Compacts a volume as long as it exists.
pub(crate) fn start_compaction(files: &Rc<Files<Shadow>>, interval: Duration) {
    let engine = files.engine();
    if engine.limits().fsinfo.read_only {
        return;
    }
    let (files, runtime) = (Rc::downgrade(files), engine.runtime.clone());
    let clock = runtime.clock;
    let task = async move {
        let mut times = 1;
        loop {
            clock.sleep(interval / LOOKS * times).await;
            let Some(files) = files.upgrade() else { return };
            let engine = files.engine();
            if engine.compaction.is_ending() || engine.commits.live.horizon.has_stopped() {
                return;
            }
            let has_gained = engine.compact(&files).await;
            times = if has_gained { 1 } else { (2 * times).min(LONGEST) };
        }
    };
    runtime.tasks.spawn(task.boxed_local());
}

impl Shadow {
    /// Ends the current compaction, if there is one. None begins afterwards.
    pub(crate) async fn end_compaction(&self) {
        self.compaction.end();
        while self.compaction.is_under_way.get() {
            self.released().wait().await;
        }
    }

    /// Whether a compaction may continue.
    pub(crate) fn may_compact(&self) -> bool {
        let commits = &self.commits;
        !self.compaction.is_ending() && !commits.live.horizon.has_stopped() && !commits.is_refused()
    }

    /// Number of empty zones.
    pub fn empty_zones(&self) -> u64 {
        self.space.standing().empty
    }

    /// Compacts, if that is due. Returns whether it was not due, or zones have become empty.
    async fn compact(&self, files: &Files<Shadow>) -> bool {
        let standing = self.space.standing();
        if !standing.are_few() || !self.may_compact() {
            return true;
        }
        let vain = self.compaction.vain.borrow().clone();
        let update = self.commits.number();
        let zones = self.space.worth_emptying(standing.missing(), (update, &vain));
        if zones.is_empty() {
            return false;
        }
        self.compaction.is_under_way.set(true);
        self.space.empty_these(zones.iter().copied().collect());
        let mut pass = Pass { files, pace: Pace::new(self), last: 0, moved: 0, has_passed: false };
        let tried = self.callers.apart(pass.empty(zones.clone())).await.unwrap_or_default();
        self.note_vain(&tried);
        let is_empty = |zone: &u64| self.space.used_of(*zone) == 0;
        let has_gained = zones.iter().any(is_empty);
        self.space.empty_these(Default::default());
        self.compaction.is_under_way.set(false);
        self.released().notify(); // a stop may wait for it
        let _ = pass.pace.rest().await;
        has_gained
    }

    /// Notes the units that stay in zones that were emptied as far as possible.
    fn note_vain(&self, zones: &[u64]) {
        let mut vain = self.compaction.vain.borrow_mut();
        for &zone in zones {
            match self.space.used_of(zone) {
                0 => drop(vain.remove(&zone)),
                used => drop(vain.insert(zone, (used, self.commits.number()))),
            }
        }
    }

    /// Whether this much may be moved: then as much again stays free, in addition to reserved
    /// space.
    fn may_move(&self, blocks: u64, units: u64) -> bool {
        self.floor.has_room(2 * blocks, 2 * units, Kind::Superuser, true)
    }

    /// Plans to move these blocks of a file, if they are unchanged. The file is locked.
    async fn plan_moves(
        &self,
        update: &mut Update,
        file: &File,
        moves: &[Read],
    ) -> Result<Payload, FsError> {
        let stem = file.look(|inode| inode.stem(file.ino));
        let mut found = Vec::new();
        let has_data =
            file.look(|inode| !inode.facts.is_inline() && inode.facts.kind != FileKind::Directory);
        for (owner, data) in moves.iter().filter(|_| has_data) {
            let parent = self.nodes.parent(&stem, 0, owner.index).await?;
            let Some(parent) = parent else { continue };
            let now = self.nodes.child_of(&parent, owner.index);
            let is_same = now == owner.pointer || is_planted(Bug::MovedOverWrites);
            let is_held = self.pins.holds(now.birth.get()) && !is_planted(Bug::MovedPins);
            if is_same && !is_held && !now.is_null() {
                found.push((parent, owner, data));
            }
        }
        let mut above: Vec<u64> = found.iter().map(|(_, owner, ..)| owner.index / FAN).collect();
        above.dedup();
        let (count, height) = (found.len() as u64, u64::from(self.nodes.height(&stem)));
        let cost = height * above.len() as u64 + self.floor.cost_of_inode();
        if count == 0 {
            return Ok(Payload::default());
        }
        if !self.may_move(count, cost) {
            return Err(FsError::NoSpace);
        }
        let runs = self.space.take_for_moves(count).ok_or(FsError::NoSpace)?;
        self.space.plan(&runs);
        update.taken.hold(&runs);
        (update.fills_holes, update.gives_way) = (true, true);
        update.cost += cost;
        let step = self.per_block();
        let places = runs.iter().flat_map(|run| (run.start..run.end()).step_by(step as usize));
        let mut payload = Payload::default();
        payload.is_moved = true;
        for ((parent, owner, data), address) in found.into_iter().zip(places) {
            let (index, sum) = (owner.index, owner.pointer.sum.get());
            payload.add(address, Block { data: data.clone(), sum, is_part: false }, step);
            let was = (!is_planted(Bug::MovedOverWrites)).then_some(owner.pointer);
            update.blocks.push(Placed { parent, index, address, sum, was });
        }
        Ok(payload)
    }
}

/// One pass that empties some zones.
struct Pass<'a> {
    files: &'a Files<Shadow>,
    pace: Pace<'a>,
    /// The last change that it made.
    last: u64,
    /// Bytes that it has moved since it last waited for them.
    moved: u64,
    /// Whether it has skipped a block in the current zone that may be moved later.
    has_passed: bool,
}

impl Pass<'_> {
    /// Returns the zones in which no more blocks can be moved at present.
    async fn empty(&mut self, zones: Vec<u64>) -> Result<Vec<u64>, Ended> {
        let engine = self.pace.engine;
        let mut tried = Vec::new();
        let tenants = Walk::new(&mut self.pace, zones.clone()).find().await?;
        for (zone, Tenants { owners, units }) in tenants {
            let gathered: u64 = owners.iter().map(|owner| engine.bytes_of(owner)).sum();
            // Blocks that are not durable yet come later.
            self.has_passed = gathered < units * UNIT as u64 || self.records_in(zone) > 0;
            // Other units are held by snapshots, or belong to an update on its way.
            let used = engine.space.used_of(zone);
            if units + self.records_in(zone) >= used || engine.pins.holders() == 0 {
                self.empty_zone(owners).await?;
            }
            tried.extend((!self.has_passed).then_some(zone));
        }
        if zones.iter().any(|&zone| self.records_in(zone) > 0) {
            engine.commits.fold_soon();
        }
        self.settle().await?;
        Ok(tried)
    }

    /// Units of records in a zone: a fold frees them.
    fn records_in(&self, zone: u64) -> u64 {
        let commits = &self.pace.engine.commits;
        let unfolded = commits.unfolded.borrow();
        unfolded.units.iter().filter(|&&unit| commits.shape.zone_of(unit) == zone).count() as u64
    }

    async fn empty_zone(&mut self, owners: Vec<Owner>) -> Result<(), Ended> {
        let (mut data, nodes): (Vec<_>, Vec<_>) = owners.into_iter().partition(|it| it.is_data);
        data.sort_unstable_by_key(|owner| owner.pointer.address.get());
        let per_batch = (BATCH / self.pace.engine.block_size()) as usize;
        for some in data.chunks(per_batch) {
            let read = self.read(some).await;
            self.move_data(read).await?;
        }
        for some in nodes.chunks(NODES) {
            self.move_nodes(some).await?;
        }
        Ok(())
    }

    /// Reads blocks in the order of their addresses. Changed or rotten blocks are left out.
    async fn read(&mut self, blocks: &[Owner]) -> Vec<Read> {
        let (engine, mut all) = (self.pace.engine, Vec::new());
        let start_of = |owner: &Owner| owner.pointer.address.get() * UNIT as u64;
        let size = engine.block_size();
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let start = start_of(first);
            let (mut end, mut count) = (start + size, 1);
            while let Some(next) = rest.get(count)
                && start_of(next) <= end + GAP
                && start_of(next) + size - start <= LARGE
            {
                (end, count) = (start_of(next) + size, count + 1);
            }
            let (some, others) = rest.split_at(count);
            rest = others;
            if self.pace.rest_if_long().await.is_err() {
                return all;
            }
            let room = Buffer::unfilled((end - start) as usize);
            let read = self.pace.work(engine.path.device().read(start, room)).await;
            let bytes = read.map(Buffer::freeze).ok();
            for owner in some {
                let at = (start_of(owner) - start) as usize;
                let data = match &bytes {
                    Some(bytes) => Some(bytes.slice(at..at + size as usize)),
                    None => self.read_alone(start_of(owner), size).await,
                };
                let data = data.filter(|data| sum(data) == owner.pointer.sum.get());
                all.extend(data.map(|data| (*owner, data)));
            }
        }
        all
    }

    /// Reads a single block, when a range with an unreadable block failed.
    async fn read_alone(&mut self, at: u64, size: u64) -> Option<Bytes> {
        let room = Buffer::unfilled(size as usize);
        let read = self.pace.work(self.pace.engine.path.device().read(at, room)).await;
        read.map(Buffer::freeze).ok()
    }

    /// Moves data, file by file. A file that fails does not stop the others.
    async fn move_data(&mut self, mut read: Vec<Read>) -> Result<(), Ended> {
        // Blocks near each other in a file share pointers, which go out once for all of them.
        read.sort_unstable_by_key(|(owner, _)| (owner.owner, owner.index));
        let of_files = read.chunk_by(|(one, _), (other, _)| one.owner == other.owner);
        for moves in of_files.flat_map(|of_file| of_file.chunks(MOVES)) {
            let (engine, files) = (self.pace.engine, self.files);
            let plan = async |update: &mut Update, file: &File| {
                engine.plan_moves(update, file, moves).await
            };
            let ended = async {
                let wait = engine.runtime.clock.sleep(WAIT);
                select(pin!(engine.compaction.ended()), wait).await;
            };
            let moved = self.pace.work(files.relocate(moves[0].0.owner, ended, plan)).await;
            match moved {
                Ok(sequence) if sequence.0 > 0 => {
                    self.count(sequence.0, moves.iter().map(|(owner, _)| owner)).await?
                }
                Ok(_) | Err(FsError::Stale | FsError::Corrupt) => {}
                Err(FsError::NoSpace) => return Err(Ended),
                Err(_) if !engine.may_compact() => return Err(Ended),
                Err(_) => self.has_passed = true,
            }
        }
        Ok(())
    }

    /// Sends blocks of metadata out with the next update, if they are unchanged.
    async fn move_nodes(&mut self, owners: &[Owner]) -> Result<(), Ended> {
        let engine = self.pace.engine;
        let mut found = Vec::new();
        for owner in owners {
            let Some(stem) = self.pace.work(engine.stem_of(owner)).await else { continue };
            let got = engine.nodes.get(&stem, owner.level, owner.index);
            if let Ok(Some(node)) = self.pace.work(got).await {
                found.push((node, owner));
            }
        }
        // No await from here on.
        if engine.commits.is_held.get() {
            self.has_passed = true;
            return Ok(()); // a snapshot is being made: it is another's turn
        }
        found.retain(|(node, owner)| {
            let is_held = node.is_pinnable() && engine.pins.holds(owner.pointer.birth.get());
            let is_same = node.is_at(owner.pointer) && !node.is_dirty() && !node.is_gone();
            is_same && !is_held
        });
        if found.is_empty() {
            return Ok(());
        }
        let way = u64::from(HIGHEST) + 1 + engine.floor.cost_of_inode();
        if !engine.may_move(0, found.len() as u64 * way) {
            return Err(Ended);
        }
        found.iter().for_each(|(node, _)| engine.nodes.mark(node));
        let sequence = engine.floor.next_sequence();
        engine.commits.stage(Staged { sequence, ..Staged::default() });
        engine.commits.commit_later(sequence);
        self.count(sequence, found.iter().map(|(_, owner)| *owner)).await
    }

    /// Counts blocks that are moved with this change. When they are many, waits until they are
    /// durable.
    async fn count(
        &mut self,
        sequence: u64,
        moved: impl Iterator<Item = &Owner>,
    ) -> Result<(), Ended> {
        let bytes = moved.map(|owner| self.pace.engine.bytes_of(owner)).sum();
        self.pace.engine.compaction.count(bytes);
        (self.last, self.moved) = (sequence, self.moved + bytes);
        if self.moved >= UPDATE { self.settle().await } else { self.pace.rest_if_long().await }
    }

    /// Waits until moved blocks are durable, and their old places free.
    async fn settle(&mut self) -> Result<(), Ended> {
        self.moved = 0;
        let commits = &self.pace.engine.commits;
        if commits.has_staged() {
            commits.commit_soon();
        }
        self.pace.durable(self.last).await?;
        self.pace.engine.space.note_emptied();
        self.pace.rest().await
    }
}
