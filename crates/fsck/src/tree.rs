//! The files that hang from the root, and the fate of the others.
//!
//! A walk from the root over all names finds the reachable files. A directory that has several
//! names keeps one: the one that its ".." confirms, if the path up from there does not lead through
//! the directory itself, else one that is not in a stray copy of another directory's first chunk,
//! else the one by which it was reached first.
//!
//! An unreachable file has lost its name, or never had one that was acknowledged. The second is the
//! case on a disk of policy `sync` that was cut and is otherwise sound: there the file is freed. In
//! all other cases it gets a name in `lost+found`, unless its own link count shows that it was
//! removed while a process had it open.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use directory::entry::CHUNK_SIZE;
use ufs2::layout::ROOT_INODE;
use vfs::FileKind;

use super::Severity::{Loss, Note, Repairable};
use super::blocks::{Purpose, Walk};
use super::directories::Name;
use super::forest::Ways;
use super::{CheckError, Checker, Invariant, Orphans, Place, fields};
use crate::planted::{Bug, is_planted};

/// A directory in the walk from the root.
#[derive(Clone, Copy)]
struct Reached {
    parent: u64,
    depth: u32,
}

impl Checker<'_> {
    /// Settles the tree. Returns whether files were reconnected, so that the round has to begin
    /// again.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn settle_tree(&mut self) -> Result<bool, CheckError> {
        self.unname_root().await?;
        let mut reached = self.reach();
        self.settle_names(&mut reached).await?;
        let orphans = self.orphans(&reached).await?;
        if !orphans.is_empty() && self.settle_orphans(orphans).await? {
            return Ok(true);
        }
        self.settle_parents(&reached).await?;
        Ok(false)
    }

    /// Drops names that point at the root.
    async fn unname_root(&mut self) -> Result<(), CheckError> {
        let Some(root) = self.directories.get_mut(&ROOT_INODE) else { return Ok(()) };
        for name in std::mem::take(&mut root.names) {
            let place = Place::inode(name.parent);
            let repair = "the entry removed";
            let found = "a name of the root";
            if self.log.find(Invariant::Root, Repairable, place, found, "none", repair) {
                self.drop_entry(name.byte).await?;
            }
        }
        Ok(())
    }

    /// The directories that names lead to from the root, each by its shortest path.
    fn reach(&self) -> BTreeMap<u64, Reached> {
        let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (&ino, directory) in &self.directories {
            for name in &directory.names {
                children.entry(name.parent).or_default().push(ino);
            }
        }
        let root = Reached { parent: ROOT_INODE, depth: 0 };
        let mut reached = BTreeMap::from([(ROOT_INODE, root)]);
        let mut queue = VecDeque::from([ROOT_INODE]);
        while let Some(parent) = queue.pop_front() {
            let depth = reached[&parent].depth + 1;
            for &child in children.get(&parent).into_iter().flatten() {
                if let std::collections::btree_map::Entry::Vacant(entry) = reached.entry(child) {
                    entry.insert(Reached { parent, depth });
                    queue.push_back(child);
                }
            }
        }
        reached
    }

    /// Leaves every directory one name.
    async fn settle_names(
        &mut self,
        reached: &mut BTreeMap<u64, Reached>,
    ) -> Result<(), CheckError> {
        let several: Vec<u64> = self
            .directories
            .iter()
            .filter(|(_, directory)| directory.names.len() > 1)
            .map(|(&ino, _)| ino)
            .collect();
        if several.is_empty() {
            return Ok(());
        }
        let all = self.directories.keys().copied().collect();
        let parents = reached.iter().filter(|&(&ino, _)| ino != ROOT_INODE);
        let mut ways = Ways::new(all, parents.map(|(&ino, way)| (ino, way.parent)));
        for ino in several {
            let kept = self.kept_name(ino, reached, &mut ways);
            let others = self.directories[&ino].names.clone();
            for other in others.into_iter().filter(|name| name.byte != kept.byte) {
                let place = Place::inode(ino);
                let found = format!("a name in directory {}", other.parent);
                let expected = format!("only the one in {}", kept.parent);
                let repair = "the second name removed";
                let invariant = Invariant::SecondName;
                if self.log.find(invariant, Repairable, place, found, expected, repair) {
                    self.drop_entry(other.byte).await?;
                }
            }
            if let Some(way) = reached.get_mut(&ino) {
                way.parent = kept.parent;
                ways.lead(ino, kept.parent);
            }
            self.directories.get_mut(&ino).expect("it is one").names = vec![kept];
            self.table.get_mut(ino).expect("it is one").parent = kept.parent as u32;
        }
        Ok(())
    }

    fn kept_name(&self, ino: u64, reached: &BTreeMap<u64, Reached>, ways: &mut Ways) -> Name {
        let directory = &self.directories[&ino];
        let fits = directory
            .names
            .iter()
            .find(|name| name.parent == directory.dot_dot && !ways.leads_through(name.parent, ino));
        // The sector that loses a stray's dots loses its names along with them: so an interrupted
        // repair leaves the evidence, or no second name.
        let sound = directory.names.iter().find(|name| {
            !self.strays.contains(&(name.byte - name.byte % CHUNK_SIZE as u64))
                && !is_planted(Bug::StrayNames)
                && reached.contains_key(&name.parent)
                && !ways.leads_through(name.parent, ino)
        });
        let way = reached.get(&ino).map(|way| way.parent);
        let first = directory.names.iter().find(|name| Some(name.parent) == way);
        *fits.or(sound).or(first).unwrap_or(&directory.names[0])
    }

    /// The unreachable files that no kept name leads to: for trees and cycles of directories, one
    /// directory each.
    async fn orphans(&mut self, reached: &BTreeMap<u64, Reached>) -> Result<Vec<u64>, CheckError> {
        let unreached: BTreeSet<u64> =
            self.directories.keys().copied().filter(|ino| !reached.contains_key(ino)).collect();
        let mut orphans = Vec::new();
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        for &start in &unreached {
            let mut way = BTreeSet::new();
            let mut ino = start;
            // Up, until a known end: a directory without a name, one seen before, or a cycle.
            while seen.insert(ino) {
                way.insert(ino);
                match self.directories[&ino].names.first() {
                    None => orphans.push(ino),
                    Some(name) if way.contains(&name.parent) => {
                        if self.cut_circle(ino, name.byte).await? {
                            orphans.push(ino);
                        }
                    }
                    Some(name) => {
                        ino = name.parent;
                        continue;
                    }
                }
                break;
            }
        }
        if self.orphans == Orphans::Free {
            orphans = unreached.into_iter().collect();
        }
        let files = self.table.iter();
        let nameless =
            files.filter(|(_, slot)| slot.kind != FileKind::Directory && slot.names == 0);
        orphans.extend(nameless.map(|(ino, _)| ino));
        Ok(orphans)
    }

    /// Removes the name of a directory in a cycle.
    async fn cut_circle(&mut self, ino: u64, byte: u64) -> Result<bool, CheckError> {
        let place = Place::inode(ino);
        let repair = "taken out of the circle";
        let found = "a way up that comes back to it";
        let expected = "one that ends at the root";
        if !self.log.find(Invariant::Cycle, Loss, place, found, expected, repair) {
            return Ok(false);
        }
        self.drop_entry(byte).await?;
        self.directories.get_mut(&ino).expect("it is one").names.clear();
        Ok(true)
    }

    /// Frees files without names, or names them. Returns whether names were given.
    async fn settle_orphans(&mut self, orphans: Vec<u64>) -> Result<bool, CheckError> {
        let mut homeless = Vec::new();
        for ino in orphans {
            let slot = *self.table.get(ino).expect("it is allocated");
            let empty = self.directories.get(&ino).is_none_or(|directory| directory.entries == 0);
            let removed = slot.links == 0 && empty;
            if self.orphans == Orphans::Free || removed {
                let found = if removed { "no name, and no link" } else { "no name" };
                let repair = "freed: its removal or its creation was not finished";
                let place = Place::inode(ino);
                let (invariant, expected) = (Invariant::Unreachable, "a name");
                if self.log.find(invariant, Repairable, place, found, expected, repair) {
                    self.free(ino).await?;
                    continue;
                }
            } else if self.log.without != Some(Invariant::Unreachable) {
                homeless.push(ino);
            }
        }
        self.reconnect(&homeless).await
    }

    /// Decides, once for the whole check, how to treat files without names.
    pub(super) fn decide_orphans(&mut self) {
        if self.orphans == Orphans::Undecided {
            // Policy `sync` raises a link count before it adds the name: a file with more names
            // than links was damaged before.
            let lacks_links = self.table.iter().any(|(_, slot)| {
                slot.kind != FileKind::Directory && i64::from(slot.names) > i64::from(slot.links)
            });
            let leftovers = self.was_cut && !self.log.findings.damaged && !lacks_links;
            self.orphans = if leftovers { Orphans::Free } else { Orphans::Reconnect };
        }
    }

    /// Frees a file.
    async fn free(&mut self, ino: u64) -> Result<(), CheckError> {
        let mut dinode = self.read_inode(ino).await?;
        self.walk(&mut [Walk::new(ino, dinode)], Purpose::Release).await?;
        fields::clear(&mut dinode);
        self.put_inode(ino, &mut dinode).await?;
        self.table.remove(ino);
        self.directories.remove(&ino);
        self.freed += 1;
        Ok(())
    }

    /// Sets every ".." and counts the names of directories.
    async fn settle_parents(&mut self, reached: &BTreeMap<u64, Reached>) -> Result<(), CheckError> {
        let all: Vec<u64> = self.directories.keys().copied().collect();
        for ino in all {
            let directory = &self.directories[&ino];
            let parent = match directory.names.first() {
                _ if ino == ROOT_INODE => ROOT_INODE,
                Some(name) => name.parent,
                None => continue, // left, because there was no room for a name
            };
            let (found, byte) = (directory.dot_dot, directory.dot_dot_byte);
            let place = Place::inode(ino);
            let repair = "set";
            let invariant = Invariant::DotDot;
            if found != parent
                && byte != 0
                && self.log.find(invariant, Repairable, place, found, parent, repair)
            {
                self.disk.put(byte, &(parent as u32).to_le_bytes()).await?;
            }
            self.count_name(ino, parent);
            if let Some(way) = reached.get(&ino) {
                self.check_depth(ino, way.depth).await?;
            }
        }
        Ok(())
    }

    fn count_name(&mut self, ino: u64, parent: u64) {
        let slot = self.table.get_mut(ino).expect("it is a directory");
        slot.names += 2; // its name, and "."
        slot.parent = parent as u32;
        if let Some(above) = self.table.get_mut(parent).filter(|_| ino != ROOT_INODE) {
            above.names += 1;
        }
    }

    /// FreeBSD stores in a directory its distance from the root; 0 means unknown.
    async fn check_depth(&mut self, ino: u64, depth: u32) -> Result<(), CheckError> {
        let found = self.directories[&ino].depth;
        if found == 0 || found == depth || !self.thorough {
            return Ok(());
        }
        let place = Place::inode(ino);
        if self.log.find(Invariant::Depth, Note, place, found, depth, "set") {
            let mut dinode = self.read_inode(ino).await?;
            dinode.free_link.set(depth);
            self.put_inode(ino, &mut dinode).await?;
        }
        Ok(())
    }
}
