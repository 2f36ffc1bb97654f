//! The engine's own books rot: the map of space, its log, the records and the replies. The volume
//! continues, and opens; the parts that it needs are rebuilt, and no file loses anything.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::Verb;
use cow::Kind;
use enginekit::Volume;
use enginekit::snapshots::{delete, end_deletion, pin};
use shadow::format::kind;
use shadow::{Law, Renewed, Shadow, repair};
use sim::{Disk, Effect, Executor, Fault, Image};
use vfs::{CallKey, Credentials, FileSystem, Requester, SetAttributes, SnapshotNumber, Stability};

use crate::bench::{Setting, findings, made, opened, opened_small, told};
use crate::judged::found;
use crate::mended::{All, on, shown};
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

fn caller(call: u16) -> Requester {
    let key = CallKey::new(&call.to_le_bytes()).expect("two bytes");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

/// Makes directories by calls of clients, and removes every other one.
async fn calls(volume: &Volume<Shadow>, calls: std::ops::Range<u16>) -> Result<(), String> {
    for call in calls {
        let name = enginekit::volume::name(&format!("d{call}"));
        let (root, mode) = (volume.files.root(), SetAttributes::default());
        let sealed = volume.files.mkdir(&caller(call), root, &name, mode).await;
        let answer = sealed.open().await.map_err(|_| format!("call {call}: it has stopped"))?;
        answer.into_inner().result.map_err(told)?;
        if call % 2 == 0 {
            let gone = volume.files.rmdir(&caller(call | 1 << 15), root, &name).await;
            let answer = gone.open().await.map_err(|_| format!("call {call}: it has stopped"))?;
            answer.into_inner().result.map_err(told)?;
        }
    }
    Ok(())
}

/// A stopped volume with a snapshot, files and replies, some of which are still in records.
pub(crate) fn used() -> Image {
    used_on(&Setting::of(4, 64, 8 << 20))
}

fn used_on(setting: &Setting) -> Image {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, setting));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let root = volume.files.root();
        let file = volume.create(root, "large").await.map_err(told)?;
        let data = vec![7; 80 * 4096];
        volume.write(file, 0, data, Stability::FileSync).await.map_err(told)?;
        calls(volume, 0..60).await?;
        pin(volume, "one").await?;
        for block in 0..20 {
            let data = vec![8; 4096];
            volume.write(file, block * 8192, data, Stability::FileSync).await.map_err(told)?;
        }
        calls(volume, 60..110).await
    })
    .expect("there is room");
    assert_eq!(findings(&image), Ok(()));
    image
}

/// Lines of snapshots and of lists, which are in memory too.
const LINES: [Kind; 2] = [Kind::SNAPSHOTS, Kind::LISTS];
const BOOKS: [Kind; 4] = [kind::MAP, kind::LOG, kind::RECORD, Kind::ANSWERS];

/// Units with blocks of some kinds, or pointers to them, whose rot a check reports.
pub(crate) fn needed(image: &Image, kinds: &[Kind], owners: &[u64]) -> Vec<u64> {
    let is_it = |unit: &u64| {
        let bytes = unit_of(image, *unit);
        let of_pointers = bytes[6] == Kind::POINTERS.byte();
        let is_of = kinds.iter().any(|&kind| bytes[6] == kind.byte())
            || of_pointers && owners.contains(&bytes[8].into());
        bytes.starts_with(b"DuSh") && is_of && findings(&rotten(image, &[*unit])).is_err()
    };
    (32..image.size() / UNIT - 2).filter(is_it).collect()
}

pub(crate) fn rotten(image: &Image, units: &[u64]) -> Image {
    let mut image = image.clone();
    for unit in units {
        let at = unit * UNIT + 1077;
        image.write(at, &[unit_of(&image, *unit)[1077] ^ 4]);
    }
    image
}

/// The contents of all trees.
fn all(image: &Image) -> Result<All, String> {
    shown(image, &[0, 1]).map(|(_, all)| all)
}

/// Uses a volume as clients do, until nothing is left in it.
async fn use_up(volume: &Volume<Shadow>) -> Result<Renewed, String> {
    calls(volume, 200..330).await?;
    let renewed = volume.files.store().engine().status().renewed;
    delete(volume, "one", true).await?;
    volume.remove(volume.files.root(), "large").await.map_err(told)?;
    volume.settle().await;
    Ok(renewed)
}

