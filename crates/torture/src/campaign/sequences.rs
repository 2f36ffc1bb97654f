//! All workloads of one and of two operations, cut at every event in every way.

use super::{Options, Outcome, in_threads};
use crate::explore::op::{Op, operations};
use crate::explore::{Explorer, Style};

/// All workloads of one operation.
pub fn singles(options: &Options) -> Outcome {
    explore(operations().into_iter().map(|op| vec![op]).collect(), options)
}

/// All workloads of two operations, one after the other and both at once.
pub fn pairs(options: &Options) -> Outcome {
    let list = operations();
    let pair = |one: &Op, two: &Op| vec![one.clone(), two.clone()];
    let pairs = list.iter().flat_map(|one| list.iter().map(move |two| pair(one, two)));
    explore(pairs.collect(), options)
}

/// Neighbours stay together, because they begin alike and share images.
fn explore(workloads: Vec<Vec<Op>>, options: &Options) -> Outcome {
    let share = workloads.len().div_ceil(options.threads.max(1));
    in_threads(workloads.chunks(share).collect(), |part| {
        let mut explorer = Explorer::new();
        let mut first = None;
        for ops in part {
            if first != ops.first() {
                first = ops.first();
                explorer.forget();
            }
            explorer.explore(ops, Style::OneByOne);
            explorer.explore(ops, Style::Together);
        }
        let violations = explorer.violations.iter().map(ToString::to_string).collect();
        Outcome { counts: explorer.counts, violations, remarks: Vec::new() }
    })
}
