//! An image file or a raw block device: opened, measured, locked, and driven by blocking calls.
//!
//! Every device of this crate uses a [`DiskFile`]; they differ in how the calls are made. I/O is
//! buffered: reads and writes go through the kernel's page cache, unless they are to go past it
//! ([`crate::direct`]); `flush` is fdatasync and a through write is RWF_DSYNC.
//!
//! Invariants:
//! 1. While a writer has the disk open no other caller has (among all that ask for the lock, as
//!    every DiskFile does): two servers on one disk would destroy it. A raw device is also claimed
//!    from the kernel, so that a mounted one is refused.
//! 2. A failed call is not repeated. In particular a flush that failed once may succeed the second
//!    time without having written anything, so the failure must reach the engine.
//!
//! Not asserted: 1, which the kernel keeps; 2, which is about calls that are not made.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom};
use std::iter::once;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::direct::{Direct, Takes};
use crate::{Buffer, Durability, Geometry, IoError, Verb, length_of, system};

/// Sector sizes that an image file reports. A file system block is 4 KiB nearly everywhere, and the
/// file system below reads before it writes less than that.
const FILE_LOGICAL_SECTOR_SIZE: u32 = 512;
const FILE_PHYSICAL_SECTOR_SIZE: u32 = 4096;

/// The access for which a disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading while another program may be writing: without a lock, so reads may be torn. For
    /// inspection only.
    Glance,
    /// Reading, beside other readers.
    ReadOnly,
    /// Reading and writing, alone.
    ReadWrite,
}

/// The reasons for which a disk could not be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No file of that name exists.
    #[error("there is no file or device named {}", .0.display())]
    NotFound(PathBuf),
    /// Creating would have overwritten a file.
    #[error("{} exists already and is not overwritten; remove it or choose another name",
        .0.display())]
    AlreadyExists(PathBuf),
    /// The operating system does not let us, or the medium is write-protected.
    #[error("no permission to open {} for {}; it may belong to another user or be write-protected",
        .0.display(), purpose(.1))]
    PermissionDenied(PathBuf, Access),
    /// Another program that asks for the lock has it.
    #[error("{} is in use by another program, perhaps a second server; two at once would destroy \
        it, so stop the other one first", .0.display())]
    Locked(PathBuf),
    /// A mount, RAID, swap or another server has claimed the device from the kernel.
    #[error("{} is mounted, or claimed by RAID, swap or another server; unmount or release it \
        first", .0.display())]
    Busy(PathBuf),
    /// A directory, a pipe, a terminal.
    #[error("{} is neither a regular file nor a block device", .0.display())]
    NotADisk(PathBuf),
    /// The size of a new disk is not a whole number of sectors.
    #[error("a disk of {0} bytes cannot be created: the size must be a positive multiple of 512")]
    InvalidSize(u64),
    /// Any other error of the operating system.
    #[error("cannot open {}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
}

fn purpose(access: &Access) -> &'static str {
    match access {
        Access::Glance | Access::ReadOnly => "reading",
        Access::ReadWrite => "writing",
    }
}

/// An open disk and its lock. The verbs block the calling thread.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    /// The file opened past the page cache, if transfers are to go there.
    direct: Option<Direct>,
    geometry: Geometry,
    is_device: bool,
    /// Path by which it was opened.
    path: PathBuf,
}

impl DiskFile {
    /// Opens an existing image file or raw device and locks it. A file whose size is not a multiple
    /// of the logical sector is used up to the last whole sector.
    ///
    /// A disk that is in use is retried for a short while before it is refused: operations that a
    /// killed server had in flight in the kernel keep its lock for some milliseconds after its
    /// death, and a server that is restarted at once should not be turned away.
    pub fn open(path: &Path, access: Access) -> Result<Self, OpenError> {
        for _ in 0..PATIENCE {
            match Self::open_now(path, access) {
                Err(OpenError::Locked(_) | OpenError::Busy(_)) => pause(),
                other => return other,
            }
        }
        Self::open_now(path, access)
    }

