//! Free space of a disk, computed from its own bytes: the maps, the inodes, the block pointers.
//!
//! Nothing here asks the engine. A refusal is right if the request does not fit into the space that
//! is free in the maps, or would take from the reserve of FFS: whole free blocks times the
//! fragments of one, plus loose fragments, minus the reserve's percent of the data fragments,
//! rounded down (docs/formats/ufs2.md). And four whole blocks are kept from all callers: files that
//! become shorter need them.
//!
//! A call that needs two runs of fragments may get them in either order and from either end, so
//! only a demand that fits in the worst order surely fits. With one run, as in nearly all calls,
//! the answer is exact.

use std::collections::BTreeSet;
use std::ops::Range;

use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, EntryHeader, minimum_record_length};
use sim::Image;
use ufs2::derive::bits;
use ufs2::layout::{DIRECT_POINTERS, Dinode, Geometry, INDIRECT_POINTERS};
use zerocopy::FromBytes;

const DIRECT: u64 = DIRECT_POINTERS as u64;
/// Whole blocks that stay free.
const KEPT_BLOCKS: u64 = 4;

/// A run of fragments that a call needs inside one block.
#[derive(Clone, Debug)]
struct Run {
    count: u64,
    /// Number of the fragments that it replaces, and the first of them: they may grow in place, or
    /// they are freed.
    old: Option<(u64, u64)>,
}

/// Space that a call needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    inodes: u64,
    blocks: u64,
    runs: Vec<Run>,
}

impl Demand {
    /// The same and one inode.
    pub(crate) fn with_inode(mut self) -> Self {
        self.inodes += 1;
        self
    }

    /// The same and a new run of fragments.
    pub(crate) fn with_run(mut self, count: u64) -> Self {
        self.runs.push(Run { count, old: None });
        self
    }

    /// Whether the demand is a single fragment, anywhere.
    pub(crate) fn is_one_fragment(&self) -> bool {
        self.blocks == 0 && matches!(self.runs[..], [Run { count: 1, old: None }])
    }

    /// Whether there are enough inodes.
    pub(crate) fn finds_inodes(&self, room: &Room<'_>) -> bool {
        self.inodes <= room.free_inodes
    }
}

/// The disk once everything has settled.
pub(crate) struct Room<'a> {
    geometry: &'a Geometry,
    image: Image,
    /// Free fragments of each block of the disk, as bits.
    blocks: Vec<u8>,
    free_inodes: u64,
}

impl<'a> Room<'a> {
    pub(crate) fn of(geometry: &'a Geometry, image: Image) -> Self {
        let per_block = geometry.fragments_per_block;
        let mut room = Self { geometry, image, blocks: Vec::new(), free_inodes: 0 };
        room.blocks = vec![0; geometry.size.div_ceil(per_block) as usize];
        for group in 0..geometry.group_count {
            let address = geometry.group_header_fragment(group);
            let header = room.bytes(address, geometry.group_block_size as usize);
            let (map, base) = (geometry.maps.fragments_in(&header), geometry.group_base(group));
            for fragment in 0..geometry.group_size_fragments(group) {
                if bits::is_set(map, fragment) {
                    let at = base + fragment;
                    room.blocks[(at / per_block) as usize] |= 1 << (at % per_block);
                }
            }
            let map = geometry.maps.inodes_in(&header);
            let free = (0..geometry.inodes_per_group).filter(|&index| !bits::is_set(map, index));
            room.free_inodes += free.count() as u64;
        }
        room
    }

    /// Fragments that stay free, regardless of the caller.
    pub(crate) fn kept(geometry: &Geometry) -> u64 {
        KEPT_BLOCKS * geometry.fragments_per_block
    }

