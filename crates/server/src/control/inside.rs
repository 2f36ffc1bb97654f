//! The look inside a server: its health, counters and clients.
//!
//! The thread that serves makes one copy of its counters ([`ServerCopy`]); JSON, metrics and
//! judgements are made of it on the control thread.

mod page;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dispatch::counts::{CallCounts, Connected, ConnectionCounts, LATENCY_BOUNDS_NS, ServerCounts};
use dispatch::{Counters, Refusals};
use door::DoorCounts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::device_counts::{DeviceCall, DeviceCells};
use crate::metrics::Page;

/// The running server. Its functions are called on the thread that serves; they read counters and
/// wait for nothing.
pub trait Serving {
    /// Durability of a volume's export: `durable`, or `delayed` if replies do not wait for the
    /// disk.
    fn durability(&self, volume: &str) -> &'static str;

    /// A copy of the counters.
    fn counters(&self) -> ServerCounters;

    /// The connections of clients.
    fn connected(&self) -> Connected;
}

/// Counters of a server.
#[derive(Clone, Debug)]
pub struct ServerCounters {
    /// Time since the start.
    pub uptime: Duration,
    /// The volumes, in the order of the start.
    pub volumes: Vec<VolumeTroubles>,
    /// Names of volumes that were to be served and were refused.
    pub refused_volumes: Vec<String>,
    /// Counters of the open disks, by their paths.
    pub devices: Vec<(PathBuf, DeviceCells)>,
    /// Counters of calls.
    pub calls: ServerCounts,
    /// Refused mounts and calls.
    pub refusals: Refusals,
    /// Counters of the reply cache.
    pub reply_cache: Counters,
    /// Remembered replies, and the bytes that they count for.
    pub remembered: (usize, usize),
    /// Bytes of calls that have arrived or are being executed, and of replies.
    pub under_way: (u64, u64),
    /// Bytes of calls that are still arriving.
    pub arriving: u64,
    /// Calls that are being executed.
    pub executing: u64,
    /// Open connections, and those that wait for a place.
    pub connections: (usize, usize),
    /// Connections since the start.
    pub door: DoorCounts,
}

/// Troubles that calls for a volume have met.
#[derive(Clone, Debug)]
pub struct VolumeTroubles {
    /// Name of the volume.
    pub name: String,
    /// Whether it has stopped: its changes do not become durable.
    pub is_stopped: bool,
    /// Whether a call has met damage.
    pub is_damaged: bool,
}

/// A copy of a volume's own counters, made on the thread that serves and read on another.
pub trait VolumeCopy: Send {
    /// The statistics for `GET /v1/info`.
    fn json(&self) -> Value;

    /// Health of the volume as far as these counters tell.
    fn health(&self) -> VolumeHealth;

    /// Adds its metrics.
    fn measure(&self, volume: &str, page: &mut Page);
}

/// Health of a volume, or of all: the larger the worse.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// All is well.
    #[default]
    Ok,
    /// Redundancy is being restored.
    Rebuilding,
    /// It serves, and the next fault may be one too many.
    Degraded,
    /// It serves, and has lost data or met damage.
    Losses,
    /// It does not serve.
    Stopped,
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Ok, Self::Rebuilding, Self::Degraded, Self::Losses, Self::Stopped];

    /// Exit code of `duramen status`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Rebuilding | Self::Degraded => 1,
            Self::Losses | Self::Stopped => 2,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Rebuilding => "rebuilding",
            Self::Degraded => "degraded",
            Self::Losses => "losses",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// Health of a volume, with the reasons if it is not well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeHealth {
    /// Its health.
    pub state: Health,
    /// A sentence for each trouble.
    pub reasons: Vec<String>,
}

impl VolumeHealth {
    /// Adds a trouble.
    pub fn add(&mut self, state: Health, reason: impl Into<String>) {
        self.state = self.state.max(state);
        self.reasons.push(reason.into());
    }
}

/// The copy that a scrape gets. The names are those of the desks.
pub(super) struct ServerCopy {
    pub(super) counters: ServerCounters,
    pub(super) volumes: Vec<(String, Box<dyn VolumeCopy>)>,
}

