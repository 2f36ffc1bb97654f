//! The measured part of a workload: workers take turns until time or turns run out.
//!
//! Without a rate a worker takes the next turn when its last one is done: the server sets the pace.
//! With a rate every turn has a due time, whatever the server does; the latency of a late turn
//! counts from its due time, so that a stalled server is charged with all the calls that would have
//! been made meanwhile ("coordinated omission" is avoided). Turns that were due and never began are
//! counted with their waiting time at the end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use runtime::{Clock, Instant};

use crate::chance::Chance;
use crate::stage::{ProcessorTime, Stage, Trouble, Watch};
use crate::tally::Tally;
use crate::worker::{Step, Worker};

/// The interval for calling the watcher and checking connections.
const TICK: Duration = Duration::from_millis(200);

/// The time after which a connection with an unanswered call is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The random stream for due times.
const ARRIVALS: u64 = u64::MAX - 1;

/// The repeated step of a workload.
pub trait Play {
    /// One turn. The worker records its calls.
    ///
    /// # Errors
    /// [`Noted`](crate::worker::Noted), when a call failed.
    fn turn(&self, worker: &mut Worker, turn: u64) -> impl Future<Output = Step>;
}

/// The times of turns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Period in which turns begin.
    pub duration: Option<Duration>,
    /// Most turns.
    pub count: u64,
    /// Turns a second.
    pub rate: Option<f64>,
    /// Distribution of turns over time.
    pub arrivals: Arrivals,
    /// Pause of a worker after each turn, as in programs.
    pub pause: Duration,
}

/// Distribution of the due times of turns with a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At even intervals.
    Even,
    /// Independent random intervals (Poisson's law), like the calls of many clients. Otherwise
    /// several loads of one server would march in step.
    Chance,
}

impl Default for Pace {
    /// As fast as the server answers, for ever.
    fn default() -> Self {
        Self {
            duration: None,
            count: u64::MAX,
            rate: None,
            arrivals: Arrivals::Even,
            pause: Duration::ZERO,
        }
    }
}

/// The measurements of a phase.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the phase.
    pub name: String,
    /// From the first turn to the last answer.
    pub elapsed: Duration,
    /// All recorded calls.
    pub tally: Tally,
    /// Processor time of both sides during the phase.
    pub processor_time: ProcessorTime,
}

