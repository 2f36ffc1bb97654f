//! The keeper: a task that writes dirty blocks below and makes buffers free.
//!
//! Blocks go below in rounds, some of which are under way at a time: while one reads the memory or
//! flushes, others keep the disks busy.
//!
//! It works while few buffers are free, while many blocks are dirty, or while everything is to go
//! below. Blocks go below in the order of their addresses, neighbours together; pinned ones only
//! with everything.
//!
//! Commit point of a destage: the flush below. Only after it a block is clean.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use block::{Buffer as Memory, Durability, IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use runtime::Instant;

use crate::cache::Cache;
use crate::directory::{Buffer, Entry, Outcome};
use crate::format::{BLOCK, MARKS, SECTOR, encode_marks, marks_in};
use crate::planted::{Bug, is_planted};
use crate::reading::runs;

/// Blocks of one round, and the most rounds at a time.
pub(crate) const ROUND: usize = 64;
const ROUNDS: usize = 8;
/// The most that one write below takes.
const RUN: u64 = 1 << 20;
/// Time for which a copy of void marks counts as whole without another look: each voiding would
/// read it, and a copy rots once in years.
const TRUST: Duration = Duration::from_secs(60);
/// Time between attempts while the device below has no room.
const AGAIN: Duration = Duration::from_secs(1);

/// Bytes that go below with one write.
struct Run {
    range: Range<u64>,
    pieces: Vec<Bytes>,
    /// The blocks whose they are, by their numbers in a round.
    blocks: Vec<usize>,
}

impl Run {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Starts the keeper of a cache: it ends when that is closed or dropped.
pub(crate) fn start(cache: &Rc<Cache>) {
    let (weak, wake) = (Rc::downgrade(cache), cache.wake.clone());
    let keeper = async move {
        let mut from = 0;
        loop {
            let woken = wake.wait();
            let Some(cache) = Weak::upgrade(&weak) else { return };
            if cache.is_closed.get() {
                cache.moved.notify();
                return;
            }
            cache.is_keeping.set(true);
            cache.work(&mut from).await;
            cache.is_keeping.set(false);
            if cache.rounds.get() == 0 {
                cache.moved.notify(); // else the end of a round does, and until then nothing is new
            }
            drop(cache);
            woken.await;
        }
    };
    cache.runtime.tasks.spawn(keeper.boxed_local());
}

impl Cache {
    /// Whether the keeper or one of its rounds is at work.
    pub(crate) fn is_working(&self) -> bool {
        self.is_keeping.get() || self.rounds.get() > 0
    }

    /// Waits until neither is.
    pub(crate) async fn rest(&self) {
        while self.is_working() {
            self.moved.wait().await;
        }
    }

    /// Works until there is nothing to do, or until a round has to end first.
    async fn work(self: &Rc<Self>, from: &mut u64) {
        loop {
            if self.check(Verb::Write).is_err() {
                return;
            }
            let is_low = self.is_low();
            let drains = self.is_draining.get() || self.is_hurried.get() || self.distrusts();
            let drains = drains && self.directory.borrow().dirty() > 0;
            let is_wanted = !self.wanted.borrow().is_empty();
            if !is_low && !drains && !is_wanted && !self.is_high() {
                return;
            }
            let mut has_moved = false;
            if is_wanted {
                has_moved |= self.serve_wanted().await;
            }
            if is_low {
                has_moved |= self.void_some(None).await;
            }
            if drains || self.is_high() || is_low && !has_moved {
                has_moved |= self.begin_rounds(from, drains, ROUNDS);
            }
            if is_low && !has_moved && self.rounds.get() == 0 {
                // Pinned blocks go below if nothing else makes room.
                has_moved = self.begin_rounds(from, true, 1);
            }
            if !has_moved {
                // Nothing that is lost makes room for anything.
                let is_idle = self.rounds.get() == 0;
                self.is_stuck.set(is_low && is_idle && self.directory.borrow().is_stuck());
                return;
            }
            self.moved.notify();
        }
    }

