//! Sealing blocks of metadata: each gets its address, and its pointer.

use std::rc::Rc;

use block::Buffer;
use bytes::Bytes;

use crate::format::head::Place;
use crate::format::pointer::Pointer;
use crate::format::sum;
use crate::layout::Disk;
use crate::node::{Node, Parent, Stem};
use crate::nodes::Nodes;
use crate::planted::{Bug, is_planted};

impl<D: Disk> Nodes<D> {
    /// The dirty blocks.
    pub fn dirty(&self) -> Vec<Rc<Node>> {
        let dirty = self.dirty.borrow();
        dirty.iter().filter(|node| !node.is_gone.get()).cloned().collect()
    }

    /// Takes the dirty blocks, in the order in which they are to be sealed: children before
    /// parents, files before inodes, and these before all others.
    pub fn take_dirty(&self) -> Vec<Rc<Node>> {
        let mut dirty = self.dirty.take();
        dirty.retain(|node| !node.is_gone.get());
        assert_eq!(dirty.len() as u64, self.dirty_count.take(), "each is counted");
        let class = |node: &Node| match node.place.owner {
            0 => 1,
            _ if node.is_pinnable() => 0,
            _ => 2,
        };
        dirty.sort_by_key(|node| {
            let Place { owner, level, index, .. } = node.place;
            (class(node), level, owner, index)
        });
        dirty
    }

    /// Seals a block: its address is `address` from now on, with the birth `birth`, and if `twin`
    /// is not 0, there is a copy there. Returns its bytes, their checksum and its old pointers.
    /// Nothing waits.
    pub fn seal(
        &self,
        node: &Node,
        (address, twin): (u64, u64),
        birth: u64,
    ) -> (Buffer, u64, [Pointer; 2]) {
        assert!(node.is_dirty.replace(false), "what is clean stays where it is");
        let mut copy = Buffer::copied(&node.bytes.borrow());
        self.seal_copy(&mut copy, node.place, birth);
        let sum = sum(&copy);
        let (old, old_twin) = (node.pointer.get(), node.twin());
        self.unplaced.set(self.unplaced.get() - u64::from(old.is_null()));
        let told = if is_planted(Bug::StaleSums) && !old.is_null() { old.sum.get() } else { sum };
        let pointer = Pointer::new(address, birth, told);
        node.pointer.set(pointer);
        let parent = node.parent.borrow();
        if let Parent::Node(above) | Parent::Stem(Stem::File(_, above, _)) = &*parent {
            assert!(above.is_dirty.get(), "invariant 1: what leads to it changes with it");
        }
        self.set_child(&parent, node.place.index, pointer);
        node.twin.set(twin);
        if node.place.is_twice() {
            self.set_twin(&parent, twin);
        }
        (copy, sum, [old, old_twin])
    }

    /// For a planted bug: the address of a sealed block, and its present bytes.
    pub fn thawed(&self, node: &Node) -> (u64, Bytes) {
        let mut copy = Buffer::copied(&node.bytes.borrow());
        let pointer = node.pointer();
        self.seal_copy(&mut copy, node.place, pointer.birth.get());
        (pointer.address.get(), copy.freeze())
    }
}
