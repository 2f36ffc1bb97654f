//! Which stripes were ever written.
//!
//! What was never written reads as zeros, whatever stands on the members: so a new set needs no
//! first look at its disks, and a member that is made again gets only what there is. A bit for each
//! stripe stands on each member, behind its data. The first write of a stripe makes all of the
//! stripe what it then is, zeros where nothing is written; its record has the bit as well.
//!
//! A plain write needs no record for that: as long as no bit says that the stripe was written, a
//! cut leaves zeros. Such a stripe is *fresh*: it is written in its place, without the log, again
//! and again, until a flush. That makes it durable, with its checksums, and only then has a record
//! say the bits of all that are fresh. Meanwhile they stand still.
//!
//! Records become durable one after the other, and each has the bits of all before it. So the map
//! on a member only ever gains bits, whichever of two writes of one block comes last: rounds bring
//! it home themselves, before the next begins. Its blocks have sums, and a start takes all bits
//! that any member has.
//!
//! Invariants:
//! 1. A bit is in the log with what the stripe is, or on all members when that is at home.
//! 2. Readers go by the bits of stripes that are at home, or fresh.
//! 3. A stripe is written in its place only while no record has its bit, nor will have it before a
//!    flush.
//!
//! Not asserted: 1, which is about what a cut leaves: torture's campaign `contract` cuts there; 2,
//! which is what the functions are named for.

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
use crate::record::{Change, Slots};

/// So that no table of checksums passes for a block of the map.
const KIND: [u8; 8] = *b"raid map";

/// A block of the map.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    checksum: U32,
    number: U32,
    kind: [u8; 8],
    set: Id,
    bits: [u8; MAP_BITS as usize],
}

/// See the module's prose.
pub(crate) struct Written {
    set: Id,
    /// Where the map is in the data area of each member, in bytes.
    start: u64,
    /// The bits that are in durable records, or at home.
    logged: RefCell<Vec<u8>>,
    /// The bits of stripes that are at home.
    home: RefCell<Vec<u8>>,
    /// Stripes that are fresh, or are about to be.
    fresh: RefCell<BTreeMap<u64, Fresh>>,
    /// They are to stand still.
    is_taking: Cell<bool>,
    /// One of them has changed.
    moved: Signal,
}

/// What is done to a fresh stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    /// Its first write is under way: it is not fresh yet.
    First,
    /// It is written once more.
    Again,
    Nothing,
    /// A record is to have its bit.
    Settling,
}

/// Where the map of a set is in the data area of each member, and how long, in bytes.
pub(crate) fn place(layout: &Layout) -> (u64, u64) {
    (layout.rows * layout.unit, map_size(layout.rows))
}

/// A block of the map with these bits, those of stripes from `MAP_BITS * 8 * number` on.
fn encode(set: &Id, number: u64, bits: &[u8]) -> Bytes {
    let mut raw = Raw::new_zeroed();
    (raw.kind, raw.set, raw.number) = (KIND, *set, (number as u32).into());
    raw.bits.copy_from_slice(bits);
    sealed(raw.as_bytes(), offset_of!(Raw, checksum)).into()
}

/// The bits of a block of the map, if that is what these bytes are.
pub(crate) fn decode<'b>(bytes: &'b [u8], set: &Id, number: u64) -> Option<&'b [u8]> {
    let raw = Raw::ref_from_bytes(bytes).ok()?;
    let is_it = raw.kind == KIND && raw.set == *set && u64::from(raw.number.get()) == number;
    (is_it && is_sealed(bytes, offset_of!(Raw, checksum))).then_some(&raw.bits)
}

/// A map with these bits.
fn encode_all(set: &Id, bits: &[u8]) -> Bytes {
    let blocks = (0..).zip(bits.chunks_exact(MAP_BITS as usize));
    let blocks: Vec<Bytes> = blocks.map(|(number, bits)| encode(set, number, bits)).collect();
    Buffer::joined(&blocks).freeze()
}

/// The map of a set of which no stripe was written.
pub(crate) fn empty(layout: &Layout, set: &Id) -> Bytes {
    let blocks = map_size(layout.rows) / MAP_BLOCK;
    encode_all(set, &vec![0; (blocks * MAP_BITS) as usize])
}

impl Written {
    /// With these bits, of whole blocks.
    pub(crate) fn new(layout: &Layout, set: Id, bits: Vec<u8>) -> Self {
        let (start, length) = place(layout);
        assert_eq!(bits.len() as u64, length / MAP_BLOCK * MAP_BITS, "all of the map");
        let (logged, home) = (RefCell::new(bits.clone()), RefCell::new(bits));
        let (fresh, is_taking, moved) = (RefCell::default(), Cell::new(false), Signal::new());
        Self { set, start, logged, home, fresh, is_taking, moved }
    }

