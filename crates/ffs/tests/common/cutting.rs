//! Cutting the power at random points of a recorded run.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use ffs::mkfs::MkfsOptions;
use sim::{Choice, Disk, Executor, Image, Mark, Platter, Prng, Trace};

use super::volume::try_open;
use super::{findings_in, own_findings};

/// Where the power is cut.
pub(crate) struct Cut {
    pub(crate) position: usize,
    pub(crate) seed: u64,
    pub(crate) platter: Platter,
}

impl Cut {
    pub(crate) fn label(&self) -> String {
        format!("cut after {} events with seed {}", self.position, self.seed)
    }

    /// What the cut leaves; now and then, the power goes again while the volume is brought back.
    pub(crate) fn image(&self) -> Result<Image, String> {
        let mut prng = Prng::new(self.seed);
        let image = self.platter.image(&Choice::random(&self.platter, &mut prng));
        if prng.chance(1, 4) { cut_recovery(image, &mut prng) } else { Ok(image) }
    }
}

/// A disk that a cut left, under a new executor.
pub(crate) fn after_cut(seed: u64, image: Image) -> (Executor, Rc<Disk>) {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    (executor, disk)
}

fn cut_recovery(image: Image, prng: &mut Prng) -> Result<Image, String> {
    let (executor, disk) = after_cut(prng.next_u64(), image);
    disk.start_trace();
    let opened = executor.block_on(try_open(executor.runtime(), disk.clone()));
    opened.map_err(|error| format!("before the second cut: {error}"))?;
    let trace = disk.trace();
    let platter = trace.platter_at(prng.index(trace.events().len() + 1));
    Ok(platter.image(&Choice::random(&platter, prng)))
}

/// The mark that says that an actor's step was acknowledged.
pub(crate) fn acknowledgement(actor: u64, step: usize) -> Mark {
    Mark::Number(actor << 32 | step as u64)
}

/// How many steps of an actor were acknowledged before a position.
pub(crate) fn acknowledged(trace: &Trace, position: usize, actor: u64) -> usize {
    let steps = trace.marks_before(position).filter_map(|mark| match mark {
        Mark::Number(number) if number >> 32 == actor => Some((number & 0xffff_ffff) as usize),
        _ => None,
    });
    steps.max().unwrap_or(0)
}

/// Random cuts of one run, in the order of their positions.
pub(crate) fn random_cuts(trace: &Trace, seed: u64, count: u64) -> Vec<Cut> {
    let mut prng = Prng::new(seed);
    let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
    for _ in 0..count {
        *wanted.entry(prng.index(trace.events().len() + 1)).or_default() += 1;
    }
    let mut cuts = Vec::new();
    for (position, platter) in trace.cuts() {
        for _ in 0..wanted.get(&position).copied().unwrap_or(0) {
            let seed = seed * 1_000_003 + cuts.len() as u64;
            cuts.push(Cut { position, seed, platter: platter.clone() });
        }
    }
    cuts
}

/// Asks our own checker and the independent one about a disk that was stopped cleanly.
pub(crate) fn judge(disk: &Disk, name: &str) -> Result<(), String> {
    let (executor, copy) = after_cut(0, disk.contents());
    let own = executor.block_on(own_findings(&*copy, &executor.runtime()));
    if !own.is_empty() {
        return Err(own);
    }
    // A cut after a truncation may leave bytes behind the end of a file: legal, and noted.
    let save = |path: &Path| disk.contents().save(path).expect("a temporary file");
    let findings = findings_in(name, save).unwrap_or_default();
    let errors: Vec<_> = findings.lines().filter(|line| !is_tail_note(line)).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn is_tail_note(line: &str) -> bool {
    line.starts_with("note") && line.contains("non-zero bytes after the end of data")
}

pub(crate) fn sizes(block_size: u64, fragment_size: u64) -> MkfsOptions {
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// How many cuts a test makes: more with `DURAMEN_CUTS`.
pub(crate) fn cuts(default: u64) -> u64 {
    std::env::var("DURAMEN_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
