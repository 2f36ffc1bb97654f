//! The verbs of the engine.
//!
//! Invariants:
//! 1. `files` has the contents that every reader sees; a [`Vnode`] has a copy of the inode in it.
//! 2. Room that an Update freed is allocated again when that is durable.
//! 3. A place in a directory is given to another name when its old entry cannot come back.
//!
//! Not asserted: 1, which is the same memory; 3, which [`Ram::may_reuse`](Engine::may_reuse) says.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Budget, DataPath};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use runtime::Runtime;
use runtime::sync::{Signal, yield_now};
use vfs::{
    CallReply, Credentials, Depends, FileKind, FsError, FsInfo, FsStat, Ino, LoggedReply, Lost,
    MAX_NAME, ObjectId, PathConf, Sequence, SnapshotNumber, SnapshotUsage, Timestamp,
};
use vnode::horizon::Horizon;
use vnode::{
    Content, Engine, EntryChange, Files, FilesOptions, FoundSnapshots, Limits, Place,
    SnapshotChange, Space, Vnode,
};

use crate::body::{Body, RamChunk, change_entry};
use crate::disk::{Disk, ROOT};
use crate::held::{Bodies, next_step, usage};
use crate::inode::{BLOCK, Inode};
use crate::planted::{Bug, is_planted};
use crate::record::{AllPinned, Platter, Record, Tree, cut};
use crate::update::{Room, Update};

/// Most files.
const MOST_FILES: u64 = 65_536;
/// Most links of a file.
const MOST_LINKS: u32 = 32_767;
/// Most blocks that one Update frees, so that large files take several.
const BLOCKS_PER_UPDATE: usize = 64;

type File = Rc<Vnode<Inode>>;

/// Options of the engine.
#[derive(Clone, Debug)]
pub struct RamOptions {
    /// Bytes of memory for files, names and UNSTABLE data.
    pub cache_bytes: usize,
    /// The delay until an Update becomes durable: random within the range, separately for each.
    pub delay: Range<Duration>,
    /// The interval at which old UNSTABLE data is written back.
    pub housekeeping_interval: Duration,
    /// No change is allowed.
    pub read_only: bool,
}

impl Default for RamOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 4 << 20,
            delay: Duration::from_micros(100)..Duration::from_millis(20),
            housekeeping_interval: Duration::from_secs(5),
            read_only: false,
        }
    }
}

/// The engine: see the crate.
pub struct Ram {
    disk: Rc<Disk>,
    epoch: u64,
    runtime: Runtime,
    options: RamOptions,
    limits: Limits,
    budget: Rc<Budget>,
    horizon: Horizon,
    files: RefCell<BTreeMap<u64, Body>>,
    /// Snapshots as every reader sees them, durable or not.
    pinned: RefCell<AllPinned>,
    held: Bodies,
    room: Rc<Room>,
    released: Signal,
    next: Cell<u64>,
    /// Blocks and files freed by Updates that are not durable, which may not be allocated yet.
    leaving: Cell<(i64, u64)>,
    /// Access times that no Update carries, by number and generation of the file.
    touched: RefCell<BTreeMap<(u64, u32), Timestamp>>,
}

/// An Update that every reader sees.
pub struct Applied {
    sequence: u64,
    records: Vec<Record>,
    rests_on: Depends,
    freed: Freed,
}

/// Room that an Update freed.
#[derive(Default)]
pub struct Freed {
    blocks: i64,
    inos: Vec<u64>,
}

