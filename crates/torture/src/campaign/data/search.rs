//! Runs a story, cuts its lives, and compares the recovered files with the model.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sim::{Executor, Prng};

use super::back::{Back, bring_back};
use super::life::{Lived, live};
use super::model::Model;
use super::story::{End, Story};
use crate::campaign::message;
use crate::explore::Counts;
use crate::explore::design::{Design, Shape};
use crate::explore::disks::{Cut, Images, Loss};

/// The thoroughness of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Number of events of each life at which the power is cut; `None` for all.
    pub cuts: Option<usize>,
    /// Kinds of loss, beside the two that lose all or nothing.
    pub losses: usize,
}

/// The last events of a life are those of its clean stop, most of them alike.
const LAST: usize = 24;

/// A violation.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub reason: String,
}

/// Most bytes of files in the cache of recovered images. Most images that repeat do so soon.
const KNOWN_MOST: usize = 64 << 20;

/// Recovered files, by the fingerprint of the image.
#[derive(Default)]
struct Known {
    all: BTreeMap<u128, Rc<Result<Back, String>>>,
    /// Bytes of the recovered files.
    bytes: usize,
}

impl Known {
    fn insert(&mut self, fingerprint: u128, back: Rc<Result<Back, String>>) {
        let seen = back.as_ref().as_ref().map_or(0, Back::bytes);
        if self.bytes + seen > KNOWN_MOST {
            *self = Self::default();
        }
        self.bytes += seen;
        self.all.insert(fingerprint, back);
    }
}

/// Most new volumes that are kept. There are thousands of shapes.
const BASES_MOST: usize = 64;

/// New volumes by their shapes.
#[derive(Default)]
pub(super) struct Bases(BTreeMap<Shape, Images>);

impl Bases {
    fn of(&mut self, design: Design, shape: &Shape) -> Images {
        if self.0.len() >= BASES_MOST && !self.0.contains_key(shape) {
            self.0.clear();
        }
        let make = || design.format_as(&Executor::new(1), shape).contents();
        self.0.entry(*shape).or_insert_with(make).clone()
    }
}

/// Start of the next life: the contents of the disks, and the model.
struct Start {
    images: Images,
    model: Model,
}

/// Runs a story until it shows a violation.
pub(super) fn search(
    design: Design,
    story: &Story,
    effort: Effort,
    bases: &mut Bases,
) -> (Counts, Option<Found>) {
    let mut counts = Counts { workloads: 1, ..Counts::default() };
    let shape = &story.shape;
    let mut start = Start {
        images: bases.of(design, shape),
        model: Model::new(story.seed, design.may_stop_between()),
    };
    let mut verifiers = Vec::new();
    let mut prng = Prng::new(story.seed ^ 0xc07);
    for (number, life) in story.lives.iter().enumerate() {
        let seed = prng.next_u64();
        let lived = catching(|| live((design, shape), seed, (&start.images, &start.model), life));
        let walked = lived.and_then(|lived| {
            if lived.verifier.is_some_and(|one| verifiers.contains(&one)) {
                return Err("two boots have one verifier".to_owned());
            }
            verifiers.extend(lived.verifier);
            let walk = Walk { design, shape, effort, known: Known::default() };
            walk.over(&start.model, &lived, life.end, &mut prng, &mut counts)
        });
        match walked {
            Ok(next) => start = next,
            Err(reason) => {
                counts.violations += 1;
                let reason = format!("life {}: {reason}", number + 1);
                return (counts, Some(Found { reason }));
            }
        }
    }
    (counts, None)
}

/// Turns a panic into a violation.
fn catching<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))))
}

/// Walks over the recording of a life.
struct Walk<'a> {
    design: Design,
    shape: &'a Shape,
    effort: Effort,
    known: Known,
}

impl Walk<'_> {
    fn over(
        mut self,
        before: &Model,
        lived: &Lived,
        end: End,
        prng: &mut Prng,
        counts: &mut Counts,
    ) -> Result<Start, String> {
        let events = lived.recording.events();
        let wanted = self.positions(events, prng);
        let last = match end {
            End::Cut => prng.index(events + 1),
            End::Kill | End::Stop => events,
        };
        let (mut model, mut heard) = (before.clone(), 0);
        let mut next = Start { images: lived.images.clone(), model: lived.model.clone() };
        for cut in lived.recording.cuts() {
            let is_next = end == End::Cut && cut.position == last;
            if !wanted[cut.position] && !is_next {
                continue;
            }
            let marks = lived.recording.marks_before(cut.position).count();
            lived.told[heard..marks].iter().for_each(|told| model.hear(told));
            heard = marks;
            if wanted[cut.position] {
                self.judge(&cut, &model, prng, counts)
                    .map_err(|reason| self.explain(lived, heard, &reason))?;
            }
            if is_next {
                next = Start { images: cut.random(prng), model: model.clone() };
            }
        }
        Ok(next)
    }

    /// The events that are followed by a cut.
    fn positions(&self, events: usize, prng: &mut Prng) -> Vec<bool> {
        let Some(count) = self.effort.cuts else { return vec![true; events + 1] };
        let mut wanted = vec![false; events + 1];
        for number in 0..count {
            let from = if number % 3 == 0 { events.saturating_sub(LAST) } else { 0 };
            wanted[from + prng.index(events + 1 - from)] = true;
        }
        wanted
    }

    fn judge(
        &mut self,
        cut: &Cut,
        model: &Model,
        prng: &mut Prng,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let mut left = cut.left();
        let mut seen = Vec::new();
        for loss in cut.some_losses(prng, self.effort.losses) {
            counts.states += 1;
            let fingerprint = left.fingerprint(&loss);
            if seen.contains(&fingerprint) {
                continue;
            }
            seen.push(fingerprint);
            let back = match self.known.all.get(&fingerprint) {
                Some(known) => known.clone(),
                None => {
                    counts.images += 1;
                    let images = left.images(&loss);
                    let with = (self.design, self.shape);
                    let back = Rc::new(catching(|| bring_back(with, &images, fingerprint)));
                    self.known.insert(fingerprint, back.clone());
                    back
                }
            };
            let judged = match &*back {
                Ok(Back { seen, afterwards }) => {
                    model.allows(seen).and_then(|()| afterwards.clone())
                }
                Err(reason) => Err(reason.clone()),
            };
            judged.map_err(|reason| format!("{reason}; {}", place(cut, &loss)))?;
        }
        Ok(())
    }

    /// The last events before a cut.
    fn explain(&self, lived: &Lived, heard: usize, reason: &str) -> String {
        use super::model::Told;
        let last = match heard.checked_sub(1).map(|last| &lived.told[last]) {
            None => "while it came back".to_owned(),
            Some(Told::Saw(_)) => "before the first step".to_owned(),
            Some(Told::Begins(step)) => format!("while step {} was under way", step.number),
            Some(Told::Answered { step, .. }) => format!("after an answer of step {step}"),
        };
        format!("cut {last}: {reason}")
    }
}

/// The event of a cut, and the fate of the pending writes.
fn place(cut: &Cut, loss: &Loss) -> String {
    let loss = loss.to_string();
    let short = if loss.len() > 200 { "much was pending" } else { &loss[..] };
    format!("event {}, {short}", cut.position)
}
