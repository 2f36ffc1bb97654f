//! Runs `duramen mkfs` as people do.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::executor::block_on;
use nfs3_types::nfs3::GETATTR3args;

use crate::common::serving::{Serving, good, put};
use crate::common::{Folder, SmallHost, assert_clean, duramen, on, pause};

#[test]
fn a_new_name_becomes_a_folder_with_settings_and_a_clean_disk() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let said = on("mkfs", &volume, &["--size", "64M", "--label", "heart"]).good();
    assert!(said.contains("64 MiB of UFS2") && said.contains("policy log"), "{said}");
    assert_clean(&volume.join("disk.img"));
    let settings = fs::read_to_string(volume.join("volume.toml")).expect("it was written");
    assert!(settings.contains("policy = \"log\""), "{settings}");
    assert!(settings.contains("engine = \"ffs\""), "{settings}");
    assert!(on("info", &volume, &[]).good().contains("heart"));
}

#[test]
fn engine_and_policy_are_those_that_were_named() {
    let folder = Folder::new();
    for policy in ["log", "sync"] {
        let volume = folder.path(policy);
        let words = ["--size", "16M", "--engine", "ffs", "--policy", policy];
        assert!(on("mkfs", &volume, &words).good().contains(&format!("policy {policy}")));
        assert_eq!(volume.join("log.img").exists(), policy == "log");
        let told = on("info", &volume, &[]).good();
        let line = |name: &str| told.lines().find_map(|line| line.strip_prefix(name));
        assert_eq!(line("engine").map(str::trim), Some("ffs"), "{told}");
        assert_eq!(line("policy").map(str::trim), Some(policy), "{told}");
        assert_eq!(on("fsck", &volume, &[]).code, 0);
    }
}

#[test]
fn a_name_that_no_design_has_is_answered_with_those_that_there_are() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let make = |words: &[&str]| on("mkfs", &volume, &[&["--size", "16M"], words].concat());
    make(&["--engine", "mirror"]).failed(2, "no engine 'mirror'; there are these: ffs");
    let (none, those) = ("no policy 'luck'", "it has these: log, sync, softdep");
    make(&["--policy", "luck"]).failed(2, &format!("engine ffs has {none}; {those}"));
    make(&["--bare", "--engine", "ram"]).failed(2, "no engine 'ram'");
    assert!(!volume.exists(), "nothing is made");
    make(&[]).good();
    on("tune", &volume, &["--policy", "luck"]).failed(2, those);
    let help = on("mkfs", &volume, &["--help"]).good();
    assert!(help.contains("- shadow: ") && help.contains("- sync: "), "{help}");
    for name in ["log   ", "shadow"] {
        assert!(help.contains(&format!("  {name}   After a crash, ")), "{help}");
    }
}

#[test]
fn the_size_of_a_log_that_there_will_not_be_is_a_slip_of_the_pen() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let words = ["--size", "16M", "--policy", "sync", "--log-size", "8M"];
    on("mkfs", &volume, &words).failed(2, "sync has no log");
    assert!(!volume.exists(), "nothing is made");
}

#[test]
fn settings_that_are_no_file_are_refused_and_not_waited_for() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let settings = volume.join("volume.toml");
    fs::remove_file(&settings).expect("it is there");
    let made = Command::new("mkfifo").arg(&settings).status().expect("it is installed");
    assert!(made.success());
    on("info", &volume, &[]).failed(1, "it is no regular file");
}

