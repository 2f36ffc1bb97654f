//! `duramen top`: the load of each volume, again and again.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::{Either, select};
use serde::Serialize;
use serde_json::json;
use server::Signals;
use server::control::{Health, ServerStatus, VolumeStatus};
use server::reactor::{self, elsewhere};

use super::ServerArguments;
use super::clients::table;
use super::place::{ServerPlaces, ask_again};
use crate::failure::Failure;

/// Time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Moves the cursor of a terminal to the top and clears everything below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// The arguments of `duramen top`.
#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Print one JSON object a second, each on a line
    #[arg(long)]
    pub(crate) json: bool,
    /// End after this number of reports [default: at Ctrl-C]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
}

/// Load of a volume between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Load {
    volume: String,
    state: Health,
    calls_per_s: f64,
    reads_per_s: f64,
    writes_per_s: f64,
    errors_per_s: f64,
    received_bytes_per_s: f64,
    sent_bytes_per_s: f64,
    /// Upper bounds in milliseconds; null if there was no call, or if it took longer than the last
    /// bound.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// Prints the load of all volumes of a server every second.
///
/// # Errors
/// [`Failure`] if no server serves the volume, also when it has ended.
pub(crate) fn run(arguments: &TopArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let socket = ServerPlaces::find(&arguments.server)?.one_socket()?;
    let is_terminal = stdout().is_terminal();
    let watching = reactor::block_on(|runtime| async move {
        let mut signals = Signals::new()?;
        let look = || {
            let socket = socket.clone();
            elsewhere(move || ask_again::<ServerStatus>(&socket, "/v1/server/status"))
        };
        let (mut before, mut reports) = (look().await?, 0);
        while arguments.count.is_none_or(|count| reports < count) {
            let pause = runtime.clock.sleep(INTERVAL);
            if let Either::Left(_) = select(signals.any().boxed_local(), pause).await {
                break;
            }
            let now = look().await?;
            let loads = loads(&before, &now);
            let text = match (arguments.json, is_terminal) {
                (true, _) => {
                    format!("{}\n", json!({ "uptime_ms": now.uptime_ms, "volumes": loads }))
                }
                (_, true) => format!("{CLEAR}{}\n{}", head(&now), page(&loads)),
                _ => loads.iter().map(line).collect(),
            };
            output.write_all(text.as_bytes())?;
            output.flush()?;
            (before, reports) = (now, reports + 1);
        }
        Ok(())
    });
    watching.map_err(Failure::Start)?
}

/// The load of each volume between two looks at a server. If the server was started anew in
/// between, it is that since the start.
fn loads(before: &ServerStatus, now: &ServerStatus) -> Vec<Load> {
    let is_same = before.pid == now.pid && before.uptime_ms <= now.uptime_ms;
    let ms = if is_same { now.uptime_ms - before.uptime_ms } else { now.uptime_ms };
    let seconds = ms.max(1) as f64 / 1_000.0;
    let none = VolumeStatus::default();
    let pairs = now.volumes.iter().map(|volume| {
        let earlier = before.volumes.iter().find(|it| is_same && it.volume == volume.volume);
        (earlier.unwrap_or(&none), volume)
    });
    pairs.map(|(before, now)| load(before, now, seconds)).collect()
}

fn load(before: &VolumeStatus, now: &VolumeStatus, seconds: f64) -> Load {
    let rate =
        |count: fn(&VolumeStatus) -> u64| count(now).saturating_sub(count(before)) as f64 / seconds;
    let earlier = before.latency_calls.iter().copied().chain(std::iter::repeat(0));
    let calls =
        now.latency_calls.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before));
    let calls: Vec<u64> = calls.collect();
    Load {
        volume: now.volume.clone(),
        state: now.health.state,
        calls_per_s: rate(|it| it.calls),
        reads_per_s: rate(|it| it.reads),
        writes_per_s: rate(|it| it.writes),
        errors_per_s: rate(|it| it.errors),
        received_bytes_per_s: rate(|it| it.received_bytes),
        sent_bytes_per_s: rate(|it| it.sent_bytes),
        p50_ms: bound_of(50, &now.latency_bounds_ms, &calls),
        p99_ms: bound_of(99, &now.latency_bounds_ms, &calls),
    }
}

