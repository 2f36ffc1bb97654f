//! Judges a disk after a power cut, before recovery: whether it keeps the contract of soft updates.
//!
//! Allowed are: fragments and inodes that are taken without a pointer to them, link counts that are
//! too high, outdated counts and hashes of groups, names of a moving directory in both places, and
//! pointers in pointer blocks behind the end of their file. All else is refused: a pointer to a
//! fragment that is free in the map, or that two files have; a name of a free inode, or with a
//! wrong type; a directory without its dots, with a hole or a broken chunk; a '..' that names no
//! directory; a link count that is too low; pointers of an inode behind its end; a long file that
//! ends in a hole; a used inode that is free in the map.
//!
//! It reads the structures by itself, independently of the engine's state.

use std::collections::{BTreeMap, BTreeSet};

use directory::entry::CHUNK_SIZE;
use sim::Image;
use ufs2::derive::bits;
use ufs2::layout::{
    DIRECT_POINTERS, Dinode, Geometry, GroupHeader, INLINE_SYMLINK_SIZE, ROOT_INODE,
    SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM,
};
use vfs::FileKind;

/// Violations found on a disk after a power cut, as sentences.
pub(crate) fn soft_update_violations(image: &Image) -> Vec<String> {
    judged(image).0
}

/// The same, and how many pointers in pointer blocks stand behind the end of their file.
pub(crate) fn judged(image: &Image) -> (Vec<String>, usize) {
    let mut judge = Judge::read(image);
    let inodes: Vec<u64> = judge.inodes.keys().copied().collect();
    for ino in inodes {
        judge.claim_blocks(ino);
    }
    judge.judge_tree();
    (judge.wrong, judge.behind_ends)
}

/// An entry of a directory.
struct Entry {
    ino: u64,
    kind: u8,
    name: Vec<u8>,
}

struct Judge<'a> {
    image: &'a Image,
    geometry: Geometry,
    groups: Vec<Vec<u8>>,
    /// Inodes that are not free.
    inodes: BTreeMap<u64, Dinode>,
    /// Owner of each fragment.
    owners: BTreeMap<u64, u64>,
    /// Blocks of directories, each with its bytes, in their order.
    chunks: BTreeMap<u64, Vec<(u64, usize)>>,
    /// Pointers in pointer blocks behind the end of their file.
    behind_ends: usize,
    wrong: Vec<String>,
}

impl<'a> Judge<'a> {
    fn read(image: &'a Image) -> Self {
        let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
        image.read(SUPERBLOCK_ADDRESS, &mut superblock);
        let geometry = Geometry::parse_any_order(&mut superblock).expect("never cut apart");
        let groups = (0..geometry.group_count).map(|group| {
            let mut block = vec![0; geometry.group_block_size as usize];
            let fragment = geometry.group_header_fragment(group);
            image.read(geometry.byte_address(fragment), &mut block);
            block
        });
        let groups = groups.collect();
        let (inodes, owners, chunks) = Default::default();
        let wrong = Vec::new();
        let behind_ends = 0;
        let mut judge =
            Self { image, geometry, groups, inodes, owners, chunks, behind_ends, wrong };
        judge.read_inodes();
        judge
    }

    fn says(&mut self, wrong: impl Into<String>) {
        self.wrong.push(wrong.into());
    }

    fn read_inodes(&mut self) {
        for group in 0..self.geometry.group_count {
            let block = std::mem::take(&mut self.groups[group as usize]);
            let initialised = u64::from(GroupHeader::of(&block).initialized_inodes.get());
            if initialised > self.geometry.inodes_per_group {
                self.says(format!("group {group} has {initialised} initialised inodes"));
            }
            for index in 0..initialised.min(self.geometry.inodes_per_group) {
                let ino = group * self.geometry.inodes_per_group + index;
                let taken = bits::is_set(self.geometry.maps.inodes_in(&block), index);
                self.read_inode(ino, taken);
            }
            self.groups[group as usize] = block;
        }
    }

    fn read_inode(&mut self, ino: u64, taken: bool) {
        let position = self.geometry.inode_position(ino);
        let mut bytes = vec![0; size_of::<Dinode>()];
        let byte = self.geometry.byte_address(position.fragment) + position.offset as u64;
        self.image.read(byte, &mut bytes);
        let dinode = *Dinode::at(&bytes, 0);
        if dinode.is_free() {
            let pointers = dinode.direct.iter().chain(&dinode.indirect);
            if dinode.size.get() != 0 || pointers.into_iter().any(|pointer| pointer.get() != 0) {
                self.says(format!("inode {ino} is free, and has a size or pointers"));
            }
            return;
        }
        if dinode.kind().is_none() || self.geometry.verify_inode(&dinode).is_err() {
            self.says(format!("inode {ino} is none"));
            return;
        }
        if !taken {
            self.says(format!("inode {ino} is in use, and the map says that it is free"));
        }
        self.inodes.insert(ino, dinode);
    }

