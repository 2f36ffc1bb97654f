//! Volumes behind two NVRAMs: killed, with one of the two, and with one that comes back.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Run, duramen, pause};
use crate::nvram::{Place, letters, text};
use crate::nvram_lower::{disks, many_letters};

/// A volume with two NVRAMs.
struct Pair {
    place: Place,
    second: PathBuf,
}

impl Deref for Pair {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Pair {
    fn made(words: &[&str]) -> Self {
        let folder = Folder::new();
        let second = folder.path("n1");
        let words = [&[text(&second), "--upper", "2M"], words].concat();
        let place = Place::made_in(folder, &words);
        Self { place, second }
    }

    fn path(&self, number: usize) -> &Path {
        if number == 0 { &self.nvram } else { &self.second }
    }

    /// States of both, in the order of the settings.
    fn states(&self) -> Vec<String> {
        let status = self.status();
        let copies = status["copies"].as_array().expect("there are two").clone();
        copies.iter().map(|copy| copy["state"].as_str().expect("a word").to_owned()).collect()
    }

    fn wait(&self, states: [&str; 2]) {
        for _ in 0..600 {
            if self.states() == states {
                return;
            }
            pause(Duration::from_millis(100));
        }
        panic!("the NVRAMs do not become {states:?}: {}", self.status());
    }

    fn take_away(&self, number: usize) -> PathBuf {
        let away = self.folder.path(&format!("away{number}"));
        fs::rename(self.path(number), &away).expect("a move");
        away
    }

