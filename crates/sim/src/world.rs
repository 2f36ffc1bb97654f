//! The state that tasks and disks share: the clock, the future events, the ready tasks, the random
//! source.
//!
//! Invariants:
//! 1. The seed decides everything here. The random streams of the scheduler, of the engines and of
//!    the devices are separate, so that one more number drawn by an engine does not reshuffle the
//!    disks.
//! 2. The clock moves only when no task is ready and no event is due, and never back.
//! 3. No borrow is held while foreign code runs: a task, an event or a destructor may call
//!    anything here.
//! 4. A crash ends an epoch. Tasks and devices of an earlier epoch have no power: they change
//!    nothing.
//! 5. Tasks and devices of a machine have the machine's [`Power`], and change nothing without it.
//!
//! Not asserted: 1, which tests show that run a seed again.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::{Clock, Instant, Random, Spawn, Timestamp};

use crate::{Digest, Prng};

/// The calendar time at the start: 2026-01-01T00:00:00Z.
const CALENDAR_START_SECONDS: i64 = 1_767_225_600;

/// This many polls without the clock moving are a loop and not work.
const POLLS_PER_INSTANT_MAX: u64 = 10_000_000;

pub(crate) struct World {
    pub(crate) seed: u64,
    now: Cell<u64>,
    epoch: Cell<u64>,
    serial: Cell<u64>,
    polls_in_this_instant: Cell<u64>,
    scheduling: RefCell<Prng>,
    engines: RefCell<Prng>,
    devices: RefCell<Prng>,
    digest: RefCell<Digest>,
    events: RefCell<BinaryHeap<Reverse<Scheduled>>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    next_task: Cell<u64>,
    ready: Arc<Mutex<Vec<u64>>>,
    /// Whether ready tasks run in the order of their wakeups instead of a random one.
    in_order: Cell<bool>,
    /// Set while a crash drops everything.
    off: Cell<bool>,
}

/// The power of tasks and devices: that of the whole world, or of one machine in it. Once cut it
/// never comes back; a machine that starts again gets another one.
#[derive(Clone)]
pub(crate) struct Power {
    epoch: u64,
    supply: Rc<Cell<Supply>>,
    /// The time of the cut.
    cut_at: Rc<Cell<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Supply {
    On,
    /// The process was killed; its kernel's work for it goes on.
    Kernel,
    Off,
}

struct Task {
    future: LocalBoxFuture<'static, ()>,
    waker: Arc<TaskWaker>,
    power: Power,
}

/// A scheduled event. Events of the same time run in random order.
struct Scheduled {
    at: u64,
    tie: u64,
    serial: u64,
    event: Event,
}

enum Event {
    /// A timer; one without a waiter does not move the clock.
    Timer(Weak<Timer>),
    /// Work of a device, which only a crash can cancel.
    Call(Box<dyn FnOnce()>),
}

impl World {
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let mut root = Prng::new(seed);
        Rc::new(Self {
            seed,
            now: Cell::new(0),
            epoch: Cell::new(0),
            serial: Cell::new(0),
            polls_in_this_instant: Cell::new(0),
            scheduling: RefCell::new(root.fork()),
            engines: RefCell::new(root.fork()),
            devices: RefCell::new(root.fork()),
            digest: RefCell::new(Digest::new(seed)),
            events: RefCell::default(),
            tasks: RefCell::default(),
            next_task: Cell::new(0),
            ready: Arc::default(),
            in_order: Cell::new(false),
            off: Cell::new(false),
        })
    }

    /// Runs ready tasks in the order of their wakeups from now on.
    pub(crate) fn run_in_order(&self) {
        self.in_order.set(true);
    }

    /// A new power, on from now.
    pub(crate) fn new_power(&self) -> Power {
        let (supply, cut_at) = (Rc::new(Cell::new(Supply::On)), Rc::new(Cell::new(u64::MAX)));
        Power { epoch: self.epoch.get(), supply, cut_at }
    }

    /// Whether tasks and devices with this power run.
    pub(crate) fn has_power(&self, power: &Power) -> bool {
        self.is_current(power) && power.supply.get() == Supply::On // invariant 5
    }

    /// Whether the kernel of the machine with this power runs, which may have lost its process.
    pub(crate) fn has_kernel(&self, power: &Power) -> bool {
        self.is_current(power) && power.supply.get() != Supply::Off
    }

