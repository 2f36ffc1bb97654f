//! `duramen raid`: looks at the set of disks on which a volume stands, and changes it.
//!
//! 1. [`status`] is how a set stands, as people and programs read it.
//! 2. [`orders`] is what is done to a set that is open: by the server of the volume, which is asked
//!    through its control channel, or here where nobody serves it.
//! 3. [`scrub`] has all of it looked at, and names the files of what is lost.
//! 4. [`find`] says what single disks are, without their volume.
//! 5. [`members`] has a member go or come back because a person says so.
//! 6. [`dump`] writes the volume as one plain image.
//!
//! A volume that is served is changed by its server alone; its members are locked.

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
use server::control::client;
use server::control::{Jobs, Refused};
use server::reactor;

use crate::failure::Failure;
use crate::folder::real_place;
use crate::order::{self, bar};
use crate::stack::{Stack, at_once};
use crate::volume::Volume;
use crate::words;
pub(crate) use orders::Orders;
use orders::{Removed, Replacing, WorkName};
pub(crate) use status::Status;

/// What `duramen raid --help` says at its end.
pub(crate) const HELP: &str = "\
A set is made with 'duramen mkfs VOLUME --raid5 DISK DISK DISK'. Its disks may be renamed: they know
what they are. A volume that is served is changed by its server, and goes on being served.

Examples:
  duramen raid status data              which disks it has, and how they stand
  duramen raid find /dev/sd[b-f]        say of each disk to which set it belongs
  duramen raid replace data 2 /dev/sdf  make a new disk the member of slot 2
  duramen raid scrub data               look at everything, and mend what has rotted
  duramen raid spare data /dev/sdg      have a disk wait until one fails
  duramen raid fail data 2              take a disk out that is about to die
  duramen raid online data 2            have the disk that is out come back
  duramen raid pause data               have rebuilds and scrubs wait, until 'resume'
  duramen raid cancel data              end a rebuild or a scrub
  duramen raid remove data /dev/sdg     forget a spare, or a disk that is gone for good
  duramen raid dump data data.img       write the volume as one image, for other programs
  duramen raid dump --accept-loss data left.img
                                        the last resort: write what too few disks still have

Exit codes of 'raid status': 0 the set is clean; 1 it is degraded, rebuilding or otherwise not
clean; 2 it has failed or has lost data, or its state is unknown. 'raid scrub' and 'raid dump
--accept-loss' end with 0 if nothing is lost. All other codes are those of 'duramen --help'.";

/// The arguments of `duramen raid`.
#[derive(Args, Debug)]
pub(crate) struct RaidArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows how a set and its members stand
    ///
    /// The exit code is 0 if the set is clean; 1 if it is degraded, rebuilding, incomplete, failing
    /// or waits for room; 2 if it has failed, has lost data, or its state is unknown.
    Status {
        /// Which volume: see 'duramen --help'
        volume: PathBuf,
        /// Print one JSON object, for programs. Sizes are bytes
        #[arg(long)]
        json: bool,
    },
    /// Says of each disk whose member it is: set, slot, state and generation
    ///
    /// Only the disks themselves are read. A volume need not be there.
    Find {
        /// Files or devices
        #[arg(required = true)]
        disks: Vec<PathBuf>,
        /// Print a JSON list, for programs
        #[arg(long)]
        json: bool,
    },
    /// Makes another disk the member of a slot, of what the others have
    ///
    /// A good member stays in use until the new disk has everything.
    Replace {
        /// Which volume
        volume: PathBuf,
        /// The number of the slot, as 'duramen raid status' tells it
        slot: usize,
        /// The new disk. What it holds is lost
        disk: PathBuf,
        /// Do not wait for the end: the server goes on
        #[arg(long)]
        background: bool,
        /// Also if the slot has a good member, or the disk holds something
        #[arg(long)]
        force: bool,
    },
    /// Reads everything, mends what is wrong on one disk, and names what more than one have lost
    ///
    /// The exit code is 1 if something is lost. A volume that is served goes on being served.
    Scrub {
        /// Which volume
        volume: PathBuf,
        /// Print one JSON object, for programs. Sizes are bytes
        #[arg(long)]
        json: bool,
    },
    /// Has a disk wait until a member fails, and take its place then by itself
    Spare {
        /// Which volume
        volume: PathBuf,
        /// The disk. What it holds is lost
        disk: PathBuf,
        /// Also if it holds something
        #[arg(long)]
        force: bool,
    },
    /// Forgets where a disk was that is a spare, is out, or is gone for good
    ///
    /// A member that is in stays: take it out first, with 'duramen raid fail'.
    Remove {
        /// Which volume
        volume: PathBuf,
        /// The number of a slot whose member is out, or the path of a disk
        disk: PathBuf,
    },
    /// Takes a member out, as if it had failed
    ///
    /// It stays out until 'duramen raid online' has it come back, or another disk takes its place.
    Fail {
        /// Which volume
        volume: PathBuf,
        /// The number of its slot
        slot: usize,
        /// Do not ask whether that is meant
        #[arg(long)]
        force: bool,
    },
    /// Has the member of a slot come back that has failed or was taken out
    ///
    /// It gets what it has missed. A member that was missing when the server started comes back by
    /// itself.
    Online {
        /// Which volume
        volume: PathBuf,
        /// The number of its slot
        slot: usize,
        /// Where its disk is now, if that is not where volume.toml has it
        disk: Option<PathBuf>,
        /// Do not wait for the end: the server goes on
        #[arg(long)]
        background: bool,
    },
    /// Ends a rebuild or a scrub of a server
    ///
    /// What it has done so far stays. A good member that was to be replaced stays in use; a disk
    /// that was being filled for a slot without one is out.
    Cancel {
        /// Which volume
        volume: PathBuf,
        /// Which work, if both are under way
        work: Option<WorkName>,
    },
    /// Has the rebuilds and scrubs of a server wait, also those that begin later
    ///
    /// They go on after 'duramen raid resume', or when the server is started again.
    Pause {
        /// Which volume
        volume: PathBuf,
    },
    /// Has the rebuilds and scrubs of a server go on
    Resume {
        /// Which volume
        volume: PathBuf,
    },
    /// Writes the volume as one plain image
    ///
    /// With --accept-loss the exit code is 1 if something is lost.
    Dump {
        /// Which volume; nobody may serve it
        volume: PathBuf,
        /// A file that does not exist yet
        file: PathBuf,
        /// Write what is left, also with too few disks. What they cannot give is zeros, and listed
        #[arg(long)]
        accept_loss: bool,
    },
}

