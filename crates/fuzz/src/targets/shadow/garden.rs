//! The undamaged volumes: small, with files of every kind and snapshots, one stopped and one after
//! a cut; and the pointers on them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cow::{UNIT, sum};
use namespace::Namespace;
use runtime::Timestamp;
use shadow::format::FRONT;
use shadow::format::kind;
use shadow::{MkfsOptions, OpenOptions, mkfs};
use sim::{Disk, Executor, Image};
use vfs::{CreateHow, FileSystem, ObjectId, Requester, SetAttributes, Snapshots, Stability};

use crate::targets::volume::name;

/// Units of a volume.
const UNITS: u64 = 256;
/// Offsets in a block's head of its kind, and of the update that wrote it.
const KIND: usize = 6;
const BIRTH: usize = 32;

/// A volume, and the locations of its structures.
pub(super) struct Garden {
    pub(super) image: Image,
    /// Units of live blocks, by their kind; data is kind 0.
    pub(super) kinds: BTreeMap<u8, Vec<u64>>,
    /// Locations of the pointers to a unit: the unit and byte of each.
    pub(super) ways: BTreeMap<u64, Vec<(u64, usize)>>,
}

/// The options for opening a volume.
pub(super) fn options(read_only: bool) -> OpenOptions {
    OpenOptions {
        read_only,
        cache_bytes: 2 << 20,
        housekeeping_interval: Duration::from_secs(3600),
        ..OpenOptions::default()
    }
}

/// Runs `look` on one of this thread's gardens.
pub(super) fn with<T>(is_cut: bool, look: impl FnOnce(&Garden) -> T) -> T {
    thread_local! {
        static GARDENS: [OnceCell<Garden>; 2] = const { [OnceCell::new(), OnceCell::new()] };
    }
    GARDENS.with(|gardens| look(gardens[usize::from(is_cut)].get_or_init(|| plant(is_cut))))
}

fn plant(is_cut: bool) -> Garden {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(UNITS * UNIT as u64));
    executor.block_on(grow(&executor, disk.clone(), is_cut));
    survey(disk.contents())
}

async fn grow(executor: &Executor, disk: Rc<Disk>, is_cut: bool) {
    let made = MkfsOptions {
        reserve: 0,
        block_size: UNIT as u64,
        zone_size: Some(64 << 10),
        label: "garden".to_owned(),
        ..MkfsOptions::default()
    };
    let (runtime, now) = (executor.runtime(), Timestamp { seconds: 1_800_000_000, nanoseconds: 5 });
    mkfs(&*disk, &made, &*runtime.random, now).await.expect("the disk holds it");
    let opened = shadow::open(disk, runtime, &options(false)).await.expect("it is new");
    let files = Namespace::new(opened);
    let snapshots = files.snapshots().expect("the engine has them");
    let (who, root) = (Requester::root(), files.root());
    let one = mkdir(&files, root, "one").await;
    let two = mkdir(&files, one, "two").await;
    for (index, size) in [0, 100, 5000, 9000, 40_000].into_iter().enumerate() {
        let id = create(&files, [root, one, two][index % 3], &format!("file-{index}")).await;
        write(&files, id, 0, size).await;
    }
    // At a large offset: a hole, and a tree of two levels.
    let far = create(&files, root, "far").await;
    write(&files, far, 4 << 20, 10).await;
    for (text, length) in [("short-link", 9), ("long-link", 400)] {
        let (target, none) = (vec![b't'; length], SetAttributes::default());
        let made = files.symlink(&who, root, &name(text), &target, none).await.open().await;
        made.expect("running").into_inner().result.expect("room");
    }
    pin(snapshots, "first").await;
    write(&files, far, 4096, 100).await;
    remove(&files, one, "file-1").await;
    pin(snapshots, "second").await;
    let last = create(&files, two, "three").await;
    write(&files, last, 0, 20_000).await;
    remove(&files, root, "file-0").await;
    write(&files, far, 8192, 300).await;
    if !is_cut {
        files.shutdown().await.expect("the disk works");
    }
}

