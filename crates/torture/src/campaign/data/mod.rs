//! What files hold, over cuts at any event: every byte that an answer covers is there.
//!
//! A *story* ([`story`], [`generate`]) is about one to three files, which are removed and made
//! again: writes of 1 byte to 2 MiB at the edges of fragments, blocks and indirect blocks and over
//! each other, of zeros, of one byte and of bytes by chance, with every stability; COMMITs of
//! ranges; files that are cut short and made longer; now and then two or three calls at once, and
//! everything settles. The server has little memory, and a small log if it has one, and lives
//! several times: the power goes, the process is killed, or it is stopped.
//!
//! Each life is recorded from before the return, and cut at its events; see [`search`]. What comes
//! back is held against a model of every sector and of every length ([`model`]). Then each file is
//! made longer, and has zeros there; the volume is stopped, the checker finds nothing, and a part
//! of them is served once more.
//!
//! # What is asked
//! * Bytes that an answer covers are there: of a stable WRITE, and of the range of a COMMIT.
//! * Of what was under way each sector is old or new; of UNSTABLE data that no client committed it
//!   is what it was at any of the writes since.
//! * A length that was answered is there, and one that was under way, old or new; where the policy
//!   cuts large files short in steps that a return does not go on with, any in between.
//! * Where no client wrote there are zeros, never what other files had there, or this one before it
//!   was cut short.
//! * Before the cut, a READ shows the newest of all.
//!
//! # A failure
//! is told again with fewer and fewer steps as long as it fails, and printed with the line that
//! repeats it.

mod back;
mod generate;
mod life;
pub(super) mod model;
mod search;
mod story;

use super::{Options, Outcome, in_threads};
use crate::explore::design::Design;
use generate::generate;
use search::{Bases, Effort, Found, search};
use story::Story;

/// Names the story to tell, and its steps if some are left out: `SEED` or `SEED:STEP,STEP,...`.
const VARIABLE: &str = "DURAMEN_DATA";
/// How many stories there are, in the full form and in the short one.
const STORIES: (u64, u64) = (5_000, 200);
/// In the full form there is a cut at every event; in the short one at so many of each life.
const FULL: Effort = Effort { cuts: None, losses: 2 };
const SHORT: Effort = Effort { cuts: Some(12), losses: 1 };
/// How a story is told again with fewer steps.
const AGAIN: Effort = Effort { cuts: Some(150), losses: 2 };
/// So many times at most, for the first violation of a thread.
const ATTEMPTS: usize = 60;

/// The campaign.
pub fn data(options: &Options) -> Outcome {
    if let Ok(text) = std::env::var(VARIABLE) {
        return repeat(options, &text);
    }
    let stories = if options.full { STORIES.0 } else { STORIES.1 };
    let threads = options.threads.max(1) as u64;
    let parts = (0..threads).map(|part| (part..stories).step_by(threads as usize));
    in_threads(parts.collect(), |part| some(options, part))
}

/// Some of the stories, by their numbers, in this thread.
pub fn some(options: &Options, numbers: impl IntoIterator<Item = u64>) -> Outcome {
    let mut bases = Bases::default();
    let mut outcome = Outcome::default();
    for number in numbers {
        // What is wrong once is wrong often: one of a thread is made small.
        let is_first = outcome.violations.is_empty();
        outcome = outcome.plus(tell(options, number, is_first, &mut bases));
    }
    outcome
}

/// Stories until one shows something, which is told again with fewer steps.
pub fn first(options: &Options, most: u64) -> Outcome {
    let mut bases = Bases::default();
    let mut outcome = Outcome::default();
    for number in 0..most {
        outcome = outcome.plus(tell(options, number, true, &mut bases));
        if !outcome.violations.is_empty() {
            break;
        }
    }
    outcome
}

fn tell(options: &Options, number: u64, small: bool, bases: &mut Bases) -> Outcome {
    let story = generate(options.seed.wrapping_mul(1_000_000).wrapping_add(number));
    let effort = if options.full { FULL } else { SHORT };
    let (counts, found) = search(options.design, &story, effort, bases);
    let violations = found.map(|found| {
        if small {
            shrunk(options.design, &story, found, bases)
        } else {
            describe(options.design, &story, None, &found, options.full)
        }
    });
    Outcome { counts, violations: violations.into_iter().collect(), ..Outcome::default() }
}

/// Leaves out steps, many at a time and then fewer, as long as what is left fails.
fn shrunk(design: Design, story: &Story, found: Found, bases: &mut Bases) -> String {
    let mut least = None;
    let mut attempts = 0;
    let mut try_with = |kept: &[usize], least: &mut Option<(Vec<usize>, Found)>| {
        let (_, found) = search(design, &story.with(kept), AGAIN, bases);
        let fails = found.is_some();
        if let Some(found) = found {
            *least = Some((kept.to_vec(), found));
        }
        fails
    };
    let mut kept = story.numbers();
    if !try_with(&kept, &mut least) {
        return describe(design, story, None, &found, false);
    }
    let mut size = kept.len().div_ceil(2);
    while size > 0 && attempts < ATTEMPTS {
        let mut start = 0;
        while start < kept.len() && attempts < ATTEMPTS {
            let mut fewer = kept.clone();
            fewer.drain(start..(start + size).min(kept.len()));
            attempts += 1;
            if !fewer.is_empty() && try_with(&fewer, &mut least) {
                kept = fewer
            } else {
                start += size
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    let (kept, found) = least.expect("all of it fails");
    describe(design, story, Some(&kept), &found, false)
}

fn describe(
    design: Design,
    story: &Story,
    kept: Option<&[usize]>,
    found: &Found,
    full: bool,
) -> String {
    let Story { seed, .. } = story;
    let steps = kept.map_or_else(String::new, |kept| {
        let numbers: Vec<String> = kept.iter().map(ToString::to_string).collect();
        format!(":{}", numbers.join(","))
    });
    let told = kept.map_or_else(String::new, |kept| format!("\n{}", story.with(kept)));
    let full = if full { " --full" } else { "" };
    format!(
        "{}; {VARIABLE}={seed}{steps} cargo xtask torture data {}{full}{told}",
        found.reason,
        design.words()
    )
}

/// Tells a story again: `SEED`, or `SEED:STEP,STEP,...` if steps are left out.
///
/// # Panics
/// When the text is neither.
pub fn repeat(options: &Options, text: &str) -> Outcome {
    let (seed, steps) = match text.split_once(':') {
        Some((seed, steps)) => (seed, Some(steps)),
        None => (text, None),
    };
    let story = generate(seed.parse().expect("a seed is a number"));
    let number = |number: &str| number.parse().expect("a step is a number");
    let kept = steps.map(|steps| steps.split(',').map(number).collect::<Vec<usize>>());
    let design = options.design;
    let (counts, found) = match &kept {
        Some(kept) => search(design, &story.with(kept), AGAIN, &mut Bases::default()),
        None => {
            let effort = if options.full { FULL } else { SHORT };
            search(design, &story, effort, &mut Bases::default())
        }
    };
    let describe = |found| describe(design, &story, kept.as_deref(), &found, options.full);
    let violations = found.map(describe).into_iter().collect();
    Outcome { counts, violations, ..Outcome::default() }
}
