//! The report as text for people: a table, followed by the errors.

use std::fmt::Write;

use super::{Report, Result};

/// The table of a report.
pub fn table(report: &Report) -> String {
    let mut text = heading(report);
    let columns =
        ["workload", "steps/s", "MiB/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU c/s", "errors"];
    let mut rows = vec![columns.map(str::to_owned)];
    rows.extend(report.workloads.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    for row in &rows {
        let first = format!("{:<1$}", row[0], widths[0]);
        let others = row.iter().zip(&widths).skip(1);
        let line = others.fold(first, |line, (cell, width)| format!("{line}  {cell:>width$}"));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if !report.workloads.is_empty() {
        text.push_str("CPU: of this program and of the server, in processors\n");
    }
    for result in &report.workloads {
        for errors in &result.errors {
            let (name, procedure) = (&result.name, &errors.procedure);
            let _ = writeln!(text, "{name}: {} x {procedure}: {}", errors.count, errors.what);
        }
        if result.unstarted > 0 {
            let late = group(result.unstarted);
            let _ = writeln!(text, "{}: {late} steps were due and never begun", result.name);
        }
    }
    for curve in &report.curves {
        text.push_str(&curve.describe());
    }
    for trouble in &report.troubles {
        let _ = writeln!(text, "{trouble}");
    }
    text
}

fn heading(report: &Report) -> String {
    let Report { target, connections, depth, directories, .. } = report;
    let mut text = format!("{target}: {connections} connections x {depth} calls");
    if let Some(rate) = report.rate_asked {
        let _ = write!(text, ", {rate} steps/s asked for");
    }
    if let Some(seconds) = report.seconds {
        let _ = write!(text, ", {seconds} s each");
    }
    let _ = match directories {
        1 => writeln!(text, ", one directory"),
        some => writeln!(text, ", {some} directories"),
    };
    text
}

fn row(result: &Result) -> [String; 8] {
    let ms = |us: f64| figure(us / 1000.0);
    let payload = if result.bytes > 0 { figure(result.mib_per_s) } else { "-".to_owned() };
    let processors = |time: Option<f64>| match time {
        Some(time) => format!("{:.2}", time / result.elapsed_s.max(1e-9)),
        None => "-".to_owned(),
    };
    let cpu = format!("{}/{}", processors(result.client_cpu_s), processors(result.server_cpu_s));
    [
        result.name.clone(),
        group(result.rate_per_s.round() as u64),
        payload,
        ms(result.latency.p50_us),
        ms(result.latency.p99_us),
        ms(result.latency.p999_us),
        cpu,
        group(result.error_count()),
    ]
}

/// Three significant digits, more or less.
fn figure(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.3}"),
        value if value < 100.0 => format!("{value:.2}"),
        value if value < 1000.0 => format!("{value:.1}"),
        value => group(value.round() as u64),
    }
}

/// A number with thousands separators.
fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let numbers = [0, 999, 1000, 1_234_567].map(group);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
