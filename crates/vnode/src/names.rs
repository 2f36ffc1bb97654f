//! Directories as names: looking up, listing, adding and dropping.
//!
//! [`directory::chunk`] interprets chunks, and [`directory::index`] keeps the names in memory; this
//! module connects both to the chunks of the engine. All of it happens under the directory's lock,
//! shared for lookups and exclusive for changes.
//!
//! Invariants:
//! 1. A name is looked up in the index alone, and believed when the chunk has it.
//! 2. A chunk has room for a name only where nothing has to be restored ([`Engine::may_reuse`]);
//!    the index learns of a change when that is applied.
//! 3. No task goes through more chunks of a directory than the volume has room for, whatever a
//!    damaged inode says.
//!
//! Not asserted: 1, which says where a name is looked for; 3, which is about damage, and refused.

use std::collections::BTreeSet;

use bytes::Bytes;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, minimum_record_length};
use directory::index::{DirIndex, IndexChange, Scanned, Slot};
use namespace::Listed;
use runtime::sync::{Steps, yield_now};
use vfs::{FsError, Name};

use crate::change::Change;
use crate::engine::{Chunk, Engine, EntryChange, File, NameChange};
use crate::files::Files;
use crate::pages::Place;
use crate::planted::{Bug, is_planted};
use crate::vnode::Vnode;

/// Bytes of a directory read between two yields to other tasks.
const SCANNED_AT_ONCE: u64 = 1 << 20;
/// The largest directory, in bytes: the limit of its cookies and of FreeBSD.
const MAX_DIRECTORY_SIZE: u64 = 0x7fff_ffff;

impl<E: Engine> Files<E> {
    /// The chunk with the directory's byte `offset`, and the offset in it. A rename may add a name
    /// with `update` before it drops one.
    async fn chunk_at(
        &self,
        update: Option<&E::Update>,
        node: &Vnode<E::Inode>,
        offset: u64,
    ) -> Result<(E::Chunk, usize), FsError> {
        let at = (offset % CHUNK_SIZE as u64) as usize;
        Ok((self.engine.chunk(update, node, offset - at as u64).await?, at))
    }

    /// Reads the names of a directory unless they are in memory. Only one call at a time reads
    /// them: each would hold all the names in memory meanwhile.
    pub(crate) async fn load_directory(&self, node: &File<E>) -> Result<(), FsError> {
        let _scanning = loop {
            if node.directory.borrow().is_some() {
                return Ok(());
            }
            match self.scans.begin(node.id().file_id().0) {
                Some(scanning) => break scanning,
                None => self.scans.ended.wait().await,
            }
        };
        let index = self.scan_directory(node).await?;
        node.directory.borrow_mut().get_or_insert(Box::new(index));
        self.relieve_memory();
        Ok(())
    }

    async fn scan_directory(&self, node: &File<E>) -> Result<DirIndex, FsError> {
        let size = self.directory_size(node)?;
        self.check_blocks_differ(node, size).await?;
        let mut index = self.empty_index(0, size as usize / CHUNK_SIZE);
        let mut scanned = Vec::new();
        for start in (0..size).step_by(CHUNK_SIZE) {
            if start > 0 && start.is_multiple_of(SCANNED_AT_ONCE) {
                yield_now().await; // all chunks may be in memory
            }
            let chunk = self.engine.chunk(None, node, start).await?;
            chunk.read(|chunk| scan_chunk(&mut index, &mut scanned, node.ino, start, chunk))?;
        }
        index.fill(scanned);
        for (one, other) in index.twins() {
            let (chunk, at) = self.chunk_at(None, node, one.offset).await?;
            let name = chunk.read(|bytes| chunk::name_at(bytes, at).map(<[u8]>::to_vec));
            let (chunk, at) = self.chunk_at(None, node, other.offset).await?;
            if has_name(&chunk, at, &name.ok_or(FsError::Corrupt)?) {
                return Err(FsError::Corrupt); // the same name twice
            }
        }
        if index.parent == 0 { Err(FsError::Corrupt) } else { Ok(index) }
    }

    /// A pointer block that names one block of a directory many times is damage, and would have all
    /// its names read as often (invariant 3).
    async fn check_blocks_differ(&self, node: &Vnode<E::Inode>, size: u64) -> Result<(), FsError> {
        let mut seen = BTreeSet::new();
        for lbn in 0..size.div_ceil(self.block_size()) {
            let is_new = match self.engine.place(node, lbn).await? {
                Place::Hole => return Err(FsError::Corrupt),
                Place::Disk(byte) | Place::Summed(byte, _) => seen.insert(byte),
                Place::Memory(_) => true,
            };
            if !is_new && !is_planted(Bug::BoundlessDirectories) {
                return Err(FsError::Corrupt);
            }
        }
        Ok(())
    }

