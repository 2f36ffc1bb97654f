//! Tokens that several parties share, so that none of them can keep the others from theirs.
//!
//! Each party has a share: a number of tokens that no other one gets. The tokens beyond all shares
//! are common. A party takes tokens of its own share first and then common ones, if it may; so a
//! party that gives nothing back, however much it requests, leaves the shares of the others
//! untouched.
//!
//! A party may have several clients, each with an [`Account`] of the tokens that it holds. Among
//! waiters, the one that holds least is granted next: a client that takes all free tokens gets no
//! more before others have as many. And a client that holds some gets no more than seven eighths of
//! those that its party can have, so the first request of a newcomer waits for no single client.
//!
//! Invariants:
//! 1. A waiter that was granted its tokens and then dropped gives them back.
//! 2. Within a party, a later request overtakes an earlier one only if its client holds less.
//!    Between parties, it does so only with tokens of its own share: no request waits for ever for
//!    common tokens.
//! 3. No request is granted tokens that the share of another party lacks, except one for all or one
//!    at once.
//! 4. A party that holds nothing and wants more than its share is granted its share, if it cannot
//!    have what it wants: others may keep the common tokens for ever. Its use of fewer tokens than
//!    it asked for is one request, and that is bounded.
//! 5. A client that holds tokens is granted no more than `most_of_client` in all.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::sync::tokens;

/// The rights of one party in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Tokens that no other party gets.
    pub least: u64,
    /// Whether it may take common tokens, too.
    pub may_exceed: bool,
}

/// See the module's prose.
pub struct Pool {
    parties: Vec<Party>,
    /// The requests for all tokens.
    all: RefCell<Queue>,
    capacity: u64,
    /// Negative while more was taken at once than was free.
    available: Cell<i64>,
    /// The sum of the tokens that parties lack of their shares.
    lacking: Cell<u64>,
    /// Requests that ever had to wait.
    queued: Cell<u64>,
    /// Requests that wait now.
    waiting: Cell<usize>,
}

struct Party {
    share: Share,
    /// The most that it can hold.
    most: u64,
    /// The most that one client of it can hold.
    most_of_client: u64,
    held: Cell<u64>,
    queue: RefCell<Queue>,
}

/// Turns that wait: a line for each client, and one for requests without an account.
#[derive(Default)]
struct Queue {
    /// None of them is empty.
    lines: Vec<VecDeque<Rc<Turn>>>,
}

/// The tokens that one client holds of a pool, in each party. The accounts of a client in several
/// pools share one allocation. Clones are one account.
#[derive(Clone)]
pub struct Account {
    /// For each pool the tokens of each party.
    held: Rc<[Cell<u64>]>,
    parties: usize,
    pool: usize,
}

impl Account {
    /// The accounts of a client in this many pools with this many parties; that in the first.
    pub fn new(pools: usize, parties: usize) -> Self {
        Self { held: (0..pools * parties).map(|_| Cell::new(0)).collect(), parties, pool: 0 }
    }

    /// The account of the same client in the pool of this number.
    pub fn in_pool(&self, pool: usize) -> Self {
        Self { pool, ..self.clone() }
    }

    /// Tokens that its client holds as one of a party.
    pub fn held(&self, party: usize) -> u64 {
        self.cell(party).get()
    }

    /// A weak reference: the account lives for as long as its client holds tokens or keeps it, in
    /// any pool.
    pub fn downgrade(&self) -> WeakAccount {
        let Self { held, parties, pool } = self;
        WeakAccount { held: Rc::downgrade(held), parties: *parties, pool: *pool }
    }

    fn cell(&self, party: usize) -> &Cell<u64> {
        &self.held[self.pool * self.parties + party]
    }
}

/// Accounts of one client are equal.
impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.held, &other.held)
    }
}

/// An [`Account`] that may be gone.
#[derive(Clone)]
pub struct WeakAccount {
    held: Weak<[Cell<u64>]>,
    parties: usize,
    pool: usize,
}

impl WeakAccount {
    /// The account, if it still exists.
    pub fn upgrade(&self) -> Option<Account> {
        let Self { held, parties, pool } = self;
        Some(Account { held: held.upgrade()?, parties: *parties, pool: *pool })
    }
}

