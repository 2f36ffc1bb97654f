//! `duramen fsck`: checks a volume, and repairs it on request.
//!
//! # Layers
//! - `outcome`: the result of a check, and the exit code of the process;
//! - `text`: output for people; `json`: output for programs; `progress`: the progress bar.
//!
//! # Contract
//! 1. Without `--repair` the disk is opened for reading and nothing on it changes. The check reads
//!    the volume with its log replayed, in memory.
//! 2. No other program writes the disk meanwhile: with `--repair` the lock is exclusive, without it
//!    keeps writers out, and a volume that is served is refused.
//! 3. A superblock need not be readable: the checker looks for copies by itself. So nothing here
//!    requires one before the check.
//! 4. The exit code is that of the check, even if no program reads the output to its end.
//! 5. Losses that scrubs have found are reported until the data is read again: by a later scrub, or
//!    by a check of all data, whose result replaces them.
//! 6. Only `--without-log` gives up acknowledged changes in a log.
//! 7. Only `--without-nvram` gives up what an NVRAM alone has. If records of the set's log may have
//!    been there, it reads the whole set first, and then the data of all files where some are lost.

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
use designs::{
    CheckError, CheckOptions, DataPlace, Design, Finding, LogState, LogUse, OpenError, Report,
};
use runtime::Runtime;
use server::disks::Disks;
use server::reactor;

use crate::failure::{Failure, other_advice};
use crate::found::other_on;
use crate::intents;
use crate::losses::{self, Loss};
use crate::membership::{membership_of, no_volume_alone};
use crate::partitions::partition_on;
use crate::saved;
use crate::size::show_size;
use crate::stack::{OpenSet, Stack};
use crate::volume::Volume;
use crate::words::{self, quoted};
use outcome::Outcome;
use progress::Watch;

/// Text at the end of `duramen fsck --help`.
pub(crate) const HELP: &str = "\
Without --repair, fsck writes nothing and reports what a repair would do. A repair checks its own
result before it writes anything, and lists what it cannot save, each item with the word 'loss'. It
may be interrupted at any time: run it again. Stop the server of a volume before checking it. Losses
that an earlier scrub or full check has found are reported without --full as well.

After a crash, fsck replays the log first: in memory only, unless --repair is given. A volume is not
repaired without its log, which may hold the only copy of acknowledged changes: put it back, or name
it with --log. If the log is lost, '--repair --without-log' saves what the volume itself holds.

Examples:
  duramen fsck data                  check only
  duramen fsck data --repair         check and repair
  duramen fsck a.img --log a.log     check a bare disk that is served with a log
  duramen fsck --json /dev/sdb1      print JSON

Exit codes: 0 no errors; 1 all errors repaired; 4 errors left unrepaired; 8 the check could not run
or finish; 16 usage error.";

/// Exit code for an invalid command line, as in fsck(8).
pub(crate) const USAGE_EXIT_CODE: u8 = 16;

/// The arguments of `duramen fsck`.
#[derive(Args, Debug)]
pub(crate) struct FsckArguments {
    /// Volume to check: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Repair errors
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print one JSON object; docs/fsck.md lists its keys
    #[arg(long)]
    pub(crate) json: bool,
    /// Also read the data of every file, and search the whole disk for superblocks
    #[arg(long)]
    pub(crate) full: bool,
    /// Log of the volume, if it is not the one in its folder
    #[arg(long, value_name = "PATH")]
    pub(crate) log: Option<PathBuf>,
    /// Ignore the log; with --repair, give up the changes that only the log holds
    #[arg(long)]
    pub(crate) without_log: bool,
    /// Repair without the volume's NVRAM, and give up what only the NVRAM holds
    #[arg(long, requires = "repair")]
    pub(crate) without_nvram: bool,
}

/// A completed check, for the output.
struct Done {
    report: Report,
    took: Duration,
    /// Losses found by scrubs in data that this check did not read.
    known: Vec<Loss>,
    /// Reason why the log would make a repair be refused.
    refused: Option<OpenError>,
}

/// A check of one volume: its request and its result.
struct Run<'a> {
    volume: &'a Path,
    /// Command-line words that name the volume and its log.
    words: String,
    repair: bool,
    without_log: bool,
    result: Result<Done, Unchecked>,
}

impl Run<'_> {
    fn outcome(&self) -> Outcome {
        self.result.as_ref().map_or(Outcome::Failed, |done| Outcome::of(&done.report, &done.known))
    }
}

