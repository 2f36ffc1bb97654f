//! The log of a volume: a file beside the disk, or wherever `--log` says.
//!
//! A log is only written where it has been written before, so that the file system below it has
//! nothing to note when a sector of it is made durable. A new log is short, and full of zeros; if
//! what is to become one has holes, the space for them is taken when it is opened. So no write of a
//! log finds that what holds it is full.
//! While the volume is served it is made longer, with zeros again, and the next time all of it is
//! used.

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
use crate::folder::{is_there, make_temporary, parent, real_place, sync_folder};
use crate::redo_log::{self, LogError};
use crate::signature::{known, recognise};
use crate::words;

/// The file of a volume that holds its log.
pub(crate) const LOG_NAME: &str = "log.img";
/// What the name of a log ends with while it is made: a cut may leave it behind.
pub(crate) const NEW_SUFFIX: &str = ".new";
/// The length to which a log grows unless it is told otherwise, in bytes.
pub(crate) const LOG_SIZE: u64 = 256 << 20;
/// The length of a new log, at most.
const NEW: u64 = 32 << 20;
/// What is written at a time.
const STEP: usize = 1 << 20;
/// A log grows by one part in so many of what is free beside it, at most.
const GROWN_SHARE: u64 = 4;
/// Between two steps, so that clients do not feel it.
const PAUSE: Duration = Duration::from_millis(5);

/// How long the log of a volume of this size is to become: a large log for a small disk would be
/// mostly empty.
pub(crate) fn log_size_for(volume_size: u64) -> u64 {
    (volume_size / 8 / SMALLEST_LOG * SMALLEST_LOG).clamp(8 << 20, LOG_SIZE)
}

/// Opens a log, or what is to become one: a file or a device that is empty, but nothing that is
/// something else. In the folder of a volume, what bears the name of its log may be damaged.
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

/// Takes the space for all of a log, where the file system below can do that.
fn allocate(file: &DiskFile, path: &Path) -> Result<(), Failure> {
    match file.allocate() {
        _ if file.geometry().size == 0 => Ok(()), // too short for a log, which is told elsewhere
        Err(source) if source.kind() != io::ErrorKind::Unsupported => {
            Err(Failure::no_space(path, source))
        }
        _ => Ok(()),
    }
}

/// Whether a file has the name of a log and nothing else: it is too short for one, and no byte in
/// it means anything, or it is what is left of one that was cut short. A volume that needs nothing
/// of it can have a new one in its place.
///
/// # Errors
/// [`Failure`] when it cannot be looked at.
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

/// Whether a log is to be made here, for volumes of which one at least needs nothing of what was
/// there: there is none, or a void one, of which this says that it is made anew.
///
/// # Errors
/// [`Failure`] when it is not known what is there.
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

/// Whether the log in a file holds changes that have not come home, of whatever volume.
///
/// # Errors
/// [`Failure`] when it cannot be opened; within, when it cannot be read as a log.
pub(crate) fn holds_changes(
    path: &Path,
    access: Access,
) -> Result<Result<bool, LogError>, Failure> {
    let device = FileDevice::new(DiskFile::open(path, access)?);
    let held = reactor::block_on(|_| async move { redo_log::holds_changes(&device).await });
    held.map_err(Failure::Start)
}

/// The number of the volume that has the log in a file alone, if the log says so.
///
/// # Errors
/// [`Failure`] when it cannot be opened or read.
pub(crate) fn owner(path: &Path) -> Result<Option<u64>, Failure> {
    let device = FileDevice::new(DiskFile::open(path, Access::ReadOnly)?);
    let newest = reactor::block_on(|_| async move { journal::peek(&device).await });
    let newest = newest.map_err(Failure::Start)?;
    let newest = newest.map_err(|source| Failure::Log { path: path.to_owned(), source })?;
    Ok(newest.and_then(|slot| slot.owner()))
}

/// Makes a log that may grow to `size` bytes, all of it or nothing: a short one would be taken for
/// a log that cannot be used.
///
/// # Errors
/// [`Failure::File`], when there is one already among others.
pub(crate) fn make(path: &Path, size: u64) -> Result<(), Failure> {
    // A link stays, and with it the place beside which something was saved.
    let path = &*real_place(path);
    let mut new = path.as_os_str().to_owned();
    new.push(NEW_SUFFIX);
    let new = Path::new(&new);
    let write = || {
        if path.exists() && !is_void(path).unwrap_or(false) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut file = make_temporary(new, 0o600)?;
        let filled = fill(&mut file, size.min(NEW), || ()).and_then(|()| fs::rename(new, path));
        filled.inspect_err(|_| drop(fs::remove_file(new)))
    };
    write().map_err(|source| Failure::File { verb: "make", path: path.to_owned(), source })?;
    sync_folder(parent(path))
}

/// Makes a log longer, in a thread of its own, where that leaves most of what is free for disks.
/// What was there when it was opened does not change.
pub(crate) fn grow(path: PathBuf, size: u64) {
    let lengthen = move || {
        // A device has the length that it has, and takes what is appended for its beginning.
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
        // On a full disk the log stays as it is: it works all the same.
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
