//! One damaged block anywhere on the disks of a volume, at rest or under the server, followed by
//! ordinary use: damage stays local.
//!
//! A *case* is drawn by its seed: a volume with files of every kind ([`workload`]), a block in use
//! on one of its disks, and its damage: one bit, other bytes, or zeros. It goes through a story
//! ([`story`]): everything is read, files and snapshots are made and removed, the volume is
//! stopped, started, rolled back, repaired, and used again. [`judge`] checks after each step that
//! the loss is within bounds.
//!
//! # Checks
//! * No panic, and every call and every command ends.
//! * On a format with checksums: a read returns the right bytes or an error; a volume is served
//!   without a repair, and stays usable: a file is made, a damaged file is removed, a snapshot is
//!   made and deleted, the volume stops and starts. It may be refused only without the lines of its
//!   snapshots: a start gives up no snapshot, a repair does.
//! * On every format: `fsck --repair` ends, the next check finds nothing but losses that it names,
//!   the volume is served, and everything readable before the repair is readable after it.
//! * At most a block of inodes can be lost: all other contents are there, under their own names or
//!   in `lost+found`.
//! * On a set with redundancy nothing at all is lost, and no caller notices the damage.
//!
//! UFS2 has no checksums of data, of directories and of blocks of pointers: wrong bytes there are
//! no violation. The contents of undamaged files are checked there too.
//!
//! # A failure
//! is printed with the line that repeats it.

mod judge;
mod story;
mod workload;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::budget::spend;
use super::{Options, Outcome, line, message};
use crate::explore::Counts;
use crate::explore::design::Design;
use workload::Volumes;

/// The word of a case: its seed.
pub(super) const WORD: &str = "rot";
/// Cases, in the full form and in the short one.
const CASES: (u64, u64) = (20_000, 40);

/// The campaign.
pub fn rot(options: &Options) -> Outcome {
    let design = options.design;
    spend(options, options.count(CASES), Volumes::default, |volumes, number| {
        case(design, options.seed_of(number), volumes)
    })
}

/// Replays a case.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    if !design.has_disks() {
        return Err("there are no disks".to_owned());
    }
    Ok(case(design, line::number(details)?, &mut Volumes::default()))
}

fn case(design: Design, seed: u64, volumes: &mut Volumes) -> Outcome {
    // For the report of a panic: the damage, and the last step of the story.
    let told = Rc::new(RefCell::new(String::new()));
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let made = volumes.of(design, seed)?;
        story::live(design, seed, &made, &told)
    }));
    let lived = lived.unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))));
    let describe = |reason: String| {
        line::told(&format!("{}: {reason}", told.borrow()), WORD, design, &seed.to_string())
    };
    let violations: Vec<String> = lived.err().map(describe).into_iter().collect();
    let counts = Counts { workloads: 1, states: 1, images: 1, violations: violations.len() as u64 };
    Outcome { counts, violations, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::workload::Damage;
    use super::*;

    #[test]
    fn a_case_follows_from_its_seed() {
        let mut volumes = Volumes::default();
        for seed in 0..8 {
            let [one, two] = [(); 2].map(|()| {
                let made = volumes.of(Design::SYNC, seed).expect("there is room");
                Damage::draw(Design::SYNC, seed, &made)
            });
            assert_eq!(one, two);
        }
    }
}
