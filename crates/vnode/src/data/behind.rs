//! Write-behind: UNSTABLE data is written back early enough that few calls ever wait for memory.
//!
//! Above a part of the limit, and below it for a file with many dirty pages, a few tasks write
//! pages back in the background, some of one file and then some of the next. The file that has
//! waited longest comes first; its lock is lent meanwhile. A WRITE that finds the limit exceeded
//! writes back pages of its own file until the limit is met or the file has none left: the WRITE
//! holds that lock, and waits for no other. So memory is bounded by the limit plus the data of the
//! calls under way. No task waits for durability: an UNSTABLE reply promises none, and a COMMIT
//! finds in [`Vnode`] what it has to wait for.

use std::rc::Rc;

use futures::FutureExt;
use vfs::FsError;

use super::write_back::{Asked, PAGES_PER_UPDATE};
use crate::engine::{Engine, File};
use crate::files::Files;
use crate::vnode::Vnode;

/// Write-back begins when more than one part in this many of the limit is dirty, and earlier for a
/// file that has [`WORTHWHILE`] pages: a client that writes that much will soon ask that it be
/// durable, and most of it is then.
const PARTS_OF_LIMIT: u64 = 4;
/// Fewer pages, in each of many files, would cost an Update for a few pages.
const WORTHWHILE: usize = PAGES_PER_UPDATE / 4;
/// Tasks at once. With many connections a task may not be polled for long, but the device should
/// not be idle meanwhile.
const TASKS: u64 = 16;
/// Updates' worth of pages that the tasks have under way together, about: another task that needs
/// the device queues behind them.
const WRITE_BACKS: usize = 8;

impl<E: Engine> Files<E> {
    /// Notes that a file has dirty pages.
    pub(super) fn note_dirty(&self, node: &File<E>) {
        let old = self.dirty_files.borrow_mut().insert(node.ino, node.clone());
        if old.is_none() {
            node.waits_since.set(self.table.tick());
        }
    }

    /// Whether more is dirty than may be.
    pub(super) fn is_memory_short(&self) -> bool {
        self.dirty_bytes.get() > self.dirty_limit
    }

    /// Starts a task if one is due, now that `node` has more pages.
    pub(super) fn begin_write_behind(&self, node: &Vnode<E::Inode>) {
        let should = self.is_much_dirty() || is_worthwhile(node);
        if should && self.writes_behind.get() < TASKS {
            self.writes_behind.set(self.writes_behind.get() + 1);
            let this = self.handle();
            self.runtime.tasks.spawn(async move { this.write_behind().await }.boxed_local());
        }
    }

    /// Starts a task if one is due, and waits for memory if there is too little. Under the
    /// exclusive lock of `node`, which has dirty pages.
    ///
    /// # Errors
    /// As [`Files::write_back`].
    pub(super) async fn bound_memory(&self, node: &File<E>) -> Result<(), FsError> {
        self.begin_write_behind(node);
        while self.is_memory_short()
            && self.write_back_some(node, 0..u64::MAX, Asked::ForMemory).await?
        {}
        Ok(())
    }

    /// Writes all pages of a file back in the background, for no caller. Data that cannot be
    /// written back is lost, and the verifier changes. Under the exclusive lock.
    pub(crate) async fn write_back_unasked(&self, node: &File<E>) {
        while let Ok(true) = self.write_back_some(node, 0..u64::MAX, Asked::ByNobody).await {}
    }

    /// Pages that a task writes back with one Update.
    pub(super) fn pages_behind(&self) -> usize {
        let tasks = self.writes_behind.get().max(1) as usize;
        (WRITE_BACKS * PAGES_PER_UPDATE / tasks).min(PAGES_PER_UPDATE)
    }

    fn is_much_dirty(&self) -> bool {
        self.dirty_bytes.get() > self.dirty_limit / PARTS_OF_LIMIT
    }

    async fn write_behind(self: Rc<Self>) {
        while let Some(node) = self.next_behind() {
            node.is_behind.set(true);
            let alone = node.lock.exclusive().await;
            // As in `write_back_unasked`.
            let _ = self.write_back_lending(&node, alone).await;
            node.is_behind.set(false);
            node.waits_since.set(self.table.tick()); // now another file has its turn
        }
        self.writes_behind.set(self.writes_behind.get() - 1);
    }

    /// The file that has waited longest of those that are due, and that no task writes back
    /// already: waiting for its lock would hold up the tasks to which the lock is lent.
    fn next_behind(&self) -> Option<File<E>> {
        if self.has_stopped() {
            return None;
        }
        let (nodes, is_much) = (self.dirty_files.borrow(), self.is_much_dirty());
        let waiting =
            nodes.values().filter(|node| !node.is_behind.get() && (is_much || is_worthwhile(node)));
        waiting.min_by_key(|node| node.waits_since.get()).cloned()
    }
}

fn is_worthwhile<I>(node: &Vnode<I>) -> bool {
    node.pages.borrow().count() >= WORTHWHILE
}
