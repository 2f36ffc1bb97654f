//! A server of one file that does everything a server may do: it answers late and in any order,
//! takes part of a write, puts callers off, fails, and restarts with a part of the data that was
//! not durable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use client::CallError;
use client::file::{Calls, Found, Written};
use nfs::nfs3::{Stability, Status, Verifier};
use runtime::Runtime;
use sim::Prng;

/// The unit in which a restart keeps or loses data, in bytes.
const BLOCK: usize = 512;

/// Frequencies of its habits: once in this many calls, never with 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// The duration of each call.
    pub(crate) takes: Duration,
    /// The longest delay of a call, and of its reply, on top of it.
    pub(crate) delay: Duration,
    pub(crate) restarts: u64,
    pub(crate) errors: u64,
    pub(crate) put_off: u64,
    /// Only part of the request is done.
    pub(crate) short: u64,
    /// An UNSTABLE write is durable.
    pub(crate) sync: u64,
}

/// An executed call, as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Write { offset: u64, length: usize, stable: Stability },
    Commit,
    Read { offset: u64, count: u32 },
}

pub(crate) struct State {
    pub(crate) habits: Habits,
    prng: Prng,
    /// The data that reads see.
    pub(crate) view: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    boot: u64,
    /// Errors that it has returned.
    pub(crate) errors: u64,
    pub(crate) restarts: u64,
    pub(crate) seen: Vec<Seen>,
    /// Turns for calls by their index, which override the habits.
    pub(crate) script: Vec<(usize, Turn)>,
}

/// A turn that a script may order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Fail(Status),
    /// It restarts first, and loses all data that is not durable.
    Restart,
    /// It does only this many bytes.
    Short(usize),
    /// It claims more than was requested.
    Boast,
    /// It is less durable than requested.
    Lax,
}

/// Number of calls in flight.
#[derive(Default)]
pub(crate) struct Gauge {
    pub(crate) now: Cell<usize>,
    pub(crate) most: Cell<usize>,
}

/// The server. Clones share its state.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) state: Rc<RefCell<State>>,
    runtime: Runtime,
    pub(crate) writes: Rc<Gauge>,
    pub(crate) commits: Rc<Gauge>,
    pub(crate) reads: Rc<Gauge>,
}

impl Server {
    pub(crate) fn new(runtime: &Runtime, habits: Habits, seed: u64) -> Self {
        let state = State {
            habits,
            prng: Prng::new(seed),
            view: Vec::new(),
            durable: Vec::new(),
            boot: 1,
            errors: 0,
            restarts: 0,
            seen: Vec::new(),
            script: Vec::new(),
        };
        Self {
            state: Rc::new(RefCell::new(state)),
            runtime: runtime.clone(),
            writes: Rc::default(),
            commits: Rc::default(),
            reads: Rc::default(),
        }
    }

    /// Executes a call at some time between its sending and its reply.
    async fn serve<T>(&self, gauge: &Gauge, work: impl FnOnce(&mut State) -> T) -> T {
        gauge.now.set(gauge.now.get() + 1);
        gauge.most.set(gauge.most.get().max(gauge.now.get()));
        let takes = self.state.borrow().habits.takes;
        self.runtime.clock.sleep(takes).await;
        self.travel().await;
        let result = work(&mut self.state.borrow_mut());
        self.travel().await;
        gauge.now.set(gauge.now.get() - 1);
        result
    }

    async fn travel(&self) {
        let delay = self.state.borrow_mut().delay();
        if !delay.is_zero() {
            self.runtime.clock.sleep(delay).await;
        }
    }
}

impl Calls for Server {
    async fn write(
        &self,
        offset: u64,
        data: Bytes,
        stable: Stability,
    ) -> Result<Written, CallError> {
        self.serve(&self.writes, |state| state.write(offset as usize, &data, stable)).await
    }

    async fn commit(&self) -> Result<Verifier, CallError> {
        self.serve(&self.commits, State::commit).await
    }

    async fn read(&self, offset: u64, count: u32) -> Result<Found, CallError> {
        self.serve(&self.reads, |state| state.read(offset as usize, count)).await
    }
}

