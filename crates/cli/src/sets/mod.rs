//! `duramen raid`: inspects the underlying set of disks of a volume, and changes it.
//!
//! 1. [`status`] describes the state of a set for people and programs.
//! 2. [`orders`] changes an open set: in the volume's server on request through its control
//!    channel, or in this process if no server serves the volume.
//! 3. [`scrub`] verifies all of it, and names the files with lost data.
//! 4. [`find`] identifies single disks, without their volume.
//! 5. [`members`] takes a member out or brings it back on a user's order.
//! 6. [`dump`] writes the volume as one plain image.
//!
//! Only its server changes a volume that is served; its members are locked.

mod dump;
mod find;
mod interrupts;
mod members;
mod orders;
mod scrub;
mod status;

use std::io::Write;
use std::path::{Path, PathBuf};

use block::file::Access;
use clap::{Args, Subcommand};
use runtime::Runtime;
use serde::Serialize;
use serde_json::{Value, json};
use server::control::{Jobs, Refused};
use server::reactor;

use crate::failure::Failure;
use crate::folder::real_place;
use crate::losses::ScrubEnd;
use crate::order::{self, bar};
use crate::stack::{Stack, at_once};
use crate::volume::Volume;
pub(crate) use orders::Orders;
use orders::{Removed, Replacing, WorkName};
pub(crate) use status::Status;

/// Text at the end of `duramen raid --help`.
pub(crate) const HELP: &str = "\
Create a set with 'duramen mkfs VOLUME --raid5 DISK DISK DISK'. Disks are identified by their labels
and may be renamed. All of these commands work on a volume in service, except 'dump'.

Examples:
  duramen raid status data              show the disks of the set and their states
  duramen raid find /dev/sd[b-f]        show which set each disk belongs to
  duramen raid replace data 2 /dev/sdf  rebuild slot 2 on a new disk
  duramen raid scrub data               verify all data and repair damaged blocks
  duramen raid spare data /dev/sdg      add a hot spare
  duramen raid fail data 2              take a disk offline that is about to die
  duramen raid online data 2            bring a disk back online
  duramen raid pause data               suspend rebuilds and scrubs until 'resume'
  duramen raid cancel data              cancel a rebuild or scrub
  duramen raid remove data /dev/sdg     forget a spare, or a disk that is gone for good
  duramen raid dump data data.img       copy the volume to a plain image
  duramen raid dump --accept-loss data left.img
                                        last resort: copy what is left on too few disks

Exit codes of 'raid status': 0 clean; 1 degraded, rebuilding or otherwise not clean; 2 failed, data
lost, or state unknown. 'raid scrub' and 'raid dump --accept-loss' exit with 0 if no data is lost.
Otherwise: 0 success; 1 failure; 2 usage error.";

