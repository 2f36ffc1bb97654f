//! Opens the engine of a volume.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use designs::{
    Disks, Found, OpenError, OpenOptions, Opened, Progress, ReclaimState, Reclaimed, Renewed,
    Report,
};
use indicatif::{ProgressBar, ProgressStyle};
use runtime::{Instant, Runtime};
use server::control::{End, Jobs, Live};
use vfs::FileSystem;

use crate::failure::Failure;
use crate::folder::is_there;
use crate::found::found_on;
use crate::front::Front;
use crate::info::live_of;
use crate::intents;
use crate::log::{self, log_size_for};
use crate::losses::LossBook;
use crate::saved::saved_of;
use crate::scrub::Scrubs;
use crate::sets::Orders;
use crate::size::show_size;
use crate::stack::{OpenSet, Stack, tell_damaged_record};
use crate::volume::Volume;
use crate::words;

/// How often to check whether there is something to report.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between reports that the host of a disk is full.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);

/// An open volume.
pub(crate) struct OpenVolume {
    /// Number of the file system, which stays the same wherever it is served.
    pub(crate) id: u64,
    /// The open file system.
    pub(crate) file_system: Rc<dyn FileSystem>,
    /// Statistics of the volume while it is served.
    pub(crate) live: Live,
    /// Background jobs of the volume.
    pub(crate) jobs: Jobs,
    /// Scrubs of the volume.
    pub(crate) scrubs: Scrubs,
    /// Orders that change the underlying set of disks, if it may be changed.
    pub(crate) orders: Option<Orders>,
    /// The NVRAM in front of that set.
    pub(crate) front: Option<Rc<Front>>,
    /// Findings of the opening about the volume's disk.
    pub(crate) found: Found,
    /// Reports, once the volume is stopped, the work that the stop leaves for the next start.
    pub(crate) report_stop: ReportStop,
}

/// Reports the work that a stop leaves for the next start.
pub(crate) type ReportStop = Box<dyn Fn()>;

/// Opens a volume on the device that `device` makes of its disk. A volume that was cut off is
/// repaired first, with a progress bar for the user.
///
/// # Errors
/// [`Failure`] if the volume cannot be opened that way.
pub(crate) async fn open_volume(
    volume: &Volume,
    access: Access,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice> + Clone + 'static,
    cache_bytes: usize,
    runtime: &Runtime,
) -> Result<OpenVolume, Failure> {
    let path = &volume.path;
    let start = runtime.clock.now();
    if access == Access::ReadWrite && volume.log_path.is_none() && volume.lacks_a_member()? {
        rehearse(volume, &device, cache_bytes, runtime).await?;
    }
    let mut stack = volume.open_to_serve(access, &device, runtime).await?;
    let opening = Opening::begin(volume, &stack, start).await?;
    let read_only = access == Access::ReadOnly;
    let softdep = volume.settings.softdep.options();
    let options = OpenOptions { read_only, cache_bytes, softdep, ..OpenOptions::default() };
    let log_path = volume.log_path.as_deref().filter(|_| !read_only);
    if let Some(log) = log_path.filter(|_| !opening.is_clean) {
        refuse_saved(volume, &*stack.disk, log, &device).await?;
    }
    if let Some(log) = stack.log.take_if(|_| read_only) {
        let _ = log.close().await; // the log is not needed, and all parts of a set must be closed
    }
    let log_size = volume.settings.log_size.unwrap_or_else(|| log_size_for(opening.size));
    let log = match log_path {
        Some(path) => open_log(volume, path, log_size, opening.needs_log, &device).await?,
        None => stack.log,
    };
    let intents = match stack.intents.take() {
        None if !read_only => intents::open(volume, opening.size, &device).await?,
        room => room,
    };
    let bar = repair_bar(path);
    let mut show = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let (open, disks) = (volume.design().work().open, Disks { volume: stack.disk, log, intents });
    let opened = open(disks, runtime.clone(), &options, &mut show).await;
    bar.finish_and_clear();
    if let Ok(Some(why)) = opened.as_ref().map(|opened| &opened.lost_intents) {
        words::say(format_args!(
            "{}: some remembered answers are lost ({why}): a call that a client repeats may run \
             twice",
            path.display()
        ));
    }
    let mut opened = opening.end(volume, stack.set, opened, device, runtime)?;
    opened.orders = opened.orders.filter(|_| !read_only);
    opened.orders.iter().for_each(Orders::attend);
    if let Some(path) = log_path {
        log::grow(path.to_owned(), log_size);
    }
    Ok(opened)
}

