//! A label changed during a power failure: the next opening needs no repair.

use std::rc::Rc;

use ffs::{OpenOptions, label};
use namespace::Namespace;
use runtime::Timestamp;
use sim::Executor;
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::FileSystem;
use zerocopy::FromBytes;

use crate::common::volume::open_with_log;
use crate::common::{Event, MemoryDisk, Seeded};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const SECTOR: usize = 512;

/// Fields of the superblock: the label, whether it was stopped cleanly, and whether its hash is
/// right.
fn told(disk: &MemoryDisk) -> (String, bool, bool) {
    let mut bytes = disk.bytes(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize);
    let geometry = Geometry::parse_any_order(&mut bytes).expect("it makes sense");
    let (superblock, _) = Superblock::read_from_prefix(&bytes).expect("there is room");
    let label = superblock.volume_name.iter().take_while(|&&byte| byte != 0).copied().collect();
    let is_clean =
        superblock.clean == 1 && superblock.flags.get() & ufs2::layout::flags::NEEDS_FSCK == 0;
    let label = String::from_utf8(label).expect("a label is ASCII");
    (label, is_clean, geometry.verify_superblock(&bytes).is_ok())
}

/// Opens a copy of a volume and stops it cleanly.
fn serve(disk: &MemoryDisk) -> Result<Rc<MemoryDisk>, String> {
    let (executor, device) = (Executor::new(5), Rc::new(disk.fork()));
    executor.block_on(async {
        let (runtime, options) = (executor.runtime(), OpenOptions::default());
        let opened = open_with_log(device.clone(), None, runtime, &options, &mut |_| ()).await;
        let volume = Namespace::new(opened.map_err(|error| error.to_string())?.files);
        volume.shutdown().await.map_err(|error| error.to_string())
    })?;
    Ok(device)
}

#[test]
fn a_label_that_is_torn_needs_no_repair() {
    let disk = MemoryDisk::new(16 << 20);
    let executor = Executor::new(5);
    executor.block_on(async {
        mkfs(&disk, &MkfsOptions::default(), &Seeded::new(7), NOW).await.expect("it fits");
        label::set(&disk, "early").await.expect("it is clean");
    });
    let (before, disk) = (disk.fork(), disk.fork());
    executor.block_on(label::set(&disk, "late")).expect("it is clean");
    assert_eq!(told(&disk), ("late".to_owned(), true, true));

    let (mut torn, mut seen) = (0, Vec::new());
    for event in disk.events() {
        let Event::Write(at, bytes) = event else { continue };
        let old = before.bytes(at, bytes.len());
        let places = (0..bytes.len()).step_by(SECTOR);
        let changed: Vec<_> = places
            .map(|start| start..(start + SECTOR).min(bytes.len()))
            .filter(|range| bytes[range.clone()] != old[range.clone()])
            .collect();
        for chosen in 0..1_u32 << changed.len() {
            let cut = before.fork();
            for (index, range) in changed.iter().enumerate() {
                if chosen >> index & 1 == 1 {
                    cut.put(at + range.start as u64, &bytes[range.clone()]);
                }
            }
            torn += u32::from(!told(&cut).2);
            let served = serve(&cut);
            let served =
                served.unwrap_or_else(|wrong| panic!("{chosen:b} of {changed:?}: {wrong}"));
            let (label, is_clean, fits) = told(&served);
            assert!(is_clean && fits, "{chosen:b} of {changed:?}");
            seen.push(label);
        }
        before.put(at, &bytes); // a flush follows each write
    }
    assert!(torn > 0, "the case is there");
    assert!(seen.iter().all(|label| ["early", "late"].contains(&label.as_str())), "{seen:?}");
}
