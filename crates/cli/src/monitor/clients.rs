//! `duramen clients`: the connections of a server.

use std::io::Write;

use serde_json::json;
use server::control::{ClientConnection, ServerClients};

use super::place::{ServerPlaces, ask_again};
use super::{MonitorArguments, show_duration};
use crate::failure::Failure;
use crate::size::show_size;

/// Prints the connections of a server.
///
/// # Errors
/// [`Failure`] if no server serves the volume.
pub(crate) fn run(arguments: &MonitorArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let MonitorArguments { server, json } = arguments;
    let socket = ServerPlaces::find(server)?.one_socket()?;
    let clients: ServerClients = ask_again(&socket, "/v1/server/clients")?;
    if *json {
        writeln!(output, "{:#}", json!(clients))?;
        return Ok(());
    }
    let titles =
        ["CLIENT", "VOLUMES", "OPEN", "IDLE", "CALLS", "ERRORS", "IN", "OUT", "LAST", "SLOWEST"];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(clients.connections.iter().map(row_of));
    write!(output, "{}", table(&rows))?;
    if clients.total > clients.connections.len() {
        let (total, listed) = (clients.total, clients.connections.len());
        writeln!(output, "{total} connections; the newest {listed} are listed")?;
    }
    Ok(())
}

fn row_of(one: &ClientConnection) -> [String; 10] {
    let none = || "-".to_owned();
    let slowest = one.slowest.as_ref().map(|name| format!("{name} {:.1} ms", one.slowest_ms));
    let volumes = if one.volumes.is_empty() { none() } else { one.volumes.join(",") };
    [
        one.client.clone(),
        volumes,
        show_duration(one.age_ms),
        one.idle_ms.map_or_else(none, show_duration),
        one.calls.to_string(),
        one.errors.to_string(),
        show_size(one.received_bytes),
        show_size(one.sent_bytes),
        one.last.clone().unwrap_or_else(none),
        slowest.unwrap_or_else(none),
    ]
}

/// Columns, each as wide as its widest cell; nothing behind the last.
pub(super) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["A", "B", "C"]), row(["longer", "x", "y"])];
        assert_eq!(table(&rows), "A       B  C\nlonger  x  y\n");
    }

    #[test]
    fn a_connection_without_a_call_has_dashes() {
        let one = ClientConnection {
            connection: 1,
            client: "10.0.0.1".to_owned(),
            volumes: Vec::new(),
            age_ms: 5_000,
            idle_ms: None,
            calls: 0,
            errors: 0,
            received_bytes: 0,
            sent_bytes: 0,
            last: None,
            slowest: None,
            slowest_ms: 0.0,
        };
        let row = row_of(&one).join(" ");
        assert_eq!(row, "10.0.0.1 - 5 s - 0 0 0 bytes 0 bytes - -");
    }
}
