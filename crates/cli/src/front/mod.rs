//! The NVRAM in front of a volume's set of disks: which file or device it is, and how it is opened.
//!
//! The labels of the set decide whether there is one, and which ([`nvram::pairing`]). The settings
//! only hold its last known path. It is judged before the set is opened, so a refused start changes
//! no label. A reader opens it in memory, as it does with the disks.
//!
//! A set that needs nothing of a missing NVRAM is opened without it, and its labels say so: what
//! the NVRAM holds is void from then on.

mod health;
mod orders;
mod status;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile, OpenError, is_in_memory};
use block::mapped::MappedDevice;
use block::scratch::ScratchDevice;
use futures::FutureExt;
use nvram::health::Health;
use nvram::pairing::{Meeting, Pairing, Record, Unpaired};
use nvram::{Nvram, Recovered};
use raid::Set;
use raid::label::{self, Label};
use runtime::Runtime;

use crate::failure::Failure;
use crate::size::show_size;
use crate::volume::Volume;
use crate::words;
use health::monitor_of;
pub(crate) use orders::{act, go_up, watch};
use status::Kind;
pub(crate) use status::Status;

/// The NVRAM of an open volume.
pub(crate) struct Front {
    /// Its last known path.
    path: Option<PathBuf>,
    kind: Kind,
    /// Whether what it holds outlives the power, if that is known.
    survives_power: Option<bool>,
    /// The file that says how its battery is, if there is one.
    health: Option<PathBuf>,
    runtime: Runtime,
    presence: Presence,
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
    path: Option<PathBuf>,
    health: Option<PathBuf>,
    kind: Kind,
    /// Its device, or the reason why the set may be opened without it.
    memory: Result<Rc<dyn BlockDevice>, String>,
}

/// The pairing on the labels of a set.
fn pairing_of(nvram: &label::Nvram) -> Pairing {
    let label::Nvram { id, generation, is_dirty, out } = *nvram;
    Pairing { id, generation, is_dirty, out }
}

/// What the labels of a set have of a pairing.
pub(crate) fn label_of(pairing: &Pairing) -> label::Nvram {
    let Pairing { id, generation, is_dirty, out } = *pairing;
    label::Nvram { id, generation, is_dirty, out }
}

/// How a pairing is recorded on the labels of a set.
fn record_on(set: &Rc<Set>) -> Record {
    let set = set.clone();
    Rc::new(move |pairing| {
        let set = set.clone();
        async move { set.stand_behind(Some(label_of(&pairing))).await }.boxed_local()
    })
}

/// Whether the command line goes on without what only the NVRAM has.
fn accepts_loss(volume: &Volume) -> bool {
    volume.is_nvram_given_up || volume.is_loss_accepted
}

/// The refusal of a volume for its NVRAM.
pub(crate) fn refusal(
    volume: &Path,
    nvram: Option<&Path>,
    source: impl Into<nvram::OpenError>,
) -> Failure {
    let (path, nvram) = (volume.to_owned(), nvram.map(Path::to_owned));
    Failure::Nvram { path, nvram, source: source.into() }
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
    ) -> Result<Option<Self>, Failure> {
        let path = volume.settings.nvram.as_ref().map(|nvram| nvram.path.clone());
        let health = volume.settings.nvram.as_ref().and_then(|nvram| nvram.health.clone());
        let Some(known) = label.and_then(|label| label.nvram) else {
            return match path {
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
        let pairing = pairing_of(&known);
        let without = |why: String| {
            let alone = pairing.alone(accepts_loss(volume));
            alone.map_err(|missing| refusal(&volume.path, path.as_deref(), missing))?;
            let (path, health) = (path.clone(), health.clone());
            Ok(Some(Self { path, health, kind: Kind::File, memory: Err(why) }))
        };
        if volume.is_nvram_given_up {
            return without("what it alone had is given up".to_owned());
        }
        let Some(place) = &path else {
            return without("volume.toml does not name it".to_owned());
        };
        let disk = match DiskFile::open(place, access) {
            Ok(disk) => disk,
            Err(
                error @ (OpenError::Locked(_)
                | OpenError::Busy(_)
                | OpenError::PermissionDenied(..)),
            ) => return Err(error.into()),
            Err(error) => return without(error.to_string()),
        };
        let (memory, kind) = memory_of(disk, device);
        match nvram::look(&memory).await.and_then(|label| Ok(pairing.meet(&label)?)) {
            // A reader has no use for an empty one.
            Ok(Meeting::Void) if access != Access::ReadWrite => {
                without("the volume was used without it since".to_owned())
            }
            Ok(_) => Ok(Some(Self { path, health, kind, memory: Ok(memory) })),
            Err(error)
                if !volume.is_loss_accepted && (pairing.is_dirty || is_of_later_start(&error)) =>
            {
                Err(refusal(&volume.path, path.as_deref(), error))
            }
            Err(error) => without(error.to_string()),
        }
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
        let Self { path, health, kind, memory } = self;
        let Some(pairing) = set.label().nvram.map(|known| pairing_of(&known)) else {
            return Ok(None); // the label that holds is older, and was never acknowledged under
        };
        let (is_written, absence) = (access == Access::ReadWrite, memory.as_ref().err().cloned());
        let opened = match memory {
            Ok(memory) if is_written => {
                let (below, runtime, record) = (set.clone(), runtime.clone(), record_on(set));
                nvram::open_paired(below, memory, runtime, pairing, record).await
            }
            Ok(memory) => {
                let memory = Rc::new(ScratchDevice::new(memory));
                nvram::open(set.clone(), memory, runtime.clone(), pairing.id).await
            }
            Err(_) => Err(Unpaired::Missing.into()),
        };
        let presence = match opened {
            Ok((nvram, recovered)) => {
                let nvram = Rc::new(nvram);
                if let Some(source) = health.as_deref().filter(|_| is_written) {
                    let mut monitor = monitor_of(source, runtime);
                    // Before anything is written.
                    nvram.heed(monitor.next().await);
                    monitor.watch(&nvram);
                }
                Presence::Here(nvram, recovered)
            }
            // It is not there, or can be read and not written.
            Err(error) => {
                let Ok(alone) = pairing.alone(accepts_loss(volume)) else {
                    return Err(refusal(&volume.path, path.as_deref(), error));
                };
                if is_written {
                    let failed = |source| Failure::Device { path: volume.path.clone(), source };
                    record_on(set)(alone).await.map_err(failed)?;
                }
                let why = absence.unwrap_or_else(|| error.to_string());
                Presence::Absent { why, is_missed: pairing.is_dirty }
            }
        };
        let survives_power = match kind {
            Kind::Pmem => Some(true),
            Kind::File => {
                let is_in_memory =
                    path.as_deref().is_some_and(|it| is_in_memory(it).is_ok_and(|is| is));
                is_in_memory.then_some(false)
            }
        };
        let (is_busy, runtime) = (Cell::new(false), runtime.clone());
        Ok(Some(Front { path, kind, survives_power, health, runtime, presence, is_busy }))
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
        self.path.as_ref().map_or_else(String::new, |path| format!(" {}", path.display()))
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
