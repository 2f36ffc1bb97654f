//! Inspects a disk in the UFS2 format.

use std::collections::BTreeSet;

use block::{BlockDevice, Buffer, IoError};
use ffs::soft_flag;
use ufs2::layout::{
    BadSuperblock, ByteOrder, Geometry, ROOT_INODE, SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC,
    SUPERBLOCK_ROOM, Superblock, flags,
};
use ufs2::mark::{Mark, PolicyKind, policy_of};
use ufs2::mkfs::{self, Plan};

use crate::design::Design;
use crate::errors::{LookError, OpenError};
use crate::found::{Found, FoundUfs2};
use crate::made::MkfsOptions;

/// Offset of the magic number: the last field of a superblock, in the writer's byte order.
const MAGIC_AT: usize = SUPERBLOCK_ADDRESS as usize + 1372;

/// Flags about the use of a disk; hashes and state are reported separately.
const FLAG_NAMES: [(u32, &str); 7] = [
    (flags::SOFT_UPDATES, "soft-updates"),
    (flags::SOFT_UPDATES_JOURNAL, "soft-updates-journal"),
    (flags::POSIX_ACLS, "posix-acls"),
    (flags::NFS4_ACLS, "nfs4-acls"),
    (flags::MULTILABEL, "multilabel"),
    (flags::GJOURNAL, "gjournal"),
    (flags::TRIM, "trim"),
];

impl From<BadSuperblock> for LookError {
    fn from(bad: BadSuperblock) -> Self {
        let has_copies = match bad {
            BadSuperblock::Missing { .. } | BadSuperblock::Field { .. } => true,
            BadSuperblock::BigEndian
            | BadSuperblock::Ufs1
            | BadSuperblock::Unfinished
            | BadSuperblock::Short { .. } => false,
        };
        Self::NoVolume { why: bad.into(), has_copies }
    }
}

/// Identifies a disk by its first bytes.
pub(super) fn recognise(head: &[u8]) -> Option<&'static str> {
    let magic = head.get(MAGIC_AT..)?.first_chunk::<4>()?;
    let both = [SUPERBLOCK_MAGIC.to_le_bytes(), SUPERBLOCK_MAGIC.to_be_bytes()];
    both.contains(magic).then_some("a UFS2 file system")
}

/// Inspects the superblock.
pub(super) async fn look(device: &dyn BlockDevice) -> Result<Found, LookError> {
    let size_of_disk = device.geometry().size;
    if size_of_disk < SUPERBLOCK_ADDRESS + SUPERBLOCK_ROOM {
        return Err(BadSuperblock::Missing { found: 0 }.into());
    }
    let room = Buffer::zeroed(SUPERBLOCK_ROOM as usize);
    let mut bytes = device.read(SUPERBLOCK_ADDRESS, room).await?;
    let geometry = Geometry::parse_any_order(&mut bytes)?;
    let superblock = Superblock::of(&bytes);
    let doubt = geometry.verify_superblock(&bytes).err().map(|hash| hash.to_string());
    let found = found(superblock, &geometry, doubt);
    Ok(Found { missing: found.size.saturating_sub(size_of_disk), ..found })
}

fn found(superblock: &Superblock, geometry: &Geometry, doubt: Option<String>) -> Found {
    // The totals of a disk that is not clean are unreliable, and nothing here trusts them.
    let count = |total: i64| u64::try_from(total).unwrap_or(0);
    let totals = &superblock.totals;
    let fragments = count(totals.free_blocks.get())
        .saturating_mul(geometry.fragments_per_block)
        .saturating_add(count(totals.free_fragments.get()));
    let free_files = count(totals.free_inodes.get());
    let (flags, is_clean) = (superblock.flags.get(), superblock.clean == 1);
    let has_log = match Mark::of(superblock) {
        Mark::Policy(policy) => policy.has_log(),
        _ => true, // no policy of ours without a log used it
    };
    Found {
        number: superblock.number(),
        label: text(&superblock.volume_name),
        policy: has_soft_updates(superblock).then(|| PolicyKind::SoftUpdates.name()),
        is_clean,
        is_torn: flags & flags::NEEDS_FSCK != 0 && doubt.is_some(),
        cut_off_under: policy_of(superblock),
        needs_log: !is_clean && has_log,
        needs_check: flags & (flags::NEEDS_FSCK | flags::UNCLEAN) != 0,
        is_fresh: doubt.is_none() && is_fresh(superblock, geometry),
        has_anchors: None,
        only_read: (geometry.byte_order == ByteOrder::Big).then_some("big-endian"),
        doubt,
        size: geometry.byte_address(geometry.size),
        missing: 0, // assuming that the disk has all of it
        free: geometry.byte_address(fragments.min(geometry.size)),
        reserved: geometry.byte_address(geometry.data_size * geometry.reserve_percent / 100),
        block_size: geometry.block_size,
        // The first two inodes always count as used, but are never files.
        files: geometry.inode_count().saturating_sub(free_files).saturating_sub(2),
        directories: count(totals.directories.get()),
        free_files,
        last_written: superblock.time.get(),
        ufs2: Some(besides(superblock, geometry)),
    }
}

