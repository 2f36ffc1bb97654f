//! The log itself: the state shared by all volumes that write to it. Usually that is one volume.
//!
//! ```text
//!  volume 0   stage --> entry --.
//!                                >-- waiting -- one write for all that wait --> durable: receipts
//!  volume 1   stage --> entry --'
//! ```
//!
//! Entries of all volumes are in one circle, in the order in which they were staged, each with the
//! number of its volume. There is one head: the oldest entry that any volume needs. So the writer's
//! batches and the room are shared; each volume has its own flights, chains, answers and sync
//! ([`RedoLog`]).
//!
//! Invariants:
//! 1. The writer writes one batch at a time, and nothing else places entries.
//! 2. One slot is written at a time.
//! 3. A volume that has stopped writes no more entries, and does not keep other volumes from
//!    writing. Its needed entries are held until they have been saved elsewhere.
//! 4. If the log cannot be written, every volume stops.
//!
//! Not asserted: 1 and 3, which the writer asserts in part; 2, which `slots` ensures.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::{Rc, Weak};

use block::{BlockDevice, IoError};
use journal::{Draft, Journal, JournalError};
use runtime::Runtime;
use runtime::sync::{Semaphore, Signal};

use super::{LogOptions, RedoLog};
use crate::planted::{Bug, is_planted};

/// Makes an empty device of `size` bytes, to save the entries of one volume durably until it has
/// been opened again. The first number is the volume's id, or, if it had the log alone, the epoch
/// that it bears: see [`saved_under`](crate::logged::saved_under).
pub type Save = Rc<dyn Fn(u64, u64) -> io::Result<Rc<dyn BlockDevice>>>;

/// An entry that is not submitted yet.
pub(super) struct Waiting {
    pub(super) draft: Draft,
    /// Room reserved for it.
    pub(super) room: u64,
    /// Whether the volume has to be flushed before it.
    pub(super) after_flush: bool,
}

/// See the module's prose.
pub struct SharedLog {
    pub(super) journal: Journal,
    pub(super) runtime: Runtime,
    /// Ids of the expected volumes.
    ids: Vec<u64>,
    /// Makes files for the entries of volumes that have stopped.
    save: Option<Save>,
    pub(super) batch_bytes: usize,
    volumes: RefCell<Vec<Weak<RedoLog>>>,
    pub(super) waiting: RefCell<VecDeque<Waiting>>,
    /// The next volume to rewrite records that the head must pass.
    pub(super) turn: Cell<u16>,
    pub(super) reserved: Cell<u64>,
    /// Lets one task at a time wait for room, in the order of asking.
    pub(super) queue: Rc<Semaphore>,
    pub(super) wanting: Cell<bool>,
    /// Number of long waits for room.
    pub(super) long_waits: Cell<u64>,
    pub(super) writing: Cell<bool>,
    slots: Rc<Semaphore>,
    /// Abandoned volumes, which keep holding their entries.
    abandoned: RefCell<Vec<Rc<RedoLog>>>,
    /// Room may have become free, or a volume has stopped.
    pub(super) freed: Signal,
    this: Weak<SharedLog>,
}

