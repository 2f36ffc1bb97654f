//! The services that an engine needs from its environment: time, chance, and tasks of its own.
//!
//! Engines, `namespace` and `dispatch` are plain `async fn` on one thread. They never read a
//! clock, draw a random number or start a task by themselves; all three are handed in as a
//! [`Runtime`]. In production the `server` crate builds one from tokio and the operating system,
//! under test the `sim` crate builds one from a seed. The same code runs in both, and under the
//! simulator the same seed gives the same run to the last event.
//!
//! The synchronisation primitives in [`sync`] and [`pool`] are single-threaded and first come,
//! first served, because fairness that looks at a clock would not be deterministic.
//!
//! Architecture invariant: nothing here knows about disks, files or sockets.

pub mod pool;
pub mod sync;

use std::rc::Rc;
use std::time::Duration;

use futures::future::LocalBoxFuture;

/// Nanoseconds since an arbitrary start; never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `time` later.
    pub fn after(self, time: Duration) -> Instant {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanoseconds))
    }
}

/// A calendar time: seconds since 1970 (negative before) and nanoseconds below 10^9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The time from `earlier` to `self`; zero if `earlier` is later, as clocks may be set back.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanoseconds =
            |of: Timestamp| i128::from(of.seconds) * 1_000_000_000 + i128::from(of.nanoseconds);
        let passed = (nanoseconds(self) - nanoseconds(earlier)).max(0);
        Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// The clock, and waiting for it.
pub trait Clock {
    /// The monotonic time.
    fn now(&self) -> Instant;
    /// The calendar time.
    fn wall(&self) -> Timestamp;
    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()>;
}

/// Random bits. Unpredictable in production, seeded under the simulator.
pub trait Random {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Starts tasks on the thread that calls it.
pub trait Spawn {
    /// Runs `task` until it ends, detached: nothing can cancel it but the end of the reactor.
    fn spawn(&self, task: LocalBoxFuture<'static, ()>);
}

/// All effects other than devices, in one handle.
#[derive(Clone)]
pub struct Runtime {
    /// Time.
    pub clock: Rc<dyn Clock>,
    /// Chance.
    pub random: Rc<dyn Random>,
    /// Tasks.
    pub tasks: Rc<dyn Spawn>,
}
