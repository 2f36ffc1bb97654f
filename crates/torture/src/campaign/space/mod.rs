//! A volume that is full, and stays so: who may be told that there is no room, and who never.
//!
//! Four clients work in directories of their own, through the whole server, over a network: they
//! make files, directories and symbolic links, append, write far behind an end and into holes,
//! write over what is there, with every stability, COMMIT, cut short, make longer, rename, over
//! what is there too, and remove. What grows and what shrinks takes turns, so that most of it
//! happens above 95 % full. Now and then the power goes, or the process dies, and the clients
//! repeat their calls; and after each stretch the server is stopped, checked and started. Where a
//! volume may have snapshots, an administrator makes and deletes some, a few at once, beside the
//! clients and between their stretches.
//!
//! # What is asked
//! * REMOVE, RMDIR, and a SETATTR that makes a file shorter, are never told that there is no room;
//!   nor is a WRITE over blocks that are there and that no snapshot holds; nor COMMIT, of data that
//!   was taken; nor the deletion of a snapshot.
//! * Nor is a call that takes little, while a twentieth of the volume is free.
//! * What was refused changed nothing. What was answered is there, as far as the answer goes: see
//!   the campaign `data`. After a stop it is all there, UNSTABLE data too.
//! * After each stop the checker finds nothing, and as many files are left to be made as there are
//!   not.
//! * There are the snapshots that were made and not deleted; each shows what there was when it was
//!   made, also when all files are removed. There is room for one while half of the volume is free.
//! * In the end all files and snapshots are removed, and as much is free as at first.
//!
//! Answers have to outlive a cut, or a client that repeats its call would not know what it did. So
//! it is for designs that remember them.

mod hand;
mod keeper;
mod life;
mod shown;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Options, Outcome, in_threads, message};
use crate::explore::Counts;
use crate::explore::design::Design;
use life::{Setting, live};

/// Names a world that is to be repeated, by its seed.
const VARIABLE: &str = "DURAMEN_SPACE";
/// Worlds, and operations of each above 95 % full, in the full form and in the short one.
const FULL: (u64, u64) = (50, 2000);
const SHORT: (u64, u64) = (4, 400);

/// The campaign.
pub fn space(options: &Options) -> Outcome {
    let Options { design, full, .. } = *options;
    let (worlds, operations) = if full { FULL } else { SHORT };
    if let Ok(text) = std::env::var(VARIABLE) {
        return repeat(options, &text);
    }
    let threads = options.threads.max(1) as u64;
    let first = options.seed.wrapping_mul(1_000_000);
    let parts = (0..threads).map(|part| (part..worlds).step_by(threads as usize));
    in_threads(parts.collect(), |part| {
        let seeds = part.map(|index| first.wrapping_add(index));
        let worlds = seeds.map(|seed| world(Setting { design, seed, operations }, full));
        worlds.fold(Outcome::default(), Outcome::plus)
    })
}

/// Worlds of the short form until one shows something.
pub fn first(design: Design, most: u64) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 0..most {
        outcome = outcome.plus(world(Setting { design, seed, operations: SHORT.1 }, false));
        if !outcome.violations.is_empty() {
            break;
        }
    }
    outcome
}

/// Repeats a world, by its seed.
///
/// # Panics
/// When the text is no number.
pub fn repeat(options: &Options, text: &str) -> Outcome {
    let Options { design, full, .. } = *options;
    let (_, operations) = if full { FULL } else { SHORT };
    let seed = text.parse().expect("a seed is a number");
    world(Setting { design, seed, operations }, full)
}

fn world(setting: Setting, full: bool) -> Outcome {
    let mut counts = Counts { workloads: 1, ..Counts::default() };
    let lived = catch_unwind(AssertUnwindSafe(|| live(setting, &mut counts)));
    let lived = lived.unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))));
    let describe = |reason| {
        let (words, full) = (setting.design.words(), if full { " --full" } else { "" });
        format!("{reason}; {VARIABLE}={} cargo xtask torture space {words}{full}", setting.seed)
    };
    let violations: Vec<String> = lived.err().map(describe).into_iter().collect();
    counts.violations = violations.len() as u64;
    Outcome { counts, violations, ..Outcome::default() }
}
