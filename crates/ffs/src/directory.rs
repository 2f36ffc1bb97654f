//! Directories as names: looking up, listing, adding and dropping.
//!
//! What the chunks say is in [`crate::dir`], the names in memory are in [`directory::index`]; here
//! both are brought together with the buffers. All of it happens under the directory's lock, shared
//! for looking and exclusive for changing.
//!
//! Invariants:
//! 1. A chunk is initialised as empty, and that is on the disk, before the directory's size covers
//!    it.
//! 2. A run with pending deltas is not moved: growing waits until they are durable, so that no
//!    entry is ever durable in a place that nothing points at.
//! 3. Nobody goes through more chunks of a directory than the volume has room for, whatever a
//!    damaged inode says.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, minimum_record_length};
use directory::index::{DirIndex, IndexChange, Scanned, Slot};
use namespace::Listed;
use runtime::sync::yield_now;
use ufs2::layout::kind_bits;
use ufs2::map::run_length;
use vfs::{FsError, Name};

use crate::alloc::Near;
use crate::buffer::{Buffer, Role};
use crate::edit::Edit;
use crate::engine::Ffs;
use crate::inode::Node;
use crate::item::Intent;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Bytes of a directory that are read while nobody else has a turn.
const SCANNED_AT_ONCE: u64 = 1 << 20;
/// The largest directory, in bytes: what its cookies and FreeBSD can address.
const MAX_DIRECTORY_SIZE: u64 = 0x7fff_ffff;

impl Ffs {
    /// The buffer with the directory's byte `offset`, and where it is in there. A run that `update`
    /// has moved is found where it will be: a rename may add a name there before it drops one.
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

    /// Reads the names of a directory unless they are in memory. One call reads them, however many
    /// want them: each would have all the names in memory meanwhile.
    pub(crate) async fn load_directory(&self, node: &Rc<Node>) -> Result<(), FsError> {
        let _scanning = loop {
            if node.directory.borrow().is_some() {
                return Ok(());
            }
            match self.scans.begin(node.ino) {
                Some(scanning) => break scanning,
                None => self.scans.ended.wait().await,
            }
        };
        let index = self.scan_directory(node).await?;
        node.directory.borrow_mut().get_or_insert(Box::new(index));
        self.relieve_memory();
        Ok(())
    }

    async fn scan_directory(&self, node: &Rc<Node>) -> Result<DirIndex, FsError> {
        let size = self.directory_size(node)?;
        self.check_blocks_differ(node, size).await?;
        let mut index = self.empty_index(0, size as usize / CHUNK_SIZE);
        let mut scanned = Vec::new();
        for start in (0..size).step_by(CHUNK_SIZE) {
            if start > 0 && start.is_multiple_of(SCANNED_AT_ONCE) {
                yield_now().await; // all of it may be in memory
            }
            let (buffer, at) = self.directory_buffer(None, node, start).await?;
            buffer.read(|image| {
                let chunk = &image[at..][..CHUNK_SIZE];
                scan_chunk(&mut index, &mut scanned, node.ino, start, chunk)
            })?;
        }
        index.fill(scanned);
        for (one, other) in index.twins() {
            let (buffer, at) = self.directory_buffer(None, node, one.offset).await?;
            let name = buffer.read(|image| chunk::name_at(image, at).map(<[u8]>::to_vec));
            let (buffer, at) = self.directory_buffer(None, node, other.offset).await?;
            if has_name(&buffer, at, &name.ok_or(FsError::Corrupt)?) {
                return Err(FsError::Corrupt); // the same name twice
            }
        }
        if index.parent == 0 { Err(FsError::Corrupt) } else { Ok(index) }
    }

    /// A pointer block that names one block of a directory many times is damage, and would have all
    /// its names read as often (invariant 3).
    async fn check_blocks_differ(&self, node: &Node, size: u64) -> Result<(), FsError> {
        let mut seen = BTreeSet::new();
        for lbn in 0..size.div_ceil(self.geometry().block_size) {
            let is_new = seen.insert(self.map().find(node, None, lbn).await?);
            if !is_new && !is_planted(Bug::BoundlessDirectories) {
                return Err(FsError::Corrupt);
            }
        }
        Ok(())
    }

