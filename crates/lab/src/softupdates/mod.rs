//! The alpha distribution of soft updates (McKusick).
//!
//! Programs on the machine call the file system; there is no network. Three file systems run on the
//! same disk:
//!
//! * **Normal**: a model of the paper's FFS. Inodes, names and counts are written synchronously;
//!   maps, times and contents are written later.
//! * **Soft updates**: the same model with the paper's ages, its trickle syncer and its rollbacks.
//! * **Ours**: `ffs` under policy `softdep`, with its defaults, on its own volume.
//!
//! Processor times are inputs, since the paper prints them. Writes, and a program's waits for them,
//! are results of the models.

mod blocks;
mod cache;
mod experiments;
mod figures;
mod files;
mod model;
mod ours;
mod program;
mod tree;
mod workloads;

use std::time::Duration;

use crate::figure::Figure;
use crate::picture::Picture;
use cache::{Ages, CHANGE_BYTES};
use experiments::{Costs, Taken, World};
use files::LocalFiles;
use model::{Model, Style};
use program::Script;

/// Results of the experiments.
#[derive(Clone, Debug)]
pub struct Results {
    /// All figures, by experiment.
    pub figures: Vec<Figure>,
    /// The Andrew benchmark, by file system.
    pub pictures: Vec<Picture>,
}

impl Results {
    /// Violations: a figure that is neither as published nor explained, a headline that is not as
    /// published, more notes than one in six.
    pub fn failures(&self) -> Vec<String> {
        figures::failures(&self.figures)
    }
}

/// "1000 runs".
const RUNS: u32 = 1000;
/// Factor by which the short form shortens the torture test.
const SHORT: u32 = 20;
/// Runs for which rollbacks are counted.
const ROLLBACK_RUNS: u32 = 20;

/// Processor times that the paper prints, and those derived from them: *inputs*.
#[derive(Clone, Copy, Debug)]
struct Processor {
    tar: [Duration; 2],
    andrew: Duration,
    makedev: Duration,
    torture: Costs,
}

/// *Input*, calibrated: processor time of a copy of /etc beyond tar's calls, such that with soft
/// updates the torture test takes about as long as published.
const COPY: Duration = Duration::from_millis(6000);
/// *Input*, chosen: processor time of a walk over all files.
const FIND: Duration = Duration::from_secs(20);

impl Processor {
    fn of(tar_ms: [u64; 2], andrew_ms: u64, makedev_ms: u64) -> Self {
        let ms = Duration::from_millis;
        let [make, remove] = tar_ms.map(ms);
        let torture = Costs {
            andrew: ms(andrew_ms),
            remove_andrew: remove * 6 / 10, // as many names, out of tar's 230
            copy: make + COPY,
            remove,
            find: FIND,
        };
        Self { tar: [make, remove], andrew: ms(andrew_ms), makedev: ms(makedev_ms), torture }
    }

    fn normal() -> Self {
        Self::of([1100, 500], 49_100, 42_500)
    }

    fn soft() -> Self {
        Self::of([500, 200], 48_800, 34_800)
    }
}

/// Results of one file system.
#[derive(Clone, Debug)]
struct Measured {
    tar: [Taken; 2],
    phases_s: [f64; 5],
    andrew: Taken,
    makedev: Taken,
    torture: Taken,
}

/// Raw results of all experiments.
struct All {
    normal: Measured,
    soft: Measured,
    ours: Measured,
    /// Bytes of pending changes after 1000 files were made.
    thousand_bytes: f64,
    /// Rolled-back changes, of names and all others: with the paper's ages, and with 30 s for all.
    rollbacks: [[f64; 2]; 2],
    /// Factor by which the torture test was shortened.
    shortened: f64,
}

/// Runs every experiment of the paper; the callback gets the name of each as it begins. The
/// short form has a twentieth of the torture test.
pub fn run(seed: u64, is_short: bool, tell: &(dyn Fn(&str) + Sync)) -> Results {
    let runs = if is_short { RUNS / SHORT } else { RUNS };
    let all = measure_all(seed, runs, tell);
    Results { figures: figures::figures(&all), pictures: figures::pictures(&all) }
}

fn measure_all(seed: u64, runs: u32, tell: &(dyn Fn(&str) + Sync)) -> All {
    let soft = Style::Soft(Ages::PAPER);
    let paper = |style| move || World::of_paper(style, seed);
    // Each simulation has one thread, and shares nothing with the others.
    std::thread::scope(|scope| {
        let ours = scope.spawn(move || {
            tell("ours");
            measure(Processor::soft(), runs, seed, || World::ours(seed))
        });
        tell("normal");
        let normal = measure(Processor::normal(), runs, seed, paper(Style::Normal));
        tell("soft updates");
        let of_soft = measure(Processor::soft(), runs, seed, paper(soft));
        let rollbacks = [Ages::PAPER, Ages::ALL_THIRTY].map(|ages| rollbacks(ages, seed));
        let thousand_bytes = thousand(soft, seed);
        let ours = ours.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let shortened = f64::from(RUNS) / f64::from(runs);
        All { normal, soft: of_soft, ours, thousand_bytes, rollbacks, shortened }
    })
}

fn measure<F: LocalFiles>(
    costs: Processor,
    runs: u32,
    seed: u64,
    world: impl Fn() -> World<F>,
) -> Measured {
    let (phases_s, andrew) = world().andrew(costs.andrew);
    let makedev = Script { calls: workloads::makedev(), processor: costs.makedev };
    Measured {
        tar: world().tar(costs.tar),
        phases_s,
        andrew,
        makedev: world().script(&makedev),
        torture: world().torture(runs, &costs.torture, seed),
    }
}

fn rollbacks(ages: Ages, seed: u64) -> [f64; 2] {
    let world = World::<Model>::of_paper(Style::Soft(ages), seed);
    world.torture(ROLLBACK_RUNS, &Processor::soft().torture, seed);
    world.files.rollbacks().map(|count| count as f64)
}

fn thousand(style: Style, seed: u64) -> f64 {
    let world = World::<Model>::of_paper(style, seed);
    let script = Script { calls: workloads::thousand(), processor: Duration::from_secs(2) };
    world.script(&script);
    (world.files.most_changes() * CHANGE_BYTES) as f64
}

#[cfg(test)]
mod tests;
