//! `duramen`: the program that people run.
//!
//! # Layers
//! - a file for each command: its arguments, its work, its output;
//! - `choice`: the words that choose a design; the designs are in the crate `designs`;
//! - `log`: the log of a volume; `redo_log`: the parts of it that only `ffs` has;
//! - `volume`: the VOLUME of a command line, and how it is opened;
//! - `signature`: existing contents of a disk; `size`, `calendar`: numbers and dates for people;
//! - `failure`: errors, as sentences that say where, and what to do;
//! - `words`: standard error, which never blocks or ends the program.
//!
//! # Contract
//! Requested output goes to standard output, everything else to standard error. Exit codes: 0 for
//! success, 1 for failure, 2 for an invalid command line; `fsck` has those of fsck(8). Existing
//! data is never overwritten without `--force`, and a command that fails removes whatever it had
//! created. A pipe that its reader closes early is no failure.

mod bench;
mod browse;
mod calendar;
mod choice;
mod configuration;
mod engine;
mod error_counts;
mod exports;
mod failure;
mod folder;
mod found;
mod front;
mod fsck;
mod held_folder;
mod info;
mod intents;
mod log;
mod losses;
mod make_set;
mod making;
mod members;
mod membership;
mod memory;
mod mkfs;
mod mkfs_arguments;
mod monitor;
mod nvram_command;
mod occupied;
mod order;
mod partitions;
mod probe;
mod readable;
mod reader;
mod redo_log;
mod root_directory;
mod saved;
mod scrub;
mod serve;
mod set_state;
mod sets;
mod settings_edit;
mod sharing;
mod shown;
mod signature;
mod size;
mod snapshots;
mod stack;
mod toml_list;
mod tune;
mod volume;

mod wanted;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use mimalloc::MiMalloc;
use runtime::Runtime;

/// Calls are short and allocate dozens of small pieces of memory; the system's allocator would take
/// a quarter of their time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// An NFS file server that answers only when the data is on stable storage.
#[derive(Debug, Parser)]
#[command(name = "duramen", version, after_long_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
VOLUME is one of:
  a folder       made by 'duramen mkfs': disk.img holds the file system, volume.toml its settings,
                 log.img its log, intents.img the calls in progress
  an image file  holding a file system: UFS2 from any system, or engine 'shadow'
  a device       holding one, such as /dev/sdb1

Examples:
  duramen mkfs data --size 100G      create a volume in the new folder 'data'
  duramen serve data                 serve it on 127.0.0.1:2049
  duramen info data                  show its size, settings and state
  duramen status data                tell whether its server and its volumes are well
  duramen ls -l data /home           list a directory in it
  duramen info --json freebsd.img    describe a disk image from FreeBSD
  duramen mkfs /dev/sdb1             create a file system on a device
  duramen fsck data --repair         check it and repair any damage
  duramen scrub data                 verify all checksums and list damaged files
  duramen tune data --policy sync    choose another write policy
  duramen snapshot create data now   take a snapshot named 'now'
  duramen bench nfs://127.0.0.1/data measure a server

Exit codes: 0 success; 1 failure; 2 usage error. 'duramen fsck', 'duramen status' and 'duramen raid
status' have exit codes of their own: see their --help.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a new, empty volume
    #[command(after_long_help = mkfs::help())]
    Mkfs(mkfs_arguments::MkfsArguments),
    /// Show the settings, size and state of a volume
    Info(info::InfoArguments),
    /// List a directory in a volume that is not being served
    Ls(browse::LsArguments),
    /// Print a file in a volume that is not being served
    Cat(browse::CatArguments),
    /// Check, and optionally repair, a volume that is not being served
    #[command(after_long_help = fsck::HELP)]
    Fsck(fsck::FsckArguments),
    /// Verify all checksums of a volume and list the damaged files
    #[command(after_long_help = scrub::HELP)]
    Scrub(scrub::ScrubArguments),
    /// Change the settings of a volume that is not being served
    #[command(after_long_help = tune::help())]
    Tune(tune::TuneArguments),
    /// Serve volumes over NFS version 3 until SIGTERM or SIGINT
    #[command(after_long_help = SERVE_HELP)]
    Serve(serve::ServeArguments),
    /// Show or change the RAID set that holds a volume
    #[command(after_long_help = sets::HELP)]
    Raid(sets::RaidArguments),
    /// Show the NVRAM of a volume, or take it out of use
    #[command(after_long_help = nvram_command::HELP)]
    Nvram(nvram_command::NvramArguments),
    /// Create, list, delete and roll back to snapshots
    #[command(after_long_help = snapshots::HELP)]
    Snapshot(snapshots::SnapshotArguments),
    /// List or change the clients that may use a volume
    #[command(after_long_help = exports::HELP)]
    Exports(exports::ExportsArguments),
    /// Show the health of a server and of its volumes
    #[command(after_long_help = monitor::STATUS_HELP)]
    Status(monitor::MonitorArguments),
    /// List the connections of a server's clients
    #[command(after_long_help = monitor::CLIENTS_HELP)]
    Clients(monitor::MonitorArguments),
    /// Show the load of a server's volumes every second
    #[command(after_long_help = monitor::TOP_HELP)]
    Top(monitor::TopArguments),
    /// Check a configuration and show the settings that are in force
    #[command(after_long_help = configuration::HELP)]
    Config(configuration::ConfigArguments),
    /// Benchmark an NFS server: this one or any other
    #[command(after_long_help = bench::after_help())]
    Bench(bench::BenchArguments),
}

