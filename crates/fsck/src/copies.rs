//! Pass 8: the backup superblocks of the groups, and the recovery record that locates them when the
//! primary is gone.
//!
//! A copy is written when the file system is made, tuned or checked, never while it is mounted. So
//! counts, times, settings and the mount point of a copy may be old. A copy must have the shape of
//! the file system: then it can take the place of the primary.

use futures::stream::{self, StreamExt};
use ufs2::layout::{
    BadSuperblock, ByteOrder, Geometry, RECOVERY_RECORD_ADDRESS, RecoveryRecord,
    SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC, SUPERBLOCK_ROOM, Superblock, flags, hashes,
};
use ufs2::mark;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::overlay::Overlay;
use super::superblock::candidates::{fits_hash, little_endian, parse, read_at, turned};
use super::superblock::fields::{spare_ranges, static_fields};
use super::{CheckError, Invariant, Log, Place, Severity, unreadable};

/// The largest sector of a device, which may hold the recovery record.
const SECTOR_ROOM: u64 = 4096;
/// Copies that are read at once.
const READS_IN_FLIGHT: usize = 64;

/// The first error of a copy, and the number of errors.
struct Wrong {
    name: String,
    found: String,
    expected: String,
    count: usize,
}

/// Compares every copy and the recovery record with `block`, the superblock as it will be:
/// little-endian, and repaired.
///
/// # Errors
/// [`CheckError::Device`].
pub(super) async fn check_copies(
    disk: &mut Overlay<'_>,
    geometry: &Geometry,
    block: &[u8],
    log: &mut Log,
) -> Result<(), CheckError> {
    let mut broken = Vec::new();
    {
        let reader = &*disk;
        let mut copies = stream::iter(0..geometry.group_count)
            .map(|group| async move {
                let address = address_of(geometry, group);
                read_at(reader, address, SUPERBLOCK_ROOM as usize).await
            })
            .buffered(READS_IN_FLIGHT);
        let mut group = 0;
        while let Some(raw) = copies.next().await {
            let wrong = match raw? {
                Some(raw) => judge(geometry, block, &raw, address_of(geometry, group)),
                None => None, // no group lies behind the end of the disk
            };
            broken.extend(wrong.map(|wrong| (group, wrong)));
            group += 1;
        }
    }
    for group in 0..geometry.group_count {
        let start = address_of(geometry, group);
        let range = start..start + geometry.superblock_size;
        disk.want(range.clone());
        let place = |_| Place::group(group).named("copy of the superblock");
        unreadable::note(disk, log, range, Severity::Repairable, place);
    }
    for (group, wrong) in broken {
        if find(log, group, &wrong) {
            let address = address_of(geometry, group);
            disk.put(address, &copy_of(geometry, block, address)).await?;
        }
    }
    check_recovery_record(disk, geometry, block, log).await
}

fn address_of(geometry: &Geometry, group: u64) -> u64 {
    geometry.byte_address(geometry.backup_superblock_fragment(group))
}

fn find(log: &mut Log, group: u64, wrong: &Wrong) -> bool {
    let mut expected = wrong.expected.clone();
    if wrong.count > 1 {
        expected = format!("{expected}; {} more are wrong", wrong.count - 1);
    }
    let place = Place::group(group).named(wrong.name.as_str());
    let (invariant, severity) = (Invariant::Backup, Severity::Repairable);
    log.find(invariant, severity, place, &wrong.found, expected, "written anew")
}

