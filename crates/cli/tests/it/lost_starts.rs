//! `mkfs` and `info` on disks whose first blocks are lost, and on disks that were never written.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, bytes_read, duramen, follow, on};

const SIZE: u64 = 64 << 20;
/// Bytes of the anchors at each end of the disk.
const ANCHORS: u64 = 8192;

/// Creates a volume on a bare image.
fn made(folder: &Folder, words: &[&str]) -> PathBuf {
    let image = folder.path("disk.img");
    on("mkfs", &image, &[&["--bare", "--size", "64M"], words].concat()).good();
    image
}

/// Writes zeros.
fn wipe(image: &Path, at: u64, length: u64) {
    let file = OpenOptions::new().write(true).open(image).expect("it is ours");
    file.write_all_at(&vec![0; length as usize], at).expect("there is room");
}

fn told(image: &Path) -> Value {
    serde_json::from_str(&on("info", image, &["--json"]).good()).expect("JSON")
}

#[test]
fn a_volume_that_has_lost_its_anchors_is_overwritten_only_by_force() {
    for engine in ["ffs", "shadow"] {
        let folder = Folder::new();
        let image = made(&folder, &["--engine", "shadow"]);
        for end in [0, SIZE - ANCHORS] {
            wipe(&image, end, ANCHORS);
            let before = fs::read(&image).expect("it is there");
            let said = on("mkfs", &image, &["--engine", engine]);
            let said = said.failed(1, "holds a volume of engine shadow that has lost anchors");
            assert!(said.contains("say --force"), "{said}");
            let (set, other) = (folder.path("set"), folder.path("other.img"));
            let disks = ["--raid1", image.to_str().expect("plain"), other.to_str().expect("plain")];
            let words = [&disks[..], &["--size", "64M", "--engine", engine]].concat();
            on("mkfs", &set, &words).failed(1, "holds a volume of engine shadow");
            assert!(!other.exists() && !set.exists(), "nothing is left");
            assert!(fs::read(&image).expect("it is there") == before, "it was changed");
        }
        on("mkfs", &image, &["--force", "--engine", engine]).good();
        assert_eq!(told(&image)["engine"], engine);
        assert_eq!(on("fsck", &image, &[]).code, 0);
    }
}

#[test]
fn a_file_system_that_has_lost_its_superblock_is_overwritten_only_by_force() {
    let shapes = [
        &[][..],
        &["--block-size", "8K"],
        &["--block-size", "64K", "--fragment-size", "32K"],
        &["--block-size", "4K", "--fragment-size", "512"],
    ];
    for words in shapes {
        let folder = Folder::new();
        let image = made(&folder, words);
        wipe(&image, 0, 1 << 20);
        let said = on("mkfs", &image, &["--engine", "shadow"]);
        said.failed(1, "holds a UFS2 file system that has lost its superblock");
        on("mkfs", &image, &[]).failed(1, "holds a UFS2 file system");
        on("mkfs", &image, &["--force", "--engine", "shadow"]).good();
        assert_eq!(told(&image)["engine"], "shadow");
    }
}

#[test]
fn nothing_is_looked_for_on_a_disk_that_was_never_written() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
    let sparse = |name: &str| {
        let file = File::create(folder.path(name)).expect("a new file");
        file.set_len(SIZE).expect("it is sparse");
        path(name)
    };
    let [hole, shadow, one, other] = ["hole", "shadow", "one", "other"].map(sparse);
    let [new, set, served] = ["new", "set", "served"].map(path);
    // No host here has this address.
    let nowhere = ["--listen", "192.0.2.1:1"];
    let runs: [&[&str]; 5] = [
        &["mkfs", &new, "--size", "64M"],
        &["mkfs", &hole],
        &["mkfs", &shadow, "--engine", "shadow"],
        &["mkfs", &set, "--raid1", &one, &other, "--engine", "shadow"],
        &[&["serve", &served, "--create", "64M"], &nowhere[..]].concat(),
    ];
    let few = SIZE / 4; // the log of a set is read
    for words in runs {
        let Some(read) = bytes_read(words) else { return };
        assert!(read < few, "{words:?} has read {read} bytes");
    }
    for made in [&new, &hole, &shadow, &set] {
        assert_eq!(duramen(&["info", made]).code, 0, "{made} was made");
    }
    // Written zeros may be all that is left in front of lost data.
    let zeros = path("zeros.img");
    fs::write(&zeros, vec![0; SIZE as usize]).expect("there is room");
    let read = bytes_read(&["mkfs", &zeros]).expect("it was counted before");
    assert!((SIZE..2 * SIZE).contains(&read), "{read} bytes are read, each once");
    assert_eq!(duramen(&["info", &zeros]).code, 0, "{zeros} was made");
}

#[test]
fn a_volume_whose_anchors_are_lost_tells_so_until_they_are_there_again() {
    let folder = Folder::new();
    let image = made(&folder, &["--engine", "shadow", "--label", "apples"]);
    let (whole, plain) = (told(&image), folder.path("plain.img"));
    assert_eq!(whole["has_anchors"], true);
    on("mkfs", &plain, &["--bare", "--size", "16M"]).good();
    assert_eq!(told(&plain).get("has_anchors"), Some(&Value::Null));
    let line = |image: &Path| {
        let said = on("info", image, &[]).good();
        said.lines().find(|line| line.starts_with("anchors ")).map(str::to_owned)
    };
    assert_eq!(line(&image), None);
    wipe(&image, 0, ANCHORS);
    assert_eq!((told(&image)["has_anchors"].clone(), line(&image)), (true.into(), None));
    let lose = || [0, SIZE - ANCHORS].map(|end| wipe(&image, end, ANCHORS));
    lose();
    let lost = told(&image);
    assert_eq!((&lost["has_anchors"], &lost["state"]), (&false.into(), &"unclean".into()));
    assert_eq!((&lost["label"], &lost["id"]), (&"apples".into(), &whole["id"]));
    let said = line(&image).expect("it is told");
    assert!(said.contains("lost, all four"), "{said}");
    assert_eq!(follow(&said, "duramen fsck").code, 1, "it was repaired");
    assert_eq!((told(&image)["has_anchors"].clone(), line(&image)), (true.into(), None));
    lose();
    let serving = Serving::start(&[&image], &[]);
    put(&serving, "disk", "file", b"kept");
    assert_eq!(told(&image)["has_anchors"], true);
    assert!(serving.stop().success());
    assert_eq!((told(&image)["has_anchors"].clone(), line(&image)), (true.into(), None));
}
