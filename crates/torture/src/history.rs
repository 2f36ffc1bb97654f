//! Every call of every client: when it was made, how often and to which boots of the server it was
//! sent, and its answer.
//!
//! Invariants:
//! 1. `order` grows over all entries, of all clients: a call that was answered before another one
//!    was made has the smaller number, although both may have the same time.
//! 2. A call has at most one answer, the first that reached its client.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use runtime::Instant;

use crate::protocol::{Answer, Request, Response, Target};

/// The time and order of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub at: Instant,
    /// Its position among all entries (invariant 1).
    pub order: u64,
}

/// A call that was put on a connection. It may not have arrived at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub when: Moment,
    /// The call's number (xid).
    pub xid: u32,
    /// The boot of the server to which the connection led, counted from 1.
    pub boot: u64,
    /// The number of the connection.
    pub connection: u64,
    /// The client's port.
    pub port: u16,
}

/// A reply that reached its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When.
    pub when: Moment,
    /// The boot of the server that sent it.
    pub boot: u64,
    /// The answer.
    pub answer: Answer,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The client's number.
    pub client: u32,
    /// The procedure.
    pub target: Target,
    /// The encoded arguments, as they were sent.
    pub arguments: Bytes,
    /// When it was made.
    pub made: Moment,
    /// The last boot of the server that had begun by then.
    pub made_in_boot: u64,
    /// The transmissions, the first one first.
    pub sent: Vec<Sent>,
    /// Number of JUKEBOX answers, which do not count as the answer.
    pub put_off: u32,
    /// The answer.
    pub answered: Option<Answered>,
}

impl Call {
    /// The decoded arguments.
    ///
    /// # Panics
    /// When a client of ours has sent arguments that cannot be decoded.
    pub fn request(&self) -> Request {
        Request::decode(self.target, &self.arguments).expect("our own arguments")
    }

    /// The decoded results; `None` when there are none.
    ///
    /// # Panics
    /// When the server has answered with something undecodable.
    pub fn response(&self) -> Option<Response> {
        match &self.answered.as_ref()?.answer {
            Answer::Refused(_) => None,
            Answer::Results(results) => {
                let response = Response::decode(self.target, results);
                Some(response.unwrap_or_else(|| panic!("{:?}: {results:?}", self.target)))
            }
        }
    }

    /// The status of the answer.
    pub fn status(&self) -> Option<nfsstat3> {
        self.answered.as_ref()?.answer.status(self.target)
    }

    /// Whether a boot before the one that answered may have carried it out, so that the answer is
    /// one to a repetition that the server did not recognise.
    pub fn crossed_a_crash(&self) -> bool {
        let last = self.answered.as_ref().map_or(u64::MAX, |answered| answered.boot);
        self.sent.iter().any(|sent| sent.boot < last)
    }
}

/// The calls of all clients of a world, in the order in which they were made.
#[derive(Clone, Default)]
pub struct History(Rc<RefCell<Notes>>);

#[derive(Default)]
struct Notes {
    calls: Vec<Call>,
    answered: usize,
    ends: Vec<Moment>,
    next: u64,
}

/// The number of a call in its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub usize);

impl History {
    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.0.borrow().calls.clone()
    }

    /// One of the calls.
    ///
    /// # Panics
    /// When there is no such call.
    pub fn call(&self, id: CallId) -> Call {
        self.0.borrow().calls[id.0].clone()
    }

    /// Drops the bytes of all answered calls: for tests that do not need them.
    pub fn forget_bytes(&self) {
        for call in &mut self.0.borrow_mut().calls {
            if let Some(answered) = &mut call.answered {
                call.arguments = Bytes::new();
                answered.answer = Answer::Results(Bytes::new());
            }
        }
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.0.borrow().calls.len()
    }

    /// The number of calls that were answered.
    pub fn answered(&self) -> usize {
        self.0.borrow().answered
    }

    /// Whether no call was made.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The end of each boot that has ended.
    pub fn ends(&self) -> Vec<Moment> {
        self.0.borrow().ends.clone()
    }

    pub(crate) fn end_of_boot(&self, at: Instant) {
        let notes = &mut *self.0.borrow_mut();
        let end = notes.moment(at);
        notes.ends.push(end);
    }

    pub(crate) fn make(
        &self,
        at: Instant,
        (client, boot): (u32, u64),
        target: Target,
        arguments: Bytes,
    ) -> CallId {
        let notes = &mut *self.0.borrow_mut();
        let (made, sent) = (notes.moment(at), Vec::new());
        let (made_in_boot, put_off, answered) = (boot, 0, None);
        notes.calls.push(Call {
            client,
            target,
            arguments,
            made,
            made_in_boot,
            sent,
            put_off,
            answered,
        });
        CallId(notes.calls.len() - 1)
    }

    pub(crate) fn send(&self, id: CallId, at: Instant, sent: impl FnOnce(Moment) -> Sent) {
        let notes = &mut *self.0.borrow_mut();
        let when = notes.moment(at);
        notes.calls[id.0].sent.push(sent(when));
    }

    pub(crate) fn put_off(&self, id: CallId) {
        self.0.borrow_mut().calls[id.0].put_off += 1;
    }

    pub(crate) fn answer(&self, id: CallId, at: Instant, boot: u64, answer: Answer) {
        let notes = &mut *self.0.borrow_mut();
        let when = notes.moment(at);
        let call = &mut notes.calls[id.0];
        assert!(call.made.order < when.order, "invariant 1: a call is made before its answer");
        let answered = &mut call.answered;
        assert!(answered.is_none(), "invariant 2");
        *answered = Some(Answered { when, boot, answer });
        notes.answered += 1;
    }
}

impl Notes {
    fn moment(&mut self, at: Instant) -> Moment {
        self.next += 1;
        Moment { at, order: self.next }
    }
}
