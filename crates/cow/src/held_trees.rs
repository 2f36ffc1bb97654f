//! The trees that snapshots hold, for reads that may end too late.
//!
//! A snapshot may be deleted while a block of it is being read, and the place of the block may have
//! a new owner when the read ends. The new bytes match no checksum of the snapshot. But a disk of a
//! set may have lost the write of the new owner: its old bytes would match, and be mended over the
//! new ones. So a reader looks here again just before it asks the device to mend, with no await in
//! between: the device carries out later writes after that.
//!
//! A block that several snapshots share is a block of its own in each of their trees: one of them
//! may go, and the block is still mended for a reader of another.

use std::cell::RefCell;
use std::rc::Rc;

use crate::format::pointer::Tree;
use crate::node::{Parent, Stem};
use crate::planted::{Bug, is_planted};

/// The tree of a snapshot that a block belongs to, by its parent; none for the live tree.
fn tree_above(parent: &Parent) -> Option<Rc<Tree>> {
    let mut above = parent.clone();
    loop {
        above = match above {
            Parent::Stem(Stem::Pinned(tree)) => return Some(tree),
            Parent::Stem(Stem::File(_, node, _)) | Parent::Node(node) => {
                node.parent.borrow().clone()
            }
            Parent::Stem(_) => return None,
        }
    }
}

/// Whether two blocks belong to the tree of one snapshot.
pub(crate) fn are_of_one_tree(one: &Parent, other: &Parent) -> bool {
    tree_above(one) == tree_above(other) || is_planted(Bug::FirstReaders)
}

/// See the module's prose. Empty for a volume that does not change.
#[derive(Default)]
pub struct HeldTrees(RefCell<Option<Vec<Tree>>>);

impl HeldTrees {
    /// Begins to track snapshots; these exist.
    pub fn begin(&self, trees: impl IntoIterator<Item = Tree>) {
        self.0.replace(Some(trees.into_iter().collect()));
    }

    /// A snapshot holds this tree from now on.
    pub fn add(&self, tree: Tree) {
        self.0.borrow_mut().iter_mut().for_each(|trees| trees.push(tree));
    }

    /// A snapshot no longer holds its tree. Another one may have the same.
    pub fn remove(&self, tree: Tree) {
        if let Some(trees) = self.0.borrow_mut().as_mut()
            && let Some(at) = trees.iter().position(|other| *other == tree)
        {
            trees.swap_remove(at);
        }
    }

    /// Whether a snapshot holds the blocks below this.
    pub fn have(&self, parent: &Parent) -> bool {
        let trees = self.0.borrow();
        let Some(trees) = trees.as_ref().filter(|_| !is_planted(Bug::LateMends)) else {
            return true;
        };
        tree_above(parent).is_none_or(|tree| trees.contains(&tree))
    }
}
