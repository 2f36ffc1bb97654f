//! A fault at every read, write and flush of a trace of 200 operations, of the volume's disk and of
//! its log's if there is one.
//!
//! The trace ([`workload`]) runs on the whole server, with too little memory, so that it reads. It
//! is run once to count its calls of the disk, and then again for each of them with a fault there.
//!
//! # What is asked
//! *Of faults that the server is told of* (EIO, ENOSPC, a short transfer, a disk that is gone),
//! once or from then on: no panic; every call answered; no error before there was one; and no lie,
//! which [`witness`] judges. When a flush or a write of the log has failed the volume stops:
//! NFS3ERR_IO to everything. When another write has failed, the volume stops, or the write verifier
//! changes, or, where no data was lost, the caller is told; but of ENOSPC on the way from a log to
//! its place no client need hear, since it is tried again. The fault ends, the power goes, and the
//! server comes back by itself: what was acknowledged is there, what was not is there or not, and
//! the checker finds nothing.
//!
//! *Of a call that is late:* nothing at all.
//!
//! *Of a call that is never answered:* that what was said until then holds after the power went.
//!
//! *Of EIO at a call of the return:* that it ends, and that after another cut the next return is as
//! if nothing had been.
//!
//! *Of faults that the server is not told of* (writes and flushes that do nothing, calls that go
//! astray, bits that rot): no panic, every call answered, the return ends, the disk can be
//! repaired, and files that no call touched are as they were.
//!
//! *Of any fault of one member of a set* nothing at all is seen: see [`sets`].
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

use super::{Options, Outcome, in_threads};
use crate::explore::Counts;
use crate::explore::device::Device;
use trial::{Calls, Phase, PhaseCalls, Place, Strike, count};

/// Names the only fault to try: its number in the list.
const VARIABLE: &str = "DURAMEN_FAULT";
/// Every so many calls an effect is tried, in the full form: EIO at all of them.
const STRIDE: u64 = 7;
/// The short form tries every so many of those.
const SAMPLE: usize = 23;

const VERBS: [Verb; 3] = [Verb::Read, Verb::Write, Verb::Flush];

/// What else can become of a call than EIO.
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

/// Whether an effect can befall a verb.
fn means_something(verb: Verb, effect: Effect) -> bool {
    !matches!(
        (verb, effect),
        (Verb::Flush, Effect::Short { .. } | Effect::Rot { .. } | Effect::Misdirected { .. })
            | (Verb::Read, Effect::NoSpace)
    )
}

/// A fault at every call.
pub fn everywhere(options: &Options) -> Outcome {
    let Options { design, seed, .. } = *options;
    if design.device() != Device::Plain {
        return match sets::strikes(design, seed) {
            Ok(strikes) => all(options, &strikes, &|strike| sets::run(design, seed, strike)),
            Err(reason) => failed(format!("without a fault: {reason}")),
        };
    }
    let calls = match trial::healthy(options.design, options.seed) {
        Ok(calls) => calls,
        Err(reason) => return failed(format!("without a fault: {reason}")),
    };
    let run = |strike: &Strike| trial::run(design, seed, strike);
    let mut outcome = all(options, &strikes(&calls), &run);
    let places = [("the volume", Some(calls.home)), ("the log", calls.log)];
    for (place, calls) in places.into_iter().filter_map(|(place, calls)| Some((place, calls?))) {
        let PhaseCalls { trace, back } = calls;
        outcome.remarks.push(format!(
            "{place} in a trace of {} operations: {} reads, {} writes, {} flushes; in the return: \
             {}, {}, {}",
            workload::OPERATIONS,
            trace.reads,
            trace.writes,
            trace.flushes,
            back.reads,
            back.writes,
            back.flushes
        ));
    }
    outcome
}

/// All of these faults, or a part of them in the short form.
fn all<S: Clone + Debug + Sync>(
    options: &Options,
    strikes: &[S],
    run: &(impl Fn(&S) -> Result<(), String> + Sync),
) -> Outcome {
    let mut strikes: Vec<(usize, &S)> = strikes.iter().enumerate().collect();
    if let Ok(text) = std::env::var(VARIABLE) {
        let only: usize = text.parse().expect("the number of a fault");
        strikes.retain(|(number, _)| *number == only);
    } else if !options.full {
        let start = options.seed as usize % SAMPLE;
        strikes = strikes.into_iter().skip(start).step_by(SAMPLE).collect();
    }
    let threads = options.threads.max(1);
    let share = strikes.len().div_ceil(threads).max(1);
    in_threads(strikes.chunks(share).collect(), |part| {
        let tried = part.iter().map(|(number, strike)| try_one(options, *number, *strike, run));
        tried.fold(Outcome::default(), Outcome::plus)
    })
}

/// A fault at every so many calls, in this thread, until one shows something.
pub fn some(options: &Options, every: usize) -> Outcome {
    let Options { design, seed, .. } = *options;
    if design.device() != Device::Plain {
        return match sets::strikes(design, seed) {
            Ok(all) => some_of(options, &all, every, &|strike| sets::run(design, seed, strike)),
            Err(reason) => failed(format!("without a fault: {reason}")),
        };
    }
    let calls = match trial::healthy(design, seed) {
        Ok(calls) => calls,
        Err(reason) => return failed(format!("without a fault: {reason}")),
    };
    some_of(options, &strikes(&calls), every, &|strike| trial::run(design, seed, strike))
}

fn some_of<S: Debug>(
    options: &Options,
    strikes: &[S],
    every: usize,
    run: &impl Fn(&S) -> Result<(), String>,
) -> Outcome {
    let mut outcome = Outcome::default();
    for (number, strike) in strikes.iter().enumerate().step_by(every.max(1)) {
        outcome = outcome.plus(try_one(options, number, strike, run));
        if !outcome.violations.is_empty() {
            break;
        }
    }
    outcome
}

fn failed(violation: String) -> Outcome {
    let counts = Counts { violations: 1, ..Counts::default() };
    Outcome { counts, violations: vec![violation], ..Outcome::default() }
}

fn try_one<S: Debug>(
    options: &Options,
    number: usize,
    strike: &S,
    run: &impl Fn(&S) -> Result<(), String>,
) -> Outcome {
    let verdict = catch_unwind(AssertUnwindSafe(|| run(strike)));
    let reason = match verdict {
        Ok(Ok(())) => None,
        Ok(Err(reason)) => Some(reason),
        Err(panic) => Some(format!("a panic: {}", super::message(&*panic))),
    };
    let found = u64::from(reason.is_some());
    let counts = Counts { workloads: 1, states: 1, images: 1, violations: found };
    let describe = |reason| {
        let words = options.words();
        format!("{strike:?}: {reason}; {VARIABLE}={number} cargo xtask torture faults {words}")
    };
    let violations = reason.map(describe).into_iter().collect();
    Outcome { counts, violations, ..Outcome::default() }
}
