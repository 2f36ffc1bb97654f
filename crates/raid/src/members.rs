//! The members of an open set: which are in, how a member goes out, and how one comes in.
//!
//! A member that fails a write or a flush is *out*: it gets no more calls, and the labels of all
//! others say that it is out. Until these are durable, and the witness is, no write may be
//! acknowledged that the member has missed, or may have missed ([`Members::settled`]). A member
//! that a person takes out goes the same way, and the labels say that a person did: only a person
//! brings it back.
//!
//! One member at a time may be *coming*: it is rebuilt from the others, stripe by stripe, and gets
//! the writes to stripes that it already has. Its label is written before those of the others, so
//! that the earlier story is still on those if that is interrupted.
//!
//! A member that is in may be replaced: then all writes to its slot go to the new disk as well
//! ([`crate::replace`]).
//!
//! Invariants:
//! 1. A member that is out comes in only when it has every stripe, and all of that is durable.
//! 2. While the labels do not say durably which members are in, the set is not settled.
//! 3. A set with too few members has stopped, and stays so.
//!
//! Not asserted: 2 and 3, which the functions that ask for them compute.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use bytes::Bytes;
use futures::future::{Either, LocalBoxFuture, join, join_all, select};
use runtime::sync::{Lock, Signal};
use runtime::{Clock, Instant};

use crate::assembly::Witness;
use crate::blocks::BLOCK;
use crate::health::Health;
use crate::incoming::Incoming;
use crate::label::{Label, Nvram, Slot, Standing};
use crate::labels::write_label;
use crate::pace::Pace;
use crate::planted::{Bug, is_planted};
use crate::record::{Change, Slots};
use crate::room::{Refusal, Refusals};
use crate::status::{Counts, Met};
use crate::unread::Unread;
use crate::watch::{Calls, SILENT_AFTER, Watched};

/// Makes a story durable outside of the set: it is when this completes.
pub type Witnessed = Rc<dyn Fn(Witness) -> LocalBoxFuture<'static, ()>>;

/// Pause before a write that found no space is retried.
const AGAIN: Duration = Duration::from_millis(500);
/// The first and the last pause between attempts to read data that no other disk has.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(13);
/// Time for which a write may find no space before its caller gets an error.
const LONG: Duration = Duration::from_secs(1);
/// Time for which a closed set waits for the witness.
const PATIENCE: Duration = Duration::from_secs(2);

/// Outcome of waiting after a write that found no space.
enum Room {
    /// Retry the write.
    Again,
    /// The member is out.
    Never,
    /// Waits for space have ended: the set is being opened or closed.
    GivenUp,
}

/// The members; see the module.
pub(crate) struct Members {
    /// By slot.
    pub(crate) devices: RefCell<Vec<Option<Rc<dyn BlockDevice>>>>,
    /// The calls of each device.
    pub(crate) calls: RefCell<Vec<Rc<Calls>>>,
    /// The member being rebuilt, and the number of stripes that it has.
    pub(crate) coming: Cell<Option<(usize, u64)>>,
    /// The disk that is to replace a member that is in.
    pub(crate) incoming: RefCell<Option<Incoming>>,
    /// The other disk of a replacement that has ended, or is not resumed yet, with its slot: a
    /// source of blocks that the others cannot give.
    pub(crate) leaving: RefCell<Option<(usize, Rc<dyn BlockDevice>)>>,
    /// Disks that were found but are not members, each with its former slot: they are out, or other
    /// disks have taken their places.
    pub(crate) strangers: RefCell<Vec<(usize, Rc<dyn BlockDevice>)>>,
    /// Disks that are not members and did not answer: their address in memory, and the time.
    pub(crate) given_up: RefCell<BTreeMap<usize, Instant>>,
    /// The label in force; its own slot has no meaning.
    pub(crate) label: RefCell<Label>,
    /// For each slot, the label copy that was in force when the set was opened.
    holding: Vec<usize>,
    /// A readmitted member, which the labels of the others still call out.
    returning: Cell<Option<usize>>,
    /// The generation that all labels have, durably.
    told: Cell<u64>,
    telling: Lock,
    witnessed: Witnessed,
    pub(crate) clock: Rc<dyn Clock>,
    /// Writes that found no space, and are retried.
    refusals: Refusals,
    pub(crate) health: Health,
    /// Notified when a disk leaves its slot.
    pub(crate) left: Signal,
    /// Whether a person accepts losses: unreadable data is not retried.
    pub(crate) takes_losses: Cell<bool>,
    /// Slots whose members were in by the story, and were not found.
    pub(crate) gone: Cell<Slots>,
    /// Whether the set is being opened: a write without space is given up.
    is_opening: Cell<bool>,
    /// Whether the set is closed: no calls come, and no write is retried.
    is_closed: Cell<bool>,
    gave_up: Cell<bool>,
    /// Whether the set was closed before the witness had the last story.
    is_untold: Cell<bool>,
    pub(crate) counts: Counts,
    /// Blocks that members which are in, or being filled, did not get.
    pub(crate) unread: Unread,
    /// Throttle that shares the members between clients and a rebuild.
    pub(crate) pace: Pace,
}

