//! Making an empty volume.
//!
//! 1. The places of anchors get blocks that mark a begun volume, and zeros follow the first; a
//!    flush. From here on the disk has no volume.
//! 2. The first update, with the root directory; a flush.
//! 3. The anchors, those in the second units first, with a flush between the two and one after
//!    them.
//!
//! Commit point: the anchor in the first unit, and the last flush.

use block::platters::{Platters, SECTOR};
use block::{BlockDevice, Buffer, Durability, IoError};
use cow::format::head::seal;
use cow::format::inode::{Facts, Record};
use cow::format::snapshot::Snapshots;
use cow::{FIRST, Head, Kind, Place, Pointer, ROOT, Run, Secret, Tree, UNIT, VERSION, sum};
use namespace::NewFile;
use runtime::{Random, Timestamp};
use vfs::{Device, FileKind, RootDirectory};

use crate::anchors;
use crate::format::anchor::{Anchor, LABEL, Shape, begun};
use crate::format::kind;
use crate::format::record::{self, Change};
use crate::format::superblock::{MOST_RESERVE, Superblock, Volume};
use crate::format::{ANCHORS, FRONT, SLOTS};
use crate::fullness::for_files;
use cow::apply::first_chunk;

/// Units that the first update takes, in addition to the other copy of the inodes.
const TAKEN: u64 = 3;
/// Units for files that the smallest volume has.
const LEAST: u64 = 64;

/// Parameters of a new volume.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of a zone; if `None`, the usual size for the disk.
    pub zone_size: Option<u64>,
    /// Percent of the space that only root may fill.
    pub reserve: u64,
    /// The volume's label.
    pub label: String,
    /// Owner and permissions of the root directory.
    pub root: RootDirectory,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        let (label, root) = Default::default();
        Self { block_size: 8 << 10, zone_size: None, reserve: 0, label, root }
    }
}

/// Reason why there is no volume.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    /// Zones and blocks cannot have these sizes.
    #[error(
        "there are no blocks of {block_size} bytes in zones of {zone_size}: a block has 4096 to \
         65536 bytes and is a power of two; a zone is of whole blocks, at least four, and has \
         65536 bytes to 64 GiB, above 256 MiB a power of two"
    )]
    Shape {
        /// Bytes of a block.
        block_size: u64,
        /// Bytes of a zone.
        zone_size: u64,
    },
    /// The disk is too small.
    #[error(
        "{size} bytes are too few: there has to be room for files beside what a volume keeps for \
         itself"
    )]
    Small {
        /// Bytes of the disk.
        size: u64,
    },
    /// The requested zones are too large for the disk.
    #[error(
        "zones of {zone_size} bytes are too large for a disk of {size}: there has to be room for \
         files beside what a volume keeps for itself, as there is with zones of {usual}"
    )]
    Zone {
        /// Bytes of a zone.
        zone_size: u64,
        /// Bytes of the disk.
        size: u64,
        /// Bytes of the zones that the disk gets by default.
        usual: u64,
    },
    /// The disk is too large.
    #[error("{size} bytes are too many: a volume has less than 512 PiB")]
    Large {
        /// Bytes of the disk.
        size: u64,
    },
    /// The reserve for root is too large.
    #[error("a reserve for root has 0 to {MOST_RESERVE} percent of the space, and not {0}")]
    Reserve(u64),
    /// The label is too long.
    #[error("a label has {LABEL} bytes at most")]
    Label,
    /// The disk cannot be written.
    #[error("{0}")]
    Io(#[from] IoError),
}

/// The shape of a volume on a disk of this size.
///
/// # Errors
/// [`MkfsError`], if no such volume is possible.
pub fn plan(size: u64, options: &MkfsOptions) -> Result<Shape, MkfsError> {
    let block_size = options.block_size;
    let zone_size = options.zone_size.unwrap_or_else(|| usual_zone(size, block_size));
    let in_units = |bytes: u64| bytes / UNIT as u64;
    let shape =
        Shape { units: in_units(size), zone: in_units(zone_size), block: in_units(block_size) };
    let are_units = [block_size, zone_size].iter().all(|bytes| bytes.is_multiple_of(UNIT as u64));
    if !are_units || !shape.is_possible() {
        return Err(MkfsError::Shape { block_size, zone_size });
    }
    if shape.units >= 1 << 47 {
        return Err(MkfsError::Large { size });
    }
    if !shape.is_legal() || for_files(&shape) < LEAST {
        return Err(too_small(size, options));
    }
    if options.reserve > MOST_RESERVE.into() {
        return Err(MkfsError::Reserve(options.reserve));
    }
    if options.label.len() > LABEL {
        return Err(MkfsError::Label);
    }
    Ok(shape)
}

/// The error for a disk without room for files: with such zones, or with any.
fn too_small(size: u64, options: &MkfsOptions) -> MkfsError {
    let usual = usual_zone(size, options.block_size);
    let as_usual = MkfsOptions { zone_size: None, ..options.clone() };
    match options.zone_size {
        Some(zone_size) if zone_size > usual && plan(size, &as_usual).is_ok() => {
            MkfsError::Zone { zone_size, size, usual }
        }
        _ => MkfsError::Small { size },
    }
}

