//! LADDIS, or as good as: the mixes of SPECsfs over a file set, at one rate after the other.
//!
//! What is SPEC's: the percentages, the sizes of files and transfers, how much of the file set is
//! used, and that the file set grows with the rate ([`rules`], which says where each is from).
//! What is not: the processes of many client machines are workers of one; there are no lookups of
//! names that do not exist; and a file set may be bounded, which the report says. So figures are
//! like those of the benchmark, and are not SPECsfs results.
//!
//! * [`rules`]: the numbers. `fileset`: the files. `operation`: one request. `ramp`: rate after
//!   rate, and where the knee is.

mod fileset;
mod operation;
mod ramp;
pub mod rules;

pub use fileset::FileSet;
pub use ramp::{Curve, Point, at_rate};

use crate::run::Measured;
use crate::stage::{Stage, Trouble};
use rules::Rules;

/// Makes the file set, and plays the ramp.
pub(super) async fn play(
    stage: &Stage,
    name: &str,
    rules: &'static Rules,
) -> Result<(Vec<Measured>, Curve), Trouble> {
    let wanted = stage.plan.ramp.last.map(|last| (last * rules.bytes_per_rate as f64) as u64);
    let bytes = wanted.unwrap_or(u64::MAX).min(stage.plan.file_set_max);
    let files = fileset::FileSet::make(stage, rules, bytes).await?;
    ramp::climb(stage, name, rules, &files).await
}
