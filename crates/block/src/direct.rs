//! A second descriptor of the same file, past the page cache.
//!
//! Why: a buffered write of a file goes to a kernel thread, since it may have to wait, and back; a
//! buffered write of a device goes out in pages. A write past the page cache is begun by the caller
//! itself, in one piece, and is not copied.
//!
//! Either every transfer goes there ([`Takes::All`]), which suits a log: it is written often and
//! waited for, and not read meanwhile. Or only large transfers do ([`Takes::Large`]), which suits a
//! volume: small writes gain by being gathered in the page cache and found there, and large data is
//! cached, if at all, by the caller that reads it.
//!
//! Invariants:
//! 1. A page is never written in both ways at once: the kernel would take the collision for a
//!    failed write. So where only some writes go past the cache, those are whole pages, and no two
//!    writes of the same bytes go on at once. One after the other is no collision: the kernel
//!    ensures that every read returns the newest write.
//! 2. Every call that the crate's contract allows must be possible: where everything goes past the
//!    cache, sectors of the disk are aligned enough, and unaligned memory is copied to an aligned
//!    buffer. Where only large transfers do, unaligned ones stay in the cache.
//!
//! Not asserted: 1, which is about all writers of the disk; 2, which the kernel may break with a
//! short transfer, and refuses.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::system;

/// Alignment of transfers past the cache where others are not, in bytes: a page.
const PAGE: usize = 4096;
/// The smallest transfer, in bytes, that may go past the page cache
/// ([`crate::file::DiskFile::large_past_cache`]). Below it the page cache was as fast or faster.
pub const LARGE_TRANSFER: u64 = 64 << 10;

/// Which transfers go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    All,
    /// Transfers of many whole pages.
    Large,
}

/// A descriptor of the disk that bypasses the page cache.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    takes: Takes,
    /// Alignment of transfers past the cache, in memory and on the disk, in bytes.
    unit: usize,
}

impl Direct {
    /// Opens a file again that is open for reading and writing and has sectors of this many bytes;
    /// none where the system does not take such transfers with our alignment, or does not say that
    /// it does.
    pub(crate) fn reopen(file: &File, takes: Takes, sector: u32) -> Option<Self> {
        let unit = match takes {
            Takes::All => sector as usize,
            Takes::Large => PAGE,
        };
        system::direct_alignment(file).filter(|&alignment| alignment as usize <= unit)?;
        // By its descriptor and not by its name, which may belong to another file by now.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Some(Self { file: options.open(same).ok()?, takes, unit })
    }

    /// Whether every transfer goes past the cache, but these pieces are not aligned for that.
    pub(crate) fn needs_copy(&self, mut pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        self.takes == Takes::All && pieces.any(|piece| !is_aligned(piece.as_ref(), self.unit))
    }

    /// The file for a transfer from or to these pieces, if it goes past the cache.
    pub(crate) fn for_transfer<'a>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<&File> {
        let is_for_it = self.takes == Takes::All || is_large(offset, pieces, self.unit);
        is_for_it.then_some(&self.file)
    }

    /// The file for a read of the medium: past the cache, if it is aligned for that.
    pub(crate) fn for_medium(&self, offset: u64, bytes: &[u8]) -> Option<&File> {
        let is_for_it = offset.is_multiple_of(self.unit as u64) && is_aligned(bytes, self.unit);
        is_for_it.then_some(&self.file)
    }
}

/// Whether a transfer is of many whole pages.
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
