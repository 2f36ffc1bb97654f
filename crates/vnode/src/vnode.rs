//! A file in memory: the file as every caller sees it now.
//!
//! A [`Vnode`] has the engine's inode, as the last Update left it. UNSTABLE writes are kept beside
//! it until their data is written back, because the disk must never describe a file ahead of its
//! data.
//!
//! States: *live* while it has a name; *dead* from the moment at which an Update that takes the
//! last one was applied, though it may take further Updates until everything of it is free. A task
//! that waited for its lock must check again.
//!
//! Invariants:
//! 1. One vnode for an inode number of a tree at a time.
//! 2. `depends` has every Update that changed the inode, its directory entries or its data and is
//!    not durable: every reply that shows something of the file waits for all of them.
//! 3. `volatile` is there exactly while pages of the file are dirty; its size is never below the
//!    inode's.
//! 4. `written_back` has the Updates that wrote UNSTABLE data back. No reply waits for them:
//!    earlier replies showed that data already, from memory. Only a reply that promises that the
//!    data stays waits.
//!
//! Not asserted: 1, which the table asserts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use directory::index::DirIndex;
use namespace::{Object, Protection};
use runtime::sync::Lock;
use vfs::{Attributes, Depends, FileKind, Ino, ObjectId, Sequence, SnapshotNumber, Timestamp};

use crate::chain::Chain;
use crate::pages::Pages;
use crate::planted::{Bug, is_planted};
use crate::reading::Reading;

/// Attributes that UNSTABLE writes changed and no Update carries yet.
#[derive(Clone, Copy, Debug)]
pub struct Volatile {
    /// The length that readers see.
    pub size: u64,
    /// Time of the last change of its content.
    pub mtime: Timestamp,
    /// Time of the last change of the file.
    pub ctime: Timestamp,
}

fn join(changes: &Cell<Depends>, more: &Depends) {
    let mut both = changes.get();
    both.join(more);
    changes.set(both);
}

/// An engine's facts about a file.
pub trait Facts {
    /// Its attributes, as they would be without UNSTABLE writes.
    fn attributes(&self, ino: u64, kind: FileKind) -> Attributes;
    /// Its length in bytes.
    fn size(&self) -> u64;
    /// Times of the last change of its content, and of the file.
    fn times(&self) -> (Timestamp, Timestamp);
    /// Whether it was created exclusively with these bits, and not changed since.
    fn has_verifier(&self, verifier: [u8; 8]) -> bool;
    /// Protection by its flags.
    fn protection(&self) -> Protection;
    /// The target of a symbolic link, if it is stored in the inode.
    fn inline_target(&self) -> Option<Bytes>;
    /// The block of memory that the inode pins: its address and size in bytes.
    fn pinned(&self) -> (u64, usize);
}

/// See the module's prose.
pub struct Vnode<I> {
    /// Inode number.
    pub ino: u64,
    /// Generation of the inode number.
    pub generation: u32,
    /// The tree that the file is in: that of a snapshot never changes.
    pub tree: SnapshotNumber,
    /// Its file type, which never changes.
    pub kind: FileKind,
    /// Guards everything of the file; taken in the order of inode numbers.
    pub lock: Lock,
    /// Data pages, under the lock.
    pub(crate) pages: RefCell<Pages>,
    /// UNSTABLE changes of size and times, under the lock.
    volatile: Cell<Option<Volatile>>,
    /// Its read pattern, for read-ahead.
    pub(crate) reading: Cell<Reading>,
    /// Names of a directory, once they were read.
    pub(crate) directory: RefCell<Option<Box<DirIndex>>>,
    /// Tick of the table's clock at the last use.
    pub(crate) used: Cell<u64>,
    inode: RefCell<I>,
    depends: Cell<Depends>,
    written_back: Cell<Depends>,
    /// Whether UNSTABLE data was lost for which there was no room below, and no caller knows yet.
    is_refused: Cell<bool>,
    /// The tick at which its pages began to wait for their turn to be written back.
    pub(crate) waits_since: Cell<u64>,
    /// Whether a task writes some of its pages back.
    pub(crate) is_behind: Cell<bool>,
    dead: Cell<bool>,
}

impl<I: Facts> Vnode<I> {
    /// A file without state in memory: an inode that an engine has read, or that an Update is about
    /// to make.
    pub fn new(number: (u64, u32), kind: FileKind, inode: I) -> Rc<Self> {
        Self::held(SnapshotNumber::LIVE, number, kind, inode)
    }

    /// The same, in the tree of a snapshot.
    pub fn held(
        tree: SnapshotNumber,
        (ino, generation): (u64, u32),
        kind: FileKind,
        inode: I,
    ) -> Rc<Self> {
        Rc::new(Self {
            ino,
            generation,
            tree,
            kind,
            lock: Lock::default(),
            pages: RefCell::default(),
            volatile: Cell::new(None),
            reading: Cell::default(),
            directory: RefCell::default(),
            used: Cell::new(0),
            inode: RefCell::new(inode),
            depends: Cell::default(),
            written_back: Cell::default(),
            is_refused: Cell::new(false),
            waits_since: Cell::new(0),
            is_behind: Cell::new(false),
            dead: Cell::new(false),
        })
    }

    /// The identity of this file for ever.
    pub fn id(&self) -> ObjectId {
        ObjectId { ino: Ino(self.ino), generation: self.generation, snapshot: self.tree }
    }

