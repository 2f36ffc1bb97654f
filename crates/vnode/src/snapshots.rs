//! Snapshots: making, deleting and rolling back, and finding the files in one.
//!
//! A file of a snapshot is a [`Vnode`] like any other, in a table of its own. Nothing changes it:
//! the namespace refuses that by what the file is named. It has no UNSTABLE data, its access time
//! stays, and its lock is taken by readers alone, and by steps of a deletion, which wait for them.

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};
use namespace::{ReadySnapshots, Stat};
use runtime::sync::Permit;
use vfs::{
    Depends, FsError, Ino, Name, ObjectId, Sealed, Sequence, Snapshot, SnapshotNumber,
    SnapshotState, SnapshotUsage, Snapshots,
};

use crate::engine::{Engine, File, SnapshotChange, Space};
use crate::files::{Files, MOST_CHAINS};
use crate::held::Book;
use crate::planted::{Bug, is_planted};

/// Time for which a snapshot that waits for truncations lets others begin, before it blocks them.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks whether a truncation is under way.
const LOOK: Duration = Duration::from_millis(5);

impl<E: Engine> Files<E> {
    fn book(&self) -> Result<&Book<E::Inode>, FsError> {
        self.snapshots.as_ref().ok_or(FsError::Stale)
    }

    /// The file of a snapshot that `id` names.
    ///
    /// # Errors
    /// As [`Files::node`].
    pub(crate) async fn held(&self, id: ObjectId) -> Result<File<E>, FsError> {
        let node = self.held_of(id.snapshot, id.ino.0).await?;
        if node.generation == id.generation { Ok(node) } else { Err(FsError::Stale) }
    }

    /// The file that has this number in a snapshot.
    async fn held_of(&self, tree: SnapshotNumber, ino: u64) -> Result<File<E>, FsError> {
        let book = self.book()?;
        book.check_shown(tree)?;
        if let Some(node) = book.file(tree, ino) {
            return Ok(node);
        }
        let node = self.engine.load_held(tree, ino).await;
        book.check_shown(tree)?; // it may be gone since
        if let Some(node) = book.file(tree, ino) {
            return Ok(node); // another call was faster
        }
        let node = node?;
        if node.attributes().nlink == 0 {
            return Err(FsError::Stale); // the file was being freed
        }
        if Ino(ino) > Ino::LAST_BESIDE_SNAPSHOTS {
            return Err(FsError::Corrupt); // its file id would be that of another
        }
        book.insert(&node, self.engine.horizon().through());
        Ok(node)
    }

    /// Attributes of the file that has this number in a snapshot.
    pub(crate) async fn peek_held(&self, tree: SnapshotNumber, ino: u64) -> Result<Stat, FsError> {
        Ok(Stat::from(&self.held_of(tree, ino).await?))
    }

    /// All changes of the set of snapshots that may not be durable.
    pub(crate) fn snapshot_changes(&self) -> Depends {
        self.snapshots.as_ref().map_or(Depends::NOTHING, Book::changes)
    }

    /// The snapshots that clients find: their number, and the time of the last change.
    pub(crate) fn ready_snapshots(&self) -> ReadySnapshots {
        let Some(book) = &self.snapshots else { return ReadySnapshots::default() };
        let (count, changed) = book.shown();
        ReadySnapshots { count, changed, depends: book.changes() }
    }

    /// Changes the set of snapshots, with an Update of its own.
    async fn change_snapshots(&self, change: SnapshotChange) -> Result<Depends, FsError> {
        self.check_changeable()?;
        let mut update = self.plan(Space::Superuser);
        self.engine.change_snapshots(&mut update.update, change)?;
        let ready = self.reserve(update).await?;
        Ok(self.changes_up_to(self.apply(ready, &mut ())))
    }

    /// Waits for its turn to change the set of snapshots.
    ///
    /// # Errors
    /// [`FsError::Io`] when a stop has begun.
    async fn begin_change(&self, book: &Book<E::Inode>) -> Result<Permit, FsError> {
        let permit = book.changing.exclusive().await;
        let stop = self.stop.get();
        if stop.has_begun || stop.is_at_rest { Err(FsError::Io) } else { Ok(permit) }
    }

