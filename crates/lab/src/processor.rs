//! A server's single processor, which every call uses for some time.
//!
//! The model is as coarse as the published data: a call costs a fixed time, and a time for every
//! byte of its request and reply. Calls get the processor in order of arrival, once before the call
//! is executed and once before the reply is sent; in between, the call waits for disks, locks and
//! the log, and the processor is free for others. When the load exceeds the processor, calls queue
//! for it, and that limits the whole server.

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

/// Processor time of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Time of every call, in nanoseconds.
    pub call_ns: u64,
    /// Time of every byte of a call or a reply, in nanoseconds.
    pub byte_ns: u64,
}

/// A processor that executes calls.
pub struct Processor {
    costs: Costs,
    clock: Rc<dyn Clock>,
    one: Rc<Semaphore>,
    busy_ns: Rc<Cell<u64>>,
}

impl Processor {
    /// An idle processor.
    pub fn new(costs: Costs, clock: Rc<dyn Clock>) -> Rc<Self> {
        Rc::new(Self { costs, clock, one: Semaphore::new(1), busy_ns: Rc::default() })
    }

    /// Total busy time.
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