/// Who holds tokens, or waits for them.
#[derive(Clone)]
struct Holder {
    /// None for all tokens of a pool.
    party: Option<usize>,
    /// That of the client, if the party counts its clients.
    account: Option<Account>,
}

impl Holder {
    /// A party as a whole.
    const fn party(party: usize) -> Self {
        Self { party: Some(party), account: None }
    }

    /// One client of a party.
    fn client(party: usize, account: &Account) -> Self {
        Self { party: Some(party), account: Some(account.clone()) }
    }

    /// The number of tokens that its client holds, as one of the party.
    fn held(&self) -> Option<&Cell<u64>> {
        self.account.as_ref().zip(self.party).map(|(account, party)| account.cell(party))
    }
}

struct Turn {
    holder: Holder,
    /// Requests that had to wait before this one.
    number: u64,
    /// The requested amount; less when no more can be granted (invariant 4).
    amount: Cell<u64>,
    granted: Cell<bool>,
    gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Pool {
    /// A pool of `capacity` tokens for parties with these shares, identified by their indexes. An
    /// eighth of a party's tokens is kept from its largest client if it has room for a request of
    /// `largest` tokens.
    ///
    /// # Panics
    /// If the shares exceed the capacity.
    pub fn new(capacity: u64, shares: &[Share], largest: u64) -> Rc<Self> {
        let least: u64 = shares.iter().map(|share| share.least).sum();
        assert!(least <= capacity, "shares of {least} in a pool of {capacity}");
        let most = |share: Share| {
            if share.may_exceed { capacity - (least - share.least) } else { share.least }
        };
        let most_of_client =
            |most: u64| most - Some(most / 8).filter(|&rest| rest >= largest).unwrap_or(0);
        let parties = shares.iter().map(|&share| Party {
            share,
            most: most(share),
            most_of_client: most_of_client(most(share)),
            held: Cell::new(0),
            queue: RefCell::default(),
        });
        Rc::new(Self {
            parties: parties.collect(),
            all: RefCell::default(),
            capacity,
            available: Cell::new(tokens(capacity)),
            lacking: Cell::new(least),
            queued: Cell::new(0),
            waiting: Cell::new(0),
        })
    }

    /// Tokens that no caller holds.
    pub fn available(&self) -> u64 {
        u64::try_from(self.available.get()).unwrap_or(0)
    }

    /// Tokens that callers hold.
    pub fn held(&self) -> u64 {
        u64::try_from(tokens(self.capacity) - self.available.get()).unwrap_or(0)
    }

    /// Tokens that a party holds.
    pub fn held_by(&self, party: usize) -> u64 {
        self.parties[party].held.get()
    }

    /// Takes `amount` tokens for a party, at most all that it can have.
    pub fn acquire(self: &Rc<Self>, party: usize, amount: u64) -> Wait {
        self.begin(Holder::party(party), self.at_most(party, amount))
    }

    /// As [`Pool::acquire`], for a client of the party: one that holds less is granted its tokens
    /// first.
    pub fn acquire_for(self: &Rc<Self>, party: usize, account: &Account, amount: u64) -> Wait {
        self.begin(Holder::client(party, account), self.at_most(party, amount))
    }

    /// Takes all tokens, of all parties.
    pub fn acquire_all(self: &Rc<Self>) -> Wait {
        self.begin(Holder { party: None, account: None }, self.capacity)
    }

    fn begin(self: &Rc<Self>, holder: Holder, amount: u64) -> Wait {
        Wait { pool: self.clone(), state: WaitState::New(holder, amount) }
    }

    /// As [`Pool::acquire`], at once or not at all: nothing while another request waits.
    pub fn try_acquire(self: &Rc<Self>, party: usize, amount: u64) -> Option<Tokens> {
        self.try_acquire_as(&Holder::party(party), self.at_most(party, amount))
    }

    /// As [`Pool::acquire_for`], at once or not at all.
    pub fn try_acquire_for(
        self: &Rc<Self>,
        party: usize,
        account: &Account,
        amount: u64,
    ) -> Option<Tokens> {
        self.try_acquire_as(&Holder::client(party, account), self.at_most(party, amount))
    }

    fn try_acquire_as(self: &Rc<Self>, holder: &Holder, amount: u64) -> Option<Tokens> {
        let is_next = || {
            self.waiting.get() == 0
                && self.may_have(holder, amount)
                && self.is_there(holder.party, amount, false)
        };
        if amount > 0 && !is_next() {
            return None;
        }
        self.take_within_shares(holder, amount);
        Some(Tokens { pool: self.clone(), holder: holder.clone(), amount })
    }

    /// Invariant 5.
    fn may_have(&self, holder: &Holder, amount: u64) -> bool {
        let held = holder.held().map_or(0, Cell::get);
        let most = holder.party.map(|party| self.parties[party].most_of_client);
        held == 0 || most.is_none_or(|most| held + amount <= most)
    }

    /// The part of `amount` that a party can have.
    fn at_most(&self, party: usize, amount: u64) -> u64 {
        amount.min(self.parties[party].most)
    }

    /// Takes `amount` tokens for a party at once, before all waiters and whether they are free or
    /// not: for memory that is in use already and only has to be counted.
    pub fn take_now(self: &Rc<Self>, party: usize, amount: u64) -> Tokens {
        let holder = Holder::party(party);
        self.take(&holder, amount);
        Tokens { pool: self.clone(), holder, amount }
    }

    /// The requests that may wait for tokens that this client of a party holds.
    pub fn line(self: &Rc<Self>, party: usize, account: Option<Account>) -> Line {
        Line { pool: self.clone(), party, account }
    }

    fn line_up(&self, holder: &Holder, amount: u64) -> Rc<Turn> {
        let turn = Rc::new(Turn {
            holder: holder.clone(),
            number: self.queued.replace(self.queued.get() + 1),
            amount: Cell::new(amount),
            granted: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::default(),
        });
        self.queue(holder.party).borrow_mut().push(turn.clone());
        self.waiting.set(self.waiting.get() + 1);
        self.grant();
        turn
    }

    fn queue(&self, party: Option<usize>) -> &RefCell<Queue> {
        party.map_or(&self.all, |party| &self.parties[party].queue)
    }

    fn take(&self, holder: &Holder, amount: u64) {
        self.available.set(self.available.get() - tokens(amount));
        if let Some(party) = holder.party {
            let party = &self.parties[party];
            self.hold(party, party.held.get() + amount);
        }
        holder.held().inspect(|held| held.set(held.get() + amount));
    }

    fn give_back(&self, holder: &Holder, amount: u64) {
        if amount == 0 {
            return;
        }
        let rest = |held: u64| {
            held.checked_sub(amount).expect("invariant 1: only what is held is given back")
        };
        self.available.set(self.available.get() + tokens(amount));
        if let Some(party) = holder.party {
            let party = &self.parties[party];
            self.hold(party, rest(party.held.get()));
        }
        holder.held().inspect(|held| held.set(rest(held.get())));
        self.grant();
    }

    /// Sets the tokens that a party holds.
    fn hold(&self, party: &Party, amount: u64) {
        let before = party.held.replace(amount);
        let least = party.share.least;
        if before < least || amount < least {
            let lacked = least.saturating_sub(before);
            self.lacking.set(self.lacking.get() - lacked + party.lacks());
        }
    }

    /// Removes turns that are gone, when there are many: no other may ever come to the front.
    fn forget_gone(&self, party: Option<usize>) {
        let mut queue = self.queue(party).borrow_mut();
        if queue.len() > 2 * self.waiting.get() + 16 {
            queue.lines.iter_mut().for_each(|line| line.retain(|turn| !turn.gone.get()));
            queue.lines.retain(|line| !line.is_empty());
        }
    }

    /// Grants every request that can be granted something.
    fn grant(&self) {
        while self.waiting.get() > 0
            && let Some((turn, amount)) = self.next()
        {
            let holder = &turn.holder;
            self.queue(holder.party).borrow_mut().remove(&turn);
            self.waiting.set(self.waiting.get() - 1);
            let is_less = turn.amount.replace(amount) != amount;
            if let Some(party) = holder.party.map(|party| &self.parties[party]) {
                let is_share = party.held.get() == 0 && amount == party.share.least;
                assert!(!is_less || is_share, "invariant 4: who is granted less has its share");
            }
            self.take_within_shares(holder, amount);
            turn.granted.set(true);
            if let Some(waker) = turn.waker.take() {
                waker.wake();
            }
        }
    }

    /// Takes tokens that a request is granted, and asserts what that leaves.
    fn take_within_shares(&self, holder: &Holder, amount: u64) {
        // Free tokens beyond all that parties lack of their shares.
        let beside_shares = || self.available.get() - self.lacking.get() as i64;
        let before = beside_shares();
        self.take(holder, amount);
        let Some(party) = holder.party else { return };
        debug_assert!(
            beside_shares() >= 0.min(before),
            "invariant 3: the shares of the others are left, as far as they were free"
        );
        let most = self.parties[party].most_of_client.max(amount);
        debug_assert!(
            amount == 0 || holder.held().is_none_or(|held| held.get() <= most),
            "invariant 5: a client is granted no more than it can hold"
        );
    }

    /// The next request that can be granted something, and the amount.
    fn next(&self) -> Option<(Rc<Turn>, u64)> {
        let queues = self.parties.iter().map(|party| &party.queue).chain([&self.all]);
        let next = |queue: &RefCell<Queue>| {
            let mut queue = queue.borrow_mut();
            queue.forget_gone_fronts();
            let may_have =
                queue.fronts().filter(|turn| self.may_have(&turn.holder, turn.amount.get()));
            may_have.min_by_key(|turn| (turn.held(), turn.number)).cloned()
        };
        let mut fronts: Vec<Rc<Turn>> = queues.filter_map(next).collect();
        fronts.sort_by_key(|turn| turn.number);
        let mut is_common_wanted = false;
        for turn in fronts {
            let amount = turn.amount.get();
            if self.is_there(turn.holder.party, amount, is_common_wanted) {
                return Some((turn, amount));
            }
            let party = &self.parties[turn.holder.party?]; // no turn overtakes one for all
            let least = party.share.least;
            let has_share = least > 0 && tokens(least) <= self.available.get();
            if party.held.get() == 0 && has_share {
                return Some((turn, least));
            }
            is_common_wanted |= party.share.may_exceed;
        }
        None
    }

    /// Whether this many tokens are free for a party, where an earlier request may want common
    /// ones.
    fn is_there(&self, party: Option<usize>, amount: u64, is_common_wanted: bool) -> bool {
        let is_free = tokens(amount) <= self.available.get();
        let Some(number) = party else { return is_free };
        let party = &self.parties[number];
        let is_own = amount <= party.lacks();
        let may_exceed = party.share.may_exceed && !is_common_wanted;
        // Invariant 3.
        let beside = self.available.get() - tokens(self.lacking.get() - party.lacks());
        is_free && is_own || may_exceed && tokens(amount) <= beside
    }
}

impl Party {
    /// The tokens that it lacks of its share.
    fn lacks(&self) -> u64 {
        self.share.least.saturating_sub(self.held.get())
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }

