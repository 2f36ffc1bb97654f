//! Volumes with a log in everyday use: served, killed, checked, converted, and separated from their
//! log.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, assert_clean, on};

/// Creates a volume and kills its server after it acknowledged one file.
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
    assert_eq!(info["state"], "served");
    assert!(info["log"]["live_entries"].as_u64() >= Some(1), "{info}");
    assert!(info["log"]["live_batches"].as_u64() <= info["log"]["live_entries"].as_u64());
    assert!(on("info", &volume, &[]).good().contains("served"));
    assert!(serving.stop().success());
    let info = json(&volume);
    assert_eq!(info["state"], "clean");
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
    let its = fs::read(again.join("log.img")).expect("it is there");
    on("serve", &second, &["--listen", "127.0.0.1:0"]).failed(1, "another volume's");
    let repair = on("fsck", &second, &["--repair", "--without-log"]);
    assert!(repair.code == 0 && !repair.errors.contains("given up"), "{}", repair.errors);
    assert!(fs::read(second.join("log.img")).expect("it stays") == its, "it was written");
    on("tune", &second, &["--policy", "sync"]).failed(1, "another volume's");
    // A log that was truncated is kept as well, because its contents are unknown.
    let log = fs::File::options().write(true).open(second.join("log.img"));
    log.expect("it is there").set_len(3 << 20).expect("shorter");
    on("serve", &second, &["--listen", "127.0.0.1:0"]).failed(1, "another volume's");
    fs::remove_file(second.join("log.img")).expect("it is there");
    assert!(Serving::start(&[&second], &[]).stop().success(), "it gets a new one");
    assert!(Serving::start(&[&again], &[]).stop().success());
    assert_eq!(on("cat", &again, &["letter"]).good(), "dear friend");
}

#[test]
fn a_volume_changes_its_policy_when_it_was_stopped_cleanly() {
    let folder = Folder::new();
    let volume = folder.path("data");
    killed(&volume);
    on("tune", &volume, &["--policy", "sync"]).failed(1, "not stopped cleanly");
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
fn a_disk_that_was_cut_off_without_a_log_gets_the_one_that_is_named() {
    let folder = Folder::new();
    let (disk, log) = (folder.path("disk.img"), folder.path("log"));
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let serving = Serving::start(&[&disk], &[]);
    put(&serving, "disk", "letter", b"dear friend");
    serving.kill();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let serving = Serving::start(&[&disk], &with_log);
    put(&serving, "disk", "answer", b"dear you");
    serving.kill();
    on("serve", &disk, &["--listen", "127.0.0.1:0"]).failed(1, "its log");
    assert!(Serving::start(&[&disk], &with_log).stop().success());
    assert_eq!(on("ls", &disk, &[]).good(), "answer\nletter\n");
}

/// Two bare disks, and the path of a log for them.
fn two_images() -> (Folder, [PathBuf; 3]) {
    let folder = Folder::new();
    let paths = ["one.img", "other.img", "log"].map(|name| folder.path(name));
    for image in &paths[..2] {
        on("mkfs", image, &["--bare", "--size", "64M"]).good();
    }
    (folder, paths)
}

#[test]
fn images_that_were_cut_off_without_a_log_get_the_one_that_they_are_to_share() {
    let (_folder, [one, other, log]) = two_images();
    for (image, name) in [(&one, "one"), (&other, "other")] {
        let serving = Serving::start(&[image], &[]);
        put(&serving, name, "letter", b"dear friend");
        serving.kill();
    }
    let with_log = ["--log", log.to_str().expect("a plain path")];
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    for image in [&one, &other] {
        assert_eq!(on("ls", image, &[]).good(), "letter\n");
    }
}

/// A copy has the same number as its original, and lacks the changes in the original's log.
#[test]
fn a_copy_that_comes_to_share_a_log_takes_nothing_from_the_volume_that_had_it_alone() {
    let (folder, [one, other, log]) = two_images();
    let copy = folder.path("copy.img");
    let with_log = ["--log", log.to_str().expect("a plain path")];
    for file in [None, Some("letter")] {
        assert!(Serving::start(&[&one], &[]).stop().success());
        fs::copy(&one, &copy).expect("there is room");
        let serving = Serving::start(&[&one], &with_log);
        if let Some(file) = file {
            put(&serving, "one", file, b"dear friend");
        }
        serving.kill();
        assert!(Serving::start(&[&copy, &other], &with_log).stop().success());
        assert!(Serving::start(&[&one], &with_log).stop().success(), "with {file:?} in the log");
    }
    assert_eq!(on("cat", &one, &["letter"]).good(), "dear friend");
}

/// Volumes that need nothing from their shared log, of which only a part is left.
#[test]
fn a_shared_log_that_was_cut_off_is_made_anew_when_none_needs_it() {
    let (_folder, [one, other, log]) = two_images();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let cut = |size| {
        let file = fs::File::options().write(true).open(&log);
        file.expect("it is there").set_len(size).expect("shorter");
    };
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "letter", b"dear friend");
    assert!(serving.stop().success());
    cut(4 << 20);
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "other", "answer", b"dear you");
    serving.kill();
    cut(2 << 20);
    on("serve", &other, &[&with_log[..], &["--listen", "127.0.0.1:0"]].concat())
        .failed(1, "it was cut off, or not all of it was copied");
    for image in [&one, &other] {
        let repair = on("fsck", image, &[&with_log[..], &["--repair", "--without-log"]].concat());
        assert!(repair.code < 8, "{}", repair.errors);
    }
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("cat", &one, &["letter"]).good(), "dear friend");
}

