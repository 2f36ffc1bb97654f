//! What a chore says when it cannot go on.

use std::fmt;

/// The result of a chore, or of a step of one.
pub type Result<T> = std::result::Result<T, Failure>;

/// One sentence that tells a person what went wrong and, where we know it, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A failure with this sentence.
    pub fn new(sentence: impl Into<String>) -> Failure {
        Failure(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Says what was being done when an outside error came up.
pub(crate) trait While<T> {
    /// Turns the error into a [`Failure`] that begins with `what`.
    fn while_doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn while_doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}