    fn push(&mut self, turn: Rc<Turn>) {
        let account = &turn.holder.account;
        let line = self.lines.iter_mut().find(|line| line[0].holder.account == *account);
        match line {
            Some(line) => line.push_back(turn),
            None => self.lines.push(VecDeque::from([turn])),
        }
    }

    /// The first turn of each line.
    fn fronts(&self) -> impl Iterator<Item = &Rc<Turn>> {
        self.lines.iter().filter_map(VecDeque::front)
    }

    /// Makes the first turn of each line one that is not gone.
    fn forget_gone_fronts(&mut self) {
        self.lines.retain_mut(|line| {
            while line.front().is_some_and(|turn| turn.gone.get()) {
                line.pop_front();
            }
            !line.is_empty()
        });
    }

    /// Removes a granted turn.
    fn remove(&mut self, turn: &Rc<Turn>) {
        let place = self.lines.iter().position(|line| Rc::ptr_eq(&line[0], turn));
        let place = place.expect("invariant 2: the first of a client is granted, and once");
        self.lines[place].pop_front();
        if self.lines[place].is_empty() {
            self.lines.swap_remove(place);
        }
    }
}

/// The requests that may wait for tokens that a client of a pool holds: others of its party, and
/// those that wait for common tokens, if its party can hold such.
#[derive(Clone)]
pub struct Line {
    pool: Rc<Pool>,
    party: usize,
    account: Option<Account>,
}

impl Line {
    /// A mark of this moment, for [`Line::keeps_waiting_since`].
    pub fn mark(&self) -> u64 {
        self.pool.queued.get()
    }