    /// Makes buffers free whose entries are not needed: writes their void marks, durably.
    /// If some blocks are wanted, only theirs.
    pub(crate) async fn void_some(&self, wanted: Option<&BTreeSet<u64>>) -> bool {
        let most = (self.directory.borrow().buffers() / 8).max(1) as usize;
        let mut chosen = self.directory.borrow_mut().begin_voiding(most, wanted);
        if chosen.is_empty() {
            // Entries may only lack a flush.
            if self.flush().await.is_err() {
                return false;
            }
            chosen = self.directory.borrow_mut().begin_voiding(most, wanted);
        }
        if chosen.is_empty() {
            return false;
        }
        let marked =
            if is_planted(Bug::HastyReuse) { Ok(()) } else { self.write_marks(&chosen).await };
        let mut directory = self.directory.borrow_mut();
        match marked {
            Ok(()) => {
                directory.voided(&chosen);
                self.step();
            }
            Err(error) => {
                directory.not_voided(chosen);
                drop(directory);
                self.fail_memory(&error);
            }
        }
        true
    }

    /// Writes the void marks of these buffers durably.
    pub(crate) async fn write_marks(&self, buffers: &[Buffer]) -> Result<(), IoError> {
        let mut sectors: Vec<u64> = buffers.iter().map(|buffer| buffer / MARKS).collect();
        sectors.sort_unstable();
        sectors.dedup();
        let seconds = sectors.iter().map(|&sector| self.has_whole_second(sector));
        let are_whole = join_all(seconds).await;
        let with = |is_whole: bool| {
            let both = sectors.iter().zip(&are_whole).filter(move |(_, it)| **it == is_whole);
            both.map(|(sector, _)| *sector).collect::<Vec<u64>>()
        };
        self.write_mark_sectors(&with(true), [0, 1]).await?;
        self.write_mark_sectors(&with(false), [1, 0]).await
    }

    /// Whether the second copy of a sector of the void map is whole, as a look a short time ago has
    /// shown, or one now.
    async fn has_whole_second(&self, sector: u64) -> bool {
        let now = self.runtime.clock.now();
        let known = self.whole_marks.borrow().get(&sector).copied();
        if known.is_some_and(|at| now.since(at) < TRUST) {
            return true;
        }
        let room = Memory::unfilled(SECTOR as usize);
        let read = self.memory.read(self.layout.map(sector)[1], room).await;
        let is_whole = read.is_ok_and(|bytes| marks_in(&bytes, &self.id).is_some());
        if is_whole {
            self.whole_marks.borrow_mut().insert(sector, now);
        }
        is_whole
    }

    /// Writes sectors of the void map durably: one copy of each, and then the other, so that a cut
    /// leaves one of them whole. A copy that is damaged comes first.
    pub(crate) async fn write_mark_sectors(
        &self,
        sectors: &[u64],
        order: [usize; 2],
    ) -> Result<(), IoError> {
        if sectors.is_empty() {
            return Ok(());
        }
        let write = |(sector, copy): (u64, usize)| {
            let directory = self.directory.borrow();
            let of = sector * MARKS..(sector + 1) * MARKS;
            let void: Vec<u64> = of.map(|buffer| directory.void(buffer)).collect();
            let bytes = encode_marks(&self.id, directory.durable(), &void);
            let bytes = vec![Bytes::copy_from_slice(&bytes)];
            self.memory.write(self.layout.map(sector)[copy], bytes, Durability::Plain)
        };
        for copy in order {
            let all = sectors.iter().map(|&sector| write((sector, copy)));
            join_all(all).await.into_iter().collect::<Result<(), _>>()?;
            if copy == order[0] && !is_planted(Bug::TwinMarks) {
                self.memory.flush().await?;
            }
        }
        self.flush().await
    }

