//! A set as a block device. Each call runs as a task of the set, so dropping its future abandons
//! the answer, never the work.

use std::cell::Cell;
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, join, join_all, select};
use runtime::Spawn;
use runtime::sync::Signal;

use crate::apart::{LogDevice, least_log_device, ring_of};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::interrupts::Work;
use crate::label::{Id, Label, Nvram, Standing};
use crate::layout::{Layout, Level};
use crate::members::{lost, unread};
use crate::rebuild::RebuildError;
use crate::scrub::{ScrubError, Scrubbed};
use crate::status::{Done, Status};

/// Interval of retries of the blocks that no disk gave to a member that is in.
const LATER: Duration = Duration::from_secs(60);
/// Pause before many changed tables that found no room are written in place again.
const PRESS_AGAIN: Duration = Duration::from_secs(1);
/// Time after which a flush fails while the hosts are full.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);

/// Reason why a member was not taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailError {
    /// The slot has no member that is in.
    #[error("slot {0} has no member that is up to date")]
    IsOut(usize),
    /// Another disk is being filled for the slot.
    #[error("slot {0} is being replaced: 'duramen raid cancel' comes first")]
    Replaced(usize),
    /// Without the member the set would have too few.
    #[error("the member of slot {0} is needed: without it the set has too few")]
    Needed(usize),
    /// The set has too few members, or was closed.
    #[error("the set has stopped")]
    Stopped,
}

/// A set of disks that is open.
pub struct Set(Rc<Inner>);

struct Inner {
    array: Array,
    tasks: Rc<dyn Spawn>,
    geometry: Geometry,
    /// Calls under way.
    calls: Cell<usize>,
    ended: Signal,
    /// Changed tables are being written in place because they are many.
    is_pressing: Cell<bool>,
}

impl Inner {
    /// Closes the disk that has left its slot, unless it may have blocks that the slot lacks; or
    /// the one that has not come in.
    fn release_leaving(&self, has_come: bool) {
        if let Some(left) = self.array.members.release_leaving(has_come) {
            // Do not wait: the disk may be about to die.
            self.tasks.spawn(left.close().map(|_| ()).boxed_local());
        }
    }

    /// Has changed tables written in place if reads have left many of them in memory. Readers do
    /// not wait for that: hosts may be full.
    fn press_tables(self: &Rc<Self>) {
        if !self.array.sums.are_pressed() || self.is_pressing.replace(true) {
            return;
        }
        let set = self.clone();
        set.calls.set(set.calls.get() + 1);
        let pressing = async move {
            let _ = set.array.log.settle_sums().await; // a set that has stopped changes none
            set.calls.set(set.calls.get() - 1);
            set.ended.notify();
            if set.array.sums.are_pressed() {
                set.array.members.clock.sleep(PRESS_AGAIN).await; // there was no room
            }
            set.is_pressing.set(false);
        };
        self.tasks.spawn(pressing.boxed_local());
    }

    /// Retries, at intervals, the blocks that no disk gave to a new member, until it has all of
    /// them.
    fn fill_later(self: &Rc<Self>, slot: usize) {
        let (set, clock) = (Rc::downgrade(self), self.array.members.clock.clone());
        let again = async move {
            loop {
                let is_needed = |set: &Rc<Self>| {
                    let members = &set.array.members;
                    !members.are_closed() && !members.unread.is_empty(slot)
                };
                if !set.upgrade().as_ref().is_some_and(is_needed) {
                    return;
                }
                clock.sleep(LATER).await;
                let Some(set) = set.upgrade().filter(is_needed) else { return };
                set.calls.set(set.calls.get() + 1);
                set.array.fill_unread(slot).await;
                set.calls.set(set.calls.get() - 1);
                set.ended.notify();
            }
        };
        self.tasks.spawn(again.boxed_local());
    }
}

