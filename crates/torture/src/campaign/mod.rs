//! Campaigns: what `duramen-torture` runs, a module each.
//!
//! Every campaign is a function from [`Options`] to an [`Outcome`]: how much was tried, and each
//! violation with the command that reproduces it ([`case`]). A campaign is cut into pieces, and its
//! budget ([`mod@budget`]) says how many to play: a short sample, everything, or as many as a
//! number of seconds allows, drawn by the seed.

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
    /// Everything instead of a sample.
    pub full: bool,
    /// Seconds to spend on pieces that the seed draws; none plays the sample or everything.
    pub seconds: Option<u64>,
    /// Whether a thread stops once it has found a violation.
    pub stops_at_first: bool,
    /// How many threads work.
    pub threads: usize,
    /// The seed of all random choices.
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

    /// How many random pieces to play: the full or the short number, or as many as the time allows.
    fn count(&self, (full, short): (u64, u64)) -> u64 {
        match (self.seconds, self.full) {
            (Some(_), _) => u64::MAX,
            (None, true) => full,
            (None, false) => short,
        }
    }
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How much was tried.
    pub counts: Counts,
    /// Violations, each with the command that reproduces it.
    pub violations: Vec<String>,
    /// Other lines of the report.
    pub remarks: Vec<String>,
    /// Cuts of an engine over memory that took something, and those that left something not
    /// acknowledged to any client.
    pub cuts: Cuts,
}

impl Outcome {
    /// The sum of both.
    pub fn plus(mut self, other: Self) -> Self {
        self.counts = self.counts.plus(other.counts);
        self.violations.extend(other.violations);
        self.remarks.extend(other.remarks);
        self.cuts = self.cuts.plus(other.cuts);
        self
    }

    /// Adds a violation if fewer than `least` cuts took something, or left something: such a run
    /// tests nothing.
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

/// The message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
