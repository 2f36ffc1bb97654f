//! Counters of the disks of a server: latencies, bytes and errors of each device, by its path.
//!
//! A [`DeviceBook`] makes counting devices of open ones. It forgets a path when the last device of
//! it has gone: a disk that is opened again counts from 0, as after a start. Cells are plain, and
//! belong to the thread that serves. Mapped memory, such as an NVRAM, makes no calls to count.
//!
//! A call counts when it completes. One whose caller has gone is pending no more, and counts no
//! time.
//!
//! Invariants:
//! 1. A path has one set of cells, however often it is open.
//! 2. The pending calls of a device are those whose futures exist.
//!
//! Not asserted: 1, which the map keeps; 2, which the guard [`Pending`] keeps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, length_of};
use bytes::Bytes;
use dispatch::counts::Latencies;
use futures::FutureExt;
use runtime::{Clock, Instant};

/// Kinds of counted calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCall {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
}

impl DeviceCall {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Flush];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        }
    }
}

/// Counters of one kind of a device's calls.
#[derive(Clone, Debug, Default)]
pub struct CallCells {
    latencies: Latencies,
    longest_ns: Cell<u64>,
    bytes: Cell<u64>,
    errors: Cell<u64>,
}

impl CallCells {
    fn note<T>(&self, ns: u64, bytes: u64, result: &Result<T, IoError>) {
        self.latencies.note(ns);
        self.longest_ns.set(self.longest_ns.get().max(ns));
        match result {
            Ok(_) => self.bytes.set(self.bytes.get() + bytes),
            Err(_) => self.errors.set(self.errors.get() + 1),
        }
    }

    /// Times of the completed calls, also of those that failed.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Time of the slowest call.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.get())
    }

    /// Bytes of successful calls.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Failed calls.
    pub fn errors(&self) -> u64 {
        self.errors.get()
    }
}

/// Counters of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceCells {
    calls: [CallCells; DeviceCall::ALL.len()],
    /// Calls under way.
    pending: Cell<u64>,
}

impl DeviceCells {
    /// Counters by the kind of the call.
    pub fn calls(&self) -> impl Iterator<Item = (DeviceCall, &CallCells)> {
        DeviceCall::ALL.into_iter().zip(&self.calls)
    }

    /// Calls under way.
    pub fn pending(&self) -> u64 {
        self.pending.get()
    }
}

/// The devices of a server. A clone is the same book.
#[derive(Clone, Debug, Default)]
pub struct DeviceBook(Rc<RefCell<BTreeMap<PathBuf, Weak<DeviceCells>>>>);

impl DeviceBook {
    /// A device that counts the calls of another, which was opened by this path.
    pub fn counted(
        &self,
        path: &Path,
        device: Rc<dyn BlockDevice>,
        clock: Rc<dyn Clock>,
    ) -> Rc<dyn BlockDevice> {
        let mut devices = self.0.borrow_mut();
        devices.retain(|_, cells| cells.strong_count() > 0);
        let known = devices.get(path).and_then(Weak::upgrade);
        let cells = known.unwrap_or_default();
        devices.insert(path.to_owned(), Rc::downgrade(&cells));
        Rc::new(Counted { device, cells, clock })
    }

    /// A copy of the counters of all devices, by their paths.
    pub fn copy(&self) -> Vec<(PathBuf, DeviceCells)> {
        let devices = self.0.borrow();
        let open = devices.iter().filter_map(|(path, cells)| Some((path, cells.upgrade()?)));
        open.map(|(path, cells)| (path.clone(), (*cells).clone())).collect()
    }
}

/// A device that counts its calls.
struct Counted {
    device: Rc<dyn BlockDevice>,
    cells: Rc<DeviceCells>,
    clock: Rc<dyn Clock>,
}

/// A call under way.
struct Pending {
    cells: Rc<DeviceCells>,
    clock: Rc<dyn Clock>,
    start: Instant,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cells.pending.set(self.cells.pending.get() - 1);
    }
}

impl Counted {
    /// Counts a call that has begun already.
    fn count<T: 'static>(&self, kind: DeviceCall, bytes: u64, pending: Io<T>) -> Io<T> {
        let (cells, clock) = (self.cells.clone(), self.clock.clone());
        cells.pending.set(cells.pending.get() + 1);
        let call = Pending { start: clock.now(), cells, clock };
        async move {
            let result = pending.await;
            let ns = call.clock.now().0.saturating_sub(call.start.0);
            call.cells.calls[kind as usize].note(ns, bytes, &result);
            result
        }
        .boxed_local()
    }
}

