//! The memory of buffers: pages.
//!
//! Large buffers are pieces of [`chunks`], and memory that no chunk has room for comes from the
//! kernel itself and goes back there: in an allocator's heap, small long-lived objects lie between
//! large buffers that come and go, and fragment their memory.
//!
//! Small ones are [cut](chunks::cut) from units of chunks, and each thread caches some freed ones.
//!
//! Invariants:
//! 1. Every byte of pages is initialised: the kernel gave zeros.
//! 2. Cached pages belong to no caller; pages that are taken leave the cache.
//! 3. A thread keeps [`KEPT_MOST`] bytes at most.
//! 4. The length of memory alone determines its source.
//!
//! Not asserted: 1, which the kernel keeps; 2, which ownership keeps.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::chunks::{self, cut};

/// Every buffer starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 4096;

/// Bytes that a thread caches: few, since one page of them may be all that keeps a unit from its
/// chunk.
const KEPT_MOST: usize = 4 << 20;
/// Sizes that are cached: powers of two from a page on.
const SIZES: usize = 3;
/// The largest small buffer, in bytes. Larger ones come from chunks or from the kernel itself.
const SMALL: usize = ALIGNMENT << (SIZES - 1);

/// Owned memory with arbitrary contents.
pub(crate) struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: Pages own their memory alone, as a Box<[u8]> does; u8 is Send.
unsafe impl Send for Pages {}
// SAFETY: shared Pages give out shared slices only; u8 is Sync.
unsafe impl Sync for Pages {}

/// The freed pages that a thread caches, by size.
#[derive(Default)]
struct Kept {
    pages: [Vec<Pages>; SIZES],
    bytes: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The index of the cache for memory of `length` bytes, if that size is cached.
fn place_of(length: usize) -> Option<usize> {
    let place = length.checked_div(ALIGNMENT)?.checked_ilog2()? as usize;
    (place < SIZES && length == ALIGNMENT << place).then_some(place)
}

impl Pages {
    /// Takes at least `length` bytes, with arbitrary contents; none for 0.
    pub(crate) fn take(length: usize) -> Self {
        if length == 0 {
            return Self { start: NonNull::dangling(), length };
        }
        let rounded = length.next_power_of_two().max(ALIGNMENT);
        match place_of(rounded) {
            Some(place) => Self::kept(place).unwrap_or_else(|| Self::allocate(rounded)),
            None if chunks::has(rounded) => Self::allocate(rounded),
            None => Self::allocate(length),
        }
    }

    /// Takes cached pages.
    fn kept(place: usize) -> Option<Self> {
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let pages = kept.pages[place].pop()?;
            debug_assert!(kept.bytes <= KEPT_MOST, "invariant 3: no more is kept than that");
            kept.bytes -= pages.length;
            Some(pages)
        });
        kept.ok().flatten()
    }

    /// The same memory in parts, each of which is freed by itself: units of a chunk, if it is more
    /// than one of them, or else all of it.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = Self> {
        let whole = ManuallyDrop::new(self);
        let (start, length) = (whole.start, whole.length);
        let part = if chunks::has(length) { chunks::UNIT } else { length.max(1) };
        (0..length).step_by(part).map(move |at| {
            // SAFETY: `at` is less than `length`, the number of bytes from `start` on.
            let start = unsafe { start.add(at) };
            // Each part has a length that a chunk has, or is the whole, and no two have a byte in
            // common (invariant 4); nobody drops the whole.
            Self { start, length: part.min(length) }
        })
    }

    /// Frees the pages, for the next caller that takes this size.
    pub(crate) fn give_back(self) {
        let Some(place) = place_of(self.length) else { return };
        // At the end of a thread the cache is gone: then `self` is freed with the closure.
        let _ = KEPT.try_with(move |kept| {
            let mut kept = kept.borrow_mut();
            if kept.bytes + self.length <= KEPT_MOST {
                kept.bytes += self.length; // invariant 3
                kept.pages[place].push(self);
            }
        });
    }

    /// Allocates `length` bytes from the source of such lengths.
    fn allocate(length: usize) -> Self {
        let start = if chunks::has(length) {
            chunks::take(length)
        } else if length > SMALL {
            NonNull::new(Self::map(length))
        } else {
            cut::take(length)
        };
        Self { start: start.unwrap_or_else(|| handle_alloc_error(Self::layout(length))), length }
    }

    /// Zero pages from the kernel, private to this process; null if it has none.
    fn map(length: usize) -> *mut u8 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // All of it will be filled, and a fault per page would cost more than the filling.
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: nothing that exists is replaced: the kernel chooses the address of the new
        // memory.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED { std::ptr::null_mut() } else { memory.cast() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes (invariant 1; dangling with
        // length 0), and the borrow of self keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in bytes, and the mutable borrow of self makes this slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a buffer is shorter than isize::MAX")
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if chunks::has(self.length) {
            // SAFETY: it was taken there for this length (invariant 4), and is freed once, as only
            // drop frees it and Pages cannot be copied.
            unsafe { chunks::give_back(self.start, self.length) };
        } else if self.length > SMALL {
            // SAFETY: all of it came from `map` (invariant 4), which gave it to nobody else, and it
            // is freed once, as above.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        } else if self.length > 0 {
            debug_assert!(
                place_of(self.length).is_some(),
                "invariant 4: it has one of few lengths"
            );
            // SAFETY: it was taken there for this length (invariant 4), and is freed once, as
            // above.
            unsafe { cut::give_back(self.start, self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        KEPT.with_borrow(|kept| kept.bytes)
    }

    #[test]
    fn what_is_given_back_is_taken_again_for_as_much() {
        let first = Pages::take(5000);
        let address = first.bytes().as_ptr();
        first.give_back();
        assert_eq!(kept(), 8192);
        assert_ne!(Pages::take(4096).bytes().as_ptr(), address);
        assert_eq!(Pages::take(8192).bytes().as_ptr(), address);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_thread_keeps_no_more_than_the_most() {
        let many: Vec<Pages> = (0..2 * KEPT_MOST / SMALL).map(|_| Pages::take(SMALL)).collect();
        many.into_iter().for_each(Pages::give_back);
        assert_eq!(kept(), KEPT_MOST);
    }

    #[test]
    fn parts_are_the_same_memory_and_go_one_by_one() {
        for (length, count) in [(0, 0), (4096, 1), (20_000, 1), (100_000, 4), (1 << 20, 32)] {
            let mut pages = Pages::take(length);
            pages.bytes_mut().fill(7);
            let (start, all) = (pages.bytes().as_ptr().addr(), pages.bytes().len());
            let parts: Vec<Pages> = pages.into_parts().collect();
            assert_eq!(parts.len(), count);
            let ends = parts.iter().scan(start, |end, part| {
                assert_eq!(part.bytes().as_ptr().addr(), *end, "one behind the other");
                *end += part.bytes().len();
                Some(*end)
            });
            assert_eq!(ends.last().unwrap_or(start), start + all);
            let mut parts = parts.into_iter();
            let last = parts.next_back();
            drop(parts);
            assert!(last.is_none_or(|part| part.bytes().iter().all(|&byte| byte == 7)));
        }
    }

    #[test]
    fn every_length_has_memory_from_somewhere() {
        for length in [0, 1, 4096, 16 << 10, 20_000, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let mut pages = Pages::take(length);
            assert!(pages.bytes().len() >= length);
            assert!(pages.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT) || length == 0);
            pages.bytes_mut().fill(1);
            pages.give_back();
        }
        assert_eq!(kept(), 4096 + (16 << 10), "the rest is not kept here");
    }
}
