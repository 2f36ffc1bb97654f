//! Blocks that lead to the root directory have two copies: one copy of each may rot, at rest and
//! under an open volume, and of all of them at once; if both have rotted, a repair makes a new
//! root.

use std::collections::BTreeSet;

use cow::format::head::first_twin;
use cow::format::snapshot::{LINES, Line};
use cow::{Kind, Tree};
use enginekit::Volume;
use enginekit::snapshots::{delete, pin, roll_back};
use futures::future::join_all;
use shadow::format::superblock::Superblock;
use shadow::{Law, OpenOptions, Shadow, open, scrub};
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened, told};
use crate::judged::found;
use crate::lost::newest;
use crate::mended::{All, on, shown};
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

async fn file(volume: &Volume<Shadow>, text: &str, byte: u8) -> Result<(), String> {
    let file = volume.create(volume.files.root(), text).await.map_err(told)?;
    volume.write(file, 0, vec![byte; 5000], Stability::FileSync).await.map_err(told)
}

/// A stopped volume with 120 files, a directory with one more, and optionally a snapshot of them.
fn of_many(has_snapshot: bool) -> Image {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        for number in 0..120 {
            file(volume, &format!("f{number}"), number).await?;
        }
        let d = volume.mkdir(volume.files.root(), "d").await.map_err(told)?;
        let deep = volume.create(d, "deep").await.map_err(told)?;
        volume.write(deep, 0, vec![77; 9000], Stability::FileSync).await.map_err(told)?;
        if has_snapshot {
            pin(volume, "one").await?;
            volume.remove(volume.files.root(), "f7").await.map_err(told)?;
            file(volume, "after", 9).await?;
        }
        Ok(())
    })
    .expect("there is room");
    image
}

/// The newest superblock.
pub(crate) fn last(image: &Image) -> Superblock {
    let secret = newest(image).secret;
    let all = 32..image.size() / UNIT - 2;
    let read = |unit| Superblock::read(&unit_of(image, unit), unit, &secret);
    all.filter_map(read).max_by_key(|it| it.number).expect("there is one")
}

/// Both units of each block between a root and the first inodes, these first.
fn way(image: &Image, tree: &Tree) -> Vec<[u64; 2]> {
    let (mut at, mut twin) = (tree.root.pointers[0].address.get(), tree.twin);
    let mut way = vec![[at, twin]];
    for _ in 0..tree.height {
        let block = unit_of(image, at);
        let number = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8"));
        (at, twin) = (number(64), first_twin(&block));
        way.insert(0, [at, twin]);
    }
    assert_eq!(unit_of(image, at)[6], Kind::INODES.byte());
    way
}

/// The path of the live tree.
fn live(image: &Image) -> Vec<[u64; 2]> {
    let way = way(image, &last(image).inodes);
    assert_eq!(way.len(), 2, "there is a block of pointers");
    way
}

/// The path of the first snapshot.
fn held(image: &Image) -> Vec<[u64; 2]> {
    let lines = last(image).snapshots.lines.root.pointers[0].address.get();
    let told = (0..LINES).find_map(|slot| Line::read(&unit_of(image, lines), slot).ok().flatten());
    way(image, &told.expect("there is one").inodes)
}

/// The image with one bit of a unit flipped, or all of it.
fn rotten(image: &Image, unit: u64, is_whole: bool) -> Image {
    let mut image = image.clone();
    let bytes = if is_whole { vec![0x5a; 4096] } else { vec![unit_of(&image, unit)[1077] ^ 4] };
    image.write(unit * UNIT + if is_whole { 0 } else { 1077 }, &bytes);
    image
}

/// One copy of each block of the path, one at a time.
fn each_rotten(image: &Image, way: &[[u64; 2]]) -> Vec<(u64, Image)> {
    let units = way.iter().flatten().flat_map(|&unit| [(unit, false), (unit, true)]);
    units.map(|(unit, is_whole)| (unit, rotten(image, unit, is_whole))).collect()
}

fn is_twice(image: &Image) -> Result<(), String> {
    let wrong = found(image)?.wrong;
    let laws: BTreeSet<Law> = wrong.iter().map(|it| it.law).collect();
    if laws == BTreeSet::from([Law::Twice]) { Ok(()) } else { Err(format!("{wrong:?}")) }
}

/// Checks that the trees of the volume are as they were, and that it is consistent when stopped
/// again.
fn is_as(image: &Image, trees: &[u32], right: &All) -> Result<Image, String> {
    let (after, all) = shown(image, trees)?;
    if all != *right {
        return Err("something else is shown".to_owned());
    }
    findings(&after)?;
    Ok(after)
}

