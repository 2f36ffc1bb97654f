//! The verbs of files, apart from the contents of these. They return what those of
//! [`vnode::Engine`] with the same names do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use vfs::{FileKind, FsError, Lost, Sequence, SnapshotNumber, Timestamp};
use vnode::{Content, EntryChange, Place, Space as Kind, Vnode};

use crate::apply::first_chunk;
use crate::floor::{File, Floor, MOST_LINKS};
use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::{CHUNKS, FAN};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::live::Waits;
use crate::node::{Node, Stem};
use crate::planted::{Bug, is_planted};
use crate::update::{Chunk, NewChunk, Source, Update};

/// Resources that an Update freed, until it is durable.
#[derive(Default)]
pub struct Freed {
    /// Units.
    pub units: u64,
    /// Numbers of files.
    pub inos: Vec<u64>,
}

impl<L: Layout> Floor<L> {
    /// Begins an Update.
    pub fn begin(&self, kind: Kind) -> Update<L> {
        Update::new(kind, self.layout.clone(), self.nodes.clone(), self.live.clone())
    }

    /// The file with this number.
    pub async fn load(&self, ino: u64) -> Result<File, FsError> {
        let (home, slot) = self.home_in(&Stem::Inodes, ino).await?;
        let inode = found_inode(home, slot)?;
        Ok(Vnode::new((ino, inode.facts.generation), inode.facts.kind, inode))
    }

