//! Volumes behind an NVRAM: killed, without it, with an old copy of it, and out of use.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Run, duramen, on};

/// Words of each design that may stand behind an NVRAM.
const DESIGNS: [&[&str]; 4] = [
    &["--policy", "log"],
    &["--policy", "sync"],
    &["--policy", "softdep"],
    &["--engine", "shadow"],
];

pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) volume: PathBuf,
    pub(crate) nvram: PathBuf,
}

pub(crate) fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("a name of ours")
}

impl Place {
    pub(crate) fn made(words: &[&str]) -> Self {
        Self::made_in(Folder::new(), &[&["--upper", "2M"], words].concat())
    }

    pub(crate) fn made_in(folder: Folder, words: &[&str]) -> Self {
        let (volume, nvram) = (folder.path("data"), folder.path("n0"));
        let place = Self { folder, volume, nvram };
        let arguments = ["mkfs", text(&place.volume), "--size", "64M", "--nvram"];
        duramen(&[&arguments[..], &[text(&place.nvram)], words].concat()).good();
        place
    }

    pub(crate) fn nvram(&self, order: &str) -> Run {
        duramen(&["nvram", order, text(&self.volume)])
    }

    pub(crate) fn status(&self) -> Value {
        let run = duramen(&["nvram", "status", text(&self.volume), "--json"]);
        serde_json::from_str(&run.output).expect("one object")
    }

    /// What a start recovers is there.
    pub(crate) fn recovers(&self, name: &str, data: &[u8]) {
        assert!(self.serve().stop().success());
        self.has(name, data);
    }

    pub(crate) fn has(&self, name: &str, data: &[u8]) {
        let told = duramen(&["cat", text(&self.volume), name]).good();
        assert!(told.as_bytes() == data, "{name} has {} bytes", told.len());
    }

    pub(crate) fn serve(&self) -> Serving {
        Serving::start(&[&self.volume], &[])
    }

    /// A server gets a file, and is killed.
    pub(crate) fn killed_after(&self, name: &str, data: &[u8]) {
        let serving = self.serve();
        put(&serving, "data", name, data);
        serving.kill();
    }

    /// A start that must be refused.
    pub(crate) fn refused(&self, why: &str) -> String {
        let run = duramen(&["serve", text(&self.volume), "--listen", "127.0.0.1:0"]);
        let told = run.failed(1, why);
        assert!(told.contains("--without-nvram"), "both ways out: {told}");
        told
    }
}

pub(crate) fn letters(seed: u8) -> Vec<u8> {
    (0..40_000_u32).map(|at| b'a' + ((at + u32::from(seed)) % 26) as u8).collect()
}

#[test]
fn what_only_the_nvram_has_is_there_again_after_a_kill() {
    for design in DESIGNS {
        let place = Place::made(design);
        let serving = place.serve();
        put(&serving, "data", "one", &letters(1));
        assert!(place.status()["dirty_bytes"].as_u64() > Some(0), "{design:?}");
        serving.kill();
        let away = place.folder.path("away");
        fs::rename(&place.nvram, &away).expect("a move");
        let told = place.refused("it is missing, and it has data that the disks lack");
        assert!(told.contains(text(&place.nvram)), "its last path: {told}");
        duramen(&["cat", text(&place.volume), "/one"]).failed(1, "it is missing");
        fs::rename(&away, &place.nvram).expect("a move");
        let serving = place.serve();
        put(&serving, "data", "two", &letters(2));
        assert!(serving.stop().success());
        assert_eq!(place.status()["dirty_bytes"], 0, "{design:?}");
        // A volume that was stopped needs nothing of its NVRAM.
        fs::rename(&place.nvram, &away).expect("a move");
        place.has("/one", &letters(1));
        place.has("/two", &letters(2));
        let bare = place.volume.join("disk.img");
        let copy = place.folder.path("copy.img");
        fs::copy(bare, &copy).expect("a copy");
        duramen(&["info", text(&copy)]).failed(1, "the disk is the member of slot 0 of set");
    }
}