/// Opens the files of a disk.
///
/// # Errors
/// [`FsError`] of continuing an interrupted operation.
pub async fn open(
    disk: Rc<Disk>,
    runtime: Runtime,
    options: RamOptions,
) -> Result<Rc<Files<Ram>>, FsError> {
    let platter = disk.platter();
    let interval = options.housekeeping_interval;
    let options_of_files = FilesOptions {
        dirty_limit: options.cache_bytes as u64 / 2,
        remembered: if is_planted(Bug::ForgottenAnswers) {
            Vec::new()
        } else {
            platter.answers.clone()
        },
    };
    let bodies: BTreeMap<u64, Body> =
        platter.files.iter().map(|(&ino, stored)| (ino, Body::of(stored))).collect();
    let used: u64 = bodies.values().map(|body| body.blocks.len() as u64).sum();
    let room = Room::default();
    room.free_blocks.set(disk.blocks() as i64 - used as i64);
    let free = (ROOT + 1..MOST_FILES).filter(|ino| !bodies.contains_key(ino)).collect();
    room.free_inos.replace(free);
    let generation = bodies[&ROOT].inode.generation;
    let limits = Limits {
        root: ObjectId::live(Ino(ROOT), generation),
        block_size: BLOCK,
        capacity: u64::MAX,
        max_target: 4095,
        fsinfo: FsInfo {
            max_file_size: 1 << 40,
            block_size: BLOCK as u32,
            time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
            read_only: options.read_only,
        },
        pathconf: PathConf { link_max: MOST_LINKS, name_max: MAX_NAME as u32 },
    };
    let engine = Ram {
        epoch: disk.begin(),
        budget: Budget::new(options.cache_bytes, BLOCK, false),
        horizon: Horizon::out_of_order(),
        files: RefCell::new(bodies),
        pinned: RefCell::new(platter.pinned),
        held: Bodies::new(),
        room: Rc::new(room),
        released: Signal::new(),
        next: Cell::new(1),
        leaving: Cell::default(),
        touched: RefCell::default(),
        runtime: runtime.clone(),
        disk,
        options,
        limits,
    };
    let files = Files::new(Rc::new(engine), runtime, options_of_files);
    files.start_housekeeping(interval);
    files.finish_chains(platter.chains.into_values().collect()).await?;
    Ok(files)
}

impl Ram {
    /// Applies the changes of an Update for readers, and returns them as records for the platter.
    fn records_of(&self, update: &mut Update, sequence: u64) -> Vec<Record> {
        let mut files = self.files.borrow_mut();
        let mut records = Vec::new();
        for (&ino, (_, inode)) in &update.inodes {
            let body = files.entry(ino).or_insert_with(|| Body::new(inode.clone()));
            let is_born = update.born.contains(&ino);
            let is_ended = update.ended.contains(&ino);
            let by_names = !is_born && !is_ended && inode.follows_by_names(&body.inode);
            body.inode = inode.clone();
            if by_names {
                records.push(Record::Names(ino, inode.mtime, inode.size));
                continue;
            }
            // It carries the access time, or ends the file that had one.
            self.touched.borrow_mut().remove(&(ino, inode.generation));
            if !is_ended {
                records.push(Record::Inode(ino, inode.clone()));
            }
        }
        for chunk in update.chunks.drain(..) {
            let body = files.get_mut(&chunk.directory).expect("a directory that is there");
            body.chunks.push(chunk.bytes);
        }
        for (chunk, entry) in update.entries.drain(..) {
            let body = files.get_mut(&chunk.directory).expect("a directory that is there");
            let at = chunk.start + entry.offset as u64;
            let end = at + record_length(&chunk, entry.offset);
            body.changed.retain(|(_, change)| !self.horizon.has_passed(Sequence(*change)));
            body.changed.push((at..end, sequence));
            let stands = change_entry(&mut chunk.bytes.borrow_mut(), &entry);
            records.push(Record::Entry(chunk.directory, at, stands));
        }
        for (ino, lbn, data) in update.blocks.drain(..) {
            let body = files.get_mut(&ino).expect("a file that is there");
            body.blocks.insert(lbn, data.clone());
            records.push(Record::Block(ino, lbn, data));
        }
        for (ino, lbn, length) in update.cuts.drain(..) {
            let body = files.get_mut(&ino).expect("a file that is there");
            cut(&mut body.blocks, lbn, length);
            records.push(Record::Cut(ino, lbn, length));
        }
        for ino in update.inodes.keys().filter(|ino| !update.ended.contains(ino)) {
            let body = &files[ino];
            assert_eq!(body.blocks.len() as u64, body.inode.blocks, "file {ino} counts its blocks");
        }
        for ino in &update.ended {
            files.remove(ino);
            records.push(Record::End(*ino));
        }
        records.extend(update.manner.chain.map(Record::Chain));
        drop(files);
        records.extend(self.snapshot_record(update, sequence));
        records
    }