    fn open_now(path: &Path, access: Access) -> Result<Self, OpenError> {
        let failed = |error| classify(path, access, error);
        // Checked before opening, because opening a pipe would wait for its other end.
        let file_type = std::fs::metadata(path).map_err(failed)?.file_type();
        let is_device = file_type.is_block_device();
        if !file_type.is_file() && !is_device {
            return Err(OpenError::NotADisk(path.to_owned()));
        }
        let write = access == Access::ReadWrite;
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        if write && is_device {
            options.custom_flags(libc::O_EXCL); // invariant 1: claims the device
        }
        let file = options.open(path).map_err(failed)?;
        lock(&file, path, access)?;
        if write && is_device && system::is_write_protected(&file).map_err(failed)? {
            return Err(failed(ErrorKind::ReadOnlyFilesystem.into()));
        }
        let geometry = measure(&file, is_device, access).map_err(failed)?;
        Ok(Self { file, direct: None, geometry, is_device, path: path.to_owned() })
    }

    /// Creates a sparse image file of `size` bytes, which reads as zeros, and opens it for writing.
    /// The file itself is on stable storage afterwards. If that fails there is no file. Only its
    /// owner may access it: it will hold other users' files.
    pub fn create(path: &Path, size: u64) -> Result<Self, OpenError> {
        if size == 0 || !size.is_multiple_of(u64::from(FILE_LOGICAL_SECTOR_SIZE)) {
            return Err(OpenError::InvalidSize(size));
        }
        let access = Access::ReadWrite;
        let failed = |error| classify(path, access, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let made = lock(&file, path, access).and_then(|()| {
            file.set_len(size).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            sync_parent(path).map_err(failed)?;
            measure(&file, false, access).map_err(failed)
        });
        match made {
            Ok(geometry) => {
                let (path, is_device) = (path.to_owned(), false);
                Ok(Self { file, direct: None, geometry, is_device, path })
            }
            Err(error) => {
                // The file is new, and ours.
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same disk, with every transfer past the page cache from now on, where the system can do
    /// that. For a log: it is written often and waited for, and not read meanwhile.
    pub fn past_cache(self) -> Self {
        self.past_cache_for(Takes::All)
    }

    /// The same disk, with large transfers past the page cache from now on, where the system can do
    /// that. For a volume: see [`crate::direct`].
    ///
    /// Callers must not write the same bytes twice at once.
    pub fn large_past_cache(self) -> Self {
        self.past_cache_for(Takes::Large)
    }

    fn past_cache_for(self, takes: Takes) -> Self {
        let sector = self.geometry.logical_sector_size;
        let is_for_it = !self.geometry.read_only;
        let direct = is_for_it.then(|| Direct::reopen(&self.file, takes, sector)).flatten();
        Self { direct, ..self }
    }

    /// Whether it is a block device.
    pub(crate) fn is_device(&self) -> bool {
        self.is_device
    }

    /// The file for all operations other than reads and writes.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The file for a transfer from or to these pieces.
    pub(crate) fn file_for<'a>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> &File {
        self.past_cache_at(offset, pieces).unwrap_or(&self.file)
    }

    /// The file for a read of the medium: past the page cache, where that is possible.
    pub(crate) fn file_for_medium(&self, offset: u64, bytes: &[u8]) -> &File {
        let direct = self.direct.as_ref();
        direct.and_then(|direct| direct.for_medium(offset, bytes)).unwrap_or(&self.file)
    }

    /// The file for a transfer that goes past the page cache, if it does.
    fn past_cache_at<'a>(
        &self,
        offset: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<&File> {
        self.direct.as_ref().and_then(|direct| direct.for_transfer(offset, pieces))
    }

    /// Whether these pieces must be copied to aligned memory for the transfer.
    fn needs_copy(&self, pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.needs_copy(pieces))
    }

    /// A copy of the data of a write that can be transferred, if the data itself cannot.
    pub(crate) fn transferable(&self, data: &[Bytes]) -> Option<Bytes> {
        self.needs_copy(data.iter()).then(|| Buffer::joined(data).freeze())
    }

    /// Size and sectors.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Fills `bytes` from `offset`.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        let length = bytes.len() as u64;
        self.geometry.check(Verb::Read, offset, length)?;
        let read =
            |bytes: &mut [u8]| self.file_for(offset, once(&*bytes)).read_exact_at(bytes, offset);
        let result = if self.needs_copy(once(&*bytes)) {
            let mut aligned = Buffer::unfilled(bytes.len());
            read(&mut aligned).map(|()| bytes.copy_from_slice(&aligned))
        } else {
            read(bytes)
        };
        result.map_err(|error| IoError::from_os(Verb::Read, offset, length, &error))
    }

    /// Fills `bytes` from `offset` with the contents of the medium, where the page cache can be
    /// bypassed.
    pub fn read_medium(&self, offset: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        let length = bytes.len() as u64;
        self.geometry.check(Verb::Read, offset, length)?;
        let read = self.file_for_medium(offset, bytes).read_exact_at(bytes, offset);
        read.map_err(|error| IoError::from_os(Verb::Read, offset, length, &error))
    }

    /// Fills `bytes` from `offset`, a range of the disk, if the page cache has them all, and
    /// returns whether it had: then this is faster than handing the call over.
    pub(crate) fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let length = bytes.len();
        self.past_cache_at(offset, once(&*bytes)).is_none()
            && system::read_now(&self.file, bytes, offset).is_ok_and(|read| read == length)
    }

