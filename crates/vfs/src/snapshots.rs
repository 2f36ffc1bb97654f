//! Snapshots: what a volume held at a moment, to be looked at and gone back to.

use async_trait::async_trait;

use crate::{FsError, Name, Sealed, SnapshotNumber, Timestamp};

/// What is to become of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// It is found by its name.
    Ready,
    /// It is found no more, and what it alone holds becomes free in steps.
    Deleting,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number, which no other snapshot of the volume ever has.
    pub number: SnapshotNumber,
    /// Its name, which no other one has that is found.
    pub name: Name,
    /// When it was made.
    pub created: Timestamp,
    /// What is to become of it.
    pub state: SnapshotState,
}

/// What a snapshot takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotUsage {
    /// Bytes that it holds.
    pub referenced_bytes: u64,
    /// Those of them that nothing else holds.
    pub unique_bytes: u64,
    /// Bytes that became free since it began to be deleted.
    pub freed_bytes: u64,
}

/// Where clients find snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotsShown {
    /// Each directory has a `.snapshot`, and lists it.
    Visible,
    /// Each directory has a `.snapshot`, which is found by its name alone.
    #[default]
    Hidden,
    /// Nowhere.
    Off,
}

/// The snapshots of a volume that has them.
///
/// One verb that changes them is carried out at a time; the others wait. On a volume that may not
/// be changed they give [`FsError::ReadOnly`].
#[async_trait(?Send)]
pub trait Snapshots {
    /// Whether what is changed does not become durable before there is more room below the disk. A
    /// verb that gives [`FsError::Io`] meanwhile may come to be then.
    fn has_no_room_below(&self) -> bool;

    /// Makes a snapshot. It holds all that was answered before it was asked for, UNSTABLE data
    /// among it, and is durable with this answer. A file that becomes shorter in steps, or goes in
    /// steps, is in it as before them or as behind them. Of what else is asked for meanwhile it
    /// holds what a cut may leave: of UNSTABLE data any part, of a CREATE that sets a size perhaps
    /// an empty file, of all other calls everything or nothing.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for a name that none may have: ".", "..", and ".snapshot";
    /// [`FsError::Exists`] for one that is found; [`FsError::Io`], also when UNSTABLE data was lost
    /// meanwhile, or a file cannot go on that goes in steps; [`FsError::NoSpace`].
    async fn pin(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>>;

    /// All of them, also those that are being deleted, in the order of their numbers.
    fn list(&self) -> Sealed<Vec<(Snapshot, SnapshotUsage)>>;

    /// A snapshot is found no more, and handles of what it holds are stale.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this name is found; [`FsError::Io`].
    async fn delete(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>>;

    /// Gives back a bounded part of what a snapshot that is being deleted holds; says whether that
    /// was the last. What was begun before a stop or a cut is gone on with.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this number is being deleted; [`FsError::Io`].
    async fn delete_step(&self, number: SnapshotNumber) -> Sealed<Result<bool, FsError>>;

    /// The volume is what the snapshot holds, once it is opened anew. Nothing is asked of its files
    /// before, though snapshots may be deleted, and nothing at all afterwards but its shutdown: no
    /// server has it.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this name is found; [`FsError::Exists`] when there are
    /// newer ones, which hold what would be gone: one that is being deleted counts until nothing of
    /// it is left; [`FsError::Io`].
    async fn roll_back(&self, name: &Name) -> Sealed<Result<(), FsError>>;
}
