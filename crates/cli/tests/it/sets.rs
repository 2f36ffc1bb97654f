//! Volumes on sets of disks: created, served, cut off, with a disk lost, rebuilt, and refused.

mod changes;
mod online;
mod remains;
mod scrubs;
mod starts;
mod watching;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use raid::label::{Label, Standing, places};
use serde_json::Value;

use crate::common::serving::{Serving, link, put};
use crate::common::{Folder, Run, assert_clean, bytes_read, duramen, on, pause};

/// Interval between two polls of a server.
const TRY: Duration = Duration::from_millis(100);
/// Size of a member, in bytes.
const SIZE: u64 = 24 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// A folder, the path of a volume in it that does not exist yet, and disks for it.
struct Place {
    folder: Folder,
    volume: PathBuf,
    disks: Vec<PathBuf>,
}

impl Place {
    fn new(disks: usize) -> Self {
        let folder = Folder::new();
        let disk = |number| {
            let path = folder.path(&format!("disk-{number}"));
            let file = File::create(&path).expect("a new file");
            file.set_len(SIZE).expect("it is sparse");
            path
        };
        Self { volume: folder.path("data"), disks: (0..disks).map(disk).collect(), folder }
    }

    fn mkfs(&self, level: &str, more: &[&str]) -> Run {
        let disks: Vec<&str> = self.disks.iter().map(|disk| text(disk)).collect();
        on("mkfs", &self.volume, &[&[level], &disks[..], &["--sparse"], more].concat())
    }

    fn made(level: &str, disks: usize, more: &[&str]) -> Self {
        let place = Self::new(disks);
        place.mkfs(level, more).good();
        place
    }

    /// Sets in the settings how long a member may be late.
    fn set_spare_after(&self, seconds: u64) {
        self.set("spare_after_s", seconds);
    }

    /// Adds a line to the section `[raid]` of the settings.
    fn set(&self, key: &str, value: u64) {
        let path = self.volume.join("volume.toml");
        let text = fs::read_to_string(&path).expect("it is a volume");
        let section = format!("[raid]\n{key} = {value}");
        let changed = text.replacen("[raid]", &section, 1);
        assert!(changed != text, "{text}");
        fs::write(&path, changed).expect("there is room");
    }

    fn status(&self) -> Value {
        let told = duramen(&["raid", "status", text(&self.volume), "--json"]);
        let status: Value = serde_json::from_str(&told.output).expect("it is JSON");
        let lost = ["reads", "bytes"].map(|what| status["losses"][what].as_u64());
        let code = match status["state"].as_str().expect("a word") {
            "failed" => 2,
            _ if lost.iter().flatten().any(|&lost| lost > 0) => 2,
            "clean" => 0,
            _ => 1,
        };
        assert_eq!(told.code, code, "{status}{}", told.errors);
        status
    }

    fn info(&self) -> Value {
        let told = on("info", &self.volume, &["--json"]).good();
        serde_json::from_str(&told).expect("it is JSON")
    }

    /// Waits until a server reaches a state.
    #[track_caller]
    fn wait(&self, is_so: impl Fn(&Self) -> bool) {
        let most = 300;
        let tries = (0..most).take_while(|_| !is_so(self)).inspect(|_| pause(TRY)).count();
        assert!(tries < most, "it does not come: {}", self.status());
    }

    /// Waits for the end of a reclaim after a cut, if one runs.
    #[track_caller]
    fn wait_for_reclaim(&self) {
        self.wait(|place| place.info()["reclaim"]["state"] != "running");
    }

    fn state_of(&self, slot: usize) -> String {
        self.status()["slots"][slot]["state"].as_str().expect("a word").to_owned()
    }

    /// The spares of the set.
    fn spares(&self) -> Vec<PathBuf> {
        serde_json::from_value(self.status()["spares"].clone()).expect("a list of paths")
    }

    fn raid(&self, words: &[&str]) -> Run {
        duramen(&[&["raid", words[0], text(&self.volume)], &words[1..]].concat())
    }

