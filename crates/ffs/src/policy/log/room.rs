//! Room in the log: reserved before an Update is applied, so that staging never waits.
//!
//! The circle has room while the tail is not a circle ahead of the *durable* head. A task that
//! finds none wakes the sync, which moves the head, and has the head named in a slot if no entry is
//! about to do that. A little is kept back for the entries that the writer makes itself. A request
//! is never larger than an empty log, so it succeeds if the volume's disk responds.
//!
//! While that disk cannot write the changes that hold the head, because the filesystem below it is
//! full, no room comes: a task that wants some gets an error and releases its locks. Only an Update
//! that continues an operation waits: a file is not left in the middle of its truncation.

use std::pin::pin;
use std::time::Duration;

use block::IoError;
use futures::future::{Either, pending, select};
use journal::format::{SEGMENT, UNIT};
use vfs::{FsError, Lost};

use super::{RedoLog, SharedLog};
use crate::planted::{Bug, is_planted};

/// Bytes kept back for entries without reserved room: see `RedoLog::repeat`. Rewritten answers take
/// at most one segment of it, and chains of all volumes another one. The rest is for recovery after
/// a crash at that point: the next epoch begins with a segment, and needs one for the chains that
/// it takes over.
const KEPT_BACK: u64 = 5 * SEGMENT;
/// Maximum room reserved for entries of one volume that wait for the writer: a few batches, or a
/// part of a small log.
const MOST_QUEUED: u64 = 8 << 20;
/// Wait for room that is counted, and reported to the administrator, as a long one.
const LONG_WAIT: Duration = Duration::from_secs(10);
/// Pause between two attempts to get room that a stopped volume holds.
const PAUSE: Duration = Duration::from_millis(100);

fn kept_back() -> u64 {
    if is_planted(Bug::NothingKeptBack) { 0 } else { KEPT_BACK }
}

impl RedoLog {
    /// Whether too much of this volume waits for the writer to admit more (invariant 10).
    pub(super) fn is_crowded(&self) -> bool {
        let most = (self.shared.journal.capacity() / 4).min(MOST_QUEUED);
        self.queued.get() > most && !is_planted(Bug::EndlessQueue)
    }

    /// Waits until the writer has taken some of it, or has stopped.
    pub(super) async fn await_writer(&self) {
        while self.is_crowded() && !self.horizon.has_failed() {
            let freed = self.shared.freed.wait();
            self.commit_soon();
            freed.await;
        }
    }

    /// Waits until the sync has written enough of the pinned blocks in place, or can write none. An
    /// Update that goes on with an operation waits for the device below to have room.
    pub(super) async fn await_landing(&self, goes_on: bool) {
        let is_refused = || self.home.data().refusals().is_waiting() && !goes_on;
        while self.home.pins_too_much() && !self.horizon.has_failed() && !is_refused() {
            let landed = self.landed.wait();
            self.commit_soon();
            self.kick_sync();
            landed.await;
        }
    }

    /// Waits for `room` bytes, which an empty log has. Unless it `goes_on` with an operation, it
    /// does not wait for the device below to have room.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] in that case; [`FsError::Io`] if the volume has stopped.
    pub(super) async fn set_aside(&self, room: u64, goes_on: bool) -> Result<u64, FsError> {
        if goes_on {
            return Ok(self.await_room(room).await?);
        }
        match select(pin!(self.await_room(room)), pin!(self.no_room_comes())).await {
            Either::Left((taken, _)) => Ok(taken?),
            // The task ahead in the queue may want more than there is.
            Either::Right(_) => self.take_room(room)?.ok_or(FsError::NoSpace),
        }
    }

    /// Completes when the changes that hold the head find the device below full.
    pub(super) async fn no_room_comes(&self) {
        if is_planted(Bug::PatientChanges) {
            pending::<()>().await;
        }
        while !self.shared.is_refused() {
            self.shared.freed.wait().await;
        }
    }

    async fn await_room(&self, room: u64) -> Result<u64, Lost> {
        let shared = &self.shared;
        let most = shared.journal.capacity() - KEPT_BACK;
        assert!(room <= most, "{room} bytes are never free of {most}: nobody would get any");
        let _turn = shared.queue.acquire(1).await;
        if let Some(taken) = self.take_room(room)? {
            return Ok(taken);
        }
        let patience = shared.runtime.clock.sleep(LONG_WAIT);
        match select(pin!(self.wait_for_room(room)), patience).await {
            Either::Left((taken, _)) => taken,
            Either::Right(((), waiting)) => {
                shared.long_waits.set(shared.long_waits.get() + 1);
                waiting.await
            }
        }
    }

