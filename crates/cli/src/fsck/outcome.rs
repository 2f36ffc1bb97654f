//! Results of a check. The codes are those of fsck(8), so that a script written for another checker
//! works with this one.

use std::process::ExitCode;

use designs::{Report, Severity};

use crate::losses::Loss;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is wrong. There may be notes.
    Clean,
    /// All that was wrong has been repaired.
    Repaired,
    /// Something is wrong.
    Left,
    /// The check failed, so the state is unknown.
    Failed,
}

impl Outcome {
    /// Result of a completed check, together with known losses.
    pub(super) fn of(report: &Report, known: &[Loss]) -> Self {
        let findings = &report.findings;
        if !known.is_empty() {
            Self::Left
        } else if findings.worst <= Some(Severity::Note) {
            Self::Clean
        } else if report.repaired && !findings.unrepairable {
            Self::Repaired
        } else {
            Self::Left
        }
    }

    /// A word for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Repaired => "repaired",
            Self::Left => "left",
            Self::Failed => "failed",
        }
    }

    /// Exit code of the process, as a number.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Repaired => 1,
            Self::Left => 4,
            Self::Failed => 8,
        }
    }

    /// Exit code of the process.
    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use designs::Findings;

    fn outcome(worst: Option<Severity>, repaired: bool, unrepairable: bool) -> Outcome {
        let findings = Findings { worst, unrepairable, ..Findings::default() };
        Outcome::of(&Report { findings, repaired, ..Report::default() }, &[])
    }

    #[test]
    fn notes_are_nothing_wrong() {
        for worst in [None, Some(Severity::Note)] {
            for repaired in [false, true] {
                assert_eq!(outcome(worst, repaired, false), Outcome::Clean);
            }
        }
    }

    #[test]
    fn a_repair_is_one_only_if_all_of_it_was_written() {
        for worst in [Some(Severity::Repairable), Some(Severity::Loss)] {
            assert_eq!(outcome(worst, true, false), Outcome::Repaired);
            assert_eq!(outcome(worst, true, true), Outcome::Left);
            assert_eq!(outcome(worst, false, false), Outcome::Left);
            assert_eq!(outcome(worst, false, true), Outcome::Left);
        }
    }
}
