//! A file that is memory: persistent memory behind a file system with DAX, or a file system in
//! memory. It is mapped, and a transfer is a copy.
//!
//! A write is flushed out of the processor's caches before it completes, so every write is a
//! through one, and a flush has nothing to do. Unlike other devices this one is torn by a cut
//! between any two words of 8 bytes: it is for callers that know that, as crate `nvram` does.
//!
//! A page that cannot be read, because its memory is bad or the file was cut short, is an error of
//! the call, and not the end of the process ([`fault`]).
//!
//! Invariants:
//! 1. The mapping is accessed only while a [`Watched`] of it exists, which ends before it does.
//! 2. After an error, the range of the call is mapped from the file again: the pages that stood in
//!    for bad ones are never read.
//!
//! Not asserted: 1, which the order of fields keeps; 2, which a test shows with a file that is cut
//! short and grows again.

#![allow(unsafe_code)]

mod fault;

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use bytes::Bytes;
use fault::Watched;
use futures::FutureExt;
use futures::future::ready;

use crate::disk_file::DiskFile;
use crate::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, length_of, system};

/// Bytes of a line of the processor's caches.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// See the module's prose.
pub struct MappedDevice {
    geometry: Geometry,
    is_persistent: bool,
    mapping: RefCell<Option<Mapping>>,
}

struct Mapping {
    /// Ends before the memory does (invariant 1).
    watched: Watched,
    memory: Memory,
    file: DiskFile,
    /// A range could not be mapped again: nothing can be believed any more.
    has_failed: bool,
}

/// Mapped memory.
struct Memory {
    start: NonNull<u8>,
    length: usize,
    access: libc::c_int,
    kind: libc::c_int,
}

impl Memory {
    /// Maps a whole file.
    fn map(file: &DiskFile, kind: libc::c_int) -> io::Result<Self> {
        let Geometry { size, read_only, .. } = file.geometry();
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let access = libc::PROT_READ | if read_only { 0 } else { libc::PROT_WRITE };
        let file = file.file().as_raw_fd();
        // SAFETY: nothing that exists is replaced: the kernel chooses the address.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address 0");
        Ok(Self { start, length, access, kind })
    }

