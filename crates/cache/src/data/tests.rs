use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const BLOCK: usize = 32 << 10;
const BUDGET: usize = 64 * (BLOCK + 1024);

fn cache() -> Rc<DataCache> {
    Rc::new(DataCache::new(BLOCK as u64, BUDGET))
}

fn range(block: usize, count: usize) -> Range<u64> {
    (block * BLOCK) as u64..((block + count) * BLOCK) as u64
}

fn bytes(value: u8, length: usize) -> Bytes {
    vec![value; length].into()
}

/// The same data, in the pieces that a device returns.
fn pieces(value: u8, length: usize) -> Vec<Bytes> {
    in_pieces(&bytes(value, length))
}

fn in_pieces(data: &Bytes) -> Vec<Bytes> {
    data.chunks(block::PART).map(|piece| data.slice_ref(piece)).collect()
}

/// Reads a block in calls of `call` bytes; returns whether it was cached.
fn read(cache: &Rc<DataCache>, block: usize, call: usize) -> bool {
    let whole = range(block, 1);
    let mut was_here = true;
    for start in whole.clone().step_by(call) {
        if let Found::Nothing(_) = cache.find(start..start + call as u64) {
            was_here = false;
            cache.begin(whole.clone()).keep(&pieces(block as u8, BLOCK), call, false);
        }
    }
    was_here
}

fn read_all(cache: &Rc<DataCache>, blocks: Range<usize>, call: usize) {
    for block in blocks {
        read(cache, block, call);
    }
}

#[test]
fn a_scan_leaves_what_is_used_again_and_again() {
    for call in [BLOCK, BLOCK / 8] {
        let cache = cache();
        for _ in 0..3 {
            read_all(&cache, 0..16, call);
        }
        read_all(&cache, 100..1100, call);
        let left = (0..16).filter(|&block| read(&cache, block, call)).count();
        assert_eq!(left, 16, "calls of {call} bytes");
        assert!(cache.bytes() <= BUDGET);
    }
}

#[test]
fn what_comes_again_soon_after_it_has_left_stays_longer() {
    let cache = cache();
    read(&cache, 0, BLOCK);
    read_all(&cache, 1..66, BLOCK);
    assert!(!read(&cache, 0, BLOCK), "it has left");
    read_all(&cache, 100..400, BLOCK);
    assert!(read(&cache, 0, BLOCK));
}

#[test]
fn data_yields_to_others_but_for_its_least_part() {
    let cache = cache();
    read_all(&cache, 0..60, BLOCK);
    assert!(cache.bytes() > BUDGET / 2);
    cache.leave(BUDGET / 2);
    assert!(cache.bytes() <= BUDGET / 2);
    cache.leave(usize::MAX);
    let least = cache.bytes();
    assert!((1..=BUDGET / LEAST_PART).contains(&least), "{least}");
    cache.leave(0);
    read_all(&cache, 0..60, BLOCK);
    assert!(cache.bytes() > BUDGET / 2, "and takes it back");
}

#[test]
fn what_is_read_ahead_is_bounded_until_it_is_used() {
    let cache = cache();
    let most = BUDGET / AHEAD_PART / BLOCK;
    let ahead = |block| cache.begin(range(block, 1)).keep(&pieces(1, BLOCK), 0, true);
    (0..most + 1).for_each(ahead);
    assert!(!cache.has_room_ahead());
    cache.find(range(0, 1));
    cache.find(range(1, 1));
    assert!(cache.has_room_ahead());
    cache.spoil(&range(0, 100));
    assert_eq!((cache.bytes(), cache.state.borrow().ahead), (0, 0));
}

#[test]
fn what_is_on_its_way_takes_the_place_of_what_is_kept() {
    let cache = cache();
    read_all(&cache, 0..64, BLOCK);
    let all = cache.bytes();
    let loading = cache.begin(range(100, 16));
    assert!((1..=BUDGET - 16 * BLOCK).contains(&cache.bytes()) && cache.bytes() < all);
    let more = cache.begin(range(200, 100));
    assert_eq!(cache.bytes(), 0, "there is nothing more to yield");
    drop(more);
    loading.keep(&pieces(1, 16 * BLOCK), 0, false);
    assert_eq!(cache.bytes() / BLOCK, 16);
    assert_eq!(cache.retention.bytes(), BUDGET - cache.bytes());
}

