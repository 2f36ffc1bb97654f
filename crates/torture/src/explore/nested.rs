//! The return, cut as well: what a return writes is recorded, the power goes at every event of it
//! in every way, and what is left has to come back to a state that was allowed before.
//!
//! Cuts follow each other to a depth that the explorer is given. Every return is recorded in a
//! world of the same seed, so that what is cut off a return is mostly an image that another cut has
//! left already: different images are few, and each is recorded and brought back once, however many
//! chains of cuts lead to it. That is why nothing has to be sampled. Where there are more than fit
//! into memory, the images that returns have left are forgotten, and found again.

use std::rc::Rc;

use sim::Prng;

use super::case::{Case, Step};
use super::disks::Images;
use super::judge::Moment;
use super::recover::record;
use super::run::Run;
use super::{Explorer, Judged, catching};

/// The most images that are kept: about a gigabyte of a policy that writes much at its return.
const MOST_KEPT: usize = 20_000;

/// What a return may leave when it is cut, each image once.
pub(super) type Return = Result<Vec<Left>, String>;

/// An image, and how it came about.
pub(super) struct Left {
    step: Step,
    images: Images,
}

impl Explorer {
    /// Cuts the return of an image, and judges what is left as the image itself.
    pub(super) fn cut_return(
        &mut self,
        case: &Case,
        run: &Run,
        moment: Moment,
        (fingerprint, images): (u128, &Images),
        judged: &mut Judged,
        depth: usize,
    ) {
        let left = self.left_by_return(fingerprint, images);
        let left = match &*left {
            Ok(left) => left,
            Err(reason) => return self.violate(case.clone(), reason.clone()),
        };
        let before = self.counts.violations;
        for Left { step, images } in left {
            let case = case.after(step.clone());
            self.judge(&case, run, moment, images, judged, depth);
            if self.counts.violations > before {
                return;
            }
        }
    }

    pub(super) fn forget_returns(&mut self) {
        self.returns.clear();
        self.kept = 0;
    }

    fn left_by_return(&mut self, fingerprint: u128, images: &Images) -> Rc<Return> {
        if let Some(known) = self.returns.get(&fingerprint) {
            return known.clone();
        }
        let left = Rc::new(catching(|| record(self.policy, images)).map(|recording| {
            let mut prng = Prng::new(fingerprint as u64);
            let mut seen = std::collections::BTreeSet::from([fingerprint]);
            let mut left = Vec::new();
            let is_new = self.recorded.insert(fingerprint);
            for cut in recording.cuts() {
                for loss in cut.losses(&mut prng) {
                    self.counts.states += u64::from(is_new);
                    let images = cut.images(&loss).expect("a loss of this cut");
                    if seen.insert(images.fingerprint()) {
                        left.push(Left { step: Step { position: cut.position, loss }, images });
                    }
                }
            }
            left
        }));
        self.kept += left.as_ref().as_ref().map_or(0, Vec::len);
        if self.kept > MOST_KEPT {
            self.forget_returns();
        }
        self.returns.insert(fingerprint, left.clone());
        left
    }
}
