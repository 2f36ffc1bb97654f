//! Cached file data, as it is on the disk: data that was read or written and may be read again.
//!
//! The cache holds extents of the disk, each a block of a file, or its tail. A reader takes cached
//! data by reference and reads the rest; a task that reads ahead leaves its data here. Below it is
//! the page cache of the host system, for small reads and writes alone: large ones go past it
//! (`block::file::DiskFile::large_past_cache`).
//!
//! A scan must not wash out data that is used again and again. So there are two queues, as in
//! S3-FIFO (Yang et al., SOSP 2023): new data goes through a short one, and only data that is used
//! again while it is there, or comes back soon after it has left, reaches the long one. A file that
//! is read in small calls, each going on where the last one ended, is used once.
//!
//! Invariants:
//! 1. Cached data equals a read of the device, with delayed data over it. A write drops the data
//!    that it overlaps when it begins and when it ends, and spoils reads in flight: their data is
//!    not kept.
//! 2. Stretches do not overlap, and begin and end with a fragment.
//! 3. A stretch owns its memory, or it is a part of a piece in the short queue: the piece goes with
//!    its last part, and the queue is in the order of arrival. A caller that removes a part out of
//!    turn leaves none behind that keeps memory beside its own.
//! 4. No borrow is held while a task waits.
//! 5. Cached data and reads in flight share the budget, as far as cached data can yield. So a read
//!    that begins takes the memory of data evicted for it; no memory beyond the budget is taken,
//!    and none is given back when the read ends.
//!
//! Not asserted: 4, which clippy sees to (`await_holding_refcell_ref`).

mod queues;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use block::Retention;
use bytes::Bytes;
use runtime::sync::{Signal, SignalWait};

use queues::{Queue, Queues};

/// One part in this many of the budget is for data, however much else there is.
const LEAST_PART: usize = 8;
/// Data read ahead and not yet used may take one part in this many of the cache.
const AHEAD_PART: usize = 8;
/// One part in this many of the memory for data, up to [`SLACK_MOST`] bytes, is for memory that
/// evicted data left: pieces that wait for their neighbours, to be large enough for new data.
const SLACK_PART: usize = 8;
const SLACK_MOST: usize = 64 << 20;

/// See the module's prose. All positions are bytes of the disk.
pub struct DataCache {
    state: RefCell<State>,
    loaded: Signal,
    block_size: u64,
    /// For data and everything else together.
    budget: usize,
    /// The part of it that others leave.
    room: Cell<usize>,
    /// The most bytes that were cached or in flight.
    had: Cell<usize>,
    /// Memory that data could take and does not, up to the most that it ever had: it is retained
    /// for new data.
    retention: Retention,
}

#[derive(Default)]
struct State {
    stretches: BTreeMap<u64, Stretch>,
    queues: Queues,
    /// Reads in flight, by first byte and number.
    loads: BTreeMap<LoadKey, Load>,
    next_load: u64,
    /// Bytes of the longest read that there ever was.
    longest_load: u64,
    /// Bytes of reads in flight.
    loading: usize,
    /// Bytes that were read ahead and not used yet.
    ahead: usize,
}

/// A cached extent, keyed by its first byte.
struct Stretch {
    data: Bytes,
    /// Whether it shares its memory with others (invariant 3).
    is_part: bool,
    queue: Queue,
    /// Its turn in the queue.
    turn: u64,
    /// Times it was used again, up to [`USES_MOST`].
    uses: u8,
    /// End of the last use, from its start.
    used_to: usize,
    is_ahead: bool,
}

/// Bytes of the longest piece that has more than one stretch: a part of a buffer.
const PIECE_MOST: u64 = block::PART as u64;

/// Bytes of a part of a stretch that its reader copies anyway. A longer part is kept until a reply
/// is sent, so it must not pin much memory beside its own.
const COPIED_BY_READER: usize = 8 << 10;

/// More uses than these make no difference.
const USES_MOST: u8 = 3;

/// First byte and number of a read.
type LoadKey = (u64, u64);

/// A read in flight.
struct Load {
    range: Range<u64>,
    is_spoiled: bool,
}

/// The result of a lookup of a range, from its start.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// These bytes are cached.
    Here(Bytes),
    /// Nothing is cached up to this byte.
    Nothing(u64),
}