    /// Asserts that the disks hold a file system that every checker accepts.
    #[track_caller]
    fn assert_whole(&self, files: &[(&str, &[u8])]) {
        let checked = on("fsck", &self.volume, &[]);
        assert_eq!(checked.code, 0, "{}{}", checked.output, checked.errors);
        for (name, data) in files {
            assert_eq!(on("cat", &self.volume, &[name]).output.as_bytes(), *data);
        }
        let image = self.folder.path("dump.img");
        let _ = fs::remove_file(&image); // the first call finds none
        let dumped = self.raid(&["dump", text(&image)]);
        assert_eq!(dumped.code, 0, "{}", dumped.errors);
        assert_clean(&image);
        let plain = on("cat", &image, &[files[0].0]).good();
        assert_eq!(plain.as_bytes(), files[0].1, "the image is a volume of its own");
    }
}

/// Overwrites a disk with zeros.
fn wipe(disk: &Path) {
    let file = File::create(disk).expect("it is ours");
    file.set_len(SIZE).expect("it is sparse");
}

/// Changes the labels of a member.
fn relabel(disk: &Path, change: impl FnOnce(&mut Label)) {
    let mut bytes = fs::read(disk).expect("it is ours");
    let mut label = Label::decode(&bytes).expect("it is a member");
    change(&mut label);
    for at in places(bytes.len() as u64) {
        bytes[at as usize..][..4096].copy_from_slice(&label.encode());
    }
    fs::write(disk, bytes).expect("there is room");
}

/// A text without a newline that differs from all others.
fn letter(number: u8) -> Vec<u8> {
    (0..40_000_u32).map(|at| b'a' + (at.wrapping_mul(7 + u32::from(number)) % 23) as u8).collect()
}

/// Creates a set, writes to it, kills its server, loses a disk, serves the set again, and rebuilds
/// the disk, under each policy.
fn lose_a_disk(level: &str, disks: usize, policy: &str) {
    let place = Place::made(level, disks, &["--policy", policy]);
    let (one, two, three) = (letter(1), letter(2), letter(3));
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &one);
    serving.kill();
    wipe(&place.disks[1]);
    let serving = Serving::start(&[&place.volume], &[]);
    assert_eq!(place.status()["state"], "degraded");
    put(&serving, "data", "two", &two);
    place.wait_for_reclaim();
    assert!(serving.stop().success());
    assert_eq!(place.state_of(1), "stale");
    place.assert_whole(&[("one", &one), ("two", &two)]);
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["replace", "1", text(&place.disks[1])]).good();
    let status = place.status();
    assert_eq!(status["state"], "clean", "{status}");
    put(&serving, "data", "three", &three);
    serving.kill();
    // The new disk is as good as any: now another one is lost.
    wipe(&place.disks[0]);
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait_for_reclaim();
    assert!(serving.stop().success());
    place.assert_whole(&[("one", &one), ("two", &two), ("three", &three)]);
}

#[test]
fn raid_5_loses_a_disk_under_policy_log() {
    lose_a_disk("--raid5", 3, "log");
}

#[test]
fn raid_5_loses_a_disk_under_policy_sync() {
    lose_a_disk("--raid5", 4, "sync");
}

#[test]
fn a_mirror_loses_a_disk_under_policy_softdep() {
    lose_a_disk("--raid1", 2, "softdep");
}

#[test]
fn a_mirror_loses_a_disk_under_policy_log() {
    lose_a_disk("--raid1", 3, "log");
}

