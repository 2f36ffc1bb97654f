//! Answers kept in log entries, and rewritten before the head passes them.
//!
//! An answer is written with its change, and so it lies ever further behind the tail while its
//! caller may still ask for it. It holds the head like a change that is not written in place, up to
//! an eighth of the circle; then it is rewritten, with others of its age, at the start of a batch
//! that goes out anyway. So recovery never reads much more for the sake of answers, and no task
//! waits for one. When the server forgets an answer it drops its key, and the log forgets the
//! answer too.
//!
//! Invariants:
//! 1. `placed` is in the order of recnos. An answer that is being rewritten stays in it at its old
//!    place until the batch has a new one for it.
//! 2. If a call has two answers, the older one is not rewritten once the other is durable: the one
//!    written last counts.
//! 3. All answers of all volumes together take at most a sixteenth of the circle; the oldest are
//!    dropped first. So half of the log that they may hold back is always other records, and
//!    rewriting them comes to an end.
//!
//! Not asserted: 2, which is about the answer that a replay believes.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use journal::format::{SEGMENT, UNIT};
use vfs::{CallKey, LoggedReply, Repetitions};
use vnode::answer;

use super::Survived;
use super::record::{LINE, Record};
use crate::planted::{Bug, is_planted};

/// Maximum bytes of answers rewritten with one batch: two such entries, with their other records,
/// fill a segment.
const AGAIN: usize = SEGMENT as usize / 2 - 4096;

/// An answer in the log.
#[derive(Clone)]
struct Kept {
    key: Weak<CallKey>,
    data: Rc<[u8]>,
    /// Sequence of the Update that it came with, until it has a place; then the place of its entry.
    at: u64,
}

impl Kept {
    fn is_wanted(&self) -> bool {
        self.key.strong_count() > 0 || is_planted(Bug::UnwantedAnswers)
    }

    fn size(&self) -> usize {
        LINE + self.data.len()
    }
}

/// See the module's prose.
pub(super) struct Memory {
    /// Answers whose entries have no place yet, in the order of Updates.
    staged: VecDeque<Kept>,
    placed: VecDeque<Kept>,
    /// Number of answers at the front of `placed` that are being rewritten.
    moving: usize,
    /// Number of answers from an earlier epoch that still have to be rewritten.
    inherited: usize,
    bytes: usize,
    limit: usize,
    /// Maximum distance of an answer behind the tail, in units of log.
    reach: u64,
    repetitions: Repetitions,
    /// The numbers recorded in the log, and where; and the numbers being written.
    told: Option<(Repetitions, u64)>,
    telling: Option<Repetitions>,
    /// Calls that already had an answer when another one came: a long call has a first and a last
    /// one.
    doubles: Vec<Weak<CallKey>>,
    /// Number of answers at which to look next for unwanted ones.
    sweep_at: usize,
    counters: Counters,
}

/// Statistics of answers since the log was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers that came with a change.
    pub kept: u64,
    /// Answers that were rewritten.
    pub again: u64,
    /// Answers dropped early for lack of room.
    pub dropped: u64,
}

