//! Which buffer holds which block, and which buffers may be used again.
//!
//! A write takes fresh buffers. Its entries become the *current* ones of their blocks when they are
//! written; the ones before are *stale*. A stale entry, and a clean one, become *void* by a mark in
//! the map. Recovery passes over void entries, and otherwise believes the latest entry of a block.
//!
//! Invariants:
//! 1. A block has one current entry at most: the latest that was written.
//! 2. A buffer is taken only when the void mark of its last entry is durable: else a torn overwrite
//!    of it could not be told from a rotten entry.
//! 3. A stale entry becomes void only when its successor is durable.
//! 4. The current entry of a block becomes void only when it is clean, durable, and the only one of
//!    its block that is not durably void: else an older one would be believed after a crash.
//! 5. Sequences only grow. All entries up to [`Directory::durable`] are durable or void.
//! 6. Pinned blocks leave so many buffers to the others that these can always go on.
//! 7. Of a block one entry at a time is on its way below: an earlier one must not come there last.
//!
//! Not asserted: 3 and 5, which are about the medium and which `tests/it` breaks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::format::LEAST_BUFFERS;
use crate::planted::{Bug, is_planted};

/// The number of a buffer.
pub(crate) type Buffer = u64;

/// Buffers that an NVRAM takes to pin so many blocks: a third more, for what is on its way.
pub(crate) fn buffers_for(pinned: u64) -> u64 {
    pinned + (pinned / 3).max(LEAST_BUFFERS)
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: u64,
    pub(crate) sequence: u64,
    pub(crate) mask: u8,
    pub(crate) lost: u8,
    pub(crate) data_sum: u32,
}

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// No entry: the buffer may be taken.
    Free,
    /// On its way to the NVRAM.
    Writing,
    /// Current, and not below.
    Dirty,
    /// Current, and on its way below.
    Destaging,
    /// Current, and durable below.
    Clean,
    /// Current, and durable below but for sectors that are lost: no older version of these may be
    /// read, so the entry stays.
    Lost,
    /// A later entry of the block is current, or the block is needed no more.
    Stale,
    /// The void mark is on its way.
    Voiding,
}

/// The end of an attempt to bring an entry below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is durable there.
    Below,
    /// There is no room for it.
    Refused,
    /// The device below, or the memory, has failed.
    Failed,
    /// It cannot be read.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: EntryState,
    entry: Option<Entry>,
    is_durable: bool,
    /// The buffer and sequence of the entry that made this one stale, if one did.
    successor: Option<(Buffer, u64)>,
    /// The sequence up to which entries of this buffer are void, as last written.
    void: u64,
    readers: u32,
}

/// Blocks that are not below.
#[derive(Default)]
struct Unsent {
    places: BTreeSet<u64>,
    /// Those of them for which the device below had no room at the last attempt.
    refused: BTreeSet<u64>,
}

impl Unsent {
    fn contains(&self, place: u64) -> bool {
        self.places.contains(&place)
    }

    fn remove(&mut self, place: u64) {
        self.places.remove(&place);
        self.refused.remove(&place);
    }

    /// Whether there is no room for any of them.
    fn are_refused(&self) -> bool {
        self.refused.len() == self.places.len()
    }
}

/// See the module's prose.
pub(crate) struct Directory {
    slots: Vec<Slot>,
    current: BTreeMap<u64, Buffer>,
    /// Entries of each block that are not durably void.
    held: BTreeMap<u64, u32>,
    free: VecDeque<Buffer>,
    /// Entries that became stale or clean, the oldest first, each with its sequence. One whose
    /// buffer has gone on since is passed over.
    stale: VecDeque<(Buffer, u64)>,
    clean: VecDeque<(Buffer, u64)>,
    /// Blocks whose current entry has something that is not below: the others, and pinned ones.
    dirty: Unsent,
    pinned: Unsent,
    /// Blocks that go below only when all do.
    pins: Range<u64>,
    /// Blocks of which an entry is on its way below, the current one or one before it.
    destaging: BTreeSet<u64>,
    next_sequence: u64,
    /// Sequences of entries that are neither durable nor durably void.
    open: BTreeSet<u64>,
    /// Entries that were written since the last flush of the NVRAM began.
    unflushed: BTreeMap<u64, Buffer>,
    /// Plain writes that callers have heard of.
    heard: u64,
    /// Blocks of which no caller has heard that they are durable: the first and the last of such
    /// writes.
    owed: BTreeMap<u64, [u64; 2]>,
    /// Torn entries that recovery has found, until the start has voided them.
    torn: Vec<Buffer>,
    /// One of them is unknown: until then nothing above this sequence counts as durable.
    hidden: Option<u64>,
}