#[test]
fn disks_know_what_they_are_wherever_they_lie() {
    let place = Place::made("--raid5", 3, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    // Two disks are exchanged, and one is renamed.
    let away = place.folder.path("away");
    fs::rename(&place.disks[0], &away).expect("it is there");
    fs::rename(&place.disks[1], &place.disks[0]).expect("it is there");
    fs::rename(&away, &place.disks[1]).expect("it is there");
    fs::rename(&place.disks[2], place.folder.path("renamed.img")).expect("it is there");
    assert_eq!(place.status()["state"], "clean");
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    place.assert_whole(&[("one", &letter(1))]);
    assert_eq!(place.status()["state"], "clean");
}

#[test]
fn a_member_that_was_away_catches_up_by_itself() {
    let place = Place::made("--raid5", 3, &[]);
    let away = place.folder.path("away");
    fs::create_dir(&away).expect("a new folder");
    fs::rename(&place.disks[2], away.join("disk")).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    assert!(serving.stop().success());
    assert_eq!(place.state_of(2), "stale", "it is not found");
    fs::rename(away.join("disk"), &place.disks[2]).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait(|place| place.state_of(2) == "in_sync");
    assert!(serving.stop().success());
    wipe(&place.disks[0]);
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn a_member_that_is_out_is_found_under_another_name() {
    let place = Place::made("--raid1", 3, &[]);
    let away = place.folder.path("away");
    fs::create_dir(&away).expect("a new folder");
    let old = away.join("old");
    fs::copy(&place.disks[2], &old).expect("there is room");
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    fs::rename(&place.disks[2], away.join("disk")).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    assert!(serving.stop().success());
    let copy = place.folder.path("a-copy");
    fs::copy(&old, &copy).expect("there is room");
    let before = fs::read(&copy).expect("it is ours");
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["fail", "1", "--force"]).good(); // writes the list of all paths anew
    assert!(serving.stop().success());
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    assert!(fs::read(&copy).expect("it is ours") == before, "a copy of before is left alone");
    fs::rename(away.join("disk"), place.folder.path("renamed.img")).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait(|place| place.state_of(2) == "in_sync");
    assert!(serving.stop().success());
    wipe(&place.disks[0]);
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn of_a_disk_and_its_copy_the_later_one_is_the_member() {
    let place = Place::made("--raid5", 3, &[]);
    let (copy, new) = (place.folder.path("copy"), place.folder.path("new"));
    fs::copy(&place.disks[1], &copy).expect("there is room");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    fs::rename(&place.disks[1], &new).expect("it is there");
    fs::rename(&copy, &place.disks[1]).expect("it is there");
    assert_eq!(place.status()["slots"][1]["path"], text(&new));
    assert_eq!(place.status()["state"], "clean");
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    assert_eq!(place.status()["state"], "clean");
    place.assert_whole(&[("one", &letter(1))]);
    // The copy alone is no member, and is not served.
    fs::remove_file(&new).expect("it is there");
    let status = place.status();
    assert_eq!((&status["state"], place.state_of(1).as_str()), (&"degraded".into(), "stale"));
    // Neither of two equally recent disks can be preferred.
    let place = Place::made("--raid5", 3, &[]);
    fs::copy(&place.disks[1], place.folder.path("twin")).expect("there is room");
    fs::remove_file(&place.disks[2]).expect("it is there");
    let refused = on("serve", &place.volume, &["--listen", "127.0.0.1:0"]);
    let told = refused.errors.lines().last().expect("it says why").to_owned();
    assert!(refused.code == 1 && told.contains("one may be a copy of the other"), "{told}");
    assert!(told.contains("disk-1") && told.contains("twin"), "{told}");
    assert!(!refused.errors.contains("is now"), "it takes none for it: {}", refused.errors);
}

#[test]
fn a_rebuild_that_was_cut_off_is_none() {
    let place = Place::made("--raid5", 3, &[]);
    let away = place.folder.path("away");
    fs::create_dir(&away).expect("a new folder");
    let member = place.status()["slots"][2]["uuid"].clone();
    // The labels of the others say that the member is being rebuilt, as a killed server leaves
    // them.
    for disk in &place.disks {
        relabel(disk, |label| label.slots[2].standing = Standing::Rebuilding);
    }
    fs::rename(&place.disks[2], away.join("disk")).expect("it is there");
    let status = place.status();
    assert_eq!((&status["state"], &status["rebuild"]), (&"degraded".into(), &Value::Null));
    let serving = Serving::start(&[&place.volume], &[]);
    let status = place.status();
    assert_eq!((&status["state"], &status["rebuild"]), (&"degraded".into(), &Value::Null));
    assert_eq!(status["slots"][2]["uuid"], member);
    assert_eq!(place.state_of(2), "stale");
    assert!(serving.stop().success());
    // The rebuild starts again, whatever the name of the disk.
    fs::remove_file(place.volume.join("set.state")).expect("it is kept");
    fs::rename(away.join("disk"), place.folder.path("renamed")).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait(|place| place.state_of(2) == "in_sync");
    assert!(serving.stop().success());
}

#[test]
fn a_member_that_was_taken_out_stays_out() {
    let place = Place::made("--raid1", 3, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["fail", "1", "--force"]).good();
    put(&serving, "data", "one", &letter(1));
    place.raid(&["fail", "1", "--force"]).failed(1, "slot 1 has no member that is up to date");
    place.raid(&["fail", "0", "--force"]).good();
    place.raid(&["fail", "2", "--force"]).failed(1, "the member of slot 2 is needed");
    serving.kill();
    let serving = Serving::start(&[&place.volume], &[]);
    assert_eq!(place.status()["state"], "degraded");
    assert!(serving.stop().success());
    assert_eq!([0, 1].map(|slot| place.state_of(slot)), ["offline", "offline"]);
    place.assert_whole(&[("one", &letter(1))]);
    // Without a server the command itself rebuilds it.
    place.raid(&["replace", "1", text(&place.disks[1])]).failed(1, "a member of a set of disks");
    place.raid(&["replace", "1", text(&place.disks[1]), "--force"]).good();
    assert_eq!(place.state_of(1), "in_sync");
}

#[test]
fn half_a_mirror_is_served_if_the_folder_knows_that_it_is_the_newer() {
    let place = Place::made("--raid1", 2, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    fs::remove_file(&place.disks[1]).expect("it is there");
    let state = place.volume.join("set.state");
    let known = fs::read(&state).expect("it is kept");
    fs::remove_file(&state).expect("it is there");
    let refused = on("serve", &place.volume, &["--listen", "127.0.0.1:0"]);
    let told = refused.errors.lines().last().expect("it says why").to_owned();
    assert!(refused.code == 1 && told.contains("may be newer"), "{told}");
    assert!(told.contains("duramen serve --degraded"), "{told}");
    assert_eq!(place.status()["state"], "failed");
    fs::write(&state, known).expect("there is room");
    put(&Serving::start(&[&place.volume], &[]), "data", "two", &letter(2));
    fs::remove_file(&state).expect("it is kept");
    // A member that is alone by its own label may continue.
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    let other = Place::made("--raid1", 2, &[]);
    fs::remove_file(other.volume.join("set.state")).expect("it is there");
    fs::remove_file(&other.disks[0]).expect("it is there");
    assert!(Serving::start(&[&other.volume], &["--degraded"]).stop().success());
}

/// Only the folder says where the disks are and where the file system ends.
#[test]
fn the_folder_of_a_set_is_kept_and_needed() {
    let place = Place::made("--raid1", 2, &[]);
    fs::remove_file(place.volume.join("set.state")).expect("it is there");
    let settings = || fs::read(place.volume.join("volume.toml")).expect("it is there");
    let before = settings();
    on("mkfs", &place.volume, &["--size", "16M"]).failed(1, "a volume on a set of disks");
    assert_eq!(settings(), before);
    assert!(!place.volume.join("disk.img").exists());
    // The path for the state of the set is not writable.
    let new = place.volume.join(".set.state.new");
    fs::create_dir(&new).expect("there is room");
    place.raid(&["scrub"]).failed(1, ".set.state.new");
    fs::remove_dir(&new).expect("it is empty");
    place.raid(&["scrub"]).good();
}

#[test]
fn a_set_without_redundancy_needs_all_of_its_disks() {
    let place = Place::made("--raid0", 2, &["--stripe-unit", "16K"]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    place.assert_whole(&[("one", &letter(1))]);
    assert_eq!(place.status()["stripe_unit_bytes"], 16384);
    place.raid(&["replace", "0", "/dev/null"]).failed(2, "raid0 has nothing to make a member of");
    place.raid(&["fail", "0", "--force"]).failed(1, "is needed");
    wipe(&place.disks[0]);
    let refused = on("ls", &place.volume, &[]);
    assert!(refused.code == 1 && refused.errors.contains("it takes 2"), "{}", refused.errors);
}

#[test]
fn a_command_line_that_makes_no_sense_changes_nothing() {
    let place = Place::new(3);
    let disk = |number: usize| text(&place.disks[number]);
    let mkfs = |more: &[&str]| on("mkfs", &place.volume, more);
    mkfs(&["--raid5", disk(0), disk(1), disk(0)]).failed(2, "is named twice");
    assert!(mkfs(&["--raid5", disk(0), disk(1)]).code == 2, "too few");
    let unit = ["--raid5", disk(0), disk(1), disk(2), "--stripe-unit", "48K"];
    mkfs(&unit).failed(2, "a power of two from 4 KiB to 4 MiB");
    let there = place.folder.path("new");
    mkfs(&["--raid1", disk(0), text(&there)]).failed(2, "with --size, such as 4G, it is made");
    mkfs(&["--raid1", disk(0), text(&there), "--size", "8M"]).failed(2, "has 25165824 bytes");
    assert!(!there.exists(), "what was made is gone");
    File::options()
        .write(true)
        .open(disk(2))
        .and_then(|file| file.set_len(SIZE / 2))
        .expect("it is");
    place.mkfs("--raid5", &[]).failed(2, "not of one size");
    wipe(&place.disks[2]);
    for (at, bytes, what) in [
        (4096, &0xa92b_4efc_u32.to_le_bytes()[..], "a member of a Linux RAID"),
        (SIZE - 8192, &0xa92b_4efc_u32.to_le_bytes()[..], "a member of a Linux RAID"),
        (65_536 + 1372, &[0x19, 0x01, 0x54, 0x19][..], "a UFS2 file system"),
        (500_000 / 4096 * 4096 - 400_000 / 4096 * 4096, b"?", "data of an unknown kind"),
    ] {
        wipe(&place.disks[2]);
        let mut file = File::options().write(true).open(&place.disks[2]).expect("it is there");
        file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes)).expect("there is room");
        place.mkfs("--raid5", &[]).failed(1, what);
    }
    assert!(!place.volume.exists());
    place.mkfs("--raid5", &["--force"]).good();
    // No member passes for a volume, and none can be taken from its set.
    assert!(on("ls", &place.disks[0], &[]).code == 1);
    let other = place.folder.path("other");
    on("mkfs", &other, &["--raid1", disk(0), disk(1)]).failed(1, "a member of a set of disks");
    on("mkfs", &place.disks[1], &[]).failed(1, "a member of a set of disks");
    place.mkfs("--raid5", &[]).failed(1, "a volume, as volume.toml says");
    let serving = Serving::start(&[&place.volume], &[]);
    let refused = on("mkfs", &other, &["--raid1", disk(0), disk(1), "--force"]);
    assert!(refused.errors.contains("in use by another program"), "{}", refused.errors);
    let refused = on("fsck", &place.volume, &[]);
    assert!(refused.errors.contains("in use by another program"), "{}", refused.errors);
    place.raid(&["replace", "1", disk(0)]).failed(1, "slot 1 has a good member");
    place.raid(&["replace", "7", disk(0)]).failed(2, "there is no slot 7: there are 0 to 2");
    place.raid(&["replace", "1", disk(0), "--force"]).failed(1, "is a member already");
    assert!(serving.stop().success());
    let plain = place.folder.path("plain");
    on("mkfs", &plain, &["--size", "16M"]).good();
    duramen(&["raid", "status", text(&plain)]).failed(2, "does not stand on a set of disks");
}

#[test]
fn a_policy_and_a_label_are_changed_on_a_set_as_on_a_disk() {
    let place = Place::made("--raid5", 3, &["--policy", "sync"]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    on("tune", &place.volume, &["--policy", "log"]).failed(1, "was not stopped cleanly");
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    on("tune", &place.volume, &["--policy", "log", "--label", "archive"]).good();
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "two", &letter(2));
    serving.kill();
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    on("tune", &place.volume, &["--policy", "softdep"]).good();
    let info = place.info();
    assert_eq!((&info["policy"], &info["label"]), (&"softdep".into(), &"archive".into()));
    assert_eq!(info["raid"]["level"], "raid5");
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2))]);
}

