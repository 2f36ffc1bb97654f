//! The outside world as a [`Runtime`]: tokio's clock and tasks, random numbers from the operating
//! system.
//!
//! One thread runs everything: sockets, engines, devices. A second reactor would serve other
//! volumes on a thread of its own; reactors share nothing.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use door::seldom;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;
use runtime::{Clock, Instant, Random, Runtime, Spawn, Timestamp};
use tokio::task::LocalSet;

thread_local! {
    /// Work that this thread's reactor does before it waits.
    static BEFORE_WAITING: RefCell<Vec<Box<dyn Fn()>>> = const { RefCell::new(Vec::new()) };
    /// Functions that count completed calls of this thread's disks.
    static DISK_CALLS: RefCell<Vec<Box<dyn Fn() -> u64>>> = const { RefCell::new(Vec::new()) };
    /// Bytes that went through sockets since that work was last done.
    static MOVED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes through sockets that take about 0.1 ms: no task should have to wait for more.
const STRETCH: usize = 256 << 10;

/// Runs `main` on this thread until it ends, with all tasks that it starts. Tasks that still run
/// then are dropped.
///
/// # Errors
/// The operating system's error, if it provides no event queue.
pub fn block_on<F: Future>(main: impl FnOnce(Runtime) -> F) -> std::io::Result<F::Output> {
    block_on_unless(main, |_| false)
}

/// As [`block_on`], for a process that ends at once behind an output of which `ends_at_once` is
/// true. The tasks that still run are not dropped then: the drop of the disks would wait for calls
/// that are under way, and a dead disk answers none.
///
/// # Errors
/// As [`block_on`].
pub fn block_on_unless<F: Future>(
    main: impl FnOnce(Runtime) -> F,
    ends_at_once: impl FnOnce(&F::Output) -> bool,
) -> std::io::Result<F::Output> {
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(before_waiting_now)
        .build()?;
    let main = async { main(production()).await };
    let tasks = LocalSet::new();
    let output = tasks.block_on(&reactor, seldom(main)); // else it is polled each round
    if ends_at_once(&output) {
        std::mem::forget((tasks, reactor));
        return Ok(output);
    }
    drop((tasks, reactor));
    BEFORE_WAITING.take();
    DISK_CALLS.take();
    Ok(output)
}

/// Registers a function that counts completed calls of this thread's disks.
pub(crate) fn count_disk_calls(count: impl Fn() -> u64 + 'static) {
    DISK_CALLS.with_borrow_mut(|all| all.push(Box::new(count)));
}

/// Calls that the disks of this thread have completed.
pub(crate) fn disk_calls() -> u64 {
    DISK_CALLS.with_borrow(|all| all.iter().map(|count| count()).sum())
}

/// Registers work to be done whenever this thread's reactor has run all ready tasks, and now and
/// then when it has much to move. The work must not call this function.
pub(crate) fn before_waiting(work: impl Fn() + 'static) {
    BEFORE_WAITING.with_borrow_mut(|all| all.push(Box::new(work)));
}

/// Counts bytes that went through a socket. With enough of them the reactor never waits, so the
/// work before a wait is done anyway.
pub(crate) fn moved(bytes: usize) {
    let moved = MOVED.get() + bytes;
    MOVED.set(moved);
    if moved >= STRETCH {
        before_waiting_now();
    }
}

fn before_waiting_now() {
    MOVED.set(0);
    BEFORE_WAITING.with_borrow(|all| all.iter().for_each(|work| work()));
}

/// Runs work that may wait for a disk on a thread of its own: a dying disk takes its time, and
/// meanwhile clients are served and signals are handled. If the caller stops waiting, the thread
/// continues on its own.
pub async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = oneshot::channel();
    thread::spawn(move || drop(answer.send(work()))); // the caller may be gone
    answered.await.expect("a thread that panics ends the process, or its caller")
}

