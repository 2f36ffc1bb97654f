//! Map of each byte of a disk to its owner.
//!
//! Read from an undamaged disk, so that nothing is verified here.

use std::collections::BTreeMap;

use ufs2::layout::{
    DIRECT_POINTERS, Dinode, Geometry, GroupHeader, INLINE_SYMLINK_SIZE, INODE_SIZE,
    SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM,
};
use vfs::FileKind;

use crate::common::MemoryDisk;
use crate::common::edit::{group_at, inode_at};

/// Owner of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No owner: it is free, or in front of the superblock.
    Nothing,
    /// The primary superblock.
    Superblock,
    /// A copy of the superblock.
    Backup(u64),
    /// A group block.
    Group(u64),
    /// Inodes, from this one on.
    Inodes(u64),
    /// The summary area.
    Summary,
    /// Data of a regular file, or the target of a link, with its offset in the file.
    Data(u64, u64),
    /// Chunks of a directory.
    Directory(u64, u64),
    /// Pointers of a file: level, and first block of the file.
    Indirect(u64, u64),
    /// Extended attributes, with their offset in the area.
    Attribute(u64, u64),
}

/// Owners of all bytes of a disk.
pub(crate) struct Map {
    fragment_size: u64,
    owners: Vec<Owner>,
    /// Ranges with blocks of each regular file.
    extents: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Every allocated inode.
    pub(crate) inodes: BTreeMap<u64, Dinode>,
    /// Number of initialised inodes of each group.
    pub(crate) initialised: Vec<u64>,
}

struct Maker<'a> {
    disk: &'a MemoryDisk,
    geometry: &'a Geometry,
    map: Map,
}

impl Map {
    pub(crate) fn of(disk: &MemoryDisk, geometry: &Geometry) -> Self {
        let map = Self {
            fragment_size: geometry.fragment_size,
            owners: vec![Owner::Nothing; geometry.size as usize],
            extents: BTreeMap::new(),
            inodes: BTreeMap::new(),
            initialised: Vec::new(),
        };
        let mut maker = Maker { disk, geometry, map };
        maker.metadata();
        maker.files();
        maker.map
    }

    /// Owner of a byte.
    pub(crate) fn owner(&self, byte: u64) -> Owner {
        let index = (byte / self.fragment_size) as usize;
        self.owners.get(index).copied().unwrap_or(Owner::Nothing)
    }

    /// Ranges of a regular file with blocks: offset and length of each, up to its end.
    pub(crate) fn extents(&self, ino: u64) -> &[(u64, u64)] {
        self.extents.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// The fragments with a `wanted` owner, in order.
    pub(crate) fn fragments(&self, wanted: impl Fn(Owner) -> bool) -> Vec<u64> {
        let owners = (0..).zip(&self.owners);
        owners.filter(|(_, owner)| wanted(**owner)).map(|(fragment, _)| fragment).collect()
    }
}

impl Maker<'_> {
    fn set(&mut self, first: u64, count: u64, owner: impl Fn(u64) -> Owner) {
        for index in 0..count {
            self.map.owners[(first + index) as usize] = owner(index);
        }
    }

    fn metadata(&mut self) {
        let geometry = self.geometry;
        let size = geometry.fragment_size;
        let room = SUPERBLOCK_ROOM.div_ceil(size);
        self.set(SUPERBLOCK_ADDRESS / size, room, |_| Owner::Superblock);
        for group in 0..geometry.group_count {
            let copy = geometry.superblock_size.div_ceil(size);
            self.set(geometry.backup_superblock_fragment(group), copy, |_| Owner::Backup(group));
            let block = geometry.group_block_size / size;
            self.set(geometry.group_header_fragment(group), block, |_| Owner::Group(group));
            let header = group_at(self.disk, geometry, group);
            let initialised = u64::from(GroupHeader::of(&header).initialized_inodes.get());
            self.map.initialised.push(initialised);
            let first = group * geometry.inodes_per_group;
            let per_fragment = size / INODE_SIZE;
            self.set(
                geometry.inode_table_fragment(group),
                geometry.inodes_per_group / per_fragment,
                |index| Owner::Inodes(first + index * per_fragment),
            );
        }
        self.set(geometry.summary_address, geometry.summary_fragments, |_| Owner::Summary);
    }

