//! Recovers a cut story, has everything repaired, and judges the result.
//!
//! * A block shows a version that it may show, and the same at every recovery.
//! * A block is unreadable only if the [solver](super::solver) finds no way to read it.
//! * A replacement that has ended leaves two copies of each table of checksums.
//! * A scrub lists exactly the unreadable blocks. Where it lists none, all members are in, they are
//!   consistent, nothing is left to repair, and any one of them can be lost.

use std::collections::BTreeSet;

use block::{BlockDevice, Buffer};
use raid::Set;
use raid::assembly::Witness;
use raid::label::Standing;
use sim::{Executor, Prng};

use super::case::{Area, Fault, Occasion};
use super::rot::Rotten;
use super::schedule::{Moment, NEXT, PATIENCE, Story, World};
use super::solver::{BLOCK, Bad, Disks, fits_together, is_given};
use super::workload::{Call, Done, Versions};

/// A story that was cut before an event.
pub(super) struct CutStory<'s> {
    pub(super) story: &'s Story,
    pub(super) serial: u64,
    /// The cut is behind everything that was recorded.
    pub(super) is_end: bool,
    /// Every disk as the cut has left it, unplugged ones included.
    pub(super) disks: Disks,
    pub(super) rotten: Rotten,
}

/// The allowed results of a cut story.
struct Expected {
    versions: Versions,
    /// Blocks that must be readable in the end.
    readable: BTreeSet<u64>,
    /// The set may be refused for good.
    may_be_refused: bool,
    /// Each inspection may show another version: no record says which one holds.
    is_open: bool,
}

/// The result of inspecting a set.
struct Look {
    blocks: Vec<Option<Vec<u8>>>,
}

impl Look {
    async fn at(set: &Set, blocks: u64) -> Self {
        let room = Buffer::zeroed((blocks * BLOCK) as usize);
        if let Ok(all) = set.read(0, room).await {
            let blocks = all.chunks(BLOCK as usize).map(|block| Some(block.to_vec())).collect();
            return Self { blocks };
        }
        let mut read = Vec::new();
        for block in 0..blocks {
            let room = Buffer::zeroed(BLOCK as usize);
            read.push(set.read(block * BLOCK, room).await.ok().map(|bytes| bytes.to_vec()));
        }
        Self { blocks: read }
    }

    fn unreadable(&self) -> BTreeSet<u64> {
        (0..).zip(&self.blocks).filter(|(_, read)| read.is_none()).map(|(block, _)| block).collect()
    }
}

