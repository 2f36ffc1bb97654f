//! Volumes that have lost anchors: none is left, or those of another volume are at one end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::{BlockDevice, Verb};
use cow::format::head::seal_alone;
use enginekit::random::Seeded;
use enginekit::{Volume, tree};
use runtime::Timestamp;
use shadow::format::anchor::{Anchor, begun};
use shadow::format::superblock::Superblock;
use shadow::{
    Law, MkfsOptions, OpenError, OpenOptions, Seen, Shadow, check, look, mkfs, open, repair, scrub,
    set_label,
};
use sim::{Disk, Effect, Executor, Fault, Image};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{NOW, Setting, findings, made, opened, wipe_anchors};
use crate::scrub::{UNIT, filled, unit_of};

fn places(image: &Image) -> [u64; 4] {
    let units = image.size() / UNIT;
    [0, 1, units - 2, units - 1]
}

fn anchors(image: &Image) -> Vec<Anchor> {
    let of = |unit| Anchor::read(&unit_of(image, unit)).ok();
    places(image).into_iter().filter_map(of).collect()
}

pub(crate) fn newest(image: &Image) -> Anchor {
    anchors(image).into_iter().max_by_key(|anchor| anchor.number).expect("there is one")
}

pub(crate) fn disk_of(image: &Image) -> (Executor, Rc<Disk>) {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    (executor, disk)
}

fn seen(image: &Image) -> Result<Seen, OpenError> {
    let (executor, disk) = disk_of(image);
    executor.block_on(look(&*disk))
}

fn laws(image: &Image) -> Result<Vec<Law>, OpenError> {
    let (executor, disk) = disk_of(image);
    let disk: Rc<dyn BlockDevice> = disk;
    let found = executor.block_on(check(disk, true, &mut |_, _| ()))?;
    assert!(!found.is_at_rest || found.wrong.is_empty(), "{found:?}");
    Ok(found.wrong.into_iter().map(|wrong| wrong.law).collect())
}

/// Names in the root directory, and the content of a file.
type Content = (Vec<String>, Vec<u8>);

async fn content(volume: &Volume<Shadow>) -> Result<Content, FsError> {
    let root = volume.files.root();
    let file = volume.lookup(root, "large").await?;
    Ok((volume.list(root).await?, volume.read(file).await?))
}

/// The contents of a volume when it is opened, and the disk after it is stopped.
fn used(image: &Image) -> Result<(Content, Image), String> {
    let (executor, disk) = disk_of(image);
    let content = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let content = content(&volume).await.map_err(|error| error.to_string())?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(content)
    })?;
    Ok((content, disk.contents()))
}

/// A stopped volume with a label, and the same without anchors.
fn lost() -> (Image, Image) {
    let (executor, disk) = disk_of(&filled());
    executor.block_on(set_label(&*disk, "apples")).expect("it is at rest");
    let (_, whole) = used(&disk.contents()).expect("it is well");
    let mut image = whole.clone();
    wipe_anchors(&mut image);
    (whole, image)
}

#[test]
fn a_volume_without_anchors_is_found_and_gets_new_ones() {
    let (whole, image) = lost();
    let (before, told) = (seen(&whole).expect("it is well"), seen(&image).expect("it is found"));
    assert!(before.is_at_rest && !told.is_at_rest && !told.is_fresh, "{told:?}");
    let free = before.free.abs_diff(told.free);
    assert!(free <= before.size / 20, "{free} bytes of {}", before.size);
    assert!(before.has_anchors && !told.has_anchors, "{told:?}");
    let (is_at_rest, has_anchors) = (true, true);
    assert_eq!(Seen { is_at_rest, has_anchors, free: before.free, ..told }, before);
    assert_eq!(laws(&image), Ok(vec![Law::Anchor]));
    let (content, after) = used(&image).expect("it is found");
    assert_eq!(content, used(&whole).expect("it is well").0);
    let (old, new) = (anchors(&whole), anchors(&after));
    let last = old.iter().map(|anchor| anchor.number).max().expect("there are four");
    assert_eq!((old.len(), new.len()), (4, 4));
    assert!(new.iter().all(|anchor| anchor.number > last), "{new:?}");
    assert!(new.iter().all(|anchor| anchor.label == "apples"), "{new:?}");
    assert_eq!(laws(&after), Ok(vec![]));
    assert!(seen(&after).is_ok_and(|seen| seen.is_at_rest));
    let mut again = after;
    wipe_anchors(&mut again);
    let (_, again) = used(&again).expect("it is found again");
    assert!(newest(&again).number > new.iter().map(|anchor| anchor.number).max().unwrap_or(0));
}

