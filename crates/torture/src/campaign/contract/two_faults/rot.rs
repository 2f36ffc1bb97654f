//! Rot of a block of every kind of area, on one member or on every copy.

use std::collections::BTreeSet;
use std::rc::Rc;

use sim::{Disk, Image, Prng};

use super::case::{Area, Fault};
use super::solver::{BLOCK, Bad, Disks, LOG_AT, MISSED_AT, Shape};

/// First bytes of a record of the log.
const RECORD: &[u8] = b"prewrite";

/// Effects of rot that the judge needs to know.
#[derive(Clone, Debug, Default)]
pub(super) struct Rotten {
    /// Blocks that it has made bad.
    pub(super) bad: Bad,
    /// Members whose checksums rotted, and the members that hold these checksums.
    pub(super) sums: Vec<(usize, usize)>,
    /// The rot in words.
    pub(super) told: String,
}

/// The target of rot.
pub(super) struct Target<'t> {
    pub(super) shape: &'t Shape,
    pub(super) fault: Fault,
    /// The member that rots, if it is a single one.
    pub(super) member: usize,
    /// The stripe with the most writes.
    pub(super) hot: u64,
    /// The initial disks: the source of old bytes.
    pub(super) old: &'t [Option<Image>],
}

impl Target<'_> {
    /// Rots blocks of disks.
    pub(super) fn strike(&self, disks: &mut Disks, prng: &mut Prng) -> Rotten {
        let (area, is_all) = match self.fault {
            Fault::Rot(area) => (area, false),
            Fault::RotAll(area) => (area, true),
            Fault::Tables => (Area::Data, false),
            Fault::Unread | Fault::Full => return Rotten::default(),
        };
        let mut rotten = Rotten::default();
        let places = self.places(area, is_all, disks, &mut rotten, prng);
        let way = prng.below(5);
        let is_alike = prng.chance(1, 2);
        let seed = prng.next_u64();
        for (number, &(member, at)) in places.iter().enumerate() {
            let Some(image) = &mut disks[member] else { continue };
            let mut chance = Prng::new(if is_alike { seed } else { seed ^ number as u64 });
            // If whole blocks of an earlier time are on every disk that has them, no disk can
            // detect the rot. A mirror of two may be open with one of them alone.
            let is_all = is_all || self.shape.members == 2;
            let is_of_itself = is_all && matches!(area, Area::Map | Area::Missed);
            let is_told = is_of_itself || matches!(area, Area::Label | Area::Table);
            let way = if is_told { way % 3 } else { way };
            let old = self.old[member].as_ref();
            spoil(image, at, way, old, &mut chance);
            rotten.told += &format!("block {at} of disk {member} rots ({way}); ");
        }
        rotten
    }

    /// Flips a bit of a block of disks that are in use, and have these contents; of both places of
    /// a table, so that no older version of it is left there.
    pub(super) fn flip(
        &self,
        disks: &[Option<Rc<Disk>>],
        contents: &Disks,
        prng: &mut Prng,
    ) -> Rotten {
        let Fault::Rot(area) = self.fault else { return Rotten::default() };
        let mut rotten = Rotten::default();
        let mut places = self.places(area, false, contents, &mut rotten, prng);
        for &(slot, holder) in &rotten.sums {
            let tables = self.shape.tables_of(slot).into_iter().filter(|it| it.0 == holder);
            places = tables.flat_map(|(_, at)| [(holder, at), (holder, at + BLOCK)]).collect();
        }
        for (member, at) in places {
            let Some(disk) = &disks[member] else { continue };
            disk.rot(at + prng.below(BLOCK), prng.below(8) as u8);
            rotten.told += &format!("block {at} of disk {member} rots meanwhile; ");
        }
        rotten
    }

    /// The members and places that rot.
    fn places(
        &self,
        area: Area,
        is_all: bool,
        disks: &Disks,
        rotten: &mut Rotten,
        prng: &mut Prng,
    ) -> Vec<(usize, u64)> {
        let Self { shape, member, .. } = *self;
        let of_all = |at: u64| -> Vec<(usize, u64)> {
            let members = if is_all { 0..shape.members } else { member..member + 1 };
            members.map(|member| (member, at)).collect()
        };
        match area {
            Area::Data | Area::Parity => {
                let column = self.column(area, prng);
                let mut members = BTreeSet::from([member]);
                if is_all && shape.is_mirror {
                    members.extend(0..shape.members);
                } else if is_all {
                    members.insert((member + 1 + prng.index(shape.members - 1)) % shape.members);
                }
                rotten.bad.columns = members.iter().map(|&member| (member, column)).collect();
                let at = shape.column_at(column);
                members.into_iter().map(|member| (member, at)).collect()
            }
            Area::Map => of_all(shape.map_at()),
            Area::Missed => of_all(MISSED_AT),
            Area::Label if is_all => shape.labels_at().map(|at| (member, at)).to_vec(),
            Area::Label => vec![(member, shape.labels_at()[prng.index(2)])],
            Area::Log => {
                let blocks = ((shape.data_start - LOG_AT) / BLOCK).min(24);
                of_all(LOG_AT + prng.below(blocks) * BLOCK)
            }
            Area::Record => of_all(latest_record(disks, shape, member, prng)),
            Area::Table => {
                let slot = prng.index(shape.members);
                let tables = shape.tables_of(slot);
                let copy = prng.index(2);
                let copies = if is_all { 0..2 } else { copy..copy + 1 };
                let place = |copy: usize| {
                    let (holder, at) = tables[copy];
                    rotten.sums.push((slot, holder));
                    let image = disks[holder].as_ref();
                    (holder, image.map_or(at, |image| latest_place(image, at)))
                };
                copies.map(place).collect()
            }
        }
    }

    /// A column in which the member has data, or parity; mostly one of the hot stripe.
    fn column(&self, area: Area, prng: &mut Prng) -> u64 {
        let Self { shape, member, hot, .. } = *self;
        let each = shape.unit / BLOCK;
        let fits = |column: &u64| {
            shape.is_mirror || (shape.parity_of(*column) == Some(member)) == (area == Area::Parity)
        };
        let all: Vec<u64> = (0..shape.columns()).filter(fits).collect();
        let is_hot = |column: &u64| column / each == hot;
        let of_hot: Vec<u64> = all.iter().copied().filter(is_hot).collect();
        let from = if of_hot.is_empty() || prng.chance(1, 4) { &all } else { &of_hot };
        from[prng.index(from.len())]
    }
}

