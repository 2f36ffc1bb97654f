//! The pre-write log: what is written to members stands here first.
//!
//! A write that changes data and parity takes several member writes, and a cut between them would
//! leave a stripe that says nothing true of a member that is lost. So its changes, a *group*, go to
//! the log before any of them goes home, and a return goes through the log again. All groups that
//! wait go together in one *record* ([`crate::record`]), a *round*: it is written to two members,
//! by turns, and durable there; of a mirror to all. Then the groups go home, plainly. A flush of
//! all members brings them there for good, and the next record says that they are no longer needed.
//!
//! The log is a ring with the same places on each member. A record has a place there of its own on
//! all of them, whoever has it.
//!
//! Invariants:
//! 1. There is one round at a time: a record is durable on its members before the next is written.
//! 2. A record is overwritten only when one that is durable says that it is not needed.
//! 3. It is needed until all members have been flushed since its last group went home, and the
//!    labels told durably who these are.
//! 4. No round begins while the members are not settled: what it has was then planned for them, or
//!    for more.
//! 5. Behind each record there is room for an empty one, which says what is needed.
//!
//! Not asserted: 3 and 4, which are about the order of waits: torture's campaign `contract` cuts
//! there.
//!
//! **Commit point**: a group has happened when its record is durable on its members.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::Durability::{Plain, Through};
use block::{IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{join_all, select};
use runtime::Runtime;
use runtime::sync::Signal;

use crate::label::{DATA_START, Id, Label, MAP_BLOCK};
use crate::layout::Level;
use crate::members::Members;
use crate::missed::Missed;
use crate::planted::{Bug, is_planted};
use crate::record::{BLOCK, Change, Place, Slots, encode, size_of_record};
use crate::sums::Sums;
use crate::written::{Moves, Written};

/// Work that cannot be done yet is tried again after so long.
const AGAIN: Duration = Duration::from_millis(100);
/// Where the log begins on each member, in bytes.
pub(crate) const LOG_START: u64 = DATA_START;

/// Changes that are made all or none.
pub(crate) type Group = Vec<Change>;

/// A record that is durable and still needed, or may be.
struct Live {
    sequence: u64,
    /// Where in the ring, and how much, in bytes.
    start: u64,
    length: u64,
    /// Groups that are not home.
    outstanding: usize,
    /// Bytes of what was new, until it was written.
    before: u64,
}

/// What a task waits for.
enum Job {
    /// This group, and the stripe if that is written for the first time.
    Group(Group, Option<u64>),
    /// That no earlier record is needed.
    Forget,
    /// That a disk that is filled has the maps.
    CopyMap(usize),
    /// That an incoming disk has a group of the tables of a slot.
    CopyTables(usize, (usize, u64)),
    /// That checksums that have changed come home, if there is room for them; for fresh stripes
    /// with one flush.
    SettleSums { are_fresh: bool },
}

/// What room was made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// All that there is.
    OfAll,
    /// That of the records before the first that is not home.
    OfWhatIsHome,
}

struct Waiting {
    job: Job,
    /// It comes before others.
    is_first: bool,
    answer: oneshot::Sender<Result<u64, IoError>>,
}

/// How many wait in front that earlier records have.
fn carried(waiting: &VecDeque<Waiting>) -> usize {
    waiting.iter().take_while(|waiting| waiting.is_first).count()
}

/// Whether these are such: a round has them alone.
fn are_carried(groups: &[Waiting]) -> bool {
    groups.first().is_some_and(|one| one.is_first)
}

