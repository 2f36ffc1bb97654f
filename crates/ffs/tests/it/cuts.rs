//! The power is cut at random points of a recorded run, with a random part of the unflushed writes:
//! after the rebuild everything that was acknowledged is there, and the disk is without an error.
//!
//! Each of several actors works in a directory of its own, one operation after the other. When an
//! operation is acknowledged, the position in the trace and the state of the actor's directory are
//! noted. After a cut, each actor's directory must be as it was after its last acknowledged
//! operation, except for the files that the next one may have touched: those are as before, as
//! after, or, where a rename was cut, under both names.

use std::collections::BTreeMap;

use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Honesty, Image, Options, Trace};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, FsError, ObjectId};

use crate::common::Seeded;
use crate::common::cutting::{
    Cut, acknowledged, acknowledgement, after_cut, cuts, judge, random_cuts, sizes,
};
use crate::common::volume::{Actor, Volume, try_open};

type Files = BTreeMap<String, Vec<u8>>;

const ACTORS: u64 = 3;
const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// An actor's directory, and its files after each acknowledged operation.
struct History {
    directory: ObjectId,
    states: Vec<Files>,
}

struct Run {
    trace: Trace,
    histories: Vec<History>,
}

/// Records a run of several actors side by side on a disk with a volatile cache, whose writes take
/// time and overtake each other.
fn record(seed: u64, options: &MkfsOptions, size: u64, steps: u64, honesty: Honesty) -> Run {
    let executor = Executor::new(seed);
    let disk_options = Options { honesty, ..Options::default() };
    let disk = Disk::with_options(&executor, Image::zeroed(size), disk_options);
    executor.block_on(async {
        mkfs(&*disk, options, &*executor.runtime().random, NOW).await.expect("the disk holds it");
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let root = volume.files.root();
        let mut directories = Vec::new();
        for index in 0..ACTORS {
            directories.push(volume.mkdir(root, &format!("actor-{index}")).await.expect("new"));
        }
        volume.settle().await;
        disk.start_trace();
        let histories = join_all((0..ACTORS).zip(directories).map(|(index, directory)| {
            let (volume, disk) = (&volume, &disk);
            async move {
                let chance = Seeded::new(seed * 10 + index);
                let files = Files::new();
                let mut actor = Actor { volume, directory, chance, files, stable: true };
                let mut states = vec![Files::new()];
                for step in 1..=steps {
                    actor.step(120_000).await;
                    disk.mark(acknowledgement(index, step as usize));
                    states.push(actor.files.clone());
                }
                History { directory, states }
            }
        }));
        let histories = histories.await;
        Run { trace: disk.trace(), histories }
    })
}

/// Current content of a directory.
async fn files_of(volume: &Volume, directory: ObjectId) -> Result<Files, FsError> {
    let mut files = Files::new();
    for text in volume.list(directory).await? {
        if text != "." && text != ".." {
            let id = volume.lookup(directory, &text).await?;
            let content = volume.read(id).await?;
            assert!(files.insert(text, content).is_none(), "a name stands twice");
        }
    }
    Ok(files)
}

/// Whether `found` is a possible state after a cut between two states.
fn is_between(found: &Files, before: &Files, after: &Files) -> bool {
    let names = found.keys().chain(before.keys()).chain(after.keys());
    names.into_iter().all(|name| {
        let (now, old, new) = (found.get(name), before.get(name), after.get(name));
        now == old || now == new || (old.is_some() && new.is_some() && part_of_write(now, old, new))
    })
}

/// An overwrite that was cut: each byte is old or new, the length is one of the two.
fn part_of_write(now: Option<&Vec<u8>>, old: Option<&Vec<u8>>, new: Option<&Vec<u8>>) -> bool {
    let (Some(now), Some(old), Some(new)) = (now, old, new) else { return false };
    let byte = |content: &[u8], at: usize| content.get(at).copied().unwrap_or(0);
    (now.len() == old.len() || now.len() == new.len())
        && (0..now.len()).all(|at| now[at] == byte(old, at) || now[at] == byte(new, at))
}

fn describe(found: &Files, before: &Files, after: &Files) -> String {
    let sizes = |files: &Files| -> Vec<String> {
        files.iter().map(|(name, content)| format!("{name}:{}", content.len())).collect()
    };
    format!("\nfound {:?}\nbefore {:?}\nafter {:?}", sizes(found), sizes(before), sizes(after))
}

/// Opens the disk that a cut left and compares it with the acknowledged state; returns an error if
/// they differ.
fn check_cut(run: &Run, cut: &Cut, judged: bool) -> Result<(), String> {
    let (executor, disks) = after_cut(cut.seed, cut.image()?);
    let disk = disks.home;
    executor.block_on(async {
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let (volume, _) = opened.map_err(|error| error.to_string())?;
        for (index, history) in run.histories.iter().enumerate() {
            let step = acknowledged(&run.trace, cut.position, index as u64);
            let before = &history.states[step];
            let after = history.states.get(step + 1).unwrap_or(before);
            let found = files_of(&volume, history.directory).await;
            let found = found.map_err(|error| error.to_string())?;
            if !is_between(&found, before, after) {
                return Err(describe(&found, before, after));
            }
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    if judged { judge(&disk, &format!("cut-{}", cut.seed)) } else { Ok(()) }
}

fn cut_at_random(seed: u64, options: &MkfsOptions, size: u64) {
    let run = record(seed, options, size, 60, Honesty::Honest);
    for (index, cut) in random_cuts(&run.trace.clone().into(), seed, cuts(100)).iter().enumerate() {
        if let Err(wrong) = check_cut(&run, cut, index % 20 == 0) {
            panic!("{}: {wrong}", cut.label());
        }
    }
}

#[test]
fn acknowledged_operations_survive_in_small_blocks() {
    cut_at_random(1, &sizes(4096, 512), 8 << 20);
}

#[test]
fn acknowledged_operations_survive_in_fragments() {
    cut_at_random(2, &sizes(8192, 1024), 16 << 20);
}

#[test]
fn acknowledged_operations_survive_in_default_blocks() {
    cut_at_random(3, &MkfsOptions::default(), 32 << 20);
}

#[test]
fn a_disk_that_ignores_flushes_is_found_out() {
    let run = record(5, &sizes(4096, 512), 8 << 20, 20, Honesty::IgnoresFlush);
    let cuts = random_cuts(&run.trace.clone().into(), 5, 40);
    let wrong = cuts.iter().filter(|cut| check_cut(&run, cut, false).is_err()).count();
    assert!(wrong > 0, "a harness that finds nothing wrong here finds nothing");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let digest = |seed| {
        let run = record(seed, &sizes(4096, 512), 8 << 20, 10, Honesty::Honest);
        format!("{:?}", run.trace.events())
    };
    assert!(digest(6) == digest(6));
    assert!(digest(6) != digest(7));
}
