//! Timeouts for peers that owe us something, by a clock that is handed in.
//!
//! A peer owes us the rest of a call that it has begun, or to take its replies. Either may hold
//! memory that all connections share, and then others wait. Replies that are not taken hold two
//! kinds of it: their own, and that of the calls behind them, which wait for the memory of their
//! connection. There are two rules:
//!
//! 1. A peer that moves nothing for [`PATIENCE`] is given up.
//! 2. While a request waits for the memory that the obligation holds, and has waited for a whole
//!    beat, a peer that moves less than [`LEAST`] in a beat is given up. So is a peer that was
//!    asked to leave its place before the beat: a client waits for the place.
//!
//! Rule 1 alone would let a peer hold memory for ever with one byte a minute, and a few dozen of
//! them hold all of it. Rule 2 costs no peer anything while there is memory: a slow line is no
//! crime. A full house alone does not trigger it either: calls that are answered free their memory,
//! the line moves on, and no request stays in it for a beat.
//!
//! A client that was given up reconnects, repeats its calls, and waits in line like all others.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Clock;
use runtime::pool::Line;

use crate::planted::{Bug, is_planted};

/// Time for which a peer may owe us something without progress.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The fewest bytes per beat from a peer for whose memory others wait.
pub const LEAST: u64 = 64 << 10;

/// The obligation of a peer.
pub(crate) struct Obligation {
    /// Bytes that it has moved for this kind of obligation since the connection began.
    pub(crate) moved: u64,
    /// Other requests that may wait for the memory that it holds, one line for each kind of memory.
    pub(crate) lines: [Option<Line>; 2],
    /// Whether a client waits for the place of the peer.
    pub(crate) is_place_wanted: bool,
}

impl Obligation {
    fn marks(&self) -> [u64; 2] {
        self.lines.each_ref().map(|line| line.as_ref().map_or(0, Line::mark))
    }

    fn keeps_waiting_since(&self, marks: [u64; 2]) -> bool {
        let mut lines = self.lines.iter().zip(marks);
        lines.any(|(line, mark)| line.as_ref().is_some_and(|line| line.keeps_waiting_since(mark)))
    }
}

/// The reasons for which a peer is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GivenUp {
    /// Rule 1.
    #[error("the peer did nothing for {} s while it was waited for", PATIENCE.as_secs())]
    Idle,
    /// Rule 2.
    #[error("the peer was slow while others waited for the memory or the place that it held")]
    Slow,
}

/// The patience with one kind of obligation of one peer.
pub(crate) struct Patience {
    clock: Rc<dyn Clock>,
    beat: Duration,
    watch: Option<Watch>,
}

/// The state at the start of a beat.
struct Watch {
    /// Bytes that had been moved by then,
    moved: u64,
    /// the marks of the lines then,
    marks: [u64; 2],
    /// whether a client waited for the place of the peer,
    was_place_wanted: bool,
    /// and the time for which nothing had been moved.
    idle: Duration,
    end: LocalBoxFuture<'static, ()>,
}

impl Patience {
    /// Patience that checks an obligation once per beat.
    pub(crate) fn new(clock: Rc<dyn Clock>, beat: Duration) -> Self {
        Self { clock, beat, watch: None }
    }

    /// Checks the current obligation, and arranges that the task is woken for the next check.
    ///
    /// # Errors
    /// [`GivenUp`], by the rules.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        obligation: Option<Obligation>,
    ) -> Result<(), GivenUp> {
        let Some(obligation) = obligation else {
            self.watch = None;
            return Ok(());
        };
        loop {
            let Some(watch) = &mut self.watch else {
                self.begin(&obligation, Duration::ZERO);
                continue;
            };
            let Poll::Ready(()) = watch.end.poll_unpin(context) else { return Ok(()) };
            let moved = obligation.moved - watch.moved;
            let idle = if moved == 0 { watch.idle + self.beat } else { Duration::ZERO };
            let late = if is_planted(Bug::LatePatience) { self.beat } else { Duration::ZERO };
            if idle >= PATIENCE + late {
                return Err(GivenUp::Idle);
            }
            let is_waited_for =
                watch.was_place_wanted || obligation.keeps_waiting_since(watch.marks);
            if is_waited_for && moved < LEAST {
                return Err(GivenUp::Slow);
            }
            self.begin(&obligation, idle);
        }
    }

    fn begin(&mut self, obligation: &Obligation, idle: Duration) {
        let (moved, marks) = (obligation.moved, obligation.marks());
        let (was_place_wanted, end) = (obligation.is_place_wanted, self.clock.sleep(self.beat));
        self.watch = Some(Watch { moved, marks, was_place_wanted, idle, end });
    }
}

#[cfg(test)]
mod tests;
