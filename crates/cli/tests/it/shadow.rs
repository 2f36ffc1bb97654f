//! A volume of engine `shadow`, on the command line.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::serving::{Serving, put, remove};
use crate::common::{Folder, Run, SmallHost, duramen, duramen_in_time, follow, on};

fn made(folder: &Folder, more: &[&str]) -> PathBuf {
    let volume = folder.path("volume");
    let words = [&["--engine", "shadow", "--size", "8M"], more].concat();
    on("mkfs", &volume, &words).good();
    volume
}

fn told(volume: &Path) -> Value {
    serde_json::from_str(&on("info", volume, &["--json"]).good()).expect("JSON")
}

#[test]
fn it_is_made_served_named_and_checked() {
    let folder = Folder::new();
    let volume = made(&folder, &["--block-size", "4K", "--zone-size", "64K", "--label", "one"]);
    let info = told(&volume);
    assert_eq!((&info["engine"], &info["policy"]), (&"shadow".into(), &Value::Null));
    assert_eq!((&info["state"], &info["label"]), (&"clean".into(), &"one".into()));
    assert_eq!((&info["block_size_bytes"], &info["files"]), (&4096.into(), &1.into()));
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "volume", "a", b"written");
    let of_served = told(&volume);
    let shadow = &of_served["shadow"];
    let at_least = |key: &str, least: f64| assert!(shadow[key].as_f64() >= Some(least), "{shadow}");
    // The opening is an update, and so is each of the following changes.
    let least = [("update", 4.0), ("barriers", 4.0), ("metadata_bytes", 32768.0)];
    let more = [("data_bytes", 4096.0), ("calls_per_update", 0.5), ("free_runs", 1.0)];
    least.into_iter().chain(more).for_each(|(key, least)| at_least(key, least));
    assert_eq!((&shadow["split_updates"], &info["shadow"]), (&0.into(), &Value::Null));
    assert_eq!((&of_served["state"], &of_served["files"]), (&"served".into(), &2.into()));
    assert_eq!(shadow["snapshots"], 0);
    for (name, count) in [("first", 1), ("second", 2)] {
        let words = ["snapshot", "create", &volume.display().to_string(), name];
        duramen(&words).good();
        assert_eq!(told(&volume)["shadow"]["snapshots"], count);
    }
    assert_eq!((&of_served["id"], &of_served["directories"]), (&info["id"], &1.into()));
    assert!(serving.stop().success());
    let said = on("tune", &volume, &["--label", "two"]).good();
    assert!(said.ends_with("has label two\n"), "{said}");
    let after = told(&volume);
    assert_eq!((&after["label"], &after["files"]), (&"two".into(), &2.into()));
    assert_eq!(on("cat", &volume, &["a"]).good(), "written");
    let said = on("fsck", &volume, &["--full"]).good();
    assert!(said.contains("2 files, 1 of them directories, hold"), "{said}");
    assert!(said.ends_with("nothing is wrong\n"), "{said}");
    let bare = volume.join("disk.img");
    fs::remove_file(volume.join("volume.toml")).expect("it is there");
    assert_eq!(told(&bare)["engine"], "shadow", "the disk says it");
    let said = on("info", &volume, &[]).failed(1, "has no volume.toml");
    assert!(said.contains("write a volume.toml with the line 'engine = \"shadow\"'"), "{said}");
}

