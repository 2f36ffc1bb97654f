//! The verbs of the engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::IoError;
use bytes::Bytes;
use cache::{Budget, DataPath};
use cow::format::inode::{Facts, Record};
use cow::{CHUNKS, FAN, Head, Inode, Node, Stem};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use runtime::sync::Signal;
use vfs::{
    CallReply, Credentials, Depends, FileKind, FsError, FsStat, Lost, Sequence, SnapshotNumber,
    SnapshotUsage, Timestamp,
};
use vnode::horizon::Horizon;
use vnode::{
    Content, Engine, EntryChange, FoundSnapshots, Limits, Place, SnapshotChange, Space as Kind,
    Vnode,
};

use crate::apply::{Applied, Freed, first_chunk};
use crate::content::Payload;
use crate::engine::{File, MOST_LINKS, Shadow};
use crate::planted::{Bug, is_planted};
use crate::update::{NewChunk, ShadowChunk, Source, Update};
use crate::waiting::Waits;
use crate::work::Work;

impl Engine for Shadow {
    type Inode = Inode;
    type Update = Update;
    type Ready = Update;
    type Applied = Applied;
    type Freed = Freed;
    type Chunk = ShadowChunk;
    type Payload = Payload;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn evict(&self) {
        self.nodes.evict();
    }

    fn data(&self) -> Option<&DataPath> {
        Some(&self.path)
    }

    fn space(&self, who: &Credentials, orphans: (u64, u64)) -> FsStat {
        self.fullness(who.is_root(), orphans)
    }

    async fn load(&self, ino: u64) -> Result<File, FsError> {
        let (home, slot) = self.home_in(&Stem::Inodes, ino).await?;
        let inode = found_inode(home, slot)?;
        Ok(Vnode::new((ino, inode.facts.generation), inode.facts.kind, inode))
    }

    async fn create(
        &self,
        update: &mut Update,
        parent: &File,
        new: &NewFile<'_>,
    ) -> Result<File, FsError> {
        let (ino, home, slot) = self.new_ino(update, parent.ino).await?;
        let generation = (self.runtime.random.next_u64() as u32).max(1);
        let facts = Facts::new(new, generation, self.runtime.clock.wall());
        let target = facts.is_inline().then(|| Bytes::copy_from_slice(new.target));
        let file = Vnode::new((ino, generation), new.kind, Inode { facts, home, slot, target });
        update.inode(&file);
        update.born.push(ino);
        update.cost += self.cost_of_inode();
        if new.kind == FileKind::Directory {
            let bytes = Rc::new(RefCell::new(first_chunk(ino, parent.ino)));
            self.plan_chunk(update, &file, 0, bytes).await?;
        } else if !new.target.is_empty() && !file.look(|inode| inode.facts.is_inline()) {
            let data = Bytes::copy_from_slice(new.target);
            let set = BTreeMap::from([(0, Content::whole(data))]);
            let payload = self.plan_data(update, &file, &set).await?;
            self.write_data(update, payload).await?;
        }
        Ok(file)
    }

    fn add_link(&self, update: &mut Update, file: &File) -> Result<(), FsError> {
        update.cost += self.cost_of_inode();
        let links = &mut update.inode(file).facts.links;
        if *links >= MOST_LINKS {
            return Err(FsError::TooManyLinks);
        }
        *links += 1;
        Ok(())
    }

    fn drop_link(&self, update: &mut Update, file: &File) {
        update.cost += self.cost_of_inode();
        update.inode(file).facts.links -= 1;
    }

    fn set_attributes(&self, update: &mut Update, file: &File, change: &AttributeChange) {
        update.cost += self.cost_of_inode();
        update.inode(file).change(change);
    }

    fn touch_access_time(&self, file: &Vnode<Inode>, time: Timestamp) {
        file.touch_inode(|inode| {
            inode.facts.atime = time;
            inode.home.change(|bytes| Record::of_mut(bytes, inode.slot).set_access_time(time));
        });
        let home = file.look(|inode| inode.home.clone());
        self.touched.borrow_mut().insert(home.place.index, home);
    }

