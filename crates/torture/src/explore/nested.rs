//! Cuts the recovery as well: its writes are recorded, the power is cut at every event in every
//! way, and each resulting image must recover to a state that was allowed before.
//!
//! Cuts follow each other to a depth given to the explorer. The world of every recorded recovery
//! has a seed derived from the image, so that the outcomes after up to that many cut recoveries
//! depend on the image alone: its *reach*, a few outcomes with the shortest way to each. The reach
//! is computed once for each image, whichever cuts lead to it, and the outcomes are checked against
//! a moment. So no image has to be kept.
//!
//! Many images differ only in bytes that no recovery reads: a log has old bytes behind its end, and
//! each tear of its last batch leaves others there. Their recoveries write exactly the same. So of
//! the recoveries after a cut one [`Further::Sample`] takes those with writes that none had before,
//! a few more of each kind, and some of the rest: by their images' hashes, and so always the same.
//! The first recovery of every image is always cut.

use std::collections::BTreeSet;
use std::rc::Rc;

use sim::Prng;

use super::case::Step;
use super::disks::{Images, Loss};
use super::recover::record;
use super::{Explorer, Known, Outcome, catching};

/// Recoveries of each kind that are cut after a cut recovery,
const OF_EACH_KIND: usize = 4;
/// and one in this many of all.
const ONE_OF: u128 = 32;

/// The selection of recoveries to cut after a cut one. All are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Further {
    /// All.
    All,
    /// A few of each kind, and some others by the hash of the image.
    Sample,
}

/// The cuts of recoveries that lead from an image to an outcome.
#[derive(Clone, Default)]
pub(super) struct Way(Option<Rc<Cuts>>);

struct Cuts {
    first: Step,
    rest: Way,
    effort: Effort,
}

/// The complexity of a way: cuts, writes that survive in part, writes that survive, events.
type Effort = (usize, usize, usize, usize);

impl Way {
    fn after(&self, first: Step) -> Self {
        let effort = self.effort_after(&first.loss, first.position);
        Self(Some(Rc::new(Cuts { first, rest: self.clone(), effort })))
    }

    /// The complexity of the way after one more cut.
    fn effort_after(&self, loss: &Loss, position: usize) -> Effort {
        let (cuts, torn, whole, events) = self.effort();
        let (more_torn, more_whole) = loss.weight();
        (cuts + 1, torn + more_torn, whole + more_whole, events + position)
    }

    pub(super) fn effort(&self) -> Effort {
        self.0.as_ref().map_or_else(Effort::default, |cuts| cuts.effort)
    }

    /// The cuts of the way, the first one first.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some(cuts) = &at.0 {
            steps.push(cuts.first.clone());
            at = &cuts.rest;
        }
        steps
    }
}

/// The outcomes of an image and of its cut recoveries, each by its shortest way: few, and in the
/// order in which they were found, so that every run reports the same.
#[derive(Clone, Default)]
pub(super) struct Reach(Vec<(Outcome, Way)>);

impl Reach {
    fn of(outcome: Outcome) -> Self {
        Self(vec![(outcome, Way::default())])
    }

    fn add(&mut self, outcome: &Outcome, way: impl FnOnce() -> Way, effort: Effort) {
        match self.0.iter_mut().find(|(known, _)| Rc::ptr_eq(known, outcome)) {
            None => self.0.push((outcome.clone(), way())),
            Some((_, known)) if effort < known.effort() => *known = way(),
            Some(_) => {}
        }
    }

    /// The outcomes, with the way to each.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = &(Outcome, Way)> {
        self.0.iter()
    }
}

impl Explorer {
    /// The outcomes of an image when up to `depth` recoveries are cut.
    pub(super) fn reach(
        &mut self,
        fingerprint: u128,
        images: impl FnOnce() -> Images,
        depth: usize,
    ) -> Rc<Reach> {
        if depth == 0 {
            let known = self.outcomes.get(&fingerprint).cloned();
            let known = known.unwrap_or_else(|| self.outcome(fingerprint, &images()));
            return Rc::new(Reach::of(known.outcome.clone()));
        }
        if let Some(known) = self.reached.get(&(fingerprint, depth)) {
            return known.clone();
        }
        let images = images();
        let known = self.outcome(fingerprint, &images);
        let mut reach = Reach::of(known.outcome.clone());
        if let Err(reason) = self.cut_return((fingerprint, &images), &known, depth, &mut reach) {
            reach.0.push((Rc::new(Err(reason)), Way::default()));
        }
        let reach = Rc::new(reach);
        self.reached.insert((fingerprint, depth), reach.clone());
        reach
    }

    /// Whether to skip the cuts of a recovery of this kind that follows a cut one.
    fn passes_over(&mut self, kind: u64, fingerprint: u128) -> bool {
        if self.further == Further::All {
            return false;
        }
        let alike = self.kinds.entry(kind).or_insert(0);
        *alike += 1;
        *alike > OF_EACH_KIND && !fingerprint.is_multiple_of(ONE_OF)
    }

    /// Cuts a recovery, and adds the outcomes of the resulting images.
    fn cut_return(
        &mut self,
        (fingerprint, images): (u128, &Images),
        known: &Known,
        depth: usize,
        reach: &mut Reach,
    ) -> Result<(), String> {
        let is_further = depth < self.depth;
        // Images that recovery cannot tell apart have recoveries of one kind.
        if is_further && known.kind.get().is_some_and(|kind| self.passes_over(kind, fingerprint)) {
            return Ok(());
        }
        let recording = catching(|| record(self.design, images))?;
        let kind = recording.digest();
        if known.kind.replace(Some(kind)).is_none()
            && is_further
            && self.passes_over(kind, fingerprint)
        {
            return Ok(());
        }
        let is_new = self.recorded.insert(fingerprint);
        let mut prng = Prng::new(fingerprint as u64);
        let mut seen = BTreeSet::from([fingerprint]);
        for cut in recording.cuts() {
            let mut left = cut.left();
            for loss in cut.losses(&mut prng) {
                self.counts.states += u64::from(is_new);
                let fingerprint = left.fingerprint(&loss);
                if !seen.insert(fingerprint) {
                    continue;
                }
                let further = self.reach(fingerprint, || left.images(&loss), depth - 1);
                for (outcome, way) in further.outcomes() {
                    let effort = way.effort_after(&loss, cut.position);
                    let step = || Step { position: cut.position, loss: loss.clone() };
                    reach.add(outcome, || way.after(step()), effort);
                }
            }
        }
        Ok(())
    }
}