    /// Writes the pieces one after the other from `offset`.
    pub fn write(
        &self,
        offset: u64,
        data: &[Bytes],
        durability: Durability,
    ) -> Result<(), IoError> {
        let length = length_of(data);
        self.geometry.check(Verb::Write, offset, length)?;
        let aligned = self.transferable(data);
        let data = aligned.as_ref().map_or(data, std::slice::from_ref);
        let result = self.write_all(offset, data, durability == Durability::Through);
        result.map_err(|error| self.failure(Verb::Write, offset, length, &error))
    }

    /// Converts the failure of a call. One that found no room records whether its range was
    /// allocated.
    pub(crate) fn failure(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        error: &io::Error,
    ) -> IoError {
        let failure = IoError::from_os(verb, offset, length, error);
        let was_allocated = failure.is_full() && self.is_allocated(offset, length);
        IoError { was_allocated, ..failure }
    }

    /// Whether a range is part of a raw device, or of a file that holds data throughout.
    fn is_allocated(&self, offset: u64, length: u64) -> bool {
        let next_hole = || system::next_hole(&self.file, offset);
        self.is_device || next_hole().is_ok_and(|hole| hole >= offset + length)
    }

    /// Puts every completed write on stable storage.
    pub fn flush(&self) -> Result<(), IoError> {
        let result = self.file.sync_data(); // invariant 2: no second attempt
        result.map_err(|error| IoError::from_os(Verb::Flush, 0, 0, &error))
    }

    /// Gives a range back to the medium, if it can take it.
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.geometry.check(Verb::Discard, offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let result = if self.is_device {
            system::discard_sectors(&self.file, offset, length)
        } else {
            system::punch_hole(&self.file, offset, length)
        };
        match result {
            Err(error) if error.kind() != ErrorKind::Unsupported => {
                Err(IoError::from_os(Verb::Discard, offset, length, &error))
            }
            _ => Ok(()),
        }
    }

    /// Makes the host allocate the space for all of an image file now, so that no write of it finds
    /// none later. Its contents stay. A device has its space already.
    ///
    /// # Errors
    /// Those of the system, when there is too little space.
    pub fn allocate(&self) -> io::Result<()> {
        if self.is_device { Ok(()) } else { system::allocate(&self.file, self.geometry.size) }
    }