    /// Plans a new file.
    pub async fn create(
        &self,
        update: &mut Update<L>,
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

    /// Plans one more link.
    pub fn add_link(&self, update: &mut Update<L>, file: &File) -> Result<(), FsError> {
        update.cost += self.cost_of_inode();
        let links = &mut update.inode(file).facts.links;
        if *links >= MOST_LINKS {
            return Err(FsError::TooManyLinks);
        }
        *links += 1;
        Ok(())
    }

    /// Plans one link less.
    pub fn drop_link(&self, update: &mut Update<L>, file: &File) {
        update.cost += self.cost_of_inode();
        update.inode(file).facts.links -= 1;
    }

    /// Plans changed attributes.
    pub fn set_attributes(&self, update: &mut Update<L>, file: &File, change: &AttributeChange) {
        update.cost += self.cost_of_inode();
        update.inode(file).change(change);
    }

    /// Sets the time of the last read, which goes out some time later.
    pub fn touch_access_time(&self, file: &Vnode<Inode>, time: Timestamp) {
        file.touch_inode(|inode| {
            inode.facts.atime = time;
            inode.home.change(|bytes| Record::of_mut(bytes, inode.slot).set_access_time(time));
        });
        let home = file.look(|inode| inode.home.clone());
        self.touched.borrow_mut().insert(home.place.index, home);
    }

    /// Plans the end of a file, if one Update is enough for it.
    pub async fn free(&self, update: &mut Update<L>, file: &File) -> Result<bool, FsError> {
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

    /// Plans a step towards the end of a file; returns whether it is the last.
    pub async fn free_step(&self, update: &mut Update<L>, file: &File) -> Result<bool, FsError> {
        let left = self.plan_cut(update, file, 0).await?;
        if left == 0 {
            update.ended.push(file.ino);
        }
        Ok(left == 0)
    }

    /// A chunk of a directory, as an Update leaves it.
    pub async fn chunk(
        &self,
        update: Option<&Update<L>>,
        directory: &Vnode<Inode>,
        start: u64,
    ) -> Result<Chunk, FsError> {
        let is_it = |chunk: &&NewChunk| chunk.directory == directory.ino && chunk.start == start;
        let directory_ino = directory.ino;
        if let Some(new) = update.and_then(|update| update.chunks.iter().find(is_it)) {
            let source = Source::New(new.bytes.clone());
            return Ok(Chunk { directory: directory_ino, source });
        }
        let stem = directory.look(|inode| inode.stem(directory.ino));
        let (leaf, at) = place_of_chunk(start);
        let node = self.nodes.get(&stem, 0, leaf).await?;
        let node = node.ok_or(FsError::Corrupt)?;
        Ok(Chunk { directory: directory_ino, source: Source::Node(node, at) })
    }

    /// Plans a new chunk at the end of a directory.
    pub async fn add_chunk(
        &self,
        update: &mut Update<L>,
        directory: &File,
    ) -> Result<Chunk, FsError> {
        let inode = update.inode(directory);
        let start = inode.facts.size;
        inode.facts.size += CHUNK_SIZE as u64;
        let bytes = Rc::new(RefCell::new(chunk::empty_chunk()));
        self.plan_chunk(update, directory, start, bytes.clone()).await?;
        Ok(Chunk { directory: directory.ino, source: Source::New(bytes) })
    }

    /// Plans a changed entry.
    pub fn set_entry(
        &self,
        update: &mut Update<L>,
        directory: &File,
        chunk: &Chunk,
        entry: EntryChange,
    ) {
        debug_assert_eq!(chunk.directory, directory.ino, "a chunk of this directory");
        update.cost += self.cost_of(&directory.look(|inode| inode.stem(directory.ino)));
        update.entries.push((chunk.source.clone(), entry));
    }

    /// Where a block of a file is.
    pub async fn place(&self, file: &Vnode<Inode>, block: u64) -> Result<Place, FsError> {
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
        if pointer.is_null() {
            return Ok(Place::Hole);
        }
        let at = self.nodes.byte_of(pointer);
        Ok(match pointer.sum.get() {
            _ if is_planted(Bug::UnsummedReads) => Place::Disk(at),
            sum => Place::Summed(at, sum),
        })
    }

    /// Plans the size that a write leaves.
    pub fn end_blocks(
        &self,
        update: &mut Update<L>,
        file: &File,
        size: u64,
        change: &AttributeChange,
    ) {
        update.cost += self.cost_of_inode();
        let inode = update.inode(file);
        inode.facts.size = size;
        inode.facts.verifier = None;
        inode.change(change);
    }

    /// A file of a snapshot.
    pub async fn load_held(&self, tree: SnapshotNumber, ino: u64) -> Result<File, FsError> {
        let (told, _) = self.pins.told(tree).ok_or(FsError::Stale)?;
        let (home, slot) = self.home_in(&Stem::Pinned(Rc::new(told.inodes)), ino).await?;
        let inode = found_inode(home, slot)?;
        Ok(Vnode::held(tree, (ino, inode.facts.generation), inode.facts.kind, inode))
    }

    /// Takes back what an Update freed, when it is durable.
    pub fn give_back(&self, freed: Freed) {
        self.leaving_units.set(self.leaving_units.get() - freed.units);
        freed.inos.iter().for_each(|ino| _ = self.leaving.borrow_mut().remove(ino));
        self.live.released.notify();
    }

    /// Bytes of a block that are needed for a write of these bytes.
    pub fn needed(&self, block: u64, place: &Place, new: Range<usize>, old: u64) -> Range<usize> {
        let before = old.saturating_sub(block * self.block_size());
        match place {
            Place::Hole => new,
            _ => 0..new.end.max(before.min(self.block_size()) as usize),
        }
    }

    /// Waits until all changes are durable.
    ///
    /// # Errors
    /// [`Lost`] if the volume has stopped.
    pub async fn settle(&self) -> Result<(), Lost> {
        self.live.horizon.reach(Sequence(self.next.get() - 1)).await
    }

    /// Waits until the device has no room.
    pub fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        let (live, path) = (self.live.clone(), self.path.clone());
        let refused = async move {
            while !path.refusals().is_waiting() {
                live.released.wait().await;
            }
        };
        refused.boxed_local()
    }

    /// Reserves room for an Update; if it `may_wait`, it waits as long as others
    /// may free some.
    pub async fn reserve(
        &self,
        mut update: Update<L>,
        may_wait: bool,
    ) -> Result<Update<L>, FsError> {
        let blocks = update.blocks.len() + update.cut.leaves.len() + update.cut.nodes.len();
        let deaths = blocks as u64 + update.cost;
        let (sort, mut waits) = (update.sort(), None);
        loop {
            let has_no_place = self.live.chains.has_no_place_for(update.manner.chain);
            if self.live.horizon.has_stopped() || has_no_place {
                return Err(FsError::Io);
            }
            if self.is_refused() && !update.manner.goes_on {
                return Err(FsError::NoSpace);
            }
            let grows = update.grows() && update.kind != Kind::Reserved;
            let kind = if grows { update.kind } else { Kind::Reserved };
            if self.has_room_for(0, (update.cost, deaths), kind, grows) {
                // A waiting plan has promised nothing, so that many of them do not get in each
                // other's way.
                update.taken.promise(update.cost, deaths);
                return Ok(update);
            }
            // Updates under way free more than they take, once they are durable.
            if !may_wait || update.gives_way || !self.more_comes(sort, waits.is_some()) {
                return Err(FsError::NoSpace);
            }
            waits.get_or_insert_with(|| Waits::begin(sort, &self.live));
            self.live.released.wait().await;
        }
    }

    /// Plans a new chunk of a directory.
    async fn plan_chunk(
        &self,
        update: &mut Update<L>,
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
