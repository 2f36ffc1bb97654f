//! Output for a person while the test runs, and the final count. Two tests that run in parallel
//! have a report each; the output of one step is printed at once.

use crate::clock;
use crate::{Failure, Result, Totals};

/// Number of a failed script's last lines to show.
const LAST_LINES: usize = 30;

/// Counts tests, and prints one line for each step.
#[derive(Debug)]
pub(super) struct Report {
    totals: Totals,
    verbose: bool,
}

/// Output of a script, line by line, in the language of `guest/checks.py`.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// Prefix of its lines if they are shown as they arrive.
    aloud: Option<String>,
    checks: Totals,
    complaints: Vec<String>,
    lines: Vec<String>,
    did: Option<String>,
}

impl Report {
    pub(super) fn new(verbose: bool) -> Report {
        Report { totals: Totals::default(), verbose }
    }

    /// Totals of all tests so far.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Runs one step, which is one test and describes its result in a sentence.
    pub(super) fn step(&mut self, name: &str, step: impl FnOnce() -> Result<String>) {
        let start = clock::now();
        let done = step();
        self.totals += Totals::one(done.is_ok());
        let seconds = start.elapsed().as_secs_f64();
        match done {
            Ok(sentence) => println!("client test: {name}: {sentence} ({seconds:.1} s)"),
            Err(failure) => println!("client test: {name}: FAILED ({seconds:.1} s): {failure}"),
        }
    }

    /// Runs one step that runs a script, whose checks are the tests.
    pub(super) fn script(&mut self, name: &str, step: impl FnOnce(&mut Transcript) -> Result<i32>) {
        let start = clock::now();
        let aloud = self.verbose.then(|| name.to_owned());
        let mut transcript = Transcript { aloud, ..Transcript::default() };
        let ended = step(&mut transcript);
        let seconds = start.elapsed().as_secs_f64();
        let failure = transcript.verdict(ended);
        self.totals += transcript.checks;
        self.totals += Totals { passed: 0, failed: u64::from(failure.is_some()) };
        for note in transcript.with("note: ") {
            println!("client test: {name}: note: {note}");
        }
        if transcript.checks.failed == 0 && failure.is_none() {
            let did = transcript.did.as_deref().unwrap_or("nothing to tell");
            let checks = transcript.checks.passed;
            println!("client test: {name}: {did}; {checks} checks ({seconds:.1} s)");
        } else {
            let complaint = transcript.complaint(failure);
            println!("client test: {name}: FAILED ({seconds:.1} s){complaint}");
        }
    }
}

impl Transcript {
    /// Records a line.
    pub(super) fn hear(&mut self, line: &str) {
        if line.starts_with("ok ") {
            self.checks += Totals::one(true);
        } else if line.starts_with("not ok ") {
            self.checks += Totals::one(false);
            self.complaints.push(line.to_owned());
        } else if let Some(sentence) = line.strip_prefix("did: ") {
            self.did = Some(sentence.to_owned());
        }
        if let Some(name) = &self.aloud {
            println!("    {name}: {line}");
        }
        if !line.starts_with("progress ") {
            self.lines.push(line.to_owned());
        }
    }

    /// The lines that begin with `word`, with `word` removed.
    pub(super) fn with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| line.strip_prefix(word))
    }

    /// Description of the failure: the failed checks, and the last lines too if there is more, each
    /// on its own line.
    fn complaint(&self, failure: Option<Failure>) -> String {
        let mut told = self.complaints.clone();
        if let Some(failure) = failure {
            let first = self.lines.len().saturating_sub(LAST_LINES);
            told.extend_from_slice(&self.lines[first..]);
            told.push(failure.to_string());
        }
        told.iter().map(|line| format!("\n    {line}")).collect()
    }

    /// Failure beyond the failed checks: a script that failed, or ended early.
    fn verdict(&self, ended: Result<i32>) -> Option<Failure> {
        match ended {
            Err(failure) => Some(failure),
            Ok(0) if self.did.is_none() => Some(Failure::new("it ended before its end")),
            Ok(status) if status != 0 && self.checks.failed == 0 => {
                Some(Failure::new(format!("it ended with status {status}")))
            }
            Ok(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(lines: &[&str], status: i32) -> Totals {
        let mut report = Report::new(false);
        report.script("test", |transcript| {
            lines.iter().for_each(|line| transcript.hear(line));
            Ok(status)
        });
        report.totals()
    }

    #[test]
    fn each_check_of_a_script_counts() {
        let lines = ["ok one", "progress 5", "not ok two: why", "did: something"];
        assert_eq!(tell(&lines, 1), Totals { passed: 1, failed: 1 });
        assert_eq!(tell(&["ok one", "did: something"], 0), Totals { passed: 1, failed: 0 });
    }

    #[test]
    fn a_script_that_dies_early_fails_although_its_checks_passed() {
        assert_eq!(tell(&["ok one"], 0), Totals { passed: 1, failed: 1 });
        assert_eq!(tell(&["ok one", "did: something"], 139), Totals { passed: 1, failed: 1 });
    }

    #[test]
    fn a_step_that_fails_counts_once() {
        let mut report = Report::new(false);
        report.step("test", || Ok("done".to_owned()));
        report.step("test", || Err(Failure::new("it broke")));
        assert_eq!(report.totals(), Totals { passed: 1, failed: 1 });
    }
}
