//! Failing requests of the disk: acknowledged changes stay, and a change that cannot be kept is not
//! acknowledged.

use block::Verb;
use enginekit::random::Seeded;
use enginekit::volume::Actor;
use futures::FutureExt;
use futures::future::{Either, select};
use shadow::format::anchor::Anchor;
use sim::{Disk, Effect, Executor, Fault, Image, Persistence, Trace};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;
use vfs::{FileSystem, FsError, Stability};
use vnode::scrub::{ScrubError, Scrubbed};

use crate::bench::{Setting, findings, made, opened};

/// Writes files until a request fails; those that were acknowledged are there afterwards, on the
/// contents of the disk. Returns whether a request failed.
fn survives(verb: Verb, nth: u64, persistence: Persistence) -> Result<bool, String> {
    let executor = Executor::new(nth);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let (told, has_failed) = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        disk.fail(verb, nth, persistence);
        let mut told = Vec::new();
        for number in 0..60_u8 {
            let text = format!("f{number}");
            let Ok(file) = volume.create(root, &text).await else { return (told, true) };
            let data = vec![number | 1; 300 * usize::from(number)];
            let stability = if number % 2 == 0 { Stability::FileSync } else { Stability::Unstable };
            let written = volume.write(file, 0, data.clone(), stability).await;
            if written.is_err() || volume.commit(file).await.is_err() {
                return (told, true);
            }
            told.push((text, data));
        }
        (told, false)
    });
    disk.heal();
    let image = disk.contents();
    findings(&image)?;
    let executor = Executor::new(nth);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        for (text, data) in &told {
            let file = volume.lookup(volume.files.root(), text).await;
            let read = volume.read(file.map_err(|error| format!("{text}: {error}"))?).await;
            if read.as_ref() != Ok(data) {
                return Err(format!("{text} is another"));
            }
        }
        Ok(())
    })?;
    Ok(has_failed)
}

#[test]
fn what_was_answered_survives_each_failure() {
    let mut failed = 0;
    for verb in [Verb::Write, Verb::Flush] {
        for persistence in [Persistence::Once, Persistence::Forever] {
            for nth in 1..=120 {
                let survived = survives(verb, nth, persistence);
                let told = format!("{verb:?} {nth} fails {persistence:?}");
                failed += u32::from(survived.unwrap_or_else(|wrong| panic!("{told}: {wrong}")));
            }
        }
    }
    assert!(failed > 200, "{failed} runs met something");
}

#[test]
fn a_full_volume_refuses_what_grows_and_nothing_else() {
    fill_again_and_again();
}

/// UNSTABLE data far apart, with blocks of pointers for each block, is accepted as long as a COMMIT
/// finds room for all.
pub(crate) fn what_is_far_apart_finds_room() -> Result<(), String> {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let file = volume.create(volume.files.root(), "far").await.expect("there is room");
        let mut taken = 0;
        while volume.write(file, taken << 24, vec![7; 4096], Stability::Unstable).await.is_ok() {
            taken += 1;
        }
        let committed = volume.commit(file).await;
        committed.map_err(|error| format!("{taken} were taken in, and then: {error}"))?;
        let size = volume.attributes(file).await.size;
        let is_well = taken > 50 && size == ((taken - 1) << 24) + 4096;
        if is_well { Ok(()) } else { Err(format!("{taken} were taken in, of {size} bytes")) }
    })
}

#[test]
fn what_leads_to_unstable_data_has_room_too() {
    assert_eq!(what_is_far_apart_finds_room(), Ok(()));
}

