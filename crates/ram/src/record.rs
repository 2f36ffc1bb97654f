//! The changes of an Update as records, and their effect on the platter.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use vfs::{FileKind, LoggedReply, Snapshot, SnapshotNumber, SnapshotState, Timestamp};
use vnode::FoundSnapshots;
use vnode::chain::{Chain, ChainLink};

use crate::inode::Inode;
use crate::planted::{Bug, is_planted};

/// A directory entry: a name and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Box<[u8]>,
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
}

/// A file on the platter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) inode: Inode,
    pub(crate) blocks: BTreeMap<u64, Bytes>,
    /// Entries by their offset in the directory.
    pub(crate) entries: BTreeMap<u64, Entry>,
}

/// Files by their numbers.
pub(crate) type Tree = BTreeMap<u64, Stored>;

/// A snapshot on the platter. Its tree is shared by all that hold it, and never changes; a deletion
/// replaces it by smaller ones. Its blocks are those of the live tree, until that replaces them.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) snapshot: Snapshot,
    pub(crate) tree: Rc<Tree>,
    pub(crate) freed_bytes: u64,
}

/// All snapshots of a platter.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllPinned {
    pub(crate) each: BTreeMap<SnapshotNumber, Pinned>,
    pub(crate) last: SnapshotNumber,
    pub(crate) changed: Timestamp,
}

impl AllPinned {
    /// The snapshots as reported to a starting engine.
    pub(crate) fn found(&self) -> FoundSnapshots {
        let all = self.each.values().map(|pinned| pinned.snapshot.clone()).collect();
        FoundSnapshots { all, last: self.last, changed: self.changed }
    }
}

/// A tree without its files up to this number.
pub(crate) fn without(tree: &Rc<Tree>, through: u64) -> Rc<Tree> {
    Rc::new(tree.range(through + 1..).map(|(&ino, file)| (ino, file.clone())).collect())
}

/// A change of one Update, one piece at a time.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A new file, or the new inode of a file.
    Inode(u64, Inode),
    /// Names of a directory were added or removed; it has at least this time and length.
    Names(u64, Timestamp, u64),
    /// The entry at an offset of a directory.
    Entry(u64, u64, Option<Entry>),
    /// The contents of a block of a file.
    Block(u64, u64, Bytes),
    /// Truncates a file inside this block, after this many bytes.
    Cut(u64, u64, usize),
    /// Deletes a file.
    End(u64),
    /// Starts or ends a chain.
    Chain(ChainLink),
    /// Makes a snapshot with this tree.
    Pin(Snapshot, Rc<Tree>),
    /// Marks a snapshot as being deleted since this time.
    Unpin(SnapshotNumber, Timestamp),
    /// Frees the files of a snapshot up to this number, or all, with the bytes that it alone had.
    Thin(SnapshotNumber, Option<u64>, u64),
    /// Replaces the live tree by that of a snapshot.
    RollBack(SnapshotNumber),
    /// Remembers an answer.
    Answer(Box<LoggedReply>),
}

/// The durable state.
#[derive(Clone, Debug, Default)]
pub struct Platter {
    pub(crate) files: BTreeMap<u64, Stored>,
    pub(crate) chains: BTreeMap<u64, Chain>,
    pub(crate) answers: Vec<LoggedReply>,
    pub(crate) pinned: AllPinned,
}

impl Platter {
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Inode(ino, inode) => match self.files.get_mut(&ino) {
                Some(stored) => stored.inode = inode,
                None => {
                    let (blocks, entries) = (BTreeMap::new(), BTreeMap::new());
                    self.files.insert(ino, Stored { inode, blocks, entries });
                }
            },
            Record::Names(ino, time, size) => self.change(ino, |file| {
                let inode = &mut file.inode;
                (inode.mtime, inode.ctime) = (inode.mtime.max(time), inode.ctime.max(time));
                inode.size = inode.size.max(size);
            }),
            Record::Entry(ino, at, Some(entry)) => {
                self.change(ino, |file| _ = file.entries.insert(at, entry));
            }
            Record::Entry(ino, at, None) => self.change(ino, |file| _ = file.entries.remove(&at)),
            Record::Block(ino, lbn, data) => {
                self.change(ino, |file| _ = file.blocks.insert(lbn, data));
            }
            Record::Cut(ino, lbn, length) => {
                self.change(ino, |file| cut(&mut file.blocks, lbn, length));
            }
            Record::End(ino) => {
                self.files.remove(&ino);
            }
            Record::Chain(ChainLink::Begins(chain)) => {
                self.chains.insert(chain.ino, chain);
            }
            Record::Chain(ChainLink::Ends(ino)) => {
                self.chains.remove(&ino);
            }
            Record::Answer(answer) => self.answers.push(*answer),
            of_snapshots => self.take_of_snapshots(of_snapshots),
        }
    }

    fn take_of_snapshots(&mut self, record: Record) {
        let pinned = &mut self.pinned;
        match record {
            Record::Pin(snapshot, tree) => {
                pinned.last = pinned.last.max(snapshot.number);
                pinned.changed = pinned.changed.max(snapshot.created);
                let number = snapshot.number;
                pinned.each.insert(number, Pinned { snapshot, tree, freed_bytes: 0 });
            }
            Record::Unpin(number, at) => {
                pinned.changed = pinned.changed.max(at);
                if let Some(one) = pinned.each.get_mut(&number) {
                    one.snapshot.state = SnapshotState::Deleting;
                }
            }
            Record::Thin(number, Some(through), freed_bytes) => {
                if let Some(one) = pinned.each.get_mut(&number) {
                    one.tree = without(&one.tree, through);
                    one.freed_bytes += freed_bytes;
                }
            }
            Record::Thin(number, None, _) => _ = pinned.each.remove(&number),
            Record::RollBack(number) => {
                let tree = pinned.each.get(&number).map(|one| Tree::clone(&one.tree));
                self.files = tree.expect("a snapshot that is found");
                self.answers.clear();
                self.chains = nameless(&self.files);
            }
            _ => unreachable!("of files"),
        }
    }

    /// Changes a file; every change of a file depends on its creation.
    fn change(&mut self, ino: u64, change: impl FnOnce(&mut Stored)) {
        match self.files.get_mut(&ino) {
            Some(file) => change(file),
            None => assert!(is_planted(Bug::NoOrder), "a change of file {ino}, which is not there"),
        }
    }
}

/// Chains for the files of a tree without a name: each is being freed.
pub(crate) fn nameless(tree: &Tree) -> BTreeMap<u64, Chain> {
    let chain = |(&ino, file): (&u64, &Stored)| {
        (ino, Chain { ino, generation: file.inode.generation, size: None })
    };
    tree.iter().filter(|(_, file)| file.inode.links == 0).map(chain).collect()
}

/// Truncates a file inside block `lbn`, after `length` bytes.
pub(crate) fn cut(blocks: &mut BTreeMap<u64, Bytes>, lbn: u64, length: usize) {
    let mut behind = blocks.split_off(&lbn);
    if let Some(last) = behind.remove(&lbn).filter(|_| length > 0) {
        blocks.insert(lbn, last.slice(..length.min(last.len())));
    }
}