#[test]
fn both_copies_stand_in_different_zones() {
    let image = of_many(true);
    let shape = last(&image).volume.shape;
    for way in [live(&image), held(&image)] {
        for [one, other] in way {
            assert_ne!(shape.zone_of(one), shape.zone_of(other));
            assert_eq!(unit_of(&image, one), unit_of(&image, other));
        }
    }
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let new = disk.contents();
    let way = way(&new, &last(&new).inodes);
    assert_eq!((way.len(), findings(&new)), (1, Ok(())));
    assert_ne!(shape.zone_of(way[0][0]), shape.zone_of(way[0][1]), "also of a new volume");
}

/// One copy rots at rest: a check reports it, an opening reads the other, and the volume is
/// consistent when it is stopped.
pub(crate) fn a_copy_may_rot_at_rest() -> Result<(), String> {
    let image = of_many(false);
    let (_, right) = shown(&image, &[0])?;
    for (unit, rotten) in each_rotten(&image, &live(&image)) {
        is_twice(&rotten).map_err(|error| format!("unit {unit}: {error}"))?;
        is_as(&rotten, &[0], &right).map_err(|error| format!("unit {unit}: {error}"))?;
    }
    Ok(())
}

#[test]
fn one_copy_may_rot_at_rest() {
    assert_eq!(a_copy_may_rot_at_rest(), Ok(()));
}

/// A read mends as well: the rotten place itself is rewritten.
pub(crate) fn a_read_mends() -> Result<(), String> {
    let image = of_many(true);
    let (_, right) = shown(&image, &[0, 1])?;
    for (unit, rotten) in each_rotten(&image, &held(&image)) {
        is_twice(&rotten).map_err(|error| format!("unit {unit}: {error}"))?;
        let is_first = held(&image).iter().any(|[first, _]| *first == unit);
        let (after, all) = shown(&rotten, &[0, 1])?;
        if all != right {
            return Err(format!("unit {unit}: something else is shown"));
        }
        // The second copy is not read if the first is whole: that is for a scrub.
        let is_mended = unit_of(&after, unit) == unit_of(&image, unit);
        if is_mended != is_first {
            return Err(format!("unit {unit}: mended {is_mended}"));
        }
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, rotten);
        let scrubbed = executor.block_on(scrub(disk.clone(), &mut |_| true));
        let scrubbed = scrubbed.map_err(|error| error.to_string())?;
        let scrubbed = scrubbed.map_err(|error| error.to_string())?;
        if (scrubbed.mended, scrubbed.lost.len()) != (1, 0) {
            return Err(format!("unit {unit}: {scrubbed:?}"));
        }
        findings(&disk.contents()).map_err(|error| format!("unit {unit}, scrubbed: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_read_and_a_scrub_mend_what_a_snapshot_holds() {
    assert_eq!(a_read_mends(), Ok(()));
}

#[test]
fn one_copy_of_each_block_may_rot_at_once() {
    let image = of_many(true);
    let (_, right) = shown(&image, &[0, 1]).expect("it is well");
    for turn in 0..4 {
        let ways = [live(&image), held(&image)].concat();
        let pick = |(at, copies): (usize, &[u64; 2])| copies[(at + turn) / (1 + turn / 2) % 2];
        let units = ways.iter().enumerate().map(pick);
        let wrong = units.fold(image.clone(), |image, unit| rotten(&image, unit, turn % 2 > 0));
        assert_eq!(is_twice(&wrong), Ok(()));
        let (mended, _) = repaired(&wrong).expect("there is room");
        assert_eq!(findings(&mended), Ok(()), "a repair writes them again");
        assert_eq!(is_as(&mended, &[0, 1], &right).map(drop), Ok(()));
        let (_, all) = shown(&wrong, &[0, 1]).expect("it opens");
        assert!(all == right, "as it is, too");
    }
}

/// A volume that is opened read-only stays as it is.
#[test]
fn what_is_only_looked_at_stays_as_it_is() {
    let image = of_many(false);
    for (unit, rotten) in each_rotten(&image, &live(&image)) {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, rotten.clone());
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        executor.block_on(async {
            let files = open(disk.clone(), executor.runtime(), &options).await;
            let volume = Volume::new(files.expect("the other copy is whole"));
            volume.lookup(volume.files.root(), "f3").await.expect("it is there");
            volume.files.shutdown().await.expect("nothing fails");
        });
        assert!(disk.contents() == rotten, "unit {unit}");
        is_twice(&disk.contents()).expect("a check has written nothing either");
    }
}

/// Copies rot under an open volume, which continues: files, a snapshot, a roll-back, stops and
/// starts, a scrub, and a repair.
#[test]
fn copies_may_rot_under_an_open_volume() {
    let image = of_many(false);
    let (_, right) = shown(&image, &[0]).expect("it is well");
    for (number, (unit, _)) in each_rotten(&image, &live(&image)).into_iter().enumerate() {
        let executor = Executor::new(9);
        let disk = Disk::new(&executor, image.clone());
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            // Their places since the opening wrote something.
            let now = live(&disk.contents());
            for [one, other] in now {
                let at = if number % 2 == 0 { one } else { other };
                disk.rot(at * UNIT + 100 + unit, 3);
            }
            if number % 3 > 0 {
                let scrubbed =
                    volume.files.store().engine().scrub(&mut |_| true).await.expect("it ends");
                assert_eq!(scrubbed.lost, [], "the others are whole");
                assert!((1..=2).contains(&scrubbed.mended), "one goes out with the other");
                assert_eq!(is_twice(&disk.contents()).ok(), None, "none is wrong any more");
            }
            pin(&volume, "here").await.expect("there is room");
            file(&volume, "more", 5).await.expect("there is room");
            volume.remove(volume.files.root(), "f0").await.expect("it is there");
            if number % 2 > 0 {
                roll_back(&volume, "here").await.expect("it is the newest");
            } else {
                volume.files.shutdown().await.expect("nothing fails");
            }
        });
        let (after, all) = shown(&disk.contents(), &[0, 1]).expect("it opens");
        for ((_, path), data) in &right {
            assert!(all.get(&(1, path.clone())) == Some(data), "{path}");
            let is_kept = all.get(&(0, path.clone())) == Some(data);
            assert_eq!(is_kept, number % 2 > 0 || path != "/f0", "{path}");
        }
        let (mended, _) = repaired(&after).expect("there is room");
        assert_eq!(findings(&mended), Ok(()));
        let (left, ()) = on(&mended, async |volume| {
            delete(volume, "here", true).await?;
            volume.settle().await;
            Ok(())
        })
        .expect("it can be deleted");
        assert_eq!(findings(&left), Ok(()));
    }
}

