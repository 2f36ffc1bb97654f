//! Finds usable copies of the superblock.
//!
//! A copy counts when it is at a place where its own file system has one, when that file system
//! fits the disk, and when it parses; for that alone, settings out of their range and a few derived
//! fields are corrected in a working copy. So a superblock inside a file, say of a disk image,
//! never counts.

use std::collections::BTreeSet;
use std::mem::offset_of;

use ufs2::layout::{
    BadSuperblock, BitPosition, ByteOrder, Expected, Geometry, RECOVERY_RECORD_ADDRESS,
    RecoveryRecord, SECTOR_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC, SUPERBLOCK_ROOM, Superblock,
    check_hash, turn_superblock, wrong_bit,
};
use zerocopy::FromBytes;

use super::fields::{SETTINGS, derived, field, static_fields};
use crate::CheckError;
use crate::overlay::Overlay;

/// The primary and the backup of the first group lie within this many bytes, whatever the block
/// sizes.
const HEAD: u64 = 256 << 10;
/// The whole disk is read in pieces of this size.
const PIECE: u64 = 1 << 20;
/// A read of an aligned piece of this size reads whole sectors.
const ALIGNMENT: u64 = 4096;
/// A copy with more wrong derived fields is garbage, not a damaged copy.
pub(super) const WRONG_FIELDS: usize = 4;

/// A usable copy of the superblock.
pub(super) struct Copy {
    /// Its byte address.
    pub(super) place: u64,
    /// Its bytes on the disk.
    pub(super) raw: Vec<u8>,
    /// Little-endian, and corrected as far as was needed to parse it.
    pub(super) block: Vec<u8>,
    pub(super) geometry: Geometry,
    /// Number of its static fields that had to be corrected.
    pub(super) mended: usize,
    /// Whether it fits its check hash, if it has one.
    pub(super) fits_hash: bool,
}

/// The result of the search.
pub(super) struct Gathered {
    /// The room of the primary, as it is on the disk but for its one wrong bit.
    pub(super) primary: Vec<u8>,
    /// That bit, if one explains why the primary does not fit its check hash.
    pub(super) flipped: Option<BitPosition>,
    /// A part of the primary cannot be read.
    pub(super) torn: bool,
    /// The reason for which the primary is not among the copies.
    pub(super) refused: Option<BadSuperblock>,
    /// The recovery record, little-endian, where there is one.
    pub(super) record: Option<RecoveryRecord>,
    /// The primary, if it can be used, then the others.
    pub(super) copies: Vec<Copy>,
}

/// Reads bytes from anywhere; nothing when they are beyond the disk.
pub(crate) async fn read_at(
    disk: &Overlay<'_>,
    address: u64,
    length: usize,
) -> Result<Option<Vec<u8>>, CheckError> {
    let Some(end) = address.checked_add(length as u64).filter(|&end| end <= disk.size()) else {
        return Ok(None);
    };
    let first = address - address % ALIGNMENT;
    let last = end.next_multiple_of(ALIGNMENT).min(disk.size());
    let bytes = disk.probe(first, (last - first) as usize).await?;
    let offset = (address - first) as usize;
    Ok(Some(bytes[offset..offset + length].to_vec()))
}

/// The byte order of a superblock, by its magic number.
pub(super) fn order_of(raw: &[u8]) -> Option<ByteOrder> {
    let magic = Superblock::of(raw).magic.get();
    if magic == SUPERBLOCK_MAGIC {
        Some(ByteOrder::Little)
    } else {
        (magic.swap_bytes() == SUPERBLOCK_MAGIC).then_some(ByteOrder::Big)
    }
}

/// A superblock from the disk, made little-endian.
pub(crate) fn little_endian(raw: &[u8], order: ByteOrder) -> Vec<u8> {
    let mut block = raw.to_vec();
    if order == ByteOrder::Big {
        turn_superblock(&mut block);
    }
    block
}