/// State of a server: the object of `GET /v1/server/status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Process ID.
    pub pid: u32,
    /// Name of the volume at whose socket the server was asked.
    pub socket_volume: String,
    /// Version of the program.
    pub version: String,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// The worst health of all volumes.
    pub state: Health,
    /// Open connections.
    pub connections: usize,
    /// Connections that wait for a place.
    pub connections_waiting: usize,
    /// Mounts and calls that were refused.
    pub refusals: u64,
    /// Calls that are being executed.
    pub executing: u64,
    /// Calls that wait for memory or a turn.
    pub waiting: u64,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
    /// The open disks of all volumes, and their logs.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
}

/// State of a disk. Counters begin when it is opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Path by which it was opened.
    pub device: String,
    /// Calls under way.
    pub pending: u64,
    /// Reads.
    pub read: DeviceCallStatus,
    /// Writes.
    pub write: DeviceCallStatus,
    /// Flushes.
    pub flush: DeviceCallStatus,
}

/// Completed calls of one kind of a disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceCallStatus {
    /// Number of calls, with those that failed.
    pub calls: u64,
    /// Number of calls that failed.
    pub errors: u64,
    /// Bytes of the others.
    pub bytes: u64,
    /// Mean time in microseconds; null if there was no call.
    pub mean_us: Option<f64>,
    /// Time of the slowest in microseconds; null if there was no call.
    pub max_us: Option<f64>,
}

impl DeviceStatus {
    fn new(path: &Path, cells: &DeviceCells) -> Self {
        let device = path.display().to_string();
        let mut status = Self { device, pending: cells.pending(), ..Self::default() };
        for (kind, cells) in cells.calls() {
            let calls = cells.latencies().calls();
            let us = |time: Duration| (calls > 0).then(|| time.as_nanos() as f64 / 1e3);
            let one = DeviceCallStatus {
                calls,
                errors: cells.errors(),
                bytes: cells.bytes(),
                mean_us: us(cells.latencies().sum()).map(|sum| sum / calls as f64),
                max_us: us(cells.longest()),
            };
            match kind {
                DeviceCall::Read => status.read = one,
                DeviceCall::Write => status.write = one,
                DeviceCall::Flush => status.flush = one,
            }
        }
        status
    }
}

/// State of a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub volume: String,
    /// Its health, with the reasons if it is not well.
    #[serde(flatten)]
    pub health: VolumeHealth,
    /// Answered calls.
    pub calls: u64,
    /// Those with an error.
    pub errors: u64,
    /// Calls that read data, and that write some.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
    /// Upper bounds of the latency buckets, in milliseconds.
    pub latency_bounds_ms: Vec<f64>,
    /// Number of calls in each bucket, the last for longer ones.
    pub latency_calls: Vec<u64>,
}

impl VolumeStatus {
    fn new(volume: &str, health: VolumeHealth, calls: &CallCounts) -> Self {
        let mut latency_calls = vec![0; LATENCY_BOUNDS_NS.len() + 1];
        let (mut reads, mut writes) = (0, 0);
        for (procedure, latencies) in calls.latencies() {
            latency_calls.iter_mut().zip(latencies.buckets()).for_each(|(sum, one)| *sum += one);
            match procedure {
                nfs::nfs3::Procedure::Read => reads = latencies.calls(),
                nfs::nfs3::Procedure::Write => writes = latencies.calls(),
                _ => {}
            }
        }
        Self {
            volume: volume.to_owned(),
            health,
            calls: latency_calls.iter().sum(),
            errors: calls.errors().map(|(_, count)| count).sum(),
            reads,
            writes,
            received_bytes: calls.received_bytes(),
            sent_bytes: calls.sent_bytes(),
            latency_bounds_ms: LATENCY_BOUNDS_NS.iter().map(|&ns| ns as f64 / 1e6).collect(),
            latency_calls,
        }
    }
}

impl ServerCopy {
    /// Health of each volume, in the order of the start, and then of those that were refused.
    fn health(&self) -> Vec<(&str, VolumeHealth)> {
        let mut all = Vec::new();
        for VolumeTroubles { name, is_stopped, is_damaged } in &self.counters.volumes {
            let its = self.volumes.iter().find(|(volume, _)| volume == name);
            let (_, copy) = its.expect("each volume has a desk, with or without a socket");
            let mut health = copy.health();
            if *is_damaged {
                health.add(Health::Losses, "a call has met damage on the disk");
            }
            if *is_stopped {
                let why = "changes do not become durable: the disk failed, or has no room below";
                health.add(Health::Stopped, why);
            }
            all.push((name.as_str(), health));
        }
        for name in &self.counters.refused_volumes {
            let mut health = VolumeHealth::default();
            health.add(Health::Stopped, "it could not be opened at the start of the server");
            all.push((name, health));
        }
        all
    }