impl CutStory<'_> {
    /// Recovers the story and repairs it to the end.
    ///
    /// # Errors
    /// The violation, in words.
    pub(super) fn judge(self, prng: &mut Prng) -> Result<(), String> {
        let mut disks = self.disks.clone();
        let mut witness = self.story.witness_at(self.serial);
        let (absent, occasion) = (self.story.absent, self.story.case.occasion);
        let is_late = matches!(occasion, Occasion::Late | Occasion::FailedStart | Occasion::Away)
            || prng.chance(1, 8) && occasion != Occasion::Whole;
        let mut expected = self.expected(is_late);
        if self.is_end && self.story.is_closed {
            self.lose_other_tables(&witness, &expected)?;
        }
        if is_late {
            self.start_without(absent, &mut disks, &mut witness, &mut expected, prng)?;
        }
        // A disk that is gone for good is no source.
        if occasion == Occasion::Spare && self.is_gone() {
            disks[absent] = None;
        }
        self.repair(disks, witness, &mut expected, prng)
    }

    /// Whether the absent member of a set with a spare is lost for good: in half of the stories.
    fn is_gone(&self) -> bool {
        self.story.case.seed.is_multiple_of(2)
    }

    /// The tables of the leaving disk had rotted. Loses the disk with their other copies, and lets
    /// rot what they cover: no rotten block is shown.
    fn lose_other_tables(&self, witness: &Witness, expected: &Expected) -> Result<(), String> {
        let Story { absent, shape, .. } = self.story;
        let of_leaving = self.rotten.sums.iter().filter(|(_, holder)| holder == absent);
        for &(slot, _) in of_leaving {
            let mut holders = shape.tables_of(slot).map(|(holder, _)| holder).into_iter();
            let other = holders.find(|holder| holder != absent).expect("two disks have copies");
            if other == slot {
                continue;
            }
            let mut disks = self.disks.clone();
            (disks[other], disks[*absent]) = (None, None);
            let disk = if slot == *absent { shape.members } else { slot };
            let Some(image) = &mut disks[disk] else { continue };
            for column in 0..shape.columns() {
                let mut byte = [0];
                image.read(shape.column_at(column), &mut byte);
                image.write(shape.column_at(column), &[byte[0] ^ 1]);
            }
            let executor = Executor::new(7);
            let world = World::new(&executor, &disks);
            let look = async {
                let set = world.open(Some(witness.clone())).await?;
                Ok::<_, String>(Look::at(&set, shape.blocks()).await)
            };
            let look = executor.block_on_for(PATIENCE, look).ok_or("a start has no end")?;
            let when = |wrong| format!("replaced, and without the other tables of {slot}: {wrong}");
            let mut versions = expected.versions.clone();
            for (block, read) in (0..).zip(&look.map_err(when)?.blocks) {
                read.iter().try_for_each(|read| versions.judge(block, read)).map_err(when)?;
            }
        }
        Ok(())
    }

    /// Starts the set once before a disk comes, and checks what it shows.
    fn start_without(
        &self,
        absent: usize,
        disks: &mut Disks,
        witness: &mut Witness,
        expected: &mut Expected,
        prng: &mut Prng,
    ) -> Result<(), String> {
        let executor = Executor::new(4);
        let mut there = disks.clone();
        there[absent] = None;
        let world = World::new(&executor, &there);
        let is_scrubbed = prng.chance(1, 2);
        let blocks = self.story.shape.blocks();
        let start = async {
            let Ok(set) = world.open(Some(witness.clone())).await else { return None };
            let look = Look::at(&set, blocks).await;
            let lost = if is_scrubbed { scrub(&set).await.ok().map(|found| found.1) } else { None };
            let _ = set.close().await;
            Some((look, lost))
        };
        let looked = executor.block_on_for(PATIENCE, start);
        let looked = looked.ok_or("a start without a disk has no end")?;
        *witness = world.last_told().unwrap_or(witness.clone());
        for (disk, after) in disks.iter_mut().zip(world.contents()) {
            *disk = after.or(disk.take());
        }
        let Some((look, lost)) = looked else { return Ok(()) };
        let when = |wrong| format!("start without disk {absent}: {wrong}");
        look_at(&look, expected).map_err(when)?;
        match lost {
            Some(lost) if lost != look.unreadable() => Err(when(format!(
                "a scrub lists {lost:?} as lost, and {:?} are unreadable",
                look.unreadable()
            ))),
            _ => Ok(()),
        }
    }

    /// Plugs everything in, repairs it to the end, and reads it.
    fn repair(
        &self,
        disks: Disks,
        witness: Witness,
        expected: &mut Expected,
        prng: &mut Prng,
    ) -> Result<(), String> {
        let executor = Executor::new(5);
        let world = World::new(&executor, &disks);
        let shape = self.story.shape;
        let repaired = async {
            let set = match world.open(Some(witness)).await {
                Ok(set) => set,
                Err(_) if expected.may_be_refused => return Ok(None),
                Err(refused) => return Err(format!("the set is refused: {refused}")),
            };
            look_at(&Look::at(&set, shape.blocks()).await, expected)
                .map_err(|wrong| format!("at the start: {wrong}"))?;
            let slots = self.fill_all(&world, &set).await?;
            scrub(&set).await?;
            let (mended, lost) = scrub(&set).await?;
            let look = Look::at(&set, shape.blocks()).await;
            look_at(&look, expected).map_err(|wrong| format!("in the end: {wrong}"))?;
            let unreadable = look.unreadable();
            if let Some(block) = unreadable.intersection(&expected.readable).next() {
                let (column, member) = shape.place_of(*block);
                return Err(format!(
                    "block {block} (column {column}, slot {member:?}) is lost, and disks have it; \
                     unreadable: {unreadable:?}"
                ));
            }
            if lost != unreadable {
                return Err(format!(
                    "a scrub lists {lost:?} as lost, and {unreadable:?} are unreadable"
                ));
            }
            let is_whole = set.label().is_whole();
            if unreadable.is_empty() && (mended > 0 || !is_whole) {
                return Err(format!("{mended} mended by a second scrub, all in: {is_whole}"));
            }
            let _ = set.close().await;
            Ok(Some((look, slots)))
        };
        let repaired =
            executor.block_on_for(PATIENCE, repaired).ok_or("the repair has no end")??;
        let Some((look, slots)) = repaired else { return Ok(()) };
        if !look.unreadable().is_empty() {
            return Ok(());
        }
        let after = world.contents();
        self.is_redundant(&after, &slots, &look, expected)?;
        if prng.chance(1, 2) {
            let lost = slots[prng.index(slots.len())];
            self.read_without(after, lost, world.last_told(), &look)?;
        }
        Ok(())
    }

    /// Fills every slot whose member is out. Returns the disk of each slot.
    async fn fill_all(&self, world: &World, set: &Set) -> Result<Vec<usize>, String> {
        let Story { absent, shape, .. } = *self.story;
        let mut disks: Vec<usize> = Vec::new();
        for slot in 0..shape.members {
            let member = set.label().slots[slot].member;
            let mut own = None;
            for disk in 0..=shape.members {
                let label = world.label(disk).await;
                if label.is_some_and(|label| label.member() == member) {
                    own = Some(disk);
                }
            }
            let new = if slot == absent && (member == NEXT || world.disks[slot].is_none()) {
                shape.members
            } else {
                slot
            };
            let disk = own.unwrap_or(new);
            if set.label().slots[slot].standing != Standing::InSync {
                let device = world.disks[disk].clone().expect("there is a disk for each slot");
                let member = if own.is_some() { member } else { [100 + slot as u8; 16] };
                let filled = set.rebuild(slot, device, member, |_, _| ()).await;
                filled.map_err(|error| format!("slot {slot} is not filled: {error}"))?;
            }
            // An interrupted replacement continues.
            if let Some(begun) = set.label().incoming().filter(|it| it.slot == slot) {
                let device = world.disks[shape.members].clone().expect("it has a label");
                let replaced = set.replace(slot, device, begun.other, |_, _| ()).await;
                replaced.map_err(|error| format!("slot {slot} is not replaced: {error}"))?;
                disks.push(shape.members);
                continue;
            }
            disks.push(disk);
        }
        Ok(disks)
    }

    /// Whether the members together have the shown contents.
    fn is_redundant(
        &self,
        disks: &Disks,
        slots: &[usize],
        look: &Look,
        expected: &Expected,
    ) -> Result<(), String> {
        let shape = &self.story.shape;
        let members: Vec<_> = slots.iter().filter_map(|&disk| disks[disk].as_ref()).collect();
        let each = shape.unit / BLOCK;
        // Zeros may be those of a stripe that was never written.
        let is_zero = |stripe: u64| {
            let here = (0..shape.blocks()).filter(|&it| shape.place_of(it).0 / each == stripe);
            let mut here = here.peekable();
            let is_fresh = |block: u64| {
                let read = look.blocks[block as usize].as_ref();
                let is_in_fresh = block * BLOCK >= self.story.fresh_from;
                is_in_fresh && read.is_some_and(|read| read.iter().all(|&byte| byte == 0))
            };
            here.all(is_fresh)
        };
        for stripe in (0..shape.rows).filter(|&stripe| !is_zero(stripe)) {
            for column in stripe * each..(stripe + 1) * each {
                if !fits_together(shape, &members, column) {
                    return Err(format!("called clean, and column {column} does not fit together"));
                }
            }
        }
        let disks: Vec<Vec<_>> = members.iter().map(|image| vec![*image]).collect();
        for block in 0..shape.blocks() {
            let stripe = shape.place_of(block).0 / each;
            let Some(read) = &look.blocks[block as usize] else { continue };
            let is_written = !is_zero(stripe) && !expected.versions.is_fresh(block);
            if is_written && !is_given(shape, &disks, block, read) {
                return Err(format!("called clean, and no disk has block {block}"));
            }
        }
        Ok(())
    }

    /// Reads everything once more without one disk.
    fn read_without(
        &self,
        mut disks: Disks,
        lost: usize,
        witness: Option<Witness>,
        look: &Look,
    ) -> Result<(), String> {
        disks[lost] = None;
        let executor = Executor::new(6);
        let world = World::new(&executor, &disks);
        let again = async {
            let set = world.open(witness).await?;
            let again = Look::at(&set, self.story.shape.blocks()).await;
            let _ = set.close().await;
            Ok::<_, String>(again)
        };
        let again = executor.block_on_for(PATIENCE, again).ok_or("a start has no end")?;
        let again = again.map_err(|why| format!("called clean, and not without {lost}: {why}"))?;
        match (0..look.blocks.len()).find(|&block| again.blocks[block] != look.blocks[block]) {
            Some(block) => {
                Err(format!("called clean, and block {block} is another without disk {lost}"))
            }
            None => Ok(()),
        }
    }

    /// The allowed results, perhaps after a start before the absent disk comes.
    fn expected(&self, is_late: bool) -> Expected {
        let Story { shape, fresh_from, before, calls, .. } = self.story;
        let at = |serial| Versions::at_cut(shape, *fresh_from, before, (calls, serial));
        let mut versions = at(self.serial);
        let mut bad = self.rotten.bad.clone();
        let missed = self.missed(is_late);
        let is_absent_bad = !missed.is_empty() || self.is_gone_now();
        bad.columns.extend(missed.iter().map(|&column| (self.story.absent, column)));
        if self.is_gone_now() {
            bad.members.insert(self.story.absent);
        }
        let fault = match self.story.case.fault {
            Fault::Rot(Area::Label) if self.lacks_a_label() => Fault::RotAll(Area::Label),
            fault => fault,
        };
        let is_all = matches!(fault, Fault::RotAll(_));
        let touched = self.touched(calls, self.serial);
        let (mut may_be_refused, mut is_open) = (false, false);
        match fault {
            Fault::RotAll(Area::Label) => {
                bad.members.insert(self.story.faulty);
                // If the two members of a mirror have started apart, no member is left to vouch for
                // the other.
                let is_started_apart = self.story.case.occasion.is_apart();
                let is_alone = shape.members == 2 && is_started_apart;
                may_be_refused = is_alone || is_absent_bad && shape.tolerance() < 2;
            }
            // The tables may describe a first write that no flush has covered.
            Fault::Rot(Area::Map) | Fault::RotAll(Area::Map) => {
                let made = self.made_by(&touched).into_iter();
                let of_all = |column| (0..shape.members).map(move |member| (member, column));
                bad.columns.extend(made.flat_map(of_all));
            }
            // A record with no other copy plugged in is as if it had never been written.
            Fault::Rot(area) | Fault::RotAll(area) if area.is_of_log() => {
                let is_alone = !matches!(self.story.case.occasion, Occasion::Whole);
                if is_all || is_alone {
                    versions.plus(&at(0));
                    versions.widen(calls, self.serial);
                    let all =
                        touched.iter().flat_map(|&it| (0..shape.members).map(move |m| (m, it)));
                    bad.columns.extend(all);
                    (may_be_refused, is_open) = (true, true);
                }
            }
            Fault::Rot(Area::Table) | Fault::RotAll(Area::Table) => {
                let of_before = self.touched(before, u64::MAX);
                for &(slot, _) in &self.rotten.sums {
                    let holders = shape.tables_of(slot).map(|(holder, _)| holder);
                    if is_all || holders.contains(&self.story.absent) {
                        let columns = touched.iter().chain(&of_before);
                        bad.columns.extend(columns.map(|&column| (slot, column)));
                    }
                }
            }
            // New bytes replaced data needed to compute others, and were unreadable for long.
            Fault::Unread if self.story.is_unread_throughout => {
                bad.columns.extend(touched.iter().map(|&column| (self.story.faulty, column)));
            }
            _ => {}
        }
        let mut readable = BTreeSet::new();
        for block in 0..shape.blocks() {
            if bad.leaves(shape, block) || self.is_in_images(block, &versions, &bad) {
                readable.insert(block);
            }
        }
        Expected { versions, readable, may_be_refused, is_open }
    }

    /// Whether the cut has torn the one copy of the faulty disk's label that has not rotted.
    fn lacks_a_label(&self) -> bool {
        let executor = Executor::new(6);
        let world = World::new(&executor, &self.disks);
        executor.block_on(world.label(self.story.faulty)).is_none()
    }

    /// The absent disk is gone for good.
    fn is_gone_now(&self) -> bool {
        self.story.case.occasion == Occasion::Spare && self.is_gone()
    }

    /// Columns touched by calls that were issued before an event.
    fn touched(&self, calls: &[Done], serial: u64) -> BTreeSet<u64> {
        let issued = calls.iter().filter(|it| it.issued.is_some_and(|issued| issued < serial));
        let columns = issued.filter_map(|done| match done.call {
            Call::Write { at, length, .. } => Some(self.story.shape.columns_of(at, length)),
            Call::Flush => None,
        });
        columns.flatten().collect()
    }

    /// Columns in which the absent member may lack the latest data.
    fn missed(&self, is_late: bool) -> BTreeSet<u64> {
        let Story { case, before, calls, rebuilt, moment, .. } = self.story;
        let is_rebuilt = rebuilt.is_some_and(|when| when < self.serial);
        let is_rot = matches!(case.fault, Fault::Rot(_) | Fault::RotAll(_));
        let is_bad_by_then = is_rot && *moment != Moment::Cut || self.story.is_unread_throughout;
        let is_in = is_rebuilt && !is_bad_by_then || case.occasion == Occasion::Replaced;
        // A start without the member writes the log's records in place: the member misses those,
        // whatever it had before.
        if case.occasion == Occasion::Whole || is_in && !is_late {
            return BTreeSet::new();
        }
        let mut missed = self.touched(calls, self.serial);
        if !is_in {
            missed.extend(self.touched(before, u64::MAX));
        }
        missed.extend(self.made_by(&missed));
        missed
    }

    /// Columns made by writes that touch these: the first write of a stripe makes all of it.
    fn made_by(&self, touched: &BTreeSet<u64>) -> BTreeSet<u64> {
        let Story { shape, fresh_from, .. } = self.story;
        let (each, first) = (shape.unit / BLOCK, fresh_from / (shape.width() * shape.unit));
        let stripes = touched.iter().map(|column| column / each).filter(|&it| it >= first);
        stripes.flat_map(|stripe| stripe * each..(stripe + 1) * each).collect()
    }

    /// Whether the disks had a block right after the last fault, and nothing was written there
    /// since. Only where checksums can decide it.
    fn is_in_images(&self, block: u64, versions: &Versions, bad: &Bad) -> bool {
        let Story { case, shape, absent, after_rot, calls, .. } = self.story;
        if !bad.members.is_empty()
            || matches!(case.fault, Fault::RotAll(Area::Table) | Fault::Rot(Area::Table))
        {
            return false;
        }
        let Some(bytes) = versions.certain(block) else { return false };
        let column = shape.place_of(block).0;
        let touched = self.touched(calls, self.serial);
        // The zeros of a first write that no flush has covered have no checksum to prove them. In a
        // mirror each table that covers the stripe has the checksums of all of it.
        let is_of_map = matches!(case.fault, Fault::RotAll(Area::Map) | Fault::Rot(Area::Map));
        let is_unproven = is_of_map && !shape.is_mirror && self.made_by(&touched).contains(&column);
        if touched.contains(&column) || is_unproven {
            return false;
        }
        let images = if self.story.moment == Moment::Cut { None } else { after_rot.as_ref() };
        if images.is_some() && self.story.moment == Moment::First {
            let before = self.touched(&self.story.before, u64::MAX);
            if before.contains(&column) {
                return false;
            }
        }
        let images = images.unwrap_or(&self.disks);
        let of_slot = |slot: usize| {
            let other = (slot == *absent).then(|| images[shape.members].as_ref()).flatten();
            images[slot].as_ref().into_iter().chain(other).collect::<Vec<_>>()
        };
        let disks: Vec<Vec<_>> = (0..shape.members).map(of_slot).collect();
        disks.iter().all(|disks| !disks.is_empty()) && is_given(shape, &disks, block, &bytes)
    }
}

/// Judges the blocks that were read.
fn look_at(look: &Look, expected: &mut Expected) -> Result<(), String> {
    let before = expected.is_open.then(|| expected.versions.clone());
    for (block, read) in (0..).zip(&look.blocks) {
        let Some(read) = read else { continue };
        expected.versions.judge(block, read)?;
    }
    if let Some(before) = before {
        expected.versions = before;
    }
    Ok(())
}

/// Scrubs a set. Returns the number of repaired blocks, and the lost ones.
async fn scrub(set: &Set) -> Result<(u64, BTreeSet<u64>), String> {
    let found = set.scrub(|_, _, _| ()).await.map_err(|error| format!("scrub: {error}"))?;
    let blocks = |&(at, length): &(u64, u64)| at / BLOCK..(at + length) / BLOCK;
    Ok((found.mended, found.lost.iter().flat_map(blocks).collect()))
}