impl Set {
    pub(crate) fn new(array: Array, tasks: Rc<dyn Spawn>) -> Self {
        let of_all: Vec<Geometry> =
            array.members.all_devices().iter().map(|device| device.geometry()).collect();
        let physical = of_all.iter().map(|it| it.physical_sector_size).max();
        let geometry = Geometry {
            size: array.layout.size(),
            logical_sector_size: array.sector(),
            physical_sector_size: physical.unwrap_or(512),
            read_only: of_all.iter().any(|it| it.read_only),
            stripe: Some(array.shape()),
            platters: None, // each disk has its own arm
        };
        let (calls, ended, is_pressing) = (Cell::new(0), Signal::new(), Cell::new(false));
        Self(Rc::new(Inner { array, tasks, geometry, calls, ended, is_pressing }))
    }

    /// The label in force; its own slot has no meaning.
    pub fn label(&self) -> Label {
        self.0.array.members.label()
    }

    /// Whether a disk is being filled, or looked at for that.
    pub fn is_filling(&self) -> bool {
        self.0.array.is_rebuilding.get()
    }

    /// Geometry of the set.
    pub fn layout(&self) -> Layout {
        self.0.array.layout
    }

    /// Whether a stripe was ever written.
    pub fn was_written(&self, stripe: u64) -> bool {
        self.0.array.written.has(stripe)
    }

    /// Records written to the log since the set was opened.
    pub fn log_writes(&self) -> u64 {
        self.0.array.log.written.get()
    }

    /// Status and counters of the set.
    pub fn status(&self) -> Status {
        let members = &self.0.array.members;
        Status {
            label: members.label(),
            rebuild: members.rebuild(),
            met: members.met(),
            is_paused: self.0.array.interrupts.is_paused(),
            done: Done { log_writes: self.log_writes(), ..members.counts.done() },
        }
    }

    /// Whether the set is closed.
    pub fn is_closed(&self) -> bool {
        self.0.array.members.are_closed()
    }

    /// Checks that a device is fit to be a member.
    ///
    /// # Errors
    /// [`RebuildError`] gives the reason why not.
    pub fn fits(&self, device: &dyn BlockDevice) -> Result<(), RebuildError> {
        self.0.array.fits(device)
    }

    /// Closes the device of a slot whose member is out, so that others may open it.
    pub async fn let_go(&self, slot: usize) {
        let gone = self.run(Verb::Write, async move |set| {
            set.array.members.let_go(slot).await;
            Ok(())
        });
        let _ = gone.await; // a closed set has closed all devices
    }

    /// Closes a disk that was found and is not a member, so that others may open it.
    pub async fn release(&self, device: &Rc<dyn BlockDevice>) {
        self.0.array.members.release(device).await;
    }

    /// Records the NVRAM in front of the set on all labels, durably.
    ///
    /// # Errors
    /// The set has stopped, or a host is full; then some labels may name it.
    pub async fn stand_behind(&self, nvram: Option<Nvram>) -> Result<(), IoError> {
        let recorded = self.run(Verb::Write, async move |set| {
            set.array.members.stand_behind(nvram);
            set.array.members.settled(Verb::Write).await
        });
        self.unless_full_for_long(Verb::Write, recorded).await
    }

    /// Has a log device get the records from now on, each once, instead of the members. It loses
    /// its earlier contents. The labels say first that the set needs it.
    ///
    /// # Errors
    /// The device is too small ([`least_log_device`]), or fails; the set has no log, or has
    /// stopped. Then the members get the records, as before.
    pub async fn log_to(&self, device: Rc<dyn BlockDevice>) -> Result<(), IoError> {
        let size = ring_of(&*device);
        if least_log_device(&self.layout()).is_none_or(|least| size < least) {
            return Err(IoError::new(Verb::Write, 0, size, ErrorKind::InvalidInput));
        }
        let begun = self.run(Verb::Write, async move |set| set.array.log.begin_apart(device).await);
        self.unless_full_for_long(Verb::Write, begun).await
    }

