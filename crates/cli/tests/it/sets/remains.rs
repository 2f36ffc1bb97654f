//! Volumes on sets that have lost too many disks: an image takes their remains.

use std::ops::Range;

use super::*;

/// The lost ranges that a dump lists.
fn lost_of(told: &Run) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let (length, at) = line.strip_prefix("lost: ")?.split_once(" bytes at byte ")?;
        let [length, at] = [length, at].map(|number| number.parse::<u64>().expect("a number"));
        Some(at..at + length)
    };
    let lost: Vec<Range<u64>> = told.output.lines().filter_map(range).collect();
    let bytes: u64 = lost.iter().map(|range| range.end - range.start).sum();
    let said = format!("{bytes} bytes are lost, and are zeros in the image");
    assert!(bytes == 0 || told.errors.contains(&said), "{}", told.errors);
    lost
}

fn held(place: &Place) -> Vec<Option<Vec<u8>>> {
    place.disks.iter().map(|disk| fs::read(disk).ok()).collect()
}

/// Asserts that an image can be served as it is.
fn assert_served(image: &Path) {
    assert!(Serving::start(&[image], &[]).stop().success());
}

/// Dumps a set without two of its disks: the data in the image is right, and missing data is
/// listed.
fn dump_without_two(engine: &[&str], gone: [usize; 2]) {
    let place = Place::made("--raid5", 4, engine);
    let serving = Serving::start(&[&place.volume], &[]);
    for number in 0..8 {
        put(&serving, "data", &format!("file-{number}"), &letter(number));
    }
    assert!(serving.stop().success());
    let [whole, left] = ["whole.img", "left.img"].map(|name| place.folder.path(name));
    place.raid(&["dump", text(&whole)]).good();
    for disk in gone {
        fs::remove_file(&place.disks[disk]).expect("it is there");
    }
    let before = held(&place);
    place.raid(&["dump", text(&left)]).failed(1, "'duramen raid dump --accept-loss'");
    assert!(!left.exists(), "half an image helps nobody");
    let told = place.raid(&["dump", "--accept-loss", text(&left)]);
    assert_eq!(told.code, 1, "{}", told.errors);
    let lost = lost_of(&told);
    assert!(!lost.is_empty() && lost.windows(2).all(|two| two[0].end < two[1].start), "{lost:?}");
    assert!(held(&place) == before, "nothing is written to the disks");
    let [whole, held] = [&whole, &left].map(|image| fs::read(image).expect("it was written"));
    assert_eq!(whole.len(), held.len());
    for (at, (whole, held)) in whole.iter().zip(&held).enumerate() {
        let is_lost = lost.iter().any(|range| range.contains(&(at as u64)));
        assert_eq!(*held, if is_lost { 0 } else { *whole }, "byte {at}");
    }
    let checked = on("fsck", &left, &["--repair"]);
    assert_eq!(checked.code, 1, "{}{}", checked.output, checked.errors);
    assert!(checked.output.contains("all that was wrong is repaired"), "{}", checked.output);
    assert_served(&left);
}

#[test]
fn what_is_left_of_a_volume_with_a_log_is_repaired_and_served() {
    dump_without_two(&["--policy", "log"], [1, 2]);
}

#[test]
fn what_is_left_of_a_volume_with_soft_updates_is_repaired_and_served() {
    dump_without_two(&["--policy", "softdep"], [1, 2]);
}

/// The remaining disks have the superblocks.
#[test]
fn what_is_left_of_a_volume_of_engine_shadow_is_repaired_and_served() {
    dump_without_two(&["--engine", "shadow"], [0, 3]);
}

#[test]
fn a_block_that_two_disks_have_lost_is_zeros_and_the_log_is_brought_home() {
    let place = Place::made("--raid5", 4, &["--policy", "log"]);
    let (one, two) = (letter(1), letter(2));
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &one);
    // Later records replace the set's log record of this stripe, which would repair the parity.
    for number in 0..20 {
        put(&serving, "data", &format!("between-{number}"), &letter(number));
    }
    assert!(serving.stop().success());
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "two", &two);
    serving.kill();
    let (disk, at, parity) = place_of(&place, &one[4096..8192]);
    flip(&place.disks[disk], at);
    flip(&place.disks[parity], at);
    let (before, left) = (held(&place), place.folder.path("left.img"));
    place.raid(&["dump", text(&left)]).failed(1, "'duramen raid dump --accept-loss'");
    let told = place.raid(&["dump", "--accept-loss", text(&left)]);
    let lost = lost_of(&told);
    assert_eq!((told.code, lost.len()), (1, 1), "{}{}", told.output, told.errors);
    assert_eq!(lost[0].end - lost[0].start, 4096);
    assert!(told.output.contains("entries of its log are in the image"), "{}", told.output);
    assert!(held(&place) == before, "nothing is written to the disks");
    let checked = on("fsck", &left, &["--repair"]);
    assert_eq!(checked.code, 0, "{}{}", checked.output, checked.errors);
    assert_eq!(on("cat", &left, &["two"]).output.as_bytes(), two, "the log alone had it");
    let zeroed = [&one[..4096], &[0; 4096], &one[8192..]].concat();
    assert_eq!(on("cat", &left, &["one"]).output.as_bytes(), zeroed);
    assert_served(&left);
}

#[test]
fn of_a_good_set_nothing_is_lost_and_an_old_disk_is_said_to_be_old() {
    let place = Place::made("--raid1", 2, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    assert!(serving.stop().success());
    let dump = |name: &str| {
        let image = place.folder.path(name);
        let told = place.raid(&["dump", "--accept-loss", text(&image)]);
        assert_eq!(told.code, 0, "{}", told.errors);
        (told.output, image)
    };
    let (told, image) = dump("good.img");
    assert!(!told.contains("lost") && !told.contains("newer"), "{told}");
    assert_eq!(on("cat", &image, &["one"]).output.as_bytes(), letter(1));
    // Only a disk that was away is left in the end.
    let drawer = place.folder.path("drawer");
    fs::create_dir(&drawer).expect("a new folder");
    fs::rename(&place.disks[1], drawer.join("disk")).expect("it is ours");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "two", &letter(2));
    assert!(serving.stop().success());
    fs::rename(drawer.join("disk"), &place.disks[1]).expect("it is ours");
    fs::remove_file(&place.disks[0]).expect("it is there");
    let (told, image) = dump("old.img");
    assert!(told.contains("the disks that are missing may have had newer data"), "{told}");
    assert_eq!(on("cat", &image, &["one"]).output.as_bytes(), letter(1));
}