#[test]
fn an_empty_folder_becomes_a_volume() {
    let folder = Folder::new();
    let volume = folder.path("data");
    fs::create_dir(&volume).expect("a new folder");
    on("mkfs", &volume, &["--size", "16M"]).good();
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_folder_with_nothing_but_lost_and_found_becomes_a_volume() {
    let folder = Folder::new();
    let [made, served] = ["made", "served"].map(|name| folder.path(name));
    for volume in [&made, &served] {
        fs::create_dir_all(volume.join("lost+found")).expect("a new folder");
    }
    on("mkfs", &made, &["--size", "16M"]).good();
    let serving = Serving::start(&[&served], &["--create", "16M"]);
    put(&serving, "served", "letter", b"dear friend");
    assert!(serving.stop().success());
    for volume in [made, served] {
        assert!(volume.join("lost+found").exists());
        assert_clean(&volume.join("disk.img"));
    }
}

#[test]
fn the_parents_of_a_volume_are_made_with_it_and_removed_without_it() {
    let folder = Folder::new();
    let (top, volume) = (folder.path("a"), folder.path("a/b/data"));
    on("mkfs", &volume, &["--size", "1"]).failed(1, "cannot be created");
    let listen = ["--listen", "192.0.2.1:1"]; // no address of this machine
    on("serve", &volume, &[&["--create", "16M"], &listen[..]].concat()).failed(1, "cannot listen");
    assert!(!top.exists(), "nothing is left");
    on("mkfs", &volume, &["--size", "16M"]).good();
    for made in [&top, &folder.path("a/b"), &volume] {
        assert_eq!(fs::metadata(made).expect("it is there").mode() & 0o777, 0o700);
    }
    let disks = ["one", "two"].map(|name| folder.path(name).display().to_string());
    let words = ["--raid1", &disks[0], &disks[1], "--size", "16M"];
    on("mkfs", &folder.path("c/d/data"), &words).good();
}

/// Owner and mode of the root directory of a served volume.
fn root_of(serving: &Serving, name: &str) -> (u32, u32, u32) {
    let (mut client, root) = serving.mount(name);
    let attributes = block_on(client.getattr(&GETATTR3args { object: root })).expect("a reply");
    let attributes = good(attributes).obj_attributes;
    (attributes.uid, attributes.gid, attributes.mode)
}

#[test]
fn the_root_directory_belongs_to_its_maker_or_to_the_one_that_is_named() {
    let folder = Folder::new();
    let [plain, named, served] = ["plain", "named", "served"].map(|name| folder.path(name));
    on("mkfs", &plain, &["--size", "16M"]).good();
    let root = ["--owner", "1000:100", "--mode", "1777"];
    on("mkfs", &named, &[&["--size", "16M", "--engine", "shadow"], &root[..]].concat()).good();
    let create = ["--create", "16M", "--policy", "sync"];
    let serving = Serving::start(&[&served], &[&create, &root[..]].concat());
    assert_eq!(root_of(&serving, "served"), (1000, 100, 0o1777));
    assert!(serving.stop().success());
    assert!(on("info", &served, &["--json"]).good().contains("\"policy\": \"sync\""));
    let us = fs::metadata(&plain).expect("it is there");
    let serving = Serving::start(&[&plain, &named], &[]);
    assert_eq!(root_of(&serving, "plain"), (us.uid(), us.gid(), 0o755));
    assert_eq!(root_of(&serving, "named"), (1000, 100, 0o1777));
    assert!(serving.stop().success());
    for (option, value) in [("--owner", "root:root"), ("--owner", "1000"), ("--mode", "999")] {
        let words = ["--size", "16M", option, value];
        let refused = on("mkfs", &folder.path("no"), &words);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.errors.contains("such as "), "{refused:?}");
        assert_eq!(on("serve", &plain, &[option, "1:1"]).code, 2, "without --create");
    }
}

#[test]
fn a_volume_that_is_there_is_served_as_it_is_and_its_differences_are_said() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let said = |more: &[&str]| {
        let mut serving = Serving::start_saying(&[&volume], more, &[], Stdio::piped());
        let mut said = serving.standard_error().expect("it was asked for");
        assert!(serving.stop().success());
        let mut words = String::new();
        said.read_to_string(&mut words).expect("text");
        words
    };
    let words = said(&["--create", "32M", "--policy", "sync"]);
    assert!(words.contains("with 16 MiB and not 32 MiB: it is served as it is"), "{words}");
    assert!(words.contains("with log and not sync: it is served as it is"), "{words}");
    let words = said(&["--create", "16M"]);
    assert!(!words.contains("is there already"), "{words}");
}

#[test]
fn a_bare_image_has_nothing_beside_it() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    on("mkfs", &image, &["--bare", "--size", "20M", "--block-size", "8K"]).good();
    assert_clean(&image);
    assert_eq!(fs::read_dir(folder.path("")).expect("a folder").count(), 1);
}

#[test]
fn an_image_of_zeros_takes_a_file_system_and_keeps_its_size() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    fs::write(&image, vec![0; 5 << 20]).expect("there is room");
    let said = on("mkfs", &image, &[]).good();
    assert!(said.contains("5 MiB"), "{said}");
    assert_eq!(fs::metadata(&image).expect("it is there").len(), 5 << 20);
    assert_clean(&image);
}

#[test]
fn a_terabyte_is_sparse() {
    let folder = Folder::new();
    let volume = folder.path("large");
    on("mkfs", &volume, &["--size", "1T"]).good();
    let disk = fs::metadata(volume.join("disk.img")).expect("it is there");
    assert_eq!(disk.len(), 1 << 40);
    assert!(disk.blocks() * 512 < 256 << 20, "{} blocks", disk.blocks());
}

