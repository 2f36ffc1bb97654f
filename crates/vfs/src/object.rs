//! Identities of objects of a volume, in the live tree or in a snapshot.
//!
//! Each snapshot of a volume has a number that no other one ever has. An object in it is named like
//! a live one, with that number beside it; so a name means the same after a restart, and nothing
//! once the snapshot is gone. The directory `.snapshot` of a directory, which no disk has, is named
//! like the directory, with a number that is reserved for it.
//!
//! # File ids
//! A client takes two objects with the same device and file id for one. So a file id has the *mark*
//! of the tree in its upper 24 bits: 0 for the live tree, all ones for `.snapshot`, and for a
//! snapshot its number, which wraps to 1 after the largest mark. No snapshot is given a number
//! whose mark another snapshot has ([`SnapshotNumber::behind`]). An engine with snapshots has no
//! inode number of more than 40 bits, and no snapshot number above [`SnapshotNumber::LAST`].
//! Engines without snapshots may use all 64 bits.

use std::collections::BTreeSet;

use crate::FsError;

/// The number of a file within its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

/// Bits of a file id that an inode number may take where there are snapshots.
const INO_BITS: u32 = 40;

impl Ino {
    /// The largest inode number of a volume that may have snapshots.
    pub const LAST_BESIDE_SNAPSHOTS: Self = Self((1 << INO_BITS) - 1);
}

/// A tree of a volume: the live one, or that of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotNumber(pub u64);

/// Marks of snapshots in file ids: from 1 up to this one.
const LAST_MARK: u64 = (1 << (u64::BITS - INO_BITS)) - 2;

impl SnapshotNumber {
    /// The live tree.
    pub const LIVE: Self = Self(0);
    /// The largest snapshot number. Making a snapshot is an update of its own, with a flush. A
    /// hundred years have 3.2e9 seconds, so 1.4e14 numbers last for them at 44,000 snapshots a
    /// second, one every 22 microseconds: no disk flushes that fast for so long.
    pub const LAST: Self = Self((1 << 47) - 2);
    /// No tree: the directory `.snapshot` of a live directory.
    pub const LISTING: Self = Self(u64::MAX);

    /// The number of the snapshot after this one, while there are `others`: the first whose mark
    /// none of these has.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when all numbers were given away.
    pub fn behind(self, others: impl IntoIterator<Item = Self>) -> Result<Self, FsError> {
        let marks: BTreeSet<u64> = others.into_iter().map(Self::mark).collect();
        let is_free = |number: &u64| !marks.contains(&Self(*number).mark());
        let next = (self.0 + 1..=Self::LAST.0).take(marks.len() + 1).find(is_free);
        next.map(Self).ok_or(FsError::NoSpace)
    }

    /// The mark of the tree in file ids.
    fn mark(self) -> u64 {
        match self {
            Self::LIVE => 0,
            Self::LISTING => LAST_MARK + 1,
            Self(number) => (number - 1) % LAST_MARK + 1,
        }
    }
}

/// The identity of an object for ever: its inode number, the generation of that number, and its
/// tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The inode number, reused after the file is gone.
    pub ino: Ino,
    /// Changed at every reuse of the number.
    pub generation: u32,
    /// The tree that the object is in.
    pub snapshot: SnapshotNumber,
}

impl ObjectId {
    /// An object of the live tree.
    pub const fn live(ino: Ino, generation: u32) -> Self {
        Self { ino, generation, snapshot: SnapshotNumber::LIVE }
    }

    /// The same file in another tree; or its directory `.snapshot`.
    pub fn within(self, snapshot: SnapshotNumber) -> Self {
        Self { snapshot, ..self }
    }

    /// Whether its tree allows changes.
    #[inline]
    pub fn is_live(self) -> bool {
        self.snapshot == SnapshotNumber::LIVE
    }

    /// Whether it is a directory `.snapshot`.
    #[inline]
    pub fn is_listing(self) -> bool {
        self.snapshot == SnapshotNumber::LISTING
    }

    /// A number that differs from that of all other objects of the volume that a client may see at
    /// once.
    #[inline]
    pub fn file_id(self) -> Ino {
        Ino(self.ino.0 | self.snapshot.mark() << INO_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_ids_differ_where_objects_do() {
        let trees = [SnapshotNumber::LIVE, SnapshotNumber(1), SnapshotNumber(2)];
        let trees = trees.into_iter().chain([SnapshotNumber::LAST, SnapshotNumber::LISTING]);
        let inos = [Ino(2), Ino(3), Ino(0xffff_ffff), Ino::LAST_BESIDE_SNAPSHOTS];
        let ids = trees.flat_map(|tree| inos.map(|ino| ObjectId::live(ino, 7).within(tree)));
        let told: std::collections::BTreeSet<Ino> = ids.map(ObjectId::file_id).collect();
        assert_eq!(told.len(), 5 * 4);
    }

    #[test]
    fn what_is_live_is_told_by_its_number_however_large() {
        for number in [2, 1 << 40, u64::MAX] {
            assert_eq!(ObjectId::live(Ino(number), 1).file_id(), Ino(number));
        }
    }

    #[test]
    fn numbers_of_snapshots_end_before_that_of_the_listing() {
        let none = std::iter::empty;
        let last = SnapshotNumber::LAST;
        assert_eq!(SnapshotNumber::LIVE.behind(none()), Ok(SnapshotNumber(1)));
        assert_eq!(SnapshotNumber(last.0 - 1).behind(none()), Ok(last));
        assert_eq!(last.behind(none()), Err(FsError::NoSpace));
    }

    /// Numbers have more bits than a file id has for them.
    #[test]
    fn a_snapshot_has_no_number_with_the_mark_of_another() {
        let id = |number: u64| ObjectId::live(Ino(2), 7).within(SnapshotNumber(number)).file_id();
        for number in [1, 2, LAST_MARK] {
            assert_eq!(id(number).0, number << INO_BITS | 2, "as ever");
        }
        let again = |number: u64| number + LAST_MARK;
        assert_eq!(id(1), id(again(1)));
        let (old, last) = ([1, 2, 4].map(SnapshotNumber), SnapshotNumber(LAST_MARK));
        let next = last.behind(old);
        assert_eq!(next, Ok(SnapshotNumber(again(3))), "1 and 2 are in use");
        assert_eq!(next.and_then(|next| next.behind(old)), Ok(SnapshotNumber(again(5))));
        assert_eq!(SnapshotNumber(again(7)).behind(old), Ok(SnapshotNumber(again(8))));
        let near = SnapshotNumber(SnapshotNumber::LAST.0 - 1);
        assert_eq!(near.behind([SnapshotNumber::LAST]), Err(FsError::NoSpace), "the last one is");
    }
}
