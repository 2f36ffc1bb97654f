//! Edits: what an Update changes in blocks of metadata, as bytes.
//!
//! An engine that has a log writes them there, and applies them again at an opening, to the trees
//! of the last checkpoint. A block is named by its owner, its level and its index, and never by its
//! address, which the log does not know yet. No edit holds the address of a block of metadata, nor
//! the height of a tree: applying makes the blocks that are missing, and lets the tree grow.
//!
//! ```text
//!  Update --apply--> edits --apply_to--> blocks in memory
//!                      \--log--> replay --apply_to--> blocks that were read
//! ```
//!
//! Invariants:
//! 1. A block changes by an edit in the same way in memory as in a replay: both are
//!    [`Edits::apply_to`].
//! 2. The edits of Updates, applied in order to trees as they were sealed before the first of
//!    them, make the same files as the Updates did.
//!
//! Not asserted: 1, which is one function; 2, which a replay in the tests of the smallest engine
//! shows.

use std::ops::Range;
use std::rc::Rc;

use vfs::FsError;

use crate::format::head::Head;
use crate::format::inode::Record;
use crate::format::pointer::{HIGHEST, Pointer, below, capacity};
use crate::format::{FAN, INODES, UNIT, is_number};
use crate::layout::Disk;
use crate::node::{Node, Stem};
use crate::nodes::{Nodes, is_too_far};
use crate::planted::{Bug, is_planted};

/// One change of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, or the tree, that the block belongs to.
    pub owner: u64,
    /// Its level there.
    pub level: u8,
    /// Its index among those of its level.
    pub index: u64,
    /// The change.
    pub change: Change,
}

/// The change of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New bytes, from this byte of the block on; and where they are among all new bytes. A block
    /// that does not exist is made, of zeros.
    Bytes(usize, Range<usize>),
    /// The block is gone, with all that is below it.
    Gone,
}

impl Edit {
    /// The file that it changes, if that follows from it.
    pub fn file(&self) -> Option<u64> {
        match &self.change {
            _ if self.owner > 0 => Some(self.owner),
            Change::Bytes(at, _) if self.level == 0 => {
                let slot = (at - size_of::<Head>()) / size_of::<Record>();
                Some(self.index * INODES + slot as u64)
            }
            _ => None,
        }
    }
}

/// The edits of one Update, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    all: Vec<Edit>,
    bytes: Vec<u8>,
}

impl Edits {
    /// The edits, in order.
    pub fn all(&self) -> &[Edit] {
        &self.all
    }

    /// New bytes of an edit.
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// Adds the edit that gives a block these bytes.
    pub fn add_bytes(&mut self, (owner, level, index): (u64, u8, u64), at: usize, bytes: &[u8]) {
        assert!(
            (size_of::<Head>()..UNIT).contains(&at) && bytes.len() <= UNIT - at,
            "an edit is within a block, behind its head"
        );
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let change = Change::Bytes(at, from..self.bytes.len());
        self.all.push(Edit { owner, level, index, change });
    }

    /// Adds the edit that removes a block.
    pub fn add_gone(&mut self, (owner, level, index): (u64, u8, u64)) {
        self.all.push(Edit { owner, level, index, change: Change::Gone });
    }

    /// Adds those of another Update, behind these.
    pub fn extend(&mut self, others: &Self) {
        for Edit { owner, level, index, change } in &others.all {
            let name = (*owner, *level, *index);
            match change {
                Change::Bytes(at, range) => self.add_bytes(name, *at, others.bytes(range)),
                Change::Gone => self.add_gone(name),
            }
        }
    }

    /// Bytes that they take, about.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.all.len() * size_of::<Edit>()
    }

    /// Changes bytes of a block in memory. The caller marks it.
    pub(crate) fn set(&mut self, node: &Node, at: usize, bytes: &[u8]) {
        self.add_bytes(name_of(node), at, bytes);
        let edit = &self.all[self.all.len() - 1];
        node.change(|block| self.apply_to(block, edit));
    }

    /// Removes a block in memory with all that is below it. Returns its old pointer.
    pub(crate) fn remove<D: Disk>(&mut self, nodes: &Nodes<D>, node: &Rc<Node>) -> Pointer {
        self.add_gone(name_of(node));
        nodes.remove(node)
    }

    /// Applies one of these edits to the bytes of its block (invariant 1).
    pub fn apply_to(&self, block: &mut [u8], edit: &Edit) {
        match &edit.change {
            Change::Bytes(at, range) => {
                block[*at..at + range.len()].copy_from_slice(self.bytes(range));
            }
            Change::Gone => block.fill(0),
        }
    }
}

/// The name of a block in edits.
fn name_of(node: &Node) -> (u64, u8, u64) {
    (node.place.owner, node.place.level, node.place.index)
}

