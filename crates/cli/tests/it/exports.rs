//! Access to volumes as people set it up, and refusals in the log.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::serving::Serving;
use crate::common::{Folder, on};

/// A volume and a configuration with this text.
fn with_configuration(text: &str) -> (Folder, PathBuf, PathBuf) {
    let folder = Folder::new();
    let (volume, config) = (folder.path("data"), folder.path("duramen.toml"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    fs::write(&config, text).expect("there is room");
    (folder, volume, config)
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_refused_client_is_admitted_by_the_line_of_the_log() {
    let stranger = "[exports.data]\nclients = [{ network = \"127.0.0.2\", access = \"ro\" }]\n";
    let (_folder, volume, config) = with_configuration(stranger);
    let more = ["--config", plain(&config)];
    let mut serving = Serving::start_saying(&[&volume], &more, &[], Stdio::piped());
    let mut log = BufReader::new(serving.standard_error().expect("it was asked for"));
    assert!(serving.refuses("data"));
    let mut line = String::new();
    while !line.contains("refused a mount") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("text"), 0, "the server ended");
    }
    assert!(line.contains(" WARN ") && line.contains("127.0.0.1"), "{line}");
    let rule = &line[line.find("{ network").expect("a rule")..=line.find('}').expect("its end")];
    assert!(line.contains("[exports.data]"), "{line}");
    let pasted = stranger.replace("[{", &format!("[{rule}, {{"));
    fs::write(&config, pasted.replace("127.0.0.1\", access = \"ro", "127.0.0.1\", access = \"rw"))
        .expect("there is room");
    serving.signal("-HUP");
    while !line.contains("/data: ") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("text"), 0, "the server ended");
    }
    assert!(line.contains("127.0.0.1 may mount it read-write, root squashed"), "{line}");
    serving.mount("data");
    assert!(serving.stop().success());
}

#[test]
fn a_start_says_who_may_mount_and_how() {
    let (_folder, volume, config) = with_configuration("");
    let ready = |more: &[&str]| {
        let serving = Serving::start(&[&volume], more);
        let told = serving.announcement();
        assert!(serving.stop().success());
        told
    };
    let told = ready(&[]);
    let share = "/data: 127.0.0.0/8 and ::1 may mount it read-write, no user squashed, root";
    assert!(told.contains(share) && told.contains("Linux: "), "{told}");
    fs::write(
        &config,
        "[exports.data]\nclients = [{ network = \"10.0.0.0/8\", access = \"rw\" }]\n",
    )
    .expect("there is room");
    let told = ready(&["--config", plain(&config)]);
    let share = "/data: 10.0.0.0/8 may mount it read-write, root squashed to 65534:65534, no user \
                 can write to the root directory";
    assert!(told.contains(share) && !told.contains("Linux: "), "{told}");
}
