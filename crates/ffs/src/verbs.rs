//! The implementation of [`vnode::Engine`] for FFS; most verbs delegate to another module.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cache::{Budget, DataPath};
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use runtime::sync::Signal;
use ufs2::layout::{MAX_LINKS, ROOT_INODE};
use vfs::{
    Attributes, CallReply, Credentials, Depends, FsError, FsStat, Lost, Sequence, Timestamp,
};
use vnode::horizon::Horizon;
use vnode::{Content, Engine, EntryChange, Limits, Place, Space};
use zerocopy::little_endian::U16;

use crate::chunks::DirectoryChunk;
use crate::content::Payload;
use crate::engine::{Applied, Ffs, GivenUp};
use crate::inode::{Inode, Node, change_attributes};
use crate::item::Intent;
use crate::update::{Ready, Update};

impl Engine for Ffs {
    type Inode = Inode;
    type Update = Update;
    type Ready = Ready;
    type Applied = Applied;
    type Freed = GivenUp;
    type Chunk = DirectoryChunk;
    type Payload = Payload;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn budget(&self) -> &Budget {
        self.home.budget()
    }

    fn evict(&self) {
        self.home.evict();
    }

    fn data(&self) -> Option<&DataPath> {
        Some(self.home.data())
    }

    fn space(&self, who: &Credentials, (orphans, used): (u64, u64)) -> FsStat {
        let geometry = self.geometry();
        let bytes = |fragments: i64| fragments.max(0) as u64 * geometry.fragment_size;
        // Space that an answered removal freed counts as free, though it may take a moment to
        // become usable: a client that asks right after the removal expects that.
        let (fragments, inodes) = self.allocator.leaving();
        let (hinted, hinted_inodes) = self.allocator.hinted();
        let (fragments, inodes) = (fragments + hinted, inodes + hinted_inodes);
        let orphaned = (used / geometry.fragment_size) as i64;
        let free = self.allocator.free_space() + fragments + orphaned;
        let free_files = self.allocator.free_inodes() + inodes + orphans as i64;
        let free_files = free_files.max(0) as u64;
        let kept = if who.is_root() { self.allocator.kept() } else { self.allocator.reserve() };
        FsStat {
            total_bytes: geometry.data_size * geometry.fragment_size,
            free_bytes: bytes(free),
            available_bytes: bytes(free - kept),
            total_files: geometry.inode_count() - ROOT_INODE,
            free_files,
            available_files: free_files,
        }
    }

    async fn load(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        Ffs::load(self, ino).await
    }

    async fn peek(&self, ino: u64) -> Result<Attributes, FsError> {
        Ffs::peek(self, ino).await
    }

    async fn create(
        &self,
        update: &mut Update,
        parent: &Rc<Node>,
        new: &NewFile<'_>,
    ) -> Result<Rc<Node>, FsError> {
        Ffs::create(self, update, parent, new).await
    }

    fn add_link(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        let links = update.dinode(node).links.get();
        if u32::from(links) >= MAX_LINKS {
            return Err(FsError::TooManyLinks);
        }
        update.change_inode(node, Intent::LinkAdded, |dinode| dinode.links.set(links + 1));
        Ok(())
    }

    fn drop_link(&self, update: &mut Update, node: &Rc<Node>) {
        update.change_inode(node, Intent::LinkDropped, |dinode| {
            dinode.links = U16::new(dinode.links.get().saturating_sub(1));
        });
    }

    fn set_attributes(&self, update: &mut Update, node: &Rc<Node>, change: &AttributeChange) {
        update.touch_inode(node, |dinode| change_attributes(change, node.kind, dinode));
    }

    fn touch_access_time(&self, node: &Node, time: Timestamp) {
        node.touch_inode(|inode| inode.touch_access_time(time, self.seal()));
    }

    async fn free(&self, update: &mut Update, node: &Rc<Node>) -> Result<bool, FsError> {
        Ffs::free(self, update, node).await
    }

    async fn free_step(&self, update: &mut Update, node: &Rc<Node>) -> Result<bool, FsError> {
        Ffs::free_step(self, update, node).await
    }

    async fn shrink_step(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
    ) -> Result<u64, FsError> {
        Ffs::shrink_step(self, update, node, size).await
    }

    async fn shortened(&self, node: &Rc<Node>, size: u64, sequence: Sequence) {
        // The file has its new size already, whether or not the tail is cleared.
        let _ = self.clear_tail(node, size, sequence).await;
    }

    async fn chunk(
        &self,
        update: Option<&Update>,
        directory: &Node,
        start: u64,
    ) -> Result<DirectoryChunk, FsError> {
        Ffs::chunk(self, update, directory, start).await
    }

    async fn add_chunk(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
    ) -> Result<DirectoryChunk, FsError> {
        Ffs::add_chunk(self, update, directory).await
    }

