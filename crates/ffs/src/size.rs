//! Making files longer, shorter, and gone.
//!
//! Shortening goes from the end in steps of bounded size, each an Update that leaves a smaller file
//! with nothing behind its end. A file that has lost its last name is freed in the same Update if
//! it is small; a larger one stays behind as an orphan, without a name and with link count 0, and
//! is freed in steps. A crash in between leaves an inode that nothing names: the return frees it.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::zeros;
use bytes::Bytes;
use futures::FutureExt;
use namespace::Witness;
use runtime::sync::Permit;
use ufs2::layout::{DIRECT_POINTERS, Dinode, INLINE_SYMLINK_SIZE};
use ufs2::map::{block_count, has_blocks, run_length};
use vfs::{Answered, FileKind, FsError, Sequence};

use crate::chain::{Chain, ChainLink};
use crate::engine::Ffs;
use crate::home::REFUSED_PAUSE;
use crate::inode::Node;
use crate::item::{Budget, Intent};
use crate::pages::Content;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Blocks that one Update frees at most, about.
const BLOCKS_PER_UPDATE: u64 = 1024;

/// Who sees the first of several steps: what is asked for is certain to happen from then on, but
/// the attributes of the file are not yet those that it is to have. The answer can do without.
struct Beginning<'a>(&'a mut dyn Witness);

impl Witness for Beginning<'_> {
    fn before(&mut self) {
        self.0.before();
    }

    fn after(&mut self, sequence: Sequence) -> Option<Answered> {
        let mut answered = self.0.after(sequence)?;
        answered.done.attributes = None;
        answered.done.about = Default::default();
        Some(answered)
    }
}