/// Reason why there is no report.
#[derive(Debug)]
enum Unchecked {
    /// The check never began: the sentence names the cause.
    Volume(Failure),
    /// The check did not complete. The text is advice, if there is any.
    Check(PathBuf, CheckError, String),
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(failure) => failure.fmt(f),
            Self::Check(volume, error, advice) => {
                write!(f, "{}: {error}{advice}", volume.display())
            }
        }
    }
}

/// Checks a volume, prints the result, and returns the exit code.
pub(crate) fn run(arguments: &FsckArguments, output: &mut dyn Write) -> ExitCode {
    let checked = reactor::block_on(|runtime| check_volume(arguments, runtime));
    let result = checked.map_err(Failure::Start).map_err(Unchecked::Volume).flatten();
    let run = Run {
        volume: &arguments.volume,
        words: words(arguments),
        repair: arguments.repair,
        without_log: arguments.without_log,
        result,
    };
    let outcome = run.outcome();
    if let Err(unchecked) = &run.result {
        words::say(unchecked);
    }
    match tell(&run, arguments.json, output) {
        // The reader of a pipe closed it early; the exit code is still that of the check.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            words::say(Failure::Output(error));
            Outcome::Failed.exit_code()
        }
        _ => outcome.exit_code(),
    }
}

/// Command-line words that name the checked volume with its log.
fn words(arguments: &FsckArguments) -> String {
    let is_meant = |log: &&Path| log.exists() || saved::has_saved(log);
    let log = arguments.log.as_deref().filter(is_meant);
    let found = Volume::find(&arguments.volume).and_then(|volume| volume.with_log(log));
    let volume = found.map(|volume| volume.words());
    volume.unwrap_or_else(|_| quoted(&arguments.volume))
}

fn tell(run: &Run<'_>, json: bool, output: &mut dyn Write) -> io::Result<()> {
    if json {
        json::write(run, output)?;
    } else if let Ok(done) = &run.result {
        text::write(run, done, output)?;
    }
    output.flush()
}

async fn check_volume(arguments: &FsckArguments, runtime: Runtime) -> Result<Done, Unchecked> {
    let ready = get_ready(arguments, &runtime).await.map_err(Unchecked::Volume)?;
    let full = arguments.full || ready.has_lost;
    let options = CheckOptions { repair: arguments.repair, full, log: ready.log };
    let start = runtime.clock.now();
    let mut watch = Watch::new();
    let tell = &mut |progress| watch.show(progress);
    let check = ready.design.work().check;
    let intents = ready.intents.as_ref();
    let report = check(&ready.device, intents, &runtime, &options, tell).await;
    watch.end();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            if let Some(membership) = membership_of(&*ready.device).await {
                let (path, why) = (arguments.volume.clone(), no_volume_alone(&membership));
                return Err(Unchecked::Volume(Failure::NotAVolume { path, why }));
            }
            let advice = match partition_on(&*ready.device).await {
                Some(partition) => format!("; {partition}"),
                None => other_advice(other_on(ready.design, &*ready.device).await),
            };
            return Err(Unchecked::Check(arguments.volume.clone(), error, advice));
        }
    };
    let took = runtime.clock.now().since(start);
    if let Some(why) = &report.lost_intents {
        words::say(format_args!(
            "{}: some remembered answers are lost ({why}): a call that a client repeats may run \
             twice",
            arguments.volume.display()
        ));
    }
    if let Some(path) = ready.saved {
        saved::remove(path).map_err(Unchecked::Volume)?;
    }
    let known = match &ready.folder {
        Some(folder) if full => {
            let found_at = runtime.clock.wall().seconds;
            let lost = report.findings.list.iter().filter_map(|it| loss_of(it, found_at));
            // A user who may only read leaves the file to another user.
            let _ = losses::write(folder, &lost.collect::<Vec<_>>());
            Vec::new()
        }
        Some(folder) => losses::read(folder),
        None => Vec::new(),
    };
    Ok(Done { report, took, known, refused: ready.refused })
}

/// The lost data of a finding, if the finding is about data.
fn loss_of(finding: &Finding, found_at: i64) -> Option<Loss> {
    let DataPlace { offset, length, .. } = finding.data?;
    let (path, snapshot, other_paths) = (finding.path.clone(), finding.snapshot.clone(), vec![]);
    Some(Loss { path, other_paths, snapshot, offset, length: Some(length), found_at })
}