    fn set_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        chunk: &DirectoryChunk,
        entry: EntryChange,
    ) {
        Ffs::set_entry(self, update, directory, chunk, entry);
    }

    fn may_reuse(&self, chunk: &DirectoryChunk, bytes: Range<usize>) -> bool {
        !self.is_pending(chunk, bytes)
    }

    async fn place(&self, node: &Node, block: u64) -> Result<Place, FsError> {
        let address = self.map().find(node, None, block).await?;
        Ok(match address {
            0 => Place::Hole,
            address => Place::Disk(self.geometry().byte_address(address)),
        })
    }

    async fn page_cost(
        &self,
        node: &Node,
        block: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError> {
        Ffs::page_cost(self, node, block, has_neighbour).await
    }

    fn claim(&self, blocks: u64, space: Space) -> Result<(), FsError> {
        self.allocator.reserve_blocks(blocks, space != Space::User)
    }

    fn release(&self, blocks: u64) {
        self.allocator.unreserve_blocks(blocks);
    }

    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        sizes: (u64, u64),
    ) -> Range<usize> {
        Ffs::needed(self, block, place, new, sizes)
    }

    async fn plan_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(Payload, Vec<u64>), FsError> {
        Ffs::plan_blocks(self, update, node, set, size).await
    }

    async fn write_blocks(&self, update: &mut Update, payload: Payload) -> Result<bool, FsError> {
        let (runs, new) = payload.parts();
        self.write_payload(update, runs, &new).await?;
        Ok(!update.carried.is_delayed)
    }

    fn end_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
        change: &AttributeChange,
    ) {
        Ffs::end_blocks(self, update, node, size, change);
    }

    fn begin(&self, space: Space) -> Update {
        Update::new(space)
    }

    async fn reserve(&self, mut update: Update) -> Result<Ready, FsError> {
        let room = self.policy.plan(&mut update).await?;
        Ok(Ready { update, room })
    }

    fn apply(&self, ready: Ready, see: impl FnMut(&Rc<Node>, Sequence)) -> (Sequence, Applied) {
        Ffs::apply(self, ready, see)
    }

    fn stage(&self, applied: Applied, answered: Option<(CallReply, Depends)>) -> Option<GivenUp> {
        let Applied { sequence, mut staged, freed, end_room } = applied;
        staged.answered = answered.map(|(answered, _)| answered); // its dependencies come before
        if self.policy.stage(sequence, staged) {
            freed.into_iter().for_each(|freed| self.allocator.free(freed));
            return None;
        }
        let has_freed = !freed.is_empty();
        has_freed.then(|| GivenUp { freed, _end_room: end_room })
    }

    async fn give_back(&self, given: GivenUp) {
        let GivenUp { freed, _end_room } = given;
        for freed in freed {
            if let Some((address, count)) = self.allocator.run_of(&freed) {
                self.policy.drain_block(address, count).await;
            }
            self.allocator.free(freed);
        }
    }

    fn finds_space(&self) -> bool {
        self.allocator.has_unread() && self.reclaims()
    }

    fn may_have_second_names(&self) -> bool {
        self.leftovers().is_some()
    }

    async fn looked_through(&self) -> Result<(), FsError> {
        match self.leftovers() {
            Some(leftovers) => leftovers.wait_for_scan(&*self.runtime.clock).await,
            None => Ok(()),
        }
    }

    fn is_found(&self, ino: u64) -> bool {
        self.leftovers().is_none_or(|leftovers| leftovers.is_found(ino))
    }

    fn note_found(&self, ino: u64) {
        if let Some(leftovers) = self.leftovers() {
            leftovers.note_found(ino);
        }
    }

    async fn find(&self, ino: u64) -> Result<(), FsError> {
        match self.leftovers() {
            Some(leftovers) => leftovers.find(&*self.runtime.clock, ino).await,
            None => Ok(()),
        }
    }

    fn ask_to_end(&self) {
        self.ask_reclaim_to_end();
    }

    async fn end_background(&self) {
        self.end_reclaim().await;
    }

    fn released(&self) -> &Signal {
        &self.allocator.released
    }

    fn horizon(&self) -> &Horizon {
        self.policy.horizon()
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        self.policy.no_room_comes()
    }

    async fn settle(&self) -> Result<(), Lost> {
        self.policy.settle().await
    }

    async fn write_times(&self) {
        if !self.home.dirty_buffers().is_empty() {
            self.policy.write_times().await;
        }
    }

    fn count_repetition(&self, over_a_start: bool) {
        if let Some(beside) = self.policy.beside() {
            beside.count_repetition(over_a_start);
        }
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        Ffs::come_to_rest(self).await
    }

    async fn close(&self) -> Result<(), FsError> {
        Ffs::close(self).await
    }
}
