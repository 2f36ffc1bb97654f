//! Runs `duramen info` as people do.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::common::{Folder, freebsd_disk, on};

#[test]
fn a_disk_of_freebsd_is_described() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    let said = on("info", &image, &[]).good();
    for expected in ["clean", "4 MiB", "superblocks, groups, inodes", "soft-updates", "2024-08-04"]
    {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M", "--label", "heart"]).good();
    let said = on("info", &volume, &["--json"]).good();
    let info: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(info["label"], "heart");
    assert_eq!(info["policy"], "log");
    assert_eq!(info["engine"], "ffs");
    assert_eq!(info["size_bytes"], 16 << 20);
    assert!(info["free_bytes"].as_u64() < Some(16 << 20) && info["free_bytes"].is_number());
    assert!(info["reserved_bytes"].as_u64() > Some(1 << 20), "{info}");
    assert_eq!(info["block_size_bytes"], 32_768);
    assert_eq!(info["fragment_size_bytes"], 4096);
    assert_eq!(info["files"], 1);
    assert_eq!(info["directories"], 1);
    assert_eq!(info["state"], "clean");
    assert_eq!(info["superblock_hash_fits"], true);
}

#[test]
fn a_disk_that_was_cut_short_is_not_called_clean() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    on("mkfs", &image, &["--bare", "--size", "16M"]).good();
    let file = File::options().write(true).open(&image).expect("it was made");
    for (size, missing) in [((16 << 20) - 512, 512), (1 << 20, 15 << 20)] {
        file.set_len(size).expect("it is a file");
        let said = on("info", &image, &[]).good();
        assert!(said.contains("cut short") && !said.contains("clean"), "{said}");
        let said = on("info", &image, &["--json"]).good();
        let info: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
        assert_eq!(info["state"], "cut_short");
        assert_eq!(info["missing_bytes"], missing);
    }
    file.set_len(16 << 20).expect("it is a file");
    assert!(on("info", &image, &[]).good().contains("clean"));
}

#[test]
fn what_is_no_volume_is_refused_with_its_name() {
    let folder = Folder::new();
    on("info", &folder.path("nothing"), &[]).failed(1, "nothing is no volume");
    on("info", &folder.path(""), &[]).failed(1, "volume.toml");

    let noise = folder.path("noise");
    fs::write(&noise, vec![0xaa; 1 << 20]).expect("there is room");
    on("info", &noise, &[]).failed(1, "no UFS2 superblock");

    let mut far = vec![0; 1 << 20];
    far[(256 << 10) + 1372..][..4].copy_from_slice(&0x1954_0119_u32.to_le_bytes());
    let image = folder.path("far");
    fs::write(&image, far).expect("there is room");
    on("info", &image, &[]).failed(1, "its UFS2 superblock is at byte 262144");

    let short = folder.path("short");
    fs::write(&short, [0; 512]).expect("there is room");
    on("info", &short, &[]).failed(1, "no UFS2 superblock");
}

#[test]
fn a_disk_of_the_other_byte_order_is_described_as_the_same() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("big", &folder) else { return };
    let said = on("info", &image, &[]).good();
    let expected = "clean, 4 MiB, soft-updates, big-endian (it can only be read)";
    for expected in expected.split(", ") {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    assert!(!said.contains("does not fit"), "{said}");
}

#[test]
fn settings_that_make_no_sense_are_refused_with_their_place() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    fs::write(volume.join("volume.toml"), "policy = \"luck\"\n").expect("there is room");
    let run = on("info", &volume, &[]);
    assert_eq!(run.code, 1);
    assert!(run.errors.contains("volume.toml") && run.errors.contains("luck"), "{}", run.errors);
}

#[test]
fn a_wrong_value_is_named_and_what_else_stands_there_is_left_alone() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--engine", "shadow", "--size", "16M"]).good();
    let settings = volume.join("volume.toml");
    let with = |lines: &str| {
        let text = format!("engine = \"shadow\"\n[snapshots]\n{lines}\n");
        fs::write(&settings, text).expect("there is room");
        on("info", &volume, &[])
    };
    let wrong = [
        ("hourly = 0", "snapshots.hourly is 0; expected: a number from 1 to 10000; correct that"),
        ("daily = 3\nhourly = \"x\"", "snapshots.hourly is \"x\"; expected: a number from 1"),
        ("weekly = 3", "line 3, column 1: unknown field `weekly`, expected `hourly` or `daily`;"),
    ];
    for (lines, expected) in wrong {
        let told = with(lines).failed(1, expected);
        assert!(
            told.ends_with("; correct that, and leave the other lines as they are\n"),
            "{told}"
        );
    }
    with("hourly = 1").good();
}

#[test]
fn settings_without_an_engine_are_of_the_first_one_and_an_unknown_one_is_told() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let settings = volume.join("volume.toml");
    for policy in ["log", "sync"] {
        fs::write(&settings, format!("policy = \"{policy}\"\n")).expect("there is room");
        let said = on("info", &volume, &["--json"]).good();
        let info: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
        assert_eq!((&info["engine"], &info["policy"]), (&"ffs".into(), &policy.into()));
    }
    fs::write(&settings, "policy = \"log\"\nengine = \"mirror\"\n").expect("there is room");
    for (command, code) in [("info", 1), ("fsck", 8), ("ls", 1), ("serve", 1)] {
        let told = on(command, &volume, &[]).failed(code, "no engine 'mirror'");
        assert!(
            told.contains("at line 2: ") && told.contains("these: ffs, shadow, lfs;"),
            "{told}"
        );
    }
}

#[test]
fn a_damaged_superblock_is_told_from_a_good_one() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    on("mkfs", &image, &["--bare", "--size", "16M"]).good();
    let file = File::options().write(true).open(&image).expect("it is there");
    // The label: it affects nothing but the hash.
    file.write_all_at(b"x", 65_536 + 680).expect("there is room");
    assert!(on("info", &image, &[]).good().contains("does not fit its own"));
    // The size of a block.
    file.write_all_at(&[7], 65_536 + 48).expect("there is room");
    on("info", &image, &[]).failed(1, "fs_bsize");
}
