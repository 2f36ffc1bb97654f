//! Directories as chunks: their positions, their growth, and edits of their entries.
//!
//! Invariants:
//! 1. A chunk is initialised as empty, and that is on the disk, before the directory's size covers
//!    it.
//! 2. A run moves with everything that its deltas changed: the Update that moves it rests on them,
//!    or waits for them under a policy whose horizon is out of order, so that no entry is ever
//!    durable in a place that nothing points at, or without the inode that it names.
//!
//! Not asserted: 1, which the ranks of the items keep.

use std::ops::Range;
use std::rc::Rc;

use directory::chunk;
use directory::entry::CHUNK_SIZE;
use ufs2::layout::kind_bits;
use ufs2::map::run_length;
use vfs::{Depends, FsError};
use vnode::{Chunk, EntryChange, NameChange};

use crate::buffer::{Buffer, Role};
use crate::edit::Edit;
use crate::engine::Ffs;
use crate::inode::{Node, OnDisk};
use crate::item::{Intent, Subject};
use crate::update::Update;

/// A chunk of a directory: its buffer, and its offset there.
pub struct DirectoryChunk {
    buffer: Rc<Buffer>,
    at: usize,
}

impl Chunk for DirectoryChunk {
    fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        self.buffer.read(|image| look(&image[self.at..][..CHUNK_SIZE]))
    }
}

impl Ffs {
    /// The chunk that begins at byte `start` of a directory, as `update` leaves it.
    pub(crate) async fn chunk(
        &self,
        update: Option<&Update>,
        node: &Node,
        start: u64,
    ) -> Result<DirectoryChunk, FsError> {
        let (buffer, at) = self.directory_buffer(update, node, start).await?;
        Ok(DirectoryChunk { buffer, at })
    }

    /// Whether these bytes of a chunk are under a delta that may have to be undone.
    pub(crate) fn is_pending(&self, chunk: &DirectoryChunk, bytes: Range<usize>) -> bool {
        let bytes = chunk.at + bytes.start..chunk.at + bytes.end;
        chunk.buffer.is_pending_at(bytes, self.policy.durable_through())
    }

