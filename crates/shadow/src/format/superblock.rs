//! Superblocks: the whole volume, as one update leaves it.

use std::ops::Range;

use cow::format::head::{alone, is, is_read, seal_alone, seal_as, secret};
use cow::format::inode::Time;
use cow::format::snapshot::Snapshots;
use cow::{END, HIGHEST, Head, Place, Pointer, Root, Run, Secret, Tree, UNIT, view, view_mut};
use vnode::chain::Chain;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::FRONT;
use super::anchor::{LABEL, Shape};
use super::kind;

/// Runs that a superblock lists at most.
pub const LISTED: usize = 64;
/// Trees that do not belong to files.
pub const TREES: usize = 7;
/// Numbers of files are below this: a directory entry has 32 bits for one.
pub const NUMBERS: u64 = 1 << 32;
/// Percent of the space that only root may fill, at most.
pub const MOST_RESERVE: u8 = 20;
/// Places for blocks of lists: the number of blocks that a level of a tree may have.
pub const PLACES: u64 = 1 << 29;
/// Open chains at most.
pub const CHAINS: usize = 64;

/// Units that were written with an update, and may be lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The units.
    pub run: Run,
    /// Units that each checksum covers.
    pub grain: u16,
    /// The checksum of their checksums.
    pub sum: u64,
}

impl Listed {
    /// First byte on the disk; a byte behind its end if the run makes no sense.
    pub fn offset(&self) -> u64 {
        self.run.start.min(1 << 50) * UNIT as u64
    }
}

/// A copy of the anchor's contents, for an opening that finds no anchor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The volume's shape.
    pub shape: Shape,
    /// The volume's label when it was opened.
    pub label: String,
    /// The number of the last anchor at that time, or of a later one.
    pub anchor: u64,
}

impl Volume {
    /// Whether a disk of this size, with the superblock in unit `at`, may be that volume.
    pub fn makes_sense(&self, units: u64, at: u64) -> bool {
        let shape = &self.shape;
        let is_slot = || {
            let zone = shape.zone_of(at);
            zone < shape.zones() && at >= shape.slot(zone, 0)
        };
        shape.units == units && shape.is_legal() && at >= FRONT && is_slot() && self.anchor < END
    }
}

