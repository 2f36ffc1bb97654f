//! Random operations against a reference file system: the replies are the same.
//!
//! Calls of all 22 procedures, by four users, go as RPC through the whole server and to a tree in
//! memory ([`tree`], [`verbs`], [`rights`]) that was written from RFC 1813 and the manual pages,
//! not from the engine. Status, attributes, both sides of every change, bytes, names and ends are
//! compared. Now and then the server is stopped and restarted, and every file is checked; at the
//! end of each world the checker runs on the disk.
//!
//! # Where the server may choose
//! * Among several reasons to refuse a call: any of them.
//! * The order of a listing and its cookies: see [`listing`].
//! * The size of a directory, `used`, file numbers and handles: see [`attributes`].
//! * The exact time that it calls *now*: some moment of the call; see [`stamp`].
//! * Attributes in a refusal may be missing. In a success they must be present, although the
//!   protocol allows their absence: clients ask again for missing ones.
//! * Where the protocol asks a RENAME for NFS3ERR_EXIST, the error of rename(2) will do: every
//!   client hands the status on to a program.
//!
//! # Not here
//! A full disk (the space tests of the engine), concurrent calls (campaign `concurrent`), and
//! crashes (all the others).
//!
//! # A failure
//! ends its world. The run is repeated with as many steps left out as possible, and the rest is
//! printed, with the line that repeats it.

pub(super) mod attributes;
mod carry_out;
pub(super) mod content;
mod generate;
pub(super) mod judge;
mod judge_names;
mod listing;
pub(super) mod reference;
mod rights;
pub(super) mod session;
pub(super) mod stamp;
pub(super) mod step;
#[cfg(test)]
mod tests;
pub(super) mod tree;
mod verbs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use ram::RamOptions;
use sim::Prng;

use super::budget::spend;
use super::{Options, Outcome, line};
use crate::explore::Counts;
use crate::explore::design::Design;
use crate::shrink::{Steps, shrink};
use crate::world::WorldOptions;
use generate::Generator;
use session::{Session, Statuses, users};
use step::Step;

/// Steps of one world.
const STEPS: usize = 2000;
/// Worlds of the full form, and of the short one.
const WORLDS: (u64, u64) = (500, 10);
/// The word of a case: the seed of a world, and its steps.
pub(super) const WORD: &str = "conformance";
/// Most runs of a failed world, with fewer steps each.
const ATTEMPTS: usize = 400;

/// Where the server and the reference differ.
struct Mismatch {
    /// The steps up to the difference; empty at the very end.
    steps: Vec<Step>,
    reason: String,
}

/// The world of a seed. Worlds of odd seeds over disks have a log, if the engine supports one: a
/// reply is the same under every policy.
#[derive(Clone, Copy)]
struct Setting {
    seed: u64,
    /// The design, which also names the disks below the volume if it has some.
    design: Design,
}

impl Setting {
    fn options(self) -> WorldOptions {
        let in_memory = !self.design.has_disks();
        let with_log = self.design.with_log().filter(|_| self.seed % 2 == 1);
        let on_disks = with_log.or_else(|| self.design.without_log());
        let on_disks = on_disks.map(|design| design.on(self.design.device()));
        let design = on_disks.filter(|_| !in_memory).unwrap_or(self.design);
        let ram = in_memory.then(RamOptions::default);
        WorldOptions { design, size: 64 << 20, log_size: 8 << 20, ram, ..WorldOptions::default() }
    }
}

/// Random operations against the reference.
pub fn random(options: &Options) -> Outcome {
    let all = Mutex::new(Statuses::new());
    let mut outcome = spend(
        options,
        options.count(WORLDS),
        || (),
        |(), number| {
            let mut statuses = Statuses::new();
            let setting = Setting { seed: options.seed_of(number), design: options.design };
            let outcome = world_with(setting, ATTEMPTS, &mut statuses);
            let mut all = all.lock().expect("nothing panics while it holds this");
            for (key, count) in statuses {
                *all.entry(key).or_default() += count;
            }
            outcome
        },
    );
    let all = all.into_inner().expect("nothing panics while it holds this");
    let refusals: u64 = all.iter().filter(|((_, status), _)| *status != 0).map(|(_, n)| n).sum();
    let answers: u64 = all.values().sum();
    outcome.remarks.push(format!(
        "{answers} answers, {refusals} of them refusals; {} pairs of a procedure and a status",
        all.len()
    ));
    outcome
}

