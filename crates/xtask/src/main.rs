//! `cargo xtask CHORE`: the library describes the chores.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use xtask::guest::{self, Guest, Mount};
use xtask::scale::openings::{self, Plan as Openings};
use xtask::{
    Repository, Result, bench_test, client_test, flame, lab, mutants, program, race, raid_race,
    scale, setup, test, tidy,
};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Installs what the tests need (Debian packages, one Python library)
    Setup,
    /// Runs everything that a change must pass, and prints the totals
    Test(Test),
    /// Checks the repository itself: lengths, crate edges, dead files, banned words and more
    Tidy,
    /// Feeds damaged bytes to the decoders; with --help after it, says how
    #[command(disable_help_flag = true)]
    Fuzz(ProgramArguments),
    /// Breaks disk, power and network under a server, in campaigns; with --help after it, says how
    #[command(disable_help_flag = true)]
    Torture(ProgramArguments),
    /// Breaks the sources that keep the promise, one small change at a time: do the tests notice?
    Mutants(Mutants),
    /// Serves a volume to the real Linux client, treats it roughly, and judges the disk
    ClientTest(ClientTest),
    /// Measures our server, nfs-ganesha, and one that does nothing, in short
    BenchTest,
    /// Runs the papers' experiments, and writes the figures and pictures of docs/lab.md anew
    Lab,
    /// Our server against nfs-ganesha on XFS mounted wsync, on devices of the same kind. Needs root
    Race(Race),
    /// A set of disks against what its disks do, and against btrfs. Needs root
    RaidRace(RaidRace),
    /// A volume of 1 TiB with many files, and a large directory, against small ones
    Scale(Scale),
    /// Draw where the server's processor time goes, as flame graphs. Needs perf
    Flame(Flame),
    /// Boots a Linux guest and runs a script in it, in the mount of a server of this machine
    Guest(GuestArguments),
}

#[derive(Args)]
struct Test {
    /// Play all campaigns in full, all scenarios and measurements: some hours
    #[arg(long)]
    full: bool,
    /// Seed of what is drawn [default: from the hash of the commit]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

#[derive(Args)]
struct ClientTest {
    /// Ten times as much of everything
    #[arg(long)]
    full: bool,
    /// Show what the guest prints while it runs
    #[arg(long)]
    verbose: bool,
    /// Keep the volume and the server's log, and say where they are
    #[arg(long)]
    keep: bool,
    /// Run only the scenarios of these names (the disk is judged in any case)
    scenarios: Vec<String>,
}

#[derive(Args)]
struct Mutants {
    /// Only in what has changed since this commit, new files once git knows them
    #[arg(long, value_name = "COMMIT")]
    diff: Option<String>,
    /// Only in this part, such as journal or ffs/policy (may be repeated)
    #[arg(long = "crate", value_name = "NAME")]
    areas: Vec<String>,
    /// Of each part only so many
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Draw another sample
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Of those only every Nth, from the Kth on
    #[arg(long, value_name = "K/N")]
    shard: Option<mutants::Shard>,
    /// Try only the quickest tests of each part: what they miss others may notice
    #[arg(long)]
    first: bool,
    /// Name them, and try none
    #[arg(long)]
    list: bool,
}

#[derive(Args)]
struct Race {
    /// How often each contestant is measured, by turns
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// For how long each time
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// One round, short, to see that it works; writes no page
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "output"])]
    quick: bool,
    /// Where to make the files of the devices, 18 GiB [default: where cargo builds]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The page to write [default: docs/benchmarks.md]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only rows whose names have this in them; writes a page only if it is told where
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Race this engine against ours with policy 'log', and nfs-ganesha on btrfs
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
}

