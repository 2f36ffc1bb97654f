//! Runs steps, and prints the table at the end.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::programs::{Ran, Timed};
use crate::budgets::{RUN_SECONDS, Step};
use crate::{Failure, Result, Totals, clock, command};

/// Number of slowest tests that are listed.
const SLOWEST: usize = 10;
/// Number of lines, before the last one, of a failed campaign's output that are repeated.
const END_LINES: usize = 12;

/// A finished step.
#[derive(Debug)]
struct Done {
    name: String,
    seconds: f64,
    budget: u64,
    drew: String,
}

/// Results of a run so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    totals: Totals,
    done: Vec<Done>,
    timed: Vec<Timed>,
    /// Names of steps, tests and campaigns that failed, with the end of a campaign's output.
    failed: Vec<String>,
}

/// Result of a campaign.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) passed: bool,
    pub(super) workloads: u64,
    states: u64,
    images: u64,
    /// The end of its output.
    end: Vec<String>,
}

impl Drawn {
    /// Runs a campaign, which ends with a line of JSON.
    pub(super) fn by(campaign: &mut Command) -> Result<Self> {
        let mut end = Vec::new();
        let passed = command::watch(campaign, |line| {
            end.drain(..end.len().saturating_sub(END_LINES));
            end.push(line.to_owned());
        })?;
        let last = end.pop().unwrap_or_default();
        let told: Value = serde_json::from_str(&last)
            .map_err(|_| Failure::new("a campaign did not come to its end"))?;
        let count = |name: &str| told[name].as_u64().unwrap_or_default();
        let (workloads, states) = (count("workloads"), count("states"));
        if passed && workloads == 0 {
            return Err(Failure::new("a campaign has tried nothing"));
        }
        Ok(Self { passed, workloads, states, images: count("images"), end })
    }
}

impl Report {
    /// Runs a step, which is reported if it exceeds its budget by a quarter. A step that cannot be
    /// run counts as one failure.
    pub(super) fn step(&mut self, step: Step, carry_out: impl FnOnce() -> Result<Ran>) {
        println!("== {}", step.name);
        let start = clock::now();
        let Ran { totals, timed, failed } = Ran::of(carry_out());
        let seconds = start.elapsed().as_secs_f64();
        if step.is_exceeded(seconds) {
            let (name, budget) = (step.name, step.seconds);
            println!("{name}: {seconds:.0} s are too much for a budget of {budget} s");
        }
        println!("== {}: {totals} ({seconds:.0} s)", step.name);
        self.totals += totals;
        self.timed.extend(timed);
        if totals.failed > failed.len() as u64 {
            self.failed.push(step.name.to_owned());
        }
        self.failed.extend(failed);
        let drew = totals.to_string();
        self.done.push(Done { name: step.name.into(), seconds, budget: step.seconds, drew });
    }

    /// Runs a campaign, which is one test.
    pub(super) fn campaign(
        &mut self,
        words: &str,
        budget: u64,
        carry_out: impl FnOnce() -> Result<Drawn>,
    ) {
        println!("== {words}");
        let start = clock::now();
        let (passed, drew) = match carry_out() {
            Ok(Drawn { passed, workloads, states, images, end }) => {
                if !passed {
                    self.failed.push([&[words.to_owned()], &end[..]].concat().join("\n    "));
                }
                let failed = if passed { "" } else { "FAILED: " };
                (passed, format!("{failed}{workloads} workloads, {states} states, {images} images"))
            }
            Err(failure) => {
                self.failed.push(format!("{words}: {failure}"));
                (false, failure.to_string())
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        self.totals += Totals::one(passed);
        self.done.push(Done { name: words.to_owned(), seconds, budget, drew });
    }

    /// Prints the table and the sum; returns whether all passed.
    pub(super) fn finish(mut self) -> bool {
        println!("\n{:>8} {:>7}  {:<58} drew", "seconds", "budget", "step");
        for Done { name, seconds, budget, drew } in &self.done {
            println!("{seconds:>8.1} {budget:>7}  {name:<58} {drew}");
        }
        let sum: f64 = self.done.iter().map(|done| done.seconds).sum();
        println!("{sum:>8.1} {:>7}  all", RUN_SECONDS);
        self.timed.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        println!("\nthe slowest tests:");
        for (took, name) in self.timed.iter().take(SLOWEST) {
            println!("{:>8.1}  {name}", Duration::as_secs_f64(took));
        }
        if !self.failed.is_empty() {
            println!("\nthe failures:");
            self.failed.iter().for_each(|failed| println!("  {failed}"));
        }
        println!("{}", self.totals);
        self.totals.failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(passed: bool) -> Result<Ran> {
        Ok(Ran { totals: Totals::one(passed), ..Ran::default() })
    }

    #[test]
    fn a_step_that_fails_or_cannot_be_carried_out_fails_the_run_and_a_slow_one_does_not() {
        let quick = Step { name: "quick", seconds: 100 };
        let mut report = Report::default();
        report.step(quick, || one(true));
        assert_eq!(report.totals, Totals { passed: 1, failed: 0 });
        report.step(quick, || one(false));
        report.step(quick, || Err(Failure::new("luck")));
        let failed_tests = vec!["a/it b::c".to_owned()];
        let totals = Totals { passed: 8, failed: 1 };
        report.step(quick, || Ok(Ran { totals, failed: failed_tests, ..Ran::default() }));
        assert_eq!(report.totals, Totals { passed: 9, failed: 3 });
        assert_eq!(report.failed, ["quick", "quick", "a/it b::c"]);
        assert!(!report.finish());
        let mut report = Report::default();
        report.step(Step { name: "slow", seconds: 0 }, || one(true));
        assert_eq!(report.totals, Totals { passed: 1, failed: 0 });
        assert!(report.finish());
    }

    #[test]
    fn a_campaign_that_finds_something_or_does_not_end_or_tries_nothing_fails_the_run() {
        let campaign = |script: &str| Drawn::by(Command::new("sh").args(["-c", script]));
        let told = r#"echo '{"workloads":3,"states":12,"images":5}'"#;
        assert!(campaign(told).is_ok_and(|drawn| drawn.passed && drawn.workloads == 3));
        assert!(campaign(&format!("{told}; exit 1")).is_ok_and(|drawn| !drawn.passed));
        assert!(campaign("echo crashed").is_err());
        assert!(campaign(r#"echo '{"workloads":0}'"#).is_err());
        let mut report = Report::default();
        report.campaign("one", 1, || campaign(told));
        report.campaign("other", 1, || campaign(&format!("{told}; exit 1")));
        report.campaign("third", 1, || campaign("echo crashed"));
        assert_eq!(report.totals, Totals { passed: 1, failed: 2 });
        let crashed = "third: a campaign did not come to its end";
        assert_eq!(report.failed, ["other", crashed]);
        let found = format!("seq 1 40; echo a case; {told}; exit 1");
        report.campaign("fourth", 1, || campaign(&found));
        let repeated: Vec<&str> = report.failed[2].split("\n    ").collect();
        assert_eq!([repeated[0], repeated[1], repeated[12]], ["fourth", "30", "a case"]);
    }
}
