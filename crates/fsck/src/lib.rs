//! The checker: finds what is wrong with a disk, and repairs it.
//!
//! One piece of code does all judging: `duramen fsck`, the return after a cut at `serve`, and the
//! tests that cut the power. They differ in [`CheckOptions`] alone.
//!
//! # Passes
//! 1. `superblock`: which file system this is, from the primary superblock or from a copy of it.
//! 2. `groups`: how many inodes of every group mean anything.
//! 3. `inodes`, with `bit`, `fields`, `blocks`, `attributes`: every inode, in the order of the
//!    disk, and every pointer that hangs from it; which file holds which fragment. `extent` decides
//!    where a size and its pointers contradict each other, `contest` for fragments that two files
//!    claim; `holes` fills those of directories.
//! 4. `directories`, with `chunk`: every chunk of every directory, in the order of the disk.
//! 5. `tree`, with `forest` and `lost_found`: what hangs from the root, and what becomes of the
//!    rest.
//! 6. `links`: link counts.
//! 7. `maps`: every group block and the summary area against what follows from the files.
//! 8. `copies`: the superblock's backups.
//! 9. `data`, when asked for: every block of every file, once the rest is well.
//!
//! What cannot be read is a finding of whichever pass comes by it first: see `unreadable`.
//!
//! # Rounds
//! A pass puts its repairs into the `overlay`, through which every later pass reads. When all are
//! through and anything was found, they run again over the repaired disk, until a round finds
//! nothing. Only then is anything written: **what is written has been checked.** A check that only
//! looks does the same and writes nothing, so that it can say what a repair would do.
//!
//! # Cuts
//! A repair writes, in this order and with a flush between:
//! 1. the mark `duramen:fsck:NONCE` in the superblock, with *clean* 0: from here on only a checker
//!    touches the disk;
//! 2. blocks that nothing on the disk points at (a new `lost+found`);
//! 3. all sectors in place, in any order: each says the truth by itself;
//! 4. the superblock, with *clean* 1. **That is the commit point.**
//!
//! Where intents are still to be judged ([`CheckOptions::epoch`]), the last step leaves the mark of
//! policy `sync` instead: the volume is as one that was cut, and whoever opens it next judges them.
//!
//! Cut anywhere, the next check begins anew with what it finds. The mark also keeps a decision:
//! files without names, which a cut of policy `sync` leaves and which are freed then, are never
//! freed on a disk that bears it, because their names may have been lost to damage that is repaired
//! by now.
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

/// How a check is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Write the repairs.
    pub repair: bool,
    /// Read every block of every file too, and look for superblocks on the whole disk.
    pub full: bool,
    /// What has become of the log of the volume, if it needs one.
    pub log: LogState,
    /// Epoch of the ring of intents that is to stay that of the volume: all marks of a repair bear
    /// its number, and the repaired volume is marked as one that was cut under policy `sync`.
    pub epoch: Option<u64>,
    /// A check that is left out, so that tests can show what it is good for.
    #[doc(hidden)]
    pub without: Option<Invariant>,
}

/// What has become of the log that a volume needs which was not stopped cleanly. For all others it
/// does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogState {
    /// It is not at hand: then the volume is looked at as it is, and is not repaired.
    #[default]
    Missing,
    /// What it held has come home.
    Home,
    /// The administrator has said that it is to be left out, and with a repair given up.
    GivenUp,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Which round of passes this is, from 1 on.
    pub round: u32,
    /// Groups, directory blocks or files done, as the phase has it.
    pub done: u64,
    /// The same in all.
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

/// What a check found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is not as it should be, or was not before the repair.
    pub findings: Findings,
    /// Files that were found and kept, directories among them.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Bytes that files hold.
    pub held_bytes: u64,
    /// Files that had no name and were freed.
    pub freed: u64,
    /// Files that had no name and got one in `lost+found`.
    pub reconnected: u64,
    /// Since when the volume was served, in seconds since 1970, if acknowledged changes of that
    /// time may stand in a log alone which is not at hand, or is left out.
    pub log_since_seconds: Option<i64>,
    /// Whether the repairs were written.
    pub repaired: bool,
}

/// Why a check did not come to its end. Nothing was written, unless the disk failed in the middle
/// of the repairs; then the volume bears the mark of a check that was cut off, and a new one goes
/// on.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No superblock, and no copy of one, or none that fits the disk.
    #[error("{}", .0.sentence())]
    Superblock(#[from] BadSuperblock),
    /// No superblock, and no copy where there would be one if all was as usual.
    #[error(
        "{}; 'duramen fsck --full' looks for a copy of its superblock on the whole disk",
        .0.sentence()
    )]
    NoCopyNear(BadSuperblock),
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// It can be looked at, and not repaired.
    #[error("the volume cannot be repaired here: {0}")]
    NotRepairable(&'static str),
    /// It needs a log that is not at hand.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: check it \
         together with its log; if that is lost, 'duramen fsck --repair --without-log' saves what \
         the volume itself has"
    )]
    LogMissing,
    /// The repairs do not come to an end.
    #[error(
        "after {rounds} rounds of repairs there was still something to repair; nothing was written"
    )]
    NoEnd {
        /// How many were tried.
        rounds: u32,
    },
}

