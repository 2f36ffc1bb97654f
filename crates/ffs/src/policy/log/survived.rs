//! What comes back of a log beside changes.

use vfs::{Remembered, Repetitions};

/// What a log remembers beside changes.
#[derive(Clone, Debug, Default)]
pub struct Survived {
    /// Answers, oldest first.
    pub remembered: Vec<Remembered>,
    /// How many calls were repetitions.
    pub repetitions: Repetitions,
}