/// Blocks of snapshots stay in both copies until the snapshots are deleted, and are free then.
pub(crate) fn snapshots_hold_both() -> Result<(), String> {
    let image = of_many(true);
    let (_, right) = shown(&image, &[1])?;
    let way = held(&image);
    let (after, ()) = on(&image, async |volume| {
        for number in 0..60 {
            file(volume, &format!("g{number}"), number).await?;
            let gone = format!("f{}", number + 20);
            volume.remove(volume.files.root(), &gone).await.map_err(told)?;
        }
        Ok(())
    })?;
    findings(&after)?;
    for (unit, rotten) in each_rotten(&after, &way) {
        let (_, all) = shown(&rotten, &[1]).map_err(|error| format!("unit {unit}: {error}"))?;
        if all != right {
            return Err(format!("unit {unit}: something else is shown"));
        }
    }
    let (left, ()) = on(&after, async |volume| delete(volume, "one", true).await.map(drop))?;
    findings(&left)
}

#[test]
fn a_snapshot_holds_both_copies() {
    assert_eq!(snapshots_hold_both(), Ok(()));
}

/// Both copies of blocks of these levels rot.
fn both_rotten(image: &Image, levels: &[usize], is_whole: bool) -> Image {
    let way = live(image);
    let units = levels.iter().flat_map(|&level| way[level]);
    units.fold(image.clone(), |image, unit| rotten(&image, unit, is_whole))
}

/// Data of files, whatever their names.
fn data(all: &All) -> Vec<Vec<u8>> {
    let mut data: Vec<_> = all.values().map(|data| data.clone().unwrap_or_default()).collect();
    data.sort();
    data
}

#[test]
fn files_get_names_where_both_copies_of_the_root_have_rotted() {
    for has_snapshot in [false, true] {
        let image = of_many(has_snapshot);
        let trees: &[u32] = if has_snapshot { &[0, 1] } else { &[0] };
        let (_, right) = shown(&image, trees).expect("it is well");
        let live_of = |all: &All| -> All {
            all.iter()
                .filter(|(key, _)| key.0 == 0)
                .map(|(key, it)| (key.clone(), it.clone()))
                .collect()
        };
        for is_whole in [false, true] {
            let wrong = both_rotten(&image, &[0], is_whole);
            assert!(shown(&wrong, &[0]).is_err(), "nothing leads to the files");
            let (mended, _) = repaired(&wrong).expect("all files are there");
            assert_eq!(findings(&mended), Ok(()));
            let (after, all) = shown(&mended, trees).expect("it opens");
            assert_eq!(findings(&after), Ok(()));
            assert_eq!(data(&live_of(&all)), data(&live_of(&right)));
            let is_there = |(_, path): &(u32, String)| path.starts_with("/lost+found/#");
            assert!(live_of(&all).keys().all(is_there), "{:?}", all.keys());
            let deep = all.iter().find(|((tree, path), _)| *tree == 0 && path.ends_with("/deep"));
            assert_eq!(deep.expect("a directory keeps its names").1, &Ok(vec![77; 9000]));
            for (key, data) in right.iter().filter(|(key, _)| key.0 == 1) {
                assert!(all.get(key) == Some(data), "{key:?} of {:?}", all.keys());
            }
            all_can_go(&after);
        }
    }
}

