//! Numbers of tests, over all the runners that a chore starts.

use std::fmt;
use std::ops::AddAssign;

/// Tests that passed and tests that failed. Displayed as the last line of a run, for example
/// `12 passed, 0 failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and steps that could not be run.
    pub failed: u64,
}

impl Totals {
    /// Totals of one test.
    pub fn one(passed: bool) -> Totals {
        Totals { passed: u64::from(passed), failed: u64::from(!passed) }
    }

    /// The figures of a closing line of `cargo test`, if `line` is one:
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    pub fn from_cargo_line(line: &str) -> Option<Totals> {
        let (_verdict, figures) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let figure = |name: &str| {
            figures.split("; ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
        };
        Some(Totals { passed: figure("passed")?, failed: figure("failed")? })
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_line_of_cargo_test_is_understood() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; \
                    0 filtered out; finished in 0.00s";
        assert_eq!(Totals::from_cargo_line(line), Some(Totals { passed: 3, failed: 2 }));
    }

    #[test]
    fn other_lines_of_cargo_test_are_not_figures() {
        assert_eq!(Totals::from_cargo_line("running 3 tests"), None);
        assert_eq!(Totals::from_cargo_line("test result: 3 passed"), None);
    }

    #[test]
    fn totals_add_up_to_the_closing_line() {
        let mut totals = Totals { passed: 11, failed: 0 };
        totals += Totals::one(true);
        totals += Totals::one(false);
        assert_eq!(totals.to_string(), "12 passed, 1 failed");
    }
}