#[test]
fn a_new_volume_without_anchors_is_found() {
    for setting in [Setting::of(4, 64, 2 << 20), Setting::of(16, 4096, 24 << 20)] {
        let executor = Executor::new(1);
        let mut image = executor.block_on(made(&executor, &setting)).contents();
        wipe_anchors(&mut image);
        assert_eq!(laws(&image), Ok(vec![Law::Anchor]));
        let (executor, disk) = disk_of(&image);
        executor.block_on(opened(executor.runtime(), &disk)).expect("it is found");
        assert_eq!(findings(&disk.contents()), Ok(()));
    }
}

/// The slots of a zone are read at once, and little else is needed to find them.
#[test]
fn a_large_disk_is_not_read_as_a_whole() {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(1 << 40));
    let options = MkfsOptions { label: "large".to_owned(), ..MkfsOptions::default() };
    let shape = executor.block_on(mkfs(&*disk, &options, &Seeded::new(7), NOW)).expect("room");
    let mut image = disk.contents();
    wipe_anchors(&mut image);
    let disk = Disk::new(&executor, image);
    let told = executor.block_on(look(&*disk)).expect("it is found");
    assert_eq!((told.label.as_str(), told.zone_size), ("large", 64 << 20));
    let reads = disk.counters().reads;
    assert!(reads < shape.zones() + 500, "{reads} of {} zones", shape.zones());
}

#[test]
fn what_lost_its_anchors_is_repaired_and_scrubbed_and_is_not_at_rest() {
    let (_, image) = lost();
    let (executor, disk) = disk_of(&image);
    let found = executor.block_on(scrub(disk.clone(), &mut |_| true)).expect("it is found");
    assert!(found.is_ok_and(|found| found.lost.is_empty() && found.mended == 0));
    assert!(disk.contents() == image, "nothing is written");
    assert_eq!(executor.block_on(set_label(&*disk, "pears")), Err(OpenError::NotAtRest));
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let refused = executor.block_on(open(disk.clone(), executor.runtime(), &options));
    assert_eq!(refused.err(), Some(OpenError::NotAtRest));
    executor.block_on(repair(disk.clone(), executor.runtime())).expect("it is found");
    assert_eq!(laws(&disk.contents()), Ok(vec![]));
    assert_eq!(anchors(&disk.contents()).len(), 4);
    used(&disk.contents()).expect("it is well");
}

/// All guarantees about cuts hold even if no anchor is left afterwards.
#[test]
fn cuts_of_which_no_anchor_is_left_lose_nothing() {
    let settings = [Setting::of(4, 64, 16 << 20), Setting::of(8, 256, 16 << 20)];
    for (seed, setting) in (1..).zip(settings) {
        let setting = setting.without_anchors();
        let run = tree::record(&setting, seed, 40);
        assert_eq!(run.first_wrong(seed, 30, true), None, "run {seed}");
    }
}

#[test]
fn what_may_be_anothers_is_not_taken() {
    let (whole, image) = lost();
    let of = |change: &dyn Fn(&mut Image)| {
        let mut image = image.clone();
        change(&mut image);
        seen(&image).err()
    };
    assert_eq!(of(&|_| ()), None);
    assert_eq!(of(&|image| image.write(5 * UNIT + 9, &[1])), Some(OpenError::NoVolume));
    assert_eq!(of(&|image| image.write(UNIT, b"LABELONE")), Some(OpenError::NoVolume));
    let last = image.size() - UNIT;
    assert_eq!(of(&|image| image.write(last, &*begun())), Some(OpenError::Unfinished));
    let later = |image: &mut Image| {
        let mut later = unit_of(&whole, 1);
        later[4] += 1;
        later[56..64].fill(0);
        seal_alone(&mut later);
        image.write(last, &later);
    };
    let version = cow::format::VERSION + 1;
    assert_eq!(of(&later), Some(OpenError::Version(version)));
    // A part of an anchor is not an anchor; a disk of another size is another disk.
    assert_eq!(of(&|image| image.write(0, &unit_of(&whole, 0)[..512])), None);
    let larger = [image.bytes(), vec![0; UNIT as usize]].concat();
    assert_eq!(seen(&Image::from_bytes(&larger)).err(), Some(OpenError::NoVolume));
}

