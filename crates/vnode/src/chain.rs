//! Chains: changes of a file that take several Updates.

/// What a chain of Updates is to come to: each of them leaves a file that is whole, but only
/// together do they what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The file.
    pub ino: u64,
    /// Which file of this number.
    pub generation: u32,
    /// The size that it is to have, or `None` if it is to go.
    pub size: Option<u64>,
}

/// Where in a chain an Update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainLink {
    /// The first, with which all that was asked for has happened.
    Begins(Chain),
    /// The last, for this file.
    Ends(u64),
}