#[test]
fn a_pinned_log_stays_in_the_nvram_until_a_stop() {
    // In memory, which is mapped, and in files.
    for folder in [Folder::in_memory(), Folder::new()] {
        let place = Place::made_in(folder, &["--policy", "log", "--pin-log"]);
        let serving = place.serve();
        put(&serving, "data", "one", &letters(1));
        let pinned = place.status()["pinned_bytes"].as_u64();
        assert!(pinned > Some(0), "{pinned:?}");
        serving.kill();
        let serving = place.serve();
        put(&serving, "data", "two", &letters(2));
        assert!(place.status()["pinned_bytes"].as_u64() > Some(0), "over a kill");
        assert!(serving.stop().success());
        assert_eq!(place.status()["pinned_bytes"], 0);
        fs::remove_file(&place.nvram).expect("it is not needed");
        place.has("/one", &letters(1));
        place.has("/two", &letters(2));
        let log = place.folder.path("log");
        fs::write(&log, vec![0; 8 << 20]).expect("there is room");
        let run = on("fsck", &place.volume, &["--log", text(&log)]);
        run.failed(8, "pin_log keeps the log of the set in the NVRAM, and --log names another one");
    }
}

#[test]
fn a_memory_that_is_cut_short_under_the_server_ends_no_server() {
    let place = Place::made_in(Folder::in_memory(), &["--upper", "2M"]);
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    place.nvram("down").good();
    place.nvram("up").good();
    let file = fs::OpenOptions::new().write(true).open(&place.nvram).expect("it is there");
    file.set_len(64 << 10).expect("it is ours");
    put(&serving, "data", "two", &letters(2));
    let status = place.status();
    assert_eq!((&status["state"], &status["lost_bytes"]), (&"error".into(), &0.into()));
    serving.kill();
    place.recovers("/one", &letters(1));
    place.has("/two", &letters(2));
}

#[test]
fn a_volume_has_stopped_when_its_nvram_can_neither_be_written_nor_read() {
    let place = Place::made_in(Folder::in_memory(), &["--upper", "2M"]);
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    assert!(place.status()["dirty_bytes"].as_u64() > Some(0), "the disks lack it");
    let file = fs::OpenOptions::new().write(true).open(&place.nvram).expect("it is there");
    file.set_len(0).expect("it is ours");
    assert!(!serving.creates("data", "two"), "nothing is promised any more");
    let status = place.status();
    assert_eq!(status["state"], "failed");
    let said = on("status", &place.volume, &[]);
    let why = "NVRAM: it or the disks have failed, and nothing is acknowledged any more: restart \
               the server";
    assert!(said.code == 2 && said.output.contains("data            stopped, "), "{said:?}");
    assert!(said.output.contains(why), "{said:?}");
    serving.kill();
}

#[test]
fn an_older_copy_of_the_nvram_is_refused() {
    let place = Place::made(&[]);
    let (copy, newer) = (place.folder.path("copy"), place.folder.path("newer"));
    place.killed_after("one", &letters(1));
    fs::copy(&place.nvram, &copy).expect("a copy");
    place.killed_after("two", &letters(2));
    fs::rename(&place.nvram, &newer).expect("a move");
    fs::copy(&copy, &place.nvram).expect("a copy");
    place.refused("it is an older copy, of start 2, and the volume has come to start 3");
    fs::rename(&newer, &place.nvram).expect("a move");
    place.recovers("/two", &letters(2));
}

#[test]
fn what_is_given_up_stays_given_up() {
    let place = Place::made(&["--policy", "sync"]);
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    assert!(serving.stop().success());
    place.killed_after("two", &letters(2));
    let away = place.folder.path("away");
    fs::rename(&place.nvram, &away).expect("a move");
    place.refused("it is missing");
    let run = on("fsck", &place.volume, &["--repair", "--without-nvram"]);
    assert!(run.code == 0 || run.code == 1, "{}", run.errors);
    place.has("/one", &letters(1));
    fs::rename(&away, &place.nvram).expect("a move");
    place.killed_after("three", &letters(3));
    place.recovers("/one", &letters(1));
    place.has("/three", &letters(3));
    duramen(&["cat", text(&place.volume), "/two"]).failed(1, "no such");
}