    /// Applies an Update's change of snapshots, and returns the record for the platter.
    fn snapshot_record(&self, update: &mut Update, sequence: u64) -> Option<Record> {
        let record = match (update.snapshots.take(), update.thinned.take()) {
            (Some(SnapshotChange::Pinned(snapshot)), _) => {
                update.manner.rests_on = Depends::through(Sequence(sequence - 1));
                Record::Pin(snapshot, Rc::new(self.live_tree()))
            }
            (Some(SnapshotChange::Deleted(number, at)), _) => Record::Unpin(number, at),
            (Some(SnapshotChange::RolledBack(number)), _) => {
                update.manner.rests_on = Depends::through(Sequence(sequence - 1));
                self.touched.borrow_mut().clear();
                return Some(Record::RollBack(number));
            }
            (None, Some((number, through))) => {
                let used = || usage(&self.pinned.borrow(), &self.live_tree(), number);
                let before = used();
                self.held.forget(number);
                self.take_pinned(Record::Thin(number, through, 0));
                let left = used();
                let freed = before.unique_bytes - left.unique_bytes;
                if let Some(one) = self.pinned.borrow_mut().each.get_mut(&number) {
                    one.freed_bytes += freed;
                }
                return Some(Record::Thin(number, through, freed));
            }
            (None, None) => return None,
        };
        self.take_pinned(record.clone());
        Some(record)
    }

    /// Applies a record to the snapshots that readers see.
    fn take_pinned(&self, record: Record) {
        let mut after = Platter { pinned: self.pinned.take(), ..Platter::default() };
        after.take(record);
        self.pinned.replace(after.pinned);
    }

    /// The live tree as every reader sees it.
    fn live_tree(&self) -> Tree {
        let (platter, _) = self.disk.remains(|| true);
        let mut tree = platter.files;
        for (&(ino, generation), &time) in &*self.touched.borrow() {
            let file = tree.get_mut(&ino).filter(|file| file.inode.generation == generation);
            if let Some(file) = file {
                file.inode.atime = time;
            }
        }
        tree
    }

    /// Runs `look` on the contents of a file, live or in a snapshot, if it exists.
    fn look<T>(&self, file: &Vnode<Inode>, look: impl FnOnce(&Body) -> T) -> Option<T> {
        self.look_in(file.tree, file.ino, look)
    }

    fn look_in<T>(
        &self,
        tree: SnapshotNumber,
        ino: u64,
        look: impl FnOnce(&Body) -> T,
    ) -> Option<T> {
        if tree == SnapshotNumber::LIVE || is_planted(Bug::LiveSnapshots) {
            return self.files.borrow().get(&ino).map(look);
        }
        let pinned = self.pinned.borrow();
        let tree = pinned.each.get_key_value(&tree).map(|(&number, one)| (number, &*one.tree));
        self.held.look(tree?, ino, look)
    }

    fn chunk_of(&self, directory: &Vnode<Inode>, start: u64) -> Result<RamChunk, FsError> {
        let index = start as usize / CHUNK_SIZE;
        let bytes = self.look(directory, |body| body.chunks.get(index).cloned());
        let bytes = bytes.ok_or(FsError::Stale)?.ok_or(FsError::Corrupt)?;
        Ok(RamChunk { directory: directory.ino, start, bytes })
    }

    /// Frees the blocks of a file from byte `size` on, the last ones first, as many as one Update
    /// may; returns the size that is left.
    fn cut_part(&self, update: &mut Update, file: &File, size: u64) -> u64 {
        let keep = size.div_ceil(BLOCK);
        let files = self.files.borrow();
        let blocks = &files[&file.ino].blocks;
        let mut behind = blocks.range(keep..).rev().map(|(&lbn, _)| lbn);
        let first = behind.by_ref().take(BLOCKS_PER_UPDATE).last();
        let (left, freed) = match (first, behind.next()) {
            (Some(first), Some(_)) => (first * BLOCK, BLOCKS_PER_UPDATE),
            _ => (size, blocks.range(keep..).count()),
        };
        update.freed_blocks += freed as i64;
        update.cuts.push((file.ino, left / BLOCK, (left % BLOCK) as usize));
        let inode = update.inode(file);
        inode.size = left;
        inode.blocks -= freed as u64;
        left
    }

    fn end(&self, update: &mut Update, file: &File) {
        update.freed_blocks += self.files.borrow()[&file.ino].blocks.len() as i64;
        update.inode(file); // its change must be visible
        update.ended.push(file.ino);
    }
}

/// The length of the entry at `offset` of a chunk, present or future.
fn record_length(chunk: &RamChunk, offset: usize) -> u64 {
    let bytes = chunk.bytes.borrow();
    let length = chunk::name_at(&*bytes, offset).map_or(0, <[u8]>::len);
    directory::entry::minimum_record_length(length) as u64
}

impl Engine for Ram {
    type Inode = Inode;
    type Update = Update;
    type Ready = Update;
    type Applied = Applied;
    type Freed = Freed;
    type Chunk = RamChunk;
    type Payload = Vec<(u64, u64, Bytes)>;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn evict(&self) {}

