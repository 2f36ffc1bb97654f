//! Places of the blocks of lists, over many starts: they are reused, so that no number of starts
//! makes a healthy volume refuse one.

#[cfg(feature = "planted-bugs")]
use cow::format::snapshot::PLACES;
use cow::planted::{Bug, plant};
use enginekit::Volume;
use enginekit::snapshots::{delete, pin};
use shadow::Shadow;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
#[cfg(feature = "planted-bugs")]
use shadow::repair;
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened, told};
#[cfg(feature = "planted-bugs")]
use crate::lost::disk_of;
use crate::scrub::{UNIT as BYTES, unit_of};

/// The newest superblock of a volume at rest, and its units.
fn newest(image: &Image) -> (Superblock, Vec<u64>) {
    let anchor = Anchor::read(&unit_of(image, 0)).expect("it is at rest");
    let places = 32..image.size() / BYTES - 2;
    let read = |unit: u64| Superblock::read(&unit_of(image, unit), unit, &anchor.secret);
    let all: Vec<(u64, Superblock)> =
        places.filter_map(|unit| read(unit).map(|superblock| (unit, superblock))).collect();
    let last = all.iter().map(|(_, superblock)| superblock.number).max().expect("there is one");
    let of_last = || all.iter().filter(|(_, superblock)| superblock.number == last);
    let superblock = of_last().next().expect("there is one").1.clone();
    (superblock, of_last().map(|&(unit, _)| unit).collect())
}

fn places(image: &Image) -> u64 {
    newest(image).0.snapshots.died_slots
}

/// A volume at rest with a snapshot that stays, and a list of blocks that it alone holds.
fn with_a_list() -> Image {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    let image = disk.contents();
    start(&image, async |volume| {
        let root = volume.files.root();
        let file = volume.create(root, "file").await.map_err(told)?;
        volume.write(file, 0, vec![1; 64 * 4096], Stability::FileSync).await.map_err(told)?;
        pin(volume, "stays").await?;
        volume.write(file, 0, vec![2; 4096], Stability::FileSync).await.map(drop).map_err(told)
    })
    .expect("there is room")
}

/// Opens a volume, uses it, and stops it.
fn start(
    image: &Image,
    work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<(), String>,
) -> Result<Image, String> {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        work(&volume).await?;
        volume.files.shutdown().await.map_err(told)
    })?;
    Ok(disk.contents())
}

/// Makes and deletes a snapshot that holds many runs.
async fn come_and_go(volume: &Volume<Shadow>) -> Result<(), String> {
    let file = volume.lookup(volume.files.root(), "file").await.map_err(told)?;
    for name in ["a", "b", "c"] {
        pin(volume, name).await?;
        for block in 0..6 {
            volume
                .write(file, block * 8192, vec![3; 4096], Stability::FileSync)
                .await
                .map_err(told)?;
        }
    }
    for name in ["a", "b", "c"] {
        delete(volume, name, true).await?;
    }
    Ok(())
}

/// Many starts need no more places than one does.
pub(crate) fn places_are_handed_out_again() -> Result<(), String> {
    let mut image = start(&with_a_list(), come_and_go)?;
    let peak = places(&image);
    for round in 0..40 {
        image = start(&image, come_and_go)?;
        if places(&image) > peak {
            return Err(format!("{} places after {round} starts, not {peak}", places(&image)));
        }
    }
    findings(&image)
}

#[test]
fn starts_need_no_more_places_than_lists_have_blocks() {
    assert_eq!(places_are_handed_out_again(), Ok(()));
}

/// A volume that earlier programs opened very often: they reused no place.
#[cfg(feature = "planted-bugs")]
fn past_the_bound() -> Image {
    let mut image = with_a_list();
    let units = image.size() / BYTES;
    plant(Some(Bug::ForgottenPlaces));
    for _ in 0..200 {
        if places(&image) > units {
            break;
        }
        image = start(&image, come_and_go).expect("it opens");
    }
    plant(None);
    assert!(places(&image) > units, "{} places", places(&image));
    image
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_volume_past_the_bound_opens_and_has_few_places_then() {
    let past = past_the_bound();
    assert_eq!(findings(&past), Ok(()));
    let units = past.size() / BYTES;
    let (executor, disk) = disk_of(&past);
    let repaired = executor.block_on(repair(disk.clone(), executor.runtime()));
    assert!(repaired.is_ok(), "{repaired:?}");
    assert_eq!(findings(&disk.contents()), Ok(()));
    for image in [past, disk.contents()] {
        let last = start(&image, async |volume| delete(volume, "stays", true).await.map(drop));
        assert_eq!(places(&last.expect("it opens")), 0, "no list is left");
        let mut image = start(&image, come_and_go).expect("it opens");
        // New blocks of its list get the first places; the last of the old ones is given back.
        image = start(&image, come_and_go).expect("it opens");
        assert!(places(&image) <= units + 40, "{}", places(&image));
        assert_eq!(findings(&image), Ok(()));
    }
}

#[test]
fn numbers_of_places_that_no_tree_has_are_findings() {
    let image = with_a_list();
    for places in [PLACES + 1, u64::MAX] {
        let wrong = said(&image, places);
        assert!(findings(&wrong).is_err(), "{places}");
        assert!(start(&wrong, come_and_go).is_err(), "{places}");
    }
}

/// The same volume, with this number of places in the superblock.
fn said(image: &Image, places: u64) -> Image {
    let mut image = image.clone();
    let anchor = Anchor::read(&unit_of(&image, 0)).expect("it is at rest");
    let (mut superblock, units) = newest(&image);
    superblock.snapshots.died_slots = places;
    for unit in units {
        image.write(unit * BYTES, &*superblock.write(unit, &anchor.secret));
    }
    image
}
