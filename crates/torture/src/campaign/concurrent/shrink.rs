//! A violation made small: steps, clients and cuts are left out for as long as it still fails.
//!
//! What is left out changes when everything else happens, so each smaller workload is tried in a
//! few worlds.

use super::judge;
use super::workload::{Part, Workload};

/// So many worlds each part is tried in.
const WORLDS: u64 = 40;
/// So many workloads are played at most.
const TRIES: usize = 5_000;

/// A violation as it is told: why, and what repeats it, small if that is possible.
pub fn report(workload: &Workload, reason: &str) -> String {
    let (small, reason) = shrink(workload, reason.to_owned());
    format!("{small}\n{} of {} steps: {reason}", small.steps().len(), workload.steps().len())
}

/// The smallest part that was found to fail, and why.
pub fn shrink(workload: &Workload, reason: String) -> (Workload, String) {
    let mut shrinking = Shrinking { small: workload.clone(), reason, tries: TRIES };
    loop {
        let before = shrinking.small.as_part();
        shrinking.leave_out_cuts();
        let mut size = before.steps.len().div_ceil(2);
        while size > 0 {
            shrinking.leave_out_steps(size);
            size /= 2;
        }
        if shrinking.small.as_part() == before || shrinking.tries == 0 {
            return (shrinking.small, shrinking.reason);
        }
    }
}

struct Shrinking {
    small: Workload,
    reason: String,
    tries: usize,
}

impl Shrinking {
    /// Takes a part if it fails in some world.
    fn take(&mut self, part: Part) -> bool {
        let seed = self.small.seed;
        let worlds =
            std::iter::once(part.world).chain((0..WORLDS).filter(|&one| one != part.world));
        for world in worlds {
            if self.tries == 0 {
                return false;
            }
            self.tries -= 1;
            let part = Part { world, ..part.clone() };
            let smaller = Workload::part(seed, self.small.design, &part);
            if let Some(reason) = judge(&smaller).violation {
                (self.small, self.reason) = (smaller, reason);
                return true;
            }
        }
        false
    }

    fn leave_out_cuts(&mut self) {
        for number in self.small.as_part().cuts {
            let mut part = self.small.as_part();
            part.cuts.retain(|&one| one != number);
            self.take(part);
        }
    }

    fn leave_out_steps(&mut self, size: usize) {
        let mut at = 0;
        while at < self.small.steps().len() {
            let mut part = self.small.as_part();
            part.steps.drain(at..(at + size).min(part.steps.len()));
            if !self.take(part) {
                at += size;
            }
        }
    }
}
