//! The durable contents of a medium, and the writes that may be lost in a power cut.
//!
//! A write is *in flight*, then *completed*, then *durable*: at once if it was written through,
//! otherwise when a flush completes that was issued after the write had completed. A through write
//! whose process is killed while it is in flight is a plain one from then on.
//!
//! Invariants:
//! 1. Completed writes take effect in the order of completion, for that is what a reader saw;
//!    those in flight follow in the order of issue. An image is the base and then every write of
//!    that sequence that survives. A durable write can therefore lie behind a pending one that it
//!    overwrites, and is never undone by it.
//! 2. The base has absorbed the longest durable beginning of the sequence.
//! 3. A write whose flush failed is stranded: it can survive, but no later flush promises it.

use std::collections::BTreeMap;

use block::Durability;
use bytes::Bytes;

use crate::event::Event;
use crate::fate::{Choice, Fate, Sectors};
use crate::image::{Image, SECTOR_SIZE};

/// Whether a device does what it reports. The other two are for canaries: a harness that does not
/// detect them finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Honesty {
    /// It does.
    #[default]
    Honest,
    /// A flush completes without effect.
    IgnoresFlush,
    /// A through write is a plain one.
    IgnoresThrough,
}

/// The progress of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Issued, and not answered.
    InFlight,
    /// Answered, and still in a volatile cache.
    Completed,
    /// On stable storage.
    Durable,
}

/// A write that the base has not absorbed.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its number among the writes of its disk.
    pub id: u64,
    /// The offset in bytes.
    pub offset: u64,
    /// The data.
    pub data: Bytes,
    /// The requested durability.
    pub durability: Durability,
    /// The progress.
    pub stage: Stage,
    /// Its number among the completions.
    completion: u64,
    /// Invariant 3.
    stranded: bool,
    /// For a failed write, the sectors that it changed all the same.
    changed: Option<Sectors>,
}

/// A medium at one moment: its durable contents and the pending writes.
#[derive(Clone, Debug)]
pub struct Platter {
    base: Image,
    settled: Vec<Written>,
    in_flight: Vec<Written>,
    completions: u64,
    /// Flushes in flight, and the last completion that each covers.
    flushes: BTreeMap<u64, u64>,
    honesty: Honesty,
}

impl Platter {
    /// A medium with the durable contents `image`.
    pub fn new(image: Image, honesty: Honesty) -> Self {
        Self {
            base: image,
            settled: Vec::new(),
            in_flight: Vec::new(),
            completions: 0,
            flushes: BTreeMap::new(),
            honesty,
        }
    }

    /// The writes that may be lost, in the order of a [`Choice`].
    pub fn pending(&self) -> impl Iterator<Item = &Written> {
        self.writes().filter(|written| written.stage != Stage::Durable)
    }

    /// The contents after the pending writes have met their fates.
    ///
    /// # Panics
    /// When there are more or fewer fates than pending writes.
    pub fn image(&self, choice: &Choice) -> Image {
        let mut fates = choice.fates().iter();
        let image = self.image_with(|_| {
            fates.next().expect("a choice has a fate for every pending write").clone()
        });
        assert!(fates.next().is_none(), "a choice has no more fates than there are pending writes");
        image
    }

    /// The contents after `chooser` has decided the fate of each pending write.
    pub fn image_with(&self, mut chooser: impl FnMut(&Written) -> Fate) -> Image {
        let mut image = self.base.clone();
        for written in self.writes() {
            match written.stage {
                Stage::Durable => written.apply(&mut image, &Fate::Whole),
                _ => written.apply(&mut image, &chooser(written)),
            }
        }
        image
    }

    /// The contents after a loss of all pending writes.
    pub fn durable_image(&self) -> Image {
        self.image_with(|_| Fate::Lost)
    }

