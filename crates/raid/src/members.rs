//! The members of a set that is in use: who is in it, and how a member leaves.
//!
//! A member that fails a write or a flush is *out*: it is asked nothing more, and the labels of all
//! others say so. Until these are durable, and the witness is, nothing may be acknowledged that the
//! member has missed, or may have ([`Members::settled`]).
//!
//! Invariants:
//! 1. A member that is out never comes in again here.
//! 2. While the labels do not say durably who is in, the set is not settled.
//! 3. With fewer members than it takes the set has stopped, and stays so.
//!
//! Not asserted: 1, which has no code that would break it; 2 and 3, which are what the functions
//! that ask for it compute.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use bytes::Bytes;
use futures::future::{LocalBoxFuture, join_all};
use runtime::sync::Lock;

use crate::assembly::Witness;
use crate::label::{Label, Standing, places};
use crate::planted::{Bug, is_planted};
use crate::record::Slots;

/// What becomes of a story outside of the set: it is durable there when this completes.
pub type Witnessed = Rc<dyn Fn(Witness) -> LocalBoxFuture<'static, ()>>;

/// See the module's prose.
pub(crate) struct Members {
    /// By slot.
    devices: Vec<Option<Rc<dyn BlockDevice>>>,
    /// What holds of the set; its slot is no one's.
    label: RefCell<Label>,
    /// The generation that the labels of all have, durably.
    told: Cell<u64>,
    telling: Lock,
    witnessed: Witnessed,
}

impl Members {
    /// These devices, by slot, of a set of which this label holds; `is_told` if the labels of all
    /// of them say so.
    pub(crate) fn new(
        devices: Vec<Option<Rc<dyn BlockDevice>>>,
        mut label: Label,
        is_told: bool,
        witnessed: Witnessed,
    ) -> Self {
        assert_eq!(devices.len(), label.slots.len(), "a device, or none, for each slot");
        let told = Cell::new(label.generation);
        label.generation += u64::from(!is_told);
        let label = RefCell::new(label);
        Self { devices, label, told, telling: Lock::default(), witnessed }
    }

    /// What holds of the set now.
    pub(crate) fn label(&self) -> Label {
        self.label.borrow().clone()
    }

    /// Those that are in.
    pub(crate) fn slots(&self) -> Slots {
        let label = self.label.borrow();
        let is_in = |slot: &usize| label.slots[*slot].standing == Standing::InSync;
        let slots = (0..label.slots.len()).filter(is_in);
        Slots(slots.fold(0, |all, slot| all | 1 << slot))
    }

    /// Whether this one is in.
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.label.borrow().slots[slot].standing == Standing::InSync
    }

    /// The device of a member that is in.
    pub(crate) fn device(&self, slot: usize) -> Option<&Rc<dyn BlockDevice>> {
        self.devices[slot].as_ref().filter(|_| self.has(slot))
    }

    /// Every device that the set was opened with.
    pub(crate) fn all_devices(&self) -> impl Iterator<Item = &Rc<dyn BlockDevice>> {
        self.devices.iter().flatten()
    }

    /// Whether there are too few.
    pub(crate) fn have_stopped(&self) -> bool {
        let label = self.label.borrow();
        let of = label.slots.len();
        let needed = of - label.layout.level.spare_of(of);
        (self.slots().iter().count()) < needed
    }

    /// Calls a member out. What may be missed by it waits until that is settled.
    pub(crate) fn call_out(&self, slot: usize) {
        let mut label = self.label.borrow_mut();
        if label.slots[slot].standing == Standing::InSync {
            label.slots[slot].standing = Standing::Stale;
            label.generation += 1;
        }
    }

    /// Calls those out of which there is no device.
    pub(crate) fn call_out_missing(&self) {
        let missing = (0..self.devices.len()).filter(|&slot| self.devices[slot].is_none());
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
        while !self.are_settled() && !is_planted(Bug::UntoldLosses) {
            let _alone = self.telling.exclusive().await;
            self.tell().await;
        }
        let is_over = self.have_stopped();
        if is_over { Err(IoError::new(verb, 0, 0, std::io::ErrorKind::Other)) } else { Ok(()) }
    }

    /// Writes what holds to the labels of all that are in, to one copy after the other.
    async fn tell(&self) {
        while !self.are_settled() {
            let label = {
                let mut label = self.label.borrow_mut();
                label.number += 1;
                label.clone()
            };
            for copy in 0..2 {
                let writes = self.slots().iter().filter_map(|slot| {
                    let device = self.device(slot)?.clone();
                    let label = Label { slot, ..label.clone() };
                    Some(async move { (slot, write_label(&*device, &label, copy).await) })
                });
                let writes: Vec<_> = writes.collect();
                for (slot, written) in join_all(writes).await {
                    if written.is_err() {
                        self.call_out(slot);
                    }
                }
            }
            if self.label.borrow().generation == label.generation {
                (self.witnessed)(Witness::of(&label)).await;
                self.told.set(label.generation);
            }
        }
    }

    /// Reads from a member. `None` if it is out, or cannot read that.
    pub(crate) async fn read(&self, slot: usize, offset: u64, buffer: Buffer) -> Option<Buffer> {
        let device = self.device(slot)?.clone();
        device.read(offset, buffer).await.ok()
    }

    /// Writes to a member, if it is in. One that fails is out.
    pub(crate) async fn write(
        &self,
        slot: usize,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) {
        let Some(device) = self.device(slot).cloned() else { return };
        if device.write(offset, data, durability).await.is_err() {
            self.call_out(slot);
        }
    }

    /// Flushes those of these that are in. Who fails is out.
    pub(crate) async fn flush(&self, slots: Slots) {
        let flushes = slots.iter().filter_map(|slot| {
            let device = self.device(slot)?.clone();
            Some(async move { (slot, device.flush().await) })
        });
        let flushes: Vec<_> = flushes.collect();
        for (slot, flushed) in join_all(flushes).await {
            if flushed.is_err() {
                self.call_out(slot);
            }
        }
    }
}

/// Writes one copy of a label, durably.
pub(crate) async fn write_label(
    device: &dyn BlockDevice,
    label: &Label,
    copy: usize,
) -> Result<(), IoError> {
    let at = places(device.geometry().size)[copy];
    device.write(at, vec![label.encode().into()], Durability::Through).await
}
