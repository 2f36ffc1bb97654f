//! A summary: what one commit changes. It makes the blocks beside it a part of the volume.
//!
//! A summary is a unit at a place that the summary before it names, and further units if it is
//! long. It names the place of the next one. It is believed if its checksum fits, the checksum of
//! the one before it is as it says, and it has the epoch of the checkpoint with which the chain
//! begins.

use cow::edits::{Change, Edits};
use cow::{Head, Place, Run, Secret, UNIT};
use vnode::chain::Chain;

use super::alone::{body_bytes, opened, sealed};
use super::bits::Bits;
use super::codec::{Reader, Writer};
use super::kind;
use super::region::{Counts, Link, read_counts, read_link, write_counts, write_link};

/// Bytes of the fixed part of a summary: a link, an epoch's last flush, lengths and a checksum.
const FIXED: usize = 32 + 8 + 4 + 8 + 4;
/// Bytes of a range of further units.
const RANGE: usize = 12;

/// A row of the log, as far as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRow {
    /// Its number.
    pub row: u32,
    /// The first of its units.
    pub place: u64,
    /// Indexes that have a unit there.
    pub present: Bits,
}

/// The changes of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Counts of the live tree, with all changes.
    pub counts: Counts,
    /// Open chains then.
    pub chains: Vec<Chain>,
    /// Rows that the log has begun, or gone on with.
    pub rows: Vec<LoggedRow>,
    /// Blocks of files that were written, each with its checksum.
    pub blocks: Vec<(u64, u64)>,
    /// Blocks of files that are free.
    pub freed: Vec<Run>,
    /// Replies.
    pub answers: Vec<Vec<u8>>,
    /// Changes of blocks of metadata.
    pub edits: Edits,
}

/// The unit of a summary, apart from its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its own place in the chain.
    pub sequence: u64,
    /// The summary after it, as far as that is known: the checksum of this one is not.
    pub next: Link,
    /// The checksum of the summary before it.
    pub previous: u64,
    /// Everything up to the summary with this number is on stable storage.
    pub flushed: u64,
    /// Units that follow: the first of each range, and their number.
    pub ranges: Vec<(u64, u32)>,
    /// Bytes of the contents.
    pub length: u32,
    /// Checksum of the units that follow.
    pub sum: u64,
    /// The first bytes of the contents.
    pub first: Vec<u8>,
}

/// Bytes of contents that are in the first unit of a summary with so many ranges.
pub fn inline(ranges: usize) -> usize {
    body_bytes() - FIXED - ranges * RANGE
}

/// Ranges that a summary may have.
pub const MOST_RANGES: usize = 128;

fn place(epoch: u64, unit: u64) -> Place {
    Place { kind: kind::SUMMARY, owner: epoch, level: 0, index: unit }
}

impl Summary {
    /// Encodes it, for this unit.
    pub fn write(&self, unit: u64, epoch: u64, secret: &Secret) -> Vec<u8> {
        let mut body = Writer::default();
        write_link(&mut body, &Link { previous: self.previous, ..self.next });
        body.u64(self.flushed);
        body.u32(self.length);
        body.u64(self.sum);
        body.count(self.ranges.len());
        for &(start, units) in &self.ranges {
            body.u64(start);
            body.u32(units);
        }
        body.bytes(&self.first);
        sealed(body, place(epoch, unit), self.sequence, secret)
    }

    /// Decodes it; none if the block is something else.
    pub fn read(block: &[u8], unit: u64, epoch: u64, secret: &Secret) -> Option<Self> {
        let (sequence, mut body) = opened(block, place(epoch, unit), secret)?;
        let next = read_link(&mut body)?;
        let (flushed, length, sum) = (body.u64()?, body.u32()?, body.u64()?);
        let ranges = body.list(RANGE, |body| Some((body.u64()?, body.u32()?)))?;
        if ranges.len() > MOST_RANGES {
            return None;
        }
        let first = body.bytes(inline(ranges.len()).min(length as usize))?.to_vec();
        let units: u64 = ranges.iter().map(|&(_, units)| u64::from(units)).sum();
        let rest = length as usize - first.len();
        if rest.div_ceil(UNIT) as u64 != units {
            return None;
        }
        let previous = next.previous;
        Some(Self { sequence, next, previous, flushed, ranges, length, sum, first })
    }
}