    /// Maps the pages of a range of it from the file again.
    fn map_again(&self, file: &DiskFile, offset: usize, length: usize) -> io::Result<()> {
        let page = system::page_size();
        let first = offset / page * page;
        let length = (offset + length).next_multiple_of(page).min(self.length) - first;
        let (kind, file) = (self.kind | libc::MAP_FIXED, file.file().as_raw_fd());
        let at = self.start.as_ptr().wrapping_add(first).cast();
        // SAFETY: the pages lie in this mapping, and nobody has a reference to them: only
        // `MappedDevice::access` uses them, by copies that have ended.
        let mapped =
            unsafe { libc::mmap(at, length, self.access, kind, file, first as libc::off_t) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and is ended once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl MappedDevice {
    /// Maps an open file, if it is memory.
    ///
    /// # Errors
    /// The file, if it is none.
    pub fn new(file: DiskFile) -> Result<Self, Box<DiskFile>> {
        if file.is_device() {
            return Err(Box::new(file));
        }
        let persistent = Memory::map(&file, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC);
        let is_persistent = persistent.is_ok();
        let memory = match persistent {
            Ok(memory) => Some(memory),
            Err(_) if system::is_in_memory(file.file()).is_ok_and(|is| is) => {
                Memory::map(&file, libc::MAP_SHARED).ok()
            }
            Err(_) => None,
        };
        let watched = memory.as_ref().and_then(|it| Watched::new(it.start.addr().get(), it.length));
        let (Some(memory), Some(watched)) = (memory, watched) else { return Err(Box::new(file)) };
        let geometry = file.geometry();
        let mapping = Some(Mapping { watched, memory, file, has_failed: false });
        Ok(Self { geometry, is_persistent, mapping: RefCell::new(mapping) })
    }

    /// Whether it outlives the power.
    pub fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Copies to or from a range of the memory.
    fn access(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        copy: impl FnOnce(*mut u8),
    ) -> Result<(), IoError> {
        let mut mapping = self.mapping.borrow_mut();
        let mapping = mapping.as_mut().ok_or_else(|| IoError::closed(verb))?;
        self.geometry.check(verb, offset, length)?;
        let broken =
            || IoError::from_os(verb, offset, length, &io::Error::from_raw_os_error(libc::EIO));
        if mapping.has_failed {
            return Err(broken());
        }
        let Mapping { watched, memory, file, .. } = mapping;
        let before = watched.faults();
        compiler_fence(Ordering::SeqCst);
        // The range lies in the memory: it was checked.
        copy(memory.start.as_ptr().wrapping_add(offset as usize));
        compiler_fence(Ordering::SeqCst);
        if watched.faults() == before {
            return Ok(());
        }
        let again = memory.map_again(file, offset as usize, length as usize);
        mapping.has_failed = again.is_err(); // invariant 2
        Err(broken())
    }
}

impl BlockDevice for MappedDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len();
        let read = self.access(Verb::Read, offset, length as u64, |from| {
            // SAFETY: `from` is valid for `length` bytes, and the buffer is other memory of ours.
            // A page that cannot be read is replaced while the copy waits.
            unsafe { std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), length) };
        });
        ready(read.map(|()| buffer)).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _: Durability) -> Io<()> {
        let length = length_of(&data);
        let mut flushed = Ok(());
        let written = self.access(Verb::Write, offset, length, |to| {
            let mut at = to;
            for piece in &data {
                // SAFETY: `at` is valid for the rest of the pieces' bytes, which are other memory.
                // A page that cannot be written is replaced while the copy waits.
                unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), at, piece.len()) };
                at = at.wrapping_add(piece.len());
            }
            flushed = flush_lines(to, length as usize);
        });
        let flushed =
            flushed.map_err(|error| IoError::from_os(Verb::Write, offset, length, &error));
        ready(written.and(flushed)).boxed_local()
    }

    fn flush(&self) -> Io<()> {
        ready(self.access(Verb::Flush, 0, 0, |_| {})).boxed_local()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        ready(self.access(Verb::Discard, offset, length, |_| {})).boxed_local()
    }

    fn close(&self) -> Io<()> {
        self.mapping.take();
        ready(Ok(())).boxed_local()
    }
}

/// Writes mapped bytes out of the processor's caches, and waits for that.
#[cfg(target_arch = "x86_64")]
fn flush_lines(start: *mut u8, length: usize) -> io::Result<()> {
    use std::arch::x86_64::{_mm_clflush, _mm_sfence};

    let skip = start.addr() % LINE;
    for line in (0..length + skip).step_by(LINE) {
        // SAFETY: each line has a byte of the mapping, and flushing changes no byte. Every
        // processor of this architecture has the instruction.
        unsafe { _mm_clflush(start.wrapping_sub(skip).wrapping_add(line)) };
    }
    // SAFETY: as above.
    unsafe { _mm_sfence() };
    Ok(())
}

