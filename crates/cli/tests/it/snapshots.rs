//! `duramen snapshot`, on volumes that are served and that nobody serves.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::common::serving::Serving;
use crate::common::{Folder, Run, duramen, on};

/// Runs `duramen snapshot COMMAND VOLUME MORE...`.
fn snapshot(command: &str, volume: &Path, more: &[&str]) -> Run {
    let volume = volume.to_str().expect("temporary folders have plain names");
    duramen(&[&["snapshot", command, volume], more].concat())
}

#[test]
fn an_engine_that_has_none_says_so_served_or_not() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let all = || {
        for (command, name) in [
            ("create", &["a"][..]),
            ("create", &[]),
            ("list", &[]),
            ("delete", &["a"]),
            ("rollback", &["a"]),
        ] {
            let said = snapshot(command, &volume, name).failed(1, "its engine has no snapshots");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    };
    all();
    let serving = Serving::start(&[&volume], &[]);
    all();
    assert!(serving.stop().success());
    on("fsck", &volume, &[]).good();
}

#[test]
fn a_schedule_that_cannot_be_kept_is_told_and_nothing_else_comes_of_it() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let settings = volume.join("volume.toml");
    let text = fs::read_to_string(&settings).expect("it is there");
    fs::write(&settings, text + "[snapshots]\nhourly = 24\n").expect("there is room");
    let mut serving = Serving::start_saying(&[&volume], &[], &[], Stdio::piped());
    let mut errors = serving.standard_error().expect("it is a pipe");
    assert!(serving.stop().success());
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    assert!(said.contains("has a section [snapshots], and its engine has no snapshots"), "{said}");
}
