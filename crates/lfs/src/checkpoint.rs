//! Checkpoints: the dirty blocks of metadata, the table, and the region that is their root.
//!
//! 1. *The seal*, in one step, when no staged change is left: each dirty block gets an address and
//!    its bytes are copied; the blocks of the table that changed are encoded; the region has the
//!    trees as they are then, and the place of the next summary. A start after a cut goes on from
//!    there.
//! 2. The blocks and one copy of the table are written, and flushed.
//! 3. The region is written through, at one end of the disk, then at the other.
//! 4. The other copy of the table is written, and flushed. Only then does the checkpoint count: rot
//!    in one copy of anything gives up nothing.
//!
//! Calls go on meanwhile: what they change is in summaries behind the seal.
//!
//! Invariants:
//! 1. One checkpoint at a time is on its way.
//! 2. The batches before the seal are durable before the region is.
//! 3. Places that a checkpoint frees are used when its region is durable, and not before.
//! 4. One copy of the table is always that of the last durable checkpoint, as far as blocks differ.
//!
//! Not asserted: 3, which `rows` asserts; 2, which [`Log::begin_checkpoint`] does in this order; 4,
//! which is about the order of writes.
//!
//! Commit point: the flush of the other copy of the table. A start after a cut believes a region
//! that is at one end of the disk alone, too, and writes again what has no copy yet.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::{Buffer, Durability, IoError};
use bytes::Bytes;
use cache::coalesce::{Run as Range, runs};
use cow::format::answers;
use cow::format::snapshot::{Line, Told};
use cow::{Anew, BODY, Head, Node, Pointer, Run, Stem, UNIT, sum};
use futures::FutureExt;
use vfs::FsError;

use crate::format::region::Region;
use crate::format::shape::Shape;
use crate::format::table::{self, Owner};
use crate::log::Log;
use crate::planted::{Bug, is_planted};
use crate::rows::{Releases, Rows};
use crate::work::Pin;

/// Blocks of replies, at most.
const RING: u64 = 4096;
/// Bytes of one write.
const LONGEST: u64 = 1 << 20;

/// Number of blocks of replies before the oldest is overwritten.
pub(crate) fn ring(shape: &Shape) -> u64 {
    (shape.units / 64).clamp(8, RING)
}

/// Sealed blocks of metadata, and their bytes by places.
type Sealed = (Vec<Rc<Node>>, BTreeMap<u64, Bytes>);

/// A sealed checkpoint.
struct Checkpoint {
    region: Region,
    turn: u64,
    ranges: Vec<Range>,
    /// Blocks of the table.
    table: Vec<(u64, Bytes)>,
    releases: Releases,
    /// The last change that it makes durable, and the last one that it alone does; 0 for none.
    through: u64,
    barrier: u64,
    /// Stay in memory until the device has them.
    _nodes: Vec<Rc<Node>>,
}

impl Log {
    /// Makes all that is in memory now a part of a durable checkpoint.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped.
    pub(crate) async fn checkpoint(&self) -> Result<(), FsError> {
        let number = self.rows.number.get();
        while self.durable.get() < number {
            if self.rows.number.get() == number {
                self.wants_checkpoint.set(true);
                self.kick();
            }
            self.next_release().await?;
        }
        Ok(())
    }

    /// Seals a checkpoint, and the batch that comes before it; that becomes durable, and the
    /// checkpoint is then written by a task of its own.
    ///
    /// # Errors
    /// [`FsError::Io`]: nothing becomes durable any more.
    pub(crate) async fn begin_checkpoint(&self) -> Result<(), FsError> {
        let mut made = Vec::new();
        let mut anew: Vec<Anew<'_>> = Vec::new();
        let lists = loop {
            while anew.len() < self.answer_blocks() {
                let place = (self.answers_begun.get() + anew.len() as u64) % ring(&self.shape);
                if anew.len() as u64 >= ring(&self.shape) {
                    break;
                }
                anew.push(self.nodes.make_anew(Stem::Answers, place, &anew, &mut made).await?);
            }
            let (before, mut own) = (self.pins.changes(), Vec::new());
            let lists = self.prepare_lists(&mut own).await;
            // Calls and deletions went on meanwhile.
            let are_as_before = self.pins.changes() == before;
            match lists {
                Ok(lists) if are_as_before && self.have_room(&lists) => {
                    made.append(&mut own);
                    break lists;
                }
                Err(error) if are_as_before => return Err(error),
                _ => self.nodes.unmake(&mut own),
            }
        };
        // From here to the seal nothing waits.
        self.wants_checkpoint.set(false);
        let (mut batch, through) = self.seal_before()?;
        self.fold_answers(&anew);
        self.list_deaths(&lists);
        drop((anew, lists));
        self.nodes.unmake(&mut made);
        let barrier = self.barrier.get();
        let sealed = self.seal_checkpoint((through, barrier), self.pin.take())?;
        if is_planted(Bug::EarlyTold) && barrier > 0 {
            self.live.horizon.advance(through);
        }
        batch.iter_mut().filter(|_| barrier > 0).for_each(|batch| batch.through = 0);
        if let Some(batch) = batch {
            self.write_out(batch).await?; // invariant 2
        }
        assert!(!self.is_writing.replace(true), "invariant 1");
        let this = self.me();
        let write = async move {
            if this.write_checkpoint(sealed).await.is_err() {
                this.live.horizon.fail();
            }
            this.is_writing.set(false);
            this.live.released.notify();
            this.look_after();
            if this.wants_checkpoint.get() || this.has_staged() {
                this.kick();
            }
        };
        self.runtime.tasks.spawn(write.boxed_local());
        Ok(())
    }

