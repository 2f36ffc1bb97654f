//! Changing trees, with queries whether one node is above another: a link-cut tree (Sleator and
//! Tarjan, 1983). The cost of a call grows with the logarithm of the nodes, amortised; a plain walk
//! up costs as much as the tree is deep.
//!
//! The path from a root to some node is kept as a splay tree by depth; the top of such a tree
//! points at the node above the path's upper end. A call first makes the whole path to its node one
//! tree.
//!
//! # Invariants
//! 1. A node's children in a splay tree have it as their parent.
//! 2. Nothing is linked below itself.
//!
//! Not asserted: 1, which a test compares with walks up.

const NONE: usize = usize::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// Parent in the splay tree; for its top, the node above the path.
    parent: usize,
    /// Nodes nearer to the root, and farther from it.
    children: [usize; 2],
}

/// Directories, and the paths from each up to the root.
pub(super) struct Ways {
    /// Sorted: the index of a number is its node.
    inos: Vec<u64>,
    forest: Forest,
}

impl Ways {
    /// The paths of these directories; `parents` are pairs of a directory and its parent.
    pub(super) fn new(inos: Vec<u64>, parents: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut ways = Self { forest: Forest::new(inos.len()), inos };
        for (ino, parent) in parents {
            ways.lead(ino, parent);
        }
        ways
    }

    fn node(&self, ino: u64) -> Option<usize> {
        self.inos.binary_search(&ino).ok()
    }

    /// Makes the path of a directory lead through another one, unless that is below it.
    pub(super) fn lead(&mut self, ino: u64, parent: u64) {
        let Some(node) = self.node(ino) else { return };
        self.forest.cut(node);
        if let Some(parent) = self.node(parent)
            && !self.forest.is_above(node, parent)
        {
            self.forest.link(node, parent);
        }
    }

    /// Whether the path from a directory up to the root leads through another one.
    pub(super) fn leads_through(&mut self, from: u64, through: u64) -> bool {
        match (self.node(through), self.node(from)) {
            (Some(through), Some(from)) => self.forest.is_above(through, from),
            _ => false,
        }
    }
}

/// Nodes by number, each a root or below another.
struct Forest {
    nodes: Vec<Node>,
    /// The total cost: rotations, and paths that were joined.
    steps: u64,
}

impl Forest {
    /// `count` roots.
    fn new(count: usize) -> Self {
        Self { nodes: vec![Node { parent: NONE, children: [NONE; 2] }; count], steps: 0 }
    }

    /// Which child of its parent in the splay tree a node is; none for the top.
    fn side(&self, node: usize) -> Option<usize> {
        let parent = self.nodes[node].parent;
        let above = self.nodes.get(parent)?;
        above.children.iter().position(|&child| child == node)
    }

    fn rotate(&mut self, node: usize, side: usize) {
        let parent = self.nodes[node].parent;
        let (above, inner) = (self.nodes[parent].parent, self.nodes[node].children[1 - side]);
        if let Some(upper) = self.side(parent) {
            self.nodes[above].children[upper] = node;
        }
        self.nodes[parent].children[side] = inner;
        if inner != NONE {
            self.nodes[inner].parent = parent;
        }
        self.nodes[node].children[1 - side] = parent;
        self.nodes[parent].parent = node;
        self.nodes[node].parent = above;
        self.steps += 1;
    }

    /// Makes a node the top of its splay tree.
    fn splay(&mut self, node: usize) {
        while let Some(side) = self.side(node) {
            let parent = self.nodes[node].parent;
            match self.side(parent) {
                Some(upper) if upper == side => self.rotate(parent, upper),
                Some(_) => {
                    self.rotate(node, side);
                    let side = self.side(node).expect("it had a parent and one above");
                    self.rotate(node, side);
                    continue;
                }
                None => {}
            }
            let side = self.side(node).expect("it is below its parent still");
            self.rotate(node, side);
        }
    }

    /// Makes the path from the root to a node one splay tree, with the node on top and last.
    fn access(&mut self, node: usize) {
        let (mut at, mut below) = (node, NONE);
        while at != NONE {
            self.splay(at);
            self.nodes[at].children[1] = below;
            self.steps += 1;
            (below, at) = (at, self.nodes[at].parent);
        }
        self.splay(node);
    }

    /// Makes a node a root, with all that is below it.
    fn cut(&mut self, node: usize) {
        self.access(node);
        let above = std::mem::replace(&mut self.nodes[node].children[0], NONE);
        if above != NONE {
            self.nodes[above].parent = NONE;
        }
    }

    /// Puts a root below another node.
    ///
    /// # Panics
    /// When that is below the root itself.
    fn link(&mut self, root: usize, parent: usize) {
        assert!(!self.is_above(root, parent), "invariant 2: no circles");
        self.access(root);
        self.nodes[root].parent = parent;
    }

    /// Whether a node is another one, or above it.
    fn is_above(&mut self, node: usize, other: usize) -> bool {
        self.access(other);
        if node == other {
            return true;
        }
        self.splay(node);
        // The other is on top of the path from its root; only a node of that path takes its place.
        self.nodes[other].parent != NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by a plain walk up.
    fn is_above(parents: &[Option<usize>], node: usize, other: usize) -> bool {
        let mut at = Some(other);
        while let Some(here) = at {
            if here == node {
                return true;
            }
            at = parents[here];
        }
        false
    }

    #[test]
    fn it_says_what_a_walk_up_says() {
        const COUNT: usize = 60;
        let (mut forest, mut parents) = (Forest::new(COUNT), vec![None; COUNT]);
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for step in 0..20_000 {
            let (node, other) = (next(COUNT), next(COUNT));
            let expected = is_above(&parents, node, other);
            assert_eq!(forest.is_above(node, other), expected, "step {step}: {node}, {other}");
            if !expected {
                forest.cut(node);
                forest.link(node, other);
                parents[node] = Some(other);
            } else if next(4) == 0 {
                forest.cut(node);
                parents[node] = None;
            }
        }
    }

    /// A chain as deep as it has nodes, each of which moves once and is queried once on the way.
    #[test]
    fn steps_grow_with_the_nodes_and_not_with_their_square() {
        let steps = |count: usize| {
            let mut forest = Forest::new(count);
            for node in 1..count {
                forest.link(node, 0);
            }
            for node in 2..count {
                assert!(!forest.is_above(node, node - 1));
                forest.cut(node);
                forest.link(node, node - 1);
            }
            assert!(forest.is_above(1, count - 1));
            forest.steps
        };
        let (few, many) = (steps(1000), steps(16_000));
        assert!(many < 16 * few * 2, "{few} steps for 1,000 nodes, {many} for 16,000");
    }
}
