//! All workloads of one and of two operations, in every style, cut at every event in every way.

use super::budget::{End, spend_on_list};
use super::{Options, Outcome, line};
use crate::explore::case::{Case, Violation};
use crate::explore::design::Design;
use crate::explore::device::Device;
use crate::explore::op::{Op, operations};
use crate::explore::{Explorer, Style};

/// The word of a case: a workload and its power cut.
pub(super) const WORD: &str = "cut";

/// One pair in this many is tried on a set of disks, where each cut loses each disk.
const OF_SETS: usize = 20;

/// Sector mixtures tried for each update of one operation, in the full form and in the short one,
/// and for each update of two.
const OF_SINGLES: (usize, usize) = (1000, 25);
const OF_PAIRS: usize = 10;

/// Workloads of one piece. Neighbours begin alike and share images; on a set of disks a single
/// workload takes seconds.
fn neighbours(design: Design) -> usize {
    if design.device() == Device::Plain { 4 } else { 1 }
}

/// Workloads that are explored one after the other, in these styles.
struct Piece<'w> {
    workloads: &'w [Vec<Op>],
    styles: &'w [Style],
}

/// All workloads of one operation.
pub fn singles(options: &Options) -> Outcome {
    let mixtures = if options.full { OF_SINGLES.0 } else { OF_SINGLES.1 };
    explore(options, all_singles(options.design), neighbours(options.design), |design| {
        Explorer::new(design).with_mixtures(mixtures)
    })
}

/// All workloads of two operations; on a set of disks one in `OF_SETS`, unless a time limit is set.
pub fn pairs(options: &Options) -> Outcome {
    let is_bounded = options.design.device() == Device::Plain || options.seconds.is_some();
    let one_of = if is_bounded { 1 } else { OF_SETS };
    let pairs = all_pairs(options.design).into_iter().step_by(one_of).collect();
    explore(options, pairs, neighbours(options.design), |design| {
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

/// State that a thread keeps from one workload to the next.
struct State {
    explorer: Explorer,
    first: Option<Op>,
    /// Whether a violation was shrunk. One fault shows in many workloads.
    has_shrunk: bool,
}

/// Explores workloads, in pieces of several neighbours. If one alone fills the given seconds, one
/// style of it is a piece, which ends with them.
pub(super) fn explore(
    options: &Options,
    workloads: Vec<Vec<Op>>,
    neighbours: usize,
    explorer: impl Fn(Design) -> Explorer + Sync,
) -> Outcome {
    let is_long = neighbours == 1 && options.seconds.is_some();
    let styles = if is_long { 1 } else { Style::ALL.len() };
    let alike = workloads.chunk_by(|one, next| one.len() > 1 && one[0] == next[0]);
    let pieces = alike.flat_map(|alike| alike.chunks(neighbours)).flat_map(|workloads| {
        Style::ALL.chunks(styles).map(move |styles| Piece { workloads, styles })
    });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    let has_shrunk = options.stops_at_first;
    let end = End::of(options);
    let state = || {
        let explorer = explorer(options.design).until(move || end.is_over());
        State { explorer, first: None, has_shrunk }
    };
    spend_on_list(options, &pieces, state, |state, piece| {
        let outcomes = piece.workloads.iter().map(|ops| state.explore(ops, piece.styles));
        outcomes.fold(Outcome::default(), Outcome::plus)
    })
}

impl State {
    fn explore(&mut self, ops: &[Op], styles: &[Style]) -> Outcome {
        if self.first.as_ref() != ops.first() {
            self.first = ops.first().cloned();
            self.explorer.forget();
        }
        styles.iter().for_each(|&style| self.explorer.explore(ops, style));
        let counts = std::mem::take(&mut self.explorer.counts);
        let found = std::mem::take(&mut self.explorer.violations);
        let told = found.into_iter().map(|one| {
            let is_first = !std::mem::replace(&mut self.has_shrunk, true);
            told(&if is_first { one.shrunk() } else { one })
        });
        Outcome { counts, violations: told.collect(), ..Outcome::default() }
    }
}

/// A violation with the line that reproduces it.
pub(super) fn told(violation: &Violation) -> String {
    let Violation { case, reason } = violation;
    line::told(reason, WORD, case.design, &case.details())
}

/// Reproduces a case.
///
/// # Errors
/// Why the details are not a case.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let case = Case::of(design, details).map_err(|error| error.to_string())?;
    Ok(line::replayed(case.replay(), WORD, design, &case.details()))
}