    /// The chain of Updates that leaves the file `size` bytes, or, without a size, frees it.
    pub(crate) fn chain(&self, size: Option<u64>) -> Chain {
        Chain { ino: self.ino, generation: self.generation, size }
    }

    /// Passes the inode, as the last Update left it, to `look`.
    pub fn look<T>(&self, look: impl FnOnce(&I) -> T) -> T {
        look(&self.inode.borrow())
    }

    /// The changes of UNSTABLE writes, if there are pages.
    pub fn volatile(&self) -> Option<Volatile> {
        self.volatile.get()
    }

    pub(crate) fn set_volatile(&self, volatile: Option<Volatile>) {
        debug_assert!(
            volatile.map_or(self.pages.borrow().is_empty(), |volatile| {
                volatile.size >= self.stored_size()
            }),
            "invariant 3: what is UNSTABLE has pages, and covers what is stored"
        );
        self.volatile.set(volatile);
    }

    /// The length that readers see, in bytes.
    pub fn size(&self) -> u64 {
        self.volatile.get().map_or_else(|| self.stored_size(), |volatile| volatile.size)
    }

    /// The length without UNSTABLE writes, in bytes.
    pub fn stored_size(&self) -> u64 {
        self.look(Facts::size)
    }

    /// Attributes as readers see them.
    pub fn attributes(&self) -> Attributes {
        let mut attributes = self.look(|inode| inode.attributes(self.ino, self.kind));
        if let Some(Volatile { size, mtime, ctime }) = self.volatile.get() {
            attributes = Attributes { size, mtime, ctime, ..attributes };
        }
        Attributes { ino: self.id().file_id(), generation: self.generation, ..attributes }
    }

    /// The Updates that a reply about this file depends on.
    pub fn depends(&self) -> Depends {
        self.depends.get()
    }

    /// Notes that these changed the file or its entries.
    pub(crate) fn changed_by(&self, changes: &Depends) {
        join(&self.depends, changes);
        debug_assert!(
            self.depends.get().newest() >= changes.newest(),
            "invariant 2: replies wait for each change"
        );
    }

    /// Forgets changes that no reply needs to wait for any more.
    pub(crate) fn keep_changes(&self, keeps: impl Fn(Sequence) -> bool) {
        for changes in [&self.depends, &self.written_back] {
            let mut left = changes.get();
            left.retain(&keeps);
            changes.set(left);
        }
    }

    /// Bytes of memory that the names of a directory take.
    pub(crate) fn names_bytes(&self) -> usize {
        self.directory.borrow().as_ref().map_or(0, |index| index.bytes())
    }

    /// Pages are lost: the file ends with its stored data, or with the last page that is left.
    pub(crate) fn lose_end(&self, block_size: u64) {
        let Some(volatile) = self.volatile.get() else { return };
        let pages = self.pages.borrow();
        let end = pages.end(block_size).max(self.stored_size());
        self.volatile.set(Some(Volatile { size: end, ..volatile }));
    }

    /// Notes that UNSTABLE data found no room below in a background write-back: the next COMMIT
    /// reports it.
    pub(crate) fn note_refusal(&self) {
        self.is_refused.set(true);
    }

    /// Returns whether there was a refusal since the last call, and clears it.
    pub(crate) fn take_refusal(&self) -> bool {
        self.is_refused.take()
    }

    /// Notes that these Updates wrote UNSTABLE data back (invariant 4).
    pub(crate) fn written_back_by(&self, changes: &Depends) {
        join(&self.written_back, changes);
        debug_assert!(
            self.written_back.get().newest() >= changes.newest(),
            "invariant 4: who promises data waits for what brought it home"
        );
    }

    /// Makes replies wait, from now on, for all UNSTABLE data that has been written back.
    pub(crate) fn promise_written_back(&self) {
        if !is_planted(Bug::UnwaitedLandings) {
            self.changed_by(&self.written_back.get());
        }
    }

    /// The newest Update of it, whether replies wait for that or not.
    pub(crate) fn newest(&self) -> Sequence {
        self.depends.get().newest().max(self.written_back.get().newest())
    }

    /// Whether the file has been freed.
    pub fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// Marks the file as gone.
    pub(crate) fn die(&self) {
        self.dead.set(true);
    }

    /// Changes the inode to its state after an Update, or after a change without one.
    pub fn set_inode(&self, change: impl FnOnce(&mut I)) {
        let mut inode = self.inode.borrow_mut();
        change(&mut inode);
        if let Some(volatile) = self.volatile.get() {
            let (mtime, ctime) = inode.times();
            let size = volatile.size.max(inode.size());
            self.volatile.set(Some(Volatile { size, mtime, ctime }));
        }
    }

    /// Changes parts of the inode that no Update carries and no UNSTABLE write overrides.
    pub fn touch_inode(&self, change: impl FnOnce(&mut I)) {
        change(&mut self.inode.borrow_mut());
    }
}

impl<I: Facts> Object for Vnode<I> {
    fn id(&self) -> ObjectId {
        Vnode::id(self)
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attributes(&self) -> Attributes {
        Vnode::attributes(self)
    }

    fn depends(&self) -> Depends {
        Vnode::depends(self)
    }

    fn is_dead(&self) -> bool {
        Vnode::is_dead(self)
    }

    fn lock(&self) -> &Lock {
        &self.lock
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        // A client that has written since knows that the file is there.
        let is_as_made = self.volatile.get().is_none();
        is_as_made && self.look(|inode| inode.has_verifier(verifier))
    }

    fn protection(&self) -> Protection {
        self.look(Facts::protection)
    }
}
