//! A clock that wakes sleepers within some tens of microseconds.
//!
//! Timers of the reactor have millisecond resolution. A load of ten thousand calls a second that is
//! driven by them would come in bursts of ten; so a separate thread waits for the earliest time and
//! wakes the sleepers that are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::{Clock, Instant, Timestamp};

/// A clock with the time of another one, and its own wake-ups. Its thread ends with it.
pub struct FineClock {
    clock: Rc<dyn Clock>,
    agenda: Arc<Agenda>,
}

#[derive(Default)]
struct Agenda {
    entries: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Default)]
struct Entries {
    due: BinaryHeap<Reverse<Entry>>,
    next: u64,
    is_over: bool,
}

/// A sleeper and its wake-up time. Entries for the same time are in order of creation.
struct Entry {
    when: std::time::Instant,
    number: u64,
    sleeper: Arc<Mutex<Sleeper>>,
}

#[derive(Default)]
struct Sleeper {
    is_due: bool,
    waker: Option<Waker>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.when, self.number) == (other.when, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.when, self.number).cmp(&(other.when, other.number))
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread that wakes waits for real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Ignores poisoning: nothing here is ever half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FineClock {
    /// A clock with the time of `clock`, and a thread for wake-ups.
    pub fn over(clock: Rc<dyn Clock>) -> Self {
        let agenda = Arc::new(Agenda::default());
        let waking = agenda.clone();
        std::thread::spawn(move || waking.keep());
        Self { clock, agenda }
    }
}

impl Drop for FineClock {
    fn drop(&mut self) {
        locked(&self.agenda.entries).is_over = true;
        self.agenda.changed.notify_one();
    }
}

impl Agenda {
    /// Wakes the sleepers that are due, until the clock is dropped.
    fn keep(&self) {
        let mut entries = locked(&self.entries);
        while !entries.is_over {
            let now = now();
            let wait = entries.due.peek().map(|Reverse(first)| first.when.duration_since(now));
            entries = match wait {
                Some(Duration::ZERO) => {
                    if let Some(Reverse(entry)) = entries.due.pop() {
                        let mut sleeper = locked(&entry.sleeper);
                        sleeper.is_due = true;
                        if let Some(waker) = sleeper.waker.take() {
                            waker.wake();
                        }
                    }
                    entries
                }
                Some(wait) => {
                    let waited = self.changed.wait_timeout(entries, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn enter(&self, when: std::time::Instant, sleeper: Arc<Mutex<Sleeper>>) {
        let mut entries = locked(&self.entries);
        let number = entries.next;
        entries.next += 1;
        let is_first = entries.due.peek().is_none_or(|Reverse(first)| when < first.when);
        entries.due.push(Reverse(Entry { when, number, sleeper }));
        drop(entries);
        if is_first {
            self.changed.notify_one();
        }
    }
}

struct Sleep(Arc<Mutex<Sleeper>>);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut sleeper = locked(&self.0);
        if sleeper.is_due {
            return Poll::Ready(());
        }
        sleeper.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Clock for FineClock {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        let sleeper = Arc::new(Mutex::new(Sleeper::default()));
        // A time that overflows never comes.
        if let Some(when) = now().checked_add(duration) {
            self.agenda.enter(when, sleeper.clone());
        }
        Sleep(sleeper).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time without timers.
    struct Told(std::time::Instant);

    impl Clock for Told {
        fn now(&self) -> Instant {
            Instant(now().duration_since(self.0).as_nanos() as u64)
        }

        fn wall(&self) -> Timestamp {
            Timestamp { seconds: 0, nanoseconds: 0 }
        }

        fn sleep(&self, _: Duration) -> LocalBoxFuture<'static, ()> {
            unreachable!("nobody sleeps by it")
        }
    }

    #[test]
    fn nobody_wakes_early_nor_waits_for_who_sleeps_longer() {
        let clock = FineClock::over(Rc::new(Told(now())));
        let for_long = clock.sleep(Duration::from_secs(3600));
        let sleep = |ms: u64| {
            let clock = &clock;
            async move {
                let start = clock.now();
                clock.sleep(Duration::from_millis(ms)).await;
                assert!(clock.now().since(start) >= Duration::from_millis(ms));
            }
        };
        let short = futures::future::join_all([30, 10, 20, 0].map(sleep)).boxed_local();
        let first = futures::executor::block_on(futures::future::select(for_long, short));
        assert!(matches!(first, futures::future::Either::Right(_)));
    }
}
