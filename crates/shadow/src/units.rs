//! The units of a disk, and the trees of this engine's own.

use cache::DataPath;
use cow::layout::Disk;
use cow::{Own, Pointer, Stem, UNIT};

use crate::format::kind;

/// The tree of the map of space.
pub(crate) const MAP: Stem = Stem::Own(Own { owner: 1, kind: kind::MAP, root: 1 });
/// The tree of the space log.
pub(crate) const LOG: Stem = Stem::Own(Own { owner: 7, kind: kind::LOG, root: 6 });

/// The tree with this owner, except that of the inodes; none for a file's.
pub(crate) fn tree_of(owner: u64) -> Option<Stem> {
    let own = [MAP, LOG].into_iter().find(|stem| stem.owner() == owner);
    own.or_else(|| Stem::common(owner))
}

/// The units of a device, in their order: an address is the number of a unit. It
/// has their count.
pub struct Units(u64);

impl Units {
    pub(crate) fn of(path: &DataPath) -> Self {
        Self(path.device().geometry().size / UNIT as u64)
    }
}

impl Disk for Units {
    fn locate(&self, pointer: Pointer) -> Option<u64> {
        (pointer.address.get() < self.0).then(|| pointer.offset())
    }
}

/// Blocks of metadata in memory.
pub(crate) type Nodes = cow::nodes::Nodes<Units>;
