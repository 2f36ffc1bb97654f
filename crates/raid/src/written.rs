//! Map of the stripes that were ever written.
//!
//! A stripe that was never written reads as zeros, whatever the members hold: so a new set needs no
//! initial sync, and a rebuild copies only written stripes. Each member has a bit for each stripe,
//! behind its data. The first write of a stripe defines all of it, with zeros where nothing is
//! written; its record has the bit as well.
//!
//! A plain write needs no record for the bit: as long as no bit says that the stripe was written, a
//! cut leaves zeros. Such a stripe is *fresh*: it is written in place, without the log, any number
//! of times until a flush. The flush makes it durable, with its checksums, and only then a record
//! sets the bits of all fresh stripes. Meanwhile they are not written.
//!
//! A stripe whose data is no longer needed can be *vacated*: a record clears its bit, and it is as
//! if it had never been written. So the next write to it needs no log either. Until that record is
//! durable the stripe is written as before, because recovery would trust its old contents. From
//! then on recovery replays no earlier record of it.
//!
//! Records become durable one after the other, and each has the bits of all before it. The map is
//! written in place when the log makes room, behind the stripes: so it has no bit of a stripe that
//! is in a record alone. Its blocks have checksums and versions; the latest version on any member
//! counts.
//!
//! Invariants:
//! 1. A bit is in the log together with the stripe's contents, or on all members once those are in
//!    place.
//! 2. Readers go by the bits of stripes that are in place, or fresh.
//! 3. A stripe is written in place without the log only while no record has its bit, nor will have
//!    it before a flush; a stripe that had its bit, only once a durable record has cleared it.
//! 4. A block of the map has a later version than any with other bits, on any member.
//!
//! Not asserted: 1, which is about the state after a cut: torture's campaign `contract` cuts there;
//! 2, which the functions' names express; 4, which takes reading all members.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::ops::Range;

use block::Buffer;
use bytes::Bytes;
use runtime::sync::Signal;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::label::{Id, MAP_BITS, MAP_BLOCK, is_sealed, map_size, sealed};
use crate::layout::Layout;
use crate::planted::{Bug, is_planted};
use crate::record::{Change, Slots};

/// Distinguishes a block of the map from a table of checksums.
const KIND: [u8; 4] = *b"rmap";
/// Kind of the first format, which has no version field: such blocks are older than all others.
const FIRST_KIND: ([u8; 4], [u8; 4]) = (*b"raid", *b" map");

/// A block of the map, as on disk.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    checksum: U32,
    number: U32,
    kind: [u8; 4],
    version: U32,
    set: Id,
    bits: [u8; MAP_BITS as usize],
}

/// The map; see the module.
pub(crate) struct Written {
    set: Id,
    /// Byte offset of the map in each member's data area.
    start: u64,
    /// The bits in durable records, or in place.
    logged: RefCell<Vec<u8>>,
    /// For each block, the version that has those bits.
    versions: RefCell<Vec<u32>>,
    /// The bits that were ever set since the set was opened.
    ever: RefCell<Vec<u8>>,
    /// The bits of stripes that are in place.
    home: RefCell<Vec<u8>>,
    /// Stripes that are fresh or becoming fresh.
    fresh: RefCell<BTreeMap<u64, Fresh>>,
    /// Blocks of the map that differ from those on the members, each with the first record that is
    /// needed for it.
    unsaved: RefCell<BTreeMap<u64, u64>>,
    /// Whether fresh stripes must not be written, because a task takes them.
    is_taking: Cell<bool>,
    /// Notified when the state of a fresh stripe changes.
    moved: Signal,
}

/// State of a fresh stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    /// Its first write is under way: it is not fresh yet.
    First,
    /// It is being written once more.
    Again,
    Nothing,
    /// A record is about to set its bit.
    Settling,
}

/// Changes of bits that a record makes, by stripe.
#[derive(Default)]
pub(crate) struct Moves {
    /// Stripes written for the first time.
    pub(crate) written: Vec<u64>,
    /// Stripes whose data is no longer needed.
    pub(crate) vacated: Vec<u64>,
}