    /// The bytes of a directory. It has no holes, so it is no longer than what the volume holds
    /// (invariant 3).
    pub(crate) fn directory_size(&self, node: &Vnode<E::Inode>) -> Result<u64, FsError> {
        let size = node.stored_size();
        let whole = size > 0 && size.is_multiple_of(CHUNK_SIZE as u64);
        let fits = size <= self.engine.limits().capacity || is_planted(Bug::BoundlessDirectories);
        if whole && fits && size <= MAX_DIRECTORY_SIZE { Ok(size) } else { Err(FsError::Corrupt) }
    }

    fn empty_index(&self, parent: u64, chunks: usize) -> DirIndex {
        DirIndex::new(parent, chunks, self.name_hash, self.table.memory.clone())
    }

    /// The slot of a name that is neither "." nor "..".
    pub(crate) async fn find_slot(
        &self,
        update: Option<&E::Update>,
        node: &File<E>,
        name: &[u8],
    ) -> Result<Option<Standing<E>>, FsError> {
        let mut after = None;
        loop {
            let slot = {
                let directory = node.directory.borrow();
                let index = directory.as_ref().expect("loaded before, and under a lock");
                index.candidate(name, after)
            };
            let Some(slot) = slot else { return Ok(None) };
            let (chunk, at) = self.chunk_at(update, node, slot.offset).await?;
            if has_name(&chunk, at, name) {
                return Ok(Some(Standing { slot, chunk, at }));
            }
            after = Some(slot.offset);
        }
    }

    /// The inode that a name leads to.
    pub(crate) async fn find(&self, node: &File<E>, name: &Name) -> Result<Option<u64>, FsError> {
        self.load_directory(node).await?;
        match name.as_bytes() {
            b"." => Ok(Some(node.ino)),
            b".." => Ok(node.directory.borrow().as_ref().map(|index| index.parent)),
            _ if self.engine.may_have_second_names() => self.find_vetted(node, name).await,
            name => Ok(self.find_slot(None, node, name).await?.map(|found| found.slot.ino)),
        }
    }

    /// Whether a directory has nothing but "." and "..".
    pub(crate) async fn is_empty(&self, node: &File<E>) -> Result<bool, FsError> {
        self.load_directory(node).await?;
        if self.engine.may_have_second_names() {
            self.vet_until_one(node).await?;
        }
        Ok(node.directory.borrow().as_ref().is_none_or(|index| index.is_empty()))
    }

