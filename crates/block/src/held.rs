//! An open disk that its device and the calls in flight share.
//!
//! Closing drops the device's share and waits for the last one: only then is the file closed and
//! its lock gone, so that a caller that has waited for the close can open the disk again.

use std::cell::RefCell;
use std::sync::Arc;

use futures::FutureExt;
use futures::channel::oneshot;

use crate::disk_file::DiskFile;
use crate::{Geometry, Io, IoError, Verb};

/// One share of an open disk.
pub(crate) struct Held {
    file: DiskFile,
    /// Never sent on: it is dropped after the file, and the other end waits for that.
    _gone: oneshot::Sender<()>,
}

impl std::ops::Deref for Held {
    type Target = DiskFile;

    fn deref(&self) -> &DiskFile {
        &self.file
    }
}

/// The device's share, until it is closed.
pub(crate) struct Holder {
    geometry: Geometry,
    held: RefCell<Option<Arc<Held>>>,
    gone: RefCell<Option<oneshot::Receiver<()>>>,
}

impl Holder {
    pub(crate) fn new(file: DiskFile) -> Self {
        let (sender, receiver) = oneshot::channel();
        Self {
            geometry: file.geometry(),
            held: RefCell::new(Some(Arc::new(Held { file, _gone: sender }))),
            gone: RefCell::new(Some(receiver)),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// A share for a call, if the device is open and the range is valid for it.
    pub(crate) fn share(&self, verb: Verb, offset: u64, length: u64) -> Result<Arc<Held>, IoError> {
        let held = self.held.borrow().clone().ok_or_else(|| IoError::closed(verb))?;
        self.geometry.check(verb, offset, length)?;
        Ok(held)
    }

    /// Reads from the page cache, as [`DiskFile::read_now`].
    pub(crate) fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let file = self.share(Verb::Read, offset, bytes.len() as u64);
        file.is_ok_and(|file| file.read_now(offset, bytes))
    }

    /// Refuses every later call at once, and completes when the last share is gone.
    pub(crate) fn close(&self) -> Io<()> {
        self.held.take();
        let gone = self.gone.take();
        let wait = async {
            if let Some(gone) = gone {
                let _cancelled = gone.await;
            }
            Ok(())
        };
        wait.boxed_local()
    }
}
