//! Logs that are missing from where the volume had them: checked, repaired, and never given up
//! unasked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Loop, assert_clean, follow, on, pause};

const FILES: [&str; 5] = ["one", "two", "three", "four", "five"];
const LISTED: &str = "five\nfour\none\nthree\ntwo\n";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Serves volumes, creates five files on each of them, and kills the server.
fn killed(volumes: &[(&Path, &str)], more: &[&str]) {
    let paths: Vec<&Path> = volumes.iter().map(|(path, _)| *path).collect();
    let serving = Serving::start(&paths, more);
    for (_, name) in volumes {
        FILES.iter().for_each(|file| put(&serving, name, file, file.as_bytes()));
    }
    serving.kill();
}

/// A bare disk whose server was killed, with its log.
fn bare(folder: &Folder) -> (PathBuf, PathBuf) {
    let (disk, log) = (folder.path("bd.img"), folder.path("bl"));
    on("mkfs", &disk, &["--bare", "--size", "64M"]).good();
    killed(&[(&disk, "bd")], &["--log", text(&log)]);
    (disk, log)
}

/// A volume in a folder whose server was killed.
fn in_a_folder(folder: &Folder) -> PathBuf {
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M"]).good();
    killed(&[(&volume, "data")], &[]);
    volume
}

/// Asserts that the missing log of a volume is reported, and that a repair changes nothing.
#[track_caller]
fn assert_is_kept(disk: &Path, named: &Path) {
    let before = fs::read(disk).expect("it is there");
    let look = on("fsck", named, &[]);
    assert_eq!(look.code, 4, "{}{}", look.output, look.errors);
    assert!(look.output.contains("stands in a log that is missing"), "{}", look.output);
    assert!(look.output.contains("changes that were acknowledged since 2"), "{}", look.output);
    on("fsck", named, &["--repair"]).failed(8, "together with");
    assert!(fs::read(disk).expect("it is there") == before, "it has changed");
}

#[test]
fn what_is_advised_is_the_whole_command_line_and_keeps_every_file() {
    let folder = Folder::new();
    let (disk, log) = bare(&folder);
    let with_log = ["--log", text(&log)];
    let look = on("fsck", &disk, &with_log);
    assert_eq!(look.code, 0, "{}", look.output);
    let repair = follow(&look.output, "duramen fsck --repair");
    assert_eq!(repair.code, 0, "{}{}", repair.output, repair.errors);
    assert_eq!(on("ls", &disk, &[]).good(), LISTED);
    assert_clean(&disk);
    assert!(Serving::start(&[&disk], &with_log).stop().success());
}

#[test]
fn a_bare_disk_is_not_repaired_without_its_log() {
    let folder = Folder::new();
    let (disk, log) = bare(&folder);
    assert_is_kept(&disk, &disk);
    assert!(Serving::start(&[&disk], &["--log", text(&log)]).stop().success());
    assert_eq!(on("ls", &disk, &[]).good(), LISTED);
}

#[test]
fn a_log_that_is_named_and_not_there_is_a_slip_of_the_pen() {
    let folder = Folder::new();
    let (disk, _) = bare(&folder);
    let slip = folder.path("bk");
    for more in [&["--log", text(&slip)][..], &["--repair", "--log", text(&slip)]] {
        on("fsck", &disk, more).failed(8, "cannot open");
    }
}

#[test]
fn a_folder_is_not_repaired_while_its_log_is_away() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    let (log, away) = (volume.join("log.img"), folder.path("away"));
    fs::rename(&log, &away).expect("it is there");
    assert_is_kept(&volume.join("disk.img"), &volume);
    assert_is_kept(&volume.join("disk.img"), &volume.join("disk.img"));
    fs::rename(&away, &log).expect("it is there");
    assert_eq!(on("fsck", &volume, &["--repair"]).code, 0);
    assert_eq!(on("ls", &volume, &[]).good(), LISTED);
}

#[test]
fn the_log_of_a_folder_is_found_when_its_disk_is_named() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    let link = folder.path("link");
    std::os::unix::fs::symlink(volume.join("disk.img"), &link).expect("a new link");
    let look = on("fsck", &link, &[]);
    assert!(look.errors.contains("replayed first"), "{}{}", look.output, look.errors);
    assert_eq!(follow(&look.output, "duramen fsck --repair").code, 0);
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), LISTED);
}

#[test]
fn another_policy_in_the_settings_hides_no_log() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    fs::write(volume.join("volume.toml"), "policy = \"sync\"\n").expect("there is room");
    on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "its log");
    on("tune", &volume, &["--policy", "sync"]).failed(1, "not stopped cleanly");
    assert_eq!(on("fsck", &volume, &["--repair"]).code, 0);
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), LISTED);
}

