//! Memory of large buffers: chunks of two mebibytes, cut into pieces of several sizes.
//!
//! Why: a processor and its kernel have pages of that size, too. A chunk is asked for as one of
//! them, and so comes with one fault, not 512; a device that reads or writes past the page cache
//! finds it with one look, and what is copied into it misses fewer translations. Where the kernel
//! has none to give, it gives small ones all at once, which still costs less than one by one.
//!
//! A piece that is given back stays in memory and is taken again, alone, as part of a larger one
//! with its neighbours, or cut into smaller ones (a buddy system: Knowlton, CACM 1965). Memory that
//! is new is made zeros by the kernel, which takes longer than to fill it; and the host of a
//! virtual machine may have to find it first, which takes ten times as long. So that what is free
//! is bounded, it goes back to the kernel beyond [`FREE_MOST`] and what caches say they do
//! without for now ([`Retention`]): first what is of no use but for small pieces. That leaves holes
//! in its chunk. A hole stays until the rest of its chunk can go, too: it would be filled by small
//! pages, which takes longer than a new chunk does (2.7 us for each 4 KiB and 0.2 ms for 2 MiB),
//! and addresses cost nothing.
//!
//! Invariants:
//! 1. A unit of a chunk is free, or belongs to the caller that took the piece that it is of; `free`
//!    and `holes` tell which.
//! 2. Every byte of a piece is initialised: the kernel gives zeros.
//! 3. What is given back stays memory while what is free is [`FREE_MOST`] bytes and what is
//!    retained at most, and is a hole beyond. (Beside that there is the rest of what was cut last.)
//! 4. A chunk of which no piece is taken has no hole.
//!
//! Not asserted: 2, which the kernel keeps.

#![allow(unsafe_code)]

pub(crate) mod cut;
mod units;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use units::{ORDERS, Units};

/// Bytes of a chunk, and of a large page of the processors that we know.
const CHUNK: usize = 2 << 20;
/// Bytes of a unit, the smallest piece.
pub(crate) const UNIT: usize = CHUNK / units::COUNT;
/// The largest piece, the payload of a READ or WRITE.
pub(crate) const MOST: usize = 1 << 20;
/// Bytes that are kept for the next caller in any case: some READs and WRITEs of the largest.
const FREE_MOST: usize = 16 << 20;
/// Bytes of addresses that are asked for at once, and give one chunk less, to begin at a multiple.
const REGION: usize = 16 * CHUNK;

/// A chunk that has memory.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Free units that are memory.
    free: Units,
    /// Free units that are none.
    holes: Units,
}

/// All chunks, by their addresses.
struct Chunks {
    chunks: BTreeMap<usize, Chunk>,
    /// Those with a free piece, by the order of the largest.
    with_free: [BTreeSet<usize>; ORDERS],
    /// Addresses of chunks without memory.
    unused: Vec<usize>,
    /// Free bytes that are memory.
    free_bytes: usize,
    /// The sum of all [`Retention`].
    retained: usize,
}

static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks::new());

fn chunks() -> MutexGuard<'static, Chunks> {
    // Nothing panics between two changes that belong together.
    CHUNKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order of pieces of `length` bytes, if there are such.
fn order_of(length: usize) -> Option<usize> {
    let is_one = length.is_power_of_two() && (UNIT..=MOST).contains(&length);
    is_one.then(|| (length / UNIT).ilog2() as usize)
}

/// Whether memory of this length is a piece of a chunk.
pub(crate) fn has(length: usize) -> bool {
    order_of(length).is_some()
}

/// A piece that holds anything; nothing if the kernel has no memory.
///
/// # Panics
/// If there are no pieces of this length ([`has`]).
pub(crate) fn take(length: usize) -> Option<NonNull<u8>> {
    chunks().take(order_of(length).expect("a length of which there are pieces"))
}

/// Gives a piece back: all that was taken, or a part of it that is a piece itself.
///
/// # Safety
/// It was taken for this length, or is a part of what was, a multiple of its length from the start
/// of that; it is given back once, and nobody refers to it any more.
pub(crate) unsafe fn give_back(piece: NonNull<u8>, length: usize) {
    chunks().give_back(piece, order_of(length).expect("a length of which there are pieces"));
}

/// How much free memory of large buffers stays memory, for the next caller.
///
/// A cache with a budget sets it to what it does without for now: then server and kernel do not
/// pass the same memory to and fro, and all of it together is still within the budget, but for free
/// pages of units that are [cut]. It ends with the value.
#[derive(Debug, Default)]
pub struct Retention {
    bytes: Cell<usize>,
}