    /// The medium after its process is killed now with the power on: calls in flight take effect,
    /// and only a later flush makes them durable. A flush in flight promises nothing.
    pub fn killed(&self) -> Self {
        let mut killed = self.clone();
        killed.flushes.clear();
        let in_flight: Vec<u64> = killed.in_flight.iter().map(|written| written.id).collect();
        in_flight.into_iter().for_each(|write| killed.leave(write));
        killed
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::WriteIssued { write, offset, data, durability } => {
                self.in_flight.push(Written::new(*write, *offset, data.clone(), *durability));
            }
            Event::WriteCompleted { write } => self.complete(*write),
            Event::WriteLeft { write } => self.leave(*write),
            Event::WriteFailed { write, left } => self.fail(*write, left),
            Event::FlushIssued { flush } => {
                self.flushes.insert(*flush, self.completions);
            }
            Event::FlushCompleted { flush } => self.flushed(*flush),
            Event::FlushFailed { flush } => self.strand(*flush),
            Event::Rotted { offset, mask } => self.rot(*offset, *mask),
            Event::Mark(_) => {}
        }
    }

    /// Whether a byte that a reader sees is in a volatile cache and not yet on the medium.
    pub(crate) fn is_cached(&self, offset: u64) -> bool {
        self.settled.iter().any(|written| written.stage != Stage::Durable && written.covers(offset))
    }

    /// Flips bits on the medium, and not in writes still on their way there.
    fn rot(&mut self, offset: u64, mask: u8) {
        let mut byte = [0];
        self.base.read(offset, &mut byte);
        self.base.write(offset, &[byte[0] ^ mask]);
        let durable = |written: &&mut Written| written.stage == Stage::Durable;
        for written in self.settled.iter_mut().filter(durable) {
            if written.covers(offset) {
                let mut data = written.data.to_vec();
                data[(offset - written.offset) as usize] ^= mask;
                written.data = data.into();
            }
        }
    }

    /// The contents after the longest durable beginning (invariant 2).
    pub(crate) fn base(&self) -> &Image {
        let is_absorbed = self.settled.first().is_none_or(|first| first.stage != Stage::Durable);
        assert!(is_absorbed, "invariant 2: what is durable first is in the base");
        &self.base
    }

    /// All writes that the base has not absorbed, in the order in which they take effect.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Written> {
        self.settled.iter().chain(&self.in_flight) // invariant 1
    }

    fn complete(&mut self, write: u64) {
        let mut written = self.take_in_flight(write);
        let through = written.durability == Durability::Through;
        written.stage = if through && self.honesty != Honesty::IgnoresThrough {
            Stage::Durable
        } else {
            Stage::Completed
        };
        self.settle(written);
        self.absorb();
    }

    /// A write without a process becomes a plain one: a later flush covers it.
    fn leave(&mut self, write: u64) {
        let mut written = self.take_in_flight(write);
        written.stage = Stage::Completed;
        self.settle(written);
    }

    /// The part that a failed write has changed stays uncertain until it is overwritten.
    fn fail(&mut self, write: u64, left: &Fate) {
        let mut written = self.take_in_flight(write);
        let changed = written.sectors_of(left);
        if changed.count() > 0 {
            written.stage = Stage::Completed;
            written.stranded = true;
            written.changed = Some(changed);
            self.settle(written);
        }
    }

    fn take_in_flight(&mut self, write: u64) -> Written {
        let index = self.in_flight.iter().position(|written| written.id == write);
        self.in_flight.remove(index.expect("only a write in flight is answered, and only once"))
    }

    fn settle(&mut self, mut written: Written) {
        self.completions += 1;
        written.completion = self.completions;
        let last = self.settled.last().map_or(0, |last| last.completion);
        assert!(last < written.completion, "invariant 1: writes stand in the order of completion");
        self.settled.push(written);
    }

    /// The writes that a flush covers, without stranded ones.
    fn covered(&mut self, flush: u64) -> impl Iterator<Item = &mut Written> {
        let last = self.flushes.remove(&flush).expect("only a flush under way is answered");
        self.settled.iter_mut().filter(move |written| {
            written.completion <= last && written.stage == Stage::Completed && !written.stranded
        })
    }

    fn flushed(&mut self, flush: u64) {
        let lies = self.honesty == Honesty::IgnoresFlush;
        for written in self.covered(flush) {
            if !lies {
                written.stage = Stage::Durable;
            }
        }
        self.absorb();
    }

    fn strand(&mut self, flush: u64) {
        self.covered(flush).for_each(|written| written.stranded = true); // invariant 3
    }

    /// Restores invariant 2.
    fn absorb(&mut self) {
        let durable = |written: &&Written| written.stage == Stage::Durable;
        let count = self.settled.iter().take_while(durable).count();
        for written in self.settled.drain(..count) {
            assert!(!written.stranded, "invariant 3: no flush promises what is stranded");
            written.apply(&mut self.base, &Fate::Whole);
        }
    }
}

impl Written {
    fn new(id: u64, offset: u64, data: Bytes, durability: Durability) -> Self {
        let stage = Stage::InFlight;
        let (completion, stranded, changed) = (0, false, None);
        Self { id, offset, data, durability, stage, completion, stranded, changed }
    }

    /// The number of sectors that it covers.
    pub fn sector_count(&self) -> usize {
        self.data.len() / SECTOR_SIZE
    }

    fn covers(&self, offset: u64) -> bool {
        (self.offset..self.offset + self.data.len() as u64).contains(&offset)
    }

    /// Whether a sector of it survives a fate.
    pub(crate) fn survives(&self, fate: &Fate, sector: usize) -> bool {
        let does = match fate {
            Fate::Lost => false,
            Fate::Whole => true,
            Fate::Torn(sectors) => sectors.contains(sector),
        };
        does && self.changed.as_ref().is_none_or(|changed| changed.contains(sector))
    }

    fn sectors_of(&self, fate: &Fate) -> Sectors {
        match fate {
            Fate::Lost => Sectors::none(self.sector_count()),
            Fate::Whole => Sectors::all(self.sector_count()),
            Fate::Torn(sectors) => sectors.clone(),
        }
    }

    fn apply(&self, image: &mut Image, fate: &Fate) {
        match &self.changed {
            None => fate.apply(image, self.offset, &self.data),
            Some(changed) => {
                let both = Fate::Torn(changed.intersection(&self.sectors_of(fate)));
                both.apply(image, self.offset, &self.data);
            }
        }
    }
}

#[cfg(test)]
impl Platter {
    /// A medium with this many pending writes of one sector.
    pub(crate) fn with_pending(count: u64) -> Self {
        let mut platter = Self::new(Image::zeroed(1 << 20), Honesty::Honest);
        for write in 0..count {
            let (offset, data) = (write * SECTOR_SIZE as u64, vec![1; SECTOR_SIZE].into());
            let durability = Durability::Plain;
            platter.apply(&Event::WriteIssued { write, offset, data, durability });
        }
        platter
    }
}
