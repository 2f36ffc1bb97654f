//! Memory of large buffers: chunks of two mebibytes, each cut into pieces of one size.
//!
//! Why: a processor and its kernel have pages of that size, too. A chunk is asked for as one of
//! them, and so comes with one fault, not 512; a device that reads or writes past the page cache
//! finds it with one look, and what is copied into it misses fewer translations. Where the kernel
//! has none to give, it gives small ones all at once, which still costs less than one by one.
//!
//! A piece that is given back stays in memory and is the first to be taken again: memory that is
//! new is made zeros by the kernel, which takes longer than to fill it. So that what nobody has is
//! bounded, it goes back to the kernel beyond [`FREE_MOST`] and what caches say they do without for
//! now ([`Retention`]): whole chunks where nothing of them is in use, else the piece alone, which
//! leaves a hole.
//!
//! Invariants:
//! 1. A piece belongs to nobody, or to whoever took it; `free` and `holes` tell what is whose.
//! 2. Every byte of a piece is initialised: the kernel gives zeros, also for a hole.
//! 3. What is given back stays memory while what belongs to nobody is [`FREE_MOST`] bytes and what
//!    is retained at most, and is a hole beyond. (Beside that there is the rest of what was cut
//!    last of each size.)
//! 4. A chunk of which nobody has a piece has no hole, and is of no size: it may be cut anew.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a chunk, and of a large page of the processors that we know.
const CHUNK: usize = 2 << 20;
/// The smallest piece: so many fit that a bit of each fits in a word.
const LEAST: usize = CHUNK / u64::BITS as usize;
/// The largest, the payload of a READ or WRITE.
const MOST: usize = 1 << 20;
/// Sizes of pieces: powers of two.
const SIZES: usize = (MOST / LEAST).ilog2() as usize + 1;
/// Bytes that are kept for whoever comes next in any case: some READs and WRITEs of the largest.
const FREE_MOST: usize = 16 << 20;
/// Bytes of addresses that are asked for at once, and give one chunk less, to begin at a multiple.
const REGION: usize = 16 * CHUNK;

/// A chunk that is cut.
#[derive(Clone, Copy)]
struct Cut {
    /// Its pieces are `LEAST << place` bytes long.
    place: usize,
    /// A bit for each piece that belongs to nobody and is memory.
    free: u64,
    /// A bit for each that belongs to nobody and is none.
    holes: u64,
}

/// All chunks, by their addresses.
struct Chunks {
    cut: BTreeMap<usize, Cut>,
    /// Those with a free piece, and those with a hole, by the size of their pieces. The first are
    /// taken first, so that the last become empty.
    with_free: [BTreeSet<usize>; SIZES],
    with_holes: [BTreeSet<usize>; SIZES],
    /// Those that are kept though nobody has a piece of them.
    empty: Vec<usize>,
    /// Addresses of chunks without memory.
    unused: Vec<usize>,
    /// Bytes that belong to nobody and are memory.
    free_bytes: usize,
    /// The sum of all [`Retention`].
    retained: usize,
}

static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks::new());

fn chunks() -> MutexGuard<'static, Chunks> {
    // Nothing panics between two changes that belong together.
    CHUNKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where pieces of `length` bytes are, if there are such.
fn place_of(length: usize) -> Option<usize> {
    let is_one = length.is_power_of_two() && (LEAST..=MOST).contains(&length);
    is_one.then(|| (length / LEAST).ilog2() as usize)
}

/// Whether memory of this length is a piece of a chunk.
pub(crate) fn has(length: usize) -> bool {
    place_of(length).is_some()
}

/// A piece that holds anything; nothing if the kernel has no memory.
///
/// # Panics
/// If there are no pieces of this length ([`has`]).
pub(crate) fn take(length: usize) -> Option<NonNull<u8>> {
    chunks().take(place_of(length).expect("a length of which there are pieces"))
}

/// Gives a piece back.
///
/// # Safety
/// It was taken for this length, is given back once, and nobody refers to it any more.
pub(crate) unsafe fn give_back(piece: NonNull<u8>, length: usize) {
    debug_assert!(has(length));
    chunks().give_back(piece);
}

/// How much memory of large buffers that nobody has stays memory, for whoever comes next.
///
/// A cache with a budget sets it to what it does without for now: then server and kernel do not
/// pass the same memory to and fro, and all of it together is still within the budget. It ends with
/// the value.
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

impl Cut {
    fn length(self) -> usize {
        LEAST << self.place
    }

