//! Many clients at once before the door of production: what they may hold, and how long they keep
//! each other waiting.
//!
//! The server's places, patience, connections and turns (the crate `door`) run as in production,
//! with the dispatcher and an engine behind them, over pipes of memory instead of sockets. A
//! *crowd* is drawn by its seed ([`workload`]): clients that are admitted and strangers, that ask
//! for much at once, take their replies slowly or not at all, send a part of a record, come back
//! over another connection, or only stay. Each is a task ([`peer`]); time is virtual, and tasks run
//! in the order in which they are woken, as a reactor has them ([`schedule`]).
//!
//! # What is asked
//! * At every step memory for calls and replies, turns, places and the door are within their
//!   limits, by the server's meters and by what its pipes have carried ([`ledger`]).
//! * Between the call of a quiet client and its answer each other connection has one turn: so many
//!   calls and bytes, and what these ask of the disk. Where memory is short it has its answer when
//!   the patience with those has ended who keep it.
//! * A client that is admitted gets a place in time; strangers, however busy, make room at once.
//! * Who owes something is waited for as long as it is documented, to the beat.
//! * When all have gone, everything was given back, and the server stops.
//! * Bounds are met at their size and one above ([`edges`]).
//!
//! **Absent:** cuts and errors of disks, and what answers say, but to quiet clients: other
//! campaigns ask for that.

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

/// Repeats a case.
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

    const SCENES: [Scene; 11] = [
        Scene::Flood,
        Scene::Scarce,
        Scene::Deaf,
        Scene::Full(Occupants::BusyStrangers),
        Scene::Full(Occupants::OneAddress),
        Scene::Full(Occupants::QuietGuests),
        Scene::Full(Occupants::Mixed),
        Scene::Edge(Edge::Calls),
        Scene::Edge(Edge::Turns),
        Scene::Edge(Edge::Places),
        Scene::Edge(Edge::Record),
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
