//! The metrics of a server. docs/admin.md lists them.

use dispatch::counts::{CallCounts, LATENCY_BOUNDS_NS, ServerCounts};
use dispatch::{Counters, Refusals};
use door::DoorCounts;
use nfs::mount;

use super::{Health, ServerCounters};
use crate::device_counts::DeviceCall;
use crate::metrics::{Metric, Page};

static BUILD: Metric =
    Metric::gauge("duramen_build_info", "Version of the program, as a label; always 1.");
static UPTIME: Metric =
    Metric::gauge("duramen_uptime_seconds", "Time since the start of the server.");
static STATE: Metric = Metric::gauge(
    "duramen_volume_state",
    "1 for the state that the volume is in: ok, rebuilding, degraded, losses or stopped.",
);
static CALLS: Metric = Metric::counter("duramen_nfs_calls_total", "Answered NFS calls.");
static ERRORS: Metric =
    Metric::counter("duramen_nfs_errors_total", "NFS calls that were answered with an error.");
static LATENCY: Metric = Metric::histogram(
    "duramen_nfs_call_duration_seconds",
    "Time from the arrival of an NFS call until its reply is ready to be sent.",
);
static RECEIVED: Metric =
    Metric::counter("duramen_nfs_received_bytes_total", "Bytes of NFS calls.");
static SENT: Metric = Metric::counter("duramen_nfs_sent_bytes_total", "Bytes of NFS replies.");
static MOUNT_CALLS: Metric =
    Metric::counter("duramen_mount_calls_total", "Answered calls of the MOUNT protocol.");
static REJECTED: Metric = Metric::counter(
    "duramen_rpc_rejected_total",
    "Calls that were rejected before any procedure: wrong program, version, credentials or \
     arguments.",
);
static REFUSALS: Metric = Metric::counter(
    "duramen_refusals_total",
    "Mounts and calls that were refused: no rule admits the client, no volume has the path, or \
     the options of the mount do not fit.",
);
static WAITS: Metric = Metric::counter(
    "duramen_waits_total",
    "Calls that had to wait, for memory before they were read, or for memory of the reply or a \
     turn.",
);
static WAIT_TIME: Metric = Metric::counter(
    "duramen_turn_wait_seconds_total",
    "Time for which calls waited for memory of the reply or a turn.",
);
static WAITING: Metric =
    Metric::gauge("duramen_waiting_calls", "Calls that wait for memory of the reply or a turn.");
static EXECUTING: Metric =
    Metric::gauge("duramen_executing_calls", "Calls that are being executed.");
static MEMORY: Metric = Metric::gauge(
    "duramen_memory_bytes",
    "Memory that is held: for calls, those of them that still arrive, replies that are not sent, \
     and remembered replies.",
);
static REMEMBERED: Metric =
    Metric::gauge("duramen_reply_cache_replies", "Replies that are remembered.");
static REPETITIONS: Metric = Metric::counter(
    "duramen_reply_cache_hits_total",
    "Repeated calls that were not executed again: answered before, under way, or answered before \
     the start of the server.",
);
static NEW_CALLS: Metric = Metric::counter(
    "duramen_reply_cache_misses_total",
    "Calls of procedures that change something and were no repetitions.",
);
static FORGOTTEN: Metric = Metric::counter(
    "duramen_reply_cache_evictions_total",
    "Remembered replies that were dropped, by age or for lack of room.",
);
static CONNECTIONS: Metric = Metric::gauge("duramen_connections", "Open connections of clients.");
static AT_DOOR: Metric =
    Metric::gauge("duramen_connections_waiting", "Connections that wait for a place.");
static ACCEPTED: Metric =
    Metric::counter("duramen_connections_accepted_total", "Connections that were accepted.");
static ACCEPT_ERRORS: Metric =
    Metric::counter("duramen_accept_errors_total", "Accepts of connections that failed.");
static CLOSED: Metric = Metric::counter(
    "duramen_connections_closed_total",
    "Connections that have ended: closed by the peer or the stop, sent_away or displaced for lack \
     of places, lost by the network, garbled, or given_up since the peer did not go on.",
);

static DEVICE_TIME: Metric = Metric::histogram(
    "duramen_device_call_duration_seconds",
    "Time of a read, write or flush of a disk or a log.",
);
static DEVICE_ERRORS: Metric = Metric::counter(
    "duramen_device_errors_total",
    "Reads, writes and flushes of a disk or a log that failed.",
);
static DEVICE_BYTES: Metric = Metric::counter(
    "duramen_device_bytes_total",
    "Bytes that were read from a disk or a log, and written to it.",
);
static DEVICE_PENDING: Metric = Metric::gauge(
    "duramen_device_pending_calls",
    "Reads, writes and flushes of a disk or a log that are under way.",
);

