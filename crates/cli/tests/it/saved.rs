//! Files saved beside a log that volumes share: their owners, and how they are found.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, assert_clean, on};

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn volumes<const N: usize>(folder: &Folder, names: [&str; N]) -> [PathBuf; N] {
    let volumes = names.map(|name| folder.path(name));
    for volume in &volumes {
        on("mkfs", volume, &["--size", "32M"]).good();
    }
    volumes
}

/// Serves volumes, writes a letter to one of them, and kills the server.
fn killed(volumes: &[&Path], written: &str, letter: &str, more: &[&str]) {
    let serving = Serving::start(volumes, more);
    put(&serving, written, letter, b"dear friend");
    serving.kill();
}

/// Serves volumes, and stops them cleanly.
#[track_caller]
fn served(volumes: &[&Path], more: &[&str]) {
    assert!(Serving::start(volumes, more).stop().success());
}

/// Files beside the log whose names begin with its name.
fn beside(log: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(log.parent().expect("a folder")).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it is there").path());
    paths.filter(|path| path != log && text(path).starts_with(text(log))).collect()
}

#[test]
fn what_was_given_up_hides_nothing_that_was_saved_since() {
    let folder = Folder::new();
    let [first, second, third] = volumes(&folder, ["first", "second", "third"]);
    let log = folder.path("its.log");
    let with_log = ["--log", text(&log)];
    killed(&[&first, &second], "second", "old", &with_log);
    served(&[&first], &with_log);
    assert_eq!(beside(&log).len(), 1, "the case is there");
    // The command names no log, so the file saved beside it stays.
    on("fsck", &second, &["--repair", "--without-log"]);
    fs::rename(&log, folder.path("away")).expect("it is there");
    killed(&[&second], "second", "letter", &with_log);
    served(&[&first, &third], &with_log);
    assert_eq!(beside(&log).len(), 2, "the case is there");
    let look = on("fsck", &second, &with_log);
    assert_eq!(look.code, 0, "{}{}", look.output, look.errors);
    served(&[&second], &with_log);
    assert_eq!(on("cat", &second, &["letter"]).good(), "dear friend");
    assert_clean(&second.join("disk.img"));
}

/// A volume and its copy, which have one id. The copy was killed with the shared log, and the
/// volume with its own, which is lost.
fn killed_copies(folder: &Folder) -> [PathBuf; 4] {
    let [volume, neighbour] = volumes(folder, ["volume", "neighbour"]);
    let (copy, log) = (folder.path("copy"), folder.path("its.log"));
    fs::create_dir(&copy).expect("it is new");
    for entry in fs::read_dir(&volume).expect("it is there") {
        let from = entry.expect("it is there").path();
        let name = from.file_name().expect("an entry has a name");
        fs::copy(&from, copy.join(name)).expect("there is room");
    }
    killed(&[&copy, &neighbour], "copy", "letter", &["--log", text(&log)]);
    killed(&[&volume], "volume", "other", &[]);
    fs::remove_file(volume.join("log.img")).expect("it is there");
    [volume, copy, neighbour, log]
}

/// Gives up the log of the volume, and asserts that its copy keeps every change.
#[track_caller]
fn assert_keeps_the_copy(volume: &Path, copy: &Path, log: &Path) {
    let with_log = ["--log", text(log)];
    let run = on("fsck", volume, &["--repair", "--without-log", with_log[0], with_log[1]]);
    assert_eq!(run.code, 1, "{}{}", run.output, run.errors);
    assert!(!run.errors.contains("are given up"), "{}", run.errors);
    assert_clean(&volume.join("disk.img"));
    served(&[copy], &with_log);
    assert_eq!(on("cat", copy, &["letter"]).good(), "dear friend");
    assert_clean(&copy.join("disk.img"));
}

#[test]
fn what_a_log_has_of_a_copy_is_not_given_up() {
    let folder = Folder::new();
    let [volume, copy, _, log] = killed_copies(&folder);
    assert_keeps_the_copy(&volume, &copy, &log);
}

#[test]
fn what_was_saved_for_a_copy_is_not_given_up() {
    let folder = Folder::new();
    let [volume, copy, neighbour, log] = killed_copies(&folder);
    served(&[&neighbour], &["--log", text(&log)]);
    assert_eq!(beside(&log).len(), 1, "the case is there");
    assert_keeps_the_copy(&volume, &copy, &log);
}

#[test]
fn what_was_saved_is_given_up_by_whose_it_is() {
    let folder = Folder::new();
    let [first, second] = volumes(&folder, ["first", "second"]);
    let log = folder.path("its.log");
    let with_log = ["--log", text(&log)];
    killed(&[&first, &second], "second", "letter", &with_log);
    served(&[&first], &with_log);
    assert_eq!(beside(&log).len(), 1, "the case is there");
    let run = on("fsck", &second, &["--repair", "--without-log", with_log[0], with_log[1]]);
    assert!([0, 1].contains(&run.code), "{}{}", run.output, run.errors);
    assert!(run.errors.contains("are given up"), "{}", run.errors);
    assert_eq!(beside(&log), [] as [PathBuf; 0]);
    served(&[&first, &second], &with_log);
}

/// The target of a link may exist or not when a file saved beside it is looked for.
#[test]
fn a_link_to_a_log_leads_to_what_was_saved_beside_it() {
    for is_there in [true, false] {
        let folder = Folder::new();
        let [first, second] = volumes(&folder, ["first", "second"]);
        let (link, place) = (folder.path("link"), folder.path("logs"));
        fs::create_dir(&place).expect("it is new");
        symlink("logs/its.log", &link).expect("it is new");
        let log = place.join("its.log");
        let by_link = ["--log", text(&link)];
        killed(&[&first, &second], "second", "letter", &by_link);
        served(&[&first], &by_link);
        assert_eq!(beside(&link), [] as [PathBuf; 0]);
        assert_eq!(beside(&log).len(), 1, "it is beside the log itself");
        if !is_there {
            fs::remove_file(&log).expect("it is there");
        }
        for named in [&link, &log] {
            let look = on("fsck", &second, &["--log", text(named)]);
            assert_eq!(look.code, 0, "{}{}", look.output, look.errors);
        }
        let named = if is_there { &log } else { &link };
        served(&[&second], &["--log", text(named)]);
        assert_eq!(on("cat", &second, &["letter"]).good(), "dear friend");
        assert_eq!(beside(&log), [] as [PathBuf; 0]);
        assert!(link.is_symlink(), "it leads to the log");
    }
}
