//! Memory that outlives the power, in front of a disk: a write is durable when the memory has it,
//! and reaches the disk later, sorted, and once.
//!
//! An [`Nvram`] is a device of `block` over two others: the device *below*, and the *memory*, which
//! is a file on persistent memory or on a fast disk. It keeps the contract of that crate, also when
//! both lose their power at one moment. docs/formats/nvram.md has the bytes.
//!
//! The memory may be two, each with everything: the volume goes on with either.
//!
//! Layers, from the bottom: `format`, the bytes; [`pairing`], which NVRAM goes with which volume,
//! and [`meeting`], which of two; `labels`, both copies of one; `flushes`, one at a time; `timed`,
//! one that may hang in a start, and `twin`, two as one; `directory`, which buffer holds which
//! block, and which may be used again; `cache`, what they all share; `writing` and `reading`;
//! `destage`, the task that brings blocks below; [`health`], readings of the battery, and
//! `distrust`, what follows from a bad one; `recovery`, which entries hold after a crash; [`make`],
//! [`look`] and [`open`], and the same for two; and [`Nvram`], the device and its states.
//!
//! Invariants:
//! 1. What was answered as durable is in the memory, or durable below.
//! 2. A read gives the latest completed write of each sector, or an error where that is lost.
//! 3. While the battery is bad, nothing is answered as durable that is not durable below.
//!
//! Not asserted: 1, 2 and 3, which `tests/it` compares with a model, at every cut.
//!
//! Commit points: a write through has happened when the memory has its entries durably, any other
//! with the flush of the memory; a block is below when a flush there covers its write.
//!
//! Architecture invariant: no file system, no set of disks, no socket. It runs under the simulator.

mod cache;
mod destage;
mod directory;
mod distrust;
mod errors;
mod flushes;
pub mod format;
pub mod health;
mod labels;
pub mod meeting;
mod opening;
mod opening_two;
pub mod pairing;
pub mod planted;
mod reading;
mod recovery;
mod status;
mod timed;
mod twin;
mod writing;

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use runtime::sync::Signal;

pub use errors::OpenError;
pub use format::{Id, Label};
pub use opening::{look, make, open, open_paired};
pub use opening_two::{Found, Memories, judge_two, make_two, open_two};
pub use recovery::Recovered;
pub use status::{Counts, Status, TwinState};

use crate::cache::Cache;
use crate::format::{BLOCK, Layout, SECTOR};
use crate::health::Health;
use crate::pairing::Partner;
use crate::planted::{Bug, is_planted};
use crate::twin::Twin;

/// It is too small to pin a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes an NVRAM of {needed} bytes")]
pub struct PinsTooMuch {
    /// Bytes of one that is large enough.
    pub needed: u64,
}

/// Bytes of an NVRAM that can pin a range of the volume.
pub fn size_to_pin(range: &std::ops::Range<u64>) -> u64 {
    let places = writing::places(range.start, range.end - range.start);
    Layout::size_for(directory::buffers_for(places.end - places.start))
}

/// An NVRAM that is open: see the crate's page.
pub struct Nvram {
    cache: Rc<Cache>,
    is_closed: Rc<Cell<bool>>,
    /// Calls that are under way.
    calls: Rc<Cell<usize>>,
    ended: Rc<Signal>,
    /// Whether what a reading of the battery asks for is being done.
    is_heeding: Rc<Cell<bool>>,
}

impl Drop for Nvram {
    fn drop(&mut self) {
        self.cache.is_closed.set(true);
        self.cache.wake.notify();
        self.cache.moved.notify();
        self.cache.twin.iter().for_each(Twin::leave);
    }
}

impl Nvram {
    fn new(cache: Rc<Cache>) -> Self {
        Self {
            cache,
            is_closed: Rc::default(),
            calls: Rc::default(),
            ended: Rc::default(),
            is_heeding: Rc::default(),
        }
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let directory = self.cache.directory.borrow();
        let lost =
            directory.lost().iter().map(|(_, lost)| u64::from(lost.count_ones())).sum::<u64>();
        Status {
            is_down: self.cache.is_down(),
            is_retired: self.cache.retired().is_some(),
            is_needed: self.cache.partner.get().is_some_and(Partner::may_need),
            has_failed: self.cache.failure.borrow().is_some(),
            health: self.cache.health.borrow().clone(),
            size_bytes: directory.buffers() * BLOCK,
            dirty_bytes: directory.dirty() * BLOCK,
            pinned_bytes: directory.pinned() * BLOCK,
            lost_bytes: lost * SECTOR,
            twins: self.cache.twin.as_ref().map(|twin| [0, 1].map(|number| twin.state(number))),
            counts: *self.cache.counts.borrow(),
        }
    }

