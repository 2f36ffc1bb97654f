//! Inodes and directories of the model, and the blocks that each call changes.
//!
//! A call returns the blocks that its program has to write synchronously without soft updates:
//! "523 = 2 a file, 4 a directory", and one whenever a directory takes another sector. A removed
//! name takes one write, and a file or directory that frees contents takes another.

use std::collections::BTreeMap;

use runtime::Instant;

use super::blocks::{BLOCK, Block, Numbers, in_fragments, place_of_content};
use super::cache::{Ages, Cache, Then};
use super::files::Holds;

/// Bytes of a directory chunk, which no entry crosses.
const CHUNK: u32 = 512;
/// Chunks in a directory block.
const CHUNKS: u32 = BLOCK as u32 / CHUNK;
/// Bytes of "." and "..".
const DOTS: u32 = 24;
/// The root directory.
pub(super) const ROOT: u32 = 0;

/// A name in a directory.
struct Entry {
    inode: u32,
    chunk: u32,
    added: u64,
}

#[derive(Default)]
struct Inode {
    parent: u32,
    is_directory: bool,
    /// The change that made the inode; relevant until it has landed.
    made: u64,
    /// All that was changed when it was made.
    changes: Vec<u64>,
    /// Locations of its contents, and their bytes.
    blocks: Vec<u64>,
    bytes: u64,
    entries: BTreeMap<String, Entry>,
    /// Free bytes of each chunk.
    chunks: Vec<u32>,
}

/// Blocks that a program has to write after a call.
#[derive(Default)]
pub(super) struct Work {
    /// Blocks to write synchronously, without soft updates.
    pub(super) waits: Vec<Block>,
    /// Full blocks, which are written immediately but not waited for.
    pub(super) full: Vec<Block>,
}

/// The whole file system in memory.
pub(super) struct Tree {
    pub(super) cache: Cache,
    has_soft_updates: bool,
    inodes: BTreeMap<u32, Inode>,
    inode_numbers: Numbers,
    block_numbers: Numbers,
}

impl Tree {
    /// An empty file system; with soft updates if there are ages.
    pub(super) fn new(ages: Option<Ages>) -> Self {
        let mut tree = Self {
            cache: Cache::new(ages.unwrap_or(Ages::ALL_THIRTY)),
            has_soft_updates: ages.is_some(),
            inodes: BTreeMap::new(),
            inode_numbers: Numbers::default(),
            block_numbers: Numbers::default(),
        };
        let root = tree.inode_numbers.take() as u32;
        assert_eq!(root, ROOT, "the root is made first");
        let block = tree.block_numbers.take();
        let inode = Inode {
            is_directory: true,
            blocks: vec![block],
            bytes: u64::from(CHUNK),
            chunks: vec![CHUNK - DOTS],
            ..Inode::default()
        };
        tree.inodes.insert(root, inode);
        tree
    }

    fn inode(&mut self, number: u32) -> &mut Inode {
        self.inodes.get_mut(&number).expect("an inode that is used is there")
    }

    /// Adds a change to a block and returns its number; 0 without soft updates, where no change
    /// waits for another.
    fn change(&mut self, block: Block, needs: &[u64], then: Then, now: Instant) -> u64 {
        if self.has_soft_updates {
            return self.cache.change(block, needs, then, now);
        }
        self.cache.dirty(block, now);
        0
    }

    /// The inode of a name.
    pub(super) fn find(&self, directory: u32, name: &str) -> u32 {
        let entry = self.inodes[&directory].entries.get(name);
        entry.unwrap_or_else(|| panic!("{name} is in directory {directory}")).inode
    }

    /// Byte offset of a block, and the bytes of it to write.
    pub(super) fn place(&self, block: Block) -> (u64, u64) {
        let (number, index) = match block {
            Block::Entries(number, index) | Block::Data(number, index) => (number, index),
            _ => return (block.place().expect("it is fixed"), BLOCK),
        };
        let inode = &self.inodes[&number];
        let left = inode.bytes - u64::from(index) * BLOCK;
        (place_of_content(inode.blocks[index as usize]), in_fragments(left.min(BLOCK)))
    }