    /// Fragments of block `lbn` of a file.
    fn run_of(&self, size: u64, lbn: u64) -> u64 {
        let blocks = size.div_ceil(self.geometry.block_size);
        let tail = size % self.geometry.block_size;
        if blocks <= DIRECT_POINTERS as u64 && lbn + 1 == blocks && tail > 0 {
            return tail.div_ceil(self.geometry.fragment_size);
        }
        self.geometry.fragments_per_block
    }

    fn claim_blocks(&mut self, ino: u64) {
        let dinode = self.inodes[&ino];
        let (kind, size) = (dinode.kind().expect("checked"), dinode.size.get());
        match kind {
            FileKind::Regular | FileKind::Directory => {}
            FileKind::Symlink if size >= INLINE_SYMLINK_SIZE as u64 => {}
            _ => return,
        }
        let blocks = size.div_ceil(self.geometry.block_size);
        let is_directory = kind == FileKind::Directory;
        for (lbn, pointer) in (0..).zip(&dinode.direct) {
            let address = pointer.get() as u64;
            match (address, lbn < blocks) {
                (0, true) if is_directory => self.says(format!("directory {ino} has a hole")),
                (0, _) => {}
                (_, false) => self.says(format!("inode {ino} points at {address} behind its end")),
                (_, true) => {
                    let run = self.run_of(size, lbn);
                    self.claim(ino, address, run);
                    self.note_chunks(ino, lbn, address);
                }
            }
        }
        let mut first = DIRECT_POINTERS as u64;
        let mut last_is_there = blocks <= first;
        let mut span = 1;
        for (depth, root) in (1..).zip(&dinode.indirect) {
            span *= self.geometry.pointers_per_indirect;
            let address = root.get() as u64;
            if address != 0 && first >= blocks {
                self.says(format!("inode {ino} points at {address} behind its end"));
            } else if address != 0 {
                last_is_there |= self.claim_tree(ino, address, (depth, first), blocks);
            }
            first += span;
        }
        if !last_is_there {
            self.says(format!("file {ino} of {blocks} blocks ends in a hole"));
        }
    }

    /// Claims everything below a pointer block; returns whether the last block of the file is in
    /// it.
    fn claim_tree(
        &mut self,
        ino: u64,
        address: u64,
        (depth, first): (u32, u64),
        blocks: u64,
    ) -> bool {
        let whole = self.geometry.fragments_per_block;
        if !self.claim(ino, address, whole) {
            return false;
        }
        let mut block = vec![0; self.geometry.block_size as usize];
        self.image.read(self.geometry.byte_address(address), &mut block);
        let span = self.geometry.pointers_per_indirect.pow(depth - 1);
        let mut has_last = false;
        for (slot, bytes) in (0..).zip(block.chunks_exact(8)) {
            let below = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let lbn = first + slot * span;
            if below == 0 {
                if lbn < blocks && self.is_directory(ino) {
                    self.says(format!("directory {ino} has a hole"));
                }
            } else if depth > 1 {
                has_last |= self.claim_tree(ino, below, (depth - 1, lbn), blocks);
            } else {
                self.claim(ino, below, whole);
                has_last |= lbn + 1 == blocks;
                if lbn < blocks {
                    self.note_chunks(ino, lbn, below);
                } else {
                    self.behind_ends += 1;
                }
            }
        }
        has_last
    }

    fn is_directory(&self, ino: u64) -> bool {
        self.inodes.get(&ino).is_some_and(|dinode| dinode.kind() == Some(FileKind::Directory))
    }

    /// Claims a run of fragments for a file; returns whether a file may have it.
    fn claim(&mut self, ino: u64, address: u64, run: u64) -> bool {
        if !self.geometry.is_data_run(address, run) {
            self.says(format!("inode {ino} points at {address}, which is no place for data"));
            return false;
        }
        let group = self.geometry.group_of_fragment(address);
        let base = self.geometry.group_base(group);
        for fragment in address..address + run {
            let map = self.geometry.maps.fragments_in(&self.groups[group as usize]);
            if bits::is_set(map, fragment - base) {
                self.says(format!("inode {ino} points at {fragment}, which is free"));
            }
            if let Some(other) = self.owners.insert(fragment, ino) {
                self.says(format!("inodes {other} and {ino} point at {fragment}"));
                return false;
            }
        }
        true
    }

