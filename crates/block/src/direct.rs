//! The same file once more, past the page cache.
//!
//! Why: a buffered write of a file goes to a kernel thread, since it may have to wait, and back;
//! of a device it goes out in pages. One past the page cache is begun by whoever asks for it, as
//! large as it is, and is not copied.
//!
//! Everything may go there ([`Takes::All`]), which suits a log: it is written often and waited for,
//! and not read meanwhile. Or only what is large may ([`Takes::Large`]), which suits a volume: what
//! is small gains by being gathered in the page cache and found there, and what is large is kept,
//! if it is, by whoever reads it.
//!
//! Invariants:
//! 1. A page is never written in both ways at once: the kernel would take the collision for a
//!    failed write. What goes past the cache among writes that do not is therefore whole pages, and
//!    nobody writes the same bytes twice at once. One after the other is no collision: the kernel
//!    sees to it that every read gives what was written last.
//! 2. Everything that the crate's contract allows must be possible: where everything goes past the
//!    cache, sectors of a file are aligned enough, and what lies in memory as it happens to is
//!    copied to where it is aligned. Where only what is large does, what is not aligned does not.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use bytes::Bytes;

use crate::{Buffer, system};

/// How a transfer is aligned where all are past the cache, in memory as on the disk, in bytes: to a
/// sector of a file.
const SECTOR: usize = 512;
/// How one is aligned that goes past the cache among others that do not: to a page.
const PAGE: usize = 4096;
/// What makes a transfer large, in bytes. Below it the page cache was as fast or faster.
const LARGE: u64 = 64 << 10;

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
}

impl Direct {
    /// Opens a file again, which is open for reading and writing; none where the system does not
    /// take such transfers as they are aligned here, or does not say that it does.
    pub(crate) fn reopen(file: &File, takes: Takes) -> Option<Self> {
        let unit = match takes {
            Takes::All => SECTOR,
            Takes::Large => PAGE,
        };
        system::direct_alignment(file).filter(|&alignment| alignment as usize <= unit)?;
        // By its descriptor and not by its name, which may be another file's by now.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Some(Self { file: options.open(same).ok()?, takes })
    }

    /// What every transfer goes through, if all go past the cache.
    pub(crate) fn for_all(&self) -> Option<&File> {
        (self.takes == Takes::All).then_some(&self.file)
    }

    /// What a transfer from or to these pieces goes through, if it goes past the cache.
    pub(crate) fn for_transfer<'a>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<&File> {
        let is_for_it = || {
            let mut length = 0;
            for piece in pieces {
                length += piece.len() as u64;
                if !is_aligned(piece, PAGE) {
                    return false;
                }
            }
            offset.is_multiple_of(PAGE as u64) && length >= LARGE
        };
        (self.takes == Takes::All || is_for_it()).then_some(&self.file)
    }
}

/// Whether bytes lie so that they can be transferred where everything goes past the cache.
pub(crate) fn is_transferable(bytes: &[u8]) -> bool {
    is_aligned(bytes, SECTOR)
}

fn is_aligned(bytes: &[u8], unit: usize) -> bool {
    bytes.as_ptr().addr().is_multiple_of(unit) && bytes.len().is_multiple_of(unit)
}

/// The same bytes where they are aligned, if they are not (invariant 2).
pub(crate) fn aligned(data: &[Bytes]) -> Option<Bytes> {
    if data.iter().all(|piece| is_transferable(piece)) {
        return None;
    }
    let mut copy = Buffer::unfilled(data.iter().map(Bytes::len).sum());
    let mut rest = &mut copy[..];
    for piece in data {
        let (target, behind) = rest.split_at_mut(piece.len());
        target.copy_from_slice(piece);
        rest = behind;
    }
    Some(copy.freeze())
}
