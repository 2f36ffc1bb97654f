//! The bottom of the house: devices that read, write and flush, and the buffers they move.
//!
//! # Contract
//! A [`BlockDevice`] has six verbs. Offsets and lengths are bytes and multiples of the logical
//! sector. What a completion means:
//!
//! * a completed **plain** write will be seen by every later read, and may still be lost when the
//!   power goes;
//! * a completed **through** write is on stable storage, and says nothing about any other write;
//! * a completed **flush** puts every write that had completed before the flush was issued on
//!   stable storage;
//! * between flushes any subset of the plain writes survives, in any order, and each may be torn
//!   at 512-byte sectors.
//!
//! A buffer in flight belongs to the device until it comes back: dropping the future of a read or
//! a write abandons the answer, never the memory, and the transfer still happens or has happened.
//! An error leaves the written range undefined (old, new, or torn); nothing is retried here.
//!
//! Verbs for tests (cutting the power, injecting faults, recording) live in wrappers, not in the
//! trait. Architecture invariant: this crate knows bytes and devices, nothing of file systems.

mod buffer;

pub use buffer::{ALIGNMENT, Buffer};

use bytes::Bytes;
use futures::future::LocalBoxFuture;

/// The pending answer of a device. It may be dropped at any time without harm to memory.
pub type Io<T> = LocalBoxFuture<'static, Result<T, IoError>>;

/// How large a device is and what it writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes.
    pub size: u64,
    /// The unit of addressing, in bytes: offsets and lengths are multiples of it.
    pub logical_sector_size: u32,
    /// The unit that the medium writes without reading first, in bytes.
    pub physical_sector_size: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the device has taken it; a later flush makes it durable.
    Plain,
    /// When it is on stable storage by itself.
    Through,
}

/// Which verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reading.
    Read,
    /// Writing, plain or through.
    Write,
    /// Flushing.
    Flush,
    /// Discarding.
    Discard,
}

/// A device did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{verb:?} of {length} bytes at byte {offset}: {kind}")]
pub struct IoError {
    /// What was asked.
    pub verb: Verb,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
    /// The operating system's reason.
    pub kind: std::io::ErrorKind,
}

/// A disk, or what behaves like one. See the crate's contract.
pub trait BlockDevice {
    /// Size and sectors.
    fn geometry(&self) -> Geometry;

    /// Fills all of `buffer` from `offset` and gives it back.
    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer>;

    /// Writes the pieces one after the other from `offset`.
    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()>;

    /// The barrier: see the crate's contract.
    fn flush(&self) -> Io<()>;

    /// Tells the device that a range holds nothing; later reads of it give anything or zeros.
    /// A hint: a device that cannot do it succeeds without doing it.
    fn discard(&self, offset: u64, length: u64) -> Io<()>;

    /// Waits for what is in flight and lets go of the device. Does not flush.
    fn close(&self) -> Io<()>;
}