/// Writes mapped bytes out of the processor's caches, and waits for that.
#[cfg(not(target_arch = "x86_64"))]
fn flush_lines(start: *mut u8, length: usize) -> io::Result<()> {
    let skip = start.addr() % system::page_size();
    // SAFETY: the pages are those of the mapping, and the call changes no byte.
    let done =
        unsafe { libc::msync(start.wrapping_sub(skip).cast(), length + skip, libc::MS_SYNC) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::path::{Path, PathBuf};

    use futures::executor::block_on;

    use super::*;
    use crate::disk_file::Access;

    const SIZE: u64 = 64 << 10;

    /// A file in memory, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = Path::new("/dev/shm").join(format!("mapped-{}-{name}", std::process::id()));
            drop(DiskFile::create(&path, SIZE).expect("a new file"));
            Self(path)
        }

        fn open(&self, access: Access) -> MappedDevice {
            let file = DiskFile::open(&self.0, access).expect("it exists");
            MappedDevice::new(file).unwrap_or_else(|_| panic!("it is in memory"))
        }

        fn cut(&self, size: u64) {
            let file = OpenOptions::new().write(true).open(&self.0).expect("it exists");
            file.set_len(size).expect("it is ours");
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn write(device: &MappedDevice, offset: u64, pieces: &[&[u8]]) -> Result<(), IoError> {
        let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
        block_on(device.write(offset, pieces, Durability::Plain))
    }

    fn read(device: &MappedDevice, offset: u64, length: usize) -> Result<Buffer, IoError> {
        block_on(device.read(offset, Buffer::zeroed(length)))
    }

    #[test]
    fn what_is_written_is_in_the_file_and_outlives_the_device() {
        let scratch = Scratch::new("whole");
        let device = scratch.open(Access::ReadWrite);
        assert!(!device.is_persistent(), "memory of the host");
        write(&device, 4608, &[&[1; 100], &[], &[2; 412], &[3; 512]]).expect("it is in range");
        block_on(device.flush()).expect("it is open");
        let bytes = std::fs::read(&scratch.0).expect("it exists");
        assert!(bytes[..4608].iter().chain(&bytes[5632..]).all(|&byte| byte == 0));
        assert_eq!(bytes[4608..4708], [1; 100]);
        assert_eq!(bytes[4708..5120], [2; 412]);
        assert_eq!(bytes[5120..5632], [3; 512]);
        assert!(write(&device, SIZE - 512, &[&[1; 1024]]).is_err(), "beyond the end");
        assert!(DiskFile::open(&scratch.0, Access::ReadOnly).is_err(), "it is locked");
        block_on(device.close()).expect("nothing fails");
        assert_eq!(read(&device, 0, 512).expect_err("closed"), IoError::closed(Verb::Read));
        let device = scratch.open(Access::ReadOnly);
        assert_eq!(read(&device, 5120, 512).expect("it is there")[..], [3; 512]);
        assert!(write(&device, 0, &[&[1; 512]]).is_err(), "it was opened to read");
    }

    #[test]
    fn a_page_that_is_gone_is_an_error_until_it_is_back() {
        let scratch = Scratch::new("short");
        let device = scratch.open(Access::ReadWrite);
        write(&device, 0, &[&[7; 32 << 10]]).expect("it is in range");
        scratch.cut(16 << 10);
        for _ in 0..2 {
            assert_eq!(read(&device, 8192, 8192).expect("that part is left")[..], [7; 8192]);
            assert!(read(&device, 8192, 16_384).is_err(), "a part of it is gone");
            assert!(read(&device, 16_384, 512).is_err());
            assert!(write(&device, 20_480, &[&[1; 512]]).is_err());
        }
        scratch.cut(SIZE);
        assert_eq!(read(&device, 16_384, 8192).expect("it is back")[..], [0; 8192]);
        write(&device, 20_480, &[&[1; 512]]).expect("it is back");
        assert_eq!(std::fs::read(&scratch.0).expect("it exists")[20_480..20_992], [1; 512]);
    }

    #[test]
    fn what_is_no_memory_and_what_is_too_much_is_given_back() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let file = DiskFile::open(&path, Access::ReadOnly).expect("it exists");
        assert!(MappedDevice::new(file).is_err(), "sources lie on a disk");
        let scratch = Scratch::new("many");
        let mut devices = Vec::new();
        loop {
            let file = DiskFile::open(&scratch.0, Access::ReadOnly).expect("it exists");
            match MappedDevice::new(file) {
                Ok(device) => devices.push(device),
                Err(file) => break assert_eq!(file.geometry().size, SIZE),
            }
        }
        drop(devices.pop());
        drop(scratch.open(Access::ReadOnly));
    }
}
