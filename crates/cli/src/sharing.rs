//! Volumes that share a log.
//!
//! If a volume is missing when the others are opened, or stops while they are served, its records
//! in the log are saved in a file beside it, whose name ends with the number of the volume. When
//! the volume is opened with the log again, the file is used and then removed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::slice;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use designs::{OpenError, Opened};
use runtime::Runtime;

use crate::engine::{OpenVolume, Opening, open_volume};
use crate::failure::Failure;
use crate::folder::is_there;
use crate::log::{self, LOG_SIZE};
use crate::redo_log::{LogError, OpenOptions, Sharer, is_idle_of_another, open_sharing};
use crate::saved::{remove, save_beside, saved_for, saved_of, saved_path};
use crate::stack::{OpenSet, Stack};
use crate::volume::Volume;
use crate::words::{self, quoted};

/// Files that have been saved since the log was opened: a volume that recovered from an older file
/// of the same name may have stopped already, and need the new one.
#[derive(Clone, Default)]
struct SavedAnew(Rc<RefCell<BTreeSet<PathBuf>>>);

impl SavedAnew {
    fn save(&self, log: &Path, name: u64, size: u64) -> io::Result<DiskFile> {
        self.0.borrow_mut().insert(saved_path(log, name));
        save_beside(log, name, size)
    }

    /// Removes the file from which a volume recovered, unless a new one has replaced it.
    fn remove_old(&self, path: PathBuf) -> Result<(), Failure> {
        if self.0.borrow().contains(&path) { Ok(()) } else { remove(path) }
    }
}

