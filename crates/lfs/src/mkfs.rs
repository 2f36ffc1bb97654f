//! Making an empty volume.
//!
//! 1. A head that says the volume is not finished, at both ends of the disk, and zeros for regions
//!    and tables; a flush.
//! 2. The first checkpoint, with the root directory.
//! 3. The heads, one after the other.
//!
//! Commit point: the head in the first unit.

use block::{BlockDevice, Buffer, Durability, IoError};
use cow::apply::first_chunk;
use cow::format::head::seal;
use cow::format::inode::{Facts, Record};
use cow::format::snapshot::Snapshots;
use cow::{FIRST, Head, Kind, Place, Pointer, ROOT, Secret, UNIT, sum};
use namespace::NewFile;
use runtime::{Random, Timestamp};
use vfs::{Device, FileKind, RootDirectory};

use crate::error::MkfsError;
use crate::format::head::{LABEL, VolumeHead};
use crate::format::region::{Counts, Region};
use crate::format::shape::Shape;
use crate::format::table::{self, Line, Owner};
use crate::format::{FRONT, INDEX_BITS, VERSION};
use crate::room;

/// The row of the first blocks: an address of 0 is no block.
const FIRST_ROW: u64 = 1;
/// Units for files that the smallest volume has.
const LEAST: u64 = 64;
/// Bytes that are zeroed with one write.
const PIECE: u64 = 1 << 20;

/// Parameters of a new volume.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of a segment; if `None`, about 1 MiB of whole stripes.
    pub segment_size: Option<u64>,
    /// Percent of the segments that are left to the cleaner.
    pub reserve: u64,
    /// The volume's label.
    pub label: String,
    /// Owner and permissions of the root directory.
    pub root: RootDirectory,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        let (label, root) = Default::default();
        Self { block_size: 8 << 10, segment_size: None, reserve: 8, label, root }
    }
}

/// Bytes of a segment by default: the multiple of a stripe nearest to 1 MiB, and on a small disk
/// so few that it has 128 of them.
fn usual_segment(size: u64, stripe: Option<u64>, block_size: u64) -> u64 {
    let least = 4 * block_size;
    let small = (size / 128).checked_ilog2().map_or(0, |log| 1 << log);
    let wanted = small.clamp(least, least.max(1 << 20));
    match stripe {
        Some(stripe) => {
            let whole = (wanted + stripe / 2) / stripe * stripe;
            whole.max(stripe)
        }
        None => wanted,
    }
}

/// The shape of a new volume on a disk of this size, with stripes of this many bytes.
///
/// # Errors
/// [`MkfsError`] if there can be none.
pub fn plan(size: u64, stripe: Option<u64>, options: &MkfsOptions) -> Result<Shape, MkfsError> {
    let MkfsOptions { block_size, segment_size, reserve, ref label, .. } = *options;
    let usual = || usual_segment(size, stripe, block_size.clamp(UNIT as u64, 1 << 16));
    let segment_size = segment_size.unwrap_or_else(usual);
    let unit = UNIT as u64;
    let is_block = block_size.is_power_of_two() && (unit..=16 * unit).contains(&block_size);
    let is_segment = (2 * block_size..=256 << 20).contains(&segment_size);
    if !is_block || !is_segment || !segment_size.is_multiple_of(block_size) {
        return Err(MkfsError::Sizes { block_size, segment_size });
    }
    if let Some(stripe) = stripe.filter(|&stripe| !segment_size.is_multiple_of(stripe)) {
        return Err(MkfsError::Stripe { segment_size, stripe });
    }
    if size / unit >= 1 << 40 {
        return Err(MkfsError::Large(size));
    }
    let reserve = u8::try_from(reserve).ok().filter(|&reserve| reserve <= 50);
    let reserve = reserve.ok_or(MkfsError::Reserve(options.reserve))?;
    if label.len() > LABEL {
        return Err(MkfsError::Label);
    }
    let (units, segment, block) = (size / unit, segment_size / unit, block_size / unit);
    let shape = Shape { units, segment, block, reserve };
    if units < 64 || !shape.is_legal() || room::size(&shape) < LEAST {
        return Err(MkfsError::Small { size, segment_size });
    }
    Ok(shape)
}