    /// Continues after short writes and interrupted calls, which are harmless.
    fn write_all(&self, mut offset: u64, data: &[Bytes], mut through: bool) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = data.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = &mut slices[..];
        let mut flush_at_end = false;
        IoSlice::advance_slices(&mut rest, 0); // drops leading empty pieces
        while !rest.is_empty() {
            let file = self.file_for(offset, rest.iter().map(|piece| &piece[..]));
            match system::write_at(file, rest, offset, through) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    offset += taken as u64;
                    IoSlice::advance_slices(&mut rest, taken);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A file system without RWF_DSYNC: flushing everything promises more, not less.
                Err(error) if through && error.kind() == ErrorKind::Unsupported => {
                    through = false;
                    flush_at_end = true;
                }
                Err(error) => return Err(error),
            }
        }
        if flush_at_end { self.file.sync_data() } else { Ok(()) }
    }
}

/// Attempts to open a disk that is in use, [`PAUSE`] apart: for a second in all.
const PATIENCE: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "a disk is opened before anything runs")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Invariant 1. The lock goes with the last descriptor: after a server is killed, as soon as the
/// kernel has ended its operations in flight.
fn lock(file: &File, path: &Path, access: Access) -> Result<(), OpenError> {
    let result = match access {
        Access::Glance => return Ok(()),
        Access::ReadOnly => file.try_lock_shared(),
        Access::ReadWrite => file.try_lock(),
    };
    result.map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::Locked(path.to_owned()),
        TryLockError::Error(error) => OpenError::Io(path.to_owned(), error),
    })
}

fn measure(mut file: &File, is_device: bool, access: Access) -> io::Result<Geometry> {
    let size = file.seek(SeekFrom::End(0))?; // the one call that works for files and devices alike
    let (logical_sector_size, physical_sector_size) = if is_device {
        system::sector_sizes(file)?
    } else {
        (FILE_LOGICAL_SECTOR_SIZE, FILE_PHYSICAL_SECTOR_SIZE)
    };
    Ok(Geometry {
        size: size - size % u64::from(logical_sector_size),
        logical_sector_size,
        physical_sector_size,
        read_only: access != Access::ReadWrite,
        stripe: None,
        platters: None,
    })
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

/// Bytes that are free in the file system that holds a file.
///
/// # Errors
/// Those of the system.
pub fn free_below(file: &File) -> io::Result<u64> {
    system::free_bytes(file)
}

/// Whether a path leads to a file in memory of the host, which outlives no power cut.
///
/// # Errors
/// Those of the system.
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    // Neither waits for the other end of a pipe, nor needs permission to read.
    system::is_in_memory(&OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?)
}

