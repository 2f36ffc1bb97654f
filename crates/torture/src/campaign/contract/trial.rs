//! A case of a device, tried once; and the first one that shows a planted bug.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::{Outcome, line, message};
use crate::explore::Counts;
use crate::explore::design::Design;

/// Tries a case, which gives the number of images that were judged. The word and the details are
/// those of its line.
pub(super) fn try_one(
    design: Design,
    (word, details): (&str, &str),
    case: impl FnOnce() -> Result<u64, String>,
) -> Outcome {
    let tried = catch_unwind(AssertUnwindSafe(case));
    let tried = tried.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))));
    let mut counts = Counts { workloads: 1, ..Counts::default() };
    let mut violations = Vec::new();
    match tried {
        Ok(images) => (counts.states, counts.images) = (images, images),
        Err(wrong) => {
            counts.violations = 1;
            violations.push(line::told(&wrong, word, design, details));
        }
    }
    Outcome { counts, violations, ..Outcome::default() }
}

/// The first of the cases, drawn by their numbers for this many seconds, that fails with a bug and
/// passes without it.
#[cfg(feature = "planted-bugs")]
pub(super) fn first<T>(
    seconds: u64,
    plant: impl Fn(bool),
    draw: impl Fn(u64) -> T,
    try_case: impl Fn(&T) -> Outcome,
) -> Option<T> {
    use super::super::budget::now;

    let end = now() + std::time::Duration::from_secs(seconds);
    let is_shown = |case: &T, is_planted| {
        plant(is_planted);
        let violations = try_case(case).violations;
        plant(false);
        !violations.is_empty()
    };
    let mut cases = (0..).take_while(|_| now() < end).map(draw);
    cases.find(|case| is_shown(case, true) && !is_shown(case, false))
}
