//! The files and names of a tree, and whether they fit together.

use std::collections::{BTreeMap, BTreeSet};

use cow::format::inode::{Facts, Record};
use cow::format::is_number;
use cow::homeless::Census;
use cow::{CHUNKS, HIGHEST, Head, INODES, Node, ROOT, Stem, UNIT, Which, capacity};
use directory::chunk;
use directory::entry::{CHUNK_SIZE, kind_bits};
use vfs::FileKind;
use vnode::chain::Chain;
use zerocopy::IntoBytes;

use super::walk::Side;
use super::{Law, Look, NAMELESS};
use crate::format::anchor::Shape;
use crate::format::superblock::Superblock;

/// The facts about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) kind: FileKind,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) units: u64,
    pub(crate) generation: u32,
    /// Number of its leaves, and of its chunks of names.
    leaves: u64,
    chunks: u64,
}

impl Known {
    /// Units of its leaves, for this size of blocks.
    fn units_of_leaves(&self, block: u64) -> u64 {
        self.leaves * if self.kind == FileKind::Directory { 1 } else { block }
    }

    /// The units that its inode claims, or if no volume of that shape has so many, those of its
    /// leaves.
    pub(crate) fn likely_units(&self, shape: &Shape) -> u64 {
        if self.units <= shape.units { self.units } else { self.units_of_leaves(shape.block) }
    }
}

/// Counts of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) units: u64,
    /// Blocks of metadata, and how many of them count as pinned.
    pub(crate) nodes: u64,
    pub(crate) pinned: u64,
}

/// Meaning of an entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    Own,
    Parent,
    Directory,
    Other,
}

/// An entry of a directory: its file, and its meaning.
type Entry = (u64, Meaning);

/// The facts about a tree.
#[derive(Default)]
pub(crate) struct Says {
    pub(crate) files: BTreeMap<u64, Known>,
    /// Number of names of each file.
    pub(crate) names: BTreeMap<u64, u32>,
    /// The target of each directory's '..', and the directory that has its name.
    parents: BTreeMap<u64, u64>,
    pub(super) holders: BTreeMap<u64, u64>,
    pub(crate) count: Count,
    /// Files about which the facts differ from those of the tree before.
    touched: BTreeSet<u64>,
    /// Leaves and chunks of the file that is being checked.
    pub(super) leaves: u64,
    chunks: u64,
}

impl Says {
    /// Counts a block of metadata that comes or goes.
    pub(super) fn count_node(&mut self, is_pinned: bool, comes: bool) {
        let Count { nodes, pinned, .. } = &mut self.count;
        if comes {
            (*nodes, *pinned) = (*nodes + 1, *pinned + u64::from(is_pinned));
        } else {
            *nodes = nodes.saturating_sub(1);
            *pinned = pinned.saturating_sub(is_pinned.into());
        }
    }

    fn count_file(&mut self, known: &Known, comes: bool) {
        let Count { files, directories, units, .. } = &mut self.count;
        let is_directory = u64::from(known.kind == FileKind::Directory);
        if comes {
            *files += 1;
            *directories += is_directory;
            *units = units.saturating_add(known.units);
        } else {
            *files -= 1;
            *directories -= is_directory;
            *units = units.saturating_sub(known.units);
        }
    }

    /// Sets the facts about a file; none if there is no file of this number.
    fn set_file(&mut self, ino: u64, now: Option<Known>) {
        let before = match now {
            Some(now) => self.files.insert(ino, now),
            None => self.files.remove(&ino),
        };
        if before != now {
            before.iter().for_each(|before| self.count_file(before, false));
            now.iter().for_each(|now| self.count_file(now, true));
            self.touched.insert(ino);
        }
    }

    fn touch(&mut self, directory: u64, (target, meaning): Entry) {
        self.touched.insert(target);
        if meaning == Meaning::Parent {
            self.touched.insert(directory);
        }
    }

