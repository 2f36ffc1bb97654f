//! Inodes: loading them, looking at them, and making new ones.
//!
//! Most named files are never used: a listing names a thousand of them. When memory is short, a
//! whole block of inodes for one file is too much, so the first look into a block that is not in
//! memory reads a piece of it and keeps nothing. A second look soon after, as in a listing, reads
//! the block.

use std::rc::Rc;

use block::zeros;
use bytes::Bytes;
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use namespace::NewFile;
use ufs2::layout::{Dinode, GroupHeader, INLINE_SYMLINK_SIZE, SECTOR_SIZE, kind_bits, mode_of};
use ufs2::map::run_length;
use vfs::{Attributes, FileKind, FsError, Sequence};
use vnode::Space;

use crate::alloc::{FoundInode, Near};
use crate::buffer::{Buffer, Role};
use crate::edit::Edit;
use crate::engine::Ffs;
use crate::inode::{Inode, Node, OnDisk, attributes_of, encode_verifier};
use crate::item::Intent;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Bytes to read for one inode: enough for two, since data in the page cache is copied.
const PIECE: usize = SECTOR_SIZE as usize;

impl Ffs {
    /// The file with this number, read from its inode.
    pub(crate) async fn load(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        let node = self.load_as_it_is(ino).await?;
        if let Some(leftovers) = self.leftovers() {
            if node.look_at(|dinode| dinode.links.get()) == 0 {
                return Err(FsError::Stale); // a crash interrupted its removal
            }
            if !leftovers.has_scanned(ino) && self.settle_end(&node).await? {
                return self.load_as_it_is(ino).await;
            }
        }
        Ok(node)
    }

    /// The file with this number, in whatever state a crash has left it.
    pub(crate) async fn load_as_it_is(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        let (buffer, offset) = self.inode_place(ino).await?;
        let dinode = buffer.read(|image| *Dinode::at(image, offset));
        let kind = self.kind_of(&dinode)?;
        Ok(Inode::in_memory(ino, (buffer, offset), dinode, kind))
    }

    /// Attributes of the inode with this number.
    pub(crate) async fn peek(&self, ino: u64) -> Result<Attributes, FsError> {
        if self.home.budget().is_under_pressure()
            && let Some(attributes) = self.look_past_buffers(ino).await?
        {
            return Ok(attributes);
        }
        let (buffer, offset) = self.inode_place(ino).await?;
        buffer.read(|image| self.attributes_at(ino, Dinode::at(image, offset)))
    }

    /// Attributes read past the buffers: `None` if the inode block has a buffer or was looked into
    /// lately.
    async fn look_past_buffers(&self, ino: u64) -> Result<Option<Attributes>, FsError> {
        self.check_initialised(ino).await?;
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        if self.home.has_buffer(position.fragment) || self.recent_blocks.seen(position.fragment) {
            return Ok(None);
        }
        let start = position.offset - position.offset % PIECE;
        let piece = self.home.read_uncached(position.fragment, start, PIECE).await?;
        let Some(piece) = piece else { return Ok(None) };
        self.attributes_at(ino, Dinode::at(&piece, position.offset - start)).map(Some)
    }

    fn attributes_at(&self, ino: u64, dinode: &Dinode) -> Result<Attributes, FsError> {
        if self.leftovers().is_some() && dinode.links.get() == 0 {
            return Err(FsError::Stale); // see `load`
        }
        Ok(attributes_of((ino, self.kind_of(dinode)?), dinode))
    }