const SERVE_HELP: &str = "\
Once the server is ready, it prints 'ready:' and a mount command for each volume. SIGTERM and SIGINT
shut it down cleanly, and a second one ends it at once; SIGHUP reloads the exports from the
configuration file. If no disk answers for 60 seconds during a shutdown, the server names the
volumes that it waits for and exits with 1. After a crash, start it again: it recovers by itself.
Set RUST_LOG=debug for verbose logs.

Examples:
  duramen serve data
  duramen serve --config duramen.toml
  duramen serve data --create 100G --listen 0.0.0.0:2049 --config duramen.toml
  duramen serve /dev/sdb1 disks/archive.img
  duramen serve /dev/sdb1 --log /dev/sdc1";

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command, &mut io::stdout().lock()),
        Err(error) => refuse(&error),
    }
}

/// Reports an error in the command line, or prints the help that it asks for.
fn refuse(error: &clap::Error) -> ExitCode {
    // If standard error fails, there is nowhere to report it.
    let _ = error.print();
    // No option of ours comes before the command, so the first word is the command, or there is
    // none.
    let is_fsck = std::env::args_os().nth(1).is_some_and(|word| word == "fsck");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_fsck => ExitCode::from(fsck::USAGE_EXIT_CODE),
        _ => ExitCode::from(2),
    }
}

fn run(command: &Command, output: &mut dyn Write) -> ExitCode {
    let result = match command {
        Command::Mkfs(arguments) => mkfs::run(arguments, output),
        Command::Info(arguments) => info::run(arguments, output),
        Command::Ls(arguments) => in_reactor(|runtime| {
            let output = &mut *output;
            async move { browse::list(arguments, output, &runtime).await }
        }),
        Command::Cat(arguments) => in_reactor(|runtime| {
            let output = &mut *output;
            async move { browse::concatenate(arguments, output, &runtime).await }
        }),
        Command::Fsck(arguments) => return fsck::run(arguments, output),
        Command::Scrub(arguments) => scrub::run(arguments, output),
        Command::Tune(arguments) => tune::run(arguments, output),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Raid(arguments) => sets::run(arguments, output),
        Command::Nvram(arguments) => nvram_command::run(arguments, output),
        Command::Snapshot(arguments) => in_reactor(|runtime| {
            let output = &mut *output;
            async move { snapshots::run(arguments, output, &runtime).await }
        }),
        Command::Exports(arguments) => exports::run(arguments, output),
        Command::Status(arguments) => monitor::show_status(arguments, output),
        Command::Clients(arguments) => monitor::list_clients(arguments, output),
        Command::Top(arguments) => monitor::show_top(arguments, output),
        Command::Config(arguments) => configuration::run(arguments, output),
        Command::Bench(arguments) => bench::run(arguments, output),
    };
    match result.and_then(|()| Ok(output.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                words::say(&failure);
            }
            words::drain();
            failure.exit_code()
        }
    }
}

/// Runs an asynchronous command in a reactor.
fn in_reactor<F>(work: impl FnOnce(Runtime) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    server::reactor::block_on(work).map_err(Failure::Start)?
}
