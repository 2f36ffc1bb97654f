//! An Update: everything that one operation changes, gathered first and applied at once.
//!
//! An operation has three steps.
//!
//! 1. *Prepare* may wait and may fail. It takes object locks, reads and pins the buffers, picks
//!    fragments and inodes as promises, and gathers [`Item`]s. Nothing that others can see changes;
//!    an Update that is dropped here leaves no trace.
//! 2. *Apply and stage* ([`crate::Ffs`]) neither waits nor fails: the items change the
//!    buffers in order, the promises come true, the policy takes the Update and gives it its
//!    [`Sequence`]. **The order of Updates is fixed here.**
//! 3. *Receipt*: the reply waits until the policy says that the sequence is durable.
//!
//! ```text
//!  Update: Items, Promises, payload --reserve--> Ready --apply--> Deltas in Buffers, a Sequence
//!    dropped: no trace                                   stage--> StagedUpdate: the policy has it
//!  policy: Flight (sync), Draft and Entry (log) --commit point--> the Horizon passes the Sequence:
//!    the reply is opened. Deltas land with a WriteImage, before that or after it, as the policy
//!    has it; when all have, what the Update freed is free.
//! ```
//!
//! Items carry their [`Intent`], because a policy that orders writes, logs them, or undoes them
//! after a crash must know the meaning of a change and not only which bytes it touches.
//!
//! Invariants:
//! 1. An inode changes as a whole: each item on it carries all 256 bytes, sealed.
//! 2. Times go with another item of the same inode, if there is one.
//! 3. Within an Update, later items on a field come after earlier ones.
//! 4. `working` is in the order of its inodes. The last item of each inode has no change before
//!    [`Update::finish`]: the inode may still change.
//!
//! Not asserted: 2, which `finish` ensures; 3, which is about the caller that plans.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use ufs2::layout::Dinode;
use vnode::{Manner, Plan, Space};
use zerocopy::IntoBytes;

use crate::alloc::{EndRoom, Freed, GivenBack, Promise, Taken};
use crate::buffer::Buffer;
use crate::edit::Edit;
use crate::inode::{Node, OnDisk};
use crate::item::{Carried, Intent, Item, Subject};

/// The working copy of an inode.
struct Working {
    node: Rc<Node>,
    dinode: Dinode,
    last_item: Option<usize>,
}

/// See the module's prose.
pub struct Update {
    pub(crate) items: Vec<Item>,
    pub(crate) promises: Vec<Promise>,
    pub(crate) freed: Vec<Freed>,
    /// Blocks reserved for the new end of a file.
    pub(crate) end_room: Option<EndRoom>,
    /// Buffers that this Update creates.
    pub(crate) fresh: Vec<Rc<Buffer>>,
    /// Buffers that grow when the Update is applied, with their new size.
    pub(crate) grown: Vec<(Rc<Buffer>, usize)>,
    /// Directory runs that move to another address.
    pub(crate) moved: Vec<Rc<Buffer>>,
    /// Pointers of existing indirect blocks that this Update sets: (block, slot) to fragment.
    pub(crate) pointers: BTreeMap<(u64, usize), u64>,
    /// Directories that begin (1) or end (-1) with this Update, by their inodes.
    pub(crate) directories: Vec<(u64, i64)>,
    /// Payload by its first fragment. It was written, or is delayed.
    pub(crate) payload: Vec<(u64, Vec<Bytes>)>,
    /// How the policy handles the payload.
    pub(crate) carried: Carried,
    /// How the Update is to be carried out.
    pub(crate) manner: Manner,
    working: Vec<Working>,
    pub(crate) space: Space,
}

/// An Update with its room in the log reserved: nothing can stop it any more.
pub struct Ready {
    pub(crate) update: Update,
    /// Bytes of log that were reserved.
    pub(crate) room: u64,
}

impl Plan for Update {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.working.is_empty()
    }

    fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }
}

impl Update {
    /// An empty Update that may allocate from this space.
    pub fn new(space: Space) -> Self {
        Self {
            items: Vec::new(),
            promises: Vec::new(),
            freed: Vec::new(),
            end_room: None,
            fresh: Vec::new(),
            grown: Vec::new(),
            moved: Vec::new(),
            pointers: BTreeMap::new(),
            directories: Vec::new(),
            payload: Vec::new(),
            carried: Carried::default(),
            manner: Manner::default(),
            working: Vec::new(),
            space,
        }
    }

    /// Whether the Update changes only attributes.
    pub(crate) fn only_sets_attributes(&self) -> bool {
        self.items.iter().all(|item| item.intent == Intent::AttributesSet)
    }

    /// Number of inodes that the Update changes.
    pub(crate) fn inode_count(&self) -> usize {
        self.working.len()
    }

    /// Takes fragments or an inode, and returns their address or number.
    pub(crate) fn take(&mut self, taken: Taken) -> u64 {
        self.promises.push(taken.promise);
        self.items.push(taken.item);
        taken.place
    }

    /// Gives fragments or an inode back.
    pub(crate) fn give_back(&mut self, given: GivenBack) {
        self.items.push(given.item);
        self.freed.push(given.freed);
    }