#[test]
fn one_that_was_killed_is_brought_back_by_a_server_or_a_repair() {
    let folder = Folder::new();
    let volume = made(&folder, &[]);
    let kill = |name: &str| {
        let serving = Serving::start(&[&volume], &[]);
        put(&serving, "volume", name, b"kept");
        serving.kill();
        assert_eq!(told(&volume)["state"], "unclean");
    };
    kill("a");
    on("tune", &volume, &["--label", "x"]).failed(1, "was not stopped cleanly");
    on("cat", &volume, &["a"]).failed(1, "was not stopped cleanly");
    let before = fs::read(volume.join("disk.img")).expect("it is there");
    let said = on("fsck", &volume, &[]).good();
    assert!(said.contains("nothing is wrong, but the volume was not stopped cleanly"), "{said}");
    let is_same = fs::read(volume.join("disk.img")).expect("it is there") == before;
    assert!(is_same, "a look writes nothing");
    let said = follow(&said, "duramen fsck").good();
    assert!(said.ends_with("the volume is marked as stopped cleanly\n"), "{said}");
    assert_eq!(on("cat", &volume, &["a"]).good(), "kept");
    kill("b");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(told(&volume)["state"], "clean");
    assert_eq!(on("cat", &volume, &["b"]).good(), "kept");
}

#[test]
fn what_it_has_no_use_for_is_refused() {
    let folder = Folder::new();
    let volume = folder.path("volume");
    let refused: &[(&[&str], i32, &str)] = &[
        (&["--fragment-size", "1K"], 1, "engine shadow has no fragments"),
        (&["--bytes-per-inode", "8K"], 1, "engine shadow has no fixed number of inodes"),
        (&["--reserve", "21"], 1, "has 0 to 20 percent of the space, and not 21"),
        (&["--policy", "log"], 2, "engine shadow has no policies"),
        (&["--log-size", "64M"], 2, "shadow has no log"),
        (&["--block-size", "3K"], 1, "a block has 4096 to 65536 bytes"),
        (&["--zone-size", "100K"], 1, "a zone is of whole blocks"),
        (&["--label", "a b"], 1, "a label has at most 31 letters"),
    ];
    for (words, code, said) in refused {
        let words = [&["--engine", "shadow", "--size", "8M"], *words].concat();
        on("mkfs", &volume, &words).failed(*code, said);
        assert!(!volume.exists(), "{words:?}: nothing is left");
    }
    on("mkfs", &volume, &["--engine", "shadow", "--size", "200K"]).failed(1, "too few");
    let one_zone = ["--engine", "shadow", "--size", "64M", "--zone-size", "64M"];
    on("mkfs", &volume, &one_zone).failed(1, "zones of 67108864 bytes are too large for a disk of");
    let zones = on("mkfs", &volume, &["--size", "8M", "--zone-size", "64K"]);
    zones.failed(1, "a UFS2 file system has no zones");
    let volume = made(&folder, &[]);
    on("mkfs", &volume, &[]).failed(1, "holds a volume of engine shadow");
    on("tune", &volume, &["--policy", "sync"]).failed(2, "engine shadow has no policies");
    let log = folder.path("log").display().to_string();
    let run = on("fsck", &volume, &["--log", &log]);
    assert!(run.code == 8 && run.errors.contains("has no use for a log"), "{run:?}");
}

#[test]
fn damage_is_told_with_the_file_that_has_it() {
    let folder = Folder::new();
    let volume = made(&folder, &[]);
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "volume", "good", &[7; 8192]);
    put(&serving, "volume", "bad", &[8; 8192]);
    assert!(serving.stop().success());
    let path = volume.join("disk.img");
    let disk = fs::read(&path).expect("it is there");
    let at = disk.chunks(4096).position(|unit| unit == [8; 4096]).expect("it is written somewhere");
    let file = OpenOptions::new().write(true).open(&path).expect("it is ours");
    file.write_all_at(&[9], at as u64 * 4096 + 100).expect("there is room");
    for repair in [&["--full"][..], &["--full", "--repair"]] {
        let run = on("fsck", &volume, repair);
        assert_eq!(run.code, 4, "{run:?}");
        let line = "loss: data.sum: inode 17 block 0 (/bad): found other data, expected the data";
        assert!(run.output.contains(line), "{}", run.output);
        assert!(run.output.contains("copy what you need to a new volume"), "{}", run.output);
    }
    assert_eq!(on("cat", &volume, &["good"]).good().len(), 8192);
    on("cat", &volume, &["bad"]).failed(1, "bad");
    file.set_len(4 << 20).expect("it is ours");
    for command in ["info", "cat"] {
        let more = if command == "cat" { &["good"][..] } else { &[] };
        on(command, &volume, more)
            .failed(1, "the volume has 8388608 bytes, and its disk only 4194304");
    }
    let run = on("fsck", &volume, &[]);
    assert_eq!(run.code, 8, "{run:?}");
    assert!(run.errors.contains("a part of it is missing"), "{run:?}");
}

