//! A fault at every read, write and flush of a trace of 200 operations, on the volume's disk and on
//! the log's if there is one.
//!
//! The trace ([`workload`]) runs on the whole server, with little memory, so that it reads from the
//! disk. It runs once to count its disk calls, and then again for each of them with a fault there.
//!
//! # Checks
//! *Faults that the disk reports to the server* (EIO, ENOSPC, a short transfer, a disk that is
//! gone), once or from then on: no panic; every call answered; no error before the fault; and no
//! false answer, by the judgement of [`witness`]. When a flush or a write of the log has failed the
//! volume stops: NFS3ERR_IO to everything. When another write has failed, the volume stops, or the
//! write verifier changes, or, where no data was lost, the caller gets an error; but ENOSPC on the
//! way from a log to its place need not reach any client, since that write is retried. The fault
//! ends, the power is cut, and the server recovers by itself: acknowledged changes are there,
//! others are there or not, and the checker finds nothing.
//!
//! *A late call:* no visible effect at all.
//!
//! *A call that is never answered:* all earlier answers hold after a power cut.
//!
//! *EIO at a call of the recovery:* the recovery ends, and after another cut the next one is as if
//! the fault had never been.
//!
//! *Faults that the disk does not report* (writes and flushes that do nothing, misdirected calls,
//! rotten bits): no panic, every call answered, the recovery ends, the disk can be repaired, and
//! files that no call touched are as they were.
//!
//! *Any fault of one member of a set* has no visible effect at all: see [`sets`].
//!
//! # A failure
//! is printed with the line that repeats it.

mod data;
mod sets;
mod trial;
mod witness;
mod workload;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use block::Verb;
use sim::{Effect, Persistence};

use super::budget::spend_on_list;
use super::{Options, Outcome, line};
use crate::explore::Counts;
use crate::explore::design::Design;
use crate::explore::device::Device;
use trial::{Calls, Phase, PhaseCalls, Place, Strike, count};

/// The word of a case: the seed of the trace, and the number of a fault in the list.
pub(super) const WORD: &str = "faults";
/// Calls between two on which an effect is tried, in the full form; EIO is tried at all of them.
const STRIDE: u64 = 7;
/// The short form tries one fault in this many.
const SAMPLE: usize = 23;

const VERBS: [Verb; 3] = [Verb::Read, Verb::Write, Verb::Flush];

/// Effects of a fault besides EIO.
const EFFECTS: [Effect; 8] = [
    Effect::Short { sectors: 1 },
    Effect::Dead,
    Effect::NoSpace,
    Effect::Slow(Duration::from_secs(10)),
    Effect::Lost,
    Effect::Rot { bit: 4321 },
    Effect::Misdirected { to: 9 << 20 },
    Effect::Silent,
];

/// Every fault of the full form, in order.
fn strikes(calls: &Calls) -> Vec<Strike> {
    let places = [(Place::Home, Some(calls.home)), (Place::Log, calls.log)];
    let there = places.into_iter().filter_map(|(place, calls)| Some((place, calls?)));
    there.flat_map(|(place, calls)| strikes_at(place, &calls)).collect()
}

fn strikes_at(place: Place, calls: &PhaseCalls) -> Vec<Strike> {
    let mut strikes = Vec::new();
    for (phase, verb) in [Phase::Trace, Phase::Return].into_iter().flat_map(in_verbs) {
        let calls = if phase == Phase::Trace { &calls.trace } else { &calls.back };
        for nth in 1..=count(calls, verb) {
            for persistence in [Persistence::Once, Persistence::Forever] {
                strikes.push(Strike { place, phase, verb, nth, effect: Effect::Eio, persistence });
            }
        }
        if phase == Phase::Return {
            continue;
        }
        for (index, effect) in EFFECTS.into_iter().enumerate() {
            let persistence = match effect {
                Effect::Dead => Persistence::Forever,
                _ => Persistence::Once,
            };
            if !means_something(verb, effect) {
                continue;
            }
            let first = 1 + index as u64 % STRIDE;
            for nth in (first..=count(calls, verb)).step_by(STRIDE as usize) {
                strikes.push(Strike { place, phase, verb, nth, effect, persistence });
            }
        }
    }
    strikes
}

fn in_verbs(phase: Phase) -> impl Iterator<Item = (Phase, Verb)> {
    VERBS.into_iter().map(move |verb| (phase, verb))
}

