//! Late readers: the block that they read was freed meanwhile, and has a new owner.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IsRight};
use bytes::Bytes;
use cow::{INODES, Kind};
use enginekit::Volume;
use enginekit::snapshots::{delete, pin};
use futures::FutureExt;
use futures::future::join;
use runtime::Runtime;
use runtime::sync::Signal;
use shadow::{OpenOptions, Shadow, open};
use sim::{Disk, Executor};
use vfs::{FileSystem, FsError, SnapshotNumber, Stability};

use crate::bench::{Setting, findings, made};
use crate::forge::versions;
use crate::scrub::{UNIT, unit_of};

/// A mirror of two disks, of which the second may lose writes. Reads go to the first, and some are
/// slow.
struct Mirror {
    disks: [Rc<Disk>; 2],
    /// Bytes that the second disk does not get.
    lost: RefCell<Vec<Range<u64>>>,
    /// Bytes whose reads start when this is empty.
    slow: RefCell<Vec<Range<u64>>>,
    quick: Signal,
    waited: Cell<u64>,
    mended: Cell<u64>,
}

fn meet(some: &RefCell<Vec<Range<u64>>>, range: &Range<u64>) -> bool {
    let some = some.borrow();
    some.iter().any(|one| one.start < range.end && range.start < one.end)
}

impl Mirror {
    fn of(disks: [Rc<Disk>; 2]) -> Rc<Self> {
        let (lost, slow) = (RefCell::default(), RefCell::default());
        Rc::new(Self {
            disks,
            lost,
            slow,
            quick: Signal::new(),
            waited: Cell::new(0),
            mended: Cell::new(0),
        })
    }

    fn release(&self) {
        self.lost.take();
        self.slow.take();
        self.quick.notify();
    }
}

/// The device that an opening gets.
struct Handle(Rc<Mirror>);

impl BlockDevice for Handle {
    fn geometry(&self) -> Geometry {
        self.0.disks[0].geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let mirror = self.0.clone();
        let range = offset..offset + buffer.len() as u64;
        async move {
            while meet(&mirror.slow, &range) {
                mirror.waited.set(mirror.waited.get() + 1);
                mirror.quick.wait().await;
            }
            mirror.disks[0].read(offset, buffer).await
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let range = offset..offset + block::length_of(&data);
        let first = self.0.disks[0].write(offset, data.clone(), durability);
        if meet(&self.0.lost, &range) {
            return first;
        }
        let second = self.0.disks[1].write(offset, data, durability);
        async move { first.await.and(second.await) }.boxed_local()
    }

    fn flush(&self) -> Io<()> {
        let [first, second] = [0, 1].map(|disk: usize| self.0.disks[disk].flush());
        async move { first.await.and(second.await) }.boxed_local()
    }

    fn discard(&self, _: u64, _: u64) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        let mirror = self.0.clone();
        async move {
            for disk in &mirror.disks {
                let version = disk.read(offset, Buffer::unfilled(length as usize)).await?;
                if is_right(&version) {
                    mirror.mended.set(mirror.mended.get() + 1);
                    let right = vec![Buffer::copied(&version).freeze()];
                    for disk in &mirror.disks {
                        disk.write(offset, right.clone(), Durability::Plain).await?;
                    }
                    return Ok(Some(version));
                }
            }
            Ok(None)
        }
        .boxed_local()
    }

    fn close(&self) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }
}

const BLOCKS: u64 = 150;
/// The block that is read too late: the first that is read ahead.
const LATE: u64 = READ as u64;
/// Blocks that are read with one request before.
const READ: u32 = 64;

async fn opened(runtime: Runtime, mirror: &Rc<Mirror>) -> Result<Volume<Shadow>, String> {
    let device = Rc::new(Handle(mirror.clone()));
    let opened = open(device, runtime, &OpenOptions::default()).await;
    opened.map(Volume::new).map_err(|error| error.to_string())
}

/// Contents of a block, different in each file.
fn content(file: u64, block: u64) -> Vec<u8> {
    (0..512_u64).flat_map(|at| (at << 32 | file << 16 | block).to_le_bytes()).collect()
}

async fn written(volume: &Volume<Shadow>, file: u64, blocks: u64) -> Result<(), String> {
    let id = volume.create(volume.files.root(), &format!("f{file}")).await;
    let id = id.map_err(|error| error.to_string())?;
    let data: Vec<u8> = (0..blocks).flat_map(|block| content(file, block)).collect();
    volume.write(id, 0, data, Stability::FileSync).await.map_err(|error| error.to_string())
}

/// Writes until a unit has a new owner.
async fn take(volume: &Volume<Shadow>, mirror: &Mirror, unit: u64) {
    let there = || unit_of(&mirror.disks[0].contents(), unit);
    let before = there();
    for file in 1.. {
        if there() != before || written(volume, file, 6).await.is_err() {
            return;
        }
    }
}

/// A mirror of two disks with a new volume.
fn mirrored(executor: &Executor) -> Rc<Mirror> {
    let disk = executor.block_on(made(executor, &Setting::of(4, 64, 3 << 20)));
    let other = Disk::new(executor, disk.contents());
    Mirror::of([disk, other])
}

