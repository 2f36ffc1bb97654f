//! Reads and writes of a set, split into I/O of its members.
//!
//! A write proceeds stripe by stripe. Under the stripe lock, it computes the changes
//! ([`crate::plan`]), makes them durable in the log ([`crate::prelog`]), and writes them in place.
//! So a *through* write needs no flush. A plain write to a stripe that no flush has covered since
//! its first write needs no log ([`crate::written`]). A read asks the one member that has the data;
//! if that is out, or cannot give it, the read asks the others under the stripe lock. A striped set
//! has no redundancy, and no log.
//!
//! These futures must not be dropped before they complete: tasks of the set await them.
//!
//! Invariants:
//! 1. A completed write is in place on all members that are in, and its record is durable, or its
//!    stripe is fresh. A flush leaves no stripe fresh that was fresh before it.
//! 2. Nothing is answered before the labels say durably which members are out
//!    ([`Members::settled`]).
//! 3. All reads of a mirror's stripe ask the same member, as long as that can give the data;
//!    otherwise no write is under way there.
//!
//! Not asserted: 1 and 2, which are about the order of waits: torture's campaign `contract` cuts
//! there; 3, which is about the order of members alone.

use std::cell::Cell;
use std::io::ErrorKind;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use block::{Buffer, Durability, IoError, Verb, length_of, slices};
use bytes::Bytes;
use futures::future::{Either, join, join_all, select, try_join_all};
use runtime::sync::Lock;

use crate::blocks::{BLOCK, Blocks};
use crate::interrupts::Interrupts;
use crate::label::Label;
use crate::layout::{Layout, Level, Piece};
use crate::members::{Members, lost, unread};
use crate::missed::Missed;
use crate::plan::Part;
use crate::planted::{Bug, is_planted};
use crate::prelog::{Group, PreLog};
use crate::record::Change;
use crate::stripe::{Column, Stripe};
use crate::sums::{OfGroup, Sums};
use crate::turns::Turns;
use crate::written::{Moves, Written};

/// With more fresh stripes than this, a write waits until they are durable; with four times as
/// many, every write does.
const MOST_FRESH: usize = 1024;

/// See the module.
pub(crate) struct Array {
    pub(crate) members: Rc<Members>,
    pub(crate) log: Rc<PreLog>,
    pub(crate) written: Rc<Written>,
    pub(crate) layout: Layout,
    pub(crate) data_start: u64,
    pub(crate) stripes: Rc<Turns>,
    pub(crate) blocks: Blocks,
    pub(crate) sums: Rc<Sums>,
    pub(crate) missed: Rc<Missed>,
    /// A rebuild is under way.
    pub(crate) is_rebuilding: Cell<bool>,
    /// A scrub is under way.
    pub(crate) is_scrubbing: Cell<bool>,
    pub(crate) interrupts: Interrupts,
    /// Lock of the task that makes fresh stripes durable.
    settling: Lock,
}

impl Array {
    /// An array of members whose log is empty; `cache` bytes of memory are for their blocks.
    pub(crate) fn new(
        members: Rc<Members>,
        log: Rc<PreLog>,
        written: Rc<Written>,
        (sums, missed): (Rc<Sums>, Rc<Missed>),
        cache: usize,
    ) -> Self {
        let Label { layout, data_start, .. } = members.label();
        let is_known = layout.level == Level::Parity; // a mirror computes no parity
        Self {
            members,
            log,
            written,
            layout,
            data_start,
            stripes: Rc::default(),
            blocks: Blocks::new(if is_known { cache } else { 0 }),
            sums,
            missed,
            is_rebuilding: Cell::new(false),
            is_scrubbing: Cell::new(false),
            interrupts: Interrupts::default(),
            settling: Lock::default(),
        }
    }

    /// The smallest read or write, in bytes.
    pub(crate) fn sector(&self) -> u32 {
        let devices = self.members.all_devices();
        let sectors = devices.iter().map(|device| device.geometry().logical_sector_size);
        self.layout.level.sector(sectors)
    }

