//! Records of a log that were saved beside it: their file, and whether a volume needs them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile};

use crate::failure::Failure;
use crate::folder::{is_there, parent, real_place, sync_folder};
use crate::redo_log::{is_needed, saved_under};
use crate::words;

/// Path of the file with records of this log saved under this name. It is beside the log itself,
/// with all links resolved.
pub(crate) fn saved_path(log: &Path, name: u64) -> PathBuf {
    let mut file = real_place(log).into_os_string();
    file.push(format!(".{name:016x}"));
    file.into()
}

/// The files with saved records beside this log.
pub(crate) fn all_saved(log: &Path) -> Vec<PathBuf> {
    let log = real_place(log);
    let is_saved = |path: &PathBuf| {
        let name = path.extension().and_then(|name| u64::from_str_radix(name.to_str()?, 16).ok());
        name.is_some_and(|name| saved_path(&log, name) == *path)
    };
    let entries = fs::read_dir(parent(&log)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_saved).collect()
}

/// Finds the file of saved records that the volume on `disk` needs, if the log itself no longer has
/// them.
///
/// # Errors
/// [`Failure`] if the file cannot be opened.
pub(crate) async fn saved_of(
    disk: &dyn BlockDevice,
    log: &Path,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Option<PathBuf>, Failure> {
    let Some(saved) = saved_for(disk, log, device).await? else { return Ok(None) };
    let place = log_of(disk, log, Some(&saved), device).await?;
    Ok(place.filter(|place| *place == saved))
}

/// Finds the latest logged changes of the volume on `disk`: in this log, or in `saved`; nowhere, if
/// both are missing.
///
/// # Errors
/// [`Failure`] if the saved file cannot be opened.
pub(crate) async fn log_of(
    disk: &dyn BlockDevice,
    log: &Path,
    saved: Option<&Path>,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Option<PathBuf>, Failure> {
    let holds = async |path: &Path| holds(disk, path, &device).await;
    let log = is_there(log)?.then_some(log);
    // After a recovery from the saved records, the volume's changes are in the log.
    let is_in_the_log = match log {
        Some(log) => holds(log).await?,
        None => false,
    };
    match saved {
        Some(saved) if !is_in_the_log && holds(saved).await? => Ok(Some(saved.to_owned())),
        _ => Ok(log.map(Path::to_owned)),
    }
}

/// Finds the file in which records of this log were saved for the volume on `disk`, if there is
/// one. A file that the volume needs is chosen over another under one of its names. If the volume
/// needs none, the first file is returned: a volume may have recovered from it before it could be
/// removed, or may have left it behind.
///
/// # Errors
/// [`Failure`] if the file cannot be opened.
pub(crate) async fn saved_for(
    disk: &dyn BlockDevice,
    log: &Path,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Option<PathBuf>, Failure> {
    let Ok(names) = saved_under(disk).await else { return Ok(None) };
    let paths = names.map(|name| saved_path(log, name));
    let mut there = paths.into_iter().filter(|path| path.exists());
    let Some(first) = there.next() else { return Ok(None) };
    if let Some(second) = there.next()
        && !holds(disk, &first, &device).await?
        && holds(disk, &second, &device).await?
    {
        return Ok(Some(second));
    }
    Ok(Some(first))
}

/// Whether the saved records may be given up together with the log's records of the volume on
/// `disk`: the volume needs them, or has recovered from them, or has left them. Otherwise they
/// belong to a copy of the volume, which has the same id.
///
/// # Errors
/// [`Failure`] if a file cannot be opened.
pub(crate) async fn is_its_own(
    disk: &dyn BlockDevice,
    log: &Path,
    saved: &Path,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<bool, Failure> {
    // A cleanly stopped volume has nothing that would distinguish it from its copies.
    let bears_none = saved_under(disk).await.is_ok_and(|[_, epoch]| epoch == 0);
    Ok(bears_none
        || holds(disk, saved, &device).await?
        || is_there(log)? && holds(disk, log, &device).await?)
}

/// Whether the volume on `disk` needs this file, a log or records saved of one.
async fn holds(
    disk: &dyn BlockDevice,
    path: &Path,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<bool, Failure> {
    // Only the slots are read, and a server may be writing the rest.
    let device = device(DiskFile::open(path, Access::Glance)?);
    Ok(is_needed(disk, &*device).await.unwrap_or(false))
}

/// Whether records of this log were saved for any volume.
pub(crate) fn has_saved(log: &Path) -> bool {
    let log = real_place(log);
    let Ok(entries) = fs::read_dir(parent(&log)) else { return false };
    let Some(name) = log.file_name().map(|name| name.to_string_lossy()) else { return false };
    entries.flatten().any(|entry| {
        let beside = entry.file_name();
        let number =
            beside.to_str().and_then(|beside| beside.strip_prefix(&*name)?.strip_prefix('.'));
        number.is_some_and(|number| number.len() == 16 && u64::from_str_radix(number, 16).is_ok())
    })
}

/// Removes saved records for good.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn remove(path: PathBuf) -> Result<(), Failure> {
    let verb = "remove";
    let folder = parent(&path).to_owned();
    fs::remove_file(&path).map_err(|source| Failure::File { verb, path, source })?;
    sync_folder(&folder)
}

/// Creates a file beside the log, and reports it.
///
/// # Errors
/// If the log is a device, or there is no space.
pub(crate) fn save_beside(log: &Path, name: u64, size: u64) -> io::Result<DiskFile> {
    if !log.is_file() {
        return Err(io::Error::other("the log is a device"));
    }
    let path = saved_path(log, name);
    // An existing file was begun and never used, or the volume was stopped cleanly since.
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let file = DiskFile::create(&path, size).map_err(io::Error::other)?;
    sync_folder(parent(&path)).map_err(|failure| io::Error::other(failure.to_string()))?;
    words::say(format_args!(
        "what {} has of a volume that is not served goes to {}, until it is served again",
        log.display(),
        path.display()
    ));
    Ok(file)
}
