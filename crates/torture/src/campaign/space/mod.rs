//! A volume that is full and stays so: calls that may find no room, and calls that never may.
//!
//! Four clients work in directories of their own, through the whole server, over a network: they
//! make files, directories and symbolic links, append, write far behind an end and into holes,
//! overwrite, with every stability, COMMIT, truncate, grow, rename, also over existing names, and
//! remove. Growing and shrinking alternate, so that most of it happens above 95 % full. Now and
//! then the power is cut, or the process dies, and the clients repeat their calls; and after each
//! stretch the server is stopped, checked and started. If a volume may have snapshots, an
//! administrator makes and deletes some, a few at once, beside the clients and between their
//! stretches.
//!
//! # Checks
//! * REMOVE, RMDIR, and a SETATTR that makes a file shorter, never fail for want of room; nor does
//!   a WRITE over allocated blocks that no snapshot holds; nor COMMIT, of data that was accepted;
//!   nor the deletion of a snapshot.
//! * Nor does a call that takes little, while a twentieth of the volume is free to it: data takes
//!   whole blocks, and free space beside the ends of files does not count.
//! * A refused call has changed nothing. An acknowledged change is there, as far as the answer
//!   promises: see the campaign `data`. After a stop all of it is there, UNSTABLE data too.
//! * After each stop the checker finds nothing, and the number of free inodes matches the number of
//!   files.
//! * Exactly the snapshots exist that were made and not deleted; each shows the state of its time,
//!   also after all files are removed. There is room for one while half of the volume is free.
//! * In the end all files and snapshots are removed, and as much is free as at first.
//!
//! Answers must survive a cut, or a client that repeats its call would not know what it did. So the
//! campaign is for designs that remember them.

mod hand;
mod keeper;
mod life;
mod shown;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::budget::spend;
use super::{Options, Outcome, line, message};
use crate::explore::Counts;
use crate::explore::design::Design;
use life::{Setting, live};

/// The word of a case: the seed of a world, and its number of operations.
pub(super) const WORD: &str = "space";
/// Worlds, and operations of each above 95 % full, in the full form and in the short one.
const FULL: (u64, u64) = (50, 2000);
const SHORT: (u64, u64) = (4, 400);

/// The campaign.
pub fn space(options: &Options) -> Outcome {
    let Options { design, full, .. } = *options;
    let operations = if full { FULL.1 } else { SHORT.1 };
    spend(
        options,
        options.count((FULL.0, SHORT.0)),
        || (),
        |(), number| world(Setting { design, seed: options.seed_of(number), operations }),
    )
}

/// Replays a world.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let (seed, operations) =
        details.split_once(' ').ok_or("a world is a seed and a number of operations")?;
    let (seed, operations) = (line::number(seed)?, line::number(operations)?);
    Ok(world(Setting { design, seed, operations }))
}

fn world(setting: Setting) -> Outcome {
    let mut counts = Counts { workloads: 1, ..Counts::default() };
    let lived = catch_unwind(AssertUnwindSafe(|| live(setting, &mut counts)));
    let lived = lived.unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))));
    let Setting { design, seed, operations } = setting;
    let describe =
        |reason: String| line::told(&reason, WORD, design, &format!("{seed} {operations}"));
    let violations: Vec<String> = lived.err().map(describe).into_iter().collect();
    counts.violations = violations.len() as u64;
    Outcome { counts, violations, ..Outcome::default() }
}
