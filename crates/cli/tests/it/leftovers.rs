//! Remains of an administrator's ordinary day: unfinished volumes, unreadable settings, files named
//! by mistake.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::executor::block_on;
use nfs3_types::nfs3::{CREATE3args, Nfs3Result, createhow3, diropargs3, nfsstat3, sattr3};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Loop, assert_clean, duramen, follow, freebsd_disk, on, pause};

/// Magic number in a superblock while its file system is being made.
const UNFINISHED: [u8; 4] = [0x08, 0x04, 0x96, 0x19];
const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

#[test]
fn a_volume_that_was_never_finished_is_finished() {
    let folder = Folder::new();
    for name in ["sized", "begun", "nearly"] {
        let volume = folder.path(name);
        let disk = volume.join("disk.img");
        match name {
            "sized" => {
                fs::create_dir(&volume).expect("new");
                let image = fs::File::create(&disk).expect("new");
                image.set_len(64 << 20).expect("sparse");
                fs::write(volume.join("log.img.new"), b"").expect("there is room");
            }
            "begun" => {
                on("mkfs", &volume, &["--size", "64M"]).good();
                fs::remove_file(volume.join("volume.toml")).expect("it was there");
                let mut image = fs::read(&disk).expect("it is there");
                image[65_536..65_536 + 8192].fill(0);
                image[65_536 + 1372..65_536 + 1376].copy_from_slice(&UNFINISHED);
                fs::write(&disk, image).expect("it is there");
            }
            _ => {
                on("mkfs", &volume, &["--size", "64M"]).good();
                fs::remove_file(volume.join("volume.toml")).expect("it was there");
            }
        }
        on("serve", &volume, &LISTEN).failed(1, "volume.toml");
        let serving = Serving::start(&[&volume], &["--create", "64M"]);
        put(&serving, name, "letter", b"dear friend");
        assert!(serving.stop().success());
        assert_eq!(on("ls", &volume, &[]).good(), "letter\n");
        assert_clean(&volume.join("disk.img"));
    }
}

#[test]
fn a_folder_with_anything_else_in_it_is_never_finished() {
    let folder = Folder::new();
    let [other, foreign, zeroed] = ["other", "foreign", "zeroed"].map(|name| folder.path(name));
    for path in [&other, &foreign, &zeroed] {
        fs::create_dir(path).expect("new");
    }
    let image = b"an image of another kind".repeat(100_000);
    fs::write(other.join("disk.img"), &image).expect("there is room");
    fs::write(foreign.join("letter"), b"dear friend").expect("there is room");
    let create = [&["--create", "64M"], &LISTEN[..]].concat();
    on("serve", &other, &create).failed(1, "disk.img");
    on("serve", &foreign, &create).failed(2, "is not empty: there is letter");
    // The folder may have been a volume whose superblock is lost.
    fs::write(zeroed.join("disk.img"), vec![0; 1 << 20]).expect("there is room");
    on("serve", &zeroed, &create).failed(1, "volume.toml");
    assert!(fs::read(other.join("disk.img")).expect("it is there") == image);
    assert_eq!(fs::read_dir(&foreign).expect("it is there").count(), 1);
}

#[test]
fn a_file_system_of_others_with_a_few_bytes_of_ours_is_not_replaced() {
    let folder = Folder::new();
    let volume = folder.path("data");
    fs::create_dir(&volume).expect("new");
    let mut image = vec![7; 16 << 20];
    image[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]); // the magic number of ext4
    image[65_536 + 1372..65_536 + 1376].copy_from_slice(&UNFINISHED);
    fs::write(volume.join("disk.img"), &image).expect("there is room");
    on("serve", &volume, &["--create", "128M", "--listen", "127.0.0.1:0"]).failed(1, "disk.img");
    on("mkfs", &volume, &[]).failed(1, "--force");
    assert!(fs::read(volume.join("disk.img")).expect("it is there") == image, "as it was");
}

#[test]
fn a_device_behind_a_link_is_no_image_that_was_never_written() {
    let folder = Folder::new();
    let (volume, file) = (folder.path("data"), folder.path("device"));
    on("mkfs", &file, &["--bare", "--size", "64M"]).good();
    let Some(device) = Loop::over(&file) else { return };
    fs::create_dir(&volume).expect("new");
    std::os::unix::fs::symlink(&device.0, volume.join("disk.img")).expect("new");
    fs::write(volume.join("volume.toml"), "policy = \"sync\"\n").expect("there is room");
    let serving = Serving::start(&[&volume], &LISTEN);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    on("mkfs", &volume, &[]).failed(1, "--force");
    fs::remove_file(volume.join("volume.toml")).expect("it is there");
    on("mkfs", &volume, &[]).failed(1, "--force");
    on("mkfs", &volume, &["--size", "32M"]).failed(1, "--force");
    assert_eq!(on("ls", Path::new(&device.0), &[]).good(), "letter\n");
}

