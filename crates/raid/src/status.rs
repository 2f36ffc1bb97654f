//! How a set stands, and what it has met and done since it was opened: for administrators.

use std::cell::RefCell;
use std::time::Duration;

use crate::label::Label;

/// What a member has met since the set was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed; not those that found no room.
    pub write_errors: u64,
    /// Blocks of 4 KiB that did not fit their checksums.
    pub checksum_errors: u64,
    /// Blocks that it could not read, or that were wrong, and that were made anew; or their
    /// checksums.
    pub mended: u64,
    /// Blocks of 4 KiB that it lacks: disks that could not be read may have them.
    pub unread: u64,
    /// For how long a call of it has no answer, if that is long and others have answered since.
    pub silent_for: Option<Duration>,
    /// Whether it had more read errors within an hour than it may have. It stays in until another
    /// disk has its place.
    pub is_failing: bool,
    /// Whether a write of it waits for room below.
    pub waits_for_room: bool,
}

/// What a set was asked to do, and did for it, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Records that were written to its log.
    pub log_writes: u64,
    /// Stripes that were written as a whole.
    pub full_stripes: u64,
    /// Stripes of which a part was written.
    pub partial_stripes: u64,
    /// Reads for which the members that are in have lost the data, since a scrub has found none
    /// lost.
    pub lost_reads: u64,
    /// Blocks of 4 KiB that a new member was to have and no disk gives, since a scrub has found
    /// none lost.
    pub lost_blocks: u64,
    /// Records that the log lacked, where the set was opened though too few members are there:
    /// what they changed may be as it was before.
    pub lacked_records: u64,
    /// Blocks of 4 KiB that the last scrub has found unreadable, and that disks may give later.
    pub unread: u64,
}

/// How a set stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What holds of the set; its slot is no one's.
    pub label: Label,
    /// The slot whose member is made again, with the stripes that it has.
    pub rebuild: Option<(usize, u64)>,
    /// By slot.
    pub met: Vec<Met>,
    /// Whether a person has long work wait.
    pub is_paused: bool,
    /// See there.
    pub done: Done,
}

/// Counters, of the members and of the whole.
pub(crate) struct Counts {
    met: RefCell<Vec<Met>>,
    done: RefCell<Done>,
}

impl Counts {
    pub(crate) fn new(members: usize) -> Self {
        Self { met: RefCell::new(vec![Met::default(); members]), done: RefCell::default() }
    }

    pub(crate) fn meet(&self, slot: usize, note: impl FnOnce(&mut Met)) {
        note(&mut self.met.borrow_mut()[slot]);
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Done)) {
        note(&mut self.done.borrow_mut());
    }

    pub(crate) fn met(&self) -> Vec<Met> {
        self.met.borrow().clone()
    }

    pub(crate) fn done(&self) -> Done {
        *self.done.borrow()
    }
}
