//! A device of which unreadable sectors read as zeros.
//!
//! A ring is read in segments. One sector that cannot be read must not cost the segment, nor the
//! start: its entry does not fit its checksum any more, and is missing like any other damaged one.
//! Writes go through, and often mend the sector.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use futures::FutureExt;

use crate::planted::{Bug, is_planted};

/// See the module's prose.
pub(crate) struct Forgiving {
    device: Rc<dyn BlockDevice>,
    /// Offsets of sectors that could not be read, though they were tried twice.
    unreadable: Rc<RefCell<BTreeSet<u64>>>,
}

impl Forgiving {
    /// The same device, forgiving.
    pub(crate) fn new(device: Rc<dyn BlockDevice>) -> Rc<Self> {
        Rc::new(Self { device, unreadable: Rc::default() })
    }

    /// Number of unreadable sectors so far.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable.borrow().len()
    }

    /// Whether a read of these bytes met an unreadable sector.
    pub(crate) fn is_unreadable(&self, bytes: Range<u64>) -> bool {
        self.unreadable.borrow().range(bytes).next().is_some()
    }
}

impl BlockDevice for Forgiving {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let (device, unreadable) = (self.device.clone(), self.unreadable.clone());
        async move {
            let whole = device.read(offset, Buffer::unfilled(buffer.len())).await;
            if whole.is_ok() || is_planted(Bug::UnforgivenSectors) {
                return whole;
            }
            let sector = device.geometry().logical_sector_size as usize;
            for at in (0..buffer.len()).step_by(sector) {
                let end = buffer.len().min(at + sector);
                match device.read(offset + at as u64, Buffer::unfilled(end - at)).await {
                    Ok(piece) => buffer[at..end].copy_from_slice(&piece),
                    Err(_) => {
                        buffer[at..end].fill(0);
                        unreadable.borrow_mut().insert(offset + at as u64);
                    }
                }
            }
            Ok(buffer)
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.device.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.device.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