/// The arguments of `duramen raid`.
#[derive(Args, Debug)]
pub(crate) struct RaidArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the state of a set and its members
    ///
    /// Exit codes: 0 clean; 1 degraded, rebuilding, incomplete, failing, or waiting for room on a
    /// host; 2 failed, data lost, or state unknown.
    Status {
        /// Volume: see 'duramen --help'
        volume: PathBuf,
        /// Print one JSON object; sizes are in bytes
        #[arg(long)]
        json: bool,
    },
    /// Identify disks: show the set, slot, state and generation of each
    ///
    /// Reads only the disks themselves; no volume is needed.
    Find {
        /// Files or devices
        #[arg(required = true)]
        disks: Vec<PathBuf>,
        /// Print a JSON list
        #[arg(long)]
        json: bool,
    },
    /// Rebuild a slot on another disk
    ///
    /// A healthy member stays in use until the new disk is complete.
    Replace {
        /// Volume
        volume: PathBuf,
        /// Slot number, as shown by 'duramen raid status'
        slot: usize,
        /// New disk. Its contents are overwritten
        disk: PathBuf,
        /// Return at once; the server continues the rebuild
        #[arg(long)]
        background: bool,
        /// Replace a healthy member too, or overwrite a disk that is not empty
        #[arg(long)]
        force: bool,
    },
    /// Verify all data, repair damaged blocks, and list lost files
    ///
    /// Exits with 1 if data is lost. The volume may remain in service.
    Scrub {
        /// Volume
        volume: PathBuf,
        /// Print one JSON object; sizes are in bytes
        #[arg(long)]
        json: bool,
    },
    /// Add a hot spare, which replaces a failed member automatically
    Spare {
        /// Volume
        volume: PathBuf,
        /// Disk. Its contents are overwritten
        disk: PathBuf,
        /// Overwrite a disk that is not empty
        #[arg(long)]
        force: bool,
    },
    /// Remove a spare, an offline member, or a missing disk from the list
    ///
    /// An active member is refused: take it offline first with 'duramen raid fail'.
    Remove {
        /// Volume
        volume: PathBuf,
        /// Slot number of an offline member, or path of a disk
        disk: PathBuf,
    },
    /// Take a member offline, as if it had failed
    ///
    /// It stays offline until 'duramen raid online' or until another disk replaces it.
    Fail {
        /// Volume
        volume: PathBuf,
        /// Slot number
        slot: usize,
        /// Do not ask for confirmation
        #[arg(long)]
        force: bool,
    },
    /// Bring a failed or offline member back online
    ///
    /// The member catches up on what it missed. A disk that was absent when the server started
    /// comes back automatically.
    Online {
        /// Volume
        volume: PathBuf,
        /// Slot number
        slot: usize,
        /// Path of its disk, if it has changed
        disk: Option<PathBuf>,
        /// Return at once; the server continues the rebuild
        #[arg(long)]
        background: bool,
    },
    /// Cancel a rebuild or scrub that a server is running
    ///
    /// A healthy member that was being replaced stays in use. A disk that was being rebuilt for an
    /// empty slot is taken offline.
    Cancel {
        /// Volume
        volume: PathBuf,
        /// Which one, if both are running
        work: Option<WorkName>,
    },
    /// Suspend the rebuilds and scrubs of a server, including later ones
    ///
    /// They continue after 'duramen raid resume' or a restart of the server.
    Pause {
        /// Volume
        volume: PathBuf,
    },
    /// Resume suspended rebuilds and scrubs
    Resume {
        /// Volume
        volume: PathBuf,
    },
    /// Copy the volume to a plain image file
    ///
    /// With --accept-loss, exits with 1 if data is lost or a log could not be read to its end.
    Dump {
        /// Volume; it must not be served meanwhile
        volume: PathBuf,
        /// New file for the image
        file: PathBuf,
        /// Copy what is left even if too few disks remain. Lost ranges are zeros, and listed
        #[arg(long)]
        accept_loss: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(arguments: &RaidArguments, output: &mut dyn Write) -> Result<(), Failure> {
    match &arguments.command {
        Command::Status { volume, json } => tell(volume, *json, output),
        Command::Find { disks, json } => find::run(disks, *json, output),
        Command::Replace { volume, slot, disk, background, force } => {
            let (volume, disk) = (volume_of(volume)?, real_place(disk));
            let said = json!({ "slot": slot, "path": disk, "force": force });
            match ask(&volume, "replace", &said)? {
                Some(_) if *background => {
                    let (path, disk) = (volume.path.display(), disk.display());
                    return Ok(writeln!(output, "{path}: slot {slot} is made again on {disk}")?);
                }
                Some(answer) => follow_fill(&volume, *slot, &answer, "rebuilding"),
                None => change(&volume, async |orders, stack| {
                    let replacing = orders.begin(*slot, &disk, *force).await?;
                    rebuild(orders, stack, replacing, "rebuilding").await
                })
                .and_then(|lacking| is_complete(&volume, *slot, lacking)),
            }?;
            let (path, disk) = (volume.path.display(), disk.display());
            Ok(writeln!(output, "{path}: slot {slot} has {disk} now")?)
        }
        Command::Scrub { volume, json } => scrub::run(&volume_of(volume)?, *json, output),
        Command::Spare { volume, disk, force } => {
            let (volume, disk) = (volume_of(volume)?, real_place(disk));
            let said = json!({ "path": disk, "force": force });
            if ask(&volume, "spare", &said)?.is_none() {
                change(&volume, async |orders, _| orders.add_spare(&disk, *force).await)?;
            }
            let (path, disk) = (volume.path.display(), disk.display());
            Ok(writeln!(output, "{path}: {disk} is a spare")?)
        }
        Command::Remove { volume, disk } => {
            let (volume, slot) = (volume_of(volume)?, disk.to_str().and_then(|it| it.parse().ok()));
            let removed = slot.map_or_else(|| Removed::Path(real_place(disk)), Removed::Slot);
            let said = serde_json::to_value(&removed);
            let said = said.map_err(|error| Failure::Usage(error.to_string()))?;
            if ask(&volume, "remove", &said)?.is_none() {
                change(&volume, async |orders, _| orders.remove(removed.clone()).await)?;
            }
            let (path, disk) = (volume.path.display(), disk.display());
            Ok(writeln!(output, "{path}: {disk} is forgotten")?)
        }
        Command::Fail { volume, slot, force } => {
            members::fail(&volume_of(volume)?, *slot, *force, output)
        }
        Command::Online { volume, slot, disk, background } => {
            let disk = disk.as_deref().map(real_place);
            members::bring_online(&volume_of(volume)?, (*slot, disk), *background, output)
        }
        Command::Cancel { volume, work } => interrupts::cancel(&volume_of(volume)?, *work, output),
        Command::Pause { volume } => interrupts::pause(&volume_of(volume)?, true, output),
        Command::Resume { volume } => interrupts::pause(&volume_of(volume)?, false, output),
        Command::Dump { volume, file, accept_loss: false } => {
            dump::run(&volume_of(volume)?, file, output)
        }
        Command::Dump { volume, file, accept_loss: true } => {
            dump::remains::run(volume_of(volume)?, file, output)
        }
    }
}

/// Finds a volume on a set of disks.
fn volume_of(path: &Path) -> Result<Volume, Failure> {
    let volume = Volume::find(path)?;
    if volume.settings.raid.is_none() {
        let sentence = format!("{} does not stand on a set of disks", path.display());
        return Err(Failure::Usage(sentence));
    }
    Ok(volume)
}

/// Prints the status of a set. The failure determines the exit code.
fn tell(path: &Path, json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let unknown = |failure: Failure| Failure::UnknownSet(Box::new(failure));
    let volume = volume_of(path).map_err(unknown)?;
    let status = match order::told(&volume, "raid") {
        Some(status) => status,
        None => Status::look(&volume).map_err(unknown)?.with_nvram_of(&volume),
    };
    let text = if json { to_json(&status) } else { status.describe() };
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Failure::from) {
        Err(failure) if !failure.is_silent() => return Err(unknown(failure)),
        _ => {} // a closed output does not change the exit code
    }
    match status.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Unwell { code }),
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("all keys are names") + "\n"
}