#[test]
fn a_set_whose_volume_was_tuned_has_nothing_to_bring_home() {
    for (level, engine) in [("--raid1", "ffs"), ("--raid5", "shadow")] {
        let place = Place::made(level, 3, &["--engine", engine]);
        let read = || bytes_read(&["info", text(&place.volume)]);
        let before = read();
        on("tune", &place.volume, &["--label", "archive"]).good();
        assert_eq!(read(), before, "{level}: the log of the set is read, too");
    }
}

#[test]
fn a_copy_of_a_member_is_no_member() {
    for (level, disks) in [("--raid1", 2), ("--raid5", 3)] {
        let place = Place::made(level, disks, &[]);
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &letter(1));
        assert!(serving.stop().success());
        fs::copy(&place.disks[1], place.folder.path("disk-1.bak")).expect("there is room");
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "two", &letter(2));
        serving.kill();
        fs::remove_file(&place.disks[1]).expect("it is there");
        let serving = Serving::start(&[&place.volume], &[]);
        assert_eq!(place.status()["state"], "degraded");
        put(&serving, "data", "three", &letter(3));
        assert!(serving.stop().success());
        // At the member's path, it is a member that has to catch up.
        fs::rename(place.folder.path("disk-1.bak"), &place.disks[1]).expect("it is there");
        let serving = Serving::start(&[&place.volume], &[]);
        place.wait(|place| place.state_of(1) == "in_sync");
        serving.kill();
        wipe(&place.disks[0]);
        assert!(Serving::start(&[&place.volume], &[]).stop().success());
        place.assert_whole(&[("one", &letter(1)), ("two", &letter(2)), ("three", &letter(3))]);
    }
}

