//! State of an NVRAM, as `duramen nvram status` prints it, and as `nvram` in `duramen info`.

use std::fmt::{self, Write};
use std::path::PathBuf;

use nvram::health::Health;
use serde::{Deserialize, Serialize};
use server::control::{Health as Judged, VolumeHealth};
use server::metrics::{Metric, Page};

use super::Front;
use super::lower::LowerStatus;
use super::twins::{CopyState, CopyStatus};
use crate::size::show_size;

static UP: Metric = Metric::gauge(
    "duramen_nvram_up",
    "Whether writes are durable in the NVRAM: 1, or 0 if they go to the disks.",
);
static DIRTY: Metric =
    Metric::gauge("duramen_nvram_dirty_bytes", "Bytes in the NVRAM that are not on the disks.");
static SIZE: Metric = Metric::gauge("duramen_nvram_size_bytes", "Size of the NVRAM.");
static LOST: Metric = Metric::gauge("duramen_nvram_lost_bytes", "Bytes that the NVRAM has lost.");
static WRITES: Metric = Metric::counter(
    "duramen_nvram_writes_total",
    "Writes to the NVRAM: to a dirty or a clean block, to a new one, or passed by it.",
);
static WRITE_BACKS: Metric = Metric::counter(
    "duramen_nvram_write_backs_total",
    "Blocks of the NVRAM that were written to the disks.",
);

/// State of an NVRAM. The names are those of the JSON object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    state: State,
    /// The reason for state `error`, or why the volume is served without it.
    pub(super) error: Option<String>,
    kind: Kind,
    pub(super) survives_power: Option<bool>,
    pub(super) battery: Battery,
    size_bytes: u64,
    paths: Vec<PathBuf>,
    /// State of each of two, in the order of `paths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) copies: Vec<CopyStatus>,
    pub(super) dirty_bytes: u64,
    pinned_bytes: u64,
    lost_bytes: u64,
    dirty_hits: u64,
    clean_hits: u64,
    allocations: u64,
    passes: u64,
    write_backs: u64,
    /// The log device in it.
    lower: Option<LowerStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Writes are durable in the NVRAM.
    Up,
    /// Writes go to the disks.
    Down,
    /// The NVRAM or its battery has failed, and writes go to the disks.
    Error,
    /// Nothing is acknowledged any more.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Persistent memory, mapped.
    Pmem,
    /// Any other file or device.
    File,
}

/// State of the battery, as the host tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Battery {
    Ok,
    Low,
    Unknown,
}

impl fmt::Display for Battery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ok => "ok",
            Self::Low => "low",
            Self::Unknown => "unknown",
        })
    }
}

/// Why a battery is not trusted, if it is not.
fn distrust(health: Option<&Health>, front: &Front) -> Option<String> {
    let path = front.health.as_ref().map_or_else(String::new, |path| path.display().to_string());
    match health? {
        Health::Good => None,
        Health::Low => Some("the battery is low, so writes go to the disks".to_owned()),
        Health::Bad(why) => Some(format!(
            "nothing is known of the battery, so writes go to the disks: {path}: {why}"
        )),
    }
}

fn has_lower_failed(front: &Front) -> bool {
    front.lower.as_ref().is_some_and(|lower| lower.has_failed())
}

impl Status {
    /// State of an open one.
    pub(crate) fn of(front: &Front) -> Self {
        Self::with_reading(front, None)
    }

    /// The same for a volume without a server, which reads nothing of the battery.
    pub(crate) async fn look(front: &Front) -> Self {
        Self::with_reading(front, front.read_health().await)
    }

    fn with_reading(front: &Front, read: Option<Health>) -> Self {
        let status = front.nvram().map(|nvram| nvram.status());
        let health = status.as_ref().and_then(|status| status.health.clone()).or(read);
        let distrust = distrust(health.as_ref(), front).filter(|_| status.is_some());
        let (state, error) = match &status {
            Some(status) if status.has_failed => {
                let why = "it or the disks have failed, and nothing is acknowledged any more: \
                           restart the server, which finds what they still have, or says what is \
                           missing";
                (State::Failed, Some(why.to_owned()))
            }
            Some(status) if status.is_retired => {
                let why = "it cannot be written; the disks have everything, and writes go there: \
                           replace it";
                (State::Error, Some(why.to_owned()))
            }
            Some(_) if distrust.is_some() => (State::Error, distrust),
            Some(status) if !status.is_down && has_lower_failed(front) => {
                let why = "its log device cannot be written, and the disks get the set's log";
                (State::Error, Some(why.to_owned()))
            }
            Some(status) if !status.is_down => (State::Up, None),
            _ => (State::Down, front.absence().map(str::to_owned)),
        };
        let status = status.unwrap_or_default();
        let counts = status.counts;
        Self {
            state,
            error,
            kind: front.kind,
            survives_power: front.survives_power,
            battery: match health {
                Some(Health::Good) => Battery::Ok,
                Some(Health::Low) => Battery::Low,
                Some(Health::Bad(_)) | None => Battery::Unknown,
            },
            size_bytes: status.size_bytes,
            paths: front.paths.clone(),
            copies: front.copies(),
            dirty_bytes: status.dirty_bytes,
            pinned_bytes: status.pinned_bytes,
            lost_bytes: status.lost_bytes,
            dirty_hits: counts.dirty_hits,
            clean_hits: counts.clean_hits,
            allocations: counts.allocations,
            passes: counts.passes,
            write_backs: counts.write_backs,
            lower: front.lower.as_ref().map(|lower| lower.status()),
        }
    }

