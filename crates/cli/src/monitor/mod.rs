//! `duramen status`, `duramen clients` and `duramen top`: the look inside a running server, through
//! the control socket of one of its volumes. The server is asked for all of its volumes at once.

mod clients;
mod place;
mod status;
mod top;

use std::path::PathBuf;

use clap::Args;

pub(crate) use clients::run as list_clients;
pub(crate) use status::run as show_status;
pub(crate) use top::{TopArguments, run as show_top};

pub(crate) const STATUS_HELP: &str = "\
Without VOLUME, each volume of the configuration is looked for under its own name: one that no
server has under that name is stopped.

Exit codes: 0 all volumes are well; 1 a volume is degraded or being rebuilt; 2 a volume has stopped,
has lost data or has met damage, no server serves it, or its server does not answer.

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
    use super::*;

    #[test]
    fn times_are_shown_in_the_largest_unit() {
        let times = [0, 119_999, 120_000, 7_199_999, 7_200_000, 172_800_000];
        let shown = ["0 s", "119 s", "2 min", "119 min", "2 h", "2 d"];
        assert_eq!(times.map(show_duration), shown);
    }
}
