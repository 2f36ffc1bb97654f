//! Soft updates whose callers do not wait: any set of changes is written in place in few flushes;
//! the state after a cut in between is one that soft updates leave, and a file that always had a
//! name has one.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ffs::PolicyKind;
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Options, Trace};
use ufs2::mkfs::mkfs;
use vfs::{CreateHow, Delayed, FileSystem, FsError, ObjectId, Sealed, SetAttributes, Stability};

use crate::common::cutting::{Pair, after_cut, every_cut, sizes};
use crate::common::raw::soft_update_violations;
use crate::common::volume::{Volume, name, try_open_pair, under};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// Maximum number of flushes that write changes in place, without new directories and moves of
/// such.
const FLUSHES: u64 = 9;

/// A volume whose callers do not wait.
struct Delaying {
    volume: Volume,
}

/// An answer for a caller that does not wait.
fn told<T>(sealed: Sealed<T>) -> T {
    sealed.accept(Delayed::declared()).expect("running").into_inner()
}

impl Delaying {
    /// A new volume on `disk`, with the initial files.
    async fn new(executor: &Executor, disk: &Rc<Disk>) -> Self {
        let random = executor.runtime().random;
        mkfs(&**disk, &sizes(4096, 512), &*random, NOW).await.expect("it fits");
        let disks = Pair { home: disk.clone(), log: None };
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let here = Self { volume: opened.unwrap_or_else(|error| panic!("{error}")).0 };
        for line in BEFORE {
            here.run(line).await;
        }
        here
    }

    async fn find(&self, path: &str) -> Result<ObjectId, FsError> {
        let mut id = self.volume.files.root();
        for text in path.split('/').filter(|text| !text.is_empty()) {
            let found = self.volume.files.lookup(&self.volume.root, id, &name(text)).await;
            id = told(found).result?.id;
        }
        Ok(id)
    }