    /// Lets the Update use the blocks kept for the new end of a file, if `room` is given.
    pub(crate) fn keep_end_room(&mut self, room: Option<EndRoom>) {
        if room.is_some() {
            (self.end_room, self.space) = (room, Space::Reserved);
        }
    }

    /// Adds a change of a buffer.
    pub fn push(&mut self, intent: Intent, buffer: &Rc<Buffer>, edit: Edit) {
        self.push_named(intent, Subject::Unnamed, buffer, edit);
    }

    /// Adds a change with a subject that other changes may depend on.
    pub(crate) fn push_named(
        &mut self,
        intent: Intent,
        subject: Subject,
        buffer: &Rc<Buffer>,
        edit: Edit,
    ) {
        self.items.push(Item { intent, subject, change: Some((buffer.clone(), edit)) });
    }

    /// Notes payload that was written and is durable with the next flush, or that is delayed.
    pub fn push_payload(&mut self, address: u64, pieces: Vec<Bytes>) {
        self.payload.push((address, pieces));
        if !self.items.iter().any(|item| item.intent == Intent::PayloadWritten) {
            self.items.push(Item::unnamed(Intent::PayloadWritten, None));
        }
    }

    /// Adds a buffer that is new and already filled, and whose block has no pointer to it yet.
    pub fn push_fresh(&mut self, intent: Intent, buffer: Rc<Buffer>) {
        self.push(intent, &buffer, Edit::Whole);
        self.fresh.push(buffer);
    }

    /// The buffer of a block that this Update creates.
    pub(crate) fn fresh(&self, address: u64) -> Option<&Rc<Buffer>> {
        self.fresh.iter().find(|buffer| buffer.address() == address)
    }

    /// Passes the inode, as this Update will leave it, to `look`.
    pub(crate) fn look<T>(&self, node: &Node, look: impl FnOnce(&Dinode) -> T) -> T {
        match self.place_of(node) {
            Ok(at) => look(&self.working[at].dinode),
            Err(_) => node.look_at(look),
        }
    }

    /// The inode as this Update will leave it.
    pub fn dinode(&self, node: &Node) -> Dinode {
        self.look(node, |dinode| *dinode)
    }

    /// Changes an inode with a meaning of its own.
    pub fn change_inode(
        &mut self,
        node: &Rc<Node>,
        intent: Intent,
        change: impl FnOnce(&mut Dinode),
    ) {
        let index = self.items.len();
        let working = self.working(node);
        let earlier = working.last_item.replace(index);
        let earlier = earlier.map(|earlier| (earlier, node.edit(&working.dinode)));
        change(&mut working.dinode);
        if let Some((earlier, edit)) = earlier {
            self.items[earlier].change = Some(edit);
        }
        let subject = Subject::Inode { ino: node.ino };
        self.items.push(Item { intent, subject, change: None }); // invariant 4
    }

    /// Changes times or other attributes that need no order of their own (invariant 2).
    pub fn touch_inode(&mut self, node: &Rc<Node>, change: impl FnOnce(&mut Dinode)) {
        change(&mut self.working(node).dinode);
    }

    fn place_of(&self, node: &Node) -> Result<usize, usize> {
        self.working.binary_search_by_key(&node.ino, |working| working.node.ino)
    }

    fn working(&mut self, node: &Rc<Node>) -> &mut Working {
        let at = self.place_of(node).unwrap_or_else(|at| {
            let (node, dinode) = (node.clone(), node.dinode_with_times());
            self.working.insert(at, Working { node, dinode, last_item: None });
            at
        });
        &mut self.working[at]
    }

    /// Seals the working inodes into their last items, or into items of their own. Returns each
    /// inode with its final state.
    pub(crate) fn finish(&mut self, seal: impl Fn(&mut Dinode)) -> Vec<(Rc<Node>, Dinode)> {
        for item in &mut self.items {
            seal_in(item, &seal);
        }
        debug_assert!(
            self.working.is_sorted_by(|one, next| one.node.ino < next.node.ino),
            "invariant 4: the inodes are in order"
        );
        let mut nodes = Vec::with_capacity(self.working.len());
        for mut working in std::mem::take(&mut self.working) {
            seal(&mut working.dinode);
            let change = Some(working.node.edit(&working.dinode));
            match working.last_item {
                Some(index) => {
                    let before = std::mem::replace(&mut self.items[index].change, change);
                    debug_assert!(before.is_none(), "invariant 4: nothing came after the last");
                }
                None => {
                    let subject = Subject::Inode { ino: working.node.ino };
                    self.items.push(Item { intent: Intent::AttributesSet, subject, change });
                }
            }
            nodes.push((working.node, working.dinode));
        }
        nodes
    }
}

/// Seals the inode that an item carries, if any.
fn seal_in(item: &mut Item, seal: &impl Fn(&mut Dinode)) {
    let Some((buffer, Edit::Bytes { new, .. })) = &mut item.change else { return };
    if buffer.role() == crate::buffer::Role::Inodes {
        assert_eq!(new.len(), size_of::<Dinode>(), "invariant 1: an inode changes as a whole");
        let mut dinode = *Dinode::at(new, 0);
        seal(&mut dinode);
        new.copy_from_slice(dinode.as_bytes());
    }
}