    /// Changes an entry of a chunk.
    pub(crate) fn set_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        chunk: &DirectoryChunk,
        entry: EntryChange,
    ) {
        let at = chunk.at;
        let layout = entry.layout.into_iter().map(|(offset, bytes)| (at + offset, bytes)).collect();
        let (ino, kind) = entry.target.map_or((0, 0), |(ino, kind)| (ino as u32, kind_bits(kind)));
        let edit = Edit::Entry { offset: at + entry.offset, ino, kind, layout };
        let intent = match entry.change {
            NameChange::Added => Intent::EntryAdded,
            NameChange::Retargeted => Intent::EntryRetargeted,
            NameChange::ParentRetargeted => Intent::ParentRetargeted,
            NameChange::Dropped => Intent::EntryDropped,
        };
        let target = entry.target.map(|(ino, _)| ino);
        let subject = Subject::Entry { directory: directory.ino, target };
        update.push_named(intent, subject, &chunk.buffer, edit);
        if entry.change == NameChange::ParentRetargeted {
            // The depth that FreeBSD stores to place new directories; 0 means unknown. The depths
            // of the directories below go stale: only placement uses them.
            update.touch_inode(directory, |dinode| dinode.free_link.set(0));
        }
    }

    /// The buffer with the directory's byte `offset`, and the offset within it. A run that `update`
    /// has moved is found at its new address: a rename may add a name there before it drops one.
    async fn directory_buffer(
        &self,
        update: Option<&Update>,
        node: &Node,
        offset: u64,
    ) -> Result<(Rc<Buffer>, usize), FsError> {
        let geometry = self.geometry();
        let lbn = offset / geometry.block_size;
        let at = (offset % geometry.block_size) as usize;
        let size = node.dinode().size.get();
        let address = self.map().find(node, update, lbn).await?;
        if let Some(buffer) = update.and_then(|update| update.fresh(address)) {
            return Ok((buffer.clone(), at));
        }
        let run = run_length(geometry, size, lbn);
        if !geometry.is_data_run(address, run) {
            return Err(FsError::Corrupt); // a hole, or a pointer into nowhere
        }
        let size = (run * geometry.fragment_size) as usize;
        let buffer = self.home.load(address, size, Role::Directory).await?;
        if buffer.size() < size {
            return Err(FsError::Corrupt); // two files claim these fragments
        }
        Ok((buffer, at))
    }

    /// Makes the directory a chunk longer.
    pub(crate) async fn add_chunk(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
    ) -> Result<DirectoryChunk, FsError> {
        let geometry = self.geometry();
        let size = node.dinode().size.get();
        let new_size = size + CHUNK_SIZE as u64;
        let lbn = size / geometry.block_size;
        let need = run_length(geometry, new_size, lbn);
        let length = (need * geometry.fragment_size) as usize;
        let at = (size % geometry.block_size) as usize;
        let buffer = if at == 0 {
            let near = self.near(update, node, lbn).await?;
            let address = self.map().take(update, node, near, need).await?;
            self.map().set(update, node, lbn, address).await?;
            let image = block::Buffer::padded(&chunk::empty_chunk(), length);
            let buffer = Buffer::new(address, Role::Directory, image);
            update.push_fresh(Intent::BlockInitialised, buffer.clone());
            buffer
        } else {
            let (old, _) =
                self.directory_buffer(Some(update), node, size - CHUNK_SIZE as u64).await?;
            self.lengthen_run(update, node, lbn, old, length, at).await?
        };
        update.change_inode(node, Intent::SizeSet, |dinode| dinode.size.set(new_size));
        Ok(DirectoryChunk { buffer, at })
    }

    /// Makes room in the run of block `lbn` for a chunk at byte `at`: the run has room, becomes
    /// longer in place, or moves.
    async fn lengthen_run(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        lbn: u64,
        old: Rc<Buffer>,
        length: usize,
        at: usize,
    ) -> Result<Rc<Buffer>, FsError> {
        let geometry = self.geometry();
        let fragments = |bytes: usize| bytes as u64 / geometry.fragment_size;
        let (have, need) = (fragments(old.size()), fragments(length));
        let chunk = Box::from(chunk::empty_chunk().as_slice());
        let more = if have < need {
            self.allocator.extend(update.space, old.address(), have, need).await?
        } else {
            None
        };
        if have < need && more.is_none() {
            update.moved.push(old.clone());
            let is_in_order = self.policy.horizon().is_in_order();
            if let Some(pending) = old.pending_sequence().filter(|_| is_in_order) {
                update.manner.rests_on.join(&Depends::through(pending)); // invariant 2
            }
            let place = (old.address(), have);
            let address = self.map().exchange(update, node, lbn, place, need).await?;
            let mut image = old.read(|image| block::Buffer::padded(image, length));
            image[at..at + CHUNK_SIZE].copy_from_slice(&chunk);
            let newest = update.manner.rests_on.newest();
            let rests = old.pending_sequence().is_none_or(|pending| pending <= newest);
            debug_assert!(
                rests || !is_in_order,
                "invariant 2: a run moves with all that changed it"
            );
            let buffer = Buffer::new(address, Role::Directory, image);
            update.push_fresh(Intent::BlockInitialised, buffer.clone());
            return Ok(buffer);
        }
        if let Some(more) = more {
            update.take(more);
            let more = ufs2::map::sectors(geometry, need - have);
            update.touch_inode(node, |dinode| dinode.sectors.set(dinode.sectors.get() + more));
            update.grown.push((old.clone(), length));
        }
        update.push(Intent::ChunkInitialised, &old, Edit::Bytes { offset: at, new: chunk });
        Ok(old)
    }
}
