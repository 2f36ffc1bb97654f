//! `duramen bench`: measures an NFS server, ours or another.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::report::{self, Report};
use bench::session::{self, Order, Piece};
use bench::target::Target;
use clap::Args;
use load::stage::{Plan, Ramp};
use load::workload::{self, Workload};
use server::reactor;

use crate::failure::Failure;
use crate::size::parse_size;

/// The arguments of `duramen bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Server and export: nfs://HOST[:PORT]/EXPORT
    #[arg(value_name = "TARGET")]
    target: String,
    /// Workloads to run [default: all workloads of one or two procedures]
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also write a chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
    /// Outstanding calls per connection
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=32))]
    depth: u16,
    /// Duration of each workload
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,
    /// Maximum number of operations per workload; REMOVE and RMDIR create this many objects first
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    count: u64,
    /// Operations per second, started on schedule (open loop) [default: as fast as the server
    /// replies]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Number of directories to spread the files over
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    directories: u64,
    /// Size of the file that each connection reads or writes
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    file_size: u64,
    /// Shell command to run between preparation and measurement of each workload of one or two
    /// procedures. If it fails, the workload is skipped
    #[arg(long, value_name = "COMMAND", conflicts_with = "replay")]
    prepared: Option<String>,
    /// Keep the files that were created in the export
    #[arg(long)]
    keep: bool,
    /// First rate of a workload with rising rates, in calls per second
    #[arg(long, value_name = "RATE", default_value_t = 500.0)]
    ramp_from: f64,
    /// Last rate [default: until the server is saturated]
    #[arg(long, value_name = "RATE")]
    ramp_to: Option<f64>,
    /// Number of rates from the first to the last
    #[arg(long, value_name = "N", default_value_t = 10, requires = "ramp_to")]
    ramp_points: usize,
    /// Maximum size of a file set that grows with the rate
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    file_set_max: u64,
    /// Replay a trace recorded by 'duramen serve --trace' instead of workloads
    #[arg(long, value_name = "FILE", conflicts_with = "workloads")]
    replay: Option<PathBuf>,
    /// Replay speed relative to the recording; 0 means as fast as dependencies allow
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, requires = "replay")]
    speed: f64,
    /// Seed of the random number generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Port of the MOUNT service [default: the NFS port, or as the portmapper says]
    #[arg(long, value_name = "PORT")]
    mount_port: Option<u16>,
    /// Use a source port below 1024, which some servers require
    #[arg(long)]
    privileged: bool,
    /// User ID of the caller
    #[arg(long, value_name = "ID", default_value_t = 0)]
    uid: u32,
    /// Group ID of the caller
    #[arg(long, value_name = "ID", default_value_t = 0)]
    gid: u32,
}

/// Help text printed below the options.
pub(crate) fn after_help() -> String {
    let mut text = String::from("Workloads:\n");
    for Workload { name, about, .. } in workload::ALL.iter().chain(&workload::COMPOUND) {
        text.push_str(&format!("  {name:<16} {about}\n"));
    }
    text.push_str(
        "
Each workload runs in its own directory in the export, 'duramen-bench-...', and removes it
afterwards. The exit code is 1 if a call failed or something could not be removed. docs/bench.md
describes the workloads and the method.

Examples:
  duramen bench nfs://127.0.0.1/data
  duramen bench nfs://server/export create remove --connections 16 --depth 32 --directories 16
  duramen bench nfs://server/export getattr --rate 5000 --json
  duramen bench nfs://server/export laddis --svg curve.svg
  duramen bench nfs://server/export --replay load.trace --speed 2",
    );
    text
}

/// Runs the benchmark and prints its report.
///
/// # Errors
/// [`Failure`] if there was nothing to measure, or a call failed.
pub(crate) fn run(arguments: &BenchArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let order = order(arguments)?;
    let measured = reactor::block_on(|runtime| session::run(&order, runtime));
    let report = measured.map_err(Failure::Start)?.map_err(Box::new)?;
    show(arguments, &report, output)?;
    output.flush()?;
    match (report.errors(), report.troubles.len()) {
        (0, 0) => Ok(()),
        (errors, troubles) => Err(Failure::Bench { errors, troubles }),
    }
}

fn show(
    arguments: &BenchArguments,
    report: &Report,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.svg {
        report::plot(report, path)?;
    }
    if arguments.json {
        serde_json::to_writer_pretty(&mut *output, report).map_err(std::io::Error::from)?;
        writeln!(output)?;
    } else {
        output.write_all(report::table(report).as_bytes())?;
    }
    Ok(())
}

fn order(arguments: &BenchArguments) -> Result<Order, Failure> {
    let usage = |sentence: String| Failure::Usage(sentence);
    let target: Target = arguments.target.parse().map_err(|bad| usage(format!("{bad}")))?;
    let named = |name: &String| {
        let sentence = || format!("there is no workload '{name}'; 'duramen bench --help' has all");
        Workload::named(name).ok_or_else(|| usage(sentence()))
    };
    let pieces = match (&arguments.replay, &arguments.workloads[..]) {
        (Some(path), _) => vec![recorded(path, arguments.speed)?],
        (None, []) => workload::ALL.map(Piece::Workload).to_vec(),
        (None, names) => {
            let named = names.iter().map(|name| named(name).map(Piece::Workload));
            named.collect::<Result<_, _>>()?
        }
    };
    let seconds = positive("--seconds", arguments.seconds)?;
    let rate = arguments.rate.map(|rate| positive("--rate", rate)).transpose()?;
    let plan = Plan {
        connections: arguments.connections.into(),
        depth: arguments.depth.into(),
        duration: Some(Duration::from_secs_f64(seconds)),
        count: arguments.count,
        rate,
        directories: arguments.directories,
        file_size: arguments.file_size,
        ramp: Ramp {
            first: positive("--ramp-from", arguments.ramp_from)?,
            last: arguments.ramp_to.map(|rate| positive("--ramp-to", rate)).transpose()?,
            points: arguments.ramp_points,
        },
        file_set_max: arguments.file_set_max,
        seed: arguments.seed,
    };
    Ok(Order {
        target,
        pieces,
        plan,
        mount_port: arguments.mount_port,
        is_privileged: arguments.privileged,
        user: (arguments.uid, arguments.gid),
        prepared: arguments.prepared.clone(),
        keeps: arguments.keep,
        shows_progress: true,
    })
}

/// Reads a recorded trace.
fn recorded(path: &Path, speed: f64) -> Result<Piece, Failure> {
    let unreadable = |source| Failure::File { verb: "read", path: path.to_owned(), source };
    let file = std::fs::read(path).map_err(unreadable)?;
    let damaged = |source| Failure::Trace { path: path.to_owned(), source };
    let entries = trace::read(&file.into()).map_err(damaged)?;
    let speed = if speed == 0.0 { None } else { Some(positive("--speed", speed)?) };
    Ok(Piece::Replay(entries, speed))
}

fn positive(option: &str, value: f64) -> Result<f64, Failure> {
    match value {
        value if value > 0.0 && value <= 1e9 => Ok(value),
        value => Err(Failure::Usage(format!("{option} {value} is not a number above zero"))),
    }
}
