//! The owners of the blocks in some zones: one walk through the live tree finds all of them. Back
//! references from blocks would make each small update larger.
//!
//! Clients change the volume meanwhile. A pointer that has changed since is looked up again by the
//! task that moves the block.
//!
//! Invariants:
//! 1. Each collected block is on the disk: the update that wrote it was durable.
//! 2. No block that a snapshot holds is collected.
//! 3. No more than [`MOST`] blocks are collected at once.
//!
//! Not asserted: 1 and 2, which are checked where a block is collected.

use std::collections::BTreeMap;
use std::rc::Rc;

use cow::format::inode::{Facts, Record};
use cow::{INODES, Node, Parent, Pointer, Run, Stem, UNIT, is_still};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use vfs::FileKind;

use crate::engine::Shadow;
use crate::pace::{Ended, Pace};
use crate::planted::{Bug, is_planted};
use crate::units::{LOG, MAP, tree_of};

/// Blocks that are collected at most.
pub(crate) const MOST: usize = 1 << 18;
/// Blocks of metadata that are read ahead at once on the walk.
const AHEAD: usize = 32;
/// Blocks of metadata after which the walk yields.
const STEPS: u64 = 64;

/// A block, and its place: the owner of its tree, its level and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pointer: Pointer,
    pub(crate) owner: u64,
    pub(crate) index: u64,
    pub(crate) level: u8,
    /// Whether it is data of a file.
    pub(crate) is_data: bool,
}

/// The blocks that a walk finds in one zone.
#[derive(Default)]
pub(crate) struct Tenants {
    pub(crate) owners: Vec<Owner>,
    /// Units of all blocks that can be moved, now or soon.
    pub(crate) units: u64,
}

/// A walk that finds the blocks in these zones, the most important zones first.
pub(crate) struct Walk<'a, 'p> {
    pace: &'p mut Pace<'a>,
    zones: Vec<u64>,
    tenants: BTreeMap<u64, Tenants>,
    gathered: usize,
    steps: u64,
}

impl<'a, 'p> Walk<'a, 'p> {
    pub(crate) fn new(pace: &'p mut Pace<'a>, zones: Vec<u64>) -> Self {
        let tenants = zones.iter().map(|&zone| (zone, Tenants::default())).collect();
        Self { pace, zones, tenants, gathered: 0, steps: 0 }
    }

