//! Snapshots of a volume that is served: the orders of its control channel, and deletions, which
//! run beside its clients.
//!
//! One task takes the steps of all deletions, one after the other, in the order of the snapshots;
//! each step is durable before the next begins. So clients wait for one step at most. A failed step
//! is retried later. When the volume is served again, deletions that a stop or a cut interrupted
//! continue.
//!
//! Invariants:
//! 1. At most one task takes steps.
//! 2. That task sees every requested deletion: the requester sets [`Work::again`], and the task
//!    ends only if that was not set since it last looked.
//!
//! Not asserted: 2, which is about requests that must not be overlooked.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use runtime::Runtime;
use serde::Deserialize;
use serde_json::{Value, json};
use server::control::{Act, End, Job, Jobs, Refused};
use vfs::FileSystem;

use super::verbs::{self, Told, Wrong};
use crate::words;

/// Time that a request to create a snapshot waits for the result. A longer creation becomes a job.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval between retries of a step that finds the host of the volume's disk full.
const ROOM_LOOK: Duration = Duration::from_secs(1);

/// Interval between retries of a failed step.
const PAUSE: Duration = Duration::from_secs(60);

/// Creates and deletes snapshots. See the module's documentation. A clone serves the same volume.
#[derive(Clone)]
pub(crate) struct Keeper {
    path: Rc<PathBuf>,
    files: Rc<dyn FileSystem>,
    jobs: Jobs,
    work: Rc<Work>,
    pub(super) runtime: Runtime,
}

/// State of the deletion task.
#[derive(Default)]
struct Work {
    /// Whether the task runs.
    runs: Cell<bool>,
    /// Whether a step is being taken.
    steps: Cell<bool>,
    /// Whether there may be deletions that the task has not seen.
    again: Cell<bool>,
    /// One job for each deletion, by the number of the snapshot.
    jobs: RefCell<BTreeMap<u64, Job>>,
}

/// Arguments of an order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    name: String,
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Name { .. } => Self::Senseless(wrong.to_string()),
            _ => Self::Conflict(wrong.to_string()),
        }
    }
}

impl Keeper {
    /// Creates the keeper of an open volume, which users know by this path.
    pub(crate) fn new(
        path: PathBuf,
        files: Rc<dyn FileSystem>,
        jobs: Jobs,
        runtime: &Runtime,
    ) -> Self {
        let (path, work, runtime) = (Rc::new(path), Rc::default(), runtime.clone());
        Self { path, files, jobs, work, runtime }
    }

    /// Whether the engine has snapshots.
    pub(crate) fn has_any(&self) -> bool {
        self.files.snapshots().is_some()
    }

    /// Handler of the control channel's orders.
    pub(crate) fn act(self) -> Act {
        Rc::new(move |order, said| {
            let keeper = self.clone();
            async move { keeper.carry_out(&order, said).await }.boxed_local()
        })
    }

    async fn carry_out(&self, order: &str, said: Value) -> Result<Value, Refused> {
        if order == "list" {
            return Ok(json!(verbs::list(&*self.files).await?));
        }
        let parse = |said| {
            let said: Result<Said, _> = serde_json::from_value(said);
            said.map_err(|error| Refused::Senseless(error.to_string()))
        };
        match order {
            "create" => self.create_in_time(parse(said)?.name).await,
            "delete" => {
                let told = self.delete(&parse(said)?.name).await?;
                let job = self.work.jobs.borrow().get(&told.number).map(Job::id);
                Ok(json!({ "job": job, "snapshot": told }))
            }
            "rollback" if self.has_any() => {
                let why = "it is served: stop its server before it is rolled back";
                Err(Refused::Conflict(why.to_owned()))
            }
            "rollback" => Err(Wrong::HasNone.into()),
            _ => Err(Refused::Unknown),
        }
    }

    /// Creates a snapshot, as a job if it takes long.
    async fn create_in_time(&self, name: String) -> Result<Value, Refused> {
        let (answer, answered) = oneshot::channel();
        let late: Rc<RefCell<Option<Job>>> = Rc::default();
        let (keeper, begun) = (self.clone(), late.clone());
        let work = async move {
            let made = keeper.create(&name).await;
            if let Some(job) = begun.take() {
                if let Err(wrong) = &made {
                    keeper.say(format_args!("snapshot '{name}' is not made: {wrong}"));
                }
                job.end(if made.is_ok() { End::Done } else { End::Failed });
            }
            drop(answer.send(made)); // the requester may have its reply already
        };
        self.runtime.tasks.spawn(work.boxed_local());
        match select(answered, self.runtime.clock.sleep(PATIENCE)).await {
            Either::Left((made, _)) => Ok(json!(made.map_err(|_| Wrong::Failed)??)),
            Either::Right(_) => {
                let job = self.jobs.begin("snapshot", 1, "snapshots", false);
                let id = job.id();
                late.replace(Some(job));
                Ok(json!({ "job": id }))
            }
        }
    }

