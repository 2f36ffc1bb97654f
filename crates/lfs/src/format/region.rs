//! A region: the root of a checkpoint.
//!
//! Each sector of it, apart from the first with its head, begins with a tag that no other region
//! has. So a region whose write was cut, and never counted, does not come to life when the write of
//! a later one is cut in the other half.

use cow::format::snapshot::Snapshots;
use cow::{Head, Place, Pointer, Root, Secret, TREES, Tree, UNIT, WIDTH, view};
use vfs::Timestamp;
use vnode::chain::Chain;
use zerocopy::IntoBytes;

use super::alone::{opened, sealed};
use super::codec::{Reader, Writer};
use super::kind;
use crate::planted::{Bug, is_planted};

/// The counts of a live tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All inodes from this number on are free.
    pub next_ino: u64,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Units of leaves that files have.
    pub units: u64,
    /// Time, in seconds since 1970.
    pub seconds: i64,
}

/// The place of a summary that is not written yet, and its place in the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The unit at which it is going to be.
    pub place: u64,
    /// Its number in the chain.
    pub sequence: u64,
    /// The checksum of the summary before it.
    pub previous: u64,
    /// The segment that the log enters next; none if it is unknown.
    pub ahead: Option<u64>,
}

/// See the module's prose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The number of the checkpoint.
    pub number: u64,
    /// Number of the opening that wrote it: random, so that no log of another one is taken for its.
    pub epoch: u64,
    /// Whether the volume was stopped with it.
    pub is_at_rest: bool,
    /// The trees.
    pub trees: [Tree; TREES],
    /// Counts of the live tree.
    pub counts: Counts,
    /// Rows from this one on were never in use.
    pub rows: u64,
    /// The sum of the checksums of the blocks of the table that the checkpoint wrote.
    pub table: u64,
    /// Units in use.
    pub used: u64,
    /// Blocks of replies that were ever begun.
    pub answers_begun: u64,
    /// Those before this one were forgotten.
    pub answers_from: u64,
    /// Snapshots, without their trees, which are among the others.
    pub snapshots: Snapshots,
    /// The first summary that is not in it.
    pub log: Link,
    /// Open chains of updates.
    pub chains: Vec<Chain>,
}

impl Region {
    fn place(turn: u64) -> Place {
        Place { kind: kind::REGION, owner: 0, level: 0, index: turn }
    }

    /// Encodes it, as the one with this turn.
    pub fn write(&self, turn: u64, secret: &Secret) -> Vec<u8> {
        let mut body = Writer::default();
        body.u64(self.epoch);
        body.u8(u8::from(self.is_at_rest));
        for tree in &self.trees {
            body.u8(tree.height);
            body.bytes(tree.root.as_bytes());
            body.u64(tree.twin);
        }
        write_counts(&mut body, &self.counts, &self.chains);
        let counts = [self.rows, self.table, self.used, self.answers_begun, self.answers_from];
        counts.into_iter().for_each(|count| body.u64(count));
        write_snapshots(&mut body, &self.snapshots);
        write_link(&mut body, &self.log);
        let tag = tag(self.number, self.epoch);
        sealed(Writer(tagged(&body.0, tag)), Self::place(turn), self.number, secret)
    }

    /// Decodes it; none if the block is something else.
    pub fn read(block: &[u8], turn: u64, secret: &Secret) -> Option<Self> {
        let (number, body) = opened(block, Self::place(turn), secret)?;
        let bytes = untagged(body.0, number)?;
        let mut body = Reader(&bytes);
        let (epoch, is_at_rest) = (body.u64()?, body.u8()? == 1);
        let mut trees = [Tree::default(); TREES];
        for tree in &mut trees {
            tree.height = body.u8().filter(|&height| height <= cow::HIGHEST)?;
            tree.root = *view::<Root>(body.bytes(size_of::<Root>())?);
            tree.twin = body.u64()?;
        }
        let (counts, chains) = read_counts(&mut body)?;
        let (rows, table, used) = (body.u64()?, body.u64()?, body.u64()?);
        let (answers_begun, answers_from) = (body.u64()?, body.u64()?);
        let snapshots = read_snapshots(&mut body)?;
        let log = read_link(&mut body)?;
        Some(Self {
            number,
            epoch,
            is_at_rest,
            trees,
            counts,
            rows,
            table,
            used,
            answers_begun,
            answers_from,
            snapshots,
            log,
            chains,
        })
    }
}

/// Bytes of a sector.
const SECTOR: usize = 512;
/// Bytes of a body in the first sector.
const FIRST: usize = SECTOR - size_of::<Head>();
/// Bytes of a body in each of the others.
const OTHERS: usize = SECTOR - 8;

fn tag(number: u64, epoch: u64) -> [u8; 8] {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ epoch).to_le_bytes()
}