/// Parses a little-endian superblock that has this order on the disk.
pub(crate) fn parse(block: &[u8], order: ByteOrder) -> Result<Geometry, BadSuperblock> {
    let mut geometry = Geometry::parse(Superblock::of(block))?;
    geometry.byte_order = order;
    Ok(geometry)
}

/// Whether a superblock from the disk fits its own check hash.
pub(crate) fn fits_hash(raw: &[u8], geometry: &Geometry) -> bool {
    let bytes = &raw[..geometry.superblock_size as usize];
    let stored = Superblock::of(bytes).check_hash.get();
    let stored = match geometry.byte_order {
        ByteOrder::Little => stored,
        ByteOrder::Big => stored.swap_bytes(),
    };
    stored == check_hash(bytes, std::mem::offset_of!(Superblock, check_hash))
}

impl Copy {
    /// Judges the bytes at `place`.
    pub(super) fn judge(raw: Vec<u8>, place: u64, disk_size: u64) -> Result<Self, BadSuperblock> {
        let Some(order) = order_of(&raw) else {
            Geometry::parse(Superblock::of(&raw))?;
            return Err(BadSuperblock::Missing { found: Superblock::of(&raw).magic.get() });
        };
        let found = little_endian(&raw, order);
        let (block, mended) = mended_to_parse(&found);
        let geometry = parse(&block, order)?;
        if mended > WRONG_FIELDS {
            Geometry::parse(Superblock::of(&found))?;
        }
        check_place(&geometry, Superblock::of(&block), place, disk_size)?;
        let fits_hash = !geometry.superblock_hashes || fits_hash(&raw, &geometry);
        Ok(Self { place, raw, block, geometry, mended, fits_hash })
    }
}

/// Corrects the fields that keep a superblock from being parsed, and counts the static ones.
fn mended_to_parse(found: &[u8]) -> (Vec<u8>, usize) {
    let mut block = found.to_vec();
    if let Some(good) = derived(Superblock::of(&block)) {
        *Superblock::of_mut(&mut block) = good;
    }
    for setting in SETTINGS {
        if !(setting.is_legal)(Superblock::of(&block)) {
            let value = (setting.default)(Superblock::of(&block));
            field(setting.name).set(&mut block, value);
        }
    }
    let mended = static_fields().filter(|field| field.get(&block) != field.get(found)).count();
    (block, mended)
}

/// Whether this is a place for a superblock.
fn check_place(
    geometry: &Geometry,
    superblock: &Superblock,
    place: u64,
    disk_size: u64,
) -> Result<(), BadSuperblock> {
    let refused = |field, found: i128, rule| {
        Err(BadSuperblock::Field { field, found, expected: Expected::Rule(rule) })
    };
    let needed = geometry.byte_address(geometry.size);
    if needed > disk_size {
        return Err(BadSuperblock::Short { needed, size: disk_size });
    }
    if place == SUPERBLOCK_ADDRESS {
        return Ok(());
    }
    let own = superblock.own_address.get();
    if ![0, SUPERBLOCK_ADDRESS as i64, place as i64].contains(&own) {
        return refused("fs_sblockactualloc", own.into(), "its own place");
    }
    let group = geometry.group_of_fragment(place / geometry.fragment_size);
    let is_backup = group < geometry.group_count
        && geometry.byte_address(geometry.backup_superblock_fragment(group)) == place;
    if is_backup {
        Ok(())
    } else {
        refused("fs_sblkno", superblock.backup_offset.get().into(), "a place for backups")
    }
}

/// The first, the second, the middle and the last of this many groups.
pub(super) fn sample(groups: u64) -> BTreeSet<u64> {
    [0, 1, groups / 2, groups.saturating_sub(1)].into_iter().filter(|&g| g < groups).collect()
}

/// Hints at the places of backups: unverified numbers from the disk.
struct Hint {
    fragment_size: i64,
    backup_offset: i64,
    fragments_per_group: i64,
    groups: u64,
}

impl Hint {
    fn of(s: &Superblock) -> Self {
        Self {
            fragment_size: s.fragment_size.get().into(),
            backup_offset: s.backup_offset.get().into(),
            fragments_per_group: s.fragments_per_group.get().into(),
            groups: s.group_count.get().into(),
        }
    }

