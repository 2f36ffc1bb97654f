//! The disks of a machine, which lose their power together, and their recorded events.
//!
//! A policy may have more disks than the volume: a log on a device of its own. A cut then hits both
//! at one moment, and the pending writes of either may be lost in any combination. So nothing here
//! concerns one disk: a [`Recording`] covers all of them, with their events in one order, and a
//! [`Loss`] decides the pending writes of each.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;

use block::{BlockDevice, Stripe};
use sim::{Choice, Digest, Disk, Event, Executor, Fate, Image, Mark, NoChoice, Platter, Prng};
use sim::{Remains, Trace, Traced};

/// The contents of each disk, the volume first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images(pub Vec<Image>);

impl Images {
    /// A hash of all contents.
    pub fn fingerprint(&self) -> u128 {
        together(self.0.iter().map(Image::fingerprint))
    }

    /// The volume.
    pub fn volume(&self) -> &Image {
        &self.0[0]
    }
}

/// One hash for those of several disks; for a single disk its own.
fn together(fingerprints: impl ExactSizeIterator<Item = u128>) -> u128 {
    let is_one = fingerprints.len() == 1;
    let mut halves = [Digest::new(0), Digest::new(1)];
    for fingerprint in fingerprints {
        if is_one {
            return fingerprint;
        }
        halves[0].add(fingerprint as u64);
        halves[1].add((fingerprint >> 64) as u64);
    }
    u128::from(halves[0].value()) << 64 | u128::from(halves[1].value())
}

/// The disks of one machine.
pub struct Disks(Vec<Rc<Disk>>);

impl Disks {
    /// Disks that hold `images`.
    pub fn new(executor: &Executor, images: &Images) -> Self {
        Self(images.0.iter().map(|image| Disk::new(executor, image.clone())).collect())
    }

    /// The same, with the volume reporting stripes of this many bytes.
    pub fn cut(executor: &Executor, images: &Images, stripe: Option<u64>) -> Self {
        let stripe = stripe.map(|unit| Stripe { unit, width: 1 });
        let disk = |(number, image): (usize, &Image)| {
            let stripe = stripe.filter(|_| number == 0);
            let options = sim::Options { stripe, ..sim::Options::default() };
            Disk::with_options(executor, image.clone(), options)
        };
        Self(images.0.iter().enumerate().map(disk).collect())
    }

    /// Disks with the state of these platters, pending writes included.
    pub fn resumed(executor: &Executor, platters: &[Platter]) -> Self {
        Self(platters.iter().map(|one| Disk::resumed(executor, one.clone())).collect())
    }

    /// The devices for an engine.
    pub fn devices(&self) -> Vec<Rc<dyn BlockDevice>> {
        self.0.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
    }

    /// The volume.
    pub fn volume(&self) -> &Rc<Disk> {
        &self.0[0]
    }

    /// Starts recording.
    pub fn start_recording(&self) {
        self.0.iter().for_each(|disk| disk.start_trace());
    }

    /// The recording so far.
    pub fn recording(&self) -> Recording {
        Recording::new(self.0.iter().map(|disk| disk.trace()).collect())
    }

    /// The contents after a loss of all pending writes.
    pub fn durable(&self) -> Images {
        Images(self.0.iter().map(|disk| disk.platter().durable_image()).collect())
    }

    /// The contents that reads return now.
    pub fn contents(&self) -> Images {
        Images(self.0.iter().map(|disk| disk.contents()).collect())
    }
}

/// The events of disks since the start of the recording.
pub struct Recording {
    traces: Vec<Trace>,
    /// The disk of each event, in the order of events.
    order: Vec<usize>,
}

/// A moment at which the power may be cut.
pub struct Cut {
    /// The number of events before it.
    pub position: usize,
    platters: Vec<Platter>,
}

impl Recording {
    /// Merges traces that were started at one moment, the volume's first.
    pub fn new(traces: Vec<Trace>) -> Self {
        let events = traces.iter().enumerate();
        let serial = |(disk, trace): (usize, &Trace)| {
            let serials = trace.events().iter().map(|traced| traced.serial);
            serials.map(|serial| (serial, disk)).collect::<Vec<_>>()
        };
        let mut order: Vec<(u64, usize)> = events.flat_map(serial).collect();
        order.sort_unstable();
        Self { traces, order: order.into_iter().map(|(_, disk)| disk).collect() }
    }

    /// The number of events.
    pub fn events(&self) -> usize {
        self.order.len()
    }