/// Adds the metrics of a server.
pub(super) fn measure(counters: &ServerCounters, page: &mut Page) {
    page.add(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.add(&UPTIME, &[], counters.uptime.as_secs_f64());
    let names = counters.volumes.iter().map(|volume| volume.name.as_str());
    names.zip(&counters.calls.volumes).for_each(|(name, calls)| measure_calls(name, calls, page));
    measure_calls("", &counters.calls.no_volume, page);
    measure_waits(&counters.calls, page);
    let Refusals { rule, path, protocol } = counters.refusals;
    for (reason, count) in [("rule", rule), ("path", path), ("protocol", protocol)] {
        page.add(&REFUSALS, &[("reason", reason)], count);
    }
    page.add(&EXECUTING, &[], counters.executing);
    measure_memory(counters, page);
    measure_connections(counters, page);
    measure_devices(counters, page);
}

fn measure_devices(counters: &ServerCounters, page: &mut Page) {
    let bounds = LATENCY_BOUNDS_NS.map(|ns| ns as f64 / 1e9);
    for (path, cells) in &counters.devices {
        let device = path.display().to_string();
        for (kind, calls) in cells.calls() {
            let labels = [("device", device.as_str()), ("kind", kind.word())];
            let (latencies, errors) = (calls.latencies(), calls.errors());
            let (buckets, sum) = (latencies.buckets(), latencies.sum().as_secs_f64());
            page.add_histogram(&DEVICE_TIME, &labels, &bounds, &buckets, sum);
            page.add(&DEVICE_ERRORS, &labels, errors);
            if kind != DeviceCall::Flush {
                page.add(&DEVICE_BYTES, &labels, calls.bytes());
            }
        }
        page.add(&DEVICE_PENDING, &[("device", &device)], cells.pending());
    }
}

/// Adds the health of a volume.
pub(super) fn measure_health(volume: &str, health: Health, page: &mut Page) {
    for state in Health::ALL {
        let labels = [("volume", volume), ("state", state.word())];
        page.add(&STATE, &labels, u64::from(state == health));
    }
}

/// Adds the calls for a volume; its name is empty for calls that are for none. A label with an
/// empty value is the same as none.
fn measure_calls(volume: &str, calls: &CallCounts, page: &mut Page) {
    let bounds = LATENCY_BOUNDS_NS.map(|ns| ns as f64 / 1e9);
    for (procedure, latencies) in calls.latencies() {
        let name = procedure.name().to_ascii_lowercase();
        let labels = [("volume", volume), ("procedure", &name)];
        let buckets = latencies.buckets();
        page.add(&CALLS, &labels, latencies.calls());
        page.add_histogram(&LATENCY, &labels, &bounds, &buckets, latencies.sum().as_secs_f64());
    }
    for (status, count) in calls.errors() {
        page.add(&ERRORS, &[("volume", volume), ("status", status.name())], count);
    }
    page.add(&RECEIVED, &[("volume", volume)], calls.received_bytes());
    page.add(&SENT, &[("volume", volume)], calls.sent_bytes());
}

fn measure_waits(calls: &ServerCounts, page: &mut Page) {
    for (procedure, count) in mount::Procedure::ALL.into_iter().zip(calls.mount) {
        page.add(&MOUNT_CALLS, &[("procedure", &procedure.name().to_ascii_lowercase())], count);
    }
    page.add(&REJECTED, &[], calls.rejected);
    page.add(&WAITS, &[("for", "memory")], calls.memory_waits);
    page.add(&WAITS, &[("for", "turn")], calls.turn_waits);
    page.add(&WAIT_TIME, &[], calls.turn_wait.as_secs_f64());
    page.add(&WAITING, &[], calls.waiting);
}

fn measure_memory(counters: &ServerCounters, page: &mut Page) {
    let (requests, replies) = counters.under_way;
    let (remembered, bytes) = counters.remembered;
    for (name, bytes) in [
        ("calls", requests),
        ("arriving", counters.arriving),
        ("replies", replies),
        ("reply_cache", bytes as u64),
    ] {
        page.add(&MEMORY, &[("use", name)], bytes);
    }
    page.add(&REMEMBERED, &[], remembered);
    let Counters { hits, in_progress_hits, misses, evictions, restored_hits, .. } =
        counters.reply_cache;
    for (kind, count) in [
        ("answered", hits - restored_hits),
        ("under_way", in_progress_hits),
        ("restored", restored_hits),
    ] {
        page.add(&REPETITIONS, &[("kind", kind)], count);
    }
    page.add(&NEW_CALLS, &[], misses);
    page.add(&FORGOTTEN, &[], evictions);
}

fn measure_connections(counters: &ServerCounters, page: &mut Page) {
    page.add(&CONNECTIONS, &[], counters.connections.0);
    page.add(&AT_DOOR, &[], counters.connections.1);
    let DoorCounts { accepted, failed, sent_away, closed, displaced, lost, garbled, given_up } =
        counters.door;
    page.add(&ACCEPTED, &[], accepted);
    page.add(&ACCEPT_ERRORS, &[], failed);
    for (reason, count) in [
        ("closed", closed),
        ("sent_away", sent_away),
        ("displaced", displaced),
        ("lost", lost),
        ("garbled", garbled),
        ("given_up", given_up),
    ] {
        page.add(&CLOSED, &[("reason", reason)], count);
    }
}
