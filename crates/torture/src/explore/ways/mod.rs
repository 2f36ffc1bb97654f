//! Every way in and out: a volume is served, worked on, stopped, repaired, tuned, and its log
//! grows; each of these is cut at every event, or its process is killed there, and another follows
//! on the remaining state, which may be cut as well.
//!
//! A *scene* is an initial state: answers, an interrupted chain, revocations, a log that has
//! wrapped. A *step* is a way with its end. After the last step the volume is served and checked:
//! everything acknowledged is there, answers are remembered, sizes are not in between; then it is
//! stopped, the checker is silent, and it is served and checked once more.
//!
//! A cut takes pending writes, in some combination. A *kill* takes nothing: the next process reads
//! pending writes and relies on them, and a power cut may still take them from under it. A way that
//! comes to its end leaves the same state: nothing flushes for it.
//!
//! # Layers
//! * [`place`]: the disks between two steps, and the settings.
//! * [`known`]: the allowed and the required state.
//! * [`way`], [`repair`]: the ways, and their recordings.
//! * [`scene`]: the initial states.
//! * [`look`]: serving and checking.
//! * [`case`]: a scene and its steps as a line that reproduces a violation.

pub mod case;
pub mod known;
pub mod look;
pub mod place;
pub mod repair;
pub mod scene;
pub mod way;

use std::collections::BTreeSet;

use sim::Prng;

use super::design::Design;
use super::disks::Loss;
use super::{Counts, catching};
use case::Case;
use known::Known;
use look::{look, repaired};
use place::Place;
use scene::{ANSWERS, QUIET_CHAIN, Scene};
use way::{Way, Went, go};

/// How a way ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran to its end.
    Done,
    /// The power was cut after this many events, with this loss of pending writes.
    Cut(usize, Loss),
    /// Its process was killed after this many events.
    Killed(usize),
}

/// A way, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The way.
    pub way: Way,
    /// How it ended.
    pub end: End,
}

/// A state that no step may leave.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The case that leads to it.
    pub case: Case,
    /// The reason.
    pub reason: String,
}

/// The state after some steps.
#[derive(Clone)]
struct Left {
    steps: Vec<Step>,
    place: Place,
    known: Known,
}

/// The thoroughness of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// One in this many losses is tried at each event of a first way, beside the corners.
    pub losses_every: usize,
    /// This many of the places that cuts of a first way leave get a second way,
    pub cuts: usize,
    /// and this many of those that kills leave, preferably with pending writes.
    pub kills: usize,
    /// Whether all ways follow on such a place, or one of them.
    pub all_follow: bool,
    /// One in this many of all places is also repaired before it is checked.
    pub repairs_every: usize,
}

impl Effort {
    /// One way, with some of its ends.
    pub const FIRST: Self =
        Self { losses_every: 2, cuts: 0, kills: 0, all_follow: false, repairs_every: 11 };
    /// An effort for tests.
    pub const SHORT: Self =
        Self { losses_every: 7, cuts: 2, kills: 10, all_follow: false, repairs_every: 11 };
    /// Everything but all second ways.
    pub const FULL: Self =
        Self { losses_every: 1, cuts: 30, kills: 100, all_follow: true, repairs_every: 3 };
}

