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

    fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.held, &other.held)
    }

    fn add(&self, party: usize, amount: u64) {
        self.cell(party).set(self.held(party) + amount);
    }

    fn remove(&self, party: usize, amount: u64) {
        let held = self.held(party).checked_sub(amount);
        self.cell(party).set(held.expect("invariant 1: only what is held is given back"));
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

struct Turn {
    /// None for a request for all.
    party: Option<usize>,
    account: Option<Account>,
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

    /// Takes `amount` tokens for a party, at most all that it can have.
    pub async fn acquire(self: &Rc<Self>, party: usize, amount: u64) -> Tokens {
        match self.try_acquire(party, amount) {
            Some(taken) => taken,
            None => self.line_up(Some(party), None, self.at_most(party, amount)).await,
        }
    }

    /// As [`Pool::acquire`], for a client of the party: one that holds less is granted its tokens
    /// first.
    pub async fn acquire_for(
        self: &Rc<Self>,
        party: usize,
        account: &Account,
        amount: u64,
    ) -> Tokens {
        if let Some(taken) = self.try_acquire_for(party, account, amount) {
            return taken;
        }
        let amount = self.at_most(party, amount);
        self.line_up(Some(party), Some(account.clone()), amount).await
    }

    /// As [`Pool::acquire`], at once or not at all: nothing while another request waits.
    pub fn try_acquire(self: &Rc<Self>, party: usize, amount: u64) -> Option<Tokens> {
        let amount = self.at_most(party, amount);
        if self.waiting.get() > 0 || !self.is_there(Some(party), amount, false) {
            return None;
        }
        let before = self.beside_shares();
        let taken = self.take_now(party, amount);
        self.check_shares(before);
        Some(taken)
    }

    /// As [`Pool::acquire_for`], at once or not at all.
    pub fn try_acquire_for(
        self: &Rc<Self>,
        party: usize,
        account: &Account,
        amount: u64,
    ) -> Option<Tokens> {
        if !self.may_have(party, Some(account), self.at_most(party, amount)) {
            return None;
        }
        let mut taken = self.try_acquire(party, amount)?;
        account.add(party, taken.amount);
        taken.account = Some(account.clone());
        Some(taken)
    }

    /// Invariant 5.
    fn may_have(&self, party: usize, account: Option<&Account>, amount: u64) -> bool {
        let held = account.map_or(0, |account| account.held(party));
        held == 0 || held + amount <= self.parties[party].most_of_client
    }

    /// The part of `amount` that a party can have.
    fn at_most(&self, party: usize, amount: u64) -> u64 {
        amount.min(self.parties[party].most)
    }

    /// Takes all tokens, of all parties.
    pub async fn acquire_all(self: &Rc<Self>) -> Tokens {
        self.line_up(None, None, self.capacity).await
    }

    /// Takes `amount` tokens for a party at once, before all waiters and whether they are free or
    /// not: for memory that is in use already and only has to be counted.
    pub fn take_now(self: &Rc<Self>, party: usize, amount: u64) -> Tokens {
        self.take(Some(party), amount);
        Tokens { pool: self.clone(), party: Some(party), account: None, amount }
    }

    /// The requests that may wait for tokens that this client of a party holds.
    pub fn line(self: &Rc<Self>, party: usize, account: Option<Account>) -> Line {
        Line { pool: self.clone(), party, account }
    }

    async fn line_up(
        self: &Rc<Self>,
        party: Option<usize>,
        account: Option<Account>,
        amount: u64,
    ) -> Tokens {
        let turn = Rc::new(Turn {
            party,
            account,
            number: self.queued.replace(self.queued.get() + 1),
            amount: Cell::new(amount),
            granted: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::default(),
        });
        self.queue(party).borrow_mut().push(turn.clone());
        self.waiting.set(self.waiting.get() + 1);
        self.grant();
        Wait { pool: self.clone(), turn: Some(turn) }.await
    }

    fn queue(&self, party: Option<usize>) -> &RefCell<Queue> {
        party.map_or(&self.all, |party| &self.parties[party].queue)
    }

    fn take(&self, party: Option<usize>, amount: u64) {
        self.available.set(self.available.get() - tokens(amount));
        if let Some(party) = party {
            let party = &self.parties[party];
            self.hold(party, party.held.get() + amount);
        }
    }

    fn give_back(&self, party: Option<usize>, amount: u64) {
        if amount == 0 {
            return;
        }
        self.available.set(self.available.get() + tokens(amount));
        if let Some(party) = party {
            let party = &self.parties[party];
            let held = party.held.get().checked_sub(amount);
            self.hold(party, held.expect("invariant 1: only what is held is given back"));
        }
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
            self.queue(turn.party).borrow_mut().remove(&turn);
            self.waiting.set(self.waiting.get() - 1);
            let is_less = turn.amount.replace(amount) != amount;
            let before = self.beside_shares();
            if let Some(party) = turn.party.map(|party| &self.parties[party]) {
                let is_share = party.held.get() == 0 && amount == party.share.least;
                assert!(!is_less || is_share, "invariant 4: who is granted less has its share");
            }
            self.take(turn.party, amount);
            if let Some(party) = turn.party {
                turn.account.iter().for_each(|account| account.add(party, amount));
                self.check_shares(before);
            }
            debug_assert!(
                turn.party.is_none_or(
                    |party| turn.held() <= self.parties[party].most_of_client.max(amount)
                ),
                "invariant 5: a client is granted no more than it can hold"
            );
            turn.granted.set(true);
            if let Some(waker) = turn.waker.take() {
                waker.wake();
            }
        }
    }

    /// Free tokens beyond all that parties lack of their shares.
    fn beside_shares(&self) -> i64 {
        self.available.get() - self.lacking.get() as i64
    }

    /// Asserts that the last grant left the others their shares, as far as they were free.
    fn check_shares(&self, before: i64) {
        let after = self.beside_shares();
        debug_assert!(after >= 0.min(before), "invariant 3: the shares of the others are left");
    }

    /// The next request that can be granted something, and the amount.
    fn next(&self) -> Option<(Rc<Turn>, u64)> {
        let queues = self.parties.iter().map(|party| &party.queue).chain([&self.all]);
        let next = |queue: &RefCell<Queue>| {
            let mut queue = queue.borrow_mut();
            queue.forget_gone_fronts();
            let may_have = queue.fronts().filter(|turn| self.is_below_most(turn));
            may_have.min_by_key(|turn| (turn.held(), turn.number)).cloned()
        };
        let mut fronts: Vec<Rc<Turn>> = queues.filter_map(next).collect();
        fronts.sort_by_key(|turn| turn.number);
        let mut is_common_wanted = false;
        for turn in fronts {
            let amount = turn.amount.get();
            if self.is_there(turn.party, amount, is_common_wanted) {
                return Some((turn, amount));
            }
            let party = &self.parties[turn.party?]; // no turn overtakes one for all
            let least = party.share.least;
            let has_share = least > 0 && tokens(least) <= self.available.get();
            if party.held.get() == 0 && has_share {
                return Some((turn, least));
            }
            is_common_wanted |= party.share.may_exceed;
        }
        None
    }

    /// Whether the client of a turn may have its tokens (invariant 5).
    fn is_below_most(&self, turn: &Turn) -> bool {
        let account = turn.account.as_ref();
        turn.party.is_none_or(|party| self.may_have(party, account, turn.amount.get()))
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
        let line = self.lines.iter_mut().find(|line| line[0].is_of_client(&turn));
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
        let is_own = |turn: &Turn| {
            turn.account
                .as_ref()
                .zip(self.account.as_ref())
                .is_some_and(|(one, own)| one.is_same(own))
        };
        queue
            .fronts()
            .any(|turn| turn.number < mark && (is_own(turn) || self.pool.is_below_most(turn)))
    }
}

