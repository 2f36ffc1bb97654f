//! Starts without a disk, and the return of the disk.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use raid::label::Label;

use super::{Place, letter, text};
use crate::common::serving::{Serving, put};
use crate::common::{duramen, on, pause};

/// Slot of the missing disk.
const MISSING: usize = 1;

/// Moves a disk to where no start finds it, and returns its new path.
fn unplug(place: &Place, slot: usize) -> PathBuf {
    let drawer = place.folder.path("drawer");
    fs::create_dir_all(&drawer).expect("there is room");
    let away = drawer.join("disk");
    fs::rename(&place.disks[slot], &away).expect("it is ours");
    away
}

/// Flips a bit in each block of the file system's log on half of a mirror.
fn rot_the_log(place: &Place, slot: usize) {
    let settings = fs::read_to_string(place.volume.join("volume.toml")).expect("it is a volume");
    let log = settings.lines().find_map(|line| line.strip_prefix("log_size = "));
    let log: u64 = log.expect("it has a log").parse().expect("a number");
    let path = &place.disks[slot];
    let label = Label::decode(&fs::read(path).expect("it is ours")).expect("it is a member");
    let end = label.data_start + label.layout.size();
    let disk = fs::OpenOptions::new().read(true).write(true).open(path).expect("it is ours");
    for block in (end - log..end).step_by(4096) {
        let mut byte = [0];
        disk.read_exact_at(&mut byte, block + 100).expect("it is there");
        disk.write_all_at(&[byte[0] ^ 2], block + 100).expect("it is there");
    }
}

#[test]
fn a_volume_that_is_refused_without_a_disk_is_served_with_it() {
    let place = Place::made("--raid1", 2, &["--policy", "log"]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    rot_the_log(&place, 0);
    let away = unplug(&place, MISSING);
    for _ in 0..2 {
        let refused = on("serve", &place.volume, &["--listen", "127.0.0.1:0"]);
        assert_ne!(refused.code, 0, "{}", refused.errors);
    }
    fs::rename(away, &place.disks[MISSING]).expect("it is ours");
    let serving = Serving::start(&[&place.volume], &[]);
    assert_eq!([place.state_of(0), place.state_of(1)], ["in_sync", "in_sync"]);
    place.wait_for_reclaim();
    assert!(serving.stop().success());
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn a_disk_that_is_late_at_a_start_keeps_its_slot() {
    let place = Place::new(4);
    let [one, two, three, spare] = [0, 1, 2, 3].map(|number| text(&place.disks[number]));
    let level = ["--raid5", one, two, three, "--spare", spare, "--sparse"];
    on("mkfs", &place.volume, &level).good();
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    assert!(serving.stop().success());
    let away = unplug(&place, MISSING);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "two", &letter(2));
    pause(Duration::from_secs(3)); // a server that is hasty has looked thrice
    let status = place.status();
    assert_eq!((place.state_of(MISSING).as_str(), place.spares().len()), ("stale", 1));
    assert_eq!(status["state"], "degraded", "{status}");
    fs::rename(away, &place.disks[MISSING]).expect("it is ours");
    place.wait(|place| place.status()["state"] == "clean");
    assert_eq!(place.spares().len(), 1);
    assert!(serving.stop().success());
    // The late disk is as good as any: another one is lost now, and not waited for.
    unplug(&place, 0);
    place.set_spare_after(0);
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait(|place| place.status()["state"] == "clean");
    place.wait_for_reclaim();
    assert!(serving.stop().success());
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2))]);
}

