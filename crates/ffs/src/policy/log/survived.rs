//! State other than changes that recovery takes from a log.

use vfs::{LoggedReply, Repetitions};

/// Answers and counters that a log remembers.
#[derive(Clone, Debug, Default)]
pub struct Survived {
    /// Answers, oldest first.
    pub remembered: Vec<LoggedReply>,
    /// Numbers of repeated calls.
    pub repetitions: Repetitions,
}
