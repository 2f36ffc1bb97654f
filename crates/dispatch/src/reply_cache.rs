//! The reply cache: a repeated call is answered again and not executed again.
//!
//! A client without a reply sends its call again, mostly on a new connection. Executed twice, a
//! REMOVE fails with "no such file", and a late second WRITE or SETATTR destroys data that was
//! written in between. So every call that changes something is remembered: while it runs (a
//! repetition then waits for the one reply) and for a while after it was answered.
//!
//! # The window
//! A reply is remembered until it is older than [`Window::age`], or there are more replies or more
//! bytes of them than the window allows, of this client or of all. A client that exceeds its own
//! bounds loses its oldest. When all exceed theirs together, the client with the most loses its
//! oldest: so no client can push out the replies of one that has few. Clients are compared by
//! powers of two, and a 1,024th of the total counts as little: among clients of about the same
//! size, the oldest reply goes, as it does where a file system keeps it.
//!
//! For the bounds an IPv6 network of 64 bits is one client, since a client that has one address of
//! it has them all. The identity of a call always has the whole address ([`Key`]).
//!
//! Only an answer of a file system takes a place. A call that is not admitted is not noted
//! ([`Begin::Refuse`]), and a refusal made before any file system was called is passed to the
//! waiters and forgotten ([`Slot::pass`]). A call that runs or is remembered gets its one reply,
//! whichever clients are admitted by now.
//!
//! The cache itself is volatile. But a call that must not be executed twice has a *name*
//! ([`vfs::CallKey`]) under which the file system keeps its reply with its changes, where it has a
//! place for that. The cache holds the name for as long as it remembers the reply; dropping the
//! name forgets the reply there too. After a restart the file system returns the replies that it
//! kept ([`ReplyCache::restore`]), and the window goes on as it was.
//!
//! Invariants:
//! 1. A call that runs is never evicted; one [`Slot`] exists for it, and answering or dropping
//!    that slot is the only way out of the running state.
//! 2. A client's queue holds exactly its answered calls, in the order of their answers, and
//!    `oldest` the place of the first in each queue. Clients without answers have no entry.
//! 3. `calls` and `bytes`, of all and of each client, are the sums over these queues; `by_calls`
//!    and `by_bytes` order the clients by theirs, and those of one rank by their oldest answer.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::RandomState;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use runtime::sync::Signal;
use runtime::{Clock, Instant};
use vfs::CallKey;

use crate::hashed::{AsTaken, Hashed};
pub use crate::key::Key;
use crate::planted::{Bug, is_planted};

/// Memory that a remembered reply takes besides its bytes, about, in bytes: here, and once more
/// where it survives.
const OVERHEAD: usize = 384;

/// Limits of the reply cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The longest time that a reply is remembered.
    pub age: Duration,
    /// The most replies of all clients together.
    pub calls: usize,
    /// The most memory of all clients together, in bytes.
    pub bytes: usize,
    /// The most replies of one client.
    pub client_calls: usize,
    /// The most memory of one client, in bytes.
    pub client_bytes: usize,
    /// Whether replies survive a crash, where a volume has a place for that.
    pub survives: bool,
}

impl Default for Window {
    /// Ten minutes: longer than a client waits before it repeats a call, and short enough that a
    /// program which restarts its call numbers is not taken for its earlier run. 8,192 replies per
    /// client are many times the calls that a client has under way at once, which are all that it
    /// can ever repeat.
    fn default() -> Self {
        Self {
            age: Duration::from_secs(600),
            calls: 65_536,
            bytes: 96 << 20,
            client_calls: 8_192,
            client_bytes: 16 << 20,
            survives: true,
        }
    }
}

/// Counters of repeated and new calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Repetitions of answered calls.
    pub hits: u64,
    /// Repetitions of calls that still ran.
    pub in_progress_hits: u64,
    /// New calls.
    pub misses: u64,
    /// Replies that were forgotten, by age or for want of room.
    pub evictions: u64,
    /// Replies that were restored from before the start.
    pub restored: u64,
    /// Repetitions of calls that were answered by a restored reply; they count as hits, too.
    pub restored_hits: u64,
}

