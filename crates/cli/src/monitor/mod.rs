//! `duramen status`, `duramen clients` and `duramen top`: the look inside a running server, through
//! the control socket of one of its volumes. The server is asked for all of its volumes at once.

mod clients;
mod top;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::json;
use server::control::client::{self, AskError};
use server::control::{Health, ServerStatus, VolumeStatus};

use crate::failure::Failure;
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
    /// Any volume of the server: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Control socket of a bare disk that is served with the same option
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Prints the health of a server and of its volumes.
///
/// # Errors
/// [`Failure::Unwell`] with the exit code if a volume is not well.
pub(crate) fn show_status(
    arguments: &MonitorArguments,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let MonitorArguments { volume, json, control } = arguments;
    let socket = socket_of(volume, control.as_deref())?;
    let Some(status) = ask::<ServerStatus>(&socket, "/v1/server/status")? else {
        return say_stopped(volume, *json, output);
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

fn say_stopped(volume: &Path, is_json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let (name, state, reason) = (export_name(volume)?, Health::Stopped, "no server serves it");
    if is_json {
        let volumes = json!([{ "volume": name, "state": state, "reasons": [reason] }]);
        writeln!(output, "{:#}", json!({ "state": state, "volumes": volumes }))?;
    } else {
        writeln!(output, "{name:<15} {state}: {reason}")?;
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
    let refused = |why: String| Failure::Control { path: socket.to_owned(), why };
    let answer = match client::get(socket, route) {
        Ok(answer) => answer,
        Err(AskError::Nobody(_)) => return Ok(None),
        Err(error @ AskError::Failed { .. }) => return Err(refused(error.to_string())),
    };
    if answer.status != 200 {
        return Err(refused(answer.error().unwrap_or_else(|| "it does not say why".to_owned())));
    }
    let answer = serde_json::from_str(&answer.body);
    answer.map(Some).map_err(|_| refused("its answer is of another version".to_owned()))
}

/// As [`ask`], for a command that needs a server.
fn ask_server<T: DeserializeOwned>(
    volume: &Path,
    socket: &Path,
    route: &str,
) -> Result<T, Failure> {
    ask(socket, route)?.ok_or_else(|| Failure::NotDone {
        path: volume.to_owned(),
        why: "no server serves it".to_owned(),
    })
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
