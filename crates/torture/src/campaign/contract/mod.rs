//! The contract of a device, held against plain disks and sets of them at every cut.
//!
//! A workload is two writes, of every shape that matters to a set: less than a unit, across units,
//! a stripe in part and in full, more than one, over each other; with a flush between them, through
//! or at once; now and then with a member that fails, or of what was discarded. It is recorded, and
//! cut at each event. What each member has not made durable is lost, kept or torn apart from the
//! others, and then any one member is lost besides. What comes back has to obey the contract
//! ([`model`]): each sector is old or new, and new where an answer covers it; then what members
//! have fits together, and everything is durable. Returns are cut as well.
//!
//! # A failure
//! names the workload and the cut: `DURAMEN_CONTRACT=WORKLOAD` tries that workload alone.

mod devices;
mod model;
mod search;
mod workload;

use super::progress::Progress;
use super::{Options, Outcome, in_threads};
use crate::explore::device::Device;
use search::Search;
use workload::Workload;

/// Names a workload that is to be tried alone, in full.
const VARIABLE: &str = "DURAMEN_CONTRACT";
/// Of so many workloads one is tried, in the full form and in the short one; which, the seed says:
/// so many seeds in a row have tried all.
const ONE_OF: (usize, usize) = (10, 347);

/// The campaign.
pub fn contract(options: &Options) -> Outcome {
    if let Ok(name) = std::env::var(VARIABLE) {
        return named(options, &name);
    }
    let is_set = options.design.device() != Device::Plain;
    let full = if is_set { ONE_OF.0 } else { 1 };
    let one_of = if options.full { full } else { ONE_OF.1 };
    let all = workload::all(options.design.device()).into_iter();
    let all: Vec<Workload> = all.skip(options.seed as usize % one_of).step_by(one_of).collect();
    let threads = options.threads.clamp(1, all.len());
    let part = |part: usize| all.iter().skip(part).step_by(threads).cloned();
    let parts: Vec<Vec<Workload>> = (0..threads).map(|number| part(number).collect()).collect();
    let progress = Progress::of(all.len());
    in_threads(parts, |part| {
        let mut search = Search::new(options.full, options.seed);
        let outcomes = part.iter().map(|workload| {
            let outcome = search.try_one(workload);
            progress.one();
            outcome
        });
        outcomes.fold(Outcome::default(), Outcome::plus)
    })
}

/// One workload in this thread, by its name, in the full form.
///
/// # Panics
/// When there is none of that name.
pub fn named(options: &Options, name: &str) -> Outcome {
    let workload = workload::named(options.design.device(), name);
    Search::thorough(options.seed).try_one(&workload)
}
