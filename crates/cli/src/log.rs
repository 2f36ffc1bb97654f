//! The log of a volume: a file beside the disk, or at the path of `--log`.
//!
//! The log is written only at offsets that have been written before, so that the file system below
//! has no metadata to change when a sector of the log becomes durable. A new log is short and full
//! of zeros. If a file that is to become a log has holes, their space is allocated when it is
//! opened. So no write to a log finds its host full. While the volume is served, the log is
//! extended, with zeros again, and the next start uses all of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use block::file::{Access, DiskFile, FileDevice, free_below};
use block::{BlockDevice, Buffer};
use designs::HEAD_SIZE;
use duramen_settings::SMALLEST_LOG;
use journal::JournalError;
use journal::format::{SLOT_MAGIC, SMALLEST};
use server::reactor;

use crate::failure::Failure;
use crate::folder::{is_there, parent, real_place, sync_folder};
use crate::held_folder::make_temporary;
use crate::redo_log::{self, LogError};
use crate::signature::{known, recognise};
use crate::words;

/// Name of the file that holds a volume's log.
pub(crate) const LOG_NAME: &str = "log.img";
/// Suffix of a log's name while it is created: a cut may leave such a file behind.
pub(crate) const NEW_SUFFIX: &str = ".new";
/// Default maximum size to which a log grows, in bytes.
pub(crate) const LOG_SIZE: u64 = 256 << 20;
/// Maximum size of a new log, in bytes.
const NEW: u64 = 32 << 20;
/// Bytes written at a time.
const STEP: usize = 1 << 20;
/// Divisor of the free space beside a log: the log grows by at most this share of it.
const GROWN_SHARE: u64 = 4;
/// Pause between two steps, so that clients do not notice.
const PAUSE: Duration = Duration::from_millis(5);

/// Full size of the log for a volume of this size: a large log for a small disk would be mostly
/// empty.
pub(crate) fn log_size_for(volume_size: u64) -> u64 {
    (volume_size / 8 / SMALLEST_LOG * SMALLEST_LOG).clamp(8 << 20, LOG_SIZE)
}

/// Opens a log, or an empty file or device that is to become one, and refuses anything else. If the
/// folder of a volume holds a file with the log's name, that file may be damaged.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn open(
    path: &Path,
    is_named: bool,
    device: impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Rc<dyn BlockDevice>, Failure> {
    let file = DiskFile::open(path, Access::ReadWrite)?;
    let mut head = Buffer::zeroed(HEAD_SIZE.min(file.geometry().size as usize));
    file.read(0, &mut head).map_err(|source| Failure::Device { path: path.to_owned(), source })?;
    let other = if is_named { recognise(&head) } else { known(&head) };
    if other.is_none() {
        allocate(&file, path)?;
    }
    let device = device(file.past_cache());
    let newest = journal::peek(&*device).await;
    if let Err(source @ JournalError::Version(_)) = newest {
        return Err(Failure::Log { path: path.to_owned(), source });
    }
    let is_log = matches!(newest, Ok(Some(_)));
    match other.filter(|_| !is_log) {
        Some(what) => Err(Failure::NotALog { path: path.to_owned(), what }),
        None => Ok(device),
    }
}

/// Allocates the space for all of a log, where the host's file system supports that.
fn allocate(file: &DiskFile, path: &Path) -> Result<(), Failure> {
    match file.allocate() {
        _ if file.geometry().size == 0 => Ok(()), // too short: reported elsewhere
        Err(source) if source.kind() != io::ErrorKind::Unsupported => {
            Err(Failure::no_space(path, source))
        }
        _ => Ok(()),
    }
}

/// Whether a file has only the name of a log: it is too short for a log and holds no meaningful
/// byte, or it is a remainder of a log that was truncated. A volume that needs nothing from it can
/// have a new log in its place.
///
/// # Errors
/// [`Failure`] if the file cannot be inspected.
pub(crate) fn is_void(path: &Path) -> Result<bool, Failure> {
    let found = fs::metadata(path).map_err(|source| Failure::look(path, source))?;
    if !found.is_file() || found.len() >= SMALLEST {
        return Ok(false);
    }
    let bytes = fs::read(path);
    let bytes =
        bytes.map_err(|source| Failure::File { verb: "read", path: path.into(), source })?;
    Ok(bytes.starts_with(&SLOT_MAGIC) || bytes.iter().all(|&byte| byte == 0))
}