impl Ffs {
    /// Makes a regular file `size` bytes long; `also` changes other attributes along with it, and
    /// `witness` sees it. Under the exclusive lock, with no dirty pages.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn resize(
        &self,
        node: &Rc<Node>,
        (size, budget): (u64, Budget),
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        if size >= node.dinode().size.get() {
            self.lengthen(node, (size, budget), also, witness).await
        } else {
            self.shorten(node, size, also, witness).await
        }
    }

    async fn lengthen(
        &self,
        node: &Rc<Node>,
        (size, budget): (u64, Budget),
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let mut set = BTreeMap::new();
        let blocks = block_count(self.geometry(), size);
        // A file of more than 12 blocks may not end in a hole.
        if blocks > DIRECT_POINTERS as u64 && !is_planted(Bug::HollowEnd) {
            let last = blocks - 1;
            let data = self.block_data(node, last).await?;
            if self.map().find(node, None, last).await? == 0 {
                set.insert(last, Content::whole(data));
            }
        }
        let now = self.now();
        let stamp = |dinode: &mut Dinode| {
            dinode.set_modify_time(now);
            dinode.set_change_time(now);
            also(dinode);
        };
        self.write_blocks(Update::new(budget), node, &mut set, size, stamp, witness).await
    }

    async fn shorten(
        &self,
        node: &Rc<Node>,
        size: u64,
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let shortened = self.shorten_in_steps(node, size, also, witness).await;
        if shortened.is_err() && self.is_unfinished(node.ino) {
            self.stick(node.ino);
        }
        shortened
    }

    async fn shorten_in_steps(
        &self,
        node: &Rc<Node>,
        size: u64,
        also: impl Fn(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let keep = block_count(self.geometry(), size);
        let mut permit = None;
        let mut first = true;
        loop {
            let mut update = Update::new(Budget::Superuser);
            let gone = self.map().clear(&mut update, node, keep, BLOCKS_PER_UPDATE).await?;
            let now = self.now();
            let done = gone == keep;
            let step = if done { size } else { gone * self.geometry().block_size };
            let (is_begun, refusals) =
                (self.is_unfinished(node.ino), self.home.data().refusals().count());
            let cut = self.cut_tail(&mut update, node, step).await;
            if cut == Err(FsError::NoSpace) && is_begun {
                drop(update);
                if self.home.data().refusals().count() > refusals {
                    self.runtime.clock.sleep(REFUSED_PAUSE).await; // there is no room below
                    continue;
                }
                // What the step before it gave back is on its way, and kept for this first.
                match self.wait_for_space().await {
                    true => continue,
                    false => return Err(FsError::NoSpace),
                }
            }
            cut?;
            update.change_inode(node, Intent::SizeCleared, |dinode| dinode.size.set(step));
            update.goes_on = is_begun;
            if first {
                update.touch_inode(node, |dinode| {
                    dinode.set_modify_time(now);
                    dinode.set_change_time(now);
                    dinode.forget_verifier();
                    also(dinode);
                });
            }
            if first && !done {
                // All of it has happened with the first step: what is cut off goes on.
                if !is_begun {
                    permit = Some(self.place_among_chains().await?);
                }
                update.chain = Some(ChainLink::Begins(node.chain(Some(size))));
            } else if done && is_begun {
                update.chain = Some(ChainLink::Ends(node.ino));
            }
            let ready = self.reserve(update).await?;
            let sequence = match (first, done) {
                (false, true) if is_planted(Bug::FirstStepTold) => self.apply(ready),
                (_, true) => self.apply_seen(ready, witness),
                (true, false) => self.apply_seen(ready, &mut Beginning(witness)),
                (false, false) => self.apply(ready),
            };
            first = false;
            if done {
                drop(permit);
                // The file is as it is to be, whatever comes of this.
                let _ = self.clear_tail(node, size, sequence).await;
                return Ok(sequence);
            }
            self.reached(sequence).await?;
        }
    }

    /// The new last block of a file that is cut to `size`: fragments behind it go; if it is a hole
    /// where none may be, it is filled.
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
            self.write_payload(update, vec![(new, vec![zeros(length)])]).await?;
        } else if address != 0 && need < have {
            self.map().give_back(update, node, address + need, have - need).await?;
        }
        Ok(())
    }

    /// Zeroes what stands behind the end in the last block, for other systems take it for zeros:
    /// with an Update of its own, by the same rules as all payload. It begins when the shorter size
    /// is durable, so that a cut never shows zeros where data was; and nobody waits for it.
    ///
    /// # Errors
    /// [`FsError::Io`]. What stands there does not show: see [`Ffs::write_blocks`].
    async fn clear_tail(
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
            self.durable(sequence).await?;
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
        let mut update = Update::new(Budget::Superuser);
        update.may_wait_for_batch = true;
        self.write_payload(&mut update, vec![(start, pieces)]).await?;
        self.apply(self.reserve(update).await?);
        Ok(())
    }

    /// Frees a file that lost its last name: in this Update if it is small. Otherwise it is an
    /// orphan from now on, and [`Ffs::free_orphan`] has to follow.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn end_life(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
    ) -> Result<bool, FsError> {
        let dinode = update.dinode(node);
        let large = dinode.indirect.iter().any(|pointer| pointer.get() != 0);
        if large && has_blocks(node.kind, &dinode) {
            return Ok(false);
        }
        self.clear_inode(update, node).await?;
        Ok(true)
    }

    /// The last step: everything that is left of a file goes back, its inode too.
    async fn clear_inode(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
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
        let generation = dinode.generation;
        update.change_inode(node, Intent::SizeCleared, |dinode| {
            *dinode = Dinode::zeroed();
            dinode.generation = generation;
        });
        update.give_back(self.allocator.give_back_inode(node.ino).await?);
        if node.kind == FileKind::Directory {
            update.items.push(self.allocator.count_in_group(node.ino, -1).await?);
        }
        update.lives.push((node.clone(), false));
        if self.is_unfinished(node.ino) {
            update.chain = Some(ChainLink::Ends(node.ino));
        }
        Ok(())
    }

    /// Goes on with what was cut off, in the background. Nobody sees the files before it is done.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn finish_chains(&self, chains: Vec<Chain>) -> Result<(), FsError> {
        for chain in chains {
            if is_planted(Bug::ForgottenChains) {
                continue;
            }
            let node = self.node_of(chain.ino).await?;
            if node.generation != chain.generation {
                return Err(FsError::Corrupt); // the end of a file ends its chain
            }
            self.note_chain(Some(ChainLink::Begins(chain)));
            let permit = self.chains.acquire(1).await;
            let Some(size) = chain.size else {
                self.retire(&node, Sequence(0));
                self.free_orphan(node, permit);
                continue;
            };
            let alone = node.lock.exclusive().await;
            let this = self.handle();
            let task = async move {
                let _held = (alone, permit);
                // Of a failure everybody is told who wants the file.
                let _ = this.shorten(&node, size, |_| (), &mut ()).await;
            };
            self.runtime.tasks.spawn(task.boxed_local());
        }
        Ok(())
    }

    /// Frees an orphan in the background, step by step.
    pub(crate) fn free_orphan(&self, node: Rc<Node>, chain: Permit) {
        let this = self.handle();
        self.orphans.borrow_mut().insert(node.ino, node.clone());
        let task = async move {
            let _chain = chain;
            match this.free_in_steps(&node).await {
                Ok(()) => drop(this.orphans.borrow_mut().remove(&node.ino)),
                Err(_) => this.stick(node.ino), // the next return ends the job
            }
            this.allocator.released.notify();
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    async fn free_in_steps(&self, node: &Rc<Node>) -> Result<(), FsError> {
        let _alone = node.lock.exclusive().await;
        let direct = DIRECT_POINTERS as u64;
        loop {
            let mut update = Update::new(Budget::Superuser);
            update.goes_on = true;
            let gone = self.map().clear(&mut update, node, direct, BLOCKS_PER_UPDATE).await?;
            if gone == direct {
                self.clear_inode(&mut update, node).await?;
                self.apply(self.reserve(update).await?);
                return Ok(());
            }
            let size = gone * self.geometry().block_size;
            update.change_inode(node, Intent::SizeCleared, |dinode| {
                dinode.size.set(size.min(dinode.size.get()));
            });
            let sequence = self.apply(self.reserve(update).await?);
            self.reached(sequence).await?;
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`FsError::Invalid`] when it is none; [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn link_target(&self, node: &Rc<Node>) -> Result<Bytes, FsError> {
        if node.kind != FileKind::Symlink {
            return Err(FsError::Invalid);
        }
        let dinode = node.dinode();
        let size = dinode.size.get() as usize;
        if size < INLINE_SYMLINK_SIZE {
            return Ok(Bytes::copy_from_slice(&dinode.inline_symlink_area()[..size]));
        }
        if size as u64 > self.geometry().block_size {
            return Err(FsError::Corrupt);
        }
        self.block_data(node, 0).await
    }
}
