//! Computes which blocks the disks of a set can still provide, from their images and apart from the
//! code of sets.
//!
//! This file shares docs/formats/raid.md with that code and nothing else. A block must be readable
//! by either of two rules. *Counting*: its own disk has it, or no more members of its column are
//! bad than the set can miss. *Images*: the bytes are on a disk, or the others of the column add up
//! to them; some of these may be on a disk that was away or is new.

use std::collections::BTreeSet;

use sim::Image;

/// Images of the disks: a member for each slot, followed by a new disk.
pub(super) type Disks = Vec<Option<Image>>;

/// Bytes of a block, the unit of checksums.
pub(super) const BLOCK: u64 = 4096;
/// Address of the block of missed regions on a member, and of the log.
pub(super) const MISSED_AT: u64 = 16384;
pub(super) const LOG_AT: u64 = 1 << 20;

/// Layout of a set on its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) is_mirror: bool,
    pub(super) members: usize,
    pub(super) unit: u64,
    pub(super) rows: u64,
    pub(super) data_start: u64,
    /// Bytes of a member.
    pub(super) member_size: u64,
}

impl Shape {
    /// Units of data in a stripe.
    pub(super) fn width(&self) -> u64 {
        if self.is_mirror { 1 } else { self.members as u64 - 1 }
    }

    /// Bytes of the set.
    pub(super) fn size(&self) -> u64 {
        self.rows * self.width() * self.unit
    }

    /// Blocks of the set.
    pub(super) fn blocks(&self) -> u64 {
        self.size() / BLOCK
    }

    /// Columns of the set: blocks of each member that add up to zeros.
    pub(super) fn columns(&self) -> u64 {
        self.rows * self.unit / BLOCK
    }

    /// Most members of a column that may be bad.
    pub(super) fn tolerance(&self) -> usize {
        if self.is_mirror { self.members - 1 } else { 1 }
    }

    /// The member with the parity of a column.
    pub(super) fn parity_of(&self, column: u64) -> Option<usize> {
        let stripe = column * BLOCK / self.unit;
        let last = self.members - 1;
        (!self.is_mirror).then(|| last - (stripe % self.members as u64) as usize)
    }

    /// Column of a block of the set, and its member; in a mirror all members have it.
    pub(super) fn place_of(&self, block: u64) -> (u64, Option<usize>) {
        if self.is_mirror {
            return (block, None);
        }
        let (number, within) = (block * BLOCK / self.unit, block * BLOCK % self.unit);
        let (stripe, index) = (number / self.width(), (number % self.width()) as usize);
        let column = (stripe * self.unit + within) / BLOCK;
        let parity = self.parity_of(column).expect("it is no mirror");
        (column, Some((parity + 1 + index) % self.members))
    }

    /// Columns that a range of the set touches.
    pub(super) fn columns_of(&self, at: u64, length: u64) -> BTreeSet<u64> {
        (at / BLOCK..(at + length).div_ceil(BLOCK)).map(|block| self.place_of(block).0).collect()
    }

    /// Address of a column on a member, in bytes.
    pub(super) fn column_at(&self, column: u64) -> u64 {
        self.data_start + column * BLOCK
    }

    /// Address of the map on a member; the tables follow, two places of each.
    pub(super) fn map_at(&self) -> u64 {
        self.data_start + self.rows * self.unit
    }

    /// The members with the checksums of a member, and the first of each one's two places.
    pub(super) fn tables_of(&self, slot: usize) -> [(usize, u64); 2] {
        [1, 2].map(|behind: usize| {
            let copy = behind as u64 - 1;
            ((slot + behind) % self.members, self.map_at() + BLOCK + copy * 2 * BLOCK)
        })
    }

    /// Addresses of the labels on a member.
    pub(super) fn labels_at(&self) -> [u64; 2] {
        [0, self.member_size / BLOCK * BLOCK - (64 << 10)]
    }
}

/// Blocks that cannot be trusted.
#[derive(Clone, Debug, Default)]
pub(super) struct Bad {
    /// Members whose block of a column is bad.
    pub(super) columns: BTreeSet<(usize, u64)>,
    /// Members that are bad as a whole.
    pub(super) members: BTreeSet<usize>,
}

impl Bad {
    pub(super) fn has(&self, member: usize, column: u64) -> bool {
        self.members.contains(&member) || self.columns.contains(&(member, column))
    }

