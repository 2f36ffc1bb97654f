//! A log with bit rot.

use journal::format::{AREA, HEADER_SIZE, LARGEST_BODY, SEGMENT, SLOTS, SMALLEST, State, UNIT};
use journal::{Draft, Journal, JournalError, at_rest, close, forget, peek};
use sim::{Image, Prng};

use super::{EPOCH, Placed, VOLUME, World, draft};

/// A log that has wrapped around, and its live entries.
pub(crate) struct Sample {
    pub(crate) image: Image,
    capacity: u64,
    /// Everything that was placed, including overwritten entries.
    placed: Vec<Placed>,
    /// Recno of the first needed entry.
    head: u64,
    /// Recno at which the last batch begins.
    last_batch: u64,
}

/// Result of reading a damaged log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All entries are there.
    Whole,
    /// The last batch is missing, in whole or in part, as after a cut.
    Shorter,
    /// The log was refused.
    Refused,
}

impl Sample {
    /// A log with `batches` batches, the last of which has three entries.
    pub(crate) fn new(batches: u64) -> Self {
        let world = World::smallest();
        let journal = world.begin(EPOCH);
        let mut prng = Prng::new(4);
        let mut placed: Vec<Placed> = Vec::new();
        let (mut head, mut sequence) = (0, 0);
        for batch in 0..batches {
            let count = if batch + 1 == batches { 3 } else { 1 + prng.below(3) };
            let drafts = (0..count).map(|_| {
                sequence += 1;
                draft(sequence, 100 + prng.index(12_000))
            });
            let drafts = drafts.collect();
            head = placed.iter().rev().nth(12).map_or(0, |oldest| oldest.recno);
            placed.extend(world.place(&journal, drafts, Some(head)));
        }
        let last_batch = placed[placed.len() - 3].recno;
        let (image, capacity) = (world.disk.contents(), journal.capacity());
        Self { image, capacity, placed, head, last_batch }
    }

    /// Meaningful bytes of the device: headers of live entries, the first of each segment, some of
    /// every live body.
    pub(crate) fn places(&self) -> Vec<u64> {
        let mut prng = Prng::new(6);
        let mut places: Vec<u64> = Vec::new();
        let header = |at: u64| at..at + HEADER_SIZE as u64;
        for segment in 0..self.capacity / SEGMENT {
            places.extend(header(AREA + segment * SEGMENT));
        }
        for live in self.placed.iter().filter(|placed| placed.recno >= self.head) {
            let at = AREA + live.recno * UNIT % self.capacity;
            places.extend(header(at));
            let body = at + HEADER_SIZE as u64;
            let length = live.draft.body.len() as u64;
            places.extend((0..8).map(|_| body + prng.below(length)));
            places.extend([body, body + length - 1]);
        }
        places
    }

    /// The same with a byte changed.
    pub(crate) fn with_damage(&self, at: u64, mask: u8) -> Image {
        let mut image = self.image.clone();
        let mut byte = [0];
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ mask]);
        image
    }

    /// Checks that no entry is found that was not placed, and that none is silently missing, except
    /// in the last batch.
    pub(crate) fn judge(&self, image: Image) -> Result<Outcome, String> {
        let (live, found) = match World::of(image).read(EPOCH) {
            Ok(Some(read)) => read,
            Ok(None) | Err(JournalError::Damaged { .. } | JournalError::Version(_)) => {
                return Ok(Outcome::Refused);
            }
            Err(error) => return Err(error.to_string()),
        };
        let index = |recno| self.placed.partition_point(|placed| placed.recno < recno);
        let from = index(live.head);
        if !self.placed[from..].starts_with(&found) {
            return Err("what is found was not placed so".into());
        }
        let end = from + found.len();
        if from > index(self.head) || end < index(self.last_batch) {
            return Err(format!("only {from} to {end} of {} are there", self.placed.len()));
        }
        let whole = end == self.placed.len();
        Ok(if whole { Outcome::Whole } else { Outcome::Shorter })
    }

    /// The first damage of one byte that is not detected as it should be.
    pub(crate) fn first_wrong(&self, places: &[u64]) -> Result<Vec<Outcome>, String> {
        let mut outcomes = Vec::new();
        for (index, &at) in places.iter().enumerate() {
            let mask = [1, 0x80, 0xff][index % 3];
            let judged = self.judge(self.with_damage(at, mask));
            outcomes.push(judged.map_err(|wrong| format!("byte {at} xor {mask}: {wrong}"))?);
        }
        Ok(outcomes)
    }
}

/// Two copies of a log diverged, and one segment of the one came into the other, as can happen with
/// a mirror. Returns the result of reading it.
pub(crate) fn mixed_copies() -> Result<Outcome, String> {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let lengths = [60_000; 8];
    let place = |world: &World, journal: &Journal, salt: u64| -> Vec<Placed> {
        let batch = |(index, &length): (usize, &usize)| {
            let drafts = vec![draft(salt + index as u64, length)];
            world.place(journal, drafts, Some(0))
        };
        lengths.iter().enumerate().flat_map(batch).collect()
    };
    let placed = place(&world, &journal, 1);
    let twin = World::smallest();
    place(&twin, &twin.begin(EPOCH), 1000);
    let mut image = world.disk.contents();
    image.write(AREA + 3 * SEGMENT, &twin.bytes(AREA + 3 * SEGMENT, SEGMENT));
    match World::of(image).read(EPOCH) {
        Ok(Some((_, found))) if !placed.starts_with(&found) => Err("the copies are mixed".into()),
        Ok(_) => Ok(Outcome::Shorter),
        Err(_) => Ok(Outcome::Refused),
    }
}

