//! Long work of a volume, such as a check or a rebuild: its progress, and its cancellation.
//!
//! The work holds a [`Job`] and advances counters, which costs next to nothing; requests copy them.
//! The book is locked only for moments, and never across a wait.
//!
//! Invariants:
//! 1. A job that has ended no longer changes.
//! 2. The book keeps at most [`KEPT`] ended jobs of a kind, the newest. Even if many of one kind
//!    end at once, jobs of other kinds are kept.
//!
//! Not asserted: 1, which taking the [`Job`] ensures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

/// Maximum number of ended jobs of a kind that are remembered.
const KEPT: usize = 32;

/// The jobs of a volume. A clone shares the same book.
#[derive(Clone, Default)]
pub struct Jobs(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    last: u64,
    running: BTreeMap<u64, Arc<Running>>,
    ended: BTreeMap<u64, View>,
}

struct Running {
    kind: &'static str,
    unit: &'static str,
    done: AtomicU64,
    total: AtomicU64,
    can_cancel: bool,
    is_cancelled: AtomicBool,
}

/// Outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The job is complete.
    Done,
    /// It was cancelled.
    Cancelled,
    /// The job could not continue.
    Failed,
}

/// Description of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct View {
    pub(super) id: u64,
    kind: &'static str,
    done: u64,
    total: u64,
    unit: &'static str,
    pub(super) state: State,
    can_cancel: bool,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Running,
    /// The job was cancelled, and is about to end.
    Cancelling,
    Done,
    Cancelled,
    Failed,
}

/// Reason why a job cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCancelled {
    Unknown,
    Ended,
    Unsafe,
}

/// A job as its work holds it. Dropping it without [`Job::end`] means that the job failed.
pub struct Job {
    jobs: Jobs,
    id: u64,
    running: Arc<Running>,
}

impl Jobs {
    /// Starts a job of this kind on `total` of a `unit`. `can_cancel` says that its work checks
    /// [`Job::is_cancelled`] at points where it can end without harm.
    pub fn begin(
        &self,
        kind: &'static str,
        total: u64,
        unit: &'static str,
        can_cancel: bool,
    ) -> Job {
        let running = Arc::new(Running {
            kind,
            unit,
            done: AtomicU64::new(0),
            total: AtomicU64::new(total),
            can_cancel,
            is_cancelled: AtomicBool::new(false),
        });
        let mut book = self.book();
        book.last += 1;
        let id = book.last;
        book.running.insert(id, running.clone());
        drop(book);
        Job { jobs: self.clone(), id, running }
    }

    /// All known jobs as JSON, which is the answer to `GET /v1/jobs`.
    pub fn told(&self) -> Value {
        json!(self.list())
    }

    /// All known jobs, in the order in which they began.
    pub(super) fn list(&self) -> Vec<View> {
        let book = self.book();
        let running = book.running.iter().map(|(&id, running)| running.view(id));
        let mut all: Vec<View> = book.ended.values().cloned().chain(running).collect();
        all.sort_by_key(|view| view.id);
        all
    }

    /// Finds a job.
    pub(super) fn find(&self, id: u64) -> Option<View> {
        let book = self.book();
        let ended = || book.ended.get(&id).cloned();
        book.running.get(&id).map(|running| running.view(id)).or_else(ended)
    }

    /// Cancels a job.
    pub(super) fn cancel(&self, id: u64) -> Result<View, NotCancelled> {
        let book = self.book();
        let Some(running) = book.running.get(&id) else {
            let is_known = book.ended.contains_key(&id);
            return Err(if is_known { NotCancelled::Ended } else { NotCancelled::Unknown });
        };
        if !running.can_cancel {
            return Err(NotCancelled::Unsafe);
        }
        running.is_cancelled.store(true, Ordering::Relaxed);
        Ok(running.view(id))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, id: u64, end: End) {
        let mut book = self.book();
        let Some(running) = book.running.remove(&id) else { return };
        let state = match end {
            End::Done => State::Done,
            End::Cancelled => State::Cancelled,
            End::Failed => State::Failed,
        };
        book.ended.insert(id, View { state, ..running.view(id) });
        let of_kind = book.ended.values().filter(|view| view.kind == running.kind);
        let of_kind: Vec<u64> = of_kind.map(|view| view.id).collect();
        if of_kind.len() > KEPT {
            book.ended.remove(&of_kind[0]);
        }
        assert!(of_kind.len() <= KEPT + 1, "invariant 2: {} have ended", of_kind.len());
    }
}

impl Running {
    fn view(&self, id: u64) -> View {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        View {
            id,
            kind: self.kind,
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            unit: self.unit,
            state: if is_cancelled { State::Cancelling } else { State::Running },
            can_cancel: self.can_cancel,
        }
    }
}

impl Job {
    /// Number of the job.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Updates the progress.
    pub fn advance(&self, done: u64, total: u64) {
        self.running.done.store(done, Ordering::Relaxed);
        self.running.total.store(total, Ordering::Relaxed);
    }

    /// Whether the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.running.is_cancelled.load(Ordering::Relaxed)
    }

    /// Ends the job.
    pub fn end(self, end: End) {
        self.jobs.end(self.id, end);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.jobs.end(self.id, End::Failed); // no effect if it has ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_from_its_begin_to_its_end() {
        let jobs = Jobs::default();
        let job = jobs.begin("check", 10, "groups", true);
        job.advance(3, 12);
        let view = jobs.find(1).expect("it runs");
        assert_eq!((view.done, view.total, view.state), (3, 12, State::Running));
        assert_eq!(jobs.cancel(1).map(|view| view.state), Ok(State::Cancelling));
        assert!(job.is_cancelled());
        job.end(End::Cancelled);
        assert_eq!(jobs.find(1).map(|view| view.state), Some(State::Cancelled));
        assert_eq!(jobs.cancel(1), Err(NotCancelled::Ended));
        assert_eq!(jobs.cancel(2), Err(NotCancelled::Unknown));
    }

    #[test]
    fn work_that_is_dropped_has_failed_and_some_must_not_be_cancelled() {
        let jobs = Jobs::default();
        let job = jobs.begin("rebuild", 1, "blocks", false);
        assert_eq!(jobs.cancel(1), Err(NotCancelled::Unsafe));
        assert!(!job.is_cancelled());
        drop(job);
        assert_eq!(jobs.find(1).map(|view| view.state), Some(State::Failed));
    }

    #[test]
    fn the_oldest_that_have_ended_are_forgotten() {
        let jobs = Jobs::default();
        let _first = jobs.begin("check", 1, "groups", false);
        for _ in 0..KEPT + 2 {
            jobs.begin("check", 1, "groups", false).end(End::Done);
        }
        let ids = || jobs.list().iter().map(|view| view.id).collect::<Vec<u64>>();
        let expected: Vec<u64> = [1].into_iter().chain(4..KEPT as u64 + 4).collect();
        assert_eq!(ids(), expected, "the one that runs is kept");
        for _ in 0..KEPT + 1 {
            jobs.begin("deletion", 1, "bytes", false).end(End::Done);
        }
        assert!(ids().starts_with(&expected), "those of another kind are kept");
        assert_eq!(ids().len(), expected.len() + KEPT);
    }
}