/// Why a volume did not come back after a cut.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// There is what no cut can leave. Nothing was written.
    #[error("the volume is damaged: {0}")]
    Damaged(String),
}

/// What was found so far, and what is not to be looked for.
struct Log {
    findings: Findings,
    without: Option<Invariant>,
    /// Findings of this round.
    in_round: u64,
    /// What was left as it is: every round comes by it again.
    left: BTreeSet<(Invariant, Place)>,
}

impl Log {
    fn new(without: Option<Invariant>) -> Self {
        Self { findings: Findings::default(), without, in_round: 0, left: BTreeSet::new() }
    }

    /// Notes that an invariant is broken. Says whether that is to be repaired.
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

    /// Notes that an invariant is broken and nothing can be done about it.
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

/// What files without names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orphans {
    /// It has not been decided yet.
    Undecided,
    /// What a cut left of an operation that was not acknowledged: they are freed.
    Free,
    /// Files that lost their names: they get new ones.
    Reconnect,
}

/// A check under way.
struct Checker<'a> {
    disk: Overlay<'a>,
    geometry: Geometry,
    /// The superblock as it should be.
    superblock: Vec<u8>,
    log: Log,
    progress: &'a mut dyn FnMut(Progress),
    now: Timestamp,
    /// Whether to look at what a return after a cut has no need to know.
    thorough: bool,
    /// Whether the volume was cut off under policy `sync`.
    was_cut: bool,
    /// What lies in a journal of gjournal may come over what is repaired.
    has_journal_below: bool,

    // What holds for all rounds.
    round: u32,
    orphans: Orphans,
    /// Every fragment that any file ever claimed.
    claimed: Vec<u8>,
    /// Where the next fresh block is looked for.
    next_fresh: u64,
    /// Bytes that were copied for files that share them.
    copied: u64,
    /// How many more blocks may be copied in this round.
    room_for_copies: u64,
    /// Inodes with which something was wrong.
    doubted: BTreeSet<u64>,
    /// Inodes that were given another type, because their names and their content say so.
    retyped: BTreeSet<u64>,
    /// Inodes with which something was wrong, of which a name bears the type that they have.
    affirmed: BTreeSet<u64>,
    /// Chunks in the middle of directories that begin with a dot, by their bytes on the disk: they
    /// are copies of the first chunk of some directory, and came there by mistake.
    strays: BTreeSet<u64>,
    /// Inodes that did not fit their check hash, for more than one wrong bit.
    unsealed: BTreeSet<u64>,
    /// Sizes that stood on the disk and could not be.
    stated_sizes: BTreeMap<u64, u64>,
    /// Files whose size was compared with what their pointers lead to: it stands by now.
    sized: BTreeSet<u64>,
    log_since_seconds: Option<i64>,
    freed: u64,
    reconnected: u64,

    // What a round finds out.
    /// The round has to begin again, whatever was found.
    begins_again: bool,
    /// Initialised inodes of each group.
    initialised: Vec<u64>,
    /// The inode map of each group, as it was found; empty where there is none.
    stated_maps: Vec<Vec<u8>>,
    table: Table,
    /// A bit for each fragment that a file holds.
    held: Vec<u8>,
    /// A bit for each that several claim.
    contested: Option<Vec<u8>>,
    claims: Vec<Claim>,
    /// Inodes that names lead to, where a contest depends on it.
    named_in_contest: BTreeSet<u64>,
    /// What is to be cleared in indirect blocks.
    bad_slots: Vec<BadSlot>,
    /// Indirect blocks that were entered when claims were gathered, with the level at which they
    /// stand in a tree that came second; 0 for the first.
    entered: BTreeSet<(u64, u64)>,
    directories: BTreeMap<u64, Directory>,
    /// Directories of which blocks are missing.
    holes: Vec<Holes>,
    /// Files of which something stands behind the end, where the size may be what is wrong.
    behind_end: BTreeSet<u64>,
    /// Files whose size is to be compared with all that their pointers lead to.
    suspects: Vec<u64>,
    mismatches: Vec<Mismatch>,
    /// Directories that an entry named, in the order of the entries.
    named: Vec<u64>,
    directories_read: u64,
    /// Blocks that are to be read.
    data: Vec<Pointer>,
}
