//! `duramen snapshot`, on volumes with and without a server.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::serving::{Serving, put, remove};
use crate::common::{Folder, Run, SmallHost, duramen, on, pause, pretend};

/// Runs `duramen snapshot COMMAND VOLUME MORE...`.
fn snapshot(command: &str, volume: &Path, more: &[&str]) -> Run {
    let volume = volume.to_str().expect("temporary folders have plain names");
    duramen(&[&["snapshot", command, volume], more].concat())
}

/// The output of `duramen snapshot list --json`.
#[track_caller]
fn list(volume: &Path) -> Value {
    serde_json::from_str(&snapshot("list", volume, &["--json"]).good()).expect("JSON")
}

/// Names of the snapshots that are not being deleted.
#[track_caller]
fn names(volume: &Path) -> Vec<String> {
    let all = list(volume);
    let all = all.as_array().expect("a list").iter().filter(|one| one["state"] == "ready");
    all.map(|one| one["name"].as_str().expect("text").to_owned()).collect()
}

/// Creates a volume of an engine with snapshots.
fn made(folder: &Folder) -> PathBuf {
    let volume = folder.path("data");
    on("mkfs", &volume, &["--engine", "shadow", "--size", "64M"]).good();
    volume
}

/// Runs a test on a volume without a server, then on one with a server.
fn both_ways(test: impl Fn(&Path)) {
    let folder = Folder::new();
    let volume = made(&folder);
    test(&volume);
    let folder = Folder::new();
    let volume = made(&folder);
    let serving = Serving::start(&[&volume], &[]);
    test(&volume);
    assert!(serving.stop().success());
    let said = on("fsck", &volume, &["--full"]).good();
    assert!(said.ends_with("nothing is wrong\n"), "{said}");
}

#[test]
fn they_are_made_listed_and_deleted_served_or_not() {
    both_ways(|volume| {
        assert_eq!(list(volume), Value::Array(Vec::new()));
        let path = volume.display();
        let said = snapshot("create", volume, &["one"]).good();
        assert_eq!(said, format!("{path}: snapshot 'one' is made\n"));
        let made: Value =
            serde_json::from_str(&snapshot("create", volume, &["two", "--json"]).good())
                .expect("JSON");
        let all = list(volume);
        assert_eq!(all[1], made, "create tells what the list has");
        let keys = |one: &Value| one.as_object().expect("an object").keys().cloned().collect();
        let keys: Vec<String> = keys(&made);
        let mut expected =
            ["name", "number", "created", "referenced_bytes", "unique_bytes"].to_vec();
        expected.extend(["state", "freed_bytes"]);
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!((&made["name"], &made["state"]), (&"two".into(), &"ready".into()));
        assert!(made["number"].as_u64() > all[0]["number"].as_u64(), "{all}");
        assert!(made["created"].as_i64() >= all[0]["created"].as_i64(), "{all}");
        let said = snapshot("list", volume, &[]).good();
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(said.starts_with("one  20") && said.contains(" of it alone\ntwo  20"), "{said}");
        let said = snapshot("delete", volume, &["one"]).good();
        assert!(said.starts_with(&format!("{path}: snapshot 'one' is deleted, and ")), "{said}");
        assert_eq!(names(volume), ["two"]);
        let gone = snapshot("delete", volume, &["two", "--json"]).good();
        let gone: Value = serde_json::from_str(&gone).expect("JSON");
        assert_eq!((&gone["name"], &gone["number"]), (&"two".into(), &made["number"]));
        assert!(gone["freed_bytes"].is_u64(), "{gone}");
        assert_eq!(list(volume), Value::Array(Vec::new()), "nothing is left of it");
    });
}

#[test]
fn without_a_name_it_is_called_after_the_time() {
    both_ways(|volume| {
        let said = snapshot("create", volume, &[]).good();
        let name = said.split('\'').nth(1).expect("a name").to_owned();
        let shape = name.replace(|letter: char| letter.is_ascii_digit(), "0");
        assert_eq!(shape, "0000-00-00T00:00:00Z");
        assert_eq!(names(volume), [name]);
    });
}

