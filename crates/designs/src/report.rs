//! Results of a check, regardless of the engine.

use std::fmt;

pub use fsck::{Place, Severity};

/// Progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Word for the current phase.
    pub phase: &'static str,
    /// Number of the round of passes, from 1 on.
    pub round: u32,
    /// Completed work, in the unit of the phase.
    pub done: u64,
    /// Total work, in the same unit.
    pub total: u64,
}

/// An invariant of an undamaged volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Short name for people and programs.
    pub name: &'static str,
    /// The rule, as a sentence.
    pub sentence: &'static str,
}

/// Location of a file's data. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// Offset in the file.
    pub offset: u64,
    /// Offset on the volume.
    pub at: u64,
    /// Length; the last block of the file may have less.
    pub length: u64,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The violated rule.
    pub rule: Rule,
    /// Severity of the violation.
    pub severity: Severity,
    /// Place of the violation.
    pub place: Place,
    /// The unreadable data, if the finding is about data.
    pub data: Option<DataPlace>,
    /// Name of the snapshot that has it; none for the live tree.
    pub snapshot: Option<String>,
    /// A path of the file, if one is known; one of its paths at the time of the check.
    pub path: Option<String>,
    /// Value found.
    pub found: String,
    /// Expected value.
    pub expected: String,
    /// The repair; none if there is no repair.
    pub repair: Option<&'static str>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity.name(), self.rule.name, self.place)?;
        match (&self.path, &self.snapshot) {
            (Some(path), Some(snapshot)) => write!(f, " ({path} in snapshot {snapshot})")?,
            (None, Some(snapshot)) => write!(f, " (in snapshot {snapshot})")?,
            (Some(path), None) => write!(f, " ({path})")?,
            (None, None) => {}
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)
    }
}

/// All findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first findings and every loss, in the order in which they were found.
    pub list: Vec<Finding>,
    /// Number of violations of each rule, in the order of the rules.
    pub counts: Vec<(Rule, u64)>,
    /// Severity of the worst finding.
    pub worst: Option<Severity>,
    /// Whether a finding has no repair.
    pub unrepairable: bool,
    /// Whether some finding cannot be the result of a power cut.
    pub damaged: bool,
}

impl Findings {
    /// Number of all findings, including those that are not in the list.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All violations, before the repair if there was one.
    pub findings: Findings,
    /// Whether the volume was not stopped cleanly.
    pub was_unclean: bool,
    /// Number of files that were found and kept, including directories.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Bytes held by files.
    pub held_bytes: u64,
    /// Number of files without a name that were freed.
    pub freed: u64,
    /// Number of files without a name that got one in `lost+found`.
    pub reconnected: u64,
    /// Time since which the volume was served, in seconds since 1970, if acknowledged changes of
    /// that time may be only in a log that is missing or left out.
    pub log_since_seconds: Option<i64>,
    /// Whether the repairs were written.
    pub repaired: bool,
    /// Reason why possible and requested repairs were not written.
    pub unrepaired: Option<String>,
    /// Reason why the answers of some calls before the repair are forgotten.
    pub lost_intents: Option<String>,
}
