//! One change of an Update: what it means, and what it does.

use std::rc::Rc;

use crate::buffer::Buffer;
use crate::edit::Edit;

/// What a change means. Policies decide by this, and by nothing else, what must land before what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// File data is in its place on the device, though not flushed; or the log will see to that.
    PayloadWritten,
    /// Inode or fragment bits are taken.
    MapTaken,
    /// A block of inodes got its first content.
    InodeBlockInitialised,
    /// The group counts a further block of inodes as initialised.
    InitialisedRaised,
    /// A directory run or an indirect block got its first content.
    BlockInitialised,
    /// A directory run got a further chunk in place, which the directory does not cover yet.
    ChunkInitialised,
    /// An inode begins its life, its generation raised, its links counted.
    InodeInitialised,
    /// A link count rose for a name that is about to appear.
    LinkAdded,
    /// Attributes or times changed.
    AttributesSet,
    /// A pointer in an indirect block appeared or moved.
    PointerSet,
    /// An inode's own pointers appeared or moved, with its size and block count.
    SizeSet,
    /// A name appeared in a directory.
    EntryAdded,
    /// A name names another file now.
    EntryRetargeted,
    /// A directory that moved names its new parent.
    ParentRetargeted,
    /// A name is gone.
    EntryDropped,
    /// A link count fell after its name went.
    LinkDropped,
    /// An inode's size and pointers are smaller; of a dead file, everything is gone.
    SizeCleared,
    /// Pointers in an indirect block are gone, behind the end of the file.
    PointerCleared,
    /// Bits of inodes or fragments are free again.
    MapGivenBack,
}

/// What a change is about, where others may have to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that another change asks for.
    Unnamed,
    /// An inode.
    Inode {
        /// Its number.
        ino: u64,
    },
    /// An entry.
    Entry {
        /// The directory in which it is.
        directory: u64,
        /// What it names from now on, if anything.
        target: Option<u64>,
    },
}

/// One change with its meaning.
pub struct Item {
    /// What it means.
    pub intent: Intent,
    /// What it is about.
    pub subject: Subject,
    /// What it does; payload has nothing left to do but to be flushed. The last item of an inode
    /// has none either before the Update is closed ([`crate::update`], invariant 4).
    pub change: Option<(Rc<Buffer>, Edit)>,
}

impl Item {
    /// A change that no other asks for.
    pub fn unnamed(intent: Intent, change: Option<(Rc<Buffer>, Edit)>) -> Self {
        Self { intent, subject: Subject::Unnamed, change }
    }
}

/// What a policy does with the payload of an Update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes that it takes in an entry of the log, if it rides in one.
    pub rides: Option<usize>,
    /// Whether the log alone brings it to its place.
    pub is_delayed: bool,
}
