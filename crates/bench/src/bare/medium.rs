//! What the bare server's bytes stay on.
//!
//! # Invariants
//! 1. When a [`Device`] has failed once, it fails: a flush that is repeated may succeed without
//!    what an earlier one has lost, whichever call asked for it.
//!
//! Not asserted: 1, which is what every call is told.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use block::Durability;
use block::file::DiskFile;
use bytes::Bytes;

/// Where bytes stay. Calls block.
pub trait Medium: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// The operating system's.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes the blocks one after the other from `offset`.
    ///
    /// # Errors
    /// The operating system's.
    fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()>;
    /// Makes what was written durable.
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

/// A medium, which store and journal share.
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
        self.check() // a failure concerns more calls than the one that was told
    }

    /// Fails when anything has failed.
    pub(super) fn check(&self) -> io::Result<()> {
        let has_failed = self.has_failed.load(Ordering::SeqCst); // invariant 1
        if has_failed { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}