impl State {
    fn delay(&mut self) -> Duration {
        let longest = self.habits.delay.as_nanos() as u64;
        Duration::from_nanos(if longest == 0 { 0 } else { self.prng.below(longest) })
    }

    fn happens(&mut self, once_in: u64) -> bool {
        once_in > 0 && self.prng.chance(1, once_in)
    }

    /// The script's turn for the next call.
    fn turn(&self) -> Option<Turn> {
        let next = self.seen.len();
        self.script.iter().find(|(at, _)| *at == next).map(|(_, turn)| *turn)
    }

    /// The start of a call: returns the number of bytes to do, or the error.
    fn begin(&mut self, seen: Seen, length: usize) -> Result<usize, CallError> {
        let turn = self.turn();
        self.seen.push(seen);
        match turn {
            Some(Turn::Fail(status)) => return Err(self.fail(status)),
            Some(Turn::Restart) => self.restart(0),
            Some(Turn::Short(length)) => return Ok(length),
            Some(Turn::Boast | Turn::Lax) => return Ok(length),
            None => {}
        }
        if self.happens(self.habits.restarts) {
            self.restart(2);
        }
        if self.happens(self.habits.put_off) {
            return Err(CallError::Status(Status::Jukebox));
        }
        if self.happens(self.habits.errors) {
            return Err(self.fail(Status::NoSpace));
        }
        let is_short = length > 1 && self.happens(self.habits.short);
        Ok(if is_short { self.prng.between(1, length as u64 - 1) as usize } else { length })
    }

    fn fail(&mut self, status: Status) -> CallError {
        self.errors += u64::from(status != Status::Jukebox);
        CallError::Status(status)
    }

    fn write(
        &mut self,
        offset: usize,
        data: &[u8],
        stable: Stability,
    ) -> Result<Written, CallError> {
        let seen = Seen::Write { offset: offset as u64, length: data.len(), stable };
        let turn = self.turn();
        let count = self.begin(seen, data.len())?;
        place(&mut self.view, offset, &data[..count]);
        let is_asked = stable == Stability::FileSync && turn != Some(Turn::Lax);
        let is_sync = is_asked || self.happens(self.habits.sync);
        let claimed = count + usize::from(turn == Some(Turn::Boast));
        if is_sync {
            place(&mut self.durable, offset, &data[..count]);
        }
        let committed = if is_sync { Stability::FileSync } else { Stability::Unstable };
        Ok(Written { count: claimed as u32, committed, verifier: self.verifier() })
    }

    /// A COMMIT that fails has lost the data that was not durable, and does not report it again.
    fn commit(&mut self) -> Result<Verifier, CallError> {
        if let Err(error) = self.begin(Seen::Commit, 0) {
            if error != CallError::Status(Status::Jukebox) {
                self.view = self.durable.clone();
            }
            return Err(error);
        }
        self.durable = self.view.clone();
        Ok(self.verifier())
    }

    fn read(&mut self, offset: usize, count: u32) -> Result<Found, CallError> {
        let there = self.view.len().saturating_sub(offset).min(count as usize);
        let done = self.begin(Seen::Read { offset: offset as u64, count }, there)?;
        let start = offset.min(self.view.len());
        let done = done.min(self.view.len() - start); // a restart may have made it shorter
        let data = Bytes::copy_from_slice(&self.view[start..start + done]);
        let eof = start + done == self.view.len();
        let data = if data.is_empty() { Vec::new() } else { vec![data] };
        Ok(Found { data, eof })
    }

    fn verifier(&self) -> Verifier {
        Verifier(self.boot.to_be_bytes())
    }

    /// One in `kept` of the blocks that are not durable survives, at random; none with 0.
    fn restart(&mut self, kept: u64) {
        self.boot += 1;
        self.restarts += 1;
        for start in (0..self.view.len()).step_by(BLOCK) {
            let block = start..self.view.len().min(start + BLOCK);
            if self.durable.get(block.clone()) != Some(&self.view[block.clone()])
                && self.happens(kept)
            {
                place(&mut self.durable, start, &self.view[block]);
            }
        }
        self.view = self.durable.clone();
    }
}

fn place(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    bytes.resize(bytes.len().max(offset + data.len()), 0);
    bytes[offset..offset + data.len()].copy_from_slice(data);
}
