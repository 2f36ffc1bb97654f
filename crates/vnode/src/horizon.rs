//! The durable Updates of a volume, and the tasks that wait for more: the same for every engine.
//!
//! Most engines make Updates durable in their order, so that one sequence says all. An engine that
//! does not says so, and then some are durable beyond the first that is not.
//!
//! Invariants:
//! 1. A durable Update stays durable.
//! 2. After a failure it goes no further, and no task is left waiting.
//! 3. While it *stands*, because Updates find no room below to become durable, a caller that waits
//!    for a reply hears that it is lost. Earlier replies can be read, and it may move again.
//!
//! Not asserted: 3, which is about the reply to a caller.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::sync::{Signal, SignalWait};
use vfs::{Depends, Ledger, Lost, Sequence};

use crate::planted::{Bug, is_planted};

/// See the module's prose. A clone is the same horizon.
#[derive(Clone, Default)]
pub struct Horizon(Rc<State>);

#[derive(Default)]
struct State {
    through: Cell<u64>,
    /// Durable Updates beyond `through`; none while Updates become durable in their order.
    beyond: RefCell<BTreeSet<u64>>,
    is_out_of_order: bool,
    failed: Cell<bool>,
    stands: Cell<bool>,
    moved: Signal,
    /// The latest sequence that a task has waited for.
    asked: Cell<u64>,
    /// Out of order only: sequences that tasks have waited for since [`Horizon::take_asked`], as a
    /// bound and one by one.
    asked_through: Cell<u64>,
    asked_each: RefCell<BTreeSet<u64>>,
    was_asked: Signal,
    /// Times that a caller had to wait for the changes that its reply depends on.
    waits: Cell<u64>,
}

impl Horizon {
    /// The horizon of an engine whose Updates become durable in any order.
    pub fn out_of_order() -> Self {
        Self(Rc::new(State { is_out_of_order: true, ..State::default() }))
    }

    /// Whether no Update is durable before those in front of it.
    pub fn is_in_order(&self) -> bool {
        !self.0.is_out_of_order
    }

    /// The changes that a reply depends on if it shows this one.
    pub fn up_to(&self, sequence: Sequence) -> Depends {
        if self.is_in_order() { Depends::through(sequence) } else { Depends::on(sequence) }
    }

    /// Whether this Update is durable.
    pub fn has_passed(&self, sequence: Sequence) -> bool {
        sequence.0 <= self.0.through.get() || self.0.beyond.borrow().contains(&sequence.0)
    }

    /// Whether all of these are durable, whatever has failed since.
    pub(crate) fn has_all(&self, changes: &Depends) -> bool {
        self.through() >= changes.all_through()
            && changes.each().iter().all(|&sequence| self.has_passed(sequence))
    }

    /// The commit point of an engine out of order: this Update is durable.
    pub fn pass(&self, sequence: u64) {
        assert!(self.0.is_out_of_order, "one that keeps the order advances");
        let mut beyond = self.0.beyond.borrow_mut();
        beyond.insert(sequence);
        while beyond.first() == Some(&(self.0.through.get() + 1)) {
            beyond.pop_first();
            self.0.through.set(self.0.through.get() + 1);
        }
        drop(beyond);
        self.wake();
    }

    /// The sequence up to which every Update is durable.
    pub fn through(&self) -> Sequence {
        Sequence(self.0.through.get())
    }

    /// Whether a write or flush has failed, so that nothing becomes durable any more.
    pub fn has_failed(&self) -> bool {
        self.0.failed.get()
    }

    /// Whether calls are refused after a failure.
    pub fn has_stopped(&self) -> bool {
        self.has_failed() && !is_planted(Bug::ServingOn)
    }

    /// The commit point of a policy: everything up to `sequence` is durable.
    pub fn advance(&self, sequence: u64) {
        let before = self.0.through.replace(sequence);
        assert!(before <= sequence, "invariant 1: {before} is durable, and stays so");
        let may_move = before == sequence || !self.has_failed();
        assert!(may_move, "invariant 2: after a failure it goes no further");
        self.wake();
    }