/// The action for a call.
pub enum Begin<R> {
    /// The call is new: execute it and answer through the slot.
    Execute(Slot<R>),
    /// It runs already: wait for its reply.
    Wait(Repetition<R>),
    /// It was answered with this reply; the flag says whether that was before the start.
    Repeat(R, bool),
    /// It is new, and its caller is not admitted: no file system may be called.
    Refuse,
}

/// Replies by call. `R` is cheap to clone.
pub struct ReplyCache<R> {
    clock: Rc<dyn Clock>,
    window: Window,
    hash_state: RandomState,
    state: RefCell<State<R>>,
    counters: Cell<Counters>,
}

struct State<R> {
    entries: HashMap<Rc<Hashed<Key>>, Entry<R>, AsTaken>,
    clients: HashMap<IpAddr, Client>,
    oldest: BTreeMap<u64, IpAddr>,
    by_calls: BTreeSet<Standing>,
    by_bytes: BTreeSet<Standing>,
    /// A 1,024th of the total limits, in calls and in bytes.
    little: (usize, usize),
    next: u64,
    calls: usize,
    bytes: usize,
}

enum Entry<R> {
    Running(Rc<Pending<R>>),
    Answered(Answered<R>),
}

struct Answered<R> {
    reply: R,
    weight: usize,
    /// Whether it is from before the start.
    is_restored: bool,
    /// Holding it keeps the reply where it survives.
    _name: Option<Rc<CallKey>>,
}

/// A client's share by powers of two, the number of its oldest reply, and its address. The last in
/// order has the most, and among equals the oldest reply.
type Standing = (u32, Reverse<u64>, IpAddr);

#[derive(Default)]
struct Client {
    answered: VecDeque<Place>,
    bytes: usize,
}

/// An answered call's place in the order of all replies.
struct Place {
    number: u64,
    /// The time until which it is remembered.
    expires: Instant,
    key: Rc<Hashed<Key>>,
}

