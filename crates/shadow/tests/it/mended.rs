//! Repairs of volumes with snapshots: their blocks stay, and are freed when they are deleted.

use std::collections::{BTreeMap, BTreeSet};

use cow::format::snapshot::{Died, Line, List};
use cow::{Kind, Run};
use enginekit::Volume;
use enginekit::snapshots::{delete, listed};
use shadow::format::kind;
use shadow::{Law, Shadow, Wrong};
use sim::{Choice, Disk, Executor, Image, Prng};
use vfs::{FileSystem, FsError, ObjectId, SnapshotNumber};

use crate::bench::{findings, opened};
use crate::forge::forge;
use crate::judged::{found, of_three_trees, units};
use crate::repair::repaired;
use crate::scrub::UNIT;

/// The files of trees, by tree and path: their data, or the error of a read.
pub(crate) type All = BTreeMap<(u32, String), Result<Vec<u8>, FsError>>;

/// Collects everything in a tree below a directory.
async fn gather(volume: &Volume<Shadow>, tree: u32, path: &str, id: ObjectId, all: &mut All) {
    match volume.list(id).await {
        Ok(names) => {
            for text in names.iter().filter(|text| *text != "." && *text != "..") {
                let path = format!("{path}/{text}");
                match volume.lookup(id, text).await {
                    Ok(id) => Box::pin(gather(volume, tree, &path, id, all)).await,
                    Err(error) => _ = all.insert((tree, path), Err(error)),
                }
            }
        }
        Err(FsError::NotDirectory) => {
            all.insert((tree, path.to_owned()), volume.read(id).await);
        }
        Err(error) => _ = all.insert((tree, path.to_owned()), Err(error)),
    }
}

/// The contents of the trees of a stopped volume, and the disk when it is stopped again.
pub(crate) fn shown(image: &Image, trees: &[u32]) -> Result<(Image, All), String> {
    on(image, async |volume| {
        let mut all = All::new();
        for &tree in trees {
            let root = volume.files.root().within(SnapshotNumber(tree.into()));
            gather(volume, tree, "", root, &mut all).await;
        }
        Ok(all)
    })
}

pub(crate) fn on<T>(
    image: &Image,
    work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<T, String>,
) -> Result<(Image, T), String> {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    let done = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let done = work(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(done)
    });
    Ok((disk.contents(), done?))
}

/// Deletes all snapshots in this order, and removes all files: then everything is free.
fn is_emptied(image: &Image, order: &[&str]) -> Result<(), String> {
    let mut image = image.clone();
    for text in order {
        (image, _) = on(&image, async |volume| delete(volume, text, true).await)?;
        findings(&image).map_err(|wrong| format!("without {text}: {wrong}"))?;
    }
    let (image, free) = on(&image, async |volume| {
        let root = volume.files.root();
        let d = volume.lookup(root, "d").await.map_err(|error| error.to_string())?;
        let sub = volume.lookup(d, "sub").await.map_err(|error| error.to_string())?;
        for (directory, text) in [(sub, "deep"), (d, "a"), (d, "also"), (d, "b")] {
            let gone = volume.remove(directory, text).await;
            gone.map_err(|error| format!("remove {text}: {error}"))?;
        }
        volume.rmdir(d, "sub").await.map_err(|error| error.to_string())?;
        volume.rmdir(root, "d").await.map_err(|error| error.to_string())?;
        volume.settle().await;
        let space = volume.space().await;
        Ok((space.total_bytes - space.free_bytes, listed(volume).await?))
    })?;
    findings(&image)?;
    if free == (UNIT, vec![]) { Ok(()) } else { Err(format!("{free:?} are left")) }
}

/// Damage of lines of snapshots and of the space map, outside all trees of files.
fn damages() -> Vec<(&'static str, Image)> {
    let image = of_three_trees();
    let changed = |kind, owner, change: &dyn Fn(&mut [u8])| {
        let mut changed = image.clone();
        forge(&mut changed, units(&image, kind, owner, 0)[0], change);
        changed
    };
    let rotten = |kind, owner| {
        let mut rotten = image.clone();
        rotten.write(units(&image, kind, owner, 0)[0] * UNIT + 1000, &[0x5a; 9]);
        rotten
    };
    let list = |change: &dyn Fn(&mut List)| {
        changed(Kind::LISTS, 5, &|block| {
            let mut list = List::read(block, 0).expect("it is one");
            change(&mut list);
            List::write(block, 0, Some(&list));
        })
    };
    let died = |change: &dyn Fn(&mut Vec<Run>)| {
        changed(Kind::DIED, 6, &|block| {
            let Died { previous, mut runs } = Died::read(block).expect("it is one");
            change(&mut runs);
            Died::begin(block, previous);
            runs.iter().for_each(|&run| Died::add(block, run));
        })
    };
    let counts = changed(Kind::SNAPSHOTS, 4, &|block| {
        let mut told = Line::read(block, 0).expect("it makes sense").expect("it is one");
        (told.files, told.units, told.nodes, told.directories) = (1, 2, 3, 4);
        Line::write(block, 0, Some(&told));
    });
    vec![
        ("counts of a line", counts),
        ("units of a list", list(&|list| list.units = 1)),
        (
            "the span of a list",
            list(&|list| {
                list.span.end = if list.span.end == 2 { 3 } else { 2 };
            }),
        ),
        ("a run is missing", died(&|runs| _ = runs.remove(0))),
        ("a run is listed twice", died(&|runs| runs.push(runs[0]))),
        ("a run is longer", died(&|runs| runs[0].length += 40)),
        ("no block of a list", rotten(Kind::DIED, 6)),
        ("no lines of lists", rotten(Kind::LISTS, 5)),
        ("no map", rotten(kind::MAP, 1)),
        ("no record", rotten(kind::RECORD, 0)),
    ]
}

