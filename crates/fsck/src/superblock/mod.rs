//! Pass 1: identifies the file system, and repairs its superblock.
//!
//! # Search
//! `candidates` gathers the usable copies of the superblock: the primary, and backups wherever the
//! recovery record, the front of the disk, or another copy points at. `choose` decides which of the
//! file systems that they describe is the one on the disk; a primary that fits its check hash can
//! be overruled by the groups and by the other copies. Then `mend` repairs the primary:
//!
//! 1. A superblock that does not fit its hash, and fits with *one* bit put back, or with one word
//!    of a copy in its place, is damaged in that bit or word alone.
//! 2. Fields that no mount changes become those of the file system that was chosen. A primary in
//!    which more than a few of them are wrong is replaced by a copy as a whole.
//! 3. Settings, flags, spare bytes and the clean state are judged field by field.
//!
//! # Not judged
//! * Any legal value of a setting, a time, a label or a hint is as good as another. In the label
//!   and the last mount point not even the bytes behind the first NUL are checked.
//! * Totals and the list of snapshots: passes 7 and 3 know their right values.
//! * `in_core`, `old_totals`, `old_inode_format`: other systems leave arbitrary values there.
//!
//! Invariant: the result parses, and its geometry is the one returned beside it.

pub(super) mod candidates;
mod choose;
mod evidence;
pub(super) mod fields;
mod mend;
#[cfg(test)]
mod tests;

use ufs2::layout::{BadSuperblock, Geometry, SUPERBLOCK_ADDRESS, Superblock};

use super::overlay::Overlay;
use super::{CheckError, Invariant, Log, Place, Severity, bit};
use candidates::{Copy, Gathered, WRONG_FIELDS, fits_hash, little_endian};
use choose::{Chosen, choose};
use fields::{Class, field_at, spare_ranges, static_fields};
use mend::Mender;

pub(super) use ufs2::mark::Mark;

/// The right superblock.
pub(super) struct Found {
    pub(super) geometry: Geometry,
    /// All bytes of its room, little-endian, repaired, and not sealed yet.
    pub(super) block: Vec<u8>,
    /// The system that had the volume last, by the superblock on the disk before this check.
    pub(super) mark: Mark,
}

/// Finds the superblock, and reports the errors of the one at its place. Puts nothing there.
///
/// # Errors
/// [`CheckError::Superblock`] when there is none, and no copy that could take its place;
/// [`CheckError::NoCopyNear`] when the whole disk was not searched for one.
pub(super) async fn find(
    disk: &Overlay<'_>,
    log: &mut Log,
    full: bool,
) -> Result<Found, CheckError> {
    let gathered = candidates::gather(disk, full).await?;
    let chosen = choose(disk, &gathered).await.map_err(|error| match error {
        CheckError::Superblock(bad @ BadSuperblock::Missing { .. }) if !full => {
            CheckError::NoCopyNear(bad)
        }
        other => other,
    })?;
    let (base, mark) = base(&gathered, &chosen, log)?;
    let mut mender = Mender { disk, log, chosen: &chosen, block: base.block, mark: &mark };
    mender.settings();
    mender.derived()?;
    mender.spare()?;
    mender.state();
    mender.flags(base.fits_hash).await?;
    let geometry = mender.geometry()?;
    disk.want(SUPERBLOCK_ADDRESS..SUPERBLOCK_ADDRESS + geometry.superblock_size);
    if geometry.superblock_hashes && !base.fits_hash && !base.explained {
        let (found, expected) = ("another", "that of its bytes");
        let place = Place::field("fs_ckhash");
        log_repairable(mender.log, Invariant::SuperblockHash, place, found, expected);
    }
    Ok(Found { geometry, block: mender.block, mark })
}

fn log_repairable(
    log: &mut Log,
    invariant: Invariant,
    place: Place,
    found: impl ToString,
    expected: impl ToString,
) -> bool {
    log.find(invariant, Severity::Repairable, place, found, expected, "written anew")
}

/// The superblock to repair.
struct Base {
    /// Little-endian.
    block: Vec<u8>,
    /// Whether its check hash fits the bytes on the disk.
    fits_hash: bool,
    /// Whether the reason for a mismatch is known.
    explained: bool,
}

