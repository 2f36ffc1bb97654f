//! The memory of what was answered, so that a repeated call is answered again and not executed
//! again.
//!
//! A client that hears nothing sends its call once more, mostly on a new connection. Executed
//! twice, a REMOVE says that there is no such file, and a late second WRITE or SETATTR destroys
//! what was written in between. So every call that changes something is remembered: while it runs
//! (a repetition then waits for the one answer) and for a while after it was answered.
//!
//! # The window
//! An answer is remembered until it is older than [`Window::age`], or there are more answers or
//! more bytes of them than the window allows, of this client or of all. The oldest go first. The
//! bounds of one client keep it from pushing out the answers of the others. The cache is volatile:
//! after a restart the window is empty.
//!
//! Invariants:
//! 1. A call that runs is never evicted; one [`Slot`] exists for it, and answering or dropping
//!    that slot is the only way out of the running state.
//! 2. `by_age` holds exactly the answered calls, in the order of their answers, and each client's
//!    queue exactly those of that client.
//! 3. `calls` and `bytes`, of all and of each client, are the sums over these queues.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use runtime::sync::Signal;
use runtime::{Clock, Instant};

/// How much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The longest time that an answer is remembered.
    pub age: Duration,
    /// The most answers of all clients together.
    pub calls: usize,
    /// The most memory of all clients together, in bytes.
    pub bytes: usize,
    /// The most answers of one client.
    pub client_calls: usize,
    /// The most memory of one client, in bytes.
    pub client_bytes: usize,
}

impl Default for Window {
    /// Ten minutes: longer than a client waits before it repeats itself, short enough that a
    /// program which starts its call numbers anew is not mistaken for itself. 32,768 answers of a
    /// client are many times the calls that a client has under way at once, which are all that it
    /// can ever repeat.
    fn default() -> Self {
        Self {
            age: Duration::from_secs(600),
            calls: 131_072,
            bytes: 64 << 20,
            client_calls: 32_768,
            client_bytes: 16 << 20,
        }
    }
}

/// Who calls, as he says himself. Not the AUTH_SYS stamp, which a client may renew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The client's name for itself.
    pub machine: Vec<u8>,
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// What makes two calls the same call. Never the port: it changes when the client reconnects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The client's address.
    pub client: IpAddr,
    /// Who calls; `None` without credentials.
    pub caller: Option<Caller>,
    /// The client's number of the call.
    pub xid: u32,
    /// The procedure.
    pub procedure: u32,
    /// Bytes of arguments.
    pub length: u64,
    /// CRC-64/NVME of the arguments. xids come round and start anew; arguments rarely agree too.
    pub checksum: u64,
}

impl Key {
    fn weight(&self) -> usize {
        let named = |caller: &Caller| caller.machine.len() + caller.groups.len() * 4;
        size_of::<Self>() + self.caller.as_ref().map_or(0, named)
    }
}

/// How often a call was a repetition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Repetitions of answered calls.
    pub hits: u64,
    /// Repetitions of calls that still ran.
    pub in_progress_hits: u64,
    /// New calls.
    pub misses: u64,
    /// Answers that were forgotten, by age or for want of room.
    pub evictions: u64,
}

/// What to do with a call.
pub enum Begin<R> {
    /// It is new: execute it and answer through the slot.
    Execute(Slot<R>),
    /// It runs already: wait for its answer.
    Wait(Repetition<R>),
    /// It was answered with this.
    Repeat(R),
}

/// Answers by call. `R` is cheap to clone.
pub struct ReplyCache<R> {
    clock: Rc<dyn Clock>,
    window: Window,
    state: RefCell<State<R>>,
    counters: Cell<Counters>,
}

struct State<R> {
    entries: HashMap<Rc<Key>, Entry<R>>,
    by_age: BTreeMap<u64, Rc<Key>>,
    clients: HashMap<IpAddr, Client>,
    next: u64,
    bytes: usize,
}

enum Entry<R> {
    Running(Rc<Pending<R>>),
    Answered { reply: R, weight: usize, at: Instant, place: u64 },
}

#[derive(Default)]
struct Client {
    answered: VecDeque<u64>,
    bytes: usize,
}

struct Pending<R> {
    outcome: RefCell<Outcome<R>>,
    ended: Signal,
}

enum Outcome<R> {
    Running,
    Answered(R),
    Abandoned,
}

impl<R: Clone> ReplyCache<R> {
    /// An empty cache.
    pub fn new(clock: Rc<dyn Clock>, window: Window) -> Rc<Self> {
        let state = State {
            entries: HashMap::new(),
            by_age: BTreeMap::new(),
            clients: HashMap::new(),
            next: 0,
            bytes: 0,
        };
        Rc::new(Self { clock, window, state: RefCell::new(state), counters: Cell::default() })
    }

