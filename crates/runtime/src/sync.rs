//! Single-threaded waiting: a signal, a fair reader-writer lock, and a semaphore.
//!
//! All of them are first come, first served, hold no clock and no thread, and survive a waiter that
//! is dropped halfway (its turn passes to the next).
//!
//! Invariants:
//! 1. A waiter that was granted its turn and then dropped gives the turn back.
//! 2. A later request never overtakes an earlier one that still waits, except that of a holder that
//!    takes back a lock that it has lent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Wakes every waiter. It keeps no state: check the condition, then wait.
#[derive(Default)]
pub struct Signal {
    round: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Signal {
    /// A signal that no task waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Completes at the first [`Signal::notify`] after this call (not after the first poll).
    pub fn wait(&self) -> SignalWait<'_> {
        SignalWait { signal: self, round: self.round.get(), noted: None }
    }

    /// Wakes all current waiters.
    pub fn notify(&self) {
        self.round.set(self.round.get() + 1);
        for waker in self.waiters.take() {
            waker.wake();
        }
    }
}

/// See [`Signal::wait`].
pub struct SignalWait<'a> {
    signal: &'a Signal,
    round: u64,
    /// The waker noted for this wait: a task that polls often is noted once.
    noted: Option<Waker>,
}

impl Future for SignalWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.signal.round.get() != self.round {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if !self.noted.as_ref().is_some_and(|noted| noted.will_wake(waker)) {
            self.signal.waiters.borrow_mut().push(waker.clone());
            self.noted = Some(waker.clone());
        }
        Poll::Pending
    }
}

impl Drop for SignalWait<'_> {
    fn drop(&mut self) {
        let Some(noted) = self.noted.take().filter(|_| self.signal.round.get() == self.round)
        else {
            return;
        };
        // A task that waits for one of two events, again and again, is not noted each time.
        let mut waiters = self.signal.waiters.borrow_mut();
        if let Some(at) = waiters.iter().rposition(|waker| waker.will_wake(&noted)) {
            waiters.remove(at);
        }
    }
}

/// Lets all other tasks have a turn: for a task with much to do that waits for nothing meanwhile.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Long work of several tasks that wait for nothing meanwhile. They share the steps of a turn, so
/// between two turns of any other task they take few more than one of them would alone.
#[derive(Debug, Default)]
pub struct Walks {
    /// Tasks that have taken a step, and have not ended.
    count: Cell<u32>,
}

/// The steps of one task of [`Walks`]. All other tasks have a turn after its part of
/// [`STEPS_OF_A_TURN`].
#[derive(Debug)]
pub struct Steps<'a> {
    walks: &'a Walks,
    /// Steps since the task last gave way; `None` before its first step.
    taken: Option<u32>,
}

/// Steps that the tasks of [`Walks`] take in one turn of each, about.
pub const STEPS_OF_A_TURN: u32 = 64;

impl Walks {
    /// The work of another task. It counts from its first step on.
    pub fn begin(&self) -> Steps<'_> {
        Steps { walks: self, taken: None }
    }
}

impl Steps<'_> {
    /// Counts a step that was taken.
    pub async fn step(&mut self) {
        let count = &self.walks.count;
        if self.taken.is_none() {
            count.set(count.get() + 1);
        }
        let taken = self.taken.unwrap_or(0) + 1;
        let gives_way = taken >= STEPS_OF_A_TURN / count.get();
        self.taken = Some(if gives_way { 0 } else { taken });
        if gives_way {
            yield_now().await;
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if self.taken.is_some() {
            self.walks.count.set(self.walks.count.get() - 1);
        }
    }
}

/// A number of tokens, handed out in the order of requests: used for byte budgets.
pub struct Semaphore {
    /// Negative while more was taken without waiting than was free.
    available: Cell<i64>,
    capacity: u64,
    queue: RefCell<VecDeque<Rc<Turn>>>,
    /// Requests that ever had to wait.
    queued: Cell<u64>,
}

