//! One connection: two ends, and a flow of bytes from each to the other.
//!
//! Invariants:
//! 1. Bytes arrive in the order in which they were sent, each once, or not at all. A lost segment
//!    delays those behind it, as in TCP.
//! 2. `unread` of a flow is at most the window: the bytes that its sender takes for unread.
//! 3. At most one event is scheduled for a flow, that of its first segment.
//! 4. An end without power does nothing: bytes that it had sent may arrive, unless they were lost.
//!    An end with a kernel but without a process is closed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use runtime::Clock;

use super::Inner;
use super::trace::NetworkEvent;
use crate::world::Power;

pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) network: Rc<Inner>,
    pub(super) ends: [Place; 2],
    state: RefCell<State>,
}

/// Location of an end.
pub(super) struct Place {
    pub(super) address: SocketAddr,
    pub(super) power: Power,
    pub(super) incarnation: u64,
}

#[derive(Default)]
struct State {
    ends: [End; 2],
    /// One flow from each end to the other.
    flows: [Flow; 2],
    /// The connection carries nothing any more.
    dead: bool,
}

#[derive(Default)]
struct End {
    failed: Option<ErrorKind>,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
struct Flow {
    on_its_way: VecDeque<Segment>,
    arrived: VecDeque<Bytes>,
    /// The end of the stream was sent,
    ended: bool,
    /// and has arrived.
    finished: bool,
    unread: usize,
    line_free_at: u64,
    last_arrival: u64,
    /// Whether an event is scheduled for its first segment.
    is_awaited: bool,
}

/// Bytes in transit; an empty segment is the end of the stream.
struct Segment {
    bytes: Bytes,
    departs: u64,
    arrives: u64,
    /// Number of failed transmissions, and the time of the first.
    losses: u32,
}

/// The outcome of a segment that is due to arrive.
enum Arrival {
    Fits,
    Nobody,
    Refused,
    Gone,
}

impl Connection {
    pub(super) fn new(id: u64, network: Rc<Inner>, ends: [Place; 2]) -> Rc<Self> {
        Rc::new(Self { id, network, ends, state: RefCell::default() })
    }

