//! A log device: a device apart from the members that gets the records of the log, each once.
//!
//! It is faster than the members, so a write costs them only what goes in place. In return a set
//! needs it: a record is on this device alone. So the labels say, durably, before the first record
//! goes there, that needed ones may be there. They say so until none is: everything is in place,
//! and the members have an empty record that is later than all.
//!
//! It is empty when it begins to get records: what it had before belongs to another time.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, IoError, clear};

use crate::label::LOG_LEAST;
use crate::layout::{Layout, Level};
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::record::BLOCK;
use crate::ring::Ring;

/// The log device; see the module.
pub(crate) struct Apart {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) ring: Rc<Ring>,
    /// Whether it gets no more records: a write has failed, or it is to be left.
    pub(crate) is_left: Cell<bool>,
    /// Whether nothing that is answered may rest on it, though no write has failed.
    is_distrusted: Cell<bool>,
    /// Number of records written to it.
    pub(crate) records: Cell<u64>,
}

/// State of a log device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDevice {
    /// Bytes of its ring.
    pub size: u64,
    /// Records written to it since it began to get them.
    pub records: u64,
    /// Whether the members get the records, and what it has is brought home.
    pub is_left: bool,
    /// Whether nothing is answered before that is done.
    pub is_distrusted: bool,
}

/// The fewest bytes of a log device of a set with this layout. `None` if the set has no log.
pub fn least_log_device(layout: &Layout) -> Option<u64> {
    let least = LOG_LEAST.0.max(LOG_LEAST.1 * layout.unit * layout.members as u64);
    (layout.level != Level::Striped).then_some(least)
}

/// Bytes of the ring on a log device.
pub(crate) fn ring_of(device: &dyn BlockDevice) -> u64 {
    let size = device.geometry().size;
    size - size % BLOCK
}

impl Apart {
    /// A device that gets no records yet.
    pub(crate) fn new(device: Rc<dyn BlockDevice>) -> Self {
        let ring = Rc::new(Ring::new(ring_of(&*device), 0));
        let (is_left, is_distrusted) = (Cell::new(false), Cell::new(false));
        Self { device, ring, is_left, is_distrusted, records: Cell::new(0) }
    }

    /// It gets no more records, and nothing that is answered from now on rests on it.
    pub(crate) fn distrust(&self) {
        self.is_left.set(true);
        self.is_distrusted.set(true);
    }

    /// Empties it, durably.
    pub(crate) async fn wipe(&self) -> Result<(), IoError> {
        if is_planted(Bug::OldLogDevices) {
            return Ok(());
        }
        clear(&*self.device, 0..self.ring.size).await?;
        self.device.flush().await
    }

    /// Its state.
    pub(crate) fn state(&self) -> LogDevice {
        let (size, records) = (self.ring.size, self.records.get());
        let is_distrusted = self.is_distrusted.get() && !is_planted(Bug::HastyDistrust);
        LogDevice { size, records, is_left: self.is_left.get(), is_distrusted }
    }
}

impl Members {
    /// Notes whether the log device may have a needed record: it is on the labels once they are
    /// settled.
    pub(crate) fn may_need_apart(&self, may: bool) {
        let mut label = self.label.borrow_mut();
        if label.has_log_apart != may {
            label.has_log_apart = may;
            label.generation += 1;
        }
    }
}