    /// Whether the power was on at that time.
    pub(crate) fn had_power(&self, power: &Power, at: u64) -> bool {
        at <= power.cut_at.get()
    }

    fn is_current(&self, power: &Power) -> bool {
        !self.off.get() && power.epoch == self.epoch.get() // invariant 4
    }

    /// Cuts the power: no task with it will ever run again. A kernel may be left, which notifies
    /// the peers of dropped connections, and finishes the calls that disks have begun.
    pub(crate) fn cut(&self, power: &Power, leaves_kernel: bool) {
        power.supply.set(if leaves_kernel { Supply::Kernel } else { Supply::Off });
        power.cut_at.set(self.now.get());
        let is_cut = |task: &Task| Rc::ptr_eq(&task.power.supply, &power.supply);
        let (cut, kept) = self.tasks.take().into_iter().partition(|(_, task)| is_cut(task));
        self.tasks.replace(kept);
        drop::<BTreeMap<u64, Task>>(cut); // invariant 3: dropped without a borrow
        self.record(|digest| digest.add(u64::MAX - 1));
    }

    pub(crate) fn fork_for_device(&self) -> Prng {
        self.devices.borrow_mut().fork()
    }

    /// Adds to the digest of the run.
    pub(crate) fn record(&self, action: impl FnOnce(&mut Digest)) {
        action(&mut self.digest.borrow_mut());
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.borrow().value()
    }

    /// A number larger than all before.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.set(self.serial.get() + 1);
        self.serial.get()
    }

    /// Runs `call` after `delay_ns`.
    pub(crate) fn after(&self, delay_ns: u64, call: impl FnOnce() + 'static) {
        self.schedule(delay_ns, Event::Call(Box::new(call)));
    }

    fn schedule(&self, delay_ns: u64, event: Event) {
        if self.off.get() {
            return;
        }
        let at = self.now.get().saturating_add(delay_ns);
        let tie = self.scheduling.borrow_mut().next_u64();
        let serial = self.next_serial();
        self.events.borrow_mut().push(Reverse(Scheduled { at, tie, serial, event }));
    }

    /// Registers a caller outside as a task, ready at once, to be polled when [`World::next`] names
    /// it.
    pub(crate) fn enter(&self) -> Arc<TaskWaker> {
        let waker = self.new_waker();
        waker.wake_by_ref();
        waker
    }

    fn new_waker(&self) -> Arc<TaskWaker> {
        let id = self.next_task.get();
        self.next_task.set(id + 1);
        Arc::new(TaskWaker { id, queued: AtomicBool::new(false), ready: self.ready.clone() })
    }

    /// The number of the task to poll next, after moving the clock if need be. `None` if no task
    /// and no event is left, or none before `deadline_ns`.
    pub(crate) fn next(&self, deadline_ns: u64) -> Option<u64> {
        loop {
            while let Some(event) = self.due(self.now.get()) {
                event.happen();
            }
            if let Some(id) = self.pick() {
                self.count_poll();
                self.record(|digest| digest.add(id));
                return Some(id);
            }
            let at = self.next_event_at().filter(|&at| at <= deadline_ns)?;
            assert!(at >= self.now.get(), "invariant 2");
            self.move_clock(at);
        }
    }

    pub(crate) fn move_clock(&self, at: u64) {
        self.now.set(at);
        self.polls_in_this_instant.set(0);
        self.record(|digest| digest.add(at));
    }

    fn count_poll(&self) {
        let polls = self.polls_in_this_instant.get() + 1;
        self.polls_in_this_instant.set(polls);
        assert!(
            polls <= POLLS_PER_INSTANT_MAX,
            "livelock under seed {}: tasks wake each other and the clock stands at {} ns",
            self.seed,
            self.now.get(),
        );
    }

    /// Takes one of the ready tasks: the first, or a random one.
    fn pick(&self) -> Option<u64> {
        let mut ready = self.ready.lock().expect("nothing panics while it holds this");
        if ready.is_empty() {
            return None;
        }
        if self.in_order.get() {
            return Some(ready.remove(0));
        }
        let index = self.scheduling.borrow_mut().index(ready.len());
        Some(ready.swap_remove(index))
    }

    fn due(&self, now: u64) -> Option<Event> {
        let mut events = self.events.borrow_mut();
        events.peek().filter(|Reverse(first)| first.at <= now)?;
        events.pop().map(|Reverse(first)| first.event)
    }

    fn next_event_at(&self) -> Option<u64> {
        let mut events = self.events.borrow_mut();
        while let Some(Reverse(first)) = events.peek() {
            if !first.event.is_abandoned() {
                return Some(first.at);
            }
            events.pop();
        }
        None
    }

    /// Polls a spawned task. It may have ended since it was woken.
    pub(crate) fn poll_task(&self, id: u64) {
        let Some(mut task) = self.tasks.borrow_mut().remove(&id) else { return };
        assert!(self.is_current(&task.power), "invariant 4: a crash has ended the task");
        assert!(self.has_power(&task.power), "invariant 5: no task runs without power");
        debug_assert!(
            self.tasks.try_borrow_mut().is_ok() && self.events.try_borrow_mut().is_ok(),
            "invariant 3: a task may call anything here"
        );
        let waker = task.waker.start_poll();
        let pending = task.future.poll_unpin(&mut Context::from_waker(&waker)).is_pending();
        if pending && self.has_power(&task.power) {
            self.tasks.borrow_mut().insert(id, task);
        }
    }

    pub(crate) fn tasks_waiting(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// A power cut: no task and no event of this epoch will ever run again.
    pub(crate) fn crash(&self) {
        self.off.set(true);
        drop(self.tasks.take()); // invariant 3: taken first, dropped without a borrow
        drop(self.events.take());
        self.ready.lock().expect("nothing panics while it holds this").clear();
        self.epoch.set(self.epoch.get() + 1);
        self.off.set(false);
        self.record(|digest| digest.add(u64::MAX));
    }

    /// Forgets everything without running any destructor: for the way out of a panic, where a
    /// second one would hide the first.
    pub(crate) fn forget(&self) {
        std::mem::forget(self.tasks.take());
        std::mem::forget(self.events.take());
    }
}

