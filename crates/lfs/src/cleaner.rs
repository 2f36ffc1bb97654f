//! The cleaner: gathers the blocks in use of some segments in others, so that segments are empty.
//!
//! It copies what is in use, row by row, and then changes the places of the rows. Addresses stay:
//! no inode, no block of pointers and no checksum changes, and no file is locked. The copies are
//! flushed with the next checkpoint, which has the new places; until that is durable, a start after
//! a cut finds the old ones, which nothing has overwritten.
//!
//! Segments are chosen by benefit and cost: the space that is won, times the age of the segment,
//! over the bytes that are read and written. When space is short, age does not count.
//!
//! Invariants:
//! 1. A row is moved when all of its blocks are copied, and none came to it meanwhile.
//! 2. The cleaner leaves the next checkpoint its segments, and those of the batch before it.
//!
//! Not asserted: 1, which `rows` asserts; 2, which the takes below say.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::Buffer;
use bytes::Bytes;
use cache::coalesce::runs;
use cow::UNIT;
use futures::FutureExt;
use vfs::FsError;

use crate::log::Log;
use crate::rows::{Mover, Which};

/// Rounds that win nothing before the cleaner gives up.
const PATIENCE: u64 = 6;
/// Units that one round moves, at most.
const ROUND: u64 = 2048;
/// Bytes of one write.
const LONGEST: u64 = 1 << 20;

impl Log {
    /// Clean segments that are wanted before the cleaner rests.
    fn wanted(&self) -> u64 {
        self.shape.reserved() + (self.shape.segments() / 32).clamp(2, 64)
    }

    /// Whether the cleaner has to work.
    pub(crate) fn is_short(&self) -> bool {
        self.rows.clean() < self.wanted()
    }

    /// Starts the cleaner, unless it works already.
    pub(crate) fn tend(&self) {
        if !self.is_tending.replace(true) {
            let this = self.me();
            self.runtime.tasks.spawn(async move { this.clean_all().await }.boxed_local());
        }
    }

    /// Cleans until there are enough clean segments, or nothing is won any more. A round may win
    /// nothing though the next one does: its checkpoint takes segments as well.
    async fn clean_all(self: Rc<Self>) {
        let (mut most, mut idle, mut seen) = (0, 0, (0, 0));
        while self.is_short() && !self.live.horizon.has_stopped() {
            let lacks = self.wanted().saturating_sub(self.rows.clean());
            let done = if self.rows.dead() < lacks { self.clean_some().await } else { Ok(1) };
            let Ok(moved) = done else {
                self.live.horizon.fail();
                break;
            };
            if self.checkpoint().await.is_err() {
                break;
            }
            // Clean segments that somebody has taken meanwhile were won as well.
            let (clean, totals) = (self.rows.clean(), self.totals.get());
            let now = (totals.commits, totals.new_bytes);
            idle = if clean > most || now != seen { 0 } else { idle + 1 };
            (most, seen) = (clean, now);
            if idle > PATIENCE || moved == 0 && idle > 0 && self.rows.dead() == 0 {
                self.is_packed.set(true);
                break;
            }
        }
        self.is_tending.set(false);
        self.live.released.notify();
    }

    /// Cleans some segments. Returns the number of units that were moved.
    ///
    /// # Errors
    /// [`FsError::Io`] if something could not be written.
    pub(crate) async fn clean_some(&self) -> Result<u64, FsError> {
        let victims = self.choose();
        let mut copies: Vec<(Mover, Bytes)> = Vec::new();
        let mut cleaned = 0;
        for segment in victims {
            let Some(movers) = self.rows.movers(segment) else { continue };
            match self.read_segment(segment, &movers).await {
                Some(read) => copies.extend(read),
                None => {
                    self.rows.note_unreadable(segment);
                    continue;
                }
            }
            cleaned += 1;
        }
        // The longest first, so that others fill the ends of segments.
        copies.sort_by_key(|(mover, _)| mover.used.count());
        let mut writes = BTreeMap::new();
        let mut moves = Vec::new();
        let mut units = 0;
        while !copies.is_empty() {
            let left = self.rows.left(Which::Beside);
            let fits = copies.partition_point(|(mover, _)| mover.used.count() <= left);
            let index = if fits > 0 { fits - 1 } else { copies.len() - 1 };
            let count = copies[index].0.used.count();
            let place = self.rows.hold_units(count, self.for_next()); // invariant 2
            let Some(place) = place else { break };
            let (mover, data) = copies.remove(index);
            writes.insert(place * UNIT as u64, data);
            moves.push((mover, place));
            units += count;
        }
        let ranges = runs(writes, LONGEST);
        self.until_room(|| self.write_ranges(&ranges)).await?;
        for (mover, place) in &moves {
            self.rows.move_to(mover, *place); // invariant 1
        }
        self.count(|totals| {
            totals.cleaned_segments += cleaned;
            totals.moved_bytes += units * UNIT as u64;
            totals.written_bytes += units * UNIT as u64;
        });
        Ok(units)
    }

    /// The segments to clean now.
    fn choose(&self) -> Vec<u64> {
        let (number, all) = (self.rows.number.get(), self.shape.segment);
        let mut victims = self.rows.victims(self.durable.get() + 1);
        let is_urgent = self.rows.clean() <= self.shape.reserved();
        let score = |live: u64, closed: u64| {
            let use_of_it = live as f64 / all as f64;
            let age = if is_urgent { 1.0 } else { (number - closed) as f64 + 1.0 };
            (1.0 - use_of_it) * age / (1.0 + use_of_it)
        };
        victims.retain(|&(_, live, _)| live < all);
        victims.sort_by(|one, other| score(other.1, other.2).total_cmp(&score(one.1, one.2)));
        let spare = self.rows.clean().saturating_sub(self.for_next()) * all;
        let room = (spare + self.rows.left(Which::Beside)).min(ROUND.max(2 * all));
        let goal = (self.wanted().saturating_sub(self.rows.clean()) + 4) * all;
        let (mut moved, mut won, mut chosen) = (0, 0, Vec::new());
        for (segment, live, _) in victims {
            if moved + live > room || won >= goal {
                break;
            }
            (moved, won) = (moved + live, won + all - live);
            chosen.push(segment);
        }
        chosen
    }

    /// The blocks in use of rows of a segment: none if it cannot be read. Blocks that have rotted
    /// are moved as they are, under their old checksums.
    async fn read_segment(&self, segment: u64, movers: &[Mover]) -> Option<Vec<(Mover, Bytes)>> {
        let place = |mover: &Mover, index| mover.place + mover.present.rank(index);
        let ends = |mover: &Mover| {
            let indexes: Vec<u64> = mover.used.indexes().collect();
            [place(mover, indexes[0]), place(mover, indexes[indexes.len() - 1])]
        };
        let first = movers.iter().map(|mover| ends(mover)[0]).min()?;
        let last = movers.iter().map(|mover| ends(mover)[1]).max()?;
        assert_eq!(self.shape.segment_of(last), Some(segment), "a row is in one segment");
        let room = Buffer::unfilled((last + 1 - first) as usize * UNIT);
        let read = self.device.read(first * UNIT as u64, room).await.ok()?;
        let copy = |mover: &Mover| {
            let mut data = Vec::with_capacity(mover.used.count() as usize * UNIT);
            for index in mover.used.indexes() {
                let at = (place(mover, index) - first) as usize * UNIT;
                data.extend_from_slice(&read[at..at + UNIT]);
            }
            (*mover, Buffer::copied(&data).freeze())
        };
        Some(movers.iter().map(copy).collect())
    }
}
