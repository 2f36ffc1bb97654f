//! What an entry of the table consists of.

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

/// What a disk of a volume is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRole {
    /// The file system.
    Volume,
    /// The redo log.
    Log,
}

/// How far into a disk the bytes reach by which a volume is known.
pub const HEAD_SIZE: usize = 128 << 10;

/// An engine, the policy by which it orders its writes, and the disks that it needs.
pub struct Design {
    /// The word for the engine.
    pub engine: &'static str,
    /// The word for the policy; none for an engine that has only one way.
    pub policy: Option<&'static str>,
    /// How it makes changes durable, for a person who has to choose.
    pub about: &'static str,
    /// What the superblock of a volume bears while it is in use, if that is one of UFS2.
    pub mark: Option<PolicyKind>,
    /// The disks that it needs, the volume first; none for an engine over memory.
    pub disks: &'static [DiskRole],
    /// What a crash may leave, as a sentence without its stop.
    pub after_crash: &'static str,
    /// What a call is told that is repeated over a crash, as a sentence without its stop.
    pub retry: &'static str,
    /// Whether it keeps intents in a ring beside the volume, if there is a place for one: then
    /// answers survive a crash.
    pub keeps_intents: bool,
    /// Whether answers survive a crash, and what was begun is ended by the return.
    pub remembers: bool,
    /// Whether a crash while a large file is cut short may leave any length in between.
    pub may_stop_between: bool,
    /// Whether, of changes that were not answered, a crash that leaves one leaves those that came
    /// before it, but for parts of the last ones.
    pub keeps_order: bool,
    /// Whether a crash takes the end of history alone, of what was answered and need not be durable
    /// yet too: what it leaves has everything before it.
    pub keeps_history: bool,
    /// Whether a return after a crash looks at all of the volume before it is served, and mends it.
    pub checks_first: bool,
    /// Whether a check can mend what no cut leaves.
    pub repairs: bool,
    /// Whether what is free and what files have are always as much: what leads to it counts as a
    /// file's, or has its place from the start. Otherwise it is within one part in a hundred.
    pub counts_all: bool,
    /// Whether changes wait for company, as the section `[softdep]` of the settings says.
    pub waits: bool,
    /// Whether it has snapshots, which a server makes as the section `[snapshots]` says.
    pub has_snapshots: bool,
    /// How its disks are worked with; none for an engine over memory.
    pub work: Option<Work>,
}

/// Refuses a volume that cannot be made on so many bytes of a disk whose sectors have so many.
pub type Plan = fn(u64, u32, &MkfsOptions) -> Result<(), MkfsError>;

/// Makes an empty volume.
pub type Make = for<'a> fn(
    &'a dyn BlockDevice,
    &'a MkfsOptions,
    &'a dyn Random,
    Timestamp,
) -> LocalBoxFuture<'a, Result<Made, MkfsError>>;

/// Says what a disk is whose first bytes are these, if it is one of this engine: at least
/// [`HEAD_SIZE`] bytes, or all that it has.
pub type Recognise = fn(&[u8]) -> Option<&'static str>;

/// Says whether a disk that begins so bears a volume whose making was cut off.
pub type IsBegun = fn(&[u8]) -> bool;

/// Looks at a volume, whoever has it open.
pub type Look = for<'a> fn(&'a dyn BlockDevice) -> LocalBoxFuture<'a, Result<Found, LookError>>;

/// Says what is on a disk whose first bytes say nothing, since they are lost. It may read much.
pub type FindLost =
    for<'a> fn(&'a dyn BlockDevice) -> LocalBoxFuture<'a, Result<Option<&'static str>, IoError>>;

/// Notes on a volume at rest which of the policies of its engine it has from now on.
pub type NotePolicy =
    for<'a> fn(&'a dyn BlockDevice, &'a Design) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// Opens a volume. One that was cut off is brought back first.
pub type Open = for<'a> fn(
    Disks,
    Runtime,
    &'a OpenOptions,
    &'a mut dyn FnMut(Progress),
) -> LocalBoxFuture<'a, Result<Opened, OpenError>>;

/// Brings home what other disks hold of a volume, before it is checked.
pub type Prepare = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Option<&'a Rc<dyn BlockDevice>>,
    &'a Runtime,
    LogUse,
) -> LocalBoxFuture<'a, Result<Prepared, OpenError>>;

/// Checks a volume, and repairs it if asked to. What a ring of intents says of it is kept then.
pub type Check = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Option<&'a Rc<dyn BlockDevice>>,
    &'a Runtime,
    &'a CheckOptions,
    &'a mut dyn FnMut(Progress),
) -> LocalBoxFuture<'a, Result<Report, CheckError>>;

/// Compares everything on a volume that is not open with its checksum, and mends it.
pub type Scrub = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    Watch<'a>,
)
    -> LocalBoxFuture<'a, Result<Result<Scrubbed, ScrubError>, CheckError>>;

/// Gives a volume that is not open another label.
pub type SetLabel =
    for<'a> fn(&'a dyn BlockDevice, &'a str) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// Gives a volume that is not open another reserve for root, in percent.
pub type SetReserve = for<'a> fn(
    &'a Rc<dyn BlockDevice>,
    &'a Runtime,
    u64,
) -> LocalBoxFuture<'a, Result<(), OpenError>>;

/// How the disks of a design are worked with.
#[derive(Clone, Copy)]
pub struct Work {
    /// Says whether one can be made, before anything is written.
    pub plan: Plan,
    /// Makes an empty volume.
    pub make: Make,
    /// Knows one by its first bytes.
    pub recognise: Recognise,
    /// Knows one that was never finished.
    pub is_begun: IsBegun,
    /// Looks at it.
    pub look: Look,
    /// Knows one that has lost its first bytes.
    pub find_lost: FindLost,
    /// Opens it, and brings it back.
    pub open: Open,
    /// Makes it ready for a check.
    pub prepare: Prepare,
    /// Checks it.
    pub check: Check,
    /// Scrubs it; none for an engine that keeps no checksums.
    pub scrub: Option<Scrub>,
    /// Changes its policy, as far as the disk tells it.
    pub note_policy: NotePolicy,
    /// Changes its label.
    pub set_label: SetLabel,
    /// Changes its reserve; none for an engine that keeps the one with which a volume was made.
    pub set_reserve: Option<SetReserve>,
}

impl Design {
    /// Whether it keeps what is durable on disks.
    pub fn has_disks(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Whether one of its disks is for this.
    pub fn has(&self, role: DiskRole) -> bool {
        self.disks.contains(&role)
    }

    /// Its short name: that of the policy, or of an engine that has none.
    pub fn name(&self) -> &'static str {
        self.policy.unwrap_or(self.engine)
    }

    /// The words of a command line that choose it.
    pub fn words(&self) -> String {
        let policy = self.policy.map(|policy| format!(" --policy {policy}"));
        format!("--engine {}{}", self.engine, policy.unwrap_or_default())
    }

    /// How its disks are worked with.
    ///
    /// # Panics
    /// For an engine over memory.
    pub fn work(&self) -> &Work {
        self.work.as_ref().expect("an engine over memory has no disks to work with")
    }
}

/// An entry is known by its words.
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