    fn count(&self, shape: &Shape, column: u64) -> usize {
        (0..shape.members).filter(|&member| self.has(member, column)).count()
    }

    /// Whether counting shows that a block must be readable.
    pub(super) fn leaves(&self, shape: &Shape, block: u64) -> bool {
        let (column, own) = shape.place_of(block);
        let is_there = |member| !self.has(member, column);
        own.is_some_and(is_there) || self.count(shape, column) <= shape.tolerance()
    }
}

fn block_of(image: &Image, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    image.read(at, &mut bytes);
    bytes
}

/// Whether images provide a block with these bytes. `disks` has every disk that can stand in for a
/// slot, by slot.
pub(super) fn is_given(shape: &Shape, disks: &[Vec<&Image>], block: u64, bytes: &[u8]) -> bool {
    let (column, own) = shape.place_of(block);
    let at = shape.column_at(column);
    let has = |slot: usize| disks[slot].iter().any(|image| block_of(image, at) == bytes);
    let Some(own) = own else { return (0..shape.members).any(has) };
    if has(own) {
        return true;
    }
    let mut sums = vec![bytes.to_vec()];
    for slot in (0..shape.members).filter(|&slot| slot != own) {
        let of_disk = |image: &&Image| {
            let other = block_of(image, at);
            let plus = move |sum: &Vec<u8>| sum.iter().zip(&other).map(|(a, b)| a ^ b).collect();
            sums.iter().map(plus).collect::<Vec<Vec<u8>>>()
        };
        sums = disks[slot].iter().flat_map(of_disk).collect();
    }
    sums.iter().any(|sum| sum.iter().all(|&byte| byte == 0))
}

/// Whether the members of a column are consistent: they add up to zeros, or are the same.
pub(super) fn fits_together(shape: &Shape, members: &[&Image], column: u64) -> bool {
    let at = shape.column_at(column);
    let blocks: Vec<Vec<u8>> = members.iter().map(|image| block_of(image, at)).collect();
    if shape.is_mirror {
        return blocks.iter().all(|block| *block == blocks[0]);
    }
    (0..BLOCK as usize).all(|byte| blocks.iter().fold(0, |sum, block| sum ^ block[byte]) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        is_mirror: false,
        members: 3,
        unit: 8192,
        rows: 3,
        data_start: 0,
        member_size: 1 << 20,
    };

    #[test]
    fn every_block_of_a_column_has_a_member_of_its_own_beside_the_parity() {
        for column in 0..SHAPE.columns() {
            let here = (0..SHAPE.blocks()).filter(|&block| SHAPE.place_of(block).0 == column);
            let members = here.filter_map(|block| SHAPE.place_of(block).1);
            let all: BTreeSet<usize> = members.chain(SHAPE.parity_of(column)).collect();
            assert_eq!(all, (0..3).collect(), "column {column}");
        }
    }

    #[test]
    fn a_block_is_given_by_its_disk_or_by_the_others_and_by_no_two_of_three_that_are_wrong() {
        let (block, column) = (1, SHAPE.place_of(1).0);
        let own = SHAPE.place_of(1).1.expect("it has parity");
        let bytes = vec![5; BLOCK as usize];
        let mut images = vec![Image::zeroed(1 << 20); 3];
        images[own].write(SHAPE.column_at(column), &bytes);
        images[(own + 1) % 3].write(SHAPE.column_at(column), &bytes);
        let given = |images: &[Image]| {
            let disks: Vec<Vec<&Image>> = images.iter().map(|image| vec![image]).collect();
            is_given(&SHAPE, &disks, block, &bytes)
        };
        let all: Vec<&Image> = images.iter().collect();
        assert!(given(&images) && fits_together(&SHAPE, &all, column));
        images[own].write(SHAPE.column_at(column), &[6]);
        assert!(given(&images), "the others come to it");
        images[(own + 2) % 3].write(SHAPE.column_at(column), &[7]);
        assert!(!given(&images));
    }

    #[test]
    fn counting_takes_one_bad_member_of_a_column() {
        let own = SHAPE.place_of(1).1.expect("it has parity");
        let column = SHAPE.place_of(1).0;
        let mut bad = Bad::default();
        bad.columns.insert((own, column));
        assert!(bad.leaves(&SHAPE, 1));
        bad.members.insert((own + 1) % 3);
        assert!(!bad.leaves(&SHAPE, 1));
        assert!(bad.leaves(&SHAPE, 0), "another column");
    }
}
