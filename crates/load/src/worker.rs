//! A worker makes calls of a workload, at most one at a time.

use std::cell::RefCell;
use std::rc::Rc;

use nfs::nfs3::{Procedure, Request, Status};
use runtime::{Instant, Runtime};

use crate::chance::Chance;
use crate::tally::Tally;
use client::{CallError, Client};

/// A call failed; the failure is recorded, and the step of the workload is over.
#[derive(Debug)]
pub struct Noted {
    /// The connection is no longer usable.
    pub is_broken: bool,
}

/// The result of a step of a workload: `Err` when a call of it failed, which is recorded already.
pub type Step<T = ()> = Result<T, Noted>;

/// A worker.
pub struct Worker {
    /// The worker's number among all.
    pub index: usize,
    /// The number of its connection.
    pub connection: usize,
    /// A random source of its own.
    pub chance: Chance,
    client: Client,
    runtime: Runtime,
    tally: Rc<RefCell<Tally>>,
    /// A counter for workloads with turns of two kinds.
    times_done: u64,
    /// The due time of the step that begins, until its first call has been recorded.
    due: Option<Instant>,
}

impl Worker {
    /// The `index`th worker, over the connection of this number.
    pub(crate) fn new(
        (index, connection): (usize, usize),
        client: Client,
        runtime: Runtime,
        tally: Rc<RefCell<Tally>>,
        seed: u64,
    ) -> Self {
        let chance = Chance::new(seed, index as u64 + 1);
        Self { index, connection, chance, client, runtime, tally, times_done: 0, due: None }
    }

    /// Sets the due time of the next step: its first call is measured from then, not from when the
    /// worker came to it.
    pub(crate) fn set_due(&mut self, due: Option<Instant>) {
        self.due = due;
    }

    /// The number of calls of [`Worker::done_once_more`].
    pub fn times_done(&self) -> u64 {
        self.times_done
    }

    /// Increments the worker's counter for the workload.
    pub fn done_once_more(&mut self) {
        self.times_done += 1;
    }

    /// Makes a call, and records its result.
    ///
    /// # Errors
    /// [`Noted`].
    pub async fn call<R: Request>(&mut self, arguments: &R) -> Step<R::Ok> {
        self.call_or(arguments, None).await?.ok_or(Noted { is_broken: false })
    }

    /// The same for a call that may be refused with `expected`, which is then no error.
    ///
    /// # Errors
    /// [`Noted`].
    pub async fn call_or<R: Request>(
        &mut self,
        arguments: &R,
        expected: Option<Status>,
    ) -> Step<Option<R::Ok>> {
        let start = self.start();
        let result = self.client.call(arguments).await;
        let result = match result {
            Err(CallError::Status(status)) if Some(status) == expected => Ok(None),
            other => other.map(Some),
        };
        self.note(R::PROCEDURE, start, result)
    }

    /// Calls NULL.
    ///
    /// # Errors
    /// [`Noted`].
    pub async fn null(&mut self) -> Step {
        let start = self.start();
        let result = self.client.null().await;
        self.note(Procedure::Null, start, result)
    }

    /// Records an answer that cannot be right.
    pub fn wrong(&mut self, procedure: Procedure, what: &'static str) -> Noted {
        let what = CallError::Wrong(what).to_string();
        self.tally.borrow_mut().error(procedure.name(), what);
        Noted { is_broken: false }
    }

    /// Records answered WRITEs whose data no COMMIT has made durable.
    pub fn lost(&mut self, writes: u64) {
        if writes > 0 {
            let what = "answered, but its COMMIT was refused: not durable".to_owned();
            self.tally.borrow_mut().errors_alike(Procedure::Write.name(), what, writes);
        }
    }

    /// Records payload.
    pub fn moved(&mut self, bytes: u64) {
        self.tally.borrow_mut().bytes += bytes;
    }

    /// The start of the step, or its due time. To be read before its first call.
    pub fn step_start(&self) -> Instant {
        self.due.unwrap_or_else(|| self.runtime.clock.now())
    }

    /// Records a step of several calls.
    pub fn step_done(&mut self, start: Instant) {
        let latency = self.runtime.clock.now().since(start);
        self.tally.borrow_mut().step(latency);
    }

    fn start(&mut self) -> Instant {
        self.due.take().unwrap_or_else(|| self.runtime.clock.now())
    }

    fn note<T>(
        &mut self,
        procedure: Procedure,
        start: Instant,
        result: Result<T, CallError>,
    ) -> Step<T> {
        let latency = self.runtime.clock.now().since(start);
        let tally = &mut *self.tally.borrow_mut();
        match result {
            Ok(ok) => {
                tally.call(procedure, latency);
                Ok(ok)
            }
            Err(error) => {
                tally.error(procedure.name(), error.to_string());
                Err(Noted { is_broken: matches!(error, CallError::Broken(_)) })
            }
        }
    }
}
