//! The checker: finds errors on a disk, and repairs them.
//!
//! All judging is in one place, for `duramen fsck`, for recovery after a crash at `serve`, and for
//! the tests that cut the power. They differ in [`CheckOptions`] alone.
//!
//! # Passes
//! 1. `superblock`: identifies the file system, from the primary superblock or from a copy of it.
//! 2. `groups`: the number of meaningful inodes in every group.
//! 3. `inodes`, with `bit`, `fields`, `blocks`, `attributes`: every inode, in the order of the
//!    disk, and every pointer below it; which file holds which fragment. `extent` decides where a
//!    size and its pointers contradict each other, `contest` for fragments that two files claim;
//!    `holes` fills those of directories.
//! 4. `directories`, with `chunk`: every chunk of every directory, in the order of the disk.
//! 5. `tree`, with `forest` and `lost_found`: the files that hang from the root, and the fate of
//!    the others.
//! 6. `links`: link counts.
//! 7. `maps`: every group block and the summary area, compared with the files.
//! 8. `copies`: the superblock's backups.
//! 9. `data`, when requested: every block of every file, once the rest is sound.
//!
//! Unreadable sectors are a finding of the first pass that meets them: see `unreadable`.
//!
//! # Rounds
//! A pass puts its repairs into the `overlay`, through which every later pass reads. When all
//! passes are done and anything was found, they run again over the repaired disk, until a round
//! finds nothing. Only then is anything written: **everything that is written has been checked.** A
//! check without repair does the same and writes nothing, so that it can report what a repair would
//! do.
//!
//! # Cuts
//! A repair writes, in this order and with a flush between:
//! 1. the mark `duramen:fsck:NONCE` in the superblock, with *clean* 0: from here on only a checker
//!    touches the disk;
//! 2. blocks that nothing on the disk points at (a new `lost+found`);
//! 3. all sectors in place, in any order: each says the truth by itself;
//! 4. the superblock, with *clean* 1. **That is the commit point.**
//!
//! If intents are still to be judged ([`CheckOptions::epoch`]), the last step leaves the mark of
//! policy `sync` instead: the volume looks cut off, and the next opening judges them.
//!
//! After a crash at any point, the next check begins anew with the disk as it is. The mark also
//! records a decision: files without names, which a crash under policy `sync` leaves and which are
//! freed then, are never freed on a disk that bears the mark, because their names may have been
//! lost to damage that is repaired by now.
//!
//! # Invariants
//! 1. Nothing is written before a whole round has been silent.
//! 2. Every finding goes through [`Log::find`], and nothing is repaired that was not found.
//! 3. No number from the disk is used as an address, a length or an index before it is in range.
//! 4. A fragment that any file claimed, in any round, is never given to another during the check.
//! 5. Memory grows with the maps, the allocated inodes and the directories, never with a file.
//!
//! Not asserted: 3 and 5, which are about whatever a disk holds: damaged disks show them.

mod attributes;
mod bit;
mod blocks;
mod chunk;
mod contest;
mod copies;
mod data;
mod directories;
mod extent;
mod fields;
mod finding;
mod forest;
mod groups;
mod holes;
mod inodes;
mod links;
mod lost_found;
mod maps;
mod overlay;
mod path;
#[doc(hidden)]
pub mod planted;
mod pointer;
mod root;
mod run;
mod sectors;
mod superblock;
mod table;
mod target;
mod tree;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet};

use block::IoError;
use runtime::Timestamp;
use ufs2::layout::{BadSuperblock, Geometry};

use blocks::BadSlot;
use contest::Claim;
use directories::{Directory, Mismatch};
use holes::Holes;
use overlay::Overlay;
use pointer::Pointer;
use table::Table;

pub use finding::{FINDINGS_KEPT, Finding, Findings, Invariant, Place, Severity};
pub use run::{check, recover};

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Write the repairs.
    pub repair: bool,
    /// Also read every block of every file, and search the whole disk for superblocks.
    pub full: bool,
    /// The state of the volume's log, if it needs one.
    pub log: LogState,
    /// Epoch of the ring of intents that is to stay that of the volume: all marks of a repair bear
    /// its number, and the repaired volume is marked as one that was cut under policy `sync`.
    pub epoch: Option<u64>,
    /// A check that is left out, so that tests can show its use.
    #[doc(hidden)]
    pub without: Option<Invariant>,
}