impl Measured {
    /// Steps per second: calls, if a step is one call.
    pub fn rate(&self) -> f64 {
        let steps = self.tally.headline().count() - self.tally.unstarted;
        steps as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The turns of a phase.
struct Turns {
    start: Instant,
    end: Option<Instant>,
    pace: Pace,
    /// The next turn, and its due time after the start, if there is a rate.
    next: Cell<u64>,
    due_ns: Cell<f64>,
    chance: RefCell<Chance>,
    watch: Rc<dyn Watch>,
}

impl Turns {
    /// The due time of the next turn.
    fn due(&self) -> Option<Instant> {
        self.pace.rate?;
        Some(self.start.after(Duration::from_nanos(self.due_ns.get() as u64)))
    }

    /// Advances to the turn after it.
    fn advance(&self) {
        self.next.set(self.next.get() + 1);
        self.due_ns.set(self.due_ns.get() + self.gap_ns());
    }

    /// The interval between two turns.
    fn gap_ns(&self) -> f64 {
        let Some(rate) = self.pace.rate else { return 0.0 };
        let share = match self.pace.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Chance => -(1.0 - self.chance.borrow_mut().unit()).ln(),
        };
        share * 1e9 / rate
    }

    fn ends_before(&self, instant: Instant) -> bool {
        self.end.is_some_and(|end| instant >= end)
    }

    /// Returns the next turn at its due time.
    async fn take(&self, clock: &dyn Clock) -> Option<(u64, Option<Instant>)> {
        let (turn, now) = (self.next.get(), clock.now());
        let due = self.due();
        let over = turn >= self.pace.count || self.watch.is_over();
        if over || self.ends_before(now) || due.is_some_and(|due| self.ends_before(due)) {
            return None;
        }
        self.advance();
        if let Some(wait) = due.map(|due| due.since(now)).filter(|wait| !wait.is_zero()) {
            clock.sleep(wait).await;
        }
        Some((turn, due))
    }

    /// Records the turns that were due before the end and did not begin.
    fn note_unstarted(&self, tally: &mut Tally) {
        let Some(end) = self.end.filter(|_| !self.watch.is_over()) else { return };
        let has_more = || self.next.get() < self.pace.count;
        while let Some(due) = self.due().filter(|&due| due < end && has_more()) {
            tally.step_unstarted(end.since(due));
            self.advance();
        }
    }
}

/// Measures a phase at the stage's own pace. The files it needs exist, and the watcher is asked
/// first.
///
/// # Errors
/// [`Trouble::Refused`], when the watcher refuses the measurement.
pub async fn measure(stage: &Stage, name: &str, play: &impl Play) -> Result<Measured, Trouble> {
    stage.watch.prepared(name).map_err(Trouble::Refused)?;
    let plan = &stage.plan;
    let pace =
        Pace { duration: plan.duration, count: plan.count, rate: plan.rate, ..Pace::default() };
    Ok(paced(stage, name, pace, play).await)
}

/// Measures a phase.
pub async fn paced(stage: &Stage, name: &str, pace: Pace, play: &impl Play) -> Measured {
    let (clock, tally) = (&*stage.runtime.clock, Rc::new(RefCell::new(Tally::default())));
    let start = clock.now();
    let end = pace.duration.map(|duration| start.after(duration));
    let chance = RefCell::new(Chance::new(stage.plan.seed, ARRIVALS));
    let (next, due_ns, watch) = (Cell::new(0), Cell::new(0.0), stage.watch.clone());
    let turns = Turns { start, end, pace, next, due_ns, chance, watch };
    if pace.arrivals == Arrivals::Chance {
        turns.due_ns.set(turns.gap_ns());
    }
    stage.watch.begin(name, pace.count);
    let before = stage.watch.processor_time();
    let workers = (0..stage.workers()).map(|index| {
        let connection = index % stage.plan.connections;
        let (client, seed) = (stage.client(connection).clone(), stage.plan.seed);
        let runtime = stage.runtime.clone();
        let worker = Worker::new((index, connection), client, runtime, tally.clone(), seed);
        work(clock, &turns, worker, play)
    });
    let all = std::pin::pin!(join_all(workers));
    let watching = std::pin::pin!(look_on(stage, &tally));
    let Either::Left((_, _)) = select(all, watching).await;
    let elapsed = clock.now().since(start);
    let processor_time = stage.watch.processor_time().since(before);
    turns.note_unstarted(&mut tally.borrow_mut());
    let tally = tally.take();
    Measured { name: name.to_owned(), elapsed, tally, processor_time }
}

async fn work(clock: &dyn Clock, turns: &Turns, mut worker: Worker, play: &impl Play) {
    while let Some((turn, due)) = turns.take(clock).await {
        worker.set_due(due);
        if let Err(noted) = play.turn(&mut worker, turn).await
            && noted.is_broken
        {
            return;
        }
        if !turns.pace.pause.is_zero() {
            clock.sleep(turns.pace.pause).await;
        }
    }
}

async fn look_on(stage: &Stage, tally: &RefCell<Tally>) -> std::convert::Infallible {
    loop {
        stage.runtime.clock.sleep(TICK).await;
        let (done, failed) = {
            let tally = tally.borrow();
            (tally.succeeded(), tally.failed())
        };
        stage.watch.progress(done, failed);
        stage.clients.iter().for_each(|client| client.connection().lose_patience(PATIENCE));
    }
}

/// Runs an operation `count` times, unmeasured, before or after a phase.
///
/// # Errors
/// [`Trouble::Setup`], when any of them fails.
pub async fn prepare(
    stage: &Stage,
    what: &str,
    count: u64,
    play: &impl Play,
) -> Result<(), Trouble> {
    let pace = Pace { count, ..Pace::default() };
    let done = paced(stage, what, pace, play).await;
    match done.tally.errors.into_iter().next() {
        None if stage.watch.is_over() => Err(Trouble::Interrupted),
        None => Ok(()),
        Some(((procedure, why), _)) => {
            Err(Trouble::Prepare { what: what.to_owned(), procedure, why })
        }
    }
}
