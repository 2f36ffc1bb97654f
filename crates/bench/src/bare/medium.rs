//! Storage of the bare server.
//!
//! # Invariants
//! 1. Once a [`Device`] has failed, it keeps failing: a repeated flush may succeed without the data
//!    that an earlier one has lost, whichever call asked for it.
//!
//! Not asserted: 1, which is the result of every call.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use block::Durability;
use block::file::DiskFile;
use bytes::Bytes;

/// A storage device. Calls block.
pub trait Medium: Send + Sync {
    /// Size in bytes.
    fn size(&self) -> u64;
    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// The operating system's.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes the blocks consecutively from `offset`.
    ///
    /// # Errors
    /// The operating system's.
    fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()>;
    /// Makes earlier writes durable.
    ///
    /// # Errors
    /// The operating system's.
    fn flush(&self) -> io::Result<()>;
}

impl Medium for DiskFile {
    fn size(&self) -> u64 {
        self.geometry().size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read(offset, bytes).map_err(io::Error::other)
    }

    fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()> {
        self.write(offset, blocks, Durability::Plain).map_err(io::Error::other)
    }

    fn flush(&self) -> io::Result<()> {
        self.flush().map_err(io::Error::other)
    }
}

/// A medium that store and journal share.
pub(super) struct Device {
    medium: Box<dyn Medium>,
    has_failed: AtomicBool,
}

impl Device {
    pub(super) fn new(medium: Box<dyn Medium>) -> Device {
        Device { medium, has_failed: AtomicBool::new(false) }
    }

    pub(super) fn size(&self) -> u64 {
        self.medium.size()
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.attempt(|| self.medium.read(offset, bytes))
    }

    pub(super) fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()> {
        self.attempt(|| self.medium.write(offset, blocks))
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        self.attempt(|| self.medium.flush())
    }

    fn attempt(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check()?;
        work().inspect_err(|_| self.has_failed.store(true, Ordering::SeqCst))?;
        self.check() // a failure affects more calls than the one that got it
    }

    /// Fails if any operation has failed.
    pub(super) fn check(&self) -> io::Result<()> {
        let has_failed = self.has_failed.load(Ordering::SeqCst); // invariant 1
        if has_failed { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}
