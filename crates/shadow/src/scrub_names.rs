//! The names of files that have lost something.
//!
//! One pass through all directories finds a name of each; the way up from there is what '..' says.

use std::collections::BTreeMap;

use directory::chunk;
use directory::entry::CHUNK_SIZE;
use vfs::FileKind;

use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::{CHUNKS, INODES, ROOT};
use crate::nodes::Stem;
use crate::scrub::{Damage, Scrub};

/// Directories that a way to the root goes through at most: a damaged one may go in circles.
const DEEPEST: usize = 4096;

/// A name of a file: in which directory, and which.
type Name = (u64, String);

impl Scrub<'_> {
    /// Paths to the files that have lost something, as far as there are any, and how many bytes a
    /// leaf of them has.
    pub(crate) async fn names_of(&self, damage: &[Damage]) -> BTreeMap<u64, (String, u64)> {
        let mut wanted: Vec<(u64, u64)> =
            damage.iter().filter(|it| it.first <= it.last).map(|it| (it.first, it.last)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut paths = BTreeMap::new();
        if wanted.is_empty() {
            return paths;
        }
        let mut ups: BTreeMap<u64, Option<String>> = BTreeMap::new();
        for (ino, (holder, name)) in self.find_names(&wanted).await {
            let up = match ups.get(&holder) {
                Some(up) => up.clone(),
                None => self.path_to(holder).await,
            };
            let leaf = self.leaf_bytes(self.kind_of(ino).await);
            if let Some(up) = &up {
                paths.insert(ino, (format!("{up}/{name}"), leaf));
            }
            ups.insert(holder, up);
        }
        if wanted.iter().any(|(first, last)| (*first..=*last).contains(&ROOT)) {
            paths.insert(ROOT, ("/".to_owned(), self.leaf_bytes(FileKind::Directory)));
        }
        paths
    }

    /// A file of which that is not known any more counts as one with data.
    async fn kind_of(&self, ino: u64) -> FileKind {
        self.facts_of(ino).await.map_or(FileKind::Regular, |(_, facts)| facts.kind)
    }

    async fn facts_of(&self, ino: u64) -> Option<(Stem, Facts)> {
        let home = self.nodes.get(&self.inodes, 0, ino / INODES).await.ok()??;
        let facts = home.inode(ino % INODES, Record::facts)?;
        Some((Stem::File(ino, home, ino % INODES), facts))
    }

    /// A name of each of these files.
    async fn find_names(&self, wanted: &[(u64, u64)]) -> BTreeMap<u64, Name> {
        let is_wanted = |ino: u64| {
            // Ranges are few, and of files that lost something one each.
            let place = wanted.partition_point(|(first, _)| *first <= ino);
            wanted[..place].iter().rev().any(|(_, last)| ino <= *last)
        };
        let mut found = BTreeMap::new();
        for block in 0..self.next_ino.div_ceil(INODES) {
            for ino in block * INODES..(block + 1) * INODES {
                let Ok(Some(_)) = self.nodes.get(&self.inodes, 0, block).await else { break };
                let Some((stem, facts)) = self.facts_of(ino).await else { continue };
                if facts.kind != FileKind::Directory {
                    continue;
                }
                self.nodes.relieve();
                for start in (0..facts.size).step_by(CHUNK_SIZE) {
                    let Some(bytes) = self.chunk(&stem, start).await else { continue };
                    for entry in chunk::entries(&bytes).filter_map(Result::ok) {
                        let target = u64::from(entry.ino);
                        let is_name = entry.is_live() && !matches!(entry.name, b"." | b"..");
                        if is_name && is_wanted(target) {
                            let name = entry.name.escape_ascii().to_string();
                            found.entry(target).or_insert((ino, name));
                        }
                    }
                }
            }
        }
        found
    }

    /// The path to a directory, without a slash at its end; none if it cannot be told.
    async fn path_to(&self, directory: u64) -> Option<String> {
        let (mut at, mut names) = (directory, Vec::new());
        while at != ROOT {
            if names.len() == DEEPEST {
                return None;
            }
            let above = self.entry(at, |name, _| name == b"..").await?.0;
            let (_, name) =
                self.entry(above, |name, ino| ino == at && !matches!(name, b"." | b"..")).await?;
            names.push(name);
            at = above;
        }
        Some(names.iter().rev().map(|name| format!("/{name}")).collect())
    }

    /// The first entry of a directory that is looked for: which file, and the name.
    async fn entry(
        &self,
        directory: u64,
        is_it: impl Fn(&[u8], u64) -> bool,
    ) -> Option<(u64, String)> {
        let (stem, facts) = self.facts_of(directory).await?;
        for start in (0..facts.size).step_by(CHUNK_SIZE) {
            let Some(bytes) = self.chunk(&stem, start).await else { continue };
            let mut entries = chunk::entries(&bytes).filter_map(Result::ok);
            let found = entries.find(|it| it.is_live() && is_it(it.name, it.ino.into()));
            if let Some(entry) = found {
                return Some((entry.ino.into(), entry.name.escape_ascii().to_string()));
            }
        }
        None
    }

    async fn chunk(&self, stem: &Stem, start: u64) -> Option<Vec<u8>> {
        let index = start / CHUNK_SIZE as u64;
        let node = self.nodes.get(stem, 0, index / CHUNKS).await.ok()??;
        let at = size_of::<Head>() + (index % CHUNKS) as usize * CHUNK_SIZE;
        Some(node.read(|bytes| bytes[at..at + CHUNK_SIZE].to_vec()))
    }
}
