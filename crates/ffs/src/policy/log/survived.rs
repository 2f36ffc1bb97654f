//! What comes back of a log beside changes.

use vfs::{LoggedReply, Repetitions};

/// What a log remembers beside changes.
#[derive(Clone, Debug, Default)]
pub struct Survived {
    /// Answers, oldest first.
    pub remembered: Vec<LoggedReply>,
    /// How many calls were repetitions.
    pub repetitions: Repetitions,
}
