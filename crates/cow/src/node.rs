//! A block of metadata in memory, and its parent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Buffer;
use vfs::FsError;

use crate::format::head::{Head, Kind, Place, first_twin, set_first_twin};
use crate::format::inode::Record;
use crate::format::pointer::{Pointer, Tree};
use crate::format::{FAN, FIRST, ROOT, view, view_mut};
use crate::planted::{Bug, is_planted};

/// A tree that one engine alone has. Its root is beside those of the other trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The owner in the heads of its blocks.
    pub owner: u64,
    /// Kind of its leaves.
    pub kind: Kind,
    /// Index of its root among all.
    pub root: usize,
}

/// Where the root of a tree is.
#[derive(Clone)]
pub enum Stem {
    /// The inodes.
    Inodes,
    /// The replies.
    Answers,
    /// The lines of snapshots.
    Snapshots,
    /// The lines of lists.
    Lists,
    /// The blocks of dead lists.
    Died,
    /// A tree of the engine's own.
    Own(Own),
    /// The inodes that a snapshot holds.
    Pinned(Rc<Tree>),
    /// A file: its number, the block of its inode, and the slot there.
    File(u64, Rc<Node>, u64),
}

impl Stem {
    /// The owner in the heads of its blocks: a file's own number; the others are no file's.
    pub fn owner(&self) -> u64 {
        match self {
            Self::Inodes | Self::Pinned(_) => 0,
            Self::Own(own) => own.owner,
            Self::Answers => 3,
            Self::Snapshots => 4,
            Self::Lists => 5,
            Self::Died => 6,
            Self::File(ino, ..) => *ino,
        }
    }

    /// The tree with this owner that every engine has, except that of the inodes; none for a
    /// file's, and for those of the engine's own.
    pub fn common(owner: u64) -> Option<Self> {
        let all = [Self::Answers, Self::Snapshots, Self::Lists, Self::Died];
        all.into_iter().find(|stem| stem.owner() == owner)
    }

    /// The identity of a block of its tree.
    pub fn place(&self, level: u8, index: u64) -> Place {
        Place { kind: self.kind(level), owner: self.owner(), level, index }
    }

    /// The kind of such a block.
    pub fn kind(&self, level: u8) -> Kind {
        match self {
            _ if level > 0 => Kind::POINTERS,
            Self::Inodes | Self::Pinned(_) => Kind::INODES,
            Self::Snapshots => Kind::SNAPSHOTS,
            Self::Lists => Kind::LISTS,
            Self::Died => Kind::DIED,
            Self::Own(own) => own.kind,
            Self::Answers => Kind::ANSWERS,
            Self::File(..) => Kind::NAMES,
        }
    }

    /// Whether the leaves of its tree are data: then they are not blocks of metadata. The leaves of
    /// a directory are, and are found by the same numbers.
    pub fn holds_data(&self) -> bool {
        match self {
            Self::File(_, home, slot) => home.inode(*slot, |record| {
                record.facts().is_none_or(|facts| facts.kind != vfs::FileKind::Directory)
            }),
            _ => false,
        }
    }

    /// Whether a leaf of its tree that cannot be read is done without. A rotten one is. One that
    /// may be read again is if memory or the trees have its contents, as for those of the
    /// engine's own, or if it has replies, which are worth no stop.
    pub fn goes_without(&self, error: FsError) -> bool {
        let is_of_books = matches!(self, Self::Own(_) | Self::Answers);
        let is_waited_for = !is_of_books || is_planted(Bug::AwaitedBooks);
        error == FsError::Corrupt || error == FsError::Io && !is_waited_for
    }

    /// Whether its tree belongs to a snapshot.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Pinned(_) => true,
            Self::File(_, home, _) => home.is_held,
            _ => false,
        }
    }
}

/// The parent of a block.
#[derive(Clone)]
pub enum Parent {
    /// The root of its tree.
    Stem(Stem),
    /// A block of pointers.
    Node(Rc<Node>),
}

