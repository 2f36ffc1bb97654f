//! The buffer into which an idle drive reads ahead after a read.

use block::platters::Arm;

use crate::SECTOR_SIZE;

pub(super) struct ReadAhead {
    sectors: u64,
    held: Option<Held>,
}

/// The sectors `first..edge` are in the buffer, the last of them since `since_ns`.
#[derive(Clone, Copy)]
struct Held {
    first: u64,
    edge: u64,
    since_ns: u64,
    /// The end of the disk, or of the buffer.
    limit: u64,
}

impl ReadAhead {
    pub(super) fn new(bytes: u64) -> Self {
        Self { sectors: bytes / SECTOR_SIZE as u64, held: None }
    }

    /// Updates the buffer: the arm has been reading ahead until now.
    pub(super) fn catch_up(&mut self, now_ns: u64, arm: &mut Arm) {
        if let Some(held) = &mut self.held {
            let reached = arm.stream(held.since_ns, held.edge, held.limit, now_ns);
            (held.edge, held.since_ns) = reached;
        }
    }

    /// Reads `first..end`: buffered sectors from the buffer, and the rest from the platters without
    /// losing the position if the arm is still reading ahead. Returns when all of it is in the
    /// buffer.
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        (first, end): (u64, u64),
        disk_end: u64,
        arm: &mut Arm,
    ) -> u64 {
        let goes_on = |held: &Held| held.first <= first && first <= held.edge;
        let (from, edge, since_ns) = match self.held.filter(goes_on) {
            Some(held) if end <= held.edge => (held.first, held.edge, held.since_ns),
            Some(held) => {
                let stands = held.edge == held.limit;
                let start_ns = if stands { now_ns } else { held.since_ns };
                (held.first, end, arm.stream(start_ns, held.edge, end, u64::MAX).1)
            }
            None => (first, end, arm.transfer(now_ns, first, end)),
        };
        if self.sectors > 0 {
            let from = from.max(edge.saturating_sub(self.sectors));
            let limit = edge.max((end + self.sectors).min(disk_end));
            self.held = Some(Held { first: from, edge, since_ns, limit });
        }
        since_ns.max(now_ns)
    }

    /// Drops the buffer: the arm has other work, or its contents are out of date.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }
}