impl Memory {
    /// The memory of one of `shares` volumes, for a log of `capacity` bytes.
    pub(super) fn new(capacity: u64, shares: u16) -> Self {
        Self {
            staged: VecDeque::new(),
            placed: VecDeque::new(),
            moving: 0,
            inherited: 0,
            bytes: 0,
            limit: (capacity / 16 / u64::from(shares)) as usize,
            reach: capacity / 8 / UNIT,
            repetitions: Repetitions::default(),
            told: None,
            telling: None,
            doubles: Vec::new(),
            sweep_at: 1024,
            counters: Counters::default(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of answers.
    pub(super) fn len(&self) -> usize {
        self.staged.len() + self.placed.len()
    }

    /// A call was answered from memory.
    pub(super) fn count_repetition(&mut self, over_a_start: bool) {
        self.repetitions.answered += 1;
        self.repetitions.over_a_start += u64::from(over_a_start);
    }

    /// Whether the log lacks the current number of repetitions.
    pub(super) fn has_news(&self) -> bool {
        self.told.map_or(Repetitions::default(), |(told, _)| told) != self.repetitions
    }

    /// Keeps an answer that goes out with the entry of an Update.
    pub(super) fn keep(&mut self, sequence: u64, key: &Rc<CallKey>, data: Rc<[u8]>) {
        self.counters.kept += 1;
        if Rc::weak_count(key) > 0 && !is_planted(Bug::RetoldFirsts) {
            self.doubles.push(Rc::downgrade(key));
        }
        let kept = Kept { key: Rc::downgrade(key), data, at: sequence };
        self.bytes += kept.size();
        self.staged.push_back(kept);
        self.drop_beyond(self.limit);
        self.sweep();
    }

    /// Takes over the survivors of an earlier epoch, to be rewritten with the next batches from
    /// `tail` on, for which there are `room` bytes.
    pub(super) fn take_over(&mut self, survived: &Survived, tail: u64, room: u64) {
        self.repetitions = survived.repetitions;
        for LoggedReply { at, answered } in &survived.remembered {
            let data = answer::write(*at, answered);
            let kept = Kept { key: Rc::downgrade(&answered.key), data, at: tail };
            self.bytes += kept.size();
            self.placed.push_back(kept);
        }
        self.inherited = self.placed.len();
        self.drop_beyond(self.limit.min(room as usize / 4 * 3));
    }

    /// Whether an answer of an earlier epoch has not been rewritten.
    pub(super) fn is_inheriting(&self) -> bool {
        self.inherited > 0
    }

    /// The recno of the oldest entry that is needed for an answer.
    pub(super) fn head(&mut self) -> Option<u64> {
        self.forget_unwanted();
        let told = self.told.map(|(_, at)| at);
        self.placed.front().map(|first| first.at).into_iter().chain(told).min()
    }

    /// Forgets the oldest answers as long as no caller wants them.
    fn forget_unwanted(&mut self) {
        while self.moving == 0 && self.placed.front().is_some_and(|first| !first.is_wanted()) {
            self.forget_first();
        }
    }

    /// Forgets superseded first answers (invariant 2). Everything with a place is durable now: the
    /// batch before was answered.
    fn forget_firsts(&mut self) {
        if self.moving > 0 {
            return;
        }
        for key in std::mem::take(&mut self.doubles) {
            let is_its = |kept: &Kept| kept.key.ptr_eq(&key);
            let last = self.placed.iter().rposition(is_its);
            let inherited = self.inherited;
            let mut index = 0;
            self.placed.retain(|kept| {
                let stays = !is_its(kept) || Some(index) == last;
                if !stays {
                    self.bytes -= kept.size();
                    self.inherited -= usize::from(index < inherited);
                }
                index += 1;
                stays
            });
            if self.staged.iter().any(is_its) {
                self.doubles.push(key);
            }
        }
    }

    fn forget_first(&mut self) -> Option<Kept> {
        let first = self.placed.pop_front()?;
        self.bytes -= first.size();
        self.inherited = self.inherited.saturating_sub(1);
        Some(first)
    }

    /// The oldest answers that lie too far behind `tail` and before the oldest change that is not
    /// in place, if any. The caller rewrites them in one entry and then calls [`Memory::moved`].
    pub(super) fn lagging(&mut self, tail: u64, changes: Option<u64>) -> Vec<Record> {
        self.forget_firsts();
        self.forget_unwanted();
        let end = changes.unwrap_or(tail).min(tail.saturating_sub(self.reach));
        let mut size = 0;
        let mut records = Vec::new();
        for (index, kept) in self.placed.iter().enumerate() {
            size += kept.size();
            let is_meant = index < self.inherited || kept.at < end;
            if !is_meant || size > AGAIN {
                break;
            }
            records.push(Record::Answer(kept.data.clone()));
        }
        self.moving = records.len();
        if self.has_news() || self.told.is_some_and(|(_, at)| at < end) {
            records.push(Record::Repetitions(self.repetitions));
            self.telling = Some(self.repetitions);
        }
        records
    }

    /// The answers of the last [`Memory::lagging`] have a new place.
    pub(super) fn moved(&mut self, recno: u64) {
        if let Some(telling) = self.telling.take() {
            self.told = Some((telling, recno));
        }
        for _ in 0..std::mem::take(&mut self.moving) {
            let Some(mut kept) = self.forget_first() else { return };
            if kept.is_wanted() {
                self.counters.again += 1;
                kept.at = recno;
                self.bytes += kept.size();
                self.push_placed(kept);
            }
        }
    }

    /// The entry of an Update has its place.
    pub(super) fn placed(&mut self, sequence: u64, recno: u64) {
        while let Some(first) = self.staged.front()
            && first.at <= sequence
            && let Some(mut kept) = self.staged.pop_front()
        {
            kept.at = recno;
            self.push_placed(kept);
        }
    }

    fn push_placed(&mut self, kept: Kept) {
        let follows = self.placed.back().is_none_or(|last| last.at <= kept.at);
        assert!(follows, "invariant 1: answers stand in the order of their places");
        self.placed.push_back(kept);
    }

    /// There is no room to rewrite answers: gives up those before `end`.
    pub(super) fn give_way(&mut self, end: u64) {
        while self.moving == 0
            && self.placed.front().is_some_and(|first| first.at < end)
            && let Some(oldest) = self.forget_first()
        {
            self.counters.dropped += u64::from(oldest.is_wanted());
        }
    }

    /// Drops the oldest answers beyond the limit.
    fn drop_beyond(&mut self, limit: usize) {
        while self.bytes > limit
            && self.moving == 0
            && let Some(oldest) = self.forget_first()
        {
            self.counters.dropped += u64::from(oldest.is_wanted());
        }
        let is_bounded = self.bytes <= limit || self.moving > 0 || self.placed.is_empty();
        assert!(is_bounded, "invariant 3: answers take no more of the circle than that");
    }

    /// Removes unwanted answers, whenever there are twice as many as after the last sweep.
    fn sweep(&mut self) {
        if self.placed.len() < self.sweep_at || self.moving > 0 || self.inherited > 0 {
            return;
        }
        self.placed.retain(Kept::is_wanted);
        let sizes = self.placed.iter().chain(&self.staged).map(Kept::size);
        self.bytes = sizes.sum();
        self.sweep_at = (self.placed.len() * 2).max(1024);
    }
}

#[cfg(test)]
mod tests {
    use vfs::{CallOutcome, CallReply, Timestamp};

    use super::*;

    const CAPACITY: u64 = 64 << 20;
    const SIZE: usize = 128;

    fn key(number: u64) -> Rc<CallKey> {
        Rc::new(CallKey::new(&number.to_le_bytes()).expect("it is short"))
    }

    fn keep(memory: &mut Memory, sequence: u64, key: &Rc<CallKey>) {
        memory.keep(sequence, key, vec![7; SIZE - LINE].into());
    }

    /// A memory with `count` answers, each with its own key, in entries with the numbers of their
    /// Updates.
    fn filled(count: u64) -> (Memory, Vec<Rc<CallKey>>) {
        let mut memory = Memory::new(CAPACITY, 1);
        let keys: Vec<_> = (0..count).map(key).collect();
        for (sequence, key) in (1..).zip(&keys) {
            keep(&mut memory, sequence, key);
            memory.placed(sequence, sequence);
        }
        (memory, keys)
    }

    fn check(memory: &Memory) {
        let sizes = memory.placed.iter().chain(&memory.staged).map(Kept::size);
        assert_eq!(memory.bytes, sizes.sum::<usize>(), "what is kept is counted");
        assert!(memory.placed.iter().is_sorted_by_key(|kept| kept.at), "invariant 1");
    }

    #[test]
    fn of_two_answers_of_a_call_the_last_stays_and_counts() {
        let (mut memory, keys) = filled(10);
        for key in [&keys[3], &keys[7], &keys[3]] {
            let next = memory.counters.kept + 1;
            keep(&mut memory, next, key);
            memory.placed(next, next);
        }
        assert_eq!(memory.len(), 13);
        assert!(memory.lagging(1 << 40, Some(0)).is_empty(), "nothing is passed");
        assert_eq!((memory.len(), memory.bytes), (10, 10 * SIZE));
        assert_eq!(memory.placed.back().map(|last| last.at), Some(13));
        check(&memory);
    }

    #[test]
    fn what_gives_way_is_dropped_if_somebody_wants_it() {
        let (mut memory, mut keys) = filled(10);
        keys.remove(4);
        memory.give_way(9);
        assert_eq!((memory.len(), memory.counters.dropped), (2, 7));
        check(&memory);
        assert_eq!(memory.head(), Some(9));
        drop(keys);
        assert_eq!(memory.head(), None);
        check(&memory);
    }

    #[test]
    fn what_lags_is_written_again_and_keeps_its_order() {
        let (mut memory, _keys) = filled(6);
        let again = memory.lagging(memory.reach + 4, None);
        assert_eq!(again.len(), 3, "those before the fourth entry");
        assert_eq!(memory.head(), Some(1), "they are needed until they are durable");
        memory.moved(100);
        assert_eq!((memory.head(), memory.counters.again, memory.len()), (Some(4), 3, 6));
        check(&memory);
        let none = memory.lagging(memory.reach + 4, None);
        assert!(none.is_empty(), "the others do not lag");
    }

    #[test]
    fn no_more_is_written_again_at_once_than_half_a_segment_has_room_for() {
        let (mut memory, _keys) = filled(500);
        let most = (SEGMENT / 2 - 4096) as usize / SIZE;
        for (batch, told) in [(0, most), (1, most), (2, 500 - 2 * most)] {
            let again = memory.lagging(memory.reach + 1000, None);
            assert_eq!(again.len(), told, "batch {batch}");
            memory.moved(1000 + batch);
            check(&memory);
        }
        assert_eq!((memory.head(), memory.counters.again), (Some(1000), 500));
    }

    #[test]
    fn a_second_answer_of_a_call_replaces_the_first_however_late_it_comes() {
        let (mut memory, keys) = filled(5);
        assert!(memory.lagging(6, None).is_empty(), "nothing lags");
        keep(&mut memory, 6, &keys[2]);
        assert!(memory.lagging(6, None).is_empty());
        assert_eq!(memory.len(), 6, "the second has no place yet, so it is not durable");
        memory.placed(6, 6);
        assert!(memory.lagging(6, None).is_empty());
        assert_eq!((memory.len(), memory.bytes), (5, 5 * SIZE));
        assert_eq!(memory.placed.back().map(|last| last.at), Some(6));
        check(&memory);
    }

    #[test]
    fn what_is_being_written_again_stays_until_that_is_durable() {
        let (mut memory, keys) = filled(4);
        keep(&mut memory, 5, &keys[0]);
        memory.placed(5, 5);
        memory.moving = 2; // as between `lagging` and `moved`
        memory.forget_firsts();
        memory.give_way(4);
        drop(keys);
        assert_eq!((memory.head(), memory.len()), (Some(1), 5));
        check(&memory);
        memory.moved(9);
        assert_eq!((memory.head(), memory.len()), (None, 0), "nobody wants them");
        check(&memory);
    }

    #[test]
    fn repetitions_are_told_when_there_are_more_or_when_they_lag() {
        let (mut memory, _keys) = filled(0);
        let far = memory.reach + 100;
        assert!(!memory.has_news() && memory.lagging(far, None).is_empty(), "there are none");
        memory.count_repetition(false);
        memory.count_repetition(true);
        assert!(memory.has_news());
        let told = Record::Repetitions(Repetitions { answered: 2, over_a_start: 1 });
        assert_eq!(memory.lagging(far, None), std::slice::from_ref(&told));
        memory.moved(far);
        assert!(!memory.has_news() && memory.head() == Some(far), "the log says it");
        assert!(memory.lagging(far + memory.reach, None).is_empty());
        assert_eq!(memory.lagging(far + memory.reach + 1, None), [told]);
    }

    /// Answers of an earlier epoch, and their keys.
    fn survived(count: u64) -> (Survived, Vec<Rc<CallKey>>) {
        let keys: Vec<_> = (0..count).map(key).collect();
        let answered =
            |key: &Rc<CallKey>| CallReply { key: key.clone(), outcome: CallOutcome::default() };
        let remembered = keys.iter().map(|key| LoggedReply {
            at: Timestamp { seconds: 1_700_000_000, nanoseconds: 5 },
            answered: answered(key),
        });
        let repetitions = Repetitions { answered: 3, over_a_start: 2 };
        (Survived { remembered: remembered.collect(), repetitions }, keys)
    }

    #[test]
    fn of_what_is_taken_over_the_oldest_go_that_three_quarters_of_the_room_do_not_hold() {
        let (survived, keys) = survived(100);
        let mut whole = Memory::new(CAPACITY, 1);
        whole.take_over(&survived, 50, 1 << 20);
        assert!(whole.is_inheriting() && whole.has_news());
        assert_eq!((whole.len(), whole.counters.dropped), (100, 0));
        check(&whole);
        let size = whole.bytes / 100;
        for (room, kept) in [(80 * size, 60), (50 * size + 2, 37), (0, 0)] {
            let mut memory = Memory::new(CAPACITY, 1);
            memory.take_over(&survived, 50, room as u64);
            assert_eq!((memory.len(), memory.counters.dropped), (kept, 100 - kept as u64));
            assert_eq!(memory.is_inheriting(), kept > 0);
            let youngest = memory.placed.back().and_then(|last| last.key.upgrade());
            assert!(youngest.is_none_or(|youngest| Rc::ptr_eq(&youngest, &keys[99])));
            check(&memory);
            // All of them are rewritten at once, and belong to this epoch then.
            assert_eq!(memory.lagging(50, Some(0)).len(), kept + 1, "with the repetitions");
            memory.moved(51);
            assert!(!memory.is_inheriting() && memory.len() == kept);
        }
    }

    #[test]
    fn those_that_nobody_wants_are_swept() {
        for moving in [false, true] {
            let (mut memory, keys) = filled(1024);
            let (wanted, _) = keys.split_at(100);
            let wanted = wanted.to_vec();
            drop(keys);
            if moving {
                assert!(!memory.lagging(memory.reach + 2, None).is_empty());
            }
            keep(&mut memory, 1025, &wanted[0]);
            assert_eq!(memory.len(), if moving { 1025 } else { 101 });
            check(&memory);
        }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let most = CAPACITY / 16 / SIZE as u64;
        let (memory, _keys) = filled(most + 50);
        assert_eq!((memory.len() as u64, memory.counters.dropped), (most, 50));
        assert_eq!(memory.placed.front().map(|first| first.at), Some(51));
        check(&memory);
    }
}
