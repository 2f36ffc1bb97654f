//! The members of a set that is in use: who is in it, how a member leaves, and how one comes in.
//!
//! A member that fails a write or a flush is *out*: it is asked nothing more, and the labels of all
//! others say so. Until these are durable, and the witness is, nothing may be acknowledged that the
//! member has missed, or may have ([`Members::settled`]). A member that a person takes out goes the
//! same way, and the labels say that a person did: nothing but a person's word brings it back.
//!
//! One member at a time may be *coming*: it is made again of the others, stripe by stripe, and gets
//! what is written to those that it has. Its label is written before those of the others, so that
//! what came before is still told if that is interrupted.
//!
//! A member that is in may be replaced: then all that is written to its slot goes to the new disk
//! as well ([`crate::replace`]).
//!
//! Invariants:
//! 1. A member that is out comes in when it has every stripe, and all of that is durable.
//! 2. While the labels do not say durably who is in, the set is not settled.
//! 3. With fewer members than it takes the set has stopped, and stays so.
//!
//! Not asserted: 2 and 3, which are what the functions that ask for it compute.

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
use crate::label::{Label, Slot, Standing};
use crate::labels::write_label;
use crate::pace::Pace;
use crate::planted::{Bug, is_planted};
use crate::record::{Change, Slots};
use crate::room::{Refusal, Refusals};
use crate::status::{Counts, Met};
use crate::unread::Unread;
use crate::watch::{Calls, SILENT_AFTER, Watched};

/// What becomes of a story outside of the set: it is durable there when this completes.
pub type Witnessed = Rc<dyn Fn(Witness) -> LocalBoxFuture<'static, ()>>;

/// After so long a write that found no room below is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// The first and the last pause between two attempts to read what nobody else has.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(13);
/// So long a write may find no room before its caller is told.
const LONG: Duration = Duration::from_secs(1);
/// So long a set that is closed waits for the witness.
const PATIENCE: Duration = Duration::from_secs(2);

/// What becomes of a write that found no room.
enum Room {
    /// It is to be tried again.
    Again,
    /// Its member is out.
    Never,
    /// Nobody waits for room any more: the set is being opened or closed.
    GivenUp,
}

/// See the module's prose.
pub(crate) struct Members {
    /// By slot.
    pub(crate) devices: RefCell<Vec<Option<Rc<dyn BlockDevice>>>>,
    /// The calls of each of them.
    pub(crate) calls: RefCell<Vec<Rc<Calls>>>,
    /// The member that is made again, and how many stripes it has.
    pub(crate) coming: Cell<Option<(usize, u64)>>,
    /// The disk that is to take the place of a member which is in.
    pub(crate) incoming: RefCell<Option<Incoming>>,
    /// The other disk of a replacement that has ended, or does not go on yet, and the slot: it is
    /// asked for what the others cannot give.
    pub(crate) leaving: RefCell<Option<(usize, Rc<dyn BlockDevice>)>>,
    /// Disks that were found and are no members, each with the slot of which it was one: they are
    /// out, or others have taken their places.
    pub(crate) strangers: RefCell<Vec<(usize, Rc<dyn BlockDevice>)>>,
    /// Disks that are no members and did not answer: where they lie in memory, and when.
    pub(crate) given_up: RefCell<BTreeMap<usize, Instant>>,
    /// What holds of the set; its slot is no one's.
    pub(crate) label: RefCell<Label>,
    /// The copy of its label that was found to hold, of each slot.
    holding: Vec<usize>,
    /// A member that the labels of the others still call out.
    returning: Cell<Option<usize>>,
    /// The generation that the labels of all have, durably.
    told: Cell<u64>,
    telling: Lock,
    witnessed: Witnessed,
    pub(crate) clock: Rc<dyn Clock>,
    /// Writes that found no room below, and are tried again.
    refusals: Refusals,
    pub(crate) health: Health,
    /// Notified when a disk leaves its slot.
    pub(crate) left: Signal,
    /// A person takes what is left: what cannot be read is not tried again.
    pub(crate) takes_losses: Cell<bool>,
    /// The set is being opened: such a write is given up.
    is_opening: Cell<bool>,
    /// No call comes any more, and no write is tried again.
    is_closed: Cell<bool>,
    gave_up: Cell<bool>,
    /// The witness was not told of the last story when the set was closed.
    is_untold: Cell<bool>,
    pub(crate) counts: Counts,
    /// Blocks that those which are in, or come, were not given.
    pub(crate) unread: Unread,
    /// Who has them when.
    pub(crate) pace: Pace,
}

