//! Blocks of metadata in memory, in the trees that they form.
//!
//! A tree hangs from a *stem*: the volume's, or a file's inode. Its blocks are found by owner,
//! level and index, never by their address, which changes with each update. Blocks of snapshots
//! never move, and are found by their address. A block holds a reference to the one above it, so
//! the path from a changed block up to the stem is always in memory, and sealing an update reads
//! nothing.
//!
//! ```text
//!  clean --mark--> dirty --seal--> clean, elsewhere
//!    \               \---remove---> gone
//!     `--evict--> not here
//! ```
//!
//! Invariants:
//! 1. The parents of a dirty block are dirty: its address is going to change.
//! 2. A block is in memory once, and knows its current parent.
//! 3. A block in memory matches its pointer; any other block is rejected.
//! 4. A block that is being read keeps its address, and nothing writes there. A task that moves or
//!    removes a block has it in memory, and a block that is being read is not yet in memory; and
//!    the blocks that an update on its way writes stay in memory until the device has them.
//!
//! Not asserted: 1, which `sealing` asserts; 2, of which [`BlockCache`] asserts the first half; 3,
//! which a comparison decides.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use block::Buffer;
use cache::blocks::Loading;
use cache::{BlockCache, Budget, DataPath};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use vfs::FsError;

use crate::format::head::{Kind, Place, Secret, is};
use crate::format::inode::Record;
use crate::format::pointer::{Pointer, Root, Tree, WIDTH, capacity, reach};
use crate::format::{FAN, UNIT};
use crate::held_trees::{HeldTrees, are_of_one_tree};
use crate::layout::Disk;
use crate::node::{Node, Parent, Stem, tree_of};
use crate::numbers::Occupied;
use crate::planted::{Bug, is_planted};

/// The number of a block in the cache.
fn number(owner: u64, level: u8, index: u64) -> u64 {
    assert!(owner < 1 << 32 && level < 8 && index < 1 << 29, "a block that no tree has");
    owner << 32 | u64::from(level) << 29 | index
}

/// A block that is filled anew: its old content is not read, by any task, as long as this exists.
pub struct Anew<'a> {
    stem: Stem,
    level: u8,
    index: u64,
    /// Keeps its parent in memory, unless that is filled anew as well,
    _parent: Option<Parent>,
    /// and the block itself, if it is there.
    here: Option<Rc<Node>>,
    _loading: Option<Loading<'a, Node>>,
}

/// Selects one of the leaves of a tree.
#[derive(Clone, Copy)]
pub enum Which {
    /// The first one.
    First,
    /// The last one.
    Last,
}

/// Whether no tree can have such a block: only damage has such numbers.
pub(crate) fn is_too_far(owner: u64, index: u64) -> bool {
    owner >> 32 != 0 || index >> 29 != 0
}

/// Trees that do not belong to files: that of the inodes, of replies, of snapshots, of their lists,
/// of the blocks of these, and two of the engine's own.
pub const TREES: usize = 7;

/// See the module's prose.
pub struct Nodes<D> {
    cache: BlockCache<Node>,
    /// Blocks of snapshots, by their addresses.
    held: BlockCache<Node>,
    disk: D,
    /// The device, and data in memory.
    pub path: Rc<DataPath>,
    /// The roots of trees, as they are now.
    pub(crate) trees: RefCell<[Tree; TREES]>,
    pub(crate) dirty: RefCell<Vec<Rc<Node>>>,
    pub(crate) dirty_count: Cell<u64>,
    /// Number of dirty blocks that have no address yet.
    pub(crate) unplaced: Cell<u64>,
    /// Number of blocks that were read from another version than the first.
    mended: Cell<u64>,
    /// The trees whose blocks may be mended on reading.
    pub held_trees: HeldTrees,
    secret: Secret,
    /// Whether a rotten copy stays as it is.
    pub is_only_read: Cell<bool>,
}