#[test]
fn a_disk_that_shares_a_log_is_not_repaired_without_it() {
    let folder = Folder::new();
    let (one, other, log) = (folder.path("one.img"), folder.path("other.img"), folder.path("log"));
    for disk in [&one, &other] {
        on("mkfs", disk, &["--bare", "--size", "64M"]).good();
    }
    let with_log = ["--log", text(&log)];
    killed(&[(&one, "one"), (&other, "other")], &with_log);
    assert_is_kept(&one, &one);
    assert_eq!(on("fsck", &one, &["--repair", with_log[0], with_log[1]]).code, 0);
    assert_eq!(on("ls", &one, &[]).good(), LISTED);
    assert!(Serving::start(&[&one, &other], &with_log).stop().success());
    assert_eq!(on("ls", &other, &[]).good(), LISTED);
}

#[test]
fn who_gives_up_a_log_is_told_what_may_be_lost() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    fs::remove_file(volume.join("log.img")).expect("it is there");
    let look = on("fsck", &volume, &["--without-log"]);
    assert_eq!(look.code, 4, "{}", look.output);
    assert!(look.output.contains("may be lost with the log, if it is given up"), "{}", look.output);
    let repair = follow(&look.output, "duramen fsck --repair --without-log");
    assert_eq!(repair.code, 1, "{}", repair.output);
    assert!(
        repair.output.contains("\nloss: sb.log: ") || repair.output.starts_with("loss: sb.log")
    );
    assert!(repair.output.contains("acknowledged since 2"), "{}", repair.output);
    assert_clean(&volume.join("disk.img"));
}

/// The log turns up again after the volume was used further, with a log of the same name.
#[test]
fn a_log_that_was_given_up_is_never_replayed() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    let (log, away) = (volume.join("log.img"), folder.path("away"));
    fs::rename(&log, &away).expect("it is there");
    assert_eq!(on("fsck", &volume, &["--repair", "--without-log"]).code, 1);
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "six", b"after that");
    assert!(serving.stop().success());
    let before = on("ls", &volume, &[]).good();
    fs::rename(&away, &log).expect("it is there");
    let refused = on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "put the log away");
    on("fsck", &volume, &[]).failed(8, "put the log away");
    on("tune", &volume, &["--policy", "sync"]).failed(1, "put the log away");
    let put_away = follow(&refused, "duramen fsck --repair --without-log");
    assert_eq!(put_away.code, 0, "{}", put_away.output);
    assert!(put_away.errors.contains("are given up"), "{}", put_away.errors);
    assert!(Serving::start(&[&volume], &[]).stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), before);
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_destroyed_superblock_gives_up_no_log() {
    let folder = Folder::new();
    let volume = in_a_folder(&folder);
    let disk = volume.join("disk.img");
    let mut bytes = fs::read(&disk).expect("it is there");
    bytes[64 << 10..72 << 10].fill(0);
    fs::write(&disk, &bytes).expect("there is room");
    let look = on("fsck", &volume, &[]);
    assert_eq!(look.code, 4, "{}", look.output);
    on("fsck", &volume, &["--repair"]).failed(8, "nobody knows whether");
    assert!(fs::read(&disk).expect("it is there") == bytes, "it has changed");
    let log = fs::read(volume.join("log.img")).expect("it is there");
    let repair = follow(&look.output, "duramen fsck --repair --without-log");
    assert_eq!(repair.code, 1, "{}", repair.output);
    assert!(!repair.errors.contains("given up"), "{}", repair.errors);
    assert!(fs::read(volume.join("log.img")).expect("it is there") == log, "it has changed");
    let refused = on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "put the log away");
    let given_up = follow(&refused, "duramen fsck --repair --without-log");
    assert!(given_up.errors.contains("are given up"), "{}", given_up.errors);
    assert!(Serving::start(&[&volume], &[]).stop().success());
}

/// Two volumes were used with one log, one after the other. The acknowledged changes of the later
/// one are not overwritten by the earlier one, which has no records in the log any more and is not
/// reported to have any.
#[test]
fn a_log_that_another_volume_has_used_since_is_lost_to_neither() {
    let folder = Folder::new();
    let [early, late] = ["early", "late"].map(|name| folder.path(name));
    for volume in [&early, &late] {
        on("mkfs", volume, &["--size", "32M"]).good();
    }
    let log = folder.path("its.log");
    let with_log = ["--log", text(&log)];
    Serving::start(&[&early], &with_log).kill();
    let serving = Serving::start(&[&late], &with_log);
    put(&serving, "late", "letter", b"dear friend");
    serving.kill();
    let look = on("fsck", &early, &with_log);
    assert_eq!(look.code, 0, "{}{}", look.output, look.errors);
    assert!(!look.output.contains("loss"), "{}", look.output);
    for volume in [&early, &late, &early] {
        assert!(Serving::start(&[volume], &with_log).stop().success());
    }
    assert_eq!(on("cat", &late, &["letter"]).good(), "dear friend");
    let names = fs::read_dir(folder.path(".")).expect("it is there");
    assert_eq!(names.count(), 3, "what was saved has gone");
}

