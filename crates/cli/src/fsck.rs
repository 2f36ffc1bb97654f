//! `duramen fsck`: checks a volume, and repairs it if asked to.
//!
//! # Layers
//! - `outcome`: what a check came to, and the code that the process ends with;
//! - `text`: what people read; `json`: what programs read; `progress`: what whoever waits watches.
//!
//! # Contract
//! 1. Without `--repair` the disk is opened for reading and nothing on it changes. What is checked
//!    is the volume with its log replayed, in memory.
//! 2. Nobody else writes the disk meanwhile: with `--repair` the lock is exclusive, without it
//!    keeps writers out, and a volume that is served is refused.
//! 3. A superblock need not be readable: the checker looks for copies by itself. So nothing here
//!    asks for one before.
//! 4. The exit code is that of the check, even if nobody reads the output to its end.

mod json;
mod outcome;
mod progress;
mod text;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use block::scratch::ScratchDevice;
use clap::Args;
use ffs::check::{CheckOptions, Report, check};
use ffs::logged::give_up;
use ffs::replay::ReplayError;
use ffs::{LogUse, replay_log};
use runtime::Runtime;
use server::disks::Disks;
use server::reactor;

use crate::failure::Failure;
use crate::sharing;
use crate::volume::Volume;
use outcome::Outcome;
use progress::Watch;

/// What `duramen fsck --help` says at its end.
pub(crate) const HELP: &str = "\
Without --repair nothing is written, and what a repair would do is said. A repair writes only when
a check of what it is going to write has found nothing more. What it cannot keep it lists, each
with the word 'loss'. It may be cut off at any time: run it again. A volume that is being served is
not checked; stop the server first.

Examples:
  duramen fsck data                  see what is wrong, if anything
  duramen fsck data --repair         and repair it
  duramen fsck --json /dev/sdb1      for programs

Exit codes: 0 nothing is wrong; 1 what was wrong is repaired; 4 something is left as it was; 8 the
check could not be made, or not to its end; 16 the command line makes no sense.";

/// What the process ends with when the command line makes no sense, as fsck(8) has it.
pub(crate) const USAGE_EXIT_CODE: u8 = 16;

/// The arguments of `duramen fsck`.
#[derive(Args, Debug)]
pub(crate) struct FsckArguments {
    /// Which volume: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Repair what is wrong
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print one JSON object, for programs: docs/fsck.md tells its keys
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the data of every file as well, and look for superblocks on the whole disk
    #[arg(long)]
    pub(crate) full: bool,
    /// The log, if it is not in the volume's folder
    #[arg(long, value_name = "PATH")]
    pub(crate) log: Option<PathBuf>,
    /// Leave the log out, and with --repair give up what only it holds
    #[arg(long)]
    pub(crate) without_log: bool,
}

/// What was done, for whoever tells it.
struct Done {
    report: Report,
    took: Duration,
}

/// A check of one volume, as it was asked for and as it went.
struct Run<'a> {
    volume: &'a Path,
    repair: bool,
    result: Result<Done, Unchecked>,
}

impl Run<'_> {
    fn outcome(&self) -> Outcome {
        self.result.as_ref().map_or(Outcome::Failed, |done| Outcome::of(&done.report))
    }
}

/// Why there is no report.
#[derive(Debug)]
enum Unchecked {
    /// Nothing was looked at: the sentence says where.
    Volume(Failure),
    /// The check did not come to its end.
    Check(PathBuf, ffs::check::CheckError),
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(failure) => failure.fmt(f),
            Self::Check(volume, error) => write!(f, "{}: {error}", volume.display()),
        }
    }
}

/// Checks, tells, and says what the process ends with.
pub(crate) fn run(arguments: &FsckArguments, output: &mut dyn Write) -> ExitCode {
    let checked = reactor::block_on(|runtime| check_volume(arguments, runtime));
    let result = checked.map_err(Failure::Start).map_err(Unchecked::Volume).flatten();
    let run = Run { volume: &arguments.volume, repair: arguments.repair, result };
    let outcome = run.outcome();
    if let Err(unchecked) = &run.result {
        eprintln!("duramen: {unchecked}");
    }
    match tell(&run, arguments.json, output) {
        // The reader of a pipe had enough; the code still is that of the check.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("duramen: {}", Failure::Output(error));
            Outcome::Failed.exit_code()
        }
        _ => outcome.exit_code(),
    }
}

fn tell(run: &Run<'_>, json: bool, output: &mut dyn Write) -> io::Result<()> {
    if json {
        json::write(run, output)?;
    } else if let Ok(done) = &run.result {
        text::write(run.volume, run.repair, done, output)?;
    }
    output.flush()
}

async fn check_volume(arguments: &FsckArguments, runtime: Runtime) -> Result<Done, Unchecked> {
    let (device, saved) = prepare(arguments, &runtime).await.map_err(Unchecked::Volume)?;
    let options =
        CheckOptions { repair: arguments.repair, full: arguments.full, ..CheckOptions::default() };
    let start = runtime.clock.now();
    let mut watch = Watch::new();
    let report = check(&*device, &runtime, &options, &mut |progress| watch.show(progress)).await;
    watch.end();
    let report = report.map_err(|error| Unchecked::Check(arguments.volume.clone(), error))?;
    let took = runtime.clock.now().since(start);
    if let Some(path) = saved {
        sharing::remove(path).map_err(Unchecked::Volume)?;
    }
    Ok(Done { report, took })
}

/// Opens the disk of a volume, whatever is on it, and replays its log: for good when it is to be
/// repaired, else in memory. What was saved of a log, and has been brought home for good, goes when
/// the check has come to its end.
async fn prepare(
    arguments: &FsckArguments,
    runtime: &Runtime,
) -> Result<(Rc<dyn BlockDevice>, Option<PathBuf>), Failure> {
    let access = if arguments.repair { Access::ReadWrite } else { Access::ReadOnly };
    let volume = Volume::find(&arguments.volume)?.with_log(arguments.log.as_deref());
    let disks = Disks::new().map_err(Failure::Start)?;
    let device = disks.device(volume.open(access)?);
    let Some(log) = volume.log_path.as_ref().filter(|path| path.exists()) else {
        return Ok((device, None));
    };
    let last = sharing::log_of(&*device, log, |disk| disks.device(disk)).await?;
    let (path, is_saved) = (log.clone(), last != *log);
    let log = disks.device(DiskFile::open(&last, access)?);
    let failed = |source| Failure::Engine { path: volume.path.clone(), source };
    if arguments.without_log {
        if arguments.repair {
            let given_up = give_up(&*device, &*log).await;
            given_up.map_err(|error| failed(ReplayError::from(error).into()))?;
            sharing::forget_saved(&*device, &path).await?;
        }
        return Ok((device, None));
    }
    let (device, log_use): (Rc<dyn BlockDevice>, _) = match arguments.repair {
        true => (device, LogUse::Replay),
        false => (Rc::new(ScratchDevice::new(device)), LogUse::Look),
    };
    let now = runtime.clock.wall();
    if let Some(replayed) = replay_log(&*device, &*log, now, log_use).await.map_err(failed)? {
        let volume = volume.path.display();
        eprintln!("duramen: {volume}: {} log entries were replayed first", replayed.entries);
    }
    Ok((device, Some(last).filter(|_| arguments.repair && is_saved)))
}
