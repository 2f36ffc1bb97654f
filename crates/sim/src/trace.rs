//! The recorded events of a disk, so that the power can be cut afterwards at every one.

use runtime::Instant;

use crate::digest::Digest;
use crate::event::{Event, Mark};
use crate::fate::Fate;
use crate::image::Image;
use crate::platter::{Platter, Written};

/// An event with its position among all events of its world, other disks included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Grows over all disks of a world: cut several disks before the same number.
    pub serial: u64,
    /// The time.
    pub at: Instant,
    /// The event.
    pub event: Event,
}

/// The events of one disk since the recording started.
#[derive(Clone, Debug)]
pub struct Trace {
    start: Platter,
    events: Vec<Traced>,
}

impl Trace {
    pub(crate) fn new(start: Platter) -> Self {
        Self { start, events: Vec::new() }
    }

    pub(crate) fn push(&mut self, traced: Traced) {
        self.events.push(traced);
    }

    /// The events. Position `n` is the moment after the first `n` of them.
    pub fn events(&self) -> &[Traced] {
        &self.events
    }

    /// A hash of the events, whatever the medium held before.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new(0);
        self.events.iter().for_each(|traced| traced.event.add_to(&mut digest));
        digest.value()
    }

    /// The medium at a position.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn platter_at(&self, position: usize) -> Platter {
        let mut platter = self.start.clone();
        self.events[..position].iter().for_each(|traced| platter.apply(&traced.event));
        platter
    }

    /// The medium at every position from 0 to the number of events, at the cost of one walk.
    pub fn cuts(&self) -> impl Iterator<Item = (usize, Platter)> {
        let mut platter = self.start.clone();
        (0..=self.events.len()).map(move |position| {
            if let Some(last) = position.checked_sub(1) {
                platter.apply(&self.events[last].event);
            }
            (position, platter.clone())
        })
    }

    /// Possible contents after a power cut at a position: durable writes are there, and `chooser`
    /// decides the fate of each pending one.
    pub fn image_after(&self, position: usize, chooser: impl FnMut(&Written) -> Fate) -> Image {
        self.platter_at(position).image_with(chooser)
    }

    /// The marks before a position, the oldest first: the promises made by then.
    pub fn marks_before(&self, position: usize) -> impl Iterator<Item = &Mark> {
        self.events[..position].iter().filter_map(|traced| match &traced.event {
            Event::Mark(mark) => Some(mark),
            _ => None,
        })
    }

    /// The position before the first event with this serial or a later one.
    pub fn position_of(&self, serial: u64) -> usize {
        self.events.partition_point(|traced| traced.serial < serial)
    }
}

impl Event {
    pub(crate) fn add_to(&self, digest: &mut Digest) {
        let numbers = match self {
            Event::WriteIssued { write, offset, data, durability } => {
                digest.add_bytes(data);
                [1, *write, *offset ^ (*durability as u64) << 63]
            }
            Event::WriteCompleted { write } => [2, *write, 0],
            Event::WriteFailed { write, .. } => [3, *write, 0],
            Event::FlushIssued { flush } => [4, *flush, 0],
            Event::FlushCompleted { flush } => [5, *flush, 0],
            Event::FlushFailed { flush } => [6, *flush, 0],
            Event::Rotted { offset, mask } => [9, *offset, u64::from(*mask)],
            Event::WriteLeft { write } => [10, *write, 0],
            Event::Mark(Mark::Number(number)) => [7, *number, 0],
            Event::Mark(Mark::Text(text)) => {
                digest.add_bytes(text.as_bytes());
                [8, 0, 0]
            }
        };
        numbers.into_iter().for_each(|number| digest.add(number));
    }
}
