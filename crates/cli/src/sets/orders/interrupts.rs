//! Pause and cancellation of rebuilds and scrubs: by an order, or through their jobs.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use raid::Work;
use serde::{Deserialize, Serialize};
use server::control::{Job, Refused};

use super::{Orders, refusal};

/// Interval at which work checks whether its job was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Answer while a disk is opened that may be filled then.
const LOOKED_AT: &str = "a disk is being looked at, and nothing is filled yet: the order about it \
                         ends, or the disk is filled, within half a minute; cancel it then";

/// The work to cancel; any work under way, if none is named.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sets) struct Cancelled {
    pub(in crate::sets) work: Option<WorkName>,
}

/// Long work, as a person calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(in crate::sets) enum WorkName {
    /// A rebuild: by replace, online, a spare, or a returning disk
    Rebuild,
    /// A scrub
    Scrub,
}

impl Orders {
    /// Cancels work that is under way.
    pub(super) fn cancel(&self, Cancelled { work }: Cancelled) -> Result<(), Refused> {
        let is_filling = self.open.set.is_filling();
        if self.is_busy.get() && !is_filling && work != Some(WorkName::Scrub) {
            return Err(refusal(LOOKED_AT));
        }
        let work = match (work, is_filling, self.is_scrubbing.get()) {
            (Some(WorkName::Rebuild), true, _) | (None, true, false) => Work::Fill,
            (Some(WorkName::Scrub), _, true) | (None, false, true) => Work::Scrub,
            (None, true, true) => {
                return Err(refusal("a rebuild and a scrub are under way: say which"));
            }
            (Some(WorkName::Rebuild), false, _) => {
                return Err(refusal("no disk is being filled"));
            }
            (Some(WorkName::Scrub), _, false) => return Err(refusal("no scrub is under way")),
            (None, false, false) => {
                return Err(refusal("neither a rebuild nor a scrub is under way"));
            }
        };
        self.open.set.cancel(work);
        Ok(())
    }

    /// Pauses or resumes work.
    pub(super) fn pause(&self, is_paused: bool) -> Result<(), Refused> {
        match (is_paused, self.open.set.status().is_paused) {
            (true, true) => Err(refusal("it is paused already")),
            (false, false) => Err(refusal("it is not paused")),
            _ => {
                self.open.set.pause(is_paused);
                Ok(())
            }
        }
    }

    /// Runs work as a job that may be cancelled.
    pub(super) async fn cancellable<T>(
        &self,
        job: &Job,
        work: Work,
        doing: impl Future<Output = T>,
    ) -> T {
        let mut doing = pin!(doing);
        loop {
            let pause = pin!(self.runtime.clock.sleep(POLL_INTERVAL));
            if let Either::Left((done, _)) = select(doing.as_mut(), pause).await {
                return done;
            }
            if job.is_cancelled() {
                self.open.set.cancel(work);
            }
        }
    }
}
