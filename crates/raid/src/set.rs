//! A set as a device: what is asked of it, taken apart for its members.
//!
//! A write is a task of the set: dropping its future abandons the answer, never the write. It goes
//! stripe by stripe. With a stripe for itself, the task finds out what is to be changed
//! ([`crate::plan`]), makes that durable in the log ([`crate::prelog`]), and brings it home. So a
//! *through* write needs no flush. Reads ask the one member that has the data; where that is out,
//! or cannot tell, the others are asked, with the stripe held still. A striped set has no second
//! place for anything, and no log.
//!
//! Invariants:
//! 1. A completed write is at home on all members that are in, and its record is durable.
//! 2. Nothing is answered before the labels say durably who is out ([`Members::settled`]).
//! 3. All reads of a stripe of a mirror ask the same member, as long as that can tell; else no write
//!    is under way there.
//!
//! Not asserted: 1 and 2, which are about the order of waits: torture's campaign `contract` cuts
//! there; 3, which is about the order of members alone.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, slices};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{join_all, try_join_all};
use runtime::Spawn;
use runtime::sync::Signal;

use crate::blocks::Blocks;
use crate::label::{Id, Label};
use crate::layout::{Layout, Level, Piece};
use crate::members::Members;
use crate::plan::{Column, Part, Stripe};
use crate::planted::{Bug, is_planted};
use crate::prelog::PreLog;
use crate::rebuild::RebuildError;
use crate::stripes::Stripes;

/// A set of disks that is open.
pub struct Set(Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) members: Rc<Members>,
    pub(crate) log: Rc<PreLog>,
    pub(crate) layout: Layout,
    pub(crate) data_start: u64,
    pub(crate) stripes: Rc<Stripes>,
    pub(crate) blocks: Blocks,
    tasks: Rc<dyn Spawn>,
    /// Calls that are under way.
    calls: Cell<usize>,
    pub(crate) is_closed: Cell<bool>,
    ended: Signal,
    /// A member is made again.
    pub(crate) is_rebuilding: Cell<bool>,
    geometry: Geometry,
}

impl Set {
    /// Of members of which nothing waits in the log; `cache` bytes of memory are for what they
    /// hold.
    pub(crate) fn new(
        members: Rc<Members>,
        log: Rc<PreLog>,
        tasks: Rc<dyn Spawn>,
        cache: usize,
    ) -> Self {
        let Label { layout, data_start, .. } = members.label();
        let of_all = || members.all_devices().into_iter().map(|device| device.geometry());
        let sector = |of: fn(&Geometry) -> u32| of_all().map(|it| of(&it)).max().unwrap_or(512);
        let geometry = Geometry {
            size: layout.size(),
            logical_sector_size: sector(|it| it.logical_sector_size),
            physical_sector_size: sector(|it| it.physical_sector_size),
            read_only: of_all().any(|it| it.read_only),
        };
        Self(Rc::new(Inner {
            members,
            log,
            layout,
            data_start,
            stripes: Rc::default(),
            blocks: Blocks::new(cache),
            tasks,
            calls: Cell::new(0),
            is_closed: Cell::new(false),
            ended: Signal::new(),
            is_rebuilding: Cell::new(false),
            geometry,
        }))
    }

    /// What holds of the set now; its slot is no one's.
    pub fn label(&self) -> Label {
        self.0.members.label()
    }

    /// How it is cut.
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    /// Records that were written to its log since it was opened.
    pub fn log_writes(&self) -> u64 {
        self.0.log.written.get()
    }

    /// Makes a device the member of a slot whose member is out, of what the others have, while the
    /// set is used. Stripes that are done, and all there are, are told as it goes on. Dropping the
    /// future does not stop it.
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
            if set.is_rebuilding.replace(true) {
                return Ok(Err(RebuildError::Taken(slot)));
            }
            let rebuilt = set.clone().rebuild(slot, device, member, progress).await;
            set.is_rebuilding.set(false);
            Ok(rebuilt)
        });
        rebuilt.await.unwrap_or(Err(RebuildError::Stopped))
    }

    /// Does something as a task of the set, and hands its answer over.
    fn run<T: 'static>(
        &self,
        verb: Verb,
        work: impl AsyncFnOnce(Rc<Inner>) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        if self.0.is_closed.get() {
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
}

/// The same failure, of the range that was asked for.
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
            let read = set.read(offset, buffer).await;
            read.map_err(of_range(Verb::Read, offset, length))
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let length = block::length_of(&data);
        if let Err(error) = self.0.geometry.check(Verb::Write, offset, length) {
            return async move { Err(error) }.boxed_local();
        }
        self.run(Verb::Write, async move |set| {
            let written = set.write(offset, data, durability).await;
            written.map_err(of_range(Verb::Write, offset, length))
        })
    }

    fn flush(&self) -> Io<()> {
        self.run(Verb::Flush, async move |set| set.flush().await)
    }

    /// A hint that is not passed on: what a member gives of a range that it has let go would not
    /// fit the parity.
    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let checked = self.0.geometry.check(Verb::Discard, offset, length);
        self.run(Verb::Discard, async move |_| checked)
    }

    fn close(&self) -> Io<()> {
        let inner = self.0.clone();
        async move {
            inner.is_closed.set(true);
            inner.members.close();
            while inner.calls.get() > 0 {
                inner.ended.wait().await;
            }
            let closing: Vec<_> =
                inner.members.all_devices().iter().map(|device| device.close()).collect();
            join_all(closing).await;
            Ok(())
        }
        .boxed_local()
    }
}

