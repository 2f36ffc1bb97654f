//! Files with a rotten block: they can be removed, and truncated as far as they can be read;
//! snapshots, roll-backs and stops do not wait for them.

use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use cow::Kind;
use cow::format::head::index;
use enginekit::Volume;
use enginekit::snapshots::{delete, pin, roll_back};
use shadow::{Law, Shadow};
use sim::{Disk, Effect, Executor, Fault, Image};
use vfs::{
    CallKey, Credentials, FileSystem, FsError, Requester, SetAttributes, SnapshotNumber, Stability,
};

use crate::bench::{Setting, findings, made, opened, told};
use crate::judged::found;
use crate::mended::on;
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

/// A stopped volume with files of these numbers of blocks, `f0`, `f1`, ..., and a small one.
fn of(files: &[u64]) -> Image {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 16 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let root = volume.files.root();
        for (number, &blocks) in files.iter().enumerate() {
            let file = volume.create(root, &format!("f{number}")).await.map_err(told)?;
            for at in (0..blocks).step_by(200) {
                let data = vec![number as u8 + 1; (200.min(blocks - at) * 4096) as usize];
                volume.write(file, at * 4096, data, Stability::FileSync).await.map_err(told)?;
            }
        }
        let small = volume.create(root, "small").await.map_err(told)?;
        volume.write(small, 0, vec![7; 100], Stability::FileSync).await.map_err(told)
    })
    .expect("there is room");
    image
}

/// Units in use with blocks of pointers of files, with their owners.
fn above(image: &Image) -> Vec<(u64, u64)> {
    let is_it = |&(unit, owner): &(u64, u64)| {
        let bytes = unit_of(image, unit);
        let is_of_file = bytes[6] == Kind::POINTERS.byte() && owner >= 16;
        bytes.starts_with(b"DuSh") && is_of_file && findings(&rotten(image, unit)).is_err()
    };
    let all = 32..image.size() / UNIT - 2;
    all.map(|unit| (unit, unit_of(image, unit)[8].into())).filter(is_it).collect()
}

fn rotten(image: &Image, unit: u64) -> Image {
    let mut image = image.clone();
    image.write(unit * UNIT + 1077, &[unit_of(&image, unit)[1077] ^ 4]);
    image
}

/// The remains of a file with a rotten block are unused space, which a repair frees.
fn is_space_alone(image: &Image) -> Result<(), String> {
    let wrong = found(image)?.wrong;
    let is_space = |law: Law| matches!(law, Law::Map | Law::Counts | Law::Listed);
    let is_live = |it: &&shadow::Wrong| it.snapshot.is_none();
    let mut live = wrong.iter().filter(is_live);
    if let Some(wrong) = live.find(|it| !is_space(it.law) || it.found.contains("free that")) {
        return Err(format!("it left {wrong}"));
    }
    let wrong = found(&repaired(image)?.0)?.wrong;
    let left = wrong.iter().find(is_live);
    left.map_or(Ok(()), |left| Err(format!("a repair left {left}")))
}

/// Everything else works: a snapshot is made, and the small file is as it was.
async fn goes_on(volume: &Volume<Shadow>) -> Result<(), String> {
    pin(volume, "after").await?;
    let small = volume.lookup(volume.files.root(), "small").await.map_err(told)?;
    let data = volume.read(small).await.map_err(told)?;
    if data == [7; 100] { Ok(()) } else { Err("the small file is another".to_owned()) }
}

