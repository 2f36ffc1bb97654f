//! Checks that a platter is a valid volume.

use std::collections::{BTreeMap, BTreeSet};

use vfs::{FileKind, SnapshotState};

use crate::disk::ROOT;
use crate::inode::BLOCK;
use crate::record::{Platter, Stored, Tree, nameless};

impl Platter {
    /// Checks that the link count of each file is its number of names, that its contents match its
    /// inode, and that names lead to it from the root. Files whose interrupted operation will
    /// continue are left out, unless all of it `has_ended`.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self, has_ended: bool) -> Result<(), String> {
        if has_ended && !self.chains.is_empty() {
            return Err(format!("chains have not ended: {:?}", self.chains));
        }
        for (number, pinned) in &self.pinned.each {
            let is_whole = pinned.snapshot.state == SnapshotState::Ready;
            let (files, chains) = (Tree::clone(&pinned.tree), nameless(&pinned.tree));
            let held = Self { files, chains, ..Self::default() };
            let wrong = |wrong| format!("in snapshot {number:?}: {wrong}");
            if is_whole {
                held.check(false).map_err(wrong)?;
            }
        }
        self.check_tree()?;
        let mut links: BTreeMap<u64, u32> = BTreeMap::new();
        for (ino, file) in &self.files {
            for (at, entry) in &file.entries {
                let target = self.files.get(&entry.ino);
                if target.is_none_or(|target| target.inode.kind != entry.kind) {
                    return Err(format!("an entry at {at} of {ino} names no file: {entry:?}"));
                }
                *links.entry(entry.ino).or_default() += 1;
            }
            let names = [".", ".."].map(|name| {
                file.entries.values().filter(|entry| *entry.name == *name.as_bytes()).count()
            });
            let is_directory = file.inode.kind == FileKind::Directory;
            if names != [usize::from(is_directory); 2] {
                return Err(format!("directory {ino} has {names:?} dots"));
            }
        }
        for (ino, file) in &self.files {
            let named = links.get(ino).copied().unwrap_or(0);
            if named != file.inode.links {
                return Err(format!("file {ino} has {named} names, and says {:?}", file.inode));
            }
            if named == 0 && !self.chains.contains_key(ino) && *ino != ROOT {
                return Err(format!("file {ino} has no name, and nothing frees it"));
            }
            let behind = file.blocks.keys().find(|&&lbn| lbn * BLOCK >= file.inode.size);
            if file.inode.kind == FileKind::Regular && behind.is_some() {
                return Err(format!("file {ino} has a block behind its end: {:?}", file.inode));
            }
            if file.blocks.len() as u64 != file.inode.blocks {
                let blocks: Vec<u64> = file.blocks.keys().copied().collect();
                return Err(format!("file {ino} has blocks {blocks:?}: {:?}", file.inode));
            }
        }
        Ok(())
    }

    /// Checks that each directory is reachable from the root, once, and that its '..' leads back.
    fn check_tree(&self) -> Result<(), String> {
        let mut found = BTreeSet::from([ROOT]);
        let mut next = vec![(ROOT, ROOT)];
        while let Some((ino, parent)) = next.pop() {
            for entry in self.files.get(&ino).into_iter().flat_map(|file| file.entries.values()) {
                match &*entry.name {
                    b"." if entry.ino != ino => return Err(format!("{ino} is {entry:?}")),
                    b".." if entry.ino != parent => {
                        return Err(format!("{ino} is in {parent}, and leads to {entry:?}"));
                    }
                    b"." | b".." => {}
                    _ if entry.kind != FileKind::Directory => {}
                    _ if found.insert(entry.ino) => next.push((entry.ino, ino)),
                    _ => return Err(format!("directory {} is found twice", entry.ino)),
                }
            }
        }
        let is_directory = |file: &&Stored| file.inode.kind == FileKind::Directory;
        let directories = self.files.values().filter(is_directory).count();
        if found.len() == directories {
            Ok(())
        } else {
            Err(format!("{} of {directories} directories are found", found.len()))
        }
    }
}