#[test]
fn another_engine_takes_all_of_its_place() {
    let folder = Folder::new();
    let volume = made(&folder, &["--label", "first"]);
    let remade = |engine: &str| {
        on("mkfs", &volume, &["--force", "--engine", engine]).good();
        let bare = folder.path("bare.img");
        fs::copy(volume.join("disk.img"), &bare).expect("there is room");
        assert_eq!(told(&bare)["engine"], *engine);
        assert_eq!(told(&bare)["label"], "");
        bare
    };
    let bare = remade("ffs");
    let disk = fs::read(&bare).expect("it is there");
    let is_left = disk.chunks(4096).take(32).chain(disk.chunks(4096).rev().take(32));
    assert!(is_left.into_iter().all(|unit| !unit.starts_with(b"DuSh")), "no anchor is left");
    remade("shadow");
}

/// Changes a byte of the first unit of a disk that consists of this byte alone.
fn rot(volume: &Path, byte: u8) {
    let path = volume.join("disk.img");
    let disk = fs::read(&path).expect("it is there");
    let at = disk.chunks(4096).position(|unit| unit == [byte; 4096]);
    let at = at.expect("it is written somewhere") as u64 * 4096 + 100;
    let file = OpenOptions::new().write(true).open(&path).expect("it is ours");
    file.write_all_at(&[!byte], at).expect("there is room");
}

#[test]
fn a_scrub_names_what_has_rotted_served_or_not() {
    let folder = Folder::new();
    let volume = made(&folder, &[]);
    let serving = Serving::start(&[&volume], &[]);
    for (name, byte) in [("good", 7), ("bad", 8), ("worse", 9)] {
        put(&serving, "volume", name, &[byte; 16384]);
    }
    assert_eq!(told(&volume)["scrub"], Value::Null);
    let said = on("scrub", &volume, &[]).good();
    assert!(said.ends_with("compared with their checksums, 0 places mended\n"), "{said}");
    let info = told(&volume);
    assert_eq!((&info["scrub"]["lost"], &info["scrub"]["mended"]), (&json!([]), &json!(0)));
    assert!(info["scrub"]["done_bytes"].as_u64() > Some(48 << 10), "{info}");
    assert_eq!(info["scrub"]["done_bytes"], info["scrub"]["total_bytes"]);
    rot(&volume, 8);
    let said = on("scrub", &volume, &[]).failed(1, "1 places are lost");
    assert!(said.contains("bring their files back from a backup"), "{said}");
    let lost = json!([{ "path": "/bad", "snapshot": null, "offset": 0 }]);
    assert_eq!(told(&volume)["scrub"]["lost"], lost);
    let health = "volume          losses, ";
    let why = ": scrubs have found 1 places of which no right copy is left";
    let is_lost = |said: Run| {
        let line = said.output.lines().nth(1).unwrap_or_default();
        assert!(said.code == 2 && line.starts_with(health) && line.ends_with(why), "{said:?}");
    };
    is_lost(on("status", &volume, &[]));
    assert!(serving.stop().success());
    // The next server has not scrubbed yet.
    let serving = Serving::start(&[&volume], &[]);
    is_lost(on("status", &volume, &[]));
    assert!(serving.stop().success());
    let before = fs::read(volume.join("disk.img")).expect("it is there");
    let run = on("scrub", &volume, &["--json"]);
    let found: Value = serde_json::from_str(&run.output).expect("JSON");
    assert_eq!((run.code, &found["lost"]), (1, &lost));
    let run = on("scrub", &volume, &[]);
    assert!(run.output.starts_with("lost: /bad: from byte 0 on\n"), "{run:?}");
    let is_same = fs::read(volume.join("disk.img")).expect("it is there") == before;
    assert!(is_same, "what cannot be mended is left alone");
    let plain = folder.path("plain");
    on("mkfs", &plain, &["--size", "8M"]).good();
    on("scrub", &plain, &[]).failed(2, "engine ffs keeps no checksums");
}

