//! Cutting the power at random points of a recorded run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use sim::{Choice, Disk, Executor, Image, Mark, Platter, Prng, Trace};
use ufs2::mkfs::MkfsOptions;

use super::foreign::findings_in;
use super::own_findings;
use super::volume::try_open_pair;

/// A volume's disk, and its log's if it has one. They lose power together.
#[derive(Clone)]
pub(crate) struct Pair<T> {
    pub(crate) home: T,
    pub(crate) log: Option<T>,
}

impl<T> From<T> for Pair<T> {
    fn from(home: T) -> Self {
        Self { home, log: None }
    }
}

impl<T> Pair<T> {
    pub(crate) fn map<U>(&self, mut with: impl FnMut(&T) -> U) -> Pair<U> {
        Pair { home: with(&self.home), log: self.log.as_ref().map(with) }
    }
}

impl Pair<Trace> {
    /// Number of moments: those before and after each event.
    pub(crate) fn moments(&self) -> usize {
        1 + self.home.events().len() + self.log.as_ref().map_or(0, |log| log.events().len())
    }

    /// The positions in both disks' traces at a moment of their common history.
    pub(crate) fn positions(&self, moment: usize) -> Pair<usize> {
        let mut serials: Vec<u64> = self.home.events().iter().map(|event| event.serial).collect();
        let log = self.log.iter().flat_map(|log| log.events());
        serials.extend(log.map(|event| event.serial));
        serials.sort_unstable();
        let serial = serials.get(moment).copied().unwrap_or(u64::MAX);
        self.map(|trace| trace.position_of(serial))
    }
}

/// A power cut at some position.
pub(crate) struct Cut {
    pub(crate) position: usize,
    pub(crate) seed: u64,
    pub(crate) platters: Pair<Platter>,
}

impl Cut {
    pub(crate) fn label(&self) -> String {
        format!("cut after {} events with seed {}", self.position, self.seed)
    }

    /// Disk contents after the cut.
    pub(crate) fn left(&self) -> Pair<Image> {
        left(&self.platters, &mut Prng::new(self.seed))
    }

    /// The same; sometimes power fails again during recovery.
    pub(crate) fn image(&self) -> Result<Pair<Image>, String> {
        let mut prng = Prng::new(self.seed);
        let images = left(&self.platters, &mut prng);
        if prng.chance(1, 4) { cut_recovery(images, &mut prng) } else { Ok(images) }
    }
}

pub(crate) fn left(platters: &Pair<Platter>, prng: &mut Prng) -> Pair<Image> {
    platters.map(|platter| platter.image(&Choice::random(platter, prng)))
}

/// The disks that a cut left, under a new executor.
pub(crate) fn after_cut(seed: u64, images: impl Into<Pair<Image>>) -> (Executor, Pair<Rc<Disk>>) {
    let executor = Executor::new(seed);
    let disks = images.into().map(|image| Disk::new(&executor, image.clone()));
    (executor, disks)
}

fn cut_recovery(images: Pair<Image>, prng: &mut Prng) -> Result<Pair<Image>, String> {
    let (executor, disks) = after_cut(prng.next_u64(), images);
    disks.map(|disk| disk.start_trace());
    let opened = executor.block_on(try_open_pair(executor.runtime(), &disks));
    opened.map_err(|error| format!("before the second cut: {error}"))?;
    let traces = disks.map(|disk| disk.trace());
    let positions = traces.positions(prng.index(traces.moments()));
    let platters = Pair {
        home: traces.home.platter_at(positions.home),
        log: traces.log.zip(positions.log).map(|(log, position)| log.platter_at(position)),
    };
    Ok(left(&platters, prng))
}

/// The mark that says that an actor's step was acknowledged.
pub(crate) fn acknowledgement(actor: u64, step: usize) -> Mark {
    Mark::Number(actor << 32 | step as u64)
}

/// Number of an actor's steps that were acknowledged before a position.
pub(crate) fn acknowledged(trace: &Trace, position: usize, actor: u64) -> usize {
    let steps = trace.marks_before(position).filter_map(|mark| match mark {
        Mark::Number(number) if number >> 32 == actor => Some((number & 0xffff_ffff) as usize),
        _ => None,
    });
    steps.max().unwrap_or(0)
}

/// Random cuts of one run, in the order of their positions.
pub(crate) fn random_cuts(traces: &Pair<Trace>, seed: u64, count: u64) -> Vec<Cut> {
    let mut prng = Prng::new(seed);
    let mut wanted: Vec<Pair<usize>> = Vec::new();
    for _ in 0..count {
        wanted.push(traces.positions(prng.index(traces.moments())));
    }
    cuts_at(traces, seed, wanted)
}

/// A cut at every event of a run.
pub(crate) fn every_cut(traces: &Pair<Trace>, seed: u64) -> Vec<Cut> {
    cuts_at(traces, seed, (0..traces.moments()).map(|moment| traces.positions(moment)).collect())
}

fn cuts_at(traces: &Pair<Trace>, seed: u64, mut wanted: Vec<Pair<usize>>) -> Vec<Cut> {
    wanted.sort_by_key(|pair| (pair.home, pair.log));
    let platters = |trace: &Trace, positions: BTreeSet<usize>| -> BTreeMap<usize, Platter> {
        trace.cuts().filter(|(position, _)| positions.contains(position)).collect()
    };
    let home = platters(&traces.home, wanted.iter().map(|pair| pair.home).collect());
    let log = traces.log.as_ref();
    let log = log.map(|log| platters(log, wanted.iter().filter_map(|pair| pair.log).collect()));
    let cut = |(index, pair): (usize, &Pair<usize>)| Cut {
        position: pair.home,
        seed: seed * 1_000_003 + index as u64,
        platters: Pair {
            home: home[&pair.home].clone(),
            log: log.as_ref().zip(pair.log).map(|(log, position)| log[&position].clone()),
        },
    };
    wanted.iter().enumerate().map(cut).collect()
}

/// Runs our own checker and the independent one on a disk that was stopped cleanly.
pub(crate) fn judge(disk: &Disk, name: &str) -> Result<(), String> {
    let (executor, copy) = after_cut(0, disk.contents());
    let own = executor.block_on(own_findings(&*copy.home, &executor.runtime()));
    if !own.is_empty() {
        return Err(own);
    }
    // A cut after a truncation may leave bytes behind the end of a file: this is legal, and noted.
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

/// Number of cuts that a test makes: more with `DURAMEN_RUNS`.
pub(crate) fn cuts(default: u64) -> u64 {
    std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
