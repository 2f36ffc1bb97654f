//! The parts of an entry of the table.

use std::fmt;
use std::rc::Rc;

use block::{BlockDevice, IoError};
use ffs::check_log::LogUse;
use futures::future::LocalBoxFuture;
use runtime::{Random, Runtime, Timestamp};
use ufs2::mark::PolicyKind;
use vnode::scrub::{ScrubError, Scrubbed, Watch};

use crate::errors::{CheckError, LookError, MkfsError, OpenError};
use crate::found::Found;
use crate::made::{Made, MkfsOptions};
use crate::opened::{Opened, Prepared};
use crate::options::{CheckOptions, Disks, OpenOptions};
use crate::report::{Progress, Report};

/// Purpose of a disk of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRole {
    /// The file system.
    Volume,
    /// The redo log.
    Log,
}

/// Bytes at the beginning of a disk by which a volume is recognised.
pub const HEAD_SIZE: usize = 128 << 10;

/// An engine, the policy by which it orders its writes, and the disks that it needs.
pub struct Design {
    /// Name of the engine.
    pub engine: &'static str,
    /// Name of the policy; none for an engine without policies.
    pub policy: Option<&'static str>,
    /// How it makes changes durable, for a person who has to choose.
    pub about: &'static str,
    /// Mark in the superblock of a volume in use, for a volume of UFS2.
    pub mark: Option<PolicyKind>,
    /// The disks that it needs, the volume first; none for an engine over memory.
    pub disks: &'static [DiskRole],
    /// Possible results of a crash, as a sentence without its full stop.
    pub after_crash: &'static str,
    /// Reply to a call that is repeated after a crash, as a sentence without its full stop.
    pub retry: &'static str,
    /// Whether it keeps an intent ring beside the volume, if there is a place for one: then replies
    /// survive a crash.
    pub keeps_intents: bool,
    /// Whether replies survive a crash, and recovery completes operations that had begun.
    pub remembers: bool,
    /// Whether a crash during the truncation of a large file may leave any size between the old and
    /// the new one.
    pub may_stop_between: bool,
    /// Whether unacknowledged changes survive a crash in order: if one survives, so do those before
    /// it, except for parts of the last ones.
    pub keeps_order: bool,
    /// Whether a crash loses only the end of history, also of acknowledged changes that need not be
    /// durable yet: a surviving change has all changes before it.
    pub keeps_history: bool,
    /// Whether recovery after a crash checks and repairs the whole volume before it is served.
    pub checks_first: bool,
    /// Whether a check can mend what no cut leaves.
    pub repairs: bool,
    /// Whether the sum of free space and the files' space is constant: metadata that leads to data
    /// counts as part of a file, or has its place from the start. Otherwise the sum is constant
    /// within one part in a hundred.
    pub counts_all: bool,
    /// Whether changes are delayed to be combined, as the section `[softdep]` of the settings says.
    pub waits: bool,
    /// Whether it has snapshots, which a server creates as the section `[snapshots]` says.
    pub has_snapshots: bool,
    /// Operations on its disks; none for an engine over memory.
    pub work: Option<Work>,
}

/// Refuses a volume that cannot be created on a disk of this size, with sectors of this size, both
/// in bytes.
pub type Plan = fn(u64, u32, &MkfsOptions) -> Result<(), MkfsError>;

/// Creates an empty volume.
pub type Make = for<'a> fn(
    &'a dyn BlockDevice,
    &'a MkfsOptions,
    &'a dyn Random,
    Timestamp,
) -> LocalBoxFuture<'a, Result<Made, MkfsError>>;

/// Identifies a disk of this engine by its first bytes: at least [`HEAD_SIZE`] of them, or the
/// whole disk.
pub type Recognise = fn(&[u8]) -> Option<&'static str>;

/// Whether a disk with these first bytes has a volume whose creation was interrupted.
pub type IsBegun = fn(&[u8]) -> bool;

/// Inspects a volume, whichever program has it open.
pub type Look = for<'a> fn(&'a dyn BlockDevice) -> LocalBoxFuture<'a, Result<Found, LookError>>;