    /// The bytes of a directory. It has no holes, so it is no longer than what the volume holds
    /// (invariant 3).
    fn directory_size(&self, node: &Node) -> Result<u64, FsError> {
        let geometry = self.geometry();
        let size = node.look(|dinode| dinode.size.get());
        let whole = size > 0 && size.is_multiple_of(CHUNK_SIZE as u64);
        let room = geometry.data_size * geometry.fragment_size;
        let fits = size <= room || is_planted(Bug::BoundlessDirectories);
        if whole && fits && size <= MAX_DIRECTORY_SIZE { Ok(size) } else { Err(FsError::Corrupt) }
    }

    fn empty_index(&self, parent: u64, chunks: usize) -> DirIndex {
        DirIndex::new(parent, chunks, self.name_hash, self.nodes.memory.clone())
    }

    /// Where a name stands that is no "." and no "..".
    async fn find_slot(
        &self,
        update: Option<&Update>,
        node: &Rc<Node>,
        name: &[u8],
    ) -> Result<Option<Standing>, FsError> {
        let mut after = None;
        loop {
            let slot = {
                let directory = node.directory.borrow();
                let index = directory.as_ref().expect("loaded before, and under a lock");
                index.candidate(name, after)
            };
            let Some(slot) = slot else { return Ok(None) };
            let (buffer, at) = self.directory_buffer(update, node, slot.offset).await?;
            if has_name(&buffer, at, name) {
                return Ok(Some(Standing { slot, buffer, at }));
            }
            after = Some(slot.offset);
        }
    }

    /// The inode behind a name.
    pub(crate) async fn find_name(
        &self,
        node: &Rc<Node>,
        name: &Name,
    ) -> Result<Option<u64>, FsError> {
        self.load_directory(node).await?;
        match name.as_bytes() {
            b"." => Ok(Some(node.ino)),
            b".." => Ok(node.directory.borrow().as_ref().map(|index| index.parent)),
            name => Ok(self.find_slot(None, node, name).await?.map(|found| found.slot.ino)),
        }
    }

    /// Whether a directory has nothing but "." and "..".
    pub(crate) async fn is_directory_empty(&self, node: &Rc<Node>) -> Result<bool, FsError> {
        self.load_directory(node).await?;
        Ok(node.directory.borrow().as_ref().is_none_or(|index| index.is_empty()))
    }

    /// The entries of the first chunk that has some behind `cookie`; none at the end. A cookie
    /// stands behind its entry, so that an entry that is gone since is simply passed over.
    pub(crate) async fn list_chunk(
        &self,
        node: &Rc<Node>,
        cookie: u64,
    ) -> Result<Vec<Listed>, FsError> {
        let size = self.directory_size(node)?;
        let mut start = cookie - cookie % CHUNK_SIZE as u64;
        while start < size {
            let (buffer, at) = self.directory_buffer(None, node, start).await?;
            let listed = buffer.read(|image| list(start, cookie, &image[at..][..CHUNK_SIZE]))?;
            if !listed.is_empty() {
                return Ok(listed);
            }
            start += CHUNK_SIZE as u64;
        }
        Ok(Vec::new())
    }

    /// Adds a name for `target`. Under the exclusive lock; the name is not there.
    pub(crate) async fn plan_add(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        name: &Name,
        target: &Node,
    ) -> Result<(), FsError> {
        self.load_directory(node).await?;
        let bytes = name.as_bytes();
        let ghost = node.directory.borrow().as_ref().and_then(|index| index.ghost(bytes));
        if let Some(offset) = ghost.filter(|_| !is_planted(Bug::WanderingNames)) {
            let (buffer, at) = self.directory_buffer(Some(update), node, offset).await?;
            update.push(Intent::EntryAdded, &buffer, retarget(at, target));
            let slot = Slot { offset, ino: target.ino };
            let change = IndexChange::Returned { name: bytes.into(), slot };
            update.index_changes.push((node.clone(), change));
            return Ok(());
        }
        let needed = minimum_record_length(bytes.len());
        let mut from = 0;
        loop {
            let chunk = {
                let mut directory = node.directory.borrow_mut();
                let index = directory.as_mut().expect("loaded above");
                index.chunk_with_room(needed, from)
            };
            let Some(chunk) = chunk else { break };
            if self.add_in_chunk(update, node, chunk, name, target).await? {
                return Ok(());
            }
            from = chunk + 1;
        }
        let chunk = self.grow_directory(update, node).await?;
        update.index_changes.push((node.clone(), IndexChange::Grown));
        let place = chunk::place(&chunk::empty_chunk(), bytes, |_| false)
            .map_err(|_| FsError::Corrupt)?
            .map_err(|_| FsError::NameTooLong)?;
        put(update, node, chunk, place, name, target);
        Ok(())
    }

