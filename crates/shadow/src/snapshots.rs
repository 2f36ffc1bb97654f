//! Making snapshots, and deleting them in steps.
//!
//! A snapshot is made with an update that is sealed as soon as it is staged, and none is sealed
//! before: so it holds all that was applied until then, and nothing later. A deletion first writes
//! a line with that state; when no client reads the snapshot any more, a line that holds nothing;
//! then each step frees the last block of a list that has no snapshot left.
//!
//! Invariants:
//! 1. No snapshot holds the blocks that a step frees.
//!
//! Not asserted: 1, which [`Pins`](cow::pins::Pins) asserts.

use std::rc::Rc;

use cow::format::snapshot::{Died, LINES, LISTS, State};
use cow::lists::{Lined, Lists, Step};
use cow::{Listing, Node, Run, Stem};
use vfs::{FsError, Snapshot, SnapshotNumber};
use vnode::{SnapshotChange, Space as Kind};

use crate::commit::{Hold, Pin};
use crate::engine::{Shadow, Update};
use crate::planted::{Bug, is_planted};
use crate::units::Units;
use crate::work::Work;

/// Units for the record of a step.
const RECORD: u64 = 4;

impl Shadow {
    /// Plans a change of the set of snapshots.
    pub(crate) async fn plan_change(
        &self,
        update: &mut Update,
        change: SnapshotChange,
    ) -> Result<(), FsError> {
        update.cost += u64::from(self.nodes.height(&Stem::Snapshots)) + 3;
        update.work = Some(match change {
            SnapshotChange::Pinned(snapshot) => self.plan_pin(update, snapshot).await?,
            SnapshotChange::Deleted(number, at) => Work::Delete(self.lined(number).await?, at),
            SnapshotChange::RolledBack(number) => {
                self.end_compaction().await; // the volume is stopped next
                let hold = loop {
                    self.commits.all_durable().await?;
                    let hold = self.commits.hold().await?;
                    if !self.commits.has_staged() {
                        break hold;
                    }
                };
                let back = self.plan_roll_back(number).await?;
                update.cost += back.cost();
                Work::RollBack(Box::new(back), hold)
            }
        });
        Ok(())
    }

    async fn plan_pin(&self, update: &mut Update, snapshot: Snapshot) -> Result<Work, FsError> {
        if !self.has_room_for_pin() || self.commits.is_fold_due() {
            // Updates under way free some room, and a fold perhaps.
            self.commits.folded().await?;
        }
        let slot = self.pins.next_line();
        let made = &mut update.taken.made;
        let leaf = match self.nodes.make(&Stem::Snapshots, 0, slot / LINES, made).await {
            Err(FsError::Corrupt) => {
                self.lists().renew_lines(&Stem::Snapshots).await?;
                self.nodes.make(&Stem::Snapshots, 0, slot / LINES, made).await?
            }
            leaf => leaf?,
        };
        let hold = self.commits.hold().await?;
        let pin = Pin { snapshot, leaf, slot };
        if self.has_room_for_pin() { Ok(Work::Pin(pin, hold)) } else { Err(FsError::NoSpace) }
    }

    /// Whether there is room for the needs of one more snapshot.
    fn has_room_for_pin(&self) -> bool {
        let blocks = self.commits.live.units.get() / self.per_block();
        let more = self.pins.would_keep_with_one_more(blocks);
        let more = more.saturating_sub(self.pins.keeps(blocks));
        self.floor.has_room(0, more + 8, Kind::Superuser, true) && self.pins.may_list_more()
    }

    async fn lined(&self, number: SnapshotNumber) -> Result<Lined, FsError> {
        let (_, slot) = self.pins.told(number).ok_or(FsError::NoEntry)?;
        let leaf = self.line(&Stem::Snapshots, slot / LINES).await?;
        Ok(Lined { number, leaf, slot })
    }

