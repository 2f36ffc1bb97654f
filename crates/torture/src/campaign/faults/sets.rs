//! A fault at every read, write and flush of one member of a set, while the trace runs.
//!
//! Nobody may see it. Whatever becomes of a call to one disk, told or untold, once or from then on:
//! every operation is answered as if nothing had been, also over two stops and starts, and the
//! checker finds nothing on what the set holds at the end. A disk that never answers is not among
//! them: nothing calls such a disk out. Nor is a host that is full: that is no dead disk, and who
//! writes what was never written hears of it.

use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use sim::{Counters, Disk, Effect, Fault, Persistence};

use super::super::conformance::session::Session;
use super::super::conformance::step::{Act, Step};
use super::trial::{begin, count};
use super::{VERBS, means_something, workload};
use crate::explore::design::Design;

/// What can become of a call.
const EFFECTS: [Effect; 7] = [
    Effect::Eio,
    Effect::Short { sectors: 1 },
    Effect::Dead,
    Effect::Slow(Duration::from_secs(10)),
    Effect::Lost,
    Effect::Rot { bit: 4321 },
    Effect::Misdirected { to: 3 << 20 },
];

/// What becomes of which call of which member.
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
/// What goes wrong without one.
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
                // What is wrong once is found; a disk that is always wrong is to be replaced.
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

/// The trace with a fault.
pub(super) fn run(design: Design, seed: u64, strike: &Strike) -> Result<(), String> {
    let mut session = begin(design, seed)?;
    let Strike { member, verb, nth, effect, persistence } = *strike;
    let fault = Fault::on(verb, effect).nth(nth).lasting(persistence);
    session.world.homes()[member].inject(fault);
    trace(&mut session)?;
    session.finish()
}

/// All operations, with a stop and a start in their middle and at their end.
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