/// A file is read, and the following block is read ahead. Before that block arrives, the file is
/// truncated, and another file gets its place. One disk has lost the write of that, so it has data
/// that matches the old pointer.
pub(crate) fn what_is_read_ahead_mends_nothing() -> Result<(), String> {
    let executor = Executor::new(1);
    let mirror = mirrored(&executor);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &mirror).await?;
        written(&volume, 0, BLOCKS).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    let image = mirror.disks[0].contents();
    let is_late = |unit: &u64| unit_of(&image, *unit) == content(0, LATE);
    let late = (0..image.size() / UNIT).find(is_late).expect("it was written") * UNIT;
    executor.block_on(async {
        let volume = opened(executor.runtime(), &mirror).await?;
        let file = volume.lookup(volume.files.root(), "f0").await.expect("it is there");
        mirror.slow.borrow_mut().push(late..late + UNIT);
        let read = volume.files.read(&volume.root, file, 0, READ * 4096).await;
        read.open().await.expect("running").into_inner().result.expect("it is well");
        assert!(mirror.waited.get() > 0, "what follows is being read");
        mirror.lost.borrow_mut().push(late..late + UNIT);
        volume.resize(file, 0).await.map_err(|error| error.to_string())?;
        volume.settle().await;
        take(&volume, &mirror, late / UNIT).await;
        mirror.release();
        executor.runtime().clock.sleep(Duration::from_secs(1)).await;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    let is_taken = unit_of(&mirror.disks[0].contents(), late / UNIT) != content(0, LATE);
    if mirror.mended.get() > 0 {
        return Err(format!("a late reader mended, and the new owner is there: {is_taken}"));
    }
    assert!(is_taken, "the place has another owner");
    findings(&mirror.disks[0].contents())
}

/// The blocks of the inode of a file that snapshots may hold are read. Meanwhile the snapshot is
/// deleted, and the blocks have new owners, whose writes one disk has lost.
pub(crate) fn what_a_snapshot_had_is_mended_no_more() -> Result<(), String> {
    let executor = Executor::new(1);
    let mirror = mirrored(&executor);
    let (file, held) = executor.block_on(async {
        let volume = opened(executor.runtime(), &mirror).await?;
        written(&volume, 0, BLOCKS).await?;
        let file = volume.lookup(volume.files.root(), "f0").await.expect("it is there");
        pin(&volume, "then").await?;
        let image = mirror.disks[0].contents();
        let versions = versions(&image, (Kind::INODES, 0, 0, file.ino.0 / INODES), |_| true);
        let held = *versions.last().expect("it was written");
        volume.resize(file, 5000).await.map_err(|error| error.to_string())?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((file, held * UNIT..(held + 1) * UNIT))
    })?;
    let before = mirror.disks[0].contents();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &mirror).await?;
        mirror.slow.borrow_mut().push(held.clone());
        let read = volume.files.getattr(file.within(SnapshotNumber(1)));
        let others = async {
            executor.runtime().clock.sleep(Duration::from_millis(10)).await;
            mirror.lost.borrow_mut().push(held.clone());
            let gone = delete(&volume, "then", true).await;
            take(&volume, &mirror, held.start / UNIT).await;
            mirror.release();
            gone
        };
        let (read, others) = join(read, others).await;
        others?;
        let read = read.open().await.expect("running").into_inner();
        assert_eq!(read.err(), Some(FsError::Stale), "the snapshot is gone");
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    let now = mirror.disks[0].contents();
    let is_taken = unit_of(&now, held.start / UNIT) != unit_of(&before, held.start / UNIT);
    if mirror.mended.get() > 0 {
        return Err(format!("a late reader mended, and the new owner is there: {is_taken}"));
    }
    assert!(is_taken, "the place has another owner");
    findings(&now)
}

/// Two snapshots share a file. The one that read its inode first is deleted: the other still has
/// its blocks mended.
pub(crate) fn what_another_snapshot_has_is_mended() -> Result<(), String> {
    let executor = Executor::new(1);
    let mirror = mirrored(&executor);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &mirror).await?;
        written(&volume, 0, BLOCKS).await?;
        let file = volume.lookup(volume.files.root(), "f0").await.expect("it is there");
        let image = mirror.disks[0].contents();
        let place = (Kind::POINTERS, file.ino.0, 1, 0);
        let shared = *versions(&image, place, |_| true).last().expect("it was written");
        for number in 1..=INODES {
            written(&volume, number, 1).await?; // later ones have another block of inodes
        }
        pin(&volume, "a").await?;
        written(&volume, INODES + 1, 1).await?;
        pin(&volume, "b").await?;
        volume.resize(file, 5000).await.map_err(|error| error.to_string())?;
        for number in [1, 2] {
            let held = file.within(SnapshotNumber(number));
            let read = volume.files.getattr(held).await.open().await.expect("running");
            read.into_inner().map_err(|error| error.to_string())?;
        }
        delete(&volume, "a", true).await?;
        mirror.disks[0].rot(shared * UNIT + 1077, 2);
        let read = volume.read(file.within(SnapshotNumber(2))).await;
        let read = read.map_err(|error| format!("{error}, {} mended", mirror.mended.get()))?;
        let right: Vec<u8> = (0..BLOCKS).flat_map(|block| content(0, block)).collect();
        if read == right && mirror.mended.get() > 0 { Ok(()) } else { Err("others".to_owned()) }
    })
}

#[test]
fn a_reader_of_another_snapshot_mends() {
    assert_eq!(what_another_snapshot_has_is_mended(), Ok(()));
}

#[test]
fn a_reader_of_a_deleted_snapshot_mends_nothing() {
    assert_eq!(what_a_snapshot_had_is_mended_no_more(), Ok(()));
}

#[test]
fn a_reader_that_comes_too_late_mends_nothing() {
    assert_eq!(what_is_read_ahead_mends_nothing(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_late_reader_that_mends_is_found() {
    cache::planted::plant(Some(cache::planted::Bug::MendsAhead));
    let mended = what_is_read_ahead_mends_nothing();
    cache::planted::plant(None);
    println!("{}", mended.expect_err("it is found"));
}
