//! Memory of large buffers: chunks of two mebibytes, cut into pieces of several sizes.
//!
//! Why: processors and kernels have pages of that size, too. A chunk is requested as one of them,
//! and so comes with one fault, not 512; a device that transfers past the page cache finds it with
//! one lookup, and copies into it miss fewer translations. Where the kernel has no large page, it
//! gives small ones all at once, which still costs less than one by one.
//!
//! A freed piece stays in memory and is taken again, alone, as part of a larger one with its
//! neighbours, or cut into smaller ones (a buddy system: Knowlton, CACM 1965). The kernel zeroes
//! new memory, which takes longer than filling it; and the host of a virtual machine may have to
//! find it first, which takes ten times as long. To bound free memory, the part beyond
//! [`FREE_MOST`] and the memory that caches do without for now ([`Retention`]) goes back to the
//! kernel: first pieces that are useful only as small ones. That leaves holes in their chunk. A
//! hole stays until the rest of its chunk can go, too: it would be filled by small pages, which
//! takes longer than a new chunk does (2.7 us for each 4 KiB and 0.2 ms for 2 MiB), and addresses
//! cost nothing.
//!
//! Invariants:
//! 1. A unit of a chunk is free, or belongs to the caller that took the piece that contains it;
//!    `free` and `holes` record which.
//! 2. Every byte of a piece is initialised: the kernel gives zeros.
//! 3. Freed memory stays memory while at most [`FREE_MOST`] bytes plus the retained bytes are free,
//!    and becomes a hole beyond. (The rest of the chunk that was cut last comes on top.)
//! 4. A chunk without a taken piece has no hole.
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

/// Size of a chunk, and of a large page of the processors that we know.
const CHUNK: usize = 2 << 20;
/// Size of a unit, the smallest piece.
pub(crate) const UNIT: usize = CHUNK / units::COUNT;
/// Size of the largest piece, the payload of a READ or WRITE.
pub(crate) const MOST: usize = 1 << 20;
/// Free bytes that always stay for the next caller: a few READs and WRITEs of the largest size.
const FREE_MOST: usize = 16 << 20;
/// Bytes of addresses to map at once. They give one chunk less, to begin at a multiple.
const REGION: usize = 16 * CHUNK;

/// A chunk that has memory.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Free units with memory.
    free: Units,
    /// Free units without memory.
    holes: Units,
}

/// All chunks, by address.
struct Chunks {
    chunks: BTreeMap<usize, Chunk>,
    /// Chunks with a free piece, by the order of the largest.
    with_free: [BTreeSet<usize>; ORDERS],
    /// Addresses of chunks without memory.
    unused: Vec<usize>,
    /// Bytes of free units with memory.
    free_bytes: usize,
    /// The sum of all [`Retention`].
    retained: usize,
}

static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks::new());

fn chunks() -> MutexGuard<'static, Chunks> {
    // Nothing panics between two changes that belong together.
    CHUNKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order of pieces of `length` bytes, if there are pieces of that length.
fn order_of(length: usize) -> Option<usize> {
    let is_one = length.is_power_of_two() && (UNIT..=MOST).contains(&length);
    is_one.then(|| (length / UNIT).ilog2() as usize)
}

/// Whether memory of this length is a piece of a chunk.
pub(crate) fn has(length: usize) -> bool {
    order_of(length).is_some()
}

/// Takes a piece with arbitrary contents; nothing if the kernel has no memory.
///
/// # Panics
/// If there are no pieces of this length ([`has`]).
pub(crate) fn take(length: usize) -> Option<NonNull<u8>> {
    chunks().take(order_of(length).expect("a length of which there are pieces"))
}

/// Frees a piece: all that was taken, or a part of it that is a piece itself.
///
/// # Safety
/// It was taken with this length, or is a part of such a piece, at a multiple of its own length
/// from the start; it is freed once, and nobody refers to it any more.
pub(crate) unsafe fn give_back(piece: NonNull<u8>, length: usize) {
    chunks().give_back(piece, order_of(length).expect("a length of which there are pieces"));
}

/// Free memory of large buffers that stays memory, for the next caller.
///
/// A cache with a budget sets it to the part that it does without for now: then server and kernel
/// do not pass the same memory back and forth, and all of it together is still within the budget,
/// except for free pages of units that are [cut]. Dropping the value ends the retention.
#[derive(Debug, Default)]
pub struct Retention {
    bytes: Cell<usize>,
}

impl Retention {
    /// Retains up to `bytes`, beside the retention of others; returns the excess to the kernel now.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        if before != bytes {
            chunks().retain(before, bytes);
        }
    }

    /// The retention, in bytes.
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

    /// Takes the smallest piece that suffices, so that large ones stay whole.
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

    /// Starts using a chunk; none if the kernel has no more addresses.
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

    /// Returns the memory of a chunk without a taken piece to the kernel; its addresses stay.
    fn part_with(&mut self, start: usize) {
        release(start, CHUNK);
        self.put(start, None);
        self.unused.push(start);
    }

    /// Records the new state of a chunk, or that it has no memory.
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

    /// Changes a [`Retention`] from `before` bytes to `now`.
    fn retain(&mut self, before: usize, now: usize) {
        self.retained = self.retained - before + now;
        self.keep_within_bounds();
    }

    fn free_most(&self) -> usize {
        FREE_MOST + self.retained
    }

    /// Returns excess memory to the kernel (invariant 3), first from the chunks with the smallest
    /// pieces: they are of the least use, and the rest of such a chunk later goes as a whole.
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

/// Maps the addresses of a region; nothing if the kernel has none. They stay mapped: chunks without
/// memory cost nothing.
fn map() -> Option<usize> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: nothing that exists is replaced: the kernel chooses the address of the new memory.
    let memory = unsafe { libc::mmap(ptr::null_mut(), REGION, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the region was mapped above and is nobody's yet; the advice changes no byte of it. A
    // kernel that does not take it gives small pages.
    unsafe { libc::madvise(memory, REGION, libc::MADV_HUGEPAGE) };
    Some(memory.expose_provenance())
}

/// Asks the kernel for memory for all of a range now: it will be filled, and a fault per page would
/// cost more than the filling. If that fails, the faults come later.
fn fill(start: usize, length: usize) {
    // SAFETY: the range is of a chunk that is mapped, and belongs to nobody; bytes that are memory
    // there stay as they are, and the rest becomes zeros.
    unsafe { libc::madvise(address(start), length, libc::MADV_POPULATE_WRITE) };
}

/// Returns the memory of a range to the kernel, but not its addresses.
fn release(start: usize, length: usize) {
    // SAFETY: the range is a chunk or a piece of one, which is mapped, and belongs to nobody. Reads
    // of it give zeros from now on (invariant 2).
    unsafe { libc::madvise(address(start), length, libc::MADV_DONTNEED) };
}

fn address(start: usize) -> *mut libc::c_void {
    ptr::with_exposed_provenance_mut(start)
}

#[cfg(test)]
mod tests;