    /// Allocates an inode and its bit; returns it with the number of the change that makes it.
    fn new_inode(&mut self, parent: u32, is_directory: bool, now: Instant) -> (u32, u64) {
        let number = self.inode_numbers.take() as u32;
        let bit = self.change(Block::map_of_inode(number), &[], Then::Nothing, now);
        let made = self.change(Block::of_inode(number), &[bit], Then::Nothing, now);
        let inode =
            Inode { parent, is_directory, made, changes: vec![bit, made], ..Inode::default() };
        self.inodes.insert(number, inode);
        (number, made)
    }

    /// Adds a block of contents: bit, contents and pointer. Returns the number of the change of
    /// contents.
    fn grow(&mut self, number: u32, bytes: u64, now: Instant) -> u64 {
        let block = self.block_numbers.take();
        let bit = self.change(Block::map_of_content(block), &[], Then::Nothing, now);
        let inode = self.inode(number);
        let index = inode.blocks.len() as u32;
        inode.blocks.push(block);
        inode.bytes += bytes;
        let of_directory = inode.is_directory;
        let content = if of_directory { Block::Entries } else { Block::Data }(number, index);
        let filled = self.change(content, &[], Then::Nothing, now);
        let pointer = self.change(Block::of_inode(number), &[filled, bit], Then::Nothing, now);
        self.inode(number).changes.extend([bit, filled, pointer]);
        filled
    }

    /// Adds a name to a directory. Returns the block with the name, and whether the directory has
    /// grown.
    fn add_name(
        &mut self,
        parent: u32,
        name: &str,
        inode: u32,
        needs: &[u64],
        now: Instant,
    ) -> (Block, bool) {
        let size = 8 + (name.len() as u32 + 1).next_multiple_of(4);
        let directory = self.inode(parent);
        let fits = directory.chunks.iter().position(|&free| free >= size);
        let has_grown = fits.is_none();
        let chunk = fits.unwrap_or_else(|| {
            directory.chunks.push(CHUNK);
            directory.chunks.len() - 1
        });
        directory.chunks[chunk] -= size;
        let chunk = chunk as u32;
        if has_grown && chunk.is_multiple_of(CHUNKS) {
            self.grow(parent, u64::from(CHUNK), now);
        } else if has_grown {
            self.inode(parent).bytes += u64::from(CHUNK);
            self.cache.dirty(Block::of_inode(parent), now);
        }
        let block = Block::Entries(parent, chunk / CHUNKS);
        let added = self.change(block, needs, Then::Nothing, now);
        self.cache.dirty(Block::of_inode(parent), now); // its times
        self.inode(parent).entries.insert(name.to_owned(), Entry { inode, chunk, added });
        (block, has_grown)
    }

    /// Makes a file with its contents.
    pub(super) fn make_file(
        &mut self,
        parent: u32,
        name: &str,
        holds: Holds,
        now: Instant,
    ) -> Work {
        let (number, made) = self.new_inode(parent, false, now);
        let (block, has_grown) = self.add_name(parent, name, number, &[made], now);
        let mut waits = vec![Block::of_inode(number), block];
        waits.extend(has_grown.then_some(Block::of_inode(parent)));
        let mut full = Vec::new();
        let mut left = if let Holds::Bytes(bytes) = holds { u64::from(bytes) } else { 0 };
        while left > 0 {
            let bytes = left.min(BLOCK);
            let index = self.inode(number).blocks.len() as u32;
            self.grow(number, bytes, now);
            full.extend((bytes == BLOCK).then_some(Block::Data(number, index)));
            left -= bytes;
        }
        Work { waits, full }
    }