/// Opens a volume in memory and closes it again: only a start that completes declares a missing
/// member of its set out. If damage refuses the volume, that member may repair it.
async fn rehearse(
    volume: &Volume,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
    cache_bytes: usize,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let Stack { disk, log, set, .. } = volume.open(Access::ReadOnly, device, runtime).await?;
    let softdep = volume.settings.softdep.options();
    let options = OpenOptions { cache_bytes, softdep, ..OpenOptions::default() };
    let open = volume.design().work().open;
    let disks = Disks { log, ..Disks::alone(disk) };
    let opened = open(disks, runtime.clone(), &options, &mut |_| ()).await;
    let opened = opened.map_err(|error| {
        set.iter().for_each(|open| tell_damaged_record(&volume.path, &open.set));
        Failure::refused(&volume.path, volume.words(), error)
    })?;
    let _ = opened.files.shutdown().await; // nothing was changed
    Ok(())
}

/// A volume whose disk has been inspected and which is about to be opened.
pub(crate) struct Opening {
    path: PathBuf,
    /// Command-line words that name the volume.
    words: String,
    id: u64,
    /// Whether the volume was stopped cleanly.
    pub(crate) is_clean: bool,
    /// Whether the volume may need the contents of a log.
    pub(crate) needs_log: bool,
    /// Size of the file system, in bytes.
    pub(crate) size: u64,
    start: Instant,
    found: Found,
}

impl Opening {
    /// Inspects a partly opened volume. `start` is when its opening began.
    pub(crate) async fn begin(
        volume: &Volume,
        stack: &Stack,
        start: Instant,
    ) -> Result<Self, Failure> {
        let found = found_on(volume.design(), &*stack.disk, &volume.disk_path).await?;
        let (path, words) = (volume.path.clone(), volume.words());
        let Found { number: id, is_clean, needs_log, size, .. } = found;
        Ok(Self { path, words, id, is_clean, needs_log, size, start, found })
    }

    /// Completes the opening of the volume, or reports why it was refused.
    pub(crate) fn end(
        self,
        volume: &Volume,
        set: Option<OpenSet>,
        opened: Result<Opened, OpenError>,
        device: impl Fn(DiskFile) -> Rc<dyn BlockDevice> + 'static,
        runtime: &Runtime,
    ) -> Result<OpenVolume, Failure> {
        let (path, words) = (self.path.clone(), self.words);
        let opened = opened.map_err(|error| Failure::refused(&path, words, error))?;
        report(&self.path, &opened, runtime.clock.now().since(self.start));
        let jobs = Jobs::default();
        watch(&self.path, &opened, &jobs, runtime);
        let report_stop = report_stop_of(&self.path, &opened);
        let losses = match &set {
            Some(set) => set.losses.clone(),
            None => LossBook::open(volume.folder.clone()),
        };
        let scrubs = Scrubs::new(losses, &opened, &jobs, runtime);
        let live = live_of(&opened, set.clone(), &scrubs);
        let file_system = opened.files;
        let front = set.as_ref().and_then(|set| set.front.clone());
        let device: Rc<dyn Fn(DiskFile) -> Rc<dyn BlockDevice>> = Rc::new(device);
        front.iter().for_each(|front| front.return_with(device.clone()));
        let device = move |disk| device(disk);
        let orders = set.map(|set| Orders::new(volume, &set, jobs.clone(), device, runtime));
        let (id, found) = (self.id, self.found);
        Ok(OpenVolume { id, file_system, live, jobs, scrubs, orders, front, found, report_stop })
    }
}

