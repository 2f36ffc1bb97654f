//! The block map of a file: direct pointers, and trees of indirect blocks.
//!
//! The inode points at a file's first 12 blocks; behind them come a tree of one level, one of two
//! and one of three. Address 0 is a hole, anywhere. Only the last block of a file of at most 12
//! blocks may be shorter than a block: then it is a run of fragments.
//!
//! Invariants:
//! 1. A pointer that is read is checked before it is followed: it names whole data blocks of this
//!    disk, or the file is corrupt.
//! 2. An indirect block that begins with an Update is filled before anything points at it.
//! 3. Clearing goes from the end of the file to its start, so that a part of it is a shorter file.
//!
//! Not asserted: 1, which is about damage, and refused; 2, which the ranks of the items keep; 3,
//! which is the order of two loops.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use ufs2::layout::{DIRECT_BLOCKS, Dinode, Geometry, INDIRECT_POINTERS, POINTER_SIZE};
use ufs2::map::{path, pointer, run_length, sectors};
use vfs::FsError;

use crate::alloc::{Allocator, Near};
use crate::buffer::{Buffer, Role};
use crate::edit::Edit;
use crate::home::Home;
use crate::inode::{Node, OnDisk};
use crate::item::Intent;
use crate::update::Update;

/// A pointer of an inode, as `update` will leave it. Does not copy the inode.
fn inode_pointer(node: &Node, update: Option<&Update>, look: impl FnOnce(&Dinode) -> i64) -> u64 {
    let pointer = match update {
        Some(update) => update.look(node, look),
        None => node.look_at(look),
    };
    pointer as u64
}

/// Reads and sets the pointers of files.
pub(crate) struct Map<'a> {
    /// Cache that indirect blocks are read from.
    pub home: &'a Home,
    /// Allocator of new indirect blocks.
    pub allocator: &'a Allocator,
}

/// The part of a subtree that is left after clearing.
enum Left {
    Nothing,
    /// Everything from this block of the file on is gone.
    Before(u64),
}

