//! Repairs: damage that can be repaired is, with one update, and the rest stays as it was.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::BlockDevice;
use enginekit::Volume;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use shadow::{Findings, Law, OpenOptions, Shadow, check, open, repair};
use sim::{Choice, Disk, Executor, Image, Prng, Trace};
use vfs::{FileSystem, FsError};

use crate::scrub::{UNIT, filled, read_all, stands_twice, unit_of};

fn found(image: &Image) -> Result<Findings, String> {
    let executor = Executor::new(1);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image.clone());
    let found = executor.block_on(check(disk, true, &mut |_, _| ()));
    found.map_err(|error| error.to_string())
}

fn laws(image: &Image) -> Result<BTreeSet<Law>, String> {
    Ok(found(image)?.wrong.into_iter().map(|wrong| wrong.law).collect())
}

/// Repairs an image; returns the result, and the trace of the disk.
pub(crate) fn repaired(image: &Image) -> Result<(Image, Trace), String> {
    let executor = Executor::new(2);
    let disk = Disk::new(&executor, image.clone());
    disk.start_trace();
    let done = executor.block_on(repair(disk.clone(), executor.runtime()));
    done.map_err(|error| error.to_string())?;
    Ok((disk.contents(), disk.trace()))
}

/// Opens an image, inspects it, and stops it again.
pub(crate) fn stopped<T>(
    image: &Image,
    look: impl AsyncFnOnce(&Volume<Shadow>) -> T,
) -> Result<(Image, T), String> {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    let told = executor.block_on(async {
        let files = open(disk.clone(), executor.runtime(), &OpenOptions::default()).await;
        let volume = Volume::new(files.map_err(|error| error.to_string())?);
        let told = look(&volume).await;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(told)
    });
    Ok((disk.contents(), told?))
}

/// Each unit in use of this kind, with an image in which a byte of its body has rotted.
fn rotten(image: &Image, kind: u8) -> Vec<(u64, Image)> {
    let units = 32..image.size() / UNIT - 2;
    let of_kind = |unit: &u64| {
        let bytes = unit_of(image, *unit);
        bytes.starts_with(b"DuSh") && bytes[6] == kind
    };
    let rot = |unit: u64| {
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 77, &[unit_of(image, unit)[77] ^ 4]);
        (unit, rotten)
    };
    let all = units.filter(of_kind).map(rot);
    all.filter(|(_, image)| found(image).map_or(true, |found| !found.wrong.is_empty())).collect()
}

#[test]
fn map_and_records_are_made_anew_and_nothing_is_lost() {
    let image = filled();
    let right = stopped(&image, async |volume| read_all(volume).await).expect("it is well").1;
    let mut count = 0;
    for (unit, rotten) in [3, 7, 13].map(|kind| rotten(&image, kind)).concat() {
        assert!(laws(&rotten).expect("it can be looked at").contains(&Law::Map), "unit {unit}");
        let (_, all) = stopped(&rotten, async |volume| read_all(volume).await).expect("it opens");
        assert!(all == right, "unit {unit}");
        let (mended, _) = repaired(&rotten).expect("there is room");
        assert_eq!(found(&mended).expect("it can be looked at").wrong, [], "unit {unit}");
        let (after, all) = stopped(&mended, async |volume| read_all(volume).await).expect("well");
        assert!(all == right, "unit {unit}");
        assert_eq!(found(&after).expect("it can be looked at").wrong, [], "unit {unit}");
        count += 1;
    }
    assert!(count > 2, "{count} were needed");
}