/// Files saved beside the log for disks that were absent.
fn saved_beside_the_log(folder: &Folder) -> Vec<PathBuf> {
    let names = fs::read_dir(folder.path(".")).expect("it is there");
    let names = names.map(|entry| entry.expect("readable").path());
    names.filter(|path| path.to_string_lossy().contains("/log.")).collect()
}

#[test]
fn images_share_a_log_and_none_holds_up_the_others() {
    let (folder, [one, other, log]) = two_images();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let saved = || saved_beside_the_log(&folder);
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "letter", b"dear friend");
    put(&serving, "other", "letter", b"dear other");
    serving.kill();
    // One of them recovers alone, and the records of the other are saved.
    let serving = Serving::start(&[&one], &with_log);
    put(&serving, "one", "second", b"dear both");
    serving.kill();
    assert_eq!(saved().len(), 1, "{:?}", saved());
    // The other is refused without its log, can be checked with it, and recovers with it.
    let run = on("fsck", &other, &with_log);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.errors.contains("replayed"), "{}", run.errors);
    on("serve", &other, &["--listen", "127.0.0.1:0"]).failed(1, "its log");
    let serving = Serving::start(&[&one, &other], &with_log);
    assert!(saved().is_empty(), "{:?}", saved());
    put(&serving, "other", "second", b"dear me");
    assert!(serving.stop().success());
    for (image, second) in [(&one, "dear both"), (&other, "dear me")] {
        assert_eq!(on("ls", image, &[]).good(), "letter\nsecond\n");
        assert_eq!(on("cat", image, &["second"]).good(), second);
        assert_clean(image);
    }
}

#[test]
fn a_check_asks_the_log_before_what_was_saved_of_it() {
    let (folder, [one, other, log]) = two_images();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "other", "letter", b"dear other");
    serving.kill();
    let copies = [&one, &log].map(|path| (path, fs::read(path).expect("it is there")));
    // The records of the absent volume are saved, and the power fails before the saved file counts.
    Serving::start(&[&one], &with_log).kill();
    for (path, content) in copies {
        fs::write(path, content).expect("it is there");
    }
    let saved = || !saved_beside_the_log(&folder).is_empty();
    assert!(saved(), "the case is there");
    let run = on("fsck", &other, &["--repair", with_log[0], with_log[1]]);
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    assert!(!saved(), "nobody needs it any more");
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("ls", &other, &[]).good(), "letter\n");
    assert_clean(&other);
}

