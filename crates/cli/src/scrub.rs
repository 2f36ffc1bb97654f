//! `duramen scrub`: compares all blocks of a volume with their checksums, and names the files with
//! lost data. The server of a volume does it as a job while it serves.
//!
//! # Contract
//! Only bad blocks that can be repaired are written. The scrub may end at any moment.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use block::BlockDevice;
use block::file::{Access, DiskFile};
use clap::Args;
use designs::{OpenEngine, Opened, ScrubError, Scrubbed};
use futures::FutureExt;
use futures::future::Either;
use runtime::Runtime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::control::client;
use server::control::{Begin, End, Jobs, Refused};
use server::disks::Disks;
use server::reactor;

use crate::failure::{Failure, spell_out};
use crate::found::found_on;
use crate::losses::{self, Loss, LossBook, ScrubEnd};
use crate::order::{self, bar};
use crate::size::show_size;
use crate::stack::Stack;
use crate::volume::Volume;
use server::reactor::elsewhere;

/// Text at the end of `duramen scrub --help`.
pub(crate) const HELP: &str = "\
Reads all blocks in use, in disk order, and verifies their checksums. A bad block is rewritten if
another copy exists, for example on a mirror. Lost data is listed by file name and byte offset. If
the scrub fails or is interrupted with Ctrl-C, it lists what it has found so far. The volume may
remain in service. Only engine shadow has checksums of its own; 'duramen raid scrub' checks the
disks of a RAID set.

Examples:
  duramen scrub data
  duramen scrub data --json

Exit codes: 0 no data is lost; 1 data is lost, or the scrub failed; 2 usage error.";

/// Maximum number of final requests to a server that does not report the scrub, for example because
/// it is about to end.
const ASKED_AT_LAST: u32 = 25;

/// The arguments of `duramen scrub`.
#[derive(Args, Debug)]
pub(crate) struct ScrubArguments {
    /// Volume to scrub: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Print one JSON object; sizes are in bytes
    #[arg(long)]
    pub(crate) json: bool,
    /// Control socket of a bare disk that is served with the same option
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Progress and findings of a scrub. The names are those of JSON objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scrub {
    done_bytes: u64,
    total_bytes: u64,
    mended: u64,
    lost: Vec<Lost>,
    /// Reason why the scrub did not complete.
    error: Option<String>,
}

impl Scrub {
    /// Bytes that were compared, and their total.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.done_bytes, self.total_bytes)
    }

    /// Number of places that were rewritten.
    pub(crate) fn mended(&self) -> u64 {
        self.mended
    }

    /// Number of places with no good copy left.
    pub(crate) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Its progress and findings, in lines for people.
    pub(crate) fn findings(&self) -> Vec<(&'static str, String)> {
        let (done, total) = (show_size(self.done_bytes), show_size(self.total_bytes));
        let mut text = format!("{done} of {total}, {} mended", self.mended);
        if !self.lost.is_empty() {
            text += &format!(", {} lost", self.lost.len());
        }
        if let Some(error) = &self.error {
            text += &format!("; it ended early: {}", error.escape_debug());
        }
        let lost = self.lost.iter().map(|lost| {
            let Lost { path, snapshot, offset } = lost;
            let path = path.as_deref().unwrap_or("no file, on the volume").escape_debug();
            let snapshot = snapshot.as_ref().map(|name| format!(" in snapshot {name}"));
            ("lost", format!("{path}{}: from byte {offset} on", snapshot.unwrap_or_default()))
        });
        [("scrub", text)].into_iter().chain(lost).collect()
    }
}

/// A place with no good copy left.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lost {
    /// Path of the file with the loss, if a file has it.
    path: Option<String>,
    /// Name of the snapshot with the loss, if the live files do not have it.
    snapshot: Option<String>,
    /// Offset in the file, in bytes; on the volume, if no file has the loss.
    offset: u64,
}

impl Scrub {
    /// The lost places in the form that the volume's folder keeps.
    fn losses(&self, found_at: i64) -> Vec<Loss> {
        let loss = |lost: &Lost| {
            let Lost { path, snapshot, offset } = lost.clone();
            Loss { path, other_paths: Vec::new(), snapshot, offset, length: None, found_at }
        };
        self.lost.iter().map(loss).collect()
    }

