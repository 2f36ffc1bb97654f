//! Volumes with a log, as people meet them: served, killed, checked, converted, and separated from
//! their log.

mod common;

use std::fs;
use std::path::Path;

use common::serving::{Serving, put};
use common::{Folder, assert_clean, duramen, on};

/// A volume that was killed when it had answered for one file.
fn killed(volume: &Path) {
    let serving = Serving::start(&[volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
}

fn json(volume: &Path) -> serde_json::Value {
    serde_json::from_str(&on("info", volume, &["--json"]).good()).expect("it is JSON")
}

#[test]
fn a_volume_that_is_served_tells_what_its_log_holds() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    let info = json(&volume);
    assert_eq!(info["in_use"], true);
    assert!(info["log"]["live_entries"].as_u64() >= Some(1), "{info}");
    assert!(info["log"]["live_batches"].as_u64() <= info["log"]["live_entries"].as_u64());
    assert!(on("info", &volume, &[]).good().contains("in use"));
    assert!(serving.stop().success());
    let info = json(&volume);
    assert_eq!((&info["in_use"], &info["clean"]), (&false.into(), &true.into()));
    assert_eq!(info["log"]["live_entries"], 0);
}

#[test]
fn a_check_replays_first_and_finds_nothing() {
    let folder = Folder::new();
    let volume = folder.path("data");
    killed(&volume);
    let before = [fs::read(volume.join("disk.img")), fs::read(volume.join("log.img"))];
    let looked = on("fsck", &volume, &[]);
    assert_eq!(looked.code, 0, "{}", looked.output);
    assert!(looked.errors.contains("log entries were replayed first"), "{}", looked.errors);
    assert!(looked.output.contains("not stopped cleanly"), "{}", looked.output);
    assert!(!looked.output.contains("repairable"), "{}", looked.output);
    let after = [fs::read(volume.join("disk.img")), fs::read(volume.join("log.img"))];
    assert!(before.map(Result::ok) == after.map(Result::ok), "a look changes nothing");
    on("fsck", &volume, &["--repair"]);
    assert_clean(&volume.join("disk.img"));
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    let serving = Serving::start(&[&volume], &[]);
    assert!(serving.stop().success(), "its log holds nothing any more");
}

#[test]
fn a_volume_without_its_log_is_refused_and_told_what_to_do() {
    let folder = Folder::new();
    let volume = folder.path("data");
    killed(&volume);
    fs::remove_file(volume.join("log.img")).expect("it was there");
    let listen = ["--listen", "127.0.0.1:0"];
    on("serve", &volume, &listen).failed(1, "--without-log");
    on("fsck", &volume, &["--repair", "--without-log"]);
    assert_clean(&volume.join("disk.img"));
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "answer", b"dear you");
    assert!(serving.stop().success(), "a clean volume gets a new log");
}

#[test]
fn a_log_of_another_volume_is_refused() {
    let folder = Folder::new();
    let (volume, other) = (folder.path("data"), folder.path("other"));
    killed(&volume);
    on("mkfs", &other, &["--size", "64M"]).good();
    fs::copy(other.join("log.img"), volume.join("log.img")).expect("both are there");
    on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "--without-log");
}

#[test]
fn a_log_with_something_in_it_is_not_forgotten() {
    let folder = Folder::new();
    let volume = folder.path("data");
    killed(&volume);
    on("fsck", &volume, &["--repair", "--without-log"]);
    let serving = Serving::start(&[&volume], &[]);
    assert!(serving.stop().success(), "it was given up by name");

    let second = folder.path("second");
    on("mkfs", &second, &["--size", "64M"]).good();
    let kept = folder.path("data2");
    fs::create_dir(&kept).expect("new");
    let again = folder.path("data3");
    let serving = Serving::start(&[&again], &["--create", "64M"]);
    put(&serving, "data3", "letter", b"dear friend");
    serving.kill();
    fs::copy(again.join("log.img"), second.join("log.img")).expect("both are there");
    on("serve", &second, &["--listen", "127.0.0.1:0"]).failed(1, "--without-log");
}

#[test]
fn a_volume_changes_its_policy_when_it_was_stopped_cleanly() {
    let folder = Folder::new();
    let volume = folder.path("data");
    killed(&volume);
    on("tune", &volume, &["--policy", "sync"]).failed(2, "not stopped cleanly");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert!(on("tune", &volume, &["--policy", "sync"]).good().contains("policy sync"));
    assert!(!volume.join("log.img").exists());
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "answer", b"dear you");
    serving.kill();
    assert!(Serving::start(&[&volume], &[]).stop().success(), "the check brings it back");
    assert!(on("tune", &volume, &["--policy", "log"]).good().contains("policy log"));
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "answer\nletter\n");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_bare_image_is_served_with_the_log_that_is_named() {
    let folder = Folder::new();
    let (image, log) = (folder.path("disk.img"), folder.path("disk.log"));
    on("mkfs", &image, &["--bare", "--size", "64M"]).good();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let serving = Serving::start(&[&image], &with_log);
    put(&serving, "disk", "letter", b"dear friend");
    serving.kill();
    on("serve", &image, &["--listen", "127.0.0.1:0"]).failed(1, "its log");
    on("ls", &image, &[]).failed(1, "log");
    let serving = Serving::start(&[&image], &with_log);
    assert!(serving.stop().success());
    assert_eq!(on("cat", &image, &["letter"]).good(), "dear friend");
    assert_clean(&image);
    let other = folder.path("other");
    let both = ["serve", "a", "b", "--log", "c"];
    duramen(&both).failed(2, "one volume");
    on("mkfs", &other, &["--size", "16M"]).good();
    on("serve", &other, &with_log).failed(2, "folder");
}
