//! All workloads of one and of two operations, in every style, cut at every event in every way.

use super::progress::Progress;
use super::{Options, Outcome, in_threads};
use crate::explore::Explorer;
use crate::explore::design::Design;
use crate::explore::device::Device;
use crate::explore::op::{Op, operations};

/// Of so many pairs one is tried on a set of disks, where each cut loses each disk.
const OF_SETS: usize = 20;

/// Mixtures of sectors that are tried of each update of one operation, in the full form and in the
/// short one, and of each of two.
const OF_SINGLES: (usize, usize) = (1000, 25);
const OF_PAIRS: usize = 10;

/// All workloads of one operation.
pub fn singles(options: &Options) -> Outcome {
    let mixtures = if options.full { OF_SINGLES.0 } else { OF_SINGLES.1 };
    explore(options, all_singles(options.design), |design| {
        Explorer::new(design).with_mixtures(mixtures)
    })
}

/// All workloads of two operations; on a set of disks one of so many.
pub fn pairs(options: &Options) -> Outcome {
    let one_of = if options.design.device() == Device::Plain { 1 } else { OF_SETS };
    explore(options, all_pairs(options.design).into_iter().step_by(one_of).collect(), |design| {
        Explorer::new(design).with_mixtures(OF_PAIRS)
    })
}

pub(super) fn all_singles(design: Design) -> Vec<Vec<Op>> {
    operations(design).into_iter().map(|op| vec![op]).collect()
}

pub(super) fn all_pairs(design: Design) -> Vec<Vec<Op>> {
    let list = operations(design);
    let pair = |one: &Op, two: &Op| vec![one.clone(), two.clone()];
    list.iter().flat_map(|one| list.iter().map(move |two| pair(one, two))).collect()
}

/// Neighbours stay together, because they begin alike and share images.
pub(super) fn explore(
    options: &Options,
    workloads: Vec<Vec<Op>>,
    explorer: impl Fn(Design) -> Explorer + Sync,
) -> Outcome {
    let progress = Progress::of(workloads.len());
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
            progress.one();
        }
        // What is wrong once is wrong often: to make all of it small would take for ever.
        let small = explorer.violations.iter().take(3).map(|one| one.clone().shrunk().to_string());
        let rest = explorer.violations.iter().skip(3).map(ToString::to_string);
        let violations = small.chain(rest).collect();
        Outcome { counts: explorer.counts, violations, ..Outcome::default() }
    })
}
