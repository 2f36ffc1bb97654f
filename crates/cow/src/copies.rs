//! Blocks with two copies: the leaf of the root directory's inode, and each block between it and
//! the root of all trees. Without one of these nothing else of a volume can be reached.
//!
//! Both copies have the same bytes. They go out with the same update, far apart if there is room;
//! their parent points to both, and they are freed together. If the first copy
//! has rotted, a read takes the other, and rewrites the first.
//!
//! ```text
//!  root ==> pointers of inodes 0 to .. ==> inodes 0 to 15      (==> has two addresses)
//!                    \--> inodes 16 to 31, and so on
//! ```
//!
//! Invariants:
//! 1. A block with two copies is written to both places by the update that places it.
//! 2. If one copy is given back, so is the other, to the free units or to the same list.
//! 3. A copy is rewritten only while a pointer leads to it.
//!
//! Not asserted: 1, which an engine does when it seals; 2, which a check
//! tests; 3, which the loading of a block ensures: a block that is being read keeps its address.

use std::rc::Rc;

use block::{Buffer, Durability};
use futures::future::join_all;
use vfs::FsError;

use crate::format::head::{Place, first_twin, seal, set_first_twin};
use crate::format::pointer::Pointer;
use crate::format::{UNIT, sum};
use crate::layout::Disk;
use crate::mend::mend;
use crate::node::{Node, Parent, Stem};
use crate::nodes::Nodes;
use crate::planted::{Bug, is_planted};

impl<D: Disk> Nodes<D> {
    /// The unit of the other copy of a block; 0 if it has none.
    pub fn twin_of(&self, parent: &Parent, index: u64) -> u64 {
        match parent {
            _ if index > 0 => 0,
            Parent::Node(node) if node.place.is_twice() => node.first_twin(),
            Parent::Stem(Stem::Inodes) => self.trees.borrow()[0].twin,
            Parent::Stem(Stem::Pinned(tree)) => tree.twin,
            Parent::Node(_) | Parent::Stem(_) => 0,
        }
    }

    /// Sets that unit. The caller marks the parent.
    pub(crate) fn set_twin(&self, parent: &Parent, unit: u64) {
        match parent {
            Parent::Node(node) => node.set_first_twin(unit),
            Parent::Stem(Stem::Inodes) => self.trees.borrow_mut()[0].twin = unit,
            Parent::Stem(_) => assert_eq!(unit, 0, "no other tree has blocks that stand twice"),
        }
    }

    /// Writes the head of a block, with the unit of its first child's other copy.
    pub(crate) fn seal_copy(&self, copy: &mut [u8], place: Place, birth: u64) {
        let twin = first_twin(copy);
        seal(copy, place, birth, self.secret());
        if place.is_twice() && place.level > 0 {
            set_first_twin(copy, twin);
        }
    }

    /// Removes a pointer that leads to another block than it says. The caller marks the parent.
    pub(crate) fn drop_child(&self, parent: &Parent, index: u64) {
        self.set_child(parent, index, Pointer::NULL);
        if self.twin_of(parent, index) > 0 {
            self.set_twin(parent, 0);
        }
    }

    /// Checks the other copies of blocks of a tree of inodes, and rewrites rotten ones. The first
    /// copies are mended on reading.
    pub async fn mend_copies(&self, stem: &Stem) {
        let mut nodes = Vec::new();
        for level in (0..=self.height(stem)).rev() {
            let Ok(Some(node)) = self.get(stem, level, 0).await else { break };
            nodes.push(node);
        }
        let mend = async |node: &Rc<Node>| {
            let (first, other) = (node.pointer(), node.twin());
            if !other.is_null()
                && !self.has_copy(other).await
                && let Ok(bytes) = self.copy_at(first, &|| true).await
                && self.write_copy(other, &bytes).await
            {
                self.count_mended();
            }
        };
        join_all(nodes.iter().map(mend)).await;
    }

    /// Reads the block to which a pointer leads, and which has another copy at `twin`, if that is
    /// not 0. `may_mend` is called right before each mending request, with no await in between, and
    /// returns whether the places are still those of this block.
    ///
    /// # Errors
    /// [`FsError::Io`] if it cannot be read; [`FsError::Corrupt`] if it is another block.
    pub(crate) async fn read_block(
        &self,
        room: Buffer,
        (pointer, twin): (Pointer, u64),
        may_mend: &dyn Fn() -> bool,
    ) -> Result<Buffer, FsError> {
        let place = self.locate(pointer).ok_or(FsError::Corrupt)?;
        let read = self.path.device().read(place, room).await;
        let why = match read {
            Ok(bytes) if sum(&bytes) == pointer.sum.get() => return Ok(bytes),
            Ok(_) => FsError::Corrupt,
            Err(_) => FsError::Io,
        };
        if !may_mend() {
            return Err(why);
        }
        if why == FsError::Corrupt
            && let Some(bytes) = self.mend(pointer, 1).await
        {
            self.count_mended();
            return Ok(bytes);
        }
        let other = pointer.at(twin);
        if other.is_null() || !self.is_on_disk(other) {
            return Err(why);
        }
        let bytes = match self.copy_at(other, may_mend).await {
            Err(FsError::Corrupt) => return Err(why),
            read => read?,
        };
        if may_mend() && !is_planted(Bug::UnmendedTwins) && self.write_copy(pointer, &bytes).await {
            self.count_mended();
        }
        Ok(bytes)
    }

    /// Reads one copy of a block. `may_mend` is as for [`Nodes::read_block`].
    ///
    /// # Errors
    /// As [`Nodes::read_block`].
    pub async fn copy_at(
        &self,
        at: Pointer,
        may_mend: &dyn Fn() -> bool,
    ) -> Result<Buffer, FsError> {
        let place = self.locate(at).ok_or(FsError::Corrupt)?;
        let read = self.path.device().read(place, Buffer::unfilled(UNIT)).await;
        let bytes = read.map_err(|_| FsError::Io)?;
        if sum(&bytes) == at.sum.get() {
            return Ok(bytes);
        }
        let mended = if may_mend() { self.mend(at, 1).await } else { None };
        mended.ok_or(FsError::Corrupt)
    }

    /// The block of this many units to which a pointer leads, from another version of it; none if
    /// no right one is left.
    pub async fn mend(&self, pointer: Pointer, units: u64) -> Option<Buffer> {
        mend(&**self.path.device(), self.locate(pointer)?, pointer.sum.get(), units).await
    }

    /// Whether one copy of a block is whole.
    pub async fn has_copy(&self, at: Pointer) -> bool {
        self.copy_at(at, &|| true).await.is_ok()
    }

    /// Rewrites a rotten copy; returns whether it did. A cut leaves it as it was, torn or whole.
    pub async fn write_copy(&self, at: Pointer, bytes: &[u8]) -> bool {
        let Some(place) = self.locate(at).filter(|_| !self.is_only_read.get()) else {
            return false;
        };
        let copy = vec![Buffer::copied(bytes).freeze()];
        self.path.device().write(place, copy, Durability::Plain).await.is_ok()
    }
}