#[test]
fn an_nvram_goes_down_and_up_in_service_and_at_rest() {
    let place = Place::made(&[]);
    for is_served in [true, false] {
        let serving = is_served.then(|| place.serve());
        if let Some(serving) = &serving {
            put(serving, "data", "one", &letters(1));
        }
        let status = place.status();
        assert_eq!(status["state"], "up", "{status}");
        assert_eq!(status["kind"], "file");
        place.nvram("status").good();
        assert!(place.nvram("down").good().contains("its NVRAM is down"));
        let status = place.status();
        assert_eq!((&status["state"], &status["dirty_bytes"]), (&"down".into(), &0.into()));
        assert_eq!(place.nvram("status").code, 1);
        if let Some(serving) = serving {
            put(&serving, "data", "two", &letters(2));
            assert_eq!(place.status()["dirty_bytes"], 0, "writes pass by");
            serving.kill();
            let away = place.folder.path("away");
            fs::rename(&place.nvram, &away).expect("a move");
            place.recovers("/two", &letters(2));
            fs::rename(&away, &place.nvram).expect("a move");
            let serving = place.serve();
            assert_eq!(place.status()["state"], "down", "over starts");
            place.nvram("up").good();
            place.nvram("up").failed(1, "its NVRAM is up already");
            put(&serving, "data", "three", &letters(3));
            assert!(place.status()["dirty_bytes"].as_u64() > Some(0));
            serving.kill();
            place.recovers("/three", &letters(3));
        } else {
            place.nvram("up").good();
            assert_eq!(place.status()["state"], "up");
        }
    }
}

#[test]
fn a_set_is_given_an_nvram_and_loses_it_again() {
    let folder = Folder::new();
    let (volume, nvram) = (folder.path("data"), folder.path("n0"));
    let disks = ["d0", "d1", "d2"].map(|name| folder.path(name));
    let mut words = vec!["mkfs", text(&volume), "--size", "64M", "--sparse", "--raid5"];
    words.extend(disks.iter().map(|disk| text(disk)));
    duramen(&words).good();
    let told = duramen(&["nvram", "status", text(&volume)]).failed(2, "has no NVRAM");
    assert!(told.contains("data"));
    duramen(&["tune", text(&volume), "--nvram", text(&nvram)]).good();
    let place = Place { folder, volume, nvram };
    place.killed_after("one", &letters(1));
    let told = duramen(&["tune", text(&place.volume), "--no-nvram"]).failed(1, "not stopped");
    assert!(!told.contains("panicked"));
    assert!(place.serve().stop().success());
    duramen(&["tune", text(&place.volume), "--no-nvram"]).good();
    fs::remove_file(&place.nvram).expect("it is not needed");
    place.has("/one", &letters(1));
    assert!(place.serve().stop().success());
    let settings = fs::read_to_string(place.volume.join("volume.toml")).expect("it is there");
    assert!(!settings.contains("nvram"), "{settings}");
}

#[test]
fn an_nvram_that_cannot_be_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let (volume, small) = (folder.path("data"), folder.path("small"));
    let mkfs = |nvram: &str, more: &[&str]| {
        let words = ["mkfs", text(&volume), "--size", "64M", "--nvram", nvram];
        duramen(&[&words[..], more].concat())
    };
    mkfs(text(&small), &["--upper", "64K"]).failed(2, "too little for an NVRAM");
    mkfs(text(&small), &["--policy", "sync", "--pin-log"]).failed(2, "--pin-log says nothing");
    let told = mkfs(text(&small), &["--upper", "1M", "--pin-log"]).failed(2, "takes");
    assert!(told.contains("a log of 8 MiB that stays in the NVRAM takes 14 MiB"), "{told}");
    assert!(!small.exists() && !volume.exists());
    let disk = folder.path("d0");
    let second = folder.path("d1");
    let words = ["--raid1", text(&disk), text(&second)];
    mkfs(text(&disk), &words).failed(2, "is named twice");
    let other = Place::made(&[]);
    mkfs(text(&other.nvram), &[]).failed(1, "the NVRAM of a volume");
    assert!(!volume.exists());
    // A volume on a plain disk has no set to stand in front of.
    duramen(&["mkfs", text(&volume), "--size", "64M"]).good();
    let told = duramen(&["tune", text(&volume), "--nvram", text(&small)]);
    told.failed(2, "duramen mkfs --nvram");
    // Another volume's NVRAM in the place of the own one.
    let third = Place::made(&[]);
    let serving = third.serve();
    put(&serving, "data", "one", &letters(1));
    serving.kill();
    fs::rename(&third.nvram, third.folder.path("away")).expect("a move");
    fs::copy(&other.nvram, &third.nvram).expect("a copy");
    third.refused("it is the NVRAM of another volume");
}
