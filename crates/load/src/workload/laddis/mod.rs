//! An approximation of LADDIS: the mixes of SPECsfs over a file set, at one rate after the other.
//!
//! From SPEC are the percentages, the sizes of files and transfers, the used share of the file set,
//! and its growth with the rate ([`rules`], which names each source). Different are these: the
//! processes of many client machines are workers of one; there are no lookups of names that do not
//! exist; and a file set may be bounded, which the report says. So figures are like those of the
//! benchmark, and are not SPECsfs results.
//!
//! * [`rules`]: the numbers. `fileset`: the files. `operation`: one request. `ramp`: rate after
//!   rate, and the position of the knee.

mod fileset;
mod operation;
mod ramp;
pub mod rules;

pub use fileset::FileSet;
pub use ramp::{Curve, Point, at_rate};

use crate::run::Measured;
use crate::stage::{Stage, Trouble};
use rules::Rules;

/// Makes the file set, and runs the ramp.
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
