//! Which data is in doubt: a write of it has failed, and readers may see it all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::inode::Node;

/// Of so many blocks of a file it is known that they are in doubt. Beyond, all are.
pub(crate) const MOST_BLOCKS: usize = 4096;

/// Of so many files it is known which. Beyond, any may be, as long as the volume is open.
pub(crate) const MOST_FILES: usize = 4096;

/// Files with data in doubt, by their inodes. They stay in memory.
#[derive(Default)]
pub(crate) struct Doubts {
    pub(crate) files: BTreeMap<u64, Doubt>,
    /// There were more.
    pub(crate) are_many: bool,
}

pub(crate) struct Doubt {
    pub(crate) _node: Rc<Node>,
    pub(crate) blocks: BTreeSet<u64>,
    /// There were more: that cannot be made good while the volume is open.
    pub(crate) are_many: bool,
}

impl Doubts {
    /// A file has ended.
    pub(crate) fn forget(&mut self, ino: u64) {
        self.files.remove(&ino);
    }
}
