//! Write-back: pages are given their blocks, and the file is made to point at them.

use std::collections::BTreeMap;
use std::ops::Range;

use namespace::{AttributeChange, Witness};
use runtime::sync::{Lock, Permit};
use vfs::{FsError, Sequence};

use crate::change::Change;
use crate::engine::{Engine, File, Plan, Space};
use crate::files::Files;
use crate::pages::Content;
use crate::planted::{Bug, is_planted};
use crate::vnode::Vnode;

/// Pages that are written back with one Update, so that Updates stay bounded.
pub(super) const PAGES_PER_UPDATE: usize = 128;

/// The reason for which pages are written back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A caller waits, and gets a reply when it is durable.
    ByCaller,
    /// Nobody waits: memory is to become free.
    ByNobody,
    /// As `ByNobody`, but a WRITE waits for the memory.
    ForMemory,
}

impl<E: Engine> Files<E> {
    /// Pages to write back at once. Where many calls wait for memory, each takes a small share, so
    /// that they wait alike.
    fn pages_at_once(&self, asked: Asked) -> usize {
        match asked {
            Asked::ByCaller => PAGES_PER_UPDATE,
            Asked::ByNobody => self.pages_behind(),
            Asked::ForMemory => PAGES_PER_UPDATE / 4,
        }
    }

    /// Writes back the dirty pages of blocks `first` up to `end`. Under the exclusive lock.
    ///
    /// # Errors
    /// [`FsError::Io`] when data was lost: those pages are gone, and the verifier has changed.
    pub(crate) async fn write_back(
        &self,
        node: &File<E>,
        first: u64,
        end: u64,
    ) -> Result<(), FsError> {
        while self.write_back_some(node, first..end, Asked::ByCaller).await? {}
        Ok(())
    }

    /// Writes back the first of these pages, at most as many as `asked` allows; returns whether
    /// there were any. Under the exclusive lock.
    ///
    /// # Errors
    /// As [`Files::write_back`].
    pub(crate) async fn write_back_some(
        &self,
        node: &File<E>,
        range: Range<u64>,
        asked: Asked,
    ) -> Result<bool, FsError> {
        let chosen = self.choose(node, range, asked);
        let Some(Chosen { change, mut set, size }) = chosen else { return Ok(false) };
        let _writing = self.begin_write_back();
        let none = AttributeChange::default();
        let written = self.write_blocks(change, node, &mut set, size, &none, &mut ()).await;
        self.end_pages(node, &set, asked, written).map(|_| true)
    }

    /// Writes some pages back in the background, and lends the lock while the device writes them: a
    /// WRITE that brings more need not wait for that. Takes only full blocks: only the task that
    /// holds the lock settles how the file ends.
    ///
    /// # Errors
    /// As [`Files::write_back`].
    pub(super) async fn write_back_lending(
        &self,
        node: &File<E>,
        alone: Permit,
    ) -> Result<(), FsError> {
        let full = node.size() / self.block_size();
        let Some(chosen) = self.choose(node, 0..full, Asked::ByNobody) else {
            return self.write_back_some(node, 0..u64::MAX, Asked::ByNobody).await.map(|_| ());
        };
        let Chosen { mut change, mut set, size } = chosen;
        let _writing = self.begin_write_back();
        let planned = self.engine.plan_blocks(&mut change.update, node, &mut set, size).await;
        let stored = node.stored_size();
        let lent = Lock::lend(alone);
        let written = match planned {
            Ok(placed) => self.write_placed(&mut change, node, placed).await,
            Err(error) => Err(error),
        };
        // If it failed, the space that it has taken is given back at once.
        let written = written.map(|written| (change, written));
        let _alone = lent.reclaim().await;
        let is_same = stored == node.stored_size();
        assert!(is_same, "invariant 4: the file on the disk stays while its lock is lent");
        let written = match written {
            Ok((change, written)) => {
                let now = node.attributes(); // of the tasks to which the lock was lent
                let also = AttributeChange {
                    atime: Some(now.atime),
                    mtime: Some(now.mtime),
                    ctime: Some(now.ctime),
                    ..AttributeChange::default()
                };
                self.end_blocks(change, (node, written), size, &also, &mut ()).await
            }
            Err(error) => Err(error),
        };
        self.end_pages(node, &set, Asked::ByNobody, written)
    }

    /// The first dirty pages of these blocks, at most as many as `asked` allows; nothing if there
    /// are none.
    fn choose(&self, node: &Vnode<E::Inode>, range: Range<u64>, asked: Asked) -> Option<Chosen<E>> {
        let set = node.pages.borrow().contents(range, self.pages_at_once(asked));
        let (&last, _) = set.last_key_value()?;
        let volatile = node.volatile().expect("dirty pages have their size and time");
        let size = ((last + 1) * self.block_size()).min(volatile.size).max(node.stored_size());
        let mut change = self.plan(Space::Reserved);
        let manner = change.update.manner();
        manner.is_unasked = asked != Asked::ByCaller;
        manner.may_wait_for_batch = true; // there may be more, and one flush is enough
        Some(Chosen { change, set, size })
    }