/// A volume that is ready to be checked.
struct Ready {
    design: &'static Design,
    device: Rc<dyn BlockDevice>,
    /// The ring of intents of a volume that is to be repaired, if it has one.
    intents: Option<Rc<dyn BlockDevice>>,
    log: LogState,
    /// Reason why the log would make a repair be refused, as in [`Done`].
    refused: Option<OpenError>,
    /// Records that were saved of a log, and have been written in place for good or given up. The
    /// file is removed when the check has completed.
    saved: Option<PathBuf>,
    /// The folder of the volume, if it has one.
    folder: Option<PathBuf>,
    /// Whether the set may have lost data with its NVRAM.
    has_lost: bool,
}

/// Makes the checksums of a set anew whose log was in an NVRAM that is given up.
async fn renew_sums(volume: &Path, set: &raid::Set) -> Result<(), Failure> {
    let not_done = |error: raid::ScrubError| {
        let (path, why) = (volume.to_owned(), format!("reading the whole set: {error}"));
        Failure::NotDone { path, why }
    };
    let done = set.renew_sums(|_, _, _| ()).await.map_err(not_done)?;
    let lost: u64 = done.lost.iter().map(|(_, length)| length).sum();
    words::say(format_args!(
        "{}: the set was read without the log in its NVRAM: the checksums of {} blocks of disks \
         were made anew, and {} of data are lost; what was written last may be as it was before, \
         or zeros",
        volume.display(),
        done.renewed,
        show_size(lost)
    ));
    Ok(())
}

/// Opens the disk of a volume, whatever is on it, and replays its log: for good before a repair,
/// otherwise in memory.
async fn get_ready(arguments: &FsckArguments, runtime: &Runtime) -> Result<Ready, Failure> {
    let access = if arguments.repair { Access::ReadWrite } else { Access::ReadOnly };
    let mut volume = Volume::find(&arguments.volume)?.with_log(arguments.log.as_deref())?;
    volume.is_nvram_given_up = arguments.without_nvram;
    let disks = Disks::new().map_err(Failure::Start)?;
    let open = |disk| -> Rc<dyn BlockDevice> { disks.device(disk) };
    let stack = volume.open_to_serve(access, &open, runtime).await?;
    let Stack { disk: device, mut log, intents, set } = stack;
    let needs_log = |set: &&OpenSet| arguments.without_nvram && set.set.label().has_log_apart;
    let has_lost = match set.as_ref().filter(needs_log) {
        Some(open) => {
            renew_sums(&volume.path, &open.set).await?;
            true // acknowledged writes may be, which no checksum tells
        }
        None => false,
    };
    let intents = match intents {
        None if arguments.repair => intents::find(&volume, &open).await,
        room => room,
    };
    let mut saved = None;
    if let Some(path) = &volume.log_place() {
        saved = saved::saved_for(&*device, path, open).await?;
        let last = saved::log_of(&*device, path, saved.as_deref(), open);
        if let Some(last) = last.await? {
            log = Some(disks.device(DiskFile::open(&last, access)?));
        } else if volume.is_log_named && !arguments.without_log {
            // The user named this log, so a missing file is a typing mistake and not a lost log.
            let source = io::ErrorKind::NotFound.into();
            return Err(Failure::File { verb: "open", path: path.clone(), source });
        }
        if arguments.without_log
            && let Some(file) = &saved
            && !saved::is_its_own(&*device, path, file, open).await?
        {
            saved = None;
        }
    }
    let (device, log_use): (Rc<dyn BlockDevice>, _) =
        match (arguments.repair, arguments.without_log) {
            (true, true) => (device, LogUse::GiveUp),
            (true, false) => (device, LogUse::Replay),
            (false, true) => (device, LogUse::LeaveOut),
            (false, false) => (Rc::new(ScratchDevice::new(device)), LogUse::Look),
        };
    let prepare = volume.design().work().prepare;
    let prepared = prepare(&device, log.as_ref(), runtime, log_use).await;
    let prepared =
        prepared.map_err(|error| Failure::refused(&volume.path, words(arguments), error))?;
    if let Some(replayed) = &prepared.replayed {
        let volume = volume.path.display();
        let entries = replayed.entries;
        words::say(format_args!("{volume}: {entries} log entries were replayed first"));
    }
    if prepared.has_given_up {
        let volume = volume.path.display();
        words::say(format_args!("{volume}: the changes that the log held are given up"));
    }
    let is_over = arguments.without_log || prepared.replayed.is_some();
    let saved = saved.filter(|_| arguments.repair && is_over);
    let design = volume.design();
    let (log, refused, folder) = (prepared.state, prepared.refused, volume.folder);
    Ok(Ready { design, device, intents, log, refused, saved, folder, has_lost })
}
