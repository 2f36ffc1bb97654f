//! Checks the contract of a device on plain disks and sets at every cut.
//!
//! A workload is two writes, of every shape that matters to a set: less than a unit, across units,
//! a partial and a full stripe, more than one, over each other; with a flush between them, through
//! or at once; now and then with a member that fails, or over a discarded range. Its run is
//! recorded and cut at each event. Writes that a member has not made durable are lost, kept or torn
//! apart from the others, and then any one member is lost besides. The recovered device must obey
//! the contract ([`model`]): each sector is old or new, and new where an answer covers it; then the
//! members are consistent, and everything is durable. Recoveries are cut as well.
//!
//! Sets that meet two faults at once are a separate campaign: [`two_faults`]. A device with an
//! NVRAM has stories instead, of many calls and several lives: `nvram`.
//!
//! # A failure
//! names the workload and the cut, with the line that repeats that workload alone.

mod devices;
mod model;
mod nvram;
mod search;
mod trial;
pub mod two_faults;
mod workload;

use super::budget::{End, spend_on_list};
use super::{Options, Outcome, line};
use crate::explore::design::Design;
use crate::explore::device::Device;
use search::Search;
use workload::Workload;

/// The word of a case: the seed of the losses, and the workload.
pub(super) const WORD: &str = "contract";
/// One workload in this many is tried, in the full form and in the short one; the seed says which:
/// as many seeds in a row try all.
const ONE_OF: (usize, usize) = (10, 347);

/// The campaign.
pub fn contract(options: &Options) -> Outcome {
    if options.design.device().has_nvram() {
        return nvram::stories(options);
    }
    let is_set = options.design.device() != Device::Plain;
    let full = if is_set { ONE_OF.0 } else { 1 };
    let one_of = match (options.seconds, options.full) {
        (Some(_), _) => 1,
        (None, true) => full,
        (None, false) => ONE_OF.1,
    };
    let all = workload::all(options.design.device()).into_iter();
    let all: Vec<Workload> = all.skip(options.seed as usize % one_of).step_by(one_of).collect();
    // A workload of a set may take a minute, so the time limit also applies inside a workload.
    let end = End::of(options);
    let search = || Search::new(options.full, options.seed).until(end);
    spend_on_list(options, &all, search, |search, workload| {
        told(options.design, options.seed, search.try_one(workload), workload)
    })
}

/// One workload in this thread, by its name, in the full form.
///
/// # Errors
/// There is none of that name.
pub fn named(options: &Options, name: &str) -> Result<Outcome, String> {
    let workload = workload::named(options.design.device(), name)?;
    let found = Search::thorough(options.seed).try_one(&workload);
    Ok(told(options.design, options.seed, found, &workload))
}

/// The workload that shows a bug in the shortest time; of a device with an NVRAM, the first story.
#[cfg(feature = "planted-bugs")]
pub(super) fn quickest(options: &Options, seconds: u64, plant: impl Fn(bool)) -> Option<String> {
    use super::budget::now;

    if options.design.device().has_nvram() {
        return nvram::first(options, seconds, plant);
    }
    plant(true);
    let mut all = workload::all(options.design.device());
    all.sort_by_key(|workload| workload.writes.iter().map(|(_, length)| length).sum::<u64>());
    let end = End::of(&Options { seconds: Some(seconds), ..*options });
    let mut quickest = None;
    for workload in all {
        if end.is_over() {
            break;
        }
        let start = now();
        let found = Search::thorough(options.seed).try_one(&workload).violations;
        let took = now() - start;
        if !found.is_empty() && quickest.as_ref().is_none_or(|(known, _)| took < *known) {
            quickest = Some((took, workload.to_string()));
        }
    }
    quickest.map(|(took, workload)| format!("'{workload}' in {took:.1?}"))
}

fn told(design: Design, seed: u64, outcome: Outcome, workload: &Workload) -> Outcome {
    let told = |reason: &String| line::told(reason, WORD, design, &format!("{seed} {workload}"));
    Outcome { violations: outcome.violations.iter().map(told).collect(), ..outcome }
}

/// Replays a workload.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    if design.device().has_nvram() {
        return nvram::replay(design, details);
    }
    let (seed, name) = details.split_once(' ').ok_or("it is a seed and a workload")?;
    named(&Options { seed: line::number(seed)?, ..Options::short(design, 1) }, name)
}
