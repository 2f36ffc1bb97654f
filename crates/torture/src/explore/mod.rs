//! The explorer: runs a workload once, and cuts the power at every event of its trace, with every
//! loss worth trying.
//!
//! At each position of the trace each write that is not durable may be lost or torn;
//! [`sim::Choice::explore`] enumerates the combinations. Equal images are recovered once, whichever
//! workload they come from. The recovered state is compared with the history of the workload.
//!
//! # Layers
//! * [`op`], [`model`]: the operations, and their correct effect.
//! * [`run`]: runs a workload once, through the protocol ([`server`], [`witness`], [`caller`]) and,
//!   for snapshots, as an administrator ([`control`]), and records it; `look_back` makes further
//!   calls after all are answered.
//! * [`design`], [`disks`]: the explored engine, and its disks, which are cut together.
//! * [`recover`]: recovers an image and reads it ([`driver`], [`ram`], [`law`]), once for all
//!   images that it cannot tell apart (`alike`).
//! * [`judge`]: whether the result is allowed; `loose` does that where no order is promised.
//! * [`retry`]: a client that reconnects and makes its calls again.
//! * [`nested`]: cuts the recovery as well, and the one after that.
//! * [`ways`]: every other operation on a volume, cut and followed by another.
//! * [`case`], [`shrink`]: a violation as a line that reproduces it, as small as possible.

mod alike;
pub mod caller;
pub mod case;
pub mod control;
pub mod design;
pub mod device;
pub mod disks;
pub mod driver;
pub mod judge;
pub mod law;
mod look_back;
mod loose;
pub mod model;
pub mod nested;
mod noted;
pub mod op;
pub mod ram;
pub mod recover;
pub mod retry;
#[cfg(test)]
mod rot;
pub mod run;
pub mod server;
pub mod shrink;
pub mod ways;
pub mod witness;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sim::{Executor, Prng};
use vfs::ObjectId;

use alike::Alike;
use case::{Case, Step, Violation};
use design::Design;
use disks::{Images, Recording};
use driver::Driver;
use judge::{History, Moment};
use model::Shown;
use nested::{Further, Reach, Way};
use op::{BEFORE, HELD, Op, REWRITTEN, held_bytes};
use recover::{Recovered, recover_noting, told_apart};
use retry::retry;
use run::{Run, run};

/// The work done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads that were run.
    pub workloads: u64,
    /// Cuts of the power, with their losses.
    pub states: u64,
    /// Different images among them.
    pub images: u64,
    /// Violations found.
    pub violations: u64,
}

impl Counts {
    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            workloads: self.workloads + other.workloads,
            states: self.states + other.states,
            images: self.images + other.images,
            violations: self.violations + other.violations,
        }
    }
}

/// The order and overlap of the operations of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    /// Each after the answer to the one before; a clean stop at the end.
    OneByOne,
    /// Each after the one before was done, without waiting for its answer.
    Together,
    /// All concurrently.
    AtOnce,
    /// One by one, and the disk fails under the last: the only check is that the client learns of
    /// it.
    Failing,
    /// One by one, then a clean stop, a rollback of the volume to its newest snapshot, and a stop:
    /// these are cut.
    RolledBack,
}

impl Style {
    /// All styles.
    pub const ALL: &[Self] =
        &[Self::OneByOne, Self::Together, Self::AtOnce, Self::Failing, Self::RolledBack];
}

/// A client reconnects to one image in this many: 7, so that the images after each flush, mostly a
/// power of two, take turns.
const RETRIES_EVERY: usize = 7;

/// Number of recent outcomes with which a new one is compared.
const RECENT: usize = 64;

/// Explores workloads that begin with the same image.
pub struct Explorer {
    design: Design,
    base: Images,
    /// The files of the base, by their paths.
    before: Before,
    outcomes: BTreeMap<u128, Rc<Known>>,
    /// The same results, by the pages that were read.
    alike: Alike<Rc<Known>>,
    /// The different outcomes among them.
    distinct: Vec<Outcome>,
    /// The outcomes that images can reach when this many recoveries are cut.
    reached: BTreeMap<(u128, usize), Rc<Reach>>,
    /// The images whose recoveries were recorded, and counted.
    recorded: BTreeSet<u128>,
    /// How many recoveries are cut, one after the other.
    depth: usize,
    /// The selection of recoveries to cut after the first.
    further: Further,
    /// Number of recoveries of each kind after a cut one.
    kinds: BTreeMap<u64, usize>,
    /// Mixtures of sectors tried for the pending writes at the end of each flush.
    mixtures: usize,
    /// Whether to continue after the first violation of a workload.
    goes_on: bool,
    /// Whether the time is over: the workload in progress is abandoned.
    is_over: Box<dyn Fn() -> bool>,
    /// The work done so far.
    pub counts: Counts,
    /// The first violation of each workload.
    pub violations: Vec<Violation>,
}

/// Handles that clients hold from before a workload, by path.
pub type Before = BTreeMap<String, ObjectId>;

/// The result of recovering an image.
type Outcome = Rc<Result<Recovered, String>>;