    /// The entries of the first chunk that has some behind `cookie`; none at the end. A cookie
    /// points behind its entry, so an entry that is gone since is simply passed over. A directory
    /// that was emptied keeps its chunks: each chunk without an entry is a step.
    pub(crate) async fn list(
        &self,
        node: &File<E>,
        cookie: u64,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<Listed>, FsError> {
        let size = self.directory_size(node)?;
        let mut start = cookie - cookie % CHUNK_SIZE as u64;
        while start < size {
            if self.engine.may_have_second_names() {
                self.vet_chunk(node, start).await?;
            }
            let chunk = self.engine.chunk(None, node, start).await?;
            let listed = chunk.read(|chunk| list(start, cookie, chunk))?;
            if !listed.is_empty() {
                return Ok(listed);
            }
            steps.step().await;
            start += CHUNK_SIZE as u64;
        }
        Ok(Vec::new())
    }

    /// Adds a name for `target`. Under the exclusive lock; the name is not there.
    pub(crate) async fn add_entry(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        name: &Name,
        target: &Vnode<E::Inode>,
    ) -> Result<(), FsError> {
        self.load_directory(node).await?;
        let bytes = name.as_bytes();
        let ghost = node.directory.borrow().as_ref().and_then(|index| index.ghost(bytes));
        if let Some(offset) = ghost.filter(|_| !is_planted(Bug::WanderingNames)) {
            let (chunk, at) = self.chunk_at(Some(&change.update), node, offset).await?;
            self.retarget(change, node, (&chunk, at), NameChange::Added, target);
            let slot = Slot { offset, ino: target.ino };
            change.index(node, IndexChange::Returned { name: bytes.into(), slot });
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
            if self.add_in_chunk(change, node, chunk, name, target).await? {
                return Ok(());
            }
            from = chunk + 1;
        }
        let start = node.stored_size();
        if start + CHUNK_SIZE as u64 > MAX_DIRECTORY_SIZE {
            return Err(FsError::NoSpace);
        }
        let chunk = self.engine.add_chunk(&mut change.update, node).await?;
        change.index(node, IndexChange::Grown);
        let place = chunk::place(&chunk::empty_chunk(), bytes, |_| false)
            .map_err(|_| FsError::Corrupt)?
            .map_err(|_| FsError::NameTooLong)?;
        self.put(change, node, (&chunk, start), place, name, target);
        Ok(())
    }

    /// Adds a name to a chunk, if it has room now.
    async fn add_in_chunk(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        chunk: usize,
        name: &Name,
        target: &Vnode<E::Inode>,
    ) -> Result<bool, FsError> {
        let start = (chunk * CHUNK_SIZE) as u64;
        let chunk = self.engine.chunk(Some(&change.update), node, start).await?;
        let is_pending = |range| !self.engine.may_reuse(&chunk, range);
        let placed = chunk
            .read(|bytes| chunk::place(bytes, name.as_bytes(), is_pending))
            .map_err(|_| FsError::Corrupt)?;
        let place = match placed {
            Ok(place) => place,
            Err(_) => return Ok(false), // there is room, but the old bytes may come back
        };
        debug_assert!(
            place.layout.len() > 1 || !is_pending(place.offset..place.offset + ENTRY_HEADER_SIZE),
            "invariant 2: nothing has to be restored in an empty slot"
        );
        self.put(change, node, (&chunk, start), place, name, target);
        Ok(true)
    }

    /// Drops a name that is there. Under the exclusive lock.
    pub(crate) async fn drop_entry(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        name: &Name,
    ) -> Result<(), FsError> {
        let Standing { slot, chunk, at } = self.standing(change, node, name).await?;
        let slack =
            chunk.read(|bytes| chunk::slack(bytes, Some(at)).map_err(|_| FsError::Corrupt))?;
        let (what, layout) = (NameChange::Dropped, Vec::new());
        let entry = EntryChange { change: what, offset: at, target: None, layout };
        self.engine.set_entry(&mut change.update, node, &chunk, entry);
        let (name, offset) = (name.as_bytes().into(), slot.offset);
        change.index(node, IndexChange::Dropped { name, offset, slack });
        Ok(())
    }

    /// Makes a name that is there name `target`. Under the exclusive lock.
    pub(crate) async fn retarget_entry(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        name: &Name,
        target: &Vnode<E::Inode>,
    ) -> Result<(), FsError> {
        let Standing { slot, chunk, at } = self.standing(change, node, name).await?;
        self.retarget(change, node, (&chunk, at), NameChange::Retargeted, target);
        let slot = Slot { ino: target.ino, ..slot };
        change.index(node, IndexChange::Retargeted { name: name.as_bytes().into(), slot });
        Ok(())
    }

    /// Makes ".." of a directory name another parent. Under the exclusive lock.
    pub(crate) async fn retarget_parent(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        parent: &Vnode<E::Inode>,
    ) -> Result<(), FsError> {
        self.load_directory(node).await?;
        let (chunk, at) =
            self.chunk_at(Some(&change.update), node, chunk::DOT_DOT_OFFSET as u64).await?;
        self.retarget(change, node, (&chunk, at), NameChange::ParentRetargeted, parent);
        change.index(node, IndexChange::Parent { ino: parent.ino });
        Ok(())
    }

    /// Makes the entry at a byte of a chunk name `target`.
    fn retarget(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        (chunk, offset): (&E::Chunk, usize),
        what: NameChange,
        target: &Vnode<E::Inode>,
    ) {
        let target = Some((target.ino, target.kind));
        let entry = EntryChange { change: what, offset, target, layout: Vec::new() };
        self.engine.set_entry(&mut change.update, node, chunk, entry);
    }

    /// Plans a new entry in a chunk that begins at a byte of the directory.
    fn put(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
        (chunk, start): (&E::Chunk, u64),
        place: chunk::Place,
        name: &Name,
        target: &Vnode<E::Inode>,
    ) {
        let learnt = IndexChange::Added {
            name: name.as_bytes().into(),
            slot: Slot { offset: start + place.offset as u64, ino: target.ino },
            record_length: place.record_length,
            slack: place.slack,
        };
        let (what, target) = (NameChange::Added, Some((target.ino, target.kind)));
        let entry =
            EntryChange { change: what, offset: place.offset, target, layout: place.layout };
        self.engine.set_entry(&mut change.update, node, chunk, entry);
        change.index(node, learnt);
    }

    /// Sets up the names of a directory that begins with this Update.
    pub(crate) fn begin_names(&self, node: &Vnode<E::Inode>, parent: u64) {
        let mut index = self.empty_index(parent, 1);
        let room = CHUNK_SIZE - chunk::DOT_DOT_OFFSET - minimum_record_length(2);
        index.set_slack(0, room as u16);
        *node.directory.borrow_mut() = Some(Box::new(index));
    }

    /// The slot of an existing name, with its chunk.
    async fn standing(
        &self,
        change: &Change<E>,
        node: &File<E>,
        name: &Name,
    ) -> Result<Standing<E>, FsError> {
        self.load_directory(node).await?;
        let found = self.find_slot(Some(&change.update), node, name.as_bytes()).await?;
        found.ok_or(FsError::NoEntry)
    }
}

/// A name that was found: its slot, and the offset of its entry in the chunk.
pub(crate) struct Standing<E: Engine> {
    pub(crate) slot: Slot,
    pub(crate) chunk: E::Chunk,
    pub(crate) at: usize,
}

/// Whether the entry at byte `at` of a chunk has this name.
fn has_name(chunk: &impl Chunk, at: usize, name: &[u8]) -> bool {
    let known = is_planted(Bug::UncomparedNames);
    known || chunk.read(|bytes| chunk::name_at(bytes, at) == Some(name))
}

/// Adds the names of one chunk to an index.
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

/// Entries of a full chunk with names of the usual length: the capacity that is allocated.
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
