//! A new root directory, where both copies of the blocks that lead to the old one have rotted.
//!
//! If a block of pointers is lost, the leaves below it are found by their heads: among the units in
//! use, the newest leaf of each number that is not held by snapshots alone. New pointers to these
//! are made. If the leaf of the root directory's inode is lost, a new root is made: the files that
//! had names there get others, as in [`cow::homeless`].
//!
//! Invariants:
//! 1. No block that is found is overwritten: it is in use before any other block takes a place.
//!
//! Not asserted: 1, which repairs that are cut off test.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::Buffer;
use cow::format::head::{birth, index, is};
use cow::format::inode::Record;
use cow::format::snapshot::Told;
use cow::homeless::put_directory;
use cow::{INODES, Kind, Place, Pointer, ROOT, Run, Stem, UNIT, capacity, sum};
use runtime::Runtime;
use vfs::{FileKind, FsError};

use crate::check::Look;
use crate::error::OpenError;
use crate::format::anchor::Shape;
use crate::format::superblock::Superblock;
use crate::space::Space;
use crate::units::Nodes;
use cow::apply::first_chunk;

/// Units that are read at once: 1 MiB.
const PIECE: u64 = 256;
/// The leaf of the root directory's inode.
const LEAF: u64 = ROOT / INODES;

/// A volume without a path to the root directory.
pub(crate) struct LostWay<'a> {
    pub(crate) nodes: &'a Rc<Nodes>,
    pub(crate) superblock: &'a Superblock,
    /// Units that are in use, or may be.
    pub(crate) space: &'a Space,
    /// The snapshots.
    pub(crate) snapshots: Vec<Told>,
    /// Runs that only snapshots hold, in the order of the units.
    pub(crate) dead: Vec<Run>,
}

/// Whether the volume has a root directory.
///
/// # Errors
/// [`FsError::Io`] if a block cannot be read, and may come back.
pub(crate) async fn has_root(nodes: &Nodes, inodes: &Stem) -> Result<bool, FsError> {
    let home = match nodes.get(inodes, 0, LEAF).await {
        Ok(home) => home,
        Err(FsError::Corrupt) => None,
        Err(error) => return Err(error),
    };
    let root = home.and_then(|home| home.inode(ROOT % INODES, Record::facts));
    Ok(root.is_some_and(|root| root.kind == FileKind::Directory))
}