/// One world: its steps until one fails.
pub fn world(design: Design, seed: u64) -> Outcome {
    world_with(Setting { seed, design }, 0, &mut Statuses::new())
}

/// Plays a world. On a failure, reports the fewest failing steps that this many attempts have
/// found.
fn world_with(setting: Setting, attempts: usize, statuses: &mut Statuses) -> Outcome {
    let outcome = |steps: usize, violations: Vec<String>| {
        let (workloads, states, images) = (1, steps as u64, 1);
        let counts = Counts { workloads, states, images, violations: violations.len() as u64 };
        Outcome { counts, violations, ..Outcome::default() }
    };
    match guarded(|steps| generated(setting, steps, statuses)) {
        Ok(()) => outcome(STEPS, Vec::new()),
        Err(found) => {
            let count = found.steps.len();
            let again = |Steps(steps): Steps<Step>| {
                let Mismatch { steps, reason } = replayed(setting, &steps).err()?;
                Some((Steps(steps), reason))
            };
            let Mismatch { steps, reason } = found;
            let (Steps(steps), reason) = shrink(Steps(steps), reason, attempts, again);
            outcome(count, vec![describe(setting, &Mismatch { steps, reason })])
        }
    }
}

/// Draws and performs steps.
fn generated(
    setting: Setting,
    done: &mut Vec<Step>,
    statuses: &mut Statuses,
) -> Result<(), String> {
    let mut session = Session::new(setting.seed, setting.options(), users())?;
    let prng = &mut Prng::new(setting.seed ^ 0x5eed);
    for number in 1..=STEPS {
        let step = Generator { prng, reference: &session.reference }.step(number);
        done.push(step.clone());
        session.perform(&step)?;
    }
    session.look()?;
    for (key, count) in &session.statuses {
        *statuses.entry(*key).or_default() += count;
    }
    session.finish()
}

/// Performs steps that were drawn before.
fn replayed(setting: Setting, steps: &[Step]) -> Result<(), Mismatch> {
    guarded(|done| {
        let mut session = Session::new(setting.seed, setting.options(), users())?;
        for step in steps {
            done.push(step.clone());
            session.perform(step)?;
        }
        session.look()?;
        session.finish()
    })
}

/// Records the performed steps until something fails or panics.
fn guarded(run: impl FnOnce(&mut Vec<Step>) -> Result<(), String>) -> Result<(), Mismatch> {
    let mut steps = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| run(&mut steps)));
    let reason = match result {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(reason)) => reason,
        Err(panic) => format!("a panic: {}", super::message(&*panic)),
    };
    Err(Mismatch { steps, reason })
}

fn describe(setting: Setting, found: &Mismatch) -> String {
    let numbers: Vec<usize> = found.steps.iter().map(|step| step.number).collect();
    let steps: String = found.steps.iter().map(|step| format!("\n    {step}")).collect();
    let details = format!("{} {}", setting.seed, line::list(&numbers));
    line::told(&found.reason, WORD, setting.design, &details) + &steps
}

/// Replays some steps of a world.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let (seed, numbers) = details.split_once(' ').ok_or("a world is a seed and its steps")?;
    let (seed, numbers) = (line::number(seed)?, line::numbers(numbers)?);
    let setting = Setting { seed, design };
    let mut drawn = Vec::new();
    let _ = catch_unwind(AssertUnwindSafe(|| generated(setting, &mut drawn, &mut Statuses::new())));
    drawn.retain(|step| numbers.contains(&step.number));
    let violations = replayed(setting, &drawn).err().map(|found| describe(setting, &found));
    Ok(Outcome { violations: violations.into_iter().collect(), ..Outcome::default() })
}