/// See the module's prose.
pub(crate) struct PreLog {
    members: Rc<Members>,
    map: Rc<Written>,
    sums: Rc<Sums>,
    missed: Rc<Missed>,
    runtime: Runtime,
    set: Id,
    level: Level,
    unit: u64,
    /// Where the data area begins on each member, and bytes of the ring before it.
    data_start: u64,
    size: u64,
    waiting: RefCell<VecDeque<Waiting>>,
    is_busy: Cell<bool>,
    is_writing: Cell<bool>,
    live: RefCell<VecDeque<Live>>,
    /// The next record, and the checksum of the one before it.
    next: Cell<(u64, u32)>,
    /// Where in the ring it goes.
    end: Cell<u64>,
    /// Records before this one are not needed, as far as is known in memory.
    home: Cell<u64>,
    /// A group has gone home.
    moved: Signal,
    /// Bytes of records with what was new, and not in an earlier one: else what is carried from one
    /// record to the next would press itself on and on.
    fresh: Cell<u64>,
    /// While members are full: what belongs there has to be carried on before there is room for
    /// what is new.
    is_tight: Cell<bool>,
    /// A record was written, or there is little room.
    grown: Signal,
    /// Records that were written.
    pub(crate) written: Cell<u64>,
}

impl PreLog {
    /// The log of a set of which nothing waits there, and whose last record was this one, if there
    /// was any: its place and where it ends.
    pub(crate) fn new(
        (members, map, sums, missed): (Rc<Members>, Rc<Written>, Rc<Sums>, Rc<Missed>),
        runtime: Runtime,
        next: (u64, u32),
        end: u64,
    ) -> Self {
        let Label { set, layout, data_start, .. } = members.label();
        Self {
            members,
            map,
            sums,
            missed,
            runtime,
            set,
            level: layout.level,
            unit: layout.unit,
            data_start,
            size: data_start - LOG_START,
            waiting: RefCell::default(),
            is_busy: Cell::new(false),
            is_writing: Cell::new(false),
            live: RefCell::default(),
            next: Cell::new(next),
            end: Cell::new(end),
            home: Cell::new(next.0),
            moved: Signal::new(),
            fresh: Cell::new(0),
            is_tight: Cell::new(false),
            grown: Signal::new(),
            written: Cell::new(0),
        }
    }

    /// The most bytes that one record may take: what is needed of four fits beside it.
    fn largest(&self) -> u64 {
        self.size / 4
    }

