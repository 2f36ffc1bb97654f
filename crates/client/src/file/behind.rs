//! Write-behind: tasks send written data, and a COMMIT makes it durable.
//!
//! All decisions are those of [`Pieces`]; this module turns them into calls. A task has one call in
//! flight: it takes a piece, reports its result, and begins the next calls that may be made.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use runtime::Runtime;
use runtime::sync::Signal;

use super::calls::{Calls, patiently};
use super::pieces::{Bounds, Pieces, Sending};
use crate::call::CallError;

/// Data that was written to a file and is not durable yet.
pub(super) struct Behind<C> {
    runtime: Runtime,
    calls: Rc<C>,
    pause: Duration,
    pieces: RefCell<Pieces>,
    /// Notified of each reply.
    changed: Signal,
    /// The file is gone: waiting pieces are not sent any more.
    is_left: Cell<bool>,
}

impl<C: Calls> Behind<C> {
    pub(super) fn new(
        runtime: &Runtime,
        calls: Rc<C>,
        pause: Duration,
        bounds: Bounds,
    ) -> Rc<Self> {
        Rc::new(Self {
            runtime: runtime.clone(),
            calls,
            pause,
            pieces: RefCell::new(Pieces::new(bounds)),
            changed: Signal::new(),
            is_left: Cell::new(false),
        })
    }

    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.pieces.borrow().held_bytes()
    }

    /// Whether all written data is durable, or given up.
    pub(super) fn is_clean(&self) -> bool {
        self.pieces.borrow().is_clean()
    }

    /// The error that was not reported yet.
    pub(super) fn take_error(&self) -> Result<(), CallError> {
        self.pieces.borrow_mut().take_error()
    }

    /// Adds a piece when there is room for it.
    pub(super) async fn add(self: &Rc<Self>, offset: u64, data: Bytes) {
        self.until(|pieces| pieces.has_room(data.len())).await;
        self.pieces.borrow_mut().add(offset, data);
        self.go_on();
    }

    /// Waits until every piece has its reply.
    pub(super) async fn answered(&self) {
        self.until(Pieces::is_answered).await;
    }

    /// Waits until all written data is durable, or given up.
    pub(super) async fn settle(self: &Rc<Self>) {
        loop {
            self.answered().await;
            if self.is_clean() {
                return;
            }
            if self.pieces.borrow().may_commit() {
                self.begin_commit();
            }
            self.changed.wait().await;
        }
    }

    /// Begins no more calls: see `is_left`.
    pub(super) fn leave(&self) {
        self.is_left.set(true);
    }

    async fn until(&self, is_so: impl Fn(&Pieces) -> bool) {
        while !is_so(&self.pieces.borrow()) {
            self.changed.wait().await;
        }
    }

    /// Begins all calls that may begin.
    fn go_on(self: &Rc<Self>) {
        if self.is_left.get() {
            return;
        }
        let next = || self.pieces.borrow_mut().take_ready();
        while let Some(sending) = next() {
            self.runtime.tasks.spawn(self.clone().send(sending).boxed_local());
        }
        if self.pieces.borrow().is_commit_due() {
            self.begin_commit();
        }
    }

    async fn send(self: Rc<Self>, Sending { key, data, stable }: Sending) {
        let write = async || self.calls.write(key.1, data.clone(), stable).await;
        let answer = self.patiently(write).await;
        self.pieces.borrow_mut().write_answered(key, answer);
        self.go_on();
        self.changed.notify();
    }

    async fn patiently<T>(
        &self,
        call: impl AsyncFn() -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let is_wanted = || !self.is_left.get();
        patiently(&*self.runtime.clock, self.pause, is_wanted, call).await
    }

    fn begin_commit(self: &Rc<Self>) {
        self.pieces.borrow_mut().commit_begins();
        self.runtime.tasks.spawn(self.clone().commit().boxed_local());
    }

    async fn commit(self: Rc<Self>) {
        let commit = async || self.calls.commit().await;
        let answer = self.patiently(commit).await;
        self.pieces.borrow_mut().commit_answered(answer);
        self.go_on();
        self.changed.notify();
    }
}
