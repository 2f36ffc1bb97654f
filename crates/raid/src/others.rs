//! Disks that are present and may have blocks of a slot beside the slot's own device.

use std::cell::RefCell;
use std::rc::Rc;

use block::BlockDevice;

/// How far the bytes of a disk count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It cannot have missed the block: its bytes count also where no checksum is known.
    Member,
    /// It may have missed the block: its bytes count only if a checksum proves them.
    Checked,
}

/// A disk that may have the blocks of a slot.
pub(crate) struct Source {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) trust: Trust,
}

/// A disk, the slot of which it may have blocks, and how far these count.
type OtherDisk = (usize, Rc<dyn BlockDevice>, Trust);

/// Disks that are present and may have blocks of a slot beside the slot's own device.
#[derive(Default)]
pub(crate) struct OtherDisks(RefCell<Vec<OtherDisk>>);

// The orders that keep a leaving disk, or find an old one again, add and remove it.
#[allow(dead_code)]
impl OtherDisks {
    /// The sources of a slot.
    pub(crate) fn of(&self, slot: usize) -> Vec<Source> {
        let others = self.0.borrow();
        let of_slot = others.iter().filter(|(of, ..)| *of == slot);
        let source =
            |(_, device, trust): &OtherDisk| Source { device: device.clone(), trust: *trust };
        of_slot.map(source).collect()
    }

    /// A disk becomes a source of a slot.
    pub(crate) fn add(&self, slot: usize, device: Rc<dyn BlockDevice>, trust: Trust) {
        self.0.borrow_mut().push((slot, device, trust));
    }

    /// A disk is no source any more.
    pub(crate) fn remove(&self, slot: usize, device: &Rc<dyn BlockDevice>) {
        self.0.borrow_mut().retain(|(of, it, _)| *of != slot || !Rc::ptr_eq(it, device));
    }
}
