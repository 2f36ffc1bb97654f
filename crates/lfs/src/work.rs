//! The work of an Update on snapshots, while it is being planned and staged.

use std::cell::Cell;
use std::rc::Rc;

use cow::format::snapshot::{Died, Told};
use cow::lists::{Lined, Step};
use cow::live::Live;
use cow::{Listing, Node, Run};
use vfs::{Snapshot, Timestamp};
use vnode::chain::Chain;

/// The work of an Update on snapshots. Such an Update does nothing else.
pub enum Work {
    Pin(Pin),
    Delete(Lined, Timestamp),
    /// The snapshot holds nothing from now on.
    LetGo(Lined),
    Step(Step),
    End(Lined),
    RollBack(Box<Back>),
}

/// A snapshot to be made with a checkpoint: its line goes to a slot of this block.
pub struct Pin {
    pub(crate) snapshot: Snapshot,
    pub(crate) leaf: Rc<Node>,
    pub(crate) slot: u64,
    pub(crate) _hold: Hold,
}

/// The plan of a roll-back to a snapshot.
pub struct Back {
    pub(crate) told: Told,
    /// Blocks to remove from lists: the list before each removal, its line, and the block.
    pub(crate) lists: Vec<(Listing, Rc<Node>, Rc<Node>, Died)>,
    /// Files without a name that the snapshot holds: they are freed from the next opening on.
    pub(crate) orphans: Vec<Chain>,
    pub(crate) _hold: Hold,
}

/// Keeps plans from getting places as long as it exists.
pub(crate) struct Hold(Rc<Cell<bool>>, Rc<Live>);

impl Hold {
    /// Sets this, until it is dropped.
    pub(crate) fn begin(is_held: &Rc<Cell<bool>>, live: &Rc<Live>) -> Self {
        assert!(!is_held.replace(true), "one change of snapshots at a time");
        Self(is_held.clone(), live.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.set(false);
        self.1.released.notify();
    }
}

/// The rest of the work on snapshots, for the Update when it is staged.
#[derive(Default)]
pub struct Worked {
    pub(crate) pin: Option<Pin>,
    /// It is acknowledged when a checkpoint is durable.
    pub(crate) needs_checkpoint: bool,
    /// Units that are free: no summary records that.
    pub(crate) freed: Vec<Run>,
}