#[test]
fn a_disk_that_was_written_over_is_told_as_out_also_while_nobody_serves() {
    let place = Place::made("--raid5", 3, &[]);
    let disk = File::options().write(true).open(&place.disks[1]).expect("it is there");
    disk.write_all_at(&[b'?'; 4096], 0).expect("there is room");
    assert_eq!(
        (&place.status()["state"], place.state_of(1).as_str()),
        (&"degraded".into(), "stale")
    );
    let told = place.raid(&["status"]).output;
    assert!(told.contains("raid5 of 3 disks, degraded"), "{told}");
}

#[test]
fn what_may_not_be_changed_stays_as_it_is() {
    let place = Place::made("--raid5", 3, &[]);
    let settings = || fs::read(place.volume.join("volume.toml")).expect("it is there");
    let (before, new) = (settings(), place.folder.path("new"));
    wipe(&new);
    let serving = Serving::start(&[&place.volume], &["--read-only"]);
    place.raid(&["fail", "1", "--force"]).failed(1, "is served read-only");
    place.raid(&["replace", "1", text(&new), "--force"]).failed(1, "is served read-only");
    assert!(serving.stop().success());
    on("mkfs", &place.volume, &["--size", "16M"]).failed(1, "a volume on a set of disks");
    let small = place.folder.path("small");
    File::create(&small).and_then(|file| file.set_len(SIZE / 2)).expect("it is sparse");
    place.raid(&["replace", "1", text(&small), "--force"]).failed(1, "stripes");
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["replace", "1", text(&small), "--force"]).failed(1, "stripes");
    assert_eq!(place.status()["state"], "clean");
    assert_eq!(settings(), before);
    // A member that was taken out in service can be put back.
    place.raid(&["fail", "1", "--force"]).good();
    place.raid(&["replace", "1", text(&place.disks[1]), "--force"]).good();
    assert_eq!(place.status()["state"], "clean");
    place.raid(&["replace", "2", text(&new), "--force", "--background"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    put(&serving, "data", "one", &letter(1));
    serving.kill();
    wipe(&place.disks[0]);
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn a_member_on_the_list_hides_no_other() {
    let place = Place::made("--raid5", 3, &[]);
    let new = place.folder.path("new");
    wipe(&new);
    place.raid(&["replace", "2", text(&new), "--force"]).good();
    // The two disks have exchanged names: the listed one is no member any more.
    let away = place.folder.path("away");
    fs::rename(&new, &away).expect("it is there");
    fs::rename(&place.disks[2], &new).expect("it is there");
    fs::rename(&away, &place.disks[2]).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    assert_eq!(place.status()["state"], "clean");
    put(&serving, "data", "one", &letter(1));
    // A disk that was found elsewhere is on the list once the list is written.
    place.raid(&["fail", "0", "--force"]).good();
    assert!(serving.stop().success());
    let listed = fs::read_to_string(place.volume.join("volume.toml")).expect("it is there");
    assert!(listed.contains("disk-2") && listed.contains("disk-0"), "{listed}");
    place.assert_whole(&[("one", &letter(1))]);
}

/// Finds a block of a file on a set with parity: its disk and offset, and the disk with the parity
/// of the same offset. The volume's log, which lies behind the files, may have the block, too.
fn place_of(place: &Place, bytes: &[u8]) -> (usize, u64, usize) {
    let places = place.disks.iter().enumerate().filter_map(|(number, disk)| {
        let held = fs::read(disk).expect("it is ours");
        let field = |at: usize| u64::from_le_bytes(held[at..at + 8].try_into().expect("8 bytes"));
        let (unit, start) = (field(56), field(72)); // fields of the label
        // Behind the set's log, which has the blocks, too.
        let mut blocks = held.chunks(4096).enumerate().skip(start as usize / 4096);
        let disks = place.disks.len() as u64;
        let parity = |at: u64| (disks - 1 - (at - start) / unit % disks) as usize;
        let found =
            blocks.find(|(at, block)| *block == bytes && parity(*at as u64 * 4096) != number);
        let at = found?.0 as u64 * 4096;
        Some((number, at, parity(at)))
    });
    places.min_by_key(|(_, at, _)| *at).expect("a disk has it")
}

/// Changes a byte of a disk.
fn flip(disk: &Path, at: u64) {
    let mut bytes = fs::read(disk).expect("it is ours");
    bytes[at as usize] ^= 0x40;
    fs::write(disk, bytes).expect("it is ours");
}

#[test]
fn what_has_rotted_is_mended_and_what_is_lost_is_named() {
    let place = Place::made("--raid5", 4, &["--policy", "sync"]);
    let (one, two) = (letter(1), letter(2));
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &one);
    put(&serving, "data", "two", &two);
    serving.stop();
    let (disk, at, parity) = place_of(&place, &one[4096..8192]);
    flip(&place.disks[disk], at + 77);
    // By a read, in service.
    let serving = Serving::start(&[&place.volume], &[]);
    let status = |what: &str| place.status()["slots"][disk][what].clone();
    let scrub: Value = {
        let told = place.raid(&["scrub", "--json"]);
        assert_eq!(told.code, 0, "{}", told.errors);
        serde_json::from_str(&told.output).expect("it is JSON")
    };
    assert_eq!((&scrub["mended"], &scrub["lost"]), (&1.into(), &Value::Array(Vec::new())));
    assert_eq!(scrub["done_bytes"], scrub["total_bytes"]);
    assert_eq!((status("checksum_errors"), status("mended")), (1.into(), 1.into()));
    assert_eq!(place.status()["scrub"], scrub);
    serving.stop();
    place.assert_whole(&[("one", &one), ("two", &two)]);
    // By a scrub, without a server.
    flip(&place.disks[disk], at + 4000);
    let told = place.raid(&["scrub"]);
    assert_eq!(told.code, 0, "{}", told.errors);
    assert!(told.output.contains("1 blocks mended"), "{}", told.output);
    place.assert_whole(&[("one", &one), ("two", &two)]);
    // If the parity is bad as well, the data is lost.
    flip(&place.disks[disk], at);
    flip(&place.disks[parity], at);
    for is_served in [false, true] {
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        let told = place.raid(&["scrub", "--json"]);
        assert_eq!(told.code, 1, "{}", told.errors);
        let scrub: Value = serde_json::from_str(&told.output).expect("it is JSON");
        let lost = scrub["lost"].as_array().expect("a list");
        let of_one = lost.iter().find(|lost| lost["path"] == "/one").expect("it is named");
        assert_eq!((&of_one["offset"], &of_one["length"]), (&4096.into(), &4096.into()));
        if is_served {
            let status = place.status();
            assert_eq!(status["scrub"], scrub, "its server names them as well");
            assert_eq!(status["losses"]["bytes"], 4096);
            scrubs::keeps_its_losses_while_scrubbed_again(&place);
        }
        let told = place.raid(&["scrub"]);
        let line = "lost: /one: 4096 bytes at byte 4096";
        assert!(told.code == 1 && told.output.contains(line), "{}", told.output);
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
    }
    assert_eq!(on("cat", &place.volume, &["two"]).output.as_bytes(), two);
    assert_ne!(on("cat", &place.volume, &["one"]).code, 0, "never wrong bytes");
    let looked = on("fsck", &place.volume, &[]);
    let line = "known loss: /one: 4096 bytes at byte 4096, found on ";
    assert!(looked.code == 4 && looked.output.contains(line), "{looked:?}");
}

#[test]
fn what_is_lost_side_by_side_is_one_line_with_every_name_of_the_file() {
    for engine in ["ffs", "shadow"] {
        let place = Place::made("--raid5", 4, &["--engine", engine]);
        let one = letter(1);
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &one);
        link(&serving, "data", "one", "another");
        link(&serving, "data", "one", "third");
        put(&serving, "data", "two", &letter(2));
        assert!(serving.stop().success());
        // Across the end of a block of 32 KiB.
        for block in 6..9 {
            let (disk, at, parity) = place_of(&place, &one[block * 4096..][..4096]);
            flip(&place.disks[disk], at);
            flip(&place.disks[parity], at);
        }
        for is_served in [false, true] {
            let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
            let told = place.raid(&["scrub"]);
            assert_eq!(told.code, 1, "{}", told.errors);
            let lines: Vec<&str> =
                told.output.lines().filter(|line| line.starts_with("lost:")).collect();
            let line = "lost: /another (also /one, /third): 12288 bytes at byte 24576";
            assert_eq!(lines, [line], "{engine}, served: {is_served}: {}", told.errors);
            serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
        }
    }
}

