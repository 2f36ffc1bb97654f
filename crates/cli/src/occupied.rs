//! Obstacles to a new volume: data on its disk or in its folder.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use block::file::DiskFile;
use designs::{DESIGNS, HEAD_SIZE};
use server::control::SOCKET_NAME;

use crate::error_counts::{ERRORS_NAME, NEW_ERRORS_NAME};
use crate::failure::Failure;
use crate::found::lost_in;
use crate::intents::INTENTS_NAME;
use crate::log::{LOG_NAME, NEW_SUFFIX};
use crate::losses::{LOSSES_NAME, NEW_LOSSES_NAME};
use crate::set_state::{NEW_STATE_NAME, STATE_NAME};
use crate::signature::{at_the_end, known, recognise};
use crate::volume::{NEW_SETTINGS_NAME, SETTINGS_NAME};

/// Identifies the contents of a disk by its first bytes. A file system whose creation was
/// interrupted does not count: its user wanted the previous contents to go.
pub(crate) fn on_it(head: &[u8]) -> Option<&'static str> {
    if is_begun(head) { None } else { recognise(head) }
}

/// Reads the first bytes of a disk, which identify its contents.
pub(crate) fn head(disk: &DiskFile, path: &Path) -> Result<block::Buffer, Failure> {
    let mut head = block::Buffer::zeroed(disk.geometry().size.min(HEAD_SIZE as u64) as usize);
    disk.read(0, &mut head).map_err(|source| Failure::Device { path: path.to_owned(), source })?;
    Ok(head)
}

/// Whether a file system was begun here, and nothing else is there.
pub(crate) fn is_begun(head: &[u8]) -> bool {
    known(head).is_none() && DESIGNS.is_begun(head)
}

/// Identifies the contents of an unknown disk, at its beginning or at its end.
///
/// # Errors
/// [`Failure::Device`].
pub(crate) fn what_is_on(disk: &DiskFile, path: &Path) -> Result<Option<&'static str>, Failure> {
    let head = head(disk, path)?;
    let read = |at, bytes: &mut [u8]| disk.read(at, bytes).is_ok();
    Ok(on_it(&head).or_else(|| at_the_end(disk.geometry().size, read)))
}

/// Refuses a disk with known contents, or with contents that have lost their first bytes.
///
/// # Errors
/// [`Failure::Occupied`]; [`Failure::Device`].
pub(crate) fn refuse_occupied(
    disk: &DiskFile,
    path: &Path,
    known: Option<&'static str>,
) -> Result<(), Failure> {
    let what = match known {
        None => what_is_lost_on(disk, path)?,
        known => known,
    };
    let refused = |what: &str| Failure::Occupied { path: path.to_owned(), what: what.to_owned() };
    what.map_or(Ok(()), |what| Err(refused(what)))
}

/// Identifies the contents of a disk that begins with zeros: its first bytes may be lost. A disk
/// that was never written is not searched.
fn what_is_lost_on(disk: &DiskFile, path: &Path) -> Result<Option<&'static str>, Failure> {
    let head = head(disk, path)?;
    if head.iter().any(|&byte| byte != 0) || was_never_written(path, &head) {
        return Ok(None);
    }
    lost_in(disk).map_err(|source| Failure::Device { path: path.to_owned(), source })
}

/// Whether an image was never written since its length was set. Some file systems report no blocks
/// for a file with data, so its first bytes are checked as well.
pub(crate) fn was_never_written(image: &Path, head: &[u8]) -> bool {
    let has_no_blocks =
        fs::metadata(image).is_ok_and(|found| found.is_file() && found.blocks() == 0);
    has_no_blocks && head.iter().all(|&byte| byte == 0)
}

/// The folder that the root of a new file system has on some systems. It is no user's.
const LOST_AND_FOUND: &str = "lost+found";

/// Refuses a folder with other files: no server would serve them, and they would be removed by
/// mistake.
pub(crate) fn refuse_foreign_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::File { verb: "read", path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !is_leftover(&name) {
            let sentence = format!(
                "the folder {} is not empty: there is {}; name a new or an empty one",
                folder.display(),
                name.display()
            );
            return Err(Failure::Usage(sentence));
        }
    }
    Ok(())
}

/// Whether an interrupted run, or a killed server, may have left a file of this name beside the
/// disk, or the host's file system keeps one.
pub(crate) fn is_leftover(name: &OsStr) -> bool {
    let new_log = format!("{LOG_NAME}{NEW_SUFFIX}");
    let of_sets = [STATE_NAME, NEW_STATE_NAME, ERRORS_NAME, NEW_ERRORS_NAME];
    let new_intents = format!("{INTENTS_NAME}{NEW_SUFFIX}");
    let intents = [INTENTS_NAME, &new_intents];
    let own = [SETTINGS_NAME, NEW_SETTINGS_NAME, LOG_NAME, &new_log, SOCKET_NAME];
    let own = own.into_iter().chain(of_sets).chain(intents).chain([LOSSES_NAME, NEW_LOSSES_NAME]);
    own.into_iter().chain([LOST_AND_FOUND]).any(|own| name == own)
}
