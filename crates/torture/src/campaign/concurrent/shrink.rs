//! Shrinks a violation: leaves out cuts, clients and steps for as long as it still fails.
//!
//! Leaving out a step shifts all other events in time, so each smaller workload is tried in a few
//! worlds.

use std::ops::Range;

use super::workload::{Part, Workload};
use super::{case, judge};
use crate::shrink::{self, Smaller};

/// Worlds in which each part is tried.
const WORLDS: u64 = 40;
/// Parts tried at most.
const ATTEMPTS: usize = 125;

/// A violation as it is reported: the reason, and the line that reproduces it, small if possible.
pub fn report(workload: &Workload, reason: &str) -> String {
    let (small, reason) = shrink(workload, reason.to_owned());
    let (few, all) = (small.steps().len(), workload.steps().len());
    case::told(&small, &format!("{few} of {all} steps: {reason}"))
}

/// The smallest part that was found to fail, and why.
pub fn shrink(workload: &Workload, reason: String) -> (Workload, String) {
    shrink::shrink(workload.clone(), reason, ATTEMPTS, |smaller| {
        let own = smaller.world;
        let worlds = std::iter::once(own).chain((0..WORLDS).filter(|&world| world != own));
        let in_world = |world| Part { world, ..smaller.as_part() };
        let workloads =
            worlds.map(|world| Workload::part(smaller.seed, smaller.design, &in_world(world)));
        let mut failing = workloads.filter_map(|one| Some((judge(&one).violation?, one)));
        failing.next().map(|(reason, one)| (one, reason))
    })
}

/// The parts are its cuts, then its steps.
impl Smaller for Workload {
    fn parts(&self) -> usize {
        self.cuts.len() + self.steps().len()
    }

    fn without(&self, parts: Range<usize>) -> Option<Self> {
        let Part { steps, cuts, world } = self.as_part();
        let is_kept = |place: usize| !parts.contains(&place);
        let behind = cuts.len();
        let place = |(place, cut)| is_kept(place).then_some(cut);
        let cuts = cuts.into_iter().enumerate().filter_map(place).collect();
        let place = |(place, step)| is_kept(behind + place).then_some(step);
        let steps = steps.into_iter().enumerate().filter_map(place).collect();
        Some(Self::part(self.seed, self.design, &Part { steps, cuts, world }))
    }
}