/// Fills a volume: its files stay right, calls that make room are never refused, and nor is an
/// overwrite.
pub(crate) fn fill_again_and_again() {
    for (seed, setting) in [(1, Setting::of(4, 64, 1 << 20)), (2, Setting::of(8, 128, 3 << 20))] {
        let executor = Executor::new(seed);
        let disk = executor.block_on(made(&executor, &setting));
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is new");
            let root = volume.files.root();
            let before = volume.space().await.free_bytes;
            for round in 0..4_u64 {
                let mut files = BTreeMap::new();
                let held = volume.create(root, "held").await.expect("there is room");
                let unstable = vec![9; 100_000];
                let written = volume.write(held, 0, unstable.clone(), Stability::Unstable).await;
                written.expect("there is room");
                for number in 0.. {
                    let text = format!("f{number}");
                    let Ok(file) = volume.create(root, &text).await else { break };
                    let data = vec![(number % 250) as u8 + 1; 20_000 + 37 * number];
                    let stability =
                        if number % 2 == 0 { Stability::FileSync } else { Stability::Unstable };
                    let written = volume.write(file, 0, data.clone(), stability).await;
                    let committed =
                        if number % 4 == 1 { Ok(()) } else { volume.commit(file).await.map(drop) };
                    if written.is_err() {
                        volume.remove(root, &text).await.expect("what makes room is done");
                        break;
                    }
                    committed.expect("what was taken in has room");
                    files.insert(text, (file, data));
                }
                volume.commit(held).await.expect("what was taken in has room");
                assert!(volume.read(held).await == Ok(unstable), "it is what was written");
                volume.remove(root, "held").await.expect("what makes room is done");
                assert!(files.len() > 5, "there was room: {}", files.len());
                for (text, (file, data)) in &mut files {
                    data[100..9000].fill(77);
                    let over = vec![77; 8900];
                    let written = volume.write(*file, 100, over, Stability::FileSync).await;
                    written.unwrap_or_else(|error| panic!("round {round}, over {text}: {error}"));
                }
                for (text, (file, data)) in &files {
                    assert!(volume.read(*file).await.as_ref() == Ok(data), "{text}");
                }
                for (number, (text, (file, _))) in files.iter().enumerate() {
                    if number % 2 == 0 {
                        volume.resize(*file, 5000).await.expect("what makes room is done");
                    }
                    volume.remove(root, text).await.expect("what makes room is done");
                }
                volume.settle().await;
                let now = volume.space().await.free_bytes;
                assert!(
                    now.abs_diff(before) <= 8 * 4096,
                    "round {round}: {now}, and {before} before"
                );
            }
            volume.files.shutdown().await.expect("nothing fails");
        });
        assert_eq!(findings(&disk.contents()), Ok(()));
    }
}