    /// Plans the next step of a deletion; returns whether it is the last.
    pub(crate) async fn plan_step(
        &self,
        update: &mut Update,
        number: SnapshotNumber,
    ) -> Result<bool, FsError> {
        let of = self.lined(number).await?;
        update.cost += u64::from(self.nodes.height(&Stem::Snapshots)) + 3;
        let (told, _) = self.pins.told(number).ok_or(FsError::NoEntry)?;
        if told.state != State::Gone {
            update.work = Some(Work::LetGo(of));
            return Ok(false);
        }
        let unfoldable = self.commits.unfoldable.get();
        let (mut behind, mut failed) = (None, None);
        loop {
            let is_left = |_: &Listing| !is_planted(Bug::KeptLists);
            if let Some(listing) = self.pins.loose_list(behind).filter(is_left) {
                update.cost += RECORD;
                update.cost += u64::from(self.nodes.height(&Stem::Died)) + 2;
                update.cost += u64::from(self.nodes.height(&Stem::Lists)) + 2;
                let (block, died) = match self.block_of_list(listing.list.last).await {
                    Err(FsError::Corrupt) => {
                        self.pins.note_damage(listing.list.span);
                        continue;
                    }
                    // An unreadable list delays others only until it can be read again.
                    Err(error) if !is_planted(Bug::BlockedLists) => {
                        (behind, failed) = (Some(listing.list.span), Some(error));
                        continue;
                    }
                    read => read?,
                };
                let line = self.line_of_list(listing).await?;
                update.work = Some(Work::Step(Step { of, listing, line, block, died }));
                return Ok(false);
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if !self.commits.has_loose() {
                update.work = Some(Work::End(of));
                return Ok(true);
            }
            // Records have more dead runs: a fold frees them.
            if self.commits.unfoldable.get() > unfoldable {
                return Err(FsError::Io);
            }
            self.commits.fold_soon();
            self.commits.next_release().await?;
        }
    }

    /// A block of a list, with its contents.
    pub(crate) async fn block_of_list(&self, place: u64) -> Result<(Rc<Node>, Died), FsError> {
        let block = self.nodes.get(&Stem::Died, 0, place).await?.ok_or(FsError::Corrupt)?;
        let died = block.read(Died::read).ok_or(FsError::Corrupt)?;
        let shape = self.space.shape();
        let are_held = died.runs.iter().all(|run| shape.may_hold(run) && self.space.has_all(*run));
        if are_held { Ok((block, died)) } else { Err(FsError::Corrupt) }
    }

    /// The block with the line of a list.
    pub(crate) async fn line_of_list(&self, listing: Listing) -> Result<Rc<Node>, FsError> {
        self.line(&Stem::Lists, listing.slot / LISTS).await
    }

    /// A block of lines, rewritten from memory if it has rotted.
    async fn line(&self, stem: &Stem, leaf: u64) -> Result<Rc<Node>, FsError> {
        match self.nodes.get(stem, 0, leaf).await {
            Ok(Some(node)) => return Ok(node),
            Ok(None) | Err(FsError::Corrupt) if !is_planted(Bug::LostLines) => {}
            other => return other.and(Err(FsError::Corrupt)),
        }
        self.lists().renew_lines(stem).await?;
        self.nodes.get(stem, 0, leaf).await?.ok_or(FsError::Corrupt)
    }

    /// Does the planned work. Returns what a commit has to do in addition.
    pub(crate) fn work(&self, work: Work, freed: &mut Vec<Run>) -> Worked {
        let mut worked = Worked::default();
        match work {
            Work::Pin(pin, hold) => (worked.pin, worked.hold) = (Some(pin), Some(hold)),
            Work::Delete(of, at) => {
                self.pins.delete(of.number, at);
                self.lists().write_line(&of);
            }
            Work::LetGo(of) => {
                self.compaction.vain.borrow_mut().clear(); // its blocks may be moved now
                let told = self.pins.told(of.number);
                told.iter().for_each(|(told, _)| self.nodes.held_trees.remove(told.inodes));
                self.pins.let_go(of.number);
                self.lists().write_line(&of);
            }
            Work::Step(step) => {
                self.lists().take_step(step, freed);
                self.lists().clear(is_planted(Bug::ReusedPlaces));
            }
            Work::End(of) => self.lists().end(&of, freed),
            Work::RollBack(back, hold) => {
                worked.unheld = self.roll_back(*back, freed);
                worked.hold = Some(hold);
            }
        }
        worked
    }

    /// Removes the last block of a list.
    pub(crate) fn shorten(
        &self,
        listing: Listing,
        blocks: (&Rc<Node>, &Rc<Node>),
        died: &Died,
        freed: &mut Vec<Run>,
    ) {
        self.lists().shorten(listing, blocks, died, freed);
        self.lists().clear(is_planted(Bug::ReusedPlaces));
    }

    fn lists(&self) -> Lists<'_, Units> {
        Lists { nodes: &self.nodes, pins: &self.pins }
    }
}

/// The part of an Update of snapshots that a commit does.
#[derive(Default)]
pub struct Worked {
    pub(crate) pin: Option<Pin>,
    pub(crate) hold: Option<Hold>,
    pub(crate) unheld: Vec<Run>,
}
