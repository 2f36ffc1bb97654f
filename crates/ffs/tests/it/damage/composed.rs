//! Damages of several places at once that agree with each other so well that only one rule detects
//! them.

use std::mem::offset_of;

use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, EntryHeader};
use ufs2::layout::{Dinode, GroupHeader, ROOT_INODE, SUPERBLOCK_ADDRESS, Superblock, kind_bits};
use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use super::base::Base;
use super::map::Owner;
use super::mutation::{Mutation, Structure};
use crate::common::edit::{group_at, group_byte, inode_at, inode_byte};

/// A damage in the making.
struct Maker<'a> {
    base: &'a Base,
    changes: Vec<(u64, Vec<u8>)>,
}

impl Maker<'_> {
    fn ino(&self, path: &str) -> u64 {
        let named = |path: &str| {
            let mut files = self.base.files.iter();
            files.find(|(_, file)| file.paths.iter().any(|one| one == path)).map(|(&ino, _)| ino)
        };
        named(path).unwrap_or_else(|| panic!("there is no {path} on {}", self.base.name))
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.changes.push((at, bytes.to_vec()));
    }

    fn inode(&mut self, path: &str, change: impl Fn(&mut Dinode)) {
        let ino = self.ino(path);
        self.inode_of(ino, change);
    }

    fn inode_of(&mut self, ino: u64, change: impl Fn(&mut Dinode)) {
        let mut dinode = inode_at(&self.base.disk, &self.base.geometry, ino);
        change(&mut dinode);
        self.put(inode_byte(&self.base.geometry, ino), dinode.as_bytes());
    }

    /// Position of a name's entry on the disk.
    fn entry(&self, path: &str) -> u64 {
        let (directory, name) = path.rsplit_once('/').expect("a path");
        let ino = if directory.is_empty() { ROOT_INODE } else { self.ino(directory) };
        let geometry = &self.base.geometry;
        let own = |owner| matches!(owner, Owner::Directory(own, _) if own == ino);
        for fragment in self.base.map.fragments(own) {
            let start = geometry.byte_address(fragment);
            for chunk in (start..start + geometry.fragment_size).step_by(CHUNK_SIZE) {
                let bytes = self.base.disk.bytes(chunk, CHUNK_SIZE);
                let mut at = 0;
                while at < CHUNK_SIZE {
                    let (header, _) = EntryHeader::read_from_prefix(&bytes[at..]).expect("inside");
                    let start = at + ENTRY_HEADER_SIZE;
                    let end = start + usize::from(header.name_length);
                    if header.inode.get() != 0 && &bytes[start..end] == name.as_bytes() {
                        return chunk + at as u64;
                    }
                    match header.record_length.get() {
                        0 => break, // behind the end of the directory
                        length => at += usize::from(length),
                    }
                }
            }
        }
        panic!("no entry {path}");
    }

    /// Makes a name refer to another file.
    fn rename_to(&mut self, path: &str, ino: u64, kind: FileKind) {
        let at = self.entry(path);
        self.put(at, &(ino as u32).to_le_bytes());
        self.put(at + offset_of!(EntryHeader, kind) as u64, &[kind_bits(kind)]);
    }

    fn drop_name(&mut self, path: &str) {
        let at = self.entry(path);
        self.put(at, &[0; 4]);
    }

    fn links(&mut self, path: &str, more: i16) {
        self.inode(path, |dinode| dinode.links.set(dinode.links.get().wrapping_add_signed(more)));
    }

    fn superblock(&mut self, change: impl Fn(&mut Superblock)) {
        let size = self.base.geometry.superblock_size as usize;
        let mut block = self.base.disk.bytes(SUPERBLOCK_ADDRESS, size);
        change(Superblock::mut_from_prefix(&mut block).expect("the room of one").0);
        self.put(SUPERBLOCK_ADDRESS, &block);
    }

    fn group(&mut self, group: u64, change: impl Fn(&mut [u8])) {
        let mut block = group_at(&self.base.disk, &self.base.geometry, group);
        change(&mut block);
        self.put(group_byte(&self.base.geometry, group), &block);
    }
}

