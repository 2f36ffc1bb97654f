//! Every way in and out: a volume is served, worked on, stopped, repaired, tuned, and its log
//! grows; each of these is cut at every event, or its process is killed there, and another follows
//! on what is left, which may be cut as well.
//!
//! A *scene* is what is there at first: answers, a chain that was cut, revocations, a log that has
//! gone round. A *step* is a way with its end. After the last step the volume is served and looked
//! at: everything that was acknowledged is there, answers are remembered, sizes are not in between;
//! then it is stopped, the checker is silent, and it is served and looked at once more.
//!
//! A cut takes what is pending, in some combination. A *kill* takes nothing: the next process sees
//! what was pending, and believes it, and the power may still take it from under that one. A way
//! that comes to its end is left in the same way: nothing flushes for it.
//!
//! # Layers
//! * [`place`]: the disks between two steps, and what the settings say.
//! * [`known`]: what may be there, and what must.
//! * [`way`], [`repair`]: the ways, and what is recorded of them.
//! * [`scene`]: what is there at first.
//! * [`look`]: serving, and looking.
//! * [`case`]: a scene and its steps as a line, which shows a violation again.

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
    /// It came to its end.
    Done,
    /// The power went after so many events, and this became of what was pending.
    Cut(usize, Loss),
    /// Its process was killed after so many events.
    Killed(usize),
}

/// A way, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub way: Way,
    /// How it ended.
    pub end: End,
}

/// Something that no step may leave.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How it comes about.
    pub case: Case,
    /// What is wrong.
    pub reason: String,
}

/// What is there after some steps.
#[derive(Clone)]
struct Left {
    steps: Vec<Step>,
    place: Place,
    known: Known,
}

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// One of so many ways to lose what is pending at each event of a first way, beside the
    /// corners.
    pub losses_every: usize,
    /// So many of the places that cuts of a first way leave are taken for a second,
    pub cuts: usize,
    /// and so many of those that kills leave, where something may be lost after them.
    pub kills: usize,
    /// Whether all ways follow on such a place, or one of them.
    pub all_follow: bool,
    /// One of so many of all places is repaired, too, before it is looked at.
    pub repairs_every: usize,
}

impl Effort {
    /// One way, ended in some ways.
    pub const FIRST: Self =
        Self { losses_every: 2, cuts: 0, kills: 0, all_follow: false, repairs_every: 11 };
    /// What a test can afford.
    pub const SHORT: Self =
        Self { losses_every: 7, cuts: 2, kills: 10, all_follow: false, repairs_every: 11 };
    /// Everything, but of second ways.
    pub const FULL: Self =
        Self { losses_every: 1, cuts: 30, kills: 100, all_follow: true, repairs_every: 3 };
}

/// Explores what steps leave.
pub struct Ways {
    effort: Effort,
    prng: Prng,
    /// What is explored now.
    scene: (Design, &'static str),
    /// Steps of it that have led to a violation.
    shapes: BTreeSet<Vec<(&'static str, u8)>>,
    /// What was done and found so far.
    pub counts: Counts,
    /// The first violation of each scene and of steps that are alike.
    pub violations: Vec<Violation>,
}

impl Ways {
    /// Nothing yet.
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

    /// Begins a scene with a way, in every way to end it, and goes on from there. Of steps that
    /// are alike the first violation says enough.
    pub fn explore(&mut self, scene: &Scene, first: Way) {
        self.counts.workloads += 1;
        self.shapes.clear();
        self.scene = (scene.design, scene.name);
        let start =
            Left { steps: Vec::new(), place: scene.place.clone(), known: scene.known.clone() };
        let mut seen = BTreeSet::new();
        let (mut cuts, mut kills) = (Vec::new(), Vec::new());
        // What begins a chain anew shows itself in torn batches alone.
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

    /// Of places that kills have left, those first of whose log something may be lost.
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

    /// A second way, and what its cuts leave.
    fn go_on(&mut self, left: &Left, second: Way) {
        let mut seen = BTreeSet::new();
        for next in self.ends(left, second, None) {
            if seen.insert(next.place.fingerprint()) {
                self.judge(&next);
            }
        }
    }

    /// So many of these, by chance, but first of all the last: that of a way that came to its end.
    fn some(&mut self, mut all: Vec<Left>, count: usize) -> Vec<Left> {
        let mut some = Vec::new();
        some.extend(all.pop().filter(|_| count > 0));
        while some.len() < count && !all.is_empty() {
            let index = self.prng.index(all.len());
            some.push(all.swap_remove(index));
        }
        some
    }

    /// What a way leaves, however it ends: with one of so many losses, or the corners alone.
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

    /// Serves what is left, and looks; sometimes it is repaired before. Whether all is well.
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
    /// Its steps, and one more.
    fn with(&self, step: Step) -> Vec<Step> {
        self.steps.iter().cloned().chain([step]).collect()
    }
}

impl Step {
    /// What it is like, wherever it was cut.
    fn shape(&self) -> (&'static str, u8) {
        let how = match self.end {
            End::Done => 0,
            End::Cut(..) => 1,
            End::Killed(_) => 2,
        };
        (self.way.name(), how)
    }
}

/// All scenes of a policy with the ways by which they begin: a name and a way each.
pub fn beginnings(design: Design) -> Vec<(&'static str, Way)> {
    let all = scene::NAMES.iter().filter(|name| scene::is_of(name, design));
    all.flat_map(|name| scene::ways_of(name).iter().map(move |way| (*name, *way))).collect()
}
