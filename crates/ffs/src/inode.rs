//! An inode in memory: the file as everybody sees it now.
//!
//! A [`Node`] pins the buffer of its inode block. Its dinode equals the bytes in the buffer's
//! image; UNSTABLE writes stand beside it until their data is written back, because what the disk
//! says about a file must never be ahead of its data.
//!
//! States: *live* while it has a name; *dead* from the moment at which an Update that takes the
//! last one was applied, though it may take further Updates until everything of it is free. Whoever
//! waited for its lock must look again.
//!
//! Invariants:
//! 1. One Node for an inode number at a time.
//! 2. `sequence` is that of the newest Update that changed the inode, its directory entries or its
//!    data: every reply that shows something of the file waits for it.
//! 3. `volatile` is there exactly while pages of the file are dirty; its size is never below the
//!    dinode's.
//! 4. `written_back` is that of the newest Update that brought UNSTABLE data home. No reply waits
//!    for it: what it shows, replies showed before, from memory. Who promises that the data stays,
//!    waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use directory::index::DirIndex;
use runtime::sync::Lock;
use ufs2::layout::{Dinode, SECTOR_SIZE};
use vfs::{Attributes, FileKind, Ino, ObjectId, Sequence, Timestamp};
use zerocopy::IntoBytes;

use crate::buffer::Buffer;
use crate::chain::Chain;
use crate::edit::Edit;
use crate::pages::Pages;
use crate::planted::{Bug, is_planted};
use crate::reading::Reading;

/// What UNSTABLE writes changed and no Update carries yet.
#[derive(Clone, Copy, Debug)]
pub struct Volatile {
    /// The length that readers see.
    pub size: u64,
    /// When its content changed last.
    pub mtime: Timestamp,
    /// When anything of it changed last.
    pub ctime: Timestamp,
}

/// The attributes that readers see of an inode; `shown` stands in the place of size and times.
pub(crate) fn attributes_of(
    (ino, kind): (u64, FileKind),
    dinode: &Dinode,
    shown: Option<Volatile>,
) -> Attributes {
    Attributes {
        kind,
        mode: dinode.permissions(),
        nlink: u32::try_from(dinode.links.get()).unwrap_or(0),
        uid: dinode.uid.get(),
        gid: dinode.gid.get(),
        size: shown.map_or(dinode.size.get(), |shown| shown.size),
        used: dinode.sectors.get().saturating_mul(SECTOR_SIZE),
        device: match kind {
            FileKind::BlockDevice | FileKind::CharacterDevice => dinode.device(),
            _ => vfs::Device::default(),
        },
        ino: Ino(ino),
        generation: dinode.generation.get(),
        atime: dinode.access_time(),
        mtime: shown.map_or(dinode.modify_time(), |shown| shown.mtime),
        ctime: shown.map_or(dinode.change_time(), |shown| shown.ctime),
    }
}

/// See the module's prose.
pub struct Node {
    /// Its number.
    pub ino: u64,
    /// Which file of this number.
    pub generation: u32,
    /// What it is; fixed for its life.
    pub kind: FileKind,
    /// Guards everything of the file; taken in the order of numbers.
    pub lock: Lock,
    /// Data pages, under the lock.
    pub pages: RefCell<Pages>,
    /// UNSTABLE changes of size and time, under the lock.
    pub volatile: Cell<Option<Volatile>>,
    /// How it is being read.
    pub(crate) reading: Cell<Reading>,
    /// Names of a directory, once they were read.
    pub directory: RefCell<Option<Box<DirIndex>>>,
    /// Ticks of the table's clock at the last use.
    pub(crate) used: Cell<u64>,
    buffer: Rc<Buffer>,
    offset: usize,
    dinode: RefCell<Dinode>,
    sequence: Cell<Sequence>,
    written_back: Cell<Sequence>,
    /// Whether UNSTABLE data is gone for which there was no room below, and nobody knows yet.
    is_refused: Cell<bool>,
    /// The tick at which its pages began to wait for their turn to be written back.
    pub(crate) waits_since: Cell<u64>,
    /// Whether a task writes some of them back.
    pub(crate) is_behind: Cell<bool>,
    dead: Cell<bool>,
}

impl Node {
    /// The inode at `offset` of `buffer`: `dinode` is what it is there, or what an Update is about
    /// to make of it.
    pub fn with_dinode(
        ino: u64,
        buffer: Rc<Buffer>,
        offset: usize,
        dinode: Dinode,
        kind: FileKind,
    ) -> Rc<Self> {
        Rc::new(Self {
            ino,
            generation: dinode.generation.get(),
            kind,
            lock: Lock::default(),
            pages: RefCell::default(),
            volatile: Cell::new(None),
            reading: Cell::default(),
            directory: RefCell::default(),
            used: Cell::new(0),
            buffer,
            offset,
            dinode: RefCell::new(dinode),
            sequence: Cell::new(Sequence(0)),
            written_back: Cell::new(Sequence(0)),
            is_refused: Cell::new(false),
            waits_since: Cell::new(0),
            is_behind: Cell::new(false),
            dead: Cell::new(false),
        })
    }

