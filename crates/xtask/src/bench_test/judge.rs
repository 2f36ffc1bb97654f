//! Plausibility checks of a report's figures.

use serde_json::Value;

use crate::{Failure, Result};

/// The workloads of a run without names, in order.
const SIMPLE: [&str; 17] = [
    "null",
    "getattr",
    "lookup",
    "readdirplus",
    "create",
    "remove",
    "mkdir",
    "rmdir",
    "rename",
    "create-write",
    "overwrite-8k",
    "write-64k",
    "write-1m",
    "read-cold-64k",
    "read-cold-1m",
    "read-cached-8k",
    "read-cached-64k",
];

/// Workloads with payload.
const MOVING: [&str; 3] = ["write", "read-", "smallfile CF"];

/// Tolerance between a rate and its own count and time.
const ROUNDING: f64 = 0.01;

/// Checks a report of the workloads of one or two procedures.
pub(super) fn simple(report: &Value) -> Result<String> {
    let results = results(report)?;
    let names: Vec<_> = results.iter().map(|result| text(result, "name")).collect();
    if names != SIMPLE {
        return Err(Failure::new(format!("the workloads are {names:?}")));
    }
    results.iter().try_for_each(judge)?;
    Ok(format!("{} workloads without an error", names.len()))
}

/// Checks a report of the other workloads.
pub(super) fn compound(report: &Value) -> Result<String> {
    let results = results(report)?;
    results.iter().try_for_each(judge)?;
    let curves = list(report, "curves");
    let names: Vec<_> = curves.iter().map(|curve| text(curve, "name")).collect();
    if names != ["laddis", "laddis3"] {
        return Err(Failure::new(format!("the curves are {names:?}")));
    }
    curves.iter().try_for_each(curve)?;
    Ok(format!("{} phases of the others", results.len()))
}

/// Checks a curve: it has both requested points, or ends with one that explains the end. The
/// machine may have been too busy for the first.
fn curve(curve: &Value) -> Result<()> {
    let points = list(curve, "points");
    let knee = curve["knee"].as_u64().ok_or_else(|| Failure::new("a curve without a knee"))?;
    let number = |point: &Value, field: &str| point[field].as_f64().unwrap_or_default();
    let has_enough = |point: &Value| {
        let is_behind = number(point, "achieved_per_s") < 0.9 * number(point, "asked_per_s");
        is_behind || number(point, "mean_ms") > 50.0
    };
    let is_whole = points.len() == 2 || points.len() == 1 && has_enough(&points[0]);
    if !is_whole || knee >= points.len() as u64 {
        let points = points.len();
        return Err(Failure::new(format!("a curve of {points} points, its knee at {knee}")));
    }
    Ok(())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The results, if there were no errors outside the calls.
fn results(report: &Value) -> Result<&[Value]> {
    match list(report, "troubles") {
        [] => Ok(list(report, "workloads")),
        troubles => Err(Failure::new(format!("{troubles:?}"))),
    }
}

/// Checks a single result.
fn judge(result: &Value) -> Result<()> {
    let name = text(result, "name");
    let wrong = |what: &str| Err(Failure::new(format!("{name}: {what}: {result}")));
    let number = |field: &str| result[field].as_f64().unwrap_or(f64::NAN);
    let latency = |field: &str| result["latency"][field].as_f64().unwrap_or(f64::NAN);
    if !list(result, "errors").is_empty() {
        return wrong("errors");
    }
    let (steps, elapsed) = (number("steps"), number("elapsed_s"));
    let calls = list(result, "calls").iter().filter_map(|calls| calls["count"].as_f64());
    if !(steps > 0.0 && elapsed > 0.0 && calls.sum::<f64>() >= steps) {
        return wrong("steps without calls, or none");
    }
    if (number("rate_per_s") * elapsed / steps - 1.0).abs() > ROUNDING {
        return wrong("the rate is not what its steps and its time say");
    }
    let order = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map(latency);
    if !order.is_sorted() || order[0] <= 0.0 || latency("mean_us") > order[4] {
        return wrong("latencies out of order");
    }
    let moves = MOVING.iter().any(|part| name.contains(part));
    if moves != (number("bytes") > 0.0) && !name.contains("laddis") && name != "copy-remove" {
        return wrong("payload where there is none, or none where there is");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        let latency = json!({"mean_us": 2.0, "p50_us": 1.0, "p90_us": 2.0, "p99_us": 3.0,
                             "p999_us": 4.0, "max_us": 5.0});
        json!({"name": "create", "steps": 100, "elapsed_s": 2.0, "rate_per_s": 50.0, "bytes": 0,
               "latency": latency, "calls": [{"procedure": "CREATE", "count": 100}], "errors": []})
    }

    #[test]
    fn a_curve_ends_where_it_was_to_or_where_the_server_had_enough() {
        let point = |achieved: f64, mean: f64| {
            let mut point = json!({"asked_per_s": 100.0, "achieved_per_s": achieved});
            point["mean_ms"] = mean.into();
            point
        };
        let judged = |points: &[Value], knee| curve(&json!({"points": points, "knee": knee}));
        let (good, late, slow) = (point(99.0, 1.0), point(80.0, 1.0), point(99.0, 60.0));
        assert_eq!(judged(&[good.clone(), good.clone()], 1), Ok(()));
        assert_eq!(judged(&[late], 0), Ok(()));
        assert_eq!(judged(&[slow], 0), Ok(()));
        for (points, knee) in [(vec![good.clone()], 0), (vec![good.clone(), good], 2), (vec![], 0)]
        {
            assert!(judged(&points, knee).is_err(), "{points:?}, {knee}");
        }
    }

    #[test]
    fn every_kind_of_impossible_figure_is_found() {
        assert_eq!(judge(&good()), Ok(()));
        let faults = [
            ("errors", json!([{"procedure": "CREATE", "what": "NFS3ERR_IO", "count": 1}])),
            ("steps", json!(0)),
            ("steps", json!(101)),
            ("rate_per_s", json!(55.0)),
            ("calls", json!([])),
            ("bytes", json!(1)),
            ("name", json!("write-1m")),
            ("latency", json!({"p50_us": 9.0})),
        ];
        for (field, value) in faults {
            let mut result = good();
            result[field] = value;
            assert!(judge(&result).is_err(), "{result}");
        }
    }
}