    fn lose(&mut self, directory: u64, (target, meaning): Entry) {
        if let Some(count) = self.names.get_mut(&target) {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&target);
            }
        }
        self.touch(directory, (target, meaning));
        let (of, found, key) = match meaning {
            Meaning::Parent => (&mut self.parents, target, directory),
            Meaning::Directory => (&mut self.holders, directory, target),
            Meaning::Own | Meaning::Other => return,
        };
        if of.get(&key) == Some(&found) {
            of.remove(&key);
        }
    }

    fn gain(&mut self, directory: u64, (target, meaning): Entry) {
        *self.names.entry(target).or_default() += 1;
        self.touch(directory, (target, meaning));
        match meaning {
            Meaning::Parent => _ = self.parents.insert(directory, target),
            Meaning::Directory => _ = self.holders.insert(target, directory),
            Meaning::Own | Meaning::Other => {}
        }
    }

    /// The files whose inodes have no link.
    pub(crate) fn nameless(&self) -> BTreeSet<u64> {
        let files = self.files.iter().filter(|(_, file)| file.links == 0);
        files.map(|(&ino, _)| ino).collect()
    }

    /// The directories.
    pub(crate) fn directories(&self) -> Vec<u64> {
        let files = self.files.iter();
        files.filter(|(_, it)| it.kind == FileKind::Directory).map(|(&ino, _)| ino).collect()
    }

    /// Files and directories that have no name, except these.
    fn homeless(&self, orphans: &BTreeSet<u64>) -> Vec<(u64, FileKind)> {
        let has_name = |ino: &u64, kind: FileKind| match kind {
            FileKind::Directory => self.holders.contains_key(ino),
            _ => self.names.contains_key(ino),
        };
        let files = self.files.iter().filter(|(ino, _)| **ino != ROOT && !orphans.contains(ino));
        let files = files.map(|(&ino, known)| (ino, known.kind));
        files.filter(|(ino, kind)| !has_name(ino, *kind)).collect()
    }

    /// How often directories that are being freed name their parents: those names no longer count.
    pub(crate) fn named_by_orphans(&self, orphans: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
        let mut named: BTreeMap<u64, u32> = BTreeMap::new();
        for ino in orphans {
            let goes = |file: &&Known| file.kind == FileKind::Directory && file.links == 0;
            if self.files.get(ino).filter(goes).is_some()
                && let Some(&parent) = self.parents.get(ino)
            {
                *named.entry(parent).or_default() += 1;
            }
        }
        named
    }

    /// Whether '..' leads to the root in the end. Uses the results `known` of other directories,
    /// and adds those of all directories on the way.
    fn has_way(&self, directory: u64, known: &mut BTreeMap<u64, bool>) -> bool {
        let (mut at, mut way) = (directory, Vec::new());
        let has = loop {
            if at == ROOT {
                break true;
            }
            if let Some(&has) = known.get(&at) {
                break has;
            }
            known.insert(at, false); // coming back here is a circle
            way.push(at);
            at = self.parents.get(&at).copied().unwrap_or(ROOT);
        };
        if has {
            known.extend(way.into_iter().map(|ino| (ino, true)));
        }
        has
    }
}

