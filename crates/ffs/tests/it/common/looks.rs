//! Attributes of files reported with little memory.

use std::rc::Rc;
use std::time::Duration;

use enginekit::names;
use ffs::OpenOptions;
use ffs::policy::log::LogOptions;
use runtime::Timestamp;
use sim::Honesty;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, SetAttributes};

use super::tree::Setting;
use super::volume::{Volume, name, open_with_log};
use super::{MemoryDisk, Seeded, World};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// The inodes of all files take twice as much.
const CACHE: usize = 256 << 10;

/// Names that are made, removed, moved and made again lead where they should.
pub(crate) fn names_lead_to_their_files() -> Result<(), String> {
    let options = MkfsOptions::default();
    let (size, honesty) = (64 << 20, Honesty::Honest);
    names::names_lead_to_their_files(&Setting { options, size, steps: 0, honesty, log: 0 })
}

/// A file gets the maximum number of names, and no more.
pub(crate) fn a_file_has_no_more_names_than_it_may() -> Result<(), String> {
    let options = MkfsOptions::default();
    let (size, honesty) = (64 << 20, Honesty::Honest);
    let setting = Setting { options, size, steps: 0, honesty, log: 0 };
    names::a_file_has_no_more_names_than_it_may(&setting)
}

/// LOOKUP and READDIRPLUS report the attributes that were answered before, with memory for few of
/// the files and with changes that are in the log and not yet in place.
pub(crate) fn what_is_told_is_never_stale() -> Result<(), String> {
    (1..4).try_for_each(|seed| stale(seed).map_err(|what| format!("seed {seed}: {what}")))
}

fn stale(seed: u64) -> Result<(), String> {
    in_little_memory(seed, async |volume| {
        names::what_is_told_is_never_stale(volume, &Seeded::new(seed)).await
    })
}

/// Attributes from LOOKUP of files whose changes are in the log alone, when memory is full of
/// others again. The changed files are so few that their blocks stay pinned. READs of other files
/// push the files out of memory, and LOOKUPs fill it with blocks. None of the pinned blocks was
/// looked into before: a second look would read the whole block.
pub(crate) fn a_change_that_waits_is_told() -> Result<(), String> {
    const FILES: usize = 2_000;
    /// More files than inodes of a block.
    const APART: usize = 50;
    const CHANGED: usize = 10;
    in_little_memory(1, async |volume| {
        let (root, mut made) = (volume.files.root(), Vec::new());
        for number in 0..FILES {
            made.push(volume.create(root, &format!("n{number}")).await.expect("new"));
        }
        let changed = || (0..CHANGED * APART).step_by(APART);
        for number in changed() {
            let change = SetAttributes { mode: Some(0o123), ..SetAttributes::default() };
            let sealed = volume.files.setattr(&volume.root, made[number], change, None).await;
            sealed.open().await.expect("running").into_inner().result.expect("it is there");
        }
        let others = FILES / 2..FILES;
        for number in others.clone() {
            volume.read(made[number]).await.expect("it is there");
        }
        for number in others.chain(changed()) {
            let name = name(&format!("n{number}"));
            let found = volume.files.lookup(&volume.root, root, &name).await.open().await;
            let found = found.expect("running").into_inner().result;
            let mode = found.map(|found| found.attributes.mode);
            let expected = if number < FILES / 2 { 0o123 } else { 0o644 };
            if mode != Ok(expected) {
                return Err(format!("the mode of n{number} is {mode:?}"));
            }
        }
        Ok(())
    })
}

/// Uses a volume whose changes are rarely written in place.
fn in_little_memory(
    seed: u64,
    work: impl AsyncFnOnce(&Volume) -> Result<(), String>,
) -> Result<(), String> {
    let world = World::new(seed);
    world.run(async {
        let disk = Rc::new(MemoryDisk::new(64 << 20));
        let log = Rc::new(MemoryDisk::new(32 << 20));
        let small = MkfsOptions { block_size: 8192, fragment_size: 1024, ..MkfsOptions::default() };
        mkfs(&*disk, &small, &Seeded::new(7), NOW).await.expect("the disk holds it");
        let seldom = LogOptions { sync_interval: Duration::from_secs(3600), ..Default::default() };
        let options = OpenOptions { cache_bytes: CACHE, log: seldom, ..OpenOptions::default() };
        let runtime = world.runtime();
        let opened = open_with_log(disk, Some(log), runtime, &options, &mut |_| ()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
        let volume = Volume::new(engine);
        let outcome = work(&volume).await;
        volume.files.shutdown().await.expect("it stops");
        outcome
    })
}