    async fn free(&self, update: &mut Update, file: &File) -> Result<bool, FsError> {
        let (cut, left) = self.cut_behind(file, 0).await?;
        update.inode(file).facts.links = 0;
        update.cost += self.cost_of_inode();
        if left > 0 {
            return Ok(false);
        }
        update.cut = cut;
        update.ended.push(file.ino);
        Ok(true)
    }

    async fn free_step(&self, update: &mut Update, file: &File) -> Result<bool, FsError> {
        let left = self.plan_cut(update, file, 0).await?;
        if left == 0 {
            update.ended.push(file.ino);
        }
        Ok(left == 0)
    }

    async fn shrink_step(
        &self,
        update: &mut Update,
        file: &File,
        size: u64,
    ) -> Result<u64, FsError> {
        self.plan_shorter(update, file, size).await
    }

    async fn chunk(
        &self,
        update: Option<&Update>,
        directory: &Vnode<Inode>,
        start: u64,
    ) -> Result<ShadowChunk, FsError> {
        let is_it = |chunk: &&NewChunk| chunk.directory == directory.ino && chunk.start == start;
        let directory_ino = directory.ino;
        if let Some(new) = update.and_then(|update| update.chunks.iter().find(is_it)) {
            let source = Source::New(new.bytes.clone());
            return Ok(ShadowChunk { directory: directory_ino, source });
        }
        let stem = directory.look(|inode| inode.stem(directory.ino));
        let (leaf, at) = place_of_chunk(start);
        let node = self.nodes.get(&stem, 0, leaf).await?;
        let node = node.ok_or(FsError::Corrupt)?;
        Ok(ShadowChunk { directory: directory_ino, source: Source::Node(node, at) })
    }

    async fn add_chunk(
        &self,
        update: &mut Update,
        directory: &File,
    ) -> Result<ShadowChunk, FsError> {
        let inode = update.inode(directory);
        let start = inode.facts.size;
        inode.facts.size += CHUNK_SIZE as u64;
        let bytes = Rc::new(RefCell::new(chunk::empty_chunk()));
        self.plan_chunk(update, directory, start, bytes.clone()).await?;
        Ok(ShadowChunk { directory: directory.ino, source: Source::New(bytes) })
    }

    fn set_entry(
        &self,
        update: &mut Update,
        directory: &File,
        chunk: &ShadowChunk,
        entry: EntryChange,
    ) {
        debug_assert_eq!(chunk.directory, directory.ino, "a chunk of this directory");
        update.cost += self.cost_of(&directory.look(|inode| inode.stem(directory.ino)));
        update.entries.push((chunk.source.clone(), entry));
    }

    async fn place(&self, file: &Vnode<Inode>, block: u64) -> Result<Place, FsError> {
        if file.kind == FileKind::Directory {
            return Ok(Place::Memory(Bytes::new())); // its blocks are metadata, in memory once
        }
        if file.look(|inode| inode.facts.is_inline()) {
            return Ok(Place::Hole);
        }
        let stem = file.look(|inode| inode.stem(file.ino));
        let pointer = self.nodes.leaf(&stem, block).await?;
        if block.is_multiple_of(FAN) {
            self.load_ahead(stem, block / FAN);
        }
        let at = pointer.offset();
        let is_hole = pointer.is_null();
        Ok(match pointer.sum.get() {
            _ if is_hole => Place::Hole,
            _ if is_planted(Bug::UnsummedReads) => Place::Disk(at),
            sum => Place::Summed(at, sum),
        })
    }

