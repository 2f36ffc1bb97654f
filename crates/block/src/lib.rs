//! The bottom layer: devices that read, write and flush, and the buffers that they move.
//!
//! # Contract
//! A [`BlockDevice`] has eight verbs. Offsets and lengths are bytes and multiples of the logical
//! sector. Meaning of a completion:
//!
//! * a completed **plain** write will be seen by every later read, and may still be lost when the
//!   power goes;
//! * a completed **through** write is on stable storage, and says nothing about any other write;
//! * a completed **flush** puts every write that had completed before the flush was issued on
//!   stable storage;
//! * between flushes any subset of the plain writes survives, in any order, and each may be torn
//!   at 512-byte sectors.
//!
//! A buffer in flight belongs to the device until it comes back: dropping the future of a read or a
//! write abandons the reply, never the memory, and the transfer still happens or has happened. An
//! error leaves the written range undefined (old, new, or torn); nothing is retried here. A range
//! that is misaligned or beyond the end is refused with `InvalidInput`, a write to a read-only
//! device with `ReadOnlyFilesystem`, any verb after close with `NotConnected`; none of these
//! reaches the medium.
//!
//! # Layers
//! [`file::DiskFile`] opens, locks and measures an image file or a raw device. Four devices use it,
//! and differ in how the calls are made: [`uring::UringDevice`] by the kernel, with io_uring;
//! [`threads::ThreadsDevice`] by a few threads, where io_uring is forbidden, as it is in many
//! containers; [`file::FileDevice`] by the caller itself; and [`mapped::MappedDevice`] without
//! calls, for files that are memory. [`scratch::ScratchDevice`] is a layer over any of them that
//! writes nothing, and a [`slice::Slice`] is a part of any of them.
//!
//! A device may report the layout of its blocks as [`platters`]. Real disks do not: the geometry
//! that a disk reports today is made up.
//!
//! I/O is buffered: reads and writes go through the kernel's page cache. There are two exceptions.
//! A log goes past it, since it is not read while it is written, and every write is one aligned
//! piece that a caller waits for: [`file::DiskFile::past_cache`]. So do large transfers of a
//! volume, for which the copy costs more than it saves: [`file::DiskFile::large_past_cache`]. A
//! read that the page cache can answer is answered at once by the caller's own thread, on any
//! device: handing it over would cost several times as much.
//!
//! Verbs for tests (cutting the power, injecting faults, recording) live in wrappers, not in the
//! trait. Architecture invariant: this crate knows bytes and devices, nothing of file systems.

mod buffer;
mod chunks;
mod clear;
mod direct;
mod disk_file;
pub mod file;
mod held;
pub mod mapped;
mod pages;
mod pieces;
pub mod platters;
pub mod scratch;
pub mod slice;
mod system;
pub mod threads;
pub mod uring;

pub use buffer::{Buffer, PART, PARTED_MOST, memory_of, part_of};
pub use chunks::Retention;
pub use clear::clear;
pub use direct::LARGE_TRANSFER;
pub use pages::ALIGNMENT;
pub use pieces::{gather, length_of, slices, zeros};

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};
use platters::Platters;

/// The pending result of a device call. It may be dropped at any time without harm to memory.
pub type Io<T> = LocalBoxFuture<'static, Result<T, IoError>>;

/// Checks whether bytes are the right contents of a range.
pub type IsRight = Rc<dyn Fn(&[u8]) -> bool>;

/// Size, sectors and layout of a device.
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
    /// Its layout on several disks, if it is a set.
    pub stripe: Option<Stripe>,
    /// The geometry and timing of its platters, if it reports them.
    pub platters: Option<Platters>,
}

/// The layout of a set of disks. After a [`BlockDevice::discard`] of a whole stripe, the next
/// writes there need not preserve the neighbours of the bytes that they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Adjacent bytes on one disk.
    pub unit: u64,
    /// Data disks of one stripe.
    pub width: u64,
}

impl Stripe {
    /// Bytes of data in a stripe.
    pub fn length(&self) -> u64 {
        self.unit * self.width
    }

    /// The numbers of the whole stripes in a range of bytes.
    pub fn within(&self, range: &Range<u64>) -> Range<u64> {
        let first = range.start.div_ceil(self.length());
        first..(range.end / self.length()).max(first)
    }
}

