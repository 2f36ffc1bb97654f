//! `duramen nvram`: shows the NVRAM of a volume, and takes it out of use and back.
//!
//! The volume's server answers, if there is one. Otherwise the command opens the volume itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use block::file::Access;
use clap::{Args, Subcommand};
use runtime::Runtime;
use serde_json::{Value, json};
use server::control::Refused;
use server::reactor;

use crate::failure::Failure;
use crate::front::{Front, Status, go_up};
use crate::order;
use crate::stack::at_once;
use crate::volume::Volume;

/// Text at the end of `duramen nvram --help`.
pub(crate) const HELP: &str = "\
Create a volume with an NVRAM with 'duramen mkfs VOLUME --nvram PATH'; 'duramen tune' gives one to a
volume on a RAID set, or takes it away. All of these commands work on a volume in service.

Examples:
  duramen nvram status data   show its state and how much the disks still lack
  duramen nvram down data     write everything to the disks and stop using it
  duramen nvram up data       use it again

Exit codes: 0 success, and for 'status' that it is up; 1 failure, or not up; 2 usage error.";

/// The arguments of `duramen nvram`.
#[derive(Args, Debug)]
pub(crate) struct NvramArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the state of the NVRAM
    ///
    /// Exits with 1 unless it is up.
    Status {
        /// Volume: see 'duramen --help'
        volume: PathBuf,
        /// Print one JSON object; sizes are in bytes
        #[arg(long)]
        json: bool,
    },
    /// Write everything to the disks and stop using the NVRAM
    ///
    /// It stays down over restarts until 'duramen nvram up'. Use this before you move or replace
    /// it.
    Down {
        /// Volume
        volume: PathBuf,
    },
    /// Use the NVRAM again
    Up {
        /// Volume
        volume: PathBuf,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(arguments: &NvramArguments, output: &mut dyn Write) -> Result<(), Failure> {
    match &arguments.command {
        Command::Status { volume, json } => show(&volume_of(volume)?, *json, output),
        Command::Down { volume } => {
            let volume = volume_of(volume)?;
            match ask(&volume, "down")? {
                Some(answer) => {
                    let socket = volume.socket().expect("it was asked");
                    order::follow(&socket, &volume.path, &answer, "destaging", || ())?;
                }
                None => change(&volume, async |front| {
                    let none = || Refused::Conflict("its NVRAM is missing".to_owned());
                    front.nvram().ok_or_else(none)?;
                    front.go_down().await.map_err(|error| Refused::Conflict(error.to_string()))
                })?,
            }
            Ok(writeln!(output, "{}: its NVRAM is down", volume.path.display())?)
        }
        Command::Up { volume } => {
            let volume = volume_of(volume)?;
            if ask(&volume, "up")?.is_none() {
                change(&volume, async |front| go_up(front).await)?;
            }
            Ok(writeln!(output, "{}: its NVRAM is up", volume.path.display())?)
        }
    }
}

/// Finds a volume whose settings name an NVRAM.
fn volume_of(path: &Path) -> Result<Volume, Failure> {
    let volume = Volume::find(path)?;
    if volume.settings.nvram.is_none() {
        return Err(Failure::Usage(format!("{} has no NVRAM", path.display())));
    }
    Ok(volume)
}

/// Sends an order to the server of a volume. `None` if there is no server.
fn ask(volume: &Volume, order: &str) -> Result<Option<Value>, Failure> {
    order::ask(volume, &format!("/v1/nvram/{order}"), &json!({}))
}

/// Opens a volume without a server, and does something with its NVRAM.
fn with_front<T>(
    volume: &Volume,
    access: Access,
    work: impl AsyncFnOnce(&Front) -> Result<T, Refused>,
) -> Result<T, Failure> {
    let done = reactor::block_on(|runtime: Runtime| async move {
        let stack = volume.open(access, &at_once, &runtime).await?;
        let refused = |refused: Refused| Failure::NotDone {
            path: volume.path.clone(),
            why: refused.to_string(),
        };
        let done = match stack.front() {
            Some(front) => work(&front).await.map_err(refused),
            None => Err(refused(Refused::Conflict("the set has no NVRAM".to_owned()))),
        };
        stack.close(volume).await?;
        done
    });
    done.map_err(Failure::Start)?
}

fn change(
    volume: &Volume,
    work: impl AsyncFnOnce(&Front) -> Result<(), Refused>,
) -> Result<(), Failure> {
    with_front(volume, Access::ReadWrite, work)
}

/// State of the NVRAM of a volume without a server.
pub(crate) fn at_rest(volume: &Volume) -> Result<Status, Failure> {
    with_front(volume, Access::ReadOnly, async |front| Ok(Status::look(front).await))
}

/// Prints the state. The failure determines the exit code.
fn show(volume: &Volume, json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let status = match order::told(volume, "nvram") {
        Some(status) => status,
        None => at_rest(volume)?,
    };
    let text = if json {
        serde_json::to_string_pretty(&status).expect("all keys are names") + "\n"
    } else {
        status.describe()
    };
    output.write_all(text.as_bytes())?;
    if status.is_up() { Ok(()) } else { Err(Failure::Unwell { code: 1 }) }
}