    /// What it says of itself.
    pub fn label(&self) -> Label {
        self.cache.label.get()
    }

    /// From now on the volume records nothing of it: it stands in front of it no more.
    pub fn part(&self) {
        self.cache.partner.get().into_iter().for_each(Partner::part);
    }

    /// The log device in two NVRAMs, if they have one: both have what is written to it.
    pub fn log_device(&self) -> Option<Rc<dyn BlockDevice>> {
        self.cache.log.clone().filter(|log| log.geometry().size > 0)
    }

    /// Ranges of the volume that are lost until they are written.
    pub fn lost(&self) -> Vec<std::ops::Range<u64>> {
        let lost = self.cache.directory.borrow().lost();
        lost.into_iter().flat_map(|(place, mask)| reading::runs(place, mask)).collect()
    }

    /// Keeps what is written to a range of the volume, until all goes below: a circular log is the
    /// worst case of a cache.
    ///
    /// # Errors
    /// [`PinsTooMuch`] if too few buffers would be left. Then nothing is pinned.
    pub fn pin(&self, range: std::ops::Range<u64>) -> Result<(), PinsTooMuch> {
        let needed = size_to_pin(&range);
        if needed > self.cache.layout.size {
            return Err(PinsTooMuch { needed });
        }
        let places = writing::places(range.start, range.end - range.start);
        self.cache.directory.borrow_mut().pin(places);
        Ok(())
    }

    /// Whether everything is to go below soon, beside the calls.
    pub fn hurry(&self, is_hurried: bool) {
        self.cache.is_hurried.set(is_hurried);
        self.cache.wake.notify();
    }

    /// Brings everything below. With `is_down`, writes pass by from then on, over starts, until
    /// [`Nvram::up`]. Calls wait meanwhile.
    ///
    /// # Errors
    /// Why something is not below, or that sectors are lost. Then nothing has changed.
    pub async fn settle(&self, is_down: bool) -> Result<(), IoError> {
        self.run(Verb::Flush, async move |cache| cache.settle(is_down, false).await).await
    }

    /// The same, for good. Sectors that are lost are given up: from then on they have what the
    /// device below has.
    ///
    /// # Errors
    /// Why something is not below. Then nothing has changed.
    pub async fn give_up_lost(&self) -> Result<(), IoError> {
        if let Some(twin) = &self.cache.twin {
            twin.stopped().await; // nothing is recorded of it later
        }
        self.run(Verb::Flush, async move |cache| cache.settle(true, true).await).await
    }

    /// Holds writes again.
    ///
    /// # Errors
    /// The failure of the memory; then writes still pass by.
    pub async fn up(&self) -> Result<(), IoError> {
        self.run(Verb::Write, async move |cache| {
            let _alone = cache.gate.exclusive().await;
            cache.check(Verb::Write)?;
            if let Some(failure) = cache.retired() {
                return Err(IoError { verb: Verb::Write, ..failure });
            }
            // What has passed by is durable before anything may hide it.
            cache.below.flush().await.inspect_err(|error| cache.fail(error))?;
            cache.say(true).await?;
            cache.write_label(Label { is_down: false, ..cache.label.get() }).await
        })
        .await
    }

    /// Takes note of a reading of the battery. While it is bad, nothing is answered that is not
    /// below: what the memory holds goes there, beside the calls, and writes pass. Give it each
    /// reading, also one like the last: what a change asks for is done at a later reading if it
    /// cannot be done at once.
    pub fn heed(&self, health: Health) {
        self.cache.health.replace(Some(health));
        self.cache.wake.notify();
        self.cache.step(); // calls that wait for the disk may go on
        if self.is_heeding.replace(true) {
            return;
        }
        let heeded = self.run_on(Verb::Flush, async |cache| cache.heed().await);
        let is_heeding = self.is_heeding.clone();
        let work = async move {
            let _ = heeded.await; // it is tried again at the next reading
            is_heeding.set(false);
        };
        self.cache.runtime.tasks.spawn(work.boxed_local());
    }