#[test]
fn what_a_client_may_have_written_is_not_believed() {
    let (whole, image) = lost();
    let anchor = newest(&whole);
    let (zone, other) = (anchor.shape.zone, 2 * anchor.shape.zone);
    let slot = 32 + 3 * other - 1;
    let at = anchor.shape.slot(0, 1);
    let (_, found) = Superblock::of_any(&unit_of(&image, at), at).expect("it is there");
    for (zone, at, told) in [(other, slot, Some(OpenError::Several)), (zone, slot + 3, None)] {
        let mut forged = found.clone();
        (forged.volume.shape.zone, forged.number, forged.seconds) = (zone, 1 << 40, i64::MAX);
        let mut image = image.clone();
        image.write(at * UNIT, &*forged.write(at, &[9; 16]));
        assert_eq!(seen(&image).map(drop).err(), told, "zones of {zone} units");
    }
}

/// If zones are large, everything that is searched at the front may be a client's data.
#[test]
fn what_a_client_wrote_does_not_stand_alone() {
    for zone in [(256 << 20) - 8192, 256 << 20, 512 << 20, 4 << 30] {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(1 << 40));
        let options = MkfsOptions { zone_size: Some(zone), ..MkfsOptions::default() };
        let shape = executor.block_on(mkfs(&*disk, &options, &Seeded::new(7), NOW)).expect("room");
        let mut image = disk.contents();
        wipe_anchors(&mut image);
        assert_eq!(seen(&image).map(|seen| seen.zone_size).ok(), Some(zone));
        let at = shape.slot(0, 1);
        let (_, mut forged) = Superblock::of_any(&unit_of(&image, at), at).expect("it is there");
        forged.volume.shape.zone = 1 << 10;
        let at = forged.volume.shape.slot(2, 0);
        image.write(at * UNIT, &*forged.write(at, &[9; 16]));
        assert_eq!(seen(&image).err(), Some(OpenError::Several), "zones of {zone} bytes");
    }
}

#[test]
fn a_slot_that_cannot_be_read_may_be_the_last() {
    let (whole, image) = lost();
    let anchor = newest(&whole);
    for zone in [0, anchor.shape.zones() - 1] {
        let (executor, disk) = disk_of(&image);
        let at = anchor.shape.slot(zone, 0) * UNIT;
        disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).forever());
        let refused = executor.block_on(opened(executor.runtime(), &disk)).map(drop);
        assert!(refused.is_err_and(|why| why.starts_with("Read of")), "zone {zone}");
        disk.heal();
        executor.block_on(opened(executor.runtime(), &disk)).expect("it can be read again");
    }
}

/// A volume of the same shape made over an old one whose superblocks have higher numbers.
fn made_anew() -> (Image, Image) {
    let old = filled();
    let (executor, disk) = disk_of(&old);
    let options = Setting::of(4, 64, 3 << 20).options;
    let later = Timestamp { seconds: NOW.seconds + (1 << 30), ..NOW };
    let options = MkfsOptions { label: "new".to_owned(), ..options };
    executor.block_on(mkfs(&*disk, &options, &Seeded::new(8), later)).expect("there is room");
    (old, disk.contents())
}

#[test]
fn the_volume_that_was_made_last_is_found() {
    let (old, mut image) = made_anew();
    let all = (0..newest(&old).shape.zones()).map(|zone| newest(&old).shape.slot(zone, 1));
    let is_old = |at: u64| {
        Superblock::read(&unit_of(&image, at), at, &newest(&old).secret)
            .is_some_and(|superblock| superblock.number > 1)
    };
    assert!(all.into_iter().any(is_old), "superblocks of the old one are left");
    wipe_anchors(&mut image);
    let told = seen(&image).expect("it is found");
    assert_eq!((told.label.as_str(), told.update), ("new", 1));
}

