//! Bugs that the explorer must find, one at a time: what passes with a bug in it proves nothing.
//!
//! Each is shown a workload that brings it to light, and the same workload without it. Two bugs of
//! the engine need more than two operations, side by side: `EarlyDrops` and `UnflushedPayload` are
//! found by the random cuts of `ffs`.

use ffs::planted::{Bug, plant};
use torture::explore::Explorer;
use torture::explore::op::{Mode, Op, Part, Stable};
use torture::explore::policy::Policy;

/// What exploring a workload finds.
fn found(bug: Option<Bug>, ops: &[Op]) -> Option<String> {
    plant(bug);
    let mut explorer = Explorer::new(Policy::Sync);
    explorer.explore_all(ops);
    plant(None);
    explorer.violations.first().map(ToString::to_string)
}

#[test]
fn bugs_of_order_are_found() {
    let swap = [Op::Rename("foo", "bar"), Op::Rename("A/foo", "foo")];
    let create = [Op::Create("bar", Mode::Unchecked)];
    let reuse = [Op::Resize("foo", 0), Op::Write("foo", Part::Extend, Stable::DataSync)];
    let cases: [(Bug, &[Op]); 5] = [
        (Bug::EqualRanks, &create),
        (Bug::EarlyReceipts, &create),
        (Bug::EarlyReuse, &reuse),
        (Bug::UnorderedFields, &swap),
        (Bug::WanderingNames, &swap),
    ];
    for (bug, ops) in cases {
        assert_eq!(found(None, ops), None, "without {bug:?}");
        assert!(found(Some(bug), ops).is_some(), "{bug:?} was not found in {ops:?}");
    }
}
