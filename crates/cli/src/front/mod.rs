//! The NVRAM in front of a volume's set of disks: which file or device it is, and how it is opened.
//!
//! The labels of the set decide whether there is one, and which ([`nvram::pairing`]). The settings
//! only hold its last known path. It is judged before the set is opened, so a refused start changes
//! no label. A reader opens it in memory, as it does with the disks.
//!
//! A set that needs nothing of a missing NVRAM is opened without it, and its labels say so: what
//! the NVRAM holds is void from then on.

mod orders;
mod status;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile, OpenError};
use block::scratch::ScratchDevice;
use futures::FutureExt;
use nvram::pairing::{Meeting, Pairing, Record, Unpaired};
use nvram::{Nvram, Recovered};
use raid::Set;
use raid::label::{self, Label};
use runtime::Runtime;
use rustix::fs::statfs;

use crate::failure::Failure;
use crate::size::show_size;
use crate::volume::Volume;
use crate::words;
pub(crate) use orders::{act, go_up, watch};
pub(crate) use status::Status;

/// Types of file systems in memory that does not outlive the power, as statfs(2) has them.
const VOLATILE: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The NVRAM of an open volume.
pub(crate) struct Front {
    /// Its last known path.
    path: Option<PathBuf>,
    /// The device, unless the volume is open without it.
    nvram: Option<Rc<Nvram>>,
    /// The reason why the volume is open without it.
    absence: Option<String>,
    /// Whether it may hold data that the disks lack.
    is_dirty: bool,
    /// What it held when it was opened.
    recovered: Recovered,
    /// Whether it is being destaged.
    is_busy: Cell<bool>,
}

/// The NVRAM that a set needs, judged before the set is opened.
pub(crate) struct Candidate {
    path: Option<PathBuf>,
    /// Its device, or the reason why the set may be opened without it.
    memory: Result<Rc<dyn BlockDevice>, String>,
}

/// The pairing on the labels of a set.
fn pairing_of(nvram: &label::Nvram) -> Pairing {
    let label::Nvram { id, generation, is_dirty } = *nvram;
    Pairing { id, generation, is_dirty }
}

/// What the labels of a set have of a pairing.
pub(crate) fn label_of(pairing: &Pairing) -> label::Nvram {
    let Pairing { id, generation, is_dirty } = *pairing;
    label::Nvram { id, generation, is_dirty }
}