    /// Takes over the findings of a progress report.
    fn see(&mut self, scrubbed: &Scrubbed) {
        let Scrubbed { done_bytes, total_bytes, mended, ref lost } = *scrubbed;
        (self.done_bytes, self.total_bytes, self.mended) = (done_bytes, total_bytes, mended);
        let new = lost.get(self.lost.len()..).unwrap_or_default();
        self.lost.extend(new.iter().cloned().map(|one| {
            let designs::Lost { path, snapshot, offset } = one;
            Lost { path, snapshot, offset }
        }));
    }
}

/// Findings of a scrub, and the reason why it did not complete, if it did not.
type Outcome = (Scrub, Result<(), Failure>);

/// Scrubs a volume and prints the findings, even if the scrub does not complete.
///
/// # Errors
/// [`Failure`], also if data is lost.
pub(crate) fn run(arguments: &ScrubArguments, output: &mut dyn Write) -> Result<(), Failure> {
    match scrub(arguments) {
        Ok((volume, outcome)) => tell(outcome, &volume, arguments.json, output),
        Err(failure) => {
            if arguments.json {
                let error = Some(failure.to_string());
                print_json(&Scrub { error, ..Scrub::default() }, output)?;
            }
            Err(failure)
        }
    }
}

/// Scrubs a volume.
///
/// # Errors
/// [`Failure`] if the scrub could not begin.
fn scrub(arguments: &ScrubArguments) -> Result<(Volume, Outcome), Failure> {
    let volume = Volume::find(&arguments.volume)?;
    refuse_unsummed(&volume)?;
    let socket = arguments.control.clone().or_else(|| volume.socket());
    let served = match &socket {
        Some(socket) => by_server(&volume, socket)?,
        None => None,
    };
    let outcome = match served {
        Some(outcome) => outcome,
        None => reactor::block_on(|runtime| here(&volume, runtime))
            .map_err(Failure::Start)?
            .map_err(|failure| order::or_ask(failure, &volume, socket.as_deref()))?,
    };
    Ok((volume, outcome))
}

fn print_json(scrub: &Scrub, output: &mut dyn Write) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(scrub).expect("all keys are names");
    Ok(writeln!(output, "{text}")?)
}

/// Prints the findings of a scrub.
///
/// # Errors
/// The reason why the scrub did not complete; [`Failure::Rotten`] if data is lost.
fn tell(
    (mut scrub, done): Outcome,
    volume: &Volume,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    if let Err(failure) = &done {
        scrub.error.get_or_insert_with(|| failure.to_string());
    }
    if is_json {
        print_json(&scrub, output)?;
    } else {
        describe(&scrub, volume, output)?;
    }
    done?;
    let places = scrub.lost.len();
    if places > 0 { Err(Failure::Rotten { path: volume.path.clone(), places }) } else { Ok(()) }
}

/// Refuses a volume whose engine keeps no checksums.
fn refuse_unsummed(volume: &Volume) -> Result<(), Failure> {
    let design = volume.design();
    if design.has_disks() && design.work().scrub.is_some() {
        return Ok(());
    }
    let (path, engine) = (volume.path.display(), design.engine);
    let other = match volume.settings.raid {
        Some(_) => "'duramen raid scrub' looks at its disks",
        None => "'duramen fsck' checks it",
    };
    let sentence = format!("{path}: engine {engine} keeps no checksums to compare with; {other}");
    Err(Failure::Usage(sentence))
}

fn describe(scrub: &Scrub, volume: &Volume, output: &mut dyn Write) -> Result<(), Failure> {
    for Lost { path, snapshot, offset } in &scrub.lost {
        let whose = path.as_deref().unwrap_or("no file, on the volume");
        let of = snapshot.as_ref().map(|name| format!(" in snapshot {name}")).unwrap_or_default();
        writeln!(output, "lost: {whose}{of}: from byte {offset} on")?;
    }
    let (path, mended) = (volume.path.display(), scrub.mended);
    let (done, all) = (show_size(scrub.done_bytes), show_size(scrub.total_bytes));
    let size = if scrub.error.is_some() { format!("{done} of {all}") } else { done };
    Ok(writeln!(output, "{path}: {size} compared with their checksums, {mended} places mended")?)
}

