//! Measurements: calls by procedure, steps of a workload, errors by their message.
//!
//! Latencies are kept in histograms of three significant digits, so that no sampling loses any.
//! Errors are counted separately and never dropped; the latency of a failed call is not mixed with
//! those of successful ones.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use nfs::nfs3::Procedure;

/// The longest latency that the histograms distinguish from longer ones.
const LONGEST: Duration = Duration::from_secs(3600);

/// The significant digits of a latency.
const DIGITS: u8 = 3;

/// The latencies of one kind of call or step.
#[derive(Clone, Debug)]
pub struct Series {
    latencies: Histogram<u64>,
    sum_ns: u128,
}

impl Default for Series {
    fn default() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        let latencies = Histogram::new_with_bounds(1, longest, DIGITS);
        Self { latencies: latencies.expect("the bounds are constants"), sum_ns: 0 }
    }
}

impl Series {
    /// Records one latency.
    pub fn record(&mut self, latency: Duration) {
        let ns = latency.as_nanos();
        self.latencies.saturating_record(u64::try_from(ns).unwrap_or(u64::MAX).max(1));
        self.sum_ns += ns;
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.latencies.len()
    }

    /// The latency that this share of them did not exceed; 0.99, for example.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_quantile(share))
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        let count = u128::from(self.count().max(1));
        Duration::from_nanos(u64::try_from(self.sum_ns / count).unwrap_or(u64::MAX))
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.latencies.max())
    }

    /// Adds another series.
    pub fn add(&mut self, other: &Series) {
        self.latencies.add(&other.latencies).expect("all have the same bounds");
        self.sum_ns += other.sum_ns;
    }
}

/// Everything recorded in one phase.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    calls: BTreeMap<&'static str, Series>,
    /// Steps, if a step of the workload is more than one call.
    pub steps: Option<Series>,
    /// Errors: the procedure, the message, and the count.
    pub errors: BTreeMap<(&'static str, String), u64>,
    /// Payload that was read and written, in bytes.
    pub bytes: u64,
    /// Steps that were due and did not begin before the end.
    pub unstarted: u64,
    /// The waiting time of each of them at the end.
    waited: Option<Series>,
}

impl Tally {
    /// Records a successful call.
    pub fn call(&mut self, procedure: Procedure, latency: Duration) {
        self.calls.entry(procedure.name()).or_default().record(latency);
    }

    /// Records a failed call.
    pub fn error(&mut self, procedure: &'static str, what: String) {
        self.errors_alike(procedure, what, 1);
    }

    /// Records several calls that failed in the same way.
    pub fn errors_alike(&mut self, procedure: &'static str, what: String, count: u64) {
        *self.errors.entry((procedure, what)).or_default() += count;
    }

    /// Records a step of several calls.
    pub fn step(&mut self, latency: Duration) {
        self.steps.get_or_insert_default().record(latency);
    }

    /// Records a step that was due, with its waiting time when it was too late to begin.
    pub fn step_unstarted(&mut self, waited: Duration) {
        self.unstarted += 1;
        self.waited.get_or_insert_default().record(waited);
    }

    /// The calls, by procedure.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, &Series)> {
        self.calls.iter().map(|(name, series)| (*name, series))
    }

    /// The number of calls of one procedure.
    pub fn of(&self, procedure: Procedure) -> u64 {
        self.calls.get(procedure.name()).map_or(0, Series::count)
    }

    /// The number of successful calls.
    pub fn succeeded(&self) -> u64 {
        self.calls.values().map(Series::count).sum()
    }

    /// The number of failed calls.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// All calls as one series.
    pub fn all_calls(&self) -> Series {
        self.calls.values().fold(Series::default(), |mut all, series| {
            all.add(series);
            all
        })
    }

    /// The main figures of the workload: its steps if they are more than one call, otherwise its
    /// calls; and steps that were due and did not begin, with their waiting time as the least
    /// latency.
    pub fn headline(&self) -> Series {
        let mut series = self.steps.clone().unwrap_or_else(|| self.all_calls());
        self.waited.iter().for_each(|waited| series.add(waited));
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_three_digits_and_means_exactly() {
        let mut series = Series::default();
        for us in 1..=1000 {
            series.record(Duration::from_micros(us));
        }
        assert_eq!(series.mean(), Duration::from_nanos(500_500));
        let close = |share, us: u64| {
            let ns = series.quantile(share).as_nanos() as u64;
            assert!(ns.abs_diff(us * 1000) <= us, "{share}: {ns} ns");
        };
        close(0.5, 500);
        close(0.99, 990);
        close(0.999, 999);
    }

    #[test]
    fn errors_are_kept_apart_by_what_they_said() {
        let mut tally = Tally::default();
        tally.call(Procedure::Create, Duration::from_millis(1));
        for what in ["NFS3ERR_NOSPC", "NFS3ERR_IO", "NFS3ERR_NOSPC"] {
            tally.error("CREATE", what.to_owned());
        }
        assert_eq!((tally.succeeded(), tally.failed()), (1, 3));
        assert_eq!(tally.errors[&("CREATE", "NFS3ERR_NOSPC".to_owned())], 2);
    }
}
