//! Campaigns: what `duramen-torture` runs, a module each.
//!
//! Every campaign is a function of [`Options`] to an [`Outcome`]: how much was tried, and each
//! violation with the command that shows it again. Each has a short form, which a test and CI can
//! afford, and a full one, in which the numbers of the whole are reached.

pub mod concurrent;
pub mod conformance;
pub mod contract;
pub mod data;
pub mod faults;
pub mod nested;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod progress;
pub mod retry;
pub mod sequences;
pub mod space;

use std::thread;

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
    /// How many threads work.
    pub threads: usize,
    /// From which all random choices follow.
    pub seed: u64,
}

impl Options {
    /// The short form of a campaign.
    pub const fn short(design: Design, threads: usize) -> Self {
        Self { design, full: false, threads, seed: 1 }
    }

    /// The words of a command line that say the policy and the seed.
    pub fn words(&self) -> String {
        format!("{} --seed {}", self.design.words(), self.seed)
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

/// Does parts of a work in as many threads, each in worlds of its own, and adds up. A single part
/// is done in this thread, so that what was planted in it is there.
pub fn in_threads<T, F>(mut parts: Vec<T>, work: F) -> Outcome
where
    T: Send,
    F: Fn(T) -> Outcome + Sync,
{
    if parts.len() == 1 {
        return parts.pop().map(work).unwrap_or_default();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| work(part))).collect();
        let outcomes = workers.into_iter().map(|worker| worker.join().expect("it does not panic"));
        outcomes.fold(Outcome::default(), Outcome::plus)
    })
}

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
