//! Going back to the newest snapshot: one update in which the live tree becomes that of the
//! snapshot.
//!
//! Blocks that the live tree has taken since become free, and blocks that it has lost since become
//! live again, so their lists are removed. Everything is read before anything changes. The free
//! units go into the map at once, since records of them might be larger than memory. No client uses
//! the volume meanwhile.
//!
//! Invariants:
//! 1. A block that becomes free was written after the snapshot was made.
//!
//! Not asserted: 1, which the walk decides: a block is not younger than its parent.

use std::collections::BTreeMap;
use std::rc::Rc;

use cow::format::inode::Record;
use cow::format::snapshot::Told;
use cow::lists::rest_of;
use cow::orphans::orphans_since;
use cow::{INODES, Node, Run, Stem};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::{FsError, SnapshotNumber};
use vnode::chain::Chain;

use crate::engine::Shadow;
use crate::fold::set_bit;
use crate::format::MAPPED;
use crate::planted::{Bug, is_planted};
use crate::units::MAP;
use crate::work::Back;

impl Shadow {
    /// Finds the changes for going back to a snapshot. No update is on its way meanwhile.
    pub(crate) async fn plan_roll_back(&self, number: SnapshotNumber) -> Result<Back, FsError> {
        let (told, _) = self.pins.told(number).ok_or(FsError::NoEntry)?;
        self.commits.fold_now().await?;
        let mut since = Vec::new();
        self.written_since(&Stem::Inodes, None, told.update, &mut since).await?;
        since.sort_unstable();
        if since.windows(2).any(|two| two[1].start < two[0].end()) {
            return Err(FsError::Corrupt); // two pointers lead to one block
        }
        let mut map = BTreeMap::new();
        let mut made = Vec::new();
        for run in &since {
            for leaf in run.start / MAPPED..=(run.end() - 1) / MAPPED {
                if map.last_key_value().is_none_or(|(&last, _)| last < leaf) {
                    let node = match self.nodes.make(&MAP, 0, leaf, &mut made).await {
                        Err(error) if MAP.goes_without(error) => {
                            if let Some(with) = self.commits.lost_with(&MAP, leaf).await? {
                                self.commits.lose_leaves(with);
                                self.commits.fold_now().await?;
                            }
                            self.nodes.make(&MAP, 0, leaf, &mut made).await?
                        }
                        node => node?,
                    };
                    map.insert(leaf, node);
                }
            }
        }
        let mut lists = Vec::new();
        let behind = self.pins.lists_behind(number).into_iter();
        for mut listing in behind.filter(|_| !is_planted(Bug::KeptDeaths)) {
            let line = match self.line_of_list(listing).await {
                Err(FsError::Corrupt) => {
                    self.pins.note_damage(listing.list.span);
                    continue; // the blocks on it are alive, whatever the list says
                }
                line => line?,
            };
            let mut blocks = 0;
            loop {
                blocks += 1;
                if blocks > self.space.shape().units {
                    return Err(FsError::Corrupt); // it is a circle
                }
                let (block, died) = match self.block_of_list(listing.list.last).await {
                    Err(FsError::Corrupt) => {
                        self.pins.note_damage(listing.list.span);
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
        let orphans = self.orphans_of(&told).await?;
        Ok(Back { told, since, map, lists, orphans })
    }

    /// The files without a name that a snapshot holds.
    async fn orphans_of(&self, told: &Told) -> Result<Vec<Chain>, FsError> {
        if told.orphans_since == 0 || is_planted(Bug::LeftOrphans) {
            return Ok(Vec::new());
        }
        let late = if is_planted(Bug::LateOrphans) { 2 } else { 0 };
        let stem = Stem::Pinned(Rc::new(told.inodes));
        orphans_since(&self.nodes, &stem, told.orphans_since + late).await
    }

    /// Makes the live tree that of the snapshot. Returns the runs that are free in the map already.
    pub(crate) fn roll_back(&self, back: Back, freed: &mut Vec<Run>) -> Vec<Run> {
        let Back { told, since, map, lists, orphans } = back;
        for run in &since {
            for unit in run.start..run.end() {
                map[&(unit / MAPPED)].change(|bytes| set_bit(bytes, unit % MAPPED, false));
            }
        }
        map.values().for_each(|node| self.nodes.mark(node));
        for (listing, line, block, died) in lists {
            self.shorten(listing, (&line, &block), &died, freed);
        }
        self.floor.touched.borrow_mut().clear();
        self.nodes.set_inodes(told.inodes);
        self.commits.roll_back(&told, orphans);
        since
    }

    /// Collects the blocks below a block, or below the root, that were written after an update.
    fn written_since<'a>(
        &'a self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        update: u64,
        found: &'a mut Vec<Run>,
    ) -> LocalBoxFuture<'a, Result<(), FsError>> {
        async move {
            let (parent, level, places) = self.nodes.below(stem, above.as_ref());
            for index in places {
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() || pointer.birth.get() <= update {
                    continue; // invariant 1: nothing below it is younger
                }
                let is_data = level == 0 && stem.holds_data();
                let length = if is_data { self.per_block() } else { 1 };
                let twin = self.nodes.twin_of(&parent, index);
                let copies = [pointer.address.get(), twin].into_iter().filter(|&at| at > 0);
                for run in copies.map(|start| Run { start, length }) {
                    // Unreadable blocks are discarded as well; the blocks below them stay
                    // allocated.
                    if !self.space.shape().may_hold(&run) || !self.space.has_all(run) {
                        return Err(FsError::Corrupt);
                    }
                    found.push(run);
                }
                if is_data {
                    continue;
                }
                let node = match self.nodes.get(stem, level, index).await {
                    Err(FsError::Corrupt) if !is_planted(Bug::RefusedRollBacks) => {
                        self.commits.note_given_up();
                        continue;
                    }
                    node => node?.ok_or(FsError::Corrupt)?,
                };
                if level > 0 {
                    self.written_since(stem, Some(node), update, found).await?;
                } else if matches!(stem, Stem::Inodes) {
                    self.files_since(&node, update, found).await?;
                }
                self.nodes.relieve();
            }
            Ok(())
        }
        .boxed_local()
    }

    /// The same for the files whose inodes are in a block.
    async fn files_since(
        &self,
        home: &Rc<Node>,
        update: u64,
        found: &mut Vec<Run>,
    ) -> Result<(), FsError> {
        for slot in 0..INODES {
            if home.inode(slot, Record::is_free) {
                continue;
            }
            let Some(facts) = home.inode(slot, Record::facts) else {
                self.commits.note_given_up();
                continue;
            };
            if !facts.is_inline() {
                let stem = Stem::File(home.place.index * INODES + slot, home.clone(), slot);
                self.written_since(&stem, None, update, found).await?;
            }
        }
        Ok(())
    }
}