/// The result of all images that recovery cannot tell apart.
struct Known {
    outcome: Outcome,
    /// A hash of the writes of their recovery, once it was recorded.
    kind: Cell<Option<u64>>,
}

/// The judged images and outcomes of a workload.
#[derive(Default)]
struct Judged {
    /// Images at a moment.
    seen: BTreeSet<(u128, Moment)>,
    /// Allowed outcomes, by their address, which the cache keeps alive.
    allowed: BTreeSet<(*const Result<Recovered, String>, Moment)>,
}

impl Explorer {
    /// An explorer with the files that exist before every workload; no recovery is cut.
    pub fn new(design: Design) -> Self {
        let (base, before) = base(design);
        Self {
            design,
            base,
            before,
            outcomes: BTreeMap::new(),
            alike: Alike::default(),
            distinct: Vec::new(),
            reached: BTreeMap::new(),
            recorded: BTreeSet::new(),
            depth: 0,
            further: Further::All,
            kinds: BTreeMap::new(),
            mixtures: 0,
            goes_on: false,
            is_over: Box::new(|| false),
            counts: Counts::default(),
            violations: Vec::new(),
        }
    }

    /// Cuts this many recoveries, one after the other. The counts are then of cuts of recoveries.
    pub fn nested(design: Design, depth: usize, further: Further) -> Self {
        Self { depth, further, ..Self::new(design) }
    }

    /// Also tries this many sector mixtures of the data of each flush, if the design detects by
    /// checksums whether that is complete.
    pub fn with_mixtures(self, count: usize) -> Self {
        Self { mixtures: if self.design.is_summed() { count } else { 0 }, ..self }
    }

    /// Stops inside a workload when the time is over: one on a set of disks may take a minute.
    pub fn until(self, is_over: impl Fn() -> bool + 'static) -> Self {
        Self { is_over: Box::new(is_over), ..self }
    }

    /// Drops cached images, to free memory for those of other workloads.
    pub fn forget(&mut self) {
        self.outcomes.clear();
        self.alike = Alike::default();
        self.distinct.clear();
        self.reached.clear();
        self.recorded.clear();
        self.kinds.clear();
    }

    /// Runs a workload in every style and explores its cuts.
    pub fn explore_all(&mut self, ops: &[Op]) {
        Style::ALL.iter().for_each(|&style| self.explore(ops, style));
    }

    /// Runs a workload and explores its cuts.
    pub fn explore(&mut self, ops: &[Op], style: Style) {
        let case = Case { design: self.design, style, ops: ops.to_vec(), steps: Vec::new() };
        let run = match catching(|| run(self.design, (&self.base, &self.before), ops, style)) {
            Ok(Some(run)) => run,
            Ok(None) => return, // there is no such workload, or nothing of it to cut
            Err(reason) => return self.violate(case, reason),
        };
        self.counts.workloads += 1;
        let mut judged = Judged::default();
        let mut prng = Prng::new(run::SEED);
        let mut cuts = run.recording.cuts().peekable();
        while let Some(cut) = cuts.next() {
            // Fewer writes are pending at the next moment: the update is as complete as it gets.
            let is_most = cuts.peek().is_none_or(|next| next.pending() < cut.pending());
            let mixtures = if is_most && cut.pending() > 0 { self.mixtures } else { 0 };
            let moment = moment(&run, cut.position);
            let mut left = cut.left();
            let losable = self.design.device().losable();
            let losses = cut.losses(&mut prng).into_iter().chain(cut.mixtures(&mut prng, mixtures));
            for loss in losses.flat_map(|loss| loss.with_each(losable.clone())) {
                if self.depth == 0 {
                    self.counts.states += 1;
                }
                let fingerprint = left.fingerprint(&loss);
                if !judged.seen.insert((fingerprint, moment)) {
                    continue;
                }
                if (self.is_over)() {
                    return;
                }
                let images = left.images(&loss);
                let Err((way, reason)) =
                    self.judge(&run, moment, (fingerprint, &images), &mut judged)
                else {
                    continue;
                };
                let first = Step { position: cut.position, loss };
                let steps = [first].into_iter().chain(way.steps());
                self.violate(Case { steps: steps.collect(), ..case.clone() }, reason);
                if !self.goes_on {
                    return; // one violation of a workload is enough
                }
            }
        }
    }

    /// Judges an image, and the images that cuts of its recovery leave, and of the recovery after
    /// that.
    ///
    /// # Errors
    /// The violation, and the cuts of recoveries that lead to it.
    fn judge(
        &mut self,
        run: &Run,
        moment: Moment,
        (fingerprint, images): (u128, &Images),
        judged: &mut Judged,
    ) -> Result<(), (Way, String)> {
        let reach = self.reach(fingerprint, || images.clone(), self.depth);
        let refused = reach.outcomes().filter_map(|(outcome, way)| {
            let allowed = self.allows(&run.history, moment, outcome, judged);
            Some((way.clone(), allowed.err()?))
        });
        if let Some(worst) = refused.min_by_key(|(way, _)| way.effort()) {
            return Err(worst);
        }
        let retried = self.retry(run, moment, images, judged);
        retried.map_err(|reason| (Way::default(), reason))
    }

