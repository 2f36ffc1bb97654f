//! An open volume, regardless of its engine.
//!
//! Calls reach it through its files, which are one [`FileSystem`] for every engine: all code below
//! that is compiled for the engine itself, so that a call costs no more than with a single engine.
//! Occasional other requests go through [`OpenEngine`].

use std::rc::Rc;

pub use ffs::policy::SoftUpdatesCounts;
pub use ffs::policy::log::LogStatistics;
pub use ffs::replay::Replayed;
pub use ffs::{ReclaimState, Reclaimed};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};
pub use lfs::Status as LfsStatus;
use namespace::{Namespace, Store};
pub use shadow::{Renewed, Status as ShadowStatus};
use vfs::{Credentials, FileSystem, FsError, FsStat};
use vnode::scrub::{ScrubError, Scrubbed, Watch};
use vnode::{Engine, Files};

use crate::errors::OpenError;
use crate::options::LogState;
use crate::report::Report;

/// An open volume.
pub struct Opened {
    /// The files, for service.
    pub files: Rc<dyn FileSystem>,
    /// The engine that keeps the files. It lives as long as they do.
    pub engine: Rc<dyn OpenEngine>,
    /// Reason why it is read-only against the request, as the end of a sentence.
    pub read_only: Option<String>,
    /// Result of a check after a cut, if there was one.
    pub rebuilt: Option<Report>,
    /// Summary of the log's replay, if that was necessary.
    pub replayed: Option<Replayed>,
    /// Whether it is served before the leftovers of a cut are found; the search runs in the
    /// background.
    pub reclaims: bool,
    /// Reason why the kept replies are lost, if their file is damaged.
    pub lost_intents: Option<String>,
}

impl Opened {
    /// Wraps the files of an engine without further information.
    pub fn new<E: Engine + Told>(files: Rc<Files<E>>) -> Self {
        Self {
            files: Rc::new(Namespace::new(files.clone())),
            engine: files,
            read_only: None,
            rebuilt: None,
            replayed: None,
            reclaims: false,
            lost_intents: None,
        }
    }
}

/// Statistics of an engine. Parts that it does not have are absent.
pub trait Told {
    /// Number of directories.
    fn directories(&self) -> u64;

    /// Statistics of its log.
    fn log_statistics(&self) -> Option<LogStatistics> {
        None
    }

    /// Statistics of soft updates.
    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        None
    }

    /// State of an engine that writes only to free places.
    fn shadow(&self) -> Option<ShadowStatus> {
        None
    }

    /// State of an engine whose disk is a log.
    fn lfs(&self) -> Option<LfsStatus> {
        None
    }

    /// Progress of reclaim, if a cut may have left something.
    fn reclaimed(&self) -> Option<Reclaimed> {
        None
    }

    /// Waits until reclaim is done or cannot continue; returns whether it is done.
    fn wait_for_reclaim(&self) -> LocalBoxFuture<'_, bool> {
        ready(true).boxed_local()
    }

    /// Compares all blocks with their checksums in service, repairs bad ones, and reports losses;
    /// none for an engine without checksums.
    fn scrub<'a>(&'a self, _watch: Watch<'a>) -> Option<Scrubbing<'a>> {
        None
    }
}

/// A scrub under way.
pub type Scrubbing<'a> = LocalBoxFuture<'a, Result<Scrubbed, ScrubError>>;

/// Requests to an open engine, beside its files.
pub trait OpenEngine: Told {
    /// Free and used space, as the superuser sees it.
    fn space(&self) -> FsStat;
    /// Number of changes refused because the host of the disk is full.
    fn refusals(&self) -> u64;
    /// Writes everything in memory in place: see [`Files::quiesce`].
    fn quiesce(&self) -> LocalBoxFuture<'_, Result<(), FsError>>;
}

impl<E: Engine + Told> Told for Files<E> {
    fn directories(&self) -> u64 {
        Told::directories(&**self.engine())
    }

    fn log_statistics(&self) -> Option<LogStatistics> {
        Told::log_statistics(&**self.engine())
    }

    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        Told::soft_updates(&**self.engine())
    }

    fn shadow(&self) -> Option<ShadowStatus> {
        Told::shadow(&**self.engine())
    }

    fn lfs(&self) -> Option<LfsStatus> {
        Told::lfs(&**self.engine())
    }

    fn reclaimed(&self) -> Option<Reclaimed> {
        Told::reclaimed(&**self.engine())
    }

    fn wait_for_reclaim(&self) -> LocalBoxFuture<'_, bool> {
        Told::wait_for_reclaim(&**self.engine())
    }

    fn scrub<'a>(&'a self, watch: Watch<'a>) -> Option<Scrubbing<'a>> {
        Told::scrub(&**self.engine(), watch)
    }
}

impl<E: Engine + Told> OpenEngine for Files<E> {
    fn space(&self) -> FsStat {
        self.fsstat(&Credentials::root())
    }

    fn refusals(&self) -> u64 {
        Self::refusals(self)
    }

    fn quiesce(&self) -> LocalBoxFuture<'_, Result<(), FsError>> {
        Self::quiesce(self).boxed_local()
    }
}

/// State of the other disks of a volume before its check.
#[derive(Debug)]
pub struct Prepared {
    /// Log state for [`CheckOptions`](crate::CheckOptions).
    pub state: LogState,
    /// Summary of the replay, if there was one.
    pub replayed: Option<Replayed>,
    /// Whether changes in a log were given up, of any volume.
    pub has_given_up: bool,
    /// Reason why a repair would be refused, if the check is read-only.
    pub refused: Option<OpenError>,
}
