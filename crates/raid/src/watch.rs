//! Members that do not answer.
//!
//! Each device of a set is wrapped in a [`Watched`] one, which records the start times of its calls
//! under way. A member is *silent* when one of its calls has had no answer for a while, and another
//! member has answered since that call began, or has no call under way: if no member answers, no
//! single disk is at fault. A silent member is reported and stays in. Its callers wait until the
//! system gives up, which is an error of the member. While a set is opened, each disk that does not
//! answer is reported ([`reporting`]).
//!
//! Invariants:
//! 1. A call is recorded from the time it is made until it is answered or its caller drops it.
//!
//! Not asserted: 1, which creating and dropping a [`Call`] maintains.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, select};
use runtime::{Clock, Instant};

/// Time without an answer after which a member is silent.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(30);
/// A disk that gives no answer for this long while a set is opened is reported.
const REPORT_AFTER: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Reports a disk, by its number, that does not answer while a set is opened.
pub type ReportSilence = Rc<dyn Fn(usize)>;

/// The calls under way of one device.
pub(crate) struct Calls {
    clock: Rc<dyn Clock>,
    /// Address of the device in memory.
    of: usize,
    /// Start times of the calls under way, in order.
    under_way: RefCell<BTreeMap<u64, Instant>>,
    next: Cell<u64>,
    /// Time of the latest answer.
    answered: Cell<Instant>,
}

impl Calls {
    /// An empty list for a device, or for none.
    pub(crate) fn new(device: Option<&Rc<dyn BlockDevice>>, clock: Rc<dyn Clock>) -> Self {
        let (answered, next) = (Cell::default(), Cell::new(0));
        let of = device.map_or(0, address_of);
        Self { clock, of, under_way: RefCell::default(), next, answered }
    }

    /// Whether the list belongs to this device.
    pub(crate) fn are_of(&self, device: &Rc<dyn BlockDevice>) -> bool {
        self.of == address_of(device)
    }

    /// For each device, how long it has been silent; `None` if it is not silent.
    pub(crate) fn silences(all: &[Rc<Self>]) -> Vec<Option<Duration>> {
        let of = |(place, calls): (usize, &Rc<Self>)| {
            let began = *calls.under_way.borrow().values().next()?;
            let waits = calls.clock.now().since(began);
            let mut others = all.iter().enumerate().filter(|(other, _)| *other != place);
            let is_well =
                |other: &Self| other.answered.get() >= began || other.under_way.borrow().is_empty();
            let is_alone = others.any(|(_, other)| is_well(other));
            Some(waits).filter(|waits| *waits >= SILENT_AFTER && is_alone)
        };
        all.iter().enumerate().map(of).collect()
    }

    /// Age of the oldest call under way.
    pub(crate) fn waits(&self) -> Option<Duration> {
        let began = *self.under_way.borrow().values().next()?;
        Some(self.clock.now().since(began))
    }

    fn begin(self: &Rc<Self>) -> Call {
        let (calls, number) = (self.clone(), self.next.get());
        self.next.set(number + 1);
        self.under_way.borrow_mut().insert(number, self.clock.now());
        Call { calls, number }
    }

    fn noted<T: 'static>(self: &Rc<Self>, call: impl FnOnce() -> Io<T>) -> Io<T> {
        let noted = self.begin();
        let answer = call();
        async move {
            let answer = answer.await;
            noted.calls.answered.set(noted.calls.clock.now());
            answer
        }
        .boxed_local()
    }
}

pub(crate) fn address_of(device: &Rc<dyn BlockDevice>) -> usize {
    Rc::as_ptr(device).cast::<()>().addr()
}

/// Runs `work`, and meanwhile repeatedly reports disks that do not answer. `disks` are the numbers
/// by which they are reported, with their calls.
pub(crate) async fn reporting<T>(
    disks: Vec<(usize, Rc<Calls>)>,
    clock: &Rc<dyn Clock>,
    report: &ReportSilence,
    work: impl Future<Output = T>,
) -> T {
    let watch = async {
        loop {
            clock.sleep(POLL_INTERVAL).await;
            for (disk, calls) in &disks {
                if calls.waits().is_some_and(|waits| waits >= REPORT_AFTER) {
                    report(*disk);
                }
            }
        }
    };
    match select(pin!(work), pin!(watch)).await {
        Either::Left((done, _)) => done,
        Either::Right((never, _)) => never,
    }
}

/// A call under way.
struct Call {
    calls: Rc<Calls>,
    number: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.under_way.borrow_mut().remove(&self.number);
    }
}

/// A device wrapper that records its calls.
pub(crate) struct Watched {
    device: Rc<dyn BlockDevice>,
    calls: Rc<Calls>,
}

impl Watched {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, calls: Rc<Calls>) -> Self {
        Self { device, calls }
    }
}

impl BlockDevice for Watched {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.calls.noted(|| self.device.read(offset, buffer))
    }

    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.calls.noted(|| self.device.read_medium(offset, buffer))
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.calls.noted(|| self.device.write(offset, data, durability))
    }

    fn flush(&self) -> Io<()> {
        self.calls.noted(|| self.device.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.calls.noted(|| self.device.discard(offset, length))
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
