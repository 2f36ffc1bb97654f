//! The small-file benchmark: tables 1 and 2.

use std::time::Duration;

use futures::future::join_all;
use load::run::Pace;
use load::tally::Series;
use load::workload::smallfile::{PHASES, Phase, Tree};
use nfs::nfs3::Procedure;

use super::clients::stages;
use super::hardware;
use crate::server::{Design, Server};

/// "A server with eight disks".
const DISKS: usize = 8;

/// "100 sub-directories each".
pub(super) const CHILDREN: u64 = 100;

/// *Input.* The processes of the client: one for each disk.
const PROCESSES: usize = 1;

/// *Inputs*, calibrated: the client's pause between changes, such that with the log the phases take
/// about as long as published (123, 66, 264 and 89 s). The times without a log and all gains follow
/// from the model.
fn pause(phase: Phase) -> Duration {
    Duration::from_millis(match phase {
        Phase::MakeDirectories => 35,
        Phase::RemoveDirectories => 5,
        Phase::CopyFiles => 73,
        Phase::RemoveFiles => 18,
    })
}

/// The procedure that a phase measures.
fn procedure(phase: Phase) -> Procedure {
    match phase {
        Phase::MakeDirectories => Procedure::Mkdir,
        Phase::RemoveDirectories => Procedure::Rmdir,
        Phase::CopyFiles => Procedure::Create,
        Phase::RemoveFiles => Procedure::Remove,
    }
}

/// Result of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// Duration in seconds.
    pub(super) elapsed_s: f64,
    /// Mean time of the measured call, in milliseconds.
    pub(super) latency_ms: f64,
    /// Writes to the disks with file systems, for each step.
    pub(super) writes: f64,
}

/// Plays all four phases, with this many children in each directory.
pub(super) fn play(design: Design, children: u64, seed: u64) -> [Taken; 4] {
    let images = hardware::empty(DISKS, seed);
    let server = Server::start(seed, &hardware::decpc(), design, &images);
    let stages = stages(&server, PROCESSES, seed);
    let trees = server.run(join_all(stages.iter().map(|stage| Tree::make(stage, 1))));
    let trees: Result<Vec<Tree>, _> = trees.into_iter().collect();
    let trees = trees.unwrap_or_else(|trouble| panic!("the tree cannot be made: {trouble}"));
    PHASES.map(|(name, phase)| {
        let (start, before) = (server.now(), writes(&server));
        let clients = stages.iter().zip(&trees);
        let playing = clients.map(|(stage, tree)| {
            let pace = Pace { pause: pause(phase), ..tree.pace(children) };
            tree.play(stage, name, pace, phase)
        });
        let measured = server.run(join_all(playing));
        let (mut calls, mut steps) = (Series::default(), 0);
        for one in &measured {
            assert_eq!(one.tally.failed(), 0, "{name}: {:?}", one.tally.errors);
            steps += one.tally.headline().count();
            let about = |(name, _): &(&str, &Series)| *name == procedure(phase).name();
            one.tally.calls().filter(about).for_each(|(_, series)| calls.add(series));
        }
        Taken {
            elapsed_s: server.now().since(start).as_secs_f64(),
            latency_ms: calls.mean().as_secs_f64() * 1e3,
            writes: (writes(&server) - before) as f64 / steps as f64,
        }
    })
}

fn writes(server: &Server) -> u64 {
    server.disks.iter().map(|disk| disk.counters().writes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_digits_and_another_gives_others() {
        let play = |seed| play(hardware::calaveras(true), 1, seed);
        assert_eq!(play(3), play(3));
        assert_ne!(play(3), play(4));
    }

    #[test]
    fn a_log_writes_less_and_answers_sooner() {
        let (without, with) = (play(Design::InPlace, 1, 1), play(hardware::calaveras(true), 1, 1));
        for (without, with) in without.iter().zip(&with) {
            assert!(with.latency_ms < without.latency_ms, "{with:?} {without:?}");
            assert!(with.writes < without.writes, "{with:?} {without:?}");
        }
    }
}
