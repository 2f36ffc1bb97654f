//! `duramen status`, `duramen clients` and `duramen top`: the look inside a running server, through
//! the control socket of one of its volumes. The server is asked for all of its volumes at once.

mod clients;
mod top;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::json;
use server::Config;
use server::config::VolumeSection;
use server::control::client::{self, AskError};
use server::control::{Health, ServerStatus, VolumeStatus};

use crate::configuration::DEFAULT_FILE;
use crate::failure::Failure;
use crate::order::body;
use crate::serve::export_name;
use crate::volume::Volume;

pub(crate) use clients::run as list_clients;
pub(crate) use top::{TopArguments, run as show_top};

pub(crate) const STATUS_HELP: &str = "\
Exit codes: 0 all volumes of the server are well; 1 a volume is degraded or being rebuilt; 2 a
volume has stopped, has lost data or has met damage, or no server serves VOLUME.

Examples:
  duramen status data
  duramen status data --json
  duramen status data > /dev/null || mail -s 'data needs help' root < /dev/null";

pub(crate) const CLIENTS_HELP: &str = "\
A server keeps these numbers for a connection as long as it is open. A client that has mounted a
volume and is idle may have none. The 1,000 newest connections are listed.

Example:
  duramen clients data";

pub(crate) const TOP_HELP: &str = "\
The times are the upper bounds within which half of the calls (P50) and 99 of 100 (P99) were
answered. On a terminal the table is refreshed until Ctrl-C; otherwise each report is a line for
each volume.

Examples:
  duramen top data
  duramen top data --json --count 60 > minute.jsonl";

/// The arguments of `duramen status` and `duramen clients`.
#[derive(Args, Debug)]
pub(crate) struct MonitorArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments that name a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArguments {
    /// Any volume of the server: see 'duramen --help' [default: those of the configuration]
    volume: Option<PathBuf>,
    /// Control socket of a bare disk that is served with the same option
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Configuration with the volumes, if no VOLUME is named [default: /etc/duramen/duramen.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "volume")]
    config: Option<PathBuf>,
}

/// A server that may be running.
#[derive(Clone, Debug)]
struct ServerPlace {
    /// Names of the volumes by which it is found.
    names: Vec<String>,
    /// Their control sockets.
    sockets: Vec<PathBuf>,
}

/// Prints the health of a server and of its volumes.
///
/// # Errors
/// [`Failure::Unwell`] with the exit code if a volume is not well.
pub(crate) fn show_status(
    arguments: &MonitorArguments,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let MonitorArguments { server, json } = arguments;
    let place = ServerPlace::find(server)?;
    let status = match place.ask_if_there::<ServerStatus>("/v1/server/status") {
        Ok(Some(status)) => status,
        Ok(None) => return say_stopped(&place, *json, output),
        // A server that does not answer is no degraded one.
        Err(failure) => {
            crate::words::say(format_args!("{failure}"));
            return as_exit_code(Health::Stopped);
        }
    };
    if *json {
        writeln!(output, "{:#}", json!(status))?;
    } else {
        let uptime = show_duration(status.uptime_ms);
        let (pid, connections) = (status.pid, status.connections);
        let refusals = status.refusals;
        writeln!(
            output,
            "{:<16}pid {pid}, up {uptime}, {connections} connections, {refusals} refusals",
            "server"
        )?;
        for volume in &status.volumes {
            writeln!(output, "{}", line_of(volume))?;
        }
    }
    as_exit_code(status.state)
}

fn say_stopped(place: &ServerPlace, is_json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let (state, reason) = (Health::Stopped, "no server serves it");
    if is_json {
        let volumes = place.names.iter();
        let volumes =
            volumes.map(|name| json!({ "volume": name, "state": state, "reasons": [reason] }));
        let volumes: Vec<_> = volumes.collect();
        writeln!(output, "{:#}", json!({ "state": state, "volumes": volumes }))?;
    } else {
        for name in &place.names {
            writeln!(output, "{name:<15} {state}: {reason}")?;
        }
    }
    as_exit_code(state)
}