/// The primary with the shape of the file system, or a copy of it.
fn base(
    gathered: &Gathered,
    chosen: &Chosen<'_>,
    log: &mut Log,
) -> Result<(Base, Mark), CheckError> {
    let best = chosen.best();
    let order = best.geometry.byte_order;
    let block = little_endian(&gathered.primary, order);
    let wrong = static_fields().filter(|field| field.get(&block) != field.get(&best.block));
    let torn = gathered.torn && best.place != SUPERBLOCK_ADDRESS;
    if torn || wrong.count() > WRONG_FIELDS {
        let block = replaced(gathered, best, log)?;
        let base = Base { block, fits_hash: best.fits_hash, explained: true };
        return Ok((base, Mark::Foreign)); // the system that had it is unknown
    }
    let kept = chosen.copies.iter().any(|copy| copy.geometry.superblock_hashes);
    let (mut fits_hash, mut explained) = (fits_hash(&gathered.primary, &best.geometry), !kept);
    let mut block = block;
    if let Some(wrong) = gathered.flipped {
        let mut found = gathered.primary.clone();
        wrong.flip(&mut found);
        if !find_word(&found, &block, &best.geometry, log, bit::PUT_BACK) {
            (block, fits_hash, explained) = (found, false, true);
        }
    } else if kept
        && !fits_hash
        && let Some(undone) = undone(&gathered.primary, chosen)
    {
        let right = little_endian(&undone, order);
        explained = true;
        if find_word(&block, &right, &best.geometry, log, TAKEN) {
            (block, fits_hash) = (right, true);
        }
    }
    let mark = Mark::of(Superblock::of(&block));
    take_shape(&mut block, &best.block, log);
    Ok((Base { block, fits_hash, explained }, mark))
}

/// A copy that takes the place of the primary.
fn replaced(gathered: &Gathered, copy: &Copy, log: &mut Log) -> Result<Vec<u8>, CheckError> {
    let reason = gathered
        .refused
        .clone()
        .unwrap_or(BadSuperblock::Missing { found: Superblock::of(&gathered.primary).magic.get() });
    let place = Place::default().fragment(copy.place / copy.geometry.fragment_size);
    let expected = format!("the file system of which a copy lies at byte {}", copy.place);
    let repair = "replaced by the copy";
    let severity = Severity::Repairable;
    let fields = Invariant::SuperblockFields;
    let found =
        if gathered.torn { "one that cannot be read".to_owned() } else { reason.to_string() };
    if !log.find(fields, severity, place, found, expected, repair) {
        return Err(reason.into());
    }
    let mut block = copy.block.clone();
    Superblock::of_mut(&mut block).own_address.set(SUPERBLOCK_ADDRESS as i64);
    let end = copy.geometry.superblock_size as usize;
    block[end..].copy_from_slice(&gathered.primary[end..]); // keeps the bytes that are there
    Ok(block)
}

/// The primary with one word of a copy in it, when that makes it fit its hash.
fn undone(primary: &[u8], chosen: &Chosen<'_>) -> Option<Vec<u8>> {
    const WORD: usize = size_of::<u32>();
    let hashed = |copy: &&&Copy| copy.fits_hash && copy.geometry.superblock_hashes;
    for copy in chosen.copies.iter().filter(hashed) {
        let size = copy.geometry.superblock_size as usize;
        for offset in (0..size).step_by(WORD) {
            let word = offset..offset + WORD;
            if primary[word.clone()] == copy.raw[word.clone()] {
                continue;
            }
            let mut undone = primary.to_vec();
            undone[word.clone()].copy_from_slice(&copy.raw[word]);
            if fits_hash(&undone, &copy.geometry) {
                return Some(undone);
            }
        }
    }
    None
}

/// The repair text of a finding about a word of a copy.
const TAKEN: &str = "taken from a copy: the check hash fits then";

/// Reports the one word in which a superblock differs from the right one.
fn find_word(
    block: &[u8],
    right: &[u8],
    geometry: &Geometry,
    log: &mut Log,
    repair: &'static str,
) -> bool {
    let differs = block.iter().zip(right).position(|(found, expected)| found != expected);
    let offset = differs.expect("a word was put right");
    let field = field_at(right, offset);
    let is_spare = spare_ranges(right, geometry).iter().any(|range| range.contains(&offset));
    let invariant = match field.map(|field| field.class) {
        Some(Class::Shape) => Invariant::SuperblockFields,
        Some(Class::Derived | Class::Zero) => Invariant::SuperblockDerived,
        Some(Class::Flags) => Invariant::Flags,
        None if is_spare => Invariant::SuperblockSpare,
        _ => Invariant::SuperblockHash,
    };
    let severity = Severity::Repairable;
    if let Some(field) = field {
        let place = Place::field(field.name);
        let (found, expected) = (field.get(block), field.get(right));
        return log.find(invariant, severity, place, found, expected, repair);
    }
    let place = Place::default().offset(offset as u64);
    let (found, expected) = (block[offset], right[offset]);
    log.find(invariant, severity, place, found, expected, repair)
}

/// Gives the primary the shape of the file system that was chosen.
fn take_shape(block: &mut [u8], right: &[u8], log: &mut Log) {
    for field in static_fields() {
        let (found, expected) = (field.get(block), field.get(right));
        if found == expected {
            continue;
        }
        let invariant = match field.class {
            Class::Derived => Invariant::SuperblockDerived,
            _ => Invariant::SuperblockFields,
        };
        let place = Place::field(field.name);
        if log_repairable(log, invariant, place, found, expected) {
            field.set(block, expected);
        }
    }
}