    /// The state of the server, for an answer at the socket of this volume.
    pub(super) fn status(&self, socket_volume: &str) -> ServerStatus {
        let counters = &self.counters;
        let none = CallCounts::default();
        let calls = counters.calls.volumes.iter().chain(std::iter::repeat(&none));
        let volumes = self.health().into_iter().zip(calls);
        let volumes = volumes.map(|((name, health), calls)| VolumeStatus::new(name, health, calls));
        let volumes: Vec<VolumeStatus> = volumes.collect();
        let Refusals { rule, path, protocol } = counters.refusals;
        ServerStatus {
            pid: std::process::id(),
            socket_volume: socket_volume.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: milliseconds(counters.uptime),
            state: volumes.iter().map(|volume| volume.health.state).max().unwrap_or_default(),
            connections: counters.connections.0,
            connections_waiting: counters.connections.1,
            refusals: rule + path + protocol,
            executing: counters.executing,
            waiting: counters.calls.waiting,
            volumes,
            devices: counters
                .devices
                .iter()
                .map(|(path, it)| DeviceStatus::new(path, it))
                .collect(),
        }
    }

    /// HTTP status and object of `GET /healthz`.
    pub(super) fn healthz(&self) -> (u16, Value) {
        let health = self.health();
        let worst = health.iter().map(|(_, health)| health.state).max().unwrap_or_default();
        let volumes = health.iter().map(|(volume, VolumeHealth { state, reasons })| {
            json!({ "volume": volume, "state": state, "reasons": reasons })
        });
        let volumes: Vec<Value> = volumes.collect();
        let status = if worst == Health::Stopped { 503 } else { 200 };
        (status, json!({ "state": worst, "volumes": volumes }))
    }

    /// The metrics of the server and of its volumes.
    pub(super) fn metrics(&self) -> String {
        let mut page = Page::default();
        page::measure(&self.counters, &mut page);
        for (volume, health) in self.health() {
            page::measure_health(volume, health.state, &mut page);
        }
        for (volume, copy) in &self.volumes {
            copy.measure(volume, &mut page);
        }
        page.finish()
    }
}

/// The connections of a server: the object of `GET /v1/server/clients`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerClients {
    /// Number of connections.
    pub total: usize,
    /// The newest of them, at most 1,000.
    pub connections: Vec<ClientConnection>,
}

/// A connection of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientConnection {
    /// Number of the connection, from 1 on.
    pub connection: u64,
    /// Address of the client.
    pub client: String,
    /// Names of the volumes that its calls were for.
    pub volumes: Vec<String>,
    /// Milliseconds since it was opened.
    pub age_ms: u64,
    /// Milliseconds since its last call was answered; null if no call was.
    pub idle_ms: Option<u64>,
    /// Answered calls.
    pub calls: u64,
    /// Those that were rejected, or answered with an error.
    pub errors: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
    /// Procedure of the last call; null if there was none.
    pub last: Option<String>,
    /// Procedure of the slowest call; null if there was none.
    pub slowest: Option<String>,
    /// Time of the slowest call, in milliseconds.
    pub slowest_ms: f64,
}

impl ServerClients {
    /// The connections, with the names of the volumes in the order of the start.
    pub(super) fn new(connected: Connected, names: &[String]) -> Self {
        let connections = connected.listed.into_iter().map(|one| client(one, names)).collect();
        Self { total: connected.total, connections }
    }
}

fn client(one: ConnectionCounts, names: &[String]) -> ClientConnection {
    let volumes = one.volumes.iter().filter_map(|&index| names.get(index).cloned());
    let (slowest, time) = one.slowest;
    let called = |name: &str| (one.calls > 0).then(|| name.to_ascii_lowercase());
    ClientConnection {
        connection: one.number,
        client: one.client.to_string(),
        volumes: volumes.collect(),
        age_ms: milliseconds(one.age),
        idle_ms: one.idle.map(milliseconds),
        calls: one.calls,
        errors: one.errors,
        received_bytes: one.received_bytes,
        sent_bytes: one.sent_bytes,
        last: called(one.last.name()),
        slowest: called(slowest.name()),
        slowest_ms: time.as_micros() as f64 / 1e3,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