    /// The directory of a path, and the last name.
    async fn place<'p>(&self, path: &'p str) -> (ObjectId, &'p str) {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        (self.find(above).await.expect("it is there"), last)
    }

    /// Executes a line.
    async fn run(&self, line: &str) {
        let (files, who) = (&self.volume.files, &self.volume.root);
        let words: Vec<&str> = line.split(' ').collect();
        let (directory, last) = self.place(words[1]).await;
        let last = &name(last);
        let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        let done = match words[..] {
            ["mkdir", _] => {
                told(files.mkdir(who, directory, last, attributes).await).result.map(drop)
            }
            ["create", _] => {
                let how = CreateHow::Guarded(attributes);
                told(files.create(who, directory, last, how).await).result.map(drop)
            }
            ["remove", _] => told(files.remove(who, directory, last).await).result,
            ["rmdir", _] => told(files.rmdir(who, directory, last).await).result,
            ["link", from, to] => {
                let id = self.find(from).await.expect("it is there");
                let (into, last) = self.place(to).await;
                told(files.link(who, id, into, &name(last)).await).result
            }
            ["rename", _, to] => {
                let (into, new) = self.place(to).await;
                told(files.rename(who, directory, last, into, &name(new)).await).result
            }
            ["append", path, bytes] => {
                let id = self.find(path).await.expect("it is there");
                let attributes = told(files.getattr(id).await).expect("it is there");
                let data = vec![Bytes::from(vec![7; bytes.parse().expect("a number")])];
                let stability = Stability::FileSync;
                told(files.write(who, id, attributes.size, data, stability).await).result.map(drop)
            }
            ["truncate", path, size] => {
                let id = self.find(path).await.expect("it is there");
                let size = Some(size.parse().expect("a number"));
                let changes = SetAttributes { size, ..SetAttributes::default() };
                told(files.setattr(who, id, changes, None).await).result
            }
            _ => panic!("{line}"),
        };
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// Length of `E/big`: it is freed in several steps.
const BIG: u64 = 5_000_000;

/// Operations that are durable before.
const BEFORE: &[&str] = &[
    "mkdir A",
    "mkdir B",
    "create foo",
    "append foo 6000",
    "create A/foo",
    "mkdir E",
    "create E/f",
    "append E/f 300",
    "create E/big",
    "append E/big 5000000",
    "mkdir E/sub",
];

/// Result of a settle, and its trace.
struct Settled {
    flushes: u64,
    trace: Pair<Trace>,
    /// Files that always had a name.
    always: Vec<(String, ObjectId)>,
    /// Length of `E/big`, if only its name changes.
    big: Option<u64>,
}

/// Executes the lines, and then settles the volume.
fn settle(lines: &[&str], always: &[&str]) -> Settled {
    under(PolicyKind::SoftUpdates, || {
        let executor = Executor::new(3);
        let disk = Disk::with_options(&executor, Image::zeroed(16 << 20), Options::default());
        executor.block_on(async {
            let here = Delaying::new(&executor, &disk).await;
            here.volume.settle().await;
            let mut kept = Vec::new();
            for path in always {
                kept.push(((*path).to_owned(), here.find(path).await.expect("it is there")));
            }
            for line in lines {
                here.run(line).await;
            }
            let before = disk.counters().flushes;
            disk.start_trace();
            here.volume.settle().await;
            let flushes = disk.counters().flushes - before;
            let big = Some(BIG).filter(|_| !lines.iter().any(|line| line.contains("E/big ")));
            Settled { flushes, trace: disk.trace().into(), always: kept, big }
        })
    })
}

/// The first cut of a settle that leads to an error.
fn first_wrong(settled: &Settled, seeds: u64) -> Option<String> {
    let cuts = (0..seeds).flat_map(|seed| every_cut(&settled.trace, seed));
    cuts.into_iter().find_map(|cut| {
        let wrong = soft_update_violations(&cut.left().home);
        if !wrong.is_empty() {
            return Some(format!("{}: {}", cut.label(), wrong.join("; ")));
        }
        let image = match cut.image() {
            Ok(image) => image,
            Err(error) => return Some(format!("{}: {error}", cut.label())),
        };
        let (executor, disks): (Executor, Pair<Rc<Disk>>) = after_cut(cut.seed, image);
        executor.block_on(async {
            let volume = match try_open_pair(executor.runtime(), &disks).await {
                Ok((volume, _)) => volume,
                Err(error) => return Some(format!("{}: {error}", cut.label())),
            };
            // A file that is being removed is whole as long as it has its name.
            if let Some(size) = settled.big
                && let Ok(id) = volume.lookup(volume.files.root(), "E").await
                && let Ok(id) = volume.lookup(id, "big").await
                && volume.attributes(id).await.size != size
            {
                return Some(format!("{}: a part of E/big is gone", cut.label()));
            }
            for (path, id) in &settled.always {
                let found = told(volume.files.getattr(*id).await);
                if let Err(error) = found {
                    return Some(format!("{}: {path} has no name: {error}", cut.label()));
                }
            }
            None
        })
    })
}

/// A directory moves, and rests on many changes together: one of them is a name that was cancelled,
/// and its replacement moves below that directory.
const PINNED: &[&str] = &[
    "create B/x",
    "create E/1",
    "create E/2",
    "create E/3",
    "create E/4",
    "create E/5",
    "rename B/x B/y",
    "rename E/sub A/sub",
    "rename B/y A/sub/y",
];

/// Names that make a directory grow.
const GROWS: [&str; 3] = [
    "create E/1-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it-and-then-the-next-one",
    "create E/2-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it-and-then-the-next-one",
    "create E/3-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it-and-then-the-next-one",
];

/// A directory grows, and its chunks move; then a name goes from it.
const GROWTH: &[&str] = &[
    "create E/1-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/2-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/3-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/4-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/5-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/6-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/7-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "create E/8-a-name-so-long-that-few-of-its-kind-fill-a-whole-chunk-of-it",
    "remove E/big",
    "link E/f x",
    "remove E/f",
    "rename foo E/f",
];

/// Operations, and the initial files that always have a name.
const STORIES: &[(&[&str], &[&str])] = &[
    (GROWTH, &["E/f"]),
    (&["link foo A/bar", "remove foo"], &["foo"]),
    (&["rename foo bar", "rename bar A/bar", "rename A/bar B/foo"], &["foo", "A/foo"]),
    (&["rename A/foo foo", "rename foo A/foo", "rename A/foo B/x"], &["A/foo"]),
    (&["mkdir A/C", "rename foo A/C/foo"], &["foo", "A"]),
    (&["mkdir C", "mkdir C/D", "mkdir C/D/E", "rename foo C/D/E/foo"], &["foo"]),
    (&["mkdir A/C", "rename A/C B/C", "rename foo B/C/foo"], &["foo"]),
    (&["rename A/foo bar", "rmdir A"], &["A/foo"]),
    (&["link A/foo bar", "remove A/foo", "rmdir A"], &["A/foo"]),
    (&["mkdir A/C", "rename A/foo A/C/foo", "rename A/C C", "rmdir A"], &["A/foo"]),
    (
        &["mkdir A/C", "rename A/foo A/C/foo", "rename A/C/foo x", "rmdir A/C", "rmdir A"],
        &["A/foo"],
    ),
    (&["create B/x", "rename B/x foo", "rename foo B/y"], &["A/foo"]),
    (&["append foo 9000", "truncate foo 100", "append foo 30000", "truncate foo 0"], &["foo"]),
    (&["append foo 90000", "truncate foo 60000", "append foo 9000", "remove foo"], &["A/foo"]),
    (&["link foo bar", "remove foo", "remove bar", "create foo"], &["A/foo"]),
    (&["rename A B/A", "rename B/A/foo foo", "mkdir A", "rename B/A A/B"], &["A/foo", "A"]),
    (&["rename foo g", "mkdir foo", "rename g foo/h"], &["foo"]),
    (&["rename foo g", "rename g h", "rename h foo", "rename foo A/x"], &["foo"]),
    (&["rename foo g", "rename g A/h", "rename A/h g", "link g foo", "remove g"], &["foo"]),
    (&["link foo g", "remove g", "link foo g", "remove foo"], &["foo"]),
    (&["remove A/foo", "link foo A/foo", "rename A/foo g", "remove foo"], &["foo"]),
    (&["rename A C", "rename C A", "mkdir C", "rename A C/A", "rename C/A/foo x"], &["A", "A/foo"]),
    (&["mkdir C", "rename C D", "rename foo D/x", "rename D/x D/y", "rename D B/D"], &["foo"]),
    (&["mkdir C", "rename foo C/x", "rename C/x foo", "rmdir C", "rename foo C"], &["foo"]),
    (&["mkdir A/C", "rmdir A/C"], &["A/foo"]),
    (&["mkdir A/C", "rename A/C A/D"], &["A/foo"]),
    (&["mkdir B/C", "rename B/C C", "link foo C/x", "remove foo", "append C/x 9000"], &["foo"]),
    (PINNED, &["E/sub", "E/f"]),
    (
        &[
            "create B/x",
            "create E/g",
            "rename B/x B/y",
            GROWS[0],
            GROWS[1],
            GROWS[2],
            "rename B/y E/y",
        ],
        &[],
    ),
    (&["create t", "append t 700", "rename t foo", "create t", "rename t foo"], &["A/foo"]),
];

#[test]
fn whatever_was_changed_a_cut_leaves_what_soft_updates_leave_and_every_file_that_had_a_name() {
    for (lines, always) in STORIES {
        let settled = settle(lines, always);
        assert!(settled.flushes > 0 && settled.flushes < 30, "{lines:?}: {}", settled.flushes);
        assert_eq!(first_wrong(&settled, 4), None, "{lines:?}");
    }
}

/// Message of a panic.
#[cfg(feature = "planted-bugs")]
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = text.expect("it says something");
    assert!(text.starts_with("invariant"), "{text}");
    text
}