impl<D: Disk> Nodes<D> {
    /// The trees with these roots.
    pub fn new(
        disk: D,
        path: Rc<DataPath>,
        budget: Rc<Budget>,
        trees: [Tree; TREES],
        secret: Secret,
    ) -> Self {
        Self {
            cache: BlockCache::new(UNIT as u64, budget.clone()),
            held: BlockCache::new(UNIT as u64, budget),
            disk,
            path,
            trees: RefCell::new(trees),
            dirty: RefCell::default(),
            dirty_count: Cell::new(0),
            unplaced: Cell::new(0),
            mended: Cell::new(0),
            held_trees: HeldTrees::default(),
            secret,
            is_only_read: Cell::new(false),
        }
    }

    /// The roots of trees, as they are now.
    pub fn trees(&self) -> [Tree; TREES] {
        *self.trees.borrow()
    }

    /// The volume's secret.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Number of blocks that were mended on reading.
    pub fn mended(&self) -> u64 {
        self.mended.get()
    }

    /// Counts a block that was mended on reading.
    pub(crate) fn count_mended(&self) {
        self.mended.set(self.mended.get() + 1);
    }

    /// Number of dirty blocks.
    pub fn dirty_count(&self) -> u64 {
        self.dirty_count.get()
    }

    /// Number of dirty blocks that take no place of others: they are new.
    pub fn unplaced_count(&self) -> u64 {
        self.unplaced.get()
    }

    /// Evicts blocks that no task needs.
    pub fn evict(&self) {
        self.cache.evict();
        self.held.evict();
    }

    /// The same, if memory is short.
    pub fn relieve(&self) {
        if self.cache.budget().is_short() {
            self.evict();
        }
    }

    /// The children of a block of pointers, or of the root: their parent, their level, and their
    /// indexes there.
    pub fn below(&self, stem: &Stem, above: Option<&Rc<Node>>) -> (Parent, u8, Range<u64>) {
        match above {
            Some(node) => {
                let Place { level, index, .. } = node.place;
                (Parent::Node(node.clone()), level - 1, index * FAN..(index + 1) * FAN)
            }
            None => (Parent::Stem(stem.clone()), self.height(stem), 0..WIDTH as u64),
        }
    }

    /// Replaces the tree of inodes: no block of the old one is in use.
    pub fn set_inodes(&self, tree: Tree) {
        let is_idle = self.dirty.borrow().iter().all(|node| !node.is_pinnable());
        assert!(is_idle, "what is to go out goes out before");
        self.trees.borrow_mut()[0] = tree;
    }

    /// Resets a tree if it is empty; returns whether it is.
    pub fn clear(&self, stem: &Stem) -> bool {
        let tree = &mut self.trees.borrow_mut()[tree_of(stem)];
        let is_empty = tree.root.pointers.iter().all(Pointer::is_null);
        if is_empty {
            *tree = Tree::default();
        }
        is_empty
    }

    /// Height of a tree.
    pub fn height(&self, stem: &Stem) -> u8 {
        match stem {
            Stem::File(_, home, slot) => home.inode(*slot, |record| record.height),
            Stem::Pinned(tree) => tree.height,
            other => self.trees.borrow()[tree_of(other)].height,
        }
    }

    fn root(&self, stem: &Stem) -> Root {
        match stem {
            Stem::File(_, home, slot) => home.inode(*slot, |record| record.root),
            Stem::Pinned(tree) => tree.root,
            other => self.trees.borrow()[tree_of(other)].root,
        }
    }

    fn set_root(&self, stem: &Stem, height: u8, root: Root) {
        match stem {
            Stem::File(_, home, slot) => home.change(|bytes| {
                let record = Record::of_mut(bytes, *slot);
                (record.height, record.root) = (height, root);
            }),
            other => {
                let tree = &mut self.trees.borrow_mut()[tree_of(other)];
                (tree.height, tree.root) = (height, root);
            }
        }
    }

