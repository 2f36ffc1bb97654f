//! Which of the calls that wait for an arm is next.

use block::platters::Arm;

/// The order in which calls that wait are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// As they came.
    #[default]
    Fifo,
    /// Across the disk in one direction, and back to the lowest: as hosts of the nineties sorted
    /// their queues.
    Elevator,
    /// The one that the arm reaches first, turning included: as disks with queues of their own do.
    /// One that has waited for half a second goes before it.
    ShortestFirst,
}

/// So long may shorter ways go first.
const PATIENCE_NS: u64 = 500_000_000;

/// Sectors that an arm is to pass over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The call that it is of; a destage is of none.
    pub(super) ticket: Option<u64>,
    pub(super) is_read: bool,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) since_ns: u64,
    /// When the disk knows of it.
    pub(super) ready_ns: u64,
    /// When all of the data of a write is in the disk's buffer.
    pub(super) data_ns: u64,
}

impl Scheduler {
    /// The index of the next of `jobs`, which are in the order of their coming and not empty.
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