#[test]
fn what_a_repair_cannot_bring_back_it_names() {
    let folder = Folder::new();
    let volume = made(&folder, &[]);
    let serving = Serving::start(&[&volume], &[]);
    for number in 0..40 {
        put(&serving, "volume", &format!("f{number}"), &[7; 100]);
    }
    assert!(serving.stop().success());
    let path = volume.join("disk.img");
    let disk = fs::read(&path).expect("it is there");
    // The newest block with the second sixteen inodes, by its head.
    let is_it = |unit: &[u8]| unit.starts_with(b"DuSh") && unit[6] == 5 && unit[24] == 2;
    let birth = |unit: &[u8]| u64::from_le_bytes(unit[32..40].try_into().expect("8 bytes"));
    let units = disk.chunks(4096).enumerate().filter(|(_, unit)| is_it(unit));
    let (at, _) = units.max_by_key(|(_, unit)| birth(unit)).expect("there are so many files");
    let file = OpenOptions::new().write(true).open(&path).expect("it is ours");
    file.write_all_at(&[0x55; 8], at as u64 * 4096 + 500).expect("there is room");
    let looked = on("fsck", &volume, &[]);
    assert_eq!(looked.code, 4, "{looked:?}");
    assert!(looked.output.contains("(/f20)") && !looked.output.contains("(/f2)"), "{looked:?}");
    let run = on("fsck", &volume, &["--repair"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.output.contains("dir.target: inode 32 (/f16)"), "{run:?}");
    assert!(run.output.contains("repaired: take the name away"), "{run:?}");
    assert!(on("fsck", &volume, &["--full"]).good().ends_with("nothing is wrong\n"));
    assert_eq!(on("cat", &volume, &["f2"]).good().len(), 100);
    on("cat", &volume, &["f20"]).failed(1, "f20");
}

#[test]
fn what_only_root_may_fill_is_said_when_it_is_made_and_changed_later() {
    let folder = Folder::new();
    let volume = made(&folder, &["--reserve", "5"]);
    let reserved = || told(&volume)["reserved_bytes"].as_u64().expect("a number");
    let five = reserved();
    let all = told(&volume)["free_bytes"].as_u64().expect("a number");
    assert!(five.abs_diff(all / 20) < 8192, "{five} of {all}");
    let said = on("tune", &volume, &["--reserve", "20", "--label", "kept"]).good();
    assert!(said.contains("keeps 20 percent of its space for root\n"), "{said}");
    let info = told(&volume);
    assert_eq!((&info["state"], &info["label"]), (&"clean".into(), &"kept".into()));
    assert!(reserved().abs_diff(4 * five) < 32768, "{five} and {}", reserved());
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "volume", "a", b"written");
    assert!(reserved().abs_diff(4 * five) < 32768, "a server tells it, too");
    on("tune", &volume, &["--reserve", "0"]).failed(1, "another program");
    serving.kill();
    on("tune", &volume, &["--reserve", "0"]).failed(1, "was not stopped cleanly");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    on("tune", &volume, &["--reserve", "21"]).failed(1, "0 to 20 percent of the space, and not 21");
    assert_eq!(on("tune", &volume, &["--reserve", "much"]).code, 2);
    assert_eq!(on("tune", &volume, &["--reserve=-1"]).code, 2);
    assert!(reserved().abs_diff(4 * five) < 32768, "what is refused changes nothing");
    on("tune", &volume, &["--reserve", "0"]).good();
    assert_eq!(reserved(), 0);
    let said = on("info", &volume, &[]).good();
    assert!(!said.contains("of it for root"), "{said}");
    assert_eq!(on("cat", &volume, &["a"]).good(), "written");
    assert!(on("fsck", &volume, &["--full"]).good().ends_with("nothing is wrong\n"));
    let plain = folder.path("plain");
    on("mkfs", &plain, &["--size", "8M"]).good();
    let said = on("tune", &plain, &["--reserve", "5"]).failed(2, "engine ffs keeps the reserve");
    assert!(said.contains("with which it was made"), "{said}");
}