impl Contents {
    /// Encodes them.
    pub fn write(&self) -> Vec<u8> {
        let mut body = Writer::default();
        write_counts(&mut body, &self.counts, &self.chains);
        body.count(self.rows.len());
        for row in &self.rows {
            body.u32(row.row);
            body.u64(row.place);
            row.present.0.into_iter().for_each(|word| body.u64(word));
        }
        body.count(self.blocks.len());
        for &(address, sum) in &self.blocks {
            body.u64(address);
            body.u64(sum);
        }
        body.count(self.freed.len());
        for run in &self.freed {
            body.u64(run.start);
            body.u32(run.length.try_into().expect("a run is in a row"));
        }
        body.count(self.answers.len());
        for answer in &self.answers {
            body.u16(answer.len().try_into().expect("a reply is short"));
            body.bytes(answer);
        }
        body.count(self.edits.all().len());
        for edit in self.edits.all() {
            body.u64(edit.owner);
            body.u8(edit.level);
            body.u32(edit.index.try_into().expect("a block that a tree has"));
            match &edit.change {
                Change::Gone => body.u16(0),
                Change::Bytes(at, range) => {
                    let bytes = self.edits.bytes(range);
                    body.u16((*at).try_into().expect("it is in a block"));
                    body.u16(bytes.len().try_into().expect("it is in a block"));
                    body.bytes(bytes);
                }
            }
        }
        body.0
    }

    /// Decodes them; none if they make no sense.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut body = Reader(bytes);
        let (counts, chains) = read_counts(&mut body)?;
        let rows = body.list(44, |body| {
            let (row, place) = (body.u32()?, body.u64()?);
            let mut present = Bits::default();
            for word in &mut present.0 {
                *word = body.u64()?;
            }
            Some(LoggedRow { row, place, present })
        })?;
        let blocks = body.list(16, |body| Some((body.u64()?, body.u64()?)))?;
        let freed =
            body.list(12, |body| Some(Run { start: body.u64()?, length: body.u32()?.into() }))?;
        let answers = body.list(2, |body| {
            let length = body.u16()?;
            body.bytes(length.into()).map(<[u8]>::to_vec)
        })?;
        let mut edits = Edits::default();
        body.list(15, |body| {
            let name = (body.u64()?, body.u8()?, u64::from(body.u32()?));
            match usize::from(body.u16()?) {
                0 => edits.add_gone(name),
                at => {
                    let length = usize::from(body.u16()?);
                    let is_within = at >= size_of::<Head>() && at < UNIT && length <= UNIT - at;
                    edits.add_bytes(name, at, body.bytes(length).filter(|_| is_within)?);
                }
            }
            Some(())
        })?;
        let is_all = body.0.is_empty();
        is_all.then_some(Self { counts, chains, rows, blocks, freed, answers, edits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let mut edits = Edits::default();
        edits.add_bytes((7, 1, 3), 100, &[1, 2, 3]);
        edits.add_gone((1 << 31, 0, (1 << 29) - 1));
        edits.add_bytes((2, 0, 0), UNIT - 1, &[9]);
        let mut present = Bits::default();
        present.set(3);
        Contents {
            counts: Counts { files: 3, ..Counts::default() },
            chains: vec![Chain { ino: 20, generation: 5, size: None }],
            rows: vec![LoggedRow { row: 4, place: 900, present }],
            blocks: vec![(5 << 8, 99), (6 << 8, 98)],
            freed: vec![Run { start: 4 << 8, length: 2 }],
            answers: vec![vec![1, 2, 3], Vec::new()],
            edits,
        }
    }

    #[test]
    fn contents_are_read_as_they_were_written() {
        let bytes = contents().write();
        assert_eq!(Contents::read(&bytes), Some(contents()));
        for end in 0..bytes.len() {
            assert_eq!(Contents::read(&bytes[..end]), None, "cut after {end}");
        }
    }

    #[test]
    fn a_summary_is_read_as_it_was_written() {
        let next = Link { place: 12, sequence: 6, previous: 0, ahead: Some(3) };
        let ranges = vec![(77, 2), (99, 1)];
        let first = vec![5; inline(2)];
        let length = (first.len() + 2 * UNIT + 1) as u32;
        let summary = Summary {
            sequence: 5,
            next: Link { previous: 8, ..next },
            previous: 8,
            flushed: 4,
            ranges,
            length,
            sum: 44,
            first,
        };
        let block = summary.write(11, 1 << 60, &[2; 16]);
        assert_eq!(Summary::read(&block, 11, 1 << 60, &[2; 16]), Some(summary));
        assert_eq!(Summary::read(&block, 12, 1 << 60, &[2; 16]), None, "it is at its place alone");
        assert_eq!(Summary::read(&block, 11, 1, &[2; 16]), None, "of its epoch alone");
    }
}