/// The place of an entry that nobody knows.
pub(crate) const NOWHERE: u64 = u64::MAX;

impl Directory {
    /// An empty one.
    pub(crate) fn new(buffers: u64, next_sequence: u64) -> Self {
        let slot = Slot {
            state: EntryState::Free,
            entry: None,
            is_durable: false,
            successor: None,
            void: 0,
            readers: 0,
        };
        Self {
            slots: vec![slot; buffers as usize],
            current: BTreeMap::new(),
            held: BTreeMap::new(),
            free: (0..buffers).collect(),
            stale: VecDeque::new(),
            clean: VecDeque::new(),
            dirty: Unsent::default(),
            pinned: Unsent::default(),
            pins: 0..0,
            destaging: BTreeSet::new(),
            next_sequence,
            open: BTreeSet::new(),
            unflushed: BTreeMap::new(),
            heard: 0,
            owed: BTreeMap::new(),
            torn: Vec::new(),
            hidden: None,
        }
    }

    /// Takes over what recovery has found, and made durable: the void marks of all buffers, and
    /// the entries. The last of a block is current.
    pub(crate) fn recover(&mut self, void: &[u64], mut found: Vec<(Buffer, Entry)>) {
        self.slots.iter_mut().zip(void).for_each(|(slot, &void)| slot.void = void);
        found.sort_unstable_by_key(|(_, entry)| entry.sequence);
        let taken: BTreeSet<Buffer> = found.iter().map(|it| it.0).collect();
        self.free.retain(|buffer| !taken.contains(buffer));
        for (buffer, entry) in found {
            *self.held.entry(entry.place).or_default() += 1;
            self.slots[buffer as usize].state = EntryState::Writing;
            self.written(buffer, entry, true);
        }
    }

    /// Recovery could not read the entry of a buffer, which may be torn: nothing may rest on it.
    pub(crate) fn doubt(&mut self, buffer: Buffer) {
        let slot = &mut self.slots[buffer as usize];
        slot.is_durable = false;
        self.open.extend(slot.entry.map(|entry| entry.sequence));
    }

    /// Recovery has found a torn entry: its buffer is stale. If its block is unknown, nothing says
    /// more than that everything up to `durable` was durable before the entry is void.
    pub(crate) fn recover_torn(
        &mut self,
        (buffer, place, sequence): (Buffer, u64, u64),
        durable: u64,
    ) {
        self.free.retain(|it| *it != buffer);
        *self.held.entry(place).or_default() += 1;
        self.open.insert(sequence);
        let slot = &mut self.slots[buffer as usize];
        slot.entry = Some(Entry { place, sequence, mask: 0, lost: 0, data_sum: 0 });
        self.make_stale(buffer);
        self.torn.push(buffer);
        if place == NOWHERE && !is_planted(Bug::HastyMarks) {
            self.hidden = Some(durable);
        }
    }

    /// Torn entries become void: their marks are written now.
    pub(crate) fn begin_voiding_torn(&mut self) -> Vec<Buffer> {
        let torn = std::mem::take(&mut self.torn);
        torn.iter().for_each(|&buffer| self.void_now(buffer));
        torn
    }

    /// They are void.
    pub(crate) fn voided_torn(&mut self, torn: &[Buffer]) {
        self.voided(torn);
        self.hidden = None;
    }

    /// The sequence of the next entry.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// All entries up to this sequence are durable, or void.
    pub(crate) fn durable(&self) -> u64 {
        let open = self.open.first().map_or(self.next_sequence, |first| *first) - 1;
        self.hidden.map_or(open, |hidden| hidden.min(open))
    }