impl<D: Disk> Nodes<D> {
    /// Applies edits to the trees, as the Update did that they are of. Returns the old pointers of
    /// blocks that are gone.
    ///
    /// A block that cannot be read is lost with its edits, for good: if the disk has it again one
    /// day, it is without them. So its pointer leads nowhere from then on.
    ///
    /// # Errors
    /// [`FsError::Io`] if a block cannot be read, and may come back; [`FsError::Corrupt`] for a
    /// block that no file has. Some of the edits were applied then.
    pub async fn replay(&self, edits: &Edits) -> Result<Vec<Pointer>, FsError> {
        let mut gone = Vec::new();
        for edit in edits.all() {
            let Edit { owner, level, index, .. } = *edit;
            if !(owner == 0 || is_number(owner)) || level > HIGHEST || is_too_far(owner, index) {
                return Err(FsError::Corrupt);
            }
            match self.replay_one(edits, edit, &mut gone).await {
                Err(FsError::Corrupt) if !is_planted(Bug::KeptPointers) => {
                    self.condemn(owner, level, index).await?;
                }
                done => done?,
            }
        }
        gone.retain(|pointer| !pointer.is_null());
        Ok(gone)
    }

    async fn replay_one(
        &self,
        edits: &Edits,
        edit: &Edit,
        gone: &mut Vec<Pointer>,
    ) -> Result<(), FsError> {
        let Edit { owner, level, index, change } = edit;
        let stem = self.stem_of(*owner).await?;
        match change {
            Change::Bytes(..) => {
                let node = self.make_with_growth(&stem, *level, *index).await?;
                node.change(|block| edits.apply_to(block, edit));
                self.mark(&node);
            }
            Change::Gone => {
                let node = self.get(&stem, *level, *index).await?;
                gone.extend(node.map(|node| self.remove(&node)));
            }
        }
        Ok(())
    }

    /// Makes the pointer to the first unreadable block on the way to this one lead nowhere.
    async fn condemn(&self, owner: u64, level: u8, index: u64) -> Result<(), FsError> {
        let mut ways = vec![(Stem::Inodes, 0, if owner == 0 { index } else { owner / INODES })];
        match self.stem_of(owner).await {
            Ok(Stem::Inodes) => ways = vec![(Stem::Inodes, level, index)],
            Ok(stem) => ways.push((stem, level, index)),
            Err(_) => {}
        }
        for (stem, level, index) in ways {
            for above in (level..=self.height(&stem)).rev() {
                let at = index / FAN.pow(u32::from(above - level));
                if !matches!(self.get(&stem, above, at).await, Err(FsError::Corrupt)) {
                    continue;
                }
                let Some(parent) = self.parent(&stem, above, at).await? else { return Ok(()) };
                let nowhere = Pointer { sum: 0.into(), ..self.child_of(&parent, at) };
                self.set_child(&parent, at, nowhere);
                self.mark_parent(&parent);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The tree of the inodes, or of a file. The block of a file's inode is made if there is none:
    /// the edits of a new file's blocks come before that of its inode.
    async fn stem_of(&self, owner: u64) -> Result<Stem, FsError> {
        if owner == 0 {
            return Ok(Stem::Inodes);
        }
        let home = self.make_with_growth(&Stem::Inodes, 0, owner / INODES).await?;
        Ok(Stem::File(owner, home, owner % INODES))
    }

    /// The block with this level and index, in a tree that grows if it has no such level.
    async fn make_with_growth(
        &self,
        stem: &Stem,
        level: u8,
        index: u64,
    ) -> Result<Rc<Node>, FsError> {
        let first = below(level, index).start;
        while level > self.height(stem) || first >= capacity(self.height(stem)) {
            self.grow(stem)?;
        }
        self.make(stem, level, index, &mut Vec::new()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_its_bytes_and_no_others() {
        let mut edits = Edits::default();
        edits.add_bytes((7, 1, 3), 100, &[1, 2, 3]);
        edits.add_bytes((7, 1, 3), UNIT - 1, &[9]);
        edits.add_gone((7, 1, 3));
        let mut block = vec![5; UNIT];
        let all = edits.all();
        edits.apply_to(&mut block, &all[0]);
        edits.apply_to(&mut block, &all[1]);
        assert_eq!(block[98..104], [5, 5, 1, 2, 3, 5]);
        assert_eq!(block[UNIT - 2..], [5, 9]);
        assert_eq!(block.iter().filter(|&&byte| byte != 5).count(), 4);
        edits.apply_to(&mut block, &all[2]);
        assert_eq!(block, vec![0; UNIT]);
    }

    #[test]
    #[should_panic(expected = "behind its head")]
    fn no_edit_changes_a_head() {
        Edits::default().add_bytes((7, 0, 0), size_of::<Head>() - 1, &[0; 4]);
    }

    #[test]
    #[should_panic(expected = "within a block")]
    fn no_edit_is_longer_than_its_block() {
        Edits::default().add_bytes((7, 0, 0), UNIT - 3, &[0; 4]);
    }
}