impl Look<'_> {
    /// The files for a repair of names.
    pub(crate) fn census(&self, superblock: &Superblock) -> Census {
        let chains = self.chains(&superblock.chains);
        let orphans: BTreeSet<u64> = chains.iter().map(|chain| chain.ino).collect();
        let kinds = self.says.files.iter().map(|(&ino, known)| (ino, known.kind)).collect();
        let holders = self.says.holders.clone();
        Census { kinds, holders, homeless: self.says.homeless(&orphans) }
    }

    /// The chains of files that exist, one for each file.
    pub(crate) fn chains(&self, chains: &[Chain]) -> Vec<Chain> {
        let (mut seen, mut right) = (BTreeSet::new(), chains.to_vec());
        right.retain(|chain| {
            let file = self.says.files.get(&chain.ino);
            file.is_some_and(|file| file.generation == chain.generation) && seen.insert(chain.ino)
        });
        right
    }

    /// Compares two blocks of inodes.
    pub(super) async fn inodes(&mut self, was: &Side, is: &Side, block: u64) {
        (self.progress)(self.done.0.min(self.done.1), self.done.1);
        for slot in 0..INODES {
            let record = |side: &Side| {
                let record = side.block()?.inode(slot, |record| *record);
                (!record.is_free()).then_some(record)
            };
            let (before, now) = (record(was), record(is));
            let bytes = |record: &Option<Record>| record.map(|it| it.as_bytes().to_vec());
            let is_known = !was.is_lost || now.is_none();
            if is_known && bytes(&before) == bytes(&now) {
                continue;
            }
            let ino = block * INODES + slot;
            let read = |side: &Side, record: Option<Record>| {
                let facts = record.filter(|_| is_number(ino))?.facts()?;
                Some((Stem::File(ino, side.block()?.clone(), slot), facts))
            };
            let file = read(is, now);
            if now.is_some() && file.is_none() {
                self.wrong(Law::Inode, Some(ino), "what makes no sense", "an inode");
            }
            self.file(ino, (was, read(was, before)), (is, file)).await;
        }
    }

    async fn file(
        &mut self,
        ino: u64,
        (old, was): (&Side, Option<(Stem, Facts)>),
        (new, is): (&Side, Option<(Stem, Facts)>),
    ) {
        let root = |home: &Side, file: &Option<(Stem, Facts)>| {
            let file = file.as_ref().filter(|(_, facts)| !facts.is_inline());
            home.of_file(file.map(|(stem, _)| stem.clone()))
        };
        let (before, after) = (root(old, &was), root(new, &is));
        let known = self.says.files.get(&ino);
        (self.says.leaves, self.says.chunks) = known.map_or((0, 0), |it| (it.leaves, it.chunks));
        let is_names = |file: &Option<(Stem, Facts)>| {
            file.as_ref().map(|(_, facts)| facts.kind == FileKind::Directory)
        };
        if is_names(&was) == is_names(&is) {
            self.differ_from(&before, &after).await;
        } else {
            self.differ_from(&before, &new.of_file(None)).await;
            self.differ_from(&Side::at_root(None), &after).await;
        }
        let now = is.as_ref().map(|(_, facts)| Known {
            kind: facts.kind,
            links: facts.links,
            size: facts.size,
            units: facts.units,
            generation: facts.generation,
            leaves: self.says.leaves,
            chunks: self.says.chunks,
        });
        self.says.set_file(ino, now);
        if let Some((stem, facts)) = is.filter(|(_, facts)| !facts.is_inline()) {
            self.end_of(&stem, ino, &facts).await;
        }
    }

    /// Checks that a file has nothing behind its end.
    async fn end_of(&mut self, stem: &Stem, ino: u64, facts: &Facts) {
        let is_names = facts.kind == FileKind::Directory;
        let leaf_bytes =
            if is_names { CHUNKS * CHUNK_SIZE as u64 } else { self.block * UNIT as u64 };
        let end = facts.size.div_ceil(leaf_bytes);
        let most = capacity(HIGHEST).saturating_mul(leaf_bytes);
        if !is_names && facts.size > most {
            let found = format!("{} bytes", facts.size);
            self.wrong(Law::Size, Some(ino), found, format!("{most} at most"));
        }
        if let Some(leaf) = self.nodes.leaf_from(stem, None, end, Which::Last).await {
            let found = format!("block {leaf}");
            self.wrong(Law::Size, Some(ino), found, format!("none from block {end} on"));
        }
        if !is_names && !facts.size.is_multiple_of(leaf_bytes) {
            let (lbn, there) = (facts.size / leaf_bytes, (facts.size % leaf_bytes) as usize);
            self.tail(stem, ino, lbn, there).await;
        }
    }

    /// Compares two blocks of names.
    pub(super) fn names(&mut self, ino: u64, index: u64, was: &Side, is: &Side) {
        let known = was.block().filter(|_| !was.is_lost);
        let (mut before, chunks, _) = known.map_or_else(Default::default, |it| entries_of(it));
        self.says.chunks = self.says.chunks.saturating_sub(chunks);
        let (mut now, chunks, wrong) =
            is.block().map_or_else(Default::default, |it| entries_of(it));
        self.says.chunks += chunks;
        if let Some(at) = wrong {
            let at = index * CHUNKS * CHUNK_SIZE as u64 + at;
            let found = format!("none at byte {at}, or behind it");
            self.wrong(Law::Entry, Some(ino), found, "an entry");
        }
        let strays = now.iter().filter(|(target, it)| *it == Meaning::Own && *target != ino);
        for (target, _) in strays.copied().collect::<Vec<_>>() {
            let found = format!("a '.' that leads to inode {target}");
            self.wrong(Law::Entry, Some(ino), found, "one that leads to itself");
        }
        before.sort_unstable();
        now.sort_unstable();
        let (mut old, mut new) = (before.iter().peekable(), now.iter().peekable());
        loop {
            let (left, met) = (old.peek().copied(), new.peek().copied());
            match (left, met) {
                (None, None) => break,
                (Some(left), Some(met)) if left == met => {
                    _ = old.next();
                    _ = new.next();
                }
                (Some(&left), met) if met.is_none_or(|met| left < *met) => {
                    old.next();
                    self.says.lose(ino, left);
                }
                (_, Some(&met)) => {
                    new.next();
                    self.says.gain(ino, met);
                }
                (Some(_), None) => unreachable!("that is the case before the last"),
            }
        }
    }

    /// Checks the files about which the facts differ from the tree before. Files that are being
    /// freed are `orphans`.
    pub(super) fn judge(&mut self, orphans: &BTreeSet<u64>) {
        let of_orphans = self.says.named_by_orphans(orphans);
        if self.says.files.get(&ROOT).is_none_or(|root| root.kind != FileKind::Directory) {
            self.wrong(Law::Root, None, "no root directory", "one");
        }
        let mut ways = BTreeMap::new();
        for ino in std::mem::take(&mut self.says.touched) {
            let named = self.says.names.get(&ino).copied().unwrap_or(0);
            let named = named.saturating_sub(of_orphans.get(&ino).copied().unwrap_or(0));
            match self.says.files.get(&ino).copied() {
                Some(file) => {
                    let is_orphan = orphans.contains(&ino);
                    self.judge_file((ino, file, is_orphan), named, &mut ways);
                }
                None if named > 0 => {
                    let expected = "none, since there is no such file";
                    self.wrong(Law::Target, Some(ino), "a name", expected);
                }
                None => {}
            }
        }
    }

    fn judge_file(
        &mut self,
        (ino, file, goes): (u64, Known, bool),
        named: u32,
        ways: &mut BTreeMap<u64, bool>,
    ) {
        let is_directory = file.kind == FileKind::Directory;
        let per_leaf = if is_directory { 1 } else { self.block };
        if file.units_of_leaves(self.block) != file.units {
            let found = format!("{} blocks", file.leaves);
            self.wrong(Law::Size, Some(ino), found, format!("{}", file.units / per_leaf));
        }
        let chunks = file.size.div_ceil(CHUNK_SIZE as u64);
        if is_directory && file.chunks != chunks {
            let found = format!("{} chunks of names", file.chunks);
            self.wrong(Law::Entry, Some(ino), found, format!("{chunks}"));
        }
        // A directory that is being freed still has its own dots.
        let is_orphan = file.links == 0 && goes;
        if named == 0 && !is_orphan {
            self.wrong(Law::Links, Some(ino), NAMELESS, "one, or that it is being freed");
        } else if named != file.links && !is_orphan {
            self.wrong(Law::Links, Some(ino), file.links.to_string(), named.to_string());
        }
        if let Some(&parent) = self.says.parents.get(&ino).filter(|_| is_directory) {
            if !self.says.has_way(parent, ways) {
                self.wrong(Law::Way, Some(ino), "a circle", "a way to the root");
            }
            let holder = self.says.holders.get(&ino).copied();
            let holder = if ino == ROOT { Some(ROOT) } else { holder };
            if let Some(holder) = holder.filter(|&holder| holder != parent) {
                let found = format!("a '..' that leads to inode {parent}");
                let expected = format!("one that leads to inode {holder}");
                self.wrong(Law::Entry, Some(ino), found, expected);
            }
        }
    }
}

