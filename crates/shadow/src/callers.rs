//! Counts foreground I/O of a device. Background tasks run inside [`Callers::apart`] and are not
//! counted.
//!
//! A background task checks the count from time to time: if it has grown, there is foreground I/O.
//! A request belongs to the task that is polled, since a device begins it when it is called.
//!
//! Invariants:
//! 1. The device below gets the same requests as this one, in the same order.
//! 2. A request is counted unless its task is run by [`Callers::apart`].
//!
//! Not asserted: 1 and 2, for which each verb has two lines.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IsRight};
use bytes::Bytes;

/// See the module's prose.
pub(crate) struct Callers {
    device: Rc<dyn BlockDevice>,
    asked: Cell<u64>,
    /// The task being polled is in the background.
    is_apart: Cell<bool>,
}

impl Callers {
    /// Wraps a device.
    pub(crate) fn new(device: Rc<dyn BlockDevice>) -> Self {
        Self { device, asked: Cell::new(0), is_apart: Cell::new(false) }
    }

    /// Number of foreground requests.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// Runs a background task, whose requests are not counted.
    pub(crate) async fn apart<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.is_apart.set(true);
            let polled = work.as_mut().poll(context);
            self.is_apart.set(false);
            polled
        })
        .await
    }

    fn count(&self) {
        self.asked.set(self.asked.get() + u64::from(!self.is_apart.get()));
    }
}

impl BlockDevice for Callers {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.count();
        self.device.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.count();
        self.device.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.count();
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.count();
        self.device.discard(offset, length)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.count();
        self.device.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
