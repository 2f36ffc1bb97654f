//! How much of a campaign is played: everything, a sample, or what a number of seconds allows.
//!
//! A campaign is cut into *pieces*, numbered from 0: a workload, a world, a fault. Threads take the
//! next number from a common counter, each with a state of its own (prepared volumes, known
//! images), until no piece or no time is left. A thread finishes the piece that it began, so a
//! budget is overrun by one piece a thread at most; a piece that may take long checks the [`End`].
//!
//! The work of a piece follows from its number and from the seed alone, never from the time: two
//! machines differ in how many pieces fit, but not in what a piece finds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Options, Outcome};

/// Progress lines of a long campaign.
const LINES: u64 = 20;
/// Pieces from which on a campaign prints progress.
const LONG: u64 = 100;

/// Counter of the pieces handed out.
struct Counter {
    next: AtomicU64,
    count: u64,
    end: End,
    shows_progress: bool,
}

impl Counter {
    fn new(options: &Options, count: u64) -> Self {
        let shows_progress = options.seconds.is_none() && (LONG..u64::MAX).contains(&count);
        Self { next: AtomicU64::new(0), count, end: End::of(options), shows_progress }
    }

    fn take(&self) -> Option<u64> {
        if self.end.is_over() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.count {
            return None;
        }
        if self.shows_progress && number > 0 && number.is_multiple_of(self.count / LINES) {
            eprintln!("{number} of {} pieces", self.count);
        }
        Some(number)
    }
}

#[expect(clippy::disallowed_methods, reason = "a budget is about the time of whoever waits")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// End of the time that a campaign may spend. The default has none.
#[derive(Clone, Copy, Default)]
pub(super) struct End(Option<Instant>);

impl End {
    /// The end of a budget that starts now.
    pub(super) fn of(options: &Options) -> Self {
        Self(options.seconds.map(|seconds| now() + Duration::from_secs(seconds)))
    }

    pub(super) fn is_over(self) -> bool {
        self.0.is_some_and(|end| now() >= end)
    }
}

/// Plays pieces until `count` of them are done or the time is spent, and adds up their outcomes.
/// Each thread has a state of its own. With one thread everything runs in the caller's, so that a
/// bug planted there is in force.
pub(super) fn spend<S>(
    options: &Options,
    count: u64,
    state: impl Fn() -> S + Sync,
    piece: impl Fn(&mut S, u64) -> Outcome + Sync,
) -> Outcome {
    let counter = Counter::new(options, count);
    let work = || {
        let mut state = state();
        let mut outcome = Outcome::default();
        while let Some(number) = counter.take() {
            outcome = outcome.plus(piece(&mut state, number));
            if options.stops_at_first && !outcome.violations.is_empty() {
                break;
            }
        }
        outcome
    };
    if options.threads <= 1 {
        return work();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        let outcomes = workers.into_iter().map(|worker| worker.join().expect("it does not panic"));
        outcomes.fold(Outcome::default(), Outcome::plus)
    })
}

/// Plays pieces of a list in an order that the seed gives: a time budget takes a fresh sample each
/// time. A whole list is played from its beginning.
pub(super) fn spend_on_list<T: Sync, S>(
    options: &Options,
    list: &[T],
    state: impl Fn() -> S + Sync,
    piece: impl Fn(&mut S, &T) -> Outcome + Sync,
) -> Outcome {
    let mut order: Vec<usize> = (0..list.len()).collect();
    if options.seconds.is_some() {
        shuffle(&mut order, options.seed);
    }
    spend(options, list.len() as u64, state, |state, number| {
        piece(state, &list[order[number as usize]])
    })
}

fn shuffle(order: &mut [usize], seed: u64) {
    let mut prng = sim::Prng::new(seed);
    for place in (1..order.len()).rev() {
        order.swap(place, prng.index(place + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;
    use crate::explore::Counts;
    use crate::explore::design::Design;

    fn numbers(options: &Options, count: u64) -> Vec<u64> {
        let seen = Mutex::new(Vec::new());
        let outcome = spend(
            options,
            count,
            || (),
            |(), number| {
                seen.lock().expect("nothing panics").push(number);
                let counts = Counts { workloads: 1, ..Counts::default() };
                Outcome { counts, ..Outcome::default() }
            },
        );
        let seen = seen.into_inner().expect("nothing panics");
        assert_eq!(outcome.counts.workloads, seen.len() as u64);
        seen
    }

    #[test]
    fn every_piece_is_played_once_by_however_many_threads() {
        for threads in [0, 1, 3] {
            let options = Options { threads, ..Options::short(Design::SYNC, 1) };
            let mut seen = numbers(&options, 250);
            seen.sort_unstable();
            assert_eq!(seen, (0..250).collect::<Vec<_>>(), "{threads} threads");
        }
    }

    #[test]
    fn a_budget_that_is_spent_plays_nothing_and_an_endless_list_ends_with_it() {
        let options = Options { seconds: Some(0), ..Options::short(Design::SYNC, 1) };
        assert_eq!(numbers(&options, 250), []);
        let options = Options { seconds: Some(1), ..options };
        assert!(!numbers(&options, u64::MAX).is_empty());
    }

    #[test]
    fn an_order_has_every_place_once_and_another_seed_another_order() {
        for count in [0, 1, 2, 3, 12, 61, 3721] {
            let listed: Vec<usize> = (0..count).collect();
            let orders = [1, 2].map(|seed| {
                let mut order = listed.clone();
                shuffle(&mut order, seed);
                order
            });
            for order in &orders {
                assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), count);
            }
            assert!(count < 12 || orders[0] != orders[1] && orders[0] != listed, "{count}");
        }
    }
}
