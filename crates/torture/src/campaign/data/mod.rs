//! Contents of files, over cuts at any event: every byte that an answer covers is there.
//!
//! A *story* ([`story`], [`generate`]) is about one to three files, which are removed and made
//! again: writes of 1 byte to 2 MiB at the edges of fragments, blocks and indirect blocks and over
//! each other, of zeros, of one byte and of random bytes, with every stability; COMMITs of ranges;
//! files that are truncated and grown; now and then two or three concurrent calls, and a pause
//! until everything is written in place. The server has little memory, and a small log if it has
//! one, and lives several times: the power is cut, the process is killed, or it is stopped.
//!
//! Each life is recorded from before its recovery, and cut at its events; see [`search`]. The
//! recovered files are compared with a model of every sector and of every length ([`model`]). Then
//! each file is grown, and has zeros there; the volume is stopped, the checker finds nothing, and
//! some of the volumes are served once more.
//!
//! # Checks
//! * Bytes that an answer covers are there: of a stable WRITE, and of the range of a COMMIT.
//! * A sector that was being written is old or new; UNSTABLE data that no client committed has the
//!   value of any of the writes since.
//! * An acknowledged length is there, and one in progress is old or new; where the policy truncates
//!   large files in steps that a recovery does not continue, any in between.
//! * Where no client wrote there are zeros, never old data of other files, nor of this one before
//!   its truncation.
//! * Before the cut, a READ shows the newest data.
//!
//! # A failure
//! is repeated with fewer and fewer steps as long as it fails, and printed with the line that
//! repeats it.

mod back;
mod generate;
mod life;
pub(super) mod model;
mod search;
mod story;

use super::budget::spend;
use super::{Options, Outcome, line};
use crate::explore::design::Design;
use crate::shrink::{Steps, shrink};
use generate::generate;
use search::{Bases, Effort, Found, search};
use story::Story;

/// The word of a case: the seed of a story, then `full` if each event is cut, or the steps if
/// others are left out.
pub(super) const WORD: &str = "data";
/// Follows the seed of a story in the full form.
const IN_FULL: &str = "full";
/// Number of stories, in the full form and in the short one.
const STORIES: (u64, u64) = (5_000, 200);
/// The full form cuts at every event; the short one at this many of each life.
const FULL: Effort = Effort { cuts: None, losses: 2 };
const SHORT: Effort = Effort { cuts: Some(12), losses: 1 };
/// The effort of a run with fewer steps.
const AGAIN: Effort = Effort { cuts: Some(150), losses: 2 };
/// Most such runs, for the first violation of a thread.
const ATTEMPTS: usize = 60;

/// The campaign.
pub fn data(options: &Options) -> Outcome {
    spend(options, options.count(STORIES), Telling::default, |telling, number| {
        telling.tell(options, options.seed_of(number))
    })
}

/// State that a thread keeps from one story to the next.
#[derive(Default)]
struct Telling {
    bases: Bases,
    /// Whether a violation was shrunk. A bug that shows once shows often.
    has_shrunk: bool,
}

impl Telling {
    fn tell(&mut self, options: &Options, seed: u64) -> Outcome {
        let design = options.design;
        let story = generate(seed);
        let effort = if options.full { FULL } else { SHORT };
        let (counts, found) = search(design, &story, effort, &mut self.bases);
        let violations = found.map(|found| {
            if options.stops_at_first || std::mem::replace(&mut self.has_shrunk, true) {
                describe(design, &story, None, &found, options.full)
            } else {
                shrunk(design, &story, found, &mut self.bases, options.full)
            }
        });
        Outcome { counts, violations: violations.into_iter().collect(), ..Outcome::default() }
    }
}

/// Repeats a story with fewer steps as long as the rest fails. The cuts of the first run were
/// others, so the whole story may not fail again.
fn shrunk(design: Design, story: &Story, found: Found, bases: &mut Bases, full: bool) -> String {
    let mut again = |kept: Steps<usize>| {
        let (_, found) = search(design, &story.with(&kept.0), AGAIN, bases);
        found.map(|found| (kept, found))
    };
    let Some((all, again_found)) = again(Steps(story.numbers())) else {
        return describe(design, story, None, &found, full);
    };
    let (Steps(kept), found) = shrink(all, again_found, ATTEMPTS, again);
    describe(design, story, Some(&kept), &found, full)
}

fn describe(
    design: Design,
    story: &Story,
    kept: Option<&[usize]>,
    found: &Found,
    full: bool,
) -> String {
    let how = match kept {
        Some(kept) => format!(" {}", line::list(kept)),
        None if full => format!(" {IN_FULL}"),
        None => String::new(),
    };
    let line = line::told(&found.reason, WORD, design, &format!("{}{how}", story.seed));
    kept.map_or_else(|| line.clone(), |kept| format!("{line}\n{}", story.with(kept)))
}

/// Replays a story.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let (seed, how) = details.split_once(' ').unwrap_or((details, ""));
    let story = generate(line::number(seed)?);
    let full = how == IN_FULL;
    let kept = if full || how.is_empty() { None } else { Some(line::numbers(how)?) };
    let bases = &mut Bases::default();
    let (counts, found) = match &kept {
        Some(kept) => search(design, &story.with(kept), AGAIN, bases),
        None => search(design, &story, if full { FULL } else { SHORT }, bases),
    };
    let describe = |found| describe(design, &story, kept.as_deref(), &found, full);
    let violations = found.map(describe).into_iter().collect();
    Ok(Outcome { counts, violations, ..Outcome::default() })
}