struct Turn {
    /// Requests that had to wait before this one.
    number: u64,
    amount: u64,
    granted: Cell<bool>,
    gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Semaphore {
    /// A semaphore with `capacity` tokens, all of them free.
    pub fn new(capacity: u64) -> Rc<Self> {
        Rc::new(Self {
            available: Cell::new(tokens(capacity)),
            capacity,
            queue: RefCell::default(),
            queued: Cell::new(0),
        })
    }

    /// Tokens that no caller holds.
    pub fn available(&self) -> u64 {
        u64::try_from(self.available.get()).unwrap_or(0)
    }

    /// A mark of this moment, for [`Semaphore::keeps_waiting_since`].
    pub fn mark(&self) -> u64 {
        self.queued.get()
    }

    /// Whether a request that waited at the time of `mark` still does. With it, a holder of tokens
    /// that has a clock sees how long it has kept others waiting.
    pub fn keeps_waiting_since(&self, mark: u64) -> bool {
        // Turns are granted in order, so the first has waited longest.
        self.queue.borrow().front().is_some_and(|first| first.number < mark)
    }

    /// Takes `amount` tokens, at most the capacity: a larger request is granted when all are free.
    pub async fn acquire(self: &Rc<Self>, amount: u64) -> Permit {
        self.take(amount.min(self.capacity), false).await
    }

    /// Takes `amount` tokens at once, before all waiters and whether they are free or not: for
    /// memory that is in use already and only has to be counted. No request is granted any until
    /// they are back.
    pub fn take_now(self: &Rc<Self>, amount: u64) -> Permit {
        self.available.set(self.available.get() - tokens(amount));
        Permit { semaphore: self.clone(), amount }
    }

    /// As [`Semaphore::acquire`], before all waiters.
    async fn acquire_first(self: &Rc<Self>, amount: u64) -> Permit {
        self.take(amount, true).await
    }

    async fn take(self: &Rc<Self>, amount: u64, is_first: bool) -> Permit {
        let is_free = tokens(amount) <= self.available.get();
        if is_free && (is_first || self.queue.borrow().is_empty()) {
            return self.take_now(amount);
        }
        let turn = Rc::new(Turn {
            number: self.queued.replace(self.queued.get() + 1),
            amount,
            granted: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::default(),
        });
        if is_first {
            self.queue.borrow_mut().push_front(turn.clone())
        } else {
            let mut queue = self.queue.borrow_mut();
            let is_last = queue.back().is_none_or(|last| last.number < turn.number);
            assert!(is_last, "invariant 2: who comes later stands behind");
            queue.push_back(turn.clone());
        }
        self.grant();
        AcquireWait { semaphore: self.clone(), turn: Some(turn) }.await
    }

    fn grant(&self) {
        loop {
            let mut queue = self.queue.borrow_mut();
            let Some(first) = queue.front() else { return };
            if !first.gone.get() {
                if tokens(first.amount) > self.available.get() {
                    return;
                }
                self.available.set(self.available.get() - tokens(first.amount));
                first.granted.set(true);
            }
            let first = queue.pop_front();
            drop(queue);
            if let Some(waker) = first.and_then(|turn| turn.waker.take()) {
                waker.wake();
            }
        }
    }

    fn release(&self, amount: u64) {
        self.available.set(self.available.get() + tokens(amount));
        let are_taken = self.available.get() <= tokens(self.capacity);
        debug_assert!(are_taken, "invariant 1: a turn is given back once");
        self.grant();
    }
}

/// Converts a number of tokens to a signed one.
pub(crate) fn tokens(amount: u64) -> i64 {
    i64::try_from(amount).expect("no budget has as many tokens")
}

struct AcquireWait {
    semaphore: Rc<Semaphore>,
    turn: Option<Rc<Turn>>,
}

impl Future for AcquireWait {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let turn = self.turn.as_ref().expect("polled after completion");
        if !turn.granted.get() {
            *turn.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        let amount = turn.amount;
        self.turn = None;
        Poll::Ready(Permit { semaphore: self.semaphore.clone(), amount })
    }
}

impl Drop for AcquireWait {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        turn.gone.set(true);
        if turn.granted.get() {
            self.semaphore.release(turn.amount); // invariant 1
        } else {
            // No other turn may ever come to the front.
            self.semaphore.queue.borrow_mut().retain(|other| !other.gone.get());
            self.semaphore.grant();
        }
    }
}

/// Held tokens; dropping gives them back.
pub struct Permit {
    semaphore: Rc<Semaphore>,
    amount: u64,
}

impl Permit {
    /// How many tokens this permit holds.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Holds exactly `amount` tokens from now on: gives back any excess, and takes missing ones as
    /// [`Semaphore::take_now`] does.
    pub fn resize(&mut self, amount: u64) {
        if amount > self.amount {
            let mut more = self.semaphore.take_now(amount - self.amount);
            more.amount = 0;
        } else {
            self.semaphore.release(self.amount - amount);
        }
        self.amount = amount;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.amount);
    }
}

/// Tokens that a reader takes of a [`Lock`], and that a lender keeps: fewer, to distinguish the
/// two.
const READER: u64 = 2;
const LENT: u64 = 1;
/// All tokens of a lock: far more readers than a volume can have calls.
const ALL: u64 = READER << 32;

