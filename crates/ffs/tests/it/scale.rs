//! A terabyte with many files: a check reads each piece of metadata once, many at a time.
//!
//! `DURAMEN_RUNS` is the number of files: `DURAMEN_RUNS=1000000 cargo test --release -p ffs --test
//! it scale`.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Io};
use bytes::Bytes;
use fsck::{CheckOptions, check};
use ufs2::layout::SUPERBLOCK_ROOM;
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, Stability};

use crate::common::edit::geometry_of;
use crate::common::volume::fresh;
use crate::common::{MemoryDisk, World};

const TERABYTE: u64 = 1 << 40;
const FILES_IN_DIRECTORY: u64 = 1000;

/// A disk that counts bytes read, and concurrent reads.
struct Counting {
    disk: Rc<MemoryDisk>,
    bytes: Cell<u64>,
    under_way: Rc<Cell<u64>>,
    deepest: Rc<Cell<u64>>,
}

impl BlockDevice for Counting {
    fn geometry(&self) -> block::Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        let (under_way, deepest) = (self.under_way.clone(), self.deepest.clone());
        let disk = self.disk.clone();
        Box::pin(async move {
            under_way.set(under_way.get() + 1);
            deepest.set(deepest.get().max(under_way.get()));
            let mut waited = false;
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut waited, true) {
                    return std::task::Poll::Ready(());
                }
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
            let read = disk.read(offset, buffer).await;
            under_way.set(under_way.get() - 1);
            read
        })
    }

    fn write(&self, _: u64, _: Vec<Bytes>, _: Durability) -> Io<()> {
        panic!("a check that only looks writes nothing");
    }

    fn flush(&self) -> Io<()> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, _: u64, _: u64) -> Io<()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Io<()> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_terabyte_is_checked_in_one_pass_over_its_metadata() {
    let files = std::env::var("DURAMEN_RUNS").map_or(2000, |text| text.parse().expect("a number"));
    let world = World::new(1);
    let (disk, metadata) = world.run(async {
        let (disk, volume) = fresh(&world, TERABYTE, &MkfsOptions::default()).await;
        disk.forget_events();
        let root = volume.files.root();
        for first in (0..files).step_by(FILES_IN_DIRECTORY as usize) {
            let directory = volume.mkdir(root, &format!("d{first}")).await.expect("new");
            for index in first..(first + FILES_IN_DIRECTORY).min(files) {
                let file = volume.create(directory, &format!("file-{index}")).await.expect("new");
                if index % 10 == 0 {
                    let data = vec![7; 5000];
                    volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
                }
            }
        }
        volume.files.shutdown().await.expect("it stops");
        // For each group, its block twice and a copy of the superblock; inodes, in whole blocks;
        // and some 32 bytes a name, in half-full blocks.
        let geometry = geometry_of(&disk);
        let group = 2 * geometry.group_block_size + SUPERBLOCK_ROOM;
        let block = geometry.block_size;
        (disk, geometry.group_count * (group + block) + files * (256 + 64) + 64 * block)
    });
    let counting =
        Counting { disk, bytes: Cell::new(0), under_way: Rc::default(), deepest: Rc::default() };
    let report = world.run(async {
        let options = CheckOptions::default();
        check(&counting, &world.runtime(), &options, &mut |_| ()).await.expect("it can be read")
    });
    assert_eq!(report.findings.total(), 0, "{:?}", report.findings.list);
    assert_eq!(report.files, files + files.div_ceil(FILES_IN_DIRECTORY) + 1);
    assert!(counting.deepest.get() >= 16, "{} reads at once", counting.deepest.get());
    let read = counting.bytes.get();
    eprintln!("{read} bytes read of {metadata} that were to be expected at most");
    assert!(read <= metadata, "{read} bytes read, more than {metadata}");
}
