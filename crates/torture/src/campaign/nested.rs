//! Recoveries that are cut, and the recoveries after them: `explore::nested` over many workloads.
//!
//! In full: all workloads of one operation, and every seventh or eighth workload of two: whichever
//! has no divisor in common with their number in a row, so that every operation comes first and
//! second. The short form takes every hundredth instead, and every two hundredth of designs with
//! many images and few recoveries: policy `log` and engine `shadow`. Every image that any cut
//! leaves is recovered, and that recovery is cut in every way. The image after that is recovered as
//! well, and this second recovery is cut in turn: every one, except of those designs. There it is
//! every one for workloads of one operation in the full form; otherwise a sample that contains each
//! recovery with behaviour that no other shows ([`Further::Sample`]).

use super::sequences::{all_pairs, all_singles, explore};
use super::{Options, Outcome};
use crate::explore::Explorer;
use crate::explore::nested::Further;

/// How many recoveries are cut, one after the other.
const DEPTH: usize = 2;
/// Workloads of a piece: one takes seconds.
const NEIGHBOURS: usize = 1;

/// The campaign.
pub fn nested(options: &Options) -> Outcome {
    let has_many = options.design.has_log() || options.design.is_summed();
    let (of_pairs, short) = if has_many { (Further::Sample, 200) } else { (Further::All, 100) };
    let singles = all_singles(options.design);
    let every = if singles.len().is_multiple_of(7) { 8 } else { 7 };
    let stride = match (options.seconds, options.full) {
        (Some(_), _) => 1,
        (None, true) => every,
        (None, false) => short,
    };
    let pairs = all_pairs(options.design).into_iter().step_by(stride).collect();
    let of_singles = if options.full { Further::All } else { of_pairs };
    // Each part gets half of a time budget.
    let half = Options { seconds: options.seconds.map(|seconds| seconds.div_ceil(2)), ..*options };
    let parts = [(singles, of_singles), (pairs, of_pairs)];
    let explore = |(workloads, further)| {
        explore(&half, workloads, NEIGHBOURS, |design| Explorer::nested(design, DEPTH, further))
    };
    parts.into_iter().map(explore).fold(Outcome::default(), Outcome::plus)
}