/// A fair reader-writer lock without data: its owner defines what it guards.
///
/// A task that holds it exclusively may lend it for a while ([`Lock::lend`]): to readers, and to
/// others, one at a time, that ask for no more than that ([`Lock::borrowed`]). A task that wants it
/// exclusively waits meanwhile.
#[derive(Clone)]
pub struct Lock(Rc<Semaphore>);

impl Default for Lock {
    fn default() -> Self {
        Self(Semaphore::new(ALL))
    }
}

impl Lock {
    /// Waits until no writer is before us.
    pub async fn shared(&self) -> Permit {
        self.0.acquire(READER).await
    }

    /// Waits for exclusive access.
    pub async fn exclusive(&self) -> Permit {
        self.0.acquire(ALL).await
    }

    /// Waits for exclusive access, but for the task that has lent the lock.
    pub async fn borrowed(&self) -> Permit {
        self.0.acquire(ALL - LENT).await
    }

    /// Lends a lock that is held exclusively.
    pub fn lend(mut alone: Permit) -> Lent {
        assert_eq!(alone.amount, ALL, "only who is alone lends a lock");
        alone.amount = LENT;
        alone.semaphore.release(ALL - LENT);
        Lent(alone)
    }

    /// Whether no task holds the lock now.
    pub fn is_free(&self) -> bool {
        self.0.available() == ALL
    }
}

/// A lock that its holder has lent.
pub struct Lent(Permit);