#[test]
fn what_cannot_be_done_is_one_sentence_and_changes_nothing() {
    both_ways(|volume| {
        for name in ["a", "b"] {
            snapshot("create", volume, &[name]).good();
        }
        let before = list(volume);
        let long = "x".repeat(256);
        for (command, name, expected) in [
            ("create", "x/y", "'x/y' cannot be the name of a snapshot: it has a '/'"),
            ("create", ".snapshot", "that is where snapshots are found"),
            ("create", "..", "that is a directory in each directory"),
            ("create", "", "it is empty"),
            ("create", &long, "it has more than 255 bytes"),
            ("create", "a", "there is a snapshot 'a' already"),
            ("delete", "c", "there is no snapshot 'c'; there are these: a, b"),
            ("delete", "a/b", "it has a '/'"),
            ("rollback", "a/b", "it has a '/'"),
        ] {
            let said = snapshot(command, volume, &[name]).failed(1, expected);
            assert!(said.starts_with(&format!("duramen: {}: ", volume.display())), "{said}");
        }
        assert_eq!(list(volume), before);
        assert_eq!(snapshot("delete", volume, &[]).code, 2, "it needs a name");
        assert_eq!(snapshot("sing", volume, &["a"]).code, 2);
        assert_eq!(duramen(&["snapshot"]).code, 2);
    });
}

#[test]
fn a_volume_goes_back_to_what_it_held() {
    let folder = Folder::new();
    let volume = made(&folder);
    let serve_and_put = |name: &str, data: &[u8]| {
        let serving = Serving::start(&[&volume], &[]);
        put(&serving, "data", name, data);
        let said = snapshot("create", &volume, &[&format!("with-{name}")]).good();
        assert!(said.ends_with("is made\n"), "{said}");
        let said = snapshot("rollback", &volume, &["with-a"]);
        said.failed(1, "it is served: stop its server before it is rolled back");
        assert!(serving.stop().success());
    };
    serve_and_put("a", b"first");
    serve_and_put("b", b"second");
    serve_and_put("c", b"third");
    snapshot("rollback", &volume, &["d"]).failed(1, "there are these: with-a, with-b, with-c");
    let before = list(&volume);
    let refused = snapshot("rollback", &volume, &["with-a"]);
    refused.failed(1, "would be lost: with-b, with-c; if that is meant, say --delete-newer");
    assert_eq!(list(&volume), before);
    assert_eq!(on("cat", &volume, &["c"]).good(), "third", "nothing has changed");
    let said = snapshot("rollback", &volume, &["with-c"]).good();
    assert!(said.ends_with("data: it is what snapshot 'with-c' holds\n"), "{said}");
    assert_eq!(on("ls", &volume, &[]).good(), "a\nb\nc\n");
    let told = snapshot("rollback", &volume, &["with-a", "--delete-newer", "--json"]).good();
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told, json!({ "name": "with-a", "deleted": ["with-b", "with-c"] }));
    assert_eq!(on("ls", &volume, &[]).good(), "a\n");
    assert_eq!(on("cat", &volume, &["a"]).good(), "first");
    assert_eq!(list(&volume).as_array().map(Vec::len), Some(1), "the others are wholly gone");
    serve_and_put("b", b"other");
    assert_eq!(on("cat", &volume, &["b"]).good(), "other");
    assert_eq!(names(&volume), ["with-a", "with-b"]);
    let said = on("fsck", &volume, &["--full"]).good();
    assert!(said.ends_with("nothing is wrong\n"), "{said}");
}

/// Starts a server that deletes a snapshot with many lists, and the command that waits for it.
fn begun_to_delete(volume: &Path) -> (Serving, Child) {
    let serving = Serving::start(&[volume], &[]);
    for number in 0..20 {
        put(&serving, "data", &number.to_string(), &[number; 300_000]);
    }
    snapshot("create", volume, &["old"]).good();
    for number in 0..20 {
        remove(&serving, "data", &number.to_string());
    }
    let deleting = start(&["snapshot", "delete", volume.to_str().expect("plain"), "old"]);
    while names(volume).contains(&"old".to_owned()) {
        pause(Duration::from_millis(1));
    }
    (serving, deleting)
}

/// Asserts that the next server completes the deletion, and that the volume is undamaged.
fn the_next_deletes_it(volume: &Path, deleting: Child) {
    let told = deleting.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() || told.status.code() == Some(1), "{words}");
    let serving = Serving::start(&[volume], &[]);
    while list(volume).as_array().is_some_and(|all| !all.is_empty()) {
        pause(Duration::from_millis(10));
    }
    assert!(serving.stop().success());
    let said = on("fsck", volume, &["--full"]).good();
    assert!(said.ends_with("nothing is wrong\n"), "{said}");
}