    /// A hash of the events, whatever the disks held before.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new(self.order.len() as u64);
        self.order.iter().for_each(|&disk| digest.add(disk as u64));
        self.traces.iter().for_each(|trace| digest.add(trace.digest()));
        digest.value()
    }

    /// Every moment from before the first event to after the last.
    pub fn cuts(&self) -> impl Iterator<Item = Cut> {
        let mut walks: Vec<_> = self.traces.iter().map(Trace::cuts).collect();
        let mut now: Vec<Platter> = Vec::new();
        (0..=self.order.len()).map(move |position| {
            match position.checked_sub(1) {
                None => now = walks.iter_mut().filter_map(Iterator::next).map(platter).collect(),
                Some(last) => {
                    let disk = self.order[last];
                    let next = walks[disk].next().expect("a walk has as many steps as events");
                    now[disk] = platter(next);
                }
            }
            Cut { position, platters: now.clone() }
        })
    }

    /// The numbers of the marks before a position.
    pub fn marks_before(&self, position: usize) -> impl Iterator<Item = u64> {
        let mut done = vec![0; self.traces.len()];
        self.order[..position].iter().filter_map(move |&disk| {
            let Traced { event, .. } = &self.traces[disk].events()[done[disk]];
            done[disk] += 1;
            match event {
                Event::Mark(Mark::Number(mark)) => Some(*mark),
                _ => None,
            }
        })
    }
}

fn platter((_, platter): (usize, Platter)) -> Platter {
    platter
}

impl Cut {
    /// The losses worth trying.
    pub fn losses(&self, prng: &mut Prng) -> Vec<Loss> {
        Choice::explore_together(&self.platters, prng).into_iter().map(Loss::of).collect()
    }

    /// Builder of the images that losses leave.
    pub fn left(&self) -> Left<'_> {
        Left(self.platters.iter().map(Remains::new).collect())
    }

    /// The contents after a loss of all pending writes.
    pub fn durable(&self) -> Images {
        Images(self.platters.iter().map(Platter::durable_image).collect())
    }

    /// The contents after no loss.
    pub fn whole(&self) -> Images {
        Images(self.platters.iter().map(|one| one.image_with(|_| Fate::Whole)).collect())
    }

    /// The platters for the next process when this one is killed with the power on.
    pub fn killed(&self) -> Vec<Platter> {
        self.platters.iter().map(Platter::killed).collect()
    }

    /// A few possible losses: for each disk all or none of the pending writes, and one random loss.
    pub fn corners(&self, prng: &mut Prng) -> Vec<Loss> {
        let counts: Vec<usize> = self.platters.iter().map(|one| one.pending().count()).collect();
        let all = |count: usize, fate: Fate| Choice::new(vec![fate; count]);
        let corner = |bits: u32| {
            let fate = |disk: usize| if bits >> disk & 1 == 1 { Fate::Whole } else { Fate::Lost };
            Loss::of(
                counts.iter().enumerate().map(|(disk, &count)| all(count, fate(disk))).collect(),
            )
        };
        let chance = self.platters.iter().map(|one| Choice::random(one, prng)).collect();
        (0..1_u32 << counts.len()).map(corner).chain([Loss::of(chance)]).collect()
    }

    /// Number of pending writes on all disks.
    pub fn pending(&self) -> usize {
        self.platters.iter().map(|platter| platter.pending().count()).sum()
    }

    /// Random losses that keep some sectors of all pending writes and drop others.
    pub fn mixtures(&self, prng: &mut Prng, count: usize) -> Vec<Loss> {
        let mixture =
            |_| Loss::of(self.platters.iter().map(|one| Choice::mixture(one, prng)).collect());
        (0..count).map(mixture).collect()
    }

    /// The contents after a random loss.
    pub fn random(&self, prng: &mut Prng) -> Images {
        let left = |platter: &Platter| platter.image(&Choice::random(platter, prng));
        Images(self.platters.iter().map(left).collect())
    }

    /// The loss of all pending writes, the loss of none, and `more` random ones.
    pub fn some_losses(&self, prng: &mut Prng, more: usize) -> Vec<Loss> {
        let all = |fate: Fate| {
            let of = |platter: &Platter| Choice::new(vec![fate.clone(); platter.pending().count()]);
            Loss::of(self.platters.iter().map(of).collect())
        };
        let by_chance = |_| {
            Loss::of(self.platters.iter().map(|platter| Choice::random(platter, prng)).collect())
        };
        [all(Fate::Lost), all(Fate::Whole)].into_iter().chain((0..more).map(by_chance)).collect()
    }

    /// The contents after a loss; `None` when it is not of this cut.
    pub fn images(&self, loss: &Loss) -> Option<Images> {
        let fits = |(platter, choice): (&Platter, &Choice)| {
            let pending: Vec<_> = platter.pending().collect();
            let torn = |(written, fate): (&&sim::Written, &Fate)| match fate {
                Fate::Torn(sectors) => sectors.count() <= written.sector_count(),
                Fate::Lost | Fate::Whole => true,
            };
            pending.len() == choice.fates().len() && pending.iter().zip(choice.fates()).all(torn)
        };
        let both = || self.platters.iter().zip(&loss.choices);
        if loss.choices.len() != self.platters.len() || !both().all(fits) {
            return None;
        }
        let left = both().enumerate().map(|(disk, (platter, choice))| {
            loss.left(disk, || platter.image(choice)) // of a disk
        });
        Some(Images(left.collect()))
    }
}