#[test]
fn a_volume_is_overwritten_only_by_force() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let before = fs::read(volume.join("disk.img")).expect("it is there");
    on("mkfs", &volume, &[]).failed(1, "holds a UFS2 file system");
    assert!(fs::read(volume.join("disk.img")).expect("it is there") == before, "it was changed");
    on("mkfs", &volume, &["--force", "--fragment-size", "32K"]).good();
    assert_clean(&volume.join("disk.img"));
    assert!(on("info", &volume, &["--json"]).good().contains("\"fragment_size_bytes\": 32768"));
}

#[test]
fn a_file_with_anything_in_it_is_overwritten_only_by_force() {
    let folder = Folder::new();
    let image = folder.path("letters");
    fs::write(&image, vec![b'x'; 4 << 20]).expect("there is room");
    let said = on("mkfs", &image, &[]).failed(1, "data of an unknown kind");
    assert!(said.contains("--force"), "{said}");
    on("mkfs", &image, &["--force"]).good();
    assert_clean(&image);
}

#[test]
fn a_new_volume_needs_a_size() {
    let folder = Folder::new();
    on("mkfs", &folder.path("data"), &[]).failed(2, "--size 1G");
    assert!(!folder.path("data").exists());
}

#[test]
fn a_folder_with_other_things_in_it_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.path("letter"), "dear").expect("there is room");
    on("mkfs", &folder.path(""), &["--size", "16M"]).failed(2, "letter");
    assert_eq!(fs::read_dir(folder.path("")).expect("a folder").count(), 1);
}

#[test]
fn a_run_that_fails_leaves_nothing_behind() {
    let folder = Folder::new();
    on("mkfs", &folder.path("tiny"), &["--size", "64K"]).failed(1, "too small");
    on("mkfs", &folder.path("odd"), &["--size", "1000"]).failed(1, "multiple of 512");
    on("mkfs", &folder.path("bare"), &["--bare", "--size", "64K"]).failed(1, "too small");
    on("mkfs", Path::new("/dev/null/place"), &["--size", "16M"]).failed(1, "/dev/null/place");
    on("mkfs", &folder.path("d"), &["--size", "16M", "--label", "a b"]).failed(1, "volume name");
    on("mkfs", &folder.path("d"), &["--size", "16M", "--block-size", "5K"]).failed(1, "block size");
    assert_eq!(fs::read_dir(folder.path("")).expect("a folder").count(), 0);
}

