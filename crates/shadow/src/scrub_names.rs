//! Names of the damaged files.
//!
//! One pass through all directories finds the names of each file; the path up from there follows
//! '..'.

use std::collections::BTreeMap;

use cow::format::inode::{Facts, Record};
use cow::{CHUNKS, Head, INODES, ROOT, Stem, Which};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use vfs::FileKind;
use vnode::scrub::ScrubError;

use crate::scrub::{Damage, Scrub};

/// Directories on a path to the root, at most: a damaged one may go in circles.
const DEEPEST: usize = 4096;
/// Names that are reported of one file: it may have tens of thousands.
const MOST_NAMES: usize = 16;

/// A name of a file: its directory, and the name there.
type Name = (u64, String);

impl Scrub<'_> {
    /// The paths to each damaged file, as far as there are any, and the bytes of one of its leaves.
    ///
    /// # Errors
    /// [`ScrubError::Ended`]; [`ScrubError::Stopped`].
    pub(crate) async fn names_of(
        &mut self,
        damage: &[Damage],
    ) -> Result<BTreeMap<u64, (Vec<String>, u64)>, ScrubError> {
        let wanted = ranges_of(damage);
        let mut paths = BTreeMap::new();
        if wanted.is_empty() {
            return Ok(paths);
        }
        let mut ups: BTreeMap<u64, Option<String>> = BTreeMap::new();
        for (ino, names) in self.find_names(&wanted).await? {
            let mut of_file = Vec::new();
            for (holder, name) in names {
                let up = match ups.get(&holder) {
                    Some(up) => up.clone(),
                    None => self.path_to(holder).await?,
                };
                of_file.extend(up.as_ref().map(|up| format!("{up}/{name}")));
                ups.insert(holder, up);
            }
            paths.insert(ino, (of_file, self.leaf_bytes(self.kind_of(ino).await)));
        }
        if wanted.iter().any(|(first, last)| (*first..=*last).contains(&ROOT)) {
            paths.insert(ROOT, (vec!["/".to_owned()], self.leaf_bytes(FileKind::Directory)));
        }
        Ok(paths)
    }

    /// Checks for an order to end, and yields to other tasks.
    async fn turn(&mut self) -> Result<(), ScrubError> {
        self.go_on()?;
        self.take_turns().await
    }

    /// The kind of a file; if it is no longer known, that of a file with data.
    async fn kind_of(&self, ino: u64) -> FileKind {
        self.facts_of(ino).await.map_or(FileKind::Regular, |(_, facts)| facts.kind)
    }

    async fn facts_of(&self, ino: u64) -> Option<(Stem, Facts)> {
        let home = self.work(self.nodes.get(&self.inodes, 0, ino / INODES)).await.ok()??;
        let facts = home.inode(ino % INODES, Record::facts)?;
        Some((Stem::File(ino, home, ino % INODES), facts))
    }

    /// The names of each of these files, [`MOST_NAMES`] at most.
    async fn find_names(
        &mut self,
        wanted: &[(u64, u64)],
    ) -> Result<BTreeMap<u64, Vec<Name>>, ScrubError> {
        let is_wanted = |ino: u64| {
            let place = wanted.partition_point(|(first, _)| *first <= ino);
            wanted[..place].last().is_some_and(|(_, last)| ino <= *last)
        };
        let mut found = BTreeMap::<u64, Vec<Name>>::new();
        for block in 0..self.next_ino.div_ceil(INODES) {
            self.turn().await?;
            for ino in block * INODES..(block + 1) * INODES {
                let block = self.work(self.nodes.get(&self.inodes, 0, block)).await;
                let Ok(Some(_)) = block else { break };
                let Some((stem, facts)) = self.facts_of(ino).await else { continue };
                if facts.kind != FileKind::Directory {
                    continue;
                }
                self.turn().await?;
                let mut next = 0;
                while let Some(leaf) = self.leaf_from(&stem, next).await {
                    next = leaf + 1;
                    self.turn().await?;
                    let Some(bytes) = self.names(&stem, leaf, facts.size).await else { continue };
                    for entry in entries(&bytes) {
                        let target = u64::from(entry.ino);
                        let is_name = entry.is_live() && !matches!(entry.name, b"." | b"..");
                        if !is_name || !is_wanted(target) {
                            continue;
                        }
                        let names = found.entry(target).or_default();
                        if names.len() < MOST_NAMES {
                            names.push((ino, entry.name.escape_ascii().to_string()));
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// The path to a directory, without a slash at its end; none if it is unknown.
    async fn path_to(&mut self, directory: u64) -> Result<Option<String>, ScrubError> {
        let (mut at, mut names) = (directory, Vec::new());
        while at != ROOT {
            self.turn().await?;
            let Some((above, name)) = self.step_up(at).await.filter(|_| names.len() < DEEPEST)
            else {
                return Ok(None);
            };
            names.push(name);
            at = above;
        }
        Ok(Some(names.iter().rev().map(|name| format!("/{name}")).collect()))
    }

    /// The parent of a directory, and the directory's name there.
    async fn step_up(&self, directory: u64) -> Option<(u64, String)> {
        let above = self.entry(directory, |name, _| name == b"..").await?.0;
        let is_it = |name: &[u8], ino| ino == directory && !matches!(name, b"." | b"..");
        Some((above, self.entry(above, is_it).await?.1))
    }

    /// The first entry of a directory that matches: its file, and the name.
    async fn entry(
        &self,
        directory: u64,
        is_it: impl Fn(&[u8], u64) -> bool,
    ) -> Option<(u64, String)> {
        let (stem, facts) = self.facts_of(directory).await?;
        let mut next = 0;
        while let Some(leaf) = self.leaf_from(&stem, next).await {
            next = leaf + 1;
            let Some(bytes) = self.names(&stem, leaf, facts.size).await else { continue };
            let found = entries(&bytes).find(|it| it.is_live() && is_it(it.name, it.ino.into()));
            if let Some(entry) = found {
                return Some((entry.ino.into(), entry.name.escape_ascii().to_string()));
            }
        }
        None
    }

    /// The next block of names. Holes take no time, whatever the size of a directory claims.
    async fn leaf_from(&self, stem: &Stem, from: u64) -> Option<u64> {
        self.work(self.nodes.leaf_from(stem, None, from, Which::First)).await
    }

    /// The chunks of a block of names, up to the end of the directory.
    async fn names(&self, stem: &Stem, leaf: u64, size: u64) -> Option<Vec<u8>> {
        let node = self.work(self.nodes.get(stem, 0, leaf)).await.ok()??;
        let before = leaf.saturating_mul(CHUNKS * CHUNK_SIZE as u64);
        let length = size.saturating_sub(before).min(CHUNKS * CHUNK_SIZE as u64) as usize;
        let length = length / CHUNK_SIZE * CHUNK_SIZE;
        let first = size_of::<Head>();
        Some(node.read(|bytes| bytes[first..first + length].to_vec()))
    }
}

/// The entries of chunks.
fn entries(chunks: &[u8]) -> impl Iterator<Item = chunk::Entry<'_>> {
    chunks.chunks(CHUNK_SIZE).flat_map(chunk::entries).filter_map(Result::ok)
}

/// The numbers of the damaged files, as disjoint ranges in ascending order.
fn ranges_of(damage: &[Damage]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> =
        damage.iter().filter(|it| it.first <= it.last).map(|it| (it.first, it.last)).collect();
    all.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (first, last) in all {
        match ranges.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => ranges.push((first, last)),
        }
    }
    ranges
}
