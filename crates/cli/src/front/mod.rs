//! The NVRAM in front of a volume's set of disks: which file or device it is, and how it is opened.
//! There may be two, each with everything.
//!
//! The labels of the set decide whether there is one, or two, and which ([`nvram::pairing`]). The
//! settings only hold the last known paths. An NVRAM is judged before the set is opened, so a
//! refused start changes no label. A reader opens it in memory, as it does with the disks.
//!
//! A set that needs nothing of a missing NVRAM is opened without it, and its labels say so: what
//! the NVRAM holds is void from then on.
//!
//! A part of its file may be the log device of the set (`lower`). The set reads that when it is
//! opened, and uses it only once the NVRAM has begun a new start.

mod health;
mod lower;
mod orders;
mod status;
mod twins;

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::file::{Access, DiskFile, OpenError, is_in_memory};
use block::mapped::MappedDevice;
use block::scratch::ScratchDevice;
use block::{BlockDevice, IoError};
use duramen_settings::NvramSettings;
use futures::FutureExt;
use nvram::health::Health;
use nvram::pairing::{Meeting, Pairing, Record, Unpaired};
use nvram::{Nvram, Recovered};
use raid::Set;
use raid::label::{self, Label};
use runtime::Runtime;

use crate::failure::{Failure, shown_nvrams};
use crate::size::show_size;
use crate::volume::Volume;
use crate::words;
use health::{monitor_of, watch as watch_health};
use lower::{Lower, parts};
pub(crate) use orders::{act, go_up, watch};
use status::Kind;
pub(crate) use status::Status;
use twins::{Device, Twins};

/// The NVRAM of an open volume.
pub(crate) struct Front {
    /// Its last known path, or those of two.
    paths: Vec<PathBuf>,
    /// Facts about each of two.
    twins: Option<Twins>,
    kind: Kind,
    /// Whether what it holds outlives the power, if that is known.
    survives_power: Option<bool>,
    /// The file that says how its battery is, if there is one.
    health: Option<PathBuf>,
    /// Opens the device of one of two that comes back.
    device: OnceCell<Device>,
    runtime: Runtime,
    presence: Presence,
    /// The log device in it.
    lower: Option<Rc<Lower>>,
    /// Whether it is being destaged.
    is_busy: Cell<bool>,
}

/// Whether a volume is open with its NVRAM.
enum Presence {
    /// The device, and what it held when it was opened.
    Here(Rc<Nvram>, Recovered),
    /// The volume is open without it.
    Absent {
        why: String,
        /// Whether it may hold data that the disks lack.
        is_missed: bool,
    },
}

/// The NVRAM that a set needs, judged before the set is opened.
pub(crate) struct Candidate {
    paths: Vec<PathBuf>,
    health: Option<PathBuf>,
    kind: Kind,
    twins: Option<Twins>,
    /// Its device, or those of two, or the reason why the set may be opened without it.
    memory: Result<Memories, String>,
    /// The log device of the set, in each that is believed.
    lower: Vec<Rc<dyn BlockDevice>>,
}

/// The devices of an NVRAM.
enum Memories {
    One(Rc<dyn BlockDevice>),
    Two(nvram::Memories),
}

/// The pairing on the labels of a set. The set may also need what the log device has.
fn pairing_of(label: &Label) -> Option<Pairing> {
    let label::Nvram { id, generation, is_dirty, out, .. } = label.nvram?;
    Some(Pairing { id, generation, is_dirty: is_dirty || label.has_log_apart, out })
}

/// The pairing and the log device as the labels of a set have them.
pub(crate) fn label_of(pairing: &Pairing, log_start: Option<u64>) -> label::Nvram {
    let Pairing { id, generation, is_dirty, out } = *pairing;
    label::Nvram { id, generation, is_dirty, out, log_start }
}

/// How a pairing is recorded on the labels of a set. A set that needs nothing of its NVRAM needs
/// nothing of the log device in it either.
fn record_with(set: &Rc<Set>, lower: Option<Rc<Lower>>) -> Record {
    let record = record_on(set);
    let Some(lower) = lower else { return record };
    let left = lower.clone();
    let write = move |pairing: Pairing| {
        if pairing.is_dirty {
            lower.may_be_used();
        }
        record.write(pairing)
    };
    Record::new(write).leaving(move || {
        let lower = left.clone();
        async move { lower.leave().await }.boxed_local()
    })
}

/// How a pairing is recorded on the labels of a set.
fn record_on(set: &Rc<Set>) -> Record {
    let set = set.clone();
    let log_start = set.label().nvram.and_then(|nvram| nvram.log_start);
    Record::new(move |pairing| {
        let (set, known) = (set.clone(), label_of(&pairing, log_start));
        async move { set.stand_behind(Some(known)).await }.boxed_local()
    })
}

