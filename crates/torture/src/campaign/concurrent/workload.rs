//! The clients' steps and the power cuts: drawn from a seed, and then fixed, so that any part can
//! be left out.
//!
//! Every client works on the same few names in two directories: whatever can collide does. A step
//! names a file by its place; the client uses the last handle that it knew for this place, which
//! may be stale by then, and sends a LOOKUP if it knows none.

use sim::Prng;

use super::words::How;
use crate::explore::design::Design;

/// How many clients there are.
pub const CLIENTS: usize = 4;

/// One workload in this many has surviving answers switched off, if its policy has them.
const FORGETFUL: u64 = 8;

/// A name in one of the directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Whether it is in the second directory instead of the root.
    pub below: bool,
    /// The name.
    pub name: &'static str,
}

/// The name of the second directory in the root.
pub const BELOW: &str = "d";

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the procedures")]
pub enum Step {
    Getattr(Spot),
    Access(Spot),
    Lookup(Spot),
    Read(Spot),
    List { below: bool, plus: bool },
    Resize(Spot, u64),
    Chmod(Spot, u32),
    Write { spot: Spot, at: u64, count: u64, value: u8, stable: Stable },
    Commit(Spot),
    Create(Spot, How),
    Mkdir(Spot),
    Symlink(Spot),
    Mkfifo(Spot),
    Remove(Spot),
    Rmdir(Spot),
    Rename(Spot, Spot),
    Link(Spot, Spot),
}

/// The stability that a WRITE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Stable {
    Unstable,
    DataSync,
    FileSync,
}

/// A power cut, or a crash of the process alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Any subset of the writes that no flush covers survives.
    Some,
    /// No write survives that no flush covers.
    All,
    /// The process dies; the disk keeps its writes.
    Process,
}

/// The moment of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This many microseconds after this many calls were made.
    Made(usize, u64),
    /// When this many calls were answered.
    Answered(usize),
}

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When, counted from the recovery after the cut before it.
    pub when: When,
    /// The kind of loss.
    pub loss: Loss,
    /// How long the power stays off, in microseconds.
    pub off_us: u64,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The seed from which it was drawn.
    pub seed: u64,
    /// How the engine keeps its promises.
    pub design: Design,
    /// Whether answers survive a cut.
    pub survives: bool,
    /// The seed of the world in which it runs.
    pub world: u64,
    /// The steps of each client: the step's place in the drawn workload, the pause before it in
    /// microseconds, and the step.
    pub clients: Vec<Vec<(usize, u64, Step)>>,
    /// The cuts, with the number of each.
    pub cuts: Vec<(usize, Cut)>,
    /// Whether the network and the clients lose, delay and repeat messages.
    pub is_bad: bool,
    /// Whether the disk is so slow that many calls wait for it together.
    pub is_slow: bool,
}

impl Workload {
    /// The workload of a seed.
    pub fn draw(seed: u64, design: Design) -> Self {
        let mut prng = Prng::new(seed ^ 0x00c0_11ec_7ed0_c0de);
        let style = prng.below(4);
        let client = |number: usize, prng: &mut Prng| -> Vec<_> {
            let steps = prng.between(6, 10) as usize;
            let value = |index: usize| (1 + number * 16 + index) as u8;
            let draw = |index, prng: &mut Prng| match style {
                0 => data_step(value(index), prng),
                1 => name_step(value(index), prng),
                _ => step(value(index), prng),
            };
            (0..steps).map(|index| (index, pause(prng), draw(index, prng))).collect()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| client(number, &mut prng)).collect();
        let cuts = prng.between(1, 2) as usize;
        let cuts = (0..cuts).map(|index| (index, cut(&mut prng))).collect();
        let (is_bad, is_slow) = (prng.chance(1, 2), prng.chance(1, 2));
        let survives = design.remembers() && !seed.is_multiple_of(FORGETFUL);
        Self { seed, design, survives, world: seed, clients, cuts, is_bad, is_slow }
    }

    /// The workload as a part of its seed's workload, possibly all of it.
    pub fn as_part(&self) -> Part {
        let cuts = self.cuts.iter().map(|(number, _)| *number).collect();
        Part { steps: self.steps(), cuts, world: self.world }
    }

    /// All steps, as client and number.
    pub fn steps(&self) -> Vec<(usize, usize)> {
        let clients = self.clients.iter().enumerate();
        clients.flat_map(|(client, steps)| steps.iter().map(move |step| (client, step.0))).collect()
    }