    /// Does something as [`Nvram::run`] does. If the memory turns out to be unwritable, it is done
    /// again without it.
    fn run_on<T: 'static>(
        &self,
        verb: Verb,
        work: impl AsyncFn(&Cache) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        self.run(verb, async move |cache| {
            let was_retired = cache.retired().is_some();
            let done = work(cache).await;
            if done.is_err() && cache.is_failing() {
                cache.retire().await.map_err(|error| IoError { verb, ..error })?;
            }
            // Another call may have seen to it meanwhile.
            let is_new = !was_retired && cache.retired().is_some();
            if done.is_err() && is_new { work(cache).await } else { done }
        })
    }

    /// Does something as a task, and passes its answer on: dropping the future abandons the
    /// answer, never the work.
    fn run<T: 'static>(
        &self,
        verb: Verb,
        work: impl AsyncFnOnce(&Cache) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        if self.is_closed.get() {
            return async move { Err(IoError::closed(verb)) }.boxed_local();
        }
        let (answer, answered) = oneshot::channel();
        let (cache, calls, ended) = (self.cache.clone(), self.calls.clone(), self.ended.clone());
        calls.set(calls.get() + 1);
        let task = async move {
            let done = work(&cache).await;
            let _ = answer.send(done); // the caller may have gone
            calls.set(calls.get() - 1);
            ended.notify();
        };
        self.cache.runtime.tasks.spawn(task.boxed_local());
        async move { answered.await.unwrap_or_else(|_| Err(IoError::closed(verb))) }.boxed_local()
    }
}

impl BlockDevice for Nvram {
    fn geometry(&self) -> Geometry {
        Geometry { platters: None, ..self.cache.below.geometry() }
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.run(Verb::Read, async move |cache| cache.read(offset, buffer, false).await)
    }

    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.run(Verb::Read, async move |cache| cache.read(offset, buffer, true).await)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let (cache, length) = (self.cache.clone(), block::length_of(&data));
        let written = self.run_on(Verb::Write, async move |cache| {
            cache.write(offset, data.clone(), durability).await
        });
        async move {
            written.await?;
            if durability == Durability::Plain {
                cache.directory.borrow_mut().owe(writing::places(offset, length));
            }
            Ok(())
        }
        .boxed_local()
    }

    fn flush(&self) -> Io<()> {
        let heard = self.cache.directory.borrow().heard();
        self.run_on(Verb::Flush, async move |cache| {
            cache.check(Verb::Flush)?;
            if cache.passes() {
                cache.below.flush().await
            } else {
                cache.flush_for_caller(heard).await
            }
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.run_on(Verb::Discard, async move |cache| cache.discard(offset, length).await)
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        self.run(Verb::Read, async move |cache| cache.mend(offset, length, is_right).await)
    }

    fn close(&self) -> Io<()> {
        let (cache, calls, ended) = (self.cache.clone(), self.calls.clone(), self.ended.clone());
        let is_first = !self.is_closed.replace(true);
        cache.twin.iter().for_each(Twin::stop);
        async move {
            while calls.get() > 0 {
                ended.wait().await;
            }
            if is_first && cache.partner.get().is_some() {
                // A volume that was stopped needs nothing of its NVRAM. If something cannot go
                // below it still does, and says so.
                let settled = cache.settle(false, false).await;
                if cache.is_failing() {
                    let _ = cache.retire().await;
                } else if settled.is_ok() || is_planted(Bug::HastyWord) {
                    let _ = cache.say(false).await;
                }
            }
            cache.is_closed.set(true);
            cache.wake.notify();
            cache.rest().await;
            if is_first {
                // A later rot of these entries must not look like a tear.
                let is_retired = cache.retired().is_some();
                if is_retired {
                    let _ = cache.below.flush().await;
                } else if cache.failure.borrow().is_none() && cache.flush_all().await.is_ok() {
                    let durable = cache.directory.borrow().durable();
                    let _ = cache.write_label(Label { durable, ..cache.label.get() }).await;
                }
                cache.memory.close().await?;
                cache.below.close().await?;
                // The device below may have used it until now.
                if let Some(log) = &cache.log {
                    log.close().await?;
                }
            }
            Ok(())
        }
        .boxed_local()
    }
}
