//! What there is on a volume, as a client sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// What a way leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Directory(BTreeSet<String>),
    /// How long it is, and a sum of what it holds.
    File(usize, u64),
    Symlink(String),
}

impl Shown {
    /// A file that holds this.
    pub(super) fn file(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self::File(bytes.len(), hasher.finish())
    }
}

/// What there is, by the ways that lead there.
pub(super) type Tree = BTreeMap<Vec<String>, Shown>;
