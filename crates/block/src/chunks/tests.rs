use super::*;

/// Chunks of one test alone, dropped at its end.
struct Own(Chunks);

impl Own {
    fn new() -> Self {
        Self(Chunks::new())
    }

    fn take(&mut self, length: usize) -> NonNull<u8> {
        let piece = self.0.take(order_of(length).expect("a size")).expect("memory");
        assert!(piece.addr().get().is_multiple_of(length));
        self.check();
        piece
    }

    fn give_back(&mut self, piece: NonNull<u8>, length: usize) {
        self.0.give_back(piece, order_of(length).expect("a size"));
        self.check();
    }

    /// Number of chunks with memory, and of those without a taken piece.
    fn counts(&self) -> (usize, usize) {
        let chunks = &self.0.chunks;
        (chunks.len(), chunks.values().filter(|chunk| chunk.free == Units::ALL).count())
    }

    fn with_holes(&self) -> usize {
        self.0.chunks.values().filter(|chunk| !chunk.holes.is_empty()).count()
    }

    /// Recomputes and compares the running counts.
    fn check(&self) {
        let all = &self.0;
        let mut free_bytes = 0;
        let mut with_free = [const { BTreeSet::new() }; ORDERS];
        for (&start, &Chunk { free, holes }) in &all.chunks {
            assert!((free & holes).is_empty(), "invariant 1");
            assert!(free | holes != Units::ALL || holes.is_empty(), "invariant 4");
            if let Some(order) = free.largest() {
                with_free[order].insert(start);
            }
            free_bytes += free.count() * UNIT;
        }
        assert_eq!(with_free, all.with_free);
        assert_eq!(free_bytes, all.free_bytes);
        assert!(free_bytes <= all.free_most() + CHUNK, "invariant 3");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.0.chunks.keys().for_each(|&start| release(start, CHUNK));
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
    assert_eq!((UNIT, order_of(MOST)), (32 << 10, Some(5)));
    let sizes = [16 << 10, 32 << 10, 48 << 10, 64 << 10, 1 << 20, 2 << 20];
    assert_eq!(sizes.map(order_of), [None, Some(0), None, Some(1), Some(5), None]);
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
    assert_eq!((own.counts(), own.0.free_bytes), ((2, 0), 0));
    let mut given = [pieces[6], pieces[1]];
    given.iter().for_each(|&piece| own.give_back(piece, length));
    given.sort();
    assert_eq!([own.take(length), own.take(length)], given);
    assert_eq!(own.counts(), (2, 0));
}

#[test]
fn a_chunk_that_nobody_uses_is_for_pieces_of_any_size() {
    let mut own = Own::new();
    let pieces: Vec<_> = (0..3).map(|_| own.take(1 << 20)).collect();
    pieces.into_iter().for_each(|piece| own.give_back(piece, 1 << 20));
    assert_eq!(own.counts(), (2, 2));
    own.take(UNIT);
    assert_eq!(own.counts(), (2, 1));
    assert_eq!(own.0.free_bytes, 2 * CHUNK - UNIT);
}

#[test]
fn neighbours_that_come_back_are_a_larger_piece() {
    let mut own = Own::new();
    let small: Vec<_> = (0..64).map(|_| own.take(UNIT)).collect();
    own.take(1 << 20); // another chunk, half of which is free
    small[16..32].iter().for_each(|&piece| own.give_back(piece, UNIT));
    assert_eq!(own.take(512 << 10), small[16], "it is the smallest that suffices");
    let half = own.take(1 << 20);
    assert_eq!(own.counts(), (2, 0));
    own.give_back(half, 1 << 20);
    own.give_back(small[5], UNIT);
    assert_eq!(own.take(UNIT), small[5], "and what is large stays whole");
}

#[test]
fn everybody_has_what_he_took_and_nobody_else() {
    let mut own = Own::new();
    let mut taken: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
    let mut chance: u64 = 7;
    for step in 0..4_000 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (chance >> 33) as usize;
        if step % 500 == 0 {
            let before = own.0.retained;
            own.0.retain(before, number % (3 * FREE_MOST));
        }
        // Sometimes more, sometimes fewer, so that both limits are met.
        let most = if step / 1_000 % 2 == 0 { 150 } else { 30 };
        if taken.len() < most && !number.is_multiple_of(3) {
            let length = UNIT << (number / 3 % 6);
            let (piece, byte) = (own.take(length), number as u8);
            write(piece, length, byte);
            taken.push((piece, length, byte));
        } else if !taken.is_empty() {
            let (piece, length, byte) = taken.swap_remove(number % taken.len());
            assert!(is_all(piece, length, byte));
            own.give_back(piece, length);
        }
    }
    assert!(own.with_holes() > 0, "or this was about less than it says");
    taken.into_iter().for_each(|(piece, length, byte)| {
        assert!(is_all(piece, length, byte));
        own.give_back(piece, length);
    });
    assert_eq!(own.with_holes(), 0);
}

