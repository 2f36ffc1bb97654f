//! Roll-forward: the chain of summaries since the last checkpoint.
//!
//! A summary counts if the one before it does, and it is the one that this names. All but the last
//! were on stable storage, since the next one was begun after that. All blocks of the last one have
//! to fit their checksums: else a cut has torn it, and nobody was told of its changes. A summary
//! that is damaged before others of the same opening is no cut.
//!
//! Invariants:
//! 1. A summary that no later one calls flushed is believed with all of its blocks, or not at all.
//!
//! Not asserted: 1, which cuts test.

use std::collections::BTreeSet;

use block::{BlockDevice, Buffer};
use bytes::Bytes;
use cow::{Secret, UNIT, sum};

use crate::error::OpenError;
use crate::format::INDEX_BITS;
use crate::format::region::{Link, Region};
use crate::format::shape::Shape;
use crate::format::summary::{Contents, Summary};
use crate::format::table::Line;
use crate::planted::{Bug, is_planted};

/// Units of segments in which later summaries are looked for.
const BEHIND: u64 = 4096;

/// The segments in which nothing is in use.
fn clean(shape: &Shape, lines: &[Line]) -> impl Iterator<Item = u64> + use<> {
    let used = lines.iter().filter(|line| !line.used.is_empty());
    let used: BTreeSet<u64> = used.filter_map(|line| shape.segment_of(line.place)).collect();
    (0..shape.segments()).filter(move |segment| !used.contains(segment))
}

/// The log since a checkpoint.
#[derive(Default)]
pub(crate) struct Chain {
    /// Its batches, in order, each with the segments that it is in.
    pub(crate) batches: Vec<Batch>,
    /// Units that a flush may not have covered, with their contents.
    pub(crate) again: Vec<(u64, Bytes)>,
    /// Bytes that were read.
    pub(crate) read_bytes: u64,
    /// The first summary that is given up, though later ones are there.
    pub(crate) given_up: Option<u64>,
    /// The files that later ones change.
    pub(crate) lost: BTreeSet<u64>,
}

/// A batch of the log.
pub(crate) struct Batch {
    pub(crate) contents: Contents,
    /// Segments with a part of its summary.
    pub(crate) segments: Vec<u64>,
}

/// A summary that was found.
struct Seen {
    summary: Summary,
    contents: Contents,
    /// Its units.
    units: Vec<(u64, Bytes)>,
    link: Link,
}

/// Reads the chain that begins with a region. With `gives_up` it ends where it is damaged.
///
/// # Errors
/// [`OpenError::Log`] if acknowledged changes would be lost; [`OpenError::Io`].
pub(crate) async fn chain(
    device: &dyn BlockDevice,
    shape: &Shape,
    (region, secret): (&Region, &Secret),
    lines: &[Line],
    gives_up: bool,
) -> Result<Chain, OpenError> {
    let (mut chain, mut seen) = (Chain::default(), Vec::<Seen>::new());
    let mut link = region.log;
    let reader = Reader { device, shape, epoch: region.epoch, secret };
    loop {
        let next = match reader.summary(&link).await {
            Err(_) if gives_up => {
                chain.given_up = Some(link.sequence);
                break;
            }
            next => next?,
        };
        let Some(next) = next else { break };
        chain.read_bytes += (next.units.len() * UNIT) as u64;
        link = Link { previous: sum(&next.units[0].1), ..next.summary.next };
        seen.push(next);
    }
    let seen_in = seen.iter().flat_map(|it| it.units.iter().map(|unit| unit.0));
    let passed: BTreeSet<u64> = seen_in.filter_map(|unit| shape.segment_of(unit)).collect();
    let next = clean(shape, lines).filter(|segment| !passed.contains(segment));
    let later = match reader.later(&link, next).await {
        Err(_) if gives_up => Vec::new(),
        later => later?,
    };
    if !later.is_empty() {
        if !gives_up {
            return Err(OpenError::Log(link.sequence));
        }
        chain.given_up = Some(link.sequence);
        chain.lost = reader.files_of(&later).await;
    }
    let flushed = seen.iter().map(|it| it.summary.flushed).max().unwrap_or(0);
    if let Some(last) = seen.last().filter(|it| it.summary.sequence > flushed) {
        match reader.blocks(&last.contents).await? {
            Some(blocks) => {
                chain.read_bytes += blocks.iter().map(|(_, block)| block.len() as u64).sum::<u64>();
                chain.again.extend(last.units.iter().cloned());
                chain.again.extend(blocks);
            }
            None => _ = seen.pop(),
        }
    }
    for Seen { contents, units, link, .. } in seen {
        let places = units.iter().map(|&(place, _)| place).chain([link.place]);
        let segments = places.filter_map(|place| shape.segment_of(place)).collect();
        chain.batches.push(Batch { contents, segments });
    }
    Ok(chain)
}

