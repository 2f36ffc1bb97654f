//! A memory that may hang, and is not the only one: in a start, and while it comes back.
//!
//! Until it counts, a call that takes too long has failed, and so has every later one: what one of
//! two does not give is taken from the other.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, select};
use runtime::Runtime;

/// Time after which a call has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// See the module's prose. A clone is the same device.
#[derive(Clone)]
pub(crate) struct Timed {
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
    state: Rc<Cell<State>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A call that takes too long fails.
    Limited,
    /// One did.
    Silent,
    /// Calls take the time that they take.
    Patient,
}

impl Timed {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, runtime: &Runtime) -> Self {
        Self { device, runtime: runtime.clone(), state: Rc::new(Cell::new(State::Limited)) }
    }

    /// From now on calls take the time that they take.
    pub(crate) fn has_time(&self) {
        self.state.set(State::Patient);
    }

    fn in_time<T: 'static>(&self, verb: Verb, call: impl FnOnce() -> Io<T>) -> Io<T> {
        let late = move || Err(IoError::new(verb, 0, 0, ErrorKind::TimedOut));
        match self.state.get() {
            State::Patient => call(),
            State::Silent => async move { late() }.boxed_local(),
            State::Limited => {
                let (state, time) = (self.state.clone(), self.runtime.clock.sleep(TIMEOUT));
                let call = select(call(), time);
                let work = async move {
                    match call.await {
                        Either::Left((done, _)) => done,
                        Either::Right(_) => {
                            state.set(State::Silent);
                            late()
                        }
                    }
                };
                work.boxed_local()
            }
        }
    }
}

impl BlockDevice for Timed {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.in_time(Verb::Read, || self.device.read(offset, buffer))
    }

    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.in_time(Verb::Read, || self.device.read_medium(offset, buffer))
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.in_time(Verb::Write, || self.device.write(offset, data, durability))
    }

    fn flush(&self) -> Io<()> {
        self.in_time(Verb::Flush, || self.device.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.in_time(Verb::Discard, || self.device.discard(offset, length))
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.in_time(Verb::Read, || self.device.mend(offset, length, is_right))
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