    fn bring_back(&self, number: usize) {
        let away = self.folder.path(&format!("away{number}"));
        fs::rename(away, self.path(number)).expect("a move");
    }
}

#[test]
fn either_of_two_is_enough_and_one_that_comes_back_is_filled_first() {
    let place = Pair::made(&["--policy", "log"]);
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    assert_eq!(place.states(), ["in", "in"]);
    assert!(place.status()["dirty_bytes"].as_u64() > Some(0));
    serving.kill();
    place.take_away(0);
    // A reader changes nothing.
    duramen(&["info", text(&place.volume)]);
    let serving = place.serve();
    assert_eq!(place.states(), ["out", "in"]);
    let run = duramen(&["nvram", "status", text(&place.volume)]);
    assert!(run.output.contains("one of two is not used"), "{}", run.output);
    put(&serving, "data", "two", &letters(2));
    serving.kill();
    // The first has missed that.
    place.take_away(1);
    place.refused("it is missing");
    place.bring_back(0);
    place.refused("it lacks the latest data, and the other NVRAM");
    place.take_away(0);
    place.bring_back(1);
    let serving = place.serve();
    put(&serving, "data", "three", &letters(3));
    place.bring_back(0);
    place.wait(["in", "in"]);
    put(&serving, "data", "four", &letters(4));
    serving.kill();
    place.take_away(1);
    let serving = place.serve();
    assert_eq!(place.states(), ["in", "out"]);
    assert!(serving.stop().success());
    for (name, seed) in [("/one", 1), ("/two", 2), ("/three", 3), ("/four", 4)] {
        place.has(name, &letters(seed));
    }
    // A volume that was stopped needs neither.
    place.take_away(0);
    place.has("/four", &letters(4));
}

#[test]
fn a_set_has_everything_again_with_either_of_two_that_have_its_log() {
    let folder = Folder::new();
    let (disks, second) = (disks(&folder), folder.path("n1"));
    let mut words = vec![text(&second), "--upper", "2M", "--lower", "4M", "--policy", "log"];
    words.extend(["--sparse", "--raid5"].into_iter().chain(disks.iter().map(|disk| text(disk))));
    let place = Pair { place: Place::made_in(folder, &words), second };
    let mut written = Vec::new();
    let mut write = |serving: &Serving| {
        let name = format!("f{}", written.len());
        put(serving, "data", &name, &many_letters(written.len() as u8));
        let lower = place.status()["lower"].clone();
        assert_eq!(lower["size_bytes"], 4 << 20);
        assert!(lower["records"].as_u64() > Some(0), "{lower}");
        written.push(name);
    };
    for missing in [0, 1] {
        let serving = place.serve();
        place.wait(["in", "in"]); // the one that was away is filled
        write(&serving);
        serving.kill();
        place.take_away(missing);
        let serving = place.serve();
        write(&serving);
        serving.kill();
        place.take_away(1 - missing);
        place.bring_back(missing);
        place.refused("it lacks the latest data, and the other NVRAM");
        place.bring_back(1 - missing);
    }
    for (seed, name) in written.iter().enumerate() {
        place.recovers(&format!("/{name}"), &many_letters(seed as u8));
    }
}

#[test]
fn one_that_was_late_is_filled_at_the_next_start_and_a_stranger_is_left_alone() {
    let place = Pair::made(&["--policy", "sync"]);
    place.killed_after("one", &letters(1));
    let late = place.take_away(1);
    place.killed_after("two", &letters(2));
    place.bring_back(1);
    let serving = place.serve();
    place.wait(["in", "in"]);
    serving.kill();
    place.take_away(0);
    let serving = place.serve();
    put(&serving, "data", "three", &letters(3));
    // Another volume's, in its place.
    let other = Pair::made(&[]);
    fs::copy(&other.nvram, &place.nvram).expect("a copy");
    let before = fs::read(&place.nvram).expect("it is there");
    pause(Duration::from_secs(5));
    assert_eq!(place.states(), ["out", "in"]);
    let error = place.status()["copies"][0]["error"].as_str().map(str::to_owned);
    assert_eq!(error.as_deref(), Some("it is the NVRAM of another volume"));
    assert!(serving.stop().success());
    assert!(fs::read(&place.nvram).expect("it is there") == before);
    assert!(!late.exists());
    for (name, seed) in [("/one", 1), ("/two", 2), ("/three", 3)] {
        place.has(name, &letters(seed));
    }
}

#[test]
fn two_nvrams_are_no_single_point_of_failure_and_are_given_and_taken_together() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let disks = ["d0", "d1", "d2"].map(|name| folder.path(name));
    let nvrams = [folder.path("n0"), folder.path("n1")];
    let [n0, n1] = nvrams.each_ref().map(|path| text(path));
    let mut words = vec!["mkfs", text(&volume), "--size", "64M", "--sparse", "--raid5"];
    words.extend(disks.iter().map(|disk| text(disk)));
    let mkfs = |more: &[&str]| -> Run { duramen(&[&words[..], more].concat()) };
    mkfs(&["--nvram", n0, n0]).failed(2, "is named twice");
    mkfs(&["--nvram", n0, text(&disks[1])]).failed(2, "is named twice");
    assert!(!nvrams[0].exists() && !volume.exists());
    let run = mkfs(&["--upper", "2M", "--nvram", n0, n1]);
    assert!(!run.errors.contains("single point of failure"), "{}", run.errors);
    run.good();
    let settings = || fs::read_to_string(volume.join("volume.toml")).expect("it is there");
    assert!(settings().contains("second = "), "{}", settings());
    duramen(&["tune", text(&volume), "--no-nvram"]).good();
    assert!(!settings().contains("nvram"), "{}", settings());
    let tune = |more: &[&str]| duramen(&[&["tune", text(&volume)], more].concat());
    tune(&["--nvram", n0, n0]).failed(2, "is named twice");
    tune(&["--nvram", n0, n1]).failed(1, "the NVRAM of a volume");
    fs::remove_file(&nvrams[0]).expect("it is not needed");
    // The smaller one counts.
    let told = tune(&["--force", "--nvram", n0, n1]).good();
    assert!(told.contains("has the NVRAMs"), "{told}");
    let [nvram, second] = nvrams.clone();
    let place = Pair { place: Place { folder, volume: volume.clone(), nvram }, second };
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    assert!(place.status()["size_bytes"].as_u64() < Some(2 << 20));
    serving.kill();
    place.take_away(1);
    place.recovers("/one", &letters(1));
}