/// A disk with one volume, and another in the first half of it, with other zones. The superblocks
/// of each went out at these times, and its anchors have these numbers.
fn one_in_front(seconds: [i64; 2], numbers: [u64; 2]) -> Image {
    let shapes = [("whole", 64, 4 << 20), ("half", 128, 2 << 20)];
    let mut image = Image::zeroed(4 << 20);
    for ((label, zone_kib, size), (seconds, number)) in
        shapes.into_iter().zip(seconds.into_iter().zip(numbers))
    {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::from_bytes(&image.bytes()[..size as usize]));
        let options = Setting::of(4, zone_kib, size).options;
        let options = MkfsOptions { label: label.to_owned(), ..options };
        let now = Timestamp { seconds, ..NOW };
        let chance = Seeded::new(size);
        let shape = executor.block_on(mkfs(&*disk, &options, &chance, now)).expect("there is room");
        let made = disk.contents();
        image.write(0, &made.bytes());
        for number in [number, number + 1] {
            let anchor = Anchor { number, ..newest(&made) };
            for unit in shape.anchor(number) {
                image.write(unit * UNIT, &*anchor.write());
            }
        }
    }
    image
}

/// Both have superblocks: the volume whose superblock went out last counts, not the one that was
/// opened more often.
#[test]
fn the_one_of_two_volumes_counts_that_was_written_last() {
    let label = |image: &Image| seen(image).map(|seen| seen.label);
    for numbers in [[1, 1], [1, 900], [900, 1], [1, 2], [2, 1]] {
        for (seconds, right) in [([1000, 2000], "half"), ([2000, 1000], "whole")] {
            let image = one_in_front(seconds, numbers);
            let there: BTreeSet<_> = anchors(&image).iter().map(|it| it.secret).collect();
            assert_eq!(there.len(), 2, "anchors of both are there");
            assert_eq!(label(&image).as_deref(), Ok(right), "{numbers:?}");
            if right == "whole" {
                continue; // its first blocks were overwritten
            }
            let (executor, disk) = disk_of(&image);
            executor.block_on(async {
                let volume = opened(executor.runtime(), &disk).await.expect("it is well");
                volume.create(volume.files.root(), "f").await.expect("there is room");
                volume.files.shutdown().await.expect("nothing fails");
            });
            assert_eq!(label(&disk.contents()).as_deref(), Ok(right), "{numbers:?}");
            let next = newest(&disk.contents()).number;
            assert!(next > numbers[0].max(numbers[1]) + 1, "{next} goes over all of {numbers:?}");
        }
    }
}