impl Map<'_> {
    fn geometry(&self) -> &Geometry {
        self.home.geometry()
    }

    /// First fragment of block `lbn` of a file; 0 for a hole. `update`'s own pointers count.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`], [`FsError::FileTooLarge`].
    pub(crate) async fn find(
        &self,
        node: &Node,
        update: Option<&Update>,
        lbn: u64,
    ) -> Result<u64, FsError> {
        if lbn < DIRECT_BLOCKS {
            let address = inode_pointer(node, update, |dinode| dinode.direct[lbn as usize].get());
            let whole = address == 0 || self.geometry().is_data_fragment(address);
            return if whole { Ok(address) } else { Err(FsError::Corrupt) };
        }
        let path = path(self.geometry(), lbn)?;
        let mut address = inode_pointer(node, update, |dinode| dinode.indirect[path.tree].get());
        for slot in path.slots {
            if address == 0 {
                return Ok(0);
            }
            let buffer = self.indirect(update, address).await?;
            address = Self::slot(update, &buffer, slot);
        }
        self.check_block(address)
    }

    /// Makes block `lbn` of `node` begin at `address`, with the indirect blocks that it needs. The
    /// caller adds the inode's item.
    ///
    /// # Errors
    /// As [`Map::find`], and [`FsError::NoSpace`].
    pub(crate) async fn set(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        lbn: u64,
        address: u64,
    ) -> Result<(), FsError> {
        if lbn < DIRECT_BLOCKS {
            update.touch_inode(node, |dinode| dinode.direct[lbn as usize].set(address as i64));
            return Ok(());
        }
        let path = path(self.geometry(), lbn)?;
        let mut parent: Option<(Rc<Buffer>, usize)> = None;
        for &slot in &path.slots {
            let here = match &parent {
                None => update.dinode(node).indirect[path.tree].get() as u64,
                Some((buffer, slot)) => Self::slot(Some(update), buffer, *slot),
            };
            let buffer = if here == 0 {
                let buffer = self.new_indirect(update, node, address).await?;
                let new = buffer.address();
                Self::point(update, node, path.tree, parent.as_ref(), new);
                buffer
            } else {
                self.indirect(Some(update), here).await?
            };
            parent = Some((buffer, slot));
        }
        Self::point(update, node, path.tree, parent.as_ref(), address);
        Ok(())
    }

    /// Clears blocks from the end of the file down to `keep`, freeing at most about `limit` blocks.
    /// Returns the block from which on everything is gone: `keep` if all is done; else there is one
    /// before it. The caller adds the inode's item, with a size that fits.
    ///
    /// # Errors
    /// As [`Map::find`].
    pub(crate) async fn clear(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        keep: u64,
        limit: u64,
    ) -> Result<u64, FsError> {
        let dinode = update.dinode(node);
        let fan = self.geometry().pointers_per_indirect;
        let mut limit = limit;
        for tree in (0..INDIRECT_POINTERS).rev() {
            let first = DIRECT_BLOCKS + (1..=tree as u32).map(|level| fan.pow(level)).sum::<u64>();
            let address = dinode.indirect[tree].get() as u64;
            if address == 0 || first + fan.pow(tree as u32 + 1) <= keep {
                continue;
            }
            let span = fan.pow(tree as u32);
            let left =
                self.clear_tree(update, node, address, span, first, keep, &mut limit).await?;
            if let Left::Before(lbn) = left {
                return Ok(lbn);
            }
            self.give_back(update, node, address, self.geometry().fragments_per_block).await?;
            update.touch_inode(node, |dinode| dinode.indirect[tree].set(0));
        }
        let size = dinode.size.get();
        for lbn in (keep..DIRECT_BLOCKS).rev() {
            let address = dinode.direct[lbn as usize].get() as u64;
            if address != 0 {
                let run = run_length(self.geometry(), size, lbn);
                self.give_back(update, node, address, run).await?;
                update.touch_inode(node, |dinode| dinode.direct[lbn as usize].set(0));
            }
        }
        Ok(keep)
    }

    /// Frees fragments of a file and subtracts them from its block count.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn give_back(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        address: u64,
        count: u64,
    ) -> Result<(), FsError> {
        update.give_back(self.allocator.give_back(address, count).await?);
        let sectors = sectors(self.geometry(), count);
        update.touch_inode(node, |dinode| {
            dinode.sectors.set(dinode.sectors.get().saturating_sub(sectors));
        });
        Ok(())
    }

    /// Takes fragments for a file and adds them to its block count.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`].
    pub(crate) async fn take(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        near: Near,
        count: u64,
    ) -> Result<u64, FsError> {
        self.allocator.check_space(update.space, count)?;
        self.take_unchecked(update, node, near, count).await
    }

    /// Gives block `lbn` a run of `new` fragments in place of the `old` ones at `address`, which
    /// are freed: only the difference counts against the budget. Returns the new address.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn exchange(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        lbn: u64,
        (address, old): (u64, u64),
        new: u64,
    ) -> Result<u64, FsError> {
        self.allocator.check_space(update.space, new - old)?;
        let moved = self.take_unchecked(update, node, Near::Fragment(address), new).await?;
        self.set(update, node, lbn, moved).await?;
        self.give_back(update, node, address, old).await?;
        Ok(moved)
    }

    async fn take_unchecked(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        near: Near,
        count: u64,
    ) -> Result<u64, FsError> {
        let address = update.take(self.allocator.take(update.space, near, count).await?);
        let sectors = sectors(self.geometry(), count);
        update.touch_inode(node, |dinode| dinode.sectors.set(dinode.sectors.get() + sectors));
        Ok(address)
    }

    /// Clears a tree of pointers whose slots each span `span` blocks of the file, starting with
    /// block `first`. The caller frees the tree's own block if nothing is left.
    #[expect(clippy::too_many_arguments, reason = "the recursion's state, which nobody else holds")]
    fn clear_tree<'a>(
        &'a self,
        update: &'a mut Update,
        node: &'a Rc<Node>,
        address: u64,
        span: u64,
        first: u64,
        keep: u64,
        limit: &'a mut u64,
    ) -> LocalBoxFuture<'a, Result<Left, FsError>> {
        async move {
            let fan = self.geometry().pointers_per_indirect;
            let buffer = self.indirect(Some(update), address).await?;
            let mut cleared = fan as usize..fan as usize;
            let mut left = Left::Nothing;
            for slot in (0..fan as usize).rev() {
                let lbn = first + slot as u64 * span;
                if lbn + span <= keep {
                    left = Left::Before(keep);
                    break;
                }
                let child = Self::slot(Some(update), &buffer, slot);
                if child != 0 {
                    // A subtree with blocks that stay has to be searched, regardless of the limit.
                    if *limit == 0 && lbn >= keep {
                        let end = self.end_of(update, child, span, lbn).await?;
                        left = Left::Before(end.unwrap_or(lbn + span));
                        break;
                    }
                    if span > 1 {
                        let below = span / fan;
                        let result =
                            self.clear_tree(update, node, child, below, lbn, keep, limit).await?;
                        if let Left::Before(_) = result {
                            left = result;
                            break;
                        }
                    }
                    self.check_block(child)?;
                    self.give_back(update, node, child, self.geometry().fragments_per_block)
                        .await?;
                    *limit = limit.saturating_sub(1);
                    // Not for a hole: the new end of the file may lie in it, and the same Update
                    // then sets this very pointer. Setting comes before clearing, so that one field
                    // would wait for itself.
                    cleared.start = slot;
                }
            }
            if matches!(left, Left::Before(_)) && !cleared.is_empty() {
                let new = vec![0; cleared.len() * POINTER_SIZE].into();
                let edit = Edit::Bytes { offset: cleared.start * POINTER_SIZE, new };
                update.push(Intent::PointerCleared, &buffer, edit);
                for slot in cleared {
                    update.pointers.insert((address, slot), 0);
                }
            }
            Ok(left)
        }
        .boxed_local()
    }

    /// The block of the file behind the last one that a slot leads to, if any. The slot spans
    /// `span` blocks of the file, starting with block `first`.
    fn end_of<'a>(
        &'a self,
        update: &'a Update,
        address: u64,
        span: u64,
        first: u64,
    ) -> LocalBoxFuture<'a, Result<Option<u64>, FsError>> {
        async move {
            if span == 1 {
                return Ok(Some(first + 1));
            }
            let buffer = self.indirect(Some(update), address).await?;
            let fan = self.geometry().pointers_per_indirect;
            let below = span / fan;
            for slot in (0..fan).rev() {
                let child = Self::slot(Some(update), &buffer, slot as usize);
                if child != 0
                    && let Some(end) =
                        self.end_of(update, child, below, first + slot * below).await?
                {
                    return Ok(Some(end));
                }
            }
            Ok(None)
        }
        .boxed_local()
    }

    fn check_block(&self, address: u64) -> Result<u64, FsError> {
        let geometry = self.geometry();
        if address == 0 || geometry.is_data_run(address, geometry.fragments_per_block) {
            Ok(address)
        } else {
            Err(FsError::Corrupt)
        }
    }

    async fn indirect(&self, update: Option<&Update>, address: u64) -> Result<Rc<Buffer>, FsError> {
        self.check_block(address)?;
        if let Some(buffer) = update.and_then(|update| update.fresh(address)) {
            return Ok(buffer.clone());
        }
        self.home.load(address, self.geometry().block_size as usize, Role::Indirect).await
    }

    /// A pointer as it will be after `update`.
    fn slot(update: Option<&Update>, buffer: &Buffer, slot: usize) -> u64 {
        let planned =
            update.and_then(|update| update.pointers.get(&(buffer.address(), slot)).copied());
        planned.unwrap_or_else(|| buffer.read(|image| pointer(image, slot)))
    }

    async fn new_indirect(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        near: u64,
    ) -> Result<Rc<Buffer>, FsError> {
        let count = self.geometry().fragments_per_block;
        let address = self.take(update, node, Near::Fragment(near + count), count).await?;
        let image = block::Buffer::zeroed(self.geometry().block_size as usize);
        let buffer = Buffer::new(address, Role::Indirect, image);
        update.push_fresh(Intent::BlockInitialised, buffer.clone());
        Ok(buffer)
    }

    /// Sets a pointer in an inode, in a block that begins with this Update, or in an existing
    /// block.
    fn point(
        update: &mut Update,
        node: &Rc<Node>,
        tree: usize,
        parent: Option<&(Rc<Buffer>, usize)>,
        address: u64,
    ) {
        let Some((buffer, slot)) = parent else {
            update.touch_inode(node, |dinode| dinode.indirect[tree].set(address as i64));
            return;
        };
        let new = address.to_le_bytes();
        let offset = slot * POINTER_SIZE;
        if update.fresh(buffer.address()).is_some() {
            buffer.write_unordered(offset, &new);
        } else {
            update.pointers.insert((buffer.address(), *slot), address);
            update.push(
                Intent::PointerSet,
                buffer,
                Edit::Bytes { offset, new: Box::from(new.as_slice()) },
            );
        }
    }
}
