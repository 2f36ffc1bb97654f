//! The same file once more, past the page cache.
//!
//! Why: a buffered write of a file goes to a kernel thread, since it may have to wait, and back.
//! One past the page cache is begun by whoever asks for it, and is not copied.
//!
//! Invariants:
//! 1. Whoever reads and writes past the page cache does nothing else: the kernel does not keep a
//!    dirty page and a write past it apart, and takes the collision for a failed write.
//! 2. So everything that the crate's contract allows must be possible: sectors of a file are
//!    aligned enough, and what lies in memory as it happens to is copied to where it is aligned.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use bytes::Bytes;

use crate::{Buffer, system};

/// How a transfer is aligned, in memory as on the disk, in bytes: to a sector of a file.
const UNIT: usize = 512;

/// A file that is open for reading and writing, opened again; none where the system does not take
/// such transfers of sectors, or does not say that it does.
pub(crate) fn reopened(file: &File) -> Option<File> {
    system::direct_alignment(file).filter(|&alignment| alignment as usize <= UNIT)?;
    // By its descriptor and not by its name, which may be another file's by now.
    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT).open(same).ok()
}

/// Whether bytes lie so that they can be transferred.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(UNIT) && bytes.len().is_multiple_of(UNIT)
}

/// The same bytes where they are aligned, if they are not (invariant 2).
pub(crate) fn aligned(data: &[Bytes]) -> Option<Bytes> {
    if data.iter().all(|piece| is_aligned(piece)) {
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