/// Bytes of a zone by default: 64 MiB, and on a small disk so few that it has 16 of them.
fn usual_zone(size: u64, block_size: u64) -> u64 {
    let least = (4 * block_size).max(64 << 10);
    let most = (size / 16).checked_ilog2().map_or(0, |log| 1 << log);
    most.clamp(least, least.max(64 << 20))
}

/// Bytes of a zone on a disk with known cylinders: as many whole blocks as a cylinder in the middle
/// has.
fn zone_of(platters: &Platters, block_size: u64) -> u64 {
    let sectors = platters.sectors_of(platters.cylinders() / 2);
    let bytes = (sectors.end - sectors.start) * SECTOR;
    let blocks = bytes / block_size.max(1);
    (blocks * block_size).clamp((4 * block_size).max(64 << 10), 64 << 30)
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
    let cylinder = || geometry.platters.map(|platters| zone_of(&platters, options.block_size));
    let zone_size = options.zone_size.or_else(cylinder);
    let shape = plan(geometry.size, &MkfsOptions { zone_size, ..options.clone() })?;
    let write = |at: u64, block: &[u8; UNIT]| {
        let piece = Buffer::copied(block).freeze();
        device.write(at * UNIT as u64, vec![piece], Durability::Plain)
    };
    let zeros = block::zeros((FRONT - ANCHORS) as usize * UNIT);
    device.write(ANCHORS * UNIT as u64, vec![zeros], Durability::Plain).await?;
    for at in [0, 1].into_iter().flat_map(|number| shape.anchor(number)) {
        write(at, &begun()).await?;
    }
    device.flush().await?;
    let mut secret = Secret::default();
    secret[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    secret[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    let generation = (random.next_u64() as u32).max(1);
    let volume = Volume { shape, label: options.label.clone(), anchor: ANCHORS };
    let reserve = options.reserve as u8; // it was checked
    for (at, block) in first_update(volume, &secret, (generation, reserve), options.root, now) {
        write(at, &block).await?;
    }
    device.flush().await?;
    let free = shape.capacity() - TAKEN - 1;
    for number in 1..=ANCHORS {
        let (label, zones) = (options.label.clone(), vec![0]);
        let version = VERSION;
        let anchor = Anchor { number, shape, secret, label, zones, rest: 1, free, version };
        anchors::write(device, &anchor).await?;
    }
    Ok(shape)
}

/// The blocks of the first update, with a root directory.
fn first_update(
    volume: Volume,
    secret: &Secret,
    (generation, reserve): (u32, u8),
    root: RootDirectory,
    now: Timestamp,
) -> Vec<(u64, Box<[u8; UNIT]>)> {
    let shape = volume.shape;
    let first = shape.usable(0).start;
    let mut blocks = Vec::new();
    let mut put = |kind, owner, index, mut block: Box<[u8; UNIT]>| {
        let at = first + blocks.len() as u64;
        seal(&mut *block, Place { kind, owner, level: 0, index }, 1, secret);
        let pointer = Pointer::new(at, 1, sum(&*block));
        blocks.push((at, block));
        pointer
    };
    let mut names = Box::new([0; UNIT]);
    let chunk = first_chunk(ROOT, ROOT);
    names[size_of::<Head>()..size_of::<Head>() + chunk.len()].copy_from_slice(&chunk);
    let names = put(Kind::NAMES, ROOT, 0, names);
    let mut inodes = Box::new([0; UNIT]);
    let (kind, device, verifier) = (FileKind::Directory, Device::default(), None);
    let RootDirectory { uid, gid, mode } = root;
    let new = NewFile { kind, mode, uid, gid, device, target: &[], verifier };
    let mut facts = Facts::new(&new, generation, now);
    (facts.size, facts.units) = (chunk.len() as u64, 1);
    let record = Record::of_mut(&mut *inodes, ROOT);
    record.set(&facts);
    record.root.pointers[0] = names;
    let inodes = put(Kind::INODES, 0, 0, inodes);
    let taken = Change::Taken(Run { start: first, length: TAKEN });
    let copy = if shape.zones() > 1 { shape.usable(1).start } else { first + TAKEN };
    let copied = Change::Taken(Run::of(copy));
    let record = record::write(&[taken, copied], &[]).pop().expect("one block");
    let record = put(kind::RECORD, 0, 0, record);
    let mut superblock = Superblock {
        number: 1,
        inodes: Tree::default(),
        record,
        records: 1,
        next_ino: FIRST,
        files: 1,
        directories: 1,
        units: 1,
        reserve,
        seconds: now.seconds,
        volume,
        // Inodes, with two copies, and names of the root.
        snapshots: Snapshots { nodes: 3, ..Snapshots::default() },
        version: VERSION,
        ..Superblock::default()
    };
    superblock.inodes.root.pointers[0] = inodes;
    superblock.inodes.twin = copy;
    let twin = blocks.iter().find(|(at, _)| *at == inodes.address.get());
    let twin = twin.map(|(_, block)| (copy, block.clone()));
    blocks.extend(twin);
    let at = shape.slot(0, SLOTS - 1);
    superblock.durable = 1;
    superblock.durable_at = at;
    blocks.push((at, superblock.write(at, secret)));
    blocks
}
