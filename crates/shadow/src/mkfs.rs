//! Making an empty volume.

use block::{BlockDevice, Buffer, Durability, IoError};
use namespace::NewFile;
use runtime::{Random, Timestamp};
use vfs::{Device, FileKind};

use crate::apply::first_chunk;
use crate::format::anchor::{Anchor, LABEL, Shape};
use crate::format::head::{Head, Kind, Place, Secret, seal};
use crate::format::inode::{Facts, Record};
use crate::format::pointer::Pointer;
use crate::format::record::{self, Change, Run};
use crate::format::superblock::{Superblock, Tree};
use crate::format::{ANCHORS, FIRST, ROOT, SLOTS, UNIT, sum};

/// What a volume is to be like.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of a zone.
    pub zone_size: u64,
    /// A name for people.
    pub label: String,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self { block_size: 8 << 10, zone_size: 64 << 20, label: String::new() }
    }
}

/// Why there is no volume.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    /// It cannot be like that.
    #[error(
        "blocks of {block_size} bytes and zones of {zone_size} make no volume of {size} bytes: a \
         block has 4 KiB to 64 KiB, a zone 64 KiB at least, each a power of two, and one zone has \
         room"
    )]
    Shape {
        /// Bytes of the disk.
        size: u64,
        /// Bytes of a block.
        block_size: u64,
        /// Bytes of a zone.
        zone_size: u64,
    },
    /// The label is too long.
    #[error("a label has {LABEL} bytes at most")]
    Label,
    /// The disk cannot be written.
    #[error("{0}")]
    Io(#[from] IoError),
}

/// Makes an empty volume. What was on the disk is lost.
///
/// # Errors
/// [`MkfsError`].
pub async fn mkfs(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Shape, MkfsError> {
    let MkfsOptions { block_size, zone_size, label } = options;
    let size = device.geometry().size;
    let in_units = |bytes: u64| bytes / UNIT as u64;
    let shape =
        Shape { units: in_units(size), zone: in_units(*zone_size), block: in_units(*block_size) };
    let are_units = [block_size, zone_size].iter().all(|bytes| bytes.is_multiple_of(UNIT as u64));
    if !are_units || !shape.is_legal() {
        let (block_size, zone_size) = (*block_size, *zone_size);
        return Err(MkfsError::Shape { size, block_size, zone_size });
    }
    if label.len() > LABEL {
        return Err(MkfsError::Label);
    }
    let mut secret = Secret::default();
    secret[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    secret[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    let generation = (random.next_u64() as u32).max(1);
    for (at, block) in first_update(&shape, &secret, generation, now) {
        let piece = Buffer::copied(&*block).freeze();
        device.write(at * UNIT as u64, vec![piece], Durability::Plain).await?;
    }
    device.flush().await?;
    for number in 1..=ANCHORS {
        let label = label.clone();
        let block = Anchor { number, shape, secret, label, zones: vec![0], rest: 1 }.write();
        for at in shape.anchor(number) {
            let piece = Buffer::copied(&*block).freeze();
            device.write(at * UNIT as u64, vec![piece], Durability::Plain).await?;
        }
    }
    device.flush().await?;
    Ok(shape)
}

/// The blocks of the first update, which has a root directory.
fn first_update(
    shape: &Shape,
    secret: &Secret,
    generation: u32,
    now: Timestamp,
) -> Vec<(u64, Box<[u8; UNIT]>)> {
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
    let names = put(Kind::Names, ROOT, 0, names);
    let mut inodes = Box::new([0; UNIT]);
    let (kind, device, verifier) = (FileKind::Directory, Device::default(), None);
    let new = NewFile { kind, mode: 0o755, uid: 0, gid: 0, device, target: &[], verifier };
    let mut facts = Facts::new(&new, generation, now);
    (facts.size, facts.units) = (chunk.len() as u64, 1);
    let record = Record::of_mut(&mut *inodes, ROOT);
    record.set(&facts);
    record.root.pointers[0] = names;
    let inodes = put(Kind::Inodes, 0, 0, inodes);
    let taken = Change::Taken(Run { start: first, length: 3 });
    let record = record::write(&[taken], &[]).pop().expect("one block");
    let record = put(Kind::Record, 0, 0, record);
    let mut superblock = Superblock {
        number: 1,
        inodes: Tree::default(),
        record,
        records: 1,
        next_ino: FIRST,
        files: 1,
        units: 1,
        ..Superblock::default()
    };
    superblock.inodes.root.pointers[0] = inodes;
    let at = shape.slot(0, SLOTS - 1);
    superblock.durable = 1;
    superblock.durable_at = at;
    blocks.push((at, superblock.write(at, secret)));
    blocks
}