    async fn page_cost(
        &self,
        file: &Vnode<Inode>,
        block: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError> {
        Ok(self.claim_for(file, block, has_neighbour))
    }

    fn claim(&self, blocks: u64, kind: Kind) -> Result<(), FsError> {
        if blocks > 0 && !self.has_room(blocks, 0, kind, true) {
            return Err(FsError::NoSpace);
        }
        self.space.claim(blocks);
        Ok(())
    }

    fn release(&self, blocks: u64) {
        self.space.release(blocks);
    }

    fn moves_blocks(&self) -> bool {
        true
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn keeps_chains(&self) -> bool {
        true
    }

    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        (old_size, _): (u64, u64),
    ) -> Range<usize> {
        let before = old_size.saturating_sub(block * self.block_size());
        match place {
            Place::Hole => new,
            _ => 0..new.end.max(before.min(self.block_size()) as usize),
        }
    }

    async fn plan_blocks(
        &self,
        update: &mut Update,
        file: &File,
        set: &mut BTreeMap<u64, Content>,
        _size: u64,
    ) -> Result<(Payload, Vec<u64>), FsError> {
        Ok((self.plan_data(update, file, set).await?, Vec::new()))
    }

    async fn write_blocks(&self, update: &mut Update, payload: Payload) -> Result<bool, FsError> {
        self.write_data(update, payload).await
    }

    fn end_blocks(&self, update: &mut Update, file: &File, size: u64, change: &AttributeChange) {
        update.cost += self.cost_of_inode();
        let inode = update.inode(file);
        inode.facts.size = size;
        inode.facts.verifier = None;
        inode.change(change);
    }

    fn begin(&self, kind: Kind) -> Update {
        Update::new(kind, self.commits.clone(), self.promised.clone())
    }

    fn found_snapshots(&self) -> Option<FoundSnapshots> {
        Some(self.pins.found())
    }

    fn change_snapshots(&self, update: &mut Update, change: SnapshotChange) -> Result<(), FsError> {
        update.asked = Some(change);
        Ok(())
    }

    async fn load_held(&self, tree: SnapshotNumber, ino: u64) -> Result<File, FsError> {
        let (told, _) = self.pins.told(tree).ok_or(FsError::Stale)?;
        let (home, slot) = self.home_in(&Stem::Pinned(Rc::new(told.inodes)), ino).await?;
        let inode = found_inode(home, slot)?;
        Ok(Vnode::held(tree, (ino, inode.facts.generation), inode.facts.kind, inode))
    }

    async fn delete_held(
        &self,
        update: &mut Update,
        tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        self.plan_step(update, tree).await
    }

    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        self.pins.usage(trees, &self.commits.unlisted())
    }

    async fn reserve(&self, mut update: Update) -> Result<Update, FsError> {
        if let Some(change) = update.asked.take() {
            self.plan_change(&mut update, change).await?;
        }
        let blocks = update.blocks.len() + update.cut.leaves.len() + update.cut.nodes.len();
        let deaths = blocks as u64 + update.cost;
        let (sort, mut waits) = (update.sort(), None);
        loop {
            let has_no_place = self.commits.chains.has_no_place_for(update.manner.chain);
            if self.horizon().has_stopped() || has_no_place {
                return Err(FsError::Io);
            }
            if self.commits.is_refused() && !update.manner.goes_on {
                return Err(FsError::NoSpace);
            }
            let grows = update.grows() && update.kind != Kind::Reserved;
            let kind = if grows { update.kind } else { Kind::Reserved };
            if self.has_room_for(0, (update.cost, deaths), kind, grows) {
                // A waiting plan has promised nothing, so that many of them do not get in each
                // other's way.
                update.taken.promise_deaths(deaths);
                update.taken.units = update.cost;
                self.promised.units.set(self.promised.units.get() + update.cost);
                return Ok(update);
            }
            // Updates under way free more than they take, once they are durable.
            let is_held = matches!(update.work, Some(Work::Pin(..) | Work::RollBack(..)));
            if is_held || update.gives_way || !self.more_comes(sort, waits.is_some()) {
                return Err(FsError::NoSpace);
            }
            waits.get_or_insert_with(|| Waits::begin(sort, &self.promised, &self.commits));
            self.released().wait().await;
        }
    }

    fn apply(&self, ready: Update, see: impl FnMut(&File, Sequence)) -> (Sequence, Applied) {
        let applied = self.apply_all(ready, see);
        (Sequence(applied.staged.sequence), applied)
    }