#[test]
fn a_volume_whose_first_bytes_are_lost_is_not_made_anew() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M"]).good();
    let serving = Serving::start(&[&volume], &LISTEN);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    let disk = fs::File::options().write(true).open(volume.join("disk.img")).expect("it is there");
    disk.write_all_at(&[0; 128 << 10], 0).expect("there is room");
    on("mkfs", &volume, &[]).failed(1, "--force");
    on("fsck", &volume, &["--repair", "--full"]);
    assert_eq!(on("ls", &volume, &[]).good(), "letter\n");
}

#[test]
fn a_log_is_not_given_up_for_a_disk_that_does_not_say_which_volume_it_is() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M"]).good();
    let serving = Serving::start(&[&volume], &LISTEN);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let log = fs::read(volume.join("log.img")).expect("it is there");
    let disk = fs::File::options().read(true).write(true).open(volume.join("disk.img"));
    let (disk, mut head) = (disk.expect("it is there"), vec![0; 128 << 10]);
    disk.read_exact_at(&mut head, 0).expect("it is longer");
    disk.write_all_at(&vec![0; head.len()], 0).expect("there is room");
    let run = on("fsck", &volume, &["--repair", "--without-log"]);
    assert!(run.code >= 8 && !run.errors.contains("given up"), "{}: {}", run.code, run.errors);
    assert!(fs::read(volume.join("log.img")).expect("it is there") == log, "it is as it was");
    disk.write_all_at(&head, 0).expect("there is room");
    assert!(Serving::start(&[&volume], &LISTEN).stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "letter\n");
}

#[test]
fn a_short_file_that_is_named_as_a_log_stays_as_it_is() {
    let folder = Folder::new();
    let (one, other, notes) = (folder.path("one"), folder.path("other"), folder.path("notes"));
    on("mkfs", &one, &["--size", "16M"]).good();
    on("mkfs", &other, &["--size", "16M"]).good();
    fs::write(&notes, "28 bytes that somebody needs").expect("there is room");
    let log = notes.to_str().expect("a plain name");
    let (first, second) = (one.to_str().expect("a name"), other.to_str().expect("a name"));
    let run = duramen(&["serve", first, second, "--log", log, "--listen", "127.0.0.1:0"]);
    assert_ne!(run.code, 0, "{}", run.errors);
    pause(Duration::from_millis(300)); // by now a log would have grown
    assert_eq!(fs::read(&notes).expect("it is there").len(), 28);
}

#[test]
fn a_log_that_was_cut_short_can_be_given_up() {
    let folder = Folder::new();
    for length in [0, 70_000, 1 << 20] {
        let volume = folder.path(&format!("data-{length}"));
        on("mkfs", &volume, &["--size", "16M"]).good();
        let serving = Serving::start(&[&volume], &LISTEN);
        let name = format!("data-{length}");
        put(&serving, &name, "letter", b"dear friend");
        serving.kill();
        let log = fs::File::options().write(true).open(volume.join("log.img"));
        log.expect("it is there").set_len(length).expect("shorter");
        on("serve", &volume, &LISTEN).failed(1, "a log needs at least");
        let run = on("fsck", &volume, &["--repair", "--without-log"]);
        assert!(run.code < 8, "{length}: {}", run.errors);
        assert!(Serving::start(&[&volume], &LISTEN).stop().success());
    }
}

#[test]
fn settings_that_cannot_be_read_are_told_how_to_be_written() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let settings = volume.join("volume.toml");
    for text in ["", "policy = 7\n"] {
        fs::write(&settings, text).expect("it is there");
        let told = on("serve", &volume, &LISTEN).failed(1, "cut off under policy log");
        assert!(told.contains("policy = \"log\""), "{told}");
    }
    fs::write(&settings, "policy = \"log\"\n").expect("it is there");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    fs::remove_file(&settings).expect("it is there");
    on("serve", &volume, &LISTEN).failed(1, "fits either");
}