/// Each block of the books rots at rest, one by one: the volume opens with its old contents,
/// continues, and is consistent in the end.
pub(crate) fn books_may_rot_at_rest() -> Result<(), String> {
    let image = used();
    let right = all(&image)?;
    let units = needed(&image, &BOOKS, &[1, 3, 7]);
    let mut met = BTreeSet::new();
    for &unit in &units {
        let rotten = rotten(&image, &[unit]);
        let kind = unit_of(&image, unit)[6];
        let is_told = |error: String| format!("unit {unit} of kind {kind}: {error}");
        if all(&rotten).map_err(is_told)? != right {
            return Err(is_told("another content".to_owned()));
        }
        let (after, renewed) = on(&rotten, use_up).map_err(is_told)?;
        let Renewed { map_blocks, answer_blocks, has_lost_records, .. } = renewed;
        // Dead blocks that only records had stay in use until a repair, and so do blocks of replies
        // without a pointer to them.
        let may_leak = has_lost_records || answer_blocks > 1;
        let after = if may_leak { repaired(&after)?.0 } else { after };
        findings(&after).map_err(is_told)?;
        met.insert((map_blocks > 0, answer_blocks > 0, has_lost_records));
    }
    let ways = [(true, false, false), (true, false, true), (false, true, false)];
    if !ways.iter().all(|way| met.contains(way)) || units.len() < 12 {
        return Err(format!("{} units, {met:?}", units.len()));
    }
    Ok(())
}

#[test]
fn a_volume_opens_without_a_block_of_its_books() {
    assert_eq!(books_may_rot_at_rest(), Ok(()));
}

/// A stopped volume in the middle of a deletion: records and lists have runs that it has to free.
fn amid_a_deletion() -> Result<Image, String> {
    let (image, ()) = on(&used(), async |volume| {
        delete(volume, "one", false).await?;
        let snapshots = volume.files.snapshots().expect("it has them");
        let step = snapshots.delete_step(SnapshotNumber(1)).await.open().await;
        let is_last = step.map_err(|_| "it has stopped")?.into_inner().map_err(told)?;
        if is_last { Err("nothing is left to free".to_owned()) } else { Ok(()) }
    })?;
    findings(&image).map(|()| image)
}

/// A block of the books rots while a deletion is under way: no client gets the units that the
/// deletion has still to free, and they are freed once.
pub(crate) fn what_is_to_be_freed_stays_held() -> Result<(), String> {
    let image = amid_a_deletion()?;
    let units = needed(&image, &BOOKS[..3], &[1, 7]);
    for &unit in &units {
        let is_told = |error: String| format!("unit {unit}: {error}");
        let (after, ()) = on(&rotten(&image, &[unit]), async |volume| {
            let file = volume.create(volume.files.root(), "new").await.map_err(told)?;
            let blocks = volume.space().await.free_bytes / 4096 * 4 / 5;
            for block in 0..blocks {
                let data = vec![block as u8 | 1; 4096];
                volume.write(file, block * 4096, data, Stability::FileSync).await.map_err(told)?;
            }
            end_deletion(volume, SnapshotNumber(1)).await?;
            calls(volume, 200..300).await?;
            let right = (0..blocks).flat_map(|block| [block as u8 | 1; 4096]);
            let is_right = volume.read(file).await.map_err(told)?.into_iter().eq(right);
            if is_right { Ok(()) } else { Err("another content".to_owned()) }
        })
        .map_err(is_told)?;
        let has_lost = unit_of(&image, unit)[6] != kind::MAP.byte();
        let after = if has_lost { repaired(&after)?.0 } else { after };
        findings(&after).map_err(is_told)?;
    }
    if units.len() < 3 { Err(format!("{units:?}")) } else { Ok(()) }
}

#[test]
fn what_a_deletion_has_still_to_free_stays_held() {
    assert_eq!(what_is_to_be_freed_stays_held(), Ok(()));
}

