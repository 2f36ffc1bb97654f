//! Places an update in a cylinder: a sequence of writes, each of which ends just before the next
//! begins, and the last just before the superblock (paper, section 4.3).
//!
//! The search is the paper's, "very simple, and thus computationally expensive": it goes backwards
//! from the superblock, examines one place after the other, takes the first that fits, and
//! backtracks where none does.
//!
//! Invariants:
//! 1. Runs of a sequence are disjoint and free, and none has the superblock's block.
//! 2. Each run lies on one track.
//!
//! Not asserted: 2, which follows from the way candidates are made.

use super::disks::Layout;
use super::inputs::Inputs;

/// Blocks of one write, counted within the cylinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) blocks: u64,
}

/// The superblock's block in its cylinder.
pub(super) const SUPERBLOCK: u64 = 0;

/// A search in one cylinder.
pub(super) struct Search<'a> {
    layout: &'a Layout,
    inputs: &'a Inputs,
    free: Vec<bool>,
    /// Time within a rotation at which each block begins to pass the head.
    angles_ns: Vec<u64>,
    /// Runs found so far, the last write first.
    runs: Vec<Run>,
    examined: u64,
}

/// The write before which another has to end.
#[derive(Clone, Copy)]
struct Next {
    angle_ns: u64,
    track: u64,
    blocks: u64,
}

impl<'a> Search<'a> {
    /// A search in a cylinder with these free blocks.
    pub(super) fn new(
        layout: &'a Layout,
        inputs: &'a Inputs,
        cylinder: u64,
        free: &[bool],
    ) -> Self {
        let first = cylinder * layout.cylinder_blocks();
        let angles = (0..free.len() as u64).map(|block| layout.angle_ns(first + block));
        let mut free = free.to_vec();
        free[SUPERBLOCK as usize] = false;
        let angles_ns = angles.collect();
        Self { layout, inputs, free, angles_ns, runs: Vec::new(), examined: 0 }
    }

    /// Number of places examined.
    pub(super) fn examined(&self) -> u64 {
        self.examined
    }

    /// A sequence for this many blocks, or `None` if none is found in time: then no block is taken.
    pub(super) fn sequence(&mut self, blocks: u64) -> Option<Vec<Run>> {
        let angle_ns = self.angles_ns[SUPERBLOCK as usize];
        let superblock = Next { angle_ns, track: self.track(SUPERBLOCK), blocks: 1 };
        let found = self.place(blocks, superblock);
        found.then(|| self.runs.iter().rev().copied().collect())
    }

    /// The fallback: free blocks in order.
    ///
    /// # Panics
    /// When there are too few free blocks.
    pub(super) fn simplest(&self, blocks: u64) -> Vec<Run> {
        let (mut runs, mut left, mut first) = (Vec::new(), blocks, 0);
        while left > 0 {
            assert!(first < self.free.len() as u64, "a cylinder with room was chosen");
            let most = left.min(self.inputs.write_blocks);
            let blocks = (1..=most).rev().find(|&blocks| self.is_free(first, blocks)).unwrap_or(0);
            if blocks > 0 {
                runs.push(Run { first, blocks });
            }
            left -= blocks;
            first += blocks.max(1);
        }
        runs
    }

    fn track(&self, block: u64) -> u64 {
        block / self.layout.track_blocks()
    }

    fn is_free(&self, first: u64, blocks: u64) -> bool {
        let end = first + blocks;
        end <= self.free.len() as u64
            && self.track(first) == self.track(end - 1)
            && self.free[first as usize..end as usize].iter().all(|&free| free)
    }

    /// Places this many blocks before `next`.
    fn place(&mut self, blocks: u64, next: Next) -> bool {
        if blocks == 0 {
            return true;
        }
        for size in (1..=blocks.min(self.inputs.write_blocks)).rev() {
            for first in 0..self.free.len() as u64 {
                if self.examined >= self.inputs.patience {
                    return false;
                }
                self.examined += 1;
                let run = Run { first, blocks: size };
                if self.is_free(first, size) && self.ends_just_before(run, next) {
                    self.mark(run, false);
                    self.runs.push(run);
                    let angle_ns = self.angles_ns[first as usize];
                    let this = Next { angle_ns, track: self.track(first), blocks: size };
                    if self.place(blocks - size, this) {
                        return true;
                    }
                    self.runs.pop();
                    self.mark(run, true);
                }
            }
        }
        false
    }

    fn mark(&mut self, run: Run, free: bool) {
        for block in &mut self.free[run.first as usize..(run.first + run.blocks) as usize] {
            assert_ne!(*block, free, "invariant 1: a block is in one run");
            *block = free;
        }
    }

    /// Whether the write after a run can be issued in time, without a long wait.
    fn ends_just_before(&self, run: Run, next: Next) -> bool {
        let turn_ns = self.layout.0.rotation_ns;
        let end_ns = self.angles_ns[run.first as usize] + self.layout.pass_ns(run.blocks);
        let gap_ns = (next.angle_ns + 2 * turn_ns - end_ns) % turn_ns;
        let is_other_head = self.track(run.first) != next.track;
        let switch_ns = if is_other_head { self.layout.0.head_switch_ns } else { 0 };
        let least_ns =
            self.layout.transfer_ns(next.blocks) + switch_ns + self.inputs.leeway.as_nanos() as u64;
        (least_ns..=least_ns + self.inputs.slack.as_nanos() as u64).contains(&gap_ns)
    }
}
