//! Judges the superblock field by field, once it has the shape of the file system on the disk.

use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, Superblock, flags as bits, hashes as kinds};
use ufs2::mark::{self, Mark};

use super::candidates::{self, little_endian, parse};
use super::choose::Chosen;
use super::evidence;
use super::fields::{Class, FIELDS, SETTINGS, field, spare_ranges};
use crate::overlay::Overlay;
use crate::{CheckError, Invariant, Log, Place, Severity};

/// FreeBSD's kernel counts up to 8 bytes more than the maps of a group fill ...
const HEADER_PADDING: u64 = 8;
/// ... and a cluster sum 0 that does not exist.
const NO_SUM: u64 = 4;

/// A superblock during repair.
pub(super) struct Mender<'a, 'd> {
    pub(super) disk: &'a Overlay<'d>,
    pub(super) log: &'a mut Log,
    pub(super) chosen: &'a Chosen<'a>,
    /// The system that had the volume last.
    pub(super) mark: &'a Mark,
    /// Little-endian.
    pub(super) block: Vec<u8>,
}

impl Mender<'_, '_> {
    /// The geometry of the superblock as it is now.
    pub(super) fn geometry(&self) -> Result<Geometry, CheckError> {
        Ok(parse(&self.block, self.chosen.best().geometry.byte_order)?)
    }

    /// Reports a wrong field, and sets it.
    fn set(
        &mut self,
        (invariant, severity): (Invariant, Severity),
        name: &str,
        value: i128,
        expected: impl ToString,
    ) -> bool {
        let field = field(name);
        let found = field.get(&self.block);
        let found = match field.class {
            Class::Flags => format!("{found:#x}"),
            _ => found.to_string(),
        };
        let repair = "set";
        let wanted =
            self.log.find(invariant, severity, Place::field(name), found, expected, repair);
        if wanted {
            field.set(&mut self.block, value);
        }
        wanted
    }

    /// Checks settings for their range. An illegal one comes from a backup, or becomes the default.
    pub(super) fn settings(&mut self) {
        for setting in SETTINGS {
            if (setting.is_legal)(Superblock::of(&self.block)) {
                continue;
            }
            let field = field(setting.name);
            let backups = self.chosen.copies.iter().filter(|copy| copy.place != SUPERBLOCK_ADDRESS);
            let value = backups.map(|copy| field.get(&copy.block)).find(|&value| {
                let mut tried = self.block.clone();
                field.set(&mut tried, value);
                (setting.is_legal)(Superblock::of(&tried))
            });
            let value = value.unwrap_or_else(|| (setting.default)(Superblock::of(&self.block)));
            let kind = (Invariant::SuperblockFields, Severity::Repairable);
            self.set(kind, setting.name, value, setting.expected);
        }
    }

    /// Checks derived fields that differ between copies, or have more than one legal value.
    pub(super) fn derived(&mut self) -> Result<(), CheckError> {
        let kind = (Invariant::SuperblockDerived, Severity::Repairable);
        for field in FIELDS.iter().filter(|field| field.class == Class::Zero) {
            if field.get(&self.block) != 0 {
                self.set(kind, field.name, 0, 0);
            }
        }
        let geometry = self.geometry()?;
        let sizes = group_block_sizes(&geometry);
        if !sizes.contains(&geometry.group_block_size) {
            let expected = format!("{} or {}", sizes[0], sizes[1]);
            let fitting = sizes.into_iter().rev().find(|&size| size <= geometry.block_size);
            let size = fitting.unwrap_or(geometry.block_size);
            self.set(kind, "fs_cgsize", size.into(), expected);
        }
        let own = Superblock::of(&self.block).own_address.get();
        if ![0, SUPERBLOCK_ADDRESS as i64].contains(&own) {
            let address = i128::from(SUPERBLOCK_ADDRESS);
            self.set(kind, "fs_sblockactualloc", address, address);
        }
        let device = Superblock::of(&self.block).device_size.get();
        if device != 0 && i128::from(device) < i128::from(geometry.size) {
            let kind = (Invariant::SuperblockDerived, Severity::Note);
            let size = self.disk.size() / geometry.fragment_size;
            let expected = format!("0, or at least {}", geometry.size);
            self.set(kind, "fs_providersize", size.into(), expected);
        }
        Ok(())
    }

    /// Checks that meaningless bytes are zero.
    pub(super) fn spare(&mut self) -> Result<(), CheckError> {
        let geometry = self.geometry()?;
        for range in spare_ranges(&self.block, &geometry) {
            let bytes = &mut self.block[range.clone()];
            let Some(first) = bytes.iter().position(|&byte| byte != 0) else { continue };
            let count = bytes.iter().filter(|&&byte| byte != 0).count();
            let place = Place::default().offset((range.start + first) as u64);
            let found = format!("{count} bytes that are not zero, of {}", range.len());
            let (invariant, severity) = (Invariant::SuperblockSpare, Severity::Repairable);
            if self.log.find(invariant, severity, place, found, "zeros", "zeroed") {
                bytes.fill(0);
            }
        }
        Ok(())
    }

