//! Recording what the actors do, and comparing what a cut leaves.
//!
//! Four actors work each in a directory of its own, in one that they share, and in the root. A
//! fifth moves the shared directory about meanwhile.

use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Honesty, Image, Options, Trace};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, ObjectId};

use super::found::{Found, use_and_empty};
use super::gardener::Gardener;
use super::model::{Kind, Model, Place, Thing};
use crate::common::Seeded;
use crate::common::cutting::{
    Cut, Pair, acknowledged, acknowledgement, after_cut, cuts, judge, random_cuts,
};
use crate::common::volume::{Volume, try_open_pair};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const WORKERS: u64 = 4;
/// The names of the one that moves the shared directory begin with this.
const MOVER: char = 's';

/// What one step of an actor may leave while it is under way.
struct Step {
    operations: Vec<String>,
    states: Vec<Model>,
}

/// What an actor did, and what it believed at the end.
struct History {
    prefix: char,
    steps: Vec<Step>,
    last: Model,
}

/// A recorded run.
pub(crate) struct Run {
    pub(crate) traces: Pair<Trace>,
    histories: Vec<History>,
}

/// What volume it is, and how much is done on it.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) options: MkfsOptions,
    pub(crate) size: u64,
    pub(crate) steps: usize,
    pub(crate) honesty: Honesty,
    /// Bytes of log; 0 is policy `sync`.
    pub(crate) log: u64,
}

/// Records runs, cuts each at random, and judges what comes back. `DURAMEN_RUNS` says how many,
/// each from a seed of its own, and `DURAMEN_CUTS` how often each is cut.
pub(crate) fn cut_at_random(seed: u64, setting: &Setting) {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    for seed in (seed..).step_by(1000).take(runs) {
        let run = record(seed, setting);
        if let Some(wrong) = run.first_wrong(seed, cuts(25), true) {
            panic!("run {seed} with a log of {} bytes: {wrong}", setting.log);
        }
    }
}

/// Records a run on a disk with a volatile cache, whose writes take their time and overtake each
/// other.
pub(crate) fn record(seed: u64, setting: &Setting) -> Run {
    let executor = Executor::new(seed);
    let disk_options = Options { honesty: setting.honesty, ..Options::default() };
    let disk = |size: u64| Disk::with_options(&executor, Image::zeroed(size), disk_options);
    let disks = Pair { home: setting.size, log: Some(setting.log).filter(|&size| size > 0) };
    let disks = disks.map(|&size| disk(size));
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disks.home, &setting.options, &*random, NOW).await.expect("the disk holds it");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let mut gardeners = plan(&volume, seed, setting.options.block_size).await;
        volume.settle().await;
        disks.map(|disk| disk.start_trace());
        let histories = join_all(gardeners.iter_mut().enumerate().map(|(index, gardener)| {
            let disk = &disks.home;
            async move {
                let mut steps = Vec::new();
                for step in 1..=setting.steps {
                    match gardener.prefix {
                        MOVER => gardener.wander().await,
                        _ => gardener.step().await,
                    }
                    disk.mark(acknowledgement(index as u64, step));
                    let (operations, states) =
                        (gardener.operations.clone(), std::mem::take(&mut gardener.states));
                    steps.push(Step { operations, states });
                }
                History { prefix: gardener.prefix, steps, last: gardener.model.clone() }
            }
        }));
        let histories = histories.await;
        Run { traces: disks.map(|disk| disk.trace()), histories }
    })
}

/// The directories that are there before, and who works in them.
async fn plan(volume: &Volume, seed: u64, block_size: u64) -> Vec<Gardener<'_>> {
    let root = volume.files.root();
    let yard = volume.mkdir(root, "yard").await.expect("new");
    let shared = volume.mkdir(root, "s").await.expect("new");
    let gardener = |prefix: char, roots: &[ObjectId]| Gardener {
        volume,
        prefix,
        chance: Seeded::new(seed * 16 + u64::from(prefix)),
        block_size,
        model: Model::new(roots),
        states: Vec::new(),
        operations: Vec::new(),
        receipts: Vec::new(),
        serial: 0,
    };
    let mut gardeners = Vec::new();
    for prefix in ('a'..).take(WORKERS as usize) {
        let own = volume.mkdir(root, &format!("own-{prefix}")).await.expect("new");
        gardeners.push(gardener(prefix, &[own, shared, root]));
    }
    let mut mover = gardener(MOVER, &[root, yard]);
    let thing = Thing { mode: 0o755, kind: Kind::Directory(Default::default()) };
    mover.model.add_new(Place { directory: root, name: "s".to_owned(), id: shared }, thing);
    gardeners.push(mover);
    gardeners
}

impl Run {
    /// Opens what a cut left and compares it with what was acknowledged; says what is wrong. With
    /// `judged`, the independent checker looks at the disk too: of two such cuts one is emptied
    /// before, and the other judged as it was found.
    pub(crate) fn check(&self, cut: &Cut, judged: bool) -> Result<(), String> {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let (volume, _) = opened.map_err(|error| error.to_string())?;
            let found = Found::read(&volume).await?;
            for (index, history) in self.histories.iter().enumerate() {
                let step = acknowledged(&self.traces.home, cut.position, index as u64);
                history.check(step, &found)?;
            }
            if !judged || (cut.seed / 20).is_multiple_of(2) {
                use_and_empty(&volume, &found).await?;
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
        if judged { judge(&disks.home, &format!("tree-{}", cut.seed)) } else { Ok(()) }
    }

    /// The first cut of `count` that shows something wrong, and what.
    pub(crate) fn first_wrong(&self, seed: u64, count: u64, judge: bool) -> Option<String> {
        let cuts = random_cuts(&self.traces, seed, count);
        cuts.iter().enumerate().find_map(|(index, cut)| {
            let wrong = self.check(cut, judge && index % 20 == 0).err()?;
            Some(format!("{}: {wrong}", cut.label()))
        })
    }
}

impl History {
    fn check(&self, step: usize, found: &Found) -> Result<(), String> {
        let Some(step) = self.steps.get(step) else {
            return found.differs(&self.last, self.prefix).map_or(Ok(()), Err);
        };
        let last = step.states.last().expect("a step has its end");
        let first = match found.differs(&step.states[0], self.prefix) {
            None => return Ok(()),
            Some(difference) => difference,
        };
        let difference = if step.operations.len() > 1 {
            found.differs_from_all(&step.states, self.prefix)
        } else if step.states.iter().any(|state| found.differs(state, self.prefix).is_none()) {
            None
        } else {
            found.differs(last, self.prefix)
        };
        difference.map_or(Ok(()), |last| {
            Err(format!("during {:?}:\nnot as before: {first}\nnor after: {last}", step.operations))
        })
    }
}
