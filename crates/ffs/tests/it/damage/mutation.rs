//! One damage to a disk.

use std::collections::BTreeSet;
use std::fmt;

use ufs2::layout::{Dinode, INODE_SIZE, SUPERBLOCK_ADDRESS};
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::base::Base;
use super::map::Owner;
use crate::common::MemoryDisk;
use crate::common::edit::{change_group, change_inode, change_superblock, inode_at, inode_byte};

/// The line of the table in which a damage counts.
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

/// A replacement of bytes on a disk.
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
    /// Files with any change: in inode, pointers or content.
    pub(crate) files: BTreeSet<u64>,
    /// Directories that may have lost an entry.
    pub(crate) directories: BTreeSet<u64>,
}

impl Mutation {
    pub(crate) fn new(structure: Structure, label: String, at: u64, bytes: Vec<u8>) -> Self {
        Self { structure, label, changes: vec![(at, bytes)] }
    }

    /// The disk with the damage; if `sealed`, every changed structure matches its hash again.
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

    /// Owners of the changed fragments.
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
        let geometry = &base.geometry;
        let mut sealed = BTreeSet::new();
        for owner in self.owners(base) {
            match owner {
                Owner::Superblock if sealed.insert((0, 0)) => {
                    change_superblock(disk, geometry, SUPERBLOCK_ADDRESS, |_| ());
                }
                Owner::Backup(group) if sealed.insert((1, group)) => {
                    let fragment = geometry.backup_superblock_fragment(group);
                    change_superblock(disk, geometry, geometry.byte_address(fragment), |_| ());
                }
                Owner::Group(group) if sealed.insert((2, group)) => {
                    change_group(disk, geometry, group, |_| ());
                }
                Owner::Inodes(first) if sealed.insert((3, first)) => {
                    for ino in first..first + geometry.fragment_size / INODE_SIZE {
                        let dinode = inode_at(disk, geometry, ino);
                        let old = inode_at(&base.disk, geometry, ino);
                        if dinode.as_bytes() != old.as_bytes() && !dinode.is_free() {
                            change_inode(disk, geometry, ino, |_| ());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The files that the damage touches.
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
        // A damaged block of a directory affects the entries in it.
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