/// Contents of a superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Number of the update, from 1.
    pub number: u64,
    /// The last update that was durable when this one went out; 0 for none.
    pub durable: u64,
    /// The unit of that update's superblock.
    pub durable_at: u64,
    /// Blocks of inodes.
    pub inodes: Tree,
    /// Blocks of the map.
    pub map: Tree,
    /// Blocks of the space log.
    pub log: Tree,
    /// Blocks of the log that are live: numbered from the count of dropped blocks to that of blocks
    /// ever begun.
    pub log_blocks: Range<u64>,
    /// Blocks of replies.
    pub answers: Tree,
    /// Number of blocks of replies ever begun.
    pub answers_begun: u64,
    /// Number of these that are no longer remembered.
    pub answers_from: u64,
    /// Snapshots, and the blocks they hold.
    pub snapshots: Snapshots,
    /// Percent of the space for files that only root may fill.
    pub reserve: u8,
    /// The last block of the last record.
    pub record: Pointer,
    /// Blocks of records since the last fold.
    pub records: u32,
    /// All inodes from this number on are free.
    pub next_ino: u64,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Units of leaves that files have.
    pub units: u64,
    /// Time at which it went out, in seconds since 1970.
    pub seconds: i64,
    /// The volume, as its anchors have it.
    pub volume: Volume,
    /// Multi-step operations to continue.
    pub chains: Vec<Chain>,
    /// Runs of the update that no flush covers.
    pub listed: Vec<Listed>,
    /// The version of the format in which it was written.
    pub version: u16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OnDisk {
    head: Head,
    durable: U64,
    durable_at: U64,
    trees: [Root; TREES],
    heights: [u8; TREES],
    reserve: u8,
    records: U32,
    answers_begun: U64,
    answers_from: U64,
    log_first: U64,
    log_next: U64,
    line_slots: U64,
    list_slots: U64,
    died_slots: U64,
    last_snapshot: U32,
    changed: Time,
    nodes: U64,
    pinned: U64,
    pinned_until: U64,
    record: Pointer,
    next_ino: U64,
    files: U64,
    directories: U64,
    units: U64,
    seconds: I64,
    chains: U16,
    listed: U16,
    zone: U32,
    chain: [ChainLine; CHAINS],
    list: [ListLine; LISTED],
    of_units: U64,
    anchor: U64,
    block: u8,
    label: u8,
    text: [u8; LABEL],
    /// The largest number of a snapshot, if it has more than 32 bits; else 0.
    last_long: U64,
    /// The other copy of the first block to which the root of the inodes leads; 0 for none.
    twin: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ChainLine {
    ino: U32,
    generation: U32,
    /// Whether the file is to be truncated to `size`; else it is to be freed.
    has_size: U32,
    size: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListLine {
    start: U64,
    length: U16,
    grain: U16,
    sum: U64,
}

const _: () = assert!(size_of::<OnDisk>() <= UNIT);

/// Marks a snapshot number that is too large for this field and has a field of its own. A program
/// that does not know that field refuses the volume.
const LONG: u32 = u32::MAX;

fn last_short(last: u64) -> u32 {
    u32::try_from(last).unwrap_or(LONG)
}

impl Superblock {
    /// Its place as a block. The index is the unit at which it is, so that a misplaced superblock
    /// is invalid.
    fn place(at: u64) -> Place {
        Place { kind: kind::SUPERBLOCK, owner: 0, level: 0, index: at }
    }

    /// The trees that do not belong to files, in the order of their owners.
    pub fn trees(&self) -> [Tree; TREES] {
        let Snapshots { lines, lists, died, .. } = self.snapshots;
        [self.inodes, self.map, self.answers, lines, lists, died, self.log]
    }

    /// Whether the counts of the live tree are possible on a volume of this size.
    pub fn counts_make_sense(&self, units: u64) -> bool {
        let are_few = self.directories <= self.files && self.files <= NUMBERS;
        let is_short = [self.answers_begun, self.answers_from].iter().all(|it| it >> 48 == 0);
        let is_small = self.reserve <= MOST_RESERVE;
        are_few && is_short && is_small && self.units <= units && self.next_ino <= NUMBERS
    }

    /// Encodes it as the block for this unit.
    pub fn write(&self, at: u64, secret: &Secret) -> Box<[u8; UNIT]> {
        let mut block = Box::new([0; UNIT]);
        let disk: &mut OnDisk = view_mut(&mut *block);
        (disk.durable, disk.durable_at) = (self.durable.into(), self.durable_at.into());
        let trees = self.trees();
        (disk.trees, disk.heights) = (trees.map(|tree| tree.root), trees.map(|tree| tree.height));
        disk.twin = self.inodes.twin.into();
        disk.reserve = self.reserve;
        disk.answers_begun = self.answers_begun.into();
        disk.answers_from = self.answers_from.into();
        disk.log_first = self.log_blocks.start.into();
        disk.log_next = self.log_blocks.end.into();
        let of = &self.snapshots;
        (disk.line_slots, disk.list_slots) = (of.line_slots.into(), of.list_slots.into());
        (disk.died_slots, disk.last_snapshot) = (of.died_slots.into(), last_short(of.last).into());
        disk.last_long = if of.last >= u64::from(LONG) { of.last.into() } else { 0.into() };
        (disk.changed, disk.nodes) = (of.changed.into(), of.nodes.into());
        (disk.pinned, disk.pinned_until) = (of.pinned.into(), of.pinned_until.into());
        (disk.record, disk.records) = (self.record, self.records.into());
        (disk.next_ino, disk.files) = (self.next_ino.into(), self.files.into());
        (disk.directories, disk.units) = (self.directories.into(), self.units.into());
        disk.seconds = self.seconds.into();
        disk.chains = (self.chains.len() as u16).into();
        for (line, chain) in disk.chain.iter_mut().zip(&self.chains) {
            *line = ChainLine {
                ino: u32::try_from(chain.ino).expect("numbers of files have 32 bits").into(),
                generation: chain.generation.into(),
                has_size: u32::from(chain.size.is_some()).into(),
                size: chain.size.unwrap_or(0).into(),
            };
        }
        assert!(self.chains.len() <= CHAINS && self.listed.len() <= LISTED, "they have room");
        disk.listed = (self.listed.len() as u16).into();
        for (line, listed) in disk.list.iter_mut().zip(&self.listed) {
            *line = ListLine {
                start: listed.run.start.into(),
                length: u16::try_from(listed.run.length).expect("8 MiB at most").into(),
                grain: listed.grain.into(),
                sum: listed.sum.into(),
            };
        }
        disk.set_volume(&self.volume);
        seal_as(&mut *block, Self::place(at), self.number, secret, self.version);
        seal_alone(&mut *block);
        block
    }

    /// Decodes a whole superblock at this unit, of any volume, with the volume's secret.
    pub fn of_any(block: &[u8], at: u64) -> Option<(Secret, Self)> {
        let own = secret(block);
        Self::read(block, at, &own).map(|superblock| (own, superblock))
    }

    /// Decodes the superblock at this unit, if it is whole and of this volume.
    pub fn read(block: &[u8], at: u64, own: &Secret) -> Option<Self> {
        let (number, version) = alone(block, kind::SUPERBLOCK)?;
        let is_own = is_read(version) && secret(block) == *own && number < END;
        if !is_own || !is(block, Self::place(at), number, own) {
            return None;
        }
        let disk: &OnDisk = view(block);
        let chains = disk.chain.get(..disk.chains.get().into())?;
        let listed = disk.list.get(..disk.listed.get().into())?;
        let volume = disk.volume()?;
        let are_high = disk.heights.iter().all(|&height| height <= HIGHEST);
        are_high.then(|| Self {
            number,
            durable: disk.durable.get(),
            durable_at: disk.durable_at.get(),
            inodes: Tree { twin: disk.twin.get(), ..disk.tree(0) },
            map: disk.tree(1),
            log: disk.tree(6),
            log_blocks: disk.log_first.get()..disk.log_next.get(),
            answers: disk.tree(2),
            answers_begun: disk.answers_begun.get(),
            answers_from: disk.answers_from.get(),
            snapshots: disk.snapshots(),
            reserve: disk.reserve,
            record: disk.record,
            records: disk.records.get(),
            next_ino: disk.next_ino.get(),
            files: disk.files.get(),
            directories: disk.directories.get(),
            units: disk.units.get(),
            seconds: disk.seconds.get(),
            volume,
            chains: chains.iter().map(ChainLine::read).collect(),
            listed: listed.iter().map(ListLine::read).collect(),
            version,
        })
    }
}

impl OnDisk {
    fn tree(&self, index: usize) -> Tree {
        Tree { height: self.heights[index], root: self.trees[index], twin: 0 }
    }

    fn set_volume(&mut self, volume: &Volume) {
        let Volume { shape, label, anchor } = volume;
        self.of_units = shape.units.into();
        self.zone = u32::try_from(shape.zone).expect("64 GiB at most").into();
        self.block = u8::try_from(shape.block).expect("64 KiB at most");
        self.anchor = (*anchor).into();
        self.label = u8::try_from(label.len()).expect("64 bytes at most");
        self.text[..label.len()].copy_from_slice(label.as_bytes());
    }

    fn volume(&self) -> Option<Volume> {
        let (units, zone) = (self.of_units.get(), self.zone.get().into());
        let shape = Shape { units, zone, block: self.block.into() };
        let label = self.text.get(..self.label.into())?;
        let label = String::from_utf8(label.to_vec()).ok()?;
        Some(Volume { shape, label, anchor: self.anchor.get() })
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots {
            lines: self.tree(3),
            lists: self.tree(4),
            died: self.tree(5),
            line_slots: self.line_slots.get(),
            list_slots: self.list_slots.get(),
            died_slots: self.died_slots.get(),
            last: match self.last_snapshot.get() {
                LONG => self.last_long.get(),
                short => short.into(),
            },
            changed: self.changed.into(),
            nodes: self.nodes.get(),
            pinned: self.pinned.get(),
            pinned_until: self.pinned_until.get(),
        }
    }
}

impl ChainLine {
    fn read(&self) -> Chain {
        let size = (self.has_size.get() != 0).then_some(self.size.get());
        Chain { ino: self.ino.get().into(), generation: self.generation.get(), size }
    }
}

impl ListLine {
    fn read(&self) -> Listed {
        let run = Run { start: self.start.get(), length: self.length.get().into() };
        Listed { run, grain: self.grain.get().max(1), sum: self.sum.get() }
    }
}

#[cfg(test)]
mod tests {
    use cow::VERSION;
    use vfs::Timestamp;

    use super::*;

    const SECRET: Secret = [7; 16];

    fn sample() -> Superblock {
        let pointer = |n| Pointer::new(n, n + 1, n + 2);
        let root = Root { pointers: [1, 2, 3, 4, 5, 0].map(pointer) };
        let tree = |height| Tree { height, root, twin: 0 };
        let chain = |ino| Chain { ino, generation: 9, size: (ino % 2 == 0).then_some(ino << 20) };
        let listed = |n| Listed { run: Run { start: n, length: 3 }, grain: 2, sum: !n };
        Superblock {
            number: 77,
            durable: 76,
            durable_at: 12,
            inodes: Tree { twin: 8, ..tree(2) },
            map: tree(1),
            log: tree(1),
            log_blocks: 40..45,
            answers: tree(0),
            answers_begun: 5,
            answers_from: 3,
            snapshots: Snapshots {
                lines: tree(1),
                lists: tree(3),
                died: tree(4),
                line_slots: 17,
                list_slots: 18,
                died_slots: 19,
                last: 20,
                changed: Timestamp { seconds: -21, nanoseconds: 22 },
                nodes: 23,
                pinned: 24,
                pinned_until: 25,
            },
            reserve: 26,
            record: pointer(9),
            records: 4,
            next_ino: 1 << 30,
            files: 33,
            directories: 22,
            units: 44,
            seconds: -55,
            volume: Volume {
                shape: Shape { units: 256, zone: 16, block: 1 },
                label: "äpfel".to_owned(),
                anchor: 66,
            },
            chains: (0..CHAINS as u64).map(chain).collect(),
            listed: (0..LISTED as u64).map(listed).collect(),
            version: VERSION,
        }
    }

    #[test]
    fn one_of_a_number_that_none_reaches_is_none() {
        for (number, is_one) in [(END - 1, true), (END, false), (u64::MAX, false)] {
            let block = Superblock { number, ..sample() }.write(9, &SECRET);
            assert_eq!(Superblock::read(&*block, 9, &SECRET).is_some(), is_one, "{number}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_only_where_it_stands() {
        let block = sample().write(14, &SECRET);
        assert_eq!(Superblock::read(&*block, 14, &SECRET), Some(sample()));
        assert_eq!(Superblock::read(&*block, 15, &SECRET), None);
        assert_eq!(Superblock::read(&*block, 14, &[8; 16]), None, "of another volume");
        assert_eq!(Superblock::of_any(&*block, 14), Some((SECRET, sample())));
        assert_eq!(Superblock::of_any(&*block, 15), None);
    }

    #[test]
    fn a_volume_is_that_of_its_disk_and_its_slots() {
        let volume = sample().volume;
        let places = (0..300).filter(|&at| volume.makes_sense(256, at));
        let slots = (0..volume.shape.zones())
            .flat_map(|zone| [volume.shape.slot(zone, 0), volume.shape.slot(zone, 1)]);
        assert_eq!(places.collect::<Vec<_>>(), slots.collect::<Vec<_>>());
        assert!(!volume.makes_sense(257, 46), "of a larger disk");
        let shape = Shape { block: 3, ..volume.shape };
        assert!(!Volume { shape, ..volume }.makes_sense(256, 46), "there is none");
    }

    #[test]
    fn one_with_any_bit_flipped_is_none() {
        let block = sample().write(14, &SECRET);
        for byte in 0..UNIT {
            let mut rotten = block.clone();
            rotten[byte] ^= 1 << (byte % 8);
            assert_eq!(Superblock::read(&*rotten, 14, &SECRET), None, "byte {byte}");
        }
    }
}