/// The disk does not read a leaf of the books, at rest or under the server: the volume opens with
/// its old contents, continues, and can be repaired. The replies are there when it is read again.
pub(crate) fn books_may_be_unread() -> Result<(), String> {
    let image = used();
    let right = all(&image)?;
    let is_leaf = |unit: &u64| {
        let kind = unit_of(&image, *unit)[6];
        kind != kind::RECORD.byte() && kind != Kind::POINTERS.byte()
    };
    for unit in needed(&image, &BOOKS, &[]).into_iter().filter(is_leaf) {
        let (kind, place) = (unit_of(&image, unit)[6], unit_of(&image, unit)[8]);
        let is_told = |error: String| format!("unit {unit} of {kind}, {place}: {error}");
        let fault = || {
            let at = unit * UNIT;
            Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever()
        };
        for repairs in [false, true] {
            let is_told = |error: String| is_told(format!("repairs: {repairs}, {error}"));
            let executor = Executor::new(3);
            let disk = Disk::new(&executor, image.clone());
            disk.inject(fault());
            executor
                .block_on(async {
                    if repairs {
                        let repaired = repair(disk.clone(), executor.runtime()).await;
                        return repaired.map_err(|error| error.to_string());
                    }
                    let volume = opened(executor.runtime(), &disk).await?;
                    use_up(&volume).await?;
                    volume.files.shutdown().await.map_err(told)
                })
                .map_err(is_told)?;
            disk.heal();
            let after = repaired(&disk.contents()).map_err(is_told)?.0;
            findings(&after).map_err(is_told)?;
            if repairs && all(&after)? != right {
                return Err(is_told("another content".to_owned()));
            }
        }
    }
    for kinds in [&[kind::MAP][..], &[kind::LOG], &[Kind::ANSWERS]] {
        let executor = Executor::new(3);
        let disk = Disk::new(&executor, image.clone());
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            for unit in needed(&image, kinds, &[]) {
                let at = unit * UNIT;
                disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever());
            }
            calls(&volume, 200..800).await?;
            volume.files.shutdown().await.map_err(told)
        })?;
        findings(&disk.contents()).map_err(|error| format!("{kinds:?}: {error}"))?;
    }
    Ok(())
}

#[test]
fn books_that_are_not_read_end_no_volume() {
    assert_eq!(books_may_be_unread(), Ok(()));
}

/// The whole map, its log and the ring of replies rot under the server.
pub(crate) fn books_may_rot_in_use() -> Result<(), String> {
    let image = used();
    for kinds in
        [&[kind::MAP][..], &[kind::LOG], &[Kind::ANSWERS], &[kind::MAP, Kind::ANSWERS], &LINES]
    {
        let units = needed(&image, kinds, &[]);
        let executor = Executor::new(3);
        let disk = Disk::new(&executor, image.clone());
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            units.iter().for_each(|unit| disk.rot(unit * UNIT + 1077, 2));
            // Data is on its way that is in no record yet.
            let root = volume.files.root();
            let beside = volume.create(root, "beside").await.map_err(told)?;
            let write = async |at: u64| {
                let data = vec![9; 40 * 4096];
                volume.write(beside, at * 40 * 4096, data, Stability::Unstable).await
            };
            let writes = async {
                for at in 0..120 {
                    write(at % 4).await.map_err(told)?;
                    volume.commit(beside).await.map_err(told)?;
                }
                Ok::<_, String>(())
            };
            futures::future::try_join(writes, calls(&volume, 200..800)).await?;
            pin(&volume, "two").await?;
            calls(&volume, 800..820).await?;
            delete(&volume, "one", true).await?;
            volume.files.shutdown().await.map_err(told)
        })?;
        findings(&disk.contents()).map_err(|wrong| format!("{kinds:?}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn a_served_volume_goes_on_without_its_books() {
    assert_eq!(books_may_rot_in_use(), Ok(()));
}

/// The blocks of pointers in the ring of replies rot under a server with little memory: later
/// replies are remembered, and the volume opens.
pub(crate) fn the_ring_may_get_holes() -> Result<(), String> {
    let (image, ()) = on(&used(), async |volume| calls(volume, 1000..1400).await)?;
    let units = needed(&image, &[], &[3]);
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened_small(executor.runtime(), &disk).await?;
        let file = volume.lookup(volume.files.root(), "large").await.map_err(told)?;
        volume.read(file).await.map_err(told)?; // other blocks take the memory
        units.iter().for_each(|unit| disk.rot(unit * UNIT + 1077, 2));
        calls(&volume, 200..400).await?;
        let renewed = volume.files.store().engine().status().renewed;
        volume.files.shutdown().await.map_err(told)?;
        if renewed.answer_blocks > 0 { Ok(()) } else { Err(format!("not met: {units:?}")) }
    })?;
    let (image, remembered) = on(&disk.contents(), async |volume| {
        let all = volume.files.take_remembered().open().await.map_err(|_| "it has stopped")?;
        Ok(all.into_inner().len())
    })?;
    findings(&repaired(&image)?.0)?;
    if remembered >= 100 { Ok(()) } else { Err(format!("{remembered} are remembered")) }
}