#[test]
fn what_a_killed_server_had_begun_to_delete_is_deleted_by_the_next() {
    let folder = Folder::new();
    let volume = made(&folder);
    let (serving, deleting) = begun_to_delete(&volume);
    serving.kill();
    let disk = fs::read(volume.join("disk.img")).expect("it is there");
    let left = list(&volume);
    let left = left.as_array().expect("a list");
    assert!(left.iter().all(|one| one["state"] == "deleting"), "{left:?}");
    let is_same = fs::read(volume.join("disk.img")).expect("it is there") == disk;
    assert!(is_same, "a list of what was cut off writes nothing");
    the_next_deletes_it(&volume, deleting);
}

#[test]
fn a_server_that_is_stopped_ends_amid_a_deletion_and_the_next_goes_on() {
    for signal in ["-TERM", "-INT"] {
        let folder = Folder::new();
        let volume = made(&folder);
        let (serving, deleting) = begun_to_delete(&volume);
        serving.signal(signal);
        assert!(serving.ended().success(), "a stop in order");
        let left = list(&volume);
        let left = left.as_array().expect("a list");
        assert!(left.iter().all(|one| one["state"] == "deleting"), "{left:?}");
        let said = on("fsck", &volume, &["--full"]).good();
        assert!(said.ends_with("nothing is wrong\n"), "{said}");
        the_next_deletes_it(&volume, deleting);
    }
}

fn start(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program was just built")
}

#[test]
fn a_command_that_is_interrupted_says_so_and_leaves_the_server_to_it() {
    const SIGINT: u64 = 2;
    let folder = Folder::new();
    let volume = made(&folder);
    let serving = Serving::start(&[&volume], &[]);
    serving.signal("-STOP");
    let asks = start(&["snapshot", "create", volume.to_str().expect("plain"), "one"]);
    let heeds = || {
        let status = fs::read_to_string(format!("/proc/{}/status", asks.id())).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        u64::from_str_radix(mask.trim(), 16).expect("a mask") >> (SIGINT - 1) & 1 == 1
    };
    while !heeds() {
        pause(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-INT", &asks.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    let told = asks.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&told.stderr);
    assert_eq!((told.status.code(), words.lines().count()), (Some(1), 1), "{words}");
    assert!(words.contains("interrupted: the server was asked, and may do it all the same"));
    serving.signal("-CONT");
    snapshot("create", &volume, &["two"]).good();
    assert!(serving.stop().success());
}

#[test]
fn a_bare_disk_is_asked_for_at_the_socket_that_is_named() {
    let folder = Folder::new();
    let (disk, socket) = (folder.path("data.img"), folder.path("socket"));
    on("mkfs", &disk, &["--bare", "--engine", "shadow", "--size", "16M"]).good();
    let control = ["--control", socket.to_str().expect("plain")];
    let with = |name: &'static str| [&[name], &control[..]].concat();
    snapshot("create", &disk, &with("before")).good();
    let serving = Serving::start(&[&disk], &control);
    snapshot("create", &disk, &with("served")).good();
    for (command, name) in [("create", &["alone"][..]), ("delete", &["before"]), ("list", &[])] {
        let said = snapshot(command, &disk, name).failed(1, "in use");
        assert!(said.contains("data.img: ") && said.contains("'--control PATH'"), "{said}");
    }
    let said = snapshot("rollback", &disk, &["before"]).failed(1, "in use");
    assert!(said.contains("stop the other one first"), "{said}");
    on("scrub", &disk, &[]).failed(1, "'--control PATH'");
    assert!(serving.stop().success());
    assert_eq!(names(&disk), ["before", "served"]);
}

/// The host of the disk is full, which is no failure.
#[test]
fn what_finds_no_room_where_the_disk_lies_is_told_so_and_goes_on_when_there_is_some() {
    const FULL: &str = "no space is left where its disk lies; ";
    let Some(host) = SmallHost::new("16M") else { return };
    let (volume, filler) = (host.place.join("data"), host.place.join("filler"));
    on("mkfs", &volume, &["--engine", "shadow", "--size", "64M"]).good();
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "a", b"first");
    snapshot("create", &volume, &["old"]).good();
    let mut file = fs::File::create(&filler).expect("a new file");
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file); // would keep its space
    let make = |number: u32| {
        let name = number.to_string();
        let run = snapshot("create", &volume, &[&name]);
        (run.code != 0).then_some((name, run))
    };
    let (name, refused) = (0..1000).find_map(make).expect("there is little room");
    refused.failed(1, &format!("{FULL}the snapshot may come to be when there is some"));
    snapshot("delete", &volume, &["old"]).failed(1, FULL);
    snapshot("list", &volume, &[]).failed(1, FULL);
    fs::remove_file(&filler).expect("it is ours");
    while snapshot("list", &volume, &[]).code != 0 {
        pause(Duration::from_millis(100));
    }
    assert_eq!(names(&volume).last(), Some(&name), "it came to be");
    snapshot("create", &volume, &["new"]).good();
    assert!(serving.stop().success());
    assert!(on("fsck", &volume, &["--full"]).good().ends_with("nothing is wrong\n"));
}