/// Builds the contents after losses of one cut: see [`sim::Remains`].
pub struct Left<'a>(Vec<Remains<'a>>);

impl Left<'_> {
    /// The hash of the contents after a loss of this cut, without building them.
    pub fn fingerprint(&mut self, loss: &Loss) -> u128 {
        let both = self.0.iter_mut().zip(&loss.choices).enumerate();
        together(both.map(|(disk, (remains, choice))| match loss.disk {
            Some(lost) if lost == disk => Image::zeroed(0).fingerprint(),
            _ => remains.fingerprint(choice),
        }))
    }

    /// The contents after a loss of this cut.
    pub fn images(&mut self, loss: &Loss) -> Images {
        let both = self.0.iter_mut().zip(&loss.choices).enumerate();
        let left = both.map(|(disk, (remains, choice))| {
            loss.left(disk, || remains.image(choice)) // of a disk
        });
        Images(left.collect())
    }
}

/// The fate of the pending writes of each disk, and the disk that is lost with all its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// By disk.
    choices: Vec<Choice>,
    disk: Option<usize>,
}

impl Loss {
    fn of(choices: Vec<Choice>) -> Self {
        Self { choices, disk: None }
    }

    /// The same loss, and also with each of these disks lost, one at a time.
    pub fn with_each(self, losable: Range<usize>) -> impl Iterator<Item = Self> {
        let with = |disk| Self { disk: Some(disk), ..self.clone() };
        let with_each: Vec<Self> = losable.map(with).collect();
        std::iter::once(self).chain(with_each)
    }

    /// The contents of a disk after the loss.
    fn left(&self, disk: usize, image: impl FnOnce() -> Image) -> Image {
        if self.disk == Some(disk) { Image::zeroed(0) } else { image() }
    }

    /// Complexity of the loss: writes that survive in part, then surviving writes.
    pub fn weight(&self) -> (usize, usize) {
        let fates = || self.choices.iter().flat_map(Choice::fates);
        let torn = fates().filter(|fate| matches!(fate, Fate::Torn(_))).count();
        (torn, fates().filter(|fate| **fate == Fate::Whole).count())
    }
}

/// The choices of the disks, with a stroke between; after them the lost disk.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.choices.iter().map(Choice::to_string).collect();
        f.write_str(&choices.join(" / "))?;
        self.disk.map_or(Ok(()), |disk| write!(f, "{WITHOUT}{disk}"))
    }
}

/// Precedes the number of a lost disk.
const WITHOUT: &str = " without ";

impl FromStr for Loss {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let (choices, disk) = match text.split_once(WITHOUT) {
            Some((choices, disk)) => (choices, Some(disk)),
            None => (text, None),
        };
        let disk = disk.map(|disk| disk.parse().map_err(|_| NoChoice::of(disk))).transpose()?;
        let choices = choices.split('/').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { choices, disk })
    }
}

#[cfg(test)]
mod tests {
    use block::Durability;

    use super::*;

    #[test]
    fn two_disks_are_cut_at_one_moment() {
        let executor = Executor::new(1);
        let disks = Disks::new(&executor, &Images(vec![Image::zeroed(4096); 2]));
        disks.start_recording();
        executor.block_on(async {
            for (disk, value) in [(0, 1), (1, 2), (0, 3)] {
                let data = vec![vec![value; 512].into()];
                disks.0[disk].write(0, data, Durability::Plain).await.expect("it works");
                disks.0[disk].flush().await.expect("it works");
                disks.0[disk].mark(u64::from(value));
            }
        });
        let recording = disks.recording();
        let first = |images: &Images, disk: usize| {
            let mut byte = [0];
            images.0[disk].read(0, &mut byte);
            byte[0]
        };
        let mut seen = std::collections::BTreeSet::new();
        for cut in recording.cuts() {
            let marks: Vec<u64> = recording.marks_before(cut.position).collect();
            let mut left = cut.left();
            for loss in cut.losses(&mut Prng::new(1)) {
                let images = cut.images(&loss).expect("a loss of this cut");
                assert_eq!(left.fingerprint(&loss), images.fingerprint());
                assert_eq!(left.images(&loss), images);
                let found = (first(&images, 0), first(&images, 1));
                seen.insert(found);
                assert!(!marks.contains(&2) || found.1 == 2, "{marks:?} {found:?}");
                for loss in loss.with_each(0..2) {
                    assert_eq!(loss.to_string().parse(), Ok(loss.clone()));
                    let images = cut.images(&loss).expect("a loss of this cut");
                    assert_eq!(left.fingerprint(&loss), images.fingerprint());
                    assert_eq!(left.images(&loss), images);
                }
            }
        }
        let expected = [(0, 0), (1, 0), (1, 2), (3, 2)];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected, "never the later write alone");
    }
}
