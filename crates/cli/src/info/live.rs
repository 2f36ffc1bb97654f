//! Statistics that only the thread that serves a volume has: counters of the engine, read at once.
//!
//! An engine with more statistics adds a part of its own here, which is null for other engines.

use std::rc::Rc;

use designs::{
    LfsStatus, LogStatistics, OpenEngine, Opened, ReclaimState, Reclaimed, ShadowStatus,
    SoftUpdatesCounts,
};
use serde::{Deserialize, Serialize};
use server::control;
use vfs::FsStat;

use crate::front;
use crate::losses::KnownLosses;
use crate::scrub::{Scrub, Scrubs};
use crate::sets::Status;
use crate::stack::OpenSet;

/// Statistics of a served volume. The names are those of the JSON object.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Live {
    pub(super) durability: String,
    #[serde(skip)]
    pub(super) total_bytes: u64,
    #[serde(skip)]
    pub(super) log: Option<LogStatistics>,
    pub(super) free_bytes: u64,
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) free_inodes: u64,
    pub(super) softdep: Option<Softdep>,
    pub(super) shadow: Option<Shadow>,
    #[serde(default)]
    pub(super) lfs: Option<Lfs>,
    pub(super) reclaim: Option<Reclaim>,
    pub(super) raid: Option<Status>,
    pub(super) nvram: Option<front::Status>,
    pub(super) scrub: Option<Scrub>,
    #[serde(skip)]
    pub(super) losses: KnownLosses,
}

/// Statistics of soft updates: [`SoftUpdatesCounts`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Softdep {
    pub(super) sync_writes: u64,
    pub(super) async_writes: u64,
    pub(super) flushes: u64,
    pub(super) rollbacks: u64,
    pub(super) cancelled: u64,
    pub(super) pending: u64,
    pub(super) pending_bytes: u64,
    pub(super) oldest_ms: u64,
    pub(super) waits: u64,
}

/// Statistics of engine `shadow`: [`ShadowStatus`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shadow {
    pub(super) update: u64,
    pub(super) calls_per_update: f64,
    pub(super) barriers: u64,
    pub(super) split_updates: u64,
    pub(super) metadata_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) space_log_bytes: u64,
    pub(super) free_runs: u64,
    pub(super) compacted_bytes: u64,
    pub(super) snapshots: u64,
    pub(super) renewed_map_blocks: u64,
    pub(super) forgotten_answer_blocks: u64,
    pub(super) abandoned_blocks: u64,
}

impl From<ShadowStatus> for Shadow {
    fn from(status: ShadowStatus) -> Self {
        Self {
            update: status.update,
            calls_per_update: status.calls_per_update,
            barriers: status.barriers,
            split_updates: status.split_updates,
            metadata_bytes: status.metadata_bytes,
            data_bytes: status.data_bytes,
            space_log_bytes: status.space_log_bytes,
            free_runs: status.free_runs,
            compacted_bytes: status.compacted_bytes,
            snapshots: status.snapshots,
            renewed_map_blocks: status.renewed.map_blocks,
            forgotten_answer_blocks: status.renewed.answer_blocks,
            abandoned_blocks: status.renewed.given_up,
        }
    }
}

/// Statistics of engine `lfs`: [`LfsStatus`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lfs {
    pub(super) calls_per_commit: f64,
    pub(super) segment_bytes: u64,
    pub(super) segments: u64,
    pub(super) clean_segments: u64,
    pub(super) rows: u64,
    pub(super) live_bytes: u64,
    pub(super) usable_bytes: u64,
    pub(super) new_bytes: u64,
    pub(super) written_bytes: u64,
    /// `idle` or `ahead`.
    pub(super) cleaner: String,
    pub(super) cleaned_segments: u64,
    pub(super) moved_bytes: u64,
    pub(super) checkpoints: u64,
    pub(super) roll_forward: RollForward,
}

/// Recovery of engine `lfs` at the last start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RollForward {
    pub(super) commits: u64,
    pub(super) read_bytes: u64,
    pub(super) duration_ms: u64,
}

