//! The verbs of an engine: where blocks are and go, and how much room there is.

use std::rc::Rc;

use vnode::Space;

use crate::format::pointer::Pointer;
use crate::format::run::Run;

/// The place of each address on the device.
pub trait Disk: 'static {
    /// The first byte of the block to which a pointer leads; none if the device has no such place.
    fn locate(&self, pointer: Pointer) -> Option<u64>;
}

/// The room that a change asks for.
#[derive(Clone, Copy)]
pub struct Room {
    /// Blocks of files.
    pub blocks: u64,
    /// Units of metadata, including those promised to others.
    pub units: u64,
    /// Blocks that may die, including those of others.
    pub deaths: u64,
    /// Whose space it is.
    pub kind: Space,
    /// Whether the change creates more than it removes, so that it leaves alone what is set aside.
    pub grows: bool,
}

/// Where the blocks of files go. Those of metadata get their places when an update is sealed, which
/// is up to the engine alone.
pub trait Layout: 'static {
    /// Where blocks are.
    type Disk: Disk;
    /// Work of an Update in addition to changes of files.
    type Work;

    /// The number of the open update: the birth of a block that becomes visible now.
    fn number(&self) -> u64;

    /// Whether there is this much room in addition to all that is needed anyway.
    fn has_room(&self, room: Room) -> bool;

    /// Places for this many blocks of files, for a plan; none if there are too few. Each run is
    /// whole blocks, and begins on the device at a multiple of a block, as caches want it.
    /// Neighbouring addresses are neighbouring bytes: data for them are one write. An engine that
    /// has room, but no clean space yet, waits for some: it counts the blocks before it waits.
    async fn place(&self, blocks: u64) -> Option<Vec<Run>>;

    /// Takes back places of a plan that ends.
    fn free(&self, runs: &[Run]);

    /// Prepares places for data that is written there next.
    async fn prepare(&self, places: impl Iterator<Item = Run> + Clone);

    /// Whether an update is on its way that may make room, or is begun now.
    fn makes_room(self: &Rc<Self>) -> bool;
}