    /// Has the members get the records from now on. When it is done, the log device has none that
    /// is needed, and the labels say so.
    ///
    /// # Errors
    /// The set has stopped, or hosts are full; then the labels still say that the set needs it.
    pub async fn log_to_members(&self) -> Result<(), IoError> {
        let left = self.run(Verb::Write, async move |set| {
            let has_log = set.array.layout.level != Level::Striped;
            if has_log { set.array.log.leave_apart().await } else { Ok(()) }
        });
        self.unless_full_for_long(Verb::Write, left).await
    }

    /// From now on no answer rests on the log device alone: the members get the records. Its own
    /// are brought in place by [`Set::log_to_members`].
    pub fn distrust_log_device(&self) {
        self.0.array.log.distrust_apart();
    }

    /// State of the log device, if there is one.
    pub fn log_device(&self) -> Option<LogDevice> {
        self.0.array.log.log_device()
    }

    /// Takes a member out, durably. It keeps its slot, and comes back only by [`Set::rebuild`]: no
    /// start has it catch up on its own.
    ///
    /// # Errors
    /// [`FailError`]; then nothing has changed, unless the set has stopped.
    pub async fn fail(&self, slot: usize) -> Result<(), FailError> {
        let failed = self.run(Verb::Write, async move |set| {
            let members = &set.array.members;
            let Label { layout, slots, .. } = members.label();
            let standing = slots.get(slot).map(|slot| slot.standing);
            let left = members.slots().iter().count();
            match standing {
                _ if members.is_replaced(slot) => return Ok(Err(FailError::Replaced(slot))),
                Some(Standing::Stale) => {} // kept out from now on
                Some(Standing::InSync) if left > layout.needed() => {}
                Some(Standing::InSync) => return Ok(Err(FailError::Needed(slot))),
                _ => return Ok(Err(FailError::IsOut(slot))),
            }
            members.take_offline(slot);
            Ok(members.settled(Verb::Write).await.map_err(|_| FailError::Stopped))
        });
        failed.await.unwrap_or(Err(FailError::Stopped))
    }

    /// Rebuilds the member of a slot whose member is out on a device, from the others, while the
    /// set is in use. `progress` gets the stripes done and their total. Dropping the future does
    /// not stop the work.
    ///
    /// # Errors
    /// [`RebuildError`]; the device is no member then.
    pub async fn rebuild(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        progress: impl FnMut(u64, u64) + 'static,
    ) -> Result<(), RebuildError> {
        let rebuilt = self.run(Verb::Write, async move |set| {
            let rebuilt = set.array.rebuild(slot, device, member, progress).await;
            set.release_leaving(rebuilt.is_ok());
            set.fill_later(slot);
            Ok(rebuilt)
        });
        rebuilt.await.unwrap_or(Err(RebuildError::Stopped))
    }

    /// Replaces a slot's member that is in with a device, while the set is in use. The old one
    /// stays a member, and a source, until the new one has everything. If it fails meanwhile the
    /// new one is filled from the others. An interrupted replacement is resumed with the device
    /// that [`Label::incoming`] names. `progress` gets the stripes done and their total. Dropping
    /// the future does not stop the work.
    ///
    /// # Errors
    /// [`RebuildError`]; the device is then no member, and the old one is, unless it has failed.
    pub async fn replace(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        progress: impl FnMut(u64, u64) + 'static,
    ) -> Result<(), RebuildError> {
        let replaced = self.run(Verb::Write, async move |set| {
            let replaced = set.array.replace(slot, device, member, progress).await;
            set.release_leaving(replaced.is_ok());
            set.fill_later(slot);
            Ok(replaced)
        });
        replaced.await.unwrap_or(Err(RebuildError::Stopped))
    }

