//! The changes of one operation: an Update of the engine, and the changes to files in memory that
//! follow from it.
//!
//! A change is gathered first. Nothing that others can see changes before it is applied, and a
//! change that is dropped leaves no trace.

use std::rc::Rc;

use directory::index::IndexChange;
use runtime::sync::Permit;

use crate::chain::ChainLink;
use crate::engine::{Engine, File, Plan};

/// See the module's prose.
pub struct Change<E: Engine> {
    /// The engine's part.
    pub(crate) update: E::Update,
    pub(crate) follows: Follows<E>,
}

/// A change for which there is room: nothing can stop it any more.
pub struct Ready<E: Engine> {
    /// The engine's part; none if nothing changes.
    pub(crate) ready: Option<E::Ready>,
    pub(crate) follows: Follows<E>,
    pub(crate) is_unasked: bool,
    pub(crate) chain: Option<ChainLink>,
}

/// Changes to files in memory when the Update is applied.
pub(crate) struct Follows<E: Engine> {
    /// Changes to the name indexes of directories.
    pub(crate) index_changes: Vec<(File<E>, IndexChange)>,
    /// Files that begin (true) or end (false).
    pub(crate) lives: Vec<(File<E>, bool)>,
    /// Large files that lose their last name, each with its place among the chains: freed in steps
    /// afterwards.
    pub(crate) orphans: Vec<(File<E>, Permit)>,
    /// A place among the chains that the caller waited for before, for a file that is freed in
    /// steps.
    pub(crate) place: Option<Permit>,
    /// Files that end with UNSTABLE data, which is discarded with them.
    pub(crate) discards: Vec<File<E>>,
}

impl<E: Engine> Change<E> {
    pub(crate) fn new(update: E::Update) -> Self {
        let follows = Follows {
            index_changes: Vec::new(),
            lives: Vec::new(),
            orphans: Vec::new(),
            place: None,
            discards: Vec::new(),
        };
        Self { update, follows }
    }

    /// A chain begins or ends with this change.
    pub(crate) fn link(&mut self, link: ChainLink) {
        self.update.manner().chain = Some(link);
    }

    /// The names of a directory in memory follow.
    pub(crate) fn index(&mut self, directory: &File<E>, change: IndexChange) {
        self.follows.index_changes.push((Rc::clone(directory), change));
    }
}