impl LostWay<'_> {
    fn shape(&self) -> &Shape {
        self.space.shape()
    }

    /// Makes a new path to the inodes, as far as they can be found, and to a root directory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn make_way(&self, runtime: &Runtime) -> Result<(), OpenError> {
        let lost = self.nodes.unreadable(&Stem::Inodes, LEAF).await?;
        let has_lost_way = lost.iter().any(|&(level, ..)| level > 0);
        drop(lost);
        if has_lost_way {
            let leaves = self.find_leaves().await;
            self.renew_way().await?;
            self.adopt(leaves).await?;
        }
        let is_there = has_root(self.nodes, &Stem::Inodes).await?;
        if !is_there {
            self.nodes.renew(&Stem::Inodes, LEAF).await?;
            self.begin_root(runtime).await?;
        }
        self.take_held().await;
        Ok(())
    }

    /// The blocks of inodes among the units in use, the newest of each number.
    async fn find_leaves(&self) -> BTreeMap<u64, Pointer> {
        let device = self.nodes.path.device();
        let end = self.shape().units;
        let mut found: BTreeMap<u64, Pointer> = BTreeMap::new();
        for start in (0..end).step_by(PIECE as usize) {
            let units = start..(start + PIECE).min(end);
            let may_be = |unit: &u64| self.shape().may_hold(&Run::of(*unit)) && self.is_live(*unit);
            let those: Vec<u64> = units.clone().filter(may_be).collect();
            if those.is_empty() {
                continue;
            }
            let length = (units.end - units.start) as usize * UNIT;
            let all = device.read(start * UNIT as u64, Buffer::unfilled(length)).await.ok();
            for unit in those {
                let at = (unit - start) as usize * UNIT;
                let block = match &all {
                    Some(all) => Some(Buffer::copied(&all[at..at + UNIT])),
                    None => device.read(unit * UNIT as u64, Buffer::unfilled(UNIT)).await.ok(),
                };
                let Some((number, pointer)) = block.and_then(|it| self.leaf_of(unit, &it)) else {
                    continue;
                };
                let is_newer = |other: &Pointer| other.birth < pointer.birth;
                if found.get(&number).is_none_or(is_newer) {
                    found.insert(number, pointer);
                }
            }
        }
        found
    }

    /// Whether a unit is in use, and not by snapshots alone.
    fn is_live(&self, unit: u64) -> bool {
        let behind = self.dead.partition_point(|run| run.start <= unit);
        let is_dead = behind.checked_sub(1).is_some_and(|at| unit < self.dead[at].end());
        self.space.has_all(Run::of(unit)) && !is_dead
    }

    /// The number of a block of inodes, and a pointer to it, if it is one of this volume.
    fn leaf_of(&self, unit: u64, block: &[u8]) -> Option<(u64, Pointer)> {
        let (birth, index) = (birth(block), index(block));
        let place = Place { kind: Kind::INODES, owner: 0, level: 0, index };
        let is_one = is(block, place, birth, self.nodes.secret())
            && birth <= self.superblock.number
            && index < capacity(self.superblock.inodes.height);
        is_one.then(|| (index, Pointer::new(unit, birth, sum(block))))
    }

    /// Makes new blocks of pointers on the path to the first leaf.
    async fn renew_way(&self) -> Result<(), FsError> {
        for (level, index, parent) in self.nodes.unreadable(&Stem::Inodes, LEAF).await? {
            if level > 0 {
                let anew = self.nodes.instead(Stem::Inodes, (level, index), parent).await;
                self.nodes.mark(&self.nodes.begin_anew(&anew));
            }
        }
        Ok(())
    }

    /// Adds pointers to blocks of inodes where there are none.
    async fn adopt(&self, leaves: BTreeMap<u64, Pointer>) -> Result<(), FsError> {
        let mut made = Vec::new();
        for (number, pointer) in leaves {
            let parent = match self.nodes.make_parent(&Stem::Inodes, 0, number, &mut made).await {
                Err(FsError::Corrupt) => continue, // lost as well, by other damage
                parent => parent?,
            };
            if !self.nodes.child_of(&parent, number).is_null() {
                continue;
            }
            self.nodes.set_child(&parent, number, pointer);
            self.nodes.mark_parent(&parent);
        }
        Ok(())
    }

    /// Makes a root directory without names. It has the generation of the roots of snapshots, which
    /// are found by its handle.
    async fn begin_root(&self, runtime: &Runtime) -> Result<(), FsError> {
        let mut generation = (runtime.random.next_u64() as u32).max(1);
        for told in &self.snapshots {
            let inodes = Stem::Pinned(Rc::new(told.inodes));
            let home = self.nodes.get(&inodes, 0, LEAF).await.ok().flatten();
            let root = home.and_then(|home| home.inode(ROOT % INODES, Record::facts));
            generation = root.map_or(generation, |root| root.generation);
        }
        let home = self.nodes.get(&Stem::Inodes, 0, LEAF).await?.ok_or(FsError::Corrupt)?;
        let chunks = [first_chunk(ROOT, ROOT)];
        let inode = (ROOT, 0o755, generation);
        put_directory(self.nodes, &home, inode, &chunks, runtime.clock.wall()).await
    }

    /// Takes the units below the new path (invariant 1).
    async fn take_held(&self) {
        let mut silent = |_, _| ();
        let mut look = Look::new(self.nodes.clone(), *self.shape(), false, &mut silent);
        look.live(self.superblock).await;
        for run in (0..self.shape().units).map(Run::of) {
            if self.shape().may_hold(&run) && look.held.has_all(run) {
                let _is_new = self.space.take(run);
            }
        }
    }
}
