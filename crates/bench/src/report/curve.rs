//! Response time against throughput: a server's behavior under rising load.

use std::fmt::Write;

use load::workload::laddis;
use serde::Serialize;

/// The curve of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Name of the workload.
    pub name: String,
    /// Points by rising rate.
    pub points: Vec<Point>,
    /// Index of the point at the knee.
    pub knee: Option<usize>,
    /// Number of files available to the load.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
    /// Bytes that the benchmark's rules require for the highest rate.
    pub bytes_wanted: u64,
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Requested calls a second.
    pub asked_per_s: f64,
    /// Answered calls a second.
    pub achieved_per_s: f64,
    /// The mean response time.
    pub mean_ms: f64,
    /// The 99th percentile of response times.
    pub p99_ms: f64,
    /// Failed calls.
    pub errors: u64,
}

impl Curve {
    pub(crate) fn new(name: &str, curve: &laddis::Curve) -> Self {
        let points = curve.points.iter().map(|point| Point {
            asked_per_s: point.asked,
            achieved_per_s: point.achieved,
            mean_ms: point.mean.as_secs_f64() * 1000.0,
            p99_ms: point.p99.as_secs_f64() * 1000.0,
            errors: point.errors,
        });
        Self {
            name: name.to_owned(),
            points: points.collect(),
            knee: curve.knee,
            files: curve.files,
            bytes: curve.bytes,
            bytes_wanted: curve.bytes_wanted,
        }
    }

    /// The highest rate achieved.
    pub fn peak_per_s(&self) -> f64 {
        self.points.iter().map(|point| point.achieved_per_s).fold(0.0, f64::max)
    }

    /// The curve as a table.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("\n{}: response time against throughput\n", self.name);
        text.push_str("  asked/s  answered/s   mean ms    p99 ms\n");
        for (index, point) in self.points.iter().enumerate() {
            let Point { asked_per_s: asked, achieved_per_s: achieved, mean_ms, p99_ms, .. } = point;
            let mark = if self.knee == Some(index) { "  <- knee" } else { "" };
            let line = format!("{asked:>9.0} {achieved:>11.0} {mean_ms:>9.2} {p99_ms:>9.2}{mark}");
            let _ = writeln!(text, "{line}");
        }
        let mib = |bytes: u64| bytes >> 20;
        let _ = write!(
            text,
            "peak {:.0}/s; {} files of {} MiB in all",
            self.peak_per_s(),
            self.files,
            mib(self.bytes)
        );
        let _ = if self.bytes_wanted > self.bytes {
            writeln!(text, " (SPEC wants {} MiB at that rate)", mib(self.bytes_wanted))
        } else {
            writeln!(text)
        };
        text
    }
}