/// Checks the copy at `address`.
fn judge(geometry: &Geometry, block: &[u8], raw: &[u8], address: u64) -> Option<Wrong> {
    let copy = little_endian(raw, geometry.byte_order);
    let mut wrong: Option<Wrong> = None;
    let mut add = |name: &str, found: String, expected: String| match &mut wrong {
        Some(wrong) => wrong.count += 1,
        None => wrong = Some(Wrong { name: name.to_owned(), found, expected, count: 1 }),
    };
    for field in static_fields() {
        let (found, expected) = (field.get(&copy), field.get(block));
        if found != expected {
            add(field.name, found.to_string(), expected.to_string());
        }
    }
    for range in spare_ranges(&copy, geometry) {
        if copy[range.clone()].iter().any(|&byte| byte != 0) {
            let name = format!("bytes {} to {}", range.start, range.end - 1);
            add(&name, "other bytes".to_owned(), "zeros".to_owned());
        }
    }
    let own = Superblock::of(&copy).own_address.get();
    if ![0, SUPERBLOCK_ADDRESS as i64, address as i64].contains(&own) {
        add("fs_sblockactualloc", own.to_string(), format!("0 or {address}"));
    }
    // Only a copy that parses has fields by which its hash can be judged.
    match parse(&copy, geometry.byte_order) {
        Ok(own) => {
            let stated = Superblock::of(&copy);
            let kept = stated.check_hashes.get();
            if kept & !hashes::ALL != 0 {
                add("fs_metackhash", format!("{kept:#x}"), format!("bits of {:#x}", hashes::ALL));
            }
            // A hash that is not kept is zero, or was kept once.
            let may_be_none = !own.superblock_hashes && stated.check_hash.get() == 0;
            if !may_be_none && !fits_hash(raw, &own) {
                add("fs_ckhash", "another".to_owned(), "that of its bytes".to_owned());
            }
        }
        Err(BadSuperblock::Field { field, found, expected }) => {
            add(field, found.to_string(), expected.to_string());
        }
        Err(error) => add("fs_magic", error.to_string(), "a superblock".to_owned()),
    }
    wrong
}

/// The copy for an address, as it is on the disk, clean as a copy always is.
fn copy_of(geometry: &Geometry, block: &[u8], address: u64) -> Vec<u8> {
    let mut copy = block.to_vec();
    let superblock = Superblock::of_mut(&mut copy);
    superblock.own_address.set(address as i64);
    superblock.clean = 1;
    if !geometry.superblock_hashes {
        superblock.check_hash.set(0);
    }
    let unclean = flags::UNCLEAN | flags::NEEDS_FSCK;
    superblock.flags.set(superblock.flags.get() & !unclean);
    if mark::owner(superblock).is_some() {
        superblock.last_mount.fill(0);
    }
    geometry.superblock_on_disk(&copy)
}

/// Compares the recovery record. There may be none, and other bytes in its place.
async fn check_recovery_record(
    disk: &mut Overlay<'_>,
    geometry: &Geometry,
    block: &[u8],
    log: &mut Log,
) -> Result<(), CheckError> {
    let size = size_of::<RecoveryRecord>();
    let Some(bytes) = read_at(disk, RECOVERY_RECORD_ADDRESS, size).await? else { return Ok(()) };
    let range = RECOVERY_RECORD_ADDRESS..RECOVERY_RECORD_ADDRESS + size as u64;
    let missing = disk.lacks(range.clone());
    disk.want(range.clone());
    let sector = range.start - range.start % SECTOR_ROOM..range.end;
    unreadable::note(disk, log, sector, Severity::Repairable, |_| Place::field("recovery record"));
    let Ok(mut record) = RecoveryRecord::read_from_bytes(&bytes) else { return Ok(()) };
    if geometry.byte_order == ByteOrder::Big {
        record = turned(&record);
    }
    let s = Superblock::of(block);
    let right = RecoveryRecord {
        magic: U32::new(SUPERBLOCK_MAGIC),
        sector_shift: s.sector_shift,
        backup_offset: s.backup_offset,
        fragments_per_group: s.fragments_per_group,
        group_count: s.group_count,
    };
    let numbers = |record: &RecoveryRecord| {
        [
            ("fsr_magic", i64::from(record.magic.get())),
            ("fsr_fsbtodb", record.sector_shift.get().into()),
            ("fsr_sblkno", record.backup_offset.get().into()),
            ("fsr_fpg", record.fragments_per_group.get().into()),
            ("fsr_ncg", record.group_count.get().into()),
        ]
    };
    let pairs: Vec<_> = numbers(&record).into_iter().zip(numbers(&right)).collect();
    let agreeing = pairs[1..].iter().filter(|(found, right)| found == right).count();
    if record.magic != right.magic && agreeing < 2 && !missing {
        return Ok(());
    }
    let mut wanted = false;
    for ((name, found), (_, expected)) in pairs {
        if found != expected {
            let place = Place::field(name);
            let severity = Severity::Repairable;
            wanted |=
                log.find(Invariant::Recovery, severity, place, found, expected, "written anew");
        }
    }
    if wanted {
        let record = if geometry.byte_order == ByteOrder::Big { turned(&right) } else { right };
        disk.put(RECOVERY_RECORD_ADDRESS, record.as_bytes()).await?;
    }
    Ok(())
}