/// The runtime of the reactor that polls the caller.
fn production() -> Runtime {
    Runtime {
        clock: Rc::new(SystemClock { start: monotonic() }),
        random: Rc::new(SystemRandom::default()),
        tasks: Rc::new(LocalTasks),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the monotonic time comes from")]
fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is where the calendar time comes from")]
fn calendar() -> SystemTime {
    SystemTime::now()
}

struct SystemClock {
    start: std::time::Instant,
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        let passed = monotonic().duration_since(self.start).as_nanos();
        Instant(u64::try_from(passed).expect("the server runs for less than 584 years"))
    }

    fn wall(&self) -> Timestamp {
        let now = calendar();
        let (seconds, nanoseconds) = match now.duration_since(UNIX_EPOCH) {
            Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
            Err(before) => {
                // Timestamps count nanoseconds upwards from the previous second.
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => (-before.as_secs().cast_signed(), 0),
                    part => (-before.as_secs().cast_signed() - 1, 1_000_000_000 - part),
                }
            }
        };
        Timestamp { seconds, nanoseconds }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed_local()
    }
}

/// Random bytes per system call: the kernel returns up to 256 without interruption.
const DRAW: usize = 256;

/// Random numbers from the operating system, drawn in advance: a block of new inodes takes a number
/// for each, and each would be a system call.
#[derive(Default)]
struct SystemRandom {
    drawn: RefCell<Vec<u64>>,
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let mut drawn = self.drawn.borrow_mut();
        loop {
            if let Some(number) = drawn.pop() {
                return number; // used only once
            }
            let mut bytes = [0; DRAW];
            let given = getrandom::fill(&mut bytes);
            given.expect("the operating system gives random numbers to every process");
            drawn.extend(bytes.as_chunks().0.iter().map(|&number| u64::from_ne_bytes(number)));
        }
    }
}

struct LocalTasks;

impl Spawn for LocalTasks {
    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        tokio::task::spawn_local(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    #[test]
    fn a_process_that_ends_at_once_waits_for_the_drop_of_no_task() {
        struct Disk(Rc<Cell<bool>>);
        impl Drop for Disk {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        for ends_at_once in [false, true] {
            let is_dropped = Rc::new(Cell::new(false));
            let disk = Disk(is_dropped.clone());
            let main = |runtime: Runtime| async move {
                let task = async move {
                    let _disk = disk;
                    std::future::pending::<()>().await;
                };
                runtime.tasks.spawn(task.boxed_local());
            };
            block_on_unless(main, |()| ends_at_once).expect("a reactor");
            assert_eq!(is_dropped.get(), !ends_at_once);
        }
    }

    #[test]
    fn the_clock_goes_on_while_a_task_sleeps() {
        let slept = block_on(|runtime| async move {
            let start = runtime.clock.now();
            runtime.clock.sleep(Duration::from_millis(2)).await;
            runtime.clock.now().since(start)
        });
        assert!(slept.expect("a reactor") >= Duration::from_millis(2));
    }

    #[test]
    fn what_may_wait_for_a_disk_holds_up_no_one() {
        let there = elsewhere(|| thread::current().id());
        assert_ne!(futures::executor::block_on(there), thread::current().id());
    }

    #[test]
    fn chance_does_not_repeat_itself() {
        let (one, other) = (SystemRandom::default(), SystemRandom::default());
        let numbers = [&one, &other].map(|random| (0..100).map(|_| random.next_u64()));
        let different: BTreeSet<u64> = numbers.into_iter().flatten().collect();
        assert_eq!(different.len(), 200);
    }

    #[test]
    fn a_detached_task_runs_while_its_parent_waits() {
        let ran = block_on(|runtime| async move {
            let ran = Rc::new(Cell::new(false));
            let mark = ran.clone();
            runtime.tasks.spawn(async move { mark.set(true) }.boxed_local());
            runtime.clock.sleep(Duration::ZERO).await;
            tokio::task::yield_now().await;
            ran.get()
        });
        assert!(ran.expect("a reactor"));
    }
}