#[test]
fn what_nobody_has_is_bounded_and_holes_go_with_the_rest_of_their_chunk() {
    let mut own = Own::new();
    let length = 1 << 20;
    let pieces: Vec<_> = (0..2 * (FREE_MOST / length) + 8).map(|_| own.take(length)).collect();
    pieces.iter().for_each(|&piece| write(piece, length, 7));
    // One of each chunk: nothing of it can go as a whole.
    let mut by_chunk: BTreeMap<usize, NonNull<u8>> = BTreeMap::new();
    by_chunk.extend(pieces.iter().map(|&piece| (piece.addr().get() / CHUNK, piece)));
    by_chunk.values().for_each(|&piece| own.give_back(piece, length));
    assert_eq!(own.0.free_bytes, FREE_MOST);
    let with_holes = own.with_holes();
    assert_eq!(with_holes, by_chunk.len() - FREE_MOST / length);
    // Free units with memory are taken before those without.
    let kept: Vec<_> = (0..FREE_MOST / length).map(|_| own.take(length)).collect();
    assert!(kept.iter().all(|&piece| is_all(piece, length, 7)));
    let new = own.take(length);
    assert!(is_all(new, length, 0), "and a hole is not filled again");
    assert_eq!(own.with_holes(), with_holes);
    // A chunk with a hole goes as a whole when the rest of it comes back.
    let holed = own.0.chunks.iter().find(|(_, chunk)| !chunk.holes.is_empty());
    let (&holed, _) = holed.expect("there are some");
    let rest = pieces.iter().find(|piece| {
        let is_there = piece.addr().get() / CHUNK == holed / CHUNK;
        is_there && !by_chunk.values().any(|given| given == *piece)
    });
    let (count, _) = own.counts();
    own.give_back(*rest.expect("one of two is still ours"), length);
    assert_eq!(own.counts(), (count - 1, 0));
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
    go.into_iter().for_each(|piece| own.give_back(piece, length));
    assert_eq!(own.0.free_bytes, 3 * FREE_MOST);
    // Free pieces of other chunks go first, and whole chunks last.
    own.give_back(stay[0], length);
    assert_eq!(own.counts().1, 1);
    own.0.retain(retained, FREE_MOST / 2);
    own.check();
    assert_eq!(own.counts().1, 1);
    let rest = CHUNK - length;
    let most = FREE_MOST / 2 + FREE_MOST - CHUNK;
    assert_eq!(own.0.free_bytes, CHUNK + most / rest * rest);
    assert!(stay[1..].iter().all(|&piece| is_all(piece, length, 7)), "it is in use");
    own.0.retain(FREE_MOST / 2, 0);
    own.check();
}

#[test]
fn small_pieces_go_before_large_ones() {
    let mut own = Own::new();
    let small: Vec<_> = (0..2 * FREE_MOST / UNIT).map(|_| own.take(UNIT)).collect();
    let large: Vec<_> = (0..4).map(|_| own.take(1 << 20)).collect();
    small.iter().step_by(2).for_each(|&piece| own.give_back(piece, UNIT));
    assert_eq!((own.0.free_bytes, own.with_holes()), (FREE_MOST, 0));
    own.give_back(large[0], 1 << 20);
    assert_eq!(own.with_holes(), 1, "32 small pieces of a chunk");
    assert_eq!(own.take(1 << 20), large[0]);
    large.iter().for_each(|&piece| own.give_back(piece, 1 << 20));
    assert_eq!((own.with_holes(), own.counts().1), (4, 2));
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
    let (piece, _other) = (own.take(UNIT), own.take(UNIT));
    own.give_back(piece, UNIT);
    own.give_back(piece, UNIT);
}

#[test]
fn threads_give_back_what_others_took() {
    let taken: Vec<_> = (0..64).map(|_| take(UNIT).expect("memory").expose_provenance()).collect();
    let ends = taken.chunks(16).map(|some| {
        let some = some.to_vec();
        std::thread::spawn(move || {
            for piece in some {
                let piece = NonNull::new(ptr::with_exposed_provenance_mut(piece.get()));
                // SAFETY: taken above for this length, and given back here alone.
                unsafe { give_back(piece.expect("an address"), UNIT) };
            }
        })
    });
    ends.for_each(|thread| thread.join().expect("nothing panics"));
    let chunks = chunks();
    let nobodys = chunks.chunks.values().map(|chunk| chunk.free).filter(|free| !free.is_empty());
    assert!(nobodys.map(Units::count).sum::<usize>() * UNIT == chunks.free_bytes);
}
