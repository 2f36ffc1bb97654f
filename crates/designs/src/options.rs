//! What an engine is told: the disks, and how a volume is made, opened and checked.
//!
//! Each engine takes of it what it has a use for.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
pub use ffs::policy::log::LogOptions;
pub use ffs::policy::softdep::SoftUpdatesOptions;
pub use fsck::LogState;

/// The disks of a volume.
#[derive(Clone)]
pub struct Disks {
    /// That of the file system.
    pub volume: Rc<dyn BlockDevice>,
    /// That of the log, if it has one.
    pub log: Option<Rc<dyn BlockDevice>>,
    /// That of the ring of intents, if there is a place for one.
    pub intents: Option<Rc<dyn BlockDevice>>,
}

impl Disks {
    /// A volume without a log.
    pub fn alone(volume: Rc<dyn BlockDevice>) -> Self {
        Self { volume, log: None, intents: None }
    }
}

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing.
    pub read_only: bool,
    /// Bytes of memory for all that is kept of the volume.
    pub cache_bytes: usize,
    /// Whether data is kept that may be read again.
    pub keeps_data: bool,
    /// How often access times and old UNSTABLE data go to the disk.
    pub housekeeping_interval: Duration,
    /// Whether a stop waits until all is found that a cut left, and does not end the search.
    pub finishes_reclaim: bool,
    /// How the log is kept small, if there is one.
    pub log: LogOptions,
    /// How soft updates wait, if it has these.
    pub softdep: SoftUpdatesOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache_bytes: 256 << 20,
            keeps_data: true,
            housekeeping_interval: Duration::from_secs(5),
            finishes_reclaim: false,
            log: LogOptions::default(),
            softdep: SoftUpdatesOptions::default(),
        }
    }
}

/// How a volume is to be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Write the repairs.
    pub repair: bool,
    /// Read every block of every file too, and look at the whole disk for what says what it is.
    pub full: bool,
    /// What has become of the log of the volume, if it needs one.
    pub log: LogState,
}
