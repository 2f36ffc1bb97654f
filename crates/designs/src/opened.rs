//! A volume that is open, whatever its engine.
//!
//! Calls reach it through its files, which are one [`FileSystem`] for every engine: below that all
//! is made for the engine itself, so that a call costs no more than if there were no other. What is
//! asked beside, now and then, goes through [`OpenEngine`].

use std::rc::Rc;

pub use ffs::policy::SoftUpdatesCounts;
pub use ffs::policy::log::LogStatistics;
pub use ffs::replay::Replayed;
pub use ffs::{ReclaimState, Reclaimed};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};
use namespace::{Namespace, Store};
pub use shadow::{Renewed, Status as ShadowStatus};
use vfs::{Credentials, FileSystem, FsError, FsStat};
use vnode::scrub::{ScrubError, Scrubbed, Watch};
use vnode::{Engine, Files};

use crate::errors::OpenError;
use crate::options::LogState;
use crate::report::Report;

/// A volume that is open.
pub struct Opened {
    /// Its files, as they are served.
    pub files: Rc<dyn FileSystem>,
    /// What keeps them. It stays as long as the files do.
    pub engine: Rc<dyn OpenEngine>,
    /// Why it is read-only although it was to be writable, as the end of a sentence.
    pub read_only: Option<String>,
    /// What a check after a cut found, if there was one.
    pub rebuilt: Option<Report>,
    /// What was replayed of its log, if that was needed.
    pub replayed: Option<Replayed>,
    /// Whether it is served before what a cut left was looked for; that is done beside.
    pub reclaims: bool,
    /// Why answers that were kept are not known any more, if what held them is damaged.
    pub lost_intents: Option<String>,
}

impl Opened {
    /// The files of an engine, of which nothing else is to be told.
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

/// What an engine tells of itself. A part that it does not have it leaves out.
pub trait Told {
    /// How many directories there are.
    fn directories(&self) -> u64;

    /// What its log is doing.
    fn log_statistics(&self) -> Option<LogStatistics> {
        None
    }

    /// What soft updates have done.
    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        None
    }

    /// How it is doing, if it writes to free places alone.
    fn shadow(&self) -> Option<ShadowStatus> {
        None
    }

    /// How far it is to reclaim what a cut left, if one may have left something.
    fn reclaimed(&self) -> Option<Reclaimed> {
        None
    }

    /// Waits until that is done, or cannot go on; says which.
    fn wait_for_reclaim(&self) -> LocalBoxFuture<'_, bool> {
        ready(true).boxed_local()
    }

    /// Compares everything with its checksum, mends it, and says what is lost, while it is used;
    /// none for an engine that keeps no checksums.
    fn scrub<'a>(&'a self, _watch: Watch<'a>) -> Option<Scrubbing<'a>> {
        None
    }
}

/// A scrub under way.
pub type Scrubbing<'a> = LocalBoxFuture<'a, Result<Scrubbed, ScrubError>>;

/// What is asked of an engine that is open, beside its files.
pub trait OpenEngine: Told {
    /// How full it is, as the superuser sees it.
    fn space(&self) -> FsStat;
    /// How often a change was refused because what holds the disk is full.
    fn refusals(&self) -> u64;
    /// Brings home all that is in memory: see [`Files::quiesce`].
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

/// What has become of the other disks of a volume that is to be checked.
#[derive(Debug)]
pub struct Prepared {
    /// For [`CheckOptions`](crate::CheckOptions).
    pub state: LogState,
    /// What was replayed, if anything was.
    pub replayed: Option<Replayed>,
    /// Whether changes were given up that a log held, of whatever volume.
    pub has_given_up: bool,
    /// Why a repair would be refused, where the volume is only looked at.
    pub refused: Option<OpenError>,
}
