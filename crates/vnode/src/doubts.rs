//! Suspect data: a write of it has failed, and readers may still see it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use vfs::FsError;

use crate::vnode::Vnode;

/// Suspect blocks of one file that are listed. Beyond that, all its blocks are suspect.
const MOST_BLOCKS: usize = 4096;

/// Files with suspect data that are listed. Beyond that, any file may be suspect while the volume
/// is open.
const MOST_FILES: usize = 4096;

/// Files with suspect data, by inode number. They stay in memory.
pub(crate) struct Doubts<I> {
    files: BTreeMap<u64, Doubt<I>>,
    /// There were more than are listed.
    are_many: bool,
}

struct Doubt<I> {
    _node: Rc<Vnode<I>>,
    blocks: BTreeSet<u64>,
    /// There were more than are listed: that cannot be made good while the volume is open.
    are_many: bool,
}

impl<I> Default for Doubts<I> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), are_many: false }
    }
}

impl<I> Doubts<I> {
    /// Notes that a write of these blocks has failed.
    pub(crate) fn add(&mut self, node: &Rc<Vnode<I>>, blocks: impl Iterator<Item = u64>) {
        let mut blocks = blocks.peekable();
        if blocks.peek().is_none() {
            return;
        }
        let new = || Doubt { _node: node.clone(), blocks: BTreeSet::new(), are_many: false };
        let doubt = self.files.entry(node.ino).or_insert_with(new);
        doubt.blocks.extend(blocks);
        if doubt.blocks.len() > MOST_BLOCKS {
            doubt.blocks.clear();
            doubt.are_many = true;
        }
        if self.are_many || self.files.len() > MOST_FILES {
            *self = Self { are_many: true, ..Self::default() };
        }
    }

    /// Suspect blocks among these, `most` at most; none if none is.
    ///
    /// # Errors
    /// [`FsError::Io`] if the suspect blocks are no longer listed.
    pub(crate) fn some(
        &self,
        node: &Vnode<I>,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<u64>, FsError> {
        match self.files.get(&node.ino) {
            _ if self.are_many => Err(FsError::Io),
            Some(doubt) if doubt.are_many => Err(FsError::Io),
            Some(doubt) => Ok(doubt.blocks.range(range).take(most).copied().collect()),
            None => Ok(Vec::new()),
        }
    }

    /// The visible contents of these blocks become durable with the file.
    pub(crate) fn remove(&mut self, node: &Vnode<I>, blocks: &[u64]) {
        let Some(doubt) = self.files.get_mut(&node.ino) else { return };
        blocks.iter().for_each(|lbn| _ = doubt.blocks.remove(lbn));
        if doubt.blocks.is_empty() {
            self.files.remove(&node.ino);
        }
    }

    /// A file has ended.
    pub(crate) fn forget(&mut self, ino: u64) {
        self.files.remove(&ino);
    }
}
