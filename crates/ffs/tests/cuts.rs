//! The power is cut at random points of a recorded run, with a random part of what was not flushed:
//! after the rebuild everything that was acknowledged is there, and the disk is without an error.
//!
//! Each of several actors works in a directory of its own, one operation after the other. When an
//! operation is acknowledged, the position in the trace and the state of the actor's directory are
//! noted. After a cut, each actor's directory must be as it was after its last acknowledged
//! operation, except for the files that the next one may have touched: those are as before, as
//! after, or, where a rename was cut, under both names.

mod common;

use std::collections::BTreeMap;
use std::rc::Rc;

use common::volume::{Actor, Volume, fresh, reopen, try_open};
use common::{Event, MemoryDisk, Seeded, World, findings};
use ffs::mkfs::MkfsOptions;
use futures::future::join_all;
use runtime::Random;
use vfs::{FileSystem, ObjectId};

type Files = BTreeMap<String, Vec<u8>>;

/// An actor's history: after each acknowledged operation the length of the trace and its files.
struct History {
    directory: ObjectId,
    states: Vec<(usize, Files)>,
}

struct Run {
    size: u64,
    start: BTreeMap<u64, Vec<u8>>,
    events: Vec<Event>,
    histories: Vec<History>,
}

/// Records a run of several actors side by side.
fn record(seed: u64, options: &MkfsOptions, size: u64, steps: usize) -> Run {
    let world = World::new(seed);
    world.run(async {
        let (disk, volume) = fresh(&world, size, options).await;
        let root = volume.files.root();
        let mut directories = Vec::new();
        for index in 0..3 {
            directories.push(volume.mkdir(root, &format!("actor-{index}")).await.expect("new"));
        }
        let start = disk.snapshot();
        let from = disk.events().len();
        let histories = join_all(directories.into_iter().enumerate().map(|(index, directory)| {
            let (volume, disk) = (&volume, &disk);
            async move {
                let chance = Seeded::new(seed * 10 + index as u64);
                let files = Files::new();
                let mut actor = Actor { volume, directory, chance, files, stable: true };
                let mut states = vec![(0, Files::new())];
                for _ in 0..steps {
                    actor.step(120_000).await;
                    states.push((disk.events().len() - from, actor.files.clone()));
                }
                History { directory, states }
            }
        }));
        let histories = histories.await;
        Run { size, start, events: disk.events().split_off(from), histories }
    })
}

impl Run {
    /// A disk as a cut after `at` events may leave it: all that was flushed, and of the rest any
    /// subset, each torn at sectors.
    fn cut(&self, at: usize, chance: &Seeded) -> Rc<MemoryDisk> {
        let disk = MemoryDisk::from_snapshot(self.size, &self.start);
        let events = &self.events[..at];
        let flushed = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
        let keep = chance.next_u64() % 5;
        for (index, event) in events.iter().enumerate() {
            let Event::Write(offset, bytes) = event else { continue };
            if index < flushed || keep == 0 {
                disk.put(*offset, bytes);
                continue;
            }
            match chance.next_u64() % 4 {
                0 => {}
                1 => {
                    for (sector, part) in bytes.chunks(512).enumerate() {
                        if chance.next_u64().is_multiple_of(2) {
                            disk.put(offset + sector as u64 * 512, part);
                        }
                    }
                }
                _ => disk.put(*offset, bytes),
            }
        }
        Rc::new(disk)
    }
}

/// What is in a directory now.
async fn files_of(volume: &Volume, directory: ObjectId) -> Files {
    let mut files = Files::new();
    for text in volume.list(directory).await {
        if text != "." && text != ".." {
            let id = volume.lookup(directory, &text).await.expect("it is listed");
            let content = volume.read(id).await.expect("it can be read");
            assert!(files.insert(text, content).is_none(), "a name stands twice");
        }
    }
    files
}

/// Whether `found` may be what a cut between two states leaves.
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

fn check_cut(run: &Run, at: usize, seed: u64, judged: bool) {
    let chance = Seeded::new(seed);
    let disk = run.cut(at, &chance);
    let world = World::new(seed);
    let label = format!("cut after {at} events with seed {seed}");
    world.run(async {
        let opened = try_open(&world, &disk).await;
        let (volume, _) = opened.unwrap_or_else(|error| panic!("{label}: {error}"));
        for history in &run.histories {
            let last = history.states.iter().rposition(|(length, _)| *length <= at).unwrap_or(0);
            let before = &history.states[last].1;
            let after = history.states.get(last + 1).map_or(before, |state| &state.1);
            let found = files_of(&volume, history.directory).await;
            assert!(
                is_between(&found, before, after),
                "{label}: {}",
                describe(&found, before, after)
            );
        }
        volume.files.shutdown().await.expect("a clean stop");
        // A cut after a truncation may leave bytes behind the end of a file: legal, and noted.
        if judged && let Some(findings) = findings(&disk, &format!("cut-{at}-{seed}")) {
            let errors: Vec<_> = findings.lines().filter(|line| !is_tail_note(line)).collect();
            assert!(errors.is_empty(), "{label}: {errors:?}");
        }
    });
}

fn is_tail_note(line: &str) -> bool {
    line.starts_with("note") && line.contains("non-zero bytes after the end of data")
}

fn describe(found: &Files, before: &Files, after: &Files) -> String {
    let sizes = |files: &Files| -> Vec<String> {
        files.iter().map(|(name, content)| format!("{name}:{}", content.len())).collect()
    };
    format!("\nfound {:?}\nbefore {:?}\nafter {:?}", sizes(found), sizes(before), sizes(after))
}

fn cut_at_random(seed: u64, options: &MkfsOptions, size: u64, cuts: u64) {
    let run = record(seed, options, size, 60);
    let chance = Seeded::new(seed);
    for cut in 0..cuts {
        let at = (chance.next_u64() % (run.events.len() as u64 + 1)) as usize;
        check_cut(&run, at, seed * 1_000_003 + cut, cut % 20 == 0);
    }
}

fn sizes(block_size: u64, fragment_size: u64) -> MkfsOptions {
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// How many cuts each test makes: more with `DURAMEN_CUTS`.
fn cuts() -> u64 {
    std::env::var("DURAMEN_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn acknowledged_operations_survive_in_small_blocks() {
    cut_at_random(1, &sizes(4096, 512), 8 << 20, cuts());
}

#[test]
fn acknowledged_operations_survive_in_fragments() {
    cut_at_random(2, &sizes(8192, 1024), 16 << 20, cuts());
}

#[test]
fn acknowledged_operations_survive_in_default_blocks() {
    cut_at_random(3, &MkfsOptions::default(), 32 << 20, cuts());
}

#[test]
fn a_volume_that_was_cut_opens_again_and_again() {
    let run = record(4, &sizes(4096, 512), 8 << 20, 30);
    let disk = run.cut(run.events.len() / 2, &Seeded::new(9));
    for round in 0..3 {
        let world = World::new(round);
        world.run(async {
            let volume = reopen(&world, &disk).await;
            volume.create(volume.files.root(), &format!("round-{round}")).await.expect("room");
        });
    }
}
