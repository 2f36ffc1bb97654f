//! "A Synchronous File Server for Distributed File Systems" (Broom, 1992): Acacia.
//!
//! The paper's prototype, and the FFS that the paper compares it with, run on models of its disk.
//! Their writes go to the disk request by request; the disk model determines seeks, rotation and
//! transfers, and no figure is computed from the paper's assumptions about them.
//!
//! * `inputs`: parameters of the models. `disks`: the disks, and the host's knowledge of them.
//! * `placement`, `prototype`: the paper's file system. `fast`: its FFS.
//! * `ours`: our own engine in their place.
//! * `experiments`, `figures`: the measurements, and their comparison with the published figures.

mod disks;
mod experiments;
mod fast;
mod figures;
mod inputs;
mod ours;
mod placement;
mod prototype;

use crate::figure::Figure;
use crate::picture::Picture;
use experiments::{Between, FastTimes, KINDS, ONE, Run, Writers};
use inputs::{DISK, Inputs, PROTOTYPE};
use ours::{Aged, Appended, Told};
use prototype::{Design, PAPER};

/// Results of the experiments.
#[derive(Clone, Debug)]
pub struct Results {
    /// All figures, by experiment.
    pub figures: Vec<Figure>,
    /// Figures 3 to 6 of the paper.
    pub pictures: Vec<Picture>,
    /// Violations: a figure that is neither as published nor explained, a headline that is not as
    /// published, a claim that does not hold, more notes than one in six.
    pub failures: Vec<String>,
}

/// Sizes of requests, in KB.
const SIZES: [u64; 7] = [40, 50, 60, 70, 80, 90, 100];
/// Requests of each experiment.
const REQUESTS: u64 = 3000;
/// Requests of each experiment in the short form.
const SHORT: u64 = 240;
/// Fill levels of our engine's disk, in percent.
const FULL: [u64; 5] = [50, 70, 80, 90, 95];

/// Raw results of all experiments.
struct All {
    fast: FastTimes,
    /// By request size, and then by number of clients.
    runs: Vec<[Run; 3]>,
    ceiling: f64,
    /// The share of superblocks on the disk, in percent.
    superblocks: f64,
    /// Variants of the design: requests of 40 and of 100 KB.
    variants: Vec<(&'static str, [Run; 2])>,
    /// Requests of 70 KB by other numbers of writers.
    others: Vec<(Writers, Run)>,
    /// By kind of disks: requests of 100 KB, requests that grow with the disks, and FFS.
    kinds: Vec<([Run; 2], FastTimes)>,
    /// Updates near the arm, and at the end of a log.
    between: [Between; 2],
    /// Our own engine, by its knowledge of the disk.
    ours: Vec<(Told, Appended)>,
    /// Our own engine on a disk that is full and aged.
    aged: Vec<(Told, Vec<Aged>)>,
}

/// Runs every experiment of the paper; the callback gets the name of each as it begins.
pub fn run(seed: u64, is_short: bool, tell: &(dyn Fn(&str) + Sync)) -> Results {
    let requests = if is_short { SHORT } else { REQUESTS };
    let all = measure(seed, requests, tell);
    let figures = figures::figures(&all);
    let failures = figures::failures(&figures, &figures::claims(&all));
    Results { figures, pictures: figures::pictures(&all), failures }
}

fn measure(seed: u64, requests: u64, tell: &(dyn Fn(&str) + Sync)) -> All {
    tell("FFS");
    let fast = experiments::fast(seed, DISK, 1, 4 * requests as u32);
    tell("requests of 40 to 100 KB");
    let write = |writers, kb| experiments::write(seed, writers, kb, requests);
    let of_size = |kb| [1, 2, 3].map(|clients| write(Writers { clients, ..ONE }, kb));
    let runs = SIZES.map(of_size).to_vec();
    let others = [(1, 2), (1, 3), (3, 3)].map(|(clients, daemons)| {
        let writers = Writers { clients, daemons };
        (writers, write(writers, 70))
    });
    tell("otherwise");
    let variants = variants(seed, requests);
    tell("faster disks");
    let kind = |kind: &experiments::Kind| {
        let write = |kb| kind.acacia(seed, kb, requests);
        ([write(100), write(100 * kind.times)], kind.fast(seed, 4 * requests as u32))
    };
    let kinds = KINDS.iter().map(kind).collect();
    tell("updates between reads");
    let between = [true, false].map(|near| experiments::between_reads(seed, near, requests));
    tell("ours");
    let ours = Told::ALL.map(|told| (told, ours::append(seed, told, requests))).to_vec();
    tell("ours, aged");
    let age = |told| FULL.map(|percent| ours::age(seed, told, percent, requests)).to_vec();
    let aged = [Told::Cylinders, Told::Turns].map(|told| (told, age(told))).to_vec();
    let cylinder = disks::Layout(DISK.platters()).cylinder_blocks();
    let (ceiling, superblocks) = (experiments::ceiling(seed, requests), 100.0 / cylinder as f64);
    let others = others.to_vec();
    All { fast, runs, others, ceiling, superblocks, variants, kinds, between, ours, aged }
}

/// Variants that show what the raw speed depends on.
fn variants(seed: u64, requests: u64) -> Vec<(&'static str, [Run; 2])> {
    let kinds = [
        ("one block after the other", PROTOTYPE, Design { by_turn: false, ..PAPER }),
        ("one superblock at a fixed place", PROTOTYPE, Design { in_cylinder: false, ..PAPER }),
        ("writes of 8 KB", Inputs { write_blocks: 2, ..PROTOTYPE }, PAPER),
        ("writes of 32 KB", Inputs { write_blocks: 8, ..PROTOTYPE }, PAPER),
        ("twice the leeway", Inputs { leeway: PROTOTYPE.leeway * 2, ..PROTOTYPE }, PAPER),
    ];
    let measure = |(name, inputs, design)| {
        let run = |kb| experiments::variant(seed, inputs, design, kb, requests);
        (name, [40, 100].map(run))
    };
    kinds.map(measure).to_vec()
}

#[cfg(test)]
mod tests;
