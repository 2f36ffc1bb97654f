//! What is read and written of a set, taken apart for its members.
//!
//! A write goes stripe by stripe. With a stripe for itself, it finds out what is to be changed
//! ([`crate::plan`]), makes that durable in the log ([`crate::prelog`]), and brings it home. So a
//! *through* write needs no flush. Reads ask the one member that has the data; where that is out,
//! or cannot tell, the others are asked, with the stripe held still. A striped set has no second
//! place for anything, and no log.
//!
//! None of these futures may be dropped before it is through: they are awaited by tasks of the set.
//!
//! Invariants:
//! 1. A completed write is at home on all members that are in, and its record is durable.
//! 2. Nothing is answered before the labels say durably who is out ([`Members::settled`]).
//! 3. All reads of a stripe of a mirror ask the same member, as long as that can tell; else no
//!    write is under way there.
//!
//! Not asserted: 1 and 2, which are about the order of waits: torture's campaign `contract` cuts
//! there; 3, which is about the order of members alone.

use std::cell::Cell;
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;

use block::{Buffer, Durability, IoError, Verb, length_of, slices};
use bytes::Bytes;
use futures::future::{Either, join, join_all, select, try_join_all};

use crate::blocks::Blocks;
use crate::label::Label;
use crate::layout::{Layout, Level, Piece};
use crate::members::{Members, lost};
use crate::plan::Part;
use crate::planted::{Bug, is_planted};
use crate::prelog::{Group, PreLog};
use crate::stripe::{Column, Stripe};
use crate::sums::Sums;
use crate::turns::Turns;
use crate::written::Written;

/// See the module's prose.
pub(crate) struct Array {
    pub(crate) members: Rc<Members>,
    pub(crate) log: Rc<PreLog>,
    pub(crate) written: Rc<Written>,
    pub(crate) layout: Layout,
    pub(crate) data_start: u64,
    pub(crate) stripes: Rc<Turns>,
    pub(crate) blocks: Blocks,
    pub(crate) sums: Rc<Sums>,
    /// A member is made again.
    pub(crate) is_rebuilding: Cell<bool>,
    /// All of it is looked at.
    pub(crate) is_scrubbing: Cell<bool>,
}

impl Array {
    /// Of members of which nothing waits in the log; `cache` bytes of memory are for what they
    /// hold.
    pub(crate) fn new(
        members: Rc<Members>,
        log: Rc<PreLog>,
        written: Rc<Written>,
        sums: Rc<Sums>,
        cache: usize,
    ) -> Self {
        let Label { layout, data_start, .. } = members.label();
        let is_known = layout.level == Level::Parity; // a mirror takes no parity of anything
        Self {
            members,
            log,
            written,
            layout,
            data_start,
            stripes: Rc::default(),
            blocks: Blocks::new(if is_known { cache } else { 0 }),
            sums,
            is_rebuilding: Cell::new(false),
            is_scrubbing: Cell::new(false),
        }
    }

    /// The largest logical sector of its members, in bytes.
    pub(crate) fn sector(&self) -> u32 {
        let devices = self.members.all_devices();
        let sectors = devices.iter().map(|device| device.geometry().logical_sector_size);
        sectors.max().unwrap_or(512)
    }