    /// The pointer to a child.
    pub fn child_of(&self, parent: &Parent, index: u64) -> Pointer {
        match parent {
            Parent::Node(node) => node.child(index),
            Parent::Stem(stem) => self.root(stem).pointers[index as usize],
        }
    }

    /// Sets the pointer to a child. The caller marks the parent.
    pub fn set_child(&self, parent: &Parent, index: u64, pointer: Pointer) {
        match parent {
            Parent::Node(node) => node.set_child(index, pointer),
            Parent::Stem(stem) => {
                let mut root = self.root(stem);
                root.pointers[index as usize] = pointer;
                self.set_root(stem, self.height(stem), root);
            }
        }
    }

    /// The block with this level and index, if it is in memory.
    pub fn find(&self, stem: &Stem, level: u8, index: u64) -> Option<Rc<Node>> {
        let owner = stem.owner();
        if is_too_far(owner, index) { None } else { self.cache.get(number(owner, level, index)) }
    }

    /// The first byte of the block to which a pointer leads; none if the device has no such place.
    pub fn locate(&self, pointer: Pointer) -> Option<u64> {
        self.disk.locate(pointer)
    }

    /// The same; for an impossible address a byte that no device has.
    pub(crate) fn byte_of(&self, pointer: Pointer) -> u64 {
        self.locate(pointer).unwrap_or(1 << 62)
    }

    /// Whether the address of a pointer is on the device.
    pub(crate) fn is_on_disk(&self, pointer: Pointer) -> bool {
        self.locate(pointer).is_some()
    }