    /// Whether a request that waited at the time of `mark` still does. With it, a holder of tokens
    /// that has a clock sees how long it has kept others waiting.
    pub fn keeps_waiting_since(&self, mark: u64) -> bool {
        let parties = &self.pool.parties;
        let may_exceed = |party: &Party| party.share.may_exceed;
        parties.iter().enumerate().any(|(number, other)| {
            // A party that holds no more than its share keeps nothing from the others.
            let own = &parties[self.party];
            let is_common = own.held.get() > own.share.least && may_exceed(own);
            let is_in_line = number == self.party || is_common && may_exceed(other);
            is_in_line && self.has_waited_in(&other.queue, mark)
        })
    }

    /// A client that holds all that it can waits for its own tokens, and for those of no other.
    fn has_waited_in(&self, queue: &RefCell<Queue>, mark: u64) -> bool {
        let mut queue = queue.borrow_mut();
        queue.forget_gone_fronts();
        queue.fronts().any(|turn| {
            let is_own = turn.holder.account == self.account;
            turn.number < mark && (is_own || self.pool.may_have(&turn.holder, turn.amount.get()))
        })
    }
}

impl Turn {
    /// The tokens that its client holds; 0 without an account.
    fn held(&self) -> u64 {
        self.holder.held().map_or(0, Cell::get)
    }
}

/// A request for tokens. It waits in line from its first poll until it is dropped.
pub struct Wait {
    pool: Rc<Pool>,
    state: WaitState,
}

enum WaitState {
    New(Holder, u64),
    InLine(Rc<Turn>),
    Done,
}

impl Future for Wait {
    type Output = Tokens;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Tokens> {
        if let WaitState::New(holder, amount) = &self.state {
            if let Some(taken) = self.pool.try_acquire_as(holder, *amount) {
                self.state = WaitState::Done;
                return Poll::Ready(taken);
            }
            let turn = self.pool.line_up(holder, *amount);
            self.state = WaitState::InLine(turn);
        }
        let WaitState::InLine(turn) = &self.state else { panic!("polled after completion") };
        if !turn.granted.get() {
            *turn.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (holder, amount) = (turn.holder.clone(), turn.amount.get());
        self.state = WaitState::Done;
        Poll::Ready(Tokens { pool: self.pool.clone(), holder, amount })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let WaitState::InLine(turn) = &self.state else { return };
        turn.gone.set(true);
        if turn.granted.get() {
            self.pool.give_back(&turn.holder, turn.amount.get()); // invariant 1
        } else {
            self.pool.waiting.set(self.pool.waiting.get() - 1);
            self.pool.forget_gone(turn.holder.party);
            self.pool.grant();
        }
    }
}

/// Held tokens; dropping gives them back.
pub struct Tokens {
    pool: Rc<Pool>,
    holder: Holder,
    amount: u64,
}

impl Tokens {
    /// Number of tokens.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The party that has them; none, if they are all tokens of a pool.
    pub fn party(&self) -> Option<usize> {
        self.holder.party
    }

    /// The requests that may wait for them; none, if they are all tokens of a pool.
    pub fn line(&self) -> Option<Line> {
        let Holder { party, account } = &self.holder;
        party.map(|party| self.pool.line(party, account.clone()))
    }

    /// Holds exactly `amount` tokens from now on: gives back any excess, and takes missing ones as
    /// [`Pool::take_now`] does.
    pub fn resize(&mut self, amount: u64) {
        match amount.checked_sub(self.amount) {
            Some(more) => self.pool.take(&self.holder, more),
            None => self.pool.give_back(&self.holder, self.amount - amount),
        }
        self.amount = amount;
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.pool.give_back(&self.holder, self.amount);
    }
}

#[cfg(test)]
mod tests;
