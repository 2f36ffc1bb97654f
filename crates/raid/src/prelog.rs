//! The pre-write log: a write-ahead log for changes of members.
//!
//! A write that changes data and parity takes several member writes, and a cut between them would
//! leave a stripe that reconstructs a lost member wrongly. So its changes, a *group*, go to the log
//! before any of them is written in place, and recovery replays the log. All waiting groups go
//! together in one *record* ([`crate::record`]), a *round*: it is written durably to two members in
//! turn, or on a mirror to all. Then the groups are written in place, plainly. A flush of all
//! members makes them durable there, and the next record says that they are no longer needed.
//!
//! The log is a [`Ring`] with the same offsets on each member. A record's range of the ring is
//! reserved for it on all members, whichever of them have it.
//!
//! A set may have a *log device* ([`crate::apart`]), with a ring of its own. Then it alone gets the
//! records, each once, until a write to it fails, or a person takes it away. The same record then
//! goes to the members, and all later ones do.
//!
//! Invariants:
//! 1. There is one round at a time: a record is durable before the next is written.
//! 2. A record is overwritten only when one that is durable says that it is not needed.
//! 3. A record is needed until all members have been flushed since its last group was written in
//!    place, and the labels say durably who these members are.
//! 4. No round begins while the members are not settled: its groups were then planned for the
//!    present members, or for more.
//! 5. While the log device has a needed record, the labels say durably that it may.
//! 6. While it gets the records, there is room for any of them on the members.
//!
//! Not asserted: 2, which [`Ring`] asserts; 3, 4 and 6, which are about the order of waits:
//! torture's campaign `contract` cuts there, and `tests/it/log_device.rs`.
//!
//! **Commit point**: a group has happened when its record is durable on its members.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::Durability::{Plain, Through};
use block::{BlockDevice, IoError, Verb, length_of};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{join_all, select};
use runtime::Runtime;
use runtime::sync::Signal;

use crate::apart::{Apart, LogDevice};
use crate::label::{DATA_START, Id, Label, MAP_BLOCK};
use crate::layout::Level;
use crate::members::Members;
use crate::missed::Missed;
use crate::planted::{Bug, is_planted};
use crate::record::{BLOCK, Change, Place, Slots, encode, size_of_record};
use crate::ring::{Ring, most_of_record};
use crate::sums::Sums;
use crate::written::{Moves, Written};

/// Pause before work that cannot be done yet is retried.
const AGAIN: Duration = Duration::from_millis(100);
/// Members that have a record of a set with parity. On a mirror, all have it.
pub(crate) const RECORD_COPIES: usize = 2;
/// Byte offset of the log on each member.
pub(crate) const LOG_START: u64 = DATA_START;

/// Changes that are made atomically.
pub(crate) type Group = Vec<Change>;

/// A durable record that is, or may be, still needed.
struct Live {
    sequence: u64,
    length: u64,
    /// Groups that are not in place yet.
    outstanding: usize,
    /// Value of [`PreLog::fresh`] when the record was written.
    before: u64,
}

/// A request to the log.
enum Job {
    /// Appends this group, and the stripe's bit if the stripe is written for the first time.
    Group(Group, Option<u64>),
    /// Completes when no earlier record is needed.
    Forget,
    /// Copies the maps to a disk that is being filled.
    CopyMap(usize),
    /// Copies a group of a slot's tables to an incoming disk.
    CopyTables(usize, (usize, u64)),
    /// Writes changed checksums in place, if there is room for them; for fresh stripes with one
    /// flush.
    SettleSums { are_fresh: bool },
    /// From now on this log device gets the records.
    Begin(Rc<Apart>),
    /// From now on the members get them, and none on the log device is needed.
    Leave,
}

/// How much of the ring was freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// The whole ring.
    OfAll,
    /// The records before the first that is not in place.
    OfWhatIsHome,
}

struct Waiting {
    job: Job,
    /// It goes ahead of other requests.
    is_first: bool,
    answer: oneshot::Sender<Result<u64, IoError>>,
}

/// Those of a set's members that have a record.
pub(crate) fn keepers(level: Level, members: Slots, sequence: u64) -> Slots {
    let slots: Vec<usize> = members.iter().collect();
    let copies = if level == Level::Mirrored { slots.len() } else { RECORD_COPIES };
    let copies = if is_planted(Bug::LonelyRecords) { 1 } else { copies.min(slots.len()) };
    let first = (sequence as usize).wrapping_mul(copies);
    (0..copies).map(|copy| slots[(first + copy) % slots.len()]).collect()
}