#[test]
fn the_size_of_a_disk_that_exists_cannot_be_chosen() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    fs::write(&image, vec![0; 4 << 20]).expect("there is room");
    on("mkfs", &image, &["--size", "8M"]).failed(2, "leave --size away");
    on("mkfs", &image, &["--size", "4M"]).good();
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for arguments in [
        &["mkfs"][..],
        &["mkfs", "data", "--size", "huge"],
        &["mkfs", "data", "--policy", "luck"],
        &["mkfs", "data", "--bare", "--policy", "sync"],
        &["forget"],
        &[],
    ] {
        assert_eq!(duramen(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn help_says_what_a_volume_is_and_shows_examples() {
    for arguments in [&["--help"][..], &["mkfs", "--help"]] {
        let help = duramen(arguments).good();
        assert!(help.contains("Examples:") && help.contains("VOLUME"), "{help}");
    }
}

/// Names of the entries of a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
}

#[test]
fn a_disk_that_is_larger_than_any_file_may_be_leaves_no_file() {
    let folder = Folder::new();
    let said = on("mkfs", &folder.path("y"), &["--bare", "--size", "8000P"]);
    said.failed(1, "y");
    assert_eq!(names(&folder.path("")), [""; 0]);
}

#[test]
fn a_command_that_fails_removes_the_volume_that_it_made_and_no_other() {
    let folder = Folder::new();
    on("mkfs", &folder.path("old"), &["--size", "16M"]).good();
    // No host here has this address.
    let more = ["--create", "16M", "--listen", "192.0.2.1:1"];
    for volume in ["new", "old"] {
        let mut arguments = vec!["serve".to_owned(), folder.path(volume).display().to_string()];
        arguments.extend(more.map(str::to_owned));
        duramen(&arguments).failed(1, "192.0.2.1:1");
    }
    assert_eq!(names(&folder.path("")), ["old"]);
    assert_clean(&folder.path("old").join("disk.img"));
}

#[test]
fn one_volume_under_two_names_is_told_and_stays_clean() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let (whole, disk) = (volume.display().to_string(), volume.join("disk.img"));
    for other in [whole.clone(), disk.display().to_string()] {
        duramen(&["serve".to_owned(), whole.clone(), other]).failed(2, "are one volume");
    }
    assert_clean(&disk);
}

/// A nearly full host: the folder has room for the disk, but not for the log.
#[test]
fn a_full_host_leaves_neither_disk_nor_log() {
    let Some(host) = SmallHost::new("6M") else { return };
    let volume = host.place.join("data");
    on("mkfs", &volume, &["--size", "64M", "--log-size", "32M"]).failed(1, "log.img");
    assert_eq!(names(&host.place), [""; 0]);
}

#[test]
fn a_disk_that_is_larger_than_its_host_is_told_or_refused() {
    let Some(host) = SmallHost::new("48M") else { return };
    let volume = host.place.join("data");
    let log = &["--log-size", "8M"];
    let said = on("mkfs", &volume, &[&["--size", "1G"], &log[..]].concat()).good();
    assert!(said.contains("may grow to 1 GiB, and 3"), "{said}"); // 48 MiB without the log
    fs::remove_dir_all(&volume).expect("nobody has it");
    on("mkfs", &volume, &["--size", "64M", "--preallocate"]).failed(1, "take the space");
    assert_eq!(names(&host.place), [""; 0]);
    let said = on("mkfs", &volume, &[&["--size", "32M", "--preallocate"], &log[..]].concat());
    let said = said.good();
    assert!(!said.contains("may grow"), "{said}");
    let disk = fs::metadata(volume.join("disk.img")).expect("it is there");
    assert!(disk.blocks() * 512 >= 32 << 20, "{} blocks", disk.blocks());
}

/// A sparse log gets its space before anything depends on it.
#[test]
fn a_log_of_holes_is_filled_or_refused() {
    let Some(host) = SmallHost::new("48M") else { return };
    let (image, log) = (host.place.join("disk.img"), host.place.join("its.log"));
    on("mkfs", &image, &["--bare", "--size", "16M"]).good();
    for (size, fits) in [(1 << 30, false), (16 << 20, true)] {
        fs::File::create(&log).and_then(|file| file.set_len(size)).expect("it is sparse");
        let arguments = ["--log", &log.display().to_string()];
        if fits {
            let serving = Serving::start(&[&image], &arguments);
            let found = fs::metadata(&log).expect("it is there");
            assert!(found.blocks() * 512 >= size, "{} blocks", found.blocks());
            assert!(serving.stop().success());
        } else {
            on("serve", &image, &arguments).failed(1, "take the space");
        }
    }
}

/// A log grows into part of the free space, and leaves the rest to disks.
#[test]
fn a_log_does_not_fill_its_host() {
    let Some(host) = SmallHost::new("100M") else { return };
    let volume = host.place.join("data");
    on("mkfs", &volume, &["--size", "1G"]).good();
    let log = || fs::metadata(volume.join("log.img")).expect("it is there").len();
    let before = log();
    let serving = Serving::start(&[&volume], &[]);
    pause(Duration::from_secs(2));
    put(&serving, "data", "letter", &[7; 900_000]);
    serving.kill();
    assert_eq!(log(), before, "there is no room for more");
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("cat", &volume, &["letter"]).good().len(), 900_000);
}

#[test]
fn a_log_that_somebody_writes_or_needs_is_not_removed() {
    let folder = Folder::new();
    let (image, place) = (folder.path("disk.img"), folder.path("place"));
    on("mkfs", &image, &["--bare", "--size", "64M"]).good();
    fs::create_dir(&place).expect("a new folder");
    let log = place.join("log.img").display().to_string();
    let serving = Serving::start(&[&image], &["--log", &log]);
    put(&serving, "disk", "one", b"1");
    for force in [&["--size", "64M"][..], &["--size", "64M", "--force"]] {
        on("mkfs", &place, force).failed(1, "in use");
    }
    put(&serving, "disk", "two", b"2");
    serving.kill();
    on("mkfs", &place, &["--size", "64M"]).failed(1, "changes that a volume needs");
    let serving = Serving::start(&[&image], &["--log", &log]);
    assert!(serving.stop().success());
    assert_eq!(on("ls", &image, &[]).good(), "one\ntwo\n");
    on("mkfs", &place, &["--size", "64M"]).good();
}
