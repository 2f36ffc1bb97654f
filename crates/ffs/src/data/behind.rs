//! Write-behind: UNSTABLE data lands early enough that few calls ever wait for memory.
//!
//! From a part of the limit on, a few tasks land pages in the background, some of one file and then
//! some of the next, the file first that has waited longest. A WRITE that finds the limit exceeded
//! lands pages of its own file until it is not, or until there are none: it has that lock, and
//! waits for nobody else's. So memory is bounded by the limit and by what the calls under way bring
//! along. Nobody waits until anything is durable: an UNSTABLE reply says nothing of that, and a
//! COMMIT finds in [`Node`] what it has to wait for.

use std::rc::Rc;

use futures::FutureExt;
use vfs::FsError;

use super::land::Asked;
use crate::engine::Ffs;
use crate::inode::Node;

/// They begin when more than one part in so many of the limit is dirty, and end when it is not any
/// more.
const PARTS_OF_LIMIT: u64 = 4;
/// Tasks at once: so that the device has the next pages while those of one file are made durable.
const TASKS: u64 = 3;

impl Ffs {
    /// A file has dirty pages now.
    pub(super) fn note_dirty(&self, node: &Rc<Node>) {
        let old = self.dirty_nodes.borrow_mut().insert(node.ino, node.clone());
        if old.is_none() {
            node.waits_since.set(self.nodes.tick());
        }
    }

    /// Lets a task begin if one should, and waits for memory if there is too little. Under the
    /// exclusive lock of `node`, which has dirty pages.
    ///
    /// # Errors
    /// As [`Ffs::land_range`].
    pub(super) async fn bound_memory(&self, node: &Rc<Node>) -> Result<(), FsError> {
        if self.should_write_behind() && self.writes_behind.get() < TASKS {
            self.writes_behind.set(self.writes_behind.get() + 1);
            let this = self.handle();
            self.runtime.tasks.spawn(async move { this.write_behind().await }.boxed_local());
        }
        while self.dirty_bytes.get() > self.dirty_limit
            && self.land_some(node, 0..u64::MAX, Asked::ForMemory).await?
        {}
        Ok(())
    }

    /// Lands all pages of a file that nobody asked for. What cannot be landed is lost, and the
    /// verifier says so. Under the exclusive lock.
    pub(crate) async fn land_unasked(&self, node: &Rc<Node>) {
        while let Ok(true) = self.land_some(node, 0..u64::MAX, Asked::ByNobody).await {}
    }

    fn should_write_behind(&self) -> bool {
        self.dirty_bytes.get() > self.dirty_limit / PARTS_OF_LIMIT && !self.policy.has_stopped()
    }

    async fn write_behind(self: Rc<Self>) {
        while self.should_write_behind() {
            let Some(node) = self.waits_longest() else { break };
            node.waits_since.set(self.nodes.tick()); // the next task takes another
            let _alone = node.lock.exclusive().await;
            // As in `land_unasked`.
            let _ = self.land_some(&node, 0..u64::MAX, Asked::ByNobody).await;
        }
        self.writes_behind.set(self.writes_behind.get() - 1);
    }

    fn waits_longest(&self) -> Option<Rc<Node>> {
        let nodes = self.dirty_nodes.borrow();
        nodes.values().min_by_key(|node| node.waits_since.get()).cloned()
    }
}
