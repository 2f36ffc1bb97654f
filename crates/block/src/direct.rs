//! The same file once more, past the page cache.
//!
//! Why: a buffered write of a file goes to a kernel thread, since it may have to wait, and back;
//! of a device it goes out in pages. One past the page cache is begun by the caller itself, as
//! large as it is, and is not copied.
//!
//! Everything may go there ([`Takes::All`]), which suits a log: it is written often and waited for,
//! and not read meanwhile. Or only what is large may ([`Takes::Large`]), which suits a volume: what
//! is small gains by being gathered in the page cache and found there, and what is large is kept,
//! if it is, by the caller that reads it.
//!
//! Invariants:
//! 1. A page is never written in both ways at once: the kernel would take the collision for a
//!    failed write. What goes past the cache among writes that do not is therefore whole pages, and
//!    no two writes of the same bytes go on at once. One after the other is no collision: the
//!    kernel sees to it that every read gives what was written last.
//! 2. Everything that the crate's contract allows must be possible: where everything goes past the
//!    cache, sectors of the disk are aligned enough, and what lies in memory as it happens to is
//!    copied to where it is aligned. Where only what is large does, what is not aligned does not.
//!
//! Not asserted: 1, which is about all writers of the disk; 2, which the kernel may break with a
//! short transfer, and refuses.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::system;

/// How transfers are aligned that go past the cache among others that do not, in bytes: to a page.
const PAGE: usize = 4096;
/// Transfers of so many bytes and more may go past the page cache
/// ([`crate::file::DiskFile::large_past_cache`]). Below it the page cache was as fast or faster.
pub const LARGE_TRANSFER: u64 = 64 << 10;

/// Which transfers go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    All,
    /// Those of whole pages, many at once.
    Large,
}

/// A way to the disk past the page cache.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    takes: Takes,
    /// How what goes past the cache is aligned, in memory as on the disk, in bytes.
    unit: usize,
}

impl Direct {
    /// Opens a file again, which is open for reading and writing and has sectors of so many bytes;
    /// none where the system does not take such transfers as they are aligned here, or does not
    /// say that it does.
    pub(crate) fn reopen(file: &File, takes: Takes, sector: u32) -> Option<Self> {
        let unit = match takes {
            Takes::All => sector as usize,
            Takes::Large => PAGE,
        };
        system::direct_alignment(file).filter(|&alignment| alignment as usize <= unit)?;
        // By its descriptor and not by its name, which may be another file's by now.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Some(Self { file: options.open(same).ok()?, takes, unit })
    }

    /// Whether every transfer goes past the cache, and these pieces do not lie so that they can.
    pub(crate) fn needs_copy(&self, mut pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        self.takes == Takes::All && pieces.any(|piece| !is_aligned(piece.as_ref(), self.unit))
    }

    /// What a transfer from or to these pieces goes through, if it goes past the cache.
    pub(crate) fn for_transfer<'a>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<&File> {
        let is_for_it = self.takes == Takes::All || is_large(offset, pieces, self.unit);
        is_for_it.then_some(&self.file)
    }

    /// What a read of the medium goes through: past the cache, if it is aligned for that.
    pub(crate) fn for_medium(&self, offset: u64, bytes: &[u8]) -> Option<&File> {
        let is_for_it = offset.is_multiple_of(self.unit as u64) && is_aligned(bytes, self.unit);
        is_for_it.then_some(&self.file)
    }
}

/// Whether a transfer is of whole pages, and of many.
fn is_large<'a>(offset: u64, pieces: impl Iterator<Item = &'a [u8]>, unit: usize) -> bool {
    let mut length = 0;
    for piece in pieces {
        length += piece.len() as u64;
        if !is_aligned(piece, unit) {
            return false;
        }
    }
    offset.is_multiple_of(unit as u64) && length >= LARGE_TRANSFER
}

fn is_aligned(bytes: &[u8], unit: usize) -> bool {
    bytes.as_ptr().addr().is_multiple_of(unit) && bytes.len().is_multiple_of(unit)
}
