//! One connection of a client: the records to send, and one task each for sending and receiving.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, select};
use runtime::Runtime;
use runtime::sync::Signal;
use sim::Stream;

use super::Inner;

/// The bit of a record mark that marks the last fragment.
const LAST: u32 = 1 << 31;

pub(super) struct Link {
    pub(super) stream: Rc<Stream>,
    queue: RefCell<VecDeque<Bytes>>,
    queued: Signal,
    is_broken: Cell<bool>,
    breaks: Signal,
}

impl Link {
    /// Starts sending and receiving on a connection.
    pub(super) fn begin(client: &Rc<Inner>, stream: Stream) -> Rc<Self> {
        let link = Rc::new(Self {
            stream: Rc::new(stream),
            queue: RefCell::default(),
            queued: Signal::new(),
            is_broken: Cell::new(false),
            breaks: Signal::new(),
        });
        let (sending, hearing, client) = (link.clone(), link.clone(), Rc::downgrade(client));
        let tasks = client.upgrade().map(|client| client.runtime.tasks.clone());
        let tasks = tasks.expect("the client that asked for it");
        tasks.spawn(async move { sending.until_broken(sending.send_all()).await }.boxed_local());
        let hears = async move { hearing.until_broken(hearing.hear_all(&client)).await };
        tasks.spawn(hears.boxed_local());
        link
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Completes when the connection is no longer usable.
    pub(super) async fn broken(&self) {
        while !self.is_broken.get() {
            self.breaks.wait().await;
        }
    }

    /// Gives up the connection. It is closed when both tasks have ended.
    pub(super) fn close(&self) {
        self.is_broken.set(true);
        self.breaks.notify();
    }

    /// Sends a record now or later, if the connection still exists then.
    pub(super) fn send_after(self: &Rc<Self>, runtime: &Runtime, wait: Duration, record: Bytes) {
        if wait.is_zero() {
            self.queue.borrow_mut().push_back(record);
            return self.queued.notify();
        }
        let (link, clock) = (Rc::downgrade(self), runtime.clock.clone());
        let later = async move {
            clock.sleep(wait).await;
            if let Some(link) = link.upgrade() {
                link.queue.borrow_mut().push_back(record);
                link.queued.notify();
            }
        };
        runtime.tasks.spawn(later.boxed_local());
    }

    /// Runs `work` until it ends or the link is broken; then breaks the link.
    async fn until_broken(&self, work: impl Future<Output = ()>) {
        let (broken, work) = (std::pin::pin!(self.broken()), std::pin::pin!(work));
        if let Either::Right(_) = select(broken, work).await {
            self.close();
        }
    }

    async fn send_all(&self) {
        loop {
            let queued = self.queued.wait();
            let record = self.queue.borrow_mut().pop_front();
            match record {
                None => queued.await,
                Some(record) if self.stream.write_all(&record).await.is_err() => return,
                Some(_) => {}
            }
        }
    }

    async fn hear_all(&self, client: &Weak<Inner>) {
        while let Some(record) = self.hear().await {
            let Some(client) = client.upgrade() else { return };
            client.heard(self.stream.peer_incarnation(), &record);
        }
    }

    /// The next record; `None` at the end of the connection.
    async fn hear(&self) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.fill(&mut mark).await?;
            let mark = u32::from_be_bytes(mark);
            let start = record.len();
            record.resize(start + (mark & !LAST) as usize, 0);
            self.fill(&mut record[start..]).await?;
            if mark & LAST != 0 {
                return Some(record);
            }
        }
    }

    async fn fill(&self, mut target: &mut [u8]) -> Option<()> {
        while !target.is_empty() {
            let length = self.stream.read(target).await.ok().filter(|&length| length > 0)?;
            target = &mut target[length..];
        }
        Some(())
    }
}