async fn mkdir(files: &impl FileSystem, parent: ObjectId, text: &str) -> ObjectId {
    let (who, mode) =
        (Requester::root(), SetAttributes { mode: Some(0o755), ..Default::default() });
    let made = files.mkdir(&who, parent, &name(text), mode).await.open().await;
    made.expect("running").into_inner().result.expect("room").id
}

async fn create(files: &impl FileSystem, parent: ObjectId, text: &str) -> ObjectId {
    let (who, how) = (Requester::root(), CreateHow::Guarded(SetAttributes::default()));
    let made = files.create(&who, parent, &name(text), how).await.open().await;
    made.expect("running").into_inner().result.expect("room").id
}

async fn write(files: &impl FileSystem, id: ObjectId, offset: u64, size: usize) {
    let (who, data) = (Requester::root(), vec![Bytes::from(vec![b'd'; size])]);
    let written = files.write(&who, id, offset, data, Stability::FileSync).await.open().await;
    written.expect("running").into_inner().result.expect("room");
}

async fn remove(files: &impl FileSystem, parent: ObjectId, text: &str) {
    let removed = files.remove(&Requester::root(), parent, &name(text)).await.open().await;
    removed.expect("running").into_inner().result.expect("it is there");
}

async fn pin(snapshots: &dyn Snapshots, text: &str) {
    let made = snapshots.pin(&name(text)).await.open().await;
    made.expect("running").into_inner().expect("room");
}

/// A unit of an image.
pub(super) fn unit_of(image: &Image, unit: u64) -> Vec<u8> {
    let mut bytes = vec![0; UNIT];
    image.read(unit * UNIT as u64, &mut bytes);
    bytes
}

/// The pointer to a block.
pub(super) fn pointer(unit: u64, bytes: &[u8], birth: [u8; 8]) -> [u8; 24] {
    let mut pointer = [0; 24];
    pointer[..8].copy_from_slice(&unit.to_le_bytes());
    pointer[8..16].copy_from_slice(&birth);
    pointer[16..].copy_from_slice(&sum(bytes).to_le_bytes());
    pointer
}

/// The kind of a block; data is 0.
pub(super) fn kind(bytes: &[u8]) -> u8 {
    if bytes.starts_with(b"DuSh") { bytes[KIND] } else { 0 }
}

/// The update that wrote a block, according to its head.
pub(super) fn birth(bytes: &[u8]) -> [u8; 8] {
    bytes[BIRTH..][..8].try_into().expect("8 bytes")
}

/// Finds all pointers, starting from anchors and superblocks.
fn survey(image: Image) -> Garden {
    let units: Vec<Vec<u8>> = (0..UNITS).map(|unit| unit_of(&image, unit)).collect();
    let sums: Vec<[u8; 8]> = units.iter().map(|bytes| sum(bytes).to_le_bytes()).collect();
    let is_first = |kind: u8| kind == kind::ANCHOR.byte() || kind == kind::SUPERBLOCK.byte();
    let mut waiting: Vec<u64> =
        (0..UNITS).filter(|&unit| is_first(kind(&units[unit as usize]))).collect();
    let (mut seen, mut ways) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
    while let Some(unit) = waiting.pop() {
        let bytes = &units[unit as usize];
        if !seen.insert(unit) || kind(bytes) == 0 {
            continue;
        }
        for at in (64..UNIT - 24).step_by(4) {
            let to = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
            if (FRONT..UNITS).contains(&to) && bytes[at + 16..at + 24] == sums[to as usize] {
                ways.entry(to).or_default().push((unit, at));
                waiting.push(to);
            }
        }
    }
    let mut kinds = BTreeMap::<_, Vec<_>>::new();
    for unit in seen {
        kinds.entry(kind(&units[unit as usize])).or_default().push(unit);
    }
    assert!(kinds.len() >= 10, "{kinds:?}");
    Garden { image, kinds, ways }
}
