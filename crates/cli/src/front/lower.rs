//! The log device in an NVRAM: a part of its file gets the records of the set's log.
//!
//! It is in use while writes are held in the NVRAM, and not otherwise: when that goes down, or is
//! not to be trusted, the members get the records, and what the log device has is brought home.
//! After a write to it has failed, only `up` leads back.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use block::slice::split;
use block::{BlockDevice, IoError};
use futures::FutureExt;
use nvram::Nvram;
use raid::Set;
use raid::label::Label;
use runtime::Runtime;
use runtime::sync::Lock;
use serde::{Deserialize, Serialize};

/// The log device; see the module.
pub(super) struct Lower {
    /// It is there once the NVRAM is open.
    device: OnceCell<Rc<dyn BlockDevice>>,
    set: Rc<Set>,
    /// Whether it was in use when that was last asked for.
    is_begun: Cell<bool>,
    /// Whether nothing may rest on it, until the NVRAM is in use again.
    is_distrusted: Cell<bool>,
    has_failed: Cell<bool>,
    /// Whether the labels say that the set may need its NVRAM.
    may_be_used: Cell<bool>,
    changing: Lock,
    is_following: Cell<bool>,
}

/// Its state, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LowerStatus {
    pub(super) size_bytes: u64,
    /// Records written to it since it began to get them.
    pub(super) records: u64,
}

/// The part of an NVRAM's file that holds writes, and the log device behind it, if the labels of
/// the set name one.
pub(super) fn parts(memory: Rc<dyn BlockDevice>, label: &Label) -> nvram::Found {
    let start = label.nvram.and_then(|nvram| nvram.log_start);
    match start.filter(|&start| start < memory.geometry().size && start.is_multiple_of(4096)) {
        Some(start) => {
            let [upper, lower] = split(memory, start);
            nvram::Found { memory: Rc::new(upper), log: Some(Rc::new(lower)) }
        }
        None => memory.into(),
    }
}

impl Lower {
    /// The log device of a set, which does not get its records yet.
    pub(super) fn new(set: &Rc<Set>) -> Self {
        Self {
            device: OnceCell::new(),
            set: set.clone(),
            is_begun: Cell::new(false),
            is_distrusted: Cell::new(false),
            has_failed: Cell::new(false),
            may_be_used: Cell::new(false),
            changing: Lock::default(),
            is_following: Cell::new(false),
        }
    }

    /// Takes note of the device, in an NVRAM that has just been opened.
    pub(super) fn is_in(&self, device: Rc<dyn BlockDevice>) {
        let _ = self.device.set(device); // a volume is opened once
    }

    /// The parts of an NVRAM that comes back.
    pub(super) fn parts_of(&self, memory: Rc<dyn BlockDevice>) -> nvram::Found {
        parts(memory, &self.set.label())
    }

    /// Begins or ends its use, as the NVRAM is in use or not.
    ///
    /// # Errors
    /// The set has stopped.
    pub(super) async fn follow(&self, nvram: &Nvram) -> Result<(), IoError> {
        let _alone = self.changing.exclusive().await;
        if self.set.is_closed() {
            return Ok(());
        }
        let state = self.set.log_device();
        if self.is_begun.get() && state.is_none_or(|state| state.is_left) {
            self.is_begun.set(false);
            self.has_failed.set(true);
        }
        let is_wanted =
            nvram.status().is_in_use() && self.may_be_used.get() && !self.has_failed.get();
        if is_wanted
            && !self.is_begun.get()
            && let Some(device) = self.device.get()
        {
            self.is_distrusted.set(false);
            match self.set.log_to(device.clone()).await {
                Ok(()) => self.is_begun.set(true),
                Err(error) if error.is_full() => {} // a host of the members: it is tried again
                Err(_) if self.set.is_closed() => return Ok(()),
                Err(_) => self.has_failed.set(true),
            }
            if self.is_distrusted.get() {
                self.distrust(); // meanwhile
            }
        }
        if !is_wanted && self.is_needed() {
            self.is_begun.set(false);
            self.set.log_to_members().await?;
        }
        Ok(())
    }

    /// The same as a task of its own, one at a time.
    pub(super) fn follow_beside(self: &Rc<Self>, nvram: &Rc<Nvram>, runtime: &Runtime) {
        if self.is_following.replace(true) {
            return;
        }
        let (lower, nvram) = (self.clone(), nvram.clone());
        let work = async move {
            let _ = lower.follow(&nvram).await; // a set that has stopped says so itself
            lower.is_following.set(false);
        };
        runtime.tasks.spawn(work.boxed_local());
    }

    /// Nothing that is answered from now on rests on it.
    pub(super) fn distrust(&self) {
        self.is_distrusted.set(true);
        if self.is_begun.replace(false) {
            self.set.distrust_log_device();
        }
    }

    /// The labels are about to say that the set may need its NVRAM.
    pub(super) fn may_be_used(&self) {
        self.may_be_used.set(true);
    }

    /// The labels are about to say that the set needs nothing of its NVRAM. None of its records is
    /// needed when this is done.
    ///
    /// # Errors
    /// The set has stopped.
    pub(super) async fn leave(&self) -> Result<(), IoError> {
        let _alone = self.changing.exclusive().await;
        self.may_be_used.set(false);
        self.is_begun.set(false);
        self.set.log_to_members().await
    }

    /// Whether it may have records that the set needs.
    fn is_needed(&self) -> bool {
        self.set.label().has_log_apart
    }

    /// Whether a write to it has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Has it tried again.
    pub(super) fn forgive(&self) {
        self.has_failed.set(false);
    }

    pub(super) fn status(&self) -> LowerStatus {
        let records = self.set.log_device().map_or(0, |state| state.records);
        let size_bytes = self.device.get().map_or(0, |device| device.geometry().size);
        LowerStatus { size_bytes, records }
    }
}
