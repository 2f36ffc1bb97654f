//! The trees that snapshots hold, for readers that may come too late.
//!
//! A snapshot may be deleted while a block of it is being read, and the place of the block may be
//! another's when the read ends. The bytes of that fit no checksum of the snapshot. But a disk of a
//! set may have lost the write of the new owner: its old bytes would fit, and be mended over the
//! new ones. So a reader looks here again when nothing is awaited any more before the device is
//! asked to mend: the device carries out what is written later behind that.

use std::cell::RefCell;

use crate::format::pointer::Tree;
use crate::node::{Parent, Stem};
use crate::planted::{Bug, is_planted};

/// See the module's prose. Of a volume that nobody changes it is empty.
#[derive(Default)]
pub(crate) struct HeldTrees(RefCell<Option<Vec<Tree>>>);

impl HeldTrees {
    /// Snapshots may come and go from now on; there are these.
    pub(crate) fn begin(&self, trees: impl IntoIterator<Item = Tree>) {
        self.0.replace(Some(trees.into_iter().collect()));
    }

    /// A snapshot holds a tree.
    pub(crate) fn add(&self, tree: Tree) {
        self.0.borrow_mut().iter_mut().for_each(|trees| trees.push(tree));
    }

    /// A snapshot holds its tree no more. Another one may have the same.
    pub(crate) fn remove(&self, tree: Tree) {
        if let Some(trees) = self.0.borrow_mut().as_mut()
            && let Some(at) = trees.iter().position(|other| *other == tree)
        {
            trees.swap_remove(at);
        }
    }

    /// Whether a snapshot holds what hangs from this.
    pub(crate) fn have(&self, parent: &Parent) -> bool {
        let trees = self.0.borrow();
        let Some(trees) = trees.as_ref().filter(|_| !is_planted(Bug::LateMends)) else {
            return true;
        };
        let mut above = parent.clone();
        loop {
            above = match above {
                Parent::Stem(Stem::Pinned(tree)) => return trees.contains(&tree),
                Parent::Stem(Stem::File(_, node, _)) | Parent::Node(node) => {
                    node.parent.borrow().clone()
                }
                Parent::Stem(_) => return true, // of the live tree
            }
        }
    }
}