    fn data(&self) -> Option<&DataPath> {
        None
    }

    fn space(&self, _who: &Credentials, (orphans, used): (u64, u64)) -> FsStat {
        // Room of an acknowledged removal counts as free, though it may take a moment to become so.
        let (blocks, files) = self.leaving.get();
        let free = self.room.free_blocks.get() - self.room.claimed_blocks.get() + blocks;
        let free_bytes = free.max(0) as u64 * BLOCK + used;
        let free_files = self.room.free_inos.borrow().len() as u64 + files + orphans;
        FsStat {
            total_bytes: self.disk.blocks() * BLOCK,
            free_bytes,
            available_bytes: free_bytes,
            total_files: MOST_FILES - ROOT,
            free_files,
            available_files: free_files,
        }
    }

    async fn load(&self, ino: u64) -> Result<File, FsError> {
        let files = self.files.borrow();
        let inode = files.get(&ino).ok_or(FsError::Stale)?.inode.clone();
        Ok(Vnode::new((ino, inode.generation), inode.kind, inode))
    }

    async fn create(
        &self,
        update: &mut Update,
        parent: &File,
        new: &NewFile<'_>,
    ) -> Result<File, FsError> {
        let ino = update.taken.ino().ok_or(FsError::NoSpace)?;
        let generation = (self.runtime.random.next_u64() as u32).max(1);
        let mut inode = Inode::new(new, generation, self.runtime.clock.wall());
        if new.kind == FileKind::Directory {
            inode.size = CHUNK_SIZE as u64;
        }
        let file = Vnode::new((ino, generation), new.kind, inode);
        update.inode(&file);
        update.born.push(ino);
        if new.kind == FileKind::Directory {
            let bytes = chunk::first_chunk(ino as u32, parent.ino as u32, 0);
            let bytes = Rc::new(RefCell::new(bytes));
            for (offset, target) in [(0, ino), (chunk::DOT_DOT_OFFSET, parent.ino)] {
                let chunk = RamChunk { directory: ino, start: 0, bytes: bytes.clone() };
                let change = vnode::NameChange::Added;
                let target = Some((target, FileKind::Directory));
                update
                    .entries
                    .push((chunk, EntryChange { change, offset, target, layout: Vec::new() }));
            }
            update.chunks.push(RamChunk { directory: ino, start: 0, bytes });
        }
        Ok(file)
    }

    fn add_link(&self, update: &mut Update, file: &File) -> Result<(), FsError> {
        let inode = update.inode(file);
        if inode.links >= MOST_LINKS {
            return Err(FsError::TooManyLinks);
        }
        inode.links += 1;
        Ok(())
    }

    fn drop_link(&self, update: &mut Update, file: &File) {
        update.inode(file).links -= 1;
    }

    fn set_attributes(&self, update: &mut Update, file: &File, change: &AttributeChange) {
        update.inode(file).change(change);
    }

    fn touch_access_time(&self, file: &Vnode<Inode>, time: Timestamp) {
        file.touch_inode(|inode| inode.atime = time);
        if let Some(body) = self.files.borrow_mut().get_mut(&file.ino) {
            body.inode.atime = time;
            self.touched.borrow_mut().insert((file.ino, file.generation), time);
        }
    }

    async fn free(&self, update: &mut Update, file: &File) -> Result<bool, FsError> {
        update.inode(file).links = 0;
        let is_large = self.files.borrow()[&file.ino].blocks.len() > BLOCKS_PER_UPDATE;
        if !is_large {
            self.end(update, file);
        }
        Ok(!is_large)
    }

    async fn free_step(&self, update: &mut Update, file: &File) -> Result<bool, FsError> {
        let is_last = self.files.borrow()[&file.ino].blocks.len() <= BLOCKS_PER_UPDATE;
        if is_last {
            self.end(update, file)
        } else {
            _ = self.cut_part(update, file, 0)
        }
        Ok(is_last)
    }

    async fn shrink_step(
        &self,
        update: &mut Update,
        file: &File,
        size: u64,
    ) -> Result<u64, FsError> {
        self.disk.check()?;
        Ok(self.cut_part(update, file, size))
    }

    async fn chunk(
        &self,
        update: Option<&Update>,
        directory: &Vnode<Inode>,
        start: u64,
    ) -> Result<RamChunk, FsError> {
        let is_it = |chunk: &&RamChunk| chunk.directory == directory.ino && chunk.start == start;
        if let Some(new) = update.and_then(|update| update.chunks.iter().find(is_it)) {
            return Ok(RamChunk { bytes: new.bytes.clone(), ..*new });
        }
        self.chunk_of(directory, start)
    }