/// The entries of a block of names, its number of chunks, and the byte behind which an entry is
/// missing.
fn entries_of(node: &Node) -> (Vec<Entry>, u64, Option<u64>) {
    node.read(|bytes| {
        let (mut found, mut chunks, mut wrong) = (Vec::new(), 0, None);
        let body = &bytes[size_of::<Head>()..][..CHUNKS as usize * CHUNK_SIZE];
        for (at, bytes) in (0..).step_by(CHUNK_SIZE).zip(body.chunks(CHUNK_SIZE)) {
            if bytes.iter().all(|&byte| byte == 0) {
                continue; // a chunk that will come later
            }
            chunks += 1;
            for entry in chunk::entries(bytes) {
                let Ok(entry) = entry else {
                    wrong = wrong.or(Some(at));
                    break;
                };
                let meaning = match entry.name {
                    b"." => Meaning::Own,
                    b".." => Meaning::Parent,
                    _ if entry.kind == kind_bits(FileKind::Directory) => Meaning::Directory,
                    _ => Meaning::Other,
                };
                if entry.is_live() {
                    found.push((u64::from(entry.ino), meaning));
                }
            }
        }
        (found, chunks, wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_found_from_wherever_it_is_looked_for_first() {
        // 20 to 29 below the root, 30 to 35 in a circle, 40 to 45 below that.
        let below = |numbers: std::ops::Range<u64>, first: u64| {
            numbers.clone().zip(std::iter::once(first).chain(numbers))
        };
        let parents = below(20..30, ROOT).chain(below(30..36, 35)).chain(below(40..46, 33));
        let says = Says { parents: parents.collect(), ..Says::default() };
        let all: Vec<u64> = says.parents.keys().copied().chain([ROOT]).collect();
        for turn in 0..all.len() {
            let mut known = BTreeMap::new();
            let order = all.iter().cycle().skip(turn).take(all.len());
            for &ino in order.clone().chain(order) {
                assert_eq!(says.has_way(ino, &mut known), ino < 30, "{ino}, begun at {turn}");
            }
            assert_eq!(known.len(), all.len() - 1, "each is looked at once");
        }
    }
}