    /// Whether a stripe was written.
    pub(crate) fn has(&self, stripe: u64) -> bool {
        has_bit(&self.home.borrow(), stripe) || self.is_fresh(stripe)
    }

    /// Whether no stripe of a range was, as far as anybody was told.
    pub(crate) fn has_none(&self, mut stripes: Range<u64>) -> bool {
        stripes.all(|it| !self.is_logged(it) && !self.is_fresh(it))
    }

    /// Whether a durable record, or the map at home, says that it was written.
    pub(crate) fn is_logged(&self, stripe: u64) -> bool {
        has_bit(&self.logged.borrow(), stripe)
    }

    /// Whether it is fresh.
    pub(crate) fn is_fresh(&self, stripe: u64) -> bool {
        self.fresh.borrow().get(&stripe).is_some_and(|&it| it != Fresh::First)
    }

    /// How many are.
    pub(crate) fn count_fresh(&self) -> usize {
        self.fresh.borrow().len()
    }

    /// Waits while a record is to have the bit of this stripe, with which we are alone.
    pub(crate) async fn settled(&self, stripe: u64) {
        let is_settling = || {
            let is_it = self.fresh.borrow().get(&stripe) == Some(&Fresh::Settling);
            is_it || self.is_taking.get() && self.is_fresh(stripe)
        };
        while is_settling() {
            self.moved.wait().await;
        }
    }

    /// A stripe is written in its place, by who is alone with it.
    pub(crate) fn begin(&self, stripe: u64) {
        assert!(!self.has(stripe) || self.is_fresh(stripe), "invariant 3");
        let mut fresh = self.fresh.borrow_mut();
        let before = fresh.get(&stripe).copied();
        assert!(before.is_none_or(|it| it == Fresh::Nothing), "invariant 3");
        fresh.insert(stripe, before.map_or(Fresh::First, |_| Fresh::Again));
    }

    /// That write is at home; or it came to nothing, and so does the set.
    pub(crate) fn end(&self, stripe: u64, is_home: bool) {
        let mut fresh = self.fresh.borrow_mut();
        match fresh.get(&stripe) {
            Some(Fresh::First) if !is_home => _ = fresh.remove(&stripe),
            _ => _ = fresh.insert(stripe, Fresh::Nothing),
        }
        drop(fresh);
        self.moved.notify();
    }

    /// Waits until fresh stripes stand still, and takes them: [`Written::let_go`] has to follow.
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

    /// Records have the bits of these, or they are fresh as before.
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

    /// A stripe that was written for the first time is at home.
    pub(crate) fn come_home(&self, stripe: u64) {
        set_bits(&mut self.home.borrow_mut(), [stripe]);
    }

    /// What a record has of the map that writes these stripes for the first time.
    pub(crate) fn changes(&self, stripes: &[u64], slots: Slots) -> Vec<Change> {
        let blocks: BTreeSet<u64> = stripes.iter().map(|stripe| stripe / 8 / MAP_BITS).collect();
        let logged = self.logged.borrow();
        let change = |number: u64| {
            let (first, from) = (number * MAP_BITS * 8, (number * MAP_BITS) as usize);
            let mut bits = logged[from..][..MAP_BITS as usize].to_vec();
            let here = stripes.iter().filter(|stripe| **stripe / 8 / MAP_BITS == number);
            set_bits(&mut bits, here.map(|stripe| stripe - first));
            let (offset, data) =
                (self.start + number * MAP_BLOCK, encode(&self.set, number, &bits));
            Change::new(slots, offset, vec![data])
        };
        blocks.into_iter().map(change).collect()
    }

    /// That record is durable.
    pub(crate) fn are_logged(&self, stripes: &[u64]) {
        set_bits(&mut self.logged.borrow_mut(), stripes.iter().copied());
    }

    /// All of it, as it is in durable records.
    pub(crate) fn all(&self, slots: Slots) -> Change {
        let data = vec![encode_all(&self.set, &self.logged.borrow())];
        Change::new(slots, self.start, data)
    }
}

/// Whether a bit is set, of which the lowest of a byte comes first.
pub(crate) fn has_bit(bits: &[u8], at: u64) -> bool {
    bits[at as usize / 8] >> (at % 8) & 1 == 1
}

/// Sets such bits.
pub(crate) fn set_bits(bits: &mut [u8], all: impl IntoIterator<Item = u64>) {
    all.into_iter().for_each(|at| bits[at as usize / 8] |= 1 << (at % 8));
}