impl Geometry {
    /// Refuses calls that the device must not even try: a range that is not whole logical sectors
    /// inside the device, or a change of a read-only one. The length is the total of all pieces of
    /// a write; each piece may have any length.
    pub fn check(&self, verb: Verb, offset: u64, length: u64) -> Result<(), IoError> {
        let sector = u64::from(self.logical_sector_size);
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.size);
        if !inside || !offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            return Err(IoError::new(verb, offset, length, ErrorKind::InvalidInput));
        }
        if self.read_only && matches!(verb, Verb::Write | Verb::Discard) {
            return Err(IoError::new(verb, offset, length, ErrorKind::ReadOnlyFilesystem));
        }
        Ok(())
    }
}

/// The point at which a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the device has taken it; a later flush makes it durable.
    Plain,
    /// When it is on stable storage by itself.
    Through,
}

/// The verb that failed.
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

/// A failed or refused call of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.attempt(), self.reason())]
pub struct IoError {
    /// The verb.
    pub verb: Verb,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The reason.
    pub kind: ErrorKind,
    /// The operating system's error number, if it came from there: the message is made from it,
    /// because the commonest failure of a disk (EIO) has no kind of its own.
    pub code: Option<i32>,
    /// Whether the range of a write that found no room was allocated already: a raw device, or a
    /// part of a file that holds data.
    pub was_allocated: bool,
}

impl IoError {
    /// A refusal or failure without an error of the operating system.
    pub fn new(verb: Verb, offset: u64, length: u64, kind: ErrorKind) -> Self {
        Self { verb, offset, length, kind, code: None, was_allocated: false }
    }

    /// An error of the operating system.
    pub fn from_os(verb: Verb, offset: u64, length: u64, error: &io::Error) -> Self {
        Self { code: error.raw_os_error(), ..Self::new(verb, offset, length, error.kind()) }
    }

    /// The error of a device that has been closed.
    pub fn closed(verb: Verb) -> Self {
        Self::new(verb, 0, 0, ErrorKind::NotConnected)
    }

    /// The same error, for a caller that does not retry, whatever space is freed.
    pub fn for_good(self) -> Self {
        Self { kind: ErrorKind::Other, ..self }
    }

    /// Whether a write found no room below: the disk is a file that grows or a thin device, and its
    /// host is full. Nothing has changed, and the same write may succeed later.
    pub fn is_full(&self) -> bool {
        let is_full = matches!(self.kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        self.verb == Verb::Write && is_full
    }

    fn attempt(&self) -> String {
        let Self { verb, offset, length, .. } = self;
        match verb {
            Verb::Flush => "Flush".to_owned(),
            _ => format!("{verb:?} of {length} bytes at byte {offset}"),
        }
    }

    fn reason(&self) -> String {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code).to_string(),
            None => self.kind.to_string(),
        }
    }
}

/// A disk, or anything that behaves like one. See the crate's contract.
pub trait BlockDevice {
    /// Size and sectors.
    fn geometry(&self) -> Geometry;

    /// Fills all of `buffer` from `offset` and returns it.
    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer>;

    /// As [`BlockDevice::read`], but past every cache of the host as far as it allows: the contents
    /// of the medium.
    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.read(offset, buffer)
    }

    /// Writes the pieces one after the other from `offset`.
    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()>;

    /// The barrier: see the crate's contract.
    fn flush(&self) -> Io<()>;

    /// Declares that a range holds no data: until it is rewritten, which must not begin before this
    /// has completed, reads of it return anything or zeros. A crash may bring back anything as
    /// well. A hint: a device that cannot do it succeeds without doing it.
    fn discard(&self, offset: u64, length: u64) -> Io<()>;

    /// Searches for the right bytes of a range of which a read returns others, among all versions
    /// that the device has, such as one per disk of a mirror. Returns them, and rewrites the bad
    /// copies; no write of the range happens in between. Nothing if there are none: a device with
    /// one version of everything has none.
    fn mend(&self, _offset: u64, _length: u64, _is_right: IsRight) -> Io<Option<Buffer>> {
        ready(Ok(None)).boxed_local()
    }

    /// Waits for calls in flight and releases the device. Does not flush.
    fn close(&self) -> Io<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_tried_and_why_it_failed() {
        let broken = io::Error::from_raw_os_error(libc::EIO);
        let read = IoError::from_os(Verb::Read, 4096, 512, &broken);
        assert!(read.to_string().starts_with("Read of 512 bytes at byte 4096: Input/output error"));
        let flush = IoError::from_os(Verb::Flush, 0, 0, &broken);
        assert!(flush.to_string().starts_with("Flush: Input/output error"));
        assert_eq!(IoError::closed(Verb::Flush).to_string(), "Flush: not connected");
    }
}