    async fn add_chunk(&self, update: &mut Update, directory: &File) -> Result<RamChunk, FsError> {
        let inode = update.inode(directory);
        let start = inode.size;
        inode.size += CHUNK_SIZE as u64;
        let bytes = Rc::new(RefCell::new(chunk::empty_chunk()));
        let directory = directory.ino;
        update.chunks.push(RamChunk { directory, start, bytes: bytes.clone() });
        Ok(RamChunk { directory, start, bytes })
    }

    fn set_entry(
        &self,
        update: &mut Update,
        _directory: &File,
        chunk: &RamChunk,
        entry: EntryChange,
    ) {
        update.entries.push((RamChunk { bytes: chunk.bytes.clone(), ..*chunk }, entry));
    }

    fn may_reuse(&self, chunk: &RamChunk, bytes: Range<usize>) -> bool {
        if is_planted(Bug::ReusedSlots) {
            return true;
        }
        let bytes = chunk.start + bytes.start as u64..chunk.start + bytes.end as u64;
        let files = self.files.borrow();
        files.get(&chunk.directory).is_none_or(|body| {
            body.changed.iter().all(|(range, change)| {
                range.end <= bytes.start
                    || bytes.end <= range.start
                    || self.horizon.has_passed(Sequence(*change))
            })
        })
    }

    async fn place(&self, file: &Vnode<Inode>, block: u64) -> Result<Place, FsError> {
        let data = self.look(file, |body| match file.kind {
            FileKind::Directory => Some(Bytes::new()),
            _ => body.blocks.get(&block).cloned(),
        });
        Ok(data.flatten().map_or(Place::Hole, Place::Memory))
    }

    async fn page_cost(
        &self,
        file: &Vnode<Inode>,
        block: u64,
        _has_neighbour: bool,
    ) -> Result<u64, FsError> {
        Ok(u64::from(matches!(self.place(file, block).await?, Place::Hole)))
    }

    fn claim(&self, blocks: u64, _space: Space) -> Result<(), FsError> {
        let claimed = self.room.claimed_blocks.get() + blocks as i64;
        if blocks > 0 && claimed > self.room.free_blocks.get() {
            return Err(FsError::NoSpace);
        }
        self.room.claimed_blocks.set(claimed);
        Ok(())
    }