    fn of_record(record: &RecoveryRecord) -> Self {
        let shift = u32::try_from(record.sector_shift.get()).unwrap_or(u32::MAX);
        Self {
            fragment_size: 512_i64.checked_shl(shift).filter(|_| shift < 16).unwrap_or(0),
            backup_offset: record.backup_offset.get().into(),
            fragments_per_group: record.fragments_per_group.get().into(),
            groups: record.group_count.get().into(),
        }
    }

    fn places(&self) -> Vec<u64> {
        let place = |group: u64| {
            let base = i64::try_from(group).ok()?.checked_mul(self.fragments_per_group)?;
            let address = base.checked_add(self.backup_offset)?.checked_mul(self.fragment_size)?;
            let address = u64::try_from(address).ok()?;
            address.is_multiple_of(SECTOR_SIZE).then_some(address)
        };
        sample(self.groups).into_iter().filter_map(place).collect()
    }
}

/// Searches for copies at all likely places; on the whole disk if `full` is set and there are none
/// elsewhere.
pub(super) async fn gather(disk: &Overlay<'_>, full: bool) -> Result<Gathered, CheckError> {
    let length = (HEAD + SUPERBLOCK_ROOM).min(disk.size());
    let head = read_at(disk, 0, length as usize).await?.unwrap_or_default();
    let start = SUPERBLOCK_ADDRESS as usize;
    let Some(primary) = head.get(start..start + SUPERBLOCK_ROOM as usize) else {
        return Err(BadSuperblock::Missing { found: 0 }.into());
    };
    let end = SUPERBLOCK_ADDRESS + size_of::<Superblock>() as u64;
    let torn = disk.lacks(SUPERBLOCK_ADDRESS..end);
    let mended = if torn { None } else { right_superblock(primary) };
    let flipped = mended.as_ref().map(|(_, wrong)| *wrong);
    let primary = mended.map_or_else(|| primary.to_vec(), |(right, _)| right);
    let mut search = Search { disk, tried: BTreeSet::new(), copies: Vec::new() };
    let mut refused = None;
    if torn {
        search.tried.insert(SUPERBLOCK_ADDRESS); // only if there is nothing better
    } else {
        refused = search.judge(primary.clone(), SUPERBLOCK_ADDRESS).err();
    }
    let mut hints = Vec::new();
    if let Some(order) = order_of(&primary) {
        hints.push(Hint::of(Superblock::of(&little_endian(&primary, order))));
    }
    let record = recovery_record(&head[RECOVERY_RECORD_ADDRESS as usize..start]);
    hints.extend(record.as_ref().map(Hint::of_record));
    search.look_through(&head, 0).await?;
    search.follow(hints).await?;
    if search.copies.is_empty() && full {
        search.look_everywhere().await?;
    }
    if search.copies.is_empty() && torn {
        refused = search.judge(primary.clone(), SUPERBLOCK_ADDRESS).err();
        if let (true, Some(error)) = (refused.is_some(), disk.unreadable().first()) {
            return Err(error.into()); // the disk fails, not the search
        }
    }
    let copies = search.copies;
    Ok(Gathered { primary, flipped, torn, refused, record, copies })
}

/// The recovery record, little-endian.
fn recovery_record(bytes: &[u8]) -> Option<RecoveryRecord> {
    let mut record = RecoveryRecord::read_from_bytes(bytes).ok()?;
    if record.magic.get().swap_bytes() == SUPERBLOCK_MAGIC {
        record = turned(&record);
    }
    (record.magic.get() == SUPERBLOCK_MAGIC).then_some(record)
}

/// A recovery record in the other byte order.
pub(crate) fn turned(record: &RecoveryRecord) -> RecoveryRecord {
    RecoveryRecord {
        magic: record.magic.get().swap_bytes().into(),
        sector_shift: record.sector_shift.get().swap_bytes().into(),
        backup_offset: record.backup_offset.get().swap_bytes().into(),
        fragments_per_group: record.fragments_per_group.get().swap_bytes().into(),
        group_count: record.group_count.get().swap_bytes().into(),
    }
}

