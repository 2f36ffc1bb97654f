//! Parts of a device, each of them a device of its own.
//!
//! A file system and its log may share one device. Each of the two gets its part of it.
//!
//! Invariants:
//! 1. No call reaches outside of its part: it is checked against the part's size.
//! 2. The device below is closed with the part that is closed last.
//! 3. A flush that failed may have stranded writes of either part, whichever asked for it: the
//!    other one hears of it, too, and once.
//!
//! Not asserted: 1, which is checked for each call and refused; 3, which a test below shows.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;

use crate::platters::{Platters, SECTOR};
use crate::{
    BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Stripe, Verb, length_of,
};

/// See the module's prose.
pub struct Slice {
    whole: Rc<Whole>,
    /// Which of the parts it is.
    number: usize,
    range: Range<u64>,
    is_closed: Cell<bool>,
}

/// The device that the parts share.
struct Whole {
    device: Rc<dyn BlockDevice>,
    /// Parts that are open.
    open: Cell<usize>,
    /// Failures of flushes that each part has not heard of.
    unheard: [RefCell<Option<IoError>>; 2],
}

/// Cuts a device in two; the first part has `at` bytes.
///
/// # Panics
/// When that is no whole number of logical sectors, or more than the device has.
pub fn split(device: Rc<dyn BlockDevice>, at: u64) -> [Slice; 2] {
    let Geometry { size, logical_sector_size, .. } = device.geometry();
    assert!(at <= size && at.is_multiple_of(logical_sector_size.into()), "{at} of {size}");
    let whole = Rc::new(Whole { device, open: Cell::new(2), unheard: Default::default() });
    let part =
        |number, range| Slice { whole: whole.clone(), number, range, is_closed: Cell::new(false) };
    [part(0, 0..at), part(1, at..size)]
}

impl Slice {
    /// Makes a call on the whole device, at the part's offset. Failures report the part's offset.
    fn call<T: 'static>(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        call: impl FnOnce(&dyn BlockDevice, u64) -> Io<T>,
    ) -> Io<T> {
        if self.is_closed.get() {
            return ready(Err(IoError::closed(verb))).boxed_local();
        }
        if let Err(error) = self.geometry().check(verb, offset, length) {
            return ready(Err(error)).boxed_local();
        }
        let start = self.range.start;
        let called = call(&*self.whole.device, start + offset);
        let here =
            move |error: IoError| IoError { offset: error.offset.saturating_sub(start), ..error };
        called.map(move |done| done.map_err(here)).boxed_local()
    }
}

impl BlockDevice for Slice {
    fn geometry(&self) -> Geometry {
        let size = self.range.end - self.range.start;
        let whole = self.whole.device.geometry();
        let is_whole = |stripe: &Stripe| self.range.start.is_multiple_of(stripe.length());
        let first = self.range.start / SECTOR;
        let part = |platters: Platters| Platters { first: platters.first + first, ..platters };
        let stripe = whole.stripe.filter(is_whole);
        Geometry { size, stripe, platters: whole.platters.map(part), ..whole }
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        self.call(Verb::Read, offset, length, |device, at| device.read(at, buffer))
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let length = length_of(&data);
        self.call(Verb::Write, offset, length, |device, at| device.write(at, data, durability))
    }

    fn flush(&self) -> Io<()> {
        let (whole, number) = (self.whole.clone(), self.number);
        self.call(Verb::Flush, 0, 0, |device, _| {
            let flushed = device.flush();
            let heard = async move {
                let flushed = flushed.await;
                if let Err(error) = &flushed {
                    whole.unheard[1 - number].replace(Some(error.clone()));
                }
                match whole.unheard[number].take() {
                    Some(error) => flushed.and(Err(error)),
                    None => flushed,
                }
            };
            heard.boxed_local()
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.call(Verb::Discard, offset, length, |device, at| device.discard(at, length))
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.call(Verb::Read, offset, length, |device, at| device.mend(at, length, is_right))
    }

    fn close(&self) -> Io<()> {
        if self.is_closed.replace(true) {
            return ready(Ok(())).boxed_local();
        }
        let open = self.whole.open.get().checked_sub(1).expect("invariant 2: each closes once");
        self.whole.open.set(open);
        if open > 0 { ready(Ok(())).boxed_local() } else { self.whole.device.close() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use futures::executor::block_on;

    use super::*;
    use crate::file::{Access, DiskFile, FileDevice};

    #[test]
    fn each_part_has_its_own_bytes_and_the_last_one_closes() {
        let path = std::env::temp_dir().join(format!("block-slice-{}", std::process::id()));
        let device = FileDevice::new(DiskFile::create(&path, 8192).expect("a new disk"));
        let [one, other] = split(Rc::new(device), 4096 + 512);
        assert_eq!([one.geometry().size, other.geometry().size], [4608, 3584]);
        let write = |part: &Slice, at, byte| {
            let data = vec![Bytes::from(vec![byte; 512])];
            block_on(part.write(at, data, Durability::Plain))
        };
        write(&one, 4096, 1).expect("its last sector");
        write(&other, 0, 2).expect("its first sector");
        let outside = write(&one, 4608, 3).expect_err("the other's first sector");
        assert_eq!((outside.kind, outside.offset), (ErrorKind::InvalidInput, 4608));
        block_on(one.close()).expect("a close");
        block_on(one.close()).expect("it is closed");
        assert_eq!(block_on(one.flush()), Err(IoError::closed(Verb::Flush)));
        let sector = block_on(other.read(0, Buffer::zeroed(512))).expect("it is open");
        assert_eq!(sector[..], [2; 512]);
        block_on(other.close()).expect("a close");
        let whole = DiskFile::open(&path, Access::ReadOnly).expect("the lock has gone");
        let mut bytes = Buffer::zeroed(8192);
        whole.read(0, &mut bytes).expect("a disk");
        assert!(bytes[4096..4608].iter().all(|&byte| byte == 1));
        assert!(bytes[4608..5120].iter().all(|&byte| byte == 2));
        std::fs::remove_file(&path).expect("tidying up");
    }
}