#[test]
fn names_of_files_whose_inodes_are_lost_go_and_all_others_stay() {
    let image = filled();
    let mut count = 0;
    for (unit, rotten) in rotten(&image, 5) {
        let before = found(&rotten).expect("it can be looked at");
        if stands_twice(&unit_of(&image, unit)) {
            assert_eq!(laws(&rotten), Ok(BTreeSet::from([Law::Twice])), "unit {unit}");
            let (mended, _) = repaired(&rotten).expect("there is room");
            assert_eq!(laws(&mended), Ok(BTreeSet::new()), "unit {unit}: the other is whole");
            continue;
        }
        let names = before.wrong.iter().filter(|wrong| wrong.law == Law::Target);
        let names: BTreeSet<&str> =
            names.map(|wrong| wrong.path.as_deref().expect("it has a name")).collect();
        assert!(!names.is_empty(), "unit {unit}: {before:?}");
        let (mended, _) = repaired(&rotten).expect("there is room");
        let left = laws(&mended).expect("it can be looked at");
        assert_eq!(left, BTreeSet::new(), "unit {unit}");
        let listed = async |volume: &Volume<Shadow>| {
            let root = volume.files.root();
            let many = volume.lookup(root, "many").await;
            let of_many = match many {
                Ok(many) => volume.list(many).await?.len(),
                Err(FsError::NoEntry) => 2,
                Err(error) => return Err(error),
            };
            let names = volume.list(root).await?;
            // The files of a lost directory have other names.
            let others = names.iter().filter(|name| *name != "lost+found").count();
            Ok(others + of_many)
        };
        let told = stopped(&mended, listed).expect("it opens").1.expect("all names lead to files");
        let there = names.iter().filter(|path| !path.starts_with("/deep/")).count();
        // Two dots each, four names in the root, seventy in '/many'.
        let is_many_lost = names.contains("/many");
        let expected = if is_many_lost { 8 - there } else { 78 - there };
        assert_eq!(told, expected, "unit {unit}: {names:?}");
        count += 1;
    }
    assert!(count > 2, "{count} were lost");
}

#[test]
fn counters_are_those_of_what_there_is() {
    let mut image = filled();
    let anchor = Anchor::read(&unit_of(&image, 0)).expect("it is at rest");
    let mut changed = 0;
    for unit in 32..image.size() / UNIT - 2 {
        if let Some(read) = Superblock::read(&unit_of(&image, unit), unit, &anchor.secret) {
            let wrong = Superblock { files: read.files + 3, units: 0, ..read };
            image.write(unit * UNIT, &*wrong.write(unit, &anchor.secret));
            changed += 1;
        }
    }
    assert!(changed > 1, "both copies count");
    assert_eq!(laws(&image), Ok(BTreeSet::from([Law::Counts])));
    let (mended, _) = repaired(&image).expect("there is room");
    assert_eq!(laws(&mended), Ok(BTreeSet::new()));
    let (after, told) = stopped(&mended, async |volume| read_all(volume).await).expect("it opens");
    assert!(told.is_ok());
    assert_eq!(laws(&after), Ok(BTreeSet::new()));
}

/// Wherever a repair is cut off, the volume is as it was, or repaired.
pub(crate) fn a_cut_leaves_the_old_tree_or_the_new() -> Result<(), String> {
    let image = filled();
    let first = |kind| rotten(&image, kind).pop().map(|(_, image)| image);
    let kinds = [first(5), first(7), first(13)];
    let (mut old, mut new) = (0, 0);
    for rotten in kinds.into_iter().flatten() {
        let before = found(&rotten)?.counts;
        let (mended, trace) = repaired(&rotten)?;
        let after = found(&mended)?.counts;
        for position in 0..=trace.events().len() {
            for seed in 0..12 {
                let platter = trace.platter_at(position);
                let mut prng = Prng::new(position as u64 * 100 + seed);
                let left = platter.image(&Choice::random(&platter, &mut prng));
                let now = found(&left)?;
                match now.counts {
                    now if now == after => new += 1,
                    now if now == before => old += 1,
                    _ => return Err(format!("event {position}, seed {seed}: {:?}", now.wrong)),
                }
            }
        }
    }
    if old > 20 && new > 20 { Ok(()) } else { Err(format!("{old} old, {new} new")) }
}

#[test]
fn a_repair_may_be_cut_off_anywhere() {
    assert_eq!(a_cut_leaves_the_old_tree_or_the_new(), Ok(()));
}