/// The state of the log of a volume that needs one and was not stopped cleanly. Ignored for all
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogState {
    /// It is not available: then the volume is checked as it is, and is not repaired.
    #[default]
    Missing,
    /// Its contents were written in place.
    Home,
    /// The administrator has declared that it is left out, and discarded by a repair.
    GivenUp,
}

/// Progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current pass.
    pub phase: Phase,
    /// The current round of passes, from 1 on.
    pub round: u32,
    /// Groups, directory blocks or files done, depending on the phase.
    pub done: u64,
    /// The same, in total.
    pub total: u64,
}

/// The passes that take long, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the header of every group.
    Groups,
    /// Reading the inodes of every group, and indirect blocks.
    Inodes,
    /// Reading the blocks of every directory.
    Directories,
    /// Comparing the maps of every group.
    Maps,
    /// Reading the data of every file.
    Data,
}

impl Phase {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Inodes => "inodes",
            Self::Directories => "directories",
            Self::Maps => "maps",
            Self::Data => "data",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, including those that were repaired.
    pub findings: Findings,
    /// Files that were found and kept, including directories.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Bytes that files hold.
    pub held_bytes: u64,
    /// Files that had no name and were freed.
    pub freed: u64,
    /// Files that had no name and got one in `lost+found`.
    pub reconnected: u64,
    /// Start of the volume's service, in seconds since 1970, if acknowledged changes of that time
    /// may exist only in a log that is not available, or is left out.
    pub log_since_seconds: Option<i64>,
    /// Whether the repairs were written.
    pub repaired: bool,
    /// Reason why the answers of some calls before the repair are forgotten.
    pub lost_intents: Option<String>,
}

/// The reasons for which a check ends early. Nothing was written, unless the disk failed in the
/// middle of the repairs; then the volume bears the mark of an interrupted check, and a new one
/// goes on.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No superblock, and no copy of one, or none that fits the disk.
    #[error("{}", .0.sentence())]
    Superblock(#[from] BadSuperblock),
    /// No superblock, and no copy in the usual places.
    #[error(
        "{}; 'duramen fsck --full' looks for a copy of its superblock on the whole disk",
        .0.sentence()
    )]
    NoCopyNear(BadSuperblock),
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// The volume can be checked, but not repaired.
    #[error("the volume cannot be repaired here: {0}")]
    NotRepairable(&'static str),
    /// It needs a log that is not available.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: check it \
         together with its log; if that is lost, 'duramen fsck --repair --without-log' saves what \
         the volume itself has"
    )]
    LogMissing,
    /// The volume is repaired, and calls that were under way before are not judged.
    #[error(
        "the volume is repaired, but the calls that were under way cannot be brought to their end \
         yet: {0}; repair it again or serve it when the disk takes writes"
    )]
    Unjudged(String),
    /// The repairs do not converge.
    #[error(
        "after {rounds} rounds of repairs there was still something to repair; nothing was written"
    )]
    NoEnd {
        /// Rounds that were tried.
        rounds: u32,
    },
}

/// The reasons for which a volume was not recovered after a crash.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// The volume has damage that no crash can leave. Nothing was written.
    #[error("the volume is damaged: {0}")]
    Damaged(String),
}

/// The findings so far, and the invariant that is not checked.
struct Log {
    findings: Findings,
    without: Option<Invariant>,
    /// Findings of this round.
    in_round: u64,
    /// Findings that stay unrepaired: every round meets them again.
    left: BTreeSet<(Invariant, Place)>,
}

impl Log {
    fn new(without: Option<Invariant>) -> Self {
        Self { findings: Findings::default(), without, in_round: 0, left: BTreeSet::new() }
    }

    /// Reports a broken invariant. Returns whether to repair it.
    fn find(
        &mut self,
        invariant: Invariant,
        severity: Severity,
        place: Place,
        found: impl ToString,
        expected: impl ToString,
        repair: &'static str,
    ) -> bool {
        if self.without == Some(invariant) {
            return false;
        }
        self.in_round += 1;
        let (found, expected) = (found.to_string(), expected.to_string());
        let repair = Some(repair);
        let path = None; // the paths are looked up at the end
        self.findings.add(Finding { invariant, severity, place, path, found, expected, repair });
        true
    }

