//! Snapshots: the state of a volume at a moment, for reading and rollback.

use async_trait::async_trait;

use crate::{FsError, Name, Sealed, SnapshotNumber, Timestamp};

/// The state of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// Clients find it by its name.
    Ready,
    /// Clients find it no more, and the space that it alone holds is freed in steps.
    Deleting,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number, which no other snapshot of the volume ever has.
    pub number: SnapshotNumber,
    /// Its name, unique among the snapshots that are found.
    pub name: Name,
    /// When it was made.
    pub created: Timestamp,
    /// Its state.
    pub state: SnapshotState,
}

/// The space that a snapshot takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotUsage {
    /// Bytes that it holds.
    pub referenced_bytes: u64,
    /// Bytes that nothing else holds.
    pub unique_bytes: u64,
    /// Bytes freed since its deletion began.
    pub freed_bytes: u64,
}

/// Where clients find snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotsShown {
    /// Each directory has a `.snapshot`, and lists it.
    Visible,
    /// Each directory has a `.snapshot`, which is not listed but found by its name.
    #[default]
    Hidden,
    /// Nowhere.
    Off,
}

/// The snapshots of a volume that has them.
///
/// One verb that changes the set of snapshots is carried out at a time; the others wait. On a
/// read-only volume they return [`FsError::ReadOnly`].
#[async_trait(?Send)]
pub trait Snapshots {
    /// Whether changes do not become durable before there is more room below the disk. A verb that
    /// returns [`FsError::Io`] meanwhile may still take effect then.
    fn has_no_room_below(&self) -> bool;

    /// Makes a snapshot. It holds all that was answered before it was requested, including UNSTABLE
    /// data, and is durable with this reply. A file that is shortened or freed in steps is in it as
    /// before them or as after them. Calls that arrive meanwhile are in it in any state that a
    /// crash may leave: any part of UNSTABLE data, perhaps an empty file for a CREATE that sets a
    /// size, and all or nothing of every other call.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for a name that none may have: ".", "..", and ".snapshot";
    /// [`FsError::Exists`] for one that is found; [`FsError::Io`], also when UNSTABLE data was lost
    /// meanwhile, or the freeing of a file in steps cannot go on; [`FsError::NoSpace`].
    async fn pin(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>>;

    /// All snapshots, including those that are being deleted, in the order of their numbers.
    fn list(&self) -> Sealed<Vec<(Snapshot, SnapshotUsage)>>;

    /// Deletes a snapshot: it is found no more, and handles of its objects are stale.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this name is found; [`FsError::Io`].
    async fn delete(&self, name: &Name) -> Sealed<Result<Snapshot, FsError>>;

    /// Frees a bounded part of the space that a snapshot in deletion holds; returns whether that
    /// was the last. Continues deletions that a stop or a crash interrupted.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this number is being deleted; [`FsError::Io`].
    async fn delete_step(&self, number: SnapshotNumber) -> Sealed<Result<bool, FsError>>;

    /// Makes the snapshot the live tree once the volume is opened anew. No verb may access its
    /// files before, though snapshots may be deleted, and afterwards only its shutdown may be
    /// called: no server has it.
    ///
    /// # Errors
    /// [`FsError::NoEntry`] when none of this name is found; [`FsError::Exists`] when there are
    /// newer ones, whose contents would be gone: one that is being deleted counts until it is freed
    /// completely; [`FsError::Io`].
    async fn roll_back(&self, name: &Name) -> Sealed<Result<(), FsError>>;
}
