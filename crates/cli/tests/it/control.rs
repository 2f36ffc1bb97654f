//! Volumes in service, queried by `duramen info` and through raw requests.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use nfs3_types::nfs3::{CREATE3args, createhow3, diropargs3, sattr3};
use serde_json::Value;

use crate::common::serving::{Serving, good, put};
use crate::common::{Folder, duramen_in_time, on, pause};

/// Creates a volume with soft updates.
fn soft_volume(folder: &Folder) -> std::path::PathBuf {
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M", "--policy", "softdep"]).good();
    volume
}

/// The output of `duramen info --json`.
#[track_caller]
fn info(volume: &Path, more: &[&str]) -> Value {
    let said = on("info", volume, &[&["--json"], more].concat()).good();
    serde_json::from_str(&said).expect("it is JSON")
}

/// Creates an empty file.
fn create(serving: &Serving, name: &str) {
    let (mut client, root) = serving.mount("data");
    let where_ = diropargs3 { dir: root, name: name.as_bytes().into() };
    let how = createhow3::GUARDED(sattr3::default());
    good(block_on(client.create(&CREATE3args { where_, how })).expect("a reply"));
}

/// A configuration whose export answers before data is on the disk.
fn delayed(folder: &Folder) -> String {
    let config = folder.path("duramen.toml");
    fs::write(&config, "[exports.data]\ndurability = \"delayed\"\n").expect("there is room");
    config.display().to_string()
}

#[test]
fn the_server_of_a_volume_tells_what_it_does() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let before = info(&volume, &[]);
    for key in ["durability", "softdep", "reclaim", "log"] {
        assert_eq!(before.get(key), Some(&Value::Null), "{key} is absent, not missing");
    }
    let serving = Serving::start(&[&volume], &[]);
    let idle = info(&volume, &[]);
    assert_eq!((&idle["state"], &idle["durability"]), (&"served".into(), &"durable".into()));
    assert_eq!(idle["softdep"]["sync_writes"], 0, "{idle}");
    put(&serving, "data", "file", &[7; 100_000]);
    let busy = info(&volume, &[]);
    let count = |info: &Value, key: &str| info["softdep"][key].as_u64().expect("a number");
    for key in ["sync_writes", "flushes", "waits"] {
        assert!(count(&busy, key) > count(&idle, key), "{key}: {busy}");
    }
    assert_eq!(count(&busy, "pending"), 0, "all of it was waited for");
    assert_eq!((&busy["files"], &busy["directories"]), (&2.into(), &1.into()), "as it is now");
    let free = |info: &Value| info["free_bytes"].as_u64().expect("a number");
    assert!(free(&busy) + 100_000 <= free(&idle), "{} {}", free(&busy), free(&idle));
    for key in ["volume", "engine", "policy", "size_bytes", "disk", "id", "reserved_bytes"] {
        assert_eq!(before[key], busy[key], "{key}");
    }
    let said = on("info", &volume, &[]).good();
    assert!(said.contains("state           served") && said.contains("that somebody waited for"));
    assert!(serving.stop().success());
    let after = info(&volume, &[]);
    assert_eq!((&after["state"], &after["softdep"]), (&"clean".into(), &Value::Null));
    assert_eq!((&after["files"], free(&after)), (&2.into(), free(&busy)));
    assert!(!volume.join("control.sock").exists());
}

#[test]
fn common_keys_come_first_whether_a_server_tells_them_or_not() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let keys = || {
        let said = on("info", &volume, &["--json"]).good();
        let keys = said.lines().filter(|line| line.starts_with("  \""));
        keys.map(|line| line.split('"').nth(1).expect("a key").to_owned()).collect::<Vec<_>>()
    };
    let unserved = keys();
    let first = ["volume", "engine", "policy", "size_bytes", "free_bytes", "state", "durability"];
    assert_eq!(unserved[..first.len()], first);
    let serving = Serving::start(&[&volume], &[]);
    assert_eq!(keys(), unserved);
    serving.stop();
}

#[test]
fn a_delayed_export_is_told_and_leaves_changes_pending() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let serving = Serving::start(&[&volume], &["--config", &delayed(&folder)]);
    create(&serving, "file");
    let told = info(&volume, &[]);
    assert_eq!(told["durability"], "delayed");
    let softdep = &told["softdep"];
    assert!(softdep["pending"].as_u64() > Some(0), "{softdep}");
    assert!(softdep["pending_bytes"].as_u64() > Some(0), "{softdep}");
    assert_eq!((&softdep["sync_writes"], &softdep["waits"]), (&0.into(), &0.into()));
    fs::write(folder.path("duramen.toml"), "").expect("there is room");
    serving.signal("-HUP");
    while info(&volume, &[])["durability"] != "durable" {
        pause(Duration::from_millis(10));
    }
    assert!(serving.stop().success());
}

/// The server's answer to a request for a path.
fn ask(volume: &Path, path: &str) -> Value {
    let mut stream = UnixStream::connect(volume.join("control.sock")).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    serde_json::from_str(body).expect("it is JSON")
}

#[test]
fn what_a_killed_server_left_is_reclaimed_as_a_job() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let serving = Serving::start(&[&volume], &["--config", &delayed(&folder)]);
    assert_eq!(ask(&volume, "/v1/jobs"), Value::Array(Vec::new()));
    create(&serving, "file");
    serving.kill();
    let serving = Serving::start(&[&volume], &[]);
    let jobs = || ask(&volume, "/v1/jobs");
    let first = jobs();
    assert_eq!((&first[0]["kind"], &first[0]["unit"]), (&"reclaim".into(), &"inodes".into()));
    while jobs()[0]["state"] == "running" {
        pause(Duration::from_millis(10));
    }
    let (ended, told) = (jobs(), info(&volume, &[]));
    assert_eq!((&ended[0]["state"], &told["reclaim"]["state"]), (&"done".into(), &"done".into()));
    assert_eq!(ended[0]["done"], told["reclaim"]["scanned"]);
    assert!(ended[0]["done"].as_u64() > Some(0), "{ended}");
    assert!(serving.stop().success());
}

