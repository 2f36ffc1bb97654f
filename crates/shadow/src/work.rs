//! The work of an Update on snapshots, while it is being planned.

use std::collections::BTreeMap;
use std::rc::Rc;

use cow::format::snapshot::{Died, Told};
use cow::lists::{Lined, Step};
use cow::{FAN, Listing, Node, Run};
use vfs::Timestamp;
use vnode::chain::Chain;

use crate::commit::{Hold, Pin};

/// The work of an Update on snapshots. Such an Update does nothing else.
pub enum Work {
    Pin(Pin, Hold),
    Delete(Lined, Timestamp),
    /// The snapshot holds nothing from now on.
    LetGo(Lined),
    Step(Step),
    End(Lined),
    RollBack(Box<Back>, Hold),
}

/// The plan of a roll-back to a snapshot.
pub struct Back {
    pub(crate) told: Told,
    /// Runs that the live tree has taken since.
    pub(crate) since: Vec<Run>,
    /// The blocks of the map that cover these runs, by their numbers.
    pub(crate) map: BTreeMap<u64, Rc<Node>>,
    /// Blocks to remove from lists: the list before each removal, its line, and the block.
    pub(crate) lists: Vec<(Listing, Rc<Node>, Rc<Node>, Died)>,
    /// Files without a name that the snapshot holds: they are freed from the next opening on.
    pub(crate) orphans: Vec<Chain>,
}

impl Back {
    /// Units that it takes, at most.
    pub(crate) fn cost(&self) -> u64 {
        // A fold has marked some of them, which are counted already.
        let map = self.map.values().filter(|node| !node.is_dirty()).count() as u64;
        let lists = self.lists.len() as u64;
        map + map.div_ceil(FAN) + 8 + lists.div_ceil(32)
    }
}