/// Number of requests at the front that carry over groups of earlier records.
fn carried(waiting: &VecDeque<Waiting>) -> usize {
    waiting.iter().take_while(|waiting| waiting.is_first).count()
}

/// Whether these groups are carried over from earlier records: a round takes them alone.
fn are_carried(groups: &[Waiting]) -> bool {
    groups.first().is_some_and(|one| one.is_first)
}

/// The log; see the module.
pub(crate) struct PreLog {
    members: Rc<Members>,
    map: Rc<Written>,
    sums: Rc<Sums>,
    missed: Rc<Missed>,
    runtime: Runtime,
    set: Id,
    level: Level,
    unit: u64,
    /// Byte offset of the data area on each member.
    data_start: u64,
    /// The ring on each member.
    own: Rc<Ring>,
    /// The log device, until nothing on it is needed.
    apart: RefCell<Option<Rc<Apart>>>,
    /// The devices to close with the set.
    pub(crate) given: RefCell<Vec<Rc<dyn BlockDevice>>>,
    waiting: RefCell<VecDeque<Waiting>>,
    is_busy: Cell<bool>,
    is_writing: Cell<bool>,
    live: RefCell<VecDeque<Live>>,
    /// Number of the next record, and the checksum of the one before it.
    next: Cell<(u64, u32)>,
    /// Records before this one are not needed, as far as memory knows.
    home: Cell<u64>,
    /// Notified when a group is in place.
    moved: Signal,
    /// Bytes of records with new groups, without carried-over ones: otherwise carried groups would
    /// keep causing more of themselves.
    fresh: Cell<u64>,
    /// Set while members are full: carried-over groups have to move on before there is room for new
    /// ones.
    is_tight: Cell<bool>,
    /// Notified when a record was written, or room is scarce.
    grown: Signal,
    /// Number of records written.
    pub(crate) written: Cell<u64>,
}