#[derive(Args)]
struct RaidRace {
    /// How often each is measured, by turns
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// For how long to overwrite each time
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// One round of little, to see that it works
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
    /// Where to make the files of the devices, 4 GiB [default: where cargo builds]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print a list for programs, not a table
    #[arg(long)]
    json: bool,
    /// A page of which the part about sets is written, such as docs/benchmarks.md
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct Scale {
    /// Files on the large volume
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    files: u64,
    /// Entries of the large directory
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    entries: u64,
    /// For how long each procedure is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,
    /// MiB of memory that the server may keep
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    cache: u32,
    /// Measure how soon a server of this engine, which has snapshots, answers after a kill
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// With --engine: snapshots on the large volume
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    snapshots: u64,
    /// With --engine: how often each server is killed
    #[arg(long, value_name = "N", default_value_t = 5)]
    starts: usize,
    /// Where to make the volumes, some GiB [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// A program to measure, in the place of one that is built
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Args)]
struct Flame {
    /// For how long each kind of call is sampled
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// The folder of the pictures [default: docs/flame]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct ProgramArguments {
    /// What to do and how, for the program that does it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Args)]
struct GuestArguments {
    /// The server's port on 127.0.0.1, for MOUNT and NFS alike
    #[arg(long, default_value_t = 20490)]
    port: u16,
    /// The path that the server exports
    #[arg(long, default_value = "/")]
    export: String,
    /// Mount nothing
    #[arg(long)]
    no_mount: bool,
    /// A further mount option, such as soft or wsize=8192 (may be repeated)
    #[arg(long = "option", value_name = "OPTION")]
    options: Vec<String>,
    /// A disk image to mount read-only at /run/ufs with the kernel's own UFS driver
    #[arg(long, value_name = "IMAGE")]
    disk: Option<PathBuf>,
    /// A folder to give to the guest, writable, at /run/share
    #[arg(long, value_name = "FOLDER")]
    share: Option<PathBuf>,
    /// End the guest after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    time_limit: u64,
    /// The script, a program of the host
    script: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let done = Repository::here().and_then(|repository| carry_out(&repository));
    done.unwrap_or_else(|failure| {
        eprintln!("xtask: {failure}");
        ExitCode::FAILURE
    })
}

fn carry_out(repository: &Repository) -> Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Setup => setup::all(repository).map(|()| ExitCode::SUCCESS),
        Chore::Test(Test { full, seed }) => {
            test::run(repository, &test::Plan { full, seed }).map(passed)
        }
        Chore::Tidy => tidy::run(repository).map(passed),
        Chore::Fuzz(ProgramArguments { arguments }) => {
            program::fuzz(repository, &arguments).map(|()| ExitCode::SUCCESS)
        }
        Chore::Torture(ProgramArguments { arguments }) => {
            program::torture(repository, &arguments).map(|()| ExitCode::SUCCESS)
        }
        Chore::ClientTest(ClientTest { full, verbose, keep, scenarios }) => {
            let plan = client_test::Plan {
                full,
                verbose,
                keep,
                scenarios,
                ..client_test::Plan::default()
            };
            let totals = client_test::run(repository, &plan)?;
            println!("{totals}");
            Ok(passed(totals.failed == 0))
        }
        Chore::BenchTest => {
            let totals = bench_test::run(repository)?;
            println!("{totals}");
            Ok(passed(totals.failed == 0))
        }
        Chore::Mutants(Mutants { diff, areas, sample, seed, shard, first, list }) => {
            let plan = mutants::Plan { diff, areas, sample, seed, shard, first, list };
            mutants::run(repository, &plan).map(passed)
        }
        Chore::Lab => lab::write(repository).map(|()| ExitCode::SUCCESS),
        Chore::Race(arguments) => {
            race::run(repository, &race_plan(repository, arguments)).map(passed)
        }
        Chore::RaidRace(RaidRace { rounds, seconds, quick, folder, json, output }) => {
            let (rounds, seconds) = if quick { (1, 0.3) } else { (rounds, seconds) };
            let plan = raid_race::Plan { rounds, seconds, quick, folder, json, output };
            raid_race::run(repository, &plan).map(passed)
        }
        Chore::Flame(Flame { seconds, output }) => {
            let output = output.unwrap_or_else(|| repository.root().join("docs/flame"));
            flame::run(repository, &flame::Plan { seconds, output }).map(|()| ExitCode::SUCCESS)
        }
        Chore::Scale(arguments) => run_scale(repository, arguments).map(passed),
        Chore::Guest(arguments) => run_guest(arguments),
    }
}

fn run_scale(repository: &Repository, arguments: Scale) -> Result<bool> {
    let Scale { files, entries, seconds, cache, folder, program, .. } = arguments;
    let Scale { snapshots, starts, .. } = arguments;
    match arguments.engine {
        Some(engine) => {
            let plan = Openings { engine, files, snapshots, starts, cache, folder, program };
            openings::run(repository, &plan)
        }
        None => {
            let plan = scale::Plan { files, entries, seconds, cache, folder, program };
            scale::run(repository, &plan)
        }
    }
}

fn passed(all: bool) -> ExitCode {
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn race_plan(repository: &Repository, arguments: Race) -> race::Plan {
    let Race { rounds, seconds, quick, folder, output, only, engine } = arguments;
    let usual = (!quick && only.is_none()).then(|| repository.root().join("docs/benchmarks.md"));
    let (rounds, seconds) = if quick { (1, 0.2) } else { (rounds, seconds) };
    race::Plan { rounds, seconds, quick, folder, output: output.or(usual), only, engine }
}

fn run_guest(arguments: GuestArguments) -> Result<ExitCode> {
    let GuestArguments { port, export, options, .. } = arguments;
    let guest = Guest {
        script: arguments.script,
        arguments: arguments.arguments,
        mount: (!arguments.no_mount).then_some(Mount { port, export, options }),
        disk: arguments.disk,
        share: arguments.share,
        time_limit: Duration::from_secs(arguments.time_limit),
    };
    let mut running = guest::start(&guest)?;
    while let Some(line) = running.next_line()? {
        println!("{line}");
    }
    let status = running.finish()?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}
