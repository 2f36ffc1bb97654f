//! A server's processor: one, and every call takes some of its time.
//!
//! The model is as coarse as what is known: a call costs a time of its own and one for every byte
//! that it brings or takes. It is had in the order of coming, in one piece before the call is
//! carried out and one before the reply goes out; between them the call waits for disks, locks and
//! the log, and the processor is free for others. When more is asked of it than it has time for,
//! calls wait for it, and that is the ceiling of the whole server.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use dispatch::Reply;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use nfs::record::Record;
use runtime::Clock;
use runtime::sync::Semaphore;
use torture::world;

/// What calls cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Every call, in nanoseconds.
    pub call_ns: u64,
    /// Every byte of a call or a reply, in nanoseconds.
    pub byte_ns: u64,
}

/// A processor that works through calls.
pub struct Processor {
    costs: Costs,
    clock: Rc<dyn Clock>,
    one: Rc<Semaphore>,
    busy_ns: Rc<Cell<u64>>,
}

impl Processor {
    /// A processor that is idle.
    pub fn new(costs: Costs, clock: Rc<dyn Clock>) -> Rc<Self> {
        Rc::new(Self { costs, clock, one: Semaphore::new(1), busy_ns: Rc::default() })
    }

    /// For how long it has worked.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.get())
    }

    fn work(&self, time_ns: u64) -> LocalBoxFuture<'static, ()> {
        let (clock, one, busy_ns) = (self.clock.clone(), self.one.clone(), self.busy_ns.clone());
        let work = async move {
            let _turn = one.acquire(1).await;
            clock.sleep(Duration::from_nanos(time_ns)).await;
            busy_ns.set(busy_ns.get() + time_ns);
        };
        work.boxed_local()
    }
}

impl world::Processor for Processor {
    fn take(&self, call: &Record) -> LocalBoxFuture<'static, ()> {
        self.work(self.costs.call_ns + self.costs.byte_ns * call.memory() as u64)
    }

    fn give(&self, reply: &Reply) -> LocalBoxFuture<'static, ()> {
        self.work(self.costs.byte_ns * reply.length() as u64)
    }
}
