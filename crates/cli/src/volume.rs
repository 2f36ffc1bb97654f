//! The VOLUME of a command line, and how it is opened.
//!
//! A volume is a folder with `volume.toml`, which names the engine and the policy, `disk.img`,
//! which holds the file system, and under policy `log` also `log.img`. If `volume.toml` names a set
//! of disks, file system and log are there. Or the volume is a *bare* disk: an image file or a
//! device with nothing beside it, such as one that FreeBSD made; then its design is the one that
//! the disk itself identifies, or else one that needs nothing but a disk. If a log is named, the
//! design is the one of the same engine that has a log. A `disk.img` with `volume.toml` beside it
//! means its folder.
//!
//! `volume.toml` is written last, and the folder is synced after it: a folder without it holds an
//! unfinished volume.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::file::{Access, DiskFile};
use designs::{DESIGNS, Design, DiskRole};
use duramen_settings::Settings;
use server::control::SOCKET_NAME;

use crate::failure::Failure;
use crate::folder::{is_there, parent, sync_folder};
use crate::found::anything_in;
use crate::held_folder::HeldFolder;
use crate::log::LOG_NAME;
use crate::settings_edit::edited;
use crate::words::quoted;

/// Name of the file that holds a volume's settings.
pub(crate) const SETTINGS_NAME: &str = "volume.toml";
/// Name of the file while it is written: a cut may leave such a file behind.
pub(crate) const NEW_SETTINGS_NAME: &str = ".volume.toml.new";
/// Attempts to change a file that others change at the same time.
const MAX_RACES: usize = 10;
/// Name of the file that holds a volume's file system.
pub(crate) const DISK_NAME: &str = "disk.img";

/// An existing volume.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    /// Path from the command line.
    pub(crate) path: PathBuf,
    /// Image or device that holds the file system; for a set of disks, the volume's folder.
    pub(crate) disk_path: PathBuf,
    /// File or device that holds the log, if the volume is to have one.
    pub(crate) log_path: Option<PathBuf>,
    /// Settings of the volume.
    pub(crate) settings: Settings,
    /// Folder of the volume; a bare disk has none.
    pub(crate) folder: Option<PathBuf>,
    /// Whether the command line names the log.
    pub(crate) is_log_named: bool,
    /// Whether the command line says that no missing member of the set is newer.
    pub(crate) is_degraded_meant: bool,
    /// Silent disks of the set: they are not read.
    pub(crate) silent: BTreeSet<PathBuf>,
    /// Whether the opening waits for a silent disk.
    pub(crate) is_waiting: Arc<AtomicBool>,
    /// Whether the command line accepts the remains of a set with too few disks. Such a set is
    /// opened read-only.
    pub(crate) is_loss_accepted: bool,
    /// Whether the command line gives up what only the NVRAM of the set has.
    pub(crate) is_nvram_given_up: bool,
}

impl Volume {
    /// Finds the volume at a path of the command line. If its settings are unreadable, the failure
    /// says what the disk reveals of them.
    ///
    /// # Errors
    /// [`Failure`] if it is no volume.
    pub(crate) fn find(path: &Path) -> Result<Self, Failure> {
        if !is_there(path)? {
            let why = "there is nothing of that name; 'duramen mkfs' makes one".to_owned();
            return Err(Failure::NotAVolume { path: path.to_owned(), why });
        }
        let look = fs::metadata(path);
        let metadata = look.map_err(|source| Failure::look(path, source))?;
        if metadata.is_dir() {
            let settings = read_settings(&path.join(SETTINGS_NAME))?.ok_or_else(|| {
                let disk = path.join(DISK_NAME);
                let advice = advice(&disk).unwrap_or_else(|| {
                    if disk.exists() {
                        format!("see 'duramen fsck {}' for what is there", quoted(&disk))
                    } else {
                        "'duramen mkfs' makes a volume".to_owned()
                    }
                });
                let why = format!("the folder has no {SETTINGS_NAME}; {advice}");
                Failure::NotAVolume { path: path.to_owned(), why }
            })?;
            return Ok(Self::in_folder(path, path, settings));
        }
        if let Some(folder) = folder_of(path)
            && let Some(settings) = read_settings(&folder.join(SETTINGS_NAME))?
        {
            return Ok(Self::in_folder(path, &folder, settings));
        }
        Ok(Self {
            path: path.to_owned(),
            disk_path: path.to_owned(),
            log_path: None,
            settings: Settings::of(design_of_bare(path)),
            folder: None,
            is_log_named: false,
            is_degraded_meant: false,
            silent: BTreeSet::new(),
            is_waiting: Arc::default(),
            is_loss_accepted: false,
            is_nvram_given_up: false,
        })
    }

