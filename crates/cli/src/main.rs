//! `duramen`: what people run.
//!
//! # Layers
//! - a file for each command: its arguments, its work, its words;
//! - `choice`: the words that choose a design; what there is stands in the crate `designs`;
//! - `log`: the log of a volume; `redo_log`: what only `ffs` knows of it;
//! - `volume`: what a VOLUME on the command line is, and how it is opened;
//! - `signature`: what is on a disk already; `size`, `calendar`: how people write numbers;
//! - `failure`: what can go wrong, as sentences that say where, and what to do;
//! - `words`: standard error, which never stops or ends the program.
//!
//! # Contract
//! What was asked for goes to standard output, all else to standard error. Exit codes: 0 when all
//! went well, 1 when it did not, 2 when the command line makes no sense; `fsck` has those of
//! fsck(8). Nothing that exists is overwritten without `--force`, and a command that fails removes
//! what it had created. A pipe whose reader has had enough is no failure.

mod bench;
mod browse;
mod calendar;
mod choice;
mod engine;
mod error_counts;
mod failure;
mod folder;
mod found;
mod fsck;
mod info;
mod intents;
mod log;
mod make_set;
mod making;
mod members;
mod membership;
mod memory;
mod mkfs;
mod mkfs_arguments;
mod occupied;
mod order;
mod partitions;
mod probe;
mod readable;
mod reader;
mod redo_log;
mod saved;
mod scrub;
mod serve;
mod set_state;
mod sets;
mod sharing;
mod shown;
mod signature;
mod size;
mod snapshots;
mod stack;
mod tune;
mod volume;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use mimalloc::MiMalloc;
use runtime::Runtime;

/// Calls live short, in dozens of small pieces of memory; that of the system takes a quarter of
/// their time.
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
A VOLUME is one of:
  a folder       that 'duramen mkfs' made: disk.img holds the file system, volume.toml its engine
                 and policy, log.img its log, intents.img calls under way
  an image file  with a file system in it: UFS2, whoever made it, or that of engine 'shadow'
  a device       such as /dev/sdb1, with one on it

Examples:
  duramen mkfs data --size 100G      make a volume in the new folder 'data'
  duramen serve data                 serve it on 127.0.0.1:2049
  duramen info data                  look at it
  duramen ls -l data /home           look into it
  duramen info --json freebsd.img    look at a disk image that FreeBSD made
  duramen mkfs /dev/sdb1             make a file system on a device
  duramen fsck data --repair         check it, and repair what is wrong
  duramen scrub data                 read all of it, and name what has rotted
  duramen tune data --policy sync    change how it makes changes durable
  duramen snapshot create data now   keep what it holds now, to look at or go back to
  duramen bench nfs://127.0.0.1/data measure a server

Exit codes: 0 all went well; 1 something failed; 2 the command line makes no sense. Those of fsck
and of 'raid status' are others: 'duramen fsck --help' and 'duramen raid --help' tell them.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a new, empty volume
    #[command(after_long_help = mkfs::help())]
    Mkfs(mkfs_arguments::MkfsArguments),
    /// Shows what a volume is and how it is
    Info(info::InfoArguments),
    /// Lists a directory of a volume that nobody serves
    Ls(browse::LsArguments),
    /// Writes a file of a volume that nobody serves to standard output
    Cat(browse::CatArguments),
    /// Checks a volume that nobody serves, and repairs it if asked to
    #[command(after_long_help = fsck::HELP)]
    Fsck(fsck::FsckArguments),
    /// Compares everything on a volume with its checksums, and names the files of what is lost
    #[command(after_long_help = scrub::HELP)]
    Scrub(scrub::ScrubArguments),
    /// Changes how a volume that nobody serves makes its changes durable
    #[command(after_long_help = tune::help())]
    Tune(tune::TuneArguments),
    /// Serves volumes over NFS, version 3, until SIGTERM or SIGINT
    #[command(after_long_help = SERVE_HELP)]
    Serve(serve::ServeArguments),
    /// Looks at the set of disks on which a volume stands, and changes it
    #[command(after_long_help = sets::HELP)]
    Raid(sets::RaidArguments),
    /// Makes, lists and deletes snapshots of a volume, and goes back to one
    #[command(after_long_help = snapshots::HELP)]
    Snapshot(snapshots::SnapshotArguments),
    /// Measures an NFS server, this one or another
    #[command(after_long_help = bench::after_help())]
    Bench(bench::BenchArguments),
}

const SERVE_HELP: &str = "\
When it serves, it says 'ready:' and how to mount each volume. SIGTERM or SIGINT ends it in good
order and leaves every volume clean; SIGHUP reads the exports of the configuration anew. After a
crash just start it again: it repairs what was cut off. RUST_LOG=debug makes it talkative.

Examples:
  duramen serve data
  duramen serve data --create 100G --listen 0.0.0.0:2049 --config duramen.toml
  duramen serve /dev/sdb1 disks/archive.img
  duramen serve /dev/sdb1 --log /dev/sdc1";

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command, &mut io::stdout().lock()),
        Err(error) => refuse(&error),
    }
}

/// Says what is wrong with the command line, or gives the help that it asks for.
fn refuse(error: &clap::Error) -> ExitCode {
    // No reader is there to be told that nothing could be told.
    let _ = error.print();
    // No option of ours stands before the command, so the first word is one, or none is.
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
        Command::Snapshot(arguments) => in_reactor(|runtime| {
            let output = &mut *output;
            async move { snapshots::run(arguments, output, &runtime).await }
        }),
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

/// Runs what needs the engine, and with it a reactor.
fn in_reactor<F>(work: impl FnOnce(Runtime) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    server::reactor::block_on(work).map_err(Failure::Start)?
}