    /// A bit for each piece.
    fn all(self) -> u64 {
        u64::MAX >> (u64::BITS as usize - CHUNK / self.length())
    }
}

impl Chunks {
    const fn new() -> Self {
        Self {
            cut: BTreeMap::new(),
            with_free: [const { BTreeSet::new() }; SIZES],
            with_holes: [const { BTreeSet::new() }; SIZES],
            empty: Vec::new(),
            unused: Vec::new(),
            free_bytes: 0,
            retained: 0,
        }
    }

    fn take(&mut self, place: usize) -> Option<NonNull<u8>> {
        let first = self.with_free[place].first().copied();
        let (start, is_hole) = match first.or_else(|| self.cut_empty(place)) {
            Some(start) => (start, false),
            None => match self.with_holes[place].first() {
                Some(&start) => (start, true),
                None => (self.cut_new(place)?, false),
            },
        };
        let cut = self.cut.get_mut(&start).expect("every set tells of chunks that are cut");
        let bits = if is_hole { &mut cut.holes } else { &mut cut.free };
        let piece = start + bits.trailing_zeros() as usize * (LEAST << place);
        *bits &= *bits - 1; // invariant 1
        if *bits == 0 {
            let set = if is_hole { &mut self.with_holes } else { &mut self.with_free };
            set[place].remove(&start);
        }
        match is_hole {
            true => fill(piece, LEAST << place),
            false => self.free_bytes -= LEAST << place,
        }
        NonNull::new(ptr::with_exposed_provenance_mut(piece))
    }

    /// Cuts a chunk that was kept, if there is one.
    fn cut_empty(&mut self, place: usize) -> Option<usize> {
        let start = self.empty.pop()?;
        self.free_bytes -= CHUNK;
        Some(self.cut(start, place))
    }

    /// Cuts a chunk that was nothing; none if the kernel has no more addresses.
    fn cut_new(&mut self, place: usize) -> Option<usize> {
        if self.unused.is_empty() {
            let first = map()?.next_multiple_of(CHUNK);
            let chunks = (0..REGION / CHUNK - 1).map(|number| first + number * CHUNK);
            self.unused.extend(chunks.rev());
        }
        let start = self.unused.pop()?;
        fill(start, CHUNK);
        Some(self.cut(start, place))
    }

    fn cut(&mut self, start: usize, place: usize) -> usize {
        let mut cut = Cut { place, free: 0, holes: 0 };
        cut.free = cut.all();
        self.free_bytes += CHUNK;
        self.cut.insert(start, cut);
        self.with_free[place].insert(start);
        start
    }

    fn give_back(&mut self, piece: NonNull<u8>) {
        let (piece, free_most) = (piece.as_ptr().expose_provenance(), self.free_most());
        let start = piece - piece % CHUNK;
        let cut = self.cut.get_mut(&start).expect("a piece is of a chunk that is cut");
        let bit = 1 << ((piece - start) / cut.length());
        assert_eq!((cut.free | cut.holes) & bit, 0, "invariant 1: it is given back once");
        let (place, length) = (cut.place, cut.length());
        if cut.free | cut.holes | bit == cut.all() {
            self.end(start, length);
        } else if self.free_bytes + length <= free_most {
            cut.free |= bit;
            self.free_bytes += length;
            self.with_free[place].insert(start);
        } else {
            cut.holes |= bit; // invariant 3
            self.with_holes[place].insert(start);
            release(piece, length);
        }
    }

    /// The last piece of a chunk comes back, `length` bytes long: the whole goes, or is kept.
    fn end(&mut self, start: usize, length: usize) {
        let cut = self.cut.remove(&start).expect("it was there just now");
        self.with_free[cut.place].remove(&start);
        self.with_holes[cut.place].remove(&start);
        self.free_bytes -= cut.free.count_ones() as usize * length;
        if cut.holes == 0 && self.free_bytes + CHUNK <= self.free_most() {
            self.free_bytes += CHUNK;
            self.empty.push(start);
        } else {
            self.part_with(start); // invariants 3 and 4
        }
    }

    /// Gives all memory of a chunk back that is of no size any more; its addresses stay.
    fn part_with(&mut self, start: usize) {
        release(start, CHUNK);
        self.unused.push(start);
    }

    /// One who retained `before` bytes retains `now`.
    fn retain(&mut self, before: usize, now: usize) {
        self.retained = self.retained - before + now;
        while self.free_bytes > self.free_most() && self.release_some() {}
    }

    fn free_most(&self) -> usize {
        FREE_MOST + self.retained
    }

