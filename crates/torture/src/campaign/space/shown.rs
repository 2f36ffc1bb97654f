//! The tree of a volume, as a client sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// The file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Directory(BTreeSet<String>),
    /// Length and checksum of the contents.
    File(usize, u64),
    Symlink(String),
}

impl Shown {
    /// A file with these contents.
    pub(super) fn file(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self::File(bytes.len(), hasher.finish())
    }
}

/// All files by their paths.
pub(super) type Tree = BTreeMap<Vec<String>, Shown>;