/// Follows the advice for a volume that was named with the log of another one: that log keeps its
/// contents.
#[test]
fn the_log_of_another_volume_is_not_given_up() {
    let folder = Folder::new();
    let [early, late] = ["early", "late"].map(|name| folder.path(name));
    for (volume, name) in [(&early, "early"), (&late, "late")] {
        on("mkfs", volume, &["--size", "32M"]).good();
        killed(&[(volume, name)], &[]);
    }
    let log = late.join("log.img");
    let look = on("fsck", &early, &["--log", text(&log)]);
    assert_eq!(look.code, 4, "{}", look.output);
    let repair = follow(&look.output, "duramen fsck --repair --without-log");
    assert_eq!(repair.code, 1, "{}{}", repair.output, repair.errors);
    assert!(!repair.errors.contains("are given up"), "{}", repair.errors);
    assert!(Serving::start(&[&late], &[]).stop().success());
    assert_eq!(on("ls", &late, &[]).good(), LISTED);
}

/// The records of `second` in the log of `first` were saved beside it, and the log was removed.
fn saved_of_second(folder: &Folder) -> [PathBuf; 3] {
    let [first, second] = ["first", "second"].map(|name| folder.path(name));
    for volume in [&first, &second] {
        on("mkfs", volume, &["--size", "32M"]).good();
    }
    let log = first.join("log.img");
    let with_log = ["--log", text(&log)];
    killed(&[(&first, "first"), (&second, "second")], &with_log);
    assert!(Serving::start(&[&first], &with_log).stop().success());
    on("tune", &first, &["--policy", "sync"]).good();
    assert!(!log.exists(), "the case is there");
    [first, second, log]
}

#[test]
fn what_was_saved_beside_a_log_is_found_without_the_log() {
    let folder = Folder::new();
    let [first, second, log] = saved_of_second(&folder);
    let with_log = ["--log", text(&log)];
    let look = on("fsck", &second, &with_log);
    assert_eq!(look.code, 0, "{}{}", look.output, look.errors);
    assert!(!look.output.contains("loss"), "{}", look.output);
    // A misspelt name must not be taken for anything else.
    on("fsck", &first, &with_log).failed(8, "cannot open");
    assert!(Serving::start(&[&second], &with_log).stop().success());
    assert_eq!(on("ls", &second, &[]).good(), LISTED);
    assert_clean(&second.join("disk.img"));
}

#[test]
fn what_was_saved_beside_a_log_is_brought_home_by_a_repair() {
    let folder = Folder::new();
    let [first, second, log] = saved_of_second(&folder);
    let look = on("fsck", &second, &["--log", text(&log)]);
    let repair = follow(&look.output, "duramen fsck --repair");
    assert_eq!(repair.code, 0, "{}{}", repair.output, repair.errors);
    assert_eq!(on("ls", &second, &[]).good(), LISTED);
    assert_eq!(fs::read_dir(&first).expect("it is there").count(), 2, "it is not needed any more");
}

/// The log is in the folder of a volume, and no command line named it.
#[test]
fn a_volume_is_told_where_what_it_needs_is_saved() {
    let folder = Folder::new();
    let [first, second] = ["first", "second"].map(|name| folder.path(name));
    for volume in [&first, &second] {
        on("mkfs", volume, &["--size", "32M"]).good();
    }
    let log = second.join("log.img");
    let with_log = ["--log", text(&log)];
    killed(&[(&first, "first"), (&second, "second")], &with_log);
    assert!(Serving::start(&[&first], &with_log).stop().success());
    fs::remove_file(&log).expect("it is there");
    let told = on("serve", &second, &["--listen", "127.0.0.1:0"]).failed(1, "is saved in");
    let advice = format!("'duramen serve {} --log {}'", text(&second), text(&log));
    assert!(told.contains(&advice), "{told}");
    assert_eq!(on("fsck", &second, &[]).code, 0);
    assert!(Serving::start(&[&second], &with_log).stop().success());
    assert_eq!(on("ls", &second, &[]).good(), LISTED);
}

/// A log may be a device, which has a fixed size.
#[test]
fn a_device_is_a_log_that_does_not_grow() {
    let folder = Folder::new();
    let (volume, file) = (folder.path("data"), folder.path("log.file"));
    fs::File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("there is room");
    let Some(device) = Loop::over(&file) else { return };
    on("mkfs", &volume, &["--size", "64M"]).good();
    let arguments = ["--log", &device.0];
    for number in 0..3 {
        let serving = Serving::start(&[&volume], &arguments);
        put(&serving, "data", &format!("letter-{number}"), b"dear friend");
        // By now a log would have grown.
        pause(Duration::from_millis(500));
        put(&serving, "data", &format!("second-{number}"), b"dear both");
        serving.kill();
    }
    assert!(Serving::start(&[&volume], &arguments).stop().success());
    assert_eq!(on("ls", &volume, &[]).good().lines().count(), 6);
}