/// The origin of a reply, and the time that it is remembered.
struct Origin {
    name: Option<Rc<CallKey>>,
    expires: Instant,
    is_restored: bool,
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
            entries: HashMap::default(),
            clients: HashMap::new(),
            oldest: BTreeMap::new(),
            by_calls: BTreeSet::new(),
            by_bytes: BTreeSet::new(),
            little: (window.calls / 1024, window.bytes / 1024),
            next: 0,
            calls: 0,
            bytes: 0,
        };
        let (hash_state, state, counters) =
            (RandomState::new(), RefCell::new(state), Cell::default());
        Rc::new(Self { clock, window, hash_state, state, counters })
    }

    /// Looks a call up, and notes it if it is new and `is_admitted` says so.
    pub fn begin(self: &Rc<Self>, key: Key, is_admitted: impl FnOnce() -> bool) -> Begin<R> {
        self.forget_old();
        let mut state = self.state.borrow_mut();
        let key = Hashed::new(key, &self.hash_state);
        match state.entries.get(&key) {
            Some(Entry::Answered(answered)) => {
                let Key { xid, procedure, client, .. } = key.key;
                let is_restored = answered.is_restored;
                tracing::debug!(%client, xid, procedure, is_restored, "repeated, and not executed");
                self.count(|counters| {
                    counters.hits += 1;
                    counters.restored_hits += u64::from(answered.is_restored);
                });
                Begin::Repeat(answered.reply.clone(), answered.is_restored)
            }
            Some(Entry::Running(pending)) => {
                self.count(|counters| counters.in_progress_hits += 1);
                Begin::Wait(Repetition(pending.clone()))
            }
            None if !is_admitted() => Begin::Refuse,
            None => {
                self.count(|counters| counters.misses += 1);
                let key = Rc::new(key);
                let pending = Rc::new(Pending {
                    outcome: RefCell::new(Outcome::Running),
                    ended: Signal::new(),
                });
                state.entries.insert(key.clone(), Entry::Running(pending.clone()));
                Begin::Execute(Slot {
                    cache: self.clone(),
                    key,
                    pending,
                    name: None,
                    answered: false,
                })
            }
        }
    }

    /// Forgets all replies. For [`crate::planted`] alone.
    pub(crate) fn forget_all(&self) {
        let mut state = self.state.borrow_mut();
        while let Some(client) = state.client_of_oldest() {
            state.forget_oldest(client);
        }
    }

    /// The counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Replies and bytes that are remembered now.
    pub fn held(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.calls, state.bytes)
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Restores a reply of `bytes` bytes and this age, from before the start: the oldest first, and
    /// before any call.
    pub fn restore(&self, name: Rc<CallKey>, key: Key, reply: R, bytes: usize, age: Duration) {
        let left = self.window.age.checked_sub(age).filter(|_| self.window.survives);
        let Some(left) = left else { return };
        let key = Rc::new(Hashed::new(key, &self.hash_state));
        if self.state.borrow().entries.contains_key(&key) {
            return;
        }
        self.count(|counters| counters.restored += 1);
        let expires = self.clock.now().after(left);
        self.remember(&key, reply, bytes, Origin { name: Some(name), expires, is_restored: true });
    }

    fn answered(&self, key: &Rc<Hashed<Key>>, name: Option<Rc<CallKey>>, reply: R, bytes: usize) {
        let expires = self.clock.now().after(self.window.age);
        self.remember(key, reply, bytes, Origin { name, expires, is_restored: false });
    }

    fn remember(&self, key: &Rc<Hashed<Key>>, reply: R, bytes: usize, origin: Origin) {
        let Origin { name, expires, is_restored } = origin;
        let weight = bytes + OVERHEAD + name.as_ref().map_or(0, |_| bytes + OVERHEAD);
        let mut state = self.state.borrow_mut();
        let (number, client) = (state.next, in_bounds(key.key.client));
        state.next += 1;
        state.calls += 1;
        state.bytes += weight;
        state.change(client, |held| {
            held.answered.push_back(Place { number, expires, key: key.clone() });
            held.bytes += weight;
        });
        if state.clients[&client].answered.len() == 1 {
            state.oldest.insert(number, client);
        }
        let answered = Answered { reply, weight, is_restored, _name: name };
        let before = state.entries.insert(key.clone(), Entry::Answered(answered));
        let was_running = matches!(before, Some(Entry::Running(_)));
        assert!(was_running != is_restored, "invariant 1: who answers was running until then");
        drop(state);
        self.make_room(client);
    }

    fn make_room(&self, client: IpAddr) {
        let mut state = self.state.borrow_mut();
        let mut evictions = 0;
        while let Some(held) = state.clients.get(&client)
            && (held.answered.len() > self.window.client_calls
                || held.bytes > self.window.client_bytes)
        {
            state.forget_oldest(client);
            evictions += 1;
        }
        while let Some(client) = state.client_over(&self.window) {
            state.forget_oldest(client);
            evictions += 1;
        }
        self.count(|counters| counters.evictions += evictions);
    }

    fn forget_old(&self) {
        let now = self.clock.now();
        let mut state = self.state.borrow_mut();
        let mut evictions = 0;
        while let Some(client) = state.client_of_oldest()
            && state.oldest_of(client).is_some_and(|oldest| now > oldest.expires)
        {
            state.forget_oldest(client);
            evictions += 1;
        }
        self.count(|counters| counters.evictions += evictions);
    }
}

/// The address under which a client's share is counted: one for an IPv6 network of 64 bits.
pub fn in_bounds(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) if !is_planted(Bug::EveryAddress) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        client => client,
    }
}

impl<R> State<R> {
    /// The client with the oldest reply of all.
    fn client_of_oldest(&self) -> Option<IpAddr> {
        self.oldest.first_key_value().map(|(_, &client)| client)
    }

    /// The client that loses a reply when all clients together exceed `window`: the one with the
    /// most calls or bytes, whichever is exceeded.
    fn client_over(&self, window: &Window) -> Option<IpAddr> {
        let most = match (self.calls > window.calls, self.bytes > window.bytes) {
            (true, _) => self.by_calls.last(),
            (false, true) => self.by_bytes.last(),
            (false, false) => None,
        };
        if is_planted(Bug::OldestOfAll) {
            return most.and_then(|_| self.client_of_oldest());
        }
        most.map(|&(_, _, client)| client)
    }

