//! Runs tasks in an order that the seed decides, under a clock on which waiting takes no real time.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::{Clock, Instant, Runtime};

use crate::world::World;

/// A single-threaded world with a seed. Tasks live in it until they end, until [`Executor::crash`],
/// or until it is dropped.
///
/// A test that panics prints the seed on its way out.
pub struct Executor {
    world: Rc<World>,
}

impl Executor {
    /// A world at time zero, determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self { world: World::new(seed) }
    }

    /// The same, but ready tasks run in the order in which they were woken, as under a reactor: for
    /// tests of the turns of tasks.
    pub fn in_order(seed: u64) -> Self {
        let executor = Self::new(seed);
        executor.world.run_in_order();
        executor
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.world.seed
    }

    /// Clock, random source and tasks of this world, for an engine.
    pub fn runtime(&self) -> Runtime {
        Runtime { clock: self.world.clone(), random: self.world.clone(), tasks: self.world.clone() }
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// A hash of all events so far: polls of tasks, random numbers, events of disks. Equal digests
    /// mean equal runs.
    pub fn digest(&self) -> u64 {
        self.world.digest()
    }

    /// Runs `future` until it is done, and every other task beside it. The others stay as they are
    /// and continue at the next call.
    ///
    /// # Panics
    /// When nothing can happen any more and `future` still waits: a deadlock.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.run(future, u64::MAX).unwrap_or_else(|| {
            panic!(
                "deadlock under seed {} at {} ns: the main future waits beside {} tasks, and \
                 nothing is left that could wake any of them",
                self.seed(),
                self.now().0,
                self.world.tasks_waiting(),
            )
        })
    }

    /// Runs everything until `duration` has passed, or until `future` is done. The clock ends at
    /// the deadline only in the first case.
    pub fn block_on_for<F: Future>(&self, duration: Duration, future: F) -> Option<F::Output> {
        let deadline_ns = self.deadline(duration);
        let output = self.run(future, deadline_ns);
        if output.is_none() && deadline_ns > self.now().0 {
            self.world.move_clock(deadline_ns);
        }
        output
    }

    /// Runs the tasks until `duration` has passed.
    pub fn run_for(&self, duration: Duration) {
        let endless: Option<()> = self.block_on_for(duration, std::future::pending());
        debug_assert!(endless.is_none());
    }

    /// Polls one task, after moving the clock if need be. False when no task and no event is left.
    /// For cuts between any two steps.
    pub fn step(&self) -> bool {
        match self.world.next(u64::MAX) {
            Some(id) => {
                self.world.poll_task(id);
                true
            }
            None => false,
        }
    }

    /// A power cut: drops every task where it is, and all calls of devices in flight. The old disks
    /// are dead and answer nothing; take one's [`crate::Disk::crash`] image and open that anew.
    /// Clock and random source go on, so that the next boot differs from the last.
    pub fn crash(&self) {
        self.world.crash();
    }

    pub(crate) fn world(&self) -> &Rc<World> {
        &self.world
    }

    fn deadline(&self, duration: Duration) -> u64 {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.now().0.saturating_add(duration_ns)
    }

    fn run<F: Future>(&self, future: F, deadline_ns: u64) -> Option<F::Output> {
        let mut future = pin!(future);
        let main = self.world.enter();
        while let Some(id) = self.world.next(deadline_ns) {
            if id != main.id {
                self.world.poll_task(id);
                continue;
            }
            let waker = main.start_poll();
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
        }
        None
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this simulation ran under seed {} until {} ns", self.seed(), self.now().0);
            self.world.forget();
        } else {
            self.world.crash(); // tasks hold the world and the world holds tasks
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::cell::{Cell, RefCell};

    /// Ten tasks that sleep and draw numbers; returns the order in which they end.
    fn run(seed: u64) -> (Vec<u64>, u64) {
        let executor = Executor::new(seed);
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..10 {
            let (runtime, order) = (executor.runtime(), order.clone());
            let task = async move {
                let draw = runtime.random.next_u64() % 3;
                runtime.clock.sleep(Duration::from_micros(draw)).await;
                order.borrow_mut().push(number);
            };
            executor.runtime().tasks.spawn(task.boxed_local());
        }
        executor.run_for(Duration::from_millis(1));
        (order.take(), executor.digest())
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_seed_another() {
        let digests: Vec<u64> = (0..100)
            .map(|seed| {
                assert_eq!(run(seed), run(seed), "seed {seed}");
                run(seed).1
            })
            .collect();
        let mut distinct = digests.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), digests.len());
        assert_ne!(run(1).0, run(2).0);
    }

    #[test]
    fn tasks_that_are_ready_run_in_any_order() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let executor = Executor::new(seed);
            let order = Rc::new(RefCell::new(Vec::new()));
            for number in 0..3 {
                let order = order.clone();
                let task = async move { order.borrow_mut().push(number) };
                executor.runtime().tasks.spawn(task.boxed_local());
            }
            while executor.step() {}
            orders.insert(order.take());
        }
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn tasks_run_in_the_order_in_which_they_were_woken_where_that_is_asked_for() {
        for seed in 0..20 {
            let executor = Executor::in_order(seed);
            let order = Rc::new(RefCell::new(Vec::new()));
            for number in 0..3 {
                let order = order.clone();
                let task = async move {
                    order.borrow_mut().push(number);
                    runtime::sync::yield_now().await;
                    order.borrow_mut().push(number);
                };
                executor.runtime().tasks.spawn(task.boxed_local());
            }
            while executor.step() {}
            assert_eq!(order.take(), [0, 1, 2, 0, 1, 2]);
        }
    }

    #[test]
    fn time_passes_only_by_waiting_and_to_the_nanosecond() {
        let executor = Executor::new(0);
        let clock = executor.runtime().clock;
        let start = clock.wall();
        executor.block_on(async {
            clock.sleep(Duration::from_nanos(1)).await;
            assert_eq!(clock.now(), Instant(1));
            let far = clock.sleep(Duration::from_secs(3600));
            clock.sleep(Duration::from_secs(2)).await;
            drop(far);
        });
        assert_eq!(executor.now(), Instant(2_000_000_001));
        assert_eq!(clock.wall().seconds - start.seconds, 2);
        executor.run_for(Duration::from_nanos(9));
        assert_eq!(executor.now(), Instant(2_000_000_010));
    }

    #[test]
    fn a_timer_that_nobody_waits_for_does_not_move_the_clock() {
        let executor = Executor::new(0);
        drop(executor.runtime().clock.sleep(Duration::from_secs(1)));
        assert!(!executor.step());
        assert_eq!(executor.now(), Instant(0));
    }

    #[test]
    #[should_panic(expected = "deadlock under seed 77 at 0 ns")]
    fn a_deadlock_is_a_panic_that_names_the_seed() {
        Executor::new(77).block_on(std::future::pending::<()>());
    }

    #[test]
    fn a_crash_drops_every_task_and_runs_none_again() {
        struct Tells(Rc<Cell<bool>>, Runtime);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.set(true);
                self.1.tasks.spawn(async { panic!("there is no power") }.boxed_local());
            }
        }
        let executor = Executor::new(0);
        let dropped = Rc::new(Cell::new(false));
        let tells = Tells(dropped.clone(), executor.runtime());
        let clock = executor.runtime().clock;
        let task = async move {
            clock.sleep(Duration::from_secs(1)).await;
            unreachable!("the crash comes first {}", tells.0.get());
        };
        executor.runtime().tasks.spawn(task.boxed_local());
        executor.run_for(Duration::from_millis(1));
        executor.crash();
        assert!(dropped.get());
        assert!(!executor.step());
    }

    #[test]
    fn a_limit_ends_a_run_that_would_go_on() {
        let executor = Executor::new(0);
        let clock = executor.runtime().clock;
        let limit = Duration::from_micros(10);
        assert_eq!(executor.block_on_for(limit, clock.sleep(Duration::from_micros(11))), None);
        assert_eq!(executor.now(), Instant(10_000));
        assert_eq!(executor.block_on_for(limit, clock.sleep(Duration::from_micros(9))), Some(()));
        assert_eq!(executor.now(), Instant(19_000));
    }
}