    /// Reports a broken invariant that cannot be repaired.
    fn leave(
        &mut self,
        invariant: Invariant,
        severity: Severity,
        place: Place,
        found: impl ToString,
        expected: impl ToString,
    ) {
        if self.without == Some(invariant) || !self.left.insert((invariant, place.clone())) {
            return;
        }
        let (found, expected) = (found.to_string(), expected.to_string());
        let finding =
            Finding { invariant, severity, place, path: None, found, expected, repair: None };
        self.findings.add(finding);
    }
}

/// The nature of files without names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orphans {
    /// It has not been decided yet.
    Undecided,
    /// A crash left them, of operations that were not acknowledged: they are freed.
    Free,
    /// Files that lost their names: they get new ones.
    Reconnect,
}

/// A check in progress.
struct Checker<'a> {
    disk: Overlay<'a>,
    geometry: Geometry,
    /// The superblock as it should be.
    superblock: Vec<u8>,
    log: Log,
    progress: &'a mut dyn FnMut(Progress),
    now: Timestamp,
    /// Whether to check properties that recovery after a crash does not need.
    thorough: bool,
    /// Whether the volume was cut off under policy `sync`.
    was_cut: bool,
    /// A journal of gjournal may overwrite the repairs.
    has_journal_below: bool,

    // State that all rounds share.
    round: u32,
    orphans: Orphans,
    /// Every fragment that any file ever claimed.
    claimed: Vec<u8>,
    /// Where the search for the next fresh block begins.
    next_fresh: u64,
    /// Bytes that were copied for files that share them.
    copied: u64,
    /// Number of further blocks that may be copied in this round.
    room_for_copies: u64,
    /// Inodes in which something was wrong.
    doubted: BTreeSet<u64>,
    /// Inodes that were given another type, because their names and their content say so.
    retyped: BTreeSet<u64>,
    /// Inodes in which something was wrong, but whose type a name confirms.
    affirmed: BTreeSet<u64>,
    /// Chunks in the middle of directories that begin with a dot, by their bytes on the disk: they
    /// are misplaced copies of the first chunk of some directory.
    strays: BTreeSet<u64>,
    /// Inodes that did not fit their check hash, and not because of one wrong bit.
    unsealed: BTreeSet<u64>,
    /// Impossible sizes that were on the disk.
    stated_sizes: BTreeMap<u64, u64>,
    /// Files whose size was compared with their pointers: it is settled now.
    sized: BTreeSet<u64>,
    log_since_seconds: Option<i64>,
    freed: u64,
    reconnected: u64,

    // State of one round.
    /// The round has to begin again, whatever was found.
    begins_again: bool,
    /// Initialised inodes of each group.
    initialised: Vec<u64>,
    /// The inode map of each group, as it was found; empty where there is none.
    stated_maps: Vec<Vec<u8>>,
    table: Table,
    /// A bit for each fragment that a file holds.
    held: Vec<u8>,
    /// A bit for each fragment that several files claim.
    contested: Option<Vec<u8>>,
    claims: Vec<Claim>,
    /// Inodes that names lead to, where a contest depends on it.
    named_in_contest: BTreeSet<u64>,
    /// Bad pointers in indirect blocks, to be cleared.
    bad_slots: Vec<BadSlot>,
    /// Indirect blocks that were entered when claims were gathered, with the level at which they
    /// are in a later file's tree; 0 for the first file.
    entered: BTreeSet<(u64, u64)>,
    directories: BTreeMap<u64, Directory>,
    /// Directories with missing blocks.
    holes: Vec<Holes>,
    /// Files with blocks behind the end, whose size may be wrong.
    behind_end: BTreeSet<u64>,
    /// Files whose size is to be compared with all their pointers.
    suspects: Vec<u64>,
    mismatches: Vec<Mismatch>,
    /// Directories that an entry named, in the order of the entries.
    named: Vec<u64>,
    directories_read: u64,
    /// Blocks that are to be read.
    data: Vec<Pointer>,
}
