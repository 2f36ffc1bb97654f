//! The changes of one operation, while it is being planned.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use directory::entry::CHUNK_SIZE;
use vnode::{EntryChange, Manner, Plan, SnapshotChange, Space as Kind, Vnode};

use crate::format::pointer::Pointer;
use crate::format::run::Run;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::live::Live;
use crate::node::{Node, Parent};
use crate::nodes::Nodes;
use crate::waiting::Sort;

/// A chunk of a directory.
pub struct Chunk {
    pub(crate) directory: u64,
    pub(crate) source: Source,
}

/// The location of a chunk.
#[derive(Clone)]
pub(crate) enum Source {
    /// In a block, from this byte on.
    Node(Rc<Node>, usize),
    /// In the Update that adds it.
    New(Rc<RefCell<[u8; CHUNK_SIZE]>>),
}

impl vnode::Chunk for Chunk {
    fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        match &self.source {
            Source::Node(node, at) => node.read(|bytes| look(&bytes[*at..*at + CHUNK_SIZE])),
            Source::New(bytes) => look(&*bytes.borrow()),
        }
    }
}

/// A new chunk of a directory.
pub(crate) struct NewChunk {
    pub(crate) directory: u64,
    pub(crate) start: u64,
    pub(crate) node: Rc<Node>,
    pub(crate) at: usize,
    pub(crate) bytes: Rc<RefCell<[u8; CHUNK_SIZE]>>,
}

/// A new block of data of a file, with its place in the tree.
pub struct Placed {
    /// The holder of its pointer.
    pub parent: Parent,
    /// Its index.
    pub index: u64,
    /// Its address.
    pub address: u64,
    /// Its checksum.
    pub sum: u64,
    /// The pointer of the original, if the block is moved.
    pub was: Option<Pointer>,
}

/// Leaves that a file loses, and blocks of metadata that then have no children.
#[derive(Default)]
pub(crate) struct Cut {
    pub(crate) leaves: Vec<(Parent, u64, Pointer)>,
    pub(crate) nodes: Vec<Rc<Node>>,
    /// Pointers to wrong blocks of metadata, which are removed. The children of these blocks are
    /// unknown: they stay allocated, and so do the blocks themselves.
    pub(crate) lost: Vec<(Parent, u64, Pointer)>,
}

/// Resources that one Update has taken.
pub struct Taken<L: Layout> {
    layout: Rc<L>,
    nodes: Rc<Nodes<L::Disk>>,
    live: Rc<Live>,
    runs: Vec<Run>,
    pub(crate) inos: Vec<u64>,
    units: u64,
    deaths: u64,
    /// Blocks of metadata made for it.
    pub made: Vec<Rc<Node>>,
}

impl<L: Layout> Taken<L> {
    /// Promises room for this many units of metadata, and for this many blocks to die.
    pub(crate) fn promise(&mut self, units: u64, deaths: u64) {
        (self.units, self.deaths) = (self.units + units, self.deaths + deaths);
        let promised = &self.live.promised;
        promised.units.set(promised.units.get() + units);
        promised.deaths.set(promised.deaths.get() + deaths);
    }

    /// Notes blocks that were taken for the Update.
    pub fn hold(&mut self, runs: &[Run]) {
        if self.runs.is_empty() && !runs.is_empty() {
            self.live.promised.waiting.hold(1);
        }
        self.runs.extend(runs);
    }

    /// Keeps the runs, since the Update was applied.
    pub(crate) fn keep(&mut self) -> Vec<Run> {
        let runs = std::mem::take(&mut self.runs);
        self.let_go(!runs.is_empty());
        runs
    }

    fn let_go(&self, has_held: bool) {
        if has_held {
            self.live.promised.waiting.hold(-1);
            self.live.released.notify();
        }
    }
}