    /// Makes a directory.
    pub(super) fn make_directory(&mut self, parent: u32, name: &str, now: Instant) -> (u32, Work) {
        let (number, made) = self.new_inode(parent, true, now);
        let counted = self.change(Block::of_inode(parent), &[], Then::Nothing, now);
        let filled = self.grow(number, u64::from(CHUNK), now);
        let inode = self.inode(number);
        inode.chunks = vec![CHUNK - DOTS];
        inode.changes.push(counted);
        let needs = [made, counted, filled];
        let (block, has_grown) = self.add_name(parent, name, number, &needs, now);
        let inodes = [number, parent].map(Block::of_inode);
        let mut waits = vec![inodes[0], inodes[1], Block::Entries(number, 0), block];
        waits.extend(has_grown.then_some(inodes[1]));
        (number, Work { waits, full: Vec::new() })
    }

    /// Notes that a file or directory was read.
    pub(super) fn touch(&mut self, number: u32, now: Instant) {
        self.cache.dirty(Block::of_inode(number), now);
    }

    /// Removes a name, and its inode.
    pub(super) fn remove(&mut self, parent: u32, name: &str, now: Instant) -> Work {
        let entry = self.inode(parent).entries.remove(name).expect("it is there");
        let size = 8 + (name.len() as u32 + 1).next_multiple_of(4);
        self.inode(parent).chunks[entry.chunk as usize] += size;
        let block = Block::Entries(parent, entry.chunk / CHUNKS);
        let number = entry.inode;
        let inode = self.inode(number);
        assert!(inode.entries.is_empty(), "a directory that is removed is empty");
        let (has_content, made) = (!inode.blocks.is_empty(), inode.made);
        self.cache.dirty(Block::of_inode(parent), now); // its times, and its count
        self.cache.dirty(block, now); // the name may be in a write under way
        if !self.has_soft_updates {
            self.empty(number, now);
            self.release(number, now);
            let mut waits = vec![block];
            waits.extend(has_content.then_some(Block::of_inode(number)));
            return Work { waits, full: Vec::new() };
        }
        if self.cache.forget(entry.added).is_none() {
            self.cache.change(block, &[], Then::Empty(number), now);
        } else if self.cache.is_pending(made) {
            self.discard_content(number, now);
            for change in std::mem::take(&mut self.inode(number).changes) {
                self.cache.forget(change);
            }
            self.release(number, now);
        } else {
            self.empty(number, now);
        }
        Work::default()
    }

    /// Runs the action of a change that has landed.
    pub(super) fn land(&mut self, change: u64, now: Instant) {
        match self.cache.forget(change) {
            Some(Then::Empty(number)) => self.empty(number, now),
            Some(Then::Release(number)) => self.release(number, now),
            Some(Then::Nothing) | None => {}
        }
    }

    /// Empties an inode that has no name any more.
    fn empty(&mut self, number: u32, now: Instant) {
        self.discard_content(number, now);
        let parent = self.inode(number).parent;
        if self.inode(number).is_directory && self.inodes.contains_key(&parent) {
            self.cache.dirty(Block::of_inode(parent), now); // its count
        }
        self.change(Block::of_inode(number), &[], Then::Release(number), now);
    }

    /// Drops unwritten contents of a file or directory, and completes the removal of names there.
    fn discard_content(&mut self, number: u32, now: Instant) {
        let inode = &self.inodes[&number];
        let kind = if inode.is_directory { Block::Entries } else { Block::Data };
        for index in 0..inode.blocks.len() as u32 {
            for change in self.cache.discard(kind(number, index)) {
                self.land(change, now);
            }
        }
    }

    /// Frees an inode and its contents.
    fn release(&mut self, number: u32, now: Instant) {
        let inode = self.inodes.remove(&number).expect("it is released once");
        self.cache.dirty(Block::map_of_inode(number), now);
        self.inode_numbers.give_back(u64::from(number));
        for block in inode.blocks {
            self.cache.dirty(Block::map_of_content(block), now);
            self.block_numbers.give_back(block);
        }
    }
}