    /// Adds a name in a chunk, if it has room now.
    async fn add_in_chunk(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        chunk: usize,
        name: &Name,
        target: &Node,
    ) -> Result<bool, FsError> {
        let start = (chunk * CHUNK_SIZE) as u64;
        let (buffer, at) = self.directory_buffer(Some(update), node, start).await?;
        let durable = self.policy.durable_through();
        let pending = |range: std::ops::Range<usize>| {
            buffer.is_pending_at(at + range.start..at + range.end, durable)
        };
        let placed = buffer
            .read(|image| chunk::place(&image[at..][..CHUNK_SIZE], name.as_bytes(), pending))
            .map_err(|_| FsError::Corrupt)?;
        let place = match placed {
            Ok(place) => place,
            Err(_) => return Ok(false), // room, but under a delta still
        };
        put(update, node, Chunk { buffer, at, start }, place, name, target);
        Ok(true)
    }

    /// Makes the directory a chunk longer.
    async fn grow_directory(&self, update: &mut Update, node: &Rc<Node>) -> Result<Chunk, FsError> {
        let geometry = self.geometry();
        let size = node.dinode().size.get();
        let new_size = size + CHUNK_SIZE as u64;
        if new_size > MAX_DIRECTORY_SIZE {
            return Err(FsError::NoSpace);
        }
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
        Ok(Chunk { buffer, at, start: size })
    }

    /// Gives the run of block `lbn` room for a chunk at byte `at`: it has it, it can be made longer
    /// in place, or it moves.
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
        let more = match have < need {
            true => self.allocator.extend(update.budget, old.address(), have, need).await?,
            false => None,
        };
        if have < need && more.is_none() {
            if let Some(pending) = old.pending_sequence() {
                self.durable(pending).await?; // invariant 2
            }
            let place = (old.address(), have);
            let address = self.map().exchange(update, node, lbn, place, need).await?;
            let mut image = old.read(|image| block::Buffer::padded(image, length));
            image[at..at + CHUNK_SIZE].copy_from_slice(&chunk);
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
        update.push(Intent::BlockInitialised, &old, Edit::Bytes { offset: at, new: chunk });
        Ok(old)
    }

    /// Drops a name that is there. Under the exclusive lock.
    pub(crate) async fn plan_drop(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        name: &Name,
    ) -> Result<(), FsError> {
        let Standing { slot, buffer, at } = self.standing(update, node, name).await?;
        let chunk = at - at % CHUNK_SIZE;
        let slack = buffer.read(|image| {
            chunk::slack(&image[chunk..][..CHUNK_SIZE], Some(at - chunk))
                .map_err(|_| FsError::Corrupt)
        })?;
        let edit = Edit::Entry { offset: at, ino: 0, kind: 0, layout: Vec::new() };
        update.push(Intent::EntryDropped, &buffer, edit);
        let (name, offset) = (name.as_bytes().into(), slot.offset);
        let change = IndexChange::Dropped { name, offset, slack };
        update.index_changes.push((node.clone(), change));
        Ok(())
    }

    /// Makes a name that is there name `target`. Under the exclusive lock.
    pub(crate) async fn plan_retarget(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        name: &Name,
        target: &Node,
    ) -> Result<(), FsError> {
        let Standing { slot, buffer, at } = self.standing(update, node, name).await?;
        update.push(Intent::EntryRetargeted, &buffer, retarget(at, target));
        let slot = Slot { ino: target.ino, ..slot };
        let change = IndexChange::Retargeted { name: name.as_bytes().into(), slot };
        update.index_changes.push((node.clone(), change));
        Ok(())
    }

    /// Makes ".." of a directory name another parent. Under the exclusive lock.
    pub(crate) async fn plan_parent(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        parent: &Node,
    ) -> Result<(), FsError> {
        self.load_directory(node).await?;
        let (buffer, at) =
            self.directory_buffer(Some(update), node, chunk::DOT_DOT_OFFSET as u64).await?;
        update.push(Intent::ParentRetargeted, &buffer, retarget(at, parent));
        // The depth that FreeBSD notes to place new directories; 0 says that it is not known. Those
        // of the directories below go stale: nothing but placement asks for them.
        update.touch_inode(node, |dinode| dinode.free_link.set(0));
        update.index_changes.push((node.clone(), IndexChange::Parent { ino: parent.ino }));
        Ok(())
    }

