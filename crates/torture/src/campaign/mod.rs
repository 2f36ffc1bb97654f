//! Campaigns: what `duramen-torture` runs, a module each.
//!
//! Every campaign is a function of [`Options`] to an [`Outcome`]: how much was tried, and each
//! violation with the command that shows it again ([`case`]). It is cut into pieces, and plays as
//! many as it is told ([`mod@budget`]): a short sample, everything, or what a number of seconds
//! allows, drawn by the seed.

mod budget;
pub mod case;
pub mod concurrent;
pub mod conformance;
pub mod contract;
pub mod crowd;
pub mod data;
pub mod faults;
mod line;
pub mod nested;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod retry;
pub mod rot;
pub mod sequences;
pub mod space;
pub mod ways;

use crate::explore::Counts;
use crate::explore::design::Design;
pub use crate::world::Cuts;

/// How a campaign is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How the engine keeps its promises.
    pub design: Design,
    /// Everything, and not a sample.
    pub full: bool,
    /// Seconds to spend on pieces that the seed draws; none plays the sample or everything.
    pub seconds: Option<u64>,
    /// Whether a thread plays nothing more once it has found a violation.
    pub stops_at_first: bool,
    /// How many threads work.
    pub threads: usize,
    /// From which all random choices follow.
    pub seed: u64,
}

impl Options {
    /// The short form of a campaign.
    pub const fn short(design: Design, threads: usize) -> Self {
        Self { design, full: false, seconds: None, stops_at_first: false, threads, seed: 1 }
    }

    /// The seed of a random piece.
    fn seed_of(&self, piece: u64) -> u64 {
        self.seed.wrapping_mul(1_000_000).wrapping_add(piece)
    }

    /// How many random pieces to play: of these that the full form has and the short one, or as
    /// many as the time allows.
    fn count(&self, (full, short): (u64, u64)) -> u64 {
        match (self.seconds, self.full) {
            (Some(_), _) => u64::MAX,
            (None, true) => full,
            (None, false) => short,
        }
    }
}

/// What a campaign did and found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How much was tried.
    pub counts: Counts,
    /// What may not be, each with what repeats it.
    pub violations: Vec<String>,
    /// What else people like to know, a line each.
    pub remarks: Vec<String>,
    /// Of an engine over memory: cuts that took something, and those that left something of which
    /// no client had been told.
    pub cuts: Cuts,
}

impl Outcome {
    /// Both together.
    pub fn plus(mut self, other: Self) -> Self {
        self.counts = self.counts.plus(other.counts);
        self.violations.extend(other.violations);
        self.remarks.extend(other.remarks);
        self.cuts = self.cuts.plus(other.cuts);
        self
    }

    /// A violation if fewer than `least` cuts took something, or left something: nothing was tried.
    pub fn with_cuts(mut self, least: u64) -> Self {
        let Cuts { taking, keeping } = self.cuts;
        if taking.min(keeping) < least {
            self.counts.violations += 1;
            let line = format!(
                "{taking} cuts took something, and {keeping} left something of which nobody had \
                 been told: each is to be {least} at least"
            );
            self.violations.push(line);
        }
        self
    }
}

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
