//! Chains: changes of a file that take several Updates.

/// The result that a chain of Updates must reach. Each Update leaves a file that is whole, but only
/// together do they complete the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The file.
    pub ino: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// The size that the file is to have, or `None` if it is to be freed.
    pub size: Option<u64>,
}

/// The position of an Update in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainLink {
    /// The first, with which the whole request has happened.
    Begins(Chain),
    /// The last, for this file.
    Ends(u64),
}
