//! Cut units of chunks: memory of small buffers.
//!
//! Why not an allocator: it keeps separate memory for each size, so the freed buffers of one size
//! are of no use for the next. A cache of large pieces that becomes one of small ones, as blocks of
//! files are overwritten, would get all of its memory new from the kernel a second time.
//!
//! A piece is one, two or four pages. Pieces are cut from the unit with the smallest free piece
//! that suffices, and a unit returns to its chunk when all of it is free.
//!
//! Invariants:
//! 1. A page of a cut unit is free, or belongs to the caller that took the piece that contains it;
//!    `free` records which. Units with no free page are not listed there, nor are whole ones.
//! 2. Every byte of a piece is initialised, as those of the unit are.
//!
//! Not asserted: 2, which chunks keep.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{UNIT, Units};

/// Size of a page, the smallest piece.
const PAGE: usize = UNIT >> WHOLE;
/// The order of a whole unit, in pages.
const WHOLE: usize = 3;

/// Cut units, by address.
struct Cut {
    /// Free pages of the units that have some.
    free: BTreeMap<usize, Units>,
    /// The same units by the order of the largest free piece.
    with_free: [BTreeSet<usize>; WHOLE],
}

static CUT: Mutex<Cut> = Mutex::new(Cut::new());

fn cut() -> MutexGuard<'static, Cut> {
    // Nothing panics between two changes that belong together.
    CUT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn order_of(length: usize) -> usize {
    let is_one = length.is_power_of_two() && (PAGE..UNIT).contains(&length);
    assert!(is_one, "pieces are one, two or four pages");
    (length / PAGE).ilog2() as usize
}

/// Takes a piece of `length` bytes, one, two or four pages, with arbitrary contents; nothing if the
/// kernel has no memory.
pub(crate) fn take(length: usize) -> Option<NonNull<u8>> {
    cut().take(order_of(length), || super::take(UNIT))
}

/// Frees a piece.
///
/// # Safety
/// It was taken for this length, is freed once, and nobody refers to it any more.
pub(crate) unsafe fn give_back(piece: NonNull<u8>, length: usize) {
    let whole = cut().give_back(piece, order_of(length));
    if let Some(whole) = whole {
        // SAFETY: the unit was taken for this length to be cut, and all that was cut from it is
        // back.
        unsafe { super::give_back(whole, UNIT) };
    }
}

impl Cut {
    const fn new() -> Self {
        Self { free: BTreeMap::new(), with_free: [const { BTreeSet::new() }; WHOLE] }
    }

    /// Takes a piece of this order; from a `new` unit, if no cut unit has one.
    fn take(
        &mut self,
        order: usize,
        new: impl FnOnce() -> Option<NonNull<u8>>,
    ) -> Option<NonNull<u8>> {
        let found = self.with_free[order..].iter().find_map(|set| set.first().copied());
        let (unit, free) = match found {
            Some(unit) => (unit, self.free[&unit]),
            None => (new()?.as_ptr().expose_provenance(), Units::of(0, WHOLE)),
        };
        let first = free.first(order).expect("every set tells of units with such a piece");
        self.put(unit, free - Units::of(first, order));
        NonNull::new(ptr::with_exposed_provenance_mut(unit + first * PAGE))
    }

    /// Frees a piece; returns its unit if all of that is free.
    fn give_back(&mut self, piece: NonNull<u8>, order: usize) -> Option<NonNull<u8>> {
        let piece = piece.as_ptr().expose_provenance();
        let unit = piece - piece % UNIT;
        let pages = Units::of((piece - unit) / PAGE, order);
        let free = self.free.get(&unit).copied().unwrap_or(Units::NONE);
        assert!((free & pages).is_empty(), "invariant 1: it is given back once");
        let is_whole = free | pages == Units::of(0, WHOLE);
        self.put(unit, if is_whole { Units::NONE } else { free | pages });
        NonNull::new(ptr::with_exposed_provenance_mut(unit)).filter(|_| is_whole)
    }

