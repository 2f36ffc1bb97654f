//! The system calls that std does not offer, each behind a safe function.
//!
//! Everything here takes a borrowed [`File`], so the descriptor is open for the whole call, and
//! passes only memory that the caller has lent for the whole call. Nothing is retried and nothing
//! is interpreted; that is the task of [`crate::file`].

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Error, IoSlice, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The kernel takes no more slices than this in one call.
pub(crate) const SLICES_MAX: usize = libc::UIO_MAXIOV as usize;

/// File systems in memory, as statfs(2) tells them.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// Requests to block devices, by their numbers in linux/fs.h, where BLKSSZGET is 104; the three
/// are encoded alike on every architecture.
const BLKDISCARD: libc::Ioctl = libc::BLKSSZGET + 119 - 104;
const BLKROGET: libc::Ioctl = libc::BLKSSZGET + 94 - 104;

/// Writes at `offset` and returns the number of bytes taken, which may be less than all. With
/// `through` the bytes are on stable storage when the call returns.
pub(crate) fn write_at(
    file: &File,
    slices: &[IoSlice<'_>],
    offset: u64,
    through: bool,
) -> Result<usize> {
    let count = slices.len().min(SLICES_MAX) as libc::c_int;
    let flags = if through { libc::RWF_DSYNC } else { 0 };
    // SAFETY: IoSlice is guaranteed to have the layout of iovec; the first `count` of them point
    // to memory that is lent to us, and the kernel only reads it, and only during the call.
    let taken = unsafe {
        libc::pwritev2(file.as_raw_fd(), slices.as_ptr().cast(), count, to_off(offset)?, flags)
    };
    if taken < 0 { Err(Error::last_os_error()) } else { Ok(taken as usize) }
}

/// Reads the cached part of `bytes` from `offset` without waiting for a disk, and returns its
/// length. Fails where nothing is cached, or the file system below cannot say.
pub(crate) fn read_now(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize> {
    let slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: the one slice points to memory that is lent to us alone, and the kernel writes no
    // more than its length, and only during the call.
    let taken = unsafe {
        libc::preadv2(file.as_raw_fd(), &raw const slice, 1, to_off(offset)?, libc::RWF_NOWAIT)
    };
    if taken < 0 { Err(Error::last_os_error()) } else { Ok(taken as usize) }
}

/// Frees the range in the file system below; it reads as zeros afterwards.
pub(crate) fn punch_hole(file: &File, offset: u64, length: u64) -> Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is passed.
    let result =
        unsafe { libc::fallocate(file.as_raw_fd(), mode, to_off(offset)?, to_off(length)?) };
    check(result)
}

/// The first byte from `offset` on for which the file system below holds no data; the end of the
/// file at the latest.
pub(crate) fn next_hole(file: &File, offset: u64) -> Result<u64> {
    // SAFETY: no memory is passed. All transfers name their offset, so none depends on the position
    // of the descriptor, which this moves.
    let hole = unsafe { libc::lseek(file.as_raw_fd(), to_off(offset)?, libc::SEEK_HOLE) };
    u64::try_from(hole).map_err(|_| Error::last_os_error())
}

/// Makes the file system below allocate the first `length` bytes of a file, and keeps their
/// contents.
pub(crate) fn allocate(file: &File, length: u64) -> Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, to_off(length)?) })
}

/// Bytes that an unprivileged process may still take of the file system that holds a file.
pub(crate) fn free_bytes(file: &File) -> Result<u64> {
    // SAFETY: statvfs is a C struct of numbers, for which zeros are a value.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `told` is ours alone and lives until the call returns.
    check(unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut told) })?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

/// Whether a file lies in memory of the host, which outlives no power cut. The name of a device
/// lies there, and the device does not.
pub(crate) fn is_in_memory(file: &File) -> Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    // SAFETY: statfs is a C struct of numbers, for which zeros are a value.
    let mut told: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `told` is ours alone and lives until the call returns.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut told) })?;
    let kind = told.f_type as u64 & u64::from(u32::MAX);
    Ok([TMPFS, RAMFS].contains(&kind))
}

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    // SAFETY: no memory is passed.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    SIZE.store(size, Ordering::Relaxed);
    size
}

/// Declares to a block device that the range holds no data.
pub(crate) fn discard_sectors(file: &File, offset: u64, length: u64) -> Result<()> {
    let range: [u64; 2] = [offset, length];
    // SAFETY: BLKDISCARD reads two 64-bit numbers, which live until the call returns.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    check(result)
}

/// Whether a block device refuses writes. It can still be opened for writing.
pub(crate) fn is_write_protected(file: &File) -> Result<bool> {
    let mut protected: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int, which is ours alone.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut protected) })?;
    Ok(protected != 0)
}

/// The logical and the physical sector size of a block device, in bytes.
pub(crate) fn sector_sizes(file: &File) -> Result<(u32, u32)> {
    let mut logical: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int, which is ours alone.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut logical) })?;
    let mut physical: libc::c_uint = 0;
    // SAFETY: BLKPBSZGET writes one unsigned int, which is ours alone.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKPBSZGET, &raw mut physical) })?;
    Ok((logical.unsigned_abs(), physical))
}

/// Alignment of transfers past the page cache, in memory and in the file, in bytes; none where the
/// file system below takes none, or does not say.
pub(crate) fn direct_alignment(file: &File) -> Option<u32> {
    // SAFETY: statx is a C struct of numbers, for which zeros are a value.
    let mut told: libc::statx = unsafe { std::mem::zeroed() };
    let (mask, flags) = (libc::STATX_DIOALIGN, libc::AT_EMPTY_PATH);
    // SAFETY: the path is a string that ends; `told` is ours alone and lives until the call
    // returns.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, &raw mut told) };
    let is_told = result == 0 && told.stx_mask & mask != 0;
    let alignment = told.stx_dio_mem_align.max(told.stx_dio_offset_align);
    (is_told && told.stx_dio_offset_align > 0).then_some(alignment)
}

/// An event counter of the kernel, for waiting for the completions of a ring. Reading it never
/// blocks.
pub(crate) fn event_counter() -> Result<File> {
    // SAFETY: no memory is passed.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    check(descriptor)?;
    // SAFETY: the descriptor was made just now, is open, and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn check(result: libc::c_int) -> Result<()> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn to_off(value: u64) -> Result<libc::off_t> {
    libc::off_t::try_from(value).map_err(|_| Error::from_raw_os_error(libc::EFBIG))
}