    fn check_changeable(&self) -> Result<(), FsError> {
        if self.is_read_only() { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    fn changes_up_to(&self, sequence: Sequence) -> Depends {
        self.engine.horizon().up_to(sequence)
    }

    /// Waits for all places for truncations: no file is on its way to another size meanwhile. A
    /// file without a name may be on its way to its end: no name in the snapshot leads to it, and
    /// the engine goes on freeing it after a rollback to the snapshot. A truncation that begins
    /// holds its file, so this blocks truncations only after a long wait, and never any other call.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when truncations wait for room below.
    async fn all_places_for_truncations(&self) -> Result<Permit, FsError> {
        let clock = &self.runtime.clock;
        let until_free = async {
            let since = clock.now();
            let are_some = || self.truncations.available() < MOST_CHAINS;
            while are_some() && clock.now().since(since) < PATIENCE {
                clock.sleep(LOOK).await;
            }
            if is_planted(Bug::PinsAwaitOrphans) {
                drop(self.all_places_among_chains().await);
            }
            self.truncations.acquire(MOST_CHAINS).await
        };
        match select(pin!(until_free), self.engine.no_room_comes()).await {
            Either::Left((permit, _)) => Ok(permit),
            Either::Right(_) => Err(FsError::NoSpace),
        }
    }

    async fn do_pin(&self, name: &Name) -> Result<(Snapshot, Depends), FsError> {
        let book = self.book()?;
        if name.is_dot_or_dot_dot() || *name.as_bytes() == *namespace::SNAPSHOTS_NAME {
            return Err(FsError::Invalid);
        }
        let losses = self.losses.get();
        let _changing = self.begin_change(book).await?;
        if book.find(name).is_some() {
            return Err(FsError::Exists);
        }
        let number = book.next()?;
        if !is_planted(Bug::UnwrittenPins) {
            self.write_back_all().await;
        }
        if losses != self.losses.get() {
            return Err(FsError::Io); // it would lack data that was acknowledged, and is lost since
        }
        let _no_truncations = if is_planted(Bug::PinsAmidSteps) {
            self.truncations.acquire(0).await
        } else {
            self.all_places_for_truncations().await?
        };
        self.check_running()?;
        let state = SnapshotState::Ready;
        let created = book.time_of_change(self.now());
        let snapshot = Snapshot { number, name: name.clone(), created, state };
        let by = self.change_snapshots(SnapshotChange::Pinned(snapshot.clone())).await?;
        book.pinned(snapshot.clone(), by);
        Ok((snapshot, by))
    }

    async fn do_delete(&self, name: &Name) -> Result<(Snapshot, Depends), FsError> {
        let book = self.book()?;
        let _changing = self.begin_change(book).await?;
        let Snapshot { number, .. } = book.find(name).ok_or(FsError::NoEntry)?;
        let at = book.time_of_change(self.now());
        let by = self.change_snapshots(SnapshotChange::Deleted(number, at)).await?;
        book.deleted(number, at, by);
        let snapshot = book.deleting(number).ok_or(FsError::NoEntry)?;
        Ok((snapshot, by))
    }

    async fn do_delete_step(&self, number: SnapshotNumber) -> Result<(bool, Depends), FsError> {
        let book = self.book()?;
        let _changing = self.begin_change(book).await?;
        book.deleting(number).ok_or(FsError::NoEntry)?;
        self.check_changeable()?;
        book.left_by_readers(number).await; // space that is to be freed has no reader
        let mut change = self.plan(Space::Superuser);
        let is_last = self.engine.delete_held(&mut change.update, number).await?;
        let ready = self.reserve(change).await?;
        let by = self.changes_up_to(self.apply(ready, &mut ()));
        if is_last {
            book.ended(number, by);
        }
        Ok((is_last, by))
    }

    async fn do_roll_back(&self, name: &Name) -> Result<((), Depends), FsError> {
        let book = self.book()?;
        let _changing = self.begin_change(book).await?;
        let Snapshot { number, .. } = book.find(name).ok_or(FsError::NoEntry)?;
        if book.all().iter().any(|snapshot| snapshot.number > number) {
            return Err(FsError::Exists);
        }
        let _no_truncations = self.all_places_for_truncations().await?;
        let _no_chains = self.all_places_among_chains().await;
        assert!(self.dirty_files.borrow().is_empty(), "nothing was asked of the volume before");
        let by = self.change_snapshots(SnapshotChange::RolledBack(number)).await?;
        if !is_planted(Bug::SurvivingOrphans) {
            self.orphans.take(); // their tree is gone, and their tasks end
        }
        Ok(((), by))
    }

    fn seal_change<T>(&self, done: Result<(T, Depends), FsError>) -> Sealed<Result<T, FsError>> {
        match done {
            Ok((value, by)) => Sealed::new(Ok(value), self.receipt(by)),
            Err(error) => Sealed::new(Err(error), self.receipt(self.snapshot_changes())),
        }
    }
}

#[async_trait(?Send)]
impl<E: Engine> Snapshots for Files<E> {
    fn has_no_room_below(&self) -> bool {
        self.engine.horizon().is_standing()
    }

    async fn pin(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>> {
        let done = self.do_pin(name).await;
        self.seal_change(done)
    }

    fn list(&self) -> Sealed<Vec<(Snapshot, SnapshotUsage)>> {
        let all = self.snapshots.as_ref().map_or(Vec::new(), Book::all);
        let numbers: Vec<SnapshotNumber> = all.iter().map(|snapshot| snapshot.number).collect();
        let usage = self.engine.snapshot_usage(&numbers);
        let all = all.into_iter().zip(usage).collect();
        Sealed::new(all, self.receipt(self.snapshot_changes()))
    }

    async fn delete(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>> {
        let done = self.do_delete(name).await;
        self.seal_change(done)
    }

    async fn delete_step(&self, number: SnapshotNumber) -> Sealed<Result<bool, FsError>> {
        let done = self.do_delete_step(number).await;
        self.seal_change(done)
    }

    async fn roll_back(&self, name: &Name) -> Sealed<Result<(), FsError>> {
        let done = self.do_roll_back(name).await;
        self.seal_change(done)
    }
}
