//! The power goes at peak load: what the return takes.
//!
//! The paper's server was switched off once and again, "depending on the size of the log at the
//! time of the crash". Here it is looked at again and again what would be left if the power went
//! now, and a server is started on each of those.

use std::time::Duration;

use super::laddis::{Loaded, Population};
use crate::server::{Back, Design, Hardware, Server};

/// The rate at which the server runs, in calls a second.
const RATE: f64 = 630.0;

/// How often the power might go, and how often that is tried: together twice the time from one
/// sync to the next.
const STEP: Duration = Duration::from_secs(5);
const TRIALS: u32 = 12;

/// How the server came back each time.
pub(super) fn returns(
    population: &Population,
    hardware: Hardware,
    design: Design,
    seed: u64,
) -> Vec<Back> {
    let trials = if design == Design::InPlace { 1 } else { TRIALS };
    let loaded = Loaded::start(population, hardware, design, seed);
    (0..trials)
        .map(|trial| {
            loaded.play(RATE, STEP);
            let left = loaded.server.left(seed + u64::from(trial));
            Server::start(seed, &loaded.hardware, loaded.design, &left).back()
        })
        .collect()
}

/// By how much fewer writes there are than changes in the log that are brought home.
pub(super) fn reduction(back: &Back) -> f64 {
    back.replayed.changes as f64 / back.replayed.writes.max(1) as f64
}