/// Everything can be removed, and new files can be made.
fn all_can_go(image: &Image) {
    let (after, ()) = on(image, async |volume| {
        let root = volume.files.root();
        let lost = volume.lookup(root, "lost+found").await.map_err(told)?;
        for text in volume.list(lost).await.map_err(told)? {
            if text == "." || text == ".." {
                continue;
            }
            if volume.remove(lost, &text).await.is_err() {
                let d = volume.lookup(lost, &text).await.map_err(told)?;
                volume.remove(d, "deep").await.map_err(told)?;
                volume.rmdir(lost, &text).await.map_err(told)?;
            }
        }
        volume.rmdir(root, "lost+found").await.map_err(told)?;
        file(volume, "new", 3).await
    })
    .expect("it is a volume like any other");
    assert_eq!(findings(&after), Ok(()));
}

#[test]
fn what_leads_to_the_root_is_found_where_both_copies_have_rotted() {
    for has_snapshot in [false, true] {
        let image = of_many(has_snapshot);
        let trees: &[u32] = if has_snapshot { &[0, 1] } else { &[0] };
        let (_, right) = shown(&image, trees).expect("it is well");
        for is_whole in [false, true] {
            let wrong = both_rotten(&image, &[1], is_whole);
            assert!(shown(&wrong, &[0]).is_err(), "nothing leads to the files");
            let (mended, _) = repaired(&wrong).expect("all files are there");
            assert_eq!(is_as(&mended, trees, &right).map(drop), Ok(()), "all names are there");
        }
        let both = both_rotten(&image, &[0, 1], true);
        let (mended, _) = repaired(&both).expect("all files are there");
        assert_eq!(findings(&mended), Ok(()));
        let (_, all) = shown(&mended, &[0]).expect("it opens");
        assert_eq!(all.len(), right.keys().filter(|key| key.0 == 0).count());
    }
}

/// So many files that there are two levels of pointers, which one tree has reached step by step.
#[test]
fn a_way_of_two_levels_stands_twice_and_is_found() {
    const FILES: usize = 16_200;
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 1024, 64 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let root = volume.files.root();
        let d = volume.mkdir(root, "d").await.map_err(told)?;
        for first in (0..FILES).step_by(100) {
            let some = (first..first + 100).map(async |number| {
                volume.create(d, &format!("{number}")).await.expect("there is room")
            });
            join_all(some).await;
        }
        Ok(())
    })
    .expect("there is room");
    assert_eq!(findings(&image), Ok(()));
    let way = way(&image, &last(&image).inodes);
    assert_eq!(way.len(), 3, "inodes, and two levels above them");
    let names = |image: &Image, path: &str| {
        let (after, count) = on(image, async |volume| {
            let root = volume.files.root();
            let mut at = root;
            for text in path.split('/') {
                at = volume.lookup(at, text).await.map_err(told)?;
            }
            Ok(volume.list(at).await.map_err(told)?.len())
        })?;
        findings(&after)?;
        Ok::<_, String>(count)
    };
    let firsts = way.iter().fold(image.clone(), |image, [first, _]| rotten(&image, *first, true));
    assert_eq!(names(&firsts, "d"), Ok(FILES + 2), "the other copies are whole");
    for (level, path) in [(0, "lost+found/#16"), (1, "d"), (2, "d")] {
        let copies = way[level].iter();
        let both = copies.fold(image.clone(), |image, &unit| rotten(&image, unit, false));
        let (mended, _) = repaired(&both).expect("all files are there");
        assert_eq!(names(&mended, path), Ok(FILES + 2), "level {level}");
    }
}

/// Wherever such a repair is cut off, it can be repeated.
#[test]
fn a_repair_that_makes_a_new_root_may_be_cut_off() {
    let image = both_rotten(&of_many(true), &[0], true);
    let (_, trace) = repaired(&image).expect("all files are there");
    for position in 0..=trace.events().len() {
        let platter = trace.platter_at(position);
        let mut prng = sim::Prng::new(position as u64);
        let left = platter.image(&sim::Choice::random(&platter, &mut prng));
        let (mended, _) = repaired(&left).expect("it is as it was, or repaired");
        assert_eq!(findings(&mended), Ok(()), "event {position}");
        let (_, all) = shown(&mended, &[0]).expect("it opens");
        assert_eq!(all.len(), 121, "event {position}");
    }
}