    /// The name of this file for ever.
    pub fn id(&self) -> ObjectId {
        ObjectId { ino: Ino(self.ino), generation: self.generation }
    }

    /// The chain of Updates that leaves it `size` bytes, or, without one, ends it.
    pub(crate) fn chain(&self, size: Option<u64>) -> Chain {
        Chain { ino: self.ino, generation: self.generation, size }
    }

    /// Looks at the inode as the buffer has it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Dinode) -> T) -> T {
        look(&self.dinode.borrow())
    }

    /// The inode as the buffer has it.
    pub fn dinode(&self) -> Dinode {
        self.look(|dinode| *dinode)
    }

    /// The inode with the times that readers see: what an Update starts from.
    pub(crate) fn dinode_with_times(&self) -> Dinode {
        let mut dinode = self.dinode();
        if let Some(volatile) = self.volatile.get() {
            dinode.set_modify_time(volatile.mtime);
            dinode.set_change_time(volatile.ctime);
        }
        dinode
    }

    /// The length that readers see, in bytes.
    pub fn size(&self) -> u64 {
        self.volatile
            .get()
            .map_or_else(|| self.dinode.borrow().size.get(), |volatile| volatile.size)
    }

    /// Attributes as readers see them.
    pub fn attributes(&self) -> Attributes {
        let shown = self.volatile.get();
        let attributes = attributes_of((self.ino, self.kind), &self.dinode.borrow(), shown);
        Attributes { generation: self.generation, ..attributes }
    }

    /// The newest Update that a reply about this file depends on.
    pub fn sequence(&self) -> Sequence {
        self.sequence.get()
    }

    /// Notes that `sequence` changed the file or its entries.
    pub fn changed_by(&self, sequence: Sequence) {
        self.sequence.set(self.sequence.get().max(sequence));
    }

    /// The block that it pins: its address, and bytes of memory.
    pub(crate) fn block(&self) -> (u64, usize) {
        (self.buffer.address(), self.buffer.size())
    }

    /// Bytes of memory that the names of a directory take.
    pub(crate) fn names_bytes(&self) -> usize {
        self.directory.borrow().as_ref().map_or(0, |index| index.bytes())
    }

    /// Pages are lost: the file ends with what is stored, or with the last page that is left.
    pub(crate) fn lose_end(&self, block_size: u64) {
        let Some(volatile) = self.volatile.get() else { return };
        let pages = self.pages.borrow();
        let end = pages.end(block_size).max(self.look(|dinode| dinode.size.get()));
        self.volatile.set(Some(Volatile { size: end, ..volatile }));
    }

    /// Notes that UNSTABLE data found no room below when nobody had asked for it: the next COMMIT
    /// tells it.
    pub(crate) fn note_refusal(&self) {
        self.is_refused.set(true);
    }

    /// Whether there was a refusal since this was asked last.
    pub(crate) fn take_refusal(&self) -> bool {
        self.is_refused.take()
    }

    /// Notes that `sequence` brought UNSTABLE data home (invariant 4).
    pub(crate) fn written_back_by(&self, sequence: Sequence) {
        self.written_back.set(self.written_back.get().max(sequence));
    }

    /// From now on replies wait for all UNSTABLE data that has been brought home.
    pub(crate) fn promise_written_back(&self) {
        if !is_planted(Bug::UnwaitedLandings) {
            self.changed_by(self.written_back.get());
        }
    }

    /// The newest Update of it, whether replies wait for that or not.
    pub(crate) fn newest(&self) -> Sequence {
        self.sequence.get().max(self.written_back.get())
    }

    /// Whether the file has been freed.
    pub fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// The file is gone.
    pub(crate) fn die(&self) {
        self.dead.set(true);
    }

    /// The edit that puts `dinode` into the inode block.
    pub(crate) fn edit(&self, dinode: &Dinode) -> (Rc<Buffer>, Edit) {
        let new = Box::from(dinode.as_bytes());
        (self.buffer.clone(), Edit::Bytes { offset: self.offset, new })
    }

    /// Takes over what an Update left in the buffer.
    pub(crate) fn set_dinode(&self, dinode: Dinode) {
        self.dinode.replace(dinode);
        if let Some(volatile) = self.volatile.get() {
            let (mtime, ctime) = (dinode.modify_time(), dinode.change_time());
            let size = volatile.size.max(dinode.size.get());
            self.volatile.set(Some(Volatile { size, mtime, ctime }));
        }
    }

    /// Sets the access time without an Update: nobody waits for it, and a crash may lose it.
    pub(crate) fn touch_access_time(&self, time: Timestamp, seal: impl FnOnce(&mut Dinode)) {
        let mut dinode = self.dinode.borrow_mut();
        dinode.set_access_time(time);
        seal(&mut dinode);
        self.buffer.write_unordered(self.offset, dinode.as_bytes());
    }
}
