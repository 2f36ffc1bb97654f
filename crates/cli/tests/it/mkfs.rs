//! `duramen mkfs`, run as people run it.

use std::fs;

use crate::common::{Folder, assert_clean, duramen, on};

#[test]
fn a_new_name_becomes_a_folder_with_settings_and_a_clean_disk() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let said = on("mkfs", &volume, &["--size", "64M", "--label", "heart"]).good();
    assert!(said.contains("64 MiB of UFS2") && said.contains("policy log"), "{said}");
    assert_clean(&volume.join("disk.img"));
    let settings = fs::read_to_string(volume.join("volume.toml")).expect("it was written");
    assert!(settings.contains("policy = \"log\""), "{settings}");
    assert!(on("info", &volume, &[]).good().contains("heart"));
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
    use std::os::unix::fs::MetadataExt;

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
    assert!(on("info", &volume, &["--json"]).good().contains("\"fragment_size\": 32768"));
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
    on("mkfs", &folder.path("no/such/place"), &["--size", "16M"]).failed(1, "no/such/place");
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
