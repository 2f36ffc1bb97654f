//! Delayed writes: file data that the log has already, and that waits to be written in place.
//!
//! Small data is stored in the entry of its Update and is durable with that. So no task has to wait
//! for the write in place: the data stays here until the next sync, goes out with its neighbours,
//! and blocks that were overwritten meanwhile are written once. Readers see it over the contents of
//! the device.
//!
//! ```text
//!  staged --> waiting --> landing --> on the device, not yet flushed
//!                 `--> written over, or given back: it is not needed any more
//! ```
//!
//! Invariants:
//! 1. Within the waiting and within the landing data, stretches do not overlap. Waiting data is
//!    newer than landing data.
//! 2. One landing at a time, of all waiting data. So when one has ended, everything is on the
//!    device that was delayed before it was requested.
//! 3. Landing data stays visible until the landing has ended: the device may have anything there
//!    meanwhile.
//! 4. No other task writes where something is delayed: one that would has it land first
//!    ([`crate::DataPath::write_over`]), and a block is used again only after
//!    [`DelayedWrites::forget`].
//! 5. After a failed landing none succeeds. Its data stays, here and in the log. A landing that was
//!    refused because there is no room below has not failed: its data waits again.
//!
//! Not asserted: 4, which does not hold on a damaged disk, where files share blocks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError};
use bytes::Bytes;
use futures::future::join_all;
use runtime::sync::{Semaphore, Signal};

use crate::coalesce::{Run, runs};
use crate::memory::Meter;
use crate::planted::{Bug, is_planted};
use crate::refusals::{Refusals, all_written};

/// The most bytes of neighbours that go out with one write.
const RUN_MOST: u64 = 1 << 20;
/// Writes in flight at a time.
const WRITES_AT_ONCE: usize = 64;

/// See the module's prose. All positions are bytes of the disk.
pub(crate) struct DelayedWrites {
    waiting: RefCell<Stretches>,
    landing: RefCell<Stretches>,
    /// Invariant 2.
    turn: Rc<Semaphore>,
    landed: Signal,
    /// Invariant 5.
    failure: RefCell<Option<IoError>>,
    memory: Meter,
    /// The part of that counted for both stages.
    counted: Cell<usize>,
}

/// Stretches of data by first byte (invariant 1), each with memory of its own.
#[derive(Default)]
struct Stretches {
    all: BTreeMap<u64, Bytes>,
    bytes: usize,
    /// Bytes of memory that they take.
    memory: usize,
}

impl DelayedWrites {
    /// No delayed writes; `memory` counts what they will take.
    pub(crate) fn new(memory: Meter) -> Self {
        Self {
            waiting: RefCell::default(),
            landing: RefCell::default(),
            turn: Semaphore::new(1),
            landed: Signal::new(),
            failure: RefCell::default(),
            memory,
            counted: Cell::new(0),
        }
    }

    /// Takes data that the log has or is about to have, with memory of its own.
    pub(crate) fn add(&self, start: u64, data: Bytes) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.cut(&range_of(start, &data));
        waiting.insert(start, data);
        drop(waiting);
        self.recount();
    }

    /// Landing data waits again, under newer data (invariant 1).
    fn wait_again(&self) {
        let newer = self.waiting.take();
        *self.waiting.borrow_mut() = self.landing.take();
        newer.all.into_iter().for_each(|(start, data)| self.add(start, data));
        self.recount();
    }

    /// Bytes of delayed data.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.borrow().bytes + self.landing.borrow().bytes
    }

    /// Updates the memory that both stages take in the budget.
    fn recount(&self) {
        let now = self.waiting.borrow().memory + self.landing.borrow().memory;
        self.memory.add(now);
        self.memory.subtract(self.counted.replace(now));
    }

    /// Whether a part of `range` is delayed.
    pub(crate) fn has_any(&self, range: &Range<u64>) -> bool {
        let has_any = |stage: &RefCell<Stretches>| stage.borrow().within(range).next().is_some();
        has_any(&self.waiting) || has_any(&self.landing)
    }

    /// Delayed data of a range, as offsets in it and bytes, later ones over earlier ones.
    pub(crate) fn over(&self, range: &Range<u64>) -> Vec<(usize, Bytes)> {
        if is_planted(Bug::UnseenDelays) {
            return Vec::new();
        }
        let part = |(start, data): (u64, &Bytes)| {
            let from = start.max(range.start);
            let to = (start + data.len() as u64).min(range.end);
            let data = data.slice((from - start) as usize..(to - start) as usize);
            ((from - range.start) as usize, data)
        };
        let stages = [self.landing.borrow(), self.waiting.borrow()];
        stages.iter().flat_map(|stage| stage.within(range).map(part)).collect()
    }

    /// Writes all data delayed so far to the device.
    ///
    /// # Errors
    /// Those of the device; then nothing is written there any more (invariant 5).
    pub(crate) async fn land(
        &self,
        device: &dyn BlockDevice,
        refusals: &Refusals,
    ) -> Result<(), IoError> {
        let _turn = self.turn.acquire(1).await;
        if let Some(failure) = &*self.failure.borrow() {
            return Err(failure.clone());
        }
        let bytes;
        let runs = {
            let mut landing = self.landing.borrow_mut();
            assert!(landing.all.is_empty(), "nobody leaves a landing halfway (invariant 2)");
            *landing = self.waiting.take();
            bytes = landing.bytes;
            runs(landing.all.iter().map(|(&start, data)| (start, data.clone())), RUN_MOST)
        };
        for some in runs.chunks(WRITES_AT_ONCE) {
            let writes = some.iter().map(|Run { start, pieces, .. }| {
                device.write(*start, pieces.clone(), Durability::Plain)
            });
            if let Err(failure) = all_written(join_all(writes).await) {
                refusals.note(&failure);
                if failure.is_full() {
                    self.wait_again()
                } else {
                    *self.failure.borrow_mut() = Some(failure.clone())
                }
                self.landed.notify();
                return Err(failure);
            }
        }
        let landed = self.landing.take();
        assert_eq!(landed.bytes, bytes, "invariant 3: what lands shows until that has ended");
        assert!(
            self.failure.borrow().is_none(),
            "invariant 5: no landing succeeds after a failure"
        );
        self.recount();
        self.landed.notify();
        Ok(())
    }

    /// Data delayed there was written in place in another way, or is not needed. Nothing lands.
    pub(crate) fn drop(&self, range: &Range<u64>) {
        assert!(self.landing.borrow().all.is_empty(), "invariant 3: what lands shows");
        self.waiting.borrow_mut().cut(range);
        self.recount();
    }

    /// These bytes were freed, and that is durable: data delayed there is not needed. Completes
    /// when no write to them is in flight.
    pub(crate) async fn forget(&self, range: Range<u64>) {
        if is_planted(Bug::KeptDelays) {
            return;
        }
        self.waiting.borrow_mut().cut(&range);
        self.recount();
        while self.failure.borrow().is_none() && self.has_any(&range) {
            self.landed.wait().await;
        }
    }
}

