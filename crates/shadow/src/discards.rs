//! Discarding unused places on a set of disks: a stripe that is written as a whole needs neither
//! its old content nor the set's log, which would hold all of it twice.
//!
//! Streams discard their own places just before they write them. Small updates do not: they fill a
//! stripe in several turns, and the log of a set takes each of these with fewer calls of its
//! members than it takes to note that a stripe is empty, and that it no longer is. A device that is
//! not a set gets no discards.
//!
//! Invariants:
//! 1. A discarded unit was free: no superblock that an opening may choose needs it; a reader that
//!    is on its way there rejects what it finds, which has another checksum; and the task that
//!    discards it is the only one to write there, afterwards.
//!
//! Not asserted: 1, which cuts test on a disk that makes garbage of discarded bytes.

use cow::{Run, UNIT, coalesced};
use futures::FutureExt;
use futures::future::join_all;

use crate::commit::Commits;

impl Commits {
    /// Discards these places. The caller writes them afterwards.
    pub(crate) async fn discard(&self, places: impl Iterator<Item = Run>) {
        let bytes = |run: Run| run.start * UNIT as u64..run.end() * UNIT as u64;
        join_all(places.map(|run| self.path.vacate(bytes(run)))).await;
    }

    /// For a planted bug: discards the runs that an update frees before it is durable.
    pub(crate) fn discard_early(&self, freed: &[Run]) {
        let (path, freed) = (self.path.clone(), coalesced(freed.to_vec()));
        let task = async move {
            for run in freed {
                path.vacate(run.start * UNIT as u64..run.end() * UNIT as u64).await;
            }
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }
}