    /// Where a name stands that is there.
    async fn standing(
        &self,
        update: &Update,
        node: &Rc<Node>,
        name: &Name,
    ) -> Result<Standing, FsError> {
        self.load_directory(node).await?;
        let found = self.find_slot(Some(update), node, name.as_bytes()).await?;
        found.ok_or(FsError::NoEntry)
    }

    /// The body of a directory that begins with this Update: one fragment with one chunk.
    pub(crate) async fn plan_body(
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
        let mut index = self.empty_index(parent.ino, 1);
        let room = CHUNK_SIZE - chunk::DOT_DOT_OFFSET - minimum_record_length(2);
        index.set_slack(0, room as u16);
        *node.directory.borrow_mut() = Some(Box::new(index));
        Ok(())
    }
}

/// A name that was found: its slot, and where the entry is in a buffer.
struct Standing {
    slot: Slot,
    buffer: Rc<Buffer>,
    at: usize,
}

/// A chunk of a directory: where it is in a buffer, and in the directory.
struct Chunk {
    buffer: Rc<Buffer>,
    at: usize,
    start: u64,
}

/// Whether the entry at byte `at` of a buffer has this name.
fn has_name(buffer: &Buffer, at: usize, name: &[u8]) -> bool {
    let known = is_planted(Bug::UncomparedNames);
    known || buffer.read(|image| chunk::name_at(image, at) == Some(name))
}

/// Plans a new entry in a chunk.
fn put(
    update: &mut Update,
    node: &Rc<Node>,
    chunk: Chunk,
    place: chunk::Place,
    name: &Name,
    target: &Node,
) {
    let at = chunk.at;
    let layout = place.layout.into_iter().map(|(offset, bytes)| (at + offset, bytes)).collect();
    let (ino, kind) = (target.ino as u32, kind_bits(target.kind));
    let edit = Edit::Entry { offset: at + place.offset, ino, kind, layout };
    update.push(Intent::EntryAdded, &chunk.buffer, edit);
    let change = IndexChange::Added {
        name: name.as_bytes().into(),
        slot: Slot { offset: chunk.start + place.offset as u64, ino: target.ino },
        record_length: place.record_length,
        slack: place.slack,
    };
    update.index_changes.push((node.clone(), change));
}

/// Makes the entry at `offset` of a buffer name `target`.
fn retarget(offset: usize, target: &Node) -> Edit {
    let (ino, kind) = (target.ino as u32, kind_bits(target.kind));
    Edit::Entry { offset, ino, kind, layout: Vec::new() }
}

/// Takes the names of one chunk into an index.
fn scan_chunk(
    index: &mut DirIndex,
    scanned: &mut Vec<Scanned>,
    ino: u64,
    start: u64,
    chunk: &[u8],
) -> Result<(), FsError> {
    for (place, entry) in chunk::entries(chunk).enumerate() {
        let entry = entry.map_err(|_| FsError::Corrupt)?;
        if !entry.is_live() {
            continue;
        }
        let target = u64::from(entry.ino);
        let legal = match (start, place) {
            (0, 0) => entry.name == b"." && target == ino,
            (0, 1) => {
                index.parent = target;
                entry.name == b".." && entry.offset == chunk::DOT_DOT_OFFSET
            }
            _ => {
                let slot = Slot { offset: start + entry.offset as u64, ino: target };
                scanned.push(index.entry(entry.name, slot));
                !matches!(entry.name, b"." | b"..")
            }
        };
        if !legal {
            return Err(FsError::Corrupt);
        }
    }
    let slack = chunk::slack(chunk, None).map_err(|_| FsError::Corrupt)?;
    index.set_slack(start as usize / CHUNK_SIZE, slack);
    Ok(())
}

/// Entries of a full chunk with names of the usual length: for them memory is taken once.
const USUAL_ENTRIES: usize = CHUNK_SIZE / 16;

/// The live entries of a chunk from byte `cookie` of the directory on.
fn list(start: u64, cookie: u64, chunk: &[u8]) -> Result<Vec<Listed>, FsError> {
    let mut listed = Vec::with_capacity(USUAL_ENTRIES);
    for entry in chunk::entries(chunk) {
        let entry = entry.map_err(|_| FsError::Corrupt)?;
        if entry.is_live() && start + entry.offset as u64 >= cookie {
            listed.push(Listed {
                ino: entry.ino.into(),
                name: Bytes::copy_from_slice(entry.name),
                cookie: start + (entry.offset + ENTRY_HEADER_SIZE) as u64,
            });
        }
    }
    Ok(listed)
}