impl DataCache {
    /// An empty cache; `budget` bytes are for it and for the other memory reported with
    /// [`DataCache::leave`]. With a budget of 0 it keeps nothing.
    pub fn new(block_size: u64, budget: usize) -> Self {
        Self {
            state: RefCell::default(),
            loaded: Signal::new(),
            block_size,
            budget,
            room: Cell::new(budget),
            had: Cell::new(0),
            retention: Retention::default(),
        }
    }

    /// Bytes for everything else when data takes its minimum.
    pub fn rest_of(budget: usize) -> usize {
        budget - budget / LEAST_PART
    }

    /// Bytes that are cached.
    pub fn bytes(&self) -> usize {
        self.state.borrow().queues.bytes()
    }

    /// Sets the bytes of the budget that others use.
    pub fn leave(&self, others: usize) {
        let room = self.budget.saturating_sub(others).max(self.budget / LEAST_PART);
        if room < self.room.replace(room) {
            self.yield_room();
        }
        self.retain_rest();
    }

    /// The most bytes that may be cached or in flight.
    fn most(&self) -> usize {
        let room = self.room.get();
        room - (room / SLACK_PART).min(SLACK_MOST)
    }

    /// Evicts data that exceeds the room (invariant 5).
    fn yield_room(&self) {
        let state = &mut *self.state.borrow_mut();
        state.shrink(self.most().saturating_sub(state.loading));
    }

    /// Retains memory that data may take and does not, up to the most that it ever had.
    fn retain_rest(&self) {
        let (kept, loading) = (self.bytes(), self.state.borrow().loading);
        let taken = kept + loading;
        debug_assert!(
            kept == 0 || taken <= self.most(),
            "invariant 5: what is kept yields to what is on its way"
        );
        self.had.set(self.had.get().max(taken));
        self.retention.set(self.room.get().saturating_sub(taken).min(self.had.get()));
    }

    /// Looks up `range`, which is not empty, from its start. Counts as a use.
    pub fn find(&self, range: Range<u64>) -> Found {
        let state = &mut *self.state.borrow_mut();
        let before = state.stretches.range_mut(..=range.start).next_back();
        if let Some((&start, stretch)) = before
            && start + stretch.data.len() as u64 > range.start
        {
            let from = (range.start - start) as usize;
            let to = stretch.data.len().min((range.end - start) as usize);
            state.ahead -= stretch.ahead();
            stretch.is_ahead = false;
            stretch.note_use(from, to);
            return Found::Here(part_to_send(&stretch.data, from..to));
        }
        let next = state.stretches.range(range.start..range.end).next();
        Found::Nothing(next.map_or(range.end, |(&start, _)| start))
    }

    /// Whether any of `range` is cached or being read.
    pub fn has_any(&self, range: &Range<u64>) -> bool {
        self.state.borrow().last_overlap(range).is_some() || self.is_loading(range)
    }

    /// Whether a part of `range` is being read, and worth waiting for.
    pub fn is_loading(&self, range: &Range<u64>) -> bool {
        let state = self.state.borrow();
        let mut near = state.loads.range(state.keys_near(range));
        self.budget > 0 && near.any(|(_, load)| overlap(&load.range, range))
    }

