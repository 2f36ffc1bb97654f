//! Power failures at peak load: the cost of recovery.
//!
//! The paper's server was switched off repeatedly, "depending on the size of the log at the time of
//! the crash". Here, at regular intervals, a server is started on the images that a power failure
//! would leave at that time.

use std::time::Duration;

use super::laddis::{Loaded, Population};
use crate::server::{Back, Design, Hardware, Server};

/// The rate at which the server runs, in calls a second.
const RATE: f64 = 630.0;

/// Interval and number of simulated power failures: together twice the time from one sync to the
/// next.
const STEP: Duration = Duration::from_secs(5);
const TRIALS: u32 = 12;

/// Result of each recovery.
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

/// Changes replayed from the log for each write.
pub(super) fn reduction(back: &Back) -> f64 {
    back.replayed.changes as f64 / back.replayed.writes.max(1) as f64
}
