//! The explorer: runs a workload once, and cuts the power at every event of its trace, in every way
//! that is worth trying.
//!
//! At each position of the trace the writes that are not durable may be lost, each for itself, or
//! be torn; [`Choice::explore`] enumerates them. Equal images are brought back once, whichever
//! workload they come from. What comes back is compared with the history of the workload.

pub mod driver;
pub mod judge;
pub mod model;
pub mod op;
pub mod ram;
pub mod recover;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ffs::mkfs::{MkfsOptions, mkfs};
use ffs::{Ffs, open};
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Mark, Platter, Prng, Trace};
use vfs::FsError;

use driver::{Driver, Handles, Pending};
use judge::{History, Moment};
use model::{Act, Model, ROOT, View};
use op::{BEFORE, Mode, Op, Stable};
use recover::{options, recover};

/// The world in which every workload runs: those that begin alike go alike.
const SEED: u64 = 7;
/// Bytes of the disk.
const SIZE: u64 = 1 << 20;
/// What the disk is full of at first: no file ever holds such a byte.
const RUBBISH: u8 = 0xff;
const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };

/// What was done and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads that were run.
    pub workloads: u64,
    /// Ways to cut the power.
    pub states: u64,
    /// Different images among them.
    pub images: u64,
    /// Those that showed what may not be.
    pub violations: u64,
}

impl Counts {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            workloads: self.workloads + other.workloads,
            states: self.states + other.states,
            images: self.images + other.images,
            violations: self.violations + other.violations,
        }
    }
}

/// How the operations of a workload follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Each when the one before was answered.
    OneByOne,
    /// Each when the one before was done, without waiting for its answer.
    Together,
}

/// Something that a cut must not leave.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The operations.
    pub workload: Vec<Op>,
    /// The events before the cut.
    pub position: usize,
    /// What became of the pending writes.
    pub choice: Choice,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ops: Vec<String> = self.workload.iter().map(Op::to_string).collect();
        let (position, choice, reason) = (self.position, &self.choice, &self.reason);
        write!(f, "[{}], cut after {position} events, {choice}: {reason}", ops.join(", "))
    }
}

/// Explores workloads that begin with the same image.
pub struct Explorer {
    base: Image,
    outcomes: BTreeMap<u128, Rc<Result<View, String>>>,
    /// What was done and found so far.
    pub counts: Counts,
    /// The first violation of each workload.
    pub violations: Vec<Violation>,
}

/// A workload that has run.
struct Run {
    trace: Trace,
    history: History,
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

impl Explorer {
    /// With the files that are there before every workload.
    pub fn new() -> Self {
        let (base, outcomes, violations) = (base(), BTreeMap::new(), Vec::new());
        Self { base, outcomes, counts: Counts::default(), violations }
    }

    /// Forgets images, to have memory for those of other workloads.
    pub fn forget(&mut self) {
        self.outcomes.clear();
    }

    /// Runs a workload and explores its cuts.
    pub fn explore(&mut self, ops: &[Op], style: Style) {
        let run = match run(&self.base, ops, style) {
            Ok(Some(run)) => run,
            Ok(None) => return, // there is no such workload
            Err(reason) => {
                let choice = Choice::new(Vec::new());
                return self.violate(ops, 0, choice, reason);
            }
        };
        self.counts.workloads += 1;
        let mut seen = BTreeSet::new();
        let mut prng = Prng::new(SEED);
        let before = self.counts.violations;
        for (position, platter) in run.trace.cuts() {
            let moment = moment(&run.trace, position);
            for choice in Choice::explore(&platter, &mut prng) {
                self.counts.states += 1;
                self.judge(ops, &run, (position, moment), &platter, choice, &mut seen);
                if self.counts.violations > before {
                    return; // one of a workload says enough
                }
            }
        }
    }