impl Members {
    /// The members of a set with this label in force, and their devices by slot. Begins a new
    /// generation of the set.
    pub(crate) fn new(
        members: Vec<(Option<Rc<dyn BlockDevice>>, usize)>,
        mut label: Label,
        witnessed: Witnessed,
        clock: Rc<dyn Clock>,
        read_errors_per_hour: usize,
    ) -> Self {
        assert_eq!(members.len(), label.slots.len(), "a device, or none, for each slot");
        let (devices, holding): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let watched = devices.into_iter().map(|device| watched(device, &clock));
        let (devices, calls): (Vec<_>, Vec<_>) = watched.unzip();
        let (told, counts) = (Cell::new(label.generation), Counts::new(devices.len()));
        let health = Health::new(devices.len(), read_errors_per_hour);
        let refusals = Refusals::new(devices.len());
        label.generation += 1;
        let (devices, label) = (RefCell::new(devices), RefCell::new(label));
        let (coming, pace) = (Cell::new(None), Pace::new(clock.clone()));
        Self {
            devices,
            calls: RefCell::new(calls),
            coming,
            incoming: RefCell::default(),
            leaving: RefCell::default(),
            given_up: RefCell::default(),
            strangers: RefCell::default(),
            label,
            holding,
            returning: Cell::default(),
            told,
            telling: Lock::default(),
            witnessed,
            clock,
            refusals,
            health,
            left: Signal::new(),
            takes_losses: Cell::default(),
            gone: Cell::new(Slots(0)),
            is_opening: Cell::new(true),
            is_closed: Cell::new(false),
            gave_up: Cell::new(false),
            is_untold: Cell::new(false),
            counts,
            unread: Unread::default(),
            pace,
        }
    }

    /// Whether a write of logged data finds no space.
    pub(crate) fn are_full(&self) -> bool {
        self.refusals.is_any()
    }

    /// Whether that will not end by itself soon: a member that alone refuses an allocated range is
    /// put out after a while, if it can be spared.
    pub(crate) fn are_full_for_good(&self) -> bool {
        let ends = self.refusals.are_of_one() && self.can_spare_one();
        self.are_full() && (!ends || is_planted(Bug::EndlessRefusals))
    }

    /// Completes when a write has found no space.
    pub(crate) async fn filled(&self) {
        self.refusals.any().await;
    }

    /// Completes when a write has found no space for a while.
    pub(crate) async fn full_for_long(&self) {
        loop {
            self.filled().await;
            self.clock.sleep(LONG).await;
            if self.are_full_for_good() {
                return;
            }
        }
    }

    /// Completes when writes have found no space for this long without a break.
    pub(crate) async fn full_for(&self, limit: Duration) {
        loop {
            self.filled().await;
            let since = self.clock.now();
            while self.are_full() {
                if self.clock.now().since(since) >= limit {
                    return;
                }
                self.clock.sleep(AGAIN).await;
            }
        }
    }

    /// Ends the opening: from now on a write that finds no space is retried.
    pub(crate) fn are_open(&self) {
        self.is_opening.set(false);
    }