impl Moves {
    fn all(&self) -> impl Iterator<Item = u64> {
        self.written.iter().chain(&self.vacated).copied()
    }

    /// Applies the changes to bits that begin with the bit of stripe `first`.
    fn make(&self, bits: &mut [u8], first: u64) {
        let end = first + bits.len() as u64 * 8;
        let here = |all: &[u64]| -> Vec<u64> {
            all.iter().filter(|it| (first..end).contains(it)).map(|it| it - first).collect()
        };
        clear_bits(bits, here(&self.vacated));
        set_bits(bits, here(&self.written));
    }
}

/// A block of the map, as on a member.
#[derive(Clone, Debug)]
pub(crate) struct MapBlock {
    version: u32,
    bits: Vec<u8>,
}

impl MapBlock {
    /// A block with these bits, numbered from its first, for use when no member has any version.
    pub(crate) fn recalled(bits: impl Iterator<Item = u64>) -> Self {
        let mut block = Self { version: 1, bits: vec![0; MAP_BITS as usize] };
        set_bits(&mut block.bits, bits);
        block
    }

    /// The block in force among all members' versions. `None` if there are none.
    pub(crate) fn latest(known: Vec<Self>) -> Option<Self> {
        known.into_iter().reduce(|mut one, other| {
            // Versions wrap around, but those of two members are never that far apart.
            let is_later = other.version.wrapping_sub(one.version) as i32 > 0;
            if one.version == other.version || is_planted(Bug::OldMaps) {
                one.bits.iter_mut().zip(&other.bits).for_each(|(bit, other)| *bit |= other);
            } else if is_later {
                return other;
            }
            one
        })
    }
}

/// Byte offset and length of a set's map in each member's data area.
pub(crate) fn place(layout: &Layout) -> (u64, u64) {
    (layout.rows * layout.unit, map_size(layout.rows))
}

/// Encodes a block of the map; its bits begin at stripe `MAP_BITS * 8 * number`.
fn encode(set: &Id, number: u64, version: u32, bits: &[u8]) -> Bytes {
    let mut raw = Raw::new_zeroed();
    (raw.kind, raw.set, raw.number) = (KIND, *set, (number as u32).into());
    raw.version = version.into();
    raw.bits.copy_from_slice(bits);
    sealed(raw.as_bytes(), offset_of!(Raw, checksum)).into()
}

/// Decodes a block of the map, if these bytes are one.
pub(crate) fn decode(bytes: &[u8], set: &Id, number: u64) -> Option<MapBlock> {
    let raw = Raw::ref_from_bytes(bytes).ok()?;
    let is_first = (raw.kind, raw.version.to_bytes()) == FIRST_KIND;
    let is_kind = is_first || raw.kind == KIND;
    let is_it = is_kind && raw.set == *set && u64::from(raw.number.get()) == number;
    let version = if is_first { 0 } else { raw.version.get() };
    let is_whole = is_it && is_sealed(bytes, offset_of!(Raw, checksum));
    is_whole.then(|| MapBlock { version, bits: raw.bits.to_vec() })
}

/// Encodes a whole map.
fn encode_all(set: &Id, bits: &[u8], versions: &[u32]) -> Bytes {
    let blocks = (0..).zip(bits.chunks_exact(MAP_BITS as usize).zip(versions));
    let encode = |(number, (bits, &version))| encode(set, number, version, bits);
    let blocks: Vec<Bytes> = blocks.map(encode).collect();
    Buffer::joined(&blocks).freeze()
}

/// The map of a set without written stripes.
pub(crate) fn empty(layout: &Layout, set: &Id) -> Bytes {
    let blocks = map_size(layout.rows) / MAP_BLOCK;
    encode_all(set, &vec![0; (blocks * MAP_BITS) as usize], &vec![0; blocks as usize])
}

