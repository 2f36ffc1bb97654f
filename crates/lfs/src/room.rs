//! Room: who may take how much, and who waits for the cleaner.
//!
//! A volume has room for so many units in use that the cleaner can always gather the dead ones:
//! some segments are never filled. Files leave alone what commits, the cleaner and a checkpoint may
//! need, and so on:
//!
//! ```text
//!  clean segments:  | checkpoint | cleaner | commits | blocks of files ...
//! ```
//!
//! Invariants:
//! 1. A plan has places only if there is room for its blocks in addition to all that others hold.
//!
//! Not asserted: 1, which filling a volume tests.

use std::rc::Rc;

use cow::layout::{Layout, Room};
use cow::{FAN, HIGHEST, Run, UNIT};
use futures::future::select;
use vfs::FsError;
use vnode::Space;

use crate::checkpoint::ring;
use crate::format::shape::Shape;
use crate::format::table::Owner;
use crate::log::Log;
use crate::logical::Names;
use crate::work::Work;

/// Units that are kept for changes that free more than they take.
pub(crate) fn pool(units: u64) -> u64 {
    (units / 32).clamp(48, 4096)
}

/// Units of metadata that exist whatever the files are, at most: replies with the blocks that lead
/// to them, and the first inodes with the blocks that lead to them, twice.
fn fixed(shape: &Shape) -> u64 {
    let above = ring(shape).div_ceil(FAN);
    ring(shape) + 2 * above + 2 * (u64::from(HIGHEST) + 1) + 4
}

/// Units that the volume has for files: free space and the space of files add up to it.
pub(crate) fn size(shape: &Shape) -> u64 {
    shape.usable().saturating_sub(pool(shape.usable()) + fixed(shape))
}

/// Units that are free for files, if so many are in use, and files have `of_files` of them.
pub(crate) fn free(shape: &Shape, in_use: u64, of_files: u64) -> u64 {
    let room = shape.usable().saturating_sub(pool(shape.usable()) + in_use);
    room.min(size(shape).saturating_sub(of_files))
}

/// The part of the log after which a checkpoint is due, of all segments.
const LOGGED_SHARE: u64 = 4;
/// The same, in units.
const LOGGED_MOST: u64 = 65_536;

impl Layout for Log {
    type Disk = Names;
    type Work = Work;

    fn number(&self) -> u64 {
        self.rows.number.get()
    }

    fn has_room(&self, room: Room) -> bool {
        let Room { blocks, units, kind, grows, .. } = room;
        let mut need = blocks * self.shape.block + units;
        if kind != Space::Reserved {
            need += self.claimed.get() * self.shape.block;
        }
        let limit = if grows { self.for_files() } else { self.shape.usable() };
        let rows = need.div_ceil(self.shape.row()) + self.shape.dirty() / self.shape.row() + 16;
        self.in_use() + need <= limit && self.rows.free_rows() > rows
    }

    async fn place(&self, blocks: u64) -> Option<Vec<Run>> {
        let units = blocks * self.shape.block;
        while self.is_held.get() && !self.live.horizon.has_stopped() {
            self.live.released.wait().await;
        }
        let placing = Placing::begin(self, units);
        let (mut runs, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let step = self.shape.block;
            if let Some(run) = self.rows.plan(Owner::Files, left, step, self.shape.reserved()) {
                left -= run.length / step;
                placing.end(run.length);
                self.logged.set(self.logged.get() + run.length);
                runs.push(run);
                continue;
            }
            if self.live.horizon.has_stopped() || self.is_packed.get() && !self.is_tending.get() {
                self.free(&runs);
                return None;
            }
            self.tend();
            select(self.live.released.wait(), self.rows.read.wait()).await;
        }
        self.look_after();
        Some(runs)
    }

    fn free(&self, runs: &[Run]) {
        runs.iter().for_each(|&run| self.rows.end_plan(run));
        if !runs.is_empty() {
            self.is_packed.set(false);
        }
    }