impl From<LfsStatus> for Lfs {
    fn from(status: LfsStatus) -> Self {
        let (totals, start) = (status.totals, status.rolled_forward);
        let cleaner = if status.is_cleaning { "ahead" } else { "idle" };
        Self {
            calls_per_commit: totals.changes as f64 / totals.commits.max(1) as f64,
            segment_bytes: status.segment_bytes,
            segments: status.segments,
            clean_segments: status.clean_segments,
            rows: status.rows,
            live_bytes: status.live_bytes,
            usable_bytes: status.usable_bytes,
            new_bytes: totals.new_bytes,
            written_bytes: totals.written_bytes,
            cleaner: cleaner.to_owned(),
            cleaned_segments: totals.cleaned_segments,
            moved_bytes: totals.moved_bytes,
            checkpoints: totals.checkpoints,
            roll_forward: RollForward {
                commits: start.commits,
                read_bytes: start.read_bytes,
                duration_ms: start.duration_ms,
            },
        }
    }
}

/// Progress of reclaiming the space and inodes that a crash has leaked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reclaim {
    /// `running`, `done`, or `failed`.
    pub(super) state: String,
    pub(super) scanned: u64,
    pub(super) total: u64,
    pub(super) fragments: u64,
    pub(super) inodes: u64,
    pub(super) links: u64,
}

impl From<SoftUpdatesCounts> for Softdep {
    fn from(counts: SoftUpdatesCounts) -> Self {
        Self {
            sync_writes: counts.sync_writes,
            async_writes: counts.async_writes,
            flushes: counts.flushes,
            rollbacks: counts.rollbacks,
            cancelled: counts.cancelled,
            pending: counts.pending,
            pending_bytes: counts.pending_bytes,
            oldest_ms: counts.oldest_ms,
            waits: counts.waits,
        }
    }
}

impl From<Reclaimed> for Reclaim {
    fn from(reclaimed: Reclaimed) -> Self {
        let state = match reclaimed.state {
            ReclaimState::Running => "running",
            ReclaimState::Done => "done",
            ReclaimState::Failed => "failed",
        };
        Self {
            state: state.to_owned(),
            scanned: reclaimed.scanned,
            total: reclaimed.total,
            fragments: reclaimed.fragments,
            inodes: reclaimed.inodes,
            links: reclaimed.links,
        }
    }
}

impl Live {
    fn of(engine: &dyn OpenEngine, durability: &str) -> Self {
        let FsStat { total_bytes, free_bytes, total_files, free_files, .. } = engine.space();
        Self {
            durability: durability.to_owned(),
            total_bytes,
            log: engine.log_statistics(),
            free_bytes,
            files: total_files.saturating_sub(free_files),
            directories: engine.directories(),
            free_inodes: free_files,
            softdep: engine.soft_updates().map(Softdep::from),
            shadow: engine.shadow().map(Shadow::from),
            lfs: engine.lfs().map(Lfs::from),
            reclaim: engine.reclaimed().map(Reclaim::from),
            raid: None,
            nvram: None,
            scrub: None,
            losses: KnownLosses::default(),
        }
    }
}

/// Returns the counters of an open volume, of its underlying set, and of its last scrub. Once the
/// volume is closed they are absent.
pub(crate) fn live_of(opened: &Opened, set: Option<OpenSet>, scrubs: &Scrubs) -> control::Live {
    let (engine, seen, book) = (Rc::downgrade(&opened.engine), scrubs.seen(), scrubs.losses());
    Rc::new(move |durability| {
        let raid = set.as_ref().map(Status::of);
        let front = set.as_ref().and_then(|set| set.front.as_deref());
        let nvram = front.map(front::Status::of);
        let (scrub, losses) = (seen.borrow().clone(), book.known());
        let live = engine.upgrade();
        let live = live.map(|it| Live { raid, nvram, scrub, losses, ..Live::of(&*it, durability) });
        Box::new(live.unwrap_or_default())
    })
}