type Build = fn(&mut Maker<'_>);

/// Descriptions of the damages, and functions that make them.
const BUILDS: &[(&str, Build)] = &[
    ("a name that nobody has any more", |it| it.drop_name("/stays")),
    ("a directory with two names", |it| {
        let ino = it.ino("/small");
        it.rename_to("/a/b/c/d/e/leaf-nearby", ino, FileKind::Directory);
        it.links("/leaf-again", -1);
    }),
    ("directories in a circle", |it| {
        let ino = it.ino("/a");
        it.rename_to("/a/b/c/d/e/leaf-nearby", ino, FileKind::Directory);
        it.links("/leaf-again", -1);
        it.links("/a/b/c/d/e", 1);
        it.inode_of(ROOT_INODE, |dinode| dinode.links.set(dinode.links.get() - 1));
        it.drop_name("/a");
        let below = it.ino("/a/b/c/d/e");
        let first = inode_at(&it.base.disk, &it.base.geometry, ino).direct[0].get() as u64;
        it.put(it.base.geometry.byte_address(first) + 12, &(below as u32).to_le_bytes());
    }),
    ("a name of the root", |it| {
        it.rename_to("/a/b/c/d/e/leaf-nearby", ROOT_INODE, FileKind::Directory);
        it.links("/leaf-again", -1);
    }),
    ("a name twice", |it| {
        // The two have names of one length.
        let at = it.entry("/tail") + ENTRY_HEADER_SIZE as u64;
        it.put(at, b"fifo");
    }),
    ("'..' of another directory", |it| {
        let ino = it.ino("/small");
        let first = inode_at(&it.base.disk, &it.base.geometry, ino).direct[0].get() as u64;
        let other = it.ino("/large");
        it.put(it.base.geometry.byte_address(first) + 12, &(other as u32).to_le_bytes());
    }),
    ("a '.' in the midst", |it| {
        let at = it.entry("/a");
        it.put(at + ENTRY_HEADER_SIZE as u64, b".");
    }),
    ("a free inode in the list of snapshots", |it| {
        it.superblock(|superblock| superblock.snapshots[0].set(255));
    }),
    ("the flag of a snapshot", |it| {
        it.inode("/empty", |dinode| dinode.flags.set(ufs2::layout::FLAG_SNAPSHOT));
    }),
    ("a directory that notes another depth", |it| {
        it.inode("/small", |dinode| dinode.free_link.set(7));
    }),
    ("a hole in a directory", |it| {
        let ino = it.ino("/large");
        let block = it.base.geometry.block_size;
        let size = it.base.files[&ino].attributes.size;
        // The rest of its last block becomes part of it, and a missing block.
        let own = |owner| matches!(owner, Owner::Directory(own, at) if own == ino && at >= size);
        for fragment in it.base.map.fragments(own) {
            let start = it.base.geometry.byte_address(fragment);
            let step = CHUNK_SIZE as u64;
            for chunk in (start..start + it.base.geometry.fragment_size).step_by(CHUNK_SIZE) {
                it.put(chunk, &[0, 0, 0, 0, 0, (step >> 8) as u8, 0, 0]);
            }
        }
        let longer = size.next_multiple_of(block) + CHUNK_SIZE as u64;
        it.inode_of(ino, |dinode| dinode.size.set(longer));
    }),
    ("an inode of which three fields make no sense", |it| {
        it.inode("/stays", |dinode| {
            dinode.spare = [1; 8];
            dinode.mtime_nanoseconds.set(-1);
            dinode.atime_nanoseconds.set(-1);
        });
    }),
    ("more initialised inodes than there are", |it| {
        let more = it.base.geometry.inodes_per_group + it.base.geometry.inodes_per_block;
        it.group(0, |block| GroupHeader::of_mut(block).initialized_inodes.set(more as u32));
    }),
    ("what was left in inode 0", |it| {
        it.inode_of(0, |dinode| dinode.block_size.set(0xff));
    }),
    ("a file that claims the indirect block of another", |it| {
        let other = inode_at(&it.base.disk, &it.base.geometry, it.ino("/double")).indirect[0];
        it.inode("/twelve", |dinode| dinode.direct[6] = other);
    }),
    ("an indirect block that points at itself", |it| {
        let ino = it.ino("/single");
        let own = inode_at(&it.base.disk, &it.base.geometry, ino).indirect[0].get() as u64;
        it.put(it.base.geometry.byte_address(own) + 8, &own.to_le_bytes());
    }),
    ("a directory that claims the block of the one below", |it| {
        let below = inode_at(&it.base.disk, &it.base.geometry, it.ino("/a/b/c/d")).direct[0];
        it.inode("/a/b/c", |dinode| dinode.direct[0] = below);
    }),
    ("a target that is said to be longer", |it| {
        it.inode("/long-link", |dinode| dinode.size.set(dinode.size.get() + 9));
    }),
    ("a tail that is said to be a whole block", |it| {
        it.inode("/tail", |dinode| dinode.size.set(0xff << 16));
    }),
    ("a second inode with the blocks of a first", |it| {
        let twin = inode_at(&it.base.disk, &it.base.geometry, it.ino("/double"));
        let free = (3..).find(|ino| !it.base.map.inodes.contains_key(ino)).expect("one is free");
        it.inode_of(free, |dinode| {
            *dinode = twin;
        });
    }),
    ("an inode that nobody has any open", |it| {
        it.group(0, |block| GroupHeader::of_mut(block).unreferenced_inodes.set(1));
    }),
];

/// All of them, for a disk with a planted tree.
pub(crate) fn composed(base: &Base) -> Vec<Mutation> {
    let make = |(label, build): &(&str, Build)| {
        let mut maker = Maker { base, changes: Vec::new() };
        build(&mut maker);
        let changes = maker.changes;
        Mutation { structure: Structure::Composed, label: (*label).to_owned(), changes }
    };
    BUILDS.iter().map(make).collect()
}