    fn stage(&self, applied: Applied, answered: Option<(CallReply, Depends)>) -> Option<Freed> {
        let (sequence, may_wait) = (applied.staged.sequence, applied.may_wait);
        let (mut staged, freed) = applied.into_parts();
        let now = self.runtime.clock.wall();
        staged.answer = answered.map(|(answered, _)| vnode::answer::write(now, &answered));
        if is_planted(Bug::LateAnswers) {
            std::mem::swap(&mut staged.answer, &mut self.late_answer.borrow_mut());
        }
        self.commits.stage(staged);
        if may_wait {
            self.commits.commit_later(sequence);
        } else {
            self.commits.commit_soon();
        }
        freed
    }

    async fn give_back(&self, freed: Freed) {
        self.leaving_units.set(self.leaving_units.get() - freed.units);
        freed.inos.iter().for_each(|ino| _ = self.leaving.borrow_mut().remove(ino));
        self.released().notify();
    }

    fn finds_space(&self) -> bool {
        self.promised.waiting.is_any()
    }

    fn released(&self) -> &Signal {
        Shadow::released(self)
    }

    fn horizon(&self) -> &Horizon {
        &self.commits.horizon
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        let commits = self.commits.clone();
        let refused = async move {
            while !commits.is_refused() {
                commits.released.wait().await;
            }
        };
        refused.boxed_local()
    }

    async fn settle(&self) -> Result<(), Lost> {
        self.horizon().reach(Sequence(self.next.get() - 1)).await
    }

    async fn write_times(&self) {
        self.write_touched();
        self.follow();
    }

    async fn end_background(&self) {
        self.end_scrub().await;
        self.end_compaction().await;
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        self.write_touched();
        self.commits.all_durable().await
    }

    async fn close(&self) -> Result<(), FsError> {
        self.commits.idle().await?;
        let is_full = |error: IoError| if error.is_full() { FsError::NoSpace } else { FsError::Io };
        self.commits.rest().await.map_err(is_full)?;
        if self.keeps_device {
            return Ok(());
        }
        self.path.device().close().await.map_err(|_| FsError::Io)
    }
}

/// The inode in a slot of a block.
fn found_inode(home: Rc<Node>, slot: u64) -> Result<Inode, FsError> {
    let (facts, target) = home.inode(slot, |record| {
        if record.is_free() {
            return Err(FsError::Stale);
        }
        let facts = record.facts().ok_or(FsError::Corrupt)?;
        let target = facts.is_inline().then(|| record.target(facts.size as usize).to_vec());
        Ok((facts, target))
    })?;
    Ok(Inode { facts, home, slot, target: target.map(Bytes::from) })
}

/// The block of a directory with this chunk, and the byte of the block at which the chunk begins.
fn place_of_chunk(start: u64) -> (u64, usize) {
    let index = start / CHUNK_SIZE as u64;
    (index / CHUNKS, size_of::<Head>() + (index % CHUNKS) as usize * CHUNK_SIZE)
}

impl Shadow {
    /// Plans a new chunk of a directory.
    async fn plan_chunk(
        &self,
        update: &mut Update,
        directory: &File,
        start: u64,
        bytes: Rc<RefCell<[u8; CHUNK_SIZE]>>,
    ) -> Result<(), FsError> {
        let stem = directory.look(|inode| inode.stem(directory.ino));
        let (leaf, at) = place_of_chunk(start);
        self.check_growth(&stem, leaf, update.kind)?;
        let node = self.nodes.make(&stem, 0, leaf, &mut update.taken.made).await?;
        update.cost += self.cost_of(&stem) + self.cost_of_inode();
        let facts = &mut update.inode(directory).facts;
        if at == size_of::<Head>() {
            facts.units += 1;
        }
        facts.size = facts.size.max(start + CHUNK_SIZE as u64);
        update.chunks.push(NewChunk { directory: directory.ino, start, node, at, bytes });
        Ok(())
    }
}
