//! Directories, links and renames: the rules of a file system, written once for every engine.
//!
//! Layers, from the top: [`Namespace`] is a [`vfs::FileSystem`]; its verbs check the caller's
//! permissions (`access`) and the file's flags (`protection`), take locks (`locks`), and express
//! the change in the words of a [`Store`], inside one Update. The Store is an engine: it knows
//! where names, inodes and data are, and how a change becomes durable. Its verbs carry intent (*a
//! link was added*, *a name was dropped*), because an engine that orders or undoes changes has to
//! know their meaning.
//!
//! Invariants:
//! 1. Locks of objects are taken in the order of their numbers, all that an operation needs at
//!    once; names that were looked up before are looked up again under the locks.
//! 2. A directory has one parent; the renames that could make a cycle are done one at a time.
//! 3. Link counts are never too low: a count rises before the name appears, and falls after it went
//!    (the items say so; the engine's policy keeps it).
//! 4. Every reply waits for the newest change of every object that it looked at.
//! 5. `before` and `after` of a reply enclose its own change and nothing else.
//!
//! Not asserted: 3, which the engine's policy keeps; 5, which is about what a Store does not do
//! between the two.
//!
//! Objects of a snapshot are read by the same verbs, and changed by none; `snapshots` has the
//! directories by which clients find them.
//!
//! The Store frees a file without names, at once or in steps.

mod access;
mod call;
mod create;
mod data;
mod file_system;
mod list;
mod locks;
#[doc(hidden)]
pub mod planted;
mod protection;
mod remove;
mod rename;
mod set;
mod snapshots;
mod store;

use std::cell::Cell;
use std::rc::Rc;

use runtime::sync::Lock;
use vfs::{Depends, SnapshotsShown};

use planted::{Bug, is_planted};
use rename::Moved;

pub use protection::Protection;
pub use store::{AttributeChange, Listed, NewFile, Object, ReadySnapshots, Stat, Store, Witness};

/// The name of the directories with snapshots.
pub const SNAPSHOTS_NAME: &[u8] = b".snapshot";

/// A file system over a [`Store`].
pub struct Namespace<S: Store> {
    store: Rc<S>,
    /// Held alone by a rename that gives a directory another parent (invariant 2).
    reparenting: Lock,
    /// Recent moves, by which a climb detects that it was overtaken.
    moved: Moved,
    /// The changes that moved directories, while these are not durable.
    moves: Cell<Depends>,
    /// Where clients find snapshots.
    shown: Cell<SnapshotsShown>,
}

impl<S: Store> Namespace<S> {
    /// The file system that `store` holds.
    pub fn new(store: Rc<S>) -> Self {
        let (reparenting, moved, moves, shown) = Default::default();
        Self { store, reparenting, moved, moves, shown }
    }

    /// The moves that the path of a file may depend on, beside its names themselves: a reply that
    /// makes the file durable waits for them, too.
    fn moves(&self) -> Depends {
        if self.store.receipt(self.moves.get()).has_come() {
            self.moves.set(Depends::NOTHING);
        }
        if is_planted(Bug::LooseCommits) { Depends::NOTHING } else { self.moves.get() }
    }

    /// Notes that a directory was moved.
    fn note_move(&self, directory: &S::Node) {
        let mut moves = self.moves();
        moves.join(&directory.depends());
        self.moves.set(moves);
    }

    /// The engine below.
    pub fn store(&self) -> &Rc<S> {
        &self.store
    }
}