/// The host has as much free space as one update takes, more, or less.
#[test]
fn a_reserve_for_which_there_is_no_room_is_refused_at_once() {
    let Some(host) = SmallHost::new("4M") else { return };
    let (image, filler) = (host.place.join("disk.img"), host.place.join("filler"));
    let mut outcomes = BTreeSet::new();
    for pages in 0..6 {
        on("mkfs", &image, &["--bare", "--size", "64M", "--engine", "shadow"]).good();
        let mut file = fs::File::create(&filler).expect("a new file");
        while file.write_all(&[1; 4096]).is_ok() {}
        let length = file.metadata().expect("it is there").len();
        file.set_len(length - pages * 4096).expect("it is ours");
        drop(file);
        let words = ["tune", image.to_str().expect("plain"), "--reserve", "5"];
        let run = duramen_in_time(&words);
        outcomes.insert(run.code);
        if run.code == 0 {
            assert!(run.good().ends_with("keeps 5 percent of its space for root\n"));
        } else {
            run.failed(1, "what holds the disk is full");
        }
        fs::remove_file(&filler).expect("it is there");
        assert!(Serving::start(&[&image], &[]).stop().success());
        on("tune", &image, &["--reserve", "5"]).good();
        fs::remove_file(&image).expect("it is there");
    }
    assert_eq!(outcomes, BTreeSet::from([0, 1]));
}

#[test]
fn settings_that_name_another_engine_are_told_with_what_is_there() {
    let folder = Folder::new();
    for (engine, other) in [("ffs", "engine = \"shadow\""), ("shadow", "policy = \"sync\"")] {
        let volume = folder.path(engine);
        on("mkfs", &volume, &["--engine", engine, "--size", "16M"]).good();
        fs::write(volume.join("volume.toml"), other).expect("there is room");
        let what = format!("the disk holds a volume of engine {engine}: correct the volume.toml");
        on("info", &volume, &[]).failed(1, &what);
        on("ls", &volume, &[]).failed(1, &what);
        for more in [&[][..], &["--repair"]] {
            on("fsck", &volume, more).failed(8, &what);
        }
        if engine == "ffs" {
            on("scrub", &volume, &[]).failed(1, &what);
            duramen(&["snapshot", "list", &volume.display().to_string()]).failed(1, &what);
        }
    }
}

/// A volume whose metadata blocks were overwritten with those of another volume.
fn overwritten(folder: &Folder) -> PathBuf {
    let [volume, other] = ["volume", "other"].map(|name| {
        let volume = folder.path(name);
        on("mkfs", &volume, &["--engine", "shadow", "--size", "8M"]).good();
        let serving = Serving::start(&[&volume], &[]);
        (0..40).for_each(|number| put(&serving, name, &format!("f{number}"), &[7; 100]));
        assert!(serving.stop().success());
        duramen(&["snapshot", "create", &volume.display().to_string(), "kept"]).good();
        volume
    });
    let disks = [&volume, &other].map(|it| fs::read(it.join("disk.img")).expect("it is there"));
    // Neither an anchor nor a superblock.
    let is_it = |unit: &[u8]| unit.starts_with(b"DuSh") && unit[6] > 2;
    let file = OpenOptions::new().write(true).open(volume.join("disk.img")).expect("it is ours");
    for (at, unit) in disks[0].chunks(4096).enumerate().filter(|(_, unit)| is_it(unit)) {
        let mut others = disks[1].chunks(4096).filter(|other| is_it(other));
        let foreign = others.find(|other| other[6] == unit[6]).expect("it has the same kinds");
        file.write_all_at(foreign, at as u64 * 4096).expect("there is room");
    }
    volume
}