    fn in_folder(path: &Path, folder: &Path, settings: Settings) -> Self {
        let is_beside = settings.design.has(DiskRole::Log) && settings.raid.is_none();
        let log_path = is_beside.then(|| folder.join(LOG_NAME));
        let disk_path = match settings.raid {
            Some(_) => folder.to_owned(),
            None => folder.join(DISK_NAME),
        };
        Self {
            path: path.to_owned(),
            disk_path,
            log_path,
            settings,
            folder: Some(folder.to_owned()),
            is_log_named: false,
            is_degraded_meant: false,
            silent: BTreeSet::new(),
            is_waiting: Arc::default(),
            is_loss_accepted: false,
            is_nvram_given_up: false,
        }
    }

    /// Uses the log from the command line, if it names one, whatever the settings say. A log other
    /// than the last one is refused later if that matters.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the engine has no use for a log.
    pub(crate) fn with_log(mut self, log: Option<&Path>) -> Result<Self, Failure> {
        if let Some(log) = log {
            let engine = self.settings.design.engine;
            let design = DESIGNS.with_disks(engine, &[DiskRole::Volume, DiskRole::Log]);
            self.settings.design = design.ok_or_else(|| {
                let path = self.path.display();
                Failure::Usage(format!("{path} has engine {engine}, which has no use for a log"))
            })?;
            self.log_path = Some(log.to_owned());
            self.is_log_named = true;
        }
        Ok(self)
    }

    /// Design of the volume.
    pub(crate) fn design(&self) -> &'static Design {
        self.settings.design
    }

    /// Path of the log, if there is one, whatever the settings say by now: the named log, or the
    /// one in the folder. On a set of disks the log is in the set and has no path.
    pub(crate) fn log_place(&self) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.settings.raid.is_none());
        let beside = || folder.map(|folder| folder.join(LOG_NAME));
        self.log_path.clone().or_else(beside)
    }

    /// Whether another path leads to the same volume.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let disk = |volume: &Self| fs::canonicalize(&volume.disk_path).ok();
        disk(self).is_some_and(|own| disk(other) == Some(own))
    }

    /// Path of the server's control socket, if the volume has a folder.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(SOCKET_NAME))
    }

    /// Command-line words that name this volume with its log.
    pub(crate) fn words(&self) -> String {
        let volume = quoted(&self.path);
        match &self.log_path {
            Some(log) if self.is_log_named => format!("{volume} --log {}", quoted(log)),
            _ => volume,
        }
    }
}

/// Default design of a bare disk, which has no other disks.
fn alone() -> &'static Design {
    let found = DESIGNS.all().iter().find(|design| *design.disks == [DiskRole::Volume]);
    found.expect("a disk that is alone can be served")
}

/// Folder of a volume whose disk was named directly.
fn folder_of(disk: &Path) -> Option<PathBuf> {
    let whole = fs::canonicalize(disk);
    let paths = [Some(disk.to_owned()), whole.ok()];
    let named = paths.into_iter().flatten().filter(|path| path.ends_with(DISK_NAME));
    named.map(|path| parent(&path).to_owned()).find(|folder| folder.join(SETTINGS_NAME).exists())
}

/// Reads the settings of a volume; returns nothing if the file does not exist.
pub(crate) fn read_settings(path: &Path) -> Result<Option<Settings>, Failure> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // Opening a FIFO would block until a writer comes.
        let source = Error::other("it is no regular file");
        return Err(Failure::File { verb: "read", path: path.to_owned(), source });
    }
    match fs::read_to_string(path) {
        Ok(text) => parse_settings(path, &text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Failure::File { verb: "read", path: path.to_owned(), source }),
    }
}

/// Parses the text of `volume.toml` at this path.
fn parse_settings(path: &Path, text: &str) -> Result<Settings, Failure> {
    Settings::parse(text).map_err(|error| {
        // The message has the place, the faulty line, and the reason.
        let told = error.to_string();
        let (place, why) = (told.lines().next(), told.lines().skip(1).last());
        let why = [place, why].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let advice = if Settings::names_a_design(text) {
            Some("correct that, and leave the other lines as they are".to_owned())
        } else {
            advice(&path.with_file_name(DISK_NAME))
        };
        let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
        Failure::Settings { path: path.to_owned(), why, advice }
    })
}

/// Design of a disk without settings: the one that the disk identifies, whichever program has it
/// open, or else the one that needs nothing but a disk. An unreadable disk is reported later.
fn design_of_bare(disk: &Path) -> &'static Design {
    let file = DiskFile::open(disk, Access::Glance).ok();
    let found = file.and_then(|file| anything_in(&file));
    found.map_or_else(alone, |(design, _)| design)
}