/// How a pairing is recorded on the labels of a set.
fn record_on(set: &Rc<Set>) -> Record {
    let set = set.clone();
    Rc::new(move |pairing| {
        let set = set.clone();
        async move { set.stand_behind(Some(label_of(&pairing))).await }.boxed_local()
    })
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
        let refused = |source: nvram::OpenError| Failure::Nvram {
            path: volume.path.clone(),
            nvram: path.clone(),
            source,
        };
        let without = |why: String| Ok(Some(Self { path: path.clone(), memory: Err(why) }));
        if volume.is_nvram_given_up {
            return without("what it alone had is given up".to_owned());
        }
        // The last resort goes on without anything.
        let is_needed = pairing.is_dirty && !volume.is_loss_accepted;
        let missing = || refused(Unpaired::Missing.into());
        let Some(place) = &path else {
            let why = "volume.toml does not name it".to_owned();
            return if is_needed { Err(missing()) } else { without(why) };
        };
        let disk = match DiskFile::open(place, access) {
            Ok(disk) => disk,
            Err(
                error @ (OpenError::Locked(_)
                | OpenError::Busy(_)
                | OpenError::PermissionDenied(..)),
            ) => return Err(error.into()),
            Err(_) if is_needed => return Err(missing()),
            Err(error) => return without(error.to_string()),
        };
        let memory = device(disk);
        match nvram::look(&memory).await.and_then(|label| Ok(pairing.meet(&label)?)) {
            // A reader has no use for an empty one.
            Ok(Meeting::Void) if access != Access::ReadWrite => without(String::new()),
            Ok(_) => Ok(Some(Self { path, memory: Ok(memory) })),
            Err(error) if volume.is_loss_accepted => without(error.to_string()),
            Err(error) if is_needed || is_of_later_start(&error) => Err(refused(error)),
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
        let Self { path, memory } = self;
        let Some(pairing) = set.label().nvram.map(|known| pairing_of(&known)) else {
            return Ok(None); // the label that holds is older, and was never acknowledged under
        };
        let refused = |source: nvram::OpenError| Failure::Nvram {
            path: volume.path.clone(),
            nvram: path.clone(),
            source,
        };
        let is_written = access == Access::ReadWrite;
        let is_needed = pairing.is_dirty && !volume.is_nvram_given_up && !volume.is_loss_accepted;
        let opened = match memory {
            Ok(memory) if is_written => {
                let (below, runtime, record) = (set.clone(), runtime.clone(), record_on(set));
                nvram::open_paired(below, memory, runtime, pairing, record).await
            }
            Ok(memory) => {
                let memory = Rc::new(ScratchDevice::new(memory));
                nvram::open(set.clone(), memory, runtime.clone(), pairing.id).await
            }
            Err(_) if is_needed => Err(Unpaired::Missing.into()),
            Err(absence) => return Self::leave(volume, (path, absence), set, is_written).await,
        };
        match opened {
            Ok((nvram, recovered)) => {
                let (nvram, is_busy) = (Some(Rc::new(nvram)), Cell::new(false));
                let is_dirty = pairing.is_dirty;
                Ok(Some(Front { path, nvram, absence: None, is_dirty, recovered, is_busy }))
            }
            Err(error) if is_needed => Err(refused(error)),
            // It can be read, and not written.
            Err(error) => Self::leave(volume, (path, error.to_string()), set, is_written).await,
        }
    }

    /// Goes on without it, and has the labels say so.
    async fn leave(
        volume: &Volume,
        (path, absence): (Option<PathBuf>, String),
        set: &Rc<Set>,
        is_written: bool,
    ) -> Result<Option<Front>, Failure> {
        let known = set.label().nvram;
        let is_dirty = known.is_some_and(|known| known.is_dirty);
        if let Some(known) = known.filter(|_| is_written) {
            let recorded = record_on(set)(pairing_of(&known).given_up()).await;
            let failed = |source| Failure::Device { path: volume.path.clone(), source };
            recorded.map_err(failed)?;
        }
        Ok(Some(Front::absent(path, absence, is_dirty)))
    }
}

fn is_of_later_start(error: &nvram::OpenError) -> bool {
    matches!(error, nvram::OpenError::Unpaired(Unpaired::OlderVolume { .. }))
}

impl Front {
    fn absent(path: Option<PathBuf>, absence: String, is_dirty: bool) -> Self {
        let (recovered, is_busy) = (Recovered::default(), Cell::new(false));
        Self { path, nvram: None, absence: Some(absence), is_dirty, recovered, is_busy }
    }

    /// The open NVRAM, unless the volume is open without it.
    pub(crate) fn nvram(&self) -> Option<&Rc<Nvram>> {
        self.nvram.as_ref()
    }

    /// Why data may be lacking that only the NVRAM has, if they may.
    pub(crate) fn lacked(&self) -> Option<String> {
        self.absence.clone().filter(|_| self.is_dirty)
    }

    fn shown(&self) -> String {
        self.path.as_ref().map_or_else(String::new, |path| format!(" {}", path.display()))
    }

    /// Says at a start how it stands.
    fn announce(&self, volume: &Path) {
        let (volume, shown) = (volume.display(), self.shown());
        if let Some(absence) = &self.absence {
            return words::say(format_args!(
                "{volume}: served without its NVRAM{shown}: {absence}; nothing of it is missing \
                 on the disks"
            ));
        }
        let status = Status::of(self);
        let state = if status.is_up() { "" } else { ", down: writes go to the disks" };
        words::say(format_args!(
            "{volume}: NVRAM{shown}: {} dirty, battery unknown{state}",
            show_size(status.dirty_bytes)
        ));
        if self.recovered.rotten > 0 {
            words::say(format_args!(
                "{volume}: {} blocks of the NVRAM{shown} are damaged, and what they held is lost: \
                 reads of it fail until it is written",
                self.recovered.rotten
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

/// Whether what a path leads to outlives the power, if that is known.
fn survives_power(path: &Path) -> Option<bool> {
    let found = statfs(path).ok()?;
    #[allow(clippy::unnecessary_cast, reason = "the type differs between platforms")]
    let is_volatile = VOLATILE.contains(&(found.f_type as i64));
    is_volatile.then_some(false)
}