impl Written {
    /// A map of these blocks, which must be all.
    pub(crate) fn new(layout: &Layout, set: Id, blocks: &[MapBlock]) -> Self {
        let (start, length) = place(layout);
        assert_eq!(blocks.len() as u64, length / MAP_BLOCK, "all of the map");
        let bits: Vec<u8> = blocks.iter().flat_map(|block| &block.bits).copied().collect();
        let versions = blocks.iter().map(|block| block.version).collect();
        Self {
            set,
            start,
            logged: RefCell::new(bits.clone()),
            versions: RefCell::new(versions),
            ever: RefCell::new(bits.clone()),
            home: RefCell::new(bits),
            fresh: RefCell::default(),
            unsaved: RefCell::default(),
            is_taking: Cell::new(false),
            moved: Signal::new(),
        }
    }

    /// A map without written stripes.
    pub(crate) fn nothing(layout: &Layout, set: Id) -> Self {
        let empty = MapBlock { version: 0, bits: vec![0; MAP_BITS as usize] };
        Self::new(layout, set, &vec![empty; (map_size(layout.rows) / MAP_BLOCK) as usize])
    }

    /// Whether a stripe was written.
    pub(crate) fn has(&self, stripe: u64) -> bool {
        has_bit(&self.home.borrow(), stripe) || self.is_fresh(stripe)
    }

    /// Whether no stripe of a range has been written since the set was opened, or had its bit then.
    pub(crate) fn has_none(&self, mut stripes: Range<u64>) -> bool {
        stripes.all(|it| !has_bit(&self.ever.borrow(), it) && !self.is_fresh(it))
    }

    /// Whether the stripe's space is believed allocated on a full host. Wrong for a member that
    /// came after the stripe was vacated, and incomplete after a start; a caller that relies on it
    /// learns so from its write.
    pub(crate) fn has_room(&self, stripe: u64) -> bool {
        self.has(stripe) || has_bit(&self.ever.borrow(), stripe)
    }

    /// Whether a durable record, or the map in place, has the stripe's bit.
    pub(crate) fn is_logged(&self, stripe: u64) -> bool {
        has_bit(&self.logged.borrow(), stripe)
    }

    /// Whether a stripe is fresh.
    pub(crate) fn is_fresh(&self, stripe: u64) -> bool {
        self.fresh.borrow().get(&stripe).is_some_and(|&it| it != Fresh::First)
    }

    /// Number of fresh stripes, including those becoming fresh.
    pub(crate) fn count_fresh(&self) -> usize {
        self.fresh.borrow().len()
    }

    /// Waits while a record is about to set this stripe's bit. The caller holds the stripe lock.
    pub(crate) async fn settled(&self, stripe: u64) {
        let is_settling = || {
            let is_it = self.fresh.borrow().get(&stripe) == Some(&Fresh::Settling);
            is_it || self.is_taking.get() && self.is_fresh(stripe)
        };
        while is_settling() {
            self.moved.wait().await;
        }
    }

    /// Begins a write in place without the log. The caller holds the stripe lock.
    pub(crate) fn begin(&self, stripe: u64) {
        assert!(!self.has(stripe) || self.is_fresh(stripe), "invariant 3");
        let mut fresh = self.fresh.borrow_mut();
        let before = fresh.get(&stripe).copied();
        assert!(before.is_none_or(|it| it == Fresh::Nothing), "invariant 3");
        fresh.insert(stripe, before.map_or(Fresh::First, |_| Fresh::Again));
    }

    /// Ends that write. If it failed, the set fails as well.
    pub(crate) fn end(&self, stripe: u64, is_home: bool) {
        let mut fresh = self.fresh.borrow_mut();
        match fresh.get(&stripe) {
            Some(Fresh::First) if !is_home => _ = fresh.remove(&stripe),
            _ => _ = fresh.insert(stripe, Fresh::Nothing),
        }
        drop(fresh);
        self.moved.notify();
    }

    /// Waits until no fresh stripe is being rewritten, and takes them: [`Written::let_go`] must
    /// follow.
    pub(crate) async fn take(&self) -> Vec<u64> {
        self.is_taking.set(true);
        while self.fresh.borrow().values().any(|&it| it == Fresh::Again) {
            self.moved.wait().await;
        }
        let mut taken = Vec::new();
        for (stripe, fresh) in self.fresh.borrow_mut().iter_mut() {
            if *fresh == Fresh::Nothing {
                *fresh = Fresh::Settling;
                taken.push(*stripe);
            }
        }
        self.is_taking.set(false);
        self.moved.notify();
        taken
    }

