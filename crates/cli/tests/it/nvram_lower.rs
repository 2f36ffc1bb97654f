//! Sets whose log is in an NVRAM: killed, without it, out of use, and refused.

use std::fs;
use std::path::PathBuf;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, duramen, on};
use crate::nvram::{Place, letters, text};

/// Letters for many stripes: so much goes past the NVRAM, to the disks.
pub(crate) fn many_letters(seed: u8) -> Vec<u8> {
    (0..8).flat_map(|turn| letters(seed.wrapping_add(turn))).collect()
}

pub(crate) fn disks(folder: &Folder) -> [PathBuf; 3] {
    ["d0", "d1", "d2"].map(|name| folder.path(name))
}

/// A set with an NVRAM that has its log.
fn made(level: &str, words: &[&str]) -> Place {
    let folder = Folder::new();
    let (volume, nvram) = (folder.path("data"), folder.path("n0"));
    let disks = disks(&folder);
    let mut all = vec!["mkfs", text(&volume), "--size", "64M", "--sparse", level];
    all.extend(disks.iter().map(|disk| text(disk)));
    all.extend(["--nvram", text(&nvram), "--upper", "2M", "--lower", "4M"]);
    let made = duramen(&[&all[..], words].concat());
    assert_eq!(made.code, 0, "{}", made.errors); // it warns of a single point of failure
    Place { folder, volume, nvram }
}

#[test]
fn a_set_with_its_log_in_the_nvram_has_everything_again_after_a_kill() {
    for (level, words) in [("--raid5", ["--policy", "log"]), ("--raid1", ["--engine", "shadow"])] {
        let place = made(level, &words);
        assert_eq!(fs::metadata(&place.nvram).expect("it is there").len(), 6 << 20);
        let serving = place.serve();
        put(&serving, "data", "one", &many_letters(1));
        let lower = place.status()["lower"].clone();
        assert_eq!(lower["size_bytes"], 4 << 20);
        assert!(lower["records"].as_u64() > Some(0), "{lower}");
        serving.kill();
        let away = place.folder.path("away");
        fs::rename(&place.nvram, &away).expect("a move");
        let told = place.refused("it is missing, and it has data that the disks lack");
        assert!(told.contains(text(&place.nvram)), "{told}");
        fs::rename(&away, &place.nvram).expect("a move");
        place.recovers("/one", &many_letters(1));
        // A set that was stopped needs nothing of it.
        fs::rename(&place.nvram, &away).expect("a move");
        place.has("/one", &many_letters(1));
    }
}

#[test]
fn what_the_disks_have_is_saved_without_the_log_in_the_nvram() {
    let place = made("--raid5", &["--policy", "sync"]);
    let serving = place.serve();
    put(&serving, "data", "one", &many_letters(1));
    assert!(serving.stop().success());
    place.killed_after("two", &many_letters(2));
    fs::remove_file(&place.nvram).expect("it is lost");
    let run = on("fsck", &place.volume, &["--repair", "--without-nvram"]);
    assert!(run.code == 0 || run.code == 1, "{}", run.errors);
    assert!(run.errors.contains("the set was read without the log in its NVRAM"), "{}", run.errors);
    place.has("/one", &many_letters(1));
    // Once is enough.
    let run = on("fsck", &place.volume, &["--repair", "--without-nvram"]);
    assert!(!run.errors.contains("was read without"), "{}", run.errors);
    duramen(&["tune", text(&place.volume), "--no-nvram"]).good();
    place.recovers("/one", &many_letters(1));
}

#[test]
fn a_log_in_the_nvram_goes_down_and_up_with_it() {
    let place = made("--raid5", &["--policy", "log"]);
    let serving = place.serve();
    put(&serving, "data", "one", &many_letters(1));
    place.nvram("down").good();
    assert_eq!(place.status()["lower"]["records"], 0);
    put(&serving, "data", "two", &many_letters(2));
    assert_eq!(place.status()["lower"]["records"], 0, "the disks get the records");
    serving.kill();
    let away = place.folder.path("away");
    fs::rename(&place.nvram, &away).expect("a move");
    place.recovers("/two", &many_letters(2));
    fs::rename(&away, &place.nvram).expect("a move");
    let serving = place.serve();
    place.nvram("up").good();
    put(&serving, "data", "three", &many_letters(3));
    assert!(place.status()["lower"]["records"].as_u64() > Some(0));
    serving.kill();
    place.recovers("/three", &many_letters(3));
    duramen(&["tune", text(&place.volume), "--no-nvram"]).good();
    fs::remove_file(&place.nvram).expect("it is not needed");
    place.has("/one", &many_letters(1));
    let words = ["--nvram", text(&place.nvram), "--lower", "2M"];
    duramen(&[&["tune", text(&place.volume)], &words[..]].concat()).good();
    assert_eq!(place.status()["lower"]["size_bytes"], 2 << 20);
    place.recovers("/two", &many_letters(2));
}

#[test]
fn a_log_that_cannot_be_in_an_nvram_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let (volume, nvram) = (folder.path("data"), folder.path("n0"));
    let disks = disks(&folder);
    let words = ["mkfs", text(&volume), "--size", "64M", "--lower", "1M", "--nvram", text(&nvram)];
    duramen(&words).failed(2, "--lower is for the log of a mirror or RAID-5");
    let with = |level: &'static str| {
        let disks: Vec<&str> = disks.iter().map(|disk| text(disk)).collect();
        duramen(&[&words[..], &[level], &disks].concat())
    };
    with("--raid0").failed(2, "--lower is for the log of a mirror or RAID-5");
    let run = with("--raid5");
    let told = "--lower 1 MiB is too little: this set takes 1.5 MiB at least";
    assert!(run.code == 2 && run.errors.contains(told), "{}", run.errors);
    assert!(!nvram.exists() && !volume.exists());
    let second = folder.path("n1");
    fs::write(&nvram, vec![0; 8 << 20]).expect("a file");
    fs::write(&second, vec![0; 9 << 20]).expect("a file");
    let mut words = vec!["mkfs", text(&volume), "--size", "64M", "--lower", "2M", "--raid5"];
    words.extend(disks.iter().map(|disk| text(disk)));
    words.extend(["--nvram", text(&nvram), text(&second)]);
    let run = duramen(&words);
    assert!(run.code == 2 && run.errors.contains("have to be of one size"), "{}", run.errors);
    assert!(!volume.exists());
}

/// The server that serves a volume says how it stands.
#[test]
fn a_server_says_what_its_log_device_has() {
    let place = made("--raid5", &["--policy", "log"]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &many_letters(1));
    let told = duramen(&["nvram", "status", text(&place.volume)]).good();
    assert!(told.contains("log device      4 MiB"), "{told}");
    let info = duramen(&["info", text(&place.volume), "--json"]).good();
    let info: serde_json::Value = serde_json::from_str(&info).expect("one object");
    assert_eq!(info["nvram"]["lower"]["size_bytes"], 4 << 20);
    assert!(serving.stop().success());
}