#[test]
fn a_set_without_checksums_is_not_scrubbed() {
    let place = Place::made("--raid0", 2, &[]);
    let told = place.raid(&["scrub"]);
    assert_eq!(told.code, 2);
    assert!(told.errors.contains("a striped set keeps no checksums"), "{}", told.errors);
}

#[test]
fn a_spare_takes_the_place_of_a_member_by_itself() {
    let place = Place::new(4);
    let [one, two, three, spare] = [0, 1, 2, 3].map(|number| text(&place.disks[number]));
    let other = place.folder.path("other");
    wipe(&other);
    let level = ["--raid5", one, two, three, "--spare", spare, "--sparse"];
    on("mkfs", &place.volume, &level).good();
    assert_eq!(place.spares(), [place.disks[3].clone()]);
    on("mkfs", &place.disks[3], &[]).failed(1, "a spare of a set of disks");
    let small = place.folder.path("small");
    File::create(&small).and_then(|file| file.set_len(SIZE / 2)).expect("it is sparse");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    place.raid(&["spare", text(&small)]).failed(1, "stripes");
    place.raid(&["spare", spare]).failed(1, "is a spare already");
    place.raid(&["spare", text(&other)]).good();
    place.raid(&["fail", "1", "--force"]).good();
    put(&serving, "data", "two", &letter(2));
    place.wait(|place| place.status()["state"] == "clean");
    serving.kill();
    // A member that is missing at the next start is replaced, too; this uses the last spare.
    wipe(&place.disks[0]);
    place.set_spare_after(0);
    let serving = Serving::start(&[&place.volume], &[]);
    place.wait(|place| place.status()["state"] == "clean");
    put(&serving, "data", "three", &letter(3));
    let status = place.status();
    assert_eq!(status["slots"].as_array().map(Vec::len), Some(3), "{status}");
    assert!(place.spares().is_empty(), "{status}");
    serving.kill();
    wipe(&place.disks[2]);
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2)), ("three", &letter(3))]);
    let striped = place.folder.path("striped");
    let level = ["--raid0", one, two, "--spare", three, "--force"];
    on("mkfs", &striped, &level).failed(2, "raid0 has no use for a spare");
}

