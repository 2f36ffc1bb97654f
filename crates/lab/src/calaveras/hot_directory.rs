//! Concurrent creates in one directory, which the paper does not measure: the case in which logging
//! locks cost most. A CREATE holds the directory until the log has its entry, so each write to the
//! log has one create, and no batch has two. Early release removes that limit.

use std::time::Duration;

use load::workload::Workload;

use super::clients::stages;
use super::hardware;
use crate::server::{Design, Server};

/// Processes that create files.
const PROCESSES: usize = 16;

/// Duration of the measurement.
pub(super) const MEASURED: Duration = Duration::from_secs(60);

/// Creates per second.
pub(super) fn creates(design: Design, duration: Duration, seed: u64) -> f64 {
    let server = Server::start(seed, &hardware::decpc(), design, &hardware::empty(1, seed));
    let mut stages = stages(&server, PROCESSES, seed);
    let [stage] = &mut stages[..] else { panic!("one disk has one stage") };
    (stage.plan.duration, stage.plan.count) = (Some(duration), u64::MAX);
    server.run(async {
        let create = Workload::named("create").expect("it is in the table");
        let played = create.play(stage).await.unwrap_or_else(|trouble| panic!("{trouble}"));
        let [phase] = &played.phases[..] else { panic!("it has one phase") };
        assert_eq!(phase.tally.failed(), 0, "{:?}", phase.tally.errors);
        phase.rate()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_are_held_until_the_log_has_it_allow_a_create_for_each_turn_of_the_disk() {
        let creates = |design| creates(design, Duration::from_secs(3), 1);
        let (held, released) = (creates(hardware::calaveras(true)), creates(hardware::ours()));
        assert!((70.0..90.0).contains(&held), "5400 turns a minute are 90 a second: {held}");
        assert!(released > 3.0 * held, "{released} and {held}");
    }
}