/// Files of one step and of several are removed, with each block of pointers rotten.
pub(crate) fn rotten_files_go() -> Result<(), String> {
    let image = of(&[7, 256, 900]);
    let above = above(&image);
    assert!(above.len() > 8, "{above:?}");
    for (unit, owner) in above {
        let wrong = rotten(&image, unit);
        let (after, ()) = on(&wrong, async |volume| {
            let name = format!("f{}", owner - 16);
            volume.remove(volume.files.root(), &name).await.map_err(told)?;
            volume.settle().await;
            goes_on(volume).await
        })
        .map_err(|error| format!("unit {unit} of f{}: {error}", owner - 16))?;
        is_space_alone(&after).map_err(|error| format!("unit {unit}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_file_with_a_rotten_block_of_pointers_can_be_removed() {
    assert_eq!(rotten_files_go(), Ok(()));
}

/// A file is truncated within the range of a rotten block of pointers, and within a rotten block of
/// data.
pub(crate) fn rotten_files_become_shorter() -> Result<(), String> {
    let image = of(&[900]);
    for (unit, _) in above(&image) {
        let bytes = unit_of(&image, unit);
        if bytes[16] != 1 {
            continue; // a block of level 2 leads to all
        }
        let first = index(&bytes) * 168;
        let (start, end) = (first * 4096, ((first + 168) * 4096).min(900 * 4096));
        for size in [start + 5000, end - 4096 * 3, start, 4096] {
            let (after, left) = on(&rotten(&image, unit), async |volume| {
                let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
                let done = volume.resize(file, size).await;
                let left = volume.attributes(file).await.size;
                let is_within = start < size && size < end;
                if done.is_ok() == is_within {
                    return Err(format!("{size}: {done:?}, and {left} are left"));
                }
                goes_on(volume).await?;
                Ok(left)
            })
            .map_err(|error| format!("block {first}: {error}"))?;
            let right = if start < size && size < end { end } else { size };
            if left != right && !(size < start && left == size) {
                return Err(format!("block {first}: {left} are left, not {right}"));
            }
            let (after, ()) = on(&after, async |volume| {
                volume.remove(volume.files.root(), "f0").await.map_err(told)?;
                volume.settle().await;
                Ok(())
            })?;
            is_space_alone(&after).map_err(|error| format!("block {first}, {size}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_truncation_ends_at_a_size_that_can_be_read() {
    assert_eq!(rotten_files_become_shorter(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_chain_that_does_not_end_is_found() {
    vnode::planted::plant(Some(vnode::planted::Bug::EndlessChains));
    let done = std::panic::catch_unwind(rotten_files_become_shorter);
    vnode::planted::plant(None);
    assert!(!matches!(done, Ok(Ok(()))), "the file stays in its middle");
}

/// A client's call that truncates a file.
fn caller() -> Requester {
    let key = CallKey::new(b"shorter").expect("it is short");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

/// A later step of a truncation fails, since a block has rotted, or since the disk does not read
/// one for a while: the remembered reply of the call is the failure.
fn failures_are_remembered(is_rotten: bool) -> Result<(), String> {
    let image = of(&[900]);
    let mut failed = 0;
    for (unit, _) in above(&image).into_iter().filter(|&(unit, _)| unit_of(&image, unit)[16] == 1) {
        let first = index(&unit_of(&image, unit)) * 168;
        let wrong = if is_rotten { rotten(&image, unit) } else { image.clone() };
        let executor = Executor::new(5);
        let disk = Disk::new(&executor, wrong);
        if !is_rotten {
            let at = unit * UNIT;
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever());
        }
        let (has_begun, answered) = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
            let size = Some(first * 4096 + 5000);
            let changes = SetAttributes { size, ..SetAttributes::default() };
            let sealed = volume.files.setattr(&caller(), file, changes, None).await;
            let answer = sealed.open().await.map_err(|_| "it has stopped")?.into_inner();
            let has_begun = answer.about.after.is_some_and(|it| it.size < 900 * 4096);
            Ok::<_, String>((has_begun, answer.result.is_ok()))
        })?;
        let image = disk.contents(); // as after a kill
        let (_, remembered) = on(&image, async |volume| {
            let all = volume.files.take_remembered().open().await;
            let all = all.map_err(|_| "it has stopped")?.into_inner();
            Ok(all.into_iter().rev().find(|it| it.answered.key == caller().call.expect("a key")))
        })?;
        let has_failed = remembered.map(|it| it.answered.outcome.has_failed);
        if has_failed != has_begun.then_some(!answered) {
            return Err(format!("block {first}: answered {answered}, remembered {has_failed:?}"));
        }
        failed += u64::from(has_begun && !answered);
    }
    if failed > 0 { Ok(()) } else { Err("no later step failed".to_owned()) }
}

#[test]
fn a_truncation_of_which_a_later_step_fails_is_remembered_so() {
    assert_eq!(failures_are_remembered(true), Ok(()));
    assert_eq!(failures_are_remembered(false), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_failure_that_is_remembered_as_done_is_found() {
    for is_rotten in [true, false] {
        vnode::planted::plant(Some(vnode::planted::Bug::UntoldFailures));
        let done = std::panic::catch_unwind(|| failures_are_remembered(is_rotten));
        vnode::planted::plant(None);
        assert!(!matches!(done, Ok(Ok(()))), "the first step's answer is remembered");
    }
}

#[test]
fn a_truncation_within_a_rotten_block_keeps_all_of_it() {
    let image = of(&[700]);
    let is_data = |unit: &u64| unit_of(&image, *unit) == [1; 4096];
    let data: Vec<u64> = (32..image.size() / UNIT - 2).filter(is_data).collect();
    let mut wrong = image.clone();
    data.iter().for_each(|&unit| wrong = rotten(&wrong, unit));
    let (after, ()) = on(&wrong, async |volume| {
        let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
        assert_eq!(volume.read(file).await, Err(FsError::Corrupt), "it is no failure of the disk");
        assert!(volume.resize(file, 300 * 4096 + 5).await.is_err(), "its tail is not zero");
        assert_eq!(volume.attributes(file).await.size, 301 * 4096);
        assert_eq!(volume.resize(file, 200 * 4096).await, Ok(()));
        goes_on(volume).await
    })
    .expect("it goes on");
    let told = found(&after).expect("it is looked at").wrong;
    assert!(told.iter().all(|it| it.law == Law::Data), "{told:?}");
}

/// A roll-back discards rotten blocks.
pub(crate) fn rotten_trees_are_discarded() -> Result<(), String> {
    let (image, ()) = on(&of(&[20]), async |volume| pin(volume, "one").await.map(drop))?;
    let (image, ()) = on(&image, async |volume| {
        let root = volume.files.root();
        for name in ["g0", "g1"] {
            let file = volume.create(root, name).await.map_err(told)?;
            let data = vec![9; 100 * 4096];
            volume.write(file, 0, data, Stability::FileSync).await.map_err(told)?;
        }
        volume.remove(root, "f0").await.map_err(told)
    })?;
    let mut count = 0;
    for (unit, owner) in above(&image) {
        if owner <= 17 {
            continue; // the snapshot has it
        }
        count += 1;
        let (after, ()) = on(&rotten(&image, unit), async |volume| {
            roll_back(volume, "one").await?;
            Ok(())
        })
        .map_err(|error| format!("unit {unit}: {error}"))?;
        is_space_alone(&after).map_err(|error| format!("unit {unit}: {error}"))?;
        let (_, data) = on(&after, async |volume| {
            let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
            volume.read(file).await.map_err(told)
        })?;
        if data != vec![1; 20 * 4096] {
            return Err("another content".to_owned());
        }
    }
    if count == 0 { Err("there is none".to_owned()) } else { Ok(()) }
}

#[test]
fn rot_in_what_is_discarded_refuses_no_roll_back() {
    assert_eq!(rotten_trees_are_discarded(), Ok(()));
}

/// The disk fails for a while as a large file is freed: nothing waits for it, and in the end all of
/// it is free.
#[test]
fn a_large_file_is_freed_when_the_disk_works_again() {
    let image = of(&[900]);
    let units: Vec<u64> = above(&image).into_iter().map(|(unit, _)| unit).collect();
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let lowest = units.iter().find(|&&unit| {
            let bytes = unit_of(&image, unit);
            bytes[16] == 1 && index(&bytes) == 0
        });
        let at = lowest.expect("it has some") * UNIT;
        for _ in 0..3 {
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1));
        }
        volume.remove(volume.files.root(), "f0").await.expect("its last blocks can be read");
        clock.sleep(Duration::from_millis(700)).await;
        pin(&volume, "meanwhile").await.expect("nothing is in its way");
        clock.sleep(Duration::from_secs(60)).await;
        volume.settle().await;
        volume.files.shutdown().await.expect("nothing is left to do");
    });
    let (_, free) = on(&disk.contents(), async |volume| {
        enginekit::snapshots::delete(volume, "meanwhile", true).await?;
        Ok(volume.space().await.free_bytes)
    })
    .expect("it opens");
    let (_, before) =
        on(&of(&[]), async |volume| Ok(volume.space().await.free_bytes)).expect("it opens");
    assert!(free + (128 << 10) > before, "{free} bytes are free of {before}");
}

/// A volume goes back while a large file waits to be freed, since the disk fails for a while, and
/// works again just then: the old tree is there, and nothing of it is freed.
fn going_back_ends_orphans() -> Result<(), String> {
    let (image, ()) = on(&of(&[900]), async |volume| pin(volume, "one").await.map(drop))?;
    let lowest = above(&image).into_iter().map(|(unit, _)| unit).find(|&unit| {
        let bytes = unit_of(&image, unit);
        bytes[16] == 1 && index(&bytes) == 0
    });
    let at = lowest.ok_or("it has no pointers")? * UNIT;
    for after_us in (1_000_000..1_020_000).step_by(250) {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, image.clone());
        let clock = executor.runtime().clock;
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever());
            volume.remove(volume.files.root(), "f0").await.map_err(told)?;
            let since = clock.now();
            clock.sleep(Duration::from_millis(500)).await;
            disk.heal();
            clock.sleep(Duration::from_micros(after_us) - clock.now().since(since)).await;
            roll_back(&volume, "one").await?;
            clock.sleep(Duration::from_secs(5)).await;
            volume.files.shutdown().await.map_err(told)
        })?;
        let after = disk.contents();
        findings(&after).map_err(|error| format!("{after_us} us: {error}"))?;
        let (_, data) = on(&after, async |volume| {
            let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
            volume.read(file).await.map_err(told)
        })?;
        if data != vec![1; 900 * 4096] {
            return Err(format!("{after_us} us: another content"));
        }
    }
    Ok(())
}

#[test]
fn a_large_file_that_is_not_freed_yet_goes_with_the_tree() {
    assert_eq!(going_back_ends_orphans(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn an_orphan_that_survives_its_tree_is_found() {
    use vnode::planted::{Bug, plant};
    for bug in [Bug::SurvivingOrphans, Bug::UnwaitedChains] {
        plant(Some(bug));
        let done = std::panic::catch_unwind(going_back_ends_orphans);
        plant(None);
        assert!(!matches!(done, Ok(Ok(()))), "{bug:?}");
    }
}

/// A dead list cannot be read for now: the space of others is freed nevertheless.
pub(crate) fn one_list_is_in_no_others_way() -> Result<(), String> {
    let (image, ()) = on(&of(&[30]), async |volume| {
        let file = volume.lookup(volume.files.root(), "f0").await.map_err(told)?;
        for (name, byte) in [("a", 2), ("b", 3)] {
            pin(volume, name).await?;
            let data = vec![byte; 30 * 4096];
            volume.write(file, 0, data, Stability::FileSync).await.map_err(told)?;
        }
        for number in 0..120 {
            let name = format!("g{number}"); // so that all is on lists
            volume.create(volume.files.root(), &name).await.map_err(told)?;
        }
        Ok(())
    })?;
    let is_list = |unit: &u64| {
        let bytes = unit_of(&image, *unit);
        bytes.starts_with(b"DuSh")
            && bytes[6] == Kind::DIED.byte()
            && findings(&rotten(&image, *unit)).is_err()
    };
    let lists: Vec<u64> = (32..image.size() / UNIT - 2).filter(is_list).collect();
    if lists.len() < 2 {
        return Err(format!("{lists:?}"));
    }
    for unit in lists {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, image.clone());
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let at = unit * UNIT;
            let before = volume.space().await.free_bytes;
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever());
            for name in ["a", "b"] {
                delete(&volume, name, false).await?;
            }
            let mut has_failed = false;
            for number in [1, 2, 1, 2, 1, 2, 1, 2] {
                let snapshots = volume.files.snapshots().expect("it has them");
                let step = snapshots.delete_step(SnapshotNumber(number)).await.open().await;
                has_failed |= step.map_err(|_| "it has stopped")?.into_inner().is_err();
            }
            volume.settle().await;
            let freed = volume.space().await.free_bytes.saturating_sub(before);
            if has_failed && freed >= 30 * 4096 {
                return Ok(());
            }
            Err(format!("{freed} bytes are given back without unit {unit}"))
        })?;
    }
    Ok(())
}

#[test]
fn a_list_that_cannot_be_read_is_in_no_others_way() {
    assert_eq!(one_list_is_in_no_others_way(), Ok(()));
}
