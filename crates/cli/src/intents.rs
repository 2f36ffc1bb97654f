//! The intent ring of a volume: a file in its folder, or the room for a log at the end of its set
//! of disks. A bare disk has no place for one.
//!
//! A volume can be served without the contents of its ring. So a missing ring is created, and if
//! that fails, the volume is served without one and a message says so.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::DiskFile;

use crate::failure::Failure;
use crate::log::{self, log_size_for};
use crate::volume::Volume;
use crate::words;

/// Name of the file that holds a volume's ring.
pub(crate) const INTENTS_NAME: &str = "intents.img";

/// Opens the ring in the folder of a volume that is about to be served, and creates it if there is
/// none. `size` is the size of the volume in bytes.
///
/// # Errors
/// [`Failure`] if the path is something else, or another program uses it.
pub(crate) async fn open(
    volume: &Volume,
    size: u64,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Result<Option<Rc<dyn BlockDevice>>, Failure> {
    let Some(path) = path_of(volume) else { return Ok(None) };
    if log::is_lacking(&path)?
        && let Err(failure) = make(&path, size)
    {
        words::say(format_args!(
            "{}: {failure}; without it a call that a client repeats after a crash may run twice",
            volume.path.display()
        ));
        return Ok(None);
    }
    log::open(&path, false, device).await.map(Some)
}

/// The ring in the folder of a volume that is to be repaired, if there is one. A repair needs none:
/// a ring that cannot be opened is reported.
pub(crate) async fn find(
    volume: &Volume,
    device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
) -> Option<Rc<dyn BlockDevice>> {
    let path = path_of(volume).filter(|path| path.exists())?;
    let ring = log::open(&path, false, device).await;
    ring.inspect_err(|failure| {
        words::say(format_args!(
            "{}: {failure}; a call that a client repeats from before the repair may run twice",
            volume.path.display()
        ));
    })
    .ok()
}

/// Path of the ring of a volume, if it is a file in the volume's folder.
fn path_of(volume: &Volume) -> Option<PathBuf> {
    let is_beside = volume.design().keeps_intents && volume.settings.raid.is_none();
    Some(volume.folder.as_deref().filter(|_| is_beside)?.join(INTENTS_NAME))
}

/// Creates an empty ring for a volume of `size` bytes.
pub(crate) fn make(path: &Path, size: u64) -> Result<(), Failure> {
    log::make(path, log_size_for(size).min(designs::INTENTS_SIZE))
}
