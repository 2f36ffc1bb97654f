//! Blocks with two copies: the leaf of the root directory's inode, and each block between it and
//! the superblock. Without one of these nothing else of a volume can be reached.
//!
//! Both copies have the same bytes. They go out with the same update, to different zones if more
//! than one has room; their parent points to both, and they are freed together. If the first copy
//! has rotted, a read takes the other, and rewrites the first.
//!
//! ```text
//!  superblock ==> pointers of inodes 0 to .. ==> inodes 0 to 15      (==> has two addresses)
//!                          \--> inodes 16 to 31, and so on
//! ```
//!
//! Invariants:
//! 1. A block with two copies is written to both places by the update that places it.
//! 2. If one copy is given back, so is the other, to the free units or to the same list.
//! 3. A copy is rewritten only while a pointer leads to it.
//!
//! Not asserted: 1, which [`Commits::seal`](crate::commit) does in one loop; 2, which a check
//! tests; 3, which the loading of a block ensures: a block that is being read keeps its address.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::future::join_all;
use vfs::FsError;

use crate::commit::Commits;
use crate::format::head::{Head, Place, first_twin, seal, set_first_twin};
use crate::format::pointer::{Pointer, Tree};
use crate::format::superblock::{Listed, Superblock};
use crate::format::{INODES, ROOT, UNIT, sum, view};
use crate::mend::{mend, sum_listed};
use crate::nodes::{Node, Nodes, Parent, Stem};
use crate::planted::{Bug, is_planted};

/// Mends a listed run that is wrong on the disk, by replacing blocks that have two copies by their
/// other copies.
pub(crate) async fn with_copies(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    listed: &Listed,
    bytes: &[u8],
) -> Option<Buffer> {
    let mut right = Buffer::copied(bytes);
    let units = listed.run.start..listed.run.end();
    for (copies, block) in blocks_twice(device, superblock).await {
        for at in copies.map(|copy| copy.address.get()).into_iter().filter(|at| units.contains(at))
        {
            let start = (at - units.start) as usize * UNIT;
            right.get_mut(start..start + UNIT)?.copy_from_slice(&block);
        }
    }
    (sum_listed(listed, &right) == listed.sum).then_some(right)
}

/// The blocks with two copies below a superblock, as far as one copy of each can be read.
async fn blocks_twice(
    device: &dyn BlockDevice,
    superblock: &Superblock,
) -> Vec<([Pointer; 2], Buffer)> {
    let Tree { height, root, twin } = superblock.inodes;
    let (mut next, mut found) = ((root.pointers[0], twin), Vec::new());
    for level in (0..=height).rev() {
        let copies = [next.0, next.0.at(next.1)];
        let mut whole = None;
        for copy in copies.iter().filter(|copy| !copy.is_null()) {
            let read = device.read(copy.offset(), Buffer::unfilled(UNIT)).await.ok();
            whole = whole.or(read.filter(|bytes| sum(bytes) == copy.sum.get()));
        }
        let Some(block) = whole else { break };
        if level > 0 {
            next = (*view(&block[size_of::<Head>()..]), first_twin(&block));
        }
        found.push((copies, block));
    }
    found
}

impl Commits {
    /// Takes places for the other copies of the blocks that go to these units; 0 for a block that
    /// has one copy.
    pub(crate) fn twins_for(&self, nodes: &[Rc<Node>], units: &[u64]) -> Vec<u64> {
        let places = || nodes.iter().zip(units).filter(|(node, _)| node.place.is_twice());
        let zones: BTreeSet<u64> = places().map(|(_, &unit)| self.shape.zone_of(unit)).collect();
        let mut twins = self.space.take_apart(places().count() as u64, &zones).into_iter();
        let mut twin = |node: &Node| if node.place.is_twice() { twins.next() } else { None };
        nodes.iter().map(|node| twin(node).unwrap_or(0)).collect()
    }

    /// The block of the root directory's inode. If it has one copy, on a volume of an earlier
    /// version, it goes out with the next update, with its parents, if there is room.
    pub(crate) async fn root_twice(&self) -> Result<Option<Rc<Node>>, FsError> {
        let root = self.nodes.get(&Stem::Inodes, 0, ROOT / INODES).await?;
        let more = 8 * self.most_twins(); // its parents are written, and free their old places
        let has_room = || self.space.has_blocks(0, self.needs_now() + self.keeps() + more, true);
        if let Some(root) = root.as_ref().filter(|root| root.twin().is_null() && has_room()) {
            self.nodes.mark(root);
        }
        Ok(root)
    }
}

impl Nodes {
    /// The unit of the other copy of a block; 0 if it has none.
    pub(crate) fn twin_of(&self, parent: &Parent, index: u64) -> u64 {
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
    pub(crate) async fn mend_copies(&self, stem: &Stem) {
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
        let read = self.path.device().read(pointer.offset(), room).await;
        let why = match read {
            Ok(bytes) if sum(&bytes) == pointer.sum.get() => return Ok(bytes),
            Ok(_) => FsError::Corrupt,
            Err(_) => FsError::Io,
        };
        if !may_mend() {
            return Err(why);
        }
        if why == FsError::Corrupt
            && let Some(bytes) = mend(&**self.path.device(), pointer, 1).await
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
    pub(crate) async fn copy_at(
        &self,
        at: Pointer,
        may_mend: &dyn Fn() -> bool,
    ) -> Result<Buffer, FsError> {
        if !self.is_on_disk(at) {
            return Err(FsError::Corrupt);
        }
        let read = self.path.device().read(at.offset(), Buffer::unfilled(UNIT)).await;
        let bytes = read.map_err(|_| FsError::Io)?;
        if sum(&bytes) == at.sum.get() {
            return Ok(bytes);
        }
        let mended = if may_mend() { mend(&**self.path.device(), at, 1).await } else { None };
        mended.ok_or(FsError::Corrupt)
    }

    /// Whether one copy of a block is whole.
    pub(crate) async fn has_copy(&self, at: Pointer) -> bool {
        self.copy_at(at, &|| true).await.is_ok()
    }

    /// Rewrites a rotten copy; returns whether it did. A cut leaves it as it was, torn or whole.
    pub(crate) async fn write_copy(&self, at: Pointer, bytes: &[u8]) -> bool {
        if self.is_only_read.get() {
            return false;
        }
        let copy = vec![Buffer::copied(bytes).freeze()];
        self.path.device().write(at.offset(), copy, Durability::Plain).await.is_ok()
    }
}
