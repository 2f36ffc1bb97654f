//! What is saved beside a log that volumes share: for whom it is.

use std::fs;
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

/// What lies beside the log, and has a name that begins with its.
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
    // Nobody says which log, so what was saved beside it stays.
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