    /// Notes a failure.
    pub fn fail(&self) {
        self.0.failed.set(true);
        self.wake();
        self.0.was_asked.notify();
    }

    /// Sets whether Updates find no room below to become durable (invariant 3).
    pub fn stand(&self, stands: bool) {
        if self.0.stands.replace(stands) != stands {
            self.wake();
        }
    }

    /// Whether it stands, and nothing has failed: then it may move again.
    pub fn is_standing(&self) -> bool {
        self.0.stands.get() && !self.has_stopped()
    }

    /// Waits until everything up to `sequence` is durable, however long that takes. For work that
    /// no caller waits for.
    ///
    /// # Errors
    /// [`Lost`] after a failure.
    pub async fn reach(&self, sequence: Sequence) -> Result<(), Lost> {
        self.ask(&Depends::through(sequence));
        while self.through() < sequence && !self.has_stopped() {
            self.moved().await;
        }
        if self.has_stopped() { Err(Lost) } else { Ok(()) }
    }

    /// Times that a caller had to wait for the changes that its reply depends on.
    pub fn waits(&self) -> u64 {
        self.0.waits.get()
    }

    /// Wakes every task that waits here, to check again.
    pub fn wake(&self) {
        self.0.moved.notify();
    }

    /// Waits until a task waits for `sequence`, or nothing becomes durable any more.
    pub async fn asked(&self, sequence: Sequence) {
        while self.0.asked.get() < sequence.0 && !self.has_failed() {
            self.0.was_asked.wait().await;
        }
    }

    /// Notes that a task waits for these changes.
    fn ask(&self, on: &Depends) {
        if self.0.is_out_of_order {
            self.ask_each(on);
        }
        let sequence = on.newest();
        if sequence.0 > self.0.asked.get() {
            self.0.asked.set(sequence.0);
            self.0.was_asked.notify();
        }
    }

    fn ask_each(&self, on: &Depends) {
        let through = on.all_through();
        if through > self.through() {
            self.0.asked_through.set(self.0.asked_through.get().max(through.0));
        }
        let open = on.each().iter().filter(|&&sequence| !self.has_passed(sequence));
        self.0.asked_each.borrow_mut().extend(open.map(|sequence| sequence.0));
        self.0.was_asked.notify();
    }

    /// Whether a task waits for changes that [`Self::take_asked`] has not returned.
    pub fn has_asked(&self) -> bool {
        self.0.asked_through.get() > 0 || !self.0.asked_each.borrow().is_empty()
    }

    /// Sequences that tasks wait for, of an engine out of order, since the last call: all up to the
    /// first, and each of the list.
    pub fn take_asked(&self) -> (Sequence, Vec<Sequence>) {
        let each = self.0.asked_each.take().into_iter().map(Sequence).collect();
        (Sequence(self.0.asked_through.take()), each)
    }

    /// Waits until a task waits for something.
    pub fn was_asked(&self) -> SignalWait<'_> {
        self.0.was_asked.wait()
    }

    /// Waits until this Update is durable. Where Updates become durable one by one, it is not
    /// hurried.
    ///
    /// # Errors
    /// [`Lost`] after a failure.
    pub async fn reach_at_leisure(&self, sequence: Sequence) -> Result<(), Lost> {
        if self.is_in_order() {
            return self.reach(sequence).await;
        }
        while !self.has_passed(sequence) && !self.has_stopped() {
            self.moved().await;
        }
        if self.has_stopped() { Err(Lost) } else { Ok(()) }
    }

    /// Waits for the next of these.
    pub fn moved(&self) -> SignalWait<'_> {
        self.0.moved.wait()
    }
}