    /// Cancels work under way. Its results so far stay; a member that was to be replaced stays in,
    /// and a disk that was being filled for a slot without one is out.
    pub fn cancel(&self, work: Work) {
        self.0.array.interrupts.cancel(work);
        if work == Work::Fill {
            self.0.array.members.abandon_fill(); // its disk may hang
        }
    }

    /// Pauses long work, or resumes it.
    pub fn pause(&self, is_paused: bool) {
        self.0.array.interrupts.pause(is_paused);
    }

    /// Verifies everything, repairs wrong blocks of members, and reports lost ranges, while the set
    /// is in use. `progress` gets the stripes done, their total, and the findings. Dropping the
    /// future does not stop the work.
    ///
    /// # Errors
    /// [`ScrubError`].
    pub async fn scrub(
        &self,
        progress: impl FnMut(u64, u64, &Scrubbed) + 'static,
    ) -> Result<Scrubbed, ScrubError> {
        let scrubbed = self.run(Verb::Read, async move |set| {
            let Done { lost_reads, lost_blocks, .. } = set.array.members.counts.done();
            let scrubbed = set.array.scrub(false, progress).await;
            if let Ok(found) = &scrubbed {
                let unread: u64 = found.unread.iter().map(|(_, length)| length / BLOCK).sum();
                set.array.members.counts.note(|done| {
                    // A loss that was met meanwhile may lie behind the scrub.
                    if found.lost.is_empty() {
                        done.lost_reads = done.lost_reads.saturating_sub(lost_reads);
                        done.lost_blocks = done.lost_blocks.saturating_sub(lost_blocks);
                    }
                    done.unread = unread;
                });
            }
            Ok(scrubbed)
        });
        scrubbed.await.unwrap_or(Err(ScrubError::Stopped))
    }

    /// Verifies everything as [`Set::scrub`] does, after a person gave up what only the log device
    /// had: without its records, checksums are older than data. Where data and parity agree, or all
    /// copies of a mirror, the checksums are made anew. When it is done, the labels call for the
    /// device no more.
    ///
    /// # Errors
    /// [`ScrubError`]. Then they still do.
    pub async fn renew_sums(
        &self,
        progress: impl FnMut(u64, u64, &Scrubbed) + 'static,
    ) -> Result<Scrubbed, ScrubError> {
        let renewed =
            self.run(Verb::Read, async move |set| Ok(set.array.renew_sums(progress).await));
        renewed.await.unwrap_or(Err(ScrubError::Stopped))
    }

    /// Runs work as a task of the set, and passes on its answer.
    fn run<T: 'static>(
        &self,
        verb: Verb,
        work: impl AsyncFnOnce(Rc<Inner>) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        if self.0.array.members.are_closed() {
            return async move { Err(IoError::closed(verb)) }.boxed_local();
        }
        let (answer, answered) = oneshot::channel();
        let inner = self.0.clone();
        inner.calls.set(inner.calls.get() + 1);
        let task = async move {
            let done = work(inner.clone()).await;
            let _ = answer.send(done); // the caller may have gone
            inner.calls.set(inner.calls.get() - 1);
            inner.ended.notify();
        };
        self.0.tasks.spawn(task.boxed_local());
        async move { answered.await.unwrap_or_else(|_| Err(IoError::closed(verb))) }.boxed_local()
    }

    /// The answer, or `otherwise` if members are full for long.
    fn unless_full(
        &self,
        answer: Io<()>,
        otherwise: impl FnOnce() -> Result<(), IoError> + 'static,
    ) -> Io<()> {
        let set = self.0.clone();
        let answer = async move {
            match select(answer, pin!(set.array.members.full_for_long())).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => otherwise(),
            }
        };
        answer.boxed_local()
    }

    /// The answer, unless hosts are full for [`FLUSH_LIMIT`]: neither a start nor a shutdown waits
    /// forever for one.
    fn unless_full_for_long(&self, verb: Verb, answer: Io<()>) -> Io<()> {
        let set = self.0.clone();
        let answer = async move {
            match select(answer, pin!(set.array.members.full_for(FLUSH_LIMIT))).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(IoError::new(verb, 0, 0, ErrorKind::StorageFull)),
            }
        };
        answer.boxed_local()
    }
}

