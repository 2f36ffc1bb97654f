//! What was measured, as data: [`table`] makes a text for people of it, [`svg`] pictures, and serde
//! an object for programs.

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

/// Everything of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was measured.
    pub target: String,
    /// Connections.
    pub connections: usize,
    /// Calls under way on each.
    pub depth: usize,
    /// Over how many directories files were spread.
    pub directories: u64,
    /// For how long each workload was measured, in seconds.
    pub seconds: Option<f64>,
    /// Steps a second that were asked for.
    pub rate_asked: Option<f64>,
    /// What chance followed from.
    pub seed: u64,
    /// The workloads, in the order in which they were played.
    pub workloads: Vec<Result>,
    /// Response time against throughput, of those that were played at rising rates.
    pub curves: Vec<Curve>,
    /// What went wrong outside of the measured calls: a workload that could not be prepared, a
    /// directory that could not be removed.
    pub troubles: Vec<String>,
}

/// A workload, or a phase of one.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    /// Its name.
    pub name: String,
    /// From the first call to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Steps that were taken: calls, where a step is one call.
    pub steps: u64,
    /// Of them a second.
    pub rate_per_s: f64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Of it a second, in MiB.
    pub mib_per_s: f64,
    /// How long steps took.
    pub latency: Latency,
    /// The same for each procedure.
    pub calls: Vec<Calls>,
    /// Calls that failed.
    pub errors: Vec<Errors>,
    /// Steps that were due and never begun.
    pub unstarted: u64,
    /// Processor time of this program, in seconds.
    pub client_cpu_s: Option<f64>,
    /// Processor time of the server, in seconds, if it runs on this machine.
    pub server_cpu_s: Option<f64>,
}

/// How long things took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 90 of a hundred took no longer.
    pub p90_us: f64,
    /// 99 of a hundred took no longer.
    pub p99_us: f64,
    /// 999 of a thousand took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The calls of a procedure.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Which.
    pub procedure: &'static str,
    /// How many did what they should.
    pub count: u64,
    /// How long they took.
    pub latency: Latency,
}

/// Calls that failed alike.
#[derive(Clone, Debug, Serialize)]
pub struct Errors {
    /// Which procedure.
    pub procedure: String,
    /// What was said.
    pub what: String,
    /// How often.
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

    /// Calls that failed, in all.
    pub fn errors(&self) -> u64 {
        self.workloads.iter().map(Result::error_count).sum()
    }

    /// Whether everything was as it should be.
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

    /// Calls that failed.
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
