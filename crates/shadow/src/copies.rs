//! Second copies of blocks ([`cow::copies`]): finding them below a superblock, and choosing places
//! for them in different zones, if more than one has room.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use cow::format::head::first_twin;
use cow::{Head, INODES, Node, Pointer, ROOT, Stem, Tree, UNIT, sum, view};
use vfs::FsError;

use crate::commit::Commits;
use crate::format::superblock::{Listed, Superblock};
use crate::mend::sum_listed;

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