    /// Begins rounds until so many are under way. Whether there was something to begin.
    fn begin_rounds(self: &Rc<Self>, from: &mut u64, are_all: bool, most: usize) -> bool {
        let mut has_begun = false;
        while self.rounds.get() < most {
            let going = self.begin_round(from, are_all);
            if going.is_empty() {
                break;
            }
            self.rounds.set(self.rounds.get() + 1);
            has_begun = true;
            let cache = self.clone();
            let round = async move {
                cache.destage(going, are_all).await;
                cache.rounds.set(cache.rounds.get() - 1);
                cache.step();
                cache.wake.notify();
            };
            self.runtime.tasks.spawn(round.boxed_local());
        }
        has_begun
    }

    /// The entries of a round, pinned ones only if all are to go below.
    pub(crate) fn begin_round(&self, from: &mut u64, are_all: bool) -> Vec<(Buffer, Entry)> {
        let places = self.directory.borrow().next_dirty(*from, ROUND, are_all);
        if let Some(last) = places.last() {
            *from = last + 1;
        }
        self.begin_destage(places)
    }

    /// The current entries of these blocks, sorted, as far as they are dirty: they go below now.
    pub(crate) fn begin_destage(&self, places: Vec<u64>) -> Vec<(Buffer, Entry)> {
        let mut going: Vec<(Buffer, Entry)> = Vec::new();
        for place in places {
            let mut directory = self.directory.borrow_mut();
            if let Some((buffer, entry)) = directory.destage(place) {
                directory.hold(buffer);
                going.push((buffer, entry));
            }
        }
        going.sort_unstable_by_key(|(_, entry)| entry.place);
        going
    }

    /// Writes entries below that were begun, pinned ones only if all are to go there. Whether there
    /// are any.
    pub(crate) async fn destage(&self, going: Vec<(Buffer, Entry)>, are_all: bool) -> bool {
        if going.is_empty() {
            return false;
        }
        let is_known =
            |(_, entry): &(Buffer, Entry)| self.directory.borrow().is_refused(entry.place);
        let are_known = going.iter().all(is_known);
        let done = self.send(&going).await;
        let outcome = |number: usize| done.as_ref().map_or(Outcome::Failed, |all| all[number]);
        let mut written = 0;
        for (number, (buffer, entry)) in going.iter().enumerate() {
            let mut directory = self.directory.borrow_mut();
            directory.release(*buffer);
            directory.destaged(*buffer, entry.sequence, outcome(number));
            written += u64::from(outcome(number) == Outcome::Below);
        }
        self.counts.borrow_mut().write_backs += written;
        if let Err(error) = &done {
            self.fail(error);
        }
        let are_refused = self.directory.borrow().are_refused(are_all);
        if are_refused {
            self.refused_at.set(Some(self.runtime.clock.now()));
        }
        if done.is_ok() && written == 0 && (are_refused || are_known) {
            self.moved.notify(); // who waits for room hears of it
            self.runtime.clock.sleep(AGAIN).await;
        }
        self.step();
        true
    }

    /// Writes blocks below, and flushes. Gives the outcome of each.
    async fn send(&self, going: &[(Buffer, Entry)]) -> Result<Vec<Outcome>, IoError> {
        let read = going.iter().map(|(buffer, entry)| self.read_entry(*buffer, entry));
        let blocks = join_all(read).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut outcomes = vec![Outcome::Below; going.len()];
        let mut writes: Vec<Run> = Vec::new();
        for (number, ((buffer, entry), block)) in going.iter().zip(blocks).enumerate() {
            let Some(block) = block else {
                self.directory.borrow_mut().lose(*buffer, entry.sequence);
                outcomes[number] = Outcome::Lost;
                continue;
            };
            let block = block.freeze();
            for run in runs(entry.place, entry.mask) {
                let start = (run.start - entry.place * BLOCK) as usize;
                let piece = block.slice(start..start + (run.end - run.start) as usize);
                match writes.last_mut() {
                    Some(last) if last.range.end == run.start && last.length() < RUN => {
                        last.pieces.push(piece);
                        last.range.end = run.end;
                        last.blocks.push(number);
                    }
                    _ => writes.push(Run { range: run, pieces: vec![piece], blocks: vec![number] }),
                }
            }
        }
        let write =
            |run: &Run| self.below.write(run.range.start, run.pieces.clone(), Durability::Plain);
        let written = join_all(writes.iter().map(write)).await;
        for (run, written) in writes.iter().zip(written) {
            match written {
                Ok(()) => {}
                Err(error) if error.is_full() => {
                    run.blocks.iter().for_each(|&number| outcomes[number] = Outcome::Refused);
                }
                Err(error) => return Err(error),
            }
        }
        if outcomes.contains(&Outcome::Below) && !is_planted(Bug::EarlyClean) {
            self.flush_below().await?;
        }
        Ok(outcomes)
    }

