//! The requests that a protocol makes of a file system, and their types.
//!
//! [`FileSystem`] is the seam between `dispatch` and the engines. Its verbs are those of a
//! stateless file service; its types are ours, not a protocol's and not a disk format's. A layer in
//! front of a file system that forwards its verbs implements [`InFront`]. A file system may have
//! [`Snapshots`]; their objects are named and accessed like live ones.
//!
//! # No reply before its time
//! Every verb returns a [`Sealed`] value: the reply is fixed, but no caller may look at it until
//! everything that it depends on is on stable storage. [`Sealed::open`] waits for exactly that and
//! yields a [`Durable`] value, which cannot be made in any other way. The encoders of replies take
//! nothing else.
//!
//! Architecture invariant: no protocol numbers, no disk layout, no I/O in this crate.

mod attributes;
mod durable;
mod error;
mod file_system;
mod in_front;
mod name;
mod object;
mod remember;
mod snapshots;

pub use attributes::{
    Attributes, Credentials, Device, FileKind, PostOp, RootDirectory, SetAttributes, SetTime, Wcc,
    WccBefore,
};
pub use durable::{Accepted, Delayed, Depends, Durable, Ledger, Lost, Receipt, Sealed, Sequence};
pub use error::FsError;
pub use file_system::{
    Access, Answer, CreateHow, DirectoryEntry, Entries, FileSystem, Found, FsInfo, FsStat,
    PathConf, ReadData, Stability, Verifier, Written,
};
pub use in_front::InFront;
pub use name::{MAX_NAME, Name};
pub use object::{Ino, ObjectId, SnapshotNumber};
pub use remember::{CallKey, CallOutcome, CallReply, LoggedReply, MAX_KEY, Repetitions, Requester};
pub use runtime::Timestamp;
pub use snapshots::{Snapshot, SnapshotState, SnapshotUsage, Snapshots, SnapshotsShown};
