//! Workloads of one operation, and some of two, with the power cut at every event in every way;
//! and some of the returns, cut as well. `duramen-torture seq2` and `nested` run all.

use torture::explore::Explorer;
use torture::explore::design::Design;
use torture::explore::device::Device;
use torture::explore::nested::Further;
use torture::explore::op::{Op, operations};

fn explore(mut explorer: Explorer, workloads: impl Iterator<Item = Vec<Op>>, least_states: u64) {
    workloads.for_each(|ops| explorer.explore_all(&ops));
    let violations: String = explorer.violations.iter().map(|one| format!("{one}\n")).collect();
    assert_eq!(violations, "");
    assert!(explorer.counts.states >= least_states, "{:?}", explorer.counts);
}

/// Pairs that have every operation as first and as second: steps that have no divisor in common
/// with 61 come by all of them, each with another partner.
fn pairs() -> impl Iterator<Item = Vec<Op>> {
    let list = operations(Design::SYNC);
    let pair = move |step: usize| [step * 7 % 61, (step * 11 + step / 61) % 61];
    (0..122).map(pair).map(move |pair| pair.map(|index| list[index].clone()).to_vec())
}

#[test]
fn every_cut_of_every_operation_leaves_what_may_be_there() {
    explore(
        Explorer::new(Design::SYNC),
        operations(Design::SYNC).into_iter().map(|op| vec![op]),
        20_000,
    );
}

#[test]
fn a_cut_of_a_delayed_volume_takes_what_was_not_asked_to_be_durable_and_nothing_else() {
    for design in Design::all() {
        let singles = operations(Design::SYNC).into_iter().map(|op| vec![op]);
        let workloads = singles.step_by(2).chain(pairs().step_by(6));
        explore(Explorer::new(design.delayed()), workloads, 10_000);
    }
}

#[test]
fn every_cut_of_some_pairs_leaves_what_may_be_there() {
    explore(Explorer::new(Design::SYNC), pairs().step_by(6), 5_000);
}

#[test]
fn every_cut_of_some_returns_leaves_what_may_be_there() {
    let nested = Explorer::nested(Design::SYNC, 2, Further::All);
    let list = operations(Design::SYNC);
    explore(nested, list.into_iter().step_by(15).map(|op| vec![op]), 5_000);
}

#[test]
fn a_snapshot_is_there_as_a_whole_or_not_at_all_and_so_is_the_way_back() {
    let design = Design::find(Some("shadow"), None).expect("there is one");
    let list = operations(design);
    let (of_clients, of_snapshots) = list.split_at(list.len() - 2);
    let others = |first: usize| of_clients.iter().skip(first).step_by(30);
    let before = of_snapshots.iter().flat_map(|one| others(7).map(move |two| [two, one]));
    let behind = of_snapshots.iter().flat_map(|one| others(14).map(move |two| [one, two]));
    let both = [[&of_snapshots[0], &of_snapshots[1]]];
    let pairs = before.chain(behind).chain(both).map(|pair| pair.map(Clone::clone).to_vec());
    explore(Explorer::new(design), pairs, 10_000);
}

#[test]
fn a_cut_that_loses_a_disk_of_a_set_leaves_what_may_be_there() {
    let some = |first: usize| {
        operations(Design::SYNC).into_iter().skip(first).step_by(29).map(|op| vec![op])
    };
    explore(Explorer::new(Design::SYNC.on(Device::Raid1)), some(1), 10_000);
    explore(Explorer::new(Design::LOG.on(Device::Raid5)), some(40), 10_000);
}