/// Makes an empty volume. The old contents of the disk are lost.
///
/// # Errors
/// [`MkfsError`].
pub async fn mkfs(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Shape, MkfsError> {
    let geometry = device.geometry();
    let stripe = geometry.stripe.map(|stripe| stripe.length());
    let shape = plan(geometry.size, stripe, options)?;
    let mut secret = Secret::default();
    secret[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    secret[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    let label = options.label.clone();
    let mut head = VolumeHead { shape, secret, label, is_whole: false, version: VERSION };
    write_heads(device, &head).await?;
    let [front, back] = shape.tables();
    let parts = [(1, FRONT), (front, front + shape.table()), (back, shape.units - 1)];
    for (start, end) in parts {
        clear(device, start, end).await?;
    }
    device.flush().await?;
    let generation = (random.next_u64() as u32).max(1);
    for (place, block) in first_checkpoint(&head, (options.root, generation), now) {
        let block = Buffer::copied(&block).freeze();
        device.write(place * UNIT as u64, vec![block], Durability::Plain).await?;
    }
    device.flush().await?;
    head.is_whole = true;
    write_heads(device, &head).await?;
    Ok(shape)
}

/// Writes the heads of a volume, the last one first.
///
/// # Errors
/// Those of the device.
pub(crate) async fn write_heads(
    device: &dyn BlockDevice,
    head: &VolumeHead,
) -> Result<(), IoError> {
    let [first, last] = head.shape.heads();
    for (index, place) in [(1, last), (0, first)] {
        let block = Buffer::copied(&head.write(index)).freeze();
        device.write(place * UNIT as u64, vec![block], Durability::Through).await?;
    }
    device.flush().await
}

async fn clear(device: &dyn BlockDevice, start: u64, end: u64) -> Result<(), IoError> {
    let (mut at, end) = (start * UNIT as u64, end * UNIT as u64);
    while at < end {
        let length = PIECE.min(end - at);
        device.write(at, vec![block::zeros(length as usize)], Durability::Plain).await?;
        at += length;
    }
    Ok(())
}

/// The blocks of the first checkpoint, by their places: a root directory, in a row of the first
/// segment.
fn first_checkpoint(
    head: &VolumeHead,
    (root, generation): (RootDirectory, u32),
    now: Timestamp,
) -> Vec<(u64, Vec<u8>)> {
    let (shape, secret) = (&head.shape, &head.secret);
    let first = shape.units_of(0).start;
    let mut blocks = Vec::new();
    let mut put = |kind, owner, mut block: Vec<u8>| {
        seal(&mut block, Place { kind, owner, level: 0, index: 0 }, 1, secret);
        let index = blocks.len() as u64;
        let pointer = Pointer::new(FIRST_ROW << INDEX_BITS | index, 1, sum(&block));
        blocks.push((first + index, block.clone()));
        (pointer, block)
    };
    let mut names = vec![0; UNIT];
    let chunk = first_chunk(ROOT, ROOT);
    names[size_of::<Head>()..size_of::<Head>() + chunk.len()].copy_from_slice(&chunk);
    let (names, _) = put(Kind::NAMES, ROOT, names);
    let mut inodes = vec![0; UNIT];
    let (kind, device, verifier) = (FileKind::Directory, Device::default(), None);
    let RootDirectory { uid, gid, mode } = root;
    let new = NewFile { kind, mode, uid, gid, device, target: &[], verifier };
    let mut facts = Facts::new(&new, generation, now);
    (facts.size, facts.units) = (chunk.len() as u64, 1);
    let record = Record::of_mut(&mut inodes, ROOT);
    record.set(&facts);
    record.root.pointers[0] = names;
    let (inodes, copy) = put(Kind::INODES, 0, inodes);
    let twin = blocks.len() as u64;
    blocks.push((first + twin, copy));
    let seconds = now.seconds;
    let counts = Counts { next_ino: FIRST, files: 1, directories: 1, units: 1, seconds };
    let used = blocks.len() as u64;
    let mut region = Region {
        number: 1,
        is_at_rest: true,
        counts,
        rows: FIRST_ROW + 1,
        used,
        snapshots: Snapshots { nodes: 2, ..Snapshots::default() },
        ..Region::default()
    };
    region.trees[0].root.pointers[0] = inodes;
    region.trees[0].twin = FIRST_ROW << INDEX_BITS | twin;
    let mut line = Line { place: first, born: 1, owner: Owner::Metadata, ..Line::default() };
    (0..used).for_each(|index| line.present.set(index));
    line.used = line.present;
    let table = table::write(0, &[Line::default(), line], 1, secret);
    region.table = sum(&table);
    blocks.extend(shape.tables().map(|place| (place, table.clone())));
    blocks.extend(shape.regions(0).map(|place| (place, region.write(0, secret))));
    blocks
}