/// On a full volume, writes far behind the ends of many files are refused, and names in many
/// directories: refused calls take no room, and calls that make room are done.
pub(crate) fn what_is_refused_takes_nothing() {
    const FILES: usize = 60;
    let executor = Executor::new(9);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let mut files = Vec::new();
        for number in 0..FILES {
            let text = format!("f{number}");
            let file = volume.create(root, &text).await.expect("there is room");
            volume.write(file, 0, vec![1], Stability::FileSync).await.expect("there is room");
            files.push((text, file));
        }
        let filler = volume.create(root, "filler").await.expect("there is room");
        for block in 0.. {
            let data = vec![3; 4096];
            let written = volume.write(filler, block * 4096, data, Stability::FileSync).await;
            if written.is_err() {
                break;
            }
        }
        for (text, file) in &files {
            let far = volume.write(*file, 1 << 40, vec![2], Stability::FileSync).await;
            assert_eq!(far.err(), Some(FsError::NoSpace), "{text}");
        }
        for (text, file) in files {
            assert_eq!(volume.read(file).await, Ok(vec![1]), "{text}");
            volume.remove(root, &text).await.expect("what makes room is done");
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
}

#[test]
fn what_is_refused_on_a_full_volume_takes_nothing() {
    what_is_refused_takes_nothing();
}

/// Random operations of one actor, with a stop and a check of everything now and then.
#[test]
fn counts_are_those_of_the_tree_after_each_stop() {
    let setting = Setting::of(4, 64, 2 << 20);
    let executor = Executor::new(8);
    let disk = executor.block_on(made(&executor, &setting));
    let mut image = disk.contents();
    let mut files = BTreeMap::new();
    for round in 0..12 {
        let executor = Executor::new(round);
        let disk = Disk::new(&executor, image);
        let went = executor.block_on(
            AssertUnwindSafe(async {
                let volume = opened(executor.runtime(), &disk).await.expect("it is well");
                let directory = volume.files.root();
                let chance = Seeded::new(round);
                let stable = false;
                let mut actor = Actor { volume: &volume, directory, chance, files, stable };
                for _ in 0..60 {
                    actor.step(90_000).await;
                    while actor.files.len() > 12 {
                        actor.remove().await;
                    }
                }
                actor.check_all().await;
                let files = std::mem::take(&mut actor.files);
                volume.files.shutdown().await.expect("nothing fails");
                files
            })
            .catch_unwind(),
        );
        files = went.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        image = disk.contents();
        assert_eq!(findings(&image), Ok(()), "round {round}");
    }
}

/// A failed write takes nothing: everything is free again when its file is gone.
pub(crate) fn a_write_that_fails_leaves_its_places() -> Result<(), String> {
    let executor = Executor::new(6);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        let before = volume.space().await.free_bytes;
        let file = volume.create(root, "f").await.map_err(|error| error.to_string())?;
        volume.settle().await;
        disk.fail(Verb::Write, 1, Persistence::Once);
        let written = volume.write(file, 0, vec![5; 300_000], Stability::FileSync).await;
        if written != Err(FsError::Io) {
            return Err(format!("it did not fail: {written:?}"));
        }
        volume.remove(root, "f").await.map_err(|error| error.to_string())?;
        volume.settle().await;
        let now = volume.space().await.free_bytes;
        let is_free = now.abs_diff(before) <= 8 * 4096;
        if is_free { Ok(()) } else { Err(format!("{now} bytes are free, and {before} were")) }
    })
}

#[test]
fn a_write_that_fails_takes_nothing() {
    assert_eq!(a_write_that_fails_leaves_its_places(), Ok(()));
}

/// A flush fails, and the volume stops. An opening of the same disk, before the power fails, may
/// show the changes of that flush; then they stay for good.
pub(crate) fn what_is_shown_after_a_failed_flush_stays() -> Result<(), String> {
    for nth in 1..=40 {
        let executor = Executor::new(nth);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
        disk.start_trace();
        let shown = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            disk.fail(Verb::Flush, nth, Persistence::Once);
            for number in 0.. {
                if volume.create(volume.files.root(), &format!("f{number}")).await.is_err() {
                    break;
                }
            }
            drop(volume);
            let volume = opened(executor.runtime(), &disk).await?;
            volume.list(volume.files.root()).await.map_err(|error| error.to_string())
        })?;
        let trace = disk.trace();
        let platter = trace.platter_at(trace.events().len());
        let lost = platter.pending().map(|_| sim::Fate::Lost).collect();
        let image = platter.image(&sim::Choice::new(lost));
        let executor = Executor::new(nth);
        let disk = Disk::new(&executor, image);
        let left = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            volume.list(volume.files.root()).await.map_err(|error| error.to_string())
        });
        let left = left.map_err(|wrong| format!("flush {nth}: {wrong}"))?;
        if left != shown {
            return Err(format!("flush {nth}: {shown:?} were shown, and {left:?} are left"));
        }
    }
    Ok(())
}