impl Event {
    fn is_abandoned(&self) -> bool {
        matches!(self, Event::Timer(timer) if timer.strong_count() == 0)
    }

    fn happen(self) {
        match self {
            Event::Timer(timer) => {
                if let Some(timer) = timer.upgrade() {
                    timer.fire();
                }
            }
            Event::Call(call) => call(),
        }
    }
}

impl Clock for World {
    fn now(&self) -> Instant {
        Instant(self.now.get())
    }

    fn wall(&self) -> Timestamp {
        let now = self.now.get();
        let seconds = CALENDAR_START_SECONDS.saturating_add_unsigned(now / 1_000_000_000);
        Timestamp { seconds, nanoseconds: (now % 1_000_000_000) as u32 }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        let timer = Rc::new(Timer::default());
        let delay_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.schedule(delay_ns, Event::Timer(Rc::downgrade(&timer)));
        Sleep(timer).boxed_local()
    }
}

impl Random for World {
    fn next_u64(&self) -> u64 {
        let value = self.engines.borrow_mut().next_u64();
        self.record(|digest| digest.add(value));
        value
    }
}

impl World {
    pub(crate) fn spawn_with(&self, power: Power, future: LocalBoxFuture<'static, ()>) {
        if !self.has_power(&power) {
            return; // a destructor during a crash: nothing is left to run it
        }
        let waker = self.new_waker();
        self.tasks.borrow_mut().insert(waker.id, Task { future, waker: waker.clone(), power });
        waker.wake();
    }
}

impl Spawn for World {
    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.spawn_with(self.new_power(), task);
    }
}

/// Makes a task ready, once until it is polled.
pub(crate) struct TaskWaker {
    pub(crate) id: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl TaskWaker {
    /// The task can be woken again from here on.
    pub(crate) fn start_poll(self: &Arc<Self>) -> Waker {
        self.queued.store(false, Memory::Relaxed);
        self.clone().into()
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Memory::Relaxed) {
            self.ready.lock().expect("nothing panics while it holds this").push(self.id);
        }
    }
}

#[derive(Default)]
struct Timer {
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Timer {
    fn fire(&self) {
        self.fired.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct Sleep(Rc<Timer>);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.fired.get() {
            return Poll::Ready(());
        }
        *self.0.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Scheduled {
    fn key(&self) -> (u64, u64, u64) {
        (self.at, self.tie, self.serial)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