/// The failure of a scrub that was ended, for example by Ctrl-C.
fn ended(volume: &Volume) -> Failure {
    let path = volume.path.clone();
    Failure::Ended { path, what: "the scrub" }
}

/// The failure of a scrub that cannot continue for this reason.
fn not_scrubbed(volume: &Volume, why: String) -> Failure {
    let (path, source) = (volume.path.clone(), std::io::Error::other(why));
    Failure::File { verb: "scrub", path, source }
}

/// Asks the server of a volume to scrub it; returns nothing if there is no server.
fn by_server(volume: &Volume, socket: &Path) -> Result<Option<Outcome>, Failure> {
    let Some(answer) = order::post(socket, &volume.path, "/v1/scrub", &json!({}))? else {
        return Ok(None);
    };
    let (place, path, job) = (socket.to_owned(), volume.path.clone(), answer.clone());
    let follow = move || {
        let mut last = None;
        let look = || last = told_by(&place, &path).ok().or_else(|| last.take());
        let done = order::follow(&place, &path, &job, "scrubbing", look);
        (last, done)
    };
    let followed = reactor::block_on(|_| async {
        let followed = server::unless_ended(elsewhere(follow).boxed_local()).await?;
        Ok::<_, Failure>(match followed {
            Either::Left(followed) => Some(followed),
            Either::Right(_) => None,
        })
    });
    let followed = followed.map_err(Failure::Start)??;
    let (last, done) = followed.unwrap_or_else(|| {
        let route = format!("/v1/jobs/{}/cancel", answer["job"]);
        let _ = client::post(socket, &route, String::new()); // the job may have ended
        (None, Err(ended(volume)))
    });
    let (scrub, done) = match (told_in_time(socket, &volume.path), last) {
        (Ok(scrub), _) => (scrub, done),
        // The last findings may be incomplete.
        (Err(failure @ Failure::ServerEnded { .. }), Some(last)) => (last, Err(failure)),
        (Err(failure), Some(last)) => (last, done.and(Err(failure))),
        (Err(failure), None) => return Err(done.err().unwrap_or(failure)),
    };
    // The status of a job has only the fact of a failure, so the reason comes from the scrub.
    let done = done.map_err(|failure| match (failure, &scrub.error) {
        (Failure::Control { .. }, Some(why)) => not_scrubbed(volume, why.clone()),
        (failure, _) => failure,
    });
    Ok(Some((scrub, done)))
}

/// The last scrub, as the server of a volume reports it. Retries while a server is about to end.
fn told_in_time(socket: &Path, volume: &Path) -> Result<Scrub, Failure> {
    for _ in 0..ASKED_AT_LAST {
        match told_by(socket, volume) {
            Err(Failure::Control { .. }) => order::pause(),
            told => return told,
        }
    }
    told_by(socket, volume)
}

/// The last scrub, as the server of a volume reports it.
fn told_by(socket: &Path, volume: &Path) -> Result<Scrub, Failure> {
    let refused = |why: &str| Failure::Control { path: socket.to_owned(), why: why.to_owned() };
    let told = order::get(socket, volume, "/v1/info")?;
    let info: Value = serde_json::from_str(&told.body).unwrap_or_default();
    let scrub = serde_json::from_value(info["scrub"].clone());
    scrub.map_err(|_| refused("it tells nothing of the scrub"))
}

/// Scrubs a volume that no server serves.
async fn here(volume: &Volume, runtime: Runtime) -> Result<Outcome, Failure> {
    let disks = Disks::new().map_err(Failure::Start)?;
    let open = |disk: DiskFile| -> Rc<dyn BlockDevice> { disks.device(disk) };
    let stack = volume.open(Access::ReadWrite, &open, &runtime).await?;
    if let Err(failure) = found_on(volume.design(), &*stack.disk, &volume.disk_path).await {
        stack.close(volume).await?;
        return Err(failure);
    }
    let (scrub, done) = scrub_all(volume, stack).await;
    let losses = scrub.losses(runtime.clock.wall().seconds);
    losses::keep(volume.folder.clone(), losses, done.is_ok()).await;
    Ok((scrub, done))
}

