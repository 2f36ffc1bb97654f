//! The engine, and its verbs.

use std::rc::Rc;

use cow::files::Freed;
use cow::floor::{File, Floor, LAST_INO};
use cow::{Balance, INODES, UNIT};
use runtime::Runtime;
use vfs::{
    CallReply, Credentials, Depends, FsError, FsStat, Sequence, SnapshotNumber, SnapshotUsage,
};
use vnode::{Engine, Space};

use crate::log::{Log, Staged, Totals};
use crate::room;
use crate::work::{Work, Worked};

/// The changes of one operation.
pub(crate) type Update = cow::update::Update<Log>;

/// The work of a start after a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolledForward {
    /// Batches that it found in the log.
    pub commits: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Time that it took, in milliseconds.
    pub duration_ms: u64,
}

/// The state of an open volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Totals since it was opened.
    pub totals: Totals,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// Clean ones among them.
    pub clean_segments: u64,
    /// Rows in use.
    pub rows: u64,
    /// Bytes in use.
    pub live_bytes: u64,
    /// Bytes for files and their metadata.
    pub usable_bytes: u64,
    /// Whether the cleaner works now.
    pub is_cleaning: bool,
    /// The work of the start.
    pub rolled_forward: RolledForward,
}

/// See the crate's prose.
pub struct Lfs {
    /// The part that other engines have too.
    pub(crate) floor: Floor<Log>,
    pub(crate) runtime: Runtime,
    pub(crate) log: Rc<Log>,
    /// Whether a stop leaves the device open.
    pub(crate) keeps_device: bool,
    pub(crate) rolled_forward: RolledForward,
}

impl Lfs {
    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.log.live.directories.get()
    }

    /// Its state.
    pub fn status(&self) -> Status {
        let (log, unit) = (&self.log, UNIT as u64);
        let (segments, rows) = log.rows.numbers();
        Status {
            totals: log.totals.get(),
            segment_bytes: log.shape.segment * unit,
            segments,
            clean_segments: log.rows.clean(),
            rows,
            live_bytes: log.rows.used() * unit,
            usable_bytes: room::size(&log.shape) * unit,
            is_cleaning: log.is_tending.get(),
            rolled_forward: self.rolled_forward,
        }
    }

    /// Moves what is in use out of segments until there are enough clean ones, and makes a
    /// checkpoint.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped.
    pub async fn clean(&self) -> Result<(), FsError> {
        self.log.all_durable().await?;
        self.log.checkpoint().await?;
        self.log.clean_some().await?;
        self.log.checkpoint().await
    }

    /// Sends access times out with the next checkpoint.
    fn write_touched(&self) {
        let touched = self.floor.touched.take();
        let there = touched.into_values().filter(|home| !home.is_gone());
        there.for_each(|home| self.floor.nodes.mark(&home));
        self.log.look_after();
    }
}

impl Engine for Lfs {
    cow::verbs!(Log);
    cow::snapshot_verbs!();

    type Applied = (cow::apply::Applied<Log>, Worked);

    fn space(&self, _who: &Credentials, (orphans, used): (u64, u64)) -> FsStat {
        let (log, unit) = (&self.log, UNIT as u64);
        let claimed = log.claimed.get() * log.shape.block;
        let free = room::free(&log.shape, log.in_use() + claimed, log.live.units.get());
        let total_bytes = room::size(&log.shape) * unit;
        let free_bytes = (free * unit + used).min(total_bytes);
        let total_files = (room::size(&log.shape) * INODES).min(LAST_INO);
        let free_files = total_files.saturating_sub(log.live.files.get()) + orphans;
        FsStat {
            total_bytes,
            free_bytes,
            available_bytes: free_bytes,
            total_files,
            free_files,
            available_files: free_files,
        }
    }

    fn claim(&self, blocks: u64, kind: Space) -> Result<(), FsError> {
        if blocks > 0 && !self.floor.has_room(blocks, 0, kind, true) {
            return Err(FsError::NoSpace);
        }
        self.log.claimed.set(self.log.claimed.get() + blocks);
        Ok(())
    }

    fn release(&self, blocks: u64) {
        self.log.claimed.set(self.log.claimed.get() - blocks);
    }

    async fn delete_held(
        &self,
        update: &mut Update,
        tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        self.plan_step(update, tree).await
    }

    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        self.log.pins.usage(trees, &self.log.deaths.units())
    }

    async fn reserve(&self, mut update: Update) -> Result<Update, FsError> {
        if let Some(change) = update.asked.take() {
            self.plan_change(&mut update, change).await?;
        }
        self.log.relieve(update.cost).await?;
        // While these wait, no plan gets places.
        let may_wait = !matches!(update.work, Some(Work::Pin(_) | Work::RollBack(_)));
        self.floor.reserve(update, may_wait).await
    }

    fn apply(&self, ready: Update, see: impl FnMut(&File, Sequence)) -> (Sequence, Self::Applied) {
        let mut applied = self.floor.apply_all(ready, see);
        let worked = applied.work.take().map(|work| self.work(work));
        (Sequence(applied.sequence), (applied, worked.unwrap_or_default()))
    }

    fn stage(
        &self,
        (applied, worked): Self::Applied,
        answered: Option<(CallReply, Depends)>,
    ) -> Option<Freed> {
        let now = self.runtime.clock.wall();
        let answer = answered.map(|(answered, _)| vnode::answer::write(now, &answered));
        let cow::apply::Applied { sequence, balance, edits, written, riding, .. } = applied;
        let Balance { taken, freed, died } = balance;
        self.log.stage(Staged {
            sequence,
            answer,
            taken,
            freed,
            died,
            written,
            riding,
            edits,
            worked,
        });
        if applied.may_wait {
            self.log.commit_later(sequence);
        } else {
            self.log.commit_soon();
        }
        let freed = Freed { units: 0, inos: applied.ended };
        (!freed.inos.is_empty()).then_some(freed)
    }

    async fn write_times(&self) {
        self.write_touched();
        self.log.follow();
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        self.write_touched();
        self.log.all_durable().await?;
        self.log.checkpoint().await
    }

    async fn close(&self) -> Result<(), FsError> {
        self.log.all_durable().await?;
        while self.log.is_tending.get() || self.log.is_writing.get() {
            self.log.next_release().await?;
        }
        self.log.comes_to_rest.set(true);
        self.log.checkpoint().await?;
        while self.log.is_writing.get() {
            self.log.next_release().await?;
        }
        if self.keeps_device {
            return Ok(());
        }
        self.log.device.close().await.map_err(|_| FsError::Io)
    }
}