/// A block of metadata.
pub struct Node {
    /// Its identity.
    pub place: Place,
    pub(crate) parent: RefCell<Parent>,
    pub(crate) bytes: RefCell<Buffer>,
    /// Its pointer; null if it is not on the disk yet.
    pub(crate) pointer: Cell<Pointer>,
    /// The unit of its other copy; 0 if it has none.
    pub(crate) twin: Cell<u64>,
    pub(crate) is_dirty: Cell<bool>,
    pub(crate) is_gone: Cell<bool>,
    /// Whether it belongs to a snapshot, and never changes.
    pub(crate) is_held: bool,
}

impl cache::blocks::Block for Node {
    fn memory(&self) -> usize {
        self.bytes.borrow().memory() + size_of::<Self>()
    }

    fn may_go(&self) -> bool {
        !self.is_dirty.get()
    }

    fn into_memory(self) -> Buffer {
        self.bytes.into_inner()
    }
}

impl Node {
    pub(crate) fn new(place: Place, parent: Parent, bytes: Buffer, pointer: Pointer) -> Self {
        Self {
            place,
            parent: RefCell::new(parent),
            bytes: RefCell::new(bytes),
            pointer: Cell::new(pointer),
            twin: Cell::new(0),
            is_dirty: Cell::new(false),
            is_gone: Cell::new(false),
            is_held: false,
        }
    }

    /// Reads its bytes, including its head.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.bytes.borrow())
    }

    /// Changes its bytes. The caller marks it, unless the change may be lost.
    pub fn change<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        change(&mut self.bytes.borrow_mut())
    }

    /// The inode in one of its slots.
    pub fn inode<T>(&self, slot: u64, look: impl FnOnce(&Record) -> T) -> T {
        self.read(|bytes| look(Record::of(bytes, slot)))
    }

    /// Its pointer.
    pub fn pointer(&self) -> Pointer {
        self.pointer.get()
    }

    /// The pointer to its other copy; null if it has none.
    pub fn twin(&self) -> Pointer {
        self.pointer.get().at(self.twin.get())
    }

    /// Whether a pointer leads to one of its copies.
    pub fn is_at(&self, pointer: Pointer) -> bool {
        pointer == self.pointer() || !pointer.is_null() && pointer == self.twin()
    }

    /// Whether snapshots hold blocks of this kind: inodes, and the blocks of files.
    pub fn is_pinnable(&self) -> bool {
        matches!(self.place.owner, 0 | ROOT | FIRST..)
    }

    /// Whether it goes out with the next update.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty.get()
    }

    /// Whether it was removed.
    pub fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// The pointer to a child.
    pub fn child(&self, index: u64) -> Pointer {
        self.read(|bytes| *view(&bytes[offset_of_child(index)..]))
    }

    /// The unit of the other copy of its first child; 0 if there is none.
    pub fn first_twin(&self) -> u64 {
        self.read(first_twin)
    }

    pub(crate) fn set_first_twin(&self, unit: u64) {
        self.change(|bytes| set_first_twin(bytes, unit));
    }

    pub(crate) fn set_child(&self, index: u64, pointer: Pointer) {
        self.change(|bytes| *view_mut(&mut bytes[offset_of_child(index)..]) = pointer);
    }
}

/// Byte of a block of pointers at which the pointer to a child begins.
pub(crate) fn offset_of_child(index: u64) -> usize {
    size_of::<Head>() + (index % FAN) as usize * size_of::<Pointer>()
}

/// Index of the root of the tree that hangs from a stem.
pub(crate) fn tree_of(stem: &Stem) -> usize {
    match stem {
        Stem::Inodes => 0,
        Stem::Own(own) => own.root,
        Stem::Answers => 2,
        Stem::Snapshots => 3,
        Stem::Lists => 4,
        Stem::Died => 5,
        Stem::Pinned(_) => unreachable!("what a snapshot holds does not change"),
        Stem::File(..) => unreachable!("a file's root is in its inode"),
    }
}