/// Scrubs an open volume, and closes it.
async fn scrub_all(volume: &Volume, stack: Stack) -> Outcome {
    let (bar, mut scrub) = (bar("scrubbing"), Scrub::default());
    let mut watch = |scrubbed: &Scrubbed| {
        bar.set_length(scrubbed.total_bytes);
        bar.set_position(scrubbed.done_bytes);
        scrub.see(scrubbed);
        true
    };
    let work = volume.design().work().scrub.expect("it has checksums");
    let done = match server::unless_ended(work(&stack.disk, &mut watch)).await {
        Ok(Either::Left(Ok(Ok(_)))) => Ok(()),
        Ok(Either::Left(Ok(Err(_))) | Either::Right(_)) => Err(ended(volume)),
        Ok(Either::Left(Err(error))) => {
            Err(not_scrubbed(volume, spell_out(error, &volume.words())))
        }
        Err(error) => Err(error.into()),
    };
    bar.finish_and_clear();
    let closed = stack.close(volume).await;
    (scrub, done.and(closed))
}

/// Scrubs of a volume that is served, one at a time.
pub(crate) struct Scrubs {
    losses: Rc<LossBook>,
    engine: Weak<dyn OpenEngine>,
    jobs: Jobs,
    runtime: Runtime,
    is_under_way: Rc<Cell<bool>>,
    seen: Rc<RefCell<Option<Scrub>>>,
}

impl Scrubs {
    /// Creates the scrubs of an open volume.
    pub(crate) fn new(
        losses: Rc<LossBook>,
        opened: &Opened,
        jobs: &Jobs,
        runtime: &Runtime,
    ) -> Self {
        let (engine, jobs, runtime) =
            (Rc::downgrade(&opened.engine), jobs.clone(), runtime.clone());
        Self { losses, engine, jobs, runtime, is_under_way: Rc::default(), seen: Rc::default() }
    }

    /// The known losses of the volume.
    pub(crate) fn losses(&self) -> Rc<LossBook> {
        self.losses.clone()
    }

    /// State of the latest scrub.
    pub(crate) fn seen(&self) -> Rc<RefCell<Option<Scrub>>> {
        self.seen.clone()
    }

    /// Starts a scrub on behalf of the control channel.
    pub(crate) fn begin(self) -> Begin {
        Rc::new(move || self.begin_one())
    }

    fn begin_one(&self) -> Result<u64, Refused> {
        let conflict = |why: &dyn ToString| Refused::Conflict(why.to_string());
        let engine = self.engine.upgrade().ok_or_else(|| conflict(&ScrubError::Stopped))?;
        if engine.scrub(&mut |_| false).is_none() {
            return Err(conflict(&"its engine keeps no checksums to compare with"));
        }
        if self.is_under_way.replace(true) {
            return Err(conflict(&ScrubError::Busy));
        }
        self.seen.replace(Some(Scrub::default()));
        let job = self.jobs.begin("scrub", 0, "bytes", true);
        let id = job.id();
        let (is_under_way, seen) = (self.is_under_way.clone(), self.seen.clone());
        let (book, clock) = (self.losses.clone(), self.runtime.clock.clone());
        let scrub = async move {
            let mut watch = |scrubbed: &Scrubbed| {
                job.advance(scrubbed.done_bytes, scrubbed.total_bytes);
                if let Some(seen) = &mut *seen.borrow_mut() {
                    seen.see(scrubbed);
                }
                !job.is_cancelled()
            };
            let done = match engine.scrub(&mut watch) {
                Some(scrubbing) => scrubbing.await,
                None => Err(ScrubError::Stopped),
            };
            let losses = seen.borrow().as_ref().map(|seen| seen.losses(clock.wall().seconds));
            let losses = losses.unwrap_or_default();
            let end = match &done {
                Ok(_) => ScrubEnd::Completed,
                Err(ScrubError::Ended) => ScrubEnd::Cancelled,
                Err(error) => ScrubEnd::Failed(error.to_string()),
            };
            book.note(losses, end).await;
            is_under_way.set(false);
            if let (Err(error), Some(seen)) = (&done, &mut *seen.borrow_mut()) {
                seen.error = Some(error.to_string());
            }
            job.end(match done {
                Ok(_) => End::Done,
                Err(ScrubError::Ended) => End::Cancelled,
                Err(ScrubError::Busy | ScrubError::NoRoom | ScrubError::Stopped) => End::Failed,
            });
        };
        self.runtime.tasks.spawn(scrub.boxed_local());
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