    fn judge(
        &mut self,
        ops: &[Op],
        run: &Run,
        (position, moment): (usize, Moment),
        platter: &Platter,
        choice: Choice,
        seen: &mut BTreeSet<(u128, Moment)>,
    ) {
        let image = platter.image(&choice);
        let fingerprint = image.fingerprint();
        if !seen.insert((fingerprint, moment)) {
            return;
        }
        let outcome = match self.outcomes.get(&fingerprint) {
            Some(known) => known.clone(),
            None => {
                self.counts.images += 1;
                let outcome = Rc::new(recover(image));
                self.outcomes.insert(fingerprint, outcome.clone());
                outcome
            }
        };
        let allowed = match &*outcome {
            Ok(view) => run.history.allows(view, moment),
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = allowed {
            self.violate(ops, position, choice, reason);
        }
    }

    fn violate(&mut self, ops: &[Op], position: usize, choice: Choice, reason: String) {
        self.counts.violations += 1;
        self.violations.push(Violation { workload: ops.to_vec(), position, choice, reason });
    }
}

/// Blocks of 4 KiB and fragments of 512 bytes: the smallest volume, so that little has to be read.
fn small() -> MkfsOptions {
    MkfsOptions {
        block_size: 4096,
        fragment_size: 512,
        bytes_per_inode: Some(16_384),
        ..MkfsOptions::default()
    }
}

/// A clean disk with the files that are there before every workload.
fn base() -> Image {
    let executor = Executor::new(SEED);
    // What was on the disk before must never show.
    let disk = Disk::new(&executor, Image::from_bytes(&vec![RUBBISH; SIZE as usize]));
    executor.block_on(async {
        mkfs(&*disk, &small(), &*executor.runtime().random, NOW).await.expect("it is large enough");
        let driver = mounted(&executor, &disk).await.0;
        for &(path, size) in BEFORE {
            let is_directory = path.ends_with('/');
            let path = path.trim_end_matches('/');
            let op = if is_directory { Op::Mkdir(path) } else { Op::Create(path, Mode::Guarded) };
            let parent = path.rsplit_once('/').map(|(above, _)| above);
            let parent = match parent {
                Some(above) => driver.find(above).await.expect("the list is in order"),
                None => driver.root(),
            };
            let act = Act { number: 0, op, subject: ROOT, destination: None, size: 0 };
            let handles = Handles::from([(ROOT, parent)]);
            driver.begin(&act, &handles).await.await.expect("it is new");
            if !is_directory {
                driver.fill(path, model::original(path, size)).await.expect("there is room");
            }
        }
        driver.stop().await.expect("nothing has failed");
    });
    disk.contents()
}

async fn mounted(executor: &Executor, disk: &Rc<Disk>) -> (Driver, Rc<Ffs>) {
    let opened = open(disk.clone(), executor.runtime(), &options(), &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).engine;
    (Driver::new(Rc::new(Namespace::new(engine.clone()))), engine)
}

/// Runs a workload; there may be none in a style. Every answer must be that of the model.
fn run(base: &Image, ops: &[Op], style: Style) -> Result<Option<Run>, String> {
    let executor = Executor::new(SEED);
    let disk = Disk::new(&executor, base.clone());
    executor.block_on(async {
        let (driver, engine) = mounted(&executor, &disk).await;
        let mut model = Model::before();
        let view = model.view();
        let handles = driver.handles(&view).await.map_err(|error| error.to_string())?;
        disk.start_trace();
        let mut acts = Vec::new();
        let mut under_way = Vec::new();
        for (number, op) in ops.iter().enumerate() {
            // A COMMIT is a second call, after which of the others nobody could say.
            if style == Style::Together && matches!(op, Op::Write(_, _, Stable::Commit)) {
                return Ok(None);
            }
            let act = match Act::new(&model, number, op) {
                Ok(act) => act,
                Err(_) if style == Style::Together => return Ok(None),
                // The client does not get as far as the call.
                Err(_) => continue,
            };
            let known = [Some(act.subject), act.destination];
            if !known.into_iter().flatten().all(|node| handles.contains_key(&node)) {
                return Ok(None);
            }
            let expected = model.apply(&act);
            let index = acts.len();
            disk.mark(begun(index));
            let pending = driver.begin(&act, &handles).await;
            let answered = watch(disk.clone(), index, op.clone(), expected, pending);
            acts.push((act, expected));
            match style {
                Style::OneByOne => answered.await?,
                Style::Together => under_way.push(answered),
            }
        }
        futures::future::try_join_all(under_way).await?;
        engine.quiesce().await.map_err(|error| error.to_string())?;
        Ok(Some(Run { trace: disk.trace(), history: History { acts, style } }))
    })
}

/// Waits for an answer, and marks in the trace that it came.
async fn watch(
    disk: Rc<Disk>,
    index: usize,
    op: Op,
    expected: Result<(), FsError>,
    pending: Pending,
) -> Result<(), String> {
    let found = pending.await;
    disk.mark(acknowledged(index));
    if found == expected {
        Ok(())
    } else {
        Err(format!("{op} was answered with {found:?}, not {expected:?}"))
    }
}

/// The marks of an operation of the history.
fn begun(index: usize) -> u64 {
    index as u64 * 2
}

fn acknowledged(index: usize) -> u64 {
    index as u64 * 2 + 1
}

/// How far the operations were at a position.
fn moment(trace: &Trace, position: usize) -> Moment {
    let mut moment = Moment { begun: 0, acknowledged: 0 };
    for mark in trace.marks_before(position) {
        let Mark::Number(mark) = mark else { continue };
        let bit = 1 << (mark / 2);
        match mark % 2 {
            0 => moment.begun |= bit,
            _ => moment.acknowledged |= bit,
        }
    }
    moment
}
