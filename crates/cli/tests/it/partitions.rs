//! A disk with partitions that is named as a whole: messages name the partition with a volume.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{Folder, on};

const SECTOR: u64 = 512;
/// First sector and number of sectors of the partition.
const FIRST: u64 = 2048;
const SECTORS: u64 = (16 << 20) / SECTOR;

/// A disk with a volume in a partition, and no table yet.
fn disk(folder: &Folder) -> (PathBuf, File) {
    let (part, whole) = (folder.path("part.img"), folder.path("whole.img"));
    on("mkfs", &part, &["--bare", "--size", "16M"]).good();
    let file = File::create(&whole).expect("there is room");
    file.set_len(32 << 20).expect("there is room");
    let content = fs::read(&part).expect("it was made");
    file.write_all_at(&content, FIRST * SECTOR).expect("there is room");
    (whole, file)
}

/// Asserts that every command that opens the disk names the partition.
fn names(disk: &Path, partition: &str) {
    let expected = format!("in its partition {partition} is a volume of engine ffs, 16 MiB from");
    on("info", disk, &[]).failed(1, &expected);
    on("serve", disk, &["--listen", "127.0.0.1:0"]).failed(1, &expected);
    on("ls", disk, &[]).failed(1, &expected);
    let checked = on("fsck", disk, &[]);
    assert_eq!(checked.code, 8);
    assert!(checked.errors.contains(&expected), "{}", checked.errors);
    let place = format!("--offset {} --sizelimit {}'", FIRST * SECTOR, SECTORS * SECTOR);
    assert!(checked.errors.contains(&place), "{}", checked.errors);
}

#[test]
fn one_of_a_gpt_is_named() {
    let folder = Folder::new();
    let (path, file) = disk(&folder);
    let mut header = [0; 512];
    header[..8].copy_from_slice(b"EFI PART");
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    file.write_all_at(&header, SECTOR).expect("it is open");
    // A partition for the loader, then the volume, which is recognised by its contents.
    for (number, first, sectors) in [(1_u64, 34, 1024), (2, FIRST, SECTORS)] {
        let mut entry = [0; 128];
        entry[..16].fill(number as u8);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&(first + sectors - 1).to_le_bytes());
        file.write_all_at(&entry, 2 * SECTOR + (number - 1) * 128).expect("it is open");
    }
    names(&path, "2");
    // An entry that exceeds the disk is ignored.
    file.write_all_at(&u64::MAX.to_le_bytes(), 2 * SECTOR + 128 + 40).expect("it is open");
    let told = on("info", &path, &[]);
    assert!(!told.errors.contains("partition"), "{}", told.errors);
}

#[test]
fn one_of_an_mbr_and_of_a_slice_is_named() {
    let folder = Folder::new();
    let (path, file) = disk(&folder);
    let mbr = |start: u64, sectors: u64| {
        let mut sector = [0; 512];
        sector[446 + 4] = 0xa5;
        sector[446 + 8..446 + 12].copy_from_slice(&(start as u32).to_le_bytes());
        sector[446 + 12..446 + 16].copy_from_slice(&(sectors as u32).to_le_bytes());
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        file.write_all_at(&sector, 0).expect("it is open");
    };
    mbr(FIRST, SECTORS);
    names(&path, "s1");
    // A slice that begins earlier, with the volume as its first partition behind a label.
    let slice = 1024;
    mbr(slice, FIRST + SECTORS - slice);
    let mut label = [0; 512];
    for at in [0, 132] {
        label[at..at + 4].copy_from_slice(&0x8256_4557_u32.to_le_bytes());
    }
    label[138] = 3;
    let whole = FIRST + SECTORS - slice;
    for (index, first, sectors) in [(0, FIRST, SECTORS), (2, slice, whole)] {
        let at = 148 + index * 16;
        label[at..at + 4].copy_from_slice(&(sectors as u32).to_le_bytes());
        label[at + 4..at + 8].copy_from_slice(&(first as u32).to_le_bytes());
    }
    file.write_all_at(&label, (slice + 1) * SECTOR).expect("it is open");
    names(&path, "s1a");
}