/// Identifies the contents of a disk whose first bytes are lost. It may read much of the disk.
pub type FindLost =
    for<'a> fn(&'a dyn BlockDevice) -> LocalBoxFuture<'a, Result<Option<&'static str>, IoError>>;

/// Records on a volume at rest its new policy, which is another one of its engine.
pub type NotePolicy =
    for<'a> fn(&'a dyn BlockDevice, &'a Design) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// Opens a volume. If it was cut off, it is recovered first.
pub type Open = for<'a> fn(
    Disks,
    Runtime,
    &'a OpenOptions,
    &'a mut dyn FnMut(Progress),
) -> LocalBoxFuture<'a, Result<Opened, OpenError>>;

/// Writes the records that other disks hold of a volume in place, before it is checked.
pub type Prepare = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Option<&'a Rc<dyn BlockDevice>>,
    &'a Runtime,
    LogUse,
) -> LocalBoxFuture<'a, Result<Prepared, OpenError>>;

/// Checks a volume, and repairs it on request. A repair keeps the intents of a ring.
pub type Check = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Option<&'a Rc<dyn BlockDevice>>,
    &'a Runtime,
    &'a CheckOptions,
    &'a mut dyn FnMut(Progress),
) -> LocalBoxFuture<'a, Result<Report, CheckError>>;

/// Compares all blocks of a closed volume with their checksums, and repairs bad ones.
pub type Scrub = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Watch<'a>,
)
    -> LocalBoxFuture<'a, Result<Result<Scrubbed, ScrubError>, CheckError>>;

/// Changes the label of a closed volume.
pub type SetLabel =
    for<'a> fn(&'a dyn BlockDevice, &'a str) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// Changes the space that a closed volume reserves for root, in percent.
pub type SetReserve = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    &'a Runtime,
    u64,
) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// Operations on the disks of a design.
#[derive(Clone, Copy)]
pub struct Work {
    /// Checks whether a volume can be created, before anything is written.
    pub plan: Plan,
    /// Creates an empty volume.
    pub make: Make,
    /// Recognises a volume by its first bytes.
    pub recognise: Recognise,
    /// Recognises an unfinished volume.
    pub is_begun: IsBegun,
    /// Inspects a volume.
    pub look: Look,
    /// Recognises a volume that has lost its first bytes.
    pub find_lost: FindLost,
    /// Opens a volume after recovery.
    pub open: Open,
    /// Prepares a volume for a check.
    pub prepare: Prepare,
    /// Checks a volume.
    pub check: Check,
    /// Scrubs a volume; none for an engine without checksums.
    pub scrub: Option<Scrub>,
    /// Changes the policy, if the disk records it.
    pub note_policy: NotePolicy,
    /// Changes the label.
    pub set_label: SetLabel,
    /// Changes the reserve; none for an engine whose volumes keep their first one.
    pub set_reserve: Option<SetReserve>,
}

impl Design {
    /// Whether it keeps durable data on disks.
    pub fn has_disks(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Whether one of its disks has this role.
    pub fn has(&self, role: DiskRole) -> bool {
        self.disks.contains(&role)
    }

    /// Short name: of the policy, or of an engine without policies.
    pub fn name(&self) -> &'static str {
        self.policy.unwrap_or(self.engine)
    }

    /// Command-line words that choose it.
    pub fn words(&self) -> String {
        let policy = self.policy.map(|policy| format!(" --policy {policy}"));
        format!("--engine {}{}", self.engine, policy.unwrap_or_default())
    }

    /// Operations on its disks.
    ///
    /// # Panics
    /// If the engine is over memory.
    pub fn work(&self) -> &Work {
        self.work.as_ref().expect("an engine over memory has no disks to work with")
    }
}

/// Entries are equal if their names are.
impl PartialEq for Design {
    fn eq(&self, other: &Self) -> bool {
        (self.engine, self.policy) == (other.engine, other.policy)
    }
}

impl Eq for Design {}

impl fmt::Debug for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Some(policy) => write!(f, "{}/{policy}", self.engine),
            None => f.write_str(self.engine),
        }
    }
}