/// A body with a tag at the beginning of each sector but the first.
fn tagged(body: &[u8], tag: [u8; 8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(FIRST + (UNIT / SECTOR - 1) * OTHERS, 0);
    let (first, others) = body.split_at(FIRST);
    let mut all = first.to_vec();
    for part in others.chunks(OTHERS) {
        all.extend_from_slice(&tag);
        all.extend_from_slice(part);
    }
    all
}

/// The body without its tags; none if one is not that of this region.
fn untagged(bytes: &[u8], number: u64) -> Option<Vec<u8>> {
    let (first, others) = bytes.split_at(FIRST);
    let epoch = u64::from_le_bytes(first[..8].try_into().ok()?);
    let mut body = first.to_vec();
    for sector in others.chunks(SECTOR) {
        let (found, part) = sector.split_at(8);
        if found != tag(number, epoch) && !is_planted(Bug::UntaggedRegions) {
            return None;
        }
        body.extend_from_slice(part);
    }
    Some(body)
}

pub(crate) fn write_link(body: &mut Writer, link: &Link) {
    body.u64(link.place);
    body.u64(link.sequence);
    body.u64(link.previous);
    body.u64(link.ahead.map_or(u64::MAX, |segment| segment));
}

pub(crate) fn read_link(body: &mut Reader<'_>) -> Option<Link> {
    let (place, sequence, previous) = (body.u64()?, body.u64()?, body.u64()?);
    let ahead = Some(body.u64()?).filter(|&segment| segment != u64::MAX);
    Some(Link { place, sequence, previous, ahead })
}

fn write_snapshots(body: &mut Writer, said: &Snapshots) {
    let Snapshots { line_slots, list_slots, died_slots, last, changed, nodes, .. } = *said;
    let slots = [line_slots, list_slots, died_slots, last, changed.seconds as u64];
    slots.into_iter().for_each(|count| body.u64(count));
    body.u32(changed.nanoseconds);
    [nodes, said.pinned, said.pinned_until].into_iter().for_each(|count| body.u64(count));
}

fn read_snapshots(body: &mut Reader<'_>) -> Option<Snapshots> {
    let [line_slots, list_slots, died_slots] = [body.u64()?, body.u64()?, body.u64()?];
    let (last, seconds, nanoseconds) = (body.u64()?, body.u64()? as i64, body.u32()?);
    let [nodes, pinned, pinned_until] = [body.u64()?, body.u64()?, body.u64()?];
    let changed = Timestamp { seconds, nanoseconds };
    let trees = Snapshots::default();
    Some(Snapshots {
        line_slots,
        list_slots,
        died_slots,
        last,
        changed,
        nodes,
        pinned,
        pinned_until,
        ..trees
    })
}

pub(crate) fn write_counts(body: &mut Writer, counts: &Counts, chains: &[Chain]) {
    let Counts { next_ino, files, directories, units, seconds } = *counts;
    [next_ino, files, directories, units, seconds as u64]
        .into_iter()
        .for_each(|count| body.u64(count));
    body.count(chains.len());
    for chain in chains {
        body.u64(chain.ino);
        body.u32(chain.generation);
        body.u64(chain.size.map_or(0, |size| size + 1));
    }
}

pub(crate) fn read_counts(body: &mut Reader<'_>) -> Option<(Counts, Vec<Chain>)> {
    let [next_ino, files, directories, units] =
        [body.u64()?, body.u64()?, body.u64()?, body.u64()?];
    let seconds = body.u64()? as i64;
    let chains = body.list(20, |body| {
        let (ino, generation) = (body.u64()?, body.u32()?);
        Some(Chain { ino, generation, size: body.u64()?.checked_sub(1) })
    })?;
    let counts = Counts { next_ino, files, directories, units, seconds };
    (chains.len() <= cow::chains::CHAINS).then_some((counts, chains))
}

const _: () = {
    let trees = TREES * (9 + WIDTH * size_of::<Pointer>());
    let rest = 9 + 44 + 40 + 68 + 32 + cow::chains::CHAINS * 20;
    assert!(trees + rest <= FIRST + (UNIT / SECTOR - 1) * OTHERS);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_read_as_it_was_written() {
        let chain = Chain { ino: 77, generation: 3, size: Some(0) };
        let mut region = Region {
            number: 9,
            epoch: 4,
            is_at_rest: true,
            rows: 12,
            answers_begun: 3,
            log: Link { place: 99, sequence: 8, previous: 7, ahead: None },
            chains: vec![chain; cow::chains::CHAINS],
            ..Region::default()
        };
        region.trees[3].root.pointers[2] = Pointer::new(1 << 40, 5, 6);
        region.counts.seconds = -5;
        let mut block = region.write(1, &[3; 16]);
        assert_eq!(Region::read(&block, 1, &[3; 16]), Some(region));
        assert_eq!(Region::read(&block, 0, &[3; 16]), None, "it is not the other one");
        assert_eq!(Region::read(&block, 1, &[4; 16]), None, "nor of another volume");
        let later = Region { number: 10, ..region_of(&block) }.write(1, &[3; 16]);
        let mut mixed = block.clone();
        mixed[2 * SECTOR..].copy_from_slice(&later[2 * SECTOR..]);
        assert_eq!(Region::read(&mixed, 1, &[3; 16]), None, "two halves are no whole");
        block[200] ^= 1;
        assert_eq!(Region::read(&block, 1, &[3; 16]), None);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn halves_of_two_regions_make_a_third_without_tags() {
        let region = Region { number: 9, ..Region::default() };
        let mut mixed = region.write(0, &[3; 16]);
        let later = Region { number: 10, ..Region::default() }.write(0, &[3; 16]);
        mixed[7 * SECTOR..].copy_from_slice(&later[7 * SECTOR..]);
        assert_eq!(Region::read(&mixed, 0, &[3; 16]), None, "its checksum has the tags");
        cow::format::head::seal(&mut mixed, Region::place(0), 9, &[3; 16]);
        cow::format::head::seal_alone(&mut mixed);
        assert_eq!(Region::read(&mixed, 0, &[3; 16]), None);
        crate::planted::plant(Some(Bug::UntaggedRegions));
        assert!(Region::read(&mixed, 0, &[3; 16]).is_some(), "the bug believes it");
        crate::planted::plant(None);
    }

    fn region_of(block: &[u8]) -> Region {
        Region::read(block, 1, &[3; 16]).expect("it was written")
    }
}