#[test]
fn a_file_that_is_no_log_is_not_written_to() {
    let folder = Folder::new();
    let (disk, note) = (folder.path("disk.img"), folder.path("note.txt"));
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let text = b"what is to be done\n".repeat(1 << 18);
    fs::write(&note, &text).expect("there is room");
    let with_note = ["--log", note.to_str().expect("a plain path")];
    on("serve", &disk, &[&with_note[..], &LISTEN].concat()).failed(1, "is no log");
    let other = folder.path("other.img");
    on("mkfs", &other, &["--bare", "--size", "64M"]).good();
    let other = other.to_str().expect("a plain path");
    on("serve", &disk, &[&[other], &with_note[..], &LISTEN].concat()).failed(1, "is no log");
    assert!(fs::read(&note).expect("it is there") == text);
}

#[test]
fn a_disk_that_was_cut_off_is_told_so_by_every_command() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it is there");
    file.set_len(30 << 20).expect("shorter");
    for (command, more, code) in
        [("serve", &LISTEN[..], 1), ("fsck", &[], 8), ("fsck", &["--repair"], 8)]
    {
        on(command, &disk, more).failed(code, "it was cut off, or not all of it was copied");
    }
}

#[test]
fn a_log_or_a_disk_that_was_cut_off_beside_the_other_is_told_so() {
    let folder = Folder::new();
    let (volume, again) = (folder.path("data"), folder.path("again"));
    on("mkfs", &volume, &["--size", "64M"]).good();
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let cut = |path: PathBuf, size| {
        let file = fs::OpenOptions::new().write(true).open(path).expect("it is there");
        file.set_len(size).expect("shorter");
    };
    fs::create_dir(&again).expect("new");
    for name in ["disk.img", "log.img", "volume.toml"] {
        fs::copy(volume.join(name), again.join(name)).expect("both are there");
    }
    cut(volume.join("log.img"), 4 << 20);
    let look = on("serve", &volume, &LISTEN).failed(1, "the log has 4194304 of its 8388608 bytes");
    assert!(look.contains("it was cut off, or not all of it was copied"), "{look}");
    let repair = follow(&look, "duramen fsck --repair");
    assert!(repair.errors.contains("given up"), "{}{}", repair.output, repair.errors);
    assert!(Serving::start(&[&volume], &[]).stop().success());
    cut(again.join("disk.img"), 30 << 20);
    for (command, more, code) in
        [("serve", &LISTEN[..], 1), ("fsck", &[], 8), ("fsck", &["--repair"], 8)]
    {
        on(command, &again, more).failed(code, "it was cut off, or not all of it was copied");
    }
}

#[test]
fn a_policy_that_is_changed_there_and_back_keeps_the_size_of_the_log() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M", "--log-size", "12M"]).good();
    let before = fs::read(volume.join("volume.toml")).expect("it is there");
    for policy in ["sync", "log"] {
        on("tune", &volume, &["--policy", policy]).good();
    }
    assert!(fs::read(volume.join("volume.toml")).expect("it is there") == before);
}

#[test]
fn a_label_is_changed_on_volumes_and_bare_disks() {
    let folder = Folder::new();
    let (volume, disk) = (folder.path("data"), folder.path("disk.img"));
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    on("tune", &volume, &["--label", "early"]).failed(1, "in use");
    assert!(serving.stop().success());
    on("mkfs", &disk, &["--bare", "--size", "64M", "--label", "a-longer-one"]).good();
    for path in [&volume, &disk] {
        for label in ["archive", "x", "0123456789-_abcdefghijklmnopqrs", ""] {
            let said = on("tune", path, &["--label", label]).good();
            assert!(said.contains(if label.is_empty() { "no label" } else { label }), "{said}");
            let told = on("info", path, &[]).good();
            assert!(!told.contains("a-longer-one"), "{told}");
            assert!(told.contains(label), "{told}");
        }
        for wrong in ["two words", "0123456789-_abcdefghijklmnopqrst", "\u{e9}"] {
            on("tune", path, &["--label", wrong]).failed(2, "at most 31 letters");
        }
        let told = on("tune", path, &[]);
        assert_eq!(told.code, 2, "{}", told.errors);
    }
    assert_clean(&volume.join("disk.img"));
    assert_clean(&disk);
    on("tune", &disk, &["--label", "x", "--policy", "log"]).failed(2, "bare disk");
    on("tune", &volume, &["--label", "both", "--policy", "sync"]).good();
    let told = on("info", &volume, &[]).good();
    assert!(told.contains("both") && told.contains("sync"), "{told}");
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
}