#[test]
fn a_read_that_was_overtaken_by_a_write_is_not_kept() {
    let cache = cache();
    let loading = cache.begin(range(0, 4));
    assert!(cache.is_loading(&range(3, 1)) && !cache.is_loading(&range(4, 1)));
    cache.spoil(&range(3, 1));
    loading.keep(&pieces(1, 4 * BLOCK), 0, false);
    assert_eq!(cache.find(range(0, 4)), Found::Nothing(range(0, 4).end));
    assert!(!cache.is_loading(&range(0, 4)), "and nobody waits for it");
}

/// Bytes that show whether a reader has them.
struct Shared(Arc<block::Buffer>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A piece of memory as long as a block.
fn piece(byte: u8) -> Arc<block::Buffer> {
    Arc::new(block::Buffer::copied(&[byte; BLOCK]))
}

#[test]
fn what_is_left_of_a_piece_does_not_keep_all_of_it() {
    let small = BLOCK / 8;
    let cache = Rc::new(DataCache::new(small as u64, BUDGET));
    let piece = piece(7);
    let third = (BLOCK + 2 * small) as u64..(BLOCK + 3 * small) as u64;
    for is_written in [false, true] {
        cache.spoil(&range(1, 1));
        let data = Bytes::from_owner(Shared(piece.clone()));
        if is_written {
            let blocks = data.chunks(small).map(|block| data.slice_ref(block));
            cache.keep_written_blocks(range(1, 1).start, &blocks.collect::<Vec<_>>(), true);
            drop(data);
        } else {
            cache.begin(range(1, 1)).keep(&[data], 0, false);
        }
        assert_eq!(Arc::strong_count(&piece), 2);
        cache.spoil(&third);
        assert_eq!(Arc::strong_count(&piece), 1, "the others have copies");
        let end = range(1, 1).end;
        assert_eq!(cache.find(third.end..end), Found::Here(bytes(7, small)));
        assert_eq!(cache.find(third.clone()), Found::Nothing(third.end));
    }
}

#[test]
fn a_piece_stays_as_it_is_when_one_beside_it_is_parted() {
    let small = BLOCK / 8;
    let cache = Rc::new(DataCache::new(small as u64, BUDGET));
    let all: Vec<_> = (1..4).map(piece).collect();
    for (number, piece) in all.iter().enumerate() {
        let data = Bytes::from_owner(Shared(piece.clone()));
        cache.begin(range(number, 1)).keep(&[data], 0, false);
    }
    cache.spoil(&(BLOCK as u64..(BLOCK + small) as u64));
    let counts: Vec<usize> = all.iter().map(Arc::strong_count).collect();
    assert_eq!(counts, [2, 1, 2]);
    cache.spoil(&range(1, 1));
    assert_eq!(Arc::strong_count(&all[2]), 2, "those in the middle had memory of their own");
}

/// A step of a task, on a disk of sixteen blocks of eight fragments.
#[derive(Clone, Debug)]
enum Step {
    /// Reads fragments.
    Find { first: u64, count: u64 },
    /// Begins to read an uncached range.
    Begin { first: u64, count: u64, is_ahead: bool },
    /// Ends the oldest read under way.
    End,
    /// Writes fragments, and caches them.
    Write { first: u64, count: u64 },
    /// Others take this much of the budget.
    Leave { bytes: usize },
}

const FRAGMENT: u64 = BLOCK as u64 / 8;
const FRAGMENTS: u64 = 128;

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..FRAGMENTS - 40, 1..40_u64);
    prop_oneof![
        4 => place().prop_map(|(first, count)| Step::Find { first, count }),
        4 => (place(), any::<bool>())
            .prop_map(|((first, count), is_ahead)| Step::Begin { first, count, is_ahead }),
        4 => Just(Step::End),
        2 => place().prop_map(|(first, count)| Step::Write { first, count }),
        1 => (0..BUDGET).prop_map(|bytes| Step::Leave { bytes }),
    ]
}