/// Opens the log of a volume. A volume that was stopped cleanly, or was used without a log, has
/// lost nothing with a missing log and gets a new one. Any other volume is refused without its log,
/// with advice.
async fn open_log(
    volume: &Volume,
    path: &Path,
    size: u64,
    needs_log: bool,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Option<Rc<dyn BlockDevice>>, Failure> {
    if !needs_log && log::is_lacking(path)? {
        log::make(path, size)?;
    }
    if !is_there(path)? {
        return Ok(None);
    }
    Ok(Some(log::open(path, volume.is_log_named, device).await?))
}

/// Refuses a volume if records that belong to it were saved beside its log: the volume recovers
/// with them where its log is to be shared.
async fn refuse_saved(
    volume: &Volume,
    disk: &dyn BlockDevice,
    log: &Path,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<(), Failure> {
    let Some(saved) = saved_of(disk, log, device).await? else { return Ok(()) };
    let words = volume.clone().with_log(Some(log))?.words();
    Err(Failure::Saved { path: volume.path.clone(), saved, words })
}

/// Progress bar of a repair. It is drawn on standard error from the first step on, if that is a
/// terminal.
fn repair_bar(path: &Path) -> ProgressBar {
    let template = "repairing {msg} {bar:40} {percent}% {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::no_length().with_style(style).with_message(path.display().to_string())
}

/// Reports a call that waits long for room in the log of a volume: the user should know that the
/// disk does not keep up or does not answer. Also reports a full host of the disk, as long as it is
/// full. Meanwhile reclaim runs as a job and frees the leftovers of a cut.
fn watch(path: &Path, opened: &Opened, jobs: &Jobs, runtime: &Runtime) {
    let (path, engine) = (path.to_owned(), Rc::downgrade(&opened.engine));
    let clock = runtime.clock.clone();
    let mut reclaim = opened.reclaims.then(|| jobs.begin("reclaim", 0, "inodes", false));
    let watch = async move {
        let mut told = 0;
        let (mut refusals, mut refused_at) = (0, None::<Instant>);
        loop {
            clock.sleep(WATCH_INTERVAL).await;
            let Some(engine) = engine.upgrade() else { return };
            if let (Some(job), Some(reclaimed)) = (&reclaim, engine.reclaimed()) {
                job.advance(reclaimed.scanned, reclaimed.total);
                if let Some(end) = say_reclaimed(&path, reclaimed) {
                    reclaim.take().into_iter().for_each(|job| job.end(end));
                }
            }
            let waits = engine.log_statistics().map_or(0, |log| log.long_waits);
            if waits > told {
                words::say(format_args!(
                    "{}: a change has waited for room in the log for 10 s, because what is in the \
                     log is not on the disk yet",
                    path.display()
                ));
            }
            told = waits;
            let (now, all) = (clock.now(), engine.refusals());
            let is_time = refused_at.is_none_or(|at| now.since(at) >= REFUSED_INTERVAL);
            if all > refusals && is_time {
                words::say(format_args!(
                    "{}: no space is left where its disk lies: what needs space is refused until \
                     there is some, and what was answered is safe in the log, if there is one",
                    path.display()
                ));
                (refusals, refused_at) = (all, Some(now));
            }
        }
    };
    runtime.tasks.spawn(Box::pin(watch));
}

/// Reports how reclaim ended, if it has ended.
fn say_reclaimed(path: &Path, reclaimed: Reclaimed) -> Option<End> {
    let Reclaimed { state, fragments, inodes, links, .. } = reclaimed;
    let path = path.display();
    match state {
        ReclaimState::Running => None,
        ReclaimState::Done => {
            words::say(format_args!(
                "{path}: what the cut had left is reclaimed: {fragments} fragments, {inodes} \
                 inodes, {links} links"
            ));
            Some(End::Done)
        }
        ReclaimState::Failed => {
            words::say(format_args!(
                "{path}: reclaiming what the cut had left met damage, an error of the disk, or a \
                 volume too full to name lost files in lost+found, and has ended; nothing more is \
                 given back. Stop the server and run 'duramen fsck --repair' on the volume"
            ));
            Some(End::Failed)
        }
    }
}

/// Reports the damaged blocks that an opening has done without.
fn say_renewed(path: &impl std::fmt::Display, renewed: Renewed) {
    let Renewed { map_blocks, answer_blocks, has_lost_records, given_up, mended_runs } = renewed;
    if mended_runs > 0 {
        words::say(format_args!(
            "{path}: a bit had flipped in {mended_runs} of the last blocks that were written \
             before the volume was cut off, and is mended"
        ));
    }
    if map_blocks > 0 {
        words::say(format_args!(
            "{path}: the map of space was damaged, and {map_blocks} blocks of it are made anew"
        ));
    }
    if answer_blocks > 0 || has_lost_records {
        words::say(format_args!(
            "{path}: some remembered answers were damaged and are forgotten: a call that a client \
             repeats from before the start may be executed twice"
        ));
    }
    if given_up > 0 || has_lost_records {
        words::say(format_args!(
            "{path}: what snapshots alone hold is not known wholly any more: some space stays in \
             use until 'duramen fsck --repair' gives it back"
        ));
    }
}

/// Reports the progress of reclaim if the volume is stopped before it is complete: the volume keeps
/// the mark that it was not stopped cleanly.
fn report_stop_of(path: &Path, opened: &Opened) -> ReportStop {
    let (path, engine) = (path.to_owned(), Rc::downgrade(&opened.engine));
    Box::new(move || {
        let reclaimed = engine.upgrade().and_then(|engine| engine.reclaimed());
        if let Some(sentence) = reclaimed.and_then(|reclaimed| left_at_stop(&path, reclaimed)) {
            words::say(format_args!("{sentence}"));
        }
    })
}

/// Sentence about a stop before reclaim was complete.
fn left_at_stop(path: &Path, reclaimed: Reclaimed) -> Option<String> {
    let Reclaimed { state, scanned, total, .. } = reclaimed;
    (state == ReclaimState::Running).then(|| {
        format!(
            "{}: stopped before all that the cut had left was reclaimed ({scanned} of {total} \
             inodes were looked at); everything that was answered is on the disk, but the volume \
             is not clean: the next 'duramen serve' begins to reclaim again",
            path.display()
        )
    })
}

/// Reports to the administrator about a newly opened volume.
fn report(path: &Path, opened: &Opened, took: Duration) {
    let path = path.display();
    if let Some(replayed) = &opened.replayed {
        let (entries, records, writes) = (replayed.entries, replayed.records, replayed.writes);
        let (bytes, took_ms) = (show_size(replayed.bytes), took.as_millis());
        words::say(format_args!(
            "{path} was cut off and is back: {entries} log entries ({bytes}) with \
             {records} changes were replayed with {writes} writes in {took_ms} ms"
        ));
    }
    if opened.reclaims {
        words::say(format_args!(
            "{path} was cut off and is served at once: what that left of space and links is \
             reclaimed meanwhile ('duramen info' tells how far that is)"
        ));
    }
    if let Some(reason) = &opened.read_only {
        words::say(format_args!("{path} can only be read: {reason}"));
    }
    if let Some(renewed) = opened.engine.shadow().map(|status| status.renewed) {
        say_renewed(&path, renewed);
    }
    if let Some(found) = &opened.rebuilt {
        let Report { files, freed, .. } = found;
        words::say(format_args!(
            "{path} was cut off and is repaired: {files} files are kept, {freed} \
             that had no name any more are freed"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_in_the_middle_of_reclaim_says_so_and_no_other_does() {
        let sentence = |state| {
            let reclaimed = Reclaimed { state, scanned: 64, total: 512, ..Reclaimed::default() };
            left_at_stop(Path::new("volume"), reclaimed)
        };
        let running = sentence(ReclaimState::Running).expect("it was not through");
        assert!(running.contains("64 of 512") && running.contains("not clean"), "{running}");
        assert_eq!(sentence(ReclaimState::Done), None);
        assert_eq!(sentence(ReclaimState::Failed), None, "that was said when it failed");
    }
}
