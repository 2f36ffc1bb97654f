//! Records which unmodified pages of a volume an engine reads, in the order of the first reads.
//!
//! A set of disks shows one volume, whatever else its members hold in their logs and in torn
//! writes. So two images of its members are equivalent for an engine that reads the same pages of
//! the volume.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IsRight};
use bytes::Bytes;
use sim::PAGE_SIZE;

use super::alike::Looked;

/// A device that records its reads.
struct Noted {
    device: Rc<dyn BlockDevice>,
    looks: Rc<RefCell<Looks>>,
}

/// The recorded reads of a volume, however often it was opened.
#[derive(Clone, Default)]
pub(super) struct Notes(Rc<RefCell<Looks>>);

#[derive(Default)]
struct Looks {
    /// Pages that were modified, and pages that were read before.
    known: BTreeSet<u64>,
    looked: Vec<(usize, u64)>,
    /// Whether the engine asked for another version than a read shows.
    is_mended: bool,
}

impl Notes {
    /// Wraps a device to record its reads.
    pub(super) fn of(&self, device: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
        Rc::new(Noted { device, looks: self.0.clone() })
    }

    /// The pages, each as one of disk 0, if everything depended on reads alone.
    pub(super) fn looked(&self) -> Option<Looked> {
        let looks = self.0.borrow();
        (!looks.is_mended).then(|| looks.looked.as_slice().into())
    }
}

impl BlockDevice for Noted {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let page = PAGE_SIZE as u64;
        let pages = offset / page..(offset + buffer.len() as u64).div_ceil(page);
        let Looks { known, looked, .. } = &mut *self.looks.borrow_mut();
        looked.extend(pages.filter(|&page| known.insert(page)).map(|page| (0, page)));
        self.device.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let (page, length) = (PAGE_SIZE as u64, data.iter().map(Bytes::len).sum::<usize>());
        // The rest of a partly written page may still be read.
        let whole = offset.div_ceil(page)..(offset + length as u64) / page;
        self.looks.borrow_mut().known.extend(whole);
        self.device.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.device.discard(offset, length)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.looks.borrow_mut().is_mended = true;
        self.device.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
