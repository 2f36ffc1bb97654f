//! The state of a live volume that its files and its commits share.

use std::cell::Cell;
use std::rc::Rc;

use runtime::sync::Signal;
use vfs::{Name, Timestamp};
use vnode::chain::Chain;
use vnode::horizon::Horizon;

use crate::chains::Chains;
use crate::format::snapshot::{State, Told};
use crate::layout::Disk;
use crate::nodes::Nodes;
use crate::pins::Pins;
use crate::waiting::{Promised, Sort};

/// See the module's prose.
pub struct Live {
    /// How far the volume is durable.
    pub horizon: Horizon,
    /// Notified when room was given back.
    pub released: Signal,
    /// Open chains.
    pub chains: Chains,
    /// All inodes from this number on are free.
    pub next_ino: Cell<u64>,
    /// Number of files.
    pub files: Cell<u64>,
    /// Number of directories among them.
    pub directories: Cell<u64>,
    /// Units of leaves that files have.
    pub units: Cell<u64>,
    /// Resources that plans under way have taken.
    pub promised: Promised,
}

impl Live {
    /// As an opening found it: its chains, the first free inode, and the counts of files,
    /// directories and units.
    pub fn found(chains: &[Chain], next_ino: u64, counts: [u64; 3]) -> Self {
        let [files, directories, units] = counts.map(Cell::new);
        Self {
            horizon: Horizon::default(),
            released: Signal::new(),
            chains: Chains::found(chains),
            next_ino: Cell::new(next_ino),
            files,
            directories,
            units,
            promised: Promised::default(),
        }
    }
}

impl Live {
    /// The live tree as a snapshot of it, with this number, name and time.
    pub fn told<D: Disk>(
        &self,
        nodes: &Nodes<D>,
        pins: &Pins,
        (number, name, created): (u64, Name, Timestamp),
        update: u64,
    ) -> Told {
        Told {
            number,
            name,
            created,
            state: State::Ready,
            update,
            inodes: nodes.trees()[0],
            files: self.files.get(),
            directories: self.directories.get(),
            units: self.units.get(),
            nodes: pins.nodes(),
            freed: 0,
            orphans_since: 0,
        }
    }
}

/// A plan waits as long as this exists.
pub(crate) struct Waits {
    sort: Sort,
    live: Rc<Live>,
}

impl Waits {
    /// A plan of this sort begins to wait.
    pub(crate) fn begin(sort: Sort, live: &Rc<Live>) -> Self {
        live.promised.waiting.wait(sort, 1);
        if sort.holds_blocks {
            live.released.notify(); // invariant 2
        }
        Self { sort, live: live.clone() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.live.promised.waiting.wait(self.sort, -1);
        self.live.released.notify();
    }
}
