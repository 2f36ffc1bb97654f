//! Costs of a reply under policy `log`: flushes and through-writes, and reads of overwritten data,
//! counted on real files.
//!
//! The clock is stopped here, so the sync never begins by itself: every counted flush is one that a
//! reply waits for.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use block::file::{DiskFile, FileDevice};
use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use ffs::OpenOptions;
use futures::future::join_all;
use namespace::Namespace;
use runtime::Timestamp;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, Requester, Stability};

use crate::common::volume::{Volume, open_with_log};
use crate::common::{Seeded, World, temporary};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// A device that counts barriers, and bytes that are read.
struct Counted {
    below: FileDevice,
    barriers: Rc<Cell<u64>>,
    read: Cell<u64>,
    path: PathBuf,
}

impl Counted {
    fn new(name: &str, size: u64, barriers: &Rc<Cell<u64>>) -> Rc<Self> {
        let path = temporary(name);
        let file = DiskFile::create(&path, size).expect("a file in the temporary directory");
        let (barriers, read) = (barriers.clone(), Cell::new(0));
        Rc::new(Self { below: FileDevice::new(file), barriers, read, path })
    }

    fn count(&self) {
        self.barriers.set(self.barriers.get() + 1);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl BlockDevice for Counted {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.read.set(self.read.get() + buffer.len() as u64);
        self.below.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        if durability == Durability::Through {
            self.count();
        }
        self.below.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.count();
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.below.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.below.close()
    }
}

/// A volume with a log, and a counter of its barriers. A file exists already, so that nothing has
/// to be prepared any more.
fn with_volume(name: &str, test: impl AsyncFnOnce(&Volume, &Cell<u64>)) {
    let usual = OpenOptions::default().cache_bytes;
    with_disk(name, usual, async |volume, disk| test(volume, &disk.barriers).await);
}

/// The same with `cache_bytes` of memory, and the disk of the volume.
fn with_disk(name: &str, cache_bytes: usize, test: impl AsyncFnOnce(&Volume, &Counted)) {
    let barriers = Rc::new(Cell::new(0));
    let disk = Counted::new(&format!("{name}-disk"), 256 << 20, &barriers);
    let log = Counted::new(&format!("{name}-log"), 32 << 20, &barriers);
    let world = World::new(1);
    world.run(async {
        let random = Seeded::new(7);
        mkfs(&*disk, &MkfsOptions::default(), &random, NOW).await.expect("the disk holds it");
        let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
        let opened =
            open_with_log(disk.clone(), Some(log), world.runtime(), &options, &mut |_| ()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
        let volume = Volume { files: Namespace::new(engine), root: Requester::root() };
        volume.create(volume.files.root(), "first").await.expect("new");
        test(&volume, &disk).await;
        volume.files.shutdown().await.expect("a clean stop");
    });
}

/// Number of barriers that an operation costs.
async fn cost(barriers: &Cell<u64>, work: impl Future<Output = ()>) -> u64 {
    let before = barriers.get();
    work.await;
    barriers.get() - before
}

#[test]
fn one_at_a_time_costs_one_barrier_or_two() {
    with_volume("single", async |volume, barriers| {
        let root = volume.files.root();
        let made = cost(barriers, async {
            volume.create(root, "file").await.expect("new");
        });
        assert_eq!(made.await, 1, "CREATE");
        let id = volume.lookup(root, "file").await.expect("it was made");
        let write = |offset: u64, length: usize, stability| async move {
            volume.write(id, offset, vec![0xa5; length], stability).await.expect("there is room");
        };
        let small = cost(barriers, write(0, 1024, Stability::FileSync)).await;
        assert_eq!(small, 1, "1 KiB to a new file: it rides in the entry");
        let large = cost(barriers, write(0, 1 << 20, Stability::FileSync)).await;
        assert_eq!(large / 8, 0, "1 MiB of new blocks");
        let aligned = cost(barriers, write(64 << 10, 8 << 10, Stability::FileSync)).await;
        assert_eq!(aligned, 1, "an aligned overwrite of 8 KiB rides in the entry");
        let direct = cost(barriers, write(0, 64 << 10, Stability::FileSync)).await;
        assert_eq!(direct, 2, "an overwrite of 64 KiB: a flush, and the entry");
        let new_blocks = cost(barriers, write(1 << 20, 64 << 10, Stability::FileSync)).await;
        assert_eq!(new_blocks, 2, "new blocks: a flush, and the entry");
        let unstable = cost(barriers, write(0, 64 << 10, Stability::Unstable)).await;
        assert_eq!(unstable, 0, "UNSTABLE");
        let commit = cost(barriers, async {
            volume.commit(id).await.expect("it lands");
        });
        assert_eq!(commit.await, 2, "COMMIT: a flush, and the entry");
        let removed = cost(barriers, async {
            volume.remove(root, "first").await.expect("it is there");
        });
        assert_eq!(removed.await, 1, "REMOVE");
    });
}

#[test]
fn many_at_a_time_share_their_barriers() {
    with_volume("many", async |volume, barriers| {
        let root = volume.files.root();
        let rounds = 20;
        let all = cost(barriers, async {
            for round in 0..rounds {
                let made = (0..32).map(|index| async move {
                    volume.create(root, &format!("f-{round}-{index}")).await.expect("new");
                });
                join_all(made).await;
            }
        });
        let (all, creates) = (all.await, rounds * 32);
        println!("{creates} CREATEs, 32 at a time in one directory: {all} barriers");
        assert!(all * 8 <= creates, "{all} barriers for {creates} CREATEs");
    });
}

#[test]
fn what_is_written_over_is_read_only_where_it_stays() {
    with_disk("over", 0, async |volume, disk| {
        const FRAGMENT: u64 = 4096;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let old = vec![0xa5; 40 * FRAGMENT as usize + 100];
        volume.write(id, 0, old.clone(), Stability::FileSync).await.expect("there is room");
        let mut expected = old;
        let cases = [
            (8 * FRAGMENT, 2 * FRAGMENT, 0),            // within a block
            (15 * FRAGMENT, 2 * FRAGMENT, 0),           // over the border of two
            (0, 8 * FRAGMENT, 0),                       // all of one
            (39 * FRAGMENT, FRAGMENT + 100, 0),         // to the end of the file, within a fragment
            (5 * FRAGMENT + 1, 10, FRAGMENT),           // a part of a fragment
            (8 * FRAGMENT - 1, 2, 2 * FRAGMENT),        // of two, in two blocks
            (40 * FRAGMENT, 99, FRAGMENT),              // of the last one, which is not full
            (FRAGMENT, 2 * FRAGMENT - 1, 2 * FRAGMENT), // one and a part: both, in one read
        ];
        for (step, (offset, length, read)) in cases.into_iter().enumerate() {
            let data = vec![step as u8; length as usize];
            expected[offset as usize..][..length as usize].copy_from_slice(&data);
            let before = disk.read.get();
            volume.write(id, offset, data, Stability::FileSync).await.expect("it is there");
            assert_eq!(disk.read.get() - before, read, "{length} bytes at byte {offset}");
        }
        assert!(volume.read(id).await.expect("all of it") == expected);
    });
}

#[test]
fn data_that_is_used_again_is_not_read_again() {
    with_disk("again", OpenOptions::default().cache_bytes, async |volume, disk| {
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let data = vec![0x5a; 3 << 20];
        let read = async || {
            let before = disk.read.get();
            assert!(volume.read(id).await.expect("all of it") == data);
            disk.read.get() - before
        };
        volume.write(id, 0, data.clone(), Stability::FileSync).await.expect("there is room");
        assert_eq!(read().await, 0, "what was just written");
        // A partly overwritten block is read once more, and nothing else.
        volume.write(id, 70_000, vec![0x5a; 10], Stability::FileSync).await.expect("it is there");
        assert_eq!(read().await, 32 << 10, "the block of it");
        assert_eq!(read().await, 0, "what was just read");
    });
}