    fn files(&mut self) {
        for group in 0..self.geometry.group_count {
            let first = group * self.geometry.inodes_per_group;
            for ino in first..first + self.map.initialised[group as usize] {
                let dinode = inode_at(self.disk, self.geometry, ino);
                if !dinode.is_free() {
                    self.map.inodes.insert(ino, dinode);
                    self.file(ino, &dinode);
                }
            }
        }
    }

    fn file(&mut self, ino: u64, dinode: &Dinode) {
        let attributes = u64::from(dinode.attribute_size.get());
        for (index, address) in (0..).zip(&dinode.attribute_blocks) {
            if address.get() != 0 {
                let run = self.run(attributes, index);
                let start = index * self.geometry.block_size;
                let step = self.geometry.fragment_size;
                self.set(address.get() as u64, run, |index| {
                    Owner::Attribute(ino, start + index * step)
                });
            }
        }
        let size = dinode.size.get();
        let inline = size < INLINE_SYMLINK_SIZE as u64;
        match dinode.kind() {
            Some(FileKind::Regular | FileKind::Directory) => {}
            Some(FileKind::Symlink) if !inline => {}
            _ => return,
        }
        for (lbn, address) in (0..).zip(&dinode.direct) {
            self.data(ino, dinode, lbn, address.get() as u64);
        }
        let mut first = DIRECT_POINTERS as u64;
        for (level, address) in (0..).zip(&dinode.indirect) {
            let span = self.geometry.pointers_per_indirect.pow(level);
            self.tree(ino, dinode, address.get() as u64, span, first);
            first += span * self.geometry.pointers_per_indirect;
        }
    }

    fn tree(&mut self, ino: u64, dinode: &Dinode, address: u64, span: u64, first: u64) {
        let count = dinode.size.get().div_ceil(self.geometry.block_size);
        if !self.geometry.is_data_fragment(address) || first >= count {
            return;
        }
        let run = self.geometry.fragments_per_block;
        self.set(address, run, |_| Owner::Indirect(ino, first));
        let bytes =
            self.disk.bytes(self.geometry.byte_address(address), self.geometry.block_size as usize);
        for (index, pointer) in (0..).zip(bytes.chunks_exact(8)) {
            let pointer = u64::from_le_bytes(pointer.try_into().expect("eight bytes"));
            let lbn = first + index * span;
            if span == 1 {
                self.data(ino, dinode, lbn, pointer);
            } else {
                self.tree(ino, dinode, pointer, span / self.geometry.pointers_per_indirect, lbn);
            }
        }
    }

    fn data(&mut self, ino: u64, dinode: &Dinode, lbn: u64, address: u64) {
        let size = dinode.size.get();
        let start = lbn * self.geometry.block_size;
        if !self.geometry.is_data_fragment(address) || start >= size {
            return;
        }
        let run = self.run(size, lbn);
        let directory = dinode.kind() == Some(FileKind::Directory);
        let owner = if directory { Owner::Directory } else { Owner::Data };
        let step = self.geometry.fragment_size;
        self.set(address, run, |index| owner(ino, start + index * step));
        let length = (size - start).min(self.geometry.block_size);
        self.map.extents.entry(ino).or_default().push((start, length));
    }

    /// Number of fragments in block `lbn` of a file of `size` bytes.
    fn run(&self, size: u64, lbn: u64) -> u64 {
        let block = self.geometry.block_size;
        let small = size <= DIRECT_POINTERS as u64 * block;
        let rest = size.saturating_sub(lbn * block);
        if small && rest < block {
            rest.div_ceil(self.geometry.fragment_size)
        } else {
            self.geometry.fragments_per_block
        }
    }
}
