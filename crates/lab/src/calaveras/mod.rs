//! "Metadata Logging in an NFS Server" (Vahalia, Gray and Ting, USENIX 1995).
//!
//! A 60 MHz Pentium serves NFS from ten disks and keeps a log on an eleventh. Three servers run on
//! models of its hardware:
//!
//! * **No logging**: our policy `sync`, ordered writes in place, on all eleven disks.
//! * **Logging**: our policy `log`, restricted to the behavior of the paper's log. Changed objects
//!   stay locked until the log has the change ([`crate::logging_locks`]); the log is written in
//!   place every 30 s; it has only metadata, and no answers. *Without batching* each entry is a
//!   separate write.
//! * **Ours**: our policy `log` with its defaults: locks end when a change is staged, small payload
//!   is in the entry, answers are kept for exactly-once, and the sync interval is 5 s.
//!
//! Inputs are marked where they are defined: processor time of a call, the caches, the network, and
//! the clients' processes and pauses. Everything else is a result of the models.

mod clients;
mod figures;
pub mod hardware;
mod hot_directory;
mod laddis;
mod recovery;
mod small_file;

use crate::figure::Figure;
use crate::picture::Picture;

/// Results of the experiments.
#[derive(Clone, Debug)]
pub struct Results {
    /// All figures, by experiment.
    pub figures: Vec<Figure>,
    /// Figures 4 and 5.
    pub pictures: Vec<Picture>,
}

/// Runs every experiment of the paper; the callback gets the name of each as it begins.
pub fn run(seed: u64, tell: &(dyn Fn(&str) + Sync)) -> Results {
    let measured = measure(seed, tell);
    Results { figures: figures::figures(&measured), pictures: figures::pictures(&measured) }
}

/// Raw results of all experiments.
struct Measured {
    /// LADDIS at rising rates.
    in_place: Vec<laddis::Point>,
    log: Vec<laddis::Point>,
    unbatched: Vec<laddis::Point>,
    slow_log: Vec<laddis::Point>,
    ours: Vec<laddis::Point>,
    /// Recoveries after a power failure.
    in_place_back: Vec<crate::server::Back>,
    log_back: Vec<crate::server::Back>,
    ours_back: Vec<crate::server::Back>,
    /// The small-file benchmark.
    in_place_small: [small_file::Taken; 4],
    log_small: [small_file::Taken; 4],
    ours_small: [small_file::Taken; 4],
    /// Creates per second in one directory: in place, with the paper's log, with ours.
    hot: [f64; 3],
}

fn measure(seed: u64, tell: &(dyn Fn(&str) + Sync)) -> Measured {
    use crate::server::Design::InPlace;
    let (paper, unbatched, ours) =
        (hardware::calaveras(true), hardware::calaveras(false), hardware::ours());
    // Each simulation has one thread, and shares nothing with the others.
    let (with_log, without) = std::thread::scope(|scope| {
        let without = scope.spawn(|| {
            // Run while the other thread makes its files, which takes most memory.
            tell("small files");
            let small = [InPlace, paper, ours]
                .map(|design| small_file::play(design, small_file::CHILDREN, seed));
            tell("one hot directory");
            let hot = [InPlace, paper, ours]
                .map(|design| hot_directory::creates(design, hot_directory::MEASURED, seed));
            tell("no logging: files for LADDIS on 11 disks");
            let population = laddis::Population::make(hardware::DISKS + 1, seed);
            let climb = |design| {
                laddis::Loaded::start(&population, hardware::decpc(), design, seed).climb()
            };
            tell("no logging: LADDIS");
            let in_place = climb(InPlace);
            tell("no logging: crash and check");
            let back = recovery::returns(&population, hardware::decpc(), InPlace, seed);
            (in_place, back, small, hot)
        });
        tell("logging: files for LADDIS on 10 disks");
        let population = laddis::Population::make(hardware::DISKS, seed);
        let climb =
            |hardware, design| laddis::Loaded::start(&population, hardware, design, seed).climb();
        tell("logging: LADDIS");
        let log = climb(hardware::decpc(), paper);
        tell("logging without batching: LADDIS");
        let unbatched = climb(hardware::decpc(), unbatched);
        tell("logging to a slow disk: LADDIS");
        let slow_log = climb(hardware::slow_log(), paper);
        tell("ours: LADDIS");
        let of_ours = climb(hardware::decpc(), ours);
        tell("logging: crash and replay");
        let log_back = recovery::returns(&population, hardware::decpc(), paper, seed);
        tell("ours: crash and replay");
        let ours_back = recovery::returns(&population, hardware::decpc(), ours, seed);
        let with_log = (log, unbatched, slow_log, of_ours, log_back, ours_back);
        (with_log, without.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (log, unbatched, slow_log, ours, log_back, ours_back) = with_log;
    let (in_place, in_place_back, small, hot) = without;
    let [in_place_small, log_small, ours_small] = small;
    Measured {
        in_place,
        log,
        unbatched,
        slow_log,
        ours,
        in_place_back,
        log_back,
        ours_back,
        in_place_small,
        log_small,
        ours_small,
        hot,
    }
}