    /// The block with this level and index; none for a hole.
    ///
    /// # Errors
    /// [`FsError::Io`] if it cannot be read; [`FsError::Corrupt`] if it is another block.
    pub fn get<'a>(
        &'a self,
        stem: &'a Stem,
        level: u8,
        index: u64,
    ) -> LocalBoxFuture<'a, Result<Option<Rc<Node>>, FsError>> {
        if is_too_far(stem.owner(), index) {
            return std::future::ready(Err(FsError::Corrupt)).boxed_local();
        }
        if stem.is_held() {
            return self.load_held(stem, level, index).boxed_local();
        }
        if let Some(node) = self.find(stem, level, index) {
            return std::future::ready(Ok(Some(node))).boxed_local();
        }
        self.load(stem, level, index).boxed_local()
    }

    async fn load(&self, stem: &Stem, level: u8, index: u64) -> Result<Option<Rc<Node>>, FsError> {
        let number = number(stem.owner(), level, index);
        loop {
            let Some(parent) = self.parent(stem, level, index).await? else { return Ok(None) };
            if let Some(node) = self.cache.get(number) {
                return Ok(Some(node)); // another task was faster
            }
            let pointer = self.child_of(&parent, index);
            if pointer.is_null() {
                return Ok(None);
            }
            if !self.is_on_disk(pointer) {
                return Err(FsError::Corrupt);
            }
            let Some(_loading) = self.cache.begin(number) else {
                self.cache.wait().await;
                continue;
            };
            let (room, twin) = (self.cache.unfilled(UNIT), self.twin_of(&parent, index));
            let bytes = self.read_block(room, (pointer, twin), &|| true).await?;
            let place = self.check(stem, (level, index), &bytes, pointer)?;
            // The tree may have become higher meanwhile (invariant 2).
            let now = match self.parent(stem, level, index).await? {
                _ if is_planted(Bug::StaleParents) => parent,
                now => now.ok_or(FsError::Corrupt)?,
            };
            let stays = self.child_of(&now, index) == pointer || is_planted(Bug::StaleParents);
            assert!(stays, "invariant 4: who moves a block has it in memory");
            let node = self.adopt(place, now, bytes, pointer);
            node.twin.set(twin);
            return Ok(Some(node));
        }
    }

    /// The same for a tree of a snapshot.
    async fn load_held(
        &self,
        stem: &Stem,
        level: u8,
        index: u64,
    ) -> Result<Option<Rc<Node>>, FsError> {
        let Some(parent) = self.parent(stem, level, index).await? else { return Ok(None) };
        let pointer = self.child_of(&parent, index);
        let at = pointer.address.get();
        if pointer.is_null() {
            return Ok(None);
        }
        if !self.is_on_disk(pointer) {
            return Err(FsError::Corrupt);
        }
        loop {
            let same = self.held.get(at).filter(|node| node.pointer() == pointer);
            if let Some(node) = &same
                && are_of_one_tree(&node.parent.borrow(), &parent)
            {
                return Ok(same);
            }
            self.held.remove(at); // of a snapshot that is gone, or of another that shares it
            let Some(_loading) = self.held.begin(at) else {
                self.held.wait().await;
                continue;
            };
            let (room, twin) = (self.held.unfilled(UNIT), self.twin_of(&parent, index));
            // The address may have a new owner by the time it has been read.
            let may_mend = || self.held_trees.have(&parent);
            let bytes = match same {
                Some(node) => Buffer::copied(&node.bytes.borrow()),
                None => self.read_block(room, (pointer, twin), &may_mend).await?,
            };
            let place = self.check(stem, (level, index), &bytes, pointer)?;
            let node = Rc::new(Node { is_held: true, ..Node::new(place, parent, bytes, pointer) });
            node.twin.set(twin);
            self.held.insert(at, &node);
            return Ok(Some(node));
        }
    }

    /// Checks that bytes that match the checksum of a pointer are the right block (invariant 3).
    pub fn check(
        &self,
        stem: &Stem,
        (level, index): (u8, u64),
        bytes: &[u8],
        pointer: Pointer,
    ) -> Result<Place, FsError> {
        let place = stem.place(level, index);
        let is_it = is(bytes, place, pointer.birth.get(), &self.secret);
        if is_it { Ok(place) } else { Err(FsError::Corrupt) }
    }

    fn adopt(&self, place: Place, parent: Parent, bytes: Buffer, pointer: Pointer) -> Rc<Node> {
        let node = Rc::new(Node::new(place, parent, bytes, pointer));
        self.cache.insert(number(place.owner, place.level, place.index), &node);
        node
    }

    /// The parent of a block; none if it is behind the end of the tree, or in a hole.
    ///
    /// # Errors
    /// As [`Nodes::get`].
    pub async fn parent(
        &self,
        stem: &Stem,
        level: u8,
        index: u64,
    ) -> Result<Option<Parent>, FsError> {
        let height = self.height(stem);
        if level > height || level == height && index >= WIDTH as u64 {
            return Ok(None);
        }
        if level == height {
            return Ok(Some(Parent::Stem(stem.clone())));
        }
        Ok(self.get(stem, level + 1, index / FAN).await?.map(Parent::Node))
    }

    /// The pointer to a leaf with data; null for a hole.
    ///
    /// # Errors
    /// As [`Nodes::get`].
    pub async fn leaf(&self, stem: &Stem, index: u64) -> Result<Pointer, FsError> {
        if index >= capacity(self.height(stem)) {
            return Ok(Pointer::NULL);
        }
        let parent = self.parent(stem, 0, index).await?;
        Ok(parent.map_or(Pointer::NULL, |parent| self.child_of(&parent, index)))
    }

    /// The first leaf, from this one on, that has a pointer, or the last, as far as the blocks
    /// above can be read. Holes take no time, whatever the size of a file claims.
    pub fn leaf_from<'a>(
        &'a self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        from: u64,
        which: Which,
    ) -> LocalBoxFuture<'a, Option<u64>> {
        async move {
            let (parent, level, places) = self.below(stem, above.as_ref());
            for step in places.clone() {
                let index = match which {
                    Which::First => step,
                    Which::Last => places.end - 1 - (step - places.start),
                };
                let is_before = (index + 1) * reach(level) <= from;
                if is_before || self.child_of(&parent, index).is_null() {
                    continue;
                }
                if level == 0 {
                    return Some(index);
                }
                let Ok(Some(node)) = self.get(stem, level, index).await else { continue };
                let found = self.leaf_from(stem, Some(node), from, which).await;
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        .boxed_local()
    }

    /// Notes the leaves that a tree has. All leaves below an unreadable block may exist, up to
    /// `end`.
    pub fn note_leaves<'a>(
        &'a self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        end: u64,
        found: &'a mut Occupied,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let (parent, level, places) = self.below(stem, above.as_ref());
            let is_there = |index: &u64| !self.child_of(&parent, *index).is_null();
            let places: Vec<u64> = places.filter(is_there).collect();
            if level > 0 {
                join_all(places.iter().map(|&index| self.get(stem, level, index))).await;
            }
            for index in places {
                if level == 0 {
                    found.note(index..index + 1);
                    continue;
                }
                let all = index * reach(level)..((index + 1) * reach(level)).min(end);
                match self.get(stem, level, index).await {
                    Ok(Some(node)) => self.note_leaves(stem, Some(node), end, found).await,
                    _ if all.is_empty() => {}
                    _ => found.note(all),
                }
                self.relieve();
            }
        }
        .boxed_local()
    }

    /// The parent for a block, in a tree that grows if it has to. Missing blocks are made, but not
    /// marked, and added to `made`: as long as such a block has no content, it is a hole.
    ///
    /// # Errors
    /// As [`Nodes::get`]; [`FsError::FileTooLarge`].
    pub fn make_parent<'a>(
        &'a self,
        stem: &'a Stem,
        level: u8,
        index: u64,
        made: &'a mut Vec<Rc<Node>>,
    ) -> LocalBoxFuture<'a, Result<Parent, FsError>> {
        async move {
            if level == 0 {
                while index >= capacity(self.height(stem)) {
                    self.grow(stem)?;
                }
            }
            if level == self.height(stem) {
                return Ok(Parent::Stem(stem.clone()));
            }
            self.make(stem, level + 1, index / FAN, made).await.map(Parent::Node)
        }
        .boxed_local()
    }

    /// The block with this level and index, which is made if there is a hole: see
    /// [`Nodes::make_parent`].
    ///
    /// # Errors
    /// As [`Nodes::make_parent`].
    pub async fn make(
        &self,
        stem: &Stem,
        level: u8,
        index: u64,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Rc<Node>, FsError> {
        let parent = self.make_parent(stem, level, index, made).await?;
        if let Some(node) = self.get(stem, level, index).await? {
            return Ok(node);
        }
        let place = stem.place(level, index);
        let node = self.adopt(place, parent, Buffer::zeroed(UNIT), Pointer::NULL);
        made.push(node.clone());
        Ok(node)
    }

    /// Prepares to fill a leaf anew, and makes its parents: see [`Nodes::make_parent`]. `others`
    /// are those of this tree that are prepared with it.
    ///
    /// # Errors
    /// As [`Nodes::make_parent`].
    pub async fn make_anew<'a>(
        &'a self,
        stem: Stem,
        index: u64,
        others: &[Anew<'a>],
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Anew<'a>, FsError> {
        loop {
            let parent = self.make_parent(&stem, 0, index, made).await?;
            let here = self.find(&stem, 0, index);
            let is_other = others.iter().any(|other| other.index == index);
            let loading = if here.is_some() || is_other {
                None
            } else if let Some(loading) = self.cache.begin(number(stem.owner(), 0, index)) {
                Some(loading)
            } else {
                self.cache.wait().await;
                continue;
            };
            let (level, parent) = (0, Some(parent));
            return Ok(Anew { stem, level, index, _parent: parent, here, _loading: loading });
        }
    }

    /// Prepares to fill anew an unreadable block of any level, and all below it. Its parent stays
    /// in memory as long as `parent` does, or is filled anew before it.
    pub async fn instead<'a>(
        &'a self,
        stem: Stem,
        (level, index): (u8, u64),
        parent: Option<Parent>,
    ) -> Anew<'a> {
        loop {
            let here = self.find(&stem, level, index);
            let loading = self.cache.begin(number(stem.owner(), level, index));
            if here.is_some() || loading.is_some() {
                return Anew { stem, level, index, _parent: parent, here, _loading: loading };
            }
            self.cache.wait().await;
        }
    }

    /// Replaces a leaf by an empty block, and its parents where they cannot be read. Its old
    /// content is lost.
    ///
    /// # Errors
    /// [`FsError::Io`] if a block cannot be read, and may come back.
    pub async fn renew(&self, stem: &Stem, index: u64) -> Result<(), FsError> {
        let mut above = None;
        for (level, at, parent) in self.unreadable(stem, index).await? {
            let parent = parent.or_else(|| above.take());
            let anew = self.instead(stem.clone(), (level, at), parent).await;
            let node = self.begin_anew(&anew);
            self.mark(&node);
            above = Some(Parent::Node(node));
        }
        Ok(())
    }

    /// The unreadable blocks on the path to a leaf, from the top down, with the parent of the first
    /// of them; the leaf is among them if it cannot be read.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn unreadable(
        &self,
        stem: &Stem,
        leaf: u64,
    ) -> Result<Vec<(u8, u64, Option<Parent>)>, FsError> {
        let (mut all, mut above) = (Vec::new(), Some(Parent::Stem(stem.clone())));
        for level in (0..=self.height(stem)).rev() {
            let at = leaf / FAN.pow(level.into());
            match self.get(stem, level, at).await {
                Ok(Some(node)) => above = Some(Parent::Node(node)),
                // A block of pointers may come back, and what it leads to would stay in use.
                Err(FsError::Io) if level > 0 || !stem.goes_without(FsError::Io) => {
                    return Err(FsError::Io);
                }
                Ok(None) | Err(_) => all.push((level, at, above.take())),
            }
        }
        Ok(all)
    }

    /// Makes such a block, for the caller to fill and mark at once.
    pub fn begin_anew(&self, anew: &Anew<'_>) -> Rc<Node> {
        let Anew { stem, level, index, here, .. } = anew;
        let (level, index) = (*level, *index);
        if let Some(node) = here.clone().or_else(|| self.find(stem, level, index)) {
            return node;
        }
        // The tree may have grown since.
        let parent = if self.height(stem) == level {
            Parent::Stem(stem.clone())
        } else {
            let above = self.find(stem, level + 1, index / FAN);
            Parent::Node(above.expect("it stays in memory"))
        };
        let pointer = self.child_of(&parent, index);
        let twin = self.twin_of(&parent, index);
        let node = self.adopt(stem.place(level, index), parent, Buffer::zeroed(UNIT), pointer);
        node.twin.set(twin);
        node
    }

    /// Removes blocks that were made for a change which did not need them after all.
    pub fn unmake(&self, made: &mut Vec<Rc<Node>>) {
        while let Some(node) = made.pop() {
            let is_hole = !node.is_dirty.get() && !node.is_gone.get() && node.pointer().is_null();
            // Only the cache and this function hold it: no task is about to fill it, and it has no
            // children.
            if is_hole && Rc::strong_count(&node) == 2 {
                let Place { owner, level, index, .. } = node.place;
                self.cache.remove(number(owner, level, index));
            }
        }
    }

    /// Makes a tree one level higher: the children of its root become those of one block.
    pub(crate) fn grow(&self, stem: &Stem) -> Result<(), FsError> {
        let height = self.height(stem);
        if height == crate::format::pointer::HIGHEST {
            return Err(FsError::FileTooLarge);
        }
        let place =
            Place { kind: Kind::POINTERS, owner: stem.owner(), level: height + 1, index: 0 };
        let (old, parent) = (self.root(stem), Parent::Stem(stem.clone()));
        let top = self.adopt(place, parent, Buffer::zeroed(UNIT), Pointer::NULL);
        (0..).zip(old.pointers).for_each(|(index, pointer)| top.set_child(index, pointer));
        if matches!(stem, Stem::Inodes) {
            top.set_first_twin(self.twin_of(&Parent::Stem(Stem::Inodes), 0));
            self.set_twin(&Parent::Stem(Stem::Inodes), 0);
        }
        self.set_root(stem, height + 1, Root::default());
        for index in 0..WIDTH as u64 {
            let below = if height == 0 && stem.holds_data() {
                None
            } else {
                self.find(stem, height, index)
            };
            if let Some(below) = below {
                below.parent.replace(Parent::Node(top.clone())); // invariant 2
            }
        }
        self.mark(&top);
        Ok(())
    }

    /// Marks a changed block, and its parents, as dirty: they go out with the next update.
    pub fn mark(&self, node: &Rc<Node>) {
        let mut next = Some(node.clone());
        while let Some(node) = next {
            assert!(!node.is_gone.get(), "what is gone is not changed");
            assert!(!node.is_held, "what snapshots hold is not changed");
            if node.is_dirty.replace(true) {
                break; // invariant 1
            }
            self.dirty.borrow_mut().push(node.clone());
            self.dirty_count.set(self.dirty_count.get() + 1);
            self.unplaced.set(self.unplaced.get() + u64::from(node.pointer().is_null()));
            next = match &*node.parent.borrow() {
                Parent::Node(above) | Parent::Stem(Stem::File(_, above, _)) => Some(above.clone()),
                Parent::Stem(_) => None,
            };
        }
    }

    /// The same for the holder of a pointer.
    pub fn mark_parent(&self, parent: &Parent) {
        if let Parent::Node(node) | Parent::Stem(Stem::File(_, node, _)) = parent {
            self.mark(node);
        }
    }

    /// Removes a block with all that is below it. Returns its old pointer.
    pub fn remove(&self, node: &Rc<Node>) -> Pointer {
        if !node.is_gone.replace(true) {
            assert!(!node.place.is_twice(), "the root directory stays");
            let Place { owner, level, index, .. } = node.place;
            self.cache.remove(number(owner, level, index));
            if node.is_dirty.replace(false) {
                self.dirty_count.set(self.dirty_count.get() - 1);
                self.unplaced.set(self.unplaced.get() - u64::from(node.pointer().is_null()));
            }
            let parent = node.parent.borrow().clone();
            let is_left = !matches!(&parent, Parent::Node(above) if above.is_gone.get());
            if is_left {
                self.set_child(&parent, index, Pointer::NULL);
                self.mark_parent(&parent);
            }
        }
        node.pointer.replace(Pointer::NULL)
    }

    /// The same, including parents left without children. Returns their old pointers.
    pub fn remove_way(&self, node: &Rc<Node>) -> Vec<Pointer> {
        let mut stood = Vec::new();
        let mut next = Some(node.clone());
        while let Some(node) = next {
            stood.push(self.remove(&node));
            next = match &*node.parent.borrow() {
                Parent::Node(above) if self.has_nothing_below(above) => Some(above.clone()),
                _ => None,
            };
        }
        stood.retain(|pointer| !pointer.is_null());
        stood
    }

    /// Whether a block of pointers has no children, and gets none when an update is sealed.
    fn has_nothing_below(&self, above: &Node) -> bool {
        let Place { owner, level, index, .. } = above.place;
        let is_there = |child: u64| {
            let is_here = || self.cache.has(number(owner, level - 1, child));
            !above.child(child).is_null() || !is_too_far(owner, child) && is_here()
        };
        !(index * FAN..(index + 1) * FAN).any(is_there)
    }
}
