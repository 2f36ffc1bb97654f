//! One change of an Update: its meaning and its effect.

use std::rc::Rc;

use crate::buffer::Buffer;
use crate::edit::Edit;

/// The meaning of a change. Policies decide by this alone which changes must land before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// File data was written to its place, but not flushed; or the log will do so.
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

/// The inode or entry that a change is about, where other changes may have to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that another change depends on.
    Unnamed,
    /// An inode.
    Inode {
        /// Inode number.
        ino: u64,
    },
    /// An entry.
    Entry {
        /// Inode of the directory that contains it.
        directory: u64,
        /// Inode that the entry names from now on, if any.
        target: Option<u64>,
    },
}

/// One change with its meaning.
pub struct Item {
    /// Meaning of the change.
    pub intent: Intent,
    /// The inode or entry that it is about.
    pub subject: Subject,
    /// Effect of the change. Payload has none: it only has to be flushed. The last item of an inode
    /// has none either before the Update is closed ([`crate::update`], invariant 4).
    pub change: Option<(Rc<Buffer>, Edit)>,
}

impl Item {
    /// A change that no other change depends on.
    pub fn unnamed(intent: Intent, change: Option<(Rc<Buffer>, Edit)>) -> Self {
        Self { intent, subject: Subject::Unnamed, change }
    }
}

/// How a policy handles the payload of an Update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes of payload in the entry of the log, if it is logged.
    pub rides: Option<usize>,
    /// Whether the data reaches its place from the log alone.
    pub is_delayed: bool,
}