#[test]
fn halves_that_were_served_apart_are_served_together_only_after_a_choice() {
    let place = Place::made("--raid1", 2, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "both", &letter(1));
    assert!(serving.stop().success());
    let away = unplug(&place, 1);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(2));
    assert!(serving.stop().success());
    fs::rename(&away, &place.disks[1]).expect("it is ours");
    let away = unplug(&place, 0);
    let serving = Serving::start(&[&place.volume], &["--degraded"]);
    put(&serving, "data", "other", &letter(3));
    assert!(serving.stop().success());
    fs::rename(&away, &place.disks[0]).expect("it is ours");
    let [one, other] = [0, 1].map(|slot| text(&place.disks[slot]));
    for more in [&[][..], &["--degraded"]] {
        let words = [&["--listen", "127.0.0.1:0"], more].concat();
        let told = on("serve", &place.volume, &words).failed(1, "were used apart");
        for disk in [one, other] {
            assert!(told.contains(&format!("duramen mkfs --bare --force {disk}'")), "{told}");
        }
        assert!(told.contains("generations") && told.contains("serve --degraded"), "{told}");
    }
    // Nor does a server overwrite a half that turns up while it runs.
    let away = unplug(&place, 0);
    let serving = Serving::start(&[&place.volume], &["--degraded"]);
    fs::rename(&away, &place.disks[0]).expect("it is ours");
    pause(Duration::from_secs(3)); // it has looked thrice
    assert_eq!(place.state_of(0), "stale");
    place.raid(&["online", "0"]).failed(1, "was used apart from the other disks");
    assert!(serving.stop().success());
    on("serve", &place.volume, &["--listen", "127.0.0.1:0"]).failed(1, "were used apart");
    // The advice of the refusal helps: the first half is kept, which the folder had given up.
    duramen(&["mkfs", "--bare", "--force", other]).good();
    let serving = Serving::start(&[&place.volume], &["--degraded"]);
    place.wait_for_reclaim();
    assert!(serving.stop().success());
    place.assert_whole(&[("both", &letter(1)), ("one", &letter(2))]);
}

/// Flips a bit in the last record of a member's log.
fn rot_the_last_record(disk: &Path) {
    let held = fs::read(disk).expect("it is ours");
    let label = Label::decode(&held).expect("it is a member");
    let blocks = (1 << 20..label.data_start as usize).step_by(4096);
    let records = blocks.filter(|&at| held[at..].starts_with(b"prewrite"));
    let number =
        |at: &usize| u64::from_le_bytes(held[at + 32..at + 40].try_into().expect("8 bytes"));
    let last = records.max_by_key(number).expect("the log has records");
    super::flip(disk, last as u64 + 100);
}

/// Without its last record, the member left may be refused. The disk that is away has the record.
#[test]
fn a_last_record_that_is_damaged_on_the_only_member_left_is_reported() {
    for is_damaged in [true, false] {
        let place = Place::made("--raid1", 2, &[]);
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &letter(1));
        serving.kill();
        if is_damaged {
            rot_the_last_record(&place.disks[0]);
        }
        let away = unplug(&place, MISSING);
        let told = if is_damaged {
            let refused = on("serve", &place.volume, &["--listen", "127.0.0.1:0"]);
            assert_ne!(refused.code, 0, "{}", refused.errors);
            refused.errors
        } else {
            let mut serving = Serving::start_saying(&[&place.volume], &[], &[], Stdio::piped());
            let mut errors = serving.standard_error().expect("it was asked for");
            place.wait_for_reclaim();
            assert!(serving.stop().success());
            let mut told = String::new();
            errors.read_to_string(&mut told).expect("text");
            told
        };
        assert_eq!(told.contains("the last of the log, is damaged"), is_damaged, "{told}");
        fs::rename(away, &place.disks[MISSING]).expect("it is ours");
        let mut serving = Serving::start_saying(&[&place.volume], &[], &[], Stdio::piped());
        let mut errors = serving.standard_error().expect("it was asked for");
        place.wait(|place| place.status()["state"] == "clean");
        place.wait_for_reclaim();
        assert!(serving.stop().success());
        let mut told = String::new();
        errors.read_to_string(&mut told).expect("text");
        assert!(!told.contains("is damaged"), "the other disk has it: {told}");
        place.assert_whole(&[("one", &letter(1))]);
    }
}
