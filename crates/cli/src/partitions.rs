//! Volumes in the partitions of a disk, for a user who names the whole disk instead.
//!
//! A GPT, an MBR and the label of a FreeBSD slice are read. A table only gives candidates: a
//! partition is named only if it holds a volume.

use std::fmt;

use block::{BlockDevice, Buffer};
use designs::{DESIGNS, Found};

use crate::reader::Reader;
use crate::size::show_size;

/// Sector sizes that a GPT may use, in bytes.
const SECTORS: [u64; 2] = [512, 4096];
/// Sector size that an MBR and the label of a slice use, in bytes.
const SECTOR: u64 = 512;
/// Maximum number of GPT partitions that are inspected.
const MOST: u32 = 128;
/// Magic number of a slice's label, and the maximum number of its partitions.
const LABEL: [u8; 4] = 0x8256_4557_u32.to_le_bytes();
const OF_LABEL: usize = 8;
/// Index of the partition that is the whole slice: offsets of the others have the same origin as
/// its own.
const WHOLE: usize = 2;

/// A partition with a volume in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Name of the partition in its table.
    name: String,
    start: u64,
    size: u64,
    /// Engine of the volume in the partition.
    engine: &'static str,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, start, size, engine } = self;
        let shown = show_size(*size);
        write!(
            f,
            "in its partition {name} is a volume of engine {engine}, {shown} from byte {start} on: \
             name the device of that partition; 'losetup --find --show --offset {start} \
             --sizelimit {size}' makes one of an image"
        )
    }
}

/// Finds the first partition of a disk that holds a volume.
pub(crate) async fn partition_on(device: &dyn BlockDevice) -> Option<Partition> {
    for (name, start, size) in all_on(device).await {
        let fits = start.checked_add(size).is_some_and(|end| end <= device.geometry().size);
        let sector = u64::from(device.geometry().logical_sector_size);
        let is_whole = start.is_multiple_of(sector) && size.is_multiple_of(sector);
        if start == 0 || !fits || !is_whole {
            continue;
        }
        let part = Reader::of_part(device, start, size);
        if let Some((design, Found { has_anchors: None | Some(true), .. })) =
            DESIGNS.look(&part).await
        {
            return Some(Partition { name, start, size, engine: design.engine });
        }
    }
    None
}

/// Name, start and size of each partition in a table of the disk.
async fn all_on(device: &dyn BlockDevice) -> Vec<(String, u64, u64)> {
    for sector in SECTORS {
        let all = of_gpt(device, sector).await;
        if !all.is_empty() {
            return all;
        }
    }
    let mut all = Vec::new();
    for (number, start, size) in of_mbr(device).await {
        let slice = format!("s{number}");
        all.extend(of_label(device, &slice, start).await);
        all.push((slice, start, size));
    }
    all.extend(of_label(device, "", 0).await);
    all
}

async fn of_gpt(device: &dyn BlockDevice, sector: u64) -> Vec<(String, u64, u64)> {
    let mut all = Vec::new();
    let Some(header) = read(device, sector, 512).await else { return all };
    if !header.starts_with(b"EFI PART") {
        return all;
    }
    let each = u64::from(u32_at(&header, 84));
    let table = u64_at(&header, 72).saturating_mul(sector);
    if !(128..=4096).contains(&each) {
        return all;
    }
    for number in 1..=u32_at(&header, 80).min(MOST) {
        let at = table.saturating_add(u64::from(number - 1) * each);
        let Some(entry) = read(device, at, 128).await else { break };
        let (first, last) = (u64_at(&entry, 32), u64_at(&entry, 40));
        if entry[..16].iter().any(|&byte| byte != 0) && first <= last {
            let sectors = (last - first).saturating_add(1);
            let (start, size) = (first.saturating_mul(sector), sectors.saturating_mul(sector));
            all.push((number.to_string(), start, size));
        }
    }
    all
}

async fn of_mbr(device: &dyn BlockDevice) -> Vec<(usize, u64, u64)> {
    let Some(first) = read(device, 0, SECTOR).await else { return Vec::new() };
    if first[510..] != [0x55, 0xaa] {
        return Vec::new();
    }
    let entries = (1..=4).zip(first[446..510].chunks_exact(16));
    let place = |(number, entry): (usize, &[u8])| {
        let [start, sectors] = [8, 12].map(|at| u64::from(u32_at(entry, at)));
        (sectors > 0).then_some((number, start * SECTOR, sectors * SECTOR))
    };
    entries.filter_map(place).collect()
}

/// Partitions of the label in a slice, or on a disk without slices, that begins at `start`.
async fn of_label(device: &dyn BlockDevice, slice: &str, start: u64) -> Vec<(String, u64, u64)> {
    let Some(label) = read(device, start + SECTOR, SECTOR).await else { return Vec::new() };
    if label[..4] != LABEL || label[132..136] != LABEL {
        return Vec::new();
    }
    let entry = |index: usize| -> [u64; 2] {
        [4, 0].map(|at| u64::from(u32_at(&label, 148 + index * 16 + at)) * SECTOR)
    };
    let origin = entry(WHOLE)[0];
    let count = usize::from(u16::from_le_bytes([label[138], label[139]])).min(OF_LABEL);
    let place = |index: usize| {
        let [at, size] = entry(index);
        let name = char::from(b'a' + index as u8);
        let is_part = size > 0 && index != WHOLE && at >= origin;
        is_part.then(|| (format!("{slice}{name}"), start + (at - origin), size))
    };
    (0..count).filter_map(place).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within what was read"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within what was read"))
}

/// Reads bytes of a disk, regardless of its sectors. `None` if they lie beyond its end or are
/// unreadable.
async fn read(device: &dyn BlockDevice, offset: u64, length: u64) -> Option<Vec<u8>> {
    let sector = u64::from(device.geometry().logical_sector_size);
    let (start, end) = (offset / sector * sector, offset.checked_add(length)?);
    let end = end.checked_next_multiple_of(sector)?;
    let found = device.read(start, Buffer::zeroed((end - start) as usize)).await.ok()?;
    let skipped = (offset - start) as usize;
    Some(found[skipped..skipped + length as usize].to_vec())
}
