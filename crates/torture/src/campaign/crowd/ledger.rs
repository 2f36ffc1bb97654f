//! Counts a crowd's traffic between its pipes and the server, without asking the server.
//!
//! Each connection is a *lane*. The stream that the server holds counts the records in each
//! direction, with their times: so the ledger knows the waiting calls, the seated clients, and
//! after what a client was disconnected. For a quiet client's call it keeps the server's work for
//! all others between the call and its answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dispatch::CallObserver;
use door::pipe::{Entrance, Meter, Pipe};
use door::{Listener, Stream};
use runtime::{Clock, Instant};
use trace::Begun;

use super::records::Records;

/// All lanes, and the counts of their calls.
pub(super) struct Ledger {
    pub(super) clock: Rc<dyn Clock>,
    entrance: Entrance,
    pub(super) lanes: RefCell<BTreeMap<SocketAddr, Rc<Lane>>>,
    next_port: Cell<u16>,
    /// Bytes that disks were asked to read and write.
    disk_bytes: Box<dyn Fn() -> u64>,
    answered: Cell<u64>,
    /// Bytes that went through all lanes but quiet ones.
    moved: Cell<u64>,
    /// Counts for the calls of quiet clients.
    pub(super) turns: RefCell<Vec<QuietTurn>>,
}

/// One connection.
pub(super) struct Lane {
    pub(super) address: SocketAddr,
    pub(super) role: Role,
    pub(super) meter: Meter,
    /// The shortest record that its client sends, in bytes with its mark.
    pub(super) shortest: Cell<usize>,
    calls: Cell<Records>,
    replies: Cell<Records>,
    pub(super) arrived: Instant,
    /// When it got a place, and when the server closed it.
    pub(super) seated: Cell<Option<Instant>>,
    pub(super) ended: Cell<Option<Instant>>,
    /// Whether its client left before the server closed it.
    pub(super) left: Cell<bool>,
    /// The state that a newcomer found.
    pub(super) found: Cell<Option<Found>>,
    last_read: Cell<Instant>,
    last_written: Cell<Instant>,
    /// Since when its peer has owed taking replies.
    owes_since: Cell<Option<Instant>>,
    asked: Cell<Option<Asked>>,
}

/// The kind of a client, for the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has one small call at a time, and is admitted.
    Quiet,
    /// It has begun a large record and never ends it.
    HalfSent,
    /// It wants a place, and nothing else, while all are taken.
    Newcomer,
    /// Anything else.
    Other,
}

/// The counts when a quiet client asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    may_wait_for_disk: bool,
    answered: u64,
    moved: u64,
    disk_bytes: u64,
    lanes: usize,
    lanes_ever: usize,
}

/// The state when a newcomer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Connections with a place.
    pub(super) seated: u64,
    /// Whether another connection must yield its place at once, whoever else waits.
    pub(super) is_easy: bool,
}

/// The server's work for all others between a quiet client's call and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuietTurn {
    /// Whether the call reads data: others go on while it waits for the disk.
    pub(super) may_wait_for_disk: bool,
    pub(super) waited: Duration,
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) disk_bytes: u64,
    /// Number of other connections.
    pub(super) others: u64,
}

impl Ledger {
    pub(super) fn new(clock: Rc<dyn Clock>, disk_bytes: Box<dyn Fn() -> u64>) -> Rc<Self> {
        Rc::new(Self {
            clock,
            entrance: Entrance::default(),
            lanes: RefCell::default(),
            next_port: Cell::new(0),
            disk_bytes,
            answered: Cell::new(0),
            moved: Cell::new(0),
            turns: RefCell::default(),
        })
    }

    /// Opens a connection for a client.
    pub(super) fn connect(&self, client: std::net::IpAddr, role: Role, room: usize) -> Client {
        self.next_port.set(self.next_port.get() + 1);
        let address = SocketAddr::new(client, self.next_port.get());
        let pipe = self.entrance.connect(address, room);
        let now = self.clock.now();
        let lane = Rc::new(Lane {
            address,
            role,
            meter: pipe.meter(),
            shortest: Cell::new(usize::MAX),
            calls: Cell::default(),
            replies: Cell::default(),
            arrived: now,
            seated: Cell::new(None),
            ended: Cell::new(None),
            left: Cell::new(false),
            found: Cell::new(None),
            last_read: Cell::new(now),
            last_written: Cell::new(now),
            owes_since: Cell::new(None),
            asked: Cell::new(None),
        });
        self.lanes.borrow_mut().insert(address, lane.clone());
        Client { pipe, lane }
    }

    /// All lanes that ever existed.
    pub(super) fn lanes(&self) -> Vec<Rc<Lane>> {
        self.lanes.borrow().values().cloned().collect()
    }

    /// Visits every lane that the server has not closed.
    pub(super) fn each_live(&self, mut look: impl FnMut(&Lane)) {
        let lanes = self.lanes.borrow();
        lanes.values().filter(|lane| lane.ended.get().is_none()).for_each(|lane| look(lane));
    }