#[test]
fn what_is_told_of_snapshots_is_made_right() {
    let image = of_three_trees();
    let (_, right) = shown(&image, &[0, 1, 2]).expect("it is well");
    assert!(right.len() > 10 && right.values().all(Result::is_ok), "{right:?}");
    for (turn, (what, damaged)) in damages().into_iter().enumerate() {
        assert!(findings(&damaged).is_err(), "{what}");
        let (mended, _) = repaired(&damaged).expect(what);
        assert_eq!(findings(&mended), Ok(()), "{what}");
        let (mended, now) = shown(&mended, &[0, 1, 2]).expect(what);
        assert!(now == right, "{what}");
        assert_eq!(findings(&mended), Ok(()), "{what}");
        let order = if turn % 2 == 0 { ["one", "two"] } else { ["two", "one"] };
        assert_eq!(is_emptied(&mended, &order), Ok(()), "{what}");
    }
}

/// Wherever the repair is cut off, the volume is as it was, or repaired; then it can be repeated.
pub(crate) fn a_repair_beside_snapshots_is_cut() -> Result<(), String> {
    let (_, right) = shown(&of_three_trees(), &[0, 1, 2])?;
    for (what, damaged) in damages() {
        let before = found(&damaged)?.counts;
        let (_, trace) = repaired(&damaged)?;
        let mut seen = [0, 0];
        for position in 0..=trace.events().len() {
            let platter = trace.platter_at(position);
            let mut prng = Prng::new(position as u64);
            let left = platter.image(&Choice::random(&platter, &mut prng));
            let now = found(&left)?.counts;
            let is_new = now.is_empty();
            if !is_new && now != before {
                return Err(format!("{what}, event {position}: {now:?}, not {before:?}"));
            }
            seen[usize::from(is_new)] += 1;
            let again = if is_new { left } else { repaired(&left)?.0 };
            findings(&again).map_err(|wrong| format!("{what}, event {position}: {wrong}"))?;
            if position % 5 == 0 && shown(&again, &[0, 1, 2])?.1 != right {
                return Err(format!("{what}, event {position}: something else is shown"));
            }
        }
        if seen.contains(&0) {
            return Err(format!("{what}: {seen:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_repair_beside_snapshots_may_be_cut_off_anywhere() {
    assert_eq!(a_repair_beside_snapshots_is_cut(), Ok(()));
}

fn laws(wrong: &[Wrong]) -> BTreeSet<(Law, Option<String>)> {
    wrong.iter().map(|it| (it.law, it.snapshot.clone())).collect()
}

/// Damage in the tree of a snapshot is limited to it; the rest of the snapshot stays, and
/// everything is free when it is deleted.
#[test]
fn what_is_lost_in_a_snapshot_is_told_and_the_rest_stays() {
    let image = of_three_trees();
    let (_, right) = shown(&image, &[0, 1, 2]).expect("it is well");
    for (kind, owner) in [(Kind::INODES, 0), (Kind::NAMES, 16)] {
        let index = u64::from(kind == Kind::INODES);
        let mut damaged = image.clone();
        damaged.write(units(&image, kind, owner, index)[0] * UNIT + 1000, &[0x5a; 9]);
        let before = found(&damaged).expect("it can be looked at").wrong;
        let (mended, _) = repaired(&damaged).expect("there is room");
        let after = found(&mended).expect("it can be looked at").wrong;
        // The blocks below it are free, and the counts are right.
        assert!(laws(&before).is_superset(&laws(&after)), "{before:?}\n{after:?}");
        assert!(after.iter().all(|it| it.snapshot.as_deref() == Some("one")), "{after:?}");
        let gone = [Law::Counts, Law::Map, Law::Listed];
        assert!(after.iter().all(|it| !gone.contains(&it.law)), "{after:?}");
        let (mended, now) = shown(&mended, &[0, 1, 2]).expect("it opens");
        for (key, data) in &right {
            let is_kept = now.get(key) == Some(data);
            let may_be_lost = kind == Kind::INODES || key.1.starts_with("/d");
            assert!(is_kept || key.0 == 1 && may_be_lost, "{key:?}");
        }
        assert_eq!(is_emptied(&mended, &["one", "two"]), Ok(()), "{kind:?}");
    }
}

/// Snapshots without a root, or without a line, are gone: all blocks that they alone held are free.
#[test]
fn a_snapshot_that_no_way_leads_into_goes() {
    let image = of_three_trees();
    let (_, right) = shown(&image, &[0, 2]).expect("it is well");
    let copies = units(&image, Kind::INODES, 0, 0);
    let root = copies[0];
    let mut rotten = image.clone();
    copies[..2].iter().for_each(|copy| rotten.write(copy * UNIT + 3000, &[0x5a; 9]));
    let mut no_root = image.clone();
    forge(&mut no_root, root, |block| block[64 + 2 * 252 + 1] = 0x80);
    let mut no_line = image.clone();
    forge(&mut no_line, units(&image, Kind::SNAPSHOTS, 4, 0)[0], |block| block[64 + 4] = 99);
    for (what, damaged) in [("rotten", rotten), ("no root", no_root), ("no line", no_line)] {
        let (mended, _) = repaired(&damaged).expect(what);
        assert_eq!(findings(&mended), Ok(()), "{what}");
        let (mended, now) = shown(&mended, &[0, 2]).expect(what);
        assert!(now == right, "{what}");
        let (mended, left) = on(&mended, async |volume| listed(volume).await).expect(what);
        assert_eq!(left.iter().map(|(text, _)| text).collect::<Vec<_>>(), ["two"], "{what}");
        assert_eq!(is_emptied(&mended, &["two"]), Ok(()), "{what}");
    }
    // All lines are lost.
    let mut none = image.clone();
    none.write(units(&image, Kind::SNAPSHOTS, 4, 0)[0] * UNIT + 3000, &[0x5a; 9]);
    let (mended, _) = repaired(&none).expect("there is room");
    assert_eq!(findings(&mended), Ok(()));
    assert_eq!(is_emptied(&mended, &[]), Ok(()));
}

/// A block of inodes that the live tree and a snapshot share is lost: both trees stay consistent,
/// and the block is not reused as long as the snapshot leads to it.
#[test]
fn what_the_live_tree_shares_with_a_snapshot_is_lost_for_both() {
    let executor = Executor::new(5);
    let disk = executor
        .block_on(crate::bench::made(&executor, &crate::bench::Setting::of(4, 64, 3 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let root = volume.files.root();
        for number in 0..40 {
            let text = format!("f{number}");
            volume.create(root, &text).await.map_err(|error| error.to_string())?;
        }
        enginekit::snapshots::pin(volume, "one").await?;
        volume.remove(root, "f0").await.map_err(|error| error.to_string())
    })
    .expect("there is room");
    let shared = units(&image, Kind::INODES, 0, 2);
    assert_eq!(shared.len(), 1, "both have it");
    let mut damaged = image.clone();
    damaged.write(shared[0] * UNIT + 1000, &[0x5a; 9]);
    let (mended, _) = repaired(&damaged).expect("there is room");
    let wrong = found(&mended).expect("it can be looked at").wrong;
    assert!(wrong.iter().all(|it| it.snapshot.is_some()), "{wrong:?}");
    assert!(wrong.iter().any(|it| it.law == Law::Block), "{wrong:?}");
    let (mended, left) = on(&mended, async |volume| {
        let live = volume.list(volume.files.root()).await.map_err(|error| error.to_string())?;
        delete(volume, "one", true).await?;
        Ok(live.len())
    })
    .expect("it opens");
    assert_eq!(left, 2 + 39 - 16);
    assert_eq!(findings(&mended), Ok(()));
}

/// A block of a list rots before a snapshot is deleted: the deletion skips it, and a repair frees
/// the blocks that were on it.
#[test]
fn what_a_deletion_had_to_pass_is_given_back_by_a_repair() {
    let image = of_three_trees();
    let block = units(&image, Kind::DIED, 6, 0)[0];
    let mut rotten = image.clone();
    rotten.write(block * UNIT + 3000, &[0x5a; 9]);
    let (left, ()) = on(&rotten, async |volume| {
        delete(volume, "one", true).await?;
        delete(volume, "two", true).await.map(drop)
    })
    .expect("what cannot be read is passed");
    let wrong = found(&left).expect("it can be looked at").wrong;
    assert!(wrong.iter().any(|it| it.law == Law::Map), "units are in use for nobody: {wrong:?}");
    let (mended, _) = repaired(&left).expect("there is room");
    assert_eq!(findings(&mended), Ok(()));
    assert_eq!(is_emptied(&mended, &[]), Ok(()));
}
