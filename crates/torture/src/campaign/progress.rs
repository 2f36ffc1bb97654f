//! How far a campaign is: a line to standard error, each minute that it works.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long nothing is said.
const QUIET: Duration = Duration::from_mins(1);

/// How many workloads of all there are have been tried, by all threads together.
#[derive(Debug)]
pub(super) struct Progress {
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    done: usize,
    told: Instant,
}

impl Progress {
    /// Of a campaign that has `total` workloads to try.
    pub(super) fn of(total: usize) -> Self {
        Self { total, state: Mutex::new(State { done: 0, told: Instant::now() }) }
    }

    /// One more was tried.
    pub(super) fn one(&self) {
        let mut state = self.state.lock().expect("nobody panics here");
        state.done += 1;
        debug_assert!(state.done <= self.total, "{} of {}", state.done, self.total);
        if state.told.elapsed() >= QUIET {
            state.told = Instant::now();
            eprintln!("{} of {} workloads", state.done, self.total);
        }
    }
}