    /// Makes a group durable here; with it goes that its stripe was written, if it is the first
    /// write there. Its record, of which [`PreLog::gone_home`] has to hear.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn append(
        self: &Rc<Self>,
        group: Group,
        first: Option<u64>,
    ) -> Result<u64, IoError> {
        self.wait(Job::Group(group, first), false).await
    }

    /// The same of one that an earlier record has and that is not home, before all that wait: the
    /// earlier record is in the way of the next ones.
    ///
    /// # Errors
    /// [`IoError`] when there is no room, or the set has stopped.
    pub(crate) async fn append_again(
        self: &Rc<Self>,
        group: Group,
        first: Option<u64>,
    ) -> Result<u64, IoError> {
        self.wait(Job::Group(group, first), true).await
    }

    /// Gives the incoming disk of a slot a group of tables, as they stand on the old one.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn copy_tables(
        self: &Rc<Self>,
        slot: usize,
        group: (usize, u64),
    ) -> Result<(), IoError> {
        self.wait(Job::CopyTables(slot, group), false).await.map(|_| ())
    }

    /// Gives a disk that is filled the map of what was written, and of what others have missed.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn copy_map(self: &Rc<Self>, slot: usize) -> Result<(), IoError> {
        self.wait(Job::CopyMap(slot), false).await.map(|_| ())
    }

    /// Brings home what is here, durably, and says so: no record of before is needed any more.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn forget_old(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::Forget, false).await.map(|_| ())
    }

    /// Brings home what follows from records, durably: the checksums that have changed, as far as
    /// there is room, and what members that are out have missed.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn settle_sums(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::SettleSums { are_fresh: false }, false).await.map(|_| ())
    }

    /// The same before a record has the bits of fresh stripes, with one flush.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn settle_fresh_sums(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::SettleSums { are_fresh: true }, false).await.map(|_| ())
    }

    /// Nobody writes any more: if all can come home, the next start has nothing to read here.
    pub(crate) async fn rest(&self) {
        if !self.members.have_stopped() {
            let _ = self.make_room().await; // what is not home stays here
        }
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next.get().0
    }

    /// Of the records before this one nothing is needed at home any more.
    pub(crate) fn home(&self) -> u64 {
        self.home.get()
    }

    /// Waits until what found no room may be tried again.
    ///
    /// # Errors
    /// [`IoError`] when nobody waits for room any more.
    pub(crate) async fn until_again(&self) -> Result<(), IoError> {
        if self.members.are_closed() || self.members.have_stopped() {
            return Err(IoError::closed(Verb::Flush));
        }
        self.runtime.clock.sleep(AGAIN).await;
        Ok(())
    }

    async fn wait(self: &Rc<Self>, job: Job, is_first: bool) -> Result<u64, IoError> {
        let (answer, answered) = oneshot::channel();
        self.queue(Waiting { job, is_first, answer });
        if !self.is_busy.replace(true) {
            let log = self.clone();
            let rounds = async move {
                while !log.waiting.borrow().is_empty() {
                    log.round().await;
                }
                log.is_busy.set(false);
            };
            self.runtime.tasks.spawn(rounds.boxed_local());
        }
        answered.await.unwrap_or_else(|_| Err(IoError::closed(Verb::Write)))
    }

    fn queue(&self, one: Waiting) {
        let is_first = one.is_first;
        let mut waiting = self.waiting.borrow_mut();
        let place = if is_first { carried(&waiting) } else { waiting.len() };
        waiting.insert(place, one);
    }

    /// One round, of as many groups as there is room for; or something that is done between rounds.
    async fn round(&self) {
        let mut groups = Vec::new();
        let (mut changes, mut bytes) = (0, 0);
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            let Some(next) = next else { break };
            let Job::Group(group, first) = &next.job else {
                if groups.is_empty() {
                    return self.between(next).await;
                }
                self.waiting.borrow_mut().push_front(next);
                break;
            };
            // What earlier records have goes alone: others may find no place.
            if groups.first().is_some_and(|one: &Waiting| one.is_first != next.is_first) {
                self.waiting.borrow_mut().push_front(next);
                break;
            }
            let of_map = u64::from(first.is_some()) + self.vacated(group).count() as u64;
            let more_changes = group.len() + of_map as usize;
            let more = group.iter().map(Change::held).sum::<u64>() + of_map * MAP_BLOCK;
            let size = size_of_record(changes + more_changes, bytes + more);
            if !groups.is_empty() && size > self.largest() {
                self.waiting.borrow_mut().push_front(next);
                break;
            }
            assert!(size <= self.size / 2, "a group of {size} bytes is too large for this log");
            (changes, bytes) = (changes + more_changes, bytes + more);
            groups.push(next);
        }
        let size = size_of_record(changes, bytes);
        let done = self.write_round(&groups, size).await;
        let is_full = done.as_ref().is_err_and(IoError::is_full);
        if is_full && !are_carried(&groups) {
            if !self.is_tight.replace(true) {
                self.grown.notify();
                self.runtime.clock.sleep(AGAIN).await;
            }
            if carried(&self.waiting.borrow()) > 0 {
                return self.wait_behind(groups);
            }
        }
        if !is_full {
            self.is_tight.set(false);
        }
        for waiting in groups {
            // Who asked is a task of the set, which does not go away.
            let _ = waiting.answer.send(done.clone());
        }
    }

    /// Has these wait once more, behind what earlier records have.
    fn wait_behind(&self, groups: Vec<Waiting>) {
        let mut waiting = self.waiting.borrow_mut();
        let place = carried(&waiting);
        for one in groups.into_iter().rev() {
            waiting.insert(place, one);
        }
    }

    /// Does what is no group, while no round is under way.
    async fn between(&self, waiting: Waiting) {
        let done = match waiting.job {
            Job::CopyMap(slot) => {
                let map = self.map.all(Slots::one(slot));
                self.members.fill(slot, self.data_start + map.offset, map.data).await;
                self.missed.copy_to(slot).await;
                Ok(())
            }
            Job::CopyTables(slot, group) => {
                self.sums.copy_group(slot, group).await;
                Ok(())
            }
            Job::SettleSums { are_fresh } => self.bring_sums_home(are_fresh).await.map(|_| ()),
            Job::Forget | Job::Group(..) => match self.make_room().await {
                Ok(Room::OfAll) => Ok(()),
                // Others go on meanwhile.
                Ok(Room::OfWhatIsHome) => {
                    self.waiting.borrow_mut().push_back(waiting);
                    return self.runtime.clock.sleep(AGAIN).await;
                }
                Err(error) => Err(error),
            },
        };
        let _ = waiting.answer.send(done.map(|()| 0)); // a task of the set, which does not go away
    }

    async fn write_round(&self, groups: &[Waiting], size: u64) -> Result<u64, IoError> {
        let has_room = || {
            let is_kept = self.members.are_full() && !are_carried(groups);
            let kept = if is_kept { self.room_for_carried() } else { 0 };
            self.place_for(size + kept).is_some()
        };
        while !has_room() {
            let room = self.make_room().await?;
            let is_stuck = self.first_outstanding().is_none_or(|first| first == self.home.get());
            if room == Room::OfWhatIsHome && is_stuck && !has_room() {
                if !self.members.are_full_for_good() && !self.members.are_closed() {
                    self.runtime.clock.sleep(AGAIN).await;
                    continue;
                }
                return Err(IoError::new(Verb::Write, 0, 0, ErrorKind::StorageFull));
            }
        }
        let (mut changes, mut moves) = (Vec::new(), Moves::default());
        for waiting in groups {
            if let Job::Group(group, first) = &waiting.job {
                changes.extend(group.iter().cloned());
                moves.written.extend(*first);
                moves.vacated.extend(self.vacated(group));
            }
        }
        let of_map = self.map.changes(&moves, self.members.all());
        if !is_planted(Bug::UnloggedMaps) {
            changes.extend(of_map.iter().cloned());
        }
        let record = self.write_record(&changes, groups.len()).await?;
        self.missed.touch_all(&changes, record);
        if !are_carried(groups) {
            self.fresh.set(self.fresh.get() + size);
            self.grown.notify();
        }
        self.map.are_logged(&moves, record);
        if is_planted(Bug::HastyMaps) {
            self.members.bring_home(self.data_start, &of_map).await;
        }
        Ok(record)
    }

    /// The stripes of which a group says that nothing is needed.
    fn vacated<'g>(&self, group: &'g Group) -> impl Iterator<Item = u64> + use<'g> {
        let unit = self.unit;
        group.iter().filter(|it| it.is_vacated).map(move |it| it.offset / unit)
    }

    /// The most bytes of a record that has what is not home, and of an empty one before it.
    fn room_for_carried(&self) -> u64 {
        let live = self.live.borrow();
        let outstanding = live.iter().filter(|live| live.outstanding > 0);
        outstanding.map(|live| live.length).sum::<u64>() + BLOCK
    }

    /// Where so many bytes fit that no record needs, with room for an empty one behind them.
    fn place_for(&self, size: u64) -> Option<u64> {
        [self.end.get(), 0].into_iter().find(|&start| {
            let rest = self.rest_behind(start + size);
            let is_beside = rest >= start + size || rest + BLOCK <= start;
            self.is_free(start, size) && self.is_free(rest, BLOCK) && is_beside
        })
    }

    /// Whether no record needs these bytes of the ring.
    fn is_free(&self, start: u64, size: u64) -> bool {
        let beside = |live: &Live| start + size <= live.start || live.start + live.length <= start;
        start + size <= self.size && self.live.borrow().iter().all(beside)
    }

    /// The room for an empty record behind one that ends here (invariant 5).
    fn rest_behind(&self, end: u64) -> u64 {
        if end + BLOCK <= self.size { end } else { 0 }
    }

    /// Whether a group is not home.
    fn is_outstanding(&self) -> bool {
        self.first_outstanding().is_some()
    }

    /// The first record that is needed, for what belongs home or for what follows from it.
    fn needed_from(&self) -> u64 {
        self.home.get().min(self.sums.needed_from()).min(self.map.needed_from())
    }

    /// The first record that has one.
    fn first_outstanding(&self) -> Option<u64> {
        self.live.borrow().iter().find(|live| live.outstanding > 0).map(|live| live.sequence)
    }

    /// Waits until everything is home, and says so in an empty record. While members are full it
    /// does not wait for what finds no room there.
    async fn make_room(&self) -> Result<Room, IoError> {
        let mut room = loop {
            while self.is_outstanding() && !self.members.are_full() {
                select(self.moved.wait(), pin!(self.members.filled())).await;
            }
            self.flush().await?;
            if self.home.get() == self.next.get().0 {
                break Room::OfAll;
            } else if self.is_outstanding() {
                break Room::OfWhatIsHome;
            } // else what was outstanding has come home meanwhile
        };
        self.bring_map_home().await?;
        if !self.bring_sums_home(false).await? {
            if self.members.are_closed() {
                return Err(IoError::closed(Verb::Write)); // nobody waits for room any more
            }
            room = Room::OfWhatIsHome;
        }
        let lets_go =
            self.live.borrow().front().is_some_and(|live| live.sequence < self.needed_from());
        if room == Room::OfAll || lets_go && self.may_forget() {
            self.forget_all().await?;
        }
        Ok(room)
    }

    /// Brings home what has changed of the map, durably. No round is under way.
    async fn bring_map_home(&self) -> Result<(), IoError> {
        let unsaved = self.map.unsaved(self.members.all());
        if unsaved.is_empty() {
            return Ok(());
        }
        self.members.bring_home(self.data_start, &unsaved).await;
        self.members.flush().await;
        self.members.settled(Verb::Flush).await?;
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Flush));
        }
        self.map.is_saved();
        Ok(())
    }

    /// Brings home what follows from records: checksums, and then what members that are out have
    /// missed, which may be one that has failed meanwhile. Whether there was room.
    async fn bring_sums_home(&self, are_fresh: bool) -> Result<bool, IoError> {
        let had_room = self.sums.bring_home(are_fresh).await?;
        self.missed.bring_home().await;
        Ok(had_room)
    }

    /// Whether behind an empty record that is written now there is room for another one
    /// (invariant 5), with what that one lets go.
    fn may_forget(&self) -> bool {
        let last = || self.rest_behind(self.end.get());
        let start = self.place_for(BLOCK).unwrap_or_else(last);
        let next = self.rest_behind(start + BLOCK);
        let live = self.live.borrow();
        let needed_from = self.needed_from();
        let mut needed = live.iter().filter(|live| live.sequence >= needed_from);
        let is_beside =
            |live: &Live| next + BLOCK <= live.start || live.start + live.length <= next;
        next != start && needed.all(is_beside)
    }

    /// Whether so much that is new was logged since a record.
    fn is_behind(&self, sequence: u64) -> bool {
        let live = self.live.borrow();
        let record = live.iter().find(|live| live.sequence == sequence);
        record.is_some_and(|record| self.fresh.get() - record.before > self.size / 4)
    }

    /// Completes when members are full, and so much was logged since a record that a later one
    /// should have what it has, or there is room for little else.
    pub(crate) async fn pressed(&self, sequence: u64) {
        loop {
            self.members.filled().await;
            if self.is_tight.get() || self.is_behind(sequence) {
                return;
            }
            self.grown.wait().await;
        }
    }

    /// Says in an empty record what is needed: nothing, if all is home, durably.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped, or what the log has was given up.
    pub(crate) async fn forget_all(&self) -> Result<(), IoError> {
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Write));
        }
        self.write_record(&[], 0).await.map(|_| ())
    }

    /// Flushes all members: what was home before is home for good.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        let through = self.first_outstanding().unwrap_or(self.next.get().0);
        self.members.flush().await;
        self.members.settled(Verb::Flush).await?;
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Flush));
        }
        self.home.set(self.home.get().max(through));
        self.missed.are_flushed(through);
        Ok(())
    }

    /// The members that have the next record.
    fn keepers(&self, sequence: u64) -> Slots {
        // One that comes to a mirror has what it may be left alone with.
        let is_mirror = self.level == Level::Mirrored;
        let kept = if is_mirror { self.members.all() } else { self.members.slots() };
        let slots: Vec<usize> = kept.iter().collect();
        let copies = if is_mirror { slots.len() } else { 2 };
        let copies = if is_planted(Bug::LonelyRecords) { 1 } else { copies.min(slots.len()) };
        let first = (sequence as usize).wrapping_mul(copies);
        (0..copies).map(|copy| slots[(first + copy) % slots.len()]).collect()
    }

    /// Writes a record, durably.
    async fn write_record(&self, changes: &[Change], groups: usize) -> Result<u64, IoError> {
        let data: u64 = changes.iter().map(Change::held).sum();
        let size = size_of_record(changes.len(), data);
        let (sequence, previous) = self.next.get();
        let start = match self.place_for(size) {
            Some(start) => start,
            // Invariant 5: the room that is left is for this one.
            None if changes.is_empty() => self.rest_behind(self.end.get()),
            None => unreachable!("room was made"),
        };
        assert!(self.is_free(start, size), "invariant 2");
        let tail = self.needed_from().min(sequence);
        let mask = self.runtime.random.next_u64();
        let (data, checksum) =
            encode(&Place { set: self.set, sequence, tail, previous, mask }, changes);
        assert!(!self.is_writing.replace(true), "invariant 1");
        let kept = self.keep(sequence, start, &data).await;
        self.is_writing.set(false);
        kept?;
        self.next.set((sequence + 1, checksum));
        self.end.set(start + size);
        self.written.set(self.written.get() + 1);
        let mut live = self.live.borrow_mut();
        let before = self.fresh.get();
        live.push_back(Live { sequence, start, length: size, outstanding: groups, before });
        live.retain(|live| live.sequence >= tail);
        drop(live);
        assert!(self.is_free(self.rest_behind(self.end.get()), BLOCK), "invariant 5");
        Ok(sequence)
    }

    /// Makes a record durable on its members.
    async fn keep(&self, sequence: u64, start: u64, data: &[Bytes]) -> Result<(), IoError> {
        loop {
            self.members.settled(Verb::Write).await?; // invariant 4
            let keepers = self.keepers(sequence);
            let how = if is_planted(Bug::HastyRecords) { Plain } else { Through };
            let write = |slot| self.members.write(slot, LOG_START + start, data.to_vec(), how);
            join_all(keepers.iter().map(write)).await;
            if self.members.gave_up() {
                return Err(IoError::closed(Verb::Write)); // one of them has no room for it
            }
            if self.members.all().0 & keepers.0 == keepers.0 {
                return Ok(());
            } // else one that was to have it is out, and others get it
        }
    }

    /// A group of this record is home.
    pub(crate) fn gone_home(&self, sequence: u64) {
        for live in &mut *self.live.borrow_mut() {
            if live.sequence == sequence {
                live.outstanding -= 1;
            }
        }
        self.moved.notify();
    }
}
