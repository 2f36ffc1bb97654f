//! Valid structures of disks of different shapes, to be damaged.

use std::sync::OnceLock;

use ufs2::derive;
use ufs2::layout::{Geometry, ROOT_INODE, SUPERBLOCK_MAGIC, SUPERBLOCK_ROOM, check_hash};
use ufs2::mkfs::{MkfsOptions, Plan, plan};
use zerocopy::IntoBytes;

use crate::input::Input;

/// The structures of a disk that was never made.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) geometry: Geometry,
    /// The layout according to a big-endian superblock.
    pub(crate) big: Geometry,
    /// The primary superblock, sealed, with its whole reserved area.
    pub(crate) superblock: Vec<u8>,
}

/// Size of the disk, of a block and of a fragment in bytes, blocks in a group, check hashes.
const SHAPES: [(u64, u64, u64, u64, bool); 6] = [
    (4 << 20, 4096, 512, 300, true),
    (8 << 20, 8192, 1024, 300, true),
    (64 << 20, 32_768, 4096, 500, true),
    (16 << 20, 4096, 4096, 1000, true),
    (5 << 20, 8192, 2048, 200, false),
    (32 << 20, 65_536, 32_768, 120, true),
];

/// One template for each shape.
pub(crate) fn all() -> &'static [Template] {
    static ALL: OnceLock<Vec<Template>> = OnceLock::new();
    ALL.get_or_init(|| SHAPES.into_iter().map(template).collect())
}

fn template(
    (size, block_size, fragment_size, blocks, check_hashes): (u64, u64, u64, u64, bool),
) -> Template {
    let max_group_blocks = Some(blocks);
    let options = MkfsOptions {
        block_size,
        fragment_size,
        max_group_blocks,
        check_hashes,
        ..MkfsOptions::default()
    };
    let Plan { geometry, superblock } = plan(size, 512, &options).expect("a disk can be so");
    let mut block = superblock.as_bytes().to_vec();
    block.resize(SUPERBLOCK_ROOM as usize, 0);
    geometry.seal_superblock(&mut block);
    let big = Geometry::parse_any_order(&mut big_endian_superblock(&geometry, &block));
    Template { geometry, big: big.expect("the same disk"), superblock: block }
}

impl Template {
    /// The block of an empty group, sealed.
    pub(crate) fn group_block(&self, group: u64) -> Vec<u8> {
        let geometry = &self.geometry;
        let mut block = vec![0; geometry.group_block_size as usize];
        derive::initialize_group(geometry, group, &mut block);
        if group == 0 {
            derive::bits::set_range(geometry.maps.inodes_in_mut(&mut block), 0..ROOT_INODE + 1);
        }
        derive::recompute_group(geometry, group, &mut block);
        geometry.seal_group(&mut block);
        block
    }
}

/// A range of adjacent numbers of one width: width, start, end.
pub(crate) type Numbers = (usize, usize, usize);

/// Swaps the byte order of the numbers of a structure.
pub(crate) fn turn(block: &mut [u8], numbers: &[Numbers]) {
    for &(width, from, to) in numbers {
        block[from..to].chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

/// The numbers of a superblock. Derived a second time from the format's description.
const SUPERBLOCK: [Numbers; 11] = [
    (4, 0, 208),
    (8, 712, 720),
    (4, 724, 728),
    (4, 860, 864),
    (8, 864, 1112),
    (4, 1112, 1208),
    (8, 1208, 1216),
    (4, 1216, 1328),
    (8, 1328, 1352),
    (4, 1352, 1356),
    (4, 1372, 1376),
];
const SUPERBLOCK_HASH: usize = 1304;

/// A superblock as a big-endian machine would have written it.
pub(crate) fn big_endian_superblock(geometry: &Geometry, little: &[u8]) -> Vec<u8> {
    let mut block = little.to_vec();
    turn(&mut block, &SUPERBLOCK);
    debug_assert!(block[1372..].starts_with(&SUPERBLOCK_MAGIC.to_be_bytes()));
    put_hash(&mut block[..geometry.superblock_size as usize], SUPERBLOCK_HASH);
    block
}

/// Stores the hash of a big-endian structure at `field`.
pub(crate) fn put_hash(block: &mut [u8], field: usize) {
    let hash = check_hash(block, field);
    block[field..field + 4].copy_from_slice(&hash.to_be_bytes());
}

/// Patches a block as an input says: pieces of up to 31 bytes, each with its offset.
pub(crate) fn patch(block: &mut [u8], mut input: Input<'_>) {
    while !input.is_empty() {
        let at = usize::from(input.u16()) % block.len();
        let length = usize::from(input.u8() % 32).min(block.len() - at);
        let piece = input.bytes(length);
        block[at..at + piece.len()].copy_from_slice(piece);
    }
}