    pub(super) fn poll_read(
        self: &Rc<Self>,
        end: usize,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state.borrow_mut();
        if let Some(kind) = state.ends[end].failed {
            return Poll::Ready(Err(kind.into()));
        }
        let flow = &mut state.flows[1 - end];
        let mut length = 0;
        while let Some(front) = flow.arrived.front_mut().filter(|_| length < target.len()) {
            let part = front.len().min(target.len() - length);
            front.copy_to_slice(&mut target[length..length + part]);
            length += part;
            if front.is_empty() {
                flow.arrived.pop_front();
            }
        }
        if length == 0 && !target.is_empty() && !flow.finished {
            state.ends[end].reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if length > 0 {
            self.tell_of_room(1 - end, length);
        }
        Poll::Ready(Ok(length))
    }

    /// Notifies the sender of a flow, after a delay, that bytes were read.
    fn tell_of_room(self: &Rc<Self>, sender: usize, length: usize) {
        let connection = self.clone();
        self.network.world.after(self.network.draw_delay(), move || {
            let state = &mut *connection.state.borrow_mut();
            state.flows[sender].unread -= length;
            wake(&mut state.ends[sender].writer);
        });
    }

    pub(super) fn poll_write(
        self: &Rc<Self>,
        end: usize,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state.borrow_mut();
        if let Some(kind) = state.ends[end].failed {
            return Poll::Ready(Err(kind.into()));
        }
        let flow = &mut state.flows[end];
        if flow.ended {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let is_on = self.network.world.has_power(&self.ends[end].power);
        assert!(is_on, "invariant 4: an end without power does nothing");
        let window = self.network.options.get().window;
        let room = window.checked_sub(flow.unread).expect("invariant 2: no more is unread");
        if room == 0 && !bytes.is_empty() {
            state.ends[end].writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let length = room.min(bytes.len());
        let mut rest = Bytes::copy_from_slice(&bytes[..length]);
        flow.unread += length;
        while !rest.is_empty() {
            let segment = rest.split_to(self.network.draw_segment(rest.len()));
            self.send(flow, end, segment);
        }
        Poll::Ready(Ok(length))
    }

    /// Sends the end of the stream.
    pub(super) fn end(self: &Rc<Self>, end: usize) {
        let state = &mut *self.state.borrow_mut();
        let flow = &mut state.flows[end];
        if !flow.ended && state.ends[end].failed.is_none() {
            flow.ended = true;
            self.send(flow, end, Bytes::new());
        }
    }

    /// Closes an end that no task holds any more.
    pub(super) fn close(self: &Rc<Self>, end: usize) {
        if !self.network.world.has_kernel(&self.ends[end].power) {
            return; // invariant 4
        }
        let unread = {
            let state = &mut *self.state.borrow_mut();
            state.ends[end].closed = true;
            !state.flows[1 - end].arrived.is_empty()
        };
        if unread { self.reset(1 - end) } else { self.end(end) }
    }

    fn send(self: &Rc<Self>, flow: &mut Flow, end: usize, bytes: Bytes) {
        let network = &self.network;
        let options = network.options.get();
        let line_ns = (bytes.len() as u64).saturating_mul(options.byte_ps) / 1000;
        let departs = flow.line_free_at.max(network.world.now().0).saturating_add(line_ns);
        let losses = network.draw_losses();
        let again_ns = (0..losses).map(|loss| options.retransmit_ns << loss).sum::<u64>();
        let arrives = departs.saturating_add(network.draw_delay()).saturating_add(again_ns);
        let arrives = arrives.max(flow.last_arrival); // invariant 1
        flow.line_free_at = departs;
        flow.last_arrival = arrives;
        network.world.record(|digest| digest.add_bytes(&bytes));
        network.happen(NetworkEvent::Sent { connection: self.id, end, length: bytes.len() });
        flow.on_its_way.push_back(Segment { bytes, departs, arrives, losses });
        if flow.on_its_way.len() == 1 {
            self.await_arrival(flow, end);
        }
    }

    fn await_arrival(self: &Rc<Self>, flow: &mut Flow, end: usize) {
        let Some(first) = flow.on_its_way.front() else { return };
        let was_awaited = std::mem::replace(&mut flow.is_awaited, true);
        assert!(!was_awaited, "invariant 3: one event is scheduled for a flow");
        let wait_ns = first.arrives.saturating_sub(self.network.world.now().0);
        let connection = self.clone();
        self.network.world.after(wait_ns, move || connection.arrive(end));
    }

    /// Delivers the first segment from `end`.
    fn arrive(self: &Rc<Self>, end: usize) {
        let state = &mut *self.state.borrow_mut();
        let State { ends, flows, dead } = state;
        let (flow, receiver) = (&mut flows[end], &mut ends[1 - end]);
        flow.is_awaited = false;
        let Some(first) = flow.on_its_way.front_mut() else { return };
        match self.arrival(end, first, receiver.closed, *dead) {
            Arrival::Fits => {
                let bytes = flow.on_its_way.pop_front().map(|first| first.bytes);
                let bytes = bytes.expect("it was there a moment ago");
                assert!(!flow.finished, "invariant 1: nothing arrives behind the end");
                let (connection, length) = (self.id, bytes.len());
                self.network.happen(NetworkEvent::Arrived { connection, end, length });
                if bytes.is_empty() {
                    flow.finished = true
                } else {
                    flow.arrived.push_back(bytes)
                }
                wake(&mut receiver.reader);
                self.await_arrival(flow, end);
            }
            Arrival::Nobody => {
                let options = self.network.options.get();
                self.network.happen(NetworkEvent::Unreachable { connection: self.id, end });
                let again_ns = options.retransmit_ns << first.losses.min(20);
                first.losses += 1;
                first.arrives = self.network.world.now().0.saturating_add(again_ns);
                if first.arrives - first.departs > options.give_up_ns {
                    flow.on_its_way.clear();
                    self.fail(&mut ends[end], end, ErrorKind::TimedOut);
                } else {
                    self.await_arrival(flow, end);
                }
            }
            Arrival::Refused => {
                flow.on_its_way.clear();
                self.reset(end);
            }
            Arrival::Gone => flow.on_its_way.clear(),
        }
    }

    fn arrival(&self, end: usize, segment: &Segment, closed: bool, dead: bool) -> Arrival {
        let world = &self.network.world;
        let (sender, receiver) = (&self.ends[end], &self.ends[1 - end]);
        let sender_lives = world.has_kernel(&sender.power);
        let was_sent = segment.losses == 0 && world.had_power(&sender.power, segment.departs);
        if !sender_lives && !was_sent {
            return Arrival::Gone; // invariant 4
        }
        let (from, to) = (sender.address.ip(), receiver.address.ip());
        if dead || self.network.is_split(from, to) || !self.network.is_up(to) {
            return if sender_lives { Arrival::Nobody } else { Arrival::Gone };
        }
        let is_open = world.has_kernel(&receiver.power) && !closed;
        if is_open {
            Arrival::Fits
        } else if segment.bytes.is_empty() {
            Arrival::Gone
        } else {
            Arrival::Refused
        }
    }

    /// Notifies an end, after a delay, that the other one does not know the connection.
    fn reset(self: &Rc<Self>, end: usize) {
        let connection = self.clone();
        self.network.world.after(self.network.draw_delay(), move || {
            let [one, other] = [0, 1].map(|end: usize| connection.ends[end].address.ip());
            if !connection.network.is_split(one, other) {
                let state = &mut *connection.state.borrow_mut();
                connection.fail(&mut state.ends[end], end, ErrorKind::ConnectionReset);
            }
        });
    }

    fn fail(&self, state: &mut End, end: usize, kind: ErrorKind) {
        if state.failed.is_some() || state.closed {
            return;
        }
        state.failed = Some(kind);
        self.network.happen(NetworkEvent::Failed { connection: self.id, end, kind });
        wake(&mut state.reader);
        wake(&mut state.writer);
    }

    /// Kills the connection. Each end with a time is notified then.
    pub(super) fn die(self: &Rc<Self>, heard_ns: [Option<u64>; 2]) {
        if std::mem::replace(&mut self.state.borrow_mut().dead, true) {
            return;
        }
        self.network.happen(NetworkEvent::Died { connection: self.id });
        for (end, heard_ns) in heard_ns.into_iter().enumerate() {
            let Some(heard_ns) = heard_ns else { continue };
            let connection = self.clone();
            self.network.world.after(heard_ns, move || {
                let state = &mut *connection.state.borrow_mut();
                connection.fail(&mut state.ends[end], end, ErrorKind::ConnectionReset);
            });
        }
    }

    /// Whether both ends are closed, or will never do anything again.
    pub(super) fn is_over(&self) -> bool {
        self.is_over_at(0) && self.is_over_at(1)
    }

    pub(super) fn is_over_at(&self, end: usize) -> bool {
        let state = &self.state.borrow().ends[end];
        state.closed || state.failed.is_some() || !self.network.has_kernel(&self.ends[end].power)
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
