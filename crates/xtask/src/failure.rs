//! Error of a chore that cannot continue.

use std::fmt;

/// Result of a chore, or of one of its steps.
pub type Result<T> = std::result::Result<T, Failure>;

/// One sentence that explains to a person what went wrong and, if known, the remedy.
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

/// Adds the current action to an outside error.
pub(crate) trait While<T> {
    /// Turns the error into a [`Failure`] that begins with `what`.
    fn while_doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn while_doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}
