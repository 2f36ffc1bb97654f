//! What a check tells, whatever it checked.

use std::fmt;

pub use fsck::{Place, Severity};

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// A word for what is being done.
    pub phase: &'static str,
    /// Which round of passes this is, from 1 on.
    pub round: u32,
    /// What is done, as the phase counts it.
    pub done: u64,
    /// The same in all.
    pub total: u64,
}

/// What holds on a volume that is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A short name for people and programs.
    pub name: &'static str,
    /// The rule, as a sentence.
    pub sentence: &'static str,
}

/// Data of a file, and where it is. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// Where in the file.
    pub offset: u64,
    /// Where on the volume.
    pub at: u64,
    /// How much, and a last block of the file may have less.
    pub length: u64,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What does not hold.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// Which data cannot be read, if it is that.
    pub data: Option<DataPlace>,
    /// The snapshot in which it is, by its name; none for the live tree.
    pub snapshot: Option<String>,
    /// A path to the file, where one is known; of the paths that it had when it was found.
    pub path: Option<String>,
    /// What was found.
    pub found: String,
    /// What should be there.
    pub expected: String,
    /// What the repair does about it; nothing when nothing can be done.
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

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first ones and every loss, in the order in which they were found.
    pub list: Vec<Finding>,
    /// How often each rule did not hold, in the order of the rules.
    pub counts: Vec<(Rule, u64)>,
    /// The worst.
    pub worst: Option<Severity>,
    /// Something was found that no repair can be had for.
    pub unrepairable: bool,
    /// Something was found that no cut of the power leaves.
    pub damaged: bool,
}

impl Findings {
    /// All of them, those that are not kept too.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// What a check found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is not as it should be, or was not before the repair.
    pub findings: Findings,
    /// Whether it was found not to be stopped cleanly.
    pub was_unclean: bool,
    /// Files that were found and kept, directories among them.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Bytes that files hold.
    pub held_bytes: u64,
    /// Files that had no name and were freed.
    pub freed: u64,
    /// Files that had no name and got one in `lost+found`.
    pub reconnected: u64,
    /// Since when the volume was served, in seconds since 1970, if acknowledged changes of that
    /// time may stand in a log alone which is not at hand, or is left out.
    pub log_since_seconds: Option<i64>,
    /// Whether the repairs were written.
    pub repaired: bool,
    /// Why they were not, though they were wanted, and could be had.
    pub unrepaired: Option<String>,
}