/// The place of the valid copy of a table: the one with the later version.
fn latest_place(image: &Image, at: u64) -> u64 {
    let version = |at: u64| {
        let mut bytes = [0; 56];
        image.read(at, &mut bytes);
        let is_table = bytes[8..16] == *b"raid sum";
        let number = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
        if is_table { number } else { 0 }
    };
    if version(at + BLOCK) > version(at) { at + BLOCK } else { at }
}

/// A block of one of the latest records that a member has; the first of the log if it has none.
fn latest_record(disks: &Disks, shape: &Shape, member: usize, prng: &mut Prng) -> u64 {
    let Some(image) = &disks[member] else { return LOG_AT };
    let mut records = Vec::new();
    for at in (LOG_AT..shape.data_start).step_by(BLOCK as usize) {
        let mut head = [0; 40];
        image.read(at, &mut head);
        if head.starts_with(RECORD) {
            let number =
                |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().expect("8"));
            records.push((number(32), at, (number(8) >> 32).clamp(1, 64)));
        }
    }
    records.sort_unstable();
    let back = if prng.chance(2, 3) { 0 } else { prng.index(3) };
    let Some(&(_, at, blocks)) = records.iter().rev().nth(back).or(records.last()) else {
        return LOG_AT;
    };
    (at + prng.below(blocks) * BLOCK).min(shape.data_start - BLOCK)
}

/// Changes a block: flips a bit, fills it at random or with zeros, or copies the neighbour's or the
/// old bytes.
fn spoil(image: &mut Image, at: u64, way: u64, old: Option<&Image>, prng: &mut Prng) {
    let mut was = vec![0; BLOCK as usize];
    image.read(at, &mut was);
    let mut block = was.clone();
    let (byte, bit) = (prng.index(BLOCK as usize), prng.below(8));
    match way {
        0 => {}
        1 => prng.fill(&mut block),
        2 => block.fill(0),
        3 => image.read(if at >= BLOCK { at - BLOCK } else { at + BLOCK }, &mut block),
        _ => old.into_iter().for_each(|old| old.read(at, &mut block)),
    }
    if block == was {
        block[byte] ^= 1 << bit;
    }
    image.write(at, &block);
}
