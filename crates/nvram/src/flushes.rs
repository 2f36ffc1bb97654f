//! Flushes of a device: one at a time, for all that wait.
//!
//! A flush that fails may have stranded what others have written, and a later one that succeeds
//! says nothing about that; a file of the host reports a failed write to one flush alone. So none
//! succeeds after it, nor beside it.
//!
//! Invariant: a flush that succeeds began after it was asked for, and no earlier one has failed.
//!
//! Not asserted: torture's campaign `contract` has flushes fail beside others.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight};
use bytes::Bytes;
use futures::FutureExt;
use runtime::sync::Lock;

use crate::planted::{Bug, is_planted};

/// See the module's prose.
pub(crate) struct Flushes {
    device: Rc<dyn BlockDevice>,
    turn: Lock,
    /// Flushes that were asked for, and up to which request they are done.
    asked: Cell<u64>,
    done: Cell<u64>,
    failed: RefCell<Option<IoError>>,
}

impl Flushes {
    pub(crate) fn new(device: Rc<dyn BlockDevice>) -> Self {
        let (asked, done) = (Cell::new(0), Cell::new(0));
        Self { device, turn: Lock::default(), asked, done, failed: RefCell::default() }
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// The failure of this flush, or of an earlier one.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        let request = self.asked.get() + 1;
        self.asked.set(request);
        let _alone = self.turn.exclusive().await;
        if let Some(error) = self.failed.borrow().clone() {
            return Err(error);
        }
        if self.done.get() >= request {
            return Ok(());
        }
        let covered = self.asked.get();
        let flushed = self.device.flush().await;
        match &flushed {
            Ok(()) => self.done.set(covered),
            Err(error) => _ = self.failed.replace(Some(error.clone())),
        }
        flushed
    }
}

/// A device with such flushes.
pub(crate) struct Flushed(Rc<Flushes>);

impl Flushed {
    pub(crate) fn new(device: Rc<dyn BlockDevice>) -> Self {
        Self(Rc::new(Flushes::new(device)))
    }
}

impl BlockDevice for Flushed {
    fn geometry(&self) -> Geometry {
        self.0.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.0.device.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.0.device.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        if is_planted(Bug::FlushesBeside) {
            return self.0.device.flush();
        }
        let flushes = self.0.clone();
        async move { flushes.flush().await }.boxed_local()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.0.device.discard(offset, length)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.0.device.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        self.0.device.close()
    }
}

#[cfg(test)]
mod tests {
    use block::Verb;
    use futures::future::join_all;
    use sim::{Disk, Effect, Executor, Fault, Image};

    use super::*;

    /// Which of four flushes succeed: the first one alone, one of two at once fails, and one more.
    fn flushes() -> Vec<bool> {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(1 << 20));
        let memory = Flushed::new(disk.clone());
        executor.block_on(async {
            let mut done = vec![memory.flush().await.is_ok()];
            disk.inject(Fault::on(Verb::Flush, Effect::Eio).nth(1));
            let both = join_all([memory.flush(), memory.flush()]).await;
            done.extend(both.into_iter().map(|it| it.is_ok()));
            done.push(memory.flush().await.is_ok());
            done
        })
    }

    #[test]
    fn no_flush_succeeds_beside_one_that_fails_or_after_it() {
        assert_eq!(flushes(), [true, false, false, false]);
        #[cfg(feature = "planted-bugs")]
        {
            crate::planted::plant(Some(Bug::FlushesBeside));
            let beside = flushes();
            crate::planted::plant(None);
            assert_eq!(beside.iter().filter(|it| **it).count(), 3, "{beside:?}");
        }
    }
}
