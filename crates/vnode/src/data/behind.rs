//! Write-behind: UNSTABLE data is written back early enough that few calls ever wait for memory.
//!
//! From a part of the limit on, and before that of a file that has many, a few tasks write pages
//! back in the background, some of one file and then some of the next, the file first that has
//! waited longest; its lock they lend meanwhile. A WRITE that finds the limit exceeded writes pages
//! back of its own file until it is not, or until there are none: it has that lock, and waits for
//! no other. So memory is bounded by the limit and by what the calls under way bring along. No task
//! waits until anything is durable: an UNSTABLE reply says nothing of that, and a COMMIT finds in
//! [`Vnode`] what it has to wait for.

use std::rc::Rc;

use futures::FutureExt;
use vfs::FsError;

use super::write_back::{Asked, PAGES_PER_UPDATE};
use crate::engine::{Engine, File};
use crate::files::Files;
use crate::vnode::Vnode;

/// They begin when more than one part in so many of the limit is dirty, and before that for a file
/// that has [`WORTHWHILE`] pages: a client that writes so much will soon ask that it be durable,
/// and most of it is then.
const PARTS_OF_LIMIT: u64 = 4;
/// Less of each of many files would take an Update for a few pages.
const WORTHWHILE: usize = PAGES_PER_UPDATE / 4;
/// Tasks at once. With many connections a task is not polled for long, but the device is not to
/// wait meanwhile.
const TASKS: u64 = 16;
/// Updates' worth of pages that they have under way together, about: another task that needs the
/// device waits behind these.
const WRITE_BACKS: usize = 8;

impl<E: Engine> Files<E> {
    /// A file has dirty pages now.
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

    /// Lets a task begin if one should, now that there are more pages of `node`.
    pub(super) fn begin_write_behind(&self, node: &Vnode<E::Inode>) {
        let should = self.is_much_dirty() || is_worthwhile(node);
        if should && self.writes_behind.get() < TASKS {
            self.writes_behind.set(self.writes_behind.get() + 1);
            let this = self.handle();
            self.runtime.tasks.spawn(async move { this.write_behind().await }.boxed_local());
        }
    }

    /// Lets a task begin if one should, and waits for memory if there is too little. Under the
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

    /// Writes all pages of a file back that no caller asked for. What cannot be written back is
    /// lost, and the verifier says so. Under the exclusive lock.
    pub(crate) async fn write_back_unasked(&self, node: &File<E>) {
        while let Ok(true) = self.write_back_some(node, 0..u64::MAX, Asked::ByNobody).await {}
    }

    /// How many pages a task writes back with one Update.
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
            node.waits_since.set(self.table.tick()); // now it is another's turn
        }
        self.writes_behind.set(self.writes_behind.get() - 1);
    }

    /// The file that has waited longest of those whose turn it is, and of which no task writes
    /// pages back: to wait for its lock would make the tasks to which it is lent wait behind us.
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