    /// A quiet client sends a call.
    pub(super) fn asks(&self, lane: &Lane, may_wait_for_disk: bool) {
        let mut live = 0;
        self.each_live(|_| live += 1);
        lane.asked.set(Some(Asked {
            at: self.clock.now(),
            may_wait_for_disk,
            answered: self.answered.get(),
            moved: self.moved.get(),
            disk_bytes: (self.disk_bytes)(),
            lanes: live,
            lanes_ever: self.lanes.borrow().len(),
        }));
    }

    fn is_answered(&self, lane: &Lane) {
        let Some(asked) = lane.asked.take() else { return };
        let came = self.lanes.borrow().len() - asked.lanes_ever;
        self.turns.borrow_mut().push(QuietTurn {
            may_wait_for_disk: asked.may_wait_for_disk,
            waited: self.clock.now().since(asked.at),
            calls: (self.answered.get() - asked.answered).saturating_sub(1), // its own
            bytes: self.moved.get() - asked.moved,
            disk_bytes: (self.disk_bytes)() - asked.disk_bytes,
            others: (asked.lanes + came) as u64 - 1,
        });
    }

    fn moves(&self, lane: &Lane, bytes: usize) {
        if lane.role != Role::Quiet {
            self.moved.set(self.moved.get() + bytes as u64);
        }
    }
}

/// The dispatcher reports every call that was carried out.
impl CallObserver for Ledger {
    fn answered(&self, _: Begun, _: (Instant, Instant), _: u64, _: &[Bytes]) {
        self.answered.set(self.answered.get() + 1);
    }
}

/// A client's end of a lane.
pub(super) struct Client {
    pub(super) pipe: Pipe,
    pub(super) lane: Rc<Lane>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.lane.left.set(self.lane.ended.get().is_none());
    }
}

impl Lane {
    /// Calls that the server has read completely, and replies that it has written completely.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.calls.get().count, self.replies.get().count)
    }

    /// How long the peer had been idle when the server closed the lane, while it owed taking
    /// replies or sending the rest of a record. None if it owed nothing, or left by itself.
    pub(super) fn patience(&self) -> Option<(Owed, Duration)> {
        let ended = self.ended.get().filter(|_| !self.left.get())?;
        if let Some(since) = self.owes_since.get() {
            return Some((Owed::Taking, ended.since(since.max(self.last_written.get()))));
        }
        let is_half = self.role == Role::HalfSent && self.seated.get().is_some();
        is_half.then(|| (Owed::Rest, ended.since(self.last_read.get())))
    }

    /// Whether it has a place.
    pub(super) fn is_seated(&self) -> bool {
        self.seated.get().is_some() && self.ended.get().is_none()
    }

    /// Whether its peer owes taking replies.
    pub(super) fn owes(&self) -> bool {
        self.owes_since.get().is_some()
    }
}

/// The debt of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    Taking,
    Rest,
}

/// The server's end of a lane.
pub(super) struct Counted {
    pipe: Pipe,
    lane: Rc<Lane>,
    ledger: Rc<Ledger>,
}

impl Stream for Counted {
    fn prepare(&mut self, is_stranger: bool) -> io::Result<()> {
        self.lane.seated.set(Some(self.ledger.clock.now()));
        self.pipe.prepare(is_stranger)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        targets: [&mut [u8]; 2],
    ) -> Poll<io::Result<usize>> {
        let [first, second] = targets;
        let read = self.pipe.poll_read(context, [&mut *first, &mut *second]);
        if let Poll::Ready(Ok(length)) = read
            && length > 0
        {
            let of_first = length.min(first.len());
            let mut calls = self.lane.calls.get();
            calls.feed(&first[..of_first]);
            calls.feed(&second[..length - of_first]);
            self.lane.calls.set(calls);
            self.lane.last_read.set(self.ledger.clock.now());
            self.ledger.moves(&self.lane, length);
        }
        read
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.pipe.poll_write(context, pieces);
        let lane = &self.lane;
        match written {
            Poll::Ready(Ok(length)) => {
                let (mut replies, mut left) = (lane.replies.get(), length);
                for piece in pieces {
                    let part = left.min(piece.len());
                    replies.feed(&piece[..part]);
                    left -= part;
                }
                let has_answered = replies.count > lane.replies.replace(replies).count;
                lane.last_written.set(self.ledger.clock.now());
                lane.owes_since.set(None);
                self.ledger.moves(lane, length);
                if has_answered {
                    self.ledger.is_answered(lane);
                }
            }
            Poll::Pending if lane.owes_since.get().is_none() => {
                lane.owes_since.set(Some(self.ledger.clock.now()));
            }
            _ => {}
        }
        written
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.poll_close(context)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.lane.ended.set(Some(self.ledger.clock.now()));
    }
}

/// The entrance for the clients of a ledger.
pub(super) struct CountedEntrance(pub(super) Rc<Ledger>);

impl Listener for CountedEntrance {
    type Stream = Counted;

    async fn accept(&self) -> io::Result<(Counted, SocketAddr)> {
        let (pipe, address) = self.0.entrance.accept().await?;
        let lane = self.0.lanes.borrow()[&address].clone();
        Ok((Counted { pipe, lane, ledger: self.0.clone() }, address))
    }

    fn is_crowded(error: &io::Error) -> bool {
        Entrance::is_crowded(error)
    }
}
