//! Files as every reader sees them, durable or not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader};
use vfs::FileKind;
use vnode::{Chunk, EntryChange};

use crate::inode::Inode;
use crate::record::{Entry, Stored};

/// The bytes of a chunk, shared by all that hold it.
pub(crate) type Bytes512 = Rc<RefCell<[u8; CHUNK_SIZE]>>;

/// A chunk of a directory.
pub struct RamChunk {
    pub(crate) directory: u64,
    /// Offset of the chunk in the directory.
    pub(crate) start: u64,
    pub(crate) bytes: Bytes512,
}

impl Chunk for RamChunk {
    fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&*self.bytes.borrow())
    }
}

/// The contents of a file.
pub(crate) struct Body {
    pub(crate) inode: Inode,
    pub(crate) blocks: BTreeMap<u64, Bytes>,
    pub(crate) chunks: Vec<Bytes512>,
    /// Ranges of the directory changed by Updates that may be lost.
    pub(crate) changed: Vec<(Range<u64>, u64)>,
}

impl Body {
    /// A file without content.
    pub(crate) fn new(inode: Inode) -> Self {
        Self { inode, blocks: BTreeMap::new(), chunks: Vec::new(), changed: Vec::new() }
    }

    /// A file as it is on the platter.
    pub(crate) fn of(stored: &Stored) -> Self {
        let mut body = Self::new(stored.inode.clone());
        body.blocks = stored.blocks.clone();
        if stored.inode.kind == FileKind::Directory {
            let last = stored.entries.last_key_value().map_or(0, |(&at, _)| at);
            let chunks = stored.inode.size / CHUNK_SIZE as u64;
            for index in 0..chunks.max(last / CHUNK_SIZE as u64 + 1) {
                let start = index * CHUNK_SIZE as u64;
                let entries = stored.entries.range(start..start + CHUNK_SIZE as u64);
                let entries = entries.map(|(&at, entry)| ((at - start) as usize, entry));
                body.chunks.push(Rc::new(RefCell::new(laid_out(entries))));
            }
            body.inode.size = (body.chunks.len() * CHUNK_SIZE) as u64;
        }
        body
    }
}

/// A chunk with the entries at their offsets.
fn laid_out<'a>(entries: impl Iterator<Item = (usize, &'a Entry)>) -> [u8; CHUNK_SIZE] {
    let mut bytes = chunk::empty_chunk();
    let entries: Vec<_> = entries.collect();
    let ends = entries.iter().skip(1).map(|&(at, _)| at).chain([CHUNK_SIZE]);
    if let Some(&(first, _)) = entries.first().filter(|(first, _)| *first > 0) {
        EntryHeader::at_mut(&mut bytes, 0).record_length.set(first as u16);
    }
    for (&(at, entry), end) in entries.iter().zip(ends) {
        let header = EntryHeader::at_mut(&mut bytes, at);
        header.inode.set(entry.ino as u32);
        header.record_length.set((end - at) as u16);
        header.name_length = entry.name.len() as u8;
        let name = at + size_of::<EntryHeader>();
        bytes[name..name + entry.name.len()].copy_from_slice(&entry.name);
    }
    bytes
}

/// Changes an entry of a chunk; returns the entry that is there now.
pub(crate) fn change_entry(bytes: &mut [u8; CHUNK_SIZE], entry: &EntryChange) -> Option<Entry> {
    for (at, piece) in &entry.layout {
        bytes[*at..at + piece.len()].copy_from_slice(piece);
    }
    let ino = entry.target.map_or(0, |(ino, _)| ino);
    EntryHeader::at_mut(bytes, entry.offset).inode.set(ino as u32);
    let (ino, kind) = entry.target?;
    let name = chunk::name_at(bytes, entry.offset).expect("a name stands where it was put");
    Some(Entry { name: name.into(), ino, kind })
}