/// Whether the command line goes on without what only the NVRAM has.
fn accepts_loss(volume: &Volume) -> bool {
    volume.is_nvram_given_up || volume.is_loss_accepted
}

/// The refusal of a volume for its NVRAM.
pub(crate) fn refusal(
    volume: &Path,
    nvrams: &[PathBuf],
    source: impl Into<nvram::OpenError>,
) -> Failure {
    let (path, nvrams) = (volume.to_owned(), nvrams.to_vec());
    Failure::Nvram { path, nvrams, source: source.into() }
}

impl Candidate {
    /// Finds the NVRAM that the latest label of a set names. `None` if it names none.
    ///
    /// # Errors
    /// [`Failure::Nvram`] if the set must not be opened with it, nor without it;
    /// [`Failure::Open`].
    pub(crate) async fn find(
        volume: &Volume,
        label: Option<&Label>,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<Option<Self>, Failure> {
        let settings = volume.settings.nvram.as_ref();
        let known = label.and_then(|label| Some((label, pairing_of(label)?)));
        let Some((label, pairing)) = known else {
            return match settings {
                Some(_) if label.is_some() => Err(Failure::Settings {
                    path: volume.path.clone(),
                    why: "volume.toml names an NVRAM, and the set has none".to_owned(),
                    advice: "; remove its section [nvram], and 'duramen tune --nvram' gives the \
                             set one"
                        .to_owned(),
                }),
                _ => Ok(None),
            };
        };
        let mut paths = settings.map(NvramSettings::paths).unwrap_or_default();
        paths.truncate(if pairing.out.is_some() { 2 } else { 1 });
        let health = settings.and_then(|nvram| nvram.health.clone());
        let without = |why: String| {
            let alone = pairing.alone(accepts_loss(volume));
            alone.map_err(|missing| refusal(&volume.path, &paths, missing))?;
            let (paths, health) = (paths.clone(), health.clone());
            let (kind, lower) = (Kind::File, Vec::new());
            Ok(Some(Self { paths, health, kind, twins: None, memory: Err(why), lower }))
        };
        if volume.is_nvram_given_up {
            return without("what it alone had is given up".to_owned());
        }
        if paths.is_empty() {
            return without("volume.toml does not name it".to_owned());
        }
        let mut found = Vec::new();
        for path in &paths {
            found.push(look_for(path, access, device)?);
        }
        if found.iter().all(Result::is_err) {
            let mut missing = found.into_iter().filter_map(Result::err);
            return without(missing.next().unwrap_or_default());
        }
        let is_persistent = found.iter().flatten().all(|(_, kind)| *kind == Kind::Pmem);
        let kind = if is_persistent { Kind::Pmem } else { Kind::File };
        let Judged { meeting, twins, memory, lower } = judge(found, label, &pairing, runtime).await;
        match meeting {
            // A reader has no use for an empty one.
            Ok(Meeting::Void) if access != Access::ReadWrite => {
                without("the volume was used without it since".to_owned())
            }
            Ok(_) => Ok(Some(Self { paths, health, kind, twins, memory: Ok(memory), lower })),
            Err(error)
                if !volume.is_loss_accepted && (pairing.is_dirty || is_of_later_start(&error)) =>
            {
                Err(refusal(&volume.path, &paths, error))
            }
            Err(error) => without(error.to_string()),
        }
    }

    /// The log device of the set, to be read, in each NVRAM that is believed.
    pub(crate) fn log_devices(&self, access: Access) -> Vec<Rc<dyn BlockDevice>> {
        let is_written = access == Access::ReadWrite;
        let read = |lower: &Rc<dyn BlockDevice>| -> Rc<dyn BlockDevice> {
            if is_written { lower.clone() } else { Rc::new(ScratchDevice::new(lower.clone())) }
        };
        self.lower.iter().map(read).collect()
    }

    /// Opens it in front of the set, which has this label in force.
    ///
    /// # Errors
    /// [`Failure::Nvram`]; [`Failure::Device`] if the set has failed.
    pub(crate) async fn open(
        self,
        volume: &Volume,
        set: &Rc<Set>,
        access: Access,
        runtime: &Runtime,
    ) -> Result<Option<Front>, Failure> {
        let Self { paths, health, kind, twins, memory, lower } = self;
        let Some(pairing) = pairing_of(&set.label()) else {
            return Ok(None); // the label that holds is older, and was never acknowledged under
        };
        let (has_lower, alone) = (!lower.is_empty(), lower.first().cloned());
        let lower = has_lower.then(|| Rc::new(Lower::new(set)));
        let (is_written, absence) = (access == Access::ReadWrite, memory.as_ref().err().cloned());
        let opened = match memory {
            Ok(memory) => {
                let record = is_written.then(|| record_with(set, lower.clone()));
                open_memories(memory, set, pairing, record, runtime).await
            }
            Err(_) => Err(Unpaired::Missing.into()),
        };
        let presence = match opened {
            Ok((nvram, recovered)) => {
                let nvram = Rc::new(nvram);
                let log = if twins.is_some() { nvram.log_device() } else { alone };
                if let Some((lower, log)) = lower.as_ref().zip(log) {
                    lower.is_in(log);
                }
                if let Some(source) = health.as_deref().filter(|_| is_written) {
                    let mut monitor = monitor_of(source, runtime);
                    // Before anything is written.
                    nvram.heed(monitor.next().await);
                    watch_health(monitor, &nvram, lower.as_ref(), runtime);
                }
                if let Some(lower) = lower.as_ref().filter(|_| is_written) {
                    let failed = |source| Failure::Device { path: volume.path.clone(), source };
                    lower.follow(&nvram).await.map_err(failed)?;
                }
                Presence::Here(nvram, recovered)
            }
            // It is not there, or can be read and not written.
            Err(error) => {
                let Ok(alone) = pairing.alone(accepts_loss(volume)) else {
                    return Err(refusal(&volume.path, &paths, error));
                };
                if is_written {
                    let failed = |source| Failure::Device { path: volume.path.clone(), source };
                    record_on(set).write(alone).await.map_err(failed)?;
                }
                let why = absence.unwrap_or_else(|| error.to_string());
                Presence::Absent { why, is_missed: pairing.is_dirty }
            }
        };
        Ok(Some(Front {
            survives_power: survives_power(kind, &paths),
            paths,
            twins,
            kind,
            health,
            device: OnceCell::new(),
            runtime: runtime.clone(),
            presence,
            lower,
            is_busy: Cell::new(false),
        }))
    }
}

/// Whether what NVRAMs hold outlives the power, if that is known.
fn survives_power(kind: Kind, paths: &[PathBuf]) -> Option<bool> {
    let is_volatile = |path: &PathBuf| is_in_memory(path).is_ok_and(|is| is);
    match kind {
        Kind::Pmem => Some(true),
        Kind::File => paths.iter().any(is_volatile).then_some(false),
    }
}

/// A device that was found, or why it was not.
type Found = Result<(Rc<dyn BlockDevice>, Kind), String>;

/// Opens the file or device of an NVRAM.
///
/// # Errors
/// [`Failure`] if it is there, and somebody has to act first.
fn look_for(
    path: &Path,
    access: Access,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Found, Failure> {
    match DiskFile::open(path, access) {
        Ok(disk) => Ok(Ok(memory_of(disk, device))),
        Err(
            error @ (OpenError::Locked(_) | OpenError::Busy(_) | OpenError::PermissionDenied(..)),
        ) => Err(error.into()),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// An NVRAM that was judged.
struct Judged {
    meeting: Result<Meeting, nvram::OpenError>,
    twins: Option<Twins>,
    memory: Memories,
    /// The log device of the set, in each that is believed.
    lower: Vec<Rc<dyn BlockDevice>>,
}

/// Judges an NVRAM that was found, or two of which one was found.
async fn judge(found: Vec<Found>, label: &Label, pairing: &Pairing, runtime: &Runtime) -> Judged {
    if pairing.out.is_some() {
        let (twins, memories) = Twins::found(found, label);
        let judged = nvram::judge_two(&memories, pairing, runtime).await;
        let judged = judged.map(|(assembly, _)| (assembly.logs(&memories, runtime), assembly));
        let judged = judged.map(|(lower, assembly)| (lower, twins.judged(assembly)));
        let (lower, meeting) = match judged {
            Ok((lower, meeting)) => (lower, Ok(meeting)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let memory = Memories::Two(memories);
        return Judged { meeting, twins: Some(twins), memory, lower };
    }
    let (memory, _) = found.into_iter().flatten().next().expect("one was found");
    let nvram::Found { memory, log } = parts(memory, label);
    let lower = log.into_iter().collect();
    let label = nvram::look(&memory).await;
    let meeting = label.and_then(|label| Ok(pairing.meet(&label)?));
    Judged { meeting, twins: None, memory: Memories::One(memory), lower }
}

/// Opens an NVRAM, or two, in front of a set. Without a way to record the pairing, changes stay in
/// memory.
async fn open_memories(
    memory: Memories,
    set: &Rc<Set>,
    pairing: Pairing,
    record: Option<Record>,
    runtime: &Runtime,
) -> Result<(Nvram, Recovered), nvram::OpenError> {
    let (below, runtime) = (set.clone(), runtime.clone());
    let in_memory = |memory| Rc::new(ScratchDevice::new(memory)) as Rc<dyn BlockDevice>;
    match (memory, record) {
        (Memories::One(memory), Some(record)) => {
            nvram::open_paired(below, memory, runtime, pairing, record).await
        }
        (Memories::One(memory), None) => {
            nvram::open(below, in_memory(memory), runtime, pairing.id).await
        }
        (Memories::Two(memories), record) => {
            let is_read = record.is_none();
            // Nothing gets to the log of one that is read.
            let as_opened = |found: nvram::Found| {
                if is_read { in_memory(found.memory).into() } else { found }
            };
            let memories = memories.map(|found| found.map(as_opened));
            nvram::open_two(below, memories, runtime, pairing, record).await
        }
    }
}

/// The device of an NVRAM: mapped, if it is memory.
fn memory_of(
    disk: DiskFile,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> (Rc<dyn BlockDevice>, Kind) {
    match MappedDevice::new(disk) {
        Ok(mapped) if mapped.is_persistent() => (Rc::new(mapped), Kind::Pmem),
        Ok(mapped) => (Rc::new(mapped), Kind::File),
        Err(disk) => (device(*disk), Kind::File),
    }
}

fn is_of_later_start(error: &nvram::OpenError) -> bool {
    matches!(error, nvram::OpenError::Unpaired(Unpaired::OlderVolume { .. }))
}

impl Front {
    /// The open NVRAM, unless the volume is open without it.
    pub(crate) fn nvram(&self) -> Option<&Rc<Nvram>> {
        match &self.presence {
            Presence::Here(nvram, _) => Some(nvram),
            Presence::Absent { .. } => None,
        }
    }

    /// Begins or ends the use of the log device in it, as it is in use itself.
    ///
    /// # Errors
    /// The set has stopped.
    pub(crate) async fn follow(&self) -> Result<(), IoError> {
        match (self.nvram(), &self.lower) {
            (Some(nvram), Some(lower)) => lower.follow(nvram).await,
            _ => Ok(()),
        }
    }

    /// The same as a task of its own, one at a time.
    fn follow_beside(&self) {
        if let (Some(nvram), Some(lower)) = (self.nvram(), &self.lower) {
            lower.follow_beside(nvram, &self.runtime);
        }
    }

    /// Brings everything to the disks, and takes it out of use.
    ///
    /// # Errors
    /// Why something is not there. Then it is in use as before, or not at all.
    pub(crate) async fn go_down(&self) -> Result<(), IoError> {
        let Some(nvram) = self.nvram() else { return Ok(()) };
        nvram.settle(true).await?;
        self.follow().await
    }

    /// Ends the use of the log device in it for good.
    ///
    /// # Errors
    /// The set has stopped.
    pub(crate) async fn leave_lower(&self) -> Result<(), IoError> {
        match &self.lower {
            Some(lower) => lower.leave().await,
            None => Ok(()),
        }
    }

    /// Reads how its battery is, for a command that only shows that.
    async fn read_health(&self) -> Option<Health> {
        let path = self.health.as_deref()?;
        Some(monitor_of(path, &self.runtime).next().await)
    }

    /// Why the volume is open without it.
    fn absence(&self) -> Option<&str> {
        match &self.presence {
            Presence::Here(..) => None,
            Presence::Absent { why, .. } => Some(why),
        }
    }

    /// Why data may be lacking that only the NVRAM has, if they may.
    pub(crate) fn lacked(&self) -> Option<&str> {
        match &self.presence {
            Presence::Absent { why, is_missed: true } => Some(why),
            _ => None,
        }
    }

    fn shown(&self) -> String {
        shown_nvrams(&self.paths)
    }

    /// Says at a start how it stands.
    fn announce(&self, volume: &Path) {
        let (volume, shown) = (volume.display(), self.shown());
        let recovered = match &self.presence {
            Presence::Here(_, recovered) => recovered,
            Presence::Absent { why, .. } => {
                return words::say(format_args!(
                    "{volume}: served without its NVRAM{shown}: {why}; nothing of it is missing on \
                     the disks"
                ));
            }
        };
        self.announce_twins(&volume);
        let status = Status::of(self);
        let state = if status.is_up() { String::new() } else { format!(", {}", status.change()) };
        words::say(format_args!(
            "{volume}: NVRAM{shown}: {} dirty, battery {}{state}",
            show_size(status.dirty_bytes),
            status.battery
        ));
        if recovered.rotten > 0 {
            words::say(format_args!(
                "{volume}: {} blocks of the NVRAM{shown} are damaged, and what they held is lost: \
                 reads of it fail until it is written",
                recovered.rotten
            ));
        }
        if status.survives_power == Some(false) {
            words::say(format_args!(
                "{volume}: the NVRAM{shown} is in memory of the host: it survives a crash of the \
                 server, not of the machine"
            ));
        }
    }
}