    pub(crate) fn stripe(&self) -> Stripe<'_> {
        let Self { members, layout, data_start, blocks, sums, missed, .. } = self;
        Stripe { members, layout, data_start: *data_start, blocks, sums, missed }
    }

    pub(crate) async fn read(&self, at: u64, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len() as u64;
        self.members.counts.note(|done| done.reads += 1);
        let pieces: Vec<Piece> = self.layout.pieces(at, length).collect();
        if let [piece] = pieces[..] {
            return self.read_piece(piece, buffer).await;
        }
        let runs = self.runs(&pieces);
        // Each runs to its end: one may be about to repair.
        let parts = join_all(runs.iter().map(|run| self.read_run(run))).await;
        for part in parts {
            for (at_set, bytes) in part? {
                buffer[(at_set - at) as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        Ok(buffer)
    }

    /// Groups pieces that are adjacent on a member.
    fn runs(&self, pieces: &[Piece]) -> Vec<Vec<Piece>> {
        if self.layout.level != Level::Parity {
            return pieces.iter().map(|&piece| vec![piece]).collect(); // mirrors are asked in turn
        }
        let mut runs: Vec<Vec<Piece>> = Vec::new();
        let is_there = |piece: &Piece| self.written.has(piece.offset / self.layout.unit);
        for &piece in pieces {
            let is_next = |run: &&mut Vec<Piece>| {
                let last = run[run.len() - 1];
                (last.member, last.offset + last.length) == (piece.member, piece.offset)
                    && is_there(&last)
                    && is_there(&piece)
            };
            match runs.iter_mut().rev().find(is_next) {
                Some(run) => run.push(piece),
                None => runs.push(vec![piece]),
            }
        }
        runs
    }

    /// Reads pieces that are adjacent on a member, in one request if the member has all of them.
    /// Returns each piece's offset in the set, and its bytes.
    async fn read_run(&self, run: &[Piece]) -> Result<Vec<(u64, Bytes)>, IoError> {
        if let Some(read) = self.read_at_once(run).await {
            return Ok(read);
        }
        let reads = run.iter().map(async |&piece| {
            let room = Buffer::unfilled(piece.length as usize);
            let read = self.read_piece(piece, room).await?;
            Ok((piece.at, read.freeze()))
        });
        join_all(reads).await.into_iter().collect()
    }

    async fn read_at_once(&self, run: &[Piece]) -> Option<Vec<(u64, Bytes)>> {
        let [first, .., last] = run else { return None };
        let from = first.offset / BLOCK * BLOCK;
        let length = (last.offset + last.length).next_multiple_of(BLOCK) - from;
        let room = Buffer::unfilled(length as usize);
        let read = self.members.read(first.member, self.data_start + from, room);
        let (read, sums) = join(read, self.sums.of(first.member, from, length)).await;
        let sums = sums.ok()?;
        let read = read.filter(|read| sums.fit(from, read).all(|fits| fits))?.freeze();
        let of_piece = |piece: &Piece| {
            let within = (piece.offset - from) as usize;
            (piece.at, read.slice(within..within + piece.length as usize))
        };
        Some(run.iter().map(of_piece).collect())
    }

    async fn read_piece(&self, piece: Piece, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let at = self.data_start + piece.offset;
        if self.layout.level == Level::Striped {
            let read = self.members.read(piece.member, at, buffer).await;
            return read.ok_or_else(|| unread(Verb::Read)); // nothing tells whether it is lost
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
        if let (Some(read), Ok(sums)) = join(read, sums).await
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
                let (device, data) = (self.members.device(piece.member), cut(&piece));
                async move {
                    // A label that could not be written puts a member out.
                    let device = device.ok_or_else(|| lost(Verb::Write))?;
                    device.write(self.data_start + piece.offset, data, durability).await
                }
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
        // A written stripe has its space; an unwritten one may find none.
        if self.members.are_full_for_good()
            && stripes.iter().any(|&(it, _)| !self.written.has_room(it))
        {
            return Err(IoError::new(Verb::Write, at, 0, ErrorKind::StorageFull));
        }
        let write = |(stripe, parts)| self.write_stripe(stripe, parts, durability);
        let writes = stripes.into_iter().map(write);
        // Each runs to its end, whatever becomes of the others.
        join_all(writes).await.into_iter().collect::<Result<(), IoError>>()?;
        let fresh = self.written.count_fresh();
        // One of the streaming writes settles them; the others go on meanwhile.
        if fresh > 4 * MOST_FRESH || fresh > MOST_FRESH && self.settling.is_free() {
            self.settle_fresh().await?;
        }
        self.outlive_log_device().await?;
        self.members.settled(Verb::Write).await // invariant 2
    }

    /// A log device that is not trusted since a call began may alone have its record: it is left
    /// before the call is answered.
    async fn outlive_log_device(&self) -> Result<(), IoError> {
        match self.log.log_device() {
            Some(device) if device.is_distrusted => self.log.leave_apart().await,
            _ => Ok(()),
        }
    }

    /// Changes a stripe atomically.
    async fn write_stripe(
        &self,
        stripe: u64,
        parts: Vec<Part>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let _alone = self.stripes.alone(stripe).await;
        self.members.settled(Verb::Write).await?;
        self.written.settled(stripe).await;
        let is_plain = durability == Durability::Plain;
        if self.written.is_fresh(stripe) && !is_plain {
            self.settle_fresh().await?;
        }
        let first = Some(stripe).filter(|&stripe| !self.written.has(stripe));
        if is_plain && (first.is_some() || self.written.is_fresh(stripe)) {
            // Without an await before this: from here on no record gets the stripe's bit.
            self.written.begin(stripe);
            let written = self.write_in_place(stripe, parts, first.is_some()).await;
            if !is_planted(Bug::UntouchedStripes) {
                // Without an await before this: no flush that has begun covers the write.
                self.missed.touch(stripe, self.log.next());
            }
            self.written.end(stripe, written.is_ok());
            return written;
        }
        self.write_logged(stripe, parts, first).await
    }

    /// Vacates the whole stripes of a range: they are as if they had never been written. A stripe
    /// for which the log has no room stays as it is.
    pub(crate) async fn vacate(&self, range: &Range<u64>) -> Result<(), IoError> {
        if self.layout.level == Level::Striped {
            return Ok(());
        }
        let stripes = self.shape().within(range).filter(|&stripe| self.written.has(stripe));
        let vacated = join_all(stripes.map(|stripe| self.vacate_stripe(stripe))).await;
        vacated.into_iter().filter(|it| !it.as_ref().is_err_and(IoError::is_full)).collect()
    }

    async fn vacate_stripe(&self, stripe: u64) -> Result<(), IoError> {
        let _alone = self.stripes.alone(stripe).await;
        self.members.settled(Verb::Discard).await?;
        self.written.settled(stripe).await;
        if !self.written.is_logged(stripe) {
            return Ok(()); // it is written in place as it is
        }
        let vacated = vec![Change::vacated(stripe * self.layout.unit)];
        if is_planted(Bug::EarlyPlaces) {
            let moves = Moves { vacated: vec![stripe], ..Moves::default() };
            self.written.are_logged(&moves, self.log.next());
            return Ok(());
        }
        let record = self.log.append(vacated, None).await?;
        self.log.gone_home(record); // the bit is written in place with the map
        Ok(())
    }

    /// Stripe geometry, for callers that write whole stripes.
    pub(crate) fn shape(&self) -> block::Stripe {
        block::Stripe { unit: self.layout.unit, width: self.layout.width() }
    }

    /// Plans a write to a stripe, and holds the tables of its checksums, with their places
    /// allocated.
    async fn planned(
        &self,
        stripe: u64,
        parts: Vec<Part>,
        is_first: bool,
    ) -> Result<(Group, OfGroup), IoError> {
        let written: u64 = parts.iter().map(|part| length_of(&part.data)).sum();
        let parts = self.stripe().whole(stripe, parts, is_first).await?;
        let group = if is_first {
            self.stripe().plan_first(stripe, &parts)
        } else {
            self.stripe().plan(stripe, &parts).await?
        };
        let sums = self.sums.of_group(&group).await?;
        self.sums.place_all(&sums).await;
        let is_full = written == self.layout.width() * self.layout.unit;
        self.members.counts.note(|done| {
            *(if is_full { &mut done.full_stripes } else { &mut done.partial_stripes }) += 1;
        });
        Ok((group, sums))
    }

    /// Writes a stripe through the log.
    async fn write_logged(
        &self,
        stripe: u64,
        parts: Vec<Part>,
        first: Option<u64>,
    ) -> Result<(), IoError> {
        let (group, sums) = self.planned(stripe, parts, first.is_some()).await?;
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

    /// Writes a stripe whose bit no record has, in place.
    async fn write_in_place(
        &self,
        stripe: u64,
        parts: Vec<Part>,
        is_first: bool,
    ) -> Result<(), IoError> {
        let (group, sums) = self.planned(stripe, parts, is_first).await?;
        self.bring_home(&group).await;
        self.members.settled(Verb::Write).await?;
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Write));
        }
        sums.are_written();
        Ok(())
    }

    /// Makes all fresh stripes durable, and then logs their bits.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn settle_fresh(&self) -> Result<(), IoError> {
        let _alone = self.settling.exclusive().await;
        let stripes = self.written.take().await;
        if stripes.is_empty() {
            return Ok(());
        }
        let settled = self.settle(&stripes).await;
        self.written.let_go(&stripes, settled.is_ok());
        settled
    }

    /// Does so for these stripes, which are not written meanwhile.
    async fn settle(&self, stripes: &[u64]) -> Result<(), IoError> {
        // A member that fails now has missed them: the log of missed regions must know before they
        // have bits.
        stripes.iter().for_each(|&stripe| self.missed.touch(stripe, self.log.next()));
        if !is_planted(Bug::EarlyBits) {
            // Each has changed checksums, and writing these in place includes a flush.
            self.log.settle_fresh_sums().await?;
            while self.sums.are_stuck(stripes) {
                self.log.until_again().await?;
                self.log.settle_fresh_sums().await?;
            }
        }
        if self.members.gave_up() {
            return Err(IoError::closed(Verb::Flush));
        }
        let mut left = stripes.to_vec();
        while !left.is_empty() {
            let append = |&stripe: &u64| async move {
                let appended = self.log.append(Vec::new(), Some(stripe)).await;
                // The bit is written with the map. Without delay: the next append may need the
                // room.
                appended.map(|record| self.log.gone_home(record))
            };
            let appended = join_all(left.iter().map(append)).await;
            let mut again = Vec::new();
            for (stripe, appended) in left.into_iter().zip(appended) {
                match appended {
                    Err(error) if error.is_full() => again.push(stripe),
                    appended => appended?,
                }
            }
            left = again;
            if !left.is_empty() {
                self.log.until_again().await?;
            }
        }
        Ok(())
    }

    /// Writes a record's group in place, and reports that to the log. If it finds no space for
    /// long, a later record takes the group over, so that the log goes on.
    async fn bring_home_from(&self, record: u64, group: &Group, first: Option<u64>) {
        let (mut record, mut home) = (record, pin!(self.bring_home(group)));
        loop {
            let pressed = pin!(self.log.pressed(record));
            if let Either::Left(_) = select(home.as_mut(), pressed).await {
                return self.log.gone_home(record);
            }
            let again = pin!(self.log.append_again(group.clone(), first));
            match select(home.as_mut(), again).await {
                // Without delay: a round may wait for that before it gets to the later record.
                Either::Left((_, again)) => {
                    self.log.gone_home(record);
                    return again.await.into_iter().for_each(|later| self.log.gone_home(later));
                }
                Either::Right((Ok(later), _)) => {
                    self.log.gone_home(record);
                    record = later;
                }
                Either::Right((Err(_), _)) => {
                    home.await; // no room for a later record
                    return self.log.gone_home(record);
                }
            }
        }
    }

    async fn bring_home(&self, group: &Group) {
        let unit = self.layout.unit;
        let of_takers = |change: &Change| {
            let takes = |slot: &usize| self.members.takes(*slot, change.offset / unit);
            Change { slots: change.slots.iter().filter(takes).collect(), ..change.clone() }
        };
        let to_takers: Group = group.iter().map(of_takers).collect();
        self.members.bring_home(self.data_start, &to_takers).await;
        for (change, slot) in to_takers.iter().flat_map(|it| it.slots.iter().map(move |s| (it, s)))
        {
            self.members.unread.forget_range(slot, change.offset, change.length());
        }
        if self.layout.level != Level::Parity {
            return;
        }
        let is_whole = |change: &&Change| change.length() == self.layout.unit && !change.is_zeros;
        // A writer of whole stripes does not read old data for parity.
        let is_stream = group.iter().filter(is_whole).count() == self.layout.members;
        for change in group {
            for slot in change.slots.iter() {
                if change.is_lost || is_stream {
                    self.blocks.forget_range(slot, change.offset, change.length());
                    continue;
                }
                let mut at = change.offset;
                for piece in &change.data {
                    self.blocks.tell(slot, at, piece);
                    at += piece.len() as u64;
                }
            }
        }
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        if self.layout.level == Level::Striped {
            let devices = self.members.all_devices();
            return try_join_all(devices.iter().map(|device| device.flush())).await.map(|_| ());
        }
        self.settle_fresh().await?;
        self.log.flush().await?;
        if self.missed.is_nowhere() {
            self.log.settle_sums().await?; // now, so that a cut does not cost a whole member
        }
        self.outlive_log_device().await
    }
}