/// Whether several volumes write to this log, or are about to. This includes a volume with saved
/// records of the log, which recovers from them; and a volume that would take the log over from
/// another volume: the other has no records in the log, and without it could not know that nothing
/// is lost.
///
/// # Errors
/// [`Failure`] if the log cannot be read.
pub(crate) async fn is_shared(
    log: &Path,
    volumes: &[Volume],
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<bool, Failure> {
    let [volume] = volumes else { return Ok(true) };
    // A failure to open the disk is reported elsewhere.
    let disk = volume.open(Access::ReadOnly, device, runtime).await.ok().map(|stack| stack.disk);
    if let Some(disk) = &disk
        && saved_of(&**disk, log, device).await?.is_some()
    {
        return Ok(true);
    }
    if !is_there(log)? || log::is_void(log)? {
        return Ok(false);
    }
    if was_shared(log, device).await? {
        return Ok(true);
    }
    // Records cannot be saved beside a device, so a log on a device cannot be taken over.
    let Some(disk) = disk else { return Ok(false) };
    let log_device = device(DiskFile::open(log, Access::ReadOnly)?);
    Ok(log.is_file() && is_idle_of_another(&*disk, &*log_device).await.unwrap_or(false))
}

/// Whether a log that exists was last written for volumes that share it, in the format for that.
async fn was_shared(
    log: &Path,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<bool, Failure> {
    let log_device = device(DiskFile::open(log, Access::ReadOnly)?);
    let newest = journal::peek(&*log_device).await;
    let newest = newest.map_err(|source| Failure::Log { path: log.to_owned(), source })?;
    Ok(newest.is_some_and(|slot| slot.is_shared()))
}

/// Opens a volume with its own log. That log may have been shared with others, which used it by
/// `--log`: then the volume is the only one to share it, and the records of others are saved.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn open_with_own_log(
    volume: &Volume,
    access: Access,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice> + Clone + 'static,
    cache_bytes: usize,
    runtime: &Runtime,
) -> Result<OpenVolume, Failure> {
    if let Some(log) = volume.log_path.as_deref().filter(|_| access == Access::ReadWrite)
        && is_there(log)?
        && !log::is_void(log)?
        && was_shared(log, &device).await?
    {
        let volumes = slice::from_ref(volume);
        let opened = open_together(volumes, log, device, cache_bytes, runtime).await?;
        return opened.into_iter().next().expect("one for each volume");
    }
    open_volume(volume, access, device, cache_bytes, runtime).await
}

/// Opens each of the volumes with the log that they share, or none of them.
///
/// # Errors
/// [`Failure`] if the log itself cannot be used.
pub(crate) async fn open_together(
    volumes: &[Volume],
    log: &Path,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice> + Clone + 'static,
    cache_bytes: usize,
    runtime: &Runtime,
) -> Result<Vec<Result<OpenVolume, Failure>>, Failure> {
    if !is_there(log)? || log::is_void(log)? {
        make_log(volumes, log, &device, runtime).await?;
    }
    let log_device = log::open(log, true, &device).await?;
    let mut openings = Vec::new();
    let mut sharers = Vec::new();
    for volume in volumes {
        let prepared = prepare(volume, log, &device, runtime).await;
        openings.push(prepared.map(|(opening, disk, set, saved)| {
            let device = saved.as_ref().map(|(_, device)| device.clone());
            sharers.push(Sharer { device: disk, saved: device });
            (opening, volume, set, saved)
        }));
    }
    let anew = SavedAnew::default();
    let save = {
        let (log, device, anew) = (log.to_owned(), device.clone(), anew.clone());
        move |name: u64, size: u64| anew.save(&log, name, size).map(&device)
    };
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    // One bar for all volumes would jump about: a volume under policy log is not checked at its
    // recovery.
    let opened =
        open_sharing(sharers, log_device, Rc::new(save), runtime, &options, &mut |_| ()).await;
    let words = format!("VOLUME --log {}", quoted(log));
    let opened = opened.map_err(|error| Failure::refused(log, words, error))?;
    if opened.iter().any(Result::is_ok) {
        log::grow(log.to_owned(), LOG_SIZE); // the file is a log now, and only a log grows
    }
    let mut opened = opened.into_iter();
    let mut all = Vec::new();
    for opening in openings {
        all.push(match opening {
            Err(failure) => Err(failure),
            Ok((opening, volume, set, saved)) => {
                let result = opened.next().expect("one for each");
                let result = result.map(Opened::from).map_err(OpenError::from);
                let volume = opening.end(volume, set, result, device.clone(), runtime);
                if let Ok(OpenVolume { orders: Some(orders), .. }) = &volume {
                    orders.attend();
                }
                if let (Ok(_), Some((path, _))) = (&volume, saved) {
                    // The volume has recovered.
                    if let Err(failure) = anew.remove_old(path) {
                        words::say(format_args!("{failure}; it is not needed any more"));
                    }
                }
                volume
            }
        });
    }
    Ok(all)
}

/// A volume prepared for its opening, with the records that were saved of the log for it.
type Prepared = (Opening, Rc<dyn BlockDevice>, Option<OpenSet>, Option<Saved>);
type Saved = (PathBuf, Rc<dyn BlockDevice>);

async fn prepare(
    volume: &Volume,
    log: &Path,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<Prepared, Failure> {
    let start = runtime.clock.now();
    let stack = volume.open(Access::ReadWrite, device, runtime).await?;
    let opening = Opening::begin(volume, &stack, start).await?;
    let Stack { disk, set, .. } = stack;
    let saved = match saved_for(&*disk, log, device).await? {
        Some(path) => {
            let saved = device(DiskFile::open(&path, Access::ReadWrite)?);
            Some((path, saved))
        }
        None => None,
    };
    Ok((opening, disk, set, saved))
}

/// Creates the log if some volume can have a new one. A volume that needs its log used another one,
/// or its records were saved.
async fn make_log(
    volumes: &[Volume],
    log: &Path,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<(), Failure> {
    for volume in volumes {
        let opened = volume.open(Access::ReadOnly, device, runtime).await;
        let Ok(stack) = opened else { continue };
        let opening = Opening::begin(volume, &stack, runtime.clock.now()).await;
        let has_none = opening.is_ok_and(|opening| !opening.needs_log);
        let needs_none = has_none || saved_of(&*stack.disk, log, device).await?.is_some();
        if needs_none && log::is_lacking(log)? {
            return log::make(log, LOG_SIZE);
        }
    }
    // The named log is missing.
    Err(Failure::refused(&volumes[0].path, quoted(&volumes[0].path), LogError::LogMissing))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_saved_anew_is_not_removed_with_what_was_there_before() {
        let folder = std::env::temp_dir().join(format!("duramen-anew-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let log = folder.join("log.img");
        fs::write(&log, b"a log").expect("a temporary file");
        let (one, other) = (saved_path(&log, 1), saved_path(&log, 2));
        for path in [&one, &other] {
            fs::write(path, b"of before").expect("a temporary file");
        }
        let anew = SavedAnew::default();
        anew.save(&log, 1, 1 << 20).expect("there is room");
        for path in [&one, &other] {
            anew.remove_old(path.clone()).expect("it is a file");
        }
        assert_eq!(fs::metadata(&one).expect("it is needed").len(), 1 << 20);
        assert!(!other.exists(), "it is not needed any more");
        fs::remove_dir_all(&folder).expect("a temporary folder");
    }
}