/// A flush fails, the volume stops, and is opened again; the power fails meanwhile. Acknowledged
/// changes are there.
pub(crate) fn a_return_after_a_failed_flush_may_be_cut() -> Result<(), String> {
    for nth in 2..=12 {
        let executor = Executor::new(nth);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
        disk.start_trace();
        let (told, from) = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            disk.fail(Verb::Flush, nth, Persistence::Once);
            let mut told = 0;
            while volume.create(volume.files.root(), &format!("f{told}")).await.is_ok() {
                told += 1;
            }
            drop(volume);
            let from = disk.trace().events().len();
            opened(executor.runtime(), &disk).await?;
            Ok::<_, String>((told, from))
        })?;
        let trace = disk.trace();
        for position in from..=trace.events().len() {
            for seed in 0..20 {
                let platter = trace.platter_at(position);
                let mut prng = sim::Prng::new(seed);
                // The last ones in all combinations, and then some at random.
                let fate = |nth| match seed >> nth & 1 {
                    1 => sim::Fate::Whole,
                    _ => sim::Fate::Lost,
                };
                let count = platter.pending().count();
                let choice = if seed < 16 {
                    sim::Choice::new((0..count).rev().map(fate).collect())
                } else {
                    sim::Choice::random(&platter, &mut prng)
                };
                let image = platter.image(&choice);
                let executor = Executor::new(seed);
                let disk = Disk::new(&executor, image);
                let left = executor.block_on(async {
                    let volume = opened(executor.runtime(), &disk).await?;
                    let names = volume.list(volume.files.root()).await;
                    names.map(|names| names.len() - 2).map_err(|error| error.to_string())
                });
                if !left.as_ref().is_ok_and(|&left| left >= told) {
                    return Err(format!(
                        "flush {nth}, event {position}, seed {seed}: {told} were answered, and \
                         {left:?} are left"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_return_after_a_failed_flush_is_cut_and_repeated() {
    assert_eq!(a_return_after_a_failed_flush_may_be_cut(), Ok(()));
}

#[test]
fn what_is_shown_stays() {
    assert_eq!(what_is_shown_after_a_failed_flush_stays(), Ok(()));
}

/// A read of an opening fails: the opening is refused, or shows everything; and so does the next
/// one.
pub(crate) fn what_cannot_be_read_is_not_passed() -> Result<(), String> {
    let executor = Executor::new(7);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for number in 0..25 {
            let made = volume.create(volume.files.root(), &format!("f{number}")).await;
            made.expect("there is room");
        }
    });
    let image = disk.contents();
    let list = |disk: &std::rc::Rc<Disk>, executor: &Executor| {
        executor.block_on(async {
            let volume = opened(executor.runtime(), disk).await?;
            let names = volume.list(volume.files.root()).await;
            names.map(|names| names.len() - 2).map_err(|error| error.to_string())
        })
    };
    let mut refused = 0;
    for nth in 1.. {
        let executor = Executor::new(nth);
        let disk = Disk::new(&executor, image.clone());
        disk.fail(Verb::Read, nth, Persistence::Once);
        let first = list(&disk, &executor);
        if disk.counters().reads < nth {
            break;
        }
        disk.heal();
        let executor = Executor::new(nth);
        let disk = Disk::new(&executor, disk.contents());
        let second = list(&disk, &executor);
        if first.as_ref().is_ok_and(|&names| names != 25) || second != Ok(25) {
            return Err(format!("read {nth} failed: {first:?}, and then {second:?}"));
        }
        refused += u32::from(first.is_err());
    }
    if refused > 3 { Ok(()) } else { Err(format!("{refused} were refused")) }
}

#[test]
fn an_opening_that_cannot_read_is_refused_and_loses_nothing() {
    assert_eq!(what_cannot_be_read_is_not_passed(), Ok(()));
}

/// Whether the newest anchor is at only one end.
fn is_alone(image: &Image) -> bool {
    let units = image.size() / 4096;
    let numbers = [0, 1, units - 2, units - 1].map(|unit| {
        let mut bytes = [0; 4096];
        image.read(unit * 4096, &mut bytes);
        Anchor::read(&bytes).ok().map(|anchor| anchor.number)
    });
    let newest = numbers.iter().max();
    numbers.iter().filter(|number| Some(*number) == newest).count() == 1
}

/// The content of a file after the only copy of an anchor rots.
fn held(mut image: Image, unit: u64) -> Result<Vec<u8>, String> {
    image.write(unit * 4096 + 100, &[0xa5; 3]);
    let executor = Executor::new(unit);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let file = volume.lookup(volume.files.root(), "one").await;
        let read = volume.read(file.map_err(|error| error.to_string())?).await;
        read.map_err(|error| error.to_string())
    })
}

/// A cut leaves an anchor at only one end. After recovery any place of an anchor may rot: later
/// changes are there.
pub(crate) fn an_anchor_may_rot_after_a_return() -> Result<(), String> {
    let setting = Setting::of(4, 64, 2 << 20);
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &setting));
    // Each goes to other places, and soon to other zones.
    let write = async |volume: &enginekit::Volume<shadow::Shadow>, value: u8| {
        let file = match volume.lookup(volume.files.root(), "one").await {
            Ok(file) => file,
            Err(_) => volume.create(volume.files.root(), "one").await.expect("there is room"),
        };
        let written = volume.write(file, 0, vec![value; 40_000], Stability::FileSync).await;
        written.expect("there is room");
    };
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for value in 1..=8 {
            write(&volume, value).await;
        }
    });
    let trace = disk.trace();
    let mut alone = 0;
    for (position, seed) in (0..=trace.events().len()).flat_map(|at| [(at, 0), (at, 1), (at, 2)]) {
        let platter = trace.platter_at(position);
        let mut prng = sim::Prng::new(3 * position as u64 + seed);
        let image = platter.image(&sim::Choice::random(&platter, &mut prng));
        if !is_alone(&image) {
            continue;
        }
        alone += 1;
        let executor = Executor::new(position as u64);
        let disk = Disk::new(&executor, image);
        let mut images = Vec::new();
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            for value in 101..=108 {
                write(&volume, value).await;
                images.push((value, disk.contents()));
            }
            Ok::<(), String>(())
        })?;
        for (value, image) in images {
            let units = image.size() / 4096;
            for unit in [0, 1, units - 2, units - 1] {
                let found = held(image.clone(), unit);
                if found != Ok(vec![value; 40_000]) {
                    let found = found.map(|bytes| bytes.first().copied());
                    return Err(format!("event {position}, {value}, unit {unit}: {found:?}"));
                }
            }
        }
    }
    if alone > 3 { Ok(()) } else { Err(format!("{alone} cuts left one copy alone")) }
}

