//! How a set is opened, and why it is not.

use std::rc::Rc;

use block::{BlockDevice, IoError};

use crate::assembly::{Refused, Witness};
use crate::health::READ_ERRORS_PER_HOUR;
use crate::label::BadLabel;
use crate::labels::NoLabel;
use crate::layout::Level;
use crate::members::Witnessed;
use crate::watch::ReportSilence;

/// Reason why a set is not made, or not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A disk failed.
    #[error("disk {0}: {1}")]
    Disk(usize, IoError),
    /// A disk is not a member of any set.
    #[error("disk {0}: {1}")]
    NoMember(usize, BadLabel),
    /// The disks do not make a set that may be opened.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A set cannot have this many members.
    #[error("{0} is made of {1} to {2} disks, and not of {3}")]
    Members(Level, usize, usize, usize),
    /// A disk has no room for data.
    #[error("disk {0} has {1} bytes, and the data would begin at {2}")]
    TooSmall(usize, u64, u64),
    /// The log lacks records that are needed.
    #[error("the log of the set lacks record {0}, which it needs")]
    Hole(u64),
    /// The log device may have records that are needed, and is not there.
    #[error("its log device is missing, and may have writes that the disks lack")]
    NoLogDevice,
    /// The log device lacks a record that is needed, or cannot read it.
    #[error("its log device has lost record {0}, which the disks need")]
    LogDevice(u64),
    /// Disks cannot read metadata that the set needs.
    #[error(
        "the disks cannot read what the set needs to know of itself: look after their cables and \
         controllers, and try again"
    )]
    Unread,
    /// The host of a disk is full, and the log has data that belongs on the disk.
    #[error("what holds a disk of the set is full: it cannot be opened before there is room")]
    Full,
    /// Too many members failed while it was opened.
    #[error("too many members failed while the set was opened")]
    Failed,
}

/// Options for opening a set.
pub struct OpenOptions {
    /// The last story under which anything was acknowledged, if known.
    pub witness: Option<Witness>,
    /// Whether a person says that the missing members are not newer.
    pub is_meant: bool,
    /// Keeps the witness from now on.
    pub witnessed: Witnessed,
    /// Bytes of memory for caching members' blocks, so that small writes need not read.
    pub cache: usize,
    /// Blocks that a member may fail to read within an hour before it counts as failing.
    pub read_errors_per_hour: usize,
    /// Reports disks that do not answer while the set is opened.
    pub report_silence: ReportSilence,
    /// Whether a person accepts losses if too few members are there. Nothing is written to the
    /// disks.
    pub accepts_loss: bool,
    /// The log device, which is only read; or the devices, any of which may have a record.
    pub log_devices: Vec<Rc<dyn BlockDevice>>,
    /// Whether a person gives up what only the log device has. [`Set::renew_sums`] is to follow:
    /// until it is done, the labels say that the device is needed.
    pub gives_up_log: bool,
}

impl OpenError {
    /// The error for a disk without a label.
    pub(crate) fn of(disk: usize, none: NoLabel) -> Self {
        match none {
            NoLabel::Unread(error) => Self::Disk(disk, error),
            NoLabel::Bad(bad) => Self::NoMember(disk, bad),
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        let witnessed: Witnessed = Rc::new(|_| Box::pin(async {}));
        Self {
            witness: None,
            is_meant: false,
            witnessed,
            cache: 8 << 20,
            accepts_loss: false,
            log_devices: Vec::new(),
            gives_up_log: false,
            read_errors_per_hour: READ_ERRORS_PER_HOUR,
            report_silence: Rc::new(|_| ()),
        }
    }
}
