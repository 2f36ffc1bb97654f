//! Runs `duramen serve` as people do, with an independent NFS client.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;

use futures::executor::block_on;
use nfs3_types::nfs3::{
    CREATE3args, LOOKUP3args, Nfs3Result, READ3args, createhow3, diropargs3, nfsstat3, sattr3,
};

use crate::common::serving::{Serving, good, put};
use crate::common::{Folder, assert_clean, duramen, freebsd_disk, on};

#[test]
fn what_was_written_over_nfs_is_in_the_volume() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "answer", b"dear you");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "answer\nletter\n");
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_disk_of_the_other_byte_order_is_served_but_not_written() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("big", &folder) else { return };
    let before = fs::read(&image).expect("it is there");
    let serving = Serving::start(&[&image], &[]);
    let (mut client, root) = serving.mount("freebsd");
    let place = |name: &'static str| diropargs3 { dir: root.clone(), name: name.as_bytes().into() };
    let found = block_on(client.lookup(&LOOKUP3args { what: place("file1") })).expect("a reply");
    let read = READ3args { file: good(found).object, offset: 0, count: 100 };
    let read = good(block_on(client.read(&read)).expect("a reply"));
    assert_eq!(&*read.data, b"This is a simple file.\n");

    let how = createhow3::GUARDED(sattr3::default());
    let new = CREATE3args { where_: place("new"), how };
    match block_on(client.create(&new)).expect("a reply") {
        Nfs3Result::Err((status, _)) => assert_eq!(status, nfsstat3::NFS3ERR_ROFS),
        Nfs3Result::Ok(_) => panic!("it was made"),
    }
    assert!(serving.stop().success());
    assert!(fs::read(&image).expect("it is there") == before, "it has changed");
}

#[test]
fn folders_and_images_are_served_under_their_names() {
    let folder = Folder::new();
    let (one, two) = (folder.path("one"), folder.path("two.img"));
    on("mkfs", &one, &["--size", "16M"]).good();
    on("mkfs", &two, &["--size", "16M", "--bare"]).good();
    let serving = Serving::start(&[&one, &two], &[]);
    put(&serving, "one", "file", b"1");
    put(&serving, "two", "file", b"2");
    assert!(serving.stop().success());
    assert_eq!(on("cat", &one, &["file"]).good(), "1");
    assert_eq!(on("cat", &two, &["file"]).good(), "2");
    assert_clean(&one.join("disk.img"));
    assert_clean(&two);
}

#[test]
fn a_link_to_a_volume_is_served_under_its_own_name() {
    let folder = Folder::new();
    on("mkfs", &folder.path("of-today"), &["--size", "16M"]).good();
    let link = folder.path("data");
    std::os::unix::fs::symlink("of-today", &link).expect("there is none");
    let serving = Serving::start(&[&link], &[]);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    assert_eq!(on("cat", &folder.path("of-today"), &["letter"]).good(), "dear friend");
}

#[test]
fn a_volume_that_is_declared_delayed_is_served_with_a_warning_and_keeps_stable_writes() {
    let folder = Folder::new();
    let (volume, config) = (folder.path("data"), folder.path("duramen.toml"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    fs::write(&config, "[exports.data]\ndurability = \"delayed\"\n").expect("there is room");
    let with_config = ["--config", config.to_str().expect("a plain path")];
    let mut serving = Serving::start_saying(&[&volume], &with_config, &[], Stdio::piped());
    let mut said = serving.standard_error().expect("it was asked for");
    for letter in ["one", "two"] {
        put(&serving, "data", letter, letter.as_bytes());
    }
    // The declaration is withdrawn, and restored.
    for text in ["", "[exports.data]\ndurability = \"delayed\"\n"] {
        fs::write(&config, text).expect("there is room");
        serving.signal("-HUP");
    }
    put(&serving, "data", "three", b"three");
    serving.kill();
    let mut words = String::new();
    said.read_to_string(&mut words).expect("text");
    assert!(words.contains("a crash may take back what was answered"), "{words}");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    for letter in ["one", "two", "three"] {
        assert_eq!(on("cat", &volume, &[letter]).good(), letter);
    }
}

#[test]
fn a_server_without_a_configuration_claims_to_have_read_none() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let mut serving = Serving::start_saying(&[&volume], &[], &[], Stdio::piped());
    let mut said = serving.standard_error().expect("it was asked for");
    serving.signal("-HUP");
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    let mut words = String::new();
    said.read_to_string(&mut words).expect("text");
    assert!(words.contains("no configuration"), "{words}");
    assert!(!words.contains("read anew"), "{words}");
}

#[test]
fn handles_hold_when_the_server_comes_back() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    let (mut client, root) = serving.mount("data");
    let what = diropargs3 { dir: root, name: b"letter".as_slice().into() };
    let looked_up = nfs3_types::nfs3::LOOKUP3args { what };
    let file = good(block_on(client.lookup(&looked_up)).expect("a reply")).object;
    assert!(serving.stop().success());

    let serving = Serving::start(&[&volume], &[]);
    let (mut client, _) = serving.mount("data");
    let read = READ3args { file, offset: 5, count: 100 };
    let read = good(block_on(client.read(&read)).expect("a reply"));
    assert_eq!(&read.data[..], b"friend");
    assert!(serving.stop().success());
}

#[test]
fn a_server_that_cannot_listen_leaves_its_volumes_clean() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it listens").to_string();
    on("serve", &volume, &["--listen", &address]).failed(1, "cannot listen");
    assert!(on("info", &volume, &["--json"]).good().contains("\"state\": \"clean\""));
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn one_volume_is_not_served_twice() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "16M"]);
    on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "in use by another program");
    on("ls", &volume, &[]).failed(1, "in use by another program");
    assert!(serving.stop().success());
}

#[test]
fn a_volume_that_is_missing_is_named() {
    let folder = Folder::new();
    on("serve", &folder.path("nothing"), &[]).failed(1, "nothing is no volume");
    assert_eq!(duramen(&["serve"]).code, 2);
    assert_eq!(on("serve", &folder.path("x"), &["--listen", "nowhere"]).code, 2);
}

#[test]
fn a_configuration_that_makes_no_sense_is_named() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let file = folder.path("duramen.toml");
    fs::write(&file, "listen = 7\n").expect("there is room");
    let file = file.to_str().expect("a plain name");
    let run = on("serve", &volume, &["--config", file]);
    assert_eq!(run.code, 1);
    assert!(run.errors.contains("duramen.toml"), "{}", run.errors);
    on("serve", &volume, &["--config", "/nothing.toml"]).failed(1, "/nothing.toml");
}