    /// Blocks that the replies since the last checkpoint fill, at most.
    fn answer_blocks(&self) -> usize {
        let answers = self.answers.borrow();
        let bytes: usize = answers.iter().map(|answer| answer.len() + 2).sum();
        // A reply that does not fit into the rest of a block begins the next one.
        bytes.div_ceil(BODY - vnode::answer::LARGEST - 2)
    }

    /// Puts the replies since the last checkpoint into the ring. The last ones of them, if
    /// there are more than the ring has room for.
    fn fold_answers(&self, anew: &[Anew<'_>]) {
        let mut answers = self.answers.take();
        if is_planted(Bug::ForgottenAnswers) {
            answers.clear();
        }
        let room = anew.len() * (BODY - vnode::answer::LARGEST - 2);
        let mut bytes: usize = answers.iter().map(|answer| answer.len() + 2).sum();
        let mut from = 0;
        while bytes > room {
            bytes -= answers[from].len() + 2;
            from += 1;
        }
        let mut blocks = anew.iter();
        let mut open: Option<(Rc<Node>, usize)> = None;
        for answer in &answers[from..] {
            let fits = |&(_, at): &(Rc<Node>, usize)| at + 2 + answer.len() <= UNIT;
            let (node, at) = match open.take().filter(fits) {
                Some(open) => open,
                None => {
                    let node = self.nodes.begin_anew(blocks.next().expect("there is room"));
                    node.change(|bytes| bytes[size_of::<Head>()..].fill(0));
                    self.nodes.mark(&node);
                    self.answers_begun.set(self.answers_begun.get() + 1);
                    (node, size_of::<Head>())
                }
            };
            let end = node.change(|bytes| answers::put_answer(bytes, at, answer));
            open = Some((node, end));
        }
    }

    /// The seal: nothing waits.
    fn seal_checkpoint(
        &self,
        (through, barrier): (u64, u64),
        pin: Option<Pin>,
    ) -> Result<Checkpoint, FsError> {
        let number = self.rows.number.get();
        let (nodes, writes) = self.seal_nodes(number, pin)?;
        let (lines, releases) = self.rows.snapshot(self.chain.get().place);
        let secret = &self.secret;
        let encoded = |(block, lines): (u64, Vec<table::Line>)| {
            let bytes = table::write(block, &lines, number, secret);
            (block, Buffer::copied(&bytes).freeze())
        };
        let table: Vec<(u64, Bytes)> = lines.into_iter().map(encoded).collect();
        let sums = table.iter().map(|(_, block)| sum(block));
        let region = Region {
            number,
            epoch: self.epoch,
            is_at_rest: self.comes_to_rest.get(),
            trees: self.nodes.trees(),
            counts: self.counts(),
            rows: self.rows.count(),
            table: sums.fold(0, u64::wrapping_add),
            used: self.rows.used(),
            answers_begun: self.answers_begun.get(),
            answers_from: self.answers_from.get(),
            snapshots: self.pins.said(),
            log: self.chain.get(),
            chains: self.live.chains.all(),
        };
        let turn = self.turn.replace(1 - self.turn.get());
        self.rows.number.set(number + 1);
        self.logged.set(0);
        if is_planted(Bug::EarlyReuse) {
            self.rows.release(&releases);
        }
        let ranges = runs(writes, LONGEST);
        Ok(Checkpoint { region, turn, ranges, table, releases, through, barrier, _nodes: nodes })
    }

    /// Seals the dirty blocks of metadata. Returns them, and their bytes by places.
    fn seal_nodes(&self, number: u64, mut pin: Option<Pin>) -> Result<Sealed, FsError> {
        pin.iter().for_each(|pin| self.nodes.mark(&pin.leaf));
        let nodes = self.nodes.take_dirty();
        let mut writes = BTreeMap::new();
        let mut lost = Vec::new();
        for node in &nodes {
            if !node.is_pinnable()
                && let Some(pin) = pin.take()
            {
                self.write_pin(pin, number);
            }
            let owner = if node.is_pinnable() { Owner::Metadata } else { Owner::Volume };
            let count = if node.place.is_twice() { 2 } else { 1 };
            let mut places = [0, 0];
            for place in places.iter_mut().take(count) {
                let run = self.rows.plan(owner, 1, 1, 0).ok_or(FsError::NoSpace)?;
                self.rows.take(run);
                *place = run.start;
            }
            let [address, twin] = places;
            let (block, _, old) = self.nodes.seal(node, (address, twin), number);
            let block = block.freeze();
            for address in places.into_iter().take(count) {
                let piece = self.rows.pieces(address, 1).expect("it was taken")[0];
                writes.insert(piece.place * UNIT as u64, block.clone());
            }
            match (node.is_pinnable(), old[0].is_null()) {
                (true, true) => self.pins.count_node(),
                (true, false) => self.pins.uncount_node(old[0].birth.get(), true),
                (false, _) => {}
            }
            // Those that a snapshot holds are on a list by now.
            let is_free = |old: &Pointer| self.holders_of_old(node, *old).is_none();
            lost.extend(old.into_iter().filter(|old| !old.is_null()).filter(is_free));
        }
        lost.into_iter().for_each(|old| self.free_run(Run::of(old.address.get())));
        Ok((nodes, writes))
    }

    /// Writes the line of a snapshot: its files have their places.
    fn write_pin(&self, pin: Pin, number: u64) {
        let Pin { snapshot, leaf, slot, .. } = pin;
        let of_it = (snapshot.number.0, snapshot.name, snapshot.created);
        let told = Told {
            orphans_since: self.live.chains.orphans_since(),
            ..self.live.told(&self.nodes, &self.pins, of_it, number)
        };
        leaf.change(|bytes| Line::write(bytes, slot, Some(&told)));
        self.nodes.held_trees.add(told.inodes);
        self.pins.pin(told, slot);
        if !is_planted(Bug::OpenRows) {
            self.rows.close_rows();
        }
    }

    async fn write_checkpoint(&self, sealed: Checkpoint) -> Result<(), FsError> {
        let of_table = |copy: usize| {
            let first = self.shape.tables()[copy];
            let at =
                |&(block, ref bytes): &(u64, Bytes)| ((first + block) * UNIT as u64, bytes.clone());
            runs(sealed.table.iter().map(at), LONGEST)
        };
        let tables = [of_table(0), of_table(1)];
        let written: usize = sealed.ranges.iter().chain(tables.iter().flatten()).map(length).sum();
        self.count(|totals| totals.written_bytes += (written + 2 * UNIT) as u64);
        self.until_room(async || {
            self.write_ranges(&sealed.ranges).await?;
            self.write_ranges(&tables[0]).await?;
            self.count(|totals| totals.barriers += 1);
            if is_planted(Bug::EarlyRegion) { Ok(()) } else { self.flush().await }
        })
        .await?;
        let region = sealed.region.write(sealed.turn, &self.secret);
        let region = Buffer::copied(&region).freeze();
        let [first, other] = self.shape.regions(sealed.turn);
        self.until_room(|| self.write_region(first, region.clone())).await?;
        if is_planted(Bug::LoneRegions) {
            self.durable.set(sealed.region.number);
        }
        self.until_room(|| self.write_region(other, region.clone())).await?;
        self.until_room(async || {
            self.write_ranges(&tables[1]).await?;
            self.count(|totals| totals.barriers += 1);
            self.flush().await
        })
        .await?;
        self.complete(&sealed);
        Ok(())
    }

    /// The commit point.
    fn complete(&self, sealed: &Checkpoint) {
        self.durable.set(sealed.region.number);
        if sealed.through > self.live.horizon.through().0 {
            self.live.horizon.advance(sealed.through);
        }
        if self.barrier.get() == sealed.barrier {
            self.barrier.set(0);
        }
        if !is_planted(Bug::EarlyReuse) {
            self.rows.release(&sealed.releases); // invariant 3
        }
        for &row in &sealed.releases.rows {
            let Run { start, length } = Rows::addresses(row);
            let unit = UNIT as u64;
            self.path.cache().spoil(&(start * unit..(start + length) * unit));
        }
        self.count(|totals| totals.checkpoints += 1);
    }

    async fn write_region(&self, place: u64, region: Bytes) -> Result<(), IoError> {
        self.count(|totals| totals.barriers += 1);
        self.device.write(place * UNIT as u64, vec![region], Durability::Through).await
    }
}

fn length(range: &Range) -> usize {
    range.pieces.iter().map(Bytes::len).sum()
}