    /// Records the free pages of a unit.
    fn put(&mut self, unit: usize, free: Units) {
        let before =
            if free.is_empty() { self.free.remove(&unit) } else { self.free.insert(unit, free) };
        let (before, now) = (before.and_then(Units::largest), free.largest());
        if before == now {
            return;
        }
        if let Some(order) = before {
            self.with_free[order].remove(&unit);
        }
        if let Some(order) = now {
            self.with_free[order].insert(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of one test alone, whose memory is never accessed: they are numbered from 1 on.
    #[derive(Default)]
    struct Own {
        cut: Option<Cut>,
        units: usize,
        whole: Vec<usize>,
    }

    impl Own {
        fn take(&mut self, length: usize) -> usize {
            let Self { cut, units, whole } = self;
            let new = || {
                let unit = whole.pop().unwrap_or_else(|| {
                    *units += 1;
                    *units * UNIT
                });
                NonNull::new(ptr::without_provenance_mut(unit))
            };
            let cut = cut.get_or_insert_with(Cut::new);
            let piece = cut.take(order_of(length), new).expect("there are always more");
            assert!(piece.addr().get().is_multiple_of(length));
            self.check();
            piece.addr().get()
        }

        fn give_back(&mut self, piece: usize, length: usize) {
            let piece = NonNull::new(ptr::without_provenance_mut(piece)).expect("it is one");
            let cut = self.cut.as_mut().expect("something was taken");
            self.whole.extend(cut.give_back(piece, order_of(length)).map(|unit| unit.addr().get()));
            self.check();
        }

        /// Recomputes and compares the running counts.
        fn check(&self) {
            let cut = self.cut.as_ref().expect("something was taken");
            let mut with_free = [const { BTreeSet::new() }; WHOLE];
            for (&unit, free) in &cut.free {
                let is_some = !free.is_empty() && *free != Units::of(0, WHOLE);
                assert!(is_some && !self.whole.contains(&unit), "invariant 1");
                with_free[free.largest().expect("it is some")].insert(unit);
            }
            assert_eq!(with_free, cut.with_free);
        }
    }

    #[test]
    fn pieces_of_all_sizes_have_nothing_in_common_and_units_come_back() {
        let mut own = Own::default();
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut chance: u64 = 7;
        for step in 0..4_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (chance >> 33) as usize;
            let most = if step / 1_000 % 2 == 0 { 60 } else { 10 };
            if taken.len() < most && !number.is_multiple_of(3) {
                let length = PAGE << (number / 3 % WHOLE);
                let piece = own.take(length);
                let is_apart =
                    |&(at, other): &(usize, usize)| piece + length <= at || at + other <= piece;
                assert!(taken.iter().all(is_apart), "{piece} has something of another's");
                taken.push((piece, length));
            } else if !taken.is_empty() {
                let (piece, length) = taken.swap_remove(number % taken.len());
                own.give_back(piece, length);
            }
        }
        taken.into_iter().for_each(|(piece, length)| own.give_back(piece, length));
        assert_eq!((own.whole.len(), own.units > 10), (own.units, true));
    }

    #[test]
    fn what_one_size_gives_back_is_taken_for_others() {
        let mut own = Own::default();
        let large: Vec<usize> = (0..2).map(|_| own.take(4 * PAGE)).collect();
        own.give_back(large[1], 4 * PAGE);
        let small: Vec<usize> = (0..4).map(|_| own.take(PAGE)).collect();
        assert_eq!((small[0], own.units), (large[1], 1));
        own.give_back(small[1], PAGE);
        let pair = own.take(2 * PAGE);
        assert_eq!((pair, own.units), (2 * UNIT, 2), "a page is not two");
        assert_eq!(own.take(PAGE), small[1], "and what is large stays whole");
    }

    #[test]
    #[should_panic(expected = "invariant 1")]
    fn a_piece_given_back_twice_is_noticed() {
        let mut own = Own::default();
        let (piece, _other) = (own.take(PAGE), own.take(PAGE));
        own.give_back(piece, PAGE);
        own.give_back(piece, PAGE);
    }

    #[test]
    fn memory_of_all_sizes_is_its_callers_alone() {
        let lengths: Vec<usize> = (0..48).map(|number| PAGE << (number % WHOLE)).collect();
        let all: Vec<(NonNull<u8>, usize)> =
            lengths.iter().map(|&length| (take(length).expect("memory"), length)).collect();
        for (number, &(piece, length)) in all.iter().enumerate() {
            // SAFETY: the test has the piece.
            unsafe { piece.write_bytes(number as u8, length) };
        }
        for (number, &(piece, length)) in all.iter().enumerate() {
            // SAFETY: the test has the piece, of which every byte was written.
            let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), length) };
            assert!(bytes.iter().all(|&byte| byte == number as u8));
            // SAFETY: it was taken for this length, and is not accessed any more.
            unsafe { give_back(piece, length) };
        }
    }
}