    /// Checks that flags are known and do not contradict each other, and that they name the check
    /// hashes that are kept.
    pub(super) async fn flags(&mut self, fits_hash: bool) -> Result<(), CheckError> {
        let kind = (Invariant::Flags, Severity::Repairable);
        let found = Superblock::of(&self.block).flags.get();
        if found & !bits::KNOWN != 0 {
            let value = found & bits::KNOWN;
            self.set(kind, "fs_flags", value.into(), format!("no bits outside {:#x}", bits::KNOWN));
        }
        let both = bits::POSIX_ACLS | bits::NFS4_ACLS;
        let found = Superblock::of(&self.block).flags.get();
        if found & both == both {
            let value = found & !bits::NFS4_ACLS;
            self.set(kind, "fs_flags", value.into(), "POSIX or NFSv4 ACLs, not both");
        }
        let kept = self.kept_hashes(fits_hash).await?;
        let found = Superblock::of(&self.block);
        let (flags, named) = (found.flags.get(), found.check_hashes.get());
        let right = match (kept != 0, kept_by(found) != kept) {
            (true, _) => flags | bits::CHECK_HASHES,
            (false, true) => flags & !bits::CHECK_HASHES,
            (false, false) => flags,
        };
        if flags != right {
            self.set(kind, "fs_flags", right.into(), format!("{right:#x}"));
        }
        if named != kept {
            self.set(kind, "fs_metackhash", kept.into(), format!("{kept:#x}"));
        }
        Ok(())
    }

    /// The check hashes that are kept. Where the superblock contradicts itself, or all backups, the
    /// hashes themselves decide.
    async fn kept_hashes(&self, fits_hash: bool) -> Result<u32, CheckError> {
        let superblock = Superblock::of(&self.block);
        let (own, named) = (kept_by(superblock), superblock.check_hashes.get());
        let backups = self.chosen.copies.iter().filter(|copy| copy.place != SUPERBLOCK_ADDRESS);
        let backups: Vec<u32> = backups.map(|copy| kept_by(Superblock::of(&copy.block))).collect();
        let geometry = self.geometry()?;
        let mut kept = own;
        for kind in [kinds::GROUP, kinds::INODE, kinds::SUPERBLOCK] {
            let alone = backups.iter().all(|backup| (backup ^ own) & kind != 0);
            let contradicted = !backups.is_empty() && alone || named & !own & kind != 0;
            if !contradicted {
                continue;
            }
            let verdict = if kind == kinds::SUPERBLOCK {
                Some(fits_hash || self.would_fit_hash(kept)?)
            } else {
                evidence::are_kept(self.disk, &geometry, kind).await?
            };
            match verdict {
                Some(true) => kept |= kind,
                Some(false) => kept &= !kind,
                None => {}
            }
        }
        Ok(kept)
    }

    /// Whether the repaired superblock fits its stored check hash, with superblocks among the
    /// structures that have one.
    fn would_fit_hash(&self, kept: u32) -> Result<bool, CheckError> {
        let mut block = self.block.clone();
        let superblock = Superblock::of_mut(&mut block);
        superblock.flags.set(superblock.flags.get() | bits::CHECK_HASHES);
        superblock.check_hashes.set(kept | kinds::SUPERBLOCK);
        let geometry = self.geometry()?;
        let on_disk = little_endian(&block, geometry.byte_order); // turns either way
        Ok(candidates::fits_hash(&on_disk, &geometry))
    }

    /// Checks that the volume was stopped cleanly, and that nothing waits to be freed.
    pub(super) fn state(&mut self) {
        // Our server recovers a volume that it left itself; no other may be written to before a
        // repair.
        let severity = match self.mark {
            Mark::Clean | Mark::Policy(_) | Mark::UnknownPolicy(_) | Mark::Torn => Severity::Note,
            Mark::Check | Mark::Foreign => Severity::Repairable,
        };
        let note = (Invariant::State, severity);
        let mut stopped = false;
        if Superblock::of(&self.block).clean != 1 {
            stopped |= self.set(note, "fs_clean", 1, 1);
        }
        let unclean = bits::UNCLEAN | bits::NEEDS_FSCK;
        let flags = Superblock::of(&self.block).flags.get();
        if flags & unclean != 0 {
            let value = flags & !unclean;
            stopped |= self.set(note, "fs_flags", value.into(), format!("{value:#x}"));
        }
        if stopped && mark::owner(Superblock::of(&self.block)).is_some() {
            Superblock::of_mut(&mut self.block).last_mount.fill(0);
        }
        let kind = (Invariant::State, Severity::Repairable);
        for name in ["fs_pendingblocks", "fs_pendinginodes", "fs_unrefs", "fs_sujfree"] {
            if field(name).get(&self.block) != 0 {
                self.set(kind, name, 0, 0);
            }
        }
    }
}

/// The check hashes that a superblock names.
fn kept_by(superblock: &Superblock) -> u32 {
    if superblock.flags.get() & bits::CHECK_HASHES == 0 {
        return 0;
    }
    superblock.check_hashes.get() & kinds::ALL
}

/// The sizes that group blocks of this shape can have, without and with the padding that some
/// programs count for the header.
fn group_block_sizes(geometry: &Geometry) -> [u64; 2] {
    let maps = &geometry.maps;
    let sums = (maps.cluster_sums.len() + maps.clusters.len()) as u64;
    let needed = maps.fragments.end as u64 + NO_SUM + sums;
    [needed, needed + HEADER_PADDING].map(|size| size.next_multiple_of(geometry.fragment_size))
}
