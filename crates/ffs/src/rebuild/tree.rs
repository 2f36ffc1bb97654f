//! Walking the directories from the root.

use std::collections::{BTreeMap, VecDeque};

use vfs::FileKind;

use super::{Phase, Rebuild, damaged};
use crate::OpenError;
use crate::dir::{self, DOT_DOT_OFFSET};
use crate::layout::{CHUNK_SIZE, ROOT_INODE, kind_of_bits};
use crate::map::run_length;

/// A name of a directory: in which directory, and at which byte of the disk.
struct DirectoryName {
    parent: u64,
    byte: u64,
}

/// What the walk learns of a directory.
#[derive(Default)]
struct Directory {
    /// What its ".." names, and where that stands.
    dot_dot: u64,
    dot_dot_byte: u64,
    names: Vec<DirectoryName>,
}

/// An entry with its place on the disk.
struct Entry {
    ino: u64,
    kind: u8,
    name: Vec<u8>,
    byte: u64,
}

impl Rebuild<'_> {
    pub(super) async fn walk_tree(&mut self) -> Result<(), OpenError> {
        let total = self.inodes.values().filter(|found| found.kind == FileKind::Directory).count();
        let mut directories: BTreeMap<u64, Directory> = BTreeMap::new();
        let mut queue = VecDeque::from([ROOT_INODE]);
        self.reach(ROOT_INODE, ROOT_INODE)?;
        let mut done = 0;
        while let Some(ino) = queue.pop_front() {
            for entry in self.directory_entries(ino).await? {
                self.take_entry(ino, entry, &mut directories, &mut queue)?;
            }
            done += 1;
            self.tell(Phase::Tree, done, total as u64);
        }
        for (ino, directory) in directories {
            self.settle_directory(ino, directory).await?;
        }
        Ok(())
    }

    fn take_entry(
        &mut self,
        here: u64,
        entry: Entry,
        directories: &mut BTreeMap<u64, Directory>,
        queue: &mut VecDeque<u64>,
    ) -> Result<(), OpenError> {
        match &entry.name[..] {
            b"." => return Ok(()),
            b".." => {
                let directory = directories.entry(here).or_default();
                directory.dot_dot = entry.ino;
                directory.dot_dot_byte = entry.byte;
                return Ok(());
            }
            _ => {}
        }
        let first_time = self.reach(here, entry.ino)?;
        let found = self.inodes.get_mut(&entry.ino).expect("just reached");
        if Some(found.kind) != kind_of_bits(entry.kind) {
            return Err(damaged(format!(
                "directory {here} has a name of another type than inode {}",
                entry.ino
            )));
        }
        if found.kind != FileKind::Directory {
            found.names += 1;
            return Ok(());
        }
        if first_time {
            queue.push_back(entry.ino);
        }
        let name = DirectoryName { parent: here, byte: entry.byte };
        directories.entry(entry.ino).or_default().names.push(name);
        Ok(())
    }

    /// Marks an inode as hanging from the root; whether that is new.
    fn reach(&mut self, here: u64, ino: u64) -> Result<bool, OpenError> {
        match self.inodes.get_mut(&ino) {
            Some(found) => Ok(!std::mem::replace(&mut found.reached, true)),
            None => Err(damaged(format!("directory {here} names inode {ino}, which is free"))),
        }
    }

    /// One name for a directory, a ".." that fits it, and the links that both make.
    async fn settle_directory(&mut self, ino: u64, directory: Directory) -> Result<(), OpenError> {
        let parent = if ino == ROOT_INODE {
            ROOT_INODE
        } else {
            let fits = |name: &&DirectoryName| name.parent == directory.dot_dot;
            let kept = directory.names.iter().find(fits).or(directory.names.first());
            let kept = kept.expect("a directory that is not the root was reached by a name");
            for other in directory.names.iter().filter(|name| name.byte != kept.byte) {
                self.repairs.put(self.device, other.byte, &0_u32.to_le_bytes()).await?;
                self.repairs.put(self.device, other.byte + KIND_OFFSET, &[0]).await?;
                self.report.second_names += 1;
            }
            kept.parent
        };
        if directory.dot_dot != parent {
            let bytes = (parent as u32).to_le_bytes();
            self.repairs.put(self.device, directory.dot_dot_byte, &bytes).await?;
            self.report.parents += 1;
        }
        self.inodes.get_mut(&ino).expect("reached").names += 2; // its name, and "."
        self.inodes.get_mut(&parent).expect("reached").names += u32::from(ino != ROOT_INODE);
        Ok(())
    }

    /// The live entries of a directory.
    async fn directory_entries(&mut self, ino: u64) -> Result<Vec<Entry>, OpenError> {
        let broken = |offset| damaged(format!("directory {ino} is broken at byte {offset}"));
        let dinode = self.dinode(ino).await?;
        let size = dinode.size.get();
        if self.inodes[&ino].kind != FileKind::Directory {
            return Err(damaged(format!("inode {ino} is no directory")));
        }
        if size == 0 || !size.is_multiple_of(CHUNK_SIZE as u64) {
            return Err(broken(size));
        }
        let mut all = Vec::new();
        for (lbn, address) in self.file_blocks(ino, &dinode).await? {
            let run = run_length(self.geometry, size, lbn);
            let start = lbn * self.geometry.block_size;
            let length = (run * self.geometry.fragment_size).min(size - start) as usize;
            let block = self.read(address, (run * self.geometry.fragment_size) as usize).await?;
            for offset in (0..length).step_by(CHUNK_SIZE) {
                let chunk = &block[offset..offset + CHUNK_SIZE];
                let entries = dir::entries(chunk).map_err(|_| broken(start + offset as u64))?;
                let byte = self.geometry.byte_address(address) + offset as u64;
                all.extend(entries.iter().filter(|entry| entry.is_live()).map(|entry| Entry {
                    ino: entry.ino.into(),
                    kind: entry.kind,
                    name: entry.name.to_vec(),
                    byte: byte + entry.offset as u64,
                }));
            }
        }
        let dots = all.len() >= 2 && all[0].name == b"." && all[1].name == b"..";
        let placed =
            dots && all[0].ino == ino && all[1].byte == all[0].byte + DOT_DOT_OFFSET as u64;
        if placed { Ok(all) } else { Err(broken(0)) }
    }
}

/// Where the type byte stands in an entry.
const KIND_OFFSET: u64 = 6;