impl Inner {
    pub(crate) fn stripe(&self) -> Stripe<'_> {
        let Self { members, layout, data_start, blocks, .. } = self;
        Stripe { members, layout, data_start: *data_start, blocks }
    }

    fn lost(&self, verb: Verb) -> IoError {
        IoError::new(verb, 0, 0, ErrorKind::Other)
    }

    async fn read(&self, at: u64, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len() as u64;
        let pieces: Vec<Piece> = self.layout.pieces(at, length).collect();
        if let [piece] = pieces[..] {
            return self.read_piece(piece, buffer).await;
        }
        let reads = pieces.iter().map(|&piece| {
            let room = Buffer::unfilled(piece.length as usize);
            self.read_piece(piece, room)
        });
        // Each comes to its end: one may be about to mend.
        let parts = join_all(reads).await.into_iter().collect::<Result<Vec<Buffer>, IoError>>()?;
        for (piece, part) in pieces.iter().zip(parts) {
            buffer[(piece.at - at) as usize..][..part.len()].copy_from_slice(&part);
        }
        Ok(buffer)
    }

    async fn read_piece(&self, piece: Piece, buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len();
        let at = self.data_start + piece.offset;
        let stripe = piece.offset / self.layout.unit;
        if self.layout.level == Level::Mirrored {
            return self.read_mirrors(stripe, at, buffer).await;
        }
        if let Some(read) = self.members.read(piece.member, at, buffer).await {
            return Ok(read);
        }
        if self.layout.level == Level::Striped {
            return Err(self.lost(Verb::Read));
        }
        let _alone = self.stripes.alone(stripe).await;
        let from = piece.offset % self.layout.unit;
        let column = Column { stripe, from, to: from + length as u64 };
        let index = self.layout.index_of(piece.at);
        let mut units = self.stripe().units(&column, Some(&[index])).await?;
        Ok(Buffer::copied(&units.swap_remove(index)))
    }

    /// Reads of one mirror after the other until one can tell; what the others could not is written
    /// there once more.
    async fn read_mirrors(&self, stripe: u64, at: u64, buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len();
        let count = self.layout.members;
        let first = stripe as usize % count;
        let order = || (0..count).map(|place| (first + place) % count);
        if let Some(read) = self.members.read(first, at, buffer).await {
            return Ok(read);
        }
        let _alone = self.stripes.alone(stripe).await;
        let mut failed = Vec::new();
        for slot in order() {
            if let Some(read) = self.members.read(slot, at, Buffer::unfilled(length)).await {
                for slot in failed {
                    let mended = vec![Bytes::copy_from_slice(&read)];
                    self.members.write(slot, at, mended, Durability::Plain).await;
                }
                return Ok(read);
            }
            failed.extend(self.members.has(slot).then_some(slot));
        }
        Err(self.lost(Verb::Read))
    }

    async fn write(
        self: &Rc<Self>,
        at: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let pieces = self.layout.pieces(at, block::length_of(&data));
        let cut = |piece: &Piece| slices(&data, (piece.at - at) as usize, piece.length as usize);
        if self.layout.level == Level::Striped {
            let writes = pieces.map(|piece| {
                let device = self.members.device(piece.member).expect("none is ever out");
                device.write(self.data_start + piece.offset, cut(&piece), durability)
            });
            let done = join_all(writes.collect::<Vec<_>>()).await;
            return done.into_iter().collect();
        }
        if self.members.are_full() {
            return Err(IoError::new(Verb::Write, at, 0, ErrorKind::StorageFull));
        }
        let mut stripes: Vec<(u64, Vec<Part>)> = Vec::new();
        for piece in pieces {
            let (stripe, within) =
                (piece.offset / self.layout.unit, piece.offset % self.layout.unit);
            let part = Part { index: self.layout.index_of(piece.at), within, data: cut(&piece) };
            match stripes.last_mut() {
                Some((last, parts)) if *last == stripe => parts.push(part),
                _ => stripes.push((stripe, vec![part])),
            }
        }
        let writes = stripes.into_iter().map(|(stripe, parts)| self.write_stripe(stripe, parts));
        // Each comes to its end, whatever becomes of the others.
        join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
        self.members.settled(Verb::Write).await // invariant 2
    }

    /// Changes a stripe, all or none.
    async fn write_stripe(&self, stripe: u64, parts: Vec<Part>) -> Result<(), IoError> {
        let _alone = self.stripes.alone(stripe).await;
        self.members.settled(Verb::Write).await?;
        let group = self.stripe().plan(stripe, &parts).await?;
        let is_late = is_planted(Bug::DataFirst);
        if is_late {
            self.bring_home(&group).await;
        }
        let record = self.log.append(group.clone()).await?;
        if !is_late {
            self.bring_home(&group).await;
        }
        self.log.gone_home(record);
        Ok(())
    }

    async fn bring_home(&self, group: &[crate::record::Change]) {
        let writes = group.iter().flat_map(|change| {
            let at = self.data_start + change.offset;
            change.slots.iter().map(move |slot| {
                self.members.write(slot, at, change.data.clone(), Durability::Plain)
            })
        });
        join_all(writes).await;
        if self.layout.level == Level::Parity {
            for change in group {
                let bytes = Buffer::joined(&change.data);
                change.slots.iter().for_each(|slot| self.blocks.tell(slot, change.offset, &bytes));
            }
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.layout.level == Level::Striped {
            let devices = self.members.all_devices();
            return try_join_all(devices.iter().map(|device| device.flush())).await.map(|_| ());
        }
        self.log.flush().await
    }
}
