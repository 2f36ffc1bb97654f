//! `duramen`: what people run.
//!
//! # Layers
//! - a file for each command: its arguments, its work, its words;
//! - `volume`: what a VOLUME on the command line is, and how it is opened;
//! - `signature`: what is on a disk already; `size`, `calendar`: how people write numbers;
//! - `failure`: what can go wrong, as sentences that say where, and what to do.
//!
//! # Contract
//! What was asked for goes to standard output, all else to standard error. Exit codes: 0 when all
//! went well, 1 when it did not, 2 when the command line makes no sense. Nothing that exists is
//! overwritten without `--force`, and a command that fails removes what it had created. A pipe
//! whose reader has had enough is no failure.

mod calendar;
mod failure;
mod info;
mod mkfs;
mod signature;
mod size;
mod volume;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// An NFS file server that answers only when the data is on stable storage.
#[derive(Debug, Parser)]
#[command(name = "duramen", version, after_long_help = AFTER_HELP, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A VOLUME is one of:
  a folder       that 'duramen mkfs' made: disk.img holds the file system, volume.toml its policy
  an image file  with a UFS2 file system in it, whoever made it
  a device       such as /dev/sdb1, with a UFS2 file system on it

Examples:
  duramen mkfs data --size 100G      make a volume in the new folder 'data'
  duramen info data                  look at it
  duramen info --json freebsd.img    look at a disk image that FreeBSD made
  duramen mkfs /dev/sdb1             make a file system on a device

Exit codes: 0 all went well; 1 something failed; 2 the command line makes no sense.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a new, empty volume
    #[command(after_long_help = MKFS_HELP)]
    Mkfs(mkfs::MkfsArguments),
    /// Shows what a volume is and how it is
    Info(info::InfoArguments),
}

const MKFS_HELP: &str = "\
What VOLUME names decides what is made:
  nothing yet             a folder with disk.img and volume.toml; with --bare, an image file
  an empty folder         the same in that folder
  a volume, a file or a   a file system in place of what is there, if it is empty, or if --force
  device                  says that it may be destroyed

Examples:
  duramen mkfs data --size 100G
  duramen mkfs disk.img --bare --size 4G --block-size 16K --fragment-size 2K
  duramen mkfs /dev/sdb1 --label backup";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut output = io::stdout().lock();
    let result = run(&arguments.command, &mut output).and_then(|()| Ok(output.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                eprintln!("duramen: {failure}");
            }
            failure.exit_code()
        }
    }
}

fn run(command: &Command, output: &mut dyn Write) -> Result<(), Failure> {
    match command {
        Command::Mkfs(arguments) => mkfs::run(arguments, output),
        Command::Info(arguments) => info::run(arguments, output),
    }
}