/// Whether an effect is possible for a verb.
fn means_something(verb: Verb, effect: Effect) -> bool {
    !matches!(
        (verb, effect),
        (Verb::Flush, Effect::Short { .. } | Effect::Rot { .. } | Effect::Misdirected { .. })
            | (Verb::Read, Effect::NoSpace)
    )
}

/// Tries a fault at every call.
pub fn everywhere(options: &Options) -> Outcome {
    match Faults::of(options.design, options.seed) {
        Ok(faults) => Outcome { remarks: faults.remarks.clone(), ..Outcome::default() }
            .plus(faults.play(options)),
        Err(reason) => failed(format!("without a fault: {reason}")),
    }
}

/// Replays one fault.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let (seed, number) = details.split_once(' ').ok_or("a fault is a seed and a number")?;
    let (seed, number) = (line::number(seed)?, line::number::<usize>(number)?);
    let faults = Faults::of(design, seed)?;
    if number >= faults.all.len() {
        return Err(format!("there are {} faults", faults.all.len()));
    }
    Ok(faults.try_one(number))
}

/// A fault, and the run of the trace with it.
type Fault = Box<dyn Fn() -> (String, Result<(), String>) + Sync>;

/// All faults of a design.
struct Faults {
    design: Design,
    seed: u64,
    all: Vec<Fault>,
    /// The number of calls of the trace to each disk.
    remarks: Vec<String>,
}

impl Faults {
    /// Counts the disk calls of the trace, which must succeed without a fault.
    fn of(design: Design, seed: u64) -> Result<Self, String> {
        if design.device() != Device::Plain {
            let all =
                boxed(sets::strikes(design, seed)?, move |strike| sets::run(design, seed, strike));
            return Ok(Self { design, seed, all, remarks: Vec::new() });
        }
        let calls = trial::healthy(design, seed)?;
        let all = boxed(strikes(&calls), move |strike| trial::run(design, seed, strike));
        let places = [("the volume", Some(calls.home)), ("the log", calls.log)];
        let there = places.into_iter().filter_map(|(place, calls)| Some((place, calls?)));
        let remarks = there.map(|(place, calls)| remark(place, &calls)).collect();
        Ok(Self { design, seed, all, remarks })
    }

    /// Tries all faults; in the short form a part, and within a time limit as many as the seed
    /// draws.
    fn play(&self, options: &Options) -> Outcome {
        let mut numbers: Vec<usize> = (0..self.all.len()).collect();
        if !options.full && options.seconds.is_none() {
            let start = options.seed as usize % SAMPLE;
            numbers = numbers.into_iter().skip(start).step_by(SAMPLE).collect();
        }
        spend_on_list(options, &numbers, || (), |(), &number| self.try_one(number))
    }

    fn try_one(&self, number: usize) -> Outcome {
        let verdict = catch_unwind(AssertUnwindSafe(|| self.all[number]()));
        let reason = match verdict {
            Ok((_, Ok(()))) => None,
            Ok((strike, Err(reason))) => Some(format!("{strike}: {reason}")),
            Err(panic) => Some(format!("a panic: {}", super::message(&*panic))),
        };
        let found = u64::from(reason.is_some());
        let counts = Counts { workloads: 1, states: 1, images: 1, violations: found };
        let details = format!("{} {number}", self.seed);
        let told = |reason: String| line::told(&reason, WORD, self.design, &details);
        let violations = reason.map(told).into_iter().collect();
        Outcome { counts, violations, ..Outcome::default() }
    }
}

fn boxed<S: Debug + Sync + Send + 'static>(
    strikes: Vec<S>,
    run: impl Fn(&S) -> Result<(), String> + Copy + Sync + Send + 'static,
) -> Vec<Fault> {
    let fault = |strike: S| -> Fault { Box::new(move || (format!("{strike:?}"), run(&strike))) };
    strikes.into_iter().map(fault).collect()
}

fn remark(place: &str, PhaseCalls { trace, back }: &PhaseCalls) -> String {
    format!(
        "{place} in a trace of {} operations: {} reads, {} writes, {} flushes; in the return: {}, \
         {}, {}",
        workload::OPERATIONS,
        trace.reads,
        trace.writes,
        trace.flushes,
        back.reads,
        back.writes,
        back.flushes
    )
}

fn failed(violation: String) -> Outcome {
    let counts = Counts { violations: 1, ..Counts::default() };
    Outcome { counts, violations: vec![violation], ..Outcome::default() }
}