struct Search<'a, 'd> {
    disk: &'a Overlay<'d>,
    tried: BTreeSet<u64>,
    copies: Vec<Copy>,
}

impl Search<'_, '_> {
    fn judge(&mut self, raw: Vec<u8>, place: u64) -> Result<(), BadSuperblock> {
        self.tried.insert(place);
        let raw = right_superblock(&raw).map_or(raw, |(right, _)| right);
        let copy = Copy::judge(raw, place, self.disk.size())?;
        self.copies.push(copy);
        Ok(())
    }

    /// Reads and judges a place, once.
    async fn try_place(&mut self, place: u64) -> Result<(), CheckError> {
        if self.tried.contains(&place) {
            return Ok(());
        }
        self.tried.insert(place);
        if let Some(raw) = read_at(self.disk, place, SUPERBLOCK_ROOM as usize).await? {
            let _ = self.judge(raw, place); // anything but a copy is ignored here
        }
        Ok(())
    }

    /// Tries every place whose magic number is in `bytes`, which come from `address`.
    async fn look_through(&mut self, bytes: &[u8], address: u64) -> Result<(), CheckError> {
        let field = std::mem::offset_of!(Superblock, magic) as u64;
        let (before, within) = (field - field % SECTOR_SIZE, (field % SECTOR_SIZE) as usize);
        for (index, sector) in bytes.chunks_exact(SECTOR_SIZE as usize).enumerate() {
            let magic = &sector[within..within + size_of::<u32>()];
            if magic == SUPERBLOCK_MAGIC.to_le_bytes() || magic == SUPERBLOCK_MAGIC.to_be_bytes() {
                let sector = address + index as u64 * SECTOR_SIZE;
                if let Some(place) = sector.checked_sub(before) {
                    self.try_place(place).await?;
                }
            }
        }
        Ok(())
    }

    /// Tries the places that the hints give, and then those that the copies give.
    async fn follow(&mut self, hints: Vec<Hint>) -> Result<(), CheckError> {
        for place in hints.iter().flat_map(Hint::places) {
            self.try_place(place).await?;
        }
        let mut asked = 0;
        while asked < self.copies.len() {
            for place in Hint::of(Superblock::of(&self.copies[asked].block)).places() {
                self.try_place(place).await?;
            }
            asked += 1;
        }
        Ok(())
    }

    /// Reads the disk until a copy is found.
    async fn look_everywhere(&mut self) -> Result<(), CheckError> {
        let mut address = 0;
        while address < self.disk.size() && self.copies.is_empty() {
            let length = PIECE.min(self.disk.size() - address);
            let bytes = self.disk.probe(address, length as usize).await?;
            self.look_through(&bytes, address).await?;
            address += length;
        }
        self.follow(Vec::new()).await
    }
}

/// A superblock, as it is on the disk, with its wrong bit put back, if one bit is wrong and the
/// result is plausible.
///
/// *Clean* is left out: it is in another sector than the hash, and a write of both that was cut
/// leaves the same as a bit that went wrong.
fn right_superblock(raw: &[u8]) -> Option<(Vec<u8>, BitPosition)> {
    /// Lengths of the superblock on disks with fragments of any size.
    const SIZES: [usize; 4] = [1536, 2048, 4096, 8192];
    SIZES.into_iter().filter(|&size| size <= raw.len()).find_map(|size| {
        let wrong = wrong_bit(&raw[..size], offset_of!(Superblock, check_hash))?;
        if wrong.byte == offset_of!(Superblock, clean) {
            return None;
        }
        let mut right = raw.to_vec();
        wrong.flip(&mut right);
        let geometry = parse(&right, ByteOrder::Little).ok()?;
        let is_whole = geometry.superblock_hashes && geometry.superblock_size == size as u64;
        is_whole.then_some((right, wrong))
    })
}
