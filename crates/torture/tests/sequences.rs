//! Workloads of one operation, and some of two, with the power cut at every event in every way.
//! `duramen-torture seq2` runs all of two.

use torture::explore::op::{Op, operations};
use torture::explore::{Explorer, Style};

fn explore(workloads: impl Iterator<Item = Vec<Op>>, least_states: u64) {
    let mut explorer = Explorer::new();
    workloads.for_each(|ops| {
        explorer.explore(&ops, Style::OneByOne);
        explorer.explore(&ops, Style::Together);
    });
    let violations: String = explorer.violations.iter().map(|one| format!("{one}\n")).collect();
    assert_eq!(violations, "");
    assert!(explorer.counts.states >= least_states, "{:?}", explorer.counts);
}

#[test]
fn every_cut_of_every_operation_leaves_what_may_be_there() {
    explore(operations().into_iter().map(|op| vec![op]), 20_000);
}

#[test]
fn every_cut_of_some_pairs_leaves_what_may_be_there() {
    let list = operations();
    // Steps that have no divisor in common with 61 come by all of them, each with another partner.
    let pairs = (0..122).map(|step| [step * 7 % 61, step * 11 % 61 + step / 61]);
    explore(pairs.map(|[one, two]| vec![list[one].clone(), list[two % 61].clone()]), 20_000);
}