    pub(crate) fn stripe(&self) -> Stripe<'_> {
        let Self { members, layout, data_start, blocks, sums, .. } = self;
        Stripe { members, layout, data_start: *data_start, blocks, sums }
    }

    pub(crate) async fn read(&self, at: u64, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len() as u64;
        self.members.counts.note(|done| done.reads += 1);
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

    async fn read_piece(&self, piece: Piece, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let at = self.data_start + piece.offset;
        if self.layout.level == Level::Striped {
            let read = self.members.read(piece.member, at, buffer).await;
            return read.ok_or_else(|| lost(Verb::Read));
        }
        let (stripe, from) = (piece.offset / self.layout.unit, piece.offset % self.layout.unit);
        if !self.written.has(stripe) {
            buffer.fill(0);
            return Ok(buffer);
        }
        let column = Column::around(stripe, from, from + piece.length);
        let of_asked = |bytes: &[u8]| {
            Buffer::copied(&bytes[(from - column.from) as usize..][..piece.length as usize])
        };
        let is_mirror = self.layout.level == Level::Mirrored;
        let first = if is_mirror { stripe as usize % self.layout.members } else { piece.member };
        let is_whole = column.length() as u64 == piece.length;
        let room = if is_whole { buffer } else { Buffer::unfilled(column.length()) };
        let offset = column.offset(&self.layout);
        let read = self.members.read(first, self.data_start + offset, room);
        let sums = self.sums.of(first, offset, column.length() as u64);
        if let (Some(read), sums) = join(read, sums).await
            && sums.fit(offset, &read).all(|fits| fits)
        {
            return Ok(if is_whole { read } else { of_asked(&read) });
        } // else it is wrong, or is being written
        let _alone = self.stripes.alone(stripe).await;
        let index = self.layout.index_of(piece.at);
        self.stripe().unit(&column, index).await.map(|bytes| of_asked(&bytes))
    }

    pub(crate) async fn write(
        &self,
        at: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        self.members.counts.note(|done| done.writes += 1);
        let pieces = self.layout.pieces(at, length_of(&data));
        let cut = |piece: &Piece| slices(&data, (piece.at - at) as usize, piece.length as usize);
        if self.layout.level == Level::Striped {
            let writes = pieces.map(|piece| {
                let device = self.members.device(piece.member).expect("none is ever out");
                device.write(self.data_start + piece.offset, cut(&piece), durability)
            });
            let done = join_all(writes.collect::<Vec<_>>()).await;
            return done.into_iter().collect();
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
        // What was written has its place; what was not may find none.
        if self.members.are_full() && stripes.iter().any(|&(it, _)| !self.written.has(it)) {
            return Err(IoError::new(Verb::Write, at, 0, ErrorKind::StorageFull));
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
        let first = Some(stripe).filter(|&stripe| !self.written.has(stripe));
        let written: u64 = parts.iter().map(|part| length_of(&part.data)).sum();
        let parts = self.stripe().whole(stripe, parts, first.is_some()).await?;
        let group = match first {
            Some(stripe) => self.stripe().plan_first(stripe, &parts),
            None => self.stripe().plan(stripe, &parts).await,
        };
        let sums = self.sums.of_group(&group).await;
        self.sums.place_all(&sums).await;
        let is_full = written == self.layout.width() * self.layout.unit;
        self.members.counts.note(|done| {
            *(if is_full { &mut done.full_stripes } else { &mut done.partial_stripes }) += 1;
        });
        let is_late = is_planted(Bug::DataFirst);
        if is_late {
            self.bring_home(&group).await;
        }
        let record = self.log.append(group.clone(), first).await?;
        sums.are_logged(record);
        if is_late {
            self.log.gone_home(record);
        } else {
            self.bring_home_from(record, &group, first).await;
        }
        sums.are_home();
        first.into_iter().for_each(|stripe| self.written.come_home(stripe));
        Ok(())
    }

    /// Brings home what a record has, and tells the log. If that finds no room for long, a later
    /// record gets it, so that the log goes on.
    async fn bring_home_from(&self, record: u64, group: &Group, first: Option<u64>) {
        let (mut record, mut home) = (record, pin!(self.bring_home(group)));
        loop {
            let pressed = pin!(self.log.pressed(record));
            if let Either::Left(_) = select(home.as_mut(), pressed).await {
                return self.log.gone_home(record);
            }
            let again = pin!(self.log.append_again(group.clone(), first));
            match select(home.as_mut(), again).await {
                // At once: a round may wait for that before it gets to the later record.
                Either::Left((_, again)) => {
                    self.log.gone_home(record);
                    return again.await.into_iter().for_each(|later| self.log.gone_home(later));
                }
                Either::Right((Ok(later), _)) => {
                    self.log.gone_home(record);
                    record = later;
                }
                Either::Right((Err(_), _)) => {
                    home.await; // there is no room for a later one
                    return self.log.gone_home(record);
                }
            }
        }
    }

    async fn bring_home(&self, group: &Group) {
        self.members.bring_home(self.data_start, group).await;
        if self.layout.level == Level::Parity {
            for change in group {
                let bytes = Buffer::joined(&change.data);
                for slot in change.slots.iter() {
                    if change.is_lost {
                        self.blocks.forget_range(slot, change.offset, change.length());
                    } else {
                        self.blocks.tell(slot, change.offset, &bytes);
                    }
                }
            }
        }
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        if self.layout.level == Level::Striped {
            let devices = self.members.all_devices();
            return try_join_all(devices.iter().map(|device| device.flush())).await.map(|_| ());
        }
        self.log.flush().await
    }
}