    /// Releases taken stripes: records have their bits, or they are fresh as before.
    pub(crate) fn let_go(&self, stripes: &[u64], are_logged: bool) {
        for &stripe in stripes {
            if are_logged {
                self.come_home(stripe);
                self.fresh.borrow_mut().remove(&stripe);
            } else {
                self.fresh.borrow_mut().insert(stripe, Fresh::Nothing);
            }
        }
        self.moved.notify();
    }

    /// Marks a stripe as in place after its first write.
    pub(crate) fn come_home(&self, stripe: u64) {
        set_bits(&mut self.home.borrow_mut(), [stripe]);
    }

    /// The changes of the map in a record that makes these moves.
    pub(crate) fn changes(&self, moves: &Moves, slots: Slots) -> Vec<Change> {
        let logged = self.logged.borrow();
        let change = |number: u64| {
            let from = (number * MAP_BITS) as usize;
            let mut bits = logged[from..][..MAP_BITS as usize].to_vec();
            moves.make(&mut bits, number * MAP_BITS * 8);
            let version = self.versions.borrow()[number as usize].wrapping_add(1);
            let (offset, data) =
                (self.start + number * MAP_BLOCK, encode(&self.set, number, version, &bits));
            Change::new(slots, offset, vec![data])
        };
        blocks_of(moves).into_iter().map(change).collect()
    }

    /// Applies moves whose record is durable.
    pub(crate) fn are_logged(&self, moves: &Moves, record: u64) {
        for number in blocks_of(moves) {
            self.unsaved.borrow_mut().entry(number).or_insert(record);
            let version = &mut self.versions.borrow_mut()[number as usize];
            *version = version.wrapping_add(1); // invariant 4
        }
        moves.make(&mut self.logged.borrow_mut(), 0);
        set_bits(&mut self.ever.borrow_mut(), moves.written.iter().copied());
        clear_bits(&mut self.home.borrow_mut(), moves.vacated.iter().copied());
    }

    /// The first record that is needed for the map.
    pub(crate) fn needed_from(&self) -> u64 {
        self.unsaved.borrow().values().copied().min().unwrap_or(u64::MAX)
    }

    /// The blocks of the map to write in place. The caller writes them durably and then calls
    /// [`Written::is_saved`].
    pub(crate) fn unsaved(&self, slots: Slots) -> Vec<Change> {
        let (logged, versions) = (self.logged.borrow(), self.versions.borrow());
        let change = |number: u64| {
            let bits = &logged[(number * MAP_BITS) as usize..][..MAP_BITS as usize];
            let block = encode(&self.set, number, versions[number as usize], bits);
            Change::new(slots, self.start + number * MAP_BLOCK, vec![block])
        };
        self.unsaved.borrow().keys().copied().map(change).collect()
    }

    /// Marks the whole map as written in place, durably.
    pub(crate) fn is_saved(&self) {
        self.unsaved.borrow_mut().clear();
    }

    /// The whole map, as in durable records.
    pub(crate) fn all(&self, slots: Slots) -> Change {
        let data = vec![encode_all(&self.set, &self.logged.borrow(), &self.versions.borrow())];
        Change::new(slots, self.start, data)
    }
}

/// The blocks of the map in which bits change.
fn blocks_of(moves: &Moves) -> BTreeSet<u64> {
    moves.all().map(|stripe| stripe / 8 / MAP_BITS).collect()
}

/// Whether a bit is set; the lowest bit of a byte comes first.
pub(crate) fn has_bit(bits: &[u8], at: u64) -> bool {
    bits[at as usize / 8] >> (at % 8) & 1 == 1
}

/// Sets bits in this order.
pub(crate) fn set_bits(bits: &mut [u8], all: impl IntoIterator<Item = u64>) {
    all.into_iter().for_each(|at| bits[at as usize / 8] |= 1 << (at % 8));
}

/// Clears bits in this order.
fn clear_bits(bits: &mut [u8], all: impl IntoIterator<Item = u64>) {
    all.into_iter().for_each(|at| bits[at as usize / 8] &= !(1 << (at % 8)));
}