#[test]
fn a_place_of_an_anchor_may_rot_after_a_return() {
    assert_eq!(an_anchor_may_rot_after_a_return(), Ok(()));
}

/// The host of the disk is full for a while, from each write on: waiting calls fail, other changes
/// are refused, acknowledged changes can be read, and everything continues when there is room.
pub(crate) fn refusals_pass() -> Result<(), String> {
    for nth in 1..=8 {
        let executor = Executor::new(nth);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is new");
            let root = volume.files.root();
            let file = volume.create(root, "before").await.map_err(|error| error.to_string())?;
            let other = volume.mkdir(root, "other").await.map_err(|error| error.to_string())?;
            disk.inject(Fault::on(Verb::Write, Effect::NoSpace).nth(nth).forever());
            let mut made = vec!["before".to_owned()];
            let mut failures = Vec::new();
            for number in 0..12 {
                let text = format!("f{number}");
                match volume.create(root, &text).await {
                    Ok(_) => made.push(text),
                    Err(error) => failures.push(error),
                }
            }
            // A call that would see changes that are not durable fails as well.
            failures.push(volume.create(other, "refused").await.expect_err("there is no room"));
            if failures.pop() != Some(FsError::NoSpace)
                || failures.is_empty()
                || failures.iter().any(|error| *error != FsError::Io)
            {
                return Err(format!("write {nth}: {failures:?}"));
            }
            volume.read(file).await.map_err(|error| format!("write {nth}, a read: {error}"))?;
            disk.heal();
            executor.runtime().clock.sleep(Duration::from_secs(2)).await;
            let made_again = volume.create(root, "after").await;
            made_again.map_err(|error| format!("write {nth}, there is room: {error}"))?;
            made.push("after".to_owned());
            let names = volume.list(root).await.map_err(|error| error.to_string())?;
            if made.iter().any(|text| !names.contains(text)) {
                return Err(format!("write {nth}: {made:?} were made, and {names:?} are there"));
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
        findings(&disk.contents())?;
    }
    Ok(())
}

#[test]
fn a_volume_that_finds_no_room_below_goes_on_when_there_is_some() {
    assert_eq!(refusals_pass(), Ok(()));
}

#[test]
fn a_scrub_that_waits_for_room_below_says_so() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let runtime = executor.runtime();
        let volume = opened(runtime.clone(), &disk).await.expect("it is new");
        let root = volume.files.root();
        disk.inject(Fault::on(Verb::Write, Effect::NoSpace).nth(1).forever());
        assert_eq!(volume.create(root, "file").await.map(drop), Err(FsError::Io));
        let engine = volume.files.store().engine();
        let mut all = |_: &Scrubbed| true;
        let scrub = pin!(engine.scrub(&mut all));
        match select(scrub, runtime.clock.sleep(Duration::from_secs(60))).await {
            Either::Left((scrubbed, _)) => assert_eq!(scrubbed, Err(ScrubError::NoRoom)),
            Either::Right(_) => panic!("it waits"),
        }
        disk.heal();
        runtime.clock.sleep(Duration::from_secs(2)).await;
        assert!(engine.scrub(&mut |_| true).await.is_ok_and(|found| found.lost.is_empty()));
    });
}

