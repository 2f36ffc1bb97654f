//! A fault at every read, write and flush of one member of a set, while the trace runs.
//!
//! No client may notice it. For any effect of a fault on a call to one disk, reported or not, once
//! or from then on: every operation is answered as without the fault, also over two stops and
//! starts, and the checker finds nothing on the set's contents at the end. A disk that never
//! answers is not among the faults: no code takes such a disk out of the set. Nor is a full host:
//! its disk is not dead, and a client that writes to unwritten space gets the error.

use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use sim::{Counters, Disk, Effect, Fault, Persistence};

use super::super::conformance::session::Session;
use super::super::conformance::step::{Act, Step};
use super::trial::{begin, count};
use super::{VERBS, means_something, workload};
use crate::explore::design::Design;

/// The effects of a fault.
const EFFECTS: [Effect; 7] = [
    Effect::Eio,
    Effect::Short { sectors: 1 },
    Effect::Dead,
    Effect::Slow(Duration::from_secs(10)),
    Effect::Lost,
    Effect::Rot { bit: 4321 },
    Effect::Misdirected { to: 3 << 20 },
];

/// A fault: the effect, the call and the member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    member: usize,
    verb: Verb,
    nth: u64,
    effect: Effect,
    persistence: Persistence,
}

/// Every fault of the full form, in order.
///
/// # Errors
/// The failure of a run without a fault.
pub(super) fn strikes(design: Design, seed: u64) -> Result<Vec<Strike>, String> {
    let mut session = begin(design, seed)?;
    let before: Vec<Counters> = counters(&session.world.homes());
    trace(&mut session)?;
    let after = counters(&session.world.homes());
    let mut strikes = Vec::new();
    for (member, (before, after)) in before.iter().zip(&after).enumerate() {
        for verb in VERBS {
            let calls = count(after, verb) - count(before, verb);
            for effect in EFFECTS.into_iter().filter(|&effect| means_something(verb, effect)) {
                // A single corruption is detected; a disk that is always wrong must be replaced.
                let lasting = match effect {
                    Effect::Eio => vec![Persistence::Once, Persistence::Forever],
                    Effect::Dead => vec![Persistence::Forever],
                    _ => vec![Persistence::Once],
                };
                for (nth, persistence) in
                    (1..=calls).flat_map(|nth| lasting.iter().map(move |&lasts| (nth, lasts)))
                {
                    strikes.push(Strike { member, verb, nth, effect, persistence });
                }
            }
        }
    }
    Ok(strikes)
}

/// Runs the trace with a fault.
pub(super) fn run(design: Design, seed: u64, strike: &Strike) -> Result<(), String> {
    let mut session = begin(design, seed)?;
    let Strike { member, verb, nth, effect, persistence } = *strike;
    let fault = Fault::on(verb, effect).nth(nth).lasting(persistence);
    session.world.homes()[member].inject(fault);
    trace(&mut session)?;
    session.finish()
}

/// Runs all operations, with a stop and a start in the middle and at the end.
fn trace(session: &mut Session) -> Result<(), String> {
    let restart = Step { number: usize::MAX, user: 0, act: Act::Restart };
    let operations = workload::operations();
    let (first, second) = operations.split_at(operations.len() / 2);
    for step in first.iter().chain([&restart]).chain(second).chain([&restart]) {
        session.perform(step).map_err(|reason| format!("{step}: {reason}"))?;
    }
    Ok(())
}

fn counters(disks: &[Rc<Disk>]) -> Vec<Counters> {
    disks.iter().map(|disk| disk.counters()).collect()
}
