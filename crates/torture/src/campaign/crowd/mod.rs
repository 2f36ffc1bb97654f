//! Many clients at once before the production door: their resource limits, and how long they keep
//! each other waiting.
//!
//! The server's places, patience, connections and turns (the crate `door`) run as in production,
//! with the dispatcher and an engine behind them, over pipes of memory instead of sockets. A
//! *crowd* is drawn by its seed ([`workload`]): admitted clients and strangers, which ask for much
//! at once, take their replies slowly or not at all, send a part of a record, reconnect, or stay
//! idle. Each is a task ([`peer`]); time is virtual, and tasks run in the order in which they are
//! woken, as under a reactor ([`schedule`]).
//!
//! # Checks
//! * At every step memory for calls and replies, turns, places and the door are within their
//!   limits, by the server's meters and by the traffic of its pipes ([`ledger`]).
//! * Between the call of a quiet client and its answer each other connection has one turn: a
//!   bounded number of calls and bytes, and the disk accesses for these. If memory is short the
//!   client has its answer when the patience with the peers that hold the memory has ended.
//! * An admitted client gets a place in time; strangers, however busy, make room at once.
//! * The server waits for a peer that owes something as long as documented, to the beat.
//! * When all clients have gone, every resource has been returned, and the server stops.
//! * Limits are reached exactly and exceeded by one ([`edges`]).
//!
//! **Absent:** cuts and errors of disks, and the contents of answers except to quiet clients: other
//! campaigns check those.

mod edges;
mod judge;
mod ledger;
mod peer;
mod play;
mod records;
mod schedule;
mod stage;
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::budget::spend;
use super::{Options, Outcome, line, message};
use crate::explore::Counts;
use crate::explore::design::Design;
use play::Played;
use workload::Workload;

/// The word of a case: its seed.
pub(super) const WORD: &str = "crowd";
/// Crowds, in the full form and in the short one.
const CROWDS: (u64, u64) = (10_000, 40);

/// The campaign.
pub fn crowd(options: &Options) -> Outcome {
    let design = options.design;
    spend(options, options.count(CROWDS), || (), |(), number| case(design, options.seed_of(number)))
}

/// Replays a case.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    Ok(case(design, line::number(details)?))
}

fn case(design: Design, seed: u64) -> Outcome {
    let workload = Workload::draw(seed, design);
    let played = catch_unwind(AssertUnwindSafe(|| play::play(&workload)));
    let played = played.unwrap_or_else(|panic| Err(format!("it panics: {}", message(&*panic))));
    let told = |reason: &String| {
        let reason = format!("{:?}: {reason}", workload.scene);
        line::told(&reason, WORD, design, &seed.to_string())
    };
    let violations: Vec<String> = played.as_ref().err().map(told).into_iter().collect();
    let Played { judged, connections, .. } = played.unwrap_or_default();
    let counts = Counts {
        workloads: 1,
        states: judged,
        images: connections,
        violations: violations.len() as u64,
    };
    Outcome { counts, violations, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Edge, Occupants, Scene};

    const SCENES: [Scene; 14] = [
        Scene::Flood,
        Scene::Scarce,
        Scene::Deaf,
        Scene::Hoard,
        Scene::Full(Occupants::BusyStrangers),
        Scene::Full(Occupants::OneAddress),
        Scene::Full(Occupants::QuietGuests),
        Scene::Full(Occupants::Deaf),
        Scene::Full(Occupants::Mixed),
        Scene::Edge(Edge::Calls),
        Scene::Edge(Edge::Turns),
        Scene::Edge(Edge::Places),
        Scene::Edge(Edge::Record),
        Scene::Edge(Edge::Backlog),
    ];

    #[test]
    fn a_crowd_is_played_again_by_its_seed() {
        for seed in 0..4 {
            let play = || play::play(&Workload::draw(seed, Design::LOG));
            assert_eq!(play(), play(), "seed {seed}");
        }
    }

    #[test]
    fn every_scene_ends_well_on_an_engine_over_memory() {
        for scene in SCENES {
            let workload = Workload::in_scene(7, Design::RAM, scene);
            play::play(&workload).unwrap_or_else(|reason| panic!("{scene:?}: {reason}"));
        }
    }
}
