//! The order of the calls that wait for an arm.

use block::platters::Arm;

/// The order in which waiting calls are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// In the order of arrival.
    #[default]
    Fifo,
    /// Across the disk in one direction, and back to the lowest: as hosts of the nineties sorted
    /// their queues.
    Elevator,
    /// The one that the arm reaches first, rotation included: as disks with queues of their own do.
    /// A call that has waited for half a second goes first.
    ShortestFirst,
}

/// The longest wait of a call behind closer ones.
const PATIENCE_NS: u64 = 500_000_000;

/// A range of sectors for the arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The call that it belongs to; `None` for a destage.
    pub(super) ticket: Option<u64>,
    pub(super) is_read: bool,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) since_ns: u64,
    /// The time when the disk knows of it.
    pub(super) ready_ns: u64,
    /// The time when all data of a write is in the disk's buffer.
    pub(super) data_ns: u64,
}

impl Scheduler {
    /// The index of the next of `jobs`, which are in the order of their arrival and not empty.
    pub(super) fn pick(self, now_ns: u64, jobs: &[&Job], arm: &Arm, swept_to: u64) -> usize {
        let oldest_waits_ns = now_ns.saturating_sub(jobs[0].since_ns);
        let cost = |job: &Job| match self {
            Scheduler::Fifo => (0, 0),
            Scheduler::Elevator => (u64::from(job.first < swept_to), job.first),
            Scheduler::ShortestFirst if oldest_waits_ns >= PATIENCE_NS => (0, 0),
            Scheduler::ShortestFirst => (0, arm.positioning_ns(now_ns, job.first)),
        };
        let indexes = 0..jobs.len();
        indexes.min_by_key(|&index| (cost(jobs[index]), index)).expect("somebody waits")
    }
}
