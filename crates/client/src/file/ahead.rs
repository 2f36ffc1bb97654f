//! Read-ahead: data that a sequential reader wants next is requested before it asks.
//!
//! A read that begins where the last one ended, or at the start of the file, is sequential: pieces
//! behind it are requested, one for each daemon. For any other read only its own bytes are
//! requested.
//!
//! Invariants:
//! 1. The pieces in the queue follow one another, and the first is at the reader's position;
//!    otherwise they are of no use and dropped.
//! 2. At most as many READs are in flight as there are daemons, including those of dropped pieces;
//!    without daemons, one.
//! 3. The same bound holds for the pieces, including a begun one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use runtime::Runtime;
use runtime::sync::Signal;

use super::calls::{Calls, Found, patiently};
use crate::call::CallError;
use crate::planted::{Bug, is_planted};

/// The pieces that were requested for a reader.
pub(super) struct Ahead<C> {
    daemons: usize,
    piece: u32,
    queue: VecDeque<Piece>,
    /// End of the last read.
    next: u64,
    fetcher: Rc<Fetcher<C>>,
}

/// A requested piece.
struct Piece {
    offset: u64,
    end: u64,
    answer: Rc<RefCell<Option<Result<Found, CallError>>>>,
}

/// The state that the tasks share.
struct Fetcher<C> {
    runtime: Runtime,
    calls: Rc<C>,
    pause: Duration,
    under_way: Cell<usize>,
    changed: Signal,
}

impl<C: Calls> Ahead<C> {
    pub(super) fn new(
        runtime: &Runtime,
        calls: Rc<C>,
        pause: Duration,
        (daemons, piece): (usize, u32),
    ) -> Self {
        let (runtime, under_way, changed) = (runtime.clone(), Cell::new(0), Signal::new());
        let fetcher = Rc::new(Fetcher { runtime, calls, pause, under_way, changed });
        Self { daemons, piece, queue: VecDeque::new(), next: 0, fetcher }
    }

    /// Drops all requested pieces.
    pub(super) fn forget(&mut self) {
        self.queue.clear();
    }

    pub(super) async fn read(&mut self, offset: u64, count: u64) -> Result<Found, CallError> {
        let read = self.take(offset, offset.saturating_add(count)).await;
        if read.is_err() {
            self.forget();
        }
        read
    }

    async fn take(&mut self, offset: u64, end: u64) -> Result<Found, CallError> {
        let is_sequential = offset == self.next;
        if !is_sequential || self.queue.front().is_some_and(|front| front.offset != offset) {
            self.forget(); // invariant 1
        }
        let limit = if is_sequential && self.daemons > 0 { u64::MAX } else { end };
        let (mut found, mut at) = (Found::default(), offset);
        while at < end && !found.eof {
            self.ask(at, limit);
            let Some(front) = self.queue.front_mut().filter(|front| front.has_answer()) else {
                self.fetcher.changed.wait().await;
                continue;
            };
            found.eof = front.move_to(&mut found.data, end)?;
            at = front.offset;
            if front.offset == front.end {
                self.queue.pop_front();
            }
        }
        if found.eof {
            self.forget();
        } else {
            self.ask(at, limit);
        }
        self.next = at;
        Ok(found)
    }

    /// Requests pieces from `at` on, as many as allowed.
    fn ask(&mut self, at: u64, limit: u64) {
        let is_here = self.queue.front().is_none_or(|front| front.offset == at);
        assert!(is_here, "invariant 1: the reader goes on in the first piece");
        let most = self.daemons.max(1);
        while self.queue.len() < most && self.fetcher.under_way.get() < most {
            let offset = self.queue.back().map_or(at, |last| last.end);
            let is_over = self.queue.iter().any(Piece::is_last);
            if offset >= limit || is_over {
                return;
            }
            let piece = u64::from(self.piece);
            let end = limit.min(offset.saturating_add(piece - offset % piece));
            let answer = Rc::default();
            self.queue.push_back(Piece { offset, end, answer: Rc::clone(&answer) });
            let fetch = self.fetcher.clone().fetch(offset, end, answer);
            self.fetcher.under_way.set(self.fetcher.under_way.get() + 1);
            self.fetcher.runtime.tasks.spawn(fetch.boxed_local());
        }
        assert!(self.fetcher.under_way.get() <= most, "invariant 2");
        assert!(self.queue.len() <= most, "invariant 3");
    }
}

impl Piece {
    fn has_answer(&self) -> bool {
        self.answer.borrow().is_some()
    }

    /// Whether the file is known to end here.
    fn is_last(&self) -> bool {
        self.answer.borrow().as_ref().is_some_and(|answer| matches!(answer, Ok(found) if found.eof))
    }

    /// Moves the wanted data up to `end`; returns whether the file ends there. The piece must have
    /// its reply.
    fn move_to(&mut self, data: &mut Vec<Bytes>, end: u64) -> Result<bool, CallError> {
        let mut answer = self.answer.borrow_mut();
        let found = match answer.as_mut().expect("the caller has seen it") {
            Ok(found) => found,
            Err(error) => return Err(error.clone()),
        };
        while self.offset < end
            && let Some(first) = found.data.first_mut()
        {
            let length = (first.len() as u64).min(end - self.offset);
            data.push(first.split_to(length as usize));
            self.offset += length;
            if first.is_empty() {
                found.data.remove(0);
            }
        }
        Ok(found.eof && found.data.is_empty())
    }
}

impl<C: Calls> Fetcher<C> {
    async fn fetch(
        self: Rc<Self>,
        offset: u64,
        end: u64,
        answer: Rc<RefCell<Option<Result<Found, CallError>>>>,
    ) {
        let result = self.whole(offset, end, || Rc::strong_count(&answer) > 1).await;
        answer.replace(Some(result));
        self.under_way.set(self.under_way.get() - 1);
        self.changed.notify();
    }

    /// Reads a piece; a READ that returns a part of it is followed by one for the rest.
    async fn whole(
        &self,
        mut at: u64,
        end: u64,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Found, CallError> {
        let mut whole = Found::default();
        while at < end && !whole.eof {
            let read = async || self.calls.read(at, (end - at) as u32).await;
            let clock = &*self.runtime.clock;
            let found = patiently(clock, self.pause, &is_wanted, read).await?;
            let length = found.length();
            if length > end - at {
                return Err(CallError::Wrong("it read more than it was asked for"));
            }
            if length == 0 && !found.eof {
                return Err(CallError::Wrong("it read nothing before the end of the file"));
            }
            at += length;
            whole.eof = found.eof || is_planted(Bug::ShortFiles) && at < end;
            whole.data.extend(found.data.into_iter().filter(|data| !data.is_empty()));
        }
        Ok(whole)
    }
}