#[test]
fn metadata_of_another_volume_is_told_with_what_to_do() {
    let folder = Folder::new();
    let volume = overwritten(&folder);
    let path = volume.display();
    let told = on("scrub", &volume, &[]);
    let list = duramen(&["snapshot", "list", &volume.display().to_string()]);
    for run in [&told, &list] {
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.errors.contains("a block of metadata is not what its pointer says"), "{run:?}");
        let helps = format!("'duramen fsck {path}' names what is lost");
        assert!(run.errors.contains(&helps), "{run:?}");
        assert_eq!(run.errors.lines().count(), 1, "{run:?}");
    }
    let run = on("scrub", &volume, &["--json"]);
    let object: Value = serde_json::from_str(&run.output).expect("JSON");
    assert_eq!((run.code, &object["lost"]), (1, &json!([])));
    let why = object["error"].as_str().expect("it says why");
    assert!(run.errors.contains(why), "{run:?}");
    assert_eq!(on("fsck", &volume, &[]).code, 4);
    // Nothing of the volume is left: it is served empty, as the repair has said.
    let run = on("fsck", &volume, &["--repair"]);
    assert_eq!(run.code, 1, "{run:?}");
    let root =
        "loss: tree.root: metadata: found no root directory, expected one; repaired: begin a";
    assert!(run.output.contains(root), "{run:?}");
    assert_eq!(on("fsck", &volume, &[]).code, 0);
    assert_eq!(on("ls", &volume, &[]).good(), "");
}

#[test]
fn a_check_tells_the_losses_that_a_scrub_has_found() {
    let folder = Folder::new();
    let volume = made(&folder, &[]);
    let serving = Serving::start(&[&volume], &[]);
    for (name, byte) in [("good", 7), ("bad", 8)] {
        put(&serving, "volume", name, &[byte; 16384]);
    }
    on("scrub", &volume, &[]).good();
    rot(&volume, 8);
    assert!(serving.stop().success());
    assert!(on("fsck", &volume, &[]).good().ends_with("nothing is wrong\n"), "nobody has read it");
    let serving = Serving::start(&[&volume], &[]);
    on("scrub", &volume, &[]).failed(1, "1 places are lost");
    assert!(serving.stop().success());
    let looked = on("fsck", &volume, &[]);
    assert_eq!(looked.code, 4, "{looked:?}");
    assert!(looked.output.starts_with("known loss: /bad: from byte 0 on, found on "), "{looked:?}");
    assert!(!looked.output.contains("nothing is wrong\n"), "{looked:?}");
    let looked = on("fsck", &volume, &["--json"]);
    let object: Value = serde_json::from_str(&looked.output).expect("JSON");
    let loss = &object["known_losses"][0];
    assert_eq!((&loss["path"], &loss["offset"]), (&"/bad".into(), &0.into()));
    assert_eq!((&object["result"], looked.code), (&"left".into(), 4));
    // A check of all data replaces the known losses, and finds this one as well.
    let looked = on("fsck", &volume, &["--full"]);
    assert_eq!(looked.code, 4, "{looked:?}");
    assert!(!looked.output.contains("known loss"), "{looked:?}");
    let looked = on("fsck", &volume, &[]);
    assert!(looked.output.contains("known loss: /bad: 8192 bytes at byte 0"), "{looked:?}");
    let serving = Serving::start(&[&volume], &[]);
    remove(&serving, "volume", "bad");
    assert!(serving.stop().success());
    assert_eq!(on("fsck", &volume, &[]).code, 4, "nobody has looked since");
    on("scrub", &volume, &[]).good();
    on("fsck", &volume, &[]).good();
}
