//! The effect of each verb on the medium, when it is issued and when it is answered.
//!
//! Each `start` runs when the call is accepted, and returns the closure that ends it. The faults of
//! the call are known from the start: the trace and the platter record its actual effect, not the
//! request, so that a cut while it is in flight leaves nothing else.

use block::{Buffer, Durability, Verb};
use bytes::Bytes;

use crate::controller::Controller;
use crate::faults::{Effect, Struck};
use crate::{Event, Fate, SECTOR_SIZE};

/// Longer discards change nothing, so that no disk has to store a terabyte of rubbish.
const DISCARD_MAX: u64 = 1 << 20;

impl Controller {
    pub(crate) fn start_read(
        &self,
        offset: u64,
        mut buffer: Buffer,
        struck: Struck,
    ) -> impl FnOnce(&Self) -> Buffer + use<> {
        let from = struck.place(offset, buffer.len() as u64, self.geometry.size);
        move |controller| {
            if !struck.is(Effect::Lost) {
                controller.state.borrow().visible.read(from, &mut buffer);
                struck.spoil(&mut buffer);
            }
            buffer
        }
    }

    pub(crate) fn start_write(
        &self,
        offset: u64,
        data: Bytes,
        durability: Durability,
        struck: Struck,
    ) -> impl FnOnce(&Self) + use<> {
        let change = self.start_change(offset, data, durability, struck);
        move |controller| {
            let done = change(controller);
            if done && durability == Durability::Plain {
                controller.state.borrow_mut().meter.plain_write_completed();
            }
        }
    }

    /// Starts a change of the medium; its end returns whether it was a success. A lost or refused
    /// write changes nothing, and a misdirected one changes another address.
    fn start_change(
        &self,
        offset: u64,
        data: Bytes,
        durability: Durability,
        struck: Struck,
    ) -> impl FnOnce(&Self) -> bool + use<> {
        let durability = if self.timing.is_stable() { Durability::Through } else { durability };
        let offset = struck.place(offset, data.len() as u64, self.geometry.size);
        let data = struck.payload(data);
        let write = self.next_number();
        self.happen(Event::WriteIssued { write, offset, data: data.clone(), durability });
        move |controller| {
            let left = struck.failed_write(|| controller.random_fate(data.len()));
            let fate = left.as_ref().unwrap_or(&Fate::Whole);
            // The controller's invariant 2.
            fate.apply(&mut controller.state.borrow_mut().visible, offset, &data);
            let done = left.is_none();
            controller.happen(match left {
                None if controller.is_orphaned() => Event::WriteLeft { write },
                None => Event::WriteCompleted { write },
                Some(left) => Event::WriteFailed { write, left },
            });
            done
        }
    }

    pub(crate) fn start_flush(&self, struck: Struck) -> impl FnOnce(&Self) + use<> {
        let flush = self.next_number();
        let lost = struck.is(Effect::Lost);
        if !lost {
            self.happen(Event::FlushIssued { flush });
        }
        let failed = struck.error(Verb::Flush, 0, 0).is_some();
        move |controller| match (lost, failed) {
            (true, _) => {}
            (_, true) => controller.happen(Event::FlushFailed { flush }),
            (_, false) => controller.happen(Event::FlushCompleted { flush }),
        }
    }

    pub(crate) fn start_discard(
        &self,
        offset: u64,
        length: u64,
        struck: Struck,
    ) -> impl FnOnce(&Self) + use<> {
        let data = self.rubbish(offset, length);
        let change = self.start_change(offset, data, Durability::Plain, struck);
        move |controller| {
            change(controller);
        }
    }

    fn random_fate(&self, length: usize) -> Fate {
        Fate::random(length / SECTOR_SIZE, &mut self.state.borrow_mut().prng)
    }

    /// The contents of a discarded range: zeros, any bytes, or the old ones.
    fn rubbish(&self, offset: u64, length: u64) -> Bytes {
        let state = &mut *self.state.borrow_mut();
        if length > DISCARD_MAX {
            return Bytes::new();
        }
        let mut bytes = vec![0; length as usize];
        match state.prng.below(3) {
            0 => {}
            1 => state.prng.fill(&mut bytes),
            _ => state.visible.read(offset, &mut bytes),
        }
        bytes.into()
    }

    pub(crate) fn rot(&self, offset: u64, mask: u8) {
        {
            let state = &mut *self.state.borrow_mut();
            if !state.platter.is_cached(offset) {
                let mut byte = [0];
                state.visible.read(offset, &mut byte);
                state.visible.write(offset, &[byte[0] ^ mask]);
            }
        }
        self.happen(Event::Rotted { offset, mask });
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        state.next
    }
}