    /// Looks a call up, and takes note of it if it is new.
    pub fn begin(self: &Rc<Self>, key: Key) -> Begin<R> {
        self.forget_old();
        let mut state = self.state.borrow_mut();
        match state.entries.get(&key) {
            Some(Entry::Answered { reply, .. }) => {
                self.count(|counters| counters.hits += 1);
                Begin::Repeat(reply.clone())
            }
            Some(Entry::Running(pending)) => {
                self.count(|counters| counters.in_progress_hits += 1);
                Begin::Wait(Repetition(pending.clone()))
            }
            None => {
                self.count(|counters| counters.misses += 1);
                let key = Rc::new(key);
                let pending = Rc::new(Pending {
                    outcome: RefCell::new(Outcome::Running),
                    ended: Signal::new(),
                });
                state.entries.insert(key.clone(), Entry::Running(pending.clone()));
                Begin::Execute(Slot { cache: self.clone(), key, pending, answered: false })
            }
        }
    }

    /// Forgets all answers. For [`crate::planted`] alone.
    pub(crate) fn forget_all(&self) {
        let mut state = self.state.borrow_mut();
        while let Some((&place, _)) = state.by_age.first_key_value() {
            state.forget(place);
        }
    }

    /// How often what happened, since the start.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Answers and bytes that are remembered now.
    pub fn held(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.by_age.len(), state.bytes)
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn answered(&self, key: &Rc<Key>, reply: R, reply_bytes: usize) {
        let weight = reply_bytes + key.weight();
        let at = self.clock.now();
        let mut state = self.state.borrow_mut();
        let place = state.next;
        state.next += 1;
        state.bytes += weight;
        state.by_age.insert(place, key.clone());
        let client = state.clients.entry(key.client).or_default();
        client.answered.push_back(place);
        client.bytes += weight;
        state.entries.insert(key.clone(), Entry::Answered { reply, weight, at, place });
        drop(state);
        self.make_room(key.client);
    }

    fn make_room(&self, client: IpAddr) {
        let mut state = self.state.borrow_mut();
        let mut evictions = 0;
        while let Some(held) = state.clients.get(&client)
            && (held.answered.len() > self.window.client_calls
                || held.bytes > self.window.client_bytes)
            && let Some(&place) = held.answered.front()
        {
            state.forget(place);
            evictions += 1;
        }
        while (state.by_age.len() > self.window.calls || state.bytes > self.window.bytes)
            && let Some((&place, _)) = state.by_age.first_key_value()
        {
            state.forget(place);
            evictions += 1;
        }
        self.count(|counters| counters.evictions += evictions);
    }

    fn forget_old(&self) {
        let now = self.clock.now();
        let mut state = self.state.borrow_mut();
        let mut evictions = 0;
        while let Some((&place, key)) = state.by_age.first_key_value()
            && let Some(Entry::Answered { at, .. }) = state.entries.get(key)
            && now.since(*at) > self.window.age
        {
            state.forget(place);
            evictions += 1;
        }
        self.count(|counters| counters.evictions += evictions);
    }
}

impl<R> State<R> {
    /// Forgets an answered call, the oldest of its client.
    fn forget(&mut self, place: u64) {
        let key = self.by_age.remove(&place).expect("invariant 2: the call is in by_age");
        let entry = self.entries.remove(&key);
        let Some(Entry::Answered { weight, place: noted, .. }) = entry else {
            panic!("invariant 1: only an answered call is forgotten")
        };
        assert_eq!(noted, place, "invariant 2: by_age and the entries agree");
        self.bytes -= weight;
        let client = self.clients.get_mut(&key.client).expect("invariant 2: its client is known");
        let front = client.answered.pop_front();
        assert_eq!(front, Some(place), "invariant 2: a client's oldest goes first");
        client.bytes -= weight;
        if client.answered.is_empty() {
            self.clients.remove(&key.client);
        }
    }
}

/// The right, and the duty, to answer one call.
pub struct Slot<R> {
    cache: Rc<ReplyCache<R>>,
    key: Rc<Key>,
    pending: Rc<Pending<R>>,
    answered: bool,
}

impl<R: Clone> Slot<R> {
    /// Remembers the answer, of `bytes` bytes, and gives it to all who wait.
    pub fn answer(mut self, reply: R, bytes: usize) {
        self.answered = true;
        *self.pending.outcome.borrow_mut() = Outcome::Answered(reply.clone());
        self.cache.answered(&self.key, reply, bytes);
        self.pending.ended.notify();
    }
}

impl<R> Drop for Slot<R> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        // The call was never executed to its end: let a repetition try.
        self.cache.state.borrow_mut().entries.remove(&self.key);
        *self.pending.outcome.borrow_mut() = Outcome::Abandoned;
        self.pending.ended.notify();
    }
}

/// A repetition that waits for the first one's answer.
pub struct Repetition<R>(Rc<Pending<R>>);

impl<R: Clone> Repetition<R> {
    /// The answer; `None` when the first call ended without any.
    pub async fn wait(self) -> Option<R> {
        loop {
            let ended = self.0.ended.wait();
            match &*self.0.outcome.borrow() {
                Outcome::Running => {}
                Outcome::Answered(reply) => return Some(reply.clone()),
                Outcome::Abandoned => return None,
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests;
