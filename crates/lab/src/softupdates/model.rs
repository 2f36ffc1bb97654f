//! The paper's file systems on a disk: synchronous writes, and delayed ones.
//!
//! Without soft updates a daemon writes all dirty blocks every 30 seconds, at once. With soft
//! updates the trickle syncer looks every second for blocks that are old enough, and writes them
//! one after the other.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use block::{BlockDevice, Durability};
use bytes::Bytes;
use futures::FutureExt;
use runtime::{Clock, Runtime};
use sim::Disk;

use super::blocks::{BLOCK, Block};
use super::cache::Ages;
use super::files::{Holds, LocalFiles, Writes};
use super::tree::{ROOT, Tree, Work};

/// "The traditional `update` program".
const UPDATE: Duration = Duration::from_secs(30);
/// Interval of the trickle syncer.
const TRICKLE: Duration = Duration::from_secs(1);

static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Inodes, names and counts are written synchronously.
    Normal,
    /// Soft updates with these ages.
    Soft(Ages),
    /// A mistake for the tests: soft updates in which each change is a separate write.
    #[cfg(test)]
    Hasty,
}

/// The model; see the module.
pub(super) struct Model {
    style: Style,
    disk: Rc<Disk>,
    runtime: Runtime,
    tree: RefCell<Tree>,
    writes: Cell<Writes>,
    this: Weak<Self>,
}

impl Model {
    /// An empty file system on a disk, with its daemon.
    pub(super) fn start(style: Style, disk: Rc<Disk>, runtime: Runtime) -> Rc<Self> {
        let ages = match style {
            Style::Normal => None,
            Style::Soft(ages) => Some(ages),
            #[cfg(test)]
            Style::Hasty => Some(Ages::PAPER),
        };
        let (tree, writes) = (RefCell::new(Tree::new(ages)), Cell::default());
        let model = Rc::new_cyclic(|this| Self {
            style,
            disk,
            runtime: runtime.clone(),
            tree,
            writes,
            this: this.clone(),
        });
        runtime.tasks.spawn(model.clone().keep_clean().boxed_local());
        model
    }

    /// Rolled-back changes so far: of names, and all others.
    pub(super) fn rollbacks(&self) -> [u64; 2] {
        self.tree.borrow().cache.rollbacks
    }

    /// Maximum of changes that waited at once.
    pub(super) fn most_changes(&self) -> usize {
        self.tree.borrow().cache.most_changes
    }

    async fn keep_clean(self: Rc<Self>) {
        loop {
            let interval = if self.style == Style::Normal { UPDATE } else { TRICKLE };
            self.runtime.clock.sleep(interval).await;
            if self.style == Style::Normal {
                let all = self.tree.borrow().cache.all();
                all.into_iter().for_each(|block| self.write_later(block));
            } else {
                let due = self.tree.borrow().cache.due(self.runtime.clock.now());
                for block in due {
                    self.write(block, false).await;
                }
            }
        }
    }

    fn write_later(&self, block: Block) {
        let this = self.this.upgrade().expect("a model lives in an Rc");
        let write = async move { this.write(block, false).await };
        self.runtime.tasks.spawn(write.boxed_local());
    }

    /// Writes a block if it is dirty, or a program waits for it.
    async fn write(&self, block: Block, is_waited_for: bool) {
        let now = self.runtime.clock.now();
        let taken = self.tree.borrow_mut().cache.take(block, now);
        let Some(changes) = taken.or_else(|| is_waited_for.then(Vec::new)) else { return };
        let (offset, length) = self.tree.borrow().place(block);
        let mut writes = self.writes.get();
        *(if is_waited_for { &mut writes.sync } else { &mut writes.async_ }) += 1;
        self.writes.set(writes);
        let data = vec![Bytes::from_static(&ZEROS[..length as usize])];
        let written = self.disk.write(offset, data, Durability::Plain).await;
        written.expect("the disk of a model does not fail");
        let now = self.runtime.clock.now();
        let mut tree = self.tree.borrow_mut();
        changes.into_iter().for_each(|change| tree.land(change, now));
    }

    async fn finish(&self, work: Work) {
        if self.style == Style::Normal {
            for block in work.waits {
                self.write(block, true).await;
            }
        }
        #[cfg(test)]
        if self.style == Style::Hasty {
            let all = self.tree.borrow().cache.all();
            for block in all {
                self.write(block, false).await;
            }
        }
        work.full.into_iter().for_each(|block| self.write_later(block));
    }
}

impl LocalFiles for Model {
    type Directory = u32;

    fn root(&self) -> u32 {
        ROOT
    }

    fn clock(&self) -> Rc<dyn Clock> {
        self.runtime.clock.clone()
    }

    fn written(&self) -> Writes {
        self.writes.get()
    }

    async fn make_directory(&self, parent: u32, name: &str) -> u32 {
        let now = self.runtime.clock.now();
        let (made, work) = self.tree.borrow_mut().make_directory(parent, name, now);
        self.finish(work).await;
        made
    }

    async fn make_file(&self, parent: u32, name: &str, holds: Holds) {
        let now = self.runtime.clock.now();
        let work = self.tree.borrow_mut().make_file(parent, name, holds, now);
        self.finish(work).await;
    }

    async fn read(&self, parent: u32, name: &str) {
        let mut tree = self.tree.borrow_mut();
        let file = tree.find(parent, name);
        tree.touch(file, self.runtime.clock.now());
    }

    async fn stat(&self, parent: u32, name: &str) {
        self.tree.borrow().find(parent, name);
    }

    async fn list(&self, directory: u32) {
        self.tree.borrow_mut().touch(directory, self.runtime.clock.now());
    }

    async fn remove(&self, parent: u32, name: &str) {
        let now = self.runtime.clock.now();
        let work = self.tree.borrow_mut().remove(parent, name, now);
        self.finish(work).await;
    }

    async fn remove_directory(&self, parent: u32, name: &str) {
        self.remove(parent, name).await;
    }
}
