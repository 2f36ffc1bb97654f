//! Helpers shared by the tests of this crate.

pub(crate) mod absent;
pub(crate) mod behind;
#[cfg(feature = "planted-bugs")]
pub(crate) mod bugs;
pub(crate) mod calls;
pub(crate) mod chains;
pub(crate) mod cutting;
pub(crate) mod edit;
pub(crate) mod extremes;
pub(crate) mod fill;
pub(crate) mod foreign;
pub(crate) mod growth;
pub(crate) mod intents;
pub(crate) mod looks;
pub(crate) mod quiet;
pub(crate) mod raw;
pub(crate) mod returns;
pub(crate) mod reuse;
pub(crate) mod sharing;
pub(crate) mod soft;
pub(crate) mod strays;
pub(crate) mod together;
pub(crate) mod tree;
pub(crate) mod volume;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use block::{BlockDevice, Buffer, Durability, Io};
use bytes::Bytes;
pub(crate) use enginekit::random::Seeded;
use futures::FutureExt;

/// A file of the folder `shared` beside the repository, which has independent judges and foreign
/// disks. A clone alone does not have it: then this says so, and the caller skips. With
/// `DURAMEN_ALONE=1` the folder counts as absent.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    if std::env::var_os("DURAMEN_ALONE").is_some() {
        return skip(&format!("{path} is hidden by DURAMEN_ALONE"));
    }
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if file.exists() {
        return Some(file);
    }
    skip(&format!("{} is not there", file.display()))
}

/// Reports loudly that a test shows nothing here, and why.
pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    eprintln!("SKIPPED, NOTHING TESTED: {reason}");
    None
}

/// A disk that a FreeBSD 14 kernel wrote, `little` or `big` endian.
pub(crate) fn freebsd_disk(endian: &str) -> Option<Vec<u8>> {
    let file = shared(&format!("images/freebsd14-{endian}-endian.img.xz"))?;
    match Command::new("xz").arg("-dkc").arg(&file).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => panic!("xz: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(&format!("xz cannot be run: {error}")),
    }
}

/// An operation on a [`MemoryDisk`].
#[derive(Clone)]
pub(crate) enum Event {
    /// Bytes written at an offset.
    Write(u64, Vec<u8>),
    /// A flush.
    Flush,
}

/// A sparse disk in memory that records its operations.
pub(crate) struct MemoryDisk {
    geometry: block::Geometry,
    pages: Rc<RefCell<Pages>>,
    events: Rc<RefCell<Vec<Event>>>,
    forgets: Rc<Cell<bool>>,
    bytes_read: Rc<Cell<u64>>,
    /// Sectors of 512 bytes that cannot be read before they are written.
    unreadable: Rc<RefCell<BTreeSet<u64>>>,
}

/// Everything written so far, by page number; forks share unchanged pages.
type Pages = BTreeMap<u64, Rc<Vec<u8>>>;

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;
const EIO: i32 = 5;

impl MemoryDisk {
    /// A disk of zeros with sectors of 512 bytes.
    pub(crate) fn new(size: u64) -> Self {
        let geometry = block::Geometry {
            size,
            logical_sector_size: 512,
            physical_sector_size: 512,
            read_only: false,
            stripe: None,
            platters: None,
        };
        Self {
            geometry,
            pages: Rc::default(),
            events: Rc::default(),
            forgets: Rc::default(),
            bytes_read: Rc::default(),
            unreadable: Rc::default(),
        }
    }

    /// A separate disk with the same content and no recorded operations.
    pub(crate) fn fork(&self) -> Self {
        let pages = Rc::new(RefCell::new(self.pages.borrow().clone()));
        Self { geometry: self.geometry, pages, ..Self::new(0) }
    }

