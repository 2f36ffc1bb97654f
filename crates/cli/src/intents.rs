//! The intent ring of a volume: a file in its folder, or the room for a log at the end of its set
//! of disks. A bare disk has no place for one.
//!
//! A volume can be served without the contents of its ring. So a missing ring is created, and if
//! that fails, the volume is served without one and a message says so.

use std::path::Path;
use std::rc::Rc;

use block::BlockDevice;
use block::file::DiskFile;

use crate::failure::Failure;
use crate::folder::is_there;
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
    let is_beside = volume.design().keeps_intents && volume.settings.raid.is_none();
    let Some(folder) = volume.folder.as_deref().filter(|_| is_beside) else { return Ok(None) };
    let path = folder.join(INTENTS_NAME);
    if !is_there(&path)?
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

/// Creates an empty ring for a volume of `size` bytes.
pub(crate) fn make(path: &Path, size: u64) -> Result<(), Failure> {
    log::make(path, log_size_for(size).min(designs::INTENTS_SIZE))
}
