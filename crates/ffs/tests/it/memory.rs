//! Memory stays within its budget, no matter how many files are looked at, and by how many tasks at
//! once.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use ffs::OpenOptions;
use futures::future::join_all;
use namespace::Namespace;
use runtime::Random;
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, ObjectId, Requester, Stability};

use crate::common::volume::{Volume, fresh, open_with_log};
use crate::common::{MemoryDisk, Seeded, World};

/// Few groups: their maps stay in memory.
const DISK: u64 = 64 << 20;
const FILES: u64 = 4_000;
/// The inodes of all files take four times as much.
const CACHE: usize = 256 << 10;

/// A disk that completes a moment later, so that other tasks have their turn.
struct Slow(Rc<MemoryDisk>);

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let disk = self.0.clone();
        Box::pin(async move {
            pause().await;
            disk.read(offset, buffer).await
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.0.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.0.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.0.close()
    }
}

/// Lets other tasks have their turn.
async fn pause() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A volume with `cache_bytes` of memory.
async fn open_with(world: &World, disk: Rc<dyn BlockDevice>, cache_bytes: usize) -> Volume {
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    let opened = open_with_log(disk, None, world.runtime(), &options, &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
    Volume { files: Namespace::new(engine), root: Requester::root() }
}

struct Tree {
    disk: Rc<MemoryDisk>,
    directories: Vec<ObjectId>,
}

/// Options with blocks so small that many fit into a small memory.
fn small_blocks() -> MkfsOptions {
    MkfsOptions { block_size: 8192, fragment_size: 1024, ..MkfsOptions::default() }
}

/// A clean disk with files in some directories.
async fn tree(world: &World, directories: u64) -> Tree {
    let (disk, volume) = fresh(world, DISK, &small_blocks()).await;
    let mut made = Vec::new();
    for directory in 0..directories {
        let parent = volume.mkdir(volume.files.root(), &format!("d{directory}")).await;
        made.push(parent.expect("new"));
    }
    for file in 0..FILES {
        let parent = made[(file % directories) as usize];
        volume.create(parent, &format!("n{file}")).await.expect("new");
    }
    volume.files.shutdown().await.expect("it stops");
    Tree { disk, directories: made }
}

impl Tree {
    async fn open(&self, world: &World) -> Volume {
        open_with(world, Rc::new(Slow(self.disk.clone())), CACHE).await
    }

    async fn look(&self, volume: &Volume, file: u64) {
        let parent = self.directories[(file % self.directories.len() as u64) as usize];
        volume.lookup(parent, &format!("n{file}")).await.expect("it is there");
    }
}

#[test]
fn looking_at_many_files_keeps_within_the_memory_for_them() {
    for directories in [1, 100] {
        let world = World::new(1);
        let most = world.run(async {
            let tree = tree(&world, directories).await;
            let volume = tree.open(&world).await;
            let chance = Seeded::new(5);
            let mut most = 0;
            for _ in 0..FILES {
                tree.look(&volume, chance.next_u64() % FILES).await;
                most = most.max(volume.files.store().cached_bytes());
            }
            volume.files.shutdown().await.expect("it stops");
            most
        });
        // If there is only one directory, its names, which are in use, exceed the budget.
        let names = if directories == 1 { FILES as usize * 100 } else { 0 };
        let budget = CACHE + names;
        assert!(most <= budget / 8 * 9, "{most} bytes of {budget}, {directories} directories");
    }
}

#[test]
fn many_who_look_into_a_directory_at_first_read_its_names_once() {
    let world = World::new(1);
    world.run(async {
        let tree = tree(&world, 1).await;
        let volume = tree.open(&world).await;
        tree.look(&volume, 0).await;
        let alone = volume.files.store().cached_bytes();
        volume.files.shutdown().await.expect("it stops");

        let volume = tree.open(&world).await;
        let most = Cell::new(0);
        let looks = (0..64).map(|file| {
            let (tree, volume, most) = (&tree, &volume, &most);
            async move {
                tree.look(volume, file).await;
                most.set(volume.files.store().cached_bytes().max(most.get()));
            }
        });
        join_all(looks).await;
        assert!(most.get() <= 2 * alone, "{} bytes, {alone} for one", most.get());
        volume.files.shutdown().await.expect("it stops");
    });
}

#[test]
fn data_that_waits_takes_the_place_of_data_that_may_be_read_again() {
    const CACHE: usize = 4 << 20;
    const STEP: usize = 32 << 10;
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, DISK, &small_blocks()).await;
        volume.files.shutdown().await.expect("it stops");
        let volume = open_with(&world, disk, CACHE).await;
        let file = volume.create(volume.files.root(), "a").await.expect("new");
        let budget = CACHE / 8 * 7;
        let mut waited = 0;
        for (stability, count) in [(Stability::FileSync, 256), (Stability::Unstable, 48)] {
            for step in 0..count {
                let data = vec![step as u8; STEP];
                volume.write(file, (step * STEP) as u64, data, stability).await.expect("room");
                let used = volume.files.store().cached_bytes();
                assert!(used <= budget, "{used} bytes of {budget} after {step} of {stability:?}");
                waited = volume.files.store().unstable_bytes().max(waited);
            }
        }
        assert!(waited >= CACHE as u64 / 4, "only {waited} bytes waited");
        volume.files.shutdown().await.expect("it stops");
    });
}

#[test]
fn what_is_removed_takes_no_memory_from_what_is_there() {
    const LENGTH: usize = 1 << 20;
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, DISK, &small_blocks()).await;
        volume.files.shutdown().await.expect("it stops");
        let volume = open_with(&world, disk, 8 << 20).await;
        let (root, store) = (volume.files.root(), volume.files.store());
        let before = store.cached_bytes();
        let file = volume.create(root, "a").await.expect("new");
        for at in (0..LENGTH).step_by(32 << 10) {
            let data = vec![7; 32 << 10];
            volume.write(file, at as u64, data, Stability::FileSync).await.expect("room");
        }
        assert!(store.cached_bytes() >= before + LENGTH, "it may be read again");
        volume.remove(root, "a").await.expect("it is there");
        volume.create(root, "b").await.expect("new"); // the removal completes after the reply
        let left = store.cached_bytes();
        assert!(left < before + LENGTH / 4, "{left} bytes, {before} before");
        volume.files.shutdown().await.expect("it stops");
    });
}
