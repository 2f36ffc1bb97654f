//! Which workload brings which planted bug to light: the first of all those of one operation and
//! then of two.

use super::sequences::{all_pairs, all_singles};
use super::{Options, Outcome, in_threads};
use crate::explore::Explorer;
use crate::planted::{Bug, all, plant};

/// Looks for every bug, or for one.
pub fn planted(options: &Options, only: Option<Bug>) -> Outcome {
    let bugs = all().into_iter().filter(|bug| only.is_none_or(|only| only == *bug));
    let parts = (0..options.threads.max(1))
        .map(|part| bugs.clone().skip(part).step_by(options.threads.max(1)).collect::<Vec<_>>());
    in_threads(parts.collect(), |bugs| {
        bugs.into_iter().map(|bug| found(options, bug)).fold(Outcome::default(), Outcome::plus)
    })
}

fn found(options: &Options, bug: Bug) -> Outcome {
    let mut explorer = Explorer::new(options.design);
    plant(Some(bug));
    let workloads = all_singles(options.design).into_iter().chain(all_pairs(options.design));
    let mut first = None;
    for ops in workloads {
        if first.as_ref() != ops.first() {
            first = ops.first().cloned();
            explorer.forget();
        }
        explorer.explore_all(&ops);
        if !explorer.violations.is_empty() {
            break;
        }
    }
    let violation = explorer.violations.first().cloned();
    let line = violation.map_or_else(|| "is not found".to_owned(), |one| one.shrunk().to_string());
    plant(None);
    let remarks = vec![format!("{bug}: {line}")];
    Outcome { remarks, ..Outcome::default() }
}
