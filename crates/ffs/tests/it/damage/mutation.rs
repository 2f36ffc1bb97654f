//! One damage to a disk.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::offset_of;

use ffs::layout::{Dinode, INODE_SIZE, SUPERBLOCK_ADDRESS, Superblock, check_hash};
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::base::Base;
use super::map::{Owner, inode_at, inode_byte};
use crate::common::MemoryDisk;

/// Which line of the table a damage counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Structure {
    Superblock,
    Recovery,
    Backup,
    GroupHeader,
    GroupMaps,
    Summary,
    InodeFree,
    InodeRegular,
    InodeDirectory,
    InodeSymlink,
    InodeSpecial,
    Indirect,
    Directory,
    Attribute,
    Blocks,
    Composed,
}

/// What replaces what, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub(crate) structure: Structure,
    pub(crate) label: String,
    pub(crate) changes: Vec<(u64, Vec<u8>)>,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.structure, self.label)
    }
}

/// Files that a damage touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Files of which anything changed: inode, pointers or content.
    pub(crate) files: BTreeSet<u64>,
    /// Directories of which an entry may have gone.
    pub(crate) directories: BTreeSet<u64>,
}

impl Mutation {
    pub(crate) fn new(structure: Structure, label: String, at: u64, bytes: Vec<u8>) -> Self {
        Self { structure, label, changes: vec![(at, bytes)] }
    }

    /// The disk with the damage; sealed, every structure that changed fits its hash again.
    pub(crate) fn apply(&self, base: &Base, sealed: bool) -> MemoryDisk {
        let disk = base.disk.fork();
        for (at, bytes) in &self.changes {
            disk.put(*at, bytes);
        }
        if sealed {
            self.seal(base, &disk);
        }
        disk
    }

    /// What the changed fragments belong to.
    pub(crate) fn owners(&self, base: &Base) -> Vec<Owner> {
        let step = base.geometry.fragment_size;
        let mut owners = Vec::new();
        for (at, bytes) in &self.changes {
            let end = at + bytes.len() as u64;
            let starts = (at - at % step..end).step_by(step as usize);
            owners.extend(starts.map(|start| base.map.owner(start)));
        }
        owners
    }

    fn seal(&self, base: &Base, disk: &MemoryDisk) {
        let mut sealed = BTreeSet::new();
        for owner in self.owners(base) {
            match owner {
                Owner::Superblock if sealed.insert((0, 0)) => {
                    seal_superblock(base, disk, SUPERBLOCK_ADDRESS);
                }
                Owner::Backup(group) if sealed.insert((1, group)) => {
                    let fragment = base.geometry.backup_superblock_fragment(group);
                    seal_superblock(base, disk, base.geometry.byte_address(fragment));
                }
                Owner::Group(group) if sealed.insert((2, group)) => seal_group(base, disk, group),
                Owner::Inodes(first) if sealed.insert((3, first)) => {
                    for ino in first..first + base.geometry.fragment_size / INODE_SIZE {
                        let mut dinode = inode_at(disk, &base.geometry, ino);
                        if dinode.as_bytes() != inode_at(&base.disk, &base.geometry, ino).as_bytes()
                            && !dinode.is_free()
                        {
                            base.geometry.seal_inode(&mut dinode);
                            disk.put(inode_byte(&base.geometry, ino), dinode.as_bytes());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The files that it touches.
    pub(crate) fn touched(&self, base: &Base) -> Touched {
        let mut touched = Touched::default();
        for owner in self.owners(base) {
            match owner {
                Owner::Data(ino, _) | Owner::Indirect(ino, _) | Owner::Attribute(ino, _) => {
                    touched.files.insert(ino);
                }
                Owner::Directory(ino, _) => {
                    touched.directories.insert(ino);
                }
                Owner::Inodes(first) => {
                    let end = first + base.geometry.fragment_size / INODE_SIZE;
                    touched.files.extend((first..end).filter(|&ino| self.hits_inode(base, ino)));
                }
                _ => {}
            }
        }
        // What holds the blocks of a directory holds its entries.
        for &ino in &touched.files {
            let dinode = base.map.inodes.get(&ino);
            if dinode.is_some_and(|dinode| dinode.kind() == Some(FileKind::Directory)) {
                touched.directories.insert(ino);
            }
        }
        touched
    }

    fn hits_inode(&self, base: &Base, ino: u64) -> bool {
        let start = inode_byte(&base.geometry, ino);
        let end = start + INODE_SIZE;
        self.changes.iter().any(|(at, bytes)| *at < end && start < at + bytes.len() as u64)
    }
}

fn seal_superblock(base: &Base, disk: &MemoryDisk, at: u64) {
    let mut block = disk.bytes(at, base.geometry.superblock_size as usize);
    let field = offset_of!(Superblock, check_hash);
    let hash = check_hash(&block, field);
    block[field..field + 4].copy_from_slice(&hash.to_le_bytes());
    disk.put(at, &block);
}

fn seal_group(base: &Base, disk: &MemoryDisk, group: u64) {
    let at = base.geometry.byte_address(base.geometry.group_header_fragment(group));
    let mut block = disk.bytes(at, base.geometry.group_block_size as usize);
    base.geometry.seal_group(&mut block);
    disk.put(at, &block);
}

/// The line of the table for an inode.
pub(crate) fn structure_of(dinode: Option<&Dinode>) -> Structure {
    match dinode.and_then(Dinode::kind) {
        None => Structure::InodeFree,
        Some(FileKind::Regular) => Structure::InodeRegular,
        Some(FileKind::Directory) => Structure::InodeDirectory,
        Some(FileKind::Symlink) => Structure::InodeSymlink,
        Some(_) => Structure::InodeSpecial,
    }
}
