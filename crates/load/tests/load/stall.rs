//! A server that stalls for a second is charged with every call that should have been made in that
//! second, not with the one that it kept waiting.

use std::time::Duration;

use load::run::Measured;
use load::stage::Plan;
use load::workload::Workload;
use nfs::nfs3::Procedure;
use runtime::Instant;
use sim::Executor;

use crate::double::{Double, Lie, one_by_one};

/// Runs for three seconds. A call takes this long, and after the first second nothing is answered
/// for a while.
fn measure(plan: Plan, takes: Duration, answers_again_after: Duration) -> Measured {
    let executor = Executor::new(1);
    let stalls = Instant(0).after(Duration::from_secs(1));
    let again = stalls.after(answers_again_after);
    let double = Double::new(&executor, move |procedure, now| {
        let is_stalled = now >= stalls && now < again;
        let answered = if is_stalled { again } else { now.after(takes) };
        (procedure == Procedure::Null).then_some(Lie::Late(answered))
    });
    executor.block_on(async {
        let stage = double.stage(plan).await.expect("it answers");
        let null = Workload::named("null").expect("it is in the table");
        let mut played = null.play(&stage).await.expect("there is nothing to prepare");
        stage.strike().await.expect("there is nothing left");
        played.phases.remove(0)
    })
}

/// Whether a latency is right within the three digits of the histogram.
fn is_close(latency: Duration, ms: u64) -> bool {
    latency.abs_diff(Duration::from_millis(ms)) <= Duration::from_millis(ms) / 1000
}

#[test]
fn calls_that_a_stall_keeps_from_being_made_on_time_are_in_the_figures() {
    let plan = Plan { rate: Some(100.0), ..one_by_one(Duration::from_secs(3)) };
    let measured = measure(plan, Duration::ZERO, Duration::from_secs(1));
    let series = measured.tally.headline();
    // Due every 10 ms. Those during the stall have waited 1000, 990, ... 10 ms; all others not at
    // all.
    assert_eq!((series.count(), measured.tally.failed(), measured.tally.unstarted), (300, 0, 0));
    let expected: u64 = (1..=100).map(|hundredth| hundredth * 10).sum();
    assert_eq!(series.mean(), Duration::from_nanos(expected * 1_000_000 / 300));
    for (share, ms) in [(201, 10), (250, 500), (297, 970), (299, 990), (300, 1000)] {
        let latency = series.quantile(f64::from(share) / 300.0 - 1e-9);
        assert!(is_close(latency, ms), "{share} of 300: {latency:?} for {ms} ms");
    }
    assert!(series.quantile(0.66) < Duration::from_micros(1));
}

#[test]
fn without_a_rate_the_same_stall_is_one_slow_call() {
    // The figures of a server that sets the pace: it hides its own stall. With a rate it must not,
    // whatever a call takes.
    let takes = Duration::from_millis(10);
    let second = Duration::from_secs(1);
    let measured = measure(one_by_one(3 * second), takes, second);
    let series = measured.tally.headline();
    assert_eq!(series.count(), 201, "100 before, 1 in the stall, 100 after");
    assert!(is_close(series.quantile(0.99), 10) && is_close(series.max(), 1000));
}

#[test]
fn steps_that_could_not_begin_before_the_end_are_counted_with_what_they_waited() {
    // The stall lasts beyond the end: of 300 steps 100 were answered, one was answered late, 199
    // never began and had waited 1990, 1980, ... 10 ms at the end.
    let plan = Plan { rate: Some(100.0), ..one_by_one(Duration::from_secs(3)) };
    let measured = measure(plan, Duration::ZERO, Duration::from_secs(5));
    let series = measured.tally.headline();
    assert_eq!((series.count(), measured.tally.unstarted), (300, 199));
    assert!(is_close(series.max(), 5000), "the one that came late: {:?}", series.max());
    let waited: u64 = (1..=199).map(|hundredth| hundredth * 10).sum::<u64>() + 5000;
    assert_eq!(series.mean(), Duration::from_nanos(waited * 1_000_000 / 300));
    assert!((measured.rate() - 101.0 / 6.0).abs() < 1e-6, "{} answered a second", measured.rate());
}