/// Whether a log must be created at this path, for volumes of which at least one needs nothing of
/// an earlier log: there is none, or a void one, for which this reports that it is created anew.
///
/// # Errors
/// [`Failure`] if the path cannot be inspected.
pub(crate) fn is_lacking(path: &Path) -> Result<bool, Failure> {
    if !is_there(path)? {
        return Ok(true);
    }
    let is_void = is_void(path)?;
    if is_void {
        words::say(format_args!(
            "{} is too short for a log; nothing of it is needed, so it is made anew",
            path.display()
        ));
    }
    Ok(is_void)
}

/// Whether the log in a file holds changes of any volume that are not yet written in place.
///
/// # Errors
/// [`Failure`] if the file cannot be opened; the inner error if it cannot be read as a log.
pub(crate) fn holds_changes(
    path: &Path,
    access: Access,
) -> Result<Result<bool, LogError>, Failure> {
    let device = FileDevice::new(DiskFile::open(path, access)?);
    let held = reactor::block_on(|_| async move { redo_log::holds_changes(&device).await });
    held.map_err(Failure::Start)
}

/// Number of the only volume that uses the log in a file, if the log says so.
///
/// # Errors
/// [`Failure`] if the file cannot be opened or read.
pub(crate) fn owner(path: &Path) -> Result<Option<u64>, Failure> {
    let device = FileDevice::new(DiskFile::open(path, Access::ReadOnly)?);
    let newest = reactor::block_on(|_| async move { journal::peek(&device).await });
    let newest = newest.map_err(Failure::Start)?;
    let newest = newest.map_err(|source| Failure::Log { path: path.to_owned(), source })?;
    Ok(newest.and_then(|slot| slot.owner()))
}

/// Creates a log that may grow to `size` bytes, entirely or not at all: a short one would be taken
/// for an unusable log.
///
/// # Errors
/// [`Failure::File`], among others if a log exists already.
pub(crate) fn make(path: &Path, size: u64) -> Result<(), Failure> {
    // A link is kept, and so is the path beside which records may have been saved.
    let path = &*real_place(path);
    let mut new = path.as_os_str().to_owned();
    new.push(NEW_SUFFIX);
    let new = Path::new(&new);
    let write = || {
        if path.exists() && !is_void(path).unwrap_or(false) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut file = make_temporary(new)?;
        let filled = fill(&mut file, size.min(NEW), || ()).and_then(|()| fs::rename(new, path));
        filled.inspect_err(|_| drop(fs::remove_file(new)))
    };
    write().map_err(|source| Failure::File { verb: "make", path: path.to_owned(), source })?;
    sync_folder(parent(path))
}

/// Extends a log in a thread of its own, as long as that leaves most of the free space to disks.
/// Existing bytes do not change.
pub(crate) fn grow(path: PathBuf, size: u64) {
    let lengthen = move || {
        // A device has a fixed size, and appended bytes would overwrite its beginning.
        if !path.is_file() {
            return;
        }
        let Ok(mut file) = OpenOptions::new().append(true).open(&path) else { return };
        let missing = file.metadata().map_or(0, |found| size.saturating_sub(found.len()));
        let most = free_below(&file).map_or(0, |free| free / GROWN_SHARE);
        if missing > most {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "a thread of its own, for real files")]
        let pause = || thread::sleep(PAUSE);
        // On a full disk the log keeps its size, which is enough to work.
        let _ = fill(&mut file, missing, pause);
    };
    thread::spawn(lengthen);
}

fn fill(file: &mut File, mut count: u64, pause: impl Fn()) -> io::Result<()> {
    let zeros = vec![0; STEP];
    while count > 0 {
        let step = count.min(STEP as u64);
        file.write_all(&zeros[..step as usize])?;
        count -= step;
        pause();
    }
    file.sync_all()
}