/// A slot names the oldest needed entry, and everything from that on is wiped out; or all entries
/// are.
pub(crate) fn lost_head() -> Result<(), String> {
    for (entries, whole) in [(2, false), (9, false), (14, false), (2, true), (14, true)] {
        let world = World::smallest();
        let journal = world.begin(EPOCH);
        let all: Vec<Placed> = (0..entries)
            .flat_map(|sequence| world.place(&journal, vec![draft(sequence, 60_000)], Some(0)))
            .collect();
        let head = all[all.len() - 1].recno;
        world.run(journal.note_head(head)).map_err(|error| error.to_string())?;
        let mut image = world.disk.contents();
        if whole {
            image.write(AREA, &vec![0; (SMALLEST - AREA) as usize])
        } else {
            image.write(AREA + head * UNIT, &[0; SEGMENT as usize])
        }
        match World::of(image).read(EPOCH) {
            Err(JournalError::Headless { head: named }) if named == head => {}
            read => return Err(format!("{entries} entries: {:?}", read.map(|_| "no damage"))),
        }
    }
    Ok(())
}

/// Damages each slot of a log at rest in turn. The log is at rest after a stop, after a repair, or
/// because it was given up.
pub(crate) fn damaged_rest() -> Result<(), String> {
    for way in 0..3 {
        let world = World::smallest();
        let journal = world.begin(EPOCH);
        world.place(&journal, vec![draft(1, 100), draft(2, 3000)], None);
        let (live, placed) = world.entries(EPOCH);
        world
            .run(async {
                match way {
                    0 => journal.close(live.head).await.map_err(JournalError::from),
                    1 => close(&*world.disk, &live).await,
                    _ => forget(&*world.disk).await,
                }
            })
            .map_err(|error| error.to_string())?;
        for slot in SLOTS {
            let mut image = world.disk.contents();
            image.write(slot, &[0x5a; UNIT as usize]);
            let again = World::of(image);
            let newest = again.run(peek(&*again.disk)).map_err(|error| error.to_string())?;
            let wanted = if way == 2 { State::GivenUp } else { State::AtRest };
            if newest.map(|slot| slot.state()) != Some(wanted) {
                return Err(format!("way {way}, damage at {slot}: {newest:?}"));
            }
            let rest =
                again.run(at_rest(&*again.disk, |_| ())).map_err(|error| error.to_string())?;
            let kept = rest.map(|live| again.walk(&live));
            if kept != (way != 2).then(|| placed.clone()) {
                return Err(format!("way {way}, damage at {slot}: {kept:?} is left"));
            }
            let next = Journal::begin(again.device(), EPOCH + 1, VOLUME, rest.as_ref());
            again.run(next).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// The last batch but one is damaged, anywhere: the batch after it was durable, so this is damage,
/// and no cut. Returns the number of bytes that were tried.
pub(crate) fn last_but_one() -> Result<usize, String> {
    let mut tried = 0;
    for (lengths, last) in [
        (&[100][..], &[100][..]),
        (&[100], &[60_000, 60_000, 60_000]),
        (&[60_000, 60_000, 60_000], &[100]),
        (&[60_000, 60_000, 60_000], &[60_000, 60_000, 60_000]),
        (&[20_000, 300, 60_000], &[1]),
        (&[LARGEST_BODY; 3], &[LARGEST_BODY; 3]),
    ] {
        for before in 0..9 {
            let world = World::smallest();
            let journal = world.begin(EPOCH);
            let mut sequence = 0;
            let mut drafts = |lengths: &[usize]| -> Vec<Draft> {
                let one = |&length: &usize| {
                    sequence += 1;
                    draft(sequence, length)
                };
                lengths.iter().map(one).collect()
            };
            for _ in 0..before {
                world.place(&journal, drafts(&[50_000]), Some(0));
            }
            let damaged = world.place(&journal, drafts(lengths), Some(0));
            world.place(&journal, drafts(last), Some(0));
            for placed in damaged {
                let at = AREA + placed.recno * UNIT;
                let end = at + (HEADER_SIZE + placed.draft.body.len()) as u64;
                for at in [at, at + 30, end - 1] {
                    tried += 1;
                    let mut image = world.disk.contents();
                    let mut byte = [0];
                    image.read(at, &mut byte);
                    image.write(at, &[byte[0] ^ 0x40]);
                    let read = World::of(image).read(EPOCH);
                    if !matches!(read, Err(JournalError::Damaged { .. })) {
                        let found = read.map(|read| read.map(|(live, _)| live));
                        return Err(format!("{lengths:?}, {last:?} after {before}: {found:?}"));
                    }
                }
            }
        }
    }
    Ok(tried)
}