/// Explores the states that steps leave.
pub struct Ways {
    effort: Effort,
    prng: Prng,
    /// The scene being explored.
    scene: (Design, &'static str),
    /// Shapes of its steps that have led to a violation.
    shapes: BTreeSet<Vec<(&'static str, u8)>>,
    /// The work done so far.
    pub counts: Counts,
    /// The first violation of each scene and shape of steps.
    pub violations: Vec<Violation>,
}

impl Ways {
    /// An explorer without results.
    pub fn new(effort: Effort, seed: u64) -> Self {
        Self {
            effort,
            prng: Prng::new(seed),
            scene: (Design::default(), ""),
            shapes: BTreeSet::new(),
            counts: Counts::default(),
            violations: Vec::new(),
        }
    }

    /// Runs a first way on a scene, with every end, and second ways from there. For steps of one
    /// shape the first violation is enough.
    pub fn explore(&mut self, scene: &Scene, first: Way) {
        self.counts.workloads += 1;
        self.shapes.clear();
        self.scene = (scene.design, scene.name);
        let start =
            Left { steps: Vec::new(), place: scene.place.clone(), known: scene.known.clone() };
        let mut seen = BTreeSet::new();
        let (mut cuts, mut kills) = (Vec::new(), Vec::new());
        // Bugs in the restart of a chain show only in torn batches.
        let is_torn = scene.name == QUIET_CHAIN && first == Way::Work;
        let every = if is_torn { 1 } else { self.effort.losses_every };
        for left in self.ends(&start, first, Some(every)) {
            if !seen.insert(left.place.fingerprint()) || !self.judge(&left) {
                continue;
            }
            match left.steps[0].end {
                End::Cut(..) => cuts.push(left),
                End::Killed(_) | End::Done => kills.push(left),
            }
        }
        let effort = self.effort;
        let takes_long = scene.name == ANSWERS || scene.name == QUIET_CHAIN && first == Way::Work;
        if takes_long && !effort.all_follow {
            return;
        }
        let places = [self.some(cuts, effort.cuts), self.some_kills(kills)].concat();
        for left in places {
            let following = Way::following(left.place.design);
            let one = self.prng.index(following.len());
            for (index, &second) in following.iter().enumerate() {
                if effort.all_follow || index == one {
                    self.go_on(&left, second);
                }
            }
        }
    }

    /// Some of the places that kills have left, those with pending writes to their log first.
    fn some_kills(&mut self, kills: Vec<Left>) -> Vec<Left> {
        let pending = |left: &Left| {
            let log = left.place.disks.last();
            log.is_some_and(|disk| disk.pending().next().is_some())
        };
        let (first, rest): (Vec<Left>, Vec<Left>) = kills.into_iter().partition(pending);
        let mut some = self.some(first, self.effort.kills);
        let missing = self.effort.kills - some.len();
        some.extend(self.some(rest, missing));
        some
    }

    /// A second way, and the states that its cuts leave.
    fn go_on(&mut self, left: &Left, second: Way) {
        let mut seen = BTreeSet::new();
        for next in self.ends(left, second, None) {
            if seen.insert(next.place.fingerprint()) {
                self.judge(&next);
            }
        }
    }

    /// A random selection that always contains the last one: that of a way that ran to its end.
    fn some(&mut self, mut all: Vec<Left>, count: usize) -> Vec<Left> {
        let mut some = Vec::new();
        some.extend(all.pop().filter(|_| count > 0));
        while some.len() < count && !all.is_empty() {
            let index = self.prng.index(all.len());
            some.push(all.swap_remove(index));
        }
        some
    }

    /// The states that a way leaves, for all its ends: with one in `every` losses, or the corners
    /// alone.
    fn ends(&mut self, left: &Left, way: Way, every: Option<usize>) -> Vec<Left> {
        let with = |end: End| left.with(Step { way, end });
        let went = match catching(|| go(way, &left.place, &left.known, left.steps.len())) {
            Ok(Some(went)) => went,
            Ok(None) => return Vec::new(),
            Err(reason) => {
                self.violate(with(End::Done), reason);
                return Vec::new();
            }
        };
        let mut ends = Vec::new();
        for position in 0..=went.events() {
            for end in self.ends_at(&went, position, every) {
                self.counts.states += 1;
                let (place, known) = went.end(&end, &left.place, &left.known).expect("it is so");
                ends.push(Left { steps: with(end), place, known });
            }
        }
        ends
    }

    fn ends_at(&mut self, went: &Went, position: usize, every: Option<usize>) -> Vec<End> {
        let is_last = position == went.events();
        let stays = if is_last { End::Done } else { End::Killed(position) };
        let Some(cut) = went.cut(position) else { return vec![stays] };
        let mut losses = cut.corners(&mut self.prng);
        if let Some(every) = every {
            let skip = self.prng.index(every);
            losses.extend(cut.losses(&mut self.prng).into_iter().skip(skip).step_by(every));
        }
        let cuts = losses.into_iter().map(|loss| End::Cut(position, loss));
        cuts.chain([stays]).collect()
    }

    /// Serves a state and checks it, sometimes after a repair. Returns whether it is allowed.
    fn judge(&mut self, left: &Left) -> bool {
        self.counts.images += 1;
        if let Err(reason) = catching(|| look(&left.place, &left.known)) {
            self.violate(left.steps.clone(), reason);
            return false;
        }
        if self.counts.images.is_multiple_of(self.effort.repairs_every as u64)
            && let Err(reason) = catching(|| look(&repaired(&left.place)?, &left.known))
        {
            self.violate(left.with(Step { way: Way::Repair, end: End::Done }), reason);
            return false;
        }
        true
    }

    fn violate(&mut self, steps: Vec<Step>, reason: String) {
        self.counts.violations += 1;
        if self.shapes.insert(steps.iter().map(Step::shape).collect()) {
            let (design, scene) = (self.scene.0, self.scene.1.to_owned());
            self.violations.push(Violation { case: Case { design, scene, steps }, reason });
        }
    }
}

impl Left {
    /// The steps so far, and one more.
    fn with(&self, step: Step) -> Vec<Step> {
        self.steps.iter().cloned().chain([step]).collect()
    }
}

impl Step {
    /// The kind of a step, wherever it was cut.
    fn shape(&self) -> (&'static str, u8) {
        let how = match self.end {
            End::Done => 0,
            End::Cut(..) => 1,
            End::Killed(_) => 2,
        };
        (self.way.name(), how)
    }
}

/// All scenes of a policy with their first ways: a name and a way each.
pub fn beginnings(design: Design) -> Vec<(&'static str, Way)> {
    let all = scene::NAMES.iter().filter(|name| scene::is_of(name, design));
    all.flat_map(|name| scene::ways_of(name).iter().map(move |way| (*name, *way))).collect()
}