    pub(crate) fn buffers(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(crate) fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// Blocks that are not below.
    pub(crate) fn dirty(&self) -> u64 {
        let pinned = if is_planted(Bug::ForgottenPins) { 0 } else { self.pinned.places.len() };
        (self.dirty.places.len() + pinned) as u64
    }

    /// Those of them that are pinned.
    pub(crate) fn pinned(&self) -> u64 {
        self.pinned.places.len() as u64
    }

    /// Blocks that go below only when all do. Each of them may take a buffer for good.
    pub(crate) fn pin(&mut self, pins: Range<u64>) {
        let count = pins.end - pins.start;
        assert!(buffers_for(count) <= self.buffers(), "invariant 6: {count} blocks are pinned");
        self.pins = pins;
        let [mut all, before] = [&mut self.dirty, &mut self.pinned].map(std::mem::take);
        all.places.extend(before.places);
        for place in all.places {
            self.dirty_with(place).places.insert(place);
        }
    }

    /// Whether any of these blocks is pinned.
    pub(crate) fn pins(&self, places: &Range<u64>) -> bool {
        places.start < self.pins.end && self.pins.start < places.end
    }

    /// Whether many of the buffers that pinned blocks leave are dirty.
    pub(crate) fn is_high(&self) -> bool {
        let others = self.buffers() - (self.pins.end - self.pins.start);
        self.dirty.places.len() as u64 > others / 4 * 3
    }

    fn dirty_with(&mut self, place: u64) -> &mut Unsent {
        if self.pins.contains(&place) { &mut self.pinned } else { &mut self.dirty }
    }

    /// Blocks of which sectors are lost, and which.
    pub(crate) fn lost(&self) -> Vec<(u64, u8)> {
        let entries = self.current.values().filter_map(|&buffer| self.entry(buffer));
        entries.filter(|entry| entry.lost != 0).map(|entry| (entry.place, entry.lost)).collect()
    }

    /// The current entry of a block, and its buffer.
    pub(crate) fn current(&self, place: u64) -> Option<(Buffer, Entry, EntryState)> {
        let &buffer = self.current.get(&place)?;
        let slot = &self.slots[buffer as usize];
        Some((buffer, slot.entry?, slot.state))
    }

    fn entry(&self, buffer: Buffer) -> Option<Entry> {
        self.slots[buffer as usize].entry
    }

    /// Whether the medium has an entry of one of these blocks that is not durably void.
    pub(crate) fn holds(&self, places: Range<u64>) -> bool {
        self.held.range(places).next().is_some()
    }

    /// Whether a block has something that is not below.
    pub(crate) fn is_dirty(&self, place: u64) -> bool {
        self.dirty.contains(place) || self.pinned.contains(place)
    }

    /// Whether the medium has no entry of a block that is not durably void, but for one that tells
    /// of lost sectors.
    pub(crate) fn is_free_of(&self, place: u64) -> bool {
        let is_lost = |(.., state): (Buffer, Entry, EntryState)| state == EntryState::Lost;
        !self.held.contains_key(&place) || self.current(place).is_some_and(is_lost)
    }

    /// A caller hears that a plain write of these blocks is completed: a later flush owes it.
    pub(crate) fn owe(&mut self, places: Range<u64>) {
        self.heard += 1;
        for place in places {
            if !self.is_dirty(place) {
                continue;
            }
            self.owed.entry(place).or_insert([self.heard; 2])[1] = self.heard;
        }
    }

    /// The number of plain writes that a flush owes which is asked for now.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// Blocks that such a flush owes, and which are not below.
    pub(crate) fn owed(&self, heard: u64) -> BTreeSet<u64> {
        let owed = self.owed.iter().filter(|(_, [first, _])| *first <= heard);
        owed.map(|(&place, _)| place).collect()
    }

    /// A caller hears that such a flush is completed.
    pub(crate) fn pay(&mut self, heard: u64) {
        self.owed.retain(|_, [first, last]| {
            *first = (*first).max(heard + 1);
            *last > heard
        });
    }

    /// Takes free buffers for a write. None if there are too few.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<Buffer>> {
        (self.free.len() >= count).then(|| self.free.drain(..count).collect())
    }

    /// Buffers that were taken are not used.
    pub(crate) fn give_back(&mut self, buffers: Vec<Buffer>) {
        buffers.into_iter().for_each(|buffer| self.free.push_front(buffer));
    }

