//! Telling a set of disks where nothing is needed: a stripe that is written as a whole needs
//! neither what stands there nor the set's log, which would have all of it twice.
//!
//! What streams in says so of its own places just before it is written. Small updates do not: they
//! fill a stripe in several turns, and the log of a set takes each with fewer calls of its members
//! than it takes to note that a stripe is empty, and that it no longer is. A device that is no set
//! is told nothing.
//!
//! Invariants:
//! 1. What is discarded was free: no superblock that an opening may choose needs it, no reader that
//!    is on its way there believes what it finds, since that has another checksum, and who discards
//!    it is the only one to write there, afterwards.
//!
//! Not asserted: 1, of which cuts tell on a disk that makes anything of what is discarded.

use futures::FutureExt;
use futures::future::join_all;

use crate::commit::Commits;
use crate::format::UNIT;
use crate::format::record::Run;
use crate::runs::coalesced;

impl Commits {
    /// Nothing is needed of these places until they are written, which is to begin afterwards.
    pub(crate) async fn discard(&self, places: impl Iterator<Item = Run>) {
        let bytes = |run: Run| run.start * UNIT as u64..run.end() * UNIT as u64;
        join_all(places.map(|run| self.path.vacate(bytes(run)))).await;
    }

    /// For a bug that tests plant: discards what an update frees before that is durable.
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
