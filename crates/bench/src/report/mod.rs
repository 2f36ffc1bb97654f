//! The results as data: [`table`] renders them as text, [`plot`] as pictures, and serde as an
//! object for programs.

mod curve;
mod svg;
mod table;

use std::time::Duration;

use load::run::Measured;
use load::stage::Plan;
use load::tally::Series;
use serde::Serialize;

pub use curve::{Curve, Point};
pub use svg::{PlotError, plot};
pub use table::table;

/// Results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The measured export.
    pub target: String,
    /// Number of connections.
    pub connections: usize,
    /// Concurrent calls on each connection.
    pub depth: usize,
    /// Number of directories over which files were spread.
    pub directories: u64,
    /// Seconds for which each workload was measured.
    pub seconds: Option<f64>,
    /// Requested steps a second.
    pub rate_asked: Option<f64>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Results of the workloads, in the order in which they were played.
    pub workloads: Vec<Result>,
    /// Curves of the workloads that were played at rising rates.
    pub curves: Vec<Curve>,
    /// Errors outside of the measured calls: a workload that could not be prepared, a directory
    /// that could not be removed.
    pub troubles: Vec<String>,
}

/// Result of a workload, or of one of its phases.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    /// Name of the workload.
    pub name: String,
    /// Time from the first call to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Steps taken. A step may be a single call.
    pub steps: u64,
    /// Steps a second.
    pub rate_per_s: f64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Payload a second, in MiB.
    pub mib_per_s: f64,
    /// Latency of steps.
    pub latency: Latency,
    /// Calls and their latency, for each procedure.
    pub calls: Vec<Calls>,
    /// Failed calls.
    pub errors: Vec<Errors>,
    /// Steps that were due and never begun.
    pub unstarted: u64,
    /// Processor time of this program, in seconds.
    pub client_cpu_s: Option<f64>,
    /// Processor time of the server, in seconds, if it runs on this machine.
    pub server_cpu_s: Option<f64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Maximum.
    pub max_us: f64,
}

/// The calls of one procedure.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Name of the procedure.
    pub procedure: &'static str,
    /// Number of successful calls.
    pub count: u64,
    /// Latency of these calls.
    pub latency: Latency,
}

/// Calls that failed with the same error.
#[derive(Clone, Debug, Serialize)]
pub struct Errors {
    /// Name of the procedure.
    pub procedure: String,
    /// Error message.
    pub what: String,
    /// Number of such calls.
    pub count: u64,
}

impl Report {
    /// A report without results.
    pub(crate) fn new(target: String, plan: &Plan) -> Self {
        Self {
            target,
            connections: plan.connections,
            depth: plan.depth,
            directories: plan.directories,
            seconds: plan.duration.map(|duration| duration.as_secs_f64()),
            rate_asked: plan.rate,
            seed: plan.seed,
            workloads: Vec::new(),
            curves: Vec::new(),
            troubles: Vec::new(),
        }
    }

    /// Total number of failed calls.
    pub fn errors(&self) -> u64 {
        self.workloads.iter().map(Result::error_count).sum()
    }

    /// Whether there were no errors.
    pub fn is_clean(&self) -> bool {
        self.errors() == 0 && self.troubles.is_empty()
    }
}

impl Result {
    pub(crate) fn new(measured: &Measured) -> Self {
        let cpu = measured.processor_time;
        let (headline, tally) = (measured.tally.headline(), &measured.tally);
        let elapsed_s = measured.elapsed.as_secs_f64();
        let calls = tally.calls().map(|(procedure, series)| Calls {
            procedure,
            count: series.count(),
            latency: Latency::new(series),
        });
        let errors = tally.errors.iter().map(|((procedure, what), &count)| Errors {
            procedure: (*procedure).to_owned(),
            what: what.clone(),
            count,
        });
        Self {
            name: measured.name.clone(),
            elapsed_s,
            steps: headline.count() - tally.unstarted,
            rate_per_s: measured.rate(),
            bytes: tally.bytes,
            mib_per_s: tally.bytes as f64 / f64::from(1 << 20) / elapsed_s.max(1e-9),
            latency: Latency::new(&headline),
            calls: calls.collect(),
            errors: errors.collect(),
            unstarted: tally.unstarted,
            client_cpu_s: cpu.client.map(|time| time.as_secs_f64()),
            server_cpu_s: cpu.server.map(|time| time.as_secs_f64()),
        }
    }

    /// Number of failed calls.
    pub fn error_count(&self) -> u64 {
        self.errors.iter().map(|errors| errors.count).sum()
    }
}

impl Latency {
    fn new(series: &Series) -> Self {
        let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
        Self {
            mean_us: us(series.mean()),
            p50_us: us(series.quantile(0.5)),
            p90_us: us(series.quantile(0.9)),
            p99_us: us(series.quantile(0.99)),
            p999_us: us(series.quantile(0.999)),
            max_us: us(series.max()),
        }
    }
}