    /// Completes when a read ends or fails.
    pub fn wait(&self) -> SignalWait<'_> {
        self.loaded.wait()
    }

    /// Whether the cache has room for more read-ahead.
    pub fn has_room_ahead(&self) -> bool {
        self.budget > 0 && self.state.borrow().ahead <= self.most() / AHEAD_PART
    }

    /// Notes that `range` is about to be read: whole fragments, none of them cached.
    pub fn begin(self: &Rc<Self>, range: Range<u64>) -> Loading {
        let key = self.state.borrow_mut().begin(range);
        self.yield_room();
        self.retain_rest();
        Loading { cache: self.clone(), key }
    }

    /// Drops the cached data of `range`, which is about to change (invariant 1).
    pub fn spoil(&self, range: &Range<u64>) {
        self.state.borrow_mut().spoil(range);
        self.retain_rest();
    }

    /// Caches data that the device has just taken at `start`, whole fragments.
    pub fn keep_written(&self, start: u64, data: &Bytes) {
        self.keep_written_blocks(start, std::slice::from_ref(data), false);
    }

    /// As [`DataCache::keep_written`], for adjacent pieces. If they `are_parts` of one piece of
    /// memory, nobody keeps any other part of it, and they are at least half of it.
    pub fn keep_written_blocks(&self, start: u64, pieces: &[Bytes], are_parts: bool) {
        let range = start..start + block::length_of(pieces);
        assert!(!are_parts || range.end - range.start <= PIECE_MOST, "invariant 3");
        // A task that reads there meanwhile has the same data.
        if !self.is_loading(&range) {
            self.keep(start, pieces, (0, false), are_parts);
        }
    }

    /// Caches new data that comes in pieces, block by block; the first `used` bytes of it were used
    /// already.
    fn keep(
        &self,
        mut start: u64,
        pieces: &[Bytes],
        (mut used, is_ahead): (usize, bool),
        are_parts: bool,
    ) {
        let mut state = self.state.borrow_mut();
        for data in pieces {
            let mut from = 0;
            while from < data.len() {
                let at = start + from as u64;
                let room = (self.block_size - at % self.block_size) as usize;
                let to = data.len().min(from + room);
                let used_to = used.clamp(from, to) - from;
                // On a damaged disk files share blocks, and several readers may bring the same one.
                if state.last_overlap(&(at..start + to as u64)).is_none() {
                    let is_part = are_parts || to - from < data.len();
                    assert!(!is_part || data.len() as u64 <= PIECE_MOST, "invariant 3");
                    let new = Stretch::new(data.slice(from..to), is_part, used_to, is_ahead);
                    state.insert(at, new);
                }
                from = to;
            }
            start += data.len() as u64;
            used = used.saturating_sub(data.len());
        }
        drop(state);
        self.yield_room();
        self.retain_rest();
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A read in flight; dropped, it has ended, and waiting tasks check again.
pub struct Loading {
    cache: Rc<DataCache>,
    key: LoadKey,
}

impl Loading {
    /// Caches the data that was read, unless it was spoiled meanwhile. No reader has used more than
    /// the first `used` bytes of it.
    pub fn keep(self, data: &[Bytes], used: usize, is_ahead: bool) {
        let load = self.cache.state.borrow_mut().end(self.key);
        if let Some(load) = load.filter(|load| !load.is_spoiled) {
            self.cache.keep(load.range.start, data, (used, is_ahead), false);
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.cache.state.borrow_mut().end(self.key);
        self.cache.retain_rest();
        self.cache.loaded.notify();
    }
}

impl Stretch {
    /// A new stretch.
    fn new(data: Bytes, is_part: bool, used_to: usize, is_ahead: bool) -> Self {
        Self { data, is_part, queue: Queue::Short, turn: 0, uses: 0, used_to, is_ahead }
    }

    /// The stretch, for the long queue.
    fn into_long(mut self) -> Self {
        self.own();
        Self { queue: Queue::Long, ..self }
    }

    /// The number of the piece of memory that it is part of, if it is: such a piece lies within a
    /// part of a buffer, which begins at a multiple of its length.
    fn piece(&self) -> usize {
        self.data.as_ptr().addr() / block::PART
    }

    /// Gives it memory of its own (invariant 3).
    fn own(&mut self) {
        if std::mem::take(&mut self.is_part) {
            self.data = block::Buffer::copied(&self.data).freeze();
        }
    }

    /// Its bytes, if they were read ahead and not used yet.
    fn ahead(&self) -> usize {
        if self.is_ahead { self.data.len() } else { 0 }
    }

    fn note_use(&mut self, from: usize, to: usize) {
        // In the short queue, a read that goes on where the last use ended is the same use.
        let is_again = self.queue == Queue::Long || from < self.used_to;
        self.uses = (self.uses + u8::from(is_again)).min(USES_MOST);
        self.used_to = to;
    }
}

impl Load {
    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl State {
    /// Notes a read that begins; returns its key.
    fn begin(&mut self, range: Range<u64>) -> LoadKey {
        let (key, load) = ((range.start, self.next_load), Load { range, is_spoiled: false });
        self.next_load += 1;
        self.loading += load.length();
        self.longest_load = self.longest_load.max(load.length() as u64);
        self.loads.insert(key, load);
        key
    }

    /// The range of keys of all reads that may overlap `range`.
    fn keys_near(&self, range: &Range<u64>) -> Range<LoadKey> {
        (range.start.saturating_sub(self.longest_load), 0)..(range.end.max(range.start), 0)
    }

    /// Ends a read, if it was not ended before.
    fn end(&mut self, key: LoadKey) -> Option<Load> {
        let load = self.loads.remove(&key)?;
        self.loading -= load.length();
        Some(load)
    }

    /// The last stretch that overlaps `range`.
    fn last_overlap(&self, range: &Range<u64>) -> Option<u64> {
        let (&start, stretch) = self.stretches.range(..range.end).next_back()?;
        (start + stretch.data.len() as u64 > range.start).then_some(start)
    }

    fn spoil(&mut self, range: &Range<u64>) {
        let mut parted = BTreeSet::new();
        while let Some(start) = self.last_overlap(range) {
            let gone = self.remove(start);
            parted.extend(gone.is_part.then(|| gone.piece()));
        }
        // Other stretches may share these pieces (invariant 3), which are no longer than that.
        if !parted.is_empty() {
            let from = range.start.saturating_sub(PIECE_MOST);
            let near = self.stretches.range_mut(from..range.end.saturating_add(PIECE_MOST));
            let of_them = near.filter(|(_, stretch)| parted.contains(&stretch.piece()));
            of_them.for_each(|(_, stretch)| stretch.own());
        }
        for (_, load) in self.loads.range_mut(self.keys_near(range)) {
            load.is_spoiled |= overlap(&load.range, range);
        }
        debug_assert!(self.has_none(range), "invariant 1: nothing is kept of what a write changes");
    }

    /// Whether no stretch overlaps `range`.
    fn has_none(&self, range: &Range<u64>) -> bool {
        let before = self.stretches.range(..range.start).next_back();
        before.is_none_or(|(start, stretch)| start + stretch.data.len() as u64 <= range.start)
            && self.stretches.range(range.start..range.end.max(range.start)).next().is_none()
    }

    /// Adds new data to the queue that it belongs to.
    fn insert(&mut self, start: u64, new: Stretch) {
        let stretch = if self.queues.left_lately(start) { new.into_long() } else { new };
        self.put(start, stretch);
    }

    /// Adds a stretch at the end of its queue.
    fn put(&mut self, start: u64, mut stretch: Stretch) {
        stretch.turn = self.queues.push(stretch.queue, start, cost(&stretch.data));
        self.ahead += stretch.ahead();
        let old = self.stretches.insert(start, stretch);
        assert!(old.is_none(), "stretches do not overlap (invariant 2)");
    }

    fn remove(&mut self, start: u64) -> Stretch {
        let stretch = self.stretches.remove(&start).expect("whoever removes it has seen it");
        self.queues.take(stretch.queue, stretch.turn, cost(&stretch.data));
        self.ahead -= stretch.ahead();
        stretch
    }

    /// Evicts data until no more than `most` bytes are cached.
    fn shrink(&mut self, most: usize) {
        while self.queues.bytes() > most {
            let (queue, start) = self.queues.next(most).expect("there is something");
            let stretch = self.remove(start);
            let uses = match queue {
                Queue::Short => (stretch.uses > 0).then_some(0),
                Queue::Long => stretch.uses.checked_sub(1),
            };
            match uses {
                Some(uses) => self.put(start, Stretch { uses, ..stretch.into_long() }),
                None if queue == Queue::Short => self.queues.remember(start),
                None => {}
            }
        }
    }
}

/// Bytes of memory that cached data takes: a stretch is an entry of three trees.
fn cost(data: &Bytes) -> usize {
    block::memory_of(data.len()) + size_of::<Stretch>() + 128
}

/// A part of a stretch for a reader that may keep it for long.
fn part_to_send(stretch: &Bytes, part: Range<usize>) -> Bytes {
    if part.len() <= COPIED_BY_READER { stretch.slice(part) } else { block::part_of(stretch, part) }
}

#[cfg(test)]
mod tests;