impl PreLog {
    /// An empty log of a set. `next` is the number of its next record with the checksum of the last
    /// one, and `end` the offset behind the last one.
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
            own: Rc::new(Ring::new(data_start - LOG_START, end)),
            apart: RefCell::default(),
            given: RefCell::default(),
            waiting: RefCell::default(),
            is_busy: Cell::new(false),
            is_writing: Cell::new(false),
            live: RefCell::default(),
            next: Cell::new(next),
            home: Cell::new(next.0),
            moved: Signal::new(),
            fresh: Cell::new(0),
            is_tight: Cell::new(false),
            grown: Signal::new(),
            written: Cell::new(0),
        }
    }

    /// The ring that gets the next record.
    fn ring(&self) -> Rc<Ring> {
        self.apart().map_or(self.own.clone(), |apart| apart.ring.clone())
    }

    /// The log device that gets the next record.
    fn apart(&self) -> Option<Rc<Apart>> {
        self.apart.borrow().clone().filter(|apart| !apart.is_left.get())
    }

    /// Bytes of the smallest ring that a record may go to.
    fn smallest(&self) -> u64 {
        self.ring().size.min(self.own.size)
    }

    /// The most bytes of several groups in one record: the needed parts of four fit beside it.
    fn largest(&self) -> u64 {
        self.smallest() / 4
    }

    /// Makes a group durable in the log, together with its stripe's bit if this is the stripe's
    /// first write. Returns the record, for which the caller must call [`PreLog::gone_home`].
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

    /// Appends again, ahead of all waiting requests, a group that an earlier record has and that is
    /// not in place: the earlier record blocks the ring for the next ones.
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

    /// Copies a group of tables from the old disk of a slot to the incoming one.
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

    /// Copies the map of written stripes and the dirty-region block to a disk that is being filled.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn copy_map(self: &Rc<Self>, slot: usize) -> Result<(), IoError> {
        self.wait(Job::CopyMap(slot), false).await.map(|_| ())
    }

    /// Writes everything in the log in place, durably, and records that: no earlier record is
    /// needed any more.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn forget_old(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::Forget, false).await.map(|_| ())
    }

    /// Writes in place, durably, what follows from records: changed checksums, if there is room,
    /// and the regions that out members have missed.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn settle_sums(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::SettleSums { are_fresh: false }, false).await.map(|_| ())
    }

    /// Does the same, with one flush, before a record has the bits of fresh stripes.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn settle_fresh_sums(self: &Rc<Self>) -> Result<(), IoError> {
        self.wait(Job::SettleSums { are_fresh: true }, false).await.map(|_| ())
    }

    /// Empties the log when no more writes come, if possible: then the next start has nothing to
    /// replay, and needs no log device.
    pub(crate) async fn rest(&self) {
        if !self.members.have_stopped() {
            self.distrust_apart();
            while self.is_busy.get() {
                self.runtime.clock.sleep(AGAIN).await; // the log device may be on its way out
            }
            // Groups that are not in place stay in the log.
            if let Ok(Room::OfAll) = self.make_room().await {
                let _ = self.end_apart().await; // the labels still name it then
            }
        }
        let given = self.given.take();
        join_all(given.iter().map(|device| device.close())).await;
    }

    /// Has this device get the records from now on.
    ///
    /// # Errors
    /// The device cannot be emptied, or the set has stopped.
    pub(crate) async fn begin_apart(
        self: &Rc<Self>,
        device: Rc<dyn BlockDevice>,
    ) -> Result<(), IoError> {
        self.given.replace(vec![device.clone()]);
        self.wait(Job::Begin(Rc::new(Apart::new(device))), false).await.map(|_| ())
    }

    /// Has the members get the records from now on, and brings in place what the log device has.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn leave_apart(self: &Rc<Self>) -> Result<(), IoError> {
        self.distrust_apart();
        self.wait(Job::Leave, false).await.map(|_| ())
    }

    /// Nothing that is appended from now on rests on the log device.
    pub(crate) fn distrust_apart(&self) {
        self.apart.borrow().iter().for_each(|apart| apart.distrust());
    }

    /// The log device, if there is one.
    pub(crate) fn log_device(&self) -> Option<LogDevice> {
        self.apart.borrow().as_ref().map(|apart| apart.state())
    }

    /// The log device gets no more records: what it has is brought in place soon.
    fn give_up(&self, apart: &Apart) {
        apart.is_left.set(true);
        let (answer, _) = oneshot::channel(); // nobody waits
        self.queue(Waiting { job: Job::Leave, is_first: false, answer });
    }

    /// Does what has to wait until no record is needed.
    async fn when_empty(&self, job: &Job) -> Result<(), IoError> {
        match job {
            // A member that has come in has the latest record of the members, or another one does.
            Job::Forget if self.apart().is_some() => self.forget_on_members().await,
            Job::Begin(apart) if self.apart().is_none() => {
                self.forget_on_members().await?;
                apart.wipe().await?;
                self.members.may_need_apart(!is_planted(Bug::UnsaidLogDevices));
                self.members.settled(Verb::Write).await?; // invariant 5
                self.apart.replace(Some(apart.clone()));
                Ok(())
            }
            Job::Leave if self.apart().is_none() => self.end_apart().await,
            _ => Ok(()),
        }
    }

    /// Whether a job does not wait until all records are free.
    fn gives_up(&self, job: &Job) -> bool {
        matches!(job, Job::Begin(_)) || matches!(job, Job::Leave) && self.members.are_closed()
    }

    /// Has the labels say that no record on the log device is needed. The members have a later one
    /// that says so.
    async fn end_apart(&self) -> Result<(), IoError> {
        let apart = self.apart.take();
        let is_needed = apart.is_some_and(|apart| apart.ring.is_needed());
        assert!(!is_needed || is_planted(Bug::HastyLeaves), "invariant 5");
        self.members.may_need_apart(false);
        self.members.settled(Verb::Write).await
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next.get().0
    }

    /// Records before this one are no longer needed for their changes.
    pub(crate) fn home(&self) -> u64 {
        self.home.get()
    }

    /// Waits before the next attempt of work that found no room.
    ///
    /// # Errors
    /// [`IoError`] when the set is closed or has stopped.
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

    /// One round of as many groups as there is room for, or one request that is done between
    /// rounds.
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
            // Carried-over groups go alone: new ones may find no place.
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
            assert!(
                size <= most_of_record(self.smallest()),
                "a group of {size} bytes is too large for this log"
            );
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
            // The requester is a task of the set, which does not go away.
            let _ = waiting.answer.send(done.clone());
        }
    }

    /// Queues these again, behind the carried-over groups.
    fn wait_behind(&self, groups: Vec<Waiting>) {
        let mut waiting = self.waiting.borrow_mut();
        let place = carried(&waiting);
        for one in groups.into_iter().rev() {
            waiting.insert(place, one);
        }
    }

    /// Does a request that is not a group, while no round is under way.
    async fn between(&self, waiting: Waiting) {
        let done = match &waiting.job {
            &Job::CopyMap(slot) => {
                let map = self.map.all(Slots::one(slot));
                self.members.fill(slot, self.data_start + map.offset, map.data).await;
                self.missed.copy_to(slot).await;
                Ok(())
            }
            &Job::CopyTables(slot, group) => {
                self.sums.copy_group(slot, group).await.map_err(IoError::from)
            }
            Job::SettleSums { are_fresh } => self.bring_sums_home(*are_fresh).await.map(|_| ()),
            Job::Leave if is_planted(Bug::HastyLeaves) => self.end_apart().await,
            job => match self.make_room().await {
                Ok(Room::OfAll) => self.when_empty(job).await,
                Ok(Room::OfWhatIsHome) if self.gives_up(job) => {
                    Err(IoError::new(Verb::Write, 0, 0, ErrorKind::StorageFull))
                }
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
            self.ring().place_for(size + kept).is_some()
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
        let record = self.write_record(&changes, groups.len(), true).await?;
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

    /// The stripes that a group vacates.
    fn vacated<'g>(&self, group: &'g Group) -> impl Iterator<Item = u64> + use<'g> {
        let unit = self.unit;
        group.iter().filter(|it| it.is_vacated).map(move |it| it.offset / unit)
    }

    /// Upper bound of the bytes of a record that carries over all groups not in place, and of an
    /// empty one before it.
    fn room_for_carried(&self) -> u64 {
        let live = self.live.borrow();
        let outstanding = live.iter().filter(|live| live.outstanding > 0);
        outstanding.map(|live| live.length).sum::<u64>() + BLOCK
    }

    /// Whether some group is not in place.
    fn is_outstanding(&self) -> bool {
        self.first_outstanding().is_some()
    }

    /// The first record that is needed, for its changes or for what follows from them.
    fn needed_from(&self) -> u64 {
        self.home.get().min(self.sums.needed_from()).min(self.map.needed_from())
    }

    /// The first record with a group that is not in place.
    fn first_outstanding(&self) -> Option<u64> {
        self.live.borrow().iter().find(|live| live.outstanding > 0).map(|live| live.sequence)
    }

    /// Waits until everything is in place, and says so in an empty record. While members are full
    /// it does not wait for groups that find no room there.
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
            } // else the outstanding groups were written in place meanwhile
        };
        self.bring_map_home().await?;
        if !self.bring_sums_home(false).await? {
            if self.members.are_closed() {
                return Err(IoError::closed(Verb::Write)); // waits for room have ended
            }
            room = Room::OfWhatIsHome;
        }
        let lets_go =
            self.live.borrow().front().is_some_and(|live| live.sequence < self.needed_from());
        let may_forget = || self.ring().may_forget(self.needed_from());
        if room == Room::OfAll || lets_go && may_forget() {
            self.forget_all().await?;
        }
        Ok(room)
    }

    /// Writes the changed blocks of the map in place, durably. No round is under way.
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

    /// Writes in place what follows from records: checksums, and then the regions that out members
    /// have missed, including one that has just failed. Returns whether there was room.
    async fn bring_sums_home(&self, are_fresh: bool) -> Result<bool, IoError> {
        let had_room = self.sums.bring_home(are_fresh).await?;
        self.missed.bring_home().await;
        Ok(had_room)
    }

    /// Whether more than a quarter of the ring was filled with new groups since a record.
    fn is_behind(&self, sequence: u64) -> bool {
        let live = self.live.borrow();
        let record = live.iter().find(|live| live.sequence == sequence);
        record.is_some_and(|record| self.fresh.get() - record.before > self.largest())
    }

    /// Completes when members are full, and enough was logged since a record that a later one
    /// should carry over its groups, or room is scarce.
    pub(crate) async fn pressed(&self, sequence: u64) {
        loop {
            self.members.filled().await;
            if self.is_tight.get() || self.is_behind(sequence) {
                return;
            }
            self.grown.wait().await;
        }
    }

    /// Writes an empty record that says what is needed: nothing, if everything is in place,
    /// durably.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped, or changes in the log were given up.
    pub(crate) async fn forget_all(&self) -> Result<(), IoError> {
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Write));
        }
        self.write_record(&[], 0, true).await.map(|_| ())
    }

    /// Writes an empty record to the members, which says that nothing is needed, and makes room
    /// there for any record (invariant 6).
    async fn forget_on_members(&self) -> Result<(), IoError> {
        loop {
            self.flush().await?;
            if self.members.gave_up() {
                return Err(IoError::closed(Verb::Write));
            }
            self.write_record(&[], 0, false).await?;
            if self.own.place_for(most_of_record(self.own.size)).is_some() {
                return Ok(());
            }
        }
    }

    /// Flushes all members: changes that were in place before are durable there.
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

    /// The members that get the next record.
    fn keepers(&self, sequence: u64) -> Slots {
        // A member being rebuilt on a mirror gets it too: it may later be the only one left.
        let is_mirror = self.level == Level::Mirrored;
        let members = if is_mirror { self.members.all() } else { self.members.slots() };
        keepers(self.level, members, sequence)
    }

    /// Writes a record, durably: to the members alone unless it `may_be_apart`.
    async fn write_record(
        &self,
        changes: &[Change],
        groups: usize,
        may_be_apart: bool,
    ) -> Result<u64, IoError> {
        let data: u64 = changes.iter().map(Change::held).sum();
        let size = size_of_record(changes.len(), data);
        let (sequence, previous) = self.next.get();
        let tail = self.needed_from().min(sequence);
        let mask = self.runtime.random.next_u64();
        let (data, checksum) =
            encode(&Place { set: self.set, sequence, tail, previous, mask }, changes);
        assert!(!self.is_writing.replace(true), "invariant 1");
        let kept = self.keep(sequence, &data, may_be_apart).await;
        self.is_writing.set(false);
        let (ring, start) = kept?;
        self.next.set((sequence + 1, checksum));
        self.written.set(self.written.get() + 1);
        let before = self.fresh.get();
        let mut live = self.live.borrow_mut();
        live.push_back(Live { sequence, length: size, outstanding: groups, before });
        live.retain(|live| live.sequence >= tail);
        ring.keep(sequence, start, size);
        let apart = self.apart.borrow().clone();
        let rings = apart.iter().map(|apart| &apart.ring).chain([&self.own]);
        rings.for_each(|ring| ring.forget_before(tail));
        Ok(sequence)
    }

    /// Makes a record durable. Returns its ring, and its offset there.
    async fn keep(
        &self,
        sequence: u64,
        data: &[Bytes],
        may_be_apart: bool,
    ) -> Result<(Rc<Ring>, u64), IoError> {
        let size = length_of(data);
        let how = if is_planted(Bug::HastyRecords) { Plain } else { Through };
        if let Some(apart) = self.apart().filter(|_| may_be_apart) {
            self.members.settled(Verb::Write).await?; // invariant 4
            let start = apart.ring.place(size);
            let written = apart.device.write(start, data.to_vec(), how).await;
            // If it is not to be trusted by now, the members get the record as well.
            if written.is_ok() && !apart.is_left.get() {
                apart.records.set(apart.records.get() + 1);
                return Ok((apart.ring.clone(), start));
            }
            self.give_up(&apart); // it may have the record, so no other one may have its number
        }
        let start = self.own.place(size);
        loop {
            self.members.settled(Verb::Write).await?; // invariant 4
            let keepers = self.keepers(sequence);
            let write = |slot| self.members.write(slot, LOG_START + start, data.to_vec(), how);
            join_all(keepers.iter().map(write)).await;
            if self.members.gave_up() {
                return Err(IoError::closed(Verb::Write)); // one of them has no room for it
            }
            if self.members.all().0 & keepers.0 == keepers.0 {
                return Ok((self.own.clone(), start));
            } // else one of them is out by now, and others get the record
        }
    }

    /// Notes that a group of this record is in place.
    pub(crate) fn gone_home(&self, sequence: u64) {
        for live in &mut *self.live.borrow_mut() {
            if live.sequence == sequence {
                live.outstanding -= 1;
            }
        }
        self.moved.notify();
    }
}