    async fn prepare(&self, places: impl Iterator<Item = Run> + Clone) {
        let bytes: u64 = places.map(|run| run.length * UNIT as u64).sum();
        self.count(|totals| {
            totals.new_bytes += bytes;
            totals.written_bytes += bytes;
        });
    }

    fn makes_room(self: &Rc<Self>) -> bool {
        self.is_busy() || self.is_writing.get()
    }
}

/// Units that a plan waits for.
struct Placing<'a> {
    log: &'a Log,
    left: std::cell::Cell<u64>,
}

impl<'a> Placing<'a> {
    fn begin(log: &'a Log, units: u64) -> Self {
        log.placing.set(log.placing.get() + units);
        Self { log, left: units.into() }
    }

    fn end(&self, units: u64) {
        self.left.set(self.left.get() - units);
        self.log.placing.set(self.log.placing.get() - units);
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        self.end(self.left.get());
    }
}

impl Log {
    /// Units in use, planned, or needed: for what is new in memory, and beside what snapshots hold.
    pub(crate) fn in_use(&self) -> u64 {
        let kept = self.pins.keeps(self.live.units.get() / self.shape.block);
        self.rows.in_use() + self.placing.get() + self.nodes.unplaced_count() + kept
    }

    /// Units for files and metadata, without what is kept for changes that free more than they
    /// take.
    pub(crate) fn for_files(&self) -> u64 {
        self.shape.usable().saturating_sub(pool(self.shape.usable()))
    }

    /// Clean segments that a commit leaves alone.
    pub(crate) fn for_others(&self) -> u64 {
        self.shape.for_checkpoint() + self.shape.for_cleaner()
    }

    /// Clean segments that the next checkpoint takes, at most, with changes that are ready.
    pub(crate) fn for_checkpoint(&self) -> u64 {
        let dirty = self.nodes.dirty_count() + self.live.promised.units() + self.for_lists();
        (dirty + 16).div_ceil(self.shape.segment) + 1
    }

    /// The same, with the batch before it. Changes wait while there are so few clean segments that
    /// this matters.
    pub(crate) fn for_next(&self) -> u64 {
        self.for_checkpoint() + self.for_batch() + 1
    }

    /// Begins a checkpoint if one is due, and the cleaner if segments are short.
    pub(crate) fn look_after(&self) {
        let most = (self.shape.segments() * self.shape.segment / LOGGED_SHARE).min(LOGGED_MOST);
        let is_long = self.logged.get() >= most;
        let dirty = self.nodes.dirty_count() + self.for_lists();
        if is_long || dirty >= self.shape.dirty() / 2 {
            self.wants_checkpoint.set(true);
            self.kick();
        }
        if self.is_short() && !self.is_packed.get() {
            self.tend();
        }
    }

    /// Waits until a change that dirties this many blocks of metadata, at most, may go on: dirty
    /// blocks and staged changes have bounds, so that a checkpoint and a commit have room.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped.
    pub(crate) async fn relieve(&self, cost: u64) -> Result<(), FsError> {
        loop {
            let changed = self.nodes.dirty_count() + self.live.promised.units();
            let dirty = changed + self.for_lists();
            let is_much = changed > 0 && dirty + cost > self.shape.dirty();
            let is_long = self.staged_bytes() > self.shape.staged();
            let is_packed = self.is_packed.get() && self.rows.dead() == 0;
            let is_short = self.rows.clean() < self.for_others() && !is_packed;
            if !is_much && !is_long && !is_short {
                return Ok(());
            }
            if is_much {
                self.wants_checkpoint.set(true);
            }
            if is_short {
                self.wants_checkpoint.set(self.wants_checkpoint.get() || self.rows.dead() > 0);
                self.tend();
            }
            if self.has_staged() {
                self.commit_soon();
            }
            self.kick();
            self.next_release().await?;
        }
    }
}