    /// A part of the workload of a seed, in the world of another seed.
    pub fn part(seed: u64, design: Design, part: &Part) -> Self {
        let whole = Self::draw(seed, design);
        let mut kept = Self { world: part.world, ..whole.clone() };
        for (client, steps) in kept.clients.iter_mut().enumerate() {
            steps.retain(|step| part.steps.contains(&(client, step.0)));
        }
        kept.cuts.retain(|(number, _)| part.cuts.contains(number));
        // Scales the cuts, so that each comes when the same share of the work is done as before.
        let (all, left) = (whole.steps().len().max(1), kept.steps().len());
        for (_, cut) in &mut kept.cuts {
            let scaled = |calls: usize| calls * left / all;
            cut.when = match cut.when {
                When::Made(calls, us) => When::Made(scaled(calls), us),
                When::Answered(calls) => When::Answered(scaled(calls)),
            };
        }
        kept
    }
}

/// The kept part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The steps, as client and number.
    pub steps: Vec<(usize, usize)>,
    /// The numbers of the cuts.
    pub cuts: Vec<usize>,
    /// The seed of the world.
    pub world: u64,
}

/// The pause before a step: mostly none, so that calls overlap.
fn pause(prng: &mut Prng) -> u64 {
    match prng.below(8) {
        0 => prng.below(20_000),
        1 | 2 => prng.below(1_000),
        _ => 0,
    }
}

fn cut(prng: &mut Prng) -> Cut {
    let calls = prng.between(2, 30) as usize;
    let when = if prng.chance(1, 3) {
        When::Answered(calls)
    } else {
        let longest_us = if prng.chance(1, 2) { 2_000 } else { 20_000 };
        When::Made(calls, prng.below(longest_us))
    };
    let loss = match prng.below(8) {
        0 => Loss::Process,
        1..=3 => Loss::All,
        _ => Loss::Some,
    };
    Cut { when, loss, off_us: prng.below(1_500_000) }
}

fn spot(prng: &mut Prng) -> Spot {
    let below = prng.chance(1, 3);
    // Now and then the second directory itself is the target.
    let name = match prng.below(16) {
        0 if !below => BELOW,
        0..=8 => "x",
        _ => "y",
    };
    Spot { below, name }
}

fn step(value: u8, prng: &mut Prng) -> Step {
    let spot = |prng: &mut Prng| spot(prng);
    match prng.below(48) {
        0 | 1 => Step::Getattr(spot(prng)),
        2 => Step::Access(spot(prng)),
        3..=5 => Step::Lookup(spot(prng)),
        6..=10 => Step::Read(spot(prng)),
        11 | 12 => Step::List { below: prng.chance(1, 3), plus: prng.chance(1, 2) },
        13 | 14 => Step::Resize(spot(prng), prng.below(5)),
        15 => Step::Chmod(spot(prng), [0o600, 0o640, 0o755][prng.index(3)]),
        16..=23 => write(value, 3, prng),
        24..=26 => Step::Commit(spot(prng)),
        27..=32 => create(value, prng),
        33 | 34 => Step::Mkdir(spot(prng)),
        35 => Step::Symlink(spot(prng)),
        36 => Step::Mkfifo(spot(prng)),
        37..=40 => Step::Remove(spot(prng)),
        41 | 42 => Step::Rmdir(spot(prng)),
        43..=45 => Step::Rename(spot(prng), spot(prng)),
        _ => Step::Link(spot(prng), spot(prng)),
    }
}

fn write(value: u8, unstable_of_six: u64, prng: &mut Prng) -> Step {
    let stable = match prng.below(6) {
        roll if roll < unstable_of_six => Stable::Unstable,
        5 => Stable::DataSync,
        _ => Stable::FileSync,
    };
    Step::Write { spot: spot(prng), at: prng.below(4), count: prng.between(1, 3), value, stable }
}

fn create(value: u8, prng: &mut Prng) -> Step {
    let how = match prng.below(5) {
        0 => How::Unchecked { empty: true },
        1 => How::Unchecked { empty: false },
        2 => How::Exclusive(u64::from(value)),
        _ => How::Guarded,
    };
    Step::Create(spot(prng), how)
}

/// Data comes and goes: a file takes the blocks that another one frees.
fn data_step(value: u8, prng: &mut Prng) -> Step {
    match prng.below(16) {
        0..=3 => Step::Resize(spot(prng), prng.below(2)),
        4..=9 => write(value, 1, prng),
        10 => Step::Create(spot(prng), How::Unchecked { empty: true }),
        11 | 12 => Step::Create(spot(prng), How::Unchecked { empty: false }),
        13 => Step::Remove(spot(prng)),
        _ => Step::Read(spot(prng)),
    }
}

/// Names come and go.
fn name_step(value: u8, prng: &mut Prng) -> Step {
    match prng.below(16) {
        0..=3 => Step::Rename(spot(prng), spot(prng)),
        4 | 5 => create(value, prng),
        6 | 7 => Step::Mkdir(spot(prng)),
        8 | 9 => Step::Remove(spot(prng)),
        10 | 11 => Step::Rmdir(spot(prng)),
        12 => Step::Link(spot(prng), spot(prng)),
        13 => Step::List { below: prng.chance(1, 3), plus: prng.chance(1, 2) },
        _ => Step::Lookup(spot(prng)),
    }
}