impl BlockDevice for Counted {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let bytes = buffer.len() as u64;
        self.count(DeviceCall::Read, bytes, self.device.read(offset, buffer))
    }

    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let bytes = buffer.len() as u64;
        self.count(DeviceCall::Read, bytes, self.device.read_medium(offset, buffer))
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let bytes = length_of(&data);
        self.count(DeviceCall::Write, bytes, self.device.write(offset, data, durability))
    }

    fn flush(&self) -> Io<()> {
        self.count(DeviceCall::Flush, 0, self.device.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.device.discard(offset, length)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.device.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use block::Verb;
    use futures::future::ready;
    use sim::Executor;

    use super::*;

    const SIZE: u64 = 1 << 20;

    /// A device whose calls take 3 ms in virtual time, and whose writes fail.
    struct Slow(Rc<dyn Clock>);

    impl Slow {
        fn answer<T: 'static>(&self, result: Result<T, IoError>) -> Io<T> {
            let pause = self.0.sleep(Duration::from_millis(3));
            pause.then(|()| ready(result)).boxed_local()
        }
    }

    impl BlockDevice for Slow {
        fn geometry(&self) -> Geometry {
            let (logical_sector_size, physical_sector_size) = (512, 512);
            let (read_only, stripe, platters) = (false, None, None);
            let size = SIZE;
            Geometry {
                size,
                logical_sector_size,
                physical_sector_size,
                read_only,
                stripe,
                platters,
            }
        }

        fn read(&self, _: u64, buffer: Buffer) -> Io<Buffer> {
            self.answer(Ok(buffer))
        }

        fn write(&self, offset: u64, data: Vec<Bytes>, _: Durability) -> Io<()> {
            let length = length_of(&data);
            self.answer(Err(IoError::new(Verb::Write, offset, length, ErrorKind::Other)))
        }

        fn flush(&self) -> Io<()> {
            self.answer(Ok(()))
        }

        fn discard(&self, _: u64, _: u64) -> Io<()> {
            self.answer(Ok(()))
        }

        fn close(&self) -> Io<()> {
            self.answer(Ok(()))
        }
    }

    fn numbers(cells: &DeviceCells) -> Vec<(u64, u64, u64, u128)> {
        let one = |(_, it): (_, &CallCells)| {
            (it.latencies().calls(), it.errors(), it.bytes(), it.longest().as_millis())
        };
        cells.calls().map(one).collect()
    }

    #[test]
    fn calls_are_counted_with_their_times_bytes_and_errors() {
        let executor = Executor::new(1);
        let (clock, book) = (executor.runtime().clock, DeviceBook::default());
        let slow = Rc::new(Slow(clock.clone()));
        let disk = book.counted(Path::new("/d"), slow.clone(), clock.clone());
        let done = executor.block_on_for(Duration::from_secs(1), async {
            let data = vec![Bytes::from_static(&[0; 512])];
            disk.read(0, Buffer::zeroed(1024)).await.expect("it is good");
            disk.read_medium(0, Buffer::zeroed(1024)).await.expect("it is good");
            disk.write(0, data, Durability::Plain).await.expect_err("it is bad");
            disk.flush().await.expect("it is good");
            let pending = disk.flush();
            assert_eq!(book.copy()[0].1.pending(), 1);
            drop(pending);
        });
        done.expect("it ends");
        let copy = book.copy();
        assert_eq!((copy.len(), copy[0].0.as_path()), (1, Path::new("/d")));
        let cells = &copy[0].1;
        assert_eq!(numbers(cells), [(2, 0, 2048, 3), (1, 1, 0, 3), (1, 0, 0, 3)]);
        assert_eq!((cells.pending(), cells.calls().count()), (0, 3));
        assert_eq!(cells.calls[0].latencies().sum(), Duration::from_millis(6));
        // A path that is opened twice is one device, and is forgotten with the last.
        let again = book.counted(Path::new("/d"), slow.clone(), clock.clone());
        drop(disk);
        assert_eq!(numbers(&book.copy()[0].1)[0].0, 2);
        drop(again);
        assert_eq!(book.copy().len(), 0);
    }
}