/// The error for a client, who gets EIO also where disks may have the data later.
fn as_lost(verb: Verb) -> impl Fn(IoError) -> IoError {
    move |error| if error == unread(verb) { lost(verb) } else { error }
}

/// Error of a write for which a host has no space.
fn no_room(at: u64, length: u64) -> IoError {
    IoError::new(Verb::Write, at, length, ErrorKind::StorageFull)
}

/// Replaces an error's range by the one that the caller asked for.
fn of_range(verb: Verb, at: u64, length: u64) -> impl Fn(IoError) -> IoError {
    move |error| IoError { verb, offset: at, length, ..error }
}

impl BlockDevice for Set {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        if let Err(error) = self.0.geometry.check(Verb::Read, offset, length) {
            return async move { Err(error) }.boxed_local();
        }
        self.run(Verb::Read, async move |set| {
            let members = &set.array.members;
            let _client = members.pace.client();
            let read = set.array.read(offset, buffer).await;
            set.press_tables();
            let is_unread = read.as_ref().is_err_and(|error| *error == unread(Verb::Read));
            if read.is_err() && !members.have_stopped() && !is_unread {
                members.counts.note(|done| done.lost_reads += 1);
            }
            read.map_err(as_lost(Verb::Read)).map_err(of_range(Verb::Read, offset, length))
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let length = block::length_of(&data);
        if let Err(error) = self.0.geometry.check(Verb::Write, offset, length) {
            return async move { Err(error) }.boxed_local();
        }
        let written = self.run(Verb::Write, async move |set| {
            let _client = set.array.members.pace.client();
            let written = set.array.write(offset, data, durability).await;
            written.map_err(as_lost(Verb::Write)).map_err(of_range(Verb::Write, offset, length))
        });
        // The write happens later, or has happened; the caller cannot know.
        self.unless_full(written, move || Err(no_room(offset, length)))
    }

    fn flush(&self) -> Io<()> {
        let flushed = self.run(Verb::Flush, async move |set| set.array.flush().await);
        self.unless_full_for_long(Verb::Flush, flushed)
    }

    /// Vacates whole stripes. The hint is not passed on: a member's bytes in a discarded range
    /// would not fit the parity.
    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let checked = self.0.geometry.check(Verb::Discard, offset, length);
        let vacated = self.run(Verb::Discard, async move |set| {
            checked?;
            let vacated = set.array.vacate(&(offset..offset + length)).await;
            vacated.map_err(of_range(Verb::Discard, offset, length))
        });
        // It gets the lock of each stripe before any write that begins from now on.
        self.unless_full(vacated, || Ok(()))
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        if let Err(error) = self.0.geometry.check(Verb::Read, offset, length) {
            return async move { Err(error) }.boxed_local();
        }
        self.run(Verb::Read, async move |set| {
            let mended = set.array.mend(offset, length, is_right).await;
            set.press_tables();
            mended.map_err(of_range(Verb::Read, offset, length))
        })
    }

    fn close(&self) -> Io<()> {
        let inner = self.0.clone();
        async move {
            inner.array.members.close();
            while inner.calls.get() > 0 {
                inner.ended.wait().await;
            }
            if inner.array.layout.level != Level::Striped {
                let _ = inner.array.settle_fresh().await; // unflushed writes may be lost
                inner.array.log.rest().await;
            }
            let members = &inner.array.members;
            let (used, others): (Vec<_>, Vec<_>) =
                members.all_devices().into_iter().partition(|device| members.is_member(device));
            let closing = join_all(used.iter().map(|device| device.close()));
            let others = join_all(others.iter().map(|device| members.close_outsider(device)));
            join(closing, others).await;
            Ok(())
        }
        .boxed_local()
    }
}