    fn note_chunks(&mut self, ino: u64, lbn: u64, address: u64) {
        if self.is_directory(ino) {
            let size = self.inodes[&ino].size.get() - lbn * self.geometry.block_size;
            let length = size.min(self.geometry.block_size) as usize;
            let byte = self.geometry.byte_address(address);
            self.chunks.entry(ino).or_default().push((byte, length));
        }
    }

    /// The entries of an intact directory, the dots first.
    fn entries(&mut self, ino: u64) -> Option<Vec<Entry>> {
        let mut all = Vec::new();
        for (byte, length) in self.chunks.get(&ino).cloned().unwrap_or_default() {
            let mut content = vec![0; length];
            self.image.read(byte, &mut content);
            for (index, chunk) in content.chunks(CHUNK_SIZE).enumerate() {
                if !read_chunk(chunk, &mut all) {
                    self.says(format!("chunk {index} at {byte} of directory {ino} is broken"));
                }
            }
        }
        let dots = all.iter().take(2).map(|entry| &*entry.name);
        if dots.eq([&b"."[..], b".."]) && all[0].ino == ino {
            return Some(all);
        }
        self.says(format!("directory {ino} has no dots"));
        None
    }

    /// Checks everything below the root. Directories without a name must only be intact.
    fn judge_tree(&mut self) {
        let directories = self.inodes.keys().copied().filter(|&ino| self.is_directory(ino));
        let directories: Vec<u64> = directories.collect();
        let entries = directories.into_iter().filter_map(|ino| Some((ino, self.entries(ino)?)));
        let entries: BTreeMap<u64, Vec<Entry>> = entries.collect();
        let mut links: BTreeMap<u64, i64> = BTreeMap::new();
        let mut seen = BTreeSet::from([ROOT_INODE]);
        let mut open = vec![ROOT_INODE];
        while let Some(ino) = open.pop() {
            let mut names = BTreeSet::new();
            for (place, entry) in entries.get(&ino).into_iter().flatten().enumerate() {
                *links.entry(entry.ino).or_default() += 1;
                self.judge_entry(ino, entry, !names.insert(&entry.name));
                if place >= 2 && self.is_directory(entry.ino) && seen.insert(entry.ino) {
                    open.push(entry.ino);
                }
            }
        }
        for ino in seen {
            let parent = entries.get(&ino).map(|entries| entries[1].ino);
            if let Some(parent) = parent.filter(|&parent| !self.is_directory(parent)) {
                self.says(format!("'..' of directory {ino} names {parent}, which is none"));
            }
        }
        for (ino, count) in links {
            let stated = self.inodes.get(&ino).map_or(0, |dinode| i64::from(dinode.links.get()));
            if stated < count {
                self.says(format!("inode {ino} has {count} links, and says {stated}"));
            }
        }
    }

    fn judge_entry(&mut self, directory: u64, entry: &Entry, is_second: bool) {
        let text = String::from_utf8_lossy(&entry.name);
        let text = format!("'{text}' in directory {directory}");
        if is_second {
            self.says(format!("{text} stands there twice"));
        }
        match self.inodes.get(&entry.ino) {
            None => self.says(format!("{text} names inode {}, which is free", entry.ino)),
            Some(dinode) if dinode.mode.get() >> 12 != u16::from(entry.kind) => {
                self.says(format!("{text} has another type than its inode"));
            }
            Some(_) => {}
        }
    }
}

/// Adds the live entries of a chunk; false if the chunk is invalid.
fn read_chunk(chunk: &[u8], all: &mut Vec<Entry>) -> bool {
    let mut at = 0;
    while at < chunk.len() {
        let Some(header) = chunk.get(at..at + 8) else { return false };
        let ino = u64::from(u32::from_le_bytes(header[..4].try_into().expect("four bytes")));
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let name_length = usize::from(header[7]);
        let needed = if ino == 0 { 8 } else { (8 + name_length + 1).next_multiple_of(4) };
        if length < needed || !length.is_multiple_of(4) || at + length > chunk.len() {
            return false;
        }
        if ino != 0 {
            let name = chunk[at + 8..at + 8 + name_length].to_vec();
            if name.is_empty() || chunk[at + 8 + name_length] != 0 {
                return false;
            }
            all.push(Entry { ino, kind: header[6], name });
        }
        at += length;
    }
    at == CHUNK_SIZE
}
