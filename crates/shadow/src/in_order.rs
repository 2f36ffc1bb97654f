//! A device that carries out one write after another, in the order in which they were requested: so
//! writes that were planned by the position of the arm happen there ([`crate::placement`]).
//!
//! Invariants:
//! 1. Writes go out in the order of their requests, each when the one before has completed.
//! 2. Each write is answered once, even if its caller is gone.
//!
//! Not asserted: 1 and 2, which are the order of one loop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb, length_of};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use runtime::Spawn;
use runtime::sync::Signal;

use crate::placement::Placement;

/// See the module's prose.
pub(crate) struct InOrder {
    device: Rc<dyn BlockDevice>,
    tasks: Rc<dyn Spawn>,
    queue: Rc<Queue>,
}

struct Queue {
    placement: Rc<Placement>,
    waiting: RefCell<VecDeque<Write>>,
    is_running: Cell<bool>,
    ended: Signal,
}

struct Write {
    offset: u64,
    data: Vec<Bytes>,
    durability: Durability,
    answer: oneshot::Sender<Result<(), IoError>>,
}

impl InOrder {
    /// On a device whose arm is tracked.
    pub(crate) fn new(
        device: Rc<dyn BlockDevice>,
        tasks: Rc<dyn Spawn>,
        placement: Rc<Placement>,
    ) -> Self {
        let (waiting, is_running, ended) = Default::default();
        Self { device, tasks, queue: Rc::new(Queue { placement, waiting, is_running, ended }) }
    }
}

/// Carries out the queued writes.
async fn drain(device: Rc<dyn BlockDevice>, queue: Rc<Queue>) {
    loop {
        let next = queue.waiting.borrow_mut().pop_front();
        let Some(Write { offset, data, durability, answer }) = next else { break };
        let end = offset + length_of(&data);
        let written = device.write(offset, data, durability).await;
        queue.placement.has_passed(end, false);
        let _ = answer.send(written); // its caller may have gone
    }
    queue.is_running.set(false);
    queue.ended.notify();
}

impl BlockDevice for InOrder {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let queue = self.queue.clone();
        let passed = move |read: &Result<Buffer, IoError>| {
            // A refused read has not moved the arm, and may be out of bounds.
            if let Ok(buffer) = read {
                queue.placement.has_passed(offset + buffer.len() as u64, true);
            }
        };
        self.device.read(offset, buffer).inspect(passed).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let (answer, answered) = oneshot::channel();
        let length = length_of(&data);
        self.queue.placement.begins();
        self.queue.waiting.borrow_mut().push_back(Write { offset, data, durability, answer });
        if !self.queue.is_running.replace(true) {
            let drained = drain(self.device.clone(), self.queue.clone());
            self.tasks.spawn(drained.boxed_local());
        }
        let closed = move |_| Err(IoError::new(Verb::Write, offset, length, GONE));
        answered.map(move |answer| answer.unwrap_or_else(closed)).boxed_local()
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.device.discard(offset, length)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.device.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        let (device, queue) = (self.device.clone(), self.queue.clone());
        async move {
            while queue.is_running.get() {
                queue.ended.wait().await;
            }
            device.close().await
        }
        .boxed_local()
    }
}

/// The tasks have ended, and the write with them.
const GONE: std::io::ErrorKind = std::io::ErrorKind::NotConnected;