    /// An entry goes to a buffer that was taken. Gives its sequence.
    pub(crate) fn begin(&mut self, buffer: Buffer, place: u64) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let slot = &mut self.slots[buffer as usize];
        assert!(
            slot.state == EntryState::Free && slot.readers == 0,
            "invariant 2: buffer {buffer} is {:?}",
            slot.state
        );
        slot.state = EntryState::Writing;
        slot.is_durable = false;
        slot.successor = None;
        slot.entry = Some(Entry { place, sequence, mask: 0, lost: 0, data_sum: 0 });
        self.open.insert(sequence);
        *self.held.entry(place).or_default() += 1;
        sequence
    }

    /// An entry is on the NVRAM, and the current one of its block from now on.
    pub(crate) fn written(&mut self, buffer: Buffer, entry: Entry, is_durable: bool) {
        let slot = &mut self.slots[buffer as usize];
        assert_eq!(slot.state, EntryState::Writing, "invariant 1: buffer {buffer}");
        (slot.state, slot.entry, slot.is_durable) = (EntryState::Dirty, Some(entry), is_durable);
        if is_durable {
            self.open.remove(&entry.sequence);
        } else {
            self.unflushed.insert(entry.sequence, buffer);
        }
        if let Some(before) = self.current.insert(entry.place, buffer) {
            let older = &mut self.slots[before as usize];
            assert!(older.entry.is_some_and(|it| it.sequence < entry.sequence), "invariant 1");
            older.successor = Some((buffer, entry.sequence));
            self.make_stale(before);
        }
        if entry.mask == 0 {
            self.dirty_with(entry.place).remove(entry.place);
            self.slots[buffer as usize].state = EntryState::Lost;
        } else {
            self.dirty_with(entry.place).places.insert(entry.place);
        }
    }

    /// A write to the NVRAM has failed: the buffer may have the entry, or a part of it.
    pub(crate) fn failed(&mut self, buffer: Buffer) {
        self.make_stale(buffer);
    }

    fn make_stale(&mut self, buffer: Buffer) {
        let slot = &mut self.slots[buffer as usize];
        slot.state = EntryState::Stale;
        let sequence = slot.entry.map_or(0, |entry| entry.sequence);
        self.stale.push_back((buffer, sequence));
    }

    /// Entries that a flush of the NVRAM that begins now makes durable.
    pub(crate) fn begin_flush(&mut self) -> BTreeMap<u64, Buffer> {
        std::mem::take(&mut self.unflushed)
    }

    /// That flush has come to its end; or it has failed, and another one has to cover them.
    pub(crate) fn end_flush(&mut self, covered: BTreeMap<u64, Buffer>, is_good: bool) {
        for (sequence, buffer) in covered {
            let slot = &mut self.slots[buffer as usize];
            if slot.entry.is_none_or(|entry| entry.sequence != sequence) {
                continue;
            }
            if is_good {
                slot.is_durable = true;
                self.open.remove(&sequence);
            } else {
                self.unflushed.insert(sequence, buffer);
            }
        }
    }

    /// Dirty blocks from here on, in their order, and then from the start, but for those of which
    /// an entry is on its way below. Pinned ones come behind them, if all are to go below, and last
    /// those for which there was no room.
    pub(crate) fn next_dirty(&self, from: u64, most: usize, are_all: bool) -> Vec<u64> {
        let are_pinned_too =
            are_all && !is_planted(Bug::ForgottenPins) || is_planted(Bug::LoosePins);
        let is_idle =
            |place: &&u64| !self.destaging.contains(*place) || is_planted(Bug::TwoDestages);
        let all = |is_refused: bool| {
            let dirty = &self.dirty.places;
            let behind = dirty.range(from..).chain(dirty.range(..from));
            let pinned = self.pinned.places.iter().filter(move |_| are_pinned_too);
            let all = behind.chain(pinned).filter(is_idle);
            all.filter(move |place| self.is_refused(**place) == is_refused)
        };
        let are_refused = self.are_refused(are_pinned_too);
        let untried = all(false).take(if are_refused { 0 } else { most });
        untried.chain(all(true)).copied().take(most).collect()
    }

    /// The current entry of a block goes below.
    pub(crate) fn destage(&mut self, place: u64) -> Option<(Buffer, Entry)> {
        let (buffer, entry, state) = self.current(place)?;
        let is_alone = !self.destaging.contains(&place) || is_planted(Bug::TwoDestages);
        if state != EntryState::Dirty || !is_alone {
            return None;
        }
        let is_first = self.destaging.insert(place);
        assert!(is_first || is_planted(Bug::TwoDestages), "invariant 7: block {place}");
        self.slots[buffer as usize].state = EntryState::Destaging;
        Some((buffer, entry))
    }

    /// An attempt to bring an entry below has ended. If it is not current any more, only the room
    /// for its block is known.
    pub(crate) fn destaged(&mut self, buffer: Buffer, sequence: u64, outcome: Outcome) {
        let Some(entry) = self.entry(buffer) else { return };
        let is_below = outcome == Outcome::Below;
        self.destaging.remove(&entry.place);
        let unsent = self.dirty_with(entry.place);
        unsent.refused.remove(&entry.place);
        if outcome == Outcome::Refused && unsent.contains(entry.place) {
            unsent.refused.insert(entry.place);
        }
        let state = self.slots[buffer as usize].state;
        if is_planted(Bug::OverwrittenClean)
            && is_below
            && let Some((newer, newest, EntryState::Dirty)) = self.current(entry.place)
        {
            self.slots[newer as usize].state = EntryState::Clean;
            self.clean.push_back((newer, newest.sequence));
            self.dirty_with(entry.place).remove(entry.place);
        }
        if state != EntryState::Destaging || entry.sequence != sequence {
            return;
        }
        self.slots[buffer as usize].state = match (is_below, entry.lost) {
            (false, _) => EntryState::Dirty,
            (true, 0) => EntryState::Clean,
            (true, _) => EntryState::Lost,
        };
        if is_below {
            self.dirty_with(entry.place).remove(entry.place);
            self.owed.remove(&entry.place);
        }
        if is_below && entry.lost == 0 {
            self.clean.push_back((buffer, sequence));
        }
    }

    /// Whether the device below had no room for a block at the last attempt.
    pub(crate) fn is_refused(&self, place: u64) -> bool {
        self.dirty.refused.contains(&place) || self.pinned.refused.contains(&place)
    }

    /// Whether there are blocks to go below, with those that are pinned or without, and it had room
    /// for none of them.
    pub(crate) fn are_refused(&self, are_all: bool) -> bool {
        let is_any = !self.dirty.places.is_empty() || are_all && !self.pinned.places.is_empty();
        is_any && self.dirty.are_refused() && (!are_all || self.pinned.are_refused())
    }

    /// Whether entries may become void.
    pub(crate) fn may_void(&self) -> bool {
        !self.stale.is_empty() || !self.clean.is_empty()
    }

    /// Nothing is known of the room for these blocks any more.
    pub(crate) fn try_again(&mut self, places: Range<u64>) {
        for unsent in [&mut self.dirty, &mut self.pinned] {
            let mut behind = unsent.refused.split_off(&places.start);
            unsent.refused.append(&mut behind.split_off(&places.end));
        }
    }

    /// Sectors of a block have rotted in the NVRAM: nothing else has them.
    pub(crate) fn lose(&mut self, buffer: Buffer, sequence: u64) {
        let slot = &mut self.slots[buffer as usize];
        let Some(entry) = slot.entry.as_mut().filter(|entry| entry.sequence == sequence) else {
            return;
        };
        if matches!(slot.state, EntryState::Dirty | EntryState::Destaging) {
            entry.lost |= entry.mask;
            entry.mask = 0;
            slot.state = EntryState::Lost;
            let place = entry.place;
            self.dirty_with(place).remove(place);
        }
    }

    /// A block is needed no more.
    pub(crate) fn drop_block(&mut self, place: u64) {
        if let Some(buffer) = self.current.remove(&place) {
            self.dirty_with(place).remove(place);
            self.owed.remove(&place);
            self.make_stale(buffer);
        }
    }

    /// Whether a destage of any of these blocks is under way.
    pub(crate) fn is_destaging(&self, places: Range<u64>) -> bool {
        self.destaging.range(places).next().is_some()
    }

    pub(crate) fn hold(&mut self, buffer: Buffer) {
        self.slots[buffer as usize].readers += 1;
    }

    pub(crate) fn release(&mut self, buffer: Buffer) {
        self.slots[buffer as usize].readers -= 1;
    }

    /// Picks entries to become void, stale ones first: their void marks are to be written now.
    /// If some blocks are wanted, only theirs.
    pub(crate) fn begin_voiding(
        &mut self,
        most: usize,
        wanted: Option<&BTreeSet<u64>>,
    ) -> Vec<Buffer> {
        let is_wanted = |entry: &Entry| wanted.is_none_or(|wanted| wanted.contains(&entry.place));
        let mut chosen = Vec::new();
        for is_stale in [true, false] {
            let list = if is_stale { &mut self.stale } else { &mut self.clean };
            let mut later = VecDeque::new();
            for (buffer, sequence) in std::mem::take(list) {
                let slot = &self.slots[buffer as usize];
                let expected = if is_stale { EntryState::Stale } else { EntryState::Clean };
                let is_listed = slot.state == expected
                    && slot.entry.is_some_and(|entry| entry.sequence == sequence);
                let may = if is_stale { Self::may_void_stale } else { Self::may_void_clean };
                let is_wanted = slot.entry.as_ref().is_some_and(is_wanted);
                match is_listed {
                    true if is_wanted && chosen.len() < most && may(self, buffer) => {
                        self.void_now(buffer);
                        chosen.push(buffer);
                    }
                    true => later.push_back((buffer, sequence)),
                    false => {}
                }
            }
            *(if is_stale { &mut self.stale } else { &mut self.clean }) = later;
        }
        chosen
    }

    fn void_now(&mut self, buffer: Buffer) {
        let slot = &mut self.slots[buffer as usize];
        let entry = slot.entry.expect("it is held");
        (slot.state, slot.void) = (EntryState::Voiding, entry.sequence);
        if self.current.get(&entry.place) == Some(&buffer) {
            self.current.remove(&entry.place);
        }
    }

    fn may_void_stale(&self, buffer: Buffer) -> bool {
        let slot = &self.slots[buffer as usize];
        let Some((successor, sequence)) = slot.successor else { return slot.readers == 0 };
        let after = &self.slots[successor as usize];
        // Where the successor has gone, a later one was durable.
        let is_same = after.entry.is_some_and(|entry| entry.sequence == sequence);
        let is_durable = !is_same || after.is_durable || is_planted(Bug::HastySuccessor);
        slot.readers == 0 && is_durable
    }

    fn may_void_clean(&self, buffer: Buffer) -> bool {
        let slot = &self.slots[buffer as usize];
        let Some(entry) = slot.entry else { return false };
        let is_last = self.held.get(&entry.place) == Some(&1) || is_planted(Bug::YoungestFirst);
        slot.readers == 0 && slot.is_durable && is_last
    }

    /// Whether every buffer that is not free keeps what is lost.
    pub(crate) fn is_stuck(&self) -> bool {
        let is_kept = |slot: &Slot| matches!(slot.state, EntryState::Free | EntryState::Lost);
        self.slots.iter().all(is_kept)
    }

    /// The void mark of a buffer, as it is to be written.
    pub(crate) fn void(&self, buffer: Buffer) -> u64 {
        self.slots.get(buffer as usize).map_or(0, |slot| slot.void)
    }

    /// The void marks of these are durable: they may be taken.
    pub(crate) fn voided(&mut self, buffers: &[Buffer]) {
        for &buffer in buffers {
            let slot = &mut self.slots[buffer as usize];
            let entry = slot.entry.take().expect("it was held");
            slot.state = EntryState::Free;
            self.open.remove(&entry.sequence);
            let held = self.held.get_mut(&entry.place).expect("it is counted");
            *held -= 1;
            if *held == 0 {
                self.held.remove(&entry.place);
            }
            self.free.push_back(buffer);
        }
    }

    /// The void marks could not be written: they are tried again.
    pub(crate) fn not_voided(&mut self, buffers: Vec<Buffer>) {
        buffers.into_iter().for_each(|buffer| self.make_stale(buffer));
    }

    /// Everything is durable below, and the label says so: all buffers are free.
    pub(crate) fn clear(&mut self) {
        assert!(self.dirty() == 0, "invariant 4: nothing dirty is given up");
        let (buffers, next) = (self.buffers(), self.next_sequence);
        let void: Vec<u64> = self.slots.iter().map(|slot| slot.void).collect();
        let pins = std::mem::take(&mut self.pins);
        *self = Self { pins, heard: self.heard, ..Self::new(buffers, next) };
        self.slots.iter_mut().zip(void).for_each(|(slot, void)| slot.void = void);
    }
}

#[cfg(test)]
mod tests;