impl Stretches {
    /// The stretches that overlap `range`.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Bytes)> {
        let before = self.all.range(..range.start).next_back();
        let before = before.filter(|(start, data)| *start + data.len() as u64 > range.start);
        let inside = self.all.range(range.start..range.end.max(range.start));
        before.into_iter().chain(inside).map(|(&start, data)| (start, data))
    }

    fn insert(&mut self, start: u64, data: Bytes) {
        self.bytes += data.len();
        self.memory += memory_of(&data);
        let old = self.all.insert(start, data);
        assert!(old.is_none(), "invariant 1");
    }

    /// Removes the data in `range`.
    fn cut(&mut self, range: &Range<u64>) {
        let hit: Vec<_> = self.within(range).map(|(start, data)| (start, data.clone())).collect();
        for (start, data) in hit {
            self.all.remove(&start);
            self.bytes -= data.len();
            self.memory -= memory_of(&data);
            let end = start + data.len() as u64;
            let (from, to) = (start.max(range.start), end.min(range.end));
            // A slice of the rest would keep all of its memory.
            let own = |range: Range<u64>| {
                Buffer::copied(&data[(range.start - start) as usize..(range.end - start) as usize])
            };
            if start < from {
                self.insert(start, own(start..from).freeze());
            }
            if to < end {
                self.insert(to, own(to..end).freeze());
            }
        }
    }
}

/// Bytes of memory that a stretch takes.
fn memory_of(data: &Bytes) -> usize {
    block::memory_of(data.len()) + size_of::<Bytes>()
}

fn range_of(start: u64, data: &Bytes) -> Range<u64> {
    start..start + data.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delayed() -> DelayedWrites {
        DelayedWrites::new(Meter::default())
    }

    fn bytes(byte: u8, length: usize) -> Bytes {
        vec![byte; length].into()
    }

    /// The bytes 0 to 16 as a reader sees them, over dots.
    fn seen(delayed: &DelayedWrites) -> String {
        let mut all = vec![b'.'; 16];
        for (at, data) in delayed.over(&(0..16)) {
            all[at..at + data.len()].copy_from_slice(&data);
        }
        String::from_utf8(all).expect("letters")
    }

    #[test]
    fn what_is_newer_shows_and_each_byte_counts_once() {
        let delayed = delayed();
        delayed.add(2, bytes(b'a', 8));
        delayed.add(4, bytes(b'b', 2));
        assert_eq!(seen(&delayed), "..aabbaaaa......");
        delayed.add(8, bytes(b'c', 6));
        assert_eq!(seen(&delayed), "..aabbaacccccc..");
        let of_one = 4096 + size_of::<Bytes>();
        assert_eq!((delayed.bytes(), delayed.memory.bytes()), (12, 4 * of_one));
        *delayed.landing.borrow_mut() = delayed.waiting.take();
        delayed.add(0, bytes(b'd', 3));
        assert_eq!(seen(&delayed), "dddabbaacccccc..");
        assert_eq!(delayed.over(&(3..5)), [(0, bytes(b'a', 1)), (1, bytes(b'b', 1))]);
        assert!(delayed.has_any(&(13..20)) && !delayed.has_any(&(14..20)));
    }

    #[test]
    fn what_is_given_back_goes_and_its_neighbours_stay() {
        let delayed = delayed();
        delayed.add(0, bytes(b'a', 16));
        for (range, left) in [(4..8, 12), (4..8, 12), (0..100, 0)] {
            delayed.waiting.borrow_mut().cut(&range);
            assert_eq!(delayed.bytes(), left);
            let shown = if left == 0 { "................" } else { "aaaa....aaaaaaaa" };
            assert_eq!(seen(&delayed), shown);
        }
        delayed.recount();
        assert_eq!(delayed.memory.bytes(), 0);
    }
}