    fn release(&self, blocks: u64) {
        self.room.claimed_blocks.set(self.room.claimed_blocks.get() - blocks as i64);
    }

    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        (old_size, _): (u64, u64),
    ) -> Range<usize> {
        let in_file = old_size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        match place {
            Place::Hole => new,
            _ => 0..new.end.max(in_file),
        }
    }

    async fn plan_blocks(
        &self,
        update: &mut Update,
        file: &File,
        set: &mut BTreeMap<u64, Content>,
        _size: u64,
    ) -> Result<(Vec<(u64, u64, Bytes)>, Vec<u64>), FsError> {
        let mut payload = Vec::new();
        let mut more = 0;
        for (&lbn, content) in set.iter() {
            more += i64::from(matches!(self.place(file, lbn).await?, Place::Hole));
            let zeros = vec![0; content.from];
            payload.push((file.ino, lbn, [&zeros[..], &content.data].concat().into()));
        }
        let claimed = match update.space {
            Space::Reserved => 0,
            _ => self.room.claimed_blocks.get(),
        };
        if more > 0 && self.room.free_blocks.get() - claimed < more {
            return Err(FsError::NoSpace);
        }
        update.taken.blocks(more);
        update.inode(file).blocks += more as u64;
        Ok((payload, Vec::new()))
    }

    async fn write_blocks(
        &self,
        update: &mut Update,
        payload: Vec<(u64, u64, Bytes)>,
    ) -> Result<bool, FsError> {
        self.disk.check()?;
        update.blocks.extend(payload);
        Ok(false)
    }

    fn end_blocks(&self, update: &mut Update, file: &File, size: u64, change: &AttributeChange) {
        let inode = update.inode(file);
        inode.size = size;
        inode.verifier = None;
        inode.change(change);
    }

    fn begin(&self, space: Space) -> Update {
        Update::new(space, self.room.clone())
    }

    async fn reserve(&self, update: Update) -> Result<Update, FsError> {
        if self.horizon.has_stopped() { Err(FsError::Io) } else { Ok(update) }
    }

    fn apply(
        &self,
        mut update: Update,
        mut see: impl FnMut(&File, Sequence),
    ) -> (Sequence, Applied) {
        let sequence = self.next.replace(self.next.get() + 1);
        let records = self.records_of(&mut update, sequence);
        update.taken.keep();
        for (file, inode) in std::mem::take(&mut update.inodes).into_values() {
            file.set_inode(|old| *old = inode);
            see(&file, Sequence(sequence));
        }
        let freed = Freed { blocks: update.freed_blocks, inos: std::mem::take(&mut update.ended) };
        let (blocks, files) = self.leaving.get();
        self.leaving.set((blocks + freed.blocks, files + freed.inos.len() as u64));
        let rests_on = update.manner.rests_on;
        (Sequence(sequence), Applied { sequence, records, rests_on, freed })
    }

    fn stage(&self, applied: Applied, answered: Option<(CallReply, Depends)>) -> Option<Freed> {
        let Applied { sequence, mut records, mut rests_on, freed } = applied;
        if let Some((answered, shows)) = answered {
            if !is_planted(Bug::LoneAnswers) {
                rests_on.join(&shows);
            }
            let at = self.runtime.clock.wall();
            records.push(Record::Answer(Box::new(LoggedReply { at, answered })));
        }
        if self.disk.stage(self.epoch, sequence, (records, &rests_on), &self.horizon) {
            let Range { start, end } = self.options.delay;
            let span = (end - start).as_nanos().max(1) as u64;
            let wait = start + Duration::from_nanos(self.runtime.random.next_u64() % span);
            let (disk, epoch, clock) = (self.disk.clone(), self.epoch, self.runtime.clock.clone());
            let due = async move {
                clock.sleep(wait).await;
                disk.due(epoch, sequence);
            };
            self.runtime.tasks.spawn(due.boxed_local());
        } else {
            self.horizon.fail();
        }
        let has_freed = freed.blocks > 0 || !freed.inos.is_empty();
        has_freed.then_some(freed)
    }

    async fn give_back(&self, freed: Freed) {
        let (blocks, files) = self.leaving.get();
        let is_left = freed.blocks <= blocks && freed.inos.len() as u64 <= files;
        assert!(is_left, "invariant 2: what comes back was given up");
        self.leaving.set((blocks - freed.blocks, files - freed.inos.len() as u64));
        self.room.free_blocks.set(self.room.free_blocks.get() + freed.blocks);
        self.room.free_inos.borrow_mut().extend(freed.inos);
        self.released.notify();
    }

    fn found_snapshots(&self) -> Option<FoundSnapshots> {
        Some(self.pinned.borrow().found())
    }

    fn change_snapshots(&self, update: &mut Update, change: SnapshotChange) -> Result<(), FsError> {
        update.snapshots = Some(change);
        Ok(())
    }

    async fn load_held(&self, tree: SnapshotNumber, ino: u64) -> Result<File, FsError> {
        yield_now().await; // lets other tasks run, as during a read from a disk
        let inode = self.look_in(tree, ino, |body| body.inode.clone()).ok_or(FsError::Stale)?;
        Ok(Vnode::held(tree, (ino, inode.generation), inode.kind, inode))
    }

    async fn delete_held(
        &self,
        update: &mut Update,
        tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        let pinned = self.pinned.borrow();
        let one = pinned.each.get(&tree).ok_or(FsError::Stale)?;
        let through = next_step(&one.tree);
        update.thinned = Some((tree, through));
        Ok(through.is_none())
    }

    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        let (pinned, live) = (self.pinned.borrow(), self.live_tree());
        trees.iter().map(|&tree| usage(&pinned, &live, tree)).collect()
    }

    fn released(&self) -> &Signal {
        &self.released
    }

    fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        match self.disk.check() {
            Ok(()) => std::future::pending().boxed_local(),
            Err(_) => std::future::ready(()).boxed_local(),
        }
    }

    async fn settle(&self) -> Result<(), Lost> {
        let last = Sequence(self.next.get() - 1);
        self.horizon.reach(last).await
    }

    async fn write_times(&self) {
        let touched = self.touched.borrow().clone();
        touched.into_iter().for_each(|(file, time)| self.disk.touch(self.epoch, file, time));
        if self.disk.pending().is_empty() {
            self.touched.take(); // no Update will set an older time any more
        }
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        self.settle().await?;
        self.write_times().await;
        Ok(())
    }

    async fn close(&self) -> Result<(), FsError> {
        Ok(())
    }
}