impl Ledger for Horizon {
    fn durable(&self, on: Depends) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let this = self.clone();
        async move {
            this.ask(&on);
            this.0.waits.set(this.0.waits.get() + u64::from(this.is_durable(&on) == Ok(false)));
            while !this.is_durable(&on)? {
                this.moved().await;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn is_durable(&self, on: &Depends) -> Result<bool, Lost> {
        let is_durable = self.has_all(on);
        if self.has_stopped() || !is_durable && self.0.stands.get() {
            return Err(Lost);
        }
        Ok(is_durable)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join;
    use sim::Executor;

    use super::*;

    /// The result for a task that waits for the first Update, if an event happens after a second:
    /// `None` if the event does not wake the task within a minute.
    fn heard(happens: impl FnOnce(&Horizon)) -> Option<Result<(), Lost>> {
        let executor = Executor::new(1);
        let clock = executor.runtime().clock;
        let horizon = Horizon::default();
        let (waiting, event) = (horizon.durable(Depends::through(Sequence(1))), async {
            clock.sleep(Duration::from_secs(1)).await;
            happens(&horizon);
        });
        let both = executor.block_on_for(Duration::from_secs(60), join(waiting, event));
        both.map(|(heard, ())| heard)
    }

    #[test]
    fn who_waits_hears_at_once_what_becomes_of_it() {
        assert_eq!(heard(|horizon| horizon.advance(1)), Some(Ok(())));
        assert_eq!(heard(|horizon| horizon.fail()), Some(Err(Lost)));
        assert_eq!(heard(|horizon| horizon.stand(true)), Some(Err(Lost)));
        assert_eq!(heard(|horizon| horizon.stand(false)), None, "it did not stand");
        assert_eq!(heard(|_| ()), None);
    }

    #[test]
    fn what_is_durable_is_known_while_it_stands_and_nothing_is_after_a_failure() {
        let horizon = Horizon::default();
        horizon.advance(3);
        let known = |stands| {
            horizon.stand(stands);
            [3, 4].map(|sequence| horizon.is_durable(&Depends::through(Sequence(sequence))))
        };
        assert_eq!(known(false), [Ok(true), Ok(false)]);
        assert_eq!(known(true), [Ok(true), Err(Lost)]);
        assert!(horizon.is_standing());
        assert_eq!(known(false), [Ok(true), Ok(false)], "it may move again");
        assert!(!horizon.has_failed() && !horizon.has_stopped() && !horizon.is_standing());
        horizon.fail();
        assert!(horizon.has_failed() && horizon.has_stopped());
        assert_eq!(known(false), [Err(Lost); 2]);
        assert_eq!(known(true), [Err(Lost); 2]);
        assert!(!horizon.is_standing(), "it does not move again");
    }

    #[test]
    fn work_waits_while_it_stands_and_for_no_more_than_its_sequence() {
        let horizon = Horizon::default();
        horizon.stand(true);
        assert_eq!(horizon.reach(Sequence(2)).now_or_never(), None);
        horizon.advance(2);
        assert_eq!(horizon.reach(Sequence(2)).now_or_never(), Some(Ok(())));
        assert_eq!(horizon.reach(Sequence(3)).now_or_never(), None);
        horizon.fail();
        assert_eq!(horizon.reach(Sequence(2)).now_or_never(), Some(Err(Lost)));
    }

    #[test]
    fn out_of_order_each_is_durable_by_itself() {
        let horizon = Horizon::out_of_order();
        let is = |on: &Depends| horizon.is_durable(on);
        let (second, both) = (horizon.up_to(Sequence(2)), Depends::through(Sequence(2)));
        assert_eq!((is(&second), is(&both)), (Ok(false), Ok(false)));
        horizon.pass(2);
        assert_eq!((is(&second), is(&both)), (Ok(true), Ok(false)));
        assert_eq!(horizon.through(), Sequence(0));
        horizon.pass(1);
        assert_eq!((is(&second), is(&both)), (Ok(true), Ok(true)));
        assert_eq!(horizon.through(), Sequence(2));
    }
}
