//! Making snapshots, deleting them in steps, and going back to one.
//!
//! A snapshot is a checkpoint whose trees stay. It has all changes that were applied when that is
//! sealed, and each row of the table is on one side of it: so it waits for plans that have places.
//! The log says nothing of snapshots: their changes are durable with a checkpoint, and no batch is
//! sealed between. The steps of a deletion alone need none of their own: a start repeats those
//! that no checkpoint has.
//!
//! A roll-back frees the rows that were begun after the snapshot, whatever is in them: nothing of
//! the live tree is read.
//!
//! Invariants:
//! 1. While a [`Hold`] exists, no plan gets places.
//! 2. A change of the set of snapshots is acknowledged when a checkpoint that has it is durable.
//!
//! Not asserted: 1, which `room` checks; 2, which [`Log::begin_checkpoint`] does.

use std::collections::BTreeSet;
use std::rc::Rc;

use cow::format::snapshot::{Died, LINES, LISTS, State};
use cow::lists::{Lined, Step, rest_of};
use cow::orphans::orphans_since;
use cow::{Node, Run, Stem};
use vfs::{FsError, Snapshot, SnapshotNumber};
use vnode::{SnapshotChange, Space};

use crate::engine::{Lfs, Update};
use crate::log::Log;
use crate::planted::{Bug, is_planted};
use crate::work::{Back, Hold, Pin, Work, Worked};

impl Log {
    /// Waits until no plan has places, and keeps others from getting some.
    ///
    /// # Errors
    /// As [`Log::next_release`].
    async fn hold(&self) -> Result<Hold, FsError> {
        let hold = Hold::begin(&self.is_held, &self.live);
        while self.rows.has_planned() && !is_planted(Bug::SplitRows) {
            self.next_release().await?;
        }
        Ok(hold)
    }
}

impl Lfs {
    /// Plans a change of the set of snapshots.
    pub(crate) async fn plan_change(
        &self,
        update: &mut Update,
        change: SnapshotChange,
    ) -> Result<(), FsError> {
        update.cost += u64::from(self.log.nodes.height(&Stem::Snapshots)) + 3;
        update.work = Some(match change {
            SnapshotChange::Pinned(snapshot) => self.plan_pin(update, snapshot).await?,
            SnapshotChange::Deleted(number, at) => Work::Delete(self.lined(number).await?, at),
            SnapshotChange::RolledBack(number) => {
                Work::RollBack(Box::new(self.plan_back(number).await?))
            }
        });
        Ok(())
    }

    async fn plan_pin(&self, update: &mut Update, snapshot: Snapshot) -> Result<Work, FsError> {
        let log = &self.log;
        if !self.has_room_for_pin() {
            // Updates under way free some room, and a checkpoint perhaps.
            log.all_durable().await?;
            log.checkpoint().await?;
        }
        let slot = log.pins.next_line();
        let leaf =
            match log.nodes.make(&Stem::Snapshots, 0, slot / LINES, &mut update.taken.made).await {
                Err(FsError::Corrupt) => {
                    log.lists().renew_lines(&Stem::Snapshots).await?;
                    log.nodes
                        .make(&Stem::Snapshots, 0, slot / LINES, &mut update.taken.made)
                        .await?
                }
                leaf => leaf?,
            };
        let hold = log.hold().await?;
        let pin = Pin { snapshot, leaf, slot, _hold: hold };
        if self.has_room_for_pin() { Ok(Work::Pin(pin)) } else { Err(FsError::NoSpace) }
    }

    /// Whether there is room for the needs of one more snapshot.
    fn has_room_for_pin(&self) -> bool {
        let (log, pins) = (&self.log, &self.log.pins);
        let blocks = log.live.units.get() / log.shape.block;
        let more = pins.would_keep_with_one_more(blocks).saturating_sub(pins.keeps(blocks));
        // A checkpoint has room for the lists of all of them.
        let are_few = 4 * (pins.holders() as u64 + 1) <= log.shape.dirty();
        are_few && self.floor.has_room(0, more + 8, Space::Superuser, true) && pins.may_list_more()
    }

    async fn lined(&self, number: SnapshotNumber) -> Result<Lined, FsError> {
        let (_, slot) = self.log.pins.told(number).ok_or(FsError::NoEntry)?;
        let leaf = self.line(&Stem::Snapshots, slot / LINES).await?;
        Ok(Lined { number, leaf, slot })
    }

    /// A block of lines, rewritten from memory if it has rotted.
    async fn line(&self, stem: &Stem, leaf: u64) -> Result<Rc<Node>, FsError> {
        let nodes = &self.log.nodes;
        match nodes.get(stem, 0, leaf).await {
            Ok(Some(node)) => return Ok(node),
            Ok(None) | Err(FsError::Corrupt) => {}
            Err(error) => return Err(error),
        }
        self.log.lists().renew_lines(stem).await?;
        nodes.get(stem, 0, leaf).await?.ok_or(FsError::Corrupt)
    }

