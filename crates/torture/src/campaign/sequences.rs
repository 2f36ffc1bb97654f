//! All workloads of one and of two operations, in every style, cut at every event in every way.

use super::{Options, Outcome, in_threads};
use crate::explore::Explorer;
use crate::explore::op::{Op, operations};

/// All workloads of one operation.
pub fn singles(options: &Options) -> Outcome {
    explore(options, all_singles(), Explorer::new)
}

/// All workloads of two operations.
pub fn pairs(options: &Options) -> Outcome {
    explore(options, all_pairs(), Explorer::new)
}

pub(super) fn all_singles() -> Vec<Vec<Op>> {
    operations().into_iter().map(|op| vec![op]).collect()
}

pub(super) fn all_pairs() -> Vec<Vec<Op>> {
    let list = operations();
    let pair = |one: &Op, two: &Op| vec![one.clone(), two.clone()];
    list.iter().flat_map(|one| list.iter().map(move |two| pair(one, two))).collect()
}

/// Neighbours stay together, because they begin alike and share images.
pub(super) fn explore(
    options: &Options,
    workloads: Vec<Vec<Op>>,
    explorer: impl Fn(crate::explore::design::Design) -> Explorer + Sync,
) -> Outcome {
    let share = workloads.len().div_ceil(options.threads.max(1));
    in_threads(workloads.chunks(share).collect(), |part| {
        let mut explorer = explorer(options.design);
        let mut first = None;
        for ops in part {
            if first != ops.first() {
                first = ops.first();
                explorer.forget();
            }
            explorer.explore_all(ops);
        }
        // What is wrong once is wrong often: to make all of it small would take for ever.
        let small = explorer.violations.iter().take(3).map(|one| one.clone().shrunk().to_string());
        let rest = explorer.violations.iter().skip(3).map(ToString::to_string);
        let violations = small.chain(rest).collect();
        Outcome { counts: explorer.counts, violations, ..Outcome::default() }
    })
}