#[test]
fn the_settings_of_soft_updates_are_heeded() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let settings = volume.join("volume.toml");
    let said = fs::read_to_string(&settings).expect("it is there");
    assert!(said.contains("# [softdep]") && said.contains("# inode_age = \"10 s\""), "{said}");
    fs::write(&settings, "policy = \"softdep\"\n[softdep]\nfile_age = 0\n").expect("room");
    for command in ["info", "serve", "tune"] {
        let more: &[&str] = if command == "tune" { &["--label", "x"] } else { &[] };
        let told = on(command, &volume, more).failed(1, "softdep.file_age is 0; expected: ");
        assert!(told.contains("volume.toml"), "{told}");
    }
    let short = "policy = \"softdep\"\n[softdep]\ninode_age = \"1 s\"\nfile_age = \"1 s\"\n";
    fs::write(&settings, short).expect("there is room");
    let serving = Serving::start(&[&volume], &["--config", &delayed(&folder)]);
    create(&serving, "file");
    // With default settings it would be pending for at least 10 seconds.
    let mut oldest = 0;
    loop {
        let softdep = info(&volume, &[])["softdep"].clone();
        if softdep["pending"] == 0 {
            assert!(softdep["async_writes"].as_u64() > Some(0), "{softdep}");
            break;
        }
        oldest = oldest.max(softdep["oldest_ms"].as_u64().expect("a number"));
        assert!(oldest < 9000, "{softdep}");
        pause(Duration::from_millis(50));
    }
    assert!(serving.stop().success());
    on("tune", &volume, &["--policy", "sync"]).good();
    let kept = fs::read_to_string(&settings).expect("it is there");
    assert!(kept.contains("[softdep]\ninode_age = \"1 s\"\n"), "for another day: {kept}");
}

#[test]
fn the_socket_of_a_killed_server_is_replaced() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let socket = volume.join("control.sock");
    Serving::start(&[&volume], &[]).kill();
    assert!(socket.exists());
    assert_eq!(info(&volume, &[])["state"], "unclean", "no server tells anything else");
    let serving = Serving::start(&[&volume], &[]);
    assert_eq!(info(&volume, &[])["state"], "served");
    let mode = fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(serving.stop().success());
    assert!(!socket.exists());
    // Files that a killed server leaves do not count as data that a new volume would destroy.
    fs::remove_dir_all(&volume).expect("it is there");
    fs::create_dir(&volume).expect("there is room");
    drop(UnixListener::bind(&socket).expect("the folder is empty"));
    on("mkfs", &volume, &["--size", "16M"]).good();
}

#[test]
fn a_bare_disk_has_the_socket_that_is_named() {
    let folder = Folder::new();
    let (disk, socket) = (folder.path("disk.img"), folder.path("socket"));
    on("mkfs", &disk, &["--bare", "--size", "16M"]).good();
    let control = ["--control", socket.to_str().expect("plain")];
    assert_eq!(info(&disk, &control)["state"], "clean", "no server listens yet");
    let serving = Serving::start(&[&disk], &control);
    let told = info(&disk, &control);
    assert_eq!((&told["state"], &told["policy"]), (&"served".into(), &Value::Null));
    assert_eq!((&told["softdep"], &told["durability"]), (&Value::Null, &"durable".into()));
    assert_eq!(info(&disk, &[])["state"], "in_use");
    let shadow = folder.path("shadow.img");
    on("mkfs", &shadow, &["--bare", "--size", "16M", "--engine", "shadow"]).good();
    let serving_shadow = Serving::start(&[&shadow], &[]);
    let told = info(&shadow, &[]);
    assert_eq!((&told["state"], &told["engine"]), (&"in_use".into(), &"shadow".into()));
    assert!(serving_shadow.stop().success());
    let other = folder.path("other.img");
    on("mkfs", &other, &["--bare", "--size", "16M"]).good();
    let more = [&control[..], &["--listen", "127.0.0.1:0"]].concat();
    on("serve", &other, &more).failed(1, "another server listens on");
    assert_eq!(info(&other, &[])["state"], "clean", "it was left alone");
    let volume = soft_volume(&folder);
    let [one, another] = [&other, &volume].map(|path| path.to_str().expect("plain"));
    let both = [&["serve", one, another], &more[..]].concat();
    duramen_in_time(&both).failed(1, "another server listens on");
    assert_eq!(info(&volume, &[])["state"], "clean", "it was opened, too");
    on("serve", &volume, &more).failed(2, "a folder has its own socket");
    assert!(serving.stop().success());
    assert!(!socket.exists());
}

#[test]
fn a_client_that_says_nothing_does_not_keep_the_server_from_its_end() {
    let folder = Folder::new();
    let volume = soft_volume(&folder);
    let serving = Serving::start(&[&volume], &[]);
    let mut silent = UnixStream::connect(volume.join("control.sock")).expect("it listens");
    let mut asks = UnixStream::connect(volume.join("control.sock")).expect("it listens");
    asks.write_all(b"GET /v1/jobs HTTP/1.1\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    asks.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\n[]\n"), "{answer}");
    assert!(serving.stop().success());
    let mut told = Vec::new();
    let _ = silent.read_to_end(&mut told);
    assert!(told.is_empty(), "it was not waited for");
}
