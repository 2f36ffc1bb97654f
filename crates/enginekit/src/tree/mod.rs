//! Several actors on one tree, cut at random moments, and the states that a cut may leave.
//!
//! Each of four actors works in a directory of its own, in one that they share, and in the root. A
//! fifth moves the shared directory meanwhile. After a cut, each actor's names, contents, modes,
//! targets and link counts are as after its last acknowledged step, or as a step in progress may
//! leave them.

mod actor;
mod content;
mod found;
mod model;

use futures::future::join_all;
use sim::Executor;
use vfs::{FileSystem, ObjectId};
use vnode::Engine;

use crate::bench::Bench;
use crate::random::Seeded;
use crate::volume::Volume;
use actor::TreeActor;
pub use found::{Found, use_and_empty};
use model::{Kind, Model, Place, Thing};

const WORKERS: u64 = 4;
/// The first letter of the names of the actor that moves the shared directory.
const MOVER: char = 's';
/// One cut in this many is judged after use.
const JUDGED: usize = 20;

/// The states that a step of an actor may leave while it is in progress.
struct Step {
    operations: Vec<String>,
    states: Vec<Model>,
}

/// The steps of an actor, and its expected tree at the end.
struct History {
    prefix: char,
    steps: Vec<Step>,
    last: Model,
}

/// A recorded run.
pub struct Run<'a, B: Bench> {
    bench: &'a B,
    /// The events of the disks.
    pub recording: B::Recording,
    histories: Vec<History>,
}

/// Records a run in which each actor does this many steps.
pub fn record<B: Bench>(bench: &B, seed: u64, steps: usize) -> Run<'_, B> {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disks = bench.make(&executor).await;
        let opened = bench.open(executor.runtime(), &disks).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}"));
        let mut actors = plan(&volume, seed, bench.block_size()).await;
        volume.settle().await;
        bench.record(&disks);
        let histories = join_all(actors.iter_mut().enumerate().map(|(index, actor)| {
            let disks = &disks;
            async move {
                let mut history = Vec::new();
                for step in 1..=steps {
                    match actor.prefix {
                        MOVER => actor.wander().await,
                        _ => actor.step().await,
                    }
                    bench.acknowledge(disks, index as u64, step);
                    let (operations, states) =
                        (actor.operations.clone(), std::mem::take(&mut actor.states));
                    history.push(Step { operations, states });
                }
                History { prefix: actor.prefix, steps: history, last: actor.model.clone() }
            }
        }));
        let histories = histories.await;
        Run { bench, recording: bench.recording(&disks), histories }
    })
}

/// The initial directories, and the actors that work in them.
async fn plan<E: Engine>(volume: &Volume<E>, seed: u64, block_size: u64) -> Vec<TreeActor<'_, E>> {
    let root = volume.files.root();
    let yard = volume.mkdir(root, "yard").await.expect("new");
    let shared = volume.mkdir(root, "s").await.expect("new");
    let actor = |prefix: char, roots: &[ObjectId]| TreeActor {
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
    let mut actors = Vec::new();
    for prefix in ('a'..).take(WORKERS as usize) {
        let own = volume.mkdir(root, &format!("own-{prefix}")).await.expect("new");
        actors.push(actor(prefix, &[own, shared, root]));
    }
    let mut mover = actor(MOVER, &[root, yard]);
    let thing = Thing { mode: 0o755, kind: Kind::Directory(Default::default()) };
    mover.model.add_new(Place { directory: root, name: "s".to_owned(), id: shared }, thing);
    actors.push(mover);
    actors
}

impl<B: Bench> Run<'_, B> {
    /// Opens the volume after a cut and compares it with the acknowledged steps. With `empties`,
    /// the volume is then used and emptied; with `judged`, the name of a cut, the engine's judge
    /// inspects the stopped volume.
    ///
    /// # Errors
    /// The violation.
    pub fn check(&self, cut: &B::Cut, empties: bool, judged: Option<&str>) -> Result<(), String> {
        let (executor, disks) = self.bench.left(cut)?;
        executor.block_on(async {
            let volume = self.bench.open(executor.runtime(), &disks).await?;
            let found = Found::read(&volume).await?;
            for (index, history) in self.histories.iter().enumerate() {
                let step = self.bench.acknowledged(&self.recording, cut, index as u64);
                history.check(step, &found)?;
            }
            if empties {
                use_and_empty(&volume, &found).await?;
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
        judged.map_or(Ok(()), |name| self.bench.judge(&disks, name))
    }

    /// The first violation among `count` cuts. With `judges`, the engine's judge also inspects some
    /// of the volumes, alternately after they were emptied and as they were found.
    pub fn first_wrong(&self, seed: u64, count: u64, judges: bool) -> Option<String> {
        let cuts = self.bench.cuts(&self.recording, seed, count);
        cuts.iter().enumerate().find_map(|(index, cut)| {
            let name = format!("tree-{seed}-{index}");
            let judged = (judges && index % JUDGED == 0).then_some(&*name);
            let empties = judged.is_none() || (index / JUDGED).is_multiple_of(2);
            let wrong = self.check(cut, empties, judged).err()?;
            Some(format!("{}: {wrong}", self.bench.label(cut)))
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