fn print_json(value: &impl Serialize, output: &mut dyn Write) -> Result<(), Failure> {
    Ok(output.write_all(to_json(value).as_bytes())?)
}

/// Sends an order to the server of a volume. `None` if there is no server.
fn ask(volume: &Volume, order: &str, said: &Value) -> Result<Option<Value>, Failure> {
    order::ask(volume, &format!("/v1/raid/{order}"), said)
}

/// Waits for the end of a job of the server.
fn follow(volume: &Volume, answer: &Value, doing: &'static str) -> Result<(), Failure> {
    let socket = volume.socket().expect("it was asked");
    order::follow(&socket, &volume.path, answer, doing, || ())
}

/// Opens the set of a volume without a server, and changes it.
fn change<T>(
    volume: &Volume,
    work: impl AsyncFnOnce(&Orders, &Stack) -> Result<T, Refused>,
) -> Result<T, Failure> {
    let changed = reactor::block_on(|runtime: Runtime| async move {
        let stack = volume.open(Access::ReadWrite, &at_once, &runtime).await?;
        let set = stack.set.as_ref().expect("it stands on one");
        let orders = Orders::new(volume, set, Jobs::default(), at_once, &runtime);
        let done = work(&orders, &stack).await;
        set.errors.keep(&set.set.status()).await;
        stack.close(volume).await?;
        done.map_err(|refused| match refused {
            Refused::Senseless(why) => Failure::Usage(format!("{}: {why}", volume.path.display())),
            refused => Failure::NotDone { path: volume.path.clone(), why: refused.to_string() },
        })
    });
    changed.map_err(Failure::Start)?
}

/// Waits until a server has filled the member of a slot.
///
/// # Errors
/// [`Failure`], also if the member lacks blocks.
fn follow_fill(
    volume: &Volume,
    slot: usize,
    answer: &Value,
    doing: &'static str,
) -> Result<(), Failure> {
    follow(volume, answer, doing)?;
    let status: Option<Status> = order::told(volume, "raid");
    is_complete(volume, slot, status.and_then(|status| status.lacking(slot)))
}

fn is_complete(volume: &Volume, slot: usize, lacking: Option<String>) -> Result<(), Failure> {
    let incomplete = |what| Failure::Incomplete { path: volume.path.clone(), slot, what };
    lacking.map_or(Ok(()), |what| Err(incomplete(what)))
}

/// Fills a member without a server, and puts it on the list. Returns the blocks that it lacks, in a
/// sentence. If data is lost, a scrub finds the files, because nobody counts after this process.
async fn rebuild(
    orders: &Orders,
    stack: &Stack,
    replacing: Replacing,
    doing: &'static str,
) -> Result<Option<String>, Refused> {
    let open = stack.set.as_ref().expect("it stands on one");
    let unit = open.set.layout().unit;
    let bar = bar(doing);
    let shown = bar.clone();
    let progress = move |done, total| {
        shown.set_length(total * unit);
        shown.set_position(done * unit);
    };
    let Replacing { slot, member, replaced, .. } = replacing;
    let rebuilt = replacing.carry_out(&open.set, progress).await;
    bar.finish_and_clear();
    rebuilt.map_err(|error| Refused::Conflict(error.to_string()))?;
    orders.is_made(member, replaced).await;
    let status = open.set.status();
    let lost = status.done.lost_blocks;
    if lost > 0 {
        let scrub = orders.scrub(|_, _| ()).await.map_err(scrub::unscrubbed)?;
        orders.named(scrub, ScrubEnd::Completed).await;
    }
    Ok(status::lacking(lost, status.met[slot].unread))
}
