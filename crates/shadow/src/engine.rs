//! The engine: its parts, and room for operations.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cache::DataPath;
use cow::floor::Floor;
use cow::{Node, Pins};
use runtime::Runtime;
use runtime::sync::Signal;
use vfs::Sequence;
use vnode::Space as Kind;

use crate::callers::Callers;
use crate::commit::{Commits, Counts, Staged};
use crate::compaction::Compaction;
use crate::planted::{Bug, is_planted};
use crate::scrubbing::Scrubbing;
use crate::space::Space;
use crate::units::Nodes;

/// The changes of one operation.
pub(crate) type Update = cow::update::Update<Commits>;

/// Units of an update that changes nothing: its record.
pub(crate) const SUCCESSOR: u64 = 1;

/// See the crate's prose.
pub struct Shadow {
    /// The part that other engines have too.
    pub(crate) floor: Floor<Commits>,
    pub(crate) runtime: Runtime,
    pub(crate) path: Rc<DataPath>,
    /// Its device, with a count of foreground I/O.
    pub(crate) callers: Rc<Callers>,
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) space: Rc<Space>,
    pub(crate) commits: Rc<Commits>,
    pub(crate) pins: Rc<Pins>,
    /// The last change that is there to give an update a successor, and changes nothing.
    pub(crate) followed: Cell<Sequence>,
    /// For a planted bug: the reply of the change before.
    pub(crate) late_answer: RefCell<Option<Rc<[u8]>>>,
    /// Whether a stop leaves the device open.
    pub(crate) keeps_device: bool,
    /// State of the scrub.
    pub(crate) scrubbing: Scrubbing,
    /// State of the compaction.
    pub(crate) compaction: Compaction,
}

impl Shadow {
    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.commits.live.directories.get()
    }

    /// Totals since it was opened.
    pub fn counts(&self) -> Counts {
        self.commits.counts()
    }

    pub(crate) fn block_size(&self) -> u64 {
        self.floor.block_size()
    }

    /// Units of a block of a file.
    pub(crate) fn per_block(&self) -> u64 {
        self.floor.per_block()
    }

    pub(crate) fn released(&self) -> &Signal {
        &self.commits.live.released
    }

    /// Sends blocks of metadata out with the next update, as they are, if there is room for `units`
    /// units of them and their parents; returns the change that does so. They replace others, so
    /// this works on a full volume.
    pub(crate) fn write_again(
        &self,
        nodes: impl IntoIterator<Item = Rc<Node>>,
        units: u64,
    ) -> Option<Sequence> {
        let has_room = || self.floor.has_room(0, units, Kind::Reserved, false);
        if self.commits.is_refused() || !has_room() {
            return None;
        }
        nodes.into_iter().for_each(|node| self.nodes.mark(&node));
        let sequence = self.floor.next_sequence();
        self.commits.stage(Staged { sequence, ..Staged::default() });
        self.commits.commit_soon();
        Some(Sequence(sequence))
    }

    /// Sends access times out with the next update.
    pub(crate) fn write_touched(&self) {
        // Touched blocks are not pinned in memory any longer, whatever happens to them.
        let touched = self.floor.touched.take();
        let cost = touched.len() as u64 * self.floor.cost_of_inode();
        // A crash may lose an access time, and so may a full volume, or a full host below it.
        if !touched.is_empty() {
            self.write_again(touched.into_values().filter(|home| !home.is_gone()), cost);
        }
    }

    /// Gives the last update a successor that changes nothing, if nothing else follows: then it is
    /// no longer the update that an opening may reject for damaged or torn blocks, and such damage
    /// loses nothing of it.
    pub(crate) fn follow(&self) {
        let last = Sequence(self.floor.next.get() - 1);
        let is_quiet = !self.commits.is_busy() && !self.commits.has_staged();
        let is_due = last > self.followed.get() && is_quiet && !is_planted(Bug::UnfollowedUpdates);
        if is_due && let Some(successor) = self.write_again([], SUCCESSOR) {
            // A change that joins its update comes later, and needs a successor of its own.
            let joins = is_planted(Bug::JoinedSuccessors);
            self.followed.set(if joins { Sequence(successor.0 + 1) } else { successor });
        }
    }
}
