//! `explore::ways` over all scenes of a design: one piece for each scene and first way.

use super::budget::spend_on_list;
use super::{Options, Outcome, line};
use crate::explore::design::Design;
use crate::explore::ways::case::Case;
use crate::explore::ways::scene::Scene;
use crate::explore::ways::way::Way;
use crate::explore::ways::{Effort, Violation, Ways, beginnings};

/// The word of a case.
pub(super) const WORD: &str = "ways";

/// The campaign.
pub fn ways(options: &Options) -> Outcome {
    let effort = if options.full { Effort::FULL } else { Effort::SHORT };
    let all = beginnings(options.design);
    let state = || Ways::new(effort, options.seed);
    spend_on_list(options, &all, state, |ways, &(name, way)| {
        explore(options.design, name, way, ways)
    })
}

/// Explores one scene from one first way.
pub fn explore(design: Design, name: &str, way: Way, ways: &mut Ways) -> Outcome {
    let violations = match Scene::new(design, name) {
        Ok(scene) => {
            ways.explore(&scene, way);
            std::mem::take(&mut ways.violations).iter().map(told).collect()
        }
        Err(reason) => vec![format!("scene {name}: {reason}")],
    };
    let counts = std::mem::take(&mut ways.counts);
    Outcome { counts, violations, ..Outcome::default() }
}

fn told(violation: &Violation) -> String {
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