    /// The position of an inode: the buffer of its block, and the offset there.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is no such inode, [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn inode_place(&self, ino: u64) -> Result<(Rc<Buffer>, usize), FsError> {
        self.check_initialised(ino).await?;
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        Ok((buffer, position.offset))
    }

    /// [`FsError::Stale`] unless there is such an inode: behind the initialised inodes the table
    /// holds arbitrary bytes, which are not looked at.
    pub(crate) async fn check_initialised(&self, ino: u64) -> Result<(), FsError> {
        let geometry = self.geometry();
        if !geometry.is_inode(ino) {
            return Err(FsError::Stale);
        }
        let group = self.allocator.group_buffer(geometry.group_of_inode(ino)).await?;
        let initialised = group.read(|image| GroupHeader::of(image).initialized_inodes.get());
        let is_there = ino % geometry.inodes_per_group < u64::from(initialised);
        if is_there { Ok(()) } else { Err(FsError::Stale) }
    }

    /// The kind of an inode's file.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is none, [`FsError::Corrupt`] if the inode makes no sense.
    fn kind_of(&self, dinode: &Dinode) -> Result<FileKind, FsError> {
        if dinode.is_free() {
            return Err(FsError::Stale);
        }
        if self.geometry().verify_inode(dinode).is_err() {
            return Err(FsError::Corrupt);
        }
        dinode.kind().ok_or(FsError::Corrupt)
    }

    /// A file that begins with this Update.
    pub(crate) async fn create(
        &self,
        update: &mut Update,
        parent: &Node,
        new: &NewFile<'_>,
    ) -> Result<Rc<Node>, FsError> {
        let is_directory = new.kind == FileKind::Directory;
        let ino = self.take_inode(update, parent.ino, is_directory).await?;
        let node = self.new_node(ino, new).await?;
        if is_directory {
            self.plan_body(update, &node, parent).await?;
        }
        if new.kind == FileKind::Symlink {
            self.plan_target(update, &node, new.target).await?;
        }
        update.change_inode(&node, Intent::InodeInitialised, |_| ());
        if is_directory {
            update.items.push(self.allocator.count_in_group(ino, 1).await?);
            update.directories.push((ino, 1));
        }
        Ok(node)
    }

    /// Promises an inode near `parent`, initialising a further block of them where needed.
    async fn take_inode(
        &self,
        update: &mut Update,
        parent: u64,
        is_directory: bool,
    ) -> Result<u64, FsError> {
        loop {
            match self.allocator.take_inode(parent, is_directory).await? {
                FoundInode::Promised(taken) if self.is_unused(taken.place).await? => {
                    let grown = self.grown_for(taken.place);
                    grown.into_iter().for_each(|grown| update.manner.rests_on.add(grown));
                    return Ok(update.take(taken));
                }
                FoundInode::Promised(taken) => taken.promise.withhold(),
                FoundInode::Uninitialised(group) => self.initialise_inodes(group).await?,
            }
        }
    }

    /// The Update that initialised the block of an inode, unless it is durable.
    fn grown_for(&self, ino: u64) -> Option<Sequence> {
        let first = ino - ino % self.geometry().inodes_per_block;
        let grown = self.inodes_grown.borrow().get(&first).copied();
        grown.filter(|&grown| !self.policy.horizon().has_passed(grown))
    }

    /// Whether an inode that is free in the map is unused. On a damaged disk it may be a file.
    async fn is_unused(&self, ino: u64) -> Result<bool, FsError> {
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        Ok(buffer.read(|image| Dinode::at(image, position.offset).is_free()))
    }

    /// Gives a group more blocks of inodes before the last ones are used up: one, or more if they
    /// are taken faster than initialised. An Update that takes one of these inodes rests on that.
    async fn initialise_inodes(&self, group: u64) -> Result<(), FsError> {
        let _alone = self.inode_growth.acquire(1).await;
        let geometry = self.geometry();
        let header = self.allocator.group_buffer(group).await?;
        let initialised = header.read(|image| GroupHeader::of(image).initialized_inodes.get());
        if !self.allocator.needs_inodes(group, initialised.into()) {
            return Ok(()); // another task was faster
        }
        let first = group * geometry.inodes_per_group;
        let last = (first + u64::from(initialised)).saturating_sub(1);
        let were_late = !self.policy.horizon().is_in_order() && self.grown_for(last).is_some();
        let now = self.runtime.clock.now();
        let more = self.allocator.inode_blocks_at_once(group, were_late, now);
        let from = u64::from(initialised);
        let more = more * geometry.inodes_per_block;
        let raised = (from + more).min(geometry.inodes_per_group);
        let mut update = Update::new(Space::Superuser);
        let blocks = (from..raised).step_by(geometry.inodes_per_block as usize);
        for index in blocks.clone() {
            let buffer = self.free_inodes_at(first + index);
            update.push_fresh(Intent::InodeBlockInitialised, buffer);
        }
        let offset = std::mem::offset_of!(GroupHeader, initialized_inodes);
        let new = Box::from((raised as u32).to_le_bytes().as_slice());
        update.push(Intent::InitialisedRaised, &header, Edit::Bytes { offset, new });
        let grown = self.commit(update).await?;
        let mut all = self.inodes_grown.borrow_mut();
        all.retain(|_, &mut before| !self.policy.horizon().has_passed(before));
        all.extend(blocks.map(|index| (first + index, grown)));
        Ok(())
    }

    /// A block of unused inodes, each with a random generation.
    fn free_inodes_at(&self, first: u64) -> Rc<Buffer> {
        let geometry = self.geometry();
        let mut image = block::Buffer::zeroed(geometry.block_size as usize);
        for index in 0..geometry.inodes_per_block as usize {
            let random = self.runtime.random.next_u64() as u32;
            let offset = index * size_of::<Dinode>();
            Dinode::at_mut(&mut image, offset).generation.set(random.max(1));
        }
        Buffer::new(geometry.inode_position(first).fragment, Role::Inodes, image)
    }

    /// A generation for a file, to replace the previous one of its inode. It is random: a client
    /// may know a file that a crash took, whose generation the disk does not have, so a client may
    /// know the next number too.
    fn new_generation(&self, before: u32) -> u32 {
        match self.runtime.random.next_u64() as u32 {
            _ if is_planted(Bug::SameGeneration) => before.max(1),
            _ if is_planted(Bug::RaisedGenerations) => before.wrapping_add(1).max(1),
            drawn if drawn == before || drawn == 0 => before.wrapping_add(1).max(1),
            drawn => drawn,
        }
    }

    /// A node for a promised inode, with a new generation and current times.
    async fn new_node(&self, ino: u64, new: &NewFile<'_>) -> Result<Rc<Node>, FsError> {
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        let old = buffer.read(|image| *Dinode::at(image, position.offset));
        let now = self.runtime.clock.wall();
        let mut dinode = Dinode::zeroed();
        dinode.generation.set(self.new_generation(old.generation.get()));
        dinode.mode.set(mode_of(new.kind, new.mode));
        dinode.links.set(if new.kind == FileKind::Directory { 2 } else { 1 });
        dinode.uid.set(new.uid);
        dinode.gid.set(new.gid);
        dinode.set_access_time(now);
        dinode.set_modify_time(now);
        dinode.set_change_time(now);
        dinode.set_birth_time(now);
        if matches!(new.kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
            dinode.set_device(new.device);
        }
        if let Some(verifier) = new.verifier {
            dinode.change.set(encode_verifier(verifier));
        }
        Ok(Inode::in_memory(ino, (buffer, position.offset), dinode, new.kind))
    }

    /// Plans the target of a new symbolic link: in the inode if it is short, else in a block.
    async fn plan_target(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        target: &[u8],
    ) -> Result<(), FsError> {
        let size = target.len() as u64;
        update.touch_inode(node, |dinode| dinode.size.set(size));
        if target.len() < INLINE_SYMLINK_SIZE {
            update.touch_inode(node, |dinode| {
                dinode.inline_symlink_area_mut()[..target.len()].copy_from_slice(target);
            });
            return Ok(());
        }
        let geometry = self.geometry();
        let run = run_length(geometry, size, 0);
        let near = Near::Group(geometry.group_of_inode(node.ino));
        let address = self.map().take(update, node, near, run).await?;
        update.touch_inode(node, |dinode| dinode.direct[0].set(address as i64));
        let rest = (run * geometry.fragment_size) as usize - target.len();
        let pieces = vec![Bytes::copy_from_slice(target), zeros(rest)];
        self.write_payload(update, vec![(address, pieces)], &[]).await
    }

    /// Plans the body of a directory that begins with this Update: one fragment with one chunk.
    async fn plan_body(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        parent: &Node,
    ) -> Result<(), FsError> {
        let geometry = self.geometry();
        let near = Near::Group(geometry.group_of_inode(node.ino));
        let run = run_length(geometry, CHUNK_SIZE as u64, 0);
        let address = self.map().take(update, node, near, run).await?;
        let chunk = chunk::first_chunk(node.ino as u32, parent.ino as u32, kind_bits(node.kind));
        let image = block::Buffer::padded(&chunk, (run * geometry.fragment_size) as usize);
        let buffer = Buffer::new(address, Role::Directory, image);
        update.push_fresh(Intent::BlockInitialised, buffer);
        update.touch_inode(node, |dinode| {
            dinode.size.set(CHUNK_SIZE as u64);
            dinode.direct[0].set(address as i64);
        });
        Ok(())
    }
}
