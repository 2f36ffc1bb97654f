//! Who waits for room, and for whom.
//!
//! A plan that has taken blocks writes to them for a while, and nothing is on its way meanwhile. So
//! who finds no room waits for such plans too. Those that hold blocks and wait may be refused, and
//! are, when nothing else is left to wait for. What gives back more than it takes is never refused
//! for them: it waits until they are, and none takes blocks before it. Where it holds blocks
//! itself, for the end of a file that becomes shorter, it is refused for others of its sort alone,
//! and comes again when one of these has its room.
//!
//! Ends that refuse each other do not all hear that there is no room. One that is refused gives
//! back its blocks and wakes the others before any of them is asked again, and nobody waits between
//! having room and taking it: so the last of them is alone with what is free. That one which loses
//! a block before it holds any comes again, tests of many truncations at once tell.
//!
//! Invariants:
//! 1. Nobody waits for one that waits for it: who may be refused waits for none that waits.
//! 2. Who stops to work, or to wait, wakes all others.
//!
//! Not asserted: 1, of which full volumes tell.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::commit::Commits;

/// What plans that are under way have taken: free again if nothing comes of them.
#[derive(Default)]
pub(crate) struct Promised {
    /// Numbers of files.
    pub(crate) inos: RefCell<BTreeSet<u64>>,
    /// Behind the block of inodes that was looked at last for free slots.
    pub(crate) looked: Cell<u64>,
    /// Units for metadata of Updates that are ready, and not applied.
    pub(crate) units: Cell<u64>,
    /// Blocks that may die with them.
    pub(crate) deaths: Cell<u64>,
    pub(crate) waiting: Waiting,
}

/// How many plans there are of each sort.
#[derive(Default)]
pub(crate) struct Waiting {
    /// They hold blocks, and wait for no room.
    working: Cell<u64>,
    /// They hold blocks, wait for room, and may be refused.
    refusable: Cell<u64>,
    /// They hold blocks, wait for room, and give back as much as they take, or more.
    ends: Cell<u64>,
    /// They hold none, wait for room, and give back more than they take.
    steps: Cell<u64>,
}

/// What a plan that waits is.
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

    /// Whether others hold blocks that one of this sort waits for. It `waits` already, or not yet.
    pub(crate) fn holds_up(&self, sort: Sort, waits: bool) -> bool {
        let own = u64::from(sort.holds_blocks && !waits);
        let refusable = if sort.is_refusable { 0 } else { self.refusable.get() }; // invariant 1
        let ends = if sort.is_step() { self.ends.get() } else { 0 };
        self.working.get() - own + refusable + ends > 0
    }

    /// Whether something waits that gives back more than it takes: blocks are not for others then.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.get() > 0
    }

    /// Whether a plan holds blocks, or waits for them to be given back.
    pub(crate) fn is_any(&self) -> bool {
        [&self.working, &self.refusable, &self.ends, &self.steps]
            .iter()
            .any(|count| count.get() > 0)
    }

    fn wait(&self, sort: Sort, sign: i64) {
        if sort.holds_blocks {
            add(&self.working, -sign);
        }
        match (sort.holds_blocks, sort.is_refusable) {
            (true, true) => add(&self.refusable, sign),
            (true, false) => add(&self.ends, sign),
            (false, false) => add(&self.steps, sign),
            (false, true) => {} // nobody waits for what gives nothing back
        }
    }
}

/// As long as it is there, a plan waits.
pub(crate) struct Waits {
    sort: Sort,
    promised: Rc<Promised>,
    commits: Rc<Commits>,
}

impl Waits {
    pub(crate) fn begin(sort: Sort, promised: &Rc<Promised>, commits: &Rc<Commits>) -> Self {
        promised.waiting.wait(sort, 1);
        if sort.holds_blocks {
            commits.released.notify(); // invariant 2
        }
        Self { sort, promised: promised.clone(), commits: commits.clone() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.promised.waiting.wait(self.sort, -1);
        self.commits.released.notify();
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
        // Whether one of the first sort, which is about to wait, waits for one of the other.
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