#[test]
fn a_stop_that_finds_no_room_below_says_so_and_is_tried_again() {
    for nth in 1..=5 {
        let executor = Executor::new(nth);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
        executor.block_on(async {
            let runtime = executor.runtime();
            let volume = opened(runtime.clone(), &disk).await.expect("it is new");
            let file = volume.create(volume.files.root(), "file").await.expect("there is room");
            let data = vec![1; 9000];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
            runtime.clock.sleep(Duration::from_secs(2)).await;
            volume.read(file).await.expect("it is there"); // so that there is an access time
            disk.inject(Fault::on(Verb::Write, Effect::NoSpace).nth(nth).forever());
            let long = runtime.clock.sleep(Duration::from_secs(60));
            match select(pin!(volume.files.shutdown()), long).await {
                Either::Left((stopped, _)) => assert_eq!(stopped, Err(FsError::NoSpace), "{nth}"),
                Either::Right(_) => panic!("write {nth}: it waits"),
            }
            disk.heal();
            runtime.clock.sleep(Duration::from_secs(2)).await;
            assert_eq!(volume.files.shutdown().await, Ok(()), "write {nth}");
        });
        assert_eq!(findings(&disk.contents()), Ok(()), "write {nth}");
    }
}

/// Recovers an image, checks that these changes are there, and makes one more.
fn returned(image: &Image, seed: u64, round: u64, told: &[String]) -> Result<Trace, String> {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image.clone());
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        for text in told {
            let found = volume.lookup(root, text).await;
            found.map_err(|error| format!("{text}: {error}"))?;
        }
        let made = volume.create(root, &format!("done{round}")).await;
        made.map_err(|error| error.to_string())?;
        disk.mark(sim::Mark::Number(round));
        Ok(disk.trace())
    })
}