impl Turn {
    /// The tokens that its client holds; 0 without an account.
    fn held(&self) -> u64 {
        let account = self.account.as_ref().zip(self.party);
        account.map_or(0, |(account, party)| account.held(party))
    }

    fn is_of_client(&self, other: &Self) -> bool {
        match (&self.account, &other.account) {
            (Some(one), Some(other)) => one.is_same(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

struct Wait {
    pool: Rc<Pool>,
    turn: Option<Rc<Turn>>,
}

impl Future for Wait {
    type Output = Tokens;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Tokens> {
        let turn = self.turn.as_ref().expect("polled after completion");
        if !turn.granted.get() {
            *turn.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (party, account) = (turn.party, turn.account.clone());
        let amount = turn.amount.get();
        self.turn = None;
        Poll::Ready(Tokens { pool: self.pool.clone(), party, account, amount })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        turn.gone.set(true);
        if turn.granted.get() {
            if let Some((account, party)) = turn.account.as_ref().zip(turn.party) {
                account.remove(party, turn.amount.get());
            }
            self.pool.give_back(turn.party, turn.amount.get()); // invariant 1
        } else {
            self.pool.waiting.set(self.pool.waiting.get() - 1);
            self.pool.forget_gone(turn.party);
            self.pool.grant();
        }
    }
}

/// Held tokens; dropping gives them back.
pub struct Tokens {
    pool: Rc<Pool>,
    party: Option<usize>,
    account: Option<Account>,
    amount: u64,
}

impl Tokens {
    /// Number of tokens.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The party that has them; none, if they are all tokens of a pool.
    pub fn party(&self) -> Option<usize> {
        self.party
    }

    /// The requests that may wait for them; none, if they are all tokens of a pool.
    pub fn line(&self) -> Option<Line> {
        self.party.map(|party| self.pool.line(party, self.account.clone()))
    }

    /// Holds exactly `amount` tokens from now on: gives back any excess, and takes missing ones as
    /// [`Pool::take_now`] does.
    pub fn resize(&mut self, amount: u64) {
        if let Some((account, party)) = self.account.as_ref().zip(self.party) {
            account.remove(party, self.amount);
            account.add(party, amount);
        }
        match amount.checked_sub(self.amount) {
            Some(more) => self.pool.take(self.party, more),
            None => self.pool.give_back(self.party, self.amount - amount),
        }
        self.amount = amount;
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if let Some((account, party)) = self.account.as_ref().zip(self.party) {
            account.remove(party, self.amount);
        }
        self.pool.give_back(self.party, self.amount);
    }
}

#[cfg(test)]
mod tests;