#[test]
fn a_damaged_image_is_refused_and_the_others_of_its_log_are_served() {
    let (_folder, [one, other, log]) = two_images();
    let with_log = ["--log", log.to_str().expect("a plain path")];
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "letter", b"dear friend");
    put(&serving, "other", "letter", b"dear other");
    serving.kill();
    let whole = fs::read(&other).expect("it is there");
    let mut damaged = whole.clone();
    damaged[64 << 10..(64 << 10) + 8192].fill(0);
    fs::write(&other, &damaged).expect("it is there");
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "second", b"dear me");
    serving.kill();
    fs::write(&other, &whole).expect("it is there");
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("cat", &other, &["letter"]).good(), "dear other");
    assert_eq!(on("ls", &one, &[]).good(), "letter\nsecond\n");
    // The records of one of them are given up, and the other keeps its own.
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "third", b"1");
    put(&serving, "other", "third", b"2");
    serving.kill();
    let give_up = ["--repair", "--without-log", with_log[0], with_log[1]];
    assert!([0, 1].contains(&on("fsck", &other, &give_up).code));
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("cat", &one, &["third"]).good(), "1");
    // A check with the log replays the volume's own records in place, and leaves the others.
    let serving = Serving::start(&[&one, &other], &with_log);
    put(&serving, "one", "fourth", b"1");
    put(&serving, "other", "fourth", b"2");
    serving.kill();
    assert_eq!(on("fsck", &other, &["--repair", with_log[0], with_log[1]]).code, 0);
    assert_eq!(on("cat", &other, &["fourth"]).good(), "2");
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("cat", &one, &["fourth"]).good(), "1");
    [&one, &other].into_iter().for_each(|image| assert_clean(image));
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
    // A folder has a log of its own, and can be served with another; but only the log that it used
    // last has its latest changes.
    on("mkfs", &other, &["--size", "16M"]).good();
    let serving = Serving::start(&[&other], &with_log);
    put(&serving, "other", "letter", b"dear other");
    serving.kill();
    on("serve", &other, &["--listen", "127.0.0.1:0"]).failed(1, "not that with which");
    assert!(Serving::start(&[&other], &with_log).stop().success());
    assert!(Serving::start(&[&other], &[]).stop().success());
    assert_eq!(on("cat", &other, &["letter"]).good(), "dear other");
    // A disk is no log.
    let disk = ["--log", image.to_str().expect("a plain path"), "--listen", "127.0.0.1:0"];
    on("serve", &other, &disk).failed(1, "file system");
    assert_clean(&image);
}

/// The log of a folder that another volume used as well keeps the format for that.
#[test]
fn a_volume_whose_own_log_was_shared_is_served_with_others_and_alone() {
    let folder = Folder::new();
    let [one, other] = ["one", "other"].map(|name| folder.path(name));
    for volume in [&one, &other] {
        on("mkfs", volume, &["--size", "16M"]).good();
    }
    let log = one.join("log.img");
    let shared = ["--log", log.to_str().expect("a plain path")];
    let serving = Serving::start(&[&one, &other], &shared);
    put(&serving, "one", "letter", b"dear friend");
    assert!(serving.stop().success());
    let serving = Serving::start(&[&one, &other], &[]);
    put(&serving, "one", "second", b"dear both");
    put(&serving, "other", "answer", b"dear you");
    serving.kill();
    let serving = Serving::start(&[&one], &[]);
    put(&serving, "one", "third", b"dear me");
    assert!(serving.stop().success());
    assert!(Serving::start(&[&one, &other], &[]).stop().success());
    assert_eq!(on("ls", &one, &[]).good(), "letter\nsecond\nthird\n");
    assert_eq!(on("cat", &other, &["answer"]).good(), "dear you");
    for volume in [&one, &other] {
        assert_clean(&volume.join("disk.img"));
    }
}