    /// Total number of free fragments.
    pub(crate) fn free_fragments(&self) -> u64 {
        self.blocks.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    pub(crate) fn free_inodes(&self) -> u64 {
        self.free_inodes
    }

    fn bytes(&self, fragment: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.image.read(self.geometry.byte_address(fragment), &mut bytes);
        bytes
    }

    fn dinode(&self, ino: u64) -> Dinode {
        let position = self.geometry.inode_position(ino);
        let block = self.bytes(position.fragment, self.geometry.block_size as usize);
        *Dinode::at(&block, position.offset)
    }

    /// Demand of writing `length` bytes at `offset` of a file.
    pub(crate) fn write(&self, ino: u64, offset: u64, length: u64) -> Demand {
        let (end, block) = (offset + length, self.geometry.block_size);
        self.growth(&self.dinode(ino), end, offset / block..end.div_ceil(block))
    }

    /// Demand of making a file `size` bytes long: beyond the direct blocks, its last one.
    pub(crate) fn resize(&self, ino: u64, size: u64) -> Demand {
        let blocks = size.div_ceil(self.geometry.block_size);
        let first = if blocks > DIRECT { blocks - 1 } else { blocks };
        self.growth(&self.dinode(ino), size, first..blocks)
    }

    /// Demand of a new name in a directory: nothing, if an entry has room behind it.
    pub(crate) fn name(&self, directory: u64, length: usize) -> Demand {
        let dinode = self.dinode(directory);
        let size = dinode.size.get();
        let needed = minimum_record_length(length);
        let mut chunks = (0..size).step_by(CHUNK_SIZE);
        if chunks.any(|start| self.chunk_has_room(&dinode, start, needed)) {
            return Demand::default();
        }
        let lbn = size / self.geometry.block_size;
        self.growth(&dinode, size + CHUNK_SIZE as u64, lbn..lbn + 1)
    }

    fn chunk_has_room(&self, dinode: &Dinode, start: u64, needed: usize) -> bool {
        let block = self.address(dinode, start / self.geometry.block_size);
        let mut chunk = [0; CHUNK_SIZE];
        let byte = self.geometry.byte_address(block) + start % self.geometry.block_size;
        self.image.read(byte, &mut chunk);
        let mut at = 0;
        while at < CHUNK_SIZE {
            let entry = EntryHeader::ref_from_bytes(&chunk[at..][..ENTRY_HEADER_SIZE]);
            let entry = entry.expect("an entry has a header");
            let length = usize::from(entry.record_length.get());
            let live = entry.inode.get() != 0;
            let kept = if live { minimum_record_length(entry.name_length.into()) } else { 0 };
            if length - kept >= needed {
                return true;
            }
            at += length;
        }
        false
    }

    /// Demand of a file that becomes at least `size` bytes long and gets these blocks.
    fn growth(&self, dinode: &Dinode, size: u64, touched: Range<u64>) -> Demand {
        let mut demand = Demand::default();
        let old_size = dinode.size.get();
        let size = size.max(old_size);
        if let Some(tail) = old_size.div_ceil(self.geometry.block_size).checked_sub(1) {
            let (have, count) = (self.run(old_size, tail), self.run(size, tail));
            let address = self.address(dinode, tail);
            if address != 0 && count > have {
                demand.runs.push(Run { count, old: Some((have, address)) });
            }
        }
        let mut indirect = BTreeSet::new();
        for lbn in touched {
            if self.address(dinode, lbn) != 0 {
                continue;
            }
            match self.run(size, lbn) {
                count if count < self.geometry.fragments_per_block => {
                    demand.runs.push(Run { count, old: None });
                }
                _ => demand.blocks += 1,
            }
            indirect.extend(self.missing(dinode, lbn));
        }
        demand.blocks += indirect.len() as u64;
        demand
    }

    fn run(&self, size: u64, lbn: u64) -> u64 {
        let (blocks, tail) =
            (size.div_ceil(self.geometry.block_size), size % self.geometry.block_size);
        if blocks <= DIRECT && lbn + 1 == blocks && tail > 0 {
            tail.div_ceil(self.geometry.fragment_size)
        } else {
            self.geometry.fragments_per_block
        }
    }

    /// The tree that leads to a block behind the direct ones, and the slots to follow in it.
    fn path(&self, lbn: u64) -> (usize, Vec<u64>) {
        let fan = self.geometry.pointers_per_indirect;
        let mut rest = lbn - DIRECT;
        for tree in 0..INDIRECT_POINTERS {
            let span = fan.pow(tree as u32 + 1);
            if rest < span {
                let slots = (0..=tree as u32).rev().map(|level| rest / fan.pow(level) % fan);
                return (tree, slots.collect());
            }
            rest -= span;
        }
        panic!("block {lbn} lies behind the largest file");
    }

    /// Address of a block of a file; 0 for a hole.
    fn address(&self, dinode: &Dinode, lbn: u64) -> u64 {
        if lbn < DIRECT {
            return dinode.direct[lbn as usize].get() as u64;
        }
        let (tree, slots) = self.path(lbn);
        self.follow(dinode.indirect[tree].get() as u64, &slots)
    }

    fn follow(&self, root: u64, slots: &[u64]) -> u64 {
        slots.iter().fold(root, |address, &slot| match address {
            0 => 0,
            _ => {
                let mut pointer = [0; 8];
                self.image.read(self.geometry.byte_address(address) + slot * 8, &mut pointer);
                u64::from_le_bytes(pointer)
            }
        })
    }

    /// Missing indirect blocks on the way to a block, by tree and slots.
    fn missing(&self, dinode: &Dinode, lbn: u64) -> Vec<(usize, Vec<u64>)> {
        if lbn < DIRECT {
            return Vec::new();
        }
        let (tree, slots) = self.path(lbn);
        let root = dinode.indirect[tree].get() as u64;
        let ways = (0..slots.len()).map(|depth| &slots[..depth]);
        ways.filter(|way| self.follow(root, way) == 0).map(|way| (tree, way.to_vec())).collect()
    }

    /// Whether `demand` fits in any order, with `kept` fragments left over.
    pub(crate) fn surely_fits(&self, demand: &Demand, kept: u64) -> bool {
        let old = |run: &Run| run.old.map_or(0, |(have, _)| have);
        let runs: u64 = demand.runs.iter().map(|run| run.count - old(run)).sum();
        let fragments = runs + demand.blocks * self.geometry.fragments_per_block;
        demand.inodes <= self.free_inodes
            && fragments + kept <= self.free_fragments()
            && self.place(demand, true)
            && (demand.runs.len() < 2 || self.place(demand, false))
    }

    /// Places the whole demand: thriftily, or with a whole block for each run while there is one.
    fn place(&self, demand: &Demand, thriftily: bool) -> bool {
        let mut blocks = self.blocks.clone();
        let per_block = self.geometry.fragments_per_block;
        let full = (0xff_u16 >> (8 - per_block)) as u8;
        let whole = |blocks: &[u8]| blocks.iter().position(|&bits| bits == full);
        for _ in 0..KEPT_BLOCKS {
            let Some(block) = whole(&blocks) else { break };
            blocks[block] = 0;
        }
        for _ in 0..demand.blocks {
            match whole(&blocks) {
                Some(block) => blocks[block] = 0,
                None => return false,
            }
        }
        for run in &demand.runs {
            if let Some((have, address)) = run.old.filter(|_| thriftily) {
                let block = (address / per_block) as usize;
                let wanted = mask(address % per_block + have, run.count - have);
                let inside = address % per_block + run.count <= per_block;
                if inside && u16::from(blocks[block]) & wanted == wanted {
                    blocks[block] &= !(wanted as u8);
                    continue;
                }
            }
            let loose = blocks.iter().position(|&bits| bits != full && fits(bits, run.count));
            let whole = whole(&blocks);
            let order = if thriftily { [loose, whole] } else { [whole, loose] };
            let Some(block) = order.into_iter().flatten().next() else { return false };
            let first = (0..per_block).find(|&first| {
                let wanted = mask(first, run.count);
                u16::from(blocks[block]) & wanted == wanted
            });
            blocks[block] &= !(mask(first.expect("it fits"), run.count) as u8);
        }
        true
    }
}

fn mask(first: u64, count: u64) -> u16 {
    ((1 << count) - 1) << first
}

fn fits(bits: u8, count: u64) -> bool {
    (0..8).any(|first| u16::from(bits) & mask(first, count) == mask(first, count))
}