#[test]
fn a_label_is_refused_where_it_would_hide_or_do_damage() {
    let folder = Folder::new();
    if let Some(disk) = freebsd_disk("big", &folder) {
        let before = fs::read(&disk).expect("it is there");
        on("tune", &disk, &["--label", "archive"]).failed(2, "big-endian");
        assert!(fs::read(&disk).expect("it is there") == before, "nothing is written");
    }
    let disk = folder.path("disk.img");
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let mut image = fs::read(&disk).expect("it is there");
    image[65_536 + 1016] ^= 1;
    fs::write(&disk, &image).expect("it is there");
    on("tune", &disk, &["--label", "archive"]).failed(1, "hash");
    assert!(fs::read(&disk).expect("it is there") == image, "nothing is written");
}

#[test]
fn volumes_beside_one_that_is_refused_stay_clean() {
    let folder = Folder::new();
    for policy in ["log", "sync"] {
        let (whole, cut) = (folder.path(policy), folder.path(&format!("cut-{policy}")));
        for volume in [&whole, &cut] {
            on("mkfs", volume, &["--size", "64M", "--policy", policy]).good();
        }
        let disk = fs::OpenOptions::new().write(true).open(cut.join("disk.img"));
        disk.and_then(|disk| disk.set_len(100)).expect("shorter");
        let cut = cut.to_str().expect("a plain path");
        let run = on("serve", &whole, &[&[cut], &LISTEN[..]].concat());
        assert_eq!(run.code, 1, "{}", run.errors);
        assert_clean(&whole.join("disk.img"));
        on("tune", &whole, &["--label", "whole"]).good();
    }
}

#[test]
fn what_is_served_read_only_is_not_written_to() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    let files = || ["disk.img", "log.img"].map(|name| fs::read(volume.join(name)).expect("both"));
    let before = files();
    let serving = Serving::start(&[&volume], &["--read-only"]);
    let (mut client, root) = serving.mount("data");
    let place = diropargs3 { dir: root, name: b"new".as_slice().into() };
    let how = createhow3::GUARDED(sattr3::default());
    let made = block_on(client.create(&CREATE3args { where_: place, how })).expect("an answer");
    let Nfs3Result::Err((status, _)) = made else { panic!("it was made") };
    assert_eq!(status, nfsstat3::NFS3ERR_ROFS);
    drop(client);
    assert!(serving.stop().success());
    assert!(files() == before, "nothing is written");
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "second", b"dear both");
    serving.kill();
    on("serve", &volume, &[&["--read-only"], &LISTEN[..]].concat()).failed(1, "");
}

/// The folder of a volume without its settings, and with a letter on its disk.
#[test]
fn a_disk_that_was_used_is_not_taken_for_one_whose_making_was_cut_off() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M"]).good();
    fs::remove_file(volume.join("volume.toml")).expect("it is there");
    let disk = volume.join("disk.img");
    let serving = Serving::start(&[&disk], &[]);
    put(&serving, "disk", "letter", b"dear friend");
    assert!(serving.stop().success());
    for size in ["64M", "32M"] {
        on("mkfs", &volume, &["--size", size]).failed(1, "which would be destroyed");
    }
    assert_eq!(on("cat", &disk, &["letter"]).good(), "dear friend");
}

#[test]
fn an_empty_log_is_made_anew_where_nothing_of_it_is_needed() {
    let folder = Folder::new();
    let (volume, disk, log) = (folder.path("data"), folder.path("disk.img"), folder.path("log"));
    on("mkfs", &volume, &["--size", "64M"]).good();
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let named = ["--log", log.to_str().expect("a plain path")];
    for (path, name, log, more) in
        [(&volume, "data", &volume.join("log.img"), &[][..]), (&disk, "disk", &log, &named)]
    {
        for bytes in [0, 5000] {
            fs::write(log, vec![0; bytes]).expect("there is room");
            let serving = Serving::start(&[path], more);
            put(&serving, name, &format!("letter-{bytes}"), b"dear friend");
            serving.kill();
            assert!(Serving::start(&[path], more).stop().success());
        }
        let short = b"a note of somebody";
        fs::write(log, short).expect("there is room");
        on("serve", path, &[more, &LISTEN].concat()).failed(1, "log");
        assert!(fs::read(log).expect("it is there") == short, "it is not ours");
        fs::remove_file(log).expect("it is there");
        let serving = Serving::start(&[path], more);
        put(&serving, name, "last", b"dear friend");
        serving.kill();
        // Now the volume needs its log.
        fs::write(log, b"").expect("there is room");
        on("serve", path, &[more, &LISTEN].concat()).failed(1, "");
        assert_eq!(fs::metadata(log).expect("it is there").len(), 0);
    }
}

