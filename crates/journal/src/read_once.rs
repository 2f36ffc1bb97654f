//! A read cache over a log's device during recovery: later passes reuse the reads of the first.
//!
//! A replay makes two passes over the live log, and so does each of the volumes that share a log.
//! Data is kept as it was read, up to a budget; a task that asks for data while it is being read
//! waits for the same read. Beyond the budget the device is read again. A write through it clears
//! the cache.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, Shared};

/// Maximum bytes that are kept.
const BUDGET: u64 = 64 << 20;

type Reading = Shared<LocalBoxFuture<'static, Result<Bytes, IoError>>>;

/// See the module's prose.
pub struct ReadOnce {
    device: Rc<dyn BlockDevice>,
    /// By offset and length.
    readings: RefCell<HashMap<(u64, usize), Reading>>,
    left: Cell<u64>,
}

impl ReadOnce {
    /// A cache over this device, with nothing read yet.
    pub fn new(device: Rc<dyn BlockDevice>) -> Self {
        Self { device, readings: RefCell::default(), left: Cell::new(BUDGET) }
    }

    fn forget(&self) {
        self.readings.borrow_mut().clear();
        self.left.set(BUDGET);
    }
}

impl BlockDevice for ReadOnce {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let key = (offset, buffer.len());
        let known = self.readings.borrow().get(&key).cloned();
        let reading = match (known, self.left.get().checked_sub(buffer.len() as u64)) {
            (Some(reading), _) => reading,
            (None, None) => return self.device.read(offset, buffer),
            (None, Some(left)) => {
                self.left.set(left);
                let reading = self.device.read(offset, Buffer::unfilled(buffer.len()));
                let reading = async move { Ok(reading.await?.freeze()) };
                let reading = reading.boxed_local().shared();
                self.readings.borrow_mut().insert(key, reading.clone());
                reading
            }
        };
        let copying = async move {
            buffer.copy_from_slice(&reading.await?);
            Ok(buffer)
        };
        copying.boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.forget();
        self.device.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.forget();
        self.device.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join;
    use sim::{Disk, Executor, Image, Persistence};

    use super::*;

    fn read(device: &dyn BlockDevice, offset: u64) -> Io<Buffer> {
        device.read(offset, Buffer::zeroed(512))
    }

    #[test]
    fn what_was_read_is_read_once_and_again_after_a_write() {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::from_bytes(&[7; 4096]));
        let once = ReadOnce::new(disk.clone());
        executor.block_on(async {
            let (one, other) = join(read(&once, 0), read(&once, 0)).await;
            assert_eq!((one.expect("it works")[0], other.expect("it works")[0]), (7, 7));
            assert_eq!(read(&once, 0).await.expect("it works")[511], 7);
            assert_eq!(disk.counters().reads, 1);
            assert_eq!(read(&once, 512).await.expect("it works")[0], 7);
            assert_eq!(disk.counters().reads, 2, "another place");
            let new = vec![vec![9; 512].into()];
            once.write(0, new, Durability::Through).await.expect("it works");
            assert_eq!(read(&once, 0).await.expect("it works")[0], 9);
            assert_eq!(disk.counters().reads, 3);
        });
    }

    #[test]
    fn beyond_the_budget_the_device_is_asked_each_time() {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(4096));
        let once = ReadOnce::new(disk.clone());
        once.left.set(512);
        executor.block_on(async {
            for _ in 0..3 {
                read(&once, 0).await.expect("it works");
                read(&once, 512).await.expect("it works");
            }
        });
        assert_eq!(disk.counters().reads, 1 + 3);
    }

    #[test]
    fn everybody_hears_of_a_failure() {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(4096));
        disk.fail(block::Verb::Read, 1, Persistence::Once);
        let once = ReadOnce::new(disk);
        let both = executor.block_on(async { join(read(&once, 0), read(&once, 0)).await });
        assert!(both.0.is_err() && both.1.is_err());
    }
}
