//! What is told of files in little memory.

use std::rc::Rc;
use std::time::Duration;

use enginekit::names;
use ffs::OpenOptions;
use ffs::policy::log::LogOptions;
use runtime::Timestamp;
use sim::Honesty;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::FileSystem;

use super::tree::Setting;
use super::volume::{Volume, open_with_log};
use super::{MemoryDisk, Seeded, World};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// The inodes of all files are twice as much.
const CACHE: usize = 256 << 10;

/// Names that are made, removed, moved and made again lead where they should.
pub(crate) fn names_lead_to_their_files() -> Result<(), String> {
    let options = MkfsOptions::default();
    let (size, honesty) = (64 << 20, Honesty::Honest);
    names::names_lead_to_their_files(&Setting { options, size, steps: 0, honesty, log: 0 })
}

/// What LOOKUP and READDIRPLUS tell of files is what was answered before, in a memory that holds
/// few of them and with changes that are in the log and not yet at home.
pub(crate) fn what_is_told_is_never_stale() -> Result<(), String> {
    (1..4).try_for_each(|seed| stale(seed).map_err(|what| format!("seed {seed}: {what}")))
}

fn stale(seed: u64) -> Result<(), String> {
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
        let outcome = names::what_is_told_is_never_stale(&volume, &Seeded::new(seed)).await;
        volume.files.shutdown().await.expect("it stops");
        outcome
    })
}