impl SharedLog {
    /// The log of these volumes, none of which uses it yet. Its epoch has begun.
    pub fn new(
        journal: Journal,
        ids: Vec<u64>,
        save: Option<Save>,
        runtime: Runtime,
        options: &LogOptions,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            journal,
            runtime,
            ids,
            save,
            batch_bytes: options.batch_bytes,
            volumes: RefCell::default(),
            waiting: RefCell::default(),
            turn: Cell::new(0),
            reserved: Cell::new(0),
            queue: Semaphore::new(1),
            wanting: Cell::new(false),
            long_waits: Cell::new(0),
            writing: Cell::new(false),
            slots: Semaphore::new(1),
            abandoned: RefCell::default(),
            freed: Signal::new(),
            this: this.clone(),
        })
    }

    /// Epoch of the log.
    pub fn epoch(&self) -> u64 {
        self.journal.epoch()
    }

    /// The only volume bears the number of this epoch, durably.
    pub fn bear(&self) {
        self.journal.bear();
    }

    /// From now on the epoch of several volumes exists, with the records that they have taken over.
    ///
    /// # Errors
    /// I/O errors of the log's device.
    pub async fn found(&self) -> Result<(), IoError> {
        let _alone = self.slots.acquire(1).await;
        self.journal.found(self.head()).await
    }

    /// Every volume that can bear the epoch does. Records this in the log, durably: from now on a
    /// volume that bears the previous epoch is not believed.
    ///
    /// # Errors
    /// I/O errors of the log's device.
    pub async fn told_bearers(&self) -> Result<(), IoError> {
        let _alone = self.slots.acquire(1).await;
        self.journal.note_head(self.head()).await
    }

    /// A volume was stopped cleanly; with the last of them the log is at rest.
    pub(super) async fn rest(&self, number: u16) -> Result<(), IoError> {
        let _alone = self.slots.acquire(1).await;
        let head = self.head().filter(|_| !is_planted(Bug::RestlessAnswers));
        if self.journal.rest(number) {
            self.journal.close(head).await
        } else {
            self.journal.note_head(head).await
        }
    }

    /// Adds the next volume and returns its number.
    pub(super) fn join(&self, volume: Weak<RedoLog>) -> u16 {
        let mut volumes = self.volumes.borrow_mut();
        volumes.push(volume);
        volumes.len() as u16 - 1
    }

    /// Number of volumes.
    pub(super) fn shares(&self) -> u16 {
        self.ids.len() as u16
    }

    pub(super) fn this(&self) -> Rc<SharedLog> {
        self.this.upgrade().expect("the log lives in an Rc")
    }

    /// The volume with this number, if it exists.
    pub(super) fn volume(&self, number: u16) -> Option<Rc<RedoLog>> {
        self.volumes.borrow().get(usize::from(number)).and_then(Weak::upgrade)
    }

    /// All existing volumes.
    pub(super) fn volumes(&self) -> impl Iterator<Item = Rc<RedoLog>> {
        (0..self.shares()).filter_map(|number| self.volume(number))
    }

    /// Volumes that have not stopped.
    pub(super) fn running(&self) -> impl Iterator<Item = Rc<RedoLog>> {
        self.volumes().filter(|volume| !volume.horizon.has_failed())
    }

    /// Volumes that have stopped.
    fn stopped(&self) -> impl Iterator<Item = Rc<RedoLog>> {
        self.volumes().filter(|volume| volume.horizon.has_failed())
    }

    /// The recno of the oldest entry that is needed, if any is.
    pub(super) fn head(&self) -> Option<u64> {
        let all = self.volumes().filter(|one| one.number == 0 || !is_planted(Bug::FirstHead));
        all.filter_map(|volume| volume.head()).min()
    }

    /// Bytes from `head` to the tail.
    pub(super) fn bytes_since(&self, head: Option<u64>) -> u64 {
        let tail = self.journal.tail();
        (tail - head.unwrap_or(tail)) * journal::format::UNIT
    }

    /// Saves the entries of stopped volumes, so that these no longer hold the head. If that is not
    /// possible they keep holding it, and the other volumes eventually wait for room.
    pub(super) async fn part_with_stopped(&self) -> Result<(), IoError> {
        let save = self.save.as_ref().filter(|_| !is_planted(Bug::HeldUp));
        let Some(save) = save else { return Ok(()) };
        let _alone = self.slots.acquire(1).await;
        for volume in self.stopped() {
            let Some(head) = volume.head() else { continue };
            // Rare, and the volume has stopped anyway: blocking all tasks while the file is made is
            // fine.
            let made = save(self.ids[usize::from(volume.number)], self.journal.part_size(head));
            let Ok(to) = made else { continue };
            match self.journal.part(volume.number, head, &*to).await {
                Ok(()) => volume.part(),
                Err(JournalError::Device(error)) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Whether a volume that has stopped holds the head.
    pub(super) fn is_held_by_who_stopped(&self) -> bool {
        let head = self.head();
        head.is_some() && self.stopped().any(|volume| volume.head() == head)
    }

    /// Names a later head without an entry.
    pub(super) async fn note_head(&self) -> Result<(), IoError> {
        let _alone = self.slots.acquire(1).await;
        let head = self.head();
        if self.journal.nameable(head) > self.journal.durable_head() {
            self.journal.note_head(head).await
        } else {
            Ok(())
        }
    }

    /// No caller will use the stopped volume, which still holds its entries.
    pub(super) fn keep(&self, volume: Rc<RedoLog>) {
        self.abandoned.borrow_mut().push(volume);
    }

    /// A volume has stopped: its entries are dropped (invariant 3).
    pub(super) fn leave(&self, number: u16) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|entry| {
            let stays = entry.draft.volume != number;
            if !stays {
                self.reserved.set(self.reserved.get() - entry.room);
            }
            stays
        });
        self.freed.notify();
    }

    /// The log cannot be written: stops all volumes.
    pub(super) fn stop(&self) {
        self.volumes().for_each(|volume| volume.stop());
        assert!(self.running().next().is_none(), "invariant 4: every volume stops");
    }
}