    /// Adds the troubles of the NVRAM.
    pub(crate) fn judge(&self, health: &mut VolumeHealth) {
        // Any other trouble leaves the volume in service, on its disks.
        let judged = if self.state == State::Failed { Judged::Stopped } else { Judged::Degraded };
        if let Some(error) = &self.error {
            health.add(judged, format!("NVRAM: {error}"));
        }
        if self.copies.iter().any(|copy| copy.state != CopyState::In) {
            health.add(Judged::Degraded, "one of two NVRAMs is not used");
        }
        if self.lost_bytes > 0 {
            health.add(Judged::Losses, "the NVRAM has lost data");
        }
    }

    /// Adds the metrics of the NVRAM.
    pub(crate) fn measure(&self, volume: &str, page: &mut Page) {
        let labels = [("volume", volume)];
        page.add(&UP, &labels, u64::from(self.is_up()));
        page.add(&SIZE, &labels, self.size_bytes);
        page.add(&DIRTY, &labels, self.dirty_bytes);
        page.add(&LOST, &labels, self.lost_bytes);
        page.add(&WRITE_BACKS, &labels, self.write_backs);
        for (kind, count) in [
            ("dirty", self.dirty_hits),
            ("clean", self.clean_hits),
            ("new", self.allocations),
            ("passed", self.passes),
        ] {
            page.add(&WRITES, &[labels[0], ("kind", kind)], count);
        }
    }

    /// Whether writes are durable in the NVRAM.
    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Whether nothing has changed of which the log tells.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let told = |it: &Self| (it.state, it.error.clone(), it.battery);
        told(self) == told(other)
    }

    /// The log's words for a change to this state.
    pub(super) fn change(&self) -> String {
        match (self.state, &self.error) {
            (State::Up, _) => format!("up, battery {}", self.battery),
            (State::Down, _) => "down: writes go to the disks".to_owned(),
            (State::Error | State::Failed, error) => error.clone().unwrap_or_default(),
        }
    }

    /// Summary in one line.
    pub(crate) fn summary(&self) -> String {
        let state = match self.state {
            State::Up => "up",
            State::Down => "down",
            State::Error => "error",
            State::Failed => "failed",
        };
        let (size, dirty) = (show_size(self.size_bytes), show_size(self.dirty_bytes));
        let mut text = format!("{state}, {size}, {dirty} dirty");
        if self.lost_bytes > 0 {
            let _ = write!(text, ", {} lost", show_size(self.lost_bytes));
        }
        if let Some(error) = &self.error {
            let _ = write!(text, ", {error}");
        }
        if self.copies.iter().any(|copy| copy.state != CopyState::In) {
            text.push_str(", one of two is not used");
        }
        text
    }

    /// Description in lines for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<16}{value}"); // writing to a string cannot fail
        };
        line("state", self.summary());
        for (at, path) in self.paths.iter().enumerate() {
            let copy = self.copies.get(at).map_or_else(String::new, CopyStatus::describe);
            line("path", format!("{}{copy}", path.display()));
        }
        let survives = match self.survives_power {
            Some(true) => "yes",
            Some(false) => "no: it is in memory of the host",
            None => "unknown",
        };
        line("survives power", survives.to_owned());
        line("battery", self.battery.to_string());
        if self.pinned_bytes > 0 {
            line("pinned", format!("{} of the log", show_size(self.pinned_bytes)));
        }
        if let Some(LowerStatus { size_bytes, records }) = self.lower {
            line("log device", format!("{}, {records} records", show_size(size_bytes)));
        }
        let counts = [
            (self.dirty_hits, "writes to dirty blocks"),
            (self.clean_hits, "to clean blocks"),
            (self.allocations, "buffers taken"),
            (self.passes, "large writes passed by"),
            (self.write_backs, "blocks written back"),
        ];
        let counts: Vec<String> =
            counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        line("since the start", counts.join(", "));
        text
    }
}