fn classify(path: &Path, access: Access, error: io::Error) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => OpenError::NotFound(path),
        ErrorKind::AlreadyExists => OpenError::AlreadyExists(path),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            OpenError::PermissionDenied(path, access)
        }
        ErrorKind::ResourceBusy => OpenError::Busy(path),
        _ => OpenError::Io(path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of one test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("block-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).expect("a scratch folder");
            Self(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn pieces(parts: &[&[u8]]) -> Vec<Bytes> {
        parts.iter().map(|part| Bytes::copy_from_slice(part)).collect()
    }

    #[test]
    fn a_write_without_room_tells_whether_its_place_held_data() {
        let scratch = Scratch::new("allocated");
        let disk = DiskFile::create(&scratch.path("disk"), 1 << 20).expect("there is room");
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let was_allocated =
            |offset, length| disk.failure(Verb::Write, offset, length, &full).was_allocated;
        assert!(!was_allocated(0, 4096));
        let data = pieces(&[&[7; 8192]]);
        disk.write(65_536, &data, Durability::Through).expect("there is room");
        assert!(was_allocated(65_536, 8192) && was_allocated(69_632, 4096));
        assert!(!was_allocated(65_536, 65_536), "a part of it");
        assert!(!was_allocated(0, 131_072), "its end");
        let broken = io::Error::from_raw_os_error(libc::EIO);
        assert!(!disk.failure(Verb::Write, 65_536, 8192, &broken).was_allocated);
    }

    #[test]
    fn a_created_disk_is_sparse_zero_and_never_overwritten() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new("create");
        let path = scratch.path("disk");
        let disk = DiskFile::create(&path, 1 << 30).expect("a new disk");
        assert_eq!(disk.geometry().size, 1 << 30);
        let metadata = std::fs::metadata(&path).expect("the file");
        assert!(metadata.blocks() * 512 < 1 << 20, "a gibibyte of holes");
        let mut bytes = [7; 512];
        disk.read((1 << 30) - 512, &mut bytes).expect("the last sector");
        assert_eq!(bytes, [0; 512]);
        assert!(matches!(DiskFile::create(&path, 512), Err(OpenError::AlreadyExists(_))));
        let odd = DiskFile::create(&scratch.path("odd"), 700);
        assert!(matches!(odd, Err(OpenError::InvalidSize(700))));
    }

    #[test]
    fn pieces_land_one_after_the_other_with_either_durability() {
        let scratch = Scratch::new("pieces");
        let disk = DiskFile::create(&scratch.path("disk"), 1 << 20).expect("a new disk");
        for durability in [Durability::Plain, Durability::Through] {
            let offset = 4096 + 8192 * durability as u64;
            let data = pieces(&[&[], &[1; 100], &[], &[2; 412], &[3; 512]]);
            disk.write(offset, &data, durability).expect("a write");
            let mut bytes = [0; 1024];
            disk.read(offset, &mut bytes).expect("a read");
            assert_eq!(bytes[..100], [1; 100]);
            assert_eq!(bytes[100..512], [2; 412]);
            assert_eq!(bytes[512..], [3; 512]);
        }
        disk.flush().expect("a flush");
    }

    #[test]
    fn more_pieces_than_one_call_takes_are_all_written() {
        let scratch = Scratch::new("many");
        let disk = DiskFile::create(&scratch.path("disk"), 1 << 20).expect("a new disk");
        let count = 2 * system::SLICES_MAX + 512;
        let data: Vec<Bytes> = (0..count).map(|n| Bytes::from(vec![n as u8])).collect();
        assert!(data.len().is_multiple_of(512));
        disk.write(512, &data, Durability::Plain).expect("a write");
        let mut bytes = vec![0; count];
        disk.read(512, &mut bytes).expect("a read");
        assert!(bytes.iter().enumerate().all(|(n, &byte)| byte == n as u8));
    }

    #[test]
    fn a_writer_is_alone_and_readers_are_not() {
        let scratch = Scratch::new("lock");
        let path = scratch.path("disk");
        let writer = DiskFile::create(&path, 4096).expect("a new disk");
        for access in [Access::ReadOnly, Access::ReadWrite] {
            let error = DiskFile::open(&path, access).expect_err("a second opener");
            assert!(matches!(error, OpenError::Locked(_)));
            assert!(error.to_string().contains("in use by another program"), "{error}");
        }
        drop(writer);
        let _one = DiskFile::open(&path, Access::ReadOnly).expect("a reader");
        let _two = DiskFile::open(&path, Access::ReadOnly).expect("another reader");
        let writer = DiskFile::open(&path, Access::ReadWrite);
        assert!(matches!(writer, Err(OpenError::Locked(_))));
    }

    #[test]
    fn a_lock_that_goes_in_a_moment_turns_nobody_away() {
        let scratch = Scratch::new("lingering");
        let path = scratch.path("disk");
        let writer = DiskFile::create(&path, 4096).expect("a new disk");
        let killed = std::thread::spawn(move || {
            pause();
            drop(writer);
        });
        DiskFile::open(&path, Access::ReadWrite).expect("the lock goes meanwhile");
        killed.join().expect("it ends");
    }

    #[test]
    fn a_read_only_disk_refuses_changes() {
        let scratch = Scratch::new("read-only");
        let path = scratch.path("disk");
        drop(DiskFile::create(&path, 4096).expect("a new disk"));
        let disk = DiskFile::open(&path, Access::ReadOnly).expect("a reader");
        let write = disk.write(0, &pieces(&[&[1; 512]]), Durability::Plain);
        assert_eq!(write.expect_err("a refusal").kind, ErrorKind::ReadOnlyFilesystem);
        let discard = disk.discard(0, 512);
        assert_eq!(discard.expect_err("a refusal").kind, ErrorKind::ReadOnlyFilesystem);
    }

    #[test]
    fn ranges_that_are_misaligned_or_outside_are_refused() {
        let scratch = Scratch::new("ranges");
        let disk = DiskFile::create(&scratch.path("disk"), 4096).expect("a new disk");
        for (offset, length) in [(1, 512), (0, 511), (4096, 512), (3584, 1024), (u64::MAX, 512)] {
            let error = disk.read(offset, &mut vec![0; length]).expect_err("a refusal");
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{offset} {length}");
        }
        disk.read(4096, &mut []).expect("nothing, at the end");
    }

    #[test]
    fn a_discarded_range_reads_as_zeros_and_its_neighbours_stay() {
        let scratch = Scratch::new("discard");
        let disk = DiskFile::create(&scratch.path("disk"), 16384).expect("a new disk");
        disk.write(0, &pieces(&[&[5; 16384]]), Durability::Plain).expect("a write");
        disk.discard(4096, 4096).expect("a discard");
        let mut bytes = vec![1; 16384];
        disk.read(0, &mut bytes).expect("a read");
        assert!(bytes[..4096].iter().chain(&bytes[8192..]).all(|&byte| byte == 5));
        // A file system that cannot punch holes leaves the old bytes; both are allowed.
        let hole = &bytes[4096..8192];
        assert!(hole.iter().all(|&byte| byte == 0) || hole.iter().all(|&byte| byte == 5));
    }

    #[test]
    fn space_is_taken_for_all_of_a_disk_that_keeps_what_it_has() {
        use std::os::unix::fs::MetadataExt;

        let scratch = Scratch::new("allocate");
        let path = scratch.path("disk");
        let disk = DiskFile::create(&path, 1 << 20).expect("a new disk");
        disk.write(4096, &pieces(&[&[5; 4096]]), Durability::Plain).expect("a write");
        let taken = || std::fs::metadata(&path).expect("it is there").blocks() * 512;
        assert!(taken() < 1 << 20, "{} bytes of a sparse file", taken());
        disk.allocate().expect("there is room");
        assert!(taken() >= 1 << 20, "{} bytes", taken());
        let mut bytes = vec![1; 8192];
        disk.read(0, &mut bytes).expect("a read");
        assert!(bytes[..4096].iter().all(|&byte| byte == 0));
        assert!(bytes[4096..].iter().all(|&byte| byte == 5));
        let free = free_below(&disk.file).expect("it is told");
        assert!(free > 1 << 20, "{free}");
    }

    #[test]
    fn an_odd_tail_of_a_file_is_not_part_of_the_disk() {
        let scratch = Scratch::new("tail");
        let path = scratch.path("disk");
        std::fs::write(&path, [0; 1300]).expect("a file");
        let disk = DiskFile::open(&path, Access::ReadOnly).expect("a disk");
        assert_eq!(disk.geometry().size, 1024);
    }

    #[test]
    fn what_is_no_disk_is_refused_with_a_sentence() {
        let scratch = Scratch::new("refused");
        let missing = DiskFile::open(&scratch.path("nothing"), Access::ReadOnly);
        assert!(matches!(missing, Err(OpenError::NotFound(_))));
        let folder = DiskFile::open(&scratch.0, Access::ReadOnly).expect_err("a folder");
        assert!(matches!(folder, OpenError::NotADisk(_)));
        assert!(folder.to_string().ends_with("is neither a regular file nor a block device"));
    }
}
