//! Rate after rate, until the server is saturated; and the position of the knee.

use std::time::Duration;

use super::fileset::FileSet;
use super::operation::Mix;
use super::rules::Rules;
use crate::run::{Arrivals, Measured, Pace, paced};
use crate::stage::{Stage, Trouble};

/// The ramp ends when the server answers less than this share of the requested rate,
const ENOUGH: f64 = 0.9;

/// or its mean response time is above this: SPEC takes no results beyond.
const TOO_SLOW: Duration = Duration::from_millis(50);

/// The factor between two rates, if the plan does not say where the ramp ends.
const GROWTH: f64 = 1.5;

/// Most rates.
const POINTS_MAX: usize = 40;

/// The share of each point's time before it is measured.
const WARM_UP: f64 = 0.2;

/// The result at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requested calls per second.
    pub asked: f64,
    /// Answered calls per second.
    pub achieved: f64,
    /// The mean response time.
    pub mean: Duration,
    /// The response time that 99 % of the calls did not exceed.
    pub p99: Duration,
    /// Calls that failed.
    pub errors: u64,
}

/// Response time against throughput.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The points by rising rate.
    pub points: Vec<Point>,
    /// The index of the point at the knee.
    pub knee: Option<usize>,
    /// The number of files.
    pub files: usize,
    /// The bytes of the files.
    pub bytes: u64,
    /// The bytes that the benchmark's rules ask for at the highest rate.
    pub bytes_wanted: u64,
}

pub(super) async fn climb(
    stage: &Stage,
    name: &str,
    rules: &'static Rules,
    files: &FileSet,
) -> Result<(Vec<Measured>, Curve), Trouble> {
    let mut curve = Curve { files: files.data.len(), bytes: files.bytes, ..Curve::default() };
    let mut phases = Vec::new();
    for rate in rates(stage) {
        let measured = point(stage, name, rules, files, rate).await;
        let series = measured.tally.headline();
        let seconds = measured.elapsed.as_secs_f64().max(1e-9);
        let point = Point {
            asked: rate,
            achieved: measured.tally.succeeded() as f64 / seconds,
            mean: series.mean(),
            p99: series.quantile(0.99),
            errors: measured.tally.failed(),
        };
        curve.points.push(point);
        curve.bytes_wanted = (rate * rules.bytes_per_rate as f64) as u64;
        phases.push(measured);
        let is_enough = point.achieved < ENOUGH * rate || point.mean > TOO_SLOW;
        if is_enough || stage.watch.is_over() {
            break;
        }
    }
    curve.knee = knee(&curve.points);
    Ok((phases, curve))
}

/// The rates to request, rising.
fn rates(stage: &Stage) -> Vec<f64> {
    let ramp = stage.plan.ramp;
    if let Some(rate) = stage.plan.rate {
        return vec![rate];
    }
    match ramp.last {
        None => (0..POINTS_MAX as i32).map(|step| ramp.first * GROWTH.powi(step)).collect(),
        Some(last) => {
            let points = ramp.points.clamp(1, POINTS_MAX);
            let step = (last - ramp.first) / (points.max(2) - 1) as f64;
            (0..points).map(|index| ramp.first + step * index as f64).collect()
        }
    }
}

async fn point(
    stage: &Stage,
    name: &str,
    rules: &'static Rules,
    files: &FileSet,
    rate: f64,
) -> Measured {
    let duration = stage.plan.duration.unwrap_or(Duration::from_secs(10));
    let name = format!("{name} {rate:.0}/s");
    let warming_up = format!("{name}, warming up");
    at_rate(stage, &warming_up, rules, files, (rate, duration.mul_f64(WARM_UP))).await;
    at_rate(stage, &name, rules, files, (rate, duration)).await
}

/// Runs the mix at this many calls per second, for this long.
pub async fn at_rate(
    stage: &Stage,
    name: &str,
    rules: &Rules,
    files: &FileSet,
    (rate, duration): (f64, Duration),
) -> Measured {
    let mix = Mix::new(rules, files, rate);
    let turns = Some(rate / rules.calls_per_turn());
    let duration = Some(duration);
    let pace = Pace { duration, rate: turns, arrivals: Arrivals::Chance, ..Pace::default() };
    paced(stage, name, pace, &mix).await
}

/// The point with the highest throughput divided by response time (Kleinrock's "power"): below it
/// more load gives mostly throughput, above it mostly waiting.
fn knee(points: &[Point]) -> Option<usize> {
    let power = |point: &Point| point.achieved / point.mean.as_secs_f64().max(1e-9);
    let mut best = None;
    for (index, point) in points.iter().enumerate() {
        if best.is_none_or(|(_, highest)| power(point) > highest) {
            best = Some((index, power(point)));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_a_queue_is_where_its_power_is_highest() {
        // A server of 1000 calls per second with random arrivals: 1 / (capacity - rate).
        let point = |rate: f64| Point {
            asked: rate,
            achieved: rate,
            mean: Duration::from_secs_f64(1.0 / (1000.0 - rate)),
            p99: Duration::ZERO,
            errors: 0,
        };
        let points: Vec<_> = (1..10).map(|tenth| point(f64::from(tenth) * 100.0)).collect();
        assert_eq!(knee(&points), Some(4), "half of what it can do");
        assert_eq!(knee(&[]), None);
    }
}
