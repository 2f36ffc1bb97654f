//! Remembered replies, with the changes that they confirm, over cuts and folds.

use std::rc::Rc;

use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use sim::{Choice, Disk, Executor, Mark, Prng, Trace};
use vfs::{CallKey, Credentials, FileSystem, ObjectId, Requester, SetAttributes};

use crate::bench::{Setting, findings, made, opened};
use crate::scrub::{UNIT, unit_of};

/// Calls of a run: enough for several folds.
const CALLS: u16 = 150;
/// The last calls, whose replies are remembered for certain.
const REMEMBERED: u16 = 100;

fn caller(call: u16) -> Requester {
    let key = CallKey::new(&call.to_le_bytes()).expect("two bytes");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

fn name_of(call: u16) -> vfs::Name {
    enginekit::volume::name(&format!("d{call}"))
}

/// A run in which each call makes a directory: the trace, and the replies.
fn record(seed: u64) -> (Trace, Vec<ObjectId>) {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 4 << 20)).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        disk.start_trace();
        let mut told = Vec::new();
        for call in 0..CALLS {
            let (root, mode) = (volume.files.root(), SetAttributes::default());
            let sealed = volume.files.mkdir(&caller(call), root, &name_of(call), mode).await;
            let answer = sealed.open().await.expect("running").into_inner();
            told.push(answer.result.expect("it is new").id);
            disk.mark(Mark::Number(u64::from(call) + 1));
        }
        (disk.trace(), told)
    })
}

/// Checks that after a cut the remembered replies are those that were sent, and that no others are.
fn check(trace: &Trace, told: &[ObjectId], position: usize, seed: u64) -> Result<(), String> {
    let platter = trace.platter_at(position);
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
    let last = trace.marks_before(position).filter_map(|mark| match mark {
        Mark::Number(number) => Some(*number as u16),
        _ => None,
    });
    let answered = last.max().unwrap_or(0);
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let remembered = volume.files.take_remembered().open().await;
        let remembered = remembered.map_err(|_| "it has stopped")?.into_inner();
        let of = |call: u16| {
            let key = CallKey::new(&call.to_le_bytes()).expect("two bytes");
            remembered.iter().rev().find(move |one| *one.answered.key == key)
        };
        for call in 0..CALLS {
            let there = volume.lookup(volume.files.root(), &format!("d{call}")).await.ok();
            let found = of(call).and_then(|one| one.answered.outcome.found);
            let is_late = call + REMEMBERED >= answered;
            let is_right = match (there, found) {
                (None, None) => call >= answered,
                (Some(there), Some(found)) => {
                    there == found && (call > answered || there == told[usize::from(call)])
                }
                (Some(_), None) => !is_late,
                (None, Some(_)) => false,
            };
            if !is_right {
                return Err(format!(
                    "of {answered} that were answered call {call} left {there:?}, and {found:?} \
                     is remembered, at event {position}"
                ));
            }
        }
        Ok(())
    })
}

pub(crate) fn answers_survive() -> Result<(), String> {
    for seed in 1..=2 {
        let (trace, told) = record(seed);
        let mut prng = Prng::new(seed);
        let mut cuts: Vec<usize> = (0..60).map(|_| prng.index(trace.events().len() + 1)).collect();
        cuts.push(trace.events().len());
        for (index, position) in (0..).zip(cuts) {
            check(&trace, &told, position, seed * 1000 + index)?;
        }
    }
    Ok(())
}

#[test]
fn what_was_answered_is_remembered_with_what_it_tells_of() {
    assert_eq!(answers_survive(), Ok(()));
}

/// If a reply has rotted, a repair forgets all of them, and the volume opens again.
#[test]
fn rotten_answers_are_forgotten() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for call in 0..CALLS {
            let (root, mode) = (volume.files.root(), SetAttributes::default());
            let sealed = volume.files.mkdir(&caller(call), root, &name_of(call), mode).await;
            sealed.open().await.expect("running").into_inner().result.expect("it is new");
        }
        volume.settle().await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    let (image, mut count) = (disk.contents(), 0);
    for unit in 32..image.size() / UNIT - 2 {
        let bytes = unit_of(&image, unit);
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 77, &[bytes[77] ^ 4]);
        let is_of_answers = bytes.starts_with(b"DuSh") && (bytes[6] == 8 || bytes[8] == 3);
        if !is_of_answers || findings(&rotten).is_ok() {
            continue;
        }
        let executor = Executor::new(2);
        let disk = Disk::new(&executor, rotten);
        let done = executor.block_on(shadow::repair(disk.clone(), executor.runtime()));
        done.expect("there is room");
        assert_eq!(findings(&disk.contents()), Ok(()), "unit {unit}");
        let again = executor.block_on(opened(executor.runtime(), &disk)).map(drop);
        assert_eq!(again, Ok(()), "unit {unit}");
        count += 1;
    }
    assert!(count > 3, "{count} were needed");
}

