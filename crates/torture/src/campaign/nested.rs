//! Returns that are cut, and the returns after them: `explore::nested` over many workloads.
//!
//! In full: all workloads of one operation, and of those of two every seventh; seven has no divisor
//! in common with their number in a row, so that every operation comes first and second. The short
//! form takes every hundredth instead. Every image that any cut of them leaves is brought back,
//! that is cut in every way, and so is the return of what is left by that: two deep, and nothing
//! is sampled.

use super::sequences::{all_pairs, all_singles, explore};
use super::{Options, Outcome};
use crate::explore::Explorer;

/// How many returns are cut, one after the other.
const DEPTH: usize = 2;

/// The campaign.
pub fn nested(options: &Options) -> Outcome {
    let stride = if options.full { 7 } else { 100 };
    let pairs = all_pairs().into_iter().step_by(stride);
    let workloads = all_singles().into_iter().chain(pairs).collect();
    explore(options, workloads, |policy| Explorer::nested(policy, DEPTH))
}
