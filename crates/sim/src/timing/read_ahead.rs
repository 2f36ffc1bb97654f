//! The buffer into which a drive reads on after a read, while no call wants anything else.

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
    /// Here the disk ends, or the buffer.
    limit: u64,
}

impl ReadAhead {
    pub(super) fn new(bytes: u64) -> Self {
        Self { sectors: bytes / SECTOR_SIZE as u64, held: None }
    }

    /// The arm has been reading on until now; this is how far it came.
    pub(super) fn catch_up(&mut self, now_ns: u64, arm: &mut Arm) {
        if let Some(held) = &mut self.held {
            let reached = arm.stream(held.since_ns, held.edge, held.limit, now_ns);
            (held.edge, held.since_ns) = reached;
        }
    }

    /// Reads `first..end`: from the buffer what is in it, and the rest from the platters without
    /// losing the place if the arm is still at it. Returns when all of it is in the buffer.
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

    /// The arm has something else to do, or what is in the buffer is out of date.
    pub(super) fn forget(&mut self) {
        self.held = None;
    }
}