#[cfg(feature = "planted-bugs")]
#[test]
fn rules_of_soft_updates_that_are_broken_are_seen() {
    use ffs::planted::{Bug, plant};

    // With the number of the story that shows it: the others are tried if that one no longer does.
    let bugs = [
        (Bug::EarlyDrops, 1),
        (Bug::LooseNames, 4),
        (Bug::EmptiedEarly, 7),
        (Bug::UncountedCancels, 24),
        (Bug::LooseCancels, 2),
        (Bug::UnshownDrops, 0),
        (Bug::UnseenDrops, 0),
    ];
    let seen_in = |bug: Bug, (lines, always): &(&[&str], &[&str])| {
        plant(Some(bug));
        let settled = std::panic::catch_unwind(|| settle(lines, always));
        plant(None);
        settled.map_or_else(|panic| Some(said(&*panic)), |settled| first_wrong(&settled, 12))
    };
    let mut missed = Vec::new();
    for (bug, likely) in bugs {
        let stories = std::iter::once(&STORIES[likely]).chain(STORIES);
        let seen = stories.into_iter().find_map(|story| seen_in(bug, story));
        println!("{bug:?}: {seen:?}");
        missed.extend(Some(bug).filter(|_| seen.is_none()));
    }
    assert_eq!(missed, []);
}

/// Flushes of a settle after these lines were executed `times` times in turn.
fn flushes_of(times: usize, lines: &[&str]) -> u64 {
    let all: Vec<&str> = std::iter::repeat_n(lines, times).flatten().copied().collect();
    settle(&all, &[]).flushes
}

#[test]
fn a_settle_takes_few_flushes_however_much_was_changed() {
    let mut wrong = Vec::new();
    for lines in [
        &["rename foo bar", "rename bar foo"][..],
        &["mkdir C", "rmdir C"],
        &["create x", "remove x"],
        &["append foo 700", "truncate foo 6000"],
        &["link foo bar", "remove bar"],
        &["rename foo a", "rename a b", "rename b c", "rename c foo"],
        &["rename foo A/foo2", "rename A/foo2 foo"],
        &["create tmp", "append tmp 700", "rename tmp kept", "remove kept"],
        &["create tmp", "append tmp 700", "rename tmp foo"],
    ] {
        let flushes = flushes_of(500, lines);
        if flushes > FLUSHES {
            wrong.push((lines, flushes));
        }
    }
    assert_eq!(wrong, []);
}

#[test]
fn what_nobody_waits_for_comes_home_by_itself() {
    under(PolicyKind::SoftUpdates, || {
        let executor = Executor::new(3);
        let disk = Disk::with_options(&executor, Image::zeroed(16 << 20), Options::default());
        executor.block_on(async {
            let here = Delaying::new(&executor, &disk).await;
            let clock = executor.runtime().clock;
            let bytes = || disk.counters().bytes_written;
            let before = bytes();
            clock.sleep(Duration::from_secs(4)).await;
            assert_eq!(bytes(), before, "it waits");
            clock.sleep(Duration::from_secs(41)).await;
            let after = bytes();
            assert!(after > before, "it came home");
            here.volume.settle().await;
            assert_eq!(bytes(), after, "nothing was left");
        });
    });
}