impl Members {
    /// These devices, by slot, of a set of which this label holds. A new generation of it begins.
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
            is_opening: Cell::new(true),
            is_closed: Cell::new(false),
            gave_up: Cell::new(false),
            is_untold: Cell::new(false),
            counts,
            unread: Unread::default(),
            pace,
        }
    }

    /// Whether a write of what the log has finds no room below.
    pub(crate) fn are_full(&self) -> bool {
        self.refusals.is_any()
    }

    /// Whether that does not end by itself soon: a member that alone refuses what was allocated is
    /// out after a while, if it can be spared.
    pub(crate) fn are_full_for_good(&self) -> bool {
        let ends = self.refusals.are_of_one() && self.can_spare_one();
        self.are_full() && (!ends || is_planted(Bug::EndlessRefusals))
    }

    /// Completes when one has.
    pub(crate) async fn filled(&self) {
        self.refusals.any().await;
    }

    /// Completes when one has found none for a while.
    pub(crate) async fn full_for_long(&self) {
        loop {
            self.filled().await;
            self.clock.sleep(LONG).await;
            if self.are_full_for_good() {
                return;
            }
        }
    }

    /// Completes when a write has found no room for so long without a pause.
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

    /// The set is open: what finds no room is tried again from now on.
    pub(crate) fn are_open(&self) {
        self.is_opening.set(false);
    }

    /// Whether a write was given up that found no room when the set was opened or closed. What it
    /// had is in the log, which must not forget it.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    /// No call comes any more. Writes that find no room end: the log keeps what they had.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
    }

    /// Whether no call comes any more.
    pub(crate) fn are_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// The labels of the others call this one out, and it lacks nothing: its own comes first.
    pub(crate) fn returns(&self, slot: usize) {
        self.returning.set(Some(slot));
    }

    /// What holds of the set now.
    pub(crate) fn label(&self) -> Label {
        self.label.borrow().clone()
    }

    /// Those that are in.
    pub(crate) fn slots(&self) -> Slots {
        let label = self.label.borrow();
        let is_in = |slot: &usize| label.slots[*slot].standing == Standing::InSync;
        (0..label.slots.len()).filter(is_in).collect()
    }

    /// Whether all of the set are in.
    pub(crate) fn are_whole(&self) -> bool {
        self.label.borrow().is_whole()
    }

    /// The last generation by which all were in.
    pub(crate) fn whole(&self) -> u64 {
        self.label.borrow().whole
    }

    /// Whether this one is in.
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.label.borrow().slots[slot].standing == Standing::InSync
    }

    /// Whether what is written to a stripe goes to this one: it is in, or has the stripe already.
    pub(crate) fn takes(&self, slot: usize, stripe: u64) -> bool {
        let has_stripe = |(coming, stripes)| coming == slot && stripe < stripes;
        self.has(slot) || self.coming.get().is_some_and(has_stripe)
    }

    /// The slot for which a disk is filled, and how many stripes that has.
    pub(crate) fn rebuild(&self) -> Option<(usize, u64)> {
        let incoming = || self.incoming.borrow().as_ref().map(|it| (it.slot, it.stripes));
        self.coming.get().or_else(incoming)
    }

    /// The member that is made again.
    pub(crate) fn coming(&self) -> Option<usize> {
        self.coming.get().map(|(slot, _)| slot)
    }

    /// The device of a member that is in.
    pub(crate) fn device(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        self.devices.borrow()[slot].clone().filter(|_| self.has(slot))
    }

    /// The device of a slot as long as it is there, in or out.
    pub(crate) fn present(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        self.devices.borrow()[slot].clone()
    }

    /// The device of a member to which may be written.
    pub(crate) fn writable(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        let is_coming = self.coming() == Some(slot);
        self.devices.borrow()[slot].clone().filter(|_| self.has(slot) || is_coming)
    }

    /// Those to which may be written.
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

    /// A device is to be made the member of a slot that no member has. That is so when it is
    /// settled.
    pub(crate) fn begin(&self, slot: usize, device: Rc<dyn BlockDevice>, becomes: Slot) {
        assert!(!self.has(slot) && self.coming().is_none(), "one comes for one that is out");
        self.unread.forget(slot);
        self.health.forget(slot);
        let is_same = self.calls.borrow()[slot].are_of(&device);
        let (device, calls) = watched(Some(device), &self.clock);
        let old = std::mem::replace(&mut self.devices.borrow_mut()[slot], device);
        self.calls.borrow_mut()[slot] = calls;
        // Another disk that was of the slot is a source until the new one has everything.
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

    /// The disk that is filled has so many stripes. Whether it is still to come in.
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

    /// The member that comes has everything, durably. It is in when that is settled.
    pub(crate) fn admit(&self, slot: usize) {
        let mut label = self.label.borrow_mut();
        let is_whole = self.coming.get() == Some((slot, label.layout.rows));
        assert!(is_whole, "invariant 1");
        label.slots[slot].standing = Standing::InSync;
        label.generation += 1;
    }

    /// The member that came is as any other.
    pub(crate) fn is_settled_in(&self) {
        self.coming.set(None);
    }

    /// Whether there are too few.
    pub(crate) fn have_stopped(&self) -> bool {
        self.slots().iter().count() < self.label.borrow().layout.needed()
    }

    /// Calls a member out. What may be missed by it waits until that is settled.
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

    /// Calls a member out because a person says so: it comes back only when a person says that.
    pub(crate) fn take_offline(&self, slot: usize) {
        let mut label = self.label.borrow_mut();
        label.slots[slot].standing = Standing::Offline;
        label.replacement.take_if(|it| it.slot == slot);
        label.generation += 1;
        drop(label);
        self.unread.forget(slot);
        self.left.notify();
    }

    /// A device has failed: its member is out, unless the slot has another one by now.
    pub(crate) fn lose(&self, slot: usize, device: &Rc<dyn BlockDevice>) {
        if self.incoming(slot).is_some_and(|it| Rc::ptr_eq(&it, device)) {
            return self.end_replacement();
        }
        if self.is_of(slot, device) {
            self.counts.meet(slot, |met| met.write_errors += 1);
            self.call_out(slot);
        }
    }

    /// What each has met, and which do not answer.
    pub(crate) fn met(&self) -> Vec<Met> {
        let mut silences = Calls::silences(&self.calls.borrow());
        if let Some(incoming) = self.incoming.borrow().as_ref() {
            let waits = incoming.calls.waits().filter(|waits| *waits >= SILENT_AFTER);
            silences[incoming.slot] = silences[incoming.slot].max(waits);
        }
        let met = self.counts.met().into_iter().zip(silences).enumerate();
        let of = |(slot, (met, silent_for))| Met {
            silent_for,
            unread: self.unread.of(slot).len() as u64,
            is_failing: self.health.is_failing(slot),
            waits_for_room: self.refusals.is_of(slot),
            ..met
        };
        met.map(of).collect()
    }

    /// Calls those out of which there is no device.
    pub(crate) fn call_out_missing(&self) {
        let devices = self.devices.borrow().clone();
        let missing = (0..devices.len()).filter(|&slot| devices[slot].is_none() && self.has(slot));
        missing.for_each(|slot| self.call_out(slot));
    }

    /// Whether the labels say durably who is in, or nothing is acknowledged any more.
    pub(crate) fn are_settled(&self) -> bool {
        self.told.get() == self.label.borrow().generation || self.have_stopped()
    }

    /// Waits until the labels say durably who is in.
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

    /// Writes what holds to the labels of all that are in, to one copy after the other; before that
    /// to those of one that comes in. The copy that was found to hold comes second: a cut may tear
    /// the one that is written, and an earlier cut has perhaps torn the other.
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

    /// Writes a label. A device that fails is out; one without room is waited for.
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

    /// Completes when the set was closed a while ago: the witness cannot be told, it seems, and
    /// nothing is acknowledged any more that waits for that.
    async fn closed_for_long(&self) {
        while !self.is_closed.get() {
            self.clock.sleep(AGAIN).await;
        }
        self.clock.sleep(PATIENCE).await;
    }

    /// Reads from a member. `None` if it is out, or cannot read that.
    pub(crate) async fn read(&self, slot: usize, offset: u64, buffer: Buffer) -> Option<Buffer> {
        if self.has(slot) { self.look(slot, offset, buffer).await?.ok() } else { None }
    }

    /// Reads from a member that is in, or comes. Errors are counted by blocks: a longer read that
    /// fails is tried again block by block.
    ///
    /// # Errors
    /// [`IoError`] if that cannot be read. `None` if it is out.
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

    /// Repeats a read of what no other disk has, for about half a minute: a cable or a controller
    /// may need that, and nothing unread may pass for nothing.
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

    /// What a device of a slot answers, unless it leaves the slot first: a disk that hangs may
    /// never answer, and nobody waits for one that is out.
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

    /// Whether a device is that of a slot and in, or comes, or is incoming there.
    pub(crate) fn is_used(&self, slot: usize, device: &Rc<dyn BlockDevice>) -> bool {
        let is_incoming = || self.incoming(slot).is_some_and(|it| Rc::ptr_eq(&it, device));
        let is_in = self.has(slot) || self.coming() == Some(slot);
        is_in && self.is_of(slot, device) || is_incoming()
    }

    /// Whether a device is that of any slot, and in, or comes.
    pub(crate) fn is_member(&self, device: &Rc<dyn BlockDevice>) -> bool {
        (0..self.label.borrow().slots.len()).any(|slot| self.is_used(slot, device))
    }

    /// Whether this is the device of a slot.
    fn is_of(&self, slot: usize, device: &Rc<dyn BlockDevice>) -> bool {
        self.devices.borrow()[slot].as_ref().is_some_and(|it| Rc::ptr_eq(it, device))
    }

    /// Reads back what was written to a member anew. Whether the member gave it; one that is
    /// failing, and gives back nothing of what is written to it, is out if it can be spared.
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

    /// Writes to a member, if it is in, or comes, and to the disk that is to take its place. One
    /// that fails is out.
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

    /// Fills a disk with what it is to have: one that comes, or that is to take the place of a
    /// member, which gets nothing of it.
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
            // What is plain stays in the log until it is home.
            match self.wait_for_room(slot, &error, &mut refusal).await {
                Room::Again => {}
                Room::Never => return self.lose(slot, &device),
                Room::GivenUp => return self.gave_up.set(true),
            }
        }
    }

    /// Waits after a write that failed, if its member is no dead disk: its host may be full.
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

    /// Writes to a member plainly, once. Whether it found room; one that fails otherwise is out.
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

    /// Writes changes where they belong, plainly.
    pub(crate) async fn bring_home(&self, data_start: u64, changes: &[Change]) {
        let writes = changes.iter().flat_map(|change| {
            let at = data_start + change.offset;
            let write = move |slot| self.write(slot, at, change.data.clone(), Durability::Plain);
            change.slots.iter().map(write)
        });
        join_all(writes).await;
    }

    /// Flushes all that are in, and one that comes. Who fails is out.
    pub(crate) async fn flush(&self) {
        let of_slot = |slot| [self.writable(slot), self.incoming(slot)].into_iter().flatten();
        let flushes = self.all().iter().flat_map(|slot| {
            of_slot(slot).map(move |device| async move {
                // At once: another flush would succeed, and say nothing of what this one has lost.
                let flushed = self.answer(slot, &device, device.flush(), Verb::Flush).await;
                if flushed.is_err() && self.is_used(slot, &device) {
                    self.lose(slot, &device);
                }
            })
        });
        join_all(flushes.collect::<Vec<_>>()).await;
    }
}

/// A device whose calls are noted, and these.
pub(crate) fn watched(
    device: Option<Rc<dyn BlockDevice>>,
    clock: &Rc<dyn Clock>,
) -> (Option<Rc<dyn BlockDevice>>, Rc<Calls>) {
    let calls = Rc::new(Calls::new(device.as_ref(), clock.clone()));
    let watched = device.map(|device| Rc::new(Watched::new(device, calls.clone())) as Rc<_>);
    (watched, calls)
}

/// What is answered when the members that are left do not have it. The range is the caller's.
pub(crate) fn lost(verb: Verb) -> IoError {
    IoError::new(verb, 0, 0, ErrorKind::Other)
}