    /// A block of a list, with its contents.
    async fn block_of_list(&self, place: u64) -> Result<(Rc<Node>, Died), FsError> {
        let block = self.log.nodes.get(&Stem::Died, 0, place).await?.ok_or(FsError::Corrupt)?;
        let died = block.read(Died::read).ok_or(FsError::Corrupt)?;
        let is_held = |run: &Run| {
            run.length <= self.log.shape.units
                && run.units().all(|unit| self.log.rows.is_used(unit.start))
        };
        if died.runs.iter().all(is_held) { Ok((block, died)) } else { Err(FsError::Corrupt) }
    }

    /// Plans the next step of a deletion; returns whether it is the last.
    pub(crate) async fn plan_step(
        &self,
        update: &mut Update,
        number: SnapshotNumber,
    ) -> Result<bool, FsError> {
        let (nodes, pins) = (&self.log.nodes, &self.log.pins);
        let of = self.lined(number).await?;
        let height = |stem: &Stem| u64::from(nodes.height(stem)) + 2;
        update.cost += height(&Stem::Snapshots) + 1;
        let (told, _) = pins.told(number).ok_or(FsError::NoEntry)?;
        if told.state != State::Gone {
            update.work = Some(Work::LetGo(of));
            return Ok(false);
        }
        let (mut behind, mut failed) = (None, None);
        while let Some(listing) = pins.loose_list(behind) {
            update.cost += height(&Stem::Died) + height(&Stem::Lists);
            match self.block_of_list(listing.list.last).await {
                Ok((block, died)) => {
                    let line = self.line(&Stem::Lists, listing.slot / LISTS).await?;
                    update.work = Some(Work::Step(Step { of, listing, line, block, died }));
                    return Ok(false);
                }
                Err(FsError::Corrupt) => pins.note_damage(listing.list.span),
                // An unreadable list delays others only until it can be read again.
                Err(error) => (behind, failed) = (Some(listing.list.span), Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        update.work = Some(Work::End(of));
        Ok(true)
    }

    /// Finds the changes for going back to a snapshot. Nobody uses the volume meanwhile.
    async fn plan_back(&self, number: SnapshotNumber) -> Result<Back, FsError> {
        let log = &self.log;
        let (told, _) = log.pins.told(number).ok_or(FsError::NoEntry)?;
        let hold = loop {
            log.all_durable().await?;
            log.checkpoint().await?;
            let hold = log.hold().await?;
            if !log.has_staged() && log.nodes.dirty_count() == 0 {
                break hold;
            }
        };
        let mut lists = Vec::new();
        for mut listing in log.pins.lists_behind(number) {
            let line = self.line(&Stem::Lists, listing.slot / LISTS).await?;
            let mut places = BTreeSet::new();
            // A list that is damaged, or a circle, keeps its blocks: a check finds them.
            while places.insert(listing.list.last) {
                let (block, died) = match self.block_of_list(listing.list.last).await {
                    Err(FsError::Corrupt) => {
                        log.pins.note_damage(listing.list.span);
                        break;
                    }
                    read => read?,
                };
                let rest = rest_of(listing.list, &died);
                lists.push((listing, line.clone(), block, died));
                let Some(list) = rest else { break };
                listing.list = list;
            }
        }
        let stem = Stem::Pinned(Rc::new(told.inodes));
        let orphans = match told.orphans_since {
            0 => Vec::new(),
            since => orphans_since(&log.nodes, &stem, since).await?,
        };
        Ok(Back { told, lists, orphans, _hold: hold })
    }

    /// Does the planned work, in memory.
    pub(crate) fn work(&self, work: Work) -> Worked {
        let (log, lists) = (&self.log, self.log.lists());
        let (mut pin, mut freed, mut needs_checkpoint) = (None, Vec::new(), true);
        match work {
            Work::Pin(it) => pin = Some(it),
            Work::Delete(of, at) => {
                log.pins.delete(of.number, at);
                lists.write_line(&of);
            }
            Work::LetGo(of) => {
                let told = log.pins.told(of.number);
                told.iter().for_each(|(told, _)| log.nodes.held_trees.remove(told.inodes));
                log.pins.let_go(of.number);
                lists.write_line(&of);
                log.free_loose();
                needs_checkpoint = false;
            }
            Work::Step(step) => {
                lists.take_step(step, &mut freed);
                lists.clear(false);
                needs_checkpoint = false;
            }
            Work::End(of) => lists.end(&of, &mut freed),
            Work::RollBack(back) => self.roll_back(*back, &mut freed),
        }
        Worked { pin, needs_checkpoint, freed }
    }

    /// Makes the live tree that of a snapshot. All replies are forgotten, and all multi-step
    /// operations, except the freeing of the files without a name that it holds.
    fn roll_back(&self, back: Back, freed: &mut Vec<Run>) {
        let Back { told, lists, orphans, .. } = back;
        let (log, live) = (&self.log, &self.log.live);
        for (listing, line, block, died) in lists {
            log.lists().shorten(listing, (&line, &block), &died, freed);
        }
        log.lists().clear(false);
        log.deaths.forget();
        log.rows.void(told.update);
        self.floor.touched.borrow_mut().clear();
        log.nodes.set_inodes(told.inodes);
        log.pins.roll_back(&told);
        live.chains.replace(orphans, told.orphans_since);
        live.files.set(told.files);
        live.directories.set(told.directories);
        live.units.set(told.units);
        log.answers.take();
        log.answers_from.set(log.answers_begun.get());
    }
}