#[test]
fn a_ring_that_has_lost_a_block_of_pointers_is_opened() {
    assert_eq!(the_ring_may_get_holes(), Ok(()));
}

/// If lines of lists have rotted at rest, their space stays in use until a repair; a volume that
/// has lost the lines of snapshots is not opened without them.
#[test]
fn lines_may_rot_at_rest() {
    let image = used();
    let right = all(&image).expect("it is well");
    for unit in needed(&image, &[Kind::LISTS], &[5]) {
        let wrong = rotten(&image, &[unit]);
        assert!(all(&wrong).expect("it opens") == right, "unit {unit}");
        let (after, _) = on(&wrong, use_up).expect("it opens");
        let (after, _) = repaired(&after).expect("there is room");
        assert_eq!(findings(&after), Ok(()), "unit {unit}");
    }
    for unit in needed(&image, &[Kind::SNAPSHOTS], &[4]) {
        let refused = all(&rotten(&image, &[unit])).expect_err("a snapshot would be lost");
        assert!(refused.contains("damaged"), "{refused}");
        let (after, _) = repaired(&rotten(&image, &[unit])).expect("there is room");
        assert_eq!(findings(&after), Ok(()), "unit {unit}");
    }
}

/// If a file has rotted as well, no block that it may hold is given to others.
pub(crate) fn nothing_behind_damage_is_free() -> Result<(), String> {
    // All units of a lost block of the map are in use, and there is room behind it.
    let image = used_on(&Setting::of(4, 4096, 160 << 20));
    let map = needed(&image, &[kind::MAP], &[]);
    let above = needed(&image, &[Kind::POINTERS], &[]);
    let of_file = |unit: &&u64| unit_of(&image, **unit)[8] >= 16;
    let above: Vec<u64> = above.iter().filter(of_file).copied().collect();
    if map.is_empty() || above.is_empty() {
        return Err("there are none".to_owned());
    }
    for unit in above {
        let wrong = rotten(&image, &[map[0], unit]);
        let (after, ()) = on(&wrong, async |volume| {
            let _filled = calls(volume, 200..260).await; // there may be no room
            Ok(())
        })
        .map_err(|error| format!("unit {unit}: {error}"))?;
        // The block of pointers comes back, as from another disk: everything below it is there.
        let mut back = after.clone();
        back.write(unit * UNIT, &unit_of(&image, unit));
        let wrong = found(&back)?.wrong;
        let is_leak = |law: &Law| matches!(law, Law::Map | Law::Counts | Law::Listed);
        if let Some(wrong) =
            wrong.iter().find(|it| !is_leak(&it.law) || it.found.contains("free that"))
        {
            return Err(format!("unit {unit}: {wrong}"));
        }
    }
    Ok(())
}

#[test]
fn what_hangs_from_a_damaged_block_stays() {
    assert_eq!(nothing_behind_damage_is_free(), Ok(()));
}

/// Replies in other blocks of the ring are remembered.
#[test]
fn answers_of_one_block_alone_are_forgotten() {
    let image = used();
    let remembered = |image: &Image| {
        let remembered = on(image, async |volume| {
            let all = volume.files.take_remembered().open().await.map_err(|_| "it has stopped")?;
            Ok(all.into_inner().len())
        });
        remembered.expect("it opens").1
    };
    let right = remembered(&image);
    let units = needed(&image, &[Kind::ANSWERS], &[]);
    assert!(units.len() > 3);
    let left: Vec<usize> = units.iter().map(|&unit| remembered(&rotten(&image, &[unit]))).collect();
    assert!(left.iter().all(|&left| left < right), "{left:?} of {right}");
    let lost: usize = left.iter().map(|left| right - left).sum();
    assert!(lost <= right, "each is in one block: {left:?} of {right}");
    assert!(left.iter().all(|&left| left + 40 > right), "{left:?} of {right}");
}