impl Lent {
    /// Waits until all borrowers have left, before all other waiters: those that want the lock
    /// exclusively could not have it anyway.
    pub async fn reclaim(self) -> Permit {
        let Self(mut alone) = self;
        let mut rest = alone.semaphore.acquire_first(ALL - LENT).await;
        alone.amount += std::mem::take(&mut rest.amount);
        alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::executor::block_on;

    #[test]
    fn who_yields_goes_on_with_the_next_turn() {
        let mut work = Box::pin(yield_now());
        assert!(work.as_mut().now_or_never().is_none());
        assert!(work.as_mut().now_or_never().is_some());
    }

    #[test]
    fn a_task_of_many_steps_gives_way_after_a_number_of_them() {
        let all = async {
            let walks = Walks::default();
            let mut steps = walks.begin();
            for _ in 0..2 * STEPS_OF_A_TURN {
                steps.step().await;
            }
        };
        let mut all = Box::pin(all);
        let turns = std::iter::from_fn(|| all.as_mut().now_or_never().is_none().then_some(()));
        assert_eq!(turns.count(), 2);
    }

    #[test]
    fn tasks_of_many_steps_share_those_of_a_turn() {
        const TASKS: u32 = 256;
        let (walks, taken) = (Walks::default(), Cell::new(0));
        let walk = async || {
            let mut steps = walks.begin();
            loop {
                taken.set(taken.get() + 1);
                steps.step().await;
            }
        };
        let mut tasks: Vec<_> = (0..TASKS).map(|_| Box::pin(walk())).collect();
        let mut round = || {
            taken.set(0);
            let ended = tasks.iter_mut().filter_map(|task| task.as_mut().now_or_never()).count();
            assert_eq!(ended, 0);
            taken.get()
        };
        assert!(round() < TASKS + 4 * STEPS_OF_A_TURN, "the first task does not know the others");
        assert_eq!(round(), TASKS, "a step each");
        drop(tasks);
        assert_eq!(walks.count.get(), 0);
    }

    #[test]
    fn what_is_taken_at_once_is_owed_before_anybody_else_is_granted_any() {
        let tokens = Semaphore::new(10);
        let mut large = tokens.take_now(25);
        assert_eq!(tokens.available(), 0);
        let mut waiting = Box::pin(tokens.acquire(1));
        assert!(waiting.as_mut().now_or_never().is_none());
        large.resize(10);
        assert!(waiting.as_mut().now_or_never().is_none(), "all ten are held");
        large.resize(9);
        let one = waiting.as_mut().now_or_never().expect("one is free");
        large.resize(12);
        assert_eq!((large.amount(), tokens.available()), (12, 0));
        drop((large, one));
        assert_eq!(tokens.available(), 10);
    }

    #[test]
    fn a_large_wish_is_not_overtaken_by_small_ones() {
        let tokens = Semaphore::new(10);
        let first = block_on(tokens.acquire(6));
        let mut large = Box::pin(tokens.acquire(8));
        assert!(large.as_mut().now_or_never().is_none());
        let mut small = Box::pin(tokens.acquire(1));
        assert!(small.as_mut().now_or_never().is_none());
        drop(first);
        let large = large.as_mut().now_or_never().expect("8 of 10 are free");
        assert!(small.as_mut().now_or_never().is_some());
        assert_eq!(large.amount(), 8);
    }

    #[test]
    fn a_dropped_waiter_passes_its_turn_on() {
        let lock = Lock::default();
        let reader = block_on(lock.shared());
        let mut writer = Box::pin(lock.exclusive());
        assert!(writer.as_mut().now_or_never().is_none());
        let mut other = Box::pin(lock.shared());
        assert!(other.as_mut().now_or_never().is_none());
        drop(writer);
        assert!(other.as_mut().now_or_never().is_some());
        drop(reader);
        assert!(lock.is_free());
    }

    #[test]
    fn a_granted_turn_that_is_dropped_comes_back() {
        let lock = Lock::default();
        let writer = block_on(lock.exclusive());
        let mut waiting = Box::pin(lock.exclusive());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(writer);
        drop(waiting);
        assert!(lock.is_free());
    }

    #[test]
    fn a_lent_lock_admits_readers_or_one_borrower_and_nobody_alone() {
        let lock = Lock::default();
        let lent = Lock::lend(block_on(lock.exclusive()));
        let borrower = block_on(lock.borrowed());
        let mut reader = Box::pin(lock.shared());
        assert!(reader.as_mut().now_or_never().is_none());
        drop(borrower);
        let reader = reader.now_or_never().expect("the borrower has left");
        let mut borrower = Box::pin(lock.borrowed());
        assert!(borrower.as_mut().now_or_never().is_none(), "a reader is there");
        drop(reader);
        drop(borrower.now_or_never().expect("the reader has left"));
        let mut writer = Box::pin(lock.exclusive());
        assert!(writer.as_mut().now_or_never().is_none());
        drop(lent);
        assert!(writer.now_or_never().is_some());
        assert!(lock.is_free());
    }

    #[test]
    fn who_has_lent_a_lock_takes_it_back_before_those_who_wait() {
        let lock = Lock::default();
        let lent = Lock::lend(block_on(lock.exclusive()));
        let borrower = block_on(lock.borrowed());
        let mut writer = Box::pin(lock.exclusive());
        let mut next = Box::pin(lock.borrowed());
        assert!(writer.as_mut().now_or_never().is_none());
        assert!(next.as_mut().now_or_never().is_none(), "a writer waits");
        let mut back = Box::pin(lent.reclaim());
        assert!(back.as_mut().now_or_never().is_none(), "a borrower is there");
        drop(borrower);
        assert!(writer.as_mut().now_or_never().is_none());
        let alone = back.now_or_never().expect("before the writer");
        assert_eq!(alone.amount(), ALL);
        drop(alone);
        drop(writer.now_or_never().expect("it is the writer's turn"));
        drop(next.now_or_never().expect("and then the borrower's"));
        assert!(lock.is_free());
    }

    #[test]
    fn a_lock_that_nobody_takes_back_is_free() {
        let lock = Lock::default();
        let lent = Lock::lend(block_on(lock.exclusive()));
        let reader = block_on(lock.shared());
        let mut back = Box::pin(lent.reclaim());
        assert!(back.as_mut().now_or_never().is_none());
        drop(back);
        assert!(lock.borrowed().now_or_never().is_none(), "a reader is there");
        drop(reader);
        assert!(lock.is_free());
    }

    #[test]
    fn who_keeps_waiting_is_told_from_who_has_just_come() {
        let tokens = Semaphore::new(1);
        let held = block_on(tokens.acquire(1));
        let before = tokens.mark();
        let mut first = Box::pin(tokens.acquire(1));
        let mut second = Box::pin(tokens.acquire(1));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(!tokens.keeps_waiting_since(before), "it came later");
        let between = tokens.mark();
        assert!(second.as_mut().now_or_never().is_none());
        assert!(tokens.keeps_waiting_since(between));
        drop(held);
        assert!(!tokens.keeps_waiting_since(between), "the first has had its turn");
        let both = tokens.mark();
        assert!(tokens.keeps_waiting_since(both), "the second has not");
        drop(second);
        assert!(!tokens.keeps_waiting_since(both), "it has gone away");
    }

    #[test]
    fn a_wait_that_is_looked_at_often_is_noted_once() {
        let signal = Signal::new();
        let mut wait = signal.wait();
        for _ in 0..100 {
            let waker = futures::task::noop_waker();
            assert!(wait.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(signal.waiters.borrow().len(), 1);
    }

    #[test]
    fn a_signal_wakes_those_who_wait_and_no_later_ones() {
        let signal = Signal::new();
        let mut early = Box::pin(signal.wait());
        assert!(early.as_mut().now_or_never().is_none());
        signal.notify();
        assert!(early.as_mut().now_or_never().is_some());
        assert!(signal.wait().now_or_never().is_none());
    }
}