struct Reader<'a> {
    device: &'a dyn BlockDevice,
    shape: &'a Shape,
    epoch: u64,
    secret: &'a Secret,
}

impl Reader<'_> {
    async fn read(&self, place: u64, units: u64) -> Result<Bytes, OpenError> {
        let inside = self.shape.segment_of(place).is_some()
            && self.shape.segment_of(place + units - 1).is_some();
        if !inside {
            return Err(OpenError::Damaged("a place of the log is in no segment"));
        }
        let room = Buffer::unfilled(units as usize * UNIT);
        Ok(self.device.read(place * UNIT as u64, room).await?.freeze())
    }

    /// The summary to which a link leads; none if it was not written, or is torn.
    async fn summary(&self, link: &Link) -> Result<Option<Seen>, OpenError> {
        let block = self.read(link.place, 1).await?;
        let Some(summary) = Summary::read(&block, link.place, self.epoch, self.secret) else {
            return Ok(None);
        };
        if summary.sequence != link.sequence || summary.previous != link.previous {
            return Ok(None);
        }
        let (mut units, mut bytes) = (vec![(link.place, block)], summary.first.clone());
        let mut rest = Vec::new();
        for &(place, count) in &summary.ranges {
            if u64::from(count) > self.shape.segment || count == 0 {
                return Err(OpenError::Damaged("a summary is longer than its segment"));
            }
            let range = self.read(place, count.into()).await?;
            rest.extend_from_slice(&range);
            units.push((place, range));
        }
        if sum(&rest) != summary.sum {
            return Ok(None);
        }
        bytes.extend_from_slice(&rest[..summary.length as usize - summary.first.len()]);
        let contents = Contents::read(&bytes);
        let contents = contents.ok_or(OpenError::Damaged("a summary makes no sense"))?;
        Ok(Some(Seen { summary, contents, units, link: *link }))
    }

    /// The blocks of a batch, by their places; none if one does not fit its checksum.
    async fn blocks(&self, contents: &Contents) -> Result<Option<Vec<(u64, Bytes)>>, OpenError> {
        let mut blocks = Vec::new();
        for &(address, right) in &contents.blocks {
            let (row, index) = (address >> INDEX_BITS, address & ((1 << INDEX_BITS) - 1));
            let row = contents.rows.iter().find(|logged| u64::from(logged.row) == row);
            let row = row.ok_or(OpenError::Damaged("a block of the log has no row"))?;
            let place = row.place + row.present.rank(index);
            let block = self.read(place, self.shape.block).await?;
            if sum(&block) != right && !is_planted(Bug::UncomparedBlocks) {
                return Ok(None);
            }
            blocks.push((place, block));
        }
        Ok(Some(blocks))
    }

    /// Summaries of this opening behind a place where none is, as links: in the rest of its
    /// segment, in the one that the log was to enter next, or in the segments after that, which are
    /// the lowest of those that are clean. The data of one batch fills no more than [`BEHIND`].
    async fn later(
        &self,
        link: &Link,
        clean: impl Iterator<Item = u64>,
    ) -> Result<Vec<Link>, OpenError> {
        let Some(segment) = self.shape.segment_of(link.place) else {
            return Err(OpenError::Damaged("a place of the log is in no segment"));
        };
        let rest = link.place + 1..self.shape.units_of(segment).end;
        let ahead = link.ahead.filter(|&segment| segment < self.shape.segments());
        let most = (BEHIND / self.shape.segment).max(2) as usize;
        let others = clean.filter(|&other| other != segment && Some(other) != ahead).take(most);
        let next = ahead.map(|ahead| self.shape.units_of(ahead));
        let ranges = [(Some(rest), true), (next, true)].into_iter();
        let others = others.map(|other| (Some(self.shape.units_of(other)), false));
        let mut later = Vec::new();
        for (range, is_next) in ranges.chain(others) {
            let Some(range) = range.filter(|range| !range.is_empty()) else { continue };
            let bytes = match self.read(range.start, range.end - range.start).await {
                Err(_) if !is_next => continue, // nothing is there, most probably
                read => read?,
            };
            for (place, block) in range.zip(bytes.chunks(UNIT)) {
                let summary = Summary::read(block, place, self.epoch, self.secret);
                let summary = summary.filter(|summary| summary.sequence > link.sequence);
                later.extend(summary.map(|it| Link {
                    place,
                    sequence: it.sequence,
                    previous: it.previous,
                    ahead: None,
                }));
            }
        }
        Ok(later)
    }

    /// The files that these summaries change.
    async fn files_of(&self, later: &[Link]) -> BTreeSet<u64> {
        let mut files = BTreeSet::new();
        for link in later {
            let Ok(Some(seen)) = self.summary(link).await else { continue };
            for edit in seen.contents.edits.all() {
                files.extend(edit.file());
            }
        }
        files
    }
}