    async fn wait_for_room(&self, room: u64) -> Result<u64, Lost> {
        let shared = &self.shared;
        loop {
            if let Some(taken) = self.take_room(room)? {
                return Ok(taken);
            }
            let freed = shared.freed.wait();
            shared.wanting.set(true);
            shared.running().for_each(|volume| volume.commit_soon());
            shared.kick_syncs();
            freed.await;
            if shared.is_held_by_who_stopped() {
                shared.runtime.clock.sleep(PAUSE).await;
            }
        }
    }

    /// Reserves `room` bytes if they are available.
    fn take_room(&self, room: u64) -> Result<Option<u64>, Lost> {
        if self.horizon.has_failed() {
            return Err(Lost);
        }
        let reserved = &self.shared.reserved;
        let is_there = reserved.get() + room + kept_back() <= self.shared.journal.room();
        if is_there {
            reserved.set(reserved.get() + room);
        }
        Ok(is_there.then_some(room))
    }

    /// If a chain or an answer of this volume holds the head far behind the tail, makes a newer
    /// entry record it.
    pub(super) fn repeat_what_holds(&self) {
        let journal = &self.shared.journal;
        let (tail, far) = (journal.tail(), journal.capacity() / UNIT / 8);
        let Some(head) = self.head().filter(|head| tail - head > far) else { return };
        let changes = self.head_of_changes().unwrap_or(tail);
        let is_for_a_chain = self.chains.borrow().values().any(|one| one.holds() == Some(head));
        let is_for_an_answer = !is_for_a_chain && head < changes;
        if is_for_an_answer && !self.shared.has_room_for_answers() {
            self.memory.borrow_mut().give_way(changes);
        }
        if is_for_a_chain || is_for_an_answer {
            self.repeat.set(true);
            self.shared.kick_writer();
        }
    }
}

impl SharedLog {
    /// An entry has its place: the room reserved for it is used, or free again.
    pub(super) fn use_up(&self, room: u64) {
        self.reserved.set(self.reserved.get() - room);
    }

    fn kick_syncs(&self) {
        self.running().for_each(|volume| volume.kick_sync());
    }

    /// Whether a task waits for room and this volume can help: by writing in place the changes that
    /// hold the head, or, if no volume has changes to write, by naming a later head.
    pub(super) fn wants_help_of(&self, volume: &RedoLog) -> bool {
        let holds = |volume: &RedoLog| !volume.flights.borrow().is_empty();
        self.wanting.get() && (holds(volume) || !self.running().any(|other| holds(&other)))
    }

    /// Whether the disk of some volume is full below, and no other volume is writing the changes
    /// that hold the head in place.
    pub(super) fn is_refused(&self) -> bool {
        self.running().any(|volume| volume.home.data().refusals().is_waiting()) && {
            let head = self.head();
            let brings = |volume: &RedoLog| {
                !volume.home.data().refusals().is_waiting()
                    && volume.flights.borrow().oldest().is_some()
            };
            head.is_some() && !self.running().any(|one| brings(&one) && one.head() == head)
        }
    }

    /// As [`SharedLog::give_room`], after a round that wrote nothing in place.
    pub(super) async fn give_what_is_obsolete(&self) -> Result<(), IoError> {
        if self.wanting.get() {
            self.part_with_stopped().await?;
        }
        self.note_head().await
    }

    /// If a task waits for room, makes durable that obsolete entries may be overwritten.
    pub(super) async fn give_room(&self) -> Result<(), IoError> {
        if !self.wanting.replace(false) {
            return Ok(());
        }
        self.part_with_stopped().await?;
        self.running().for_each(|volume| volume.repeat_what_holds());
        self.note_head().await
    }

    /// Whether an entry of rewritten answers leaves all reserved room intact.
    pub(super) fn has_room_for_answers(&self) -> bool {
        self.journal.room().saturating_sub(self.reserved.get()) >= KEPT_BACK
    }
}