    /// Whether a write without space was given up while the set was opened or closed. Its data is
    /// in the log, which must not forget it.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    /// Closes the set to calls. Writes that find no space end: the log keeps their data.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
    }

    /// Whether the set is closed to calls.
    pub(crate) fn are_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Readmits a member that the labels of the others call out and that lacks nothing: its own
    /// label is written first.
    pub(crate) fn returns(&self, slot: usize) {
        self.returning.set(Some(slot));
    }

    /// The label in force.
    pub(crate) fn label(&self) -> Label {
        self.label.borrow().clone()
    }

    /// The members that are in.
    pub(crate) fn slots(&self) -> Slots {
        let label = self.label.borrow();
        let is_in = |slot: &usize| label.slots[*slot].standing == Standing::InSync;
        (0..label.slots.len()).filter(is_in).collect()
    }

    /// Whether all members are in.
    pub(crate) fn are_whole(&self) -> bool {
        self.label.borrow().is_whole()
    }

    /// The last generation in which all members were in.
    pub(crate) fn whole(&self) -> u64 {
        self.label.borrow().whole
    }

    /// Whether a member is in.
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.label.borrow().slots[slot].standing == Standing::InSync
    }

    /// Whether writes to a stripe go to this member: it is in, or has the stripe already.
    pub(crate) fn takes(&self, slot: usize, stripe: u64) -> bool {
        let has_stripe = |(coming, stripes)| coming == slot && stripe < stripes;
        self.has(slot) || self.coming.get().is_some_and(has_stripe)
    }

    /// The slot whose disk is being filled, and the number of stripes that the disk has.
    pub(crate) fn rebuild(&self) -> Option<(usize, u64)> {
        let incoming = || self.incoming.borrow().as_ref().map(|it| (it.slot, it.stripes));
        self.coming.get().or_else(incoming)
    }

    /// The member being rebuilt.
    pub(crate) fn coming(&self) -> Option<usize> {
        self.coming.get().map(|(slot, _)| slot)
    }

    /// The device of a member that is in.
    pub(crate) fn device(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        self.devices.borrow()[slot].clone().filter(|_| self.has(slot))
    }

    /// The device of a slot that is plugged in, whether its member is in or out.
    pub(crate) fn present(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        self.devices.borrow()[slot].clone()
    }

    /// The device of a member that takes writes.
    pub(crate) fn writable(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        let is_coming = self.coming() == Some(slot);
        self.devices.borrow()[slot].clone().filter(|_| self.has(slot) || is_coming)
    }

    /// The members that take writes.
    pub(crate) fn all(&self) -> Slots {
        self.slots().with(self.coming().into_iter().collect())
    }

    /// Every device that the set has, or had.
    pub(crate) fn all_devices(&self) -> Vec<Rc<dyn BlockDevice>> {
        let (incoming, leaving) = (self.incoming.borrow(), self.leaving.borrow());
        let others = incoming.iter().map(|it| &it.device);
        let others = others.chain(leaving.iter().map(|(_, device)| device));
        let strangers = self.strangers.borrow();
        let others = others.chain(strangers.iter().map(|(_, device)| device));
        self.devices.borrow().iter().flatten().chain(others).cloned().collect()
    }

    /// Begins to make a device the member of a slot that has no member in. It is so once the labels
    /// are settled.
    pub(crate) fn begin(&self, slot: usize, device: Rc<dyn BlockDevice>, becomes: Slot) {
        assert!(!self.has(slot) && self.coming().is_none(), "one comes for one that is out");
        self.unread.forget(slot);
        self.health.forget(slot);
        let is_same = self.calls.borrow()[slot].are_of(&device);
        let (device, calls) = watched(Some(device), &self.clock);
        let old = std::mem::replace(&mut self.devices.borrow_mut()[slot], device);
        self.calls.borrow_mut()[slot] = calls;
        // Another disk that had the slot is a source until the new one has everything.
        if let Some(old) = old.filter(|_| !is_same && !is_planted(Bug::ClosedSources)) {
            self.leaves(Some((slot, old)));
        }
        self.left.notify();
        self.coming.set(Some((slot, 0)));
        let mut label = self.label.borrow_mut();
        if label.slots[slot].member != becomes.member {
            label.replacement.take_if(|it| it.slot == slot); // another disk has the slot now
        }
        label.slots[slot] = becomes;
        label.generation += 1;
    }

    /// Records the number of stripes that a disk being filled has. Returns whether it is still to
    /// come in.
    pub(crate) fn has_come(&self, slot: usize, stripes: u64) -> bool {
        if let Some(incoming) = self.incoming.borrow_mut().as_mut().filter(|it| it.slot == slot) {
            incoming.stripes = stripes;
            return true;
        }
        let is_coming = self.coming() == Some(slot);
        if is_coming {
            self.coming.set(Some((slot, stripes)));
        }
        is_coming
    }

    /// Admits the member being filled, which has everything durably. It is in once the labels are
    /// settled.
    pub(crate) fn admit(&self, slot: usize) {
        let mut label = self.label.borrow_mut();
        let is_whole = self.coming.get() == Some((slot, label.layout.rows));
        assert!(is_whole, "invariant 1");
        label.slots[slot].standing = Standing::InSync;
        label.generation += 1;
    }

    /// Ends the rebuild of a member: it is like any other.
    pub(crate) fn is_settled_in(&self) {
        self.coming.set(None);
    }

    /// Whether too few members are in.
    pub(crate) fn have_stopped(&self) -> bool {
        self.slots().iter().count() < self.label.borrow().layout.needed()
    }

    /// Calls a member out. Writes that it may miss wait until the labels are settled.
    pub(crate) fn call_out(&self, slot: usize) {
        if self.is_replaced(slot) {
            return self.give_up_old();
        }
        let mut label = self.label.borrow_mut();
        let standing = label.slots[slot].standing;
        if !(standing.is_out() || standing == Standing::Empty) {
            label.slots[slot].standing = Standing::Stale;
            label.generation += 1;
        }
        if self.coming() == Some(slot) {
            self.coming.set(None);
        }
        drop(label);
        self.unread.forget(slot);
        self.left.notify();
    }

    /// Takes a member out because a person says so: only a person brings it back.
    pub(crate) fn take_offline(&self, slot: usize) {
        let mut label = self.label.borrow_mut();
        label.slots[slot].standing = Standing::Offline;
        label.replacement.take_if(|it| it.slot == slot);
        label.generation += 1;
        drop(label);
        self.unread.forget(slot);
        self.left.notify();
    }

    /// Records the NVRAM in front of the set: it is on the labels once they are settled.
    pub(crate) fn stand_behind(&self, nvram: Option<Nvram>) {
        let mut label = self.label.borrow_mut();
        if label.nvram != nvram {
            label.nvram = nvram;
            label.generation += 1;
        }
    }

    /// Handles a failed device: its member is out, unless the slot has another one by now.
    pub(crate) fn lose(&self, slot: usize, device: &Rc<dyn BlockDevice>) {
        if self.incoming(slot).is_some_and(|it| Rc::ptr_eq(&it, device)) {
            return self.end_replacement();
        }
        if self.is_of(slot, device) {
            self.counts.meet(slot, |met| met.write_errors += 1);
            self.call_out(slot);
        }
    }

    /// Counters of each member, and how long it has been silent.
    pub(crate) fn met(&self) -> Vec<Met> {
        let mut silences = Calls::silences(&self.calls.borrow());
        if let Some(incoming) = self.incoming.borrow().as_ref() {
            let waits = incoming.calls.waits().filter(|waits| *waits >= SILENT_AFTER);
            silences[incoming.slot] = silences[incoming.slot].max(waits);
        }
        let met = self.counts.met().into_iter().zip(silences).enumerate();
        let of = |(slot, (met, silent_for))| Met {
            silent_for,
            unread: self.unread.count(slot),
            is_failing: self.health.is_failing(slot),
            waits_for_room: self.refusals.is_of(slot),
            ..met
        };
        met.map(of).collect()
    }

    /// Calls members without a device out.
    pub(crate) fn call_out_missing(&self) {
        let devices = self.devices.borrow().clone();
        let missing = (0..devices.len()).filter(|&slot| devices[slot].is_none() && self.has(slot));
        missing.for_each(|slot| self.call_out(slot));
    }

    /// Whether the labels say durably which members are in, or the set has stopped acknowledging.
    pub(crate) fn are_settled(&self) -> bool {
        self.told.get() == self.label.borrow().generation || self.have_stopped()
    }

    /// Waits until the labels say durably which members are in.
    ///
    /// # Errors
    /// [`IoError`] of the verb when the set has stopped.
    pub(crate) async fn settled(&self, verb: Verb) -> Result<(), IoError> {
        while !self.are_settled() && !self.is_untold.get() && !is_planted(Bug::UntoldLosses) {
            let _alone = self.telling.exclusive().await;
            self.tell().await;
        }
        if self.have_stopped() || self.is_untold.get() { Err(lost(verb)) } else { Ok(()) }
    }

    /// Writes the label in force to all members that are in, one copy after the other; before that
    /// to a member that comes in. The copy that was in force at the opening is written second: a
    /// cut may tear the one being written, and an earlier cut may have torn the other.
    async fn tell(&self) {
        while !self.are_settled() && !self.is_untold.get() {
            let label = {
                let mut label = self.label.borrow_mut();
                label.number += 1;
                if label.is_whole() {
                    (label.whole, label.forced) = (label.generation, 0);
                }
                label.clone()
            };
            let new = self.rebuild().map(|(slot, _)| slot);
            let new: Slots = new.into_iter().chain(self.returning.get()).collect();
            let turns = [(new, true), (self.slots(), false)];
            for (slots, is_new) in turns {
                for turn in 0..2 {
                    let writes = slots.iter().filter_map(|slot| {
                        let (device, is_incoming) = self.labelled(slot, is_new, &label)?;
                        let label = Label { slot, is_incoming, ..label.clone() };
                        let first =
                            if is_planted(Bug::SameCopies) { 0 } else { 1 - self.holding[slot] };
                        let copy = first ^ turn;
                        Some(async move { self.put_label(slot, &device, &label, copy).await })
                    });
                    join_all(writes.collect::<Vec<_>>()).await;
                }
            }
            if self.is_untold.get() {
                return; // a label was given up, and its member is no worse than the others
            }
            if self.label.borrow().generation == label.generation {
                let telling = (self.witnessed)(Witness::of(&label));
                match select(telling, pin!(self.closed_for_long())).await {
                    Either::Left(_) => {
                        self.told.set(label.generation);
                        self.returning.set(None);
                    }
                    Either::Right(_) => self.is_untold.set(true),
                }
            }
        }
    }

    /// Writes a label. A device that fails is out; for one without space it waits.
    async fn put_label(
        &self,
        slot: usize,
        device: &Rc<dyn BlockDevice>,
        label: &Label,
        copy: usize,
    ) {
        let mut refusal = None;
        loop {
            let writing = write_label(&**device, label, copy);
            let error = match self.answer(slot, device, writing, Verb::Write).await {
                Err(error) if self.is_used(slot, device) => error,
                _ => return,
            };
            if is_planted(Bug::HastyLabels) {
                return self.lose(slot, device);
            }
            match self.wait_for_room(slot, &error, &mut refusal).await {
                Room::Again => {}
                Room::Never => return self.lose(slot, device),
                Room::GivenUp => {
                    self.gave_up.set(true);
                    return self.is_untold.set(true); // nothing is acknowledged any more
                }
            }
        }
    }

    /// Completes when the set was closed a while ago: then the witness seems unreachable, and
    /// nothing that depends on it is acknowledged any more.
    async fn closed_for_long(&self) {
        while !self.is_closed.get() {
            self.clock.sleep(AGAIN).await;
        }
        self.clock.sleep(PATIENCE).await;
    }

    /// Reads from a member. `None` if it is out, or cannot read the range.
    pub(crate) async fn read(&self, slot: usize, offset: u64, buffer: Buffer) -> Option<Buffer> {
        if self.has(slot) { self.look(slot, offset, buffer).await?.ok() } else { None }
    }

    /// Reads from a member that is in, or being filled. Errors are counted by blocks: a longer read
    /// that fails is retried block by block.
    ///
    /// # Errors
    /// [`IoError`] if the range cannot be read. `None` if the member is out.
    pub(crate) async fn look(
        &self,
        slot: usize,
        offset: u64,
        buffer: Buffer,
    ) -> Option<Result<Buffer, IoError>> {
        let device = self.writable(slot)?;
        let is_block = buffer.len() as u64 <= BLOCK;
        let read = self.answer(slot, &device, device.read(offset, buffer), Verb::Read).await;
        Some(read.inspect_err(|_| {
            // Another disk may have the slot meanwhile.
            if is_block && self.is_of(slot, &device) {
                self.counts.meet(slot, |met| met.read_errors += 1);
                self.health.note_error(slot, offset, self.clock.now());
            }
        }))
    }

    /// Retries, for about half a minute, a read of data that no other disk has: a cable or a
    /// controller may need that long, and unread data must not pass for absent data.
    pub(crate) async fn retry<T>(
        &self,
        attempt: impl AsyncFn() -> T,
        is_enough: impl Fn(&T) -> bool,
    ) -> T {
        let mut pause = FIRST_PAUSE;
        loop {
            let read = attempt().await;
            let is_last = pause > LAST_PAUSE || self.takes_losses.get();
            if is_enough(&read) || is_last || is_planted(Bug::HastyReads) {
                return read;
            }
            self.clock.sleep(pause).await;
            pause *= 2;
        }
    }

    /// The answer of a slot's device, unless the disk leaves the slot first: a hanging disk may
    /// never answer, and no call waits for one that is out.
    pub(crate) async fn answer<T>(
        &self,
        slot: usize,
        device: &Rc<dyn BlockDevice>,
        answer: impl Future<Output = Result<T, IoError>>,
        verb: Verb,
    ) -> Result<T, IoError> {
        let gone = async {
            while self.is_used(slot, device) || is_planted(Bug::PatientCalls) {
                self.left.wait().await;
            }
        };
        match select(pin!(answer), pin!(gone)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(IoError::closed(verb)),
        }
    }

    /// Whether a device is that of a slot, and in or being filled, or is incoming there.
    pub(crate) fn is_used(&self, slot: usize, device: &Rc<dyn BlockDevice>) -> bool {
        let is_incoming = || self.incoming(slot).is_some_and(|it| Rc::ptr_eq(&it, device));
        let is_in = self.has(slot) || self.coming() == Some(slot);
        is_in && self.is_of(slot, device) || is_incoming()
    }

    /// Whether a device is that of any slot, and in or being filled.
    pub(crate) fn is_member(&self, device: &Rc<dyn BlockDevice>) -> bool {
        (0..self.label.borrow().slots.len()).any(|slot| self.is_used(slot, device))
    }

    /// Whether this is the device of a slot.
    fn is_of(&self, slot: usize, device: &Rc<dyn BlockDevice>) -> bool {
        self.devices.borrow()[slot].as_ref().is_some_and(|it| Rc::ptr_eq(it, device))
    }

    /// Reads back a block that was rewritten on a member, and returns whether the member gave it. A
    /// failing member that gives back no rewritten block is put out if it can be spared.
    pub(crate) async fn reads_back(&self, slot: usize, offset: u64, bytes: &[u8]) -> bool {
        if is_planted(Bug::UnreadMends) {
            return true;
        }
        let Some(device) = self.device(slot) else { return false };
        let read = device.read_medium(offset, Buffer::unfilled(bytes.len()));
        let read = self.answer(slot, &device, read, Verb::Read).await;
        let is_given_back = read.is_ok_and(|read| read[..] == *bytes);
        if !self.is_of(slot, &device) {
            return is_given_back;
        }
        let is_hopeless = self.health.note_rewrite(slot, offset, is_given_back);
        if is_hopeless && self.has(slot) && self.can_spare_one() {
            self.call_out(slot);
        }
        is_given_back
    }

    /// Whether enough members are in without one of them.
    fn can_spare_one(&self) -> bool {
        self.slots().iter().count() > self.label.borrow().layout.needed()
    }

    /// Writes to a member that is in, or being filled, and to the disk that is to replace it. A
    /// disk that fails is out.
    pub(crate) async fn write(
        &self,
        slot: usize,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) {
        let incoming = self.write_incoming(slot, offset, data.clone(), durability);
        if self.is_replaced(slot) && is_planted(Bug::MissedLeavers) {
            return incoming.await;
        }
        join(self.write_member(slot, offset, data, durability), incoming).await;
    }

    /// Writes to a disk that is being filled: a member that comes, or one that is to replace a
    /// member, which gets nothing of this.
    pub(crate) async fn fill(&self, slot: usize, offset: u64, data: Vec<Bytes>) {
        if self.coming() == Some(slot) {
            return self.write_member(slot, offset, data, Durability::Plain).await;
        }
        self.write_incoming(slot, offset, data, Durability::Plain).await;
    }

    async fn write_member(
        &self,
        slot: usize,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) {
        let mut refusal = None;
        while let Some(device) = self.writable(slot) {
            let write = device.write(offset, data.clone(), durability);
            let error = match self.answer(slot, &device, write, Verb::Write).await {
                Ok(()) => return,
                Err(_) if !self.is_used(slot, &device) => continue,
                Err(error) => error,
            };
            // Plain data stays in the log until it is in place.
            match self.wait_for_room(slot, &error, &mut refusal).await {
                Room::Again => {}
                Room::Never => return self.lose(slot, &device),
                Room::GivenUp => return self.gave_up.set(true),
            }
        }
    }

    /// Waits after a failed write if its member is not a dead disk: its host may be full.
    async fn wait_for_room<'m>(
        &'m self,
        slot: usize,
        error: &IoError,
        refusal: &mut Option<Refusal<'m>>,
    ) -> Room {
        if !error.is_full() || !self.has(slot) {
            return Room::Never;
        }
        let now = self.clock.now();
        let refusal =
            refusal.get_or_insert_with(|| self.refusals.begin(slot, error.was_allocated, now));
        let is_overdue = refusal.is_overdue(now);
        // A member that is being replaced need not be waited for.
        let is_its_fault = is_overdue && error.was_allocated || self.is_replaced(slot);
        if is_its_fault && self.can_spare_one() && !is_planted(Bug::EndlessRefusals) {
            return Room::Never;
        }
        let may_pass = error.was_allocated && !is_overdue && !refusal.is_shared();
        if self.is_closed.get() || self.is_opening.get() && !may_pass {
            return Room::GivenUp;
        }
        self.clock.sleep(AGAIN).await;
        Room::Again
    }

    /// Writes to a member plainly, once. Returns whether there was space; a member that fails
    /// otherwise is out.
    pub(crate) async fn write_if_room(&self, slot: usize, offset: u64, data: Bytes) -> bool {
        let incoming = self.write_incoming(slot, offset, vec![data.clone()], Durability::Plain);
        join(self.write_member_if_room(slot, offset, data), incoming).await.0
    }

    async fn write_member_if_room(&self, slot: usize, offset: u64, data: Bytes) -> bool {
        let Some(device) = self.writable(slot) else { return true };
        let write = device.write(offset, vec![data], Durability::Plain);
        match self.answer(slot, &device, write, Verb::Write).await {
            Ok(()) => return true,
            Err(error) if error.is_full() && self.has(slot) => return false,
            Err(_) => self.lose(slot, &device),
        }
        true
    }

    /// Writes changes in place, plainly.
    pub(crate) async fn bring_home(&self, data_start: u64, changes: &[Change]) {
        let writes = changes.iter().flat_map(|change| {
            let at = data_start + change.offset;
            let write = move |slot| self.write(slot, at, change.data.clone(), Durability::Plain);
            change.slots.iter().map(write)
        });
        join_all(writes).await;
    }

    /// Flushes all members that are in or being filled. One that fails is out.
    pub(crate) async fn flush(&self) {
        let of_slot = |slot| [self.writable(slot), self.incoming(slot)].into_iter().flatten();
        let flushes = self.all().iter().flat_map(|slot| {
            of_slot(slot).map(move |device| async move {
                // Without delay: another flush would succeed, and hide what this one has lost.
                let flushed = self.answer(slot, &device, device.flush(), Verb::Flush).await;
                if flushed.is_err() && self.is_used(slot, &device) {
                    self.lose(slot, &device);
                }
            })
        });
        join_all(flushes.collect::<Vec<_>>()).await;
    }
}

/// Wraps a device so that its calls are recorded, and returns the record.
pub(crate) fn watched(
    device: Option<Rc<dyn BlockDevice>>,
    clock: &Rc<dyn Clock>,
) -> (Option<Rc<dyn BlockDevice>>, Rc<Calls>) {
    let calls = Rc::new(Calls::new(device.as_ref(), clock.clone()));
    let watched = device.map(|device| Rc::new(Watched::new(device, calls.clone())) as Rc<_>);
    (watched, calls)
}

/// Error when a disk that cannot be read may have the data. The caller fills in the range.
pub(crate) fn unread(verb: Verb) -> IoError {
    IoError::new(verb, 0, 0, ErrorKind::TimedOut)
}

/// Error when the remaining members do not have the data. The caller fills in the range.
pub(crate) fn lost(verb: Verb) -> IoError {
    IoError::new(verb, 0, 0, ErrorKind::Other)
}