/// Replies in records are remembered after a repair of something else.
#[test]
fn answers_outlive_a_repair() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for call in 0..20 {
            let (root, mode) = (volume.files.root(), SetAttributes::default());
            let sealed = volume.files.mkdir(&caller(call), root, &name_of(call), mode).await;
            sealed.open().await.expect("running").into_inner().result.expect("it is new");
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    let mut image = disk.contents();
    let anchor = Anchor::read(&unit_of(&image, 0)).expect("it is at rest");
    for unit in 32..image.size() / UNIT - 2 {
        if let Some(read) = Superblock::read(&unit_of(&image, unit), unit, &anchor.secret) {
            let wrong = Superblock { files: read.files + 3, ..read };
            image.write(unit * UNIT, &*wrong.write(unit, &anchor.secret));
        }
    }
    assert!(findings(&image).is_err());
    let executor = Executor::new(2);
    let disk = Disk::new(&executor, image);
    let remembered = executor.block_on(async {
        shadow::repair(disk.clone(), executor.runtime()).await.expect("there is room");
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        volume.files.take_remembered().open().await.expect("running").into_inner().len()
    });
    assert_eq!(remembered, 20);
}

/// A block that is filled anew is not read: if a block has rotted whose replies are all forgotten
/// since the volume went back to a snapshot, or a block of the space log while the volume is open,
/// everything continues, and the volume is consistent in the end.
#[test]
fn what_is_filled_anew_may_have_rotted() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let both = async |volume: &enginekit::Volume<shadow::Shadow>, calls: std::ops::Range<u16>| {
        for call in calls {
            let (root, mode) = (volume.files.root(), SetAttributes::default());
            let sealed = volume.files.mkdir(&caller(call), root, &name_of(call), mode).await;
            let answer = sealed.open().await.expect("nothing has failed").into_inner();
            answer.result.expect("it is new");
            let sealed = volume.files.rmdir(&caller(call | 1 << 15), root, &name_of(call)).await;
            sealed.open().await.expect("nothing has failed").into_inner().result.expect("there");
        }
        volume.settle().await;
    };
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        enginekit::snapshots::pin(&volume, "one").await.expect("there is room");
        both(&volume, 0..CALLS).await;
        enginekit::snapshots::roll_back(&volume, "one").await.expect("it is the newest");
    });
    let image = disk.contents();
    assert_eq!(findings(&image), Ok(()));
    let rots = |image: &sim::Image, kind: u8, is_so: &dyn Fn(&sim::Image) -> bool| {
        let all = (32..image.size() / UNIT - 2).filter(|&unit| {
            let bytes = unit_of(image, unit);
            let mut rotten = image.clone();
            rotten.write(unit * UNIT + 1077, &[bytes[1077] ^ 4]);
            let is_it = bytes.starts_with(b"DuSh") && bytes[6] == kind;
            is_it && is_so(&rotten)
        });
        all.collect::<Vec<u64>>()
    };
    let answers = rots(&image, 8, &|rotten| findings(rotten).is_err());
    assert!(answers.len() > 3, "{answers:?}");
    let rotten = |units: &[u64]| {
        let disk = Disk::new(&executor, image.clone());
        units.iter().for_each(|unit| disk.rot(unit * UNIT + 1077, 2));
        disk
    };
    // A repair knows that nothing is lost with them, and the next blocks of the ring take their
    // places.
    let mended = rotten(&answers);
    executor.block_on(shadow::repair(mended.clone(), executor.runtime())).expect("there is room");
    assert_eq!(findings(&mended.contents()), Ok(()));
    let disk = rotten(&answers);
    let log = rots(&image, 13, &|rotten| findings(rotten).is_err());
    assert!(!log.is_empty(), "something waits there");
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("these are not needed");
        log.iter().for_each(|unit| disk.rot(unit * UNIT + 1077, 2));
        both(&volume, 200..700).await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
}
