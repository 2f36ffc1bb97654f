//! Plans that wait for room, and the plans they wait for.
//!
//! A plan that has taken blocks writes to them for a while, possibly with no update on its way. So
//! a plan that finds no room waits for such plans too. A plan that holds blocks and waits may be
//! refused, and is refused when nothing else is left to wait for. A plan that gives back more than
//! it takes is never refused for the sake of these: it waits until they are refused, and none takes
//! blocks before it. If it holds blocks itself, for the end of a file that is truncated, it is
//! refused only for others of its sort, and retries when one of these has its room.
//!
//! Truncations that refuse each other do not all fail for lack of room. One that is refused gives
//! back its blocks and wakes the others before any of them is asked again, and none waits between
//! having room and taking it: so the last of them is alone with the free space. A truncation that
//! loses a block before it holds any retries, which tests of many truncations at once show.
//!
//! Invariants:
//! 1. No plan waits for one that waits for it: a refusable plan waits for none that waits.
//! 2. A plan that stops to work, or to wait, wakes all others.
//!
//! Not asserted: 1, which is tested on full volumes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Resources taken by plans under way: free again if a plan is cancelled.
#[derive(Default)]
pub struct Promised {
    /// Numbers of files.
    pub(crate) inos: RefCell<BTreeSet<u64>>,
    /// Where the search for free inode slots continues: behind the block of inodes searched last.
    pub(crate) looked: Cell<u64>,
    /// Units for metadata of Updates that are ready, but not applied.
    pub(crate) units: Cell<u64>,
    /// Blocks that may die with these Updates.
    pub(crate) deaths: Cell<u64>,
    /// Plans that wait.
    pub waiting: Waiting,
}

impl Promised {
    /// Units for metadata of Updates that are ready, but not applied.
    pub fn units(&self) -> u64 {
        self.units.get()
    }
}

/// Number of plans of each sort.
#[derive(Default)]
pub struct Waiting {
    /// Plans that hold blocks, and do not wait for room.
    working: Cell<u64>,
    /// Plans that hold blocks, wait for room, and may be refused.
    refusable: Cell<u64>,
    /// Plans that hold blocks, wait for room, and give back at least as much as they take.
    ends: Cell<u64>,
    /// Plans that hold no blocks, wait for room, and give back more than they take.
    steps: Cell<u64>,
}

/// Sort of a plan that waits.
#[derive(Clone, Copy)]
pub(crate) struct Sort {
    pub(crate) holds_blocks: bool,
    pub(crate) is_refusable: bool,
}

impl Sort {
    fn is_step(self) -> bool {
        !self.holds_blocks && !self.is_refusable
    }
}

fn add(count: &Cell<u64>, sign: i64) {
    let now = count.get().checked_add_signed(sign);
    count.set(now.expect("invariant 2: who is counted is counted once"));
}

impl Waiting {
    /// A plan begins to hold blocks, or ends.
    pub(crate) fn hold(&self, sign: i64) {
        add(&self.working, sign);
    }

    /// Whether other plans hold blocks that one of this sort waits for. `waits` says whether it
    /// waits already.
    pub(crate) fn holds_up(&self, sort: Sort, waits: bool) -> bool {
        let own = u64::from(sort.holds_blocks && !waits);
        let refusable = if sort.is_refusable { 0 } else { self.refusable.get() }; // invariant 1
        let ends = if sort.is_step() { self.ends.get() } else { 0 };
        self.working.get() - own + refusable + ends > 0
    }

    /// Whether a plan waits that gives back more than it takes: then blocks are not for others.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.get() > 0
    }

    /// Whether a plan holds blocks, or waits for them to be given back.
    pub fn is_any(&self) -> bool {
        [&self.working, &self.refusable, &self.ends, &self.steps]
            .iter()
            .any(|count| count.get() > 0)
    }

    pub(crate) fn wait(&self, sort: Sort, sign: i64) {
        if sort.holds_blocks {
            add(&self.working, -sign);
        }
        match (sort.holds_blocks, sort.is_refusable) {
            (true, true) => add(&self.refusable, sign),
            (true, false) => add(&self.ends, sign),
            (false, false) => add(&self.steps, sign),
            (false, true) => {} // no plan waits for one that gives nothing back
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Sort = Sort { holds_blocks: false, is_refusable: false };
    const END: Sort = Sort { holds_blocks: true, is_refusable: false };
    const OVERWRITE: Sort = Sort { holds_blocks: true, is_refusable: true };
    const CREATE: Sort = Sort { holds_blocks: false, is_refusable: true };

    #[test]
    fn nobody_waits_for_one_that_waits_for_it() {
        let sorts = [STEP, END, OVERWRITE, CREATE];
        // Whether a plan of the first sort, about to wait, waits for one of the other.
        let waits_for = |one: Sort, other: Sort| {
            let waiting = Waiting::default();
            for _ in [one, other].iter().filter(|sort| sort.holds_blocks) {
                waiting.hold(1);
            }
            waiting.wait(other, 1);
            waiting.holds_up(one, false)
        };
        for (one, other) in sorts.iter().flat_map(|&one| sorts.map(|other| (one, other))) {
            assert!(!(waits_for(one, other) && waits_for(other, one)), "invariant 1");
        }
        let of_step = sorts.map(|other| waits_for(STEP, other));
        assert_eq!(of_step, [false, true, true, false], "all that holds blocks, or it sticks");
        let of_end = sorts.map(|other| waits_for(END, other));
        assert_eq!(of_end, [false, false, true, false]);
    }

    #[test]
    fn who_is_refused_may_come_again_while_others_hold_blocks() {
        for sort in [STEP, END, OVERWRITE] {
            let waiting = Waiting::default();
            assert!(!waiting.is_any());
            if sort.holds_blocks {
                waiting.hold(1);
                assert!(waiting.holds_up(STEP, false) && waiting.is_any());
            }
            waiting.wait(sort, 1);
            assert!(waiting.is_any());
            waiting.wait(sort, -1);
            if sort.holds_blocks {
                waiting.hold(-1);
            }
            assert!(!waiting.is_any());
        }
    }
}