    /// Gives back a chunk that nobody has a piece of, or else what is free of another.
    fn release_some(&mut self) -> bool {
        if let Some(start) = self.empty.pop() {
            self.free_bytes -= CHUNK;
            self.part_with(start);
            return true;
        }
        let last = self.with_free.iter_mut().find_map(BTreeSet::pop_last);
        let Some(start) = last else { return false };
        let cut = self.cut.get_mut(&start).expect("every set tells of chunks that are cut");
        let (place, length) = (cut.place, cut.length());
        self.free_bytes -= cut.free.count_ones() as usize * length;
        for piece in (0..u64::BITS as usize).filter(|piece| cut.free & 1 << piece != 0) {
            release(start + piece * length, length);
        }
        cut.holes |= std::mem::take(&mut cut.free);
        self.with_holes[place].insert(start);
        true
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
mod tests {
    use super::*;

    /// Chunks of a test alone, which end with it.
    struct Own(Chunks);

    impl Own {
        fn new() -> Self {
            Self(Chunks::new())
        }

        fn take(&mut self, length: usize) -> NonNull<u8> {
            let piece = self.0.take(place_of(length).expect("a size")).expect("memory");
            assert!(piece.addr().get().is_multiple_of(length));
            piece
        }

        fn give_back(&mut self, piece: NonNull<u8>) {
            self.0.give_back(piece);
            self.check();
        }

        /// Counts anew what is counted along the way.
        fn check(&self) {
            let chunks = &self.0;
            let mut free = chunks.empty.len() * CHUNK;
            for (start, cut) in &chunks.cut {
                assert_eq!(cut.free & cut.holes, 0);
                assert_ne!(cut.free | cut.holes, cut.all(), "invariant 4");
                assert_eq!(chunks.with_free[cut.place].contains(start), cut.free != 0);
                assert_eq!(chunks.with_holes[cut.place].contains(start), cut.holes != 0);
                free += cut.free.count_ones() as usize * cut.length();
            }
            assert_eq!(free, chunks.free_bytes);
            assert!(free <= chunks.free_most(), "invariant 3");
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let cut = self.0.cut.keys().copied();
            cut.chain(self.0.empty.iter().copied()).for_each(|start| release(start, CHUNK));
        }
    }

    fn write(piece: NonNull<u8>, length: usize, byte: u8) {
        // SAFETY: the test has the piece.
        unsafe { piece.write_bytes(byte, length) }
    }

    fn is_all(piece: NonNull<u8>, length: usize, byte: u8) -> bool {
        // SAFETY: the test has the piece, of which every byte is initialised (invariant 2).
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), length) }.iter().all(|&is| is == byte)
    }

    #[test]
    fn sizes_are_powers_of_two_of_which_a_chunk_has_some() {
        assert_eq!((LEAST, SIZES), (32 << 10, 6));
        let sizes = [16 << 10, 32 << 10, 48 << 10, 64 << 10, 1 << 20, 2 << 20];
        assert_eq!(sizes.map(place_of), [None, Some(0), None, Some(1), Some(5), None]);
    }

    #[test]
    fn pieces_do_not_overlap_and_the_first_free_one_is_next() {
        let mut own = Own::new();
        let length = 512 << 10;
        let pieces: Vec<_> = (0..8).map(|_| own.take(length)).collect();
        assert!(pieces.iter().all(|&piece| is_all(piece, length, 0)));
        for (number, &piece) in pieces.iter().enumerate() {
            write(piece, length, number as u8);
        }
        for (number, &piece) in pieces.iter().enumerate() {
            assert!(is_all(piece, length, number as u8));
        }
        assert_eq!((own.0.cut.len(), own.0.free_bytes), (2, 0));
        let mut given = [pieces[6], pieces[1]];
        given.iter().for_each(|&piece| own.give_back(piece));
        given.sort();
        assert_eq!([own.take(length), own.take(length)], given);
        assert_eq!(own.0.cut.len(), 2);
    }

    #[test]
    fn a_chunk_that_nobody_uses_is_cut_anew() {
        let mut own = Own::new();
        let pieces: Vec<_> = (0..3).map(|_| own.take(1 << 20)).collect();
        pieces.into_iter().for_each(|piece| own.give_back(piece));
        assert_eq!((own.0.cut.len(), own.0.empty.len()), (0, 2));
        own.take(LEAST);
        assert_eq!((own.0.cut.len(), own.0.empty.len()), (1, 1));
        assert_eq!(own.0.free_bytes, 2 * CHUNK - LEAST);
    }

    #[test]
    fn what_nobody_has_is_bounded_and_holes_are_zeros() {
        let mut own = Own::new();
        let length = 1 << 20;
        let pieces: Vec<_> = (0..2 * (FREE_MOST / length) + 8).map(|_| own.take(length)).collect();
        pieces.iter().for_each(|&piece| write(piece, length, 7));
        // One of each chunk: nothing of it can go as a whole.
        let mut by_chunk: BTreeMap<usize, NonNull<u8>> = BTreeMap::new();
        by_chunk.extend(pieces.iter().map(|&piece| (piece.addr().get() / CHUNK, piece)));
        by_chunk.values().for_each(|&piece| own.give_back(piece));
        assert_eq!(own.0.free_bytes, FREE_MOST);
        let with_holes = own.0.with_holes[SIZES - 1].len();
        assert_eq!(with_holes, by_chunk.len() - FREE_MOST / length);
        // What is memory is taken before what is not.
        let kept: Vec<_> = (0..FREE_MOST / length).map(|_| own.take(length)).collect();
        assert!(kept.iter().all(|&piece| is_all(piece, length, 7)));
        let hole = own.take(length);
        assert!(is_all(hole, length, 0));
        assert_eq!(own.0.with_holes[SIZES - 1].len(), with_holes - 1);
        // A chunk with a hole goes as a whole when the rest of it comes back.
        let holed = *own.0.with_holes[SIZES - 1].first().expect("there are some");
        let rest = pieces.iter().find(|piece| {
            let is_there = piece.addr().get() / CHUNK == holed / CHUNK;
            is_there && !by_chunk.values().any(|given| given == *piece)
        });
        let cut = own.0.cut.len();
        own.give_back(*rest.expect("one of two is still ours"));
        assert_eq!((own.0.cut.len(), own.0.empty.len()), (cut - 1, 0));
    }

    #[test]
    fn what_is_retained_stays_memory_and_goes_when_it_is_no_more() {
        let mut own = Own::new();
        let length = 512 << 10;
        let retained = 2 * FREE_MOST + CHUNK;
        own.0.retain(0, retained);
        let pieces: Vec<_> = (0..4 * FREE_MOST / length).map(|_| own.take(length)).collect();
        pieces.iter().for_each(|&piece| write(piece, length, 7));
        // The first piece of each chunk stays where it is, so that no chunk goes as a whole.
        let (stay, go): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| piece.addr().get().is_multiple_of(CHUNK));
        go.into_iter().for_each(|piece| own.give_back(piece));
        assert_eq!(own.0.free_bytes, 3 * FREE_MOST);
        // Whole chunks go first, and of others what is free.
        own.give_back(stay[0]);
        assert_eq!(own.0.empty.len(), 1);
        own.0.retain(retained, FREE_MOST / 2);
        own.check();
        assert_eq!(own.0.empty.len(), 0);
        let rest = CHUNK - length;
        let most = FREE_MOST / 2 + FREE_MOST;
        assert_eq!(own.0.free_bytes, most / rest * rest);
        assert!(stay[1..].iter().all(|&piece| is_all(piece, length, 7)), "it is in use");
        own.0.retain(FREE_MOST / 2, 0);
        own.check();
    }

    #[test]
    fn what_one_retains_ends_with_it() {
        let retained = || chunks().retained;
        let (one, other) = (Retention::default(), Retention::default());
        one.set(5);
        other.set(3);
        one.set(4);
        assert_eq!((one.bytes(), retained()), (4, 7));
        drop(one);
        assert_eq!(retained(), 3);
        drop(other);
        assert_eq!(retained(), 0);
    }

    #[test]
    #[should_panic(expected = "invariant 1")]
    fn a_piece_given_back_twice_is_noticed() {
        let mut own = Own::new();
        let (piece, _other) = (own.take(LEAST), own.take(LEAST));
        own.give_back(piece);
        own.give_back(piece);
    }

    #[test]
    fn threads_give_back_what_others_took() {
        let taken: Vec<_> =
            (0..64).map(|_| take(LEAST).expect("memory").expose_provenance()).collect();
        let ends = taken.chunks(16).map(|some| {
            let some = some.to_vec();
            std::thread::spawn(move || {
                for piece in some {
                    let piece = NonNull::new(ptr::with_exposed_provenance_mut(piece.get()));
                    // SAFETY: taken above for this length, and given back here alone.
                    unsafe { give_back(piece.expect("an address"), LEAST) };
                }
            })
        });
        ends.for_each(|thread| thread.join().expect("nothing panics"));
        chunks().cut.values().for_each(|cut| assert_ne!(cut.free | cut.holes, cut.all()));
    }
}
