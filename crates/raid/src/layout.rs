//! Mapping of a set's bytes to its members.
//!
//! A member's data area is divided into *units*; the units of one row on all members are a
//! *stripe*. A striped set has one data unit after the other. A mirror has all units on each
//! member. RAID-5 has one parity unit in each stripe, which moves one member to the left with each
//! stripe, and the data begins on the member behind it (*left-symmetric*: a long read uses all
//! members in turn).
//!
//! ```text
//!  RAID-5 of 4    member 0   member 1   member 2   member 3
//!  stripe 0       unit 0     unit 1     unit 2     parity
//!  stripe 1       unit 4     unit 5     parity     unit 3
//!  stripe 2       unit 8     parity     unit 6     unit 7
//! ```

use std::fmt;

use crate::planted::{Bug, is_planted};

/// The minimum and maximum number of members of a set.
pub const MEMBERS: std::ops::RangeInclusive<usize> = 1..=32;
/// The minimum and maximum unit size, in bytes; a unit is a power of two.
pub const UNITS: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 20;

/// Redundancy scheme of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// One unit after the other: losing a member loses everything.
    Striped,
    /// A copy on each member.
    Mirrored,
    /// One parity unit in each stripe.
    Parity,
}

impl Level {
    /// All levels, by their number in a label.
    pub const ALL: [Self; 3] = [Self::Striped, Self::Mirrored, Self::Parity];

    /// The smallest I/O of a set, in bytes, over members with these logical sector sizes. A set
    /// with redundancy reads and writes whole blocks of its members for any request.
    pub fn sector(self, of_members: impl Iterator<Item = u32>) -> u32 {
        let smallest = 512;
        if self == Self::Striped { of_members.max().unwrap_or(smallest) } else { smallest }
    }

    /// Number of members, out of `members`, that may be missing.
    pub fn spare_of(self, members: usize) -> usize {
        match self {
            Self::Striped => 0,
            Self::Mirrored => members - 1,
            Self::Parity => 1,
        }
    }

    /// The minimum number of members.
    pub fn fewest(self) -> usize {
        match self {
            // A set of one has a label, so that it passes for no volume without its NVRAM.
            Self::Striped => 1,
            Self::Mirrored => 2,
            Self::Parity => 3,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Striped => "raid0",
            Self::Mirrored => "raid1",
            Self::Parity => "raid5",
        })
    }
}

/// Contents of a member's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The data unit of the set with this number.
    Data(u64),
    /// The parity of its stripe.
    Parity,
}

/// The part of a range that lies in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Byte offset in the set.
    pub at: u64,
    /// The member; on a mirror the first, and the others have copies.
    pub member: usize,
    /// Byte offset in the member's data area.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Geometry of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Redundancy scheme.
    pub level: Level,
    /// Number of members.
    pub members: usize,
    /// Unit size in bytes.
    pub unit: u64,
    /// Units in each member's data area.
    pub rows: u64,
}

impl Layout {
    /// Data units in a stripe.
    pub fn width(&self) -> u64 {
        match self.level {
            Level::Striped => self.members as u64,
            Level::Mirrored => 1,
            Level::Parity => self.members as u64 - 1,
        }
    }

    /// The minimum number of members on which all data is available.
    pub fn needed(&self) -> usize {
        self.members - self.level.spare_of(self.members)
    }

    /// Size of the set in bytes.
    pub fn size(&self) -> u64 {
        self.rows * self.width() * self.unit
    }

    /// The member that has the parity of a stripe, if the level has parity.
    pub fn parity_of(&self, stripe: u64) -> Option<usize> {
        let last = self.members - 1;
        let is_kept = self.level == Level::Parity;
        let stripe = if is_planted(Bug::StandingParity) { 0 } else { stripe };
        is_kept.then(|| last - (stripe % self.members as u64) as usize)
    }

    /// The member that has a data unit of a stripe; on a mirror the first.
    pub fn member_of(&self, stripe: u64, index: usize) -> usize {
        match self.parity_of(stripe) {
            Some(parity) => (parity + 1 + index) % self.members,
            None => index,
        }
    }

    /// The members that have a stripe's data units, in order, followed by the parity member.
    pub fn members_of(&self, stripe: u64) -> Vec<usize> {
        let data = (0..self.width() as usize).map(|index| self.member_of(stripe, index));
        data.chain(self.parity_of(stripe)).collect()
    }

