//! The administrator's view of an NVRAM: its battery, its losses, and why it is not used.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::common::serving::put;
use crate::common::{Folder, duramen, on, pause};
use crate::nvram::{Place, letters, text};

impl Place {
    /// A volume whose battery is `ok`, and the file that says so.
    fn with_battery(words: &[&str]) -> (Self, PathBuf) {
        let place = Self::made(words);
        let battery = place.folder.path("battery");
        fs::write(&battery, "ok\n").expect("there is room");
        on("tune", &place.volume, &["--nvram-health", text(&battery)]).good();
        (place, battery)
    }

    /// Waits until its status has these values. Gives the status.
    fn wait(&self, state: &str, battery: &str) -> Value {
        for _ in 0..600 {
            let status = self.status();
            if status["state"] == state && status["battery"] == battery {
                return status;
            }
            pause(Duration::from_millis(50));
        }
        panic!("the NVRAM does not become {state}: {}", self.status());
    }
}

#[test]
fn nothing_is_needed_of_an_nvram_whose_battery_is_low() {
    let (place, battery) = Place::with_battery(&[]);
    let serving = place.serve();
    put(&serving, "data", "one", &letters(1));
    let status = place.wait("up", "ok");
    assert!(status["dirty_bytes"].as_u64() > Some(0), "{status}");
    fs::write(&battery, "low\n").expect("there is room");
    let status = place.wait("error", "low");
    assert!(status["error"].as_str().is_some_and(|why| why.contains("the battery is low")));
    put(&serving, "data", "two", &letters(2));
    place.nvram("up").failed(1, "the battery is low");
    for command in ["info", "raid status"] {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend([text(&place.volume), "--json"]);
        let told: Value = serde_json::from_str(&duramen(&words).output).expect("one object");
        assert_eq!(
            (&told["nvram"]["state"], &told["nvram"]["kind"]),
            (&"error".into(), &"file".into())
        );
    }
    // All is on the disks, and then they say so.
    while place.status()["dirty_bytes"] != 0 {
        pause(Duration::from_millis(50));
    }
    pause(Duration::from_secs(3));
    serving.kill();
    let away = place.folder.path("away");
    fs::rename(&place.nvram, &away).expect("a move");
    place.recovers("/one", &letters(1));
    place.has("/two", &letters(2));
    fs::rename(&away, &place.nvram).expect("a move");
    // At rest, the state is read as well.
    assert_eq!(place.status()["battery"], "low");
    fs::write(&battery, "ok").expect("there is room");
    let serving = place.serve();
    place.wait("up", "ok");
    put(&serving, "data", "three", &letters(3));
    assert!(place.status()["dirty_bytes"].as_u64() > Some(0));
    fs::remove_file(&battery).expect("it is there");
    let status = place.wait("error", "unknown");
    assert!(status["error"].as_str().is_some_and(|why| why.contains(text(&battery))), "{status}");
    fs::write(&battery, "ok").expect("there is room");
    place.wait("up", "ok");
    serving.kill();
    place.recovers("/three", &letters(3));
}

#[test]
fn a_battery_that_does_not_answer_holds_up_no_server() {
    let (place, battery) = Place::with_battery(&["--policy", "sync"]);
    let serving = place.serve();
    fs::remove_file(&battery).expect("it is there");
    let made = Command::new("mkfifo").arg(&battery).status().expect("there is such a program");
    assert!(made.success());
    let status = loop {
        let status = place.status();
        if status["error"].as_str().is_some_and(|why| why.contains("has not answered for 5 s")) {
            break status;
        }
        pause(Duration::from_millis(100));
    };
    assert_eq!((&status["state"], &status["battery"]), (&"error".into(), &"unknown".into()));
    put(&serving, "data", "one", &letters(1));
    assert!(serving.stop().success(), "a stop waits for no reading");
    on("tune", &place.volume, &["--no-nvram-health"]).good();
    place.nvram("status").good();
    place.has("/one", &letters(1));
}

#[test]
fn where_the_health_is_read_is_a_setting_of_an_nvram() {
    let folder = Folder::new();
    let (volume, nvram) = (folder.path("data"), folder.path("n0"));
    let disks = ["d0", "d1"].map(|name| folder.path(name));
    let words = ["mkfs", text(&volume), "--size", "64M", "--sparse", "--raid1"];
    let disks: Vec<&str> = disks.iter().map(|disk| text(disk)).collect();
    duramen(&[&words[..], &disks].concat()).good();
    on("tune", &volume, &["--nvram-health", "x"]).failed(2, "has no NVRAM");
    on("tune", &volume, &["--nvram", text(&nvram), "--nvram-health", text(&volume)]).good();
    let settings = || fs::read_to_string(volume.join("volume.toml")).expect("it is there");
    assert!(settings().contains(&format!("health = \"{}\"", text(&volume))));
    // A folder says nothing.
    assert_eq!(duramen(&["nvram", "status", text(&volume)]).code, 1);
    on("tune", &volume, &["--no-nvram-health"]).good();
    assert!(!settings().contains("health"));
    on("tune", &volume, &["--no-nvram"]).good();
    fs::remove_file(&nvram).expect("it is not needed");
    // A change that fails leaves nothing behind.
    let in_the_way = volume.join(".volume.toml.new");
    fs::create_dir(&in_the_way).expect("there is room");
    let failed = on("tune", &volume, &["--nvram", text(&nvram)]);
    assert!(failed.code != 0 && !nvram.exists(), "{}", failed.errors);
    fs::remove_dir(&in_the_way).expect("it is empty");
    on("tune", &volume, &["--nvram", text(&nvram)]).good();
}

#[test]
fn a_scrub_names_the_files_of_sectors_that_the_nvram_has_lost() {
    let place = Place::made(&["--policy", "sync"]);
    place.killed_after("one", &letters(1));
    // Of a block of the file there is only the NVRAM's version.
    let mut bytes = fs::read(&place.nvram).expect("it is there");
    let data = &letters(1)[4096..4096 + 64];
    let at = bytes.windows(64).position(|window| window == data).expect("it is dirty");
    bytes[at] ^= 1;
    fs::write(&place.nvram, bytes).expect("there is room");
    for is_served in [true, false] {
        let serving = is_served.then(|| place.serve());
        let run = on("raid", &PathBuf::from("scrub"), &[text(&place.volume), "--json"]);
        assert_eq!(run.code, 1, "{}", run.errors);
        let scrub: Value = serde_json::from_str(&run.output).expect("one object");
        let lost = &scrub["lost"][0];
        assert_eq!((&lost["path"], &lost["length"]), (&"/one".into(), &4096.into()), "{scrub}");
        if let Some(serving) = serving {
            assert!(serving.stop().success());
        }
    }
}

#[test]
fn a_reader_says_why_it_does_not_use_an_nvram() {
    let place = Place::made(&[]);
    assert!(place.serve().stop().success());
    let away = place.folder.path("away");
    fs::rename(&place.nvram, &away).expect("a move");
    assert!(place.serve().stop().success());
    fs::rename(&away, &place.nvram).expect("a move");
    let status = place.status();
    assert_eq!(status["state"], "down");
    assert_eq!(status["error"], "the volume was used without it since");
}