/// The bound within which this many of 100 calls were answered.
fn bound_of(percent: u64, bounds: &[f64], calls: &[u64]) -> Option<f64> {
    let wanted = (calls.iter().sum::<u64>() * percent).div_ceil(100);
    let mut within = 0;
    let bucket = calls.iter().position(|calls| {
        within += calls;
        wanted > 0 && within >= wanted
    });
    bounds.get(bucket?).copied()
}

fn head(now: &ServerStatus) -> String {
    let ServerStatus { connections, executing, waiting, refusals, .. } = now;
    format!(
        "{connections} connections, {executing} calls under way, {waiting} waiting, {refusals} \
         refused"
    )
}

fn page(loads: &[Load]) -> String {
    let titles = [
        "VOLUME",
        "STATE",
        "CALLS/S",
        "READS/S",
        "WRITES/S",
        "ERRORS/S",
        "IN MiB/S",
        "OUT MiB/S",
        "P50 ms",
        "P99 ms",
    ];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(loads.iter().map(cells));
    table(&rows)
}

fn cells(load: &Load) -> [String; 10] {
    let bound = |ms: Option<f64>| match ms {
        Some(ms) => format!("<={ms}"),
        None => "-".to_owned(),
    };
    let mebibytes = |bytes: f64| format!("{:.1}", bytes / f64::from(1 << 20));
    [
        load.volume.clone(),
        load.state.to_string(),
        format!("{:.0}", load.calls_per_s),
        format!("{:.0}", load.reads_per_s),
        format!("{:.0}", load.writes_per_s),
        format!("{:.0}", load.errors_per_s),
        mebibytes(load.received_bytes_per_s),
        mebibytes(load.sent_bytes_per_s),
        bound(load.p50_ms),
        bound(load.p99_ms),
    ]
}

/// A report without a terminal.
fn line(load: &Load) -> String {
    let [volume, state, calls, reads, writes, errors, received, sent, p50, p99] = cells(load);
    format!(
        "{volume}: {state}, {calls} calls/s, {reads} reads/s, {writes} writes/s, {errors} \
         errors/s, {received} MiB/s in, {sent} MiB/s out, p50 {p50} ms, p99 {p99} ms\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(calls: [u64; 3]) -> VolumeStatus {
        VolumeStatus {
            volume: "data".to_owned(),
            calls: calls.iter().sum(),
            reads: calls[0],
            sent_bytes: calls[0] << 20,
            latency_bounds_ms: vec![1.0, 5.0],
            latency_calls: calls.to_vec(),
            ..VolumeStatus::default()
        }
    }

    fn status(pid: u32, uptime_ms: u64, calls: [u64; 3]) -> ServerStatus {
        ServerStatus {
            pid,
            uptime_ms,
            connections: 1,
            volumes: vec![volume(calls)],
            ..ServerStatus::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let loads = loads(&status(7, 1_000, [100, 5, 0]), &status(7, 3_000, [300, 5, 2]));
        assert_eq!((loads[0].calls_per_s, loads[0].reads_per_s), (101.0, 100.0));
        assert_eq!((loads[0].p50_ms, loads[0].p99_ms), (Some(1.0), Some(1.0)));
        let expected = "data: ok, 101 calls/s, 100 reads/s, 0 writes/s, 0 errors/s, 0.0 MiB/s in, \
                        100.0 MiB/s out, p50 <=1 ms, p99 <=1 ms\n";
        assert_eq!(line(&loads[0]), expected);
    }

    #[test]
    fn a_server_that_was_started_anew_begins_from_nothing() {
        for pid in [7, 8] {
            let loads = loads(&status(7, 9_000, [900, 0, 0]), &status(pid, 1_000, [50, 0, 0]));
            assert_eq!(loads[0].calls_per_s, 50.0);
        }
    }

    #[test]
    fn a_percentile_is_the_bound_that_holds_it() {
        let bounds = [1.0, 5.0];
        assert_eq!(bound_of(50, &bounds, &[0, 0, 0]), None, "no call");
        assert_eq!(bound_of(50, &bounds, &[1, 1, 0]), Some(1.0));
        assert_eq!(bound_of(50, &bounds, &[1, 2, 0]), Some(5.0));
        assert_eq!(bound_of(99, &bounds, &[99, 1, 0]), Some(1.0));
        assert_eq!(bound_of(99, &bounds, &[98, 2, 0]), Some(5.0));
        assert_eq!(bound_of(99, &bounds, &[0, 0, 1]), None, "beyond the last bound");
    }
}