    /// Total number of bytes read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.get()
    }

    /// Pages that differ from those of `other`: offset and content here.
    pub(crate) fn differences(&self, other: &Self) -> Vec<(u64, Vec<u8>)> {
        let (own, others) = (self.pages.borrow(), other.pages.borrow());
        let changed = own.iter().filter(|(number, page)| {
            others.get(number).is_none_or(|old| !Rc::ptr_eq(old, page) && old != *page)
        });
        changed.map(|(number, page)| (number * PAGE, page.to_vec())).collect()
    }

    /// A disk of zeros with other sectors.
    pub(crate) fn with_sectors(size: u64, sector: u32) -> Self {
        let mut disk = Self::new(size);
        disk.geometry.logical_sector_size = sector;
        disk
    }

    /// The same content with other sectors.
    pub(crate) fn fork_with_sectors(&self, sector: u32) -> Self {
        let mut disk = self.fork();
        disk.geometry.logical_sector_size = sector;
        disk
    }

    /// A write-protected disk of zeros.
    pub(crate) fn read_only(size: u64) -> Self {
        let mut disk = Self::new(size);
        disk.geometry.read_only = true;
        disk
    }

    /// Makes the bytes of a range unreadable until they are written.
    pub(crate) fn spoil(&self, range: Range<u64>) {
        assert!(range.start.is_multiple_of(SECTOR) && range.end.is_multiple_of(SECTOR));
        self.unreadable.borrow_mut().extend(range.step_by(SECTOR as usize));
    }

    /// Number of sectors that still cannot be read.
    pub(crate) fn spoilt(&self) -> usize {
        self.unreadable.borrow().len()
    }

    /// All operations so far, in order.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Stops recording operations: for loads whose history would not fit into memory.
    pub(crate) fn forget_events(&self) {
        self.forgets.set(true);
        self.events.borrow_mut().clear();
    }

    /// Bytes from an offset on.
    pub(crate) fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        copy_out(&self.pages.borrow(), offset, &mut bytes);
        bytes
    }

    /// Writes bytes to the disk without recording it.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        copy_in(&mut self.pages.borrow_mut(), offset, bytes);
    }

    /// Copies the disk to a file, sparsely.
    pub(crate) fn save(&self, path: &Path) {
        let mut file = std::fs::File::create(path).expect("a file in the temporary directory");
        file.set_len(self.geometry.size).expect("sparse files are long for free");
        for (page, bytes) in self.pages.borrow().iter() {
            file.seek(SeekFrom::Start(page * PAGE)).expect("it seeks");
            let length = (self.geometry.size - page * PAGE).min(PAGE) as usize;
            file.write_all(&bytes[..length]).expect("there is room");
        }
    }
}

fn copy_out(pages: &Pages, offset: u64, bytes: &mut [u8]) {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let start = (at % PAGE) as usize;
        let length = rest.len().min(PAGE as usize - start);
        let (piece, others) = rest.split_at_mut(length);
        match pages.get(&(at / PAGE)) {
            Some(page) => piece.copy_from_slice(&page[start..start + length]),
            None => piece.fill(0),
        }
        (at, rest) = (at + length as u64, others);
    }
}

fn copy_in(pages: &mut Pages, offset: u64, bytes: &[u8]) {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let start = (at % PAGE) as usize;
        let (piece, others) = rest.split_at(rest.len().min(PAGE as usize - start));
        let page = pages.entry(at / PAGE).or_insert_with(|| Rc::new(vec![0; PAGE as usize]));
        Rc::make_mut(page)[start..start + piece.len()].copy_from_slice(piece);
        (at, rest) = (at + piece.len() as u64, others);
    }
}