    /// Changes a client's share, and the orders with it (invariant 3).
    fn change<T>(&mut self, client: IpAddr, change: impl FnOnce(&mut Client) -> T) -> T {
        let (little_calls, little_bytes) = self.little;
        let held = self.clients.entry(client).or_default();
        let standings = |held: &Client| {
            let oldest = Reverse(held.answered.front()?.number);
            let rank = |has: usize, little: usize| has.max(little).max(1).ilog2();
            let calls = (rank(held.answered.len(), little_calls), oldest, client);
            Some((calls, (rank(held.bytes, little_bytes), oldest, client)))
        };
        let before = standings(held);
        let changed = change(held);
        let after = standings(held);
        if before != after {
            if let Some((calls, bytes)) = before {
                self.by_calls.remove(&calls);
                self.by_bytes.remove(&bytes);
            }
            if let Some((calls, bytes)) = after {
                self.by_calls.insert(calls);
                self.by_bytes.insert(bytes);
            }
        }
        changed
    }

    fn oldest_of(&self, client: IpAddr) -> Option<&Place> {
        self.clients.get(&client)?.answered.front()
    }

    /// Forgets the oldest reply of a client that has one.
    fn forget_oldest(&mut self, client: IpAddr) {
        let oldest = self.oldest_of(client).expect("invariant 2: who is known has an answer");
        let (number, key) = (oldest.number, oldest.key.clone());
        let Some(Entry::Answered(Answered { weight, .. })) = self.entries.remove(&key) else {
            panic!("invariant 1: only an answered call is forgotten")
        };
        self.change(client, |held| {
            held.answered.pop_front();
            held.bytes -= weight;
        });
        self.bytes -= weight;
        self.calls -= 1;
        let noted = self.oldest.remove(&number);
        assert_eq!(noted, Some(client), "invariant 2: a client's oldest goes first");
        match self.oldest_of(client).map(|next| next.number) {
            Some(next) => drop(self.oldest.insert(next, client)),
            None => {
                let gone = self.clients.remove(&client).expect("it was known just now");
                assert_eq!(gone.bytes, 0, "invariant 3: the bytes of no answers");
            }
        }
        let known = self.clients.len();
        let orders = [self.oldest.len(), self.by_calls.len(), self.by_bytes.len()];
        debug_assert_eq!(orders, [known; 3], "invariant 3: each client has its place");
        let is_sum = known > 0 || (self.calls, self.bytes) == (0, 0);
        debug_assert!(is_sum, "invariant 3: what all have is nothing");
    }
}

/// The right, and the duty, to answer one call.
pub struct Slot<R> {
    cache: Rc<ReplyCache<R>>,
    key: Rc<Hashed<Key>>,
    pending: Rc<Pending<R>>,
    name: Option<Rc<CallKey>>,
    answered: bool,
}

impl<R: Clone> Slot<R> {
    /// The name of the call, under which the file system is to keep its reply; none if replies do
    /// not survive.
    pub fn name(&mut self) -> Option<Rc<CallKey>> {
        let survives = self.cache.window.survives;
        if survives && self.name.is_none() {
            self.name = Some(Rc::new(self.key.key.name()));
        }
        self.name.clone()
    }

    /// Remembers the reply, of `bytes` bytes, and passes it to all waiters.
    pub fn answer(mut self, reply: R, bytes: usize) {
        self.answered = true;
        *self.pending.outcome.borrow_mut() = Outcome::Answered(reply.clone());
        self.cache.answered(&self.key, self.name.take(), reply, bytes);
        self.pending.ended.notify();
    }

    /// Passes the reply to all waiters, and forgets it: no file system has given it.
    pub fn pass(mut self, reply: R) {
        self.answered = true;
        self.cache.state.borrow_mut().entries.remove(&self.key);
        *self.pending.outcome.borrow_mut() = Outcome::Answered(reply);
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

/// A repetition that waits for the reply of the first execution.
pub struct Repetition<R>(Rc<Pending<R>>);

impl<R: Clone> Repetition<R> {
    /// The reply; `None` when the first execution ended without any.
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