impl Retention {
    /// Retains up to `bytes`, beside what others retain; gives back what is more now.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        if before != bytes {
            chunks().retain(before, bytes);
        }
    }

    /// What was set, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Chunks {
    const fn new() -> Self {
        Self {
            chunks: BTreeMap::new(),
            with_free: [const { BTreeSet::new() }; ORDERS],
            unused: Vec::new(),
            free_bytes: 0,
            retained: 0,
        }
    }

    /// The piece is of the smallest that suffices, so that large ones stay whole.
    fn take(&mut self, order: usize) -> Option<NonNull<u8>> {
        let found = self.with_free[order..].iter().find_map(|set| set.first().copied());
        let start = match found {
            Some(start) => start,
            None => self.begin()?,
        };
        let Chunk { free, holes } = self.chunks[&start];
        let first = free.first(order).expect("every set tells of chunks with such a piece");
        self.put(start, Some(Chunk { free: free - Units::of(first, order), holes }));
        let is_bounded = self.free_bytes <= self.free_most() + CHUNK;
        debug_assert!(is_bounded, "invariant 3: no more stays than the rest of what is cut");
        NonNull::new(ptr::with_exposed_provenance_mut(start + first * UNIT))
    }

    /// Begins to use a chunk; none if the kernel has no more addresses.
    fn begin(&mut self) -> Option<usize> {
        if self.unused.is_empty() {
            let first = map()?.next_multiple_of(CHUNK);
            let chunks = (0..REGION / CHUNK - 1).map(|number| first + number * CHUNK);
            self.unused.extend(chunks.rev());
        }
        let start = self.unused.pop()?;
        fill(start, CHUNK);
        self.put(start, Some(Chunk { free: Units::ALL, holes: Units::NONE }));
        Some(start)
    }

    fn give_back(&mut self, piece: NonNull<u8>, order: usize) {
        let piece = piece.as_ptr().expose_provenance();
        let start = piece - piece % CHUNK;
        let units = Units::of((piece - start) / UNIT, order);
        let chunk = self.chunks.get(&start).expect("a piece is of a chunk that has memory");
        let Chunk { free, holes } = *chunk;
        assert!(((free | holes) & units).is_empty(), "invariant 1: it is given back once");
        let free = free | units;
        if free | holes == Units::ALL && !holes.is_empty() {
            self.part_with(start); // invariant 4
        } else {
            self.put(start, Some(Chunk { free, holes }));
        }
        self.keep_within_bounds();
    }

    /// Gives all memory of a chunk back of which no piece is taken; its addresses stay.
    fn part_with(&mut self, start: usize) {
        release(start, CHUNK);
        self.put(start, None);
        self.unused.push(start);
    }

    /// Notes what a chunk is now, or that it has no memory.
    fn put(&mut self, start: usize, now: Option<Chunk>) {
        let is_whole = |Chunk { free, holes }| holes.is_empty() || free | holes != Units::ALL;
        debug_assert!(now.is_none_or(is_whole), "invariant 4: what nobody has is without holes");
        let before = match now {
            Some(chunk) => self.chunks.insert(start, chunk),
            None => self.chunks.remove(&start),
        };
        let [before, now] = [before, now].map(|one| one.map_or(Units::NONE, |chunk| chunk.free));
        self.free_bytes = self.free_bytes - before.count() * UNIT + now.count() * UNIT;
        let (before, now) = (before.largest(), now.largest());
        if before == now {
            return;
        }
        if let Some(order) = before {
            self.with_free[order].remove(&start);
        }
        if let Some(order) = now {
            self.with_free[order].insert(start);
        }
    }

    /// A [`Retention`] of `before` bytes is one of `now` from here on.
    fn retain(&mut self, before: usize, now: usize) {
        self.retained = self.retained - before + now;
        self.keep_within_bounds();
    }

    fn free_most(&self) -> usize {
        FREE_MOST + self.retained
    }

    /// Gives back what is too much (invariant 3), first of the chunks with the smallest pieces:
    /// they are of the least use, and what is left of them goes as a whole one day.
    fn keep_within_bounds(&mut self) {
        while self.free_bytes > self.free_most() {
            let first = self.with_free.iter().find_map(BTreeSet::last);
            let &start = first.expect("what is free is of a chunk");
            let Chunk { free, holes } = self.chunks[&start];
            if free == Units::ALL {
                self.part_with(start);
                continue;
            }
            for (first, count) in free.stretches() {
                release(start + first * UNIT, count * UNIT);
            }
            self.put(start, Some(Chunk { free: Units::NONE, holes: holes | free }));
        }
    }
}

/// Addresses of a region, new from the kernel; nothing if it has none. They stay: chunks without
/// memory cost nothing.
fn map() -> Option<usize> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: nothing that exists is replaced: the kernel chooses where the new memory is.
    let memory = unsafe { libc::mmap(ptr::null_mut(), REGION, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the region was mapped above and is nobody's yet; the advice changes no byte of it. A
    // kernel that does not take it gives small pages.
    unsafe { libc::madvise(memory, REGION, libc::MADV_HUGEPAGE) };
    Some(memory.expose_provenance())
}

/// Has the kernel give memory for all of a range now: it will be filled, and a fault a page would
/// cost more than the filling. If it cannot, the faults come.
fn fill(start: usize, length: usize) {
    // SAFETY: the range is of a chunk that is mapped, and belongs to nobody; what is memory there
    // stays as it is, and the rest becomes zeros.
    unsafe { libc::madvise(address(start), length, libc::MADV_POPULATE_WRITE) };
}

/// Gives the memory of a range back to the kernel, but not its addresses.
fn release(start: usize, length: usize) {
    // SAFETY: the range is a chunk or a piece of one, which is mapped, and belongs to nobody. What
    // is read there from now on is zeros (invariant 2).
    unsafe { libc::madvise(address(start), length, libc::MADV_DONTNEED) };
}

fn address(start: usize) -> *mut libc::c_void {
    ptr::with_exposed_provenance_mut(start)
}

#[cfg(test)]
mod tests;