impl BlockDevice for MemoryDisk {
    fn geometry(&self) -> block::Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        // A damaged superblock may claim that the disk is larger than it is.
        let refused = self.geometry.check(block::Verb::Read, offset, buffer.len() as u64);
        let pages = self.pages.clone();
        let length = buffer.len() as u64;
        self.bytes_read.set(self.bytes_read.get() + length);
        let spoilt = self.unreadable.borrow().range(offset..offset + length).next().is_some();
        Box::pin(async move {
            refused?;
            if spoilt {
                let error = std::io::Error::from_raw_os_error(EIO);
                return Err(block::IoError::from_os(block::Verb::Read, offset, length, &error));
            }
            copy_out(&pages.borrow(), offset, &mut buffer);
            Ok(buffer)
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        let bytes = data.concat();
        let sector = u64::from(self.geometry.logical_sector_size);
        assert!(offset.is_multiple_of(sector), "a write at byte {offset}");
        assert!((bytes.len() as u64).is_multiple_of(sector), "a write of {} bytes", bytes.len());
        let refused = self.geometry.check(block::Verb::Write, offset, bytes.len() as u64);
        let (pages, events) = (self.pages.clone(), self.events.clone());
        let forgets = self.forgets.get();
        let unreadable = self.unreadable.clone();
        Box::pin(async move {
            refused?;
            let end = offset + bytes.len() as u64;
            unreadable.borrow_mut().retain(|sector| !(offset..end).contains(sector));
            copy_in(&mut pages.borrow_mut(), offset, &bytes);
            if !forgets {
                events.borrow_mut().push(Event::Write(offset, bytes));
            }
            Ok(())
        })
    }

    fn flush(&self) -> Io<()> {
        let events = self.events.clone();
        Box::pin(async move {
            events.borrow_mut().push(Event::Flush);
            Ok(())
        })
    }

    fn discard(&self, _offset: u64, _length: u64) -> Io<()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Io<()> {
        Box::pin(async { Ok(()) })
    }
}

/// Findings of our own checker and an independent one on a disk that should be a clean UFS2 file
/// system: an empty text if neither finds anything, `None` if ours does not and the other is
/// missing.
pub(crate) fn findings(disk: &MemoryDisk, name: &str) -> Option<String> {
    let runtime = World::new(0).runtime();
    // The caller may be a task already.
    let own = own_findings(disk, &runtime).now_or_never().expect("a disk in memory never waits");
    if own.is_empty() { foreign::findings_in(name, |path| disk.save(path)) } else { Some(own) }
}

/// Findings of our own checker on a disk.
pub(crate) async fn own_findings(device: &dyn BlockDevice, runtime: &runtime::Runtime) -> String {
    let options = fsck::CheckOptions::default();
    match fsck::check(device, runtime, &options, &mut |_| ()).await {
        Ok(report) => report.findings.list.iter().map(|finding| format!("{finding}\n")).collect(),
        Err(error) => error.to_string(),
    }
}

/// A path in the temporary directory that no other test has.
pub(crate) fn temporary(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(format!("ffs-{process}-{number}-{name}.img"))
}

/// A stopped clock and a pool of tasks on this thread: a world in which only work makes progress.
pub(crate) struct World {
    pool: RefCell<futures::executor::LocalPool>,
    runtime: runtime::Runtime,
}

struct StillClock(Cell<u64>);

impl runtime::Clock for StillClock {
    fn now(&self) -> runtime::Instant {
        runtime::Instant(self.0.get())
    }

    fn wall(&self) -> runtime::Timestamp {
        self.0.set(self.0.get() + 1);
        runtime::Timestamp { seconds: 1_800_000_000, nanoseconds: self.0.get() as u32 }
    }

    fn sleep(
        &self,
        _duration: std::time::Duration,
    ) -> futures::future::LocalBoxFuture<'static, ()> {
        Box::pin(futures::future::pending())
    }
}

struct Pool(futures::executor::LocalSpawner);

impl runtime::Spawn for Pool {
    fn spawn(&self, task: futures::future::LocalBoxFuture<'static, ()>) {
        use futures::task::LocalSpawn;
        self.0.spawn_local_obj(task.into()).expect("the pool lives");
    }
}

impl World {
    /// A world from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let pool = futures::executor::LocalPool::new();
        let runtime = runtime::Runtime {
            clock: Rc::new(StillClock(Cell::new(0))),
            random: Rc::new(Seeded::new(seed)),
            tasks: Rc::new(Pool(pool.spawner())),
        };
        Self { pool: RefCell::new(pool), runtime }
    }

    /// The runtime for an engine.
    pub(crate) fn runtime(&self) -> runtime::Runtime {
        self.runtime.clone()
    }

    /// Runs a future, and the tasks beside it, until it ends or nothing makes progress. Disks in
    /// memory never wait: anything not done after some turns never will be.
    pub(crate) fn run_or_stall<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        const TURNS: usize = 10_000;
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..TURNS {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            self.pool.borrow_mut().run_until_stalled();
        }
        None
    }

    /// Runs a future, and the tasks beside it, until it ends.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.pool.borrow_mut().run_until(future)
    }
}