/// A cut, and recoveries with one change each, each cut again: the changes are there.
fn what_is_done_after_a_cut_stays() -> Result<(), String> {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for number in 0..40_u8 {
            let file = volume.create(volume.files.root(), &format!("f{number}")).await;
            let data = vec![number; 9000];
            let written = volume.write(file.expect("room"), 0, data, Stability::FileSync).await;
            written.expect("there is room");
        }
    });
    let trace = disk.trace();
    for position in 0..=trace.events().len() {
        for seed in 0..3 {
            let platter = trace.platter_at(position);
            let mut prng = sim::Prng::new(seed + 10 * position as u64);
            let mut image = platter.image(&sim::Choice::random(&platter, &mut prng));
            let mut told = Vec::new();
            for round in 0..4 {
                let place = format!("event {position}, seed {seed}, round {round}");
                let (trace, text) = (returned(&image, seed, round, &told), format!("done{round}"));
                let trace = trace.map_err(|wrong| format!("{place}: {wrong}"))?;
                let position = prng.index(trace.events().len() + 1);
                told.extend(trace.marks_before(position).next().map(|_| text));
                let platter = trace.platter_at(position);
                image = platter.image(&sim::Choice::random(&platter, &mut prng));
                findings(&image).map_err(|wrong| format!("{place}: {wrong}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_done_after_a_return_stays() {
    assert_eq!(what_is_done_after_a_cut_stays(), Ok(()));
}

/// The content of the file with this number.
fn content(number: u64) -> Vec<u8> {
    vec![number as u8 + 1; 3000 * number as usize + 1]
}

/// A stopped volume with this many files.
fn stopped(count: u64) -> Image {
    let executor = Executor::new(4);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 1 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for number in 0..count {
            let file = volume.create(volume.files.root(), &format!("f{number}")).await;
            let file = file.expect("there is room");
            let written = volume.write(file, 0, content(number), Stability::FileSync).await;
            written.expect("there is room");
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    disk.contents()
}

/// A bit rots in this unit, or two in each of several. Returns whether that was detected; an error
/// if a file has other contents.
fn rots(mut image: Image, count: u64, units: &[u64]) -> Result<bool, String> {
    for unit in units {
        let (at, mut byte) = (unit * 4096 + unit * 997 % 4096, [0]);
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ 1 << (unit % 8)]);
        if units.len() > 1 {
            // A single bit of a superblock is mended.
            let at = unit * 4096 + (unit * 997 + 512) % 4096;
            image.read(at, &mut byte);
            image.write(at, &[byte[0] ^ 1]);
        }
    }
    let executor = Executor::new(units[0]);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let Ok(volume) = opened(executor.runtime(), &disk).await else { return Ok(true) };
        for number in 0..count {
            let text = format!("f{number}");
            match volume.lookup(volume.files.root(), &text).await {
                Err(FsError::NoEntry) => return Err(format!("{text} is gone: {units:?} rotted")),
                Err(_) => return Ok(true),
                Ok(file) => match volume.read(file).await {
                    Err(_) => return Ok(true),
                    Ok(read) if read == content(number) => {}
                    Ok(_) => return Err(format!("{text} is another: {units:?} rotted")),
                },
            }
        }
        Ok(false)
    })
}

/// A bit rots on a stopped volume, or one in both superblocks of a zone: files are as they were, or
/// reads fail, or the volume is refused.
pub(crate) fn rot_is_found() -> Result<(), String> {
    let image = stopped(8);
    let mut met = 0;
    for unit in 0..256 {
        met += u32::from(rots(image.clone(), 8, &[unit])?);
    }
    for count in 1..=12 {
        let image = stopped(count);
        for zone in 0..13 {
            let end = 32 + 16 * (zone + 1);
            rots(image.clone(), count, &[end - 2, end - 1])?;
        }
    }
    if met > 20 { Ok(()) } else { Err(format!("{met} rotten units were met")) }
}

#[test]
fn a_bit_that_rots_gives_the_same_bytes_or_an_error() {
    assert_eq!(rot_is_found(), Ok(()));
}