/// Advice to rewrite the settings of this disk, if it holds a volume.
fn advice(disk: &Path) -> Option<String> {
    let file = DiskFile::open(disk, Access::ReadOnly).ok()?;
    let (design, found) = anything_in(&file)?;
    let write = |line: String| format!("write a {SETTINGS_NAME} with the line '{line}'");
    let quoted = |policy: &str| format!("policy = \"{policy}\"");
    Some(match found.cut_off_under {
        Some(policy) => format!(
            "{} was cut off under policy {policy}: {}, and keep its {LOG_NAME} if there is one",
            disk.display(),
            write(quoted(&policy))
        ),
        None => {
            let mut names = DESIGNS.of_engine(design.engine).filter_map(|design| design.policy);
            let Some(first) = names.next() else {
                return Some(write(format!("engine = \"{}\"", design.engine)));
            };
            let others: String = names.map(|policy| format!(", or \"{policy}\"")).collect();
            format!("{}{others}; {} fits either", write(quoted(first)), disk.display())
        }
    })
}

/// Makes a folder a volume: writes its settings durably, and its own directory entry. A cut leaves
/// either the previous state or the whole new one.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn write_settings(folder: &Path, settings: &Settings) -> Result<(), Failure> {
    let (path, new) = (folder.join(SETTINGS_NAME), folder.join(NEW_SETTINGS_NAME));
    replace(&path, &new, text_of(settings).as_bytes())?;
    sync_folder(parent(folder))
}

/// Text of a file that no person has changed.
fn text_of(settings: &Settings) -> String {
    let body = settings.to_text();
    let disk = match settings.raid {
        Some(_) => "its disks are named below".to_owned(),
        None => format!("{DISK_NAME} beside this file is its disk"),
    };
    format!("# A volume of duramen; {disk}.\n{body}")
}

/// Changes the settings in the folder of a volume, durably. A person may have the file open in an
/// editor: its other settings, its comments and its layout stay, and a text that changes meanwhile
/// is read again.
///
/// # Errors
/// [`Failure`], also that of `change`.
pub(crate) fn change_settings(
    folder: &HeldFolder,
    change: impl Fn(Settings) -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    for _ in 0..MAX_RACES {
        let path = folder.path_of(SETTINGS_NAME.as_ref());
        let text = folder.read(SETTINGS_NAME)?.ok_or_else(|| {
            let why = format!("the folder has no {SETTINGS_NAME} any more");
            Failure::NotAVolume { path: path.clone(), why }
        })?;
        let old = parse_settings(&path, &text)?;
        let new = change(old.clone())?;
        let edited = edited(&text, &old, &new).unwrap_or_else(|| text_of(&new));
        let texts = (text.as_str(), edited.as_str());
        if edited == text || folder.replace_text(SETTINGS_NAME, NEW_SETTINGS_NAME, texts)? {
            return Ok(());
        }
    }
    let why = "somebody changes it again and again".to_owned();
    Err(Failure::NotDone { path: folder.path_of(SETTINGS_NAME.as_ref()), why })
}

/// Replaces the content of a file as [`HeldFolder::replace`] does.
pub(crate) fn replace(path: &Path, new: &Path, content: &[u8]) -> Result<(), Failure> {
    let failed = |failure| match failure {
        Failure::File { source, .. } => {
            Failure::File { verb: "write", path: path.to_owned(), source }
        }
        other => other,
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    let folder = HeldFolder::open(parent(path)).map_err(failed)?;
    folder.replace(name(path), name(new), content)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use designs::FFS_SYNC;

    use super::*;

    #[test]
    fn what_somebody_changes_while_settings_are_changed_stays() {
        let folder = std::env::temp_dir().join(format!("duramen-races-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room");
        let path = folder.join(SETTINGS_NAME);
        fs::write(&path, "policy = \"log\"\n").expect("there is room");
        let (held, calls) = (HeldFolder::open(&folder).expect("it is there"), Cell::new(0));
        let changed = change_settings(&held, |now| {
            if calls.replace(calls.get() + 1) == 0 {
                let mine = "policy = \"log\" # for now\nlog_size = 8388608 # mine\n";
                fs::write(&path, mine).expect("there is room");
            }
            Ok(Settings { design: &FFS_SYNC, ..now })
        });
        changed.expect("it is a volume");
        let text = fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "policy = \"sync\" # for now\nlog_size = 8388608 # mine\n");
        assert_eq!(calls.get(), 2, "it was read again");
        // An unchanged text is not written.
        fs::create_dir(folder.join(NEW_SETTINGS_NAME)).expect("there is room");
        change_settings(&held, Ok).expect("nothing is in its way");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
