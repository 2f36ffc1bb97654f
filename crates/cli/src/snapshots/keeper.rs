//! The snapshots of a volume that is served: what its control channel orders, and deletions, which
//! go on beside its clients.
//!
//! One task takes the steps of all deletions, one after the other, in the order of the snapshots;
//! each step is durable before the next begins. So clients wait for a step at most. A step that
//! fails is tried again later. What a stop or a cut left of a deletion is gone on with when the
//! volume is served again.
//!
//! Invariants:
//! 1. One task at most takes steps.
//! 2. A deletion that somebody asks for is seen by that task: who asks sets [`Work::again`], and
//!    the task ends only if it is not set since it last looked.
//!
//! Not asserted: 2, which is about what is not overlooked.

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

/// How long who asks for a snapshot waits for it. One that takes longer becomes a job.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a step is tried that finds no room below the volume's disk.
const ROOM_LOOK: Duration = Duration::from_secs(1);

/// How often one is tried that fails.
const PAUSE: Duration = Duration::from_secs(60);

/// See the module's prose. A clone is of the same volume.
#[derive(Clone)]
pub(crate) struct Keeper {
    path: Rc<PathBuf>,
    files: Rc<dyn FileSystem>,
    jobs: Jobs,
    work: Rc<Work>,
    pub(super) runtime: Runtime,
}

/// What the task that deletes has to do.
#[derive(Default)]
struct Work {
    /// The task runs.
    runs: Cell<bool>,
    /// A step is being taken.
    steps: Cell<bool>,
    /// There may be something that it has not seen.
    again: Cell<bool>,
    /// A job for each deletion, by the number of the snapshot.
    jobs: RefCell<BTreeMap<u64, Job>>,
}

/// What is said with an order.
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
    /// For a volume that is open, and that people know by this path.
    pub(crate) fn new(
        path: PathBuf,
        files: Rc<dyn FileSystem>,
        jobs: Jobs,
        runtime: &Runtime,
    ) -> Self {
        let (path, work, runtime) = (Rc::new(path), Rc::default(), runtime.clone());
        Self { path, files, jobs, work, runtime }
    }

    /// Whether there can be any.
    pub(crate) fn has_any(&self) -> bool {
        self.files.snapshots().is_some()
    }

    /// What a control channel orders.
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

    /// Makes a snapshot, as a job if it takes long.
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
            drop(answer.send(made)); // who asked may have its answer
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

    /// Makes a snapshot.
    pub(super) async fn create(&self, name: &str) -> Result<Told, Wrong> {
        verbs::create(&*self.files, name).await
    }

    /// All that there are.
    pub(super) async fn list(&self) -> Result<Vec<Told>, Wrong> {
        verbs::list(&*self.files).await
    }

    /// Has a snapshot found no more. What it holds becomes free by and by.
    pub(super) async fn delete(&self, name: &str) -> Result<Told, Wrong> {
        let told = verbs::delete(&*self.files, name).await;
        if let Ok(told) = &told {
            self.begin_job(told);
        }
        // If there is no room below, it may be deleted later.
        if matches!(told, Ok(_) | Err(Wrong::NoRoomBelow(_))) {
            self.go_on();
        }
        told
    }

    /// Goes on with all deletions that were begun, beside everything else.
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

    /// Takes steps until nothing is being deleted any more, or the volume has stopped.
    async fn delete_all(&self) {
        // Those of which a step failed since all were tried, and those of which that was told.
        let (mut failed, mut are_told) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let all = match self.list().await {
                Ok(all) => all,
                Err(Wrong::NoRoomBelow(_)) => {
                    self.runtime.clock.sleep(ROOM_LOOK).await;
                    continue;
                }
                Err(_) => return self.work.jobs.borrow_mut().clear(), // each has failed
            };
            let deleting = || all.iter().filter(|told| told.is_deleting());
            let next = deleting().find(|told| !failed.contains(&told.number));
            if next.is_none() && deleting().next().is_some() {
                self.pause().await;
                failed.clear();
                continue;
            }
            let Some(one) = next else {
                // What was over before its job began is done, too.
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
                    // Others come first then: what fails is in nobody's way.
                    failed.insert(one.number);
                    are_told.insert(one.number);
                    self.fail_job(one, &wrong);
                }
            }
        }
    }

    /// Waits before deletions that failed are tried again, unless another is asked for.
    async fn pause(&self) {
        self.work.again.set(false);
        for _ in 0..PAUSE.as_secs() {
            self.runtime.clock.sleep(Duration::from_secs(1)).await;
            if self.work.again.get() {
                return;
            }
        }
    }

    /// Tells who waits for a deletion that a step of it has failed. There will be others.
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

    /// Has the job of a deletion tell how far it is.
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