impl<L: Layout> Drop for Taken<L> {
    fn drop(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        self.layout.free(&runs);
        self.let_go(!runs.is_empty());
        let promised = &self.live.promised;
        self.inos.drain(..).for_each(|ino| _ = promised.inos.borrow_mut().remove(&ino));
        promised.units.set(promised.units.get() - self.units);
        promised.deaths.set(promised.deaths.get() - self.deaths);
        self.nodes.unmake(&mut self.made);
    }
}

/// See the module's prose.
pub struct Update<L: Layout> {
    pub(crate) kind: Kind,
    pub(crate) manner: Manner,
    /// Inodes as the Update will leave them.
    pub(crate) inodes: BTreeMap<u64, (Rc<Vnode<Inode>>, Inode)>,
    pub(crate) entries: Vec<(Source, EntryChange)>,
    pub(crate) chunks: Vec<NewChunk>,
    /// New blocks of files.
    pub blocks: Vec<Placed>,
    /// Blocks of data that were written, with their checksums.
    pub(crate) written: Vec<(u64, u64)>,
    /// Data that goes out with the blocks of metadata.
    pub(crate) riding: Vec<(u64, Bytes)>,
    pub(crate) cut: Cut,
    pub(crate) born: Vec<u64>,
    pub(crate) ended: Vec<u64>,
    /// Whether a file gets blocks where it had a hole.
    pub fills_holes: bool,
    /// The requested change of snapshots,
    pub asked: Option<SnapshotChange>,
    /// and the planned work for it.
    pub work: Option<L::Work>,
    /// Whether it may take space reserved for changes that free more than they take.
    pub(crate) takes_pool: bool,
    /// Whether it fails instead of waiting for room, which is left to others.
    pub gives_way: bool,
    /// Units for metadata, at most.
    pub cost: u64,
    /// Resources that it has taken.
    pub taken: Taken<L>,
}

impl<L: Layout> Update<L> {
    pub(crate) fn new(
        kind: Kind,
        layout: Rc<L>,
        nodes: Rc<Nodes<L::Disk>>,
        live: Rc<Live>,
    ) -> Self {
        let (runs, inos, made) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            kind,
            manner: Manner::default(),
            inodes: BTreeMap::new(),
            entries: Vec::new(),
            chunks: Vec::new(),
            blocks: Vec::new(),
            written: Vec::new(),
            riding: Vec::new(),
            cut: Cut::default(),
            born: Vec::new(),
            ended: Vec::new(),
            fills_holes: false,
            takes_pool: false,
            asked: None,
            work: None,
            gives_way: false,
            cost: 0,
            taken: Taken { layout, nodes, live, runs, inos, units: 0, deaths: 0, made },
        }
    }

    /// The inode as this Update will leave it.
    pub(crate) fn inode(&mut self, file: &Rc<Vnode<Inode>>) -> &mut Inode {
        let first = || {
            let mut inode = file.look(Clone::clone);
            if let Some(volatile) = file.volatile() {
                (inode.facts.mtime, inode.facts.ctime) = (volatile.mtime, volatile.ctime);
            }
            (file.clone(), inode)
        };
        &mut self.inodes.entry(file.ino).or_insert_with(first).1
    }

    /// Whether it may take space reserved for changes that free more than they take.
    pub(crate) fn may_take_pool(&self) -> bool {
        self.takes_pool || self.kind == Kind::Reserved
    }

    /// Its sort for other plans that wait for room.
    pub(crate) fn sort(&self) -> Sort {
        let holds_blocks = !self.taken.runs.is_empty();
        let is_refusable = self.grows() || holds_blocks && !self.may_take_pool();
        Sort { holds_blocks, is_refusable }
    }

    /// Whether it creates more than it removes: then it needs unreserved room.
    pub(crate) fn grows(&self) -> bool {
        !self.born.is_empty() || !self.chunks.is_empty() || self.fills_holes
    }
}

impl<L: Layout> Plan for Update<L> {
    fn is_empty(&self) -> bool {
        let of_snapshots = self.asked.is_some() || self.work.is_some();
        let of_files = self.inodes.is_empty() && self.entries.is_empty();
        of_files && self.blocks.is_empty() && !of_snapshots
    }

    fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }
}