    /// Whether the device below has no room for anything, as a recent attempt has shown.
    pub(crate) fn is_refused(&self) -> bool {
        let now = self.runtime.clock.now();
        let of = |at: Instant| now.since(at) < 2 * AGAIN || is_planted(Bug::OldRefusal);
        let is_recent = self.refused_at.get().is_some_and(of);
        let directory = self.directory.borrow();
        let are_refused = directory.are_refused(directory.dirty() == directory.pinned());
        is_recent && are_refused && !directory.may_void()
    }

    /// Brings everything below. No write comes meanwhile.
    ///
    /// # Errors
    /// The failure, or that there is no room below: then everything stays.
    pub(crate) async fn drain(&self) -> Result<(), IoError> {
        self.is_draining.set(true);
        self.directory.borrow_mut().try_again(0..u64::MAX);
        let mut woken_at = None;
        let drained = loop {
            let moved = self.moved.wait();
            if let Err(error) = self.check(Verb::Write) {
                break Err(error);
            }
            let is_empty = self.directory.borrow().dirty() == 0;
            if is_empty && !self.is_working() {
                break Ok(());
            }
            if !is_empty && self.directory.borrow().are_refused(true) {
                break Err(IoError::new(Verb::Write, 0, SECTOR, ErrorKind::StorageFull));
            }
            if !is_empty {
                self.wake_keeper(&mut woken_at);
            }
            moved.await;
        };
        self.is_draining.set(false);
        drained
    }
}

#[cfg(test)]
mod tests {
    use block::BlockDevice;
    use sim::{Disk, Executor, Image};

    use super::*;
    use crate::{make, open};

    const ID: [u8; 16] = [3; 16];

    #[test]
    fn a_second_copy_of_marks_that_was_whole_is_believed_for_a_minute() {
        let executor = Executor::new(1);
        let disk = |size| Disk::new(&executor, Image::zeroed(size));
        let (below, memory) = (disk(1 << 20), disk(360 << 10));
        let device: Rc<dyn BlockDevice> = memory.clone();
        let nvram = executor.block_on(async {
            make(&device, ID, 1 << 20).await.expect("it is large enough");
            open(below, device, executor.runtime(), ID).await.expect("it is its own").0
        });
        let cache = &nvram.cache;
        // A new memory has no marks yet.
        executor.block_on(cache.write_mark_sectors(&[0], [0, 1])).expect("nothing fails");
        let is_whole = || executor.block_on(cache.has_whole_second(0));
        assert!(is_whole());
        let at = cache.runtime.clock.now();
        let place = cache.layout.map(0)[1];
        memory.rot(place + 100, 1);
        assert!(is_whole(), "the look was a short time ago");
        let is_over = |age: Duration| {
            cache.whole_marks.borrow_mut().insert(0, at);
            executor.run_for(at.after(age).since(cache.runtime.clock.now()));
            assert_eq!(cache.runtime.clock.now(), at.after(age));
            !is_whole()
        };
        assert!(!is_over(TRUST - Duration::from_nanos(1)) && is_over(TRUST));
        assert!(!is_whole(), "a damaged one is not believed later");
        // The marks are written over the damaged copy.
        executor.block_on(cache.write_marks(&[0])).expect("nothing fails");
        assert!(is_whole());
    }
}