#[test]
fn what_cannot_be_looked_at_is_not_said_to_be_missing() {
    let folder = Folder::new();
    let round = folder.path("round");
    std::os::unix::fs::symlink(&round, &round).expect("a new link");
    for command in ["info", "ls", "fsck", "serve"] {
        let run = on(command, &round, if command == "serve" { &LISTEN } else { &[] });
        assert!(run.errors.contains("cannot look at"), "{command}: {}", run.errors);
    }
    // If the folder is unreadable, nobody can know whether there is a log, so none is reported as
    // lost.
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let (log, away) = (volume.join("log.img"), folder.path("away"));
    fs::rename(&log, &away).expect("it is there");
    std::os::unix::fs::symlink(&log, &log).expect("a new link");
    on("serve", &volume, &LISTEN).failed(1, "cannot look at");
    on("fsck", &volume, &["--repair"]).failed(8, "cannot look at");
    fs::rename(&away, &log).expect("it is there");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    on("info", &round.join("data"), &[]).failed(1, "cannot look at");
    on("info", &volume.join("volume.toml").join("x"), &[]).failed(1, "nothing of that name");
}

/// Half a GiB gets a log of 64 MiB in a folder, and so it does here.
#[test]
fn the_log_of_a_bare_disk_grows_as_that_of_a_folder_does() {
    let folder = Folder::new();
    let (disk, log) = (folder.path("disk.img"), folder.path("log"));
    on("mkfs", &disk, &["--bare", "--size", "512M"]).good();
    let serving = Serving::start(&[&disk], &["--log", log.to_str().expect("a plain path")]);
    let length = || fs::metadata(&log).expect("it was made").len();
    for _ in 0..300 {
        if length() >= 64 << 20 {
            break;
        }
        pause(Duration::from_millis(100));
    }
    assert_eq!(length(), 64 << 20);
    assert!(serving.stop().success());
}

#[test]
fn a_command_that_is_advised_can_be_given_to_a_shell() {
    let folder = Folder::new();
    let (disk, log) = (folder.path("it's my disk.img"), folder.path("$my (log)"));
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    let with_log = ["--log", log.to_str().expect("text")];
    let serving = Serving::start(&[&disk], &with_log);
    put(&serving, "it's my disk", "letter", b"dear friend");
    serving.kill();
    let look = on("fsck", &disk, &with_log);
    // A quotation mark in the path does not end the quoted command.
    let told = look.output.replace("it\\'s", "it?s");
    let repair = follow(&told, "duramen fsck --repair");
    assert_eq!(repair.code, 0, "{}{}", repair.output, repair.errors);
    assert_eq!(on("cat", &disk, &["letter"]).good(), "dear friend");
}

/// CRC-32C.
fn crc(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| bit(crc)))
}

/// Sets the format version of a log to a later one.
fn make_later(log: &Path) {
    let mut bytes = fs::read(log).expect("it is there");
    for slot in [0, 32 << 10] {
        bytes[slot..slot + 72].fill(0);
        bytes[slot..slot + 11].copy_from_slice(b"duramen log");
        bytes[slot + 16] = 9;
        let sum = crc(&bytes[slot..slot + 72]).to_le_bytes();
        bytes[slot + 20..slot + 24].copy_from_slice(&sum);
    }
    fs::write(log, bytes).expect("it is there");
}

#[test]
fn a_log_of_a_later_version_is_not_taken_for_an_empty_one() {
    let folder = Folder::new();
    let (volume, log) = (folder.path("data"), folder.path("data/log.img"));
    on("mkfs", &volume, &["--size", "64M"]).good();
    make_later(&log);
    fs::remove_file(volume.join("disk.img")).expect("it is there");
    fs::remove_file(volume.join("volume.toml")).expect("it is there");
    let before = fs::read(&log).expect("it is there");
    on("mkfs", &volume, &["--size", "64M"]).failed(1, "version 9");
    assert!(fs::read(&log).expect("it is there") == before);
    on("mkfs", &volume, &["--size", "64M", "--force"]).good();
}