/// Many deletions may end between two polls, and a server does not remember them all.
#[test]
fn a_deletion_that_the_server_has_forgotten_is_looked_for() {
    let folder = Folder::new();
    let volume = made(&folder);
    snapshot("create", &volume, &["old"]).good();
    let deleting = json!({ "state": "deleting", "freed_bytes": 4096 });
    let mut one = list(&volume)[0].clone();
    one.as_object_mut().expect("it is one").extend(deleting.as_object().expect("it is").clone());
    let pretend_that = |listed: Value| {
        let answer = json!({ "job": 7, "snapshot": one });
        pretend(&volume, move |route| match route {
            "/v1/snapshots/delete" => (200, answer.clone()),
            "/v1/snapshots" => (200, listed.clone()),
            _ => (404, json!({ "error": "there is no such job; there are these: none" })),
        })
    };
    let asked = pretend_that(json!([]));
    let said = snapshot("delete", &volume, &["old"]).good();
    assert!(said.ends_with("snapshot 'old' is deleted, and 4 KiB are free again\n"), "{said}");
    assert_eq!(asked.iter().take(3).count(), 3, "the order, the job, and what is left");
    fs::remove_file(volume.join("control.sock")).expect("it is there");
    let _asked = pretend_that(json!([one]));
    let said = snapshot("delete", &volume, &["old"]);
    said.failed(1, "it knows nothing of the deletion any more, and some is left to be done");
}

#[test]
fn of_many_snapshots_the_last_are_named() {
    let folder = Folder::new();
    let volume = made(&folder);
    let create = |number: u32| snapshot("create", &volume, &[&format!("s{number}")]).good();
    (0..10).for_each(|number| drop(create(number)));
    let said = snapshot("delete", &volume, &["nope"]).failed(1, "; there are these: s0, s1, ");
    assert!(said.ends_with(", s9\n"), "{said}");
    (10..12).for_each(|number| drop(create(number)));
    let said = snapshot("delete", &volume, &["nope"]);
    let said = said.failed(1, "; there are 12, the last of which are s2, s3, ");
    assert!(said.ends_with(", s10, s11\n"), "{said}");
}

#[test]
fn a_rollback_asks_no_server() {
    let told = duramen(&["snapshot", "rollback", "--help"]).good();
    assert!(told.contains("--delete-newer") && !told.contains("--control"), "{told}");
    let told = duramen(&["snapshot", "create", "--help"]).good();
    assert!(told.contains("--control"), "{told}");
}

#[test]
fn two_without_a_name_in_one_second_have_names_of_their_own() {
    both_ways(|volume| {
        let made = (1..=60).find(|_| {
            let said = snapshot("create", volume, &[]).good();
            said.contains("Z-2' is made")
        });
        let made = made.expect("two of so many are of one second");
        assert_eq!(names(volume).len(), made, "each has its own");
    });
}

#[test]
fn a_volume_that_is_served_read_only_keeps_its_snapshots() {
    let folder = Folder::new();
    let volume = made(&folder);
    snapshot("create", &volume, &["a"]).good();
    let before = list(&volume);
    let serving = Serving::start(&[&volume], &["--read-only"]);
    for (command, name) in [("create", "b"), ("delete", "a")] {
        snapshot(command, &volume, &[name]).failed(1, "it can only be read");
    }
    assert_eq!(list(&volume), before);
    assert!(serving.stop().success());
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