fn besides(superblock: &Superblock, geometry: &Geometry) -> FoundUfs2 {
    let hashes = [
        (geometry.superblock_hashes, "superblocks"),
        (geometry.group_hashes, "groups"),
        (geometry.inode_hashes, "inodes"),
    ];
    let flags = superblock.flags.get();
    FoundUfs2 {
        fragment_size: geometry.fragment_size,
        groups: geometry.group_count,
        byte_order: match geometry.byte_order {
            ByteOrder::Little => "little-endian",
            ByteOrder::Big => "big-endian",
        },
        check_hashes: hashes.into_iter().filter(|(kept, _)| *kept).map(|(_, name)| name).collect(),
        flags: FLAG_NAMES
            .into_iter()
            .filter(|&(bit, _)| flags & bit != 0)
            .map(|(_, name)| name)
            .collect(),
        last_mounted_at: text(&superblock.last_mount),
    }
}

/// Whether the superblock says soft updates: by its mark, if the volume was cut off.
fn has_soft_updates(superblock: &Superblock) -> bool {
    match Mark::of(superblock) {
        Mark::Policy(policy) => policy == PolicyKind::SoftUpdates,
        _ => superblock.flags.get() & flags::SOFT_UPDATES != 0,
    }
}

/// Whether it is empty and no server has served it since its creation.
fn is_fresh(superblock: &Superblock, geometry: &Geometry) -> bool {
    let totals = &superblock.totals;
    let in_use = geometry.inode_count().checked_sub(totals.free_inodes.get() as u64);
    superblock.clean == 1
        && superblock.time.get() == superblock.mount_time.get()
        && totals.directories.get() == 1
        && in_use == Some(ROOT_INODE + 1)
}

/// NUL-padded text of the superblock.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Identifies a file system that has lost its superblock: by a copy, if the file system has one of
/// the usual shapes.
pub(super) async fn find_lost(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    let size = device.geometry().size;
    for at in copies(size, device.geometry().logical_sector_size) {
        if at + SUPERBLOCK_ROOM > size {
            continue;
        }
        let mut bytes = device.read(at, Buffer::unfilled(SUPERBLOCK_ROOM as usize)).await?;
        if Geometry::parse_any_order(&mut bytes).is_ok() {
            return Ok(Some("a UFS2 file system that has lost its superblock"));
        }
    }
    Ok(None)
}

/// Offsets of superblock copies on a disk of `size` bytes, in the first groups and the last: if it
/// was made with any sizes of blocks and fragments, and defaults otherwise.
fn copies(size: u64, sector: u32) -> BTreeSet<u64> {
    let mut places = BTreeSet::new();
    for block_size in (12..=16).map(|power| 1 << power) {
        for fragment_size in (0..=3).map(|power| block_size >> power) {
            let (block_size, fragment_size) = (Some(block_size), Some(fragment_size));
            let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
            let planned = mkfs::plan(size, sector.into(), &options.of_ufs2(sector));
            let Ok(Plan { geometry, .. }) = planned else { continue };
            let groups = [0, 1, geometry.group_count - 1].into_iter();
            let groups = groups.filter(|&group| group < geometry.group_count);
            let place = |group| geometry.byte_address(geometry.backup_superblock_fragment(group));
            places.extend(groups.map(place));
        }
    }
    places
}

/// Records the policy of a volume at rest, as far as the format has a place for it.
pub(super) async fn note_policy(
    device: &dyn BlockDevice,
    design: &Design,
) -> Result<(), OpenError> {
    let is_soft = design.mark == Some(PolicyKind::SoftUpdates);
    let found = look(device).await.map_err(|error| OpenError::Other(error.into()))?;
    let was_soft = found.ufs2.is_some_and(|it| it.flags.contains(&FLAG_NAMES[0].1));
    if is_soft != was_soft {
        soft_flag::set(device, is_soft).await?;
    }
    Ok(())
}
