//! Parameters of an engine: the disks, and options to open and check a volume.
//!
//! Each engine uses the ones it needs.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
pub use ffs::policy::log::LogOptions;
pub use ffs::policy::softdep::SoftUpdatesOptions;
pub use fsck::LogState;

/// The disks of a volume.
#[derive(Clone)]
pub struct Disks {
    /// Device of the file system.
    pub volume: Rc<dyn BlockDevice>,
    /// Device of the log, if there is one.
    pub log: Option<Rc<dyn BlockDevice>>,
    /// Device of the intent ring, if there is a place for one.
    pub intents: Option<Rc<dyn BlockDevice>>,
}

impl Disks {
    /// Disks of a volume without a log.
    pub fn alone(volume: Rc<dyn BlockDevice>) -> Self {
        Self { volume, log: None, intents: None }
    }
}

/// Options to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing.
    pub read_only: bool,
    /// Memory for all caches of the volume, in bytes.
    pub cache_bytes: usize,
    /// Whether to cache file data for further reads.
    pub keeps_data: bool,
    /// Interval at which access times and old UNSTABLE data are written to the disk.
    pub housekeeping_interval: Duration,
    /// Whether a stop waits until reclaim has found everything that a cut left, instead of ending
    /// it.
    pub finishes_reclaim: bool,
    /// Limits that keep the log small, if there is one.
    pub log: LogOptions,
    /// Delays of soft updates, if it has these.
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

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Write the repairs.
    pub repair: bool,
    /// Read every block of every file, and search the whole disk for a superblock.
    pub full: bool,
    /// State of the volume's log, if it needs one.
    pub log: LogState,
}
