//! The volumes that are served, by name and by number.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use runtime::sync::Walks;
use vfs::{Delayed, FileSystem, Name, ObjectId, Receipt};

use crate::exports::Exports;
use crate::handle::{Fsid, Handle};

/// A volume that is served as `/NAME`.
#[derive(Clone)]
pub struct Volume {
    /// Its name: one component of a path.
    pub name: String,
    /// Its number.
    pub fsid: Fsid,
    /// Its file system.
    pub file_system: Rc<dyn FileSystem>,
}

impl Volume {
    /// The handle of one of its files.
    pub fn handle(&self, id: ObjectId) -> Handle {
        Handle { fsid: self.fsid, id }
    }
}

/// A volume with the troubles that were logged for it: once, not once for every call.
pub(crate) struct Served {
    volume: Volume,
    is_lost: Cell<bool>,
    is_damaged: Cell<bool>,
    delayed: Cell<Option<Delayed>>,
    /// A receipt for the changes acknowledged while it was declared delayed, if that was withdrawn.
    owed: RefCell<Option<Receipt>>,
    /// Mounts of long paths.
    pub(crate) walks: Walks,
}

impl Served {
    fn new(volume: Volume) -> Self {
        let (is_lost, is_damaged, delayed, owed, walks) = Default::default();
        Self { volume, is_lost, is_damaged, delayed, owed, walks }
    }

    /// Sets whether it is declared delayed, from now on.
    pub(crate) fn declare(&self, delayed: Option<Delayed>) {
        if self.delayed.replace(delayed).is_some() && delayed.is_none() {
            self.owed.replace(Some(self.file_system.changes_so_far()));
        }
    }

    /// The declaration, if there is one.
    pub(crate) fn delayed(&self) -> Option<Delayed> {
        self.delayed.get()
    }

    /// Whether replies wait for changes acknowledged before the last declaration was withdrawn.
    pub(crate) fn owes(&self) -> bool {
        self.owed.borrow().is_some()
    }

    /// The receipt that every reply waits for since the last declaration was withdrawn.
    pub(crate) fn owed(&self) -> Option<Receipt> {
        self.owed.borrow().clone()
    }

    /// Notes that an answer was lost.
    pub(crate) fn note_lost(&self) {
        if !self.is_lost.replace(true) {
            tracing::error!(
                volume = self.name,
                "changes do not become durable: the disk failed, or has no room below"
            );
        }
    }

    /// Whether an answer was lost: all further ones may be.
    pub(crate) fn has_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Notes that a call met damage.
    pub(crate) fn note_damage(&self) {
        if !self.is_damaged.replace(true) {
            tracing::error!(volume = self.name, "there is damage on the disk: check it");
        }
    }
}

impl Deref for Served {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

/// Volumes that cannot be served together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumesError {
    /// A name that cannot be mounted.
    #[error(
        "{0:?} is no name for a volume: one path component of 1 to 255 bytes without control \
         characters is expected"
    )]
    Name(String),
    /// A name that is taken.
    #[error("two volumes are named {0:?}")]
    SameName(String),
    /// A number that is taken.
    #[error("the volumes {0:?} and {1:?} have the same file system number: one is a copy")]
    SameFsid(String, String),
}

/// Checks that each name can be mounted and differs from the others.
///
/// # Errors
/// [`VolumesError::Name`], [`VolumesError::SameName`].
pub fn check_names(names: &[&str]) -> Result<(), VolumesError> {
    for (index, &name) in names.iter().enumerate() {
        let parsed = Name::parse(name.as_bytes());
        // A name with a line break could forge lines of the log.
        let is_printable = !name.contains(char::is_control);
        if !is_printable || !parsed.is_ok_and(|parsed| !parsed.is_dot_or_dot_dot()) {
            return Err(VolumesError::Name(name.to_owned()));
        }
        if names[..index].contains(&name) {
            return Err(VolumesError::SameName(name.to_owned()));
        }
    }
    Ok(())
}

/// All volumes of a server. There are few, so lookups are linear.
pub struct Volumes(Vec<Rc<Served>>);

impl Volumes {
    /// Checks that every volume differs from the others in name and number.
    ///
    /// # Errors
    /// See [`VolumesError`].
    pub fn new(volumes: Vec<Volume>) -> Result<Self, VolumesError> {
        let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        check_names(&names)?;
        for (index, volume) in volumes.iter().enumerate() {
            for other in &volumes[..index] {
                if other.fsid == volume.fsid {
                    let names = (other.name.clone(), volume.name.clone());
                    return Err(VolumesError::SameFsid(names.0, names.1));
                }
            }
        }
        Ok(Self(volumes.into_iter().map(|volume| Rc::new(Served::new(volume))).collect()))
    }

    /// The volume of this number.
    pub(crate) fn by_fsid(&self, fsid: Fsid) -> Option<&Rc<Served>> {
        self.0.iter().find(|volume| volume.fsid == fsid)
    }

    /// The volume of this name.
    pub(crate) fn by_name(&self, name: &[u8]) -> Option<&Rc<Served>> {
        self.0.iter().find(|volume| volume.name.as_bytes() == name)
    }

    /// A stop is near: no call may wait for slow background work.
    pub fn ask_to_end(&self) {
        self.served().for_each(|volume| volume.file_system.ask_to_end());
    }

    /// Applies the rules: whether volumes are delayed, and where their snapshots are found.
    pub(crate) fn declare(&self, exports: &Exports) {
        for volume in self.served() {
            let export = exports.of(&volume.name);
            volume.declare(export.delayed());
            volume.file_system.show_snapshots(export.snapshots());
        }
    }

    /// For each volume, in the order of the start: its name, whether it has stopped, and whether a
    /// call has met damage.
    pub fn troubles(&self) -> impl Iterator<Item = (&str, bool, bool)> {
        self.served().map(|it| (it.name.as_str(), it.has_lost(), it.is_damaged.get()))
    }

    /// All volumes, with their state.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Served> {
        self.0.iter().map(Rc::as_ref)
    }

    /// All volumes, in the order of the start.
    pub fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.0.iter().map(|served| &served.volume)
    }
}