/// Newer anchors of another volume are at the front.
pub(crate) fn anchors_of_another_are_passed_over() -> Result<(), String> {
    let (whole, _) = lost();
    let (content, mut foreign) = (used(&whole)?.0, newest(&made_anew().1));
    let units = foreign.shape.units;
    for (ends, bytes) in [([0, 1], whole.size()), ([units - 2, units - 1], whole.size() * 2)] {
        foreign.shape.units = bytes / UNIT;
        let mut image = whole.clone();
        for (number, unit) in (1000..).zip(ends) {
            image.write(unit * UNIT, &*Anchor { number, ..foreign.clone() }.write());
        }
        if laws(&image) != Ok(vec![]) {
            return Err(format!("{:?}", laws(&image)));
        }
        let (now, after) = used(&image)?;
        let all: BTreeSet<_> = anchors(&after).iter().map(|anchor| anchor.secret).collect();
        let is_own = anchors(&after).len() == 4 && all == BTreeSet::from([newest(&whole).secret]);
        if now != content || !is_own {
            return Err(format!("{now:?} is there, and {all:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_volume_stands_behind_the_anchors_of_another() {
    assert_eq!(anchors_of_another_are_passed_over(), Ok(()));
}

/// Superblocks in the zones that an anchor names: their numbers, by zone.
fn superblocks(image: &Image, anchor: &Anchor) -> BTreeMap<u32, Vec<u64>> {
    let of_zone = |&zone: &u32| {
        let slots = [0, 1].map(|slot| anchor.shape.slot(zone.into(), slot));
        let read = slots.map(|at| Superblock::read(&unit_of(image, at), at, &anchor.secret));
        (zone, read.into_iter().flatten().map(|superblock| superblock.number).collect())
    };
    anchor.zones.iter().map(of_zone).collect()
}

/// Makes writes to a file, each to other places. Returns the image before them and after each.
pub(crate) async fn writes(
    disk: &Rc<Disk>,
    executor: &Executor,
    count: u8,
) -> Result<Vec<Image>, String> {
    let volume = opened(executor.runtime(), disk).await?;
    let mut images = vec![disk.contents()];
    let failed = |error: FsError| error.to_string();
    let root = volume.files.root();
    let file = match volume.lookup(root, "one").await {
        Ok(file) => file,
        Err(_) => volume.create(root, "one").await.map_err(failed)?,
    };
    for value in 0..count {
        let data = vec![value; 30_000];
        volume.write(file, 0, data, Stability::FileSync).await.map_err(failed)?;
        images.push(disk.contents());
    }
    Ok(images)
}

/// An image from before an opening, whose anchors name as many zones as they can: first the zone of
/// the last superblock but one, and not the zone of the next superblock.
fn crowded(image: &Image) -> Option<Image> {
    let (executor, disk) = disk_of(image);
    let after = executor.block_on(writes(&disk, &executor, 0)).ok()?.pop()?;
    let last_of = |image: &Image| {
        let found = superblocks(image, &newest(image));
        let mut all: Vec<(u64, u32)> =
            found.iter().flat_map(|(&zone, all)| all.iter().map(move |&it| (it, zone))).collect();
        all.sort_unstable();
        all
    };
    let all = last_of(image);
    let [.., (_, before), (_, last)] = all[..] else { return None };
    let (_, next) = *last_of(&after).last()?;
    if before == last || [before, last].contains(&next) {
        return None;
    }
    let mut anchor = newest(image);
    let others =
        (0..anchor.shape.zones() as u32).filter(|zone| ![before, last, next].contains(zone));
    anchor.zones = [before].into_iter().chain(others.rev().take(30)).chain([last]).collect();
    let mut crowded = image.clone();
    for number in [anchor.number, anchor.number + 1] {
        let block = Anchor { number, ..anchor.clone() }.write();
        for unit in anchor.shape.anchor(number) {
            crowded.write(unit * UNIT, &*block);
        }
    }
    Some(crowded)
}

/// A zone leaves the anchors only when two superblocks newer than all in it are in zones that stay.
pub(crate) fn zones_stay_until_two_are_newer() -> Result<(), String> {
    let executor = Executor::new(3);
    let setting = Setting::of(4, 64, 4 << 20);
    let disk = executor.block_on(made(&executor, &setting));
    let images = executor.block_on(writes(&disk, &executor, 25))?;
    let (mut tried, mut left) = (0, 0);
    for image in images.iter().filter_map(crowded) {
        tried += 1;
        let (executor, disk) = disk_of(&image);
        let after = executor.block_on(writes(&disk, &executor, 8))?;
        for (before, after) in [&image].into_iter().chain(&after).zip(&after) {
            let (old, stay) = (newest(before), newest(after).zones);
            let there = superblocks(before, &old);
            for zone in old.zones.iter().filter(|zone| !stay.contains(zone)) {
                left += 1;
                let last = there[zone].iter().max().copied().unwrap_or(0);
                let staying = there.iter().filter(|(zone, _)| stay.contains(zone));
                let newer: BTreeSet<u64> = staying
                    .flat_map(|(_, all)| all.iter().copied())
                    .filter(|&it| it > last)
                    .collect();
                if newer.len() < 2 {
                    return Err(format!("zone {zone} has {last}, and {newer:?} are newer"));
                }
            }
        }
    }
    if tried > 0 && left > 0 { Ok(()) } else { Err(format!("{tried} tried, and {left} left")) }
}

#[test]
fn a_zone_leaves_the_anchors_when_two_superblocks_are_newer() {
    assert_eq!(zones_stay_until_two_are_newer(), Ok(()));
}