#[test]
fn a_set_that_was_brought_back_whole_from_a_backup_is_served_if_that_is_meant() {
    for (level, disks) in [("--raid1", 2), ("--raid5", 3)] {
        let place = Place::made(level, disks, &[]);
        let kept: Vec<PathBuf> =
            (0..disks).map(|number| place.folder.path(&format!("kept-{number}"))).collect();
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &letter(1));
        assert!(serving.stop().success());
        for (disk, kept) in place.disks.iter().zip(&kept) {
            fs::copy(disk, kept).expect("there is room");
        }
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "two", &letter(2));
        serving.kill();
        let last = place.folder.path("last");
        fs::copy(&place.disks[1], &last).expect("there is room");
        for (disk, kept) in place.disks.iter().zip(&kept) {
            fs::copy(kept, disk).expect("there is room");
        }
        let refused = on("serve", &place.volume, &["--listen", "127.0.0.1:0"]);
        let told = refused.errors.lines().last().expect("it says why").to_owned();
        assert!(refused.code == 1 && told.contains("disks that were found are older"), "{told}");
        assert!(told.contains("duramen serve --degraded") && told.contains("disk-1"), "{told}");
        let status = duramen(&["raid", "status", text(&place.volume), "--json"]);
        assert!(status.errors.contains("disks that were found are older"), "{}", status.errors);
        let serving = Serving::start(&[&place.volume], &["--degraded"]);
        put(&serving, "data", "three", &letter(3));
        assert!(serving.stop().success());
        assert_eq!(place.status()["state"], "clean");
        place.assert_whole(&[("one", &letter(1)), ("three", &letter(3))]);
        // The data that was given up is old from now on.
        fs::copy(&last, &place.disks[1]).expect("there is room");
        let serving = Serving::start(&[&place.volume], &[]);
        place.wait(|place| place.state_of(1) == "in_sync");
        assert!(serving.stop().success());
        place.assert_whole(&[("one", &letter(1)), ("three", &letter(3))]);
    }
}