    /// The blocks in the zones. Zones for which there was no memory are left out.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn find(mut self) -> Result<Vec<(u64, Tenants)>, Ended> {
        let of_snapshots = [Stem::Snapshots, Stem::Lists, Stem::Died];
        let others = [MAP, LOG, Stem::Answers, Stem::Inodes];
        for stem in of_snapshots.iter().chain(&others) {
            self.below(stem, None, None).await?;
        }
        let found = |zone| Some((zone, self.tenants.remove(&zone)?));
        Ok(self.zones.into_iter().filter_map(found).collect())
    }

    fn engine(&self) -> &'a Shadow {
        self.pace.engine
    }

    /// Walks through the blocks below a block of pointers, or a root. `file` has the attributes
    /// that its file had, if it belongs to one.
    fn below<'s>(
        &'s mut self,
        stem: &'s Stem,
        file: Option<&'s Facts>,
        above: Option<&'s Rc<Node>>,
    ) -> LocalBoxFuture<'s, Result<(), Ended>> {
        async move {
            let nodes = &self.engine().nodes;
            let (parent, level, places) = nodes.below(stem, above);
            let is_data = level == 0 && file.is_some_and(|it| it.kind != FileKind::Directory);
            let children: Vec<(u64, Pointer)> = places
                .map(|index| (index, self.child(&parent, index)))
                .filter(|(_, pointer)| !pointer.is_null())
                .collect();
            for &(index, pointer) in &children {
                let owner = stem.owner();
                self.note(Owner { pointer, owner, index, level, is_data });
                let pointer = pointer.at(nodes.twin_of(&parent, index));
                if !pointer.is_null() {
                    self.note(Owner { pointer, owner, index, level, is_data });
                }
            }
            if level == 0 && !matches!(stem, Stem::Inodes) {
                return Ok(());
            }
            for some in children.chunks(AHEAD) {
                let read = some.iter().map(|&(index, _)| nodes.get(stem, level, index));
                self.pace.work(join_all(read)).await;
                for &(index, _) in some {
                    let got = self.pace.work(nodes.get(stem, level, index)).await;
                    let Ok(Some(node)) = got else { continue };
                    if !is_still(stem, file) {
                        return Ok(()); // the file is gone, and its number may be another's
                    }
                    if level > 0 {
                        self.below(stem, file, Some(&node)).await?;
                    } else {
                        self.files(&node).await?;
                    }
                    self.take_turns().await?;
                }
            }
            Ok(())
        }
        .boxed_local()
    }

    fn child(&self, parent: &Parent, index: u64) -> Pointer {
        self.engine().nodes.child_of(parent, index)
    }

    /// Walks through the files whose inodes are in a block.
    async fn files(&mut self, home: &Rc<Node>) -> Result<(), Ended> {
        for slot in 0..INODES {
            let facts = if home.is_gone() { None } else { home.inode(slot, Record::facts) };
            let Some(facts) = facts.filter(|facts| !facts.is_inline()) else { continue };
            let stem = Stem::File(home.place.index * INODES + slot, home.clone(), slot);
            self.below(&stem, Some(&facts), None).await?;
        }
        Ok(())
    }

    async fn take_turns(&mut self) -> Result<(), Ended> {
        self.steps += 1;
        self.engine().nodes.relieve();
        if self.steps.is_multiple_of(STEPS) { self.pace.rest().await } else { Ok(()) }
    }

    /// Collects a block.
    fn note(&mut self, owner: Owner) {
        let (shape, birth) = (self.engine().space.shape(), owner.pointer.birth.get());
        let length = if owner.is_data { shape.block } else { 1 };
        if !shape.may_hold(&Run { start: owner.pointer.address.get(), length }) {
            return; // damage, which a check reports
        }
        let zone = shape.zone_of(owner.pointer.address.get());
        let Some(tenants) = self.tenants.get_mut(&zone) else { return };
        let commits = &self.pace.engine.commits;
        if commits.pins.holds(birth) && !is_planted(Bug::MovedPins) {
            return; // invariant 2
        }
        tenants.units += length;
        if birth > commits.superblock.borrow().durable {
            return; // invariant 1
        }
        tenants.owners.push(owner);
        self.gathered += 1;
        while self.gathered > MOST {
            let last = self.zones.pop().expect("some of them have what was gathered");
            let gone = self.tenants.remove(&last).map_or(0, |tenants| tenants.owners.len());
            self.gathered -= gone;
        }
        assert!(self.gathered <= MOST, "invariant 3");
    }
}

impl Shadow {
    /// The stem of the tree of a block of metadata; none if the file of this number is gone, or is
    /// another one without such a block.
    pub(crate) async fn stem_of(&self, owner: &Owner) -> Option<Stem> {
        if owner.owner == 0 {
            return Some(Stem::Inodes);
        }
        if let Some(stem) = tree_of(owner.owner) {
            return Some(stem);
        }
        let (home, slot) = self.floor.home_in(&Stem::Inodes, owner.owner).await.ok()?;
        let facts = home.inode(slot, Record::facts)?;
        let is_data = owner.level == 0 && facts.kind != FileKind::Directory;
        (!facts.is_inline() && !is_data).then_some(Stem::File(owner.owner, home, slot))
    }

    /// Bytes of a block.
    pub(crate) fn bytes_of(&self, owner: &Owner) -> u64 {
        if owner.is_data { self.block_size() } else { UNIT as u64 }
    }
}
