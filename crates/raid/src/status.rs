//! Status and counters of a set since it was opened, for administrators.

use std::cell::RefCell;
use std::time::Duration;

use crate::label::Label;

/// Counters of a member since the set was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Reads that failed.
    pub read_errors: u64,
    /// Failed writes and flushes, without those that found no space.
    pub write_errors: u64,
    /// Blocks of 4 KiB that did not fit their checksums.
    pub checksum_errors: u64,
    /// Blocks, or their checksums, that were unreadable or wrong and were rewritten.
    pub mended: u64,
    /// Blocks of 4 KiB that the member lacks and that unreadable disks may have.
    pub unread: u64,
    /// Age of the oldest unanswered call, if it is long and other members have answered since.
    pub silent_for: Option<Duration>,
    /// Whether read errors within an hour exceeded the limit. The member stays in until another
    /// disk has its place.
    pub is_failing: bool,
    /// Whether a write to the member waits for space on its host.
    pub waits_for_room: bool,
}

/// Counters of the whole set since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Records written to the log.
    pub log_writes: u64,
    /// Full-stripe writes.
    pub full_stripes: u64,
    /// Partial-stripe writes.
    pub partial_stripes: u64,
    /// Reads whose data the active members have lost, counted since the last scrub that found
    /// nothing lost.
    pub lost_reads: u64,
    /// Blocks of 4 KiB that a new member should get and that no disk returned, counted since the
    /// last scrub that found nothing lost.
    pub lost_blocks: u64,
    /// Records missing from the log of a set that was opened with too few members: the blocks that
    /// they changed may have their earlier contents.
    pub lacked_records: u64,
    /// Whether the log of such a set may also lack records later than all that were found.
    pub may_lack_the_last: bool,
    /// Number of a record behind the last good one of the log that is damaged on each member that
    /// has it: a cut has torn it before it was answered for, or it has rotted.
    pub damaged_record: Option<u64>,
    /// Blocks of 4 KiB that the last scrub could not read and that disks may return later.
    pub unread: u64,
}

/// Status of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The label in force; its own slot has no meaning.
    pub label: Label,
    /// The slot being rebuilt, and the number of stripes that its disk has.
    pub rebuild: Option<(usize, u64)>,
    /// Counters of each member, by slot.
    pub met: Vec<Met>,
    /// Whether long work is paused.
    pub is_paused: bool,
    /// Counters of the whole set.
    pub done: Done,
}

/// Counters of the members and of the whole set.
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