fn line_of(volume: &VolumeStatus) -> String {
    let VolumeStatus { volume, health, calls, errors, .. } = volume;
    let mut line = format!("{volume:<15} {}, {calls} calls, {errors} errors", health.state);
    if !health.reasons.is_empty() {
        line.push_str(": ");
        line.push_str(&health.reasons.join("; "));
    }
    line
}

fn as_exit_code(state: Health) -> Result<(), Failure> {
    match state.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Unwell { code }),
    }
}

impl ServerPlace {
    /// Finds the sockets of a server.
    fn find(arguments: &ServerArguments) -> Result<Self, Failure> {
        let ServerArguments { volume, control, config } = arguments;
        if let Some(path) = volume {
            let socket = socket_of(path, control.as_deref())?;
            return Ok(Self { names: vec![export_name(path)?], sockets: vec![socket] });
        }
        let file = config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let volumes = Config::read(file)?.volumes;
        if volumes.is_empty() {
            let file = file.display();
            let sentence = format!("name a VOLUME: {file} has no section [volumes.NAME]");
            return Err(Failure::Usage(sentence));
        }
        let socket = |section: &VolumeSection| {
            section.control.clone().or_else(|| Volume::find(&section.path).ok()?.socket())
        };
        let sockets = volumes.values().filter_map(socket).collect();
        Ok(Self { names: volumes.into_keys().collect(), sockets })
    }

    /// Asks the server; returns nothing if there is none.
    fn ask_if_there<T: DeserializeOwned>(&self, route: &str) -> Result<Option<T>, Failure> {
        for socket in &self.sockets {
            if let Some(answer) = ask(socket, route)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Asks the server, for a command that needs one.
    fn ask<T: DeserializeOwned>(&self, route: &str) -> Result<T, Failure> {
        self.ask_if_there(route)?.ok_or_else(|| Failure::NotDone {
            path: self.names.join(", ").into(),
            why: "no server serves it".to_owned(),
        })
    }
}

/// The control socket of a volume.
fn socket_of(volume: &Path, control: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(control) = control {
        return Ok(control.to_owned());
    }
    Volume::find(volume)?.socket().ok_or_else(|| {
        let sentence = "a bare disk has no socket of its own: name the one of 'duramen serve' with \
                        --control";
        Failure::Usage(sentence.to_owned())
    })
}

/// Asks a server; returns nothing if there is none.
fn ask<T: DeserializeOwned>(socket: &Path, route: &str) -> Result<Option<T>, Failure> {
    match client::get(socket, route) {
        Ok(answer) => body(socket, &answer).map(Some),
        Err(AskError::Nobody(_)) => Ok(None),
        Err(error @ AskError::Failed { .. }) => {
            Err(Failure::Control { path: socket.to_owned(), why: error.to_string() })
        }
    }
}

/// A time for people, in its largest unit.
fn show_duration(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use server::control::VolumeHealth;

    use super::*;

    #[test]
    fn a_volume_has_a_line_with_its_troubles() {
        let mut health = VolumeHealth::default();
        let volume = |health| VolumeStatus {
            volume: "data".to_owned(),
            health,
            calls: 7,
            errors: 1,
            ..VolumeStatus::default()
        };
        assert_eq!(line_of(&volume(health.clone())), "data            ok, 7 calls, 1 errors");
        health.add(Health::Losses, "damage");
        health.add(Health::Degraded, "a disk is out");
        let expected = "data            losses, 7 calls, 1 errors: damage; a disk is out";
        assert_eq!(line_of(&volume(health)), expected);
    }

    #[test]
    fn times_are_shown_in_the_largest_unit() {
        let times = [0, 119_999, 120_000, 7_199_999, 7_200_000, 172_800_000];
        let shown = ["0 s", "119 s", "2 min", "119 min", "2 h", "2 d"];
        assert_eq!(times.map(show_duration), shown);
    }
}