/// A disk, as the value of each fragment, and reads in flight with the values that they saw.
struct World {
    cache: Rc<DataCache>,
    disk: Vec<u8>,
    reads: std::collections::VecDeque<(Loading, Bytes, bool)>,
    writes: u8,
    /// The most bytes that were cached or in flight.
    had: usize,
}

impl World {
    fn note_most(&mut self) {
        let state = self.cache.state.borrow();
        self.had = self.had.max(state.queues.bytes() + state.loading);
    }

    fn content(&self, first: u64, count: u64) -> Bytes {
        let fragments = &self.disk[first as usize..(first + count) as usize];
        fragments.iter().flat_map(|&value| [value; FRAGMENT as usize]).collect()
    }

    fn take(&mut self, step: &Step) {
        let place = |first: u64, count: u64| first * FRAGMENT..(first + count) * FRAGMENT;
        match *step {
            Step::Find { first, count } => {
                if let Found::Here(data) = self.cache.find(place(first, count)) {
                    assert_eq!(data, self.content(first, count).slice(..data.len()));
                }
            }
            Step::Begin { first, count, is_ahead } => {
                let range = place(first, count);
                if !self.cache.has_any(&range) {
                    let read = (self.cache.begin(range), self.content(first, count), is_ahead);
                    self.reads.push_back(read);
                }
            }
            Step::End => {
                if let Some((loading, data, is_ahead)) = self.reads.pop_front() {
                    loading.keep(&in_pieces(&data), 0, is_ahead);
                }
            }
            Step::Write { first, count } => {
                self.cache.spoil(&place(first, count));
                self.writes += 1;
                self.disk[first as usize..(first + count) as usize].fill(self.writes);
                self.cache.spoil(&place(first, count));
                let mut at = first * FRAGMENT;
                for piece in in_pieces(&self.content(first, count)) {
                    if self.writes.is_multiple_of(2) {
                        self.cache.keep_written(at, &piece);
                    } else {
                        let parts = piece.chunks(FRAGMENT as usize);
                        let parts: Vec<Bytes> = parts.map(|part| piece.slice_ref(part)).collect();
                        self.cache.keep_written_blocks(at, &parts, true);
                    }
                    at += piece.len() as u64;
                    self.note_most();
                }
            }
            Step::Leave { bytes } => self.cache.leave(bytes),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_kept_is_what_the_disk_holds(steps in prop::collection::vec(step(), 1..200)) {
        let disk = vec![0; FRAGMENTS as usize];
        let reads = Default::default();
        let mut world = World { cache: cache(), disk, reads, writes: 0, had: 0 };
        for step in &steps {
            world.take(step);
            world.note_most();
            let state = world.cache.state.borrow();
            let kept: usize = state.stretches.values().map(|stretch| cost(&stretch.data)).sum();
            prop_assert_eq!(kept, state.queues.bytes());
            let loading: usize = state.loads.values().map(Load::length).sum();
            prop_assert_eq!(loading, state.loading);
            prop_assert!(kept == 0 || kept + loading <= world.cache.most(), "invariant 5");
            let rest = world.cache.room.get().saturating_sub(kept + loading);
            prop_assert_eq!(world.cache.retention.bytes(), rest.min(world.had));
            let ahead = state.stretches.values().filter(|stretch| stretch.is_ahead);
            prop_assert_eq!(ahead.map(|stretch| stretch.data.len()).sum::<usize>(), state.ahead);
        }
    }
}

#[test]
fn a_part_that_a_reply_keeps_pins_no_more_than_twice_its_bytes() {
    const WHOLE: usize = 32 << 10;
    let stretch = Bytes::from(vec![7; WHOLE]);
    for (length, is_shared) in [
        (COPIED_BY_READER, true), // the reader copies it
        (COPIED_BY_READER + 1, false),
        (WHOLE / 2, false),
        (WHOLE / 2 + 1, true),
        (WHOLE, true),
    ] {
        let part = part_to_send(&stretch, 0..length);
        assert_eq!(part.as_ptr() == stretch.as_ptr(), is_shared, "{length}");
        assert_eq!(part, stretch[..length]);
    }
}