    fn outcome(&mut self, fingerprint: u128, images: &Images) -> Rc<Known> {
        if let Some(known) = self.outcomes.get(&fingerprint) {
            return known.clone();
        }
        self.counts.images += 1;
        let known = self.brought_back(images);
        self.outcomes.insert(fingerprint, known.clone());
        known
    }

    /// Recovers an image, unless one was recovered that recovery cannot tell from it.
    fn brought_back(&mut self, images: &Images) -> Rc<Known> {
        if let Some((shown, world)) = told_apart(self.design, images, Some(self.alike.pages()))
            && let Some(known) = self.alike.find(&shown, world)
        {
            return known;
        }
        let found = catching(|| recover_noting(self.design, images, &self.before));
        let looked = found.as_ref().ok().and_then(|(_, looked)| looked.clone());
        let outcome = self.shared(found.map(|(recovered, _)| recovered));
        let known = Rc::new(Known { outcome, kind: Cell::new(None) });
        if let Some(looked) = looked
            && let Some((shown, world)) = told_apart(self.design, images, None)
        {
            self.alike.insert(&shown, world, &looked, known.clone());
        }
        known
    }

    /// Most images recover to the same few states, which hold whole files: each is kept once.
    fn shared(&mut self, outcome: Result<Recovered, String>) -> Outcome {
        if let Some(known) = self.distinct.iter().rev().take(RECENT).find(|it| ***it == outcome) {
            return known.clone();
        }
        let outcome = Rc::new(outcome);
        self.distinct.push(outcome.clone());
        outcome
    }

    fn allows(
        &self,
        history: &History,
        moment: Moment,
        outcome: &Outcome,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let seen = match &**outcome {
            Ok(seen) => seen,
            Err(reason) => return Err(reason.clone()),
        };
        if judged.allowed.contains(&(Rc::as_ptr(outcome), moment)) {
            return Ok(());
        }
        history.allows(seen, moment)?;
        judged.allowed.insert((Rc::as_ptr(outcome), moment));
        Ok(())
    }

    /// Lets a client reconnect to every nth image.
    fn retry(
        &self,
        run: &Run,
        moment: Moment,
        images: &Images,
        judged: &Judged,
    ) -> Result<(), String> {
        if self.depth > 0 || !judged.seen.len().is_multiple_of(RETRIES_EVERY) {
            return Ok(());
        }
        catching(|| retry(self.design, images, &run.history, moment))
    }

    fn violate(&mut self, case: Case, reason: String) {
        self.counts.violations += 1;
        self.violations.push(Violation { case, reason });
    }
}

/// Turns a panic into a violation: an assertion that does not hold.
fn catching<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a word")))
    })
}

/// A clean disk with the files that exist before every workload. Files in the snapshot are listed
/// under paths that no client uses.
fn base(design: Design) -> (Images, Before) {
    let executor = Executor::new(run::SEED);
    let disks = design.format(&executor);
    let before = executor.block_on(async {
        let opened = design.open(disks.devices(), executor.runtime()).await;
        let files = opened.unwrap_or_else(|error| panic!("{error}")).files;
        let driver = Driver::new(files.clone());
        for &(path, size) in BEFORE {
            let held = design.has_snapshots() && path == REWRITTEN;
            let done = match path.strip_suffix('/') {
                Some(path) => driver.mkdir(path).await,
                None if held => driver.fill(path, held_bytes(size)).await,
                None => driver.fill(path, model::original(path, size)).await,
            };
            done.expect("it is new, and there is room");
        }
        if design.has_snapshots() {
            let pinned = control::carry_out(&*files, &Op::Pin(HELD), || ()).await;
            pinned.expect("nothing has failed").expect("there is room");
            for &(path, size) in BEFORE.iter().filter(|(path, _)| *path == REWRITTEN) {
                let rewritten = driver.overwrite(path, model::original(path, size)).await;
                rewritten.expect("there is room");
            }
        }
        let (view, ids) = driver.view().await.expect("nothing has failed");
        let held = driver.held().await.expect("nothing has failed");
        driver.stop().await.expect("nothing has failed");
        let of = |prefix: String, (view, ids): Shown| {
            view.into_iter().map(move |(path, seen)| (format!("{prefix}{path}"), ids[seen.file]))
        };
        let held =
            held.into_iter().flat_map(|(name, shown)| of(format!(".snapshot/{name}/"), shown));
        of(String::new(), (view, ids)).chain(held).collect()
    });
    (disks.contents(), before)
}

/// The progress of the operations at a position.
fn moment(run: &Run, position: usize) -> Moment {
    let mut moment = run.history.start;
    for mark in run.recording.marks_before(position) {
        let bit = 1 << (mark / 2);
        match mark % 2 {
            0 => moment.begun |= bit,
            _ => moment.acknowledged |= bit,
        }
    }
    moment
}