    /// Index, within its stripe, of the data unit that has a byte of the set.
    pub fn index_of(&self, at: u64) -> usize {
        (at / self.unit % self.width()) as usize
    }

    /// The members that store a member's checksums: the two behind it. On a mirror of two these are
    /// the other member and the member itself.
    pub fn holders(&self, member: usize) -> [usize; 2] {
        [1, 2].map(|behind| (member + behind) % self.members)
    }

    /// Contents of a member's unit in a row.
    pub fn holds(&self, member: usize, row: u64) -> Holds {
        let first = row * self.width();
        match self.parity_of(row) {
            _ if self.level == Level::Mirrored => Holds::Data(first),
            None => Holds::Data(first + member as u64),
            Some(parity) if parity == member => Holds::Parity,
            Some(parity) => {
                let index = (member + self.members - parity - 1) % self.members;
                Holds::Data(first + index as u64)
            }
        }
    }

    /// The pieces of a range of the set, in order.
    pub fn pieces(&self, at: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
        let layout = *self;
        let end = at + length;
        let mut at = at;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (number, within) = (at / layout.unit, at % layout.unit);
            let (stripe, index) = (number / layout.width(), (number % layout.width()) as usize);
            let length = (layout.unit - within).min(end - at);
            let member = layout.member_of(stripe, index);
            let piece = Piece { at, member, offset: stripe * layout.unit + within, length };
            at += length;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn layouts() -> impl Strategy<Value = Layout> {
        let level = prop::sample::select(Level::ALL.to_vec());
        (level, 3..9_usize, 1..40_u64).prop_map(|(level, members, rows)| Layout {
            level,
            members,
            unit: 4096,
            rows,
        })
    }

    #[test]
    fn only_a_striped_set_asks_for_as_much_as_its_members() {
        let sector = |level: Level| level.sector([512, 4096, 512].into_iter());
        assert_eq!(Level::ALL.map(sector), [4096, 512, 512]);
    }

    proptest! {
        /// Invariant 1 of the crate.
        #[test]
        fn every_unit_has_one_place_and_every_place_is_of_one(layout in layouts()) {
            let units = layout.size() / layout.unit;
            let mut places = BTreeSet::new();
            for number in 0..units {
                let piece = layout.pieces(number * layout.unit, layout.unit).next();
                let piece = piece.expect("it is in the set");
                let row = piece.offset / layout.unit;
                prop_assert_eq!(layout.holds(piece.member, row), Holds::Data(number));
                prop_assert!(places.insert((piece.member, row)));
            }
            for row in 0..layout.rows {
                let of_row = (0..layout.members).map(|member| layout.holds(member, row));
                let parities = of_row.filter(|holds| *holds == Holds::Parity).count();
                prop_assert_eq!(parities, usize::from(layout.level == Level::Parity));
                if let Some(parity) = layout.parity_of(row) {
                    prop_assert!(places.insert((parity, row)));
                }
            }
            let copies = if layout.level == Level::Mirrored { layout.members } else { 1 };
            prop_assert_eq!(places.len() * copies, layout.members * layout.rows as usize);
        }

        #[test]
        fn the_pieces_of_a_range_are_all_of_it_in_order(
            layout in layouts(),
            from in 0..1000_u64,
            count in 1..400_u64,
        ) {
            let sector = 512;
            let at = (from * sector) % layout.size();
            let length = (count * sector).min(layout.size() - at);
            let mut next = at;
            for piece in layout.pieces(at, length) {
                prop_assert_eq!(piece.at, next);
                let inside = piece.offset % layout.unit + piece.length <= layout.unit;
                prop_assert!(inside && piece.length > 0 && piece.member < layout.members);
                next += piece.length;
            }
            prop_assert_eq!(next, at + length);
        }
    }

    #[test]
    fn a_long_read_of_raid_5_asks_all_members_by_turns() {
        let layout = Layout { level: Level::Parity, members: 4, unit: 4096, rows: 3 };
        let members: Vec<usize> =
            layout.pieces(0, layout.size()).map(|piece| piece.member).collect();
        assert_eq!(members, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn parity_that_stands_on_one_member_is_seen() {
        let layout = Layout { level: Level::Parity, members: 4, unit: 4096, rows: 3 };
        let members = || layout.pieces(0, layout.size()).map(|piece| piece.member).max();
        crate::planted::plant(Some(Bug::StandingParity));
        let standing = members();
        crate::planted::plant(None);
        assert_eq!((standing, members()), (Some(2), Some(3)));
    }
}