    /// Creates a snapshot.
    pub(super) async fn create(&self, name: &str) -> Result<Told, Wrong> {
        verbs::create(&*self.files, name).await
    }

    /// Lists all snapshots.
    pub(super) async fn list(&self) -> Result<Vec<Told>, Wrong> {
        verbs::list(&*self.files).await
    }

    /// Hides a snapshot and starts to free its space in the background.
    pub(super) async fn delete(&self, name: &str) -> Result<Told, Wrong> {
        let told = verbs::delete(&*self.files, name).await;
        if let Ok(told) = &told {
            self.begin_job(told);
        }
        // If the host is full, the deletion may still succeed later.
        if matches!(told, Ok(_) | Err(Wrong::NoRoomBelow(_))) {
            self.go_on();
        }
        told
    }

    /// Continues all deletions that were begun, in the background.
    pub(crate) fn go_on(&self) {
        self.work.again.set(true);
        if self.work.runs.replace(true) {
            return;
        }
        let keeper = self.clone();
        let work = async move {
            while keeper.work.again.take() {
                keeper.delete_all().await;
            }
            keeper.work.runs.set(false);
        };
        self.runtime.tasks.spawn(work.boxed_local());
    }

    /// Takes steps until no deletion is left, or the volume has stopped.
    async fn delete_all(&self) {
        // Deletions with a failed step in this round, and deletions whose failure was reported.
        let (mut failed, mut are_told) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let all = match self.list().await {
                Ok(all) => all,
                Err(Wrong::NoRoomBelow(_)) => {
                    self.runtime.clock.sleep(ROOM_LOOK).await;
                    continue;
                }
                Err(_) => return self.work.jobs.borrow_mut().clear(), // all of them have failed
            };
            let deleting = || all.iter().filter(|told| told.is_deleting());
            let next = deleting().find(|told| !failed.contains(&told.number));
            if next.is_none() && deleting().next().is_some() {
                self.pause().await;
                failed.clear();
                continue;
            }
            let Some(one) = next else {
                // Deletions that were complete before their jobs began are done, too.
                let ended = self.work.jobs.take();
                return ended.into_values().for_each(|job| job.end(End::Done));
            };
            deleting()
                .filter(|one| !are_told.contains(&one.number))
                .for_each(|one| self.begin_job(one));
            assert!(!self.work.steps.replace(true), "invariant 1: two tasks take steps");
            let step = verbs::delete_step(&*self.files, one.number).await;
            self.work.steps.set(false);
            if step.is_ok() {
                are_told.remove(&one.number);
            }
            match step {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(job) = self.work.jobs.borrow_mut().remove(&one.number) {
                        let (_, total) = one.progress();
                        job.advance(total, total);
                        job.end(End::Done);
                    }
                }
                Err(Wrong::NoRoomBelow(_)) => self.runtime.clock.sleep(ROOM_LOOK).await,
                Err(wrong) => {
                    // Other deletions come first: a failed one must not block them.
                    failed.insert(one.number);
                    are_told.insert(one.number);
                    self.fail_job(one, &wrong);
                }
            }
        }
    }

    /// Waits before failed deletions are retried, unless another deletion is requested.
    async fn pause(&self) {
        self.work.again.set(false);
        for _ in 0..PAUSE.as_secs() {
            self.runtime.clock.sleep(Duration::from_secs(1)).await;
            if self.work.again.get() {
                return;
            }
        }
    }

    /// Ends the job of a deletion with a failure. Further steps will follow.
    fn fail_job(&self, one: &Told, wrong: &Wrong) {
        let failed = self.work.jobs.borrow_mut().remove(&one.number);
        if let Some(job) = failed {
            self.say(format_args!(
                "snapshot '{}' is not deleted wholly yet: {wrong}; that is tried again every \
                 minute, and when the volume is served again",
                one.name
            ));
            job.end(End::Failed);
        }
    }

    /// Starts or updates the job of a deletion.
    fn begin_job(&self, told: &Told) {
        let (done, total) = told.progress();
        let mut jobs = self.work.jobs.borrow_mut();
        let begin = || self.jobs.begin("snapshot deletion", total, "bytes", false);
        jobs.entry(told.number).or_insert_with(begin).advance(done, total);
    }

    pub(super) fn say(&self, sentence: impl std::fmt::Display) {
        words::say(format_args!("{}: {sentence}", self.path.display()));
    }
}