    /// Drops pages that were written back with this content, or lost. Pages rewritten meanwhile
    /// stay.
    fn end_pages(
        &self,
        node: &File<E>,
        set: &BTreeMap<u64, Content>,
        asked: Asked,
        written: Result<Sequence, FsError>,
    ) -> Result<(), FsError> {
        if asked != Asked::ByCaller && written == Err(FsError::NoSpace) {
            node.note_refusal();
        }
        let is_done = |(lbn, content): &(&u64, &Content)| {
            node.pages.borrow().is_still(**lbn, content) || is_planted(Bug::ForgottenRewrites)
        };
        let (done, new): (Vec<_>, Vec<_>) = set.iter().partition(is_done);
        self.drop_pages(node, done.into_iter().map(|(&lbn, _)| lbn));
        if written.is_ok() && !self.engine.moves_blocks() {
            new.into_iter().for_each(|(&lbn, _)| self.release_page(node, lbn));
        }
        self.settle_volatile(node);
        if written.is_err() {
            node.lose_end(self.block_size());
            self.losses.set(self.losses.get() + 1);
            let before = self.verifier();
            self.rotate_verifier();
            let is_told = before != self.verifier() || is_planted(Bug::KeptVerifier);
            assert!(is_told, "invariant 3: the verifier changes when data is lost");
        }
        written.map(|_| ())
    }

    /// Writes back the UNSTABLE data of all files that no task works on: space that it had reserved
    /// beyond its need is free then. Returns whether there was any.
    pub(crate) async fn write_back_idle(&self) -> bool {
        let nodes: Vec<File<E>> = self.dirty_files.borrow().values().cloned().collect();
        let mut written = false;
        for node in nodes {
            if node.lock.is_free() && !self.has_stopped() {
                let _alone = node.lock.exclusive().await;
                self.write_back_unasked(&node).await;
                written = true;
            }
        }
        written
    }

    /// Notes that space may be counted twice for a moment, as reserved and as taken.
    pub(crate) fn begin_write_back(&self) -> WritingBack<'_, E> {
        self.write_backs.set(self.write_backs.get() + 1);
        WritingBack(self)
    }

    /// A file has ended: discards its UNSTABLE data.
    pub(crate) fn discard_pages(&self, node: &Vnode<E::Inode>) {
        let blocks = node.pages.borrow().blocks();
        self.drop_pages(node, blocks);
        self.settle_volatile(node);
    }

    fn settle_volatile(&self, node: &Vnode<E::Inode>) {
        if node.pages.borrow().is_empty() {
            node.set_volatile(None);
            self.dirty_files.borrow_mut().remove(&node.ino);
        }
    }

    /// Writes blocks of data, makes the file point at them and be `size` bytes long, and changes
    /// attributes along with it, all with `change`, which is new. Never shortens a file. More
    /// blocks may join these.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`]; then nothing changed but,
    /// perhaps, the bytes of blocks that were overwritten.
    pub(crate) async fn write_blocks(
        &self,
        mut change: Change<E>,
        node: &File<E>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let placed = self.engine.plan_blocks(&mut change.update, node, set, size).await?;
        let written = self.write_placed(&mut change, node, placed).await?;
        self.end_blocks(change, (node, written), size, also, witness).await
    }

    /// Writes placed blocks, though not to stable storage. If that fails, the blocks that readers
    /// see where they are written are suspect.
    async fn write_placed(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        (payload, shown): (E::Payload, Vec<u64>),
    ) -> Result<Written, FsError> {
        let is_unasked = change.update.manner().is_unasked;
        match self.engine.write_blocks(&mut change.update, payload).await {
            Ok(is_written) => Ok(Written { shown, is_written }),
            Err(_) if is_unasked && is_planted(Bug::RottenLosses) => {
                self.rotate_verifier();
                Ok(Written { shown, is_written: true })
            }
            Err(error) => {
                self.doubts.borrow_mut().add(node, shown.into_iter());
                Err(error)
            }
        }
    }

    /// The last step of [`Files::write_blocks`]: makes the file point at the written blocks.
    async fn end_blocks(
        &self,
        mut change: Change<E>,
        (node, written): (&File<E>, Written),
        size: u64,
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        self.engine.end_blocks(&mut change.update, node, size, also);
        let ready = self.reserve(change).await;
        if matches!(ready, Err(FsError::NoSpace))
            && written.is_written
            && !is_planted(Bug::UndoubtedRefusals)
        {
            // The overwritten blocks are visible, and the log may hold older data for them.
            self.doubts.borrow_mut().add(node, written.shown.into_iter());
            self.rotate_verifier();
        }
        Ok(self.apply(ready?, witness))
    }
}

/// Pages to write back, and the size of the file once they are written.
struct Chosen<E: Engine> {
    change: Change<E>,
    set: BTreeMap<u64, Content>,
    size: u64,
}

/// Blocks that have been handed to the engine.
struct Written {
    /// The blocks that readers see where they are written.
    shown: Vec<u64>,
    /// Whether they were written, and not delayed.
    is_written: bool,
}

/// See [`Files::begin_write_back`]. A task that has one waits for the device alone, never for
/// space.
pub(crate) struct WritingBack<'a, E: Engine>(&'a Files<E>);

impl<E: Engine> Drop for WritingBack<'_, E> {
    fn drop(&mut self) {
        self.0.write_backs.set(self.0.write_backs.get() - 1);
        self.0.engine.released().notify();
    }
}