/// Does what is asked for.
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
                Some(answer) => follow(&volume, &answer, "rebuilding"),
                None => change(&volume, async |orders, stack| {
                    let replacing = orders.begin(*slot, &disk, *force).await?;
                    let (member, replaced) = (replacing.member, replacing.replaced);
                    rebuild(stack, replacing, "rebuilding").await?;
                    orders.is_made(member, replaced);
                    Ok(())
                }),
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

/// A volume that stands on a set.
fn volume_of(path: &Path) -> Result<Volume, Failure> {
    let volume = Volume::find(path)?;
    if volume.settings.raid.is_none() {
        let sentence = format!("{} does not stand on a set of disks", path.display());
        return Err(Failure::Usage(sentence));
    }
    Ok(volume)
}

/// What the server of a volume says of its set, if there is one.
fn told(volume: &Volume) -> Option<Status> {
    let answer = client::get(volume.socket().as_deref()?, "/v1/info").ok()?;
    let info: Value = serde_json::from_str(&answer.body).ok().filter(|_| answer.status == 200)?;
    serde_json::from_value(info.get("raid")?.clone()).ok()
}

/// Tells how a set stands. The failure is what the exit code says of that.
fn tell(path: &Path, json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let unknown = |failure: Failure| Failure::UnknownSet(Box::new(failure));
    let volume = volume_of(path).map_err(unknown)?;
    let status = match told(&volume) {
        Some(status) => status,
        None => Status::look(&volume).map_err(unknown)?,
    };
    let text = if json { to_json(&status) } else { status.describe() };
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Failure::from) {
        Err(failure) if !failure.is_silent() => return Err(unknown(failure)),
        _ => {} // without a reader the exit code counts all the same
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

/// Orders the server of a volume to do something. `None` if nobody serves it.
fn ask(volume: &Volume, order: &str, said: &Value) -> Result<Option<Value>, Failure> {
    let Some(socket) = volume.socket() else { return Ok(None) };
    order::post(&socket, &volume.path, &format!("/v1/raid/{order}"), said)
}

/// Waits for the end of a job of the server.
fn follow(volume: &Volume, answer: &Value, doing: &'static str) -> Result<(), Failure> {
    let socket = volume.socket().expect("it was asked");
    order::follow(&socket, &volume.path, answer, doing, || ())
}

/// Opens the set of a volume that nobody serves, and changes it.
fn change<T>(
    volume: &Volume,
    work: impl AsyncFnOnce(&Orders, &Stack) -> Result<T, Refused>,
) -> Result<T, Failure> {
    let changed = reactor::block_on(|runtime: Runtime| async move {
        let stack = volume.open(Access::ReadWrite, &at_once, &runtime).await?;
        let set = stack.set.as_ref().expect("it stands on one");
        let orders = Orders::new(volume, set, Jobs::default(), at_once, &runtime);
        let done = work(&orders, &stack).await;
        stack.close(volume).await?;
        done.map_err(|refused| match refused {
            Refused::Senseless(why) => Failure::Usage(format!("{}: {why}", volume.path.display())),
            refused => Failure::NotDone { path: volume.path.clone(), why: refused.to_string() },
        })
    });
    changed.map_err(Failure::Start)?
}

async fn rebuild(stack: &Stack, replacing: Replacing, doing: &'static str) -> Result<(), Refused> {
    let open = stack.set.as_ref().expect("it stands on one");
    let unit = open.set.layout().unit;
    let bar = bar(doing);
    let shown = bar.clone();
    let progress = move |done, total| {
        shown.set_length(total * unit);
        shown.set_position(done * unit);
    };
    let rebuilt = replacing.carry_out(&open.set, progress).await;
    bar.finish_and_clear();
    rebuilt.map_err(|error| Refused::Conflict(error.to_string()))?;
    if let lost @ 1.. = open.set.status().done.lost_blocks {
        words::say(format_args!(
            "{lost} blocks of 4 KiB are on no disk: 'duramen raid scrub' names the files"
        ));
    }
    Ok(())
}
