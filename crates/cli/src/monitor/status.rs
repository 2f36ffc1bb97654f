//! `duramen status`: the health of servers and of their volumes.

use std::io::Write;

use serde_json::{Map, Value, json};
use server::control::{DeviceStatus, Health, ServerStatus, VolumeHealth, VolumeStatus};

use super::place::{FoundServers, MissingVolume, ServerPlaces};
use super::{MonitorArguments, show_duration};
use crate::failure::Failure;

/// A volume, and the server that has it.
struct Row {
    /// Process ID of the server; none if no server serves the volume.
    pid: Option<u32>,
    status: VolumeStatus,
}

/// Prints the health of servers and of their volumes.
///
/// # Errors
/// [`Failure::Unwell`] with the exit code if a volume is not well.
pub(crate) fn run(arguments: &MonitorArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let MonitorArguments { server, json } = arguments;
    let FoundServers { servers, missing } = ServerPlaces::find(server)?.look();
    let servers: Vec<ServerStatus> = servers.into_iter().map(|server| server.status).collect();
    let rows = rows(&servers, missing);
    let state = rows.iter().map(|row| row.status.health.state).max().unwrap_or_default();
    if *json {
        writeln!(output, "{:#}", object(&servers, &rows, state))?;
    } else {
        for server in &servers {
            let uptime = show_duration(server.uptime_ms);
            let ServerStatus { pid, connections, refusals, .. } = server;
            writeln!(
                output,
                "{:<16}pid {pid}, up {uptime}, {connections} connections, {refusals} refusals",
                "server"
            )?;
        }
        for row in &rows {
            writeln!(output, "{}", line_of(row))?;
        }
        for line in servers.iter().flat_map(|server| &server.devices).filter_map(line_of_device) {
            writeln!(output, "{line}")?;
        }
    }
    match state.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Unwell { code }),
    }
}

/// The volumes of all servers, and then those without a server.
fn rows(servers: &[ServerStatus], missing: Vec<MissingVolume>) -> Vec<Row> {
    let served = servers.iter().flat_map(|server| {
        let row = |status: &VolumeStatus| Row { pid: Some(server.pid), status: status.clone() };
        server.volumes.iter().map(row)
    });
    let stopped = missing.into_iter().map(|MissingVolume { name, reason, .. }| {
        let mut health = VolumeHealth::default();
        health.add(Health::Stopped, reason);
        Row { pid: None, status: VolumeStatus { volume: name, health, ..VolumeStatus::default() } }
    });
    served.chain(stopped).collect()
}

/// The JSON object: the facts about the server, if there is one and no other, and the volumes.
fn object(servers: &[ServerStatus], rows: &[Row], state: Health) -> Value {
    let mut object = match servers {
        [server] => map_of(json!(server)),
        _ => nulls_of(json!(ServerStatus::default())),
    };
    let volumes = rows.iter().map(|row| {
        let mut volume = map_of(json!(row.status));
        if row.pid.is_none() {
            let known = ["volume", "state", "reasons"];
            let unknown = volume.iter_mut().filter(|(key, _)| !known.contains(&key.as_str()));
            unknown.for_each(|(_, value)| *value = Value::Null);
        }
        volume.insert("pid".to_owned(), json!(row.pid));
        Value::Object(volume)
    });
    object.insert("volumes".to_owned(), volumes.collect());
    let devices = servers.iter().flat_map(|server| &server.devices);
    object.insert("devices".to_owned(), devices.map(|device| json!(device)).collect());
    object.insert("state".to_owned(), json!(state));
    Value::Object(object)
}

fn map_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("a struct is an object: {other}"),
    }
}

/// The keys of an object, without its values.
fn nulls_of(value: Value) -> Map<String, Value> {
    map_of(value).into_iter().map(|(key, _)| (key, Value::Null)).collect()
}

fn line_of(row: &Row) -> String {
    let VolumeStatus { volume, health, calls, errors, .. } = &row.status;
    let mut line = format!("{volume:<15} {}", health.state);
    if row.pid.is_some() {
        line.push_str(&format!(", {calls} calls, {errors} errors"));
    }
    if !health.reasons.is_empty() {
        line.push_str(": ");
        line.push_str(&health.reasons.join("; "));
    }
    line
}

/// A disk that has failed calls.
fn line_of_device(device: &DeviceStatus) -> Option<String> {
    let DeviceStatus { device, read, write, flush, .. } = device;
    let errors = [(read, "read"), (write, "write"), (flush, "flush")];
    let errors = errors.iter().filter(|(calls, _)| calls.errors > 0);
    let errors: Vec<String> =
        errors.map(|(calls, kind)| format!("{} {kind} errors", calls.errors)).collect();
    (!errors.is_empty()).then(|| format!("{:<15} {device}: {}", "disk", errors.join(", ")))
}

#[cfg(test)]
mod tests {
    use server::control::DeviceCallStatus;

    use super::*;

    #[test]
    fn a_volume_has_a_line_with_its_troubles() {
        let mut health = VolumeHealth::default();
        let row = |health| {
            let volume = "data".to_owned();
            let status =
                VolumeStatus { volume, health, calls: 7, errors: 1, ..VolumeStatus::default() };
            Row { pid: Some(7), status }
        };
        assert_eq!(line_of(&row(health.clone())), "data            ok, 7 calls, 1 errors");
        health.add(Health::Losses, "damage");
        health.add(Health::Degraded, "a disk is out");
        let expected = "data            losses, 7 calls, 1 errors: damage; a disk is out";
        assert_eq!(line_of(&row(health)), expected);
    }

    #[test]
    fn a_disk_is_named_if_calls_of_it_have_failed() {
        let failed = |errors| DeviceCallStatus { calls: 9, errors, ..DeviceCallStatus::default() };
        let (device, read, flush) = ("/dev/sdb".to_owned(), failed(2), failed(1));
        let device = DeviceStatus { device, read, flush, ..DeviceStatus::default() };
        let expected = "disk            /dev/sdb: 2 read errors, 1 flush errors";
        assert_eq!(line_of_device(&device).as_deref(), Some(expected));
        assert_eq!(
            line_of_device(&DeviceStatus { read: failed(0), ..DeviceStatus::default() }),
            None
        );
    }

    #[test]
    fn facts_of_a_server_are_null_if_there_is_none_or_more_than_one() {
        let server = |pid| {
            let volume = format!("of-{pid}");
            let volumes = vec![VolumeStatus { volume, ..VolumeStatus::default() }];
            ServerStatus { pid, volumes, ..ServerStatus::default() }
        };
        let of = |servers: &[ServerStatus], missing| {
            let rows = rows(servers, missing);
            object(servers, &rows, Health::Ok)
        };
        assert_eq!(of(&[server(5)], Vec::new())["pid"], 5);
        let both = of(&[server(5), server(6)], Vec::new());
        assert_eq!((&both["pid"], &both["uptime_ms"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&both["volumes"][1]["volume"], &both["volumes"][1]["pid"]),
            (&"of-6".into(), &6.into())
        );
        let (name, reason) = ("data".to_owned(), "no server".to_owned());
        let missing = MissingVolume { name, reason, has_failed: false };
        let none = of(&[], vec![missing]);
        assert!(none.as_object().is_some_and(|it| it.contains_key("pid")), "{none}");
        let volume = &none["volumes"][0];
        assert_eq!((&volume["state"], &volume["calls"]), (&"stopped".into(), &Value::Null));
    }
}
