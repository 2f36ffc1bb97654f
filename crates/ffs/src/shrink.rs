//! Shrinking and freeing files: the part that one Update does.

use std::rc::Rc;

use block::zeros;
use ufs2::layout::{DIRECT_POINTERS, Dinode};
use ufs2::map::{block_count, has_blocks, run_length};
use vfs::{FileKind, FsError, Ledger, Sequence};
use vnode::{Plan, Space};
use zerocopy::little_endian::U16;

use crate::engine::Ffs;
use crate::inode::Node;
use crate::item::Intent;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Approximate maximum number of blocks that one Update frees.
const BLOCKS_PER_UPDATE: u64 = 1024;

impl Ffs {
    /// Makes a file shorter by a bounded part, on its way to `size` bytes; returns its size then.
    pub(crate) async fn shrink_step(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
    ) -> Result<u64, FsError> {
        let keep = block_count(self.geometry(), size);
        let gone = self.map().clear(update, node, keep, BLOCKS_PER_UPDATE).await?;
        let step = if gone == keep { size } else { gone * self.geometry().block_size };
        self.cut_tail(update, node, step).await?;
        update.change_inode(node, Intent::SizeCleared, |dinode| dinode.size.set(step));
        Ok(step)
    }

    /// Plans the new last block of a file that is cut to `size`: fragments behind it are freed; a
    /// hole is filled where none may be.
    async fn cut_tail(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
    ) -> Result<(), FsError> {
        let geometry = self.geometry();
        let Some(last) = block_count(geometry, size).checked_sub(1) else { return Ok(()) };
        let have = run_length(geometry, update.dinode(node).size.get(), last);
        let address = self.map().find(node, Some(update), last).await?;
        let need = run_length(geometry, size, last);
        if address == 0 && last >= DIRECT_POINTERS as u64 {
            update.keep_end_room(self.allocator.room_for_end().await);
            let near = self.near(update, node, last).await?;
            let new = self.map().take(update, node, near, need).await?;
            self.map().set(update, node, last, new).await?;
            let length = (need * geometry.fragment_size) as usize;
            self.write_payload(update, vec![(new, vec![zeros(length)])], &[]).await?;
        } else if address != 0 && need < have {
            self.map().give_back(update, node, address + need, have - need).await?;
        }
        Ok(())
    }

    /// Zeroes the bytes behind the end in the last block, since other systems expect zeros there:
    /// with an Update of its own, by the same rules as all payload. It begins when the shorter size
    /// is durable, so that a crash never shows zeros where data was; and no caller waits for it.
    ///
    /// # Errors
    /// [`FsError::Io`]. The old bytes do not show: see [`Ffs::plan_blocks`].
    pub(crate) async fn clear_tail(
        &self,
        node: &Rc<Node>,
        size: u64,
        sequence: Sequence,
    ) -> Result<(), FsError> {
        let geometry = self.geometry();
        let Some(last) = block_count(geometry, size).checked_sub(1) else { return Ok(()) };
        let used = size - last * geometry.block_size;
        let whole = run_length(geometry, size, last) * geometry.fragment_size;
        let address = self.map().find(node, None, last).await?;
        if address == 0 || used == whole {
            return Ok(());
        }
        if !is_planted(Bug::EarlyZeros) {
            let horizon = self.policy.horizon();
            horizon.durable(horizon.up_to(sequence)).await?;
        }
        let first = used / geometry.fragment_size;
        let start = address + first;
        let keep = (used % geometry.fragment_size) as usize;
        let mut pieces = Vec::new();
        if keep > 0 {
            let byte = geometry.byte_address(start);
            pieces = self.home.read_data(byte..byte + keep as u64).await?;
        }
        let length = whole - first * geometry.fragment_size;
        pieces.push(zeros(length as usize - keep));
        let mut update = Update::new(Space::Superuser);
        update.manner().may_wait_for_batch = true;
        self.write_payload(&mut update, vec![(start, pieces)], &[]).await?;
        self.commit(update).await.map(|_| ())
    }

    /// Frees a file that loses its last name, if it is small.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn free(&self, update: &mut Update, node: &Rc<Node>) -> Result<bool, FsError> {
        update.change_inode(node, Intent::LinkDropped, |dinode| dinode.links = U16::new(0));
        let dinode = update.dinode(node);
        let large = dinode.indirect.iter().any(|pointer| pointer.get() != 0);
        if large && has_blocks(node.kind, &dinode) {
            return Ok(false);
        }
        self.clear_blocks(update, node).await?;
        self.clear_inode(update, node).await?;
        Ok(true)
    }

    /// Frees a bounded part of a file without a name; returns whether that was the last.
    pub(crate) async fn free_step(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
    ) -> Result<bool, FsError> {
        let direct = DIRECT_POINTERS as u64;
        let cleared = self.map().clear(update, node, direct, BLOCKS_PER_UPDATE).await;
        if cleared == Err(FsError::Corrupt) && !is_planted(Bug::EndlessFrees) {
            // Blocks that a damaged pointer hides stay in use until a check.
            self.clear_inode(update, node).await?;
            return Ok(true);
        }
        let gone = cleared?;
        if gone == direct {
            self.clear_blocks(update, node).await?;
            self.clear_inode(update, node).await?;
            return Ok(true);
        }
        let size = gone * self.geometry().block_size;
        update.change_inode(node, Intent::SizeCleared, |dinode| {
            dinode.size.set(size.min(dinode.size.get()));
        });
        Ok(false)
    }

    /// Frees everything that is left of a file, except for its inode. Blocks that a damaged pointer
    /// hides stay in use until a check.
    async fn clear_blocks(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        match self.clear_all(update, node).await {
            Err(FsError::Corrupt) if !is_planted(Bug::EndlessFrees) => Ok(()),
            cleared => cleared,
        }
    }

    async fn clear_all(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        let geometry = self.geometry();
        let dinode = update.dinode(node);
        if has_blocks(node.kind, &dinode) {
            self.map().clear(update, node, 0, u64::MAX).await?;
        }
        let attributes = u64::from(dinode.attribute_size.get());
        for (index, address) in dinode.attribute_blocks.iter().enumerate() {
            let address = address.get() as u64;
            if address != 0 {
                let run = run_length(geometry, attributes, index as u64);
                self.map().give_back(update, node, address, run).await?;
            }
        }
        Ok(())
    }

    /// Frees an inode.
    async fn clear_inode(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        let generation = update.dinode(node).generation;
        update.change_inode(node, Intent::SizeCleared, |dinode| {
            *dinode = Dinode::zeroed();
            dinode.generation = generation;
        });
        update.give_back(self.allocator.give_back_inode(node.ino).await?);
        if node.kind == FileKind::Directory {
            update.items.push(self.allocator.count_in_group(node.ino, -1).await?);
            update.directories.push((node.ino, -1));
        }
        Ok(())
    }
}
