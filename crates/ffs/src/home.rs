//! The place where metadata lives: the device, and the buffers of the blocks in use.
//!
//! Everybody who wants a metadata block asks [`Home::load`] for its buffer; an `Rc` of it pins it.
//! There is one buffer for a block, however many ask at once. File data passes by here too; what is
//! kept of it is in [`crate::data_cache`], which has what metadata leaves of the memory.
//!
//! Invariants:
//! 1. For one address there is at most one buffer, and at most one read on its way.
//! 2. What is pinned, pending or dirty is not evicted; so the budget is a wish. What is pinned by
//!    files in memory goes with them (`nodes`), and what exceeds the budget then is bounded by the
//!    Updates in flight, and the calls.
//! 3. Metadata is written by the policy alone, one write of a block at a time.
//! 4. Nothing is written but by [`Home::write`], which tells the cache of data, and what was
//!    delayed, of which the cache has been told ([`crate::delayed`]).
//! 5. While a block is read past the buffers nobody makes one of it ([`Home::glance`]).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Durability, Io, IoError};
use bytes::Bytes;
use cache::Meter;
use cache::coalesce::runs;
use cache::data::DataCache;
use cache::hash::NumberMap;
use futures::FutureExt;
use futures::future::join_all;
use runtime::Clock;
use runtime::sync::Signal;
use ufs2::derive;
use ufs2::layout::{Geometry, GroupHeader};
use vfs::FsError;

use crate::buffer::{Buffer, Delta, Role, WriteImage};
use crate::delayed::DelayedWrites;
use crate::planted::{Bug, is_planted};

/// What is kept beside the buffers is mostly small pieces of memory, and such a part of them is
/// counted for the gaps between them. The allocator had 145 MiB of the kernel where 97 were in use,
/// among 2,000,000 files: the rest of that is in what [`crate::mount`] leaves of the memory, with
/// pieces that nobody counts.
const GAPS: usize = 4;

/// See the module's prose.
pub struct Home {
    device: Rc<dyn BlockDevice>,
    geometry: Rc<Geometry>,
    clock: Rc<dyn Clock>,
    buffers: RefCell<NumberMap<Rc<Buffer>>>,
    loading: RefCell<BTreeSet<u64>>,
    loaded: Signal,
    bytes: Cell<usize>,
    /// What is kept beside the buffers and counts with them.
    beside: Meter,
    /// Of files.
    data: Rc<DataCache>,
    delayed: DelayedWrites,
    /// What deltas take, and the most that they took: many small pieces, between which no block
    /// finds room when they are gone.
    deltas: Meter,
    most_deltas: Cell<usize>,
    /// Memory of blocks that were evicted, for the next ones: given back, it would go to pieces.
    spare: RefCell<Vec<block::Buffer>>,
    budget: usize,
    /// Bytes in use at which some are to go: the budget, or more when less could not go last time.
    most: Cell<usize>,
    /// The last time not enough could go.
    short: Cell<bool>,
    tick: Cell<u64>,
    /// Writes for which there was no room below.
    refusals: Rc<Cell<u64>>,
    /// Whether something waits at home's door because of that.
    is_refused: Cell<bool>,
}

fn note_failure(refusals: &Cell<u64>, error: &IoError) {
    refusals.set(refusals.get() + u64::from(error.is_full()));
}

/// Between two attempts to bring something home of which the first found no room below.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// What comes of writes that went out together: a failure that is no refusal counts before all that
/// are.
pub(crate) fn all_written(results: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    let failures = results.into_iter().filter_map(Result::err);
    failures.min_by_key(IoError::is_full).map_or(Ok(()), Err)
}

impl Home {
    /// The home of a volume; `budget` bytes of memory are for metadata, what counts with it, and
    /// data, if that is kept.
    pub fn new(
        device: Rc<dyn BlockDevice>,
        geometry: Rc<Geometry>,
        clock: Rc<dyn Clock>,
        budget: usize,
        keeps_data: bool,
    ) -> Rc<Self> {
        let for_data = if keeps_data { budget } else { 0 };
        let data = Rc::new(DataCache::new(geometry.block_size, for_data));
        let budget = DataCache::rest_of(budget);
        let beside = Meter::default();
        Rc::new(Self {
            device,
            geometry,
            clock,
            data,
            delayed: DelayedWrites::new(beside.clone()),
            buffers: RefCell::default(),
            loading: RefCell::default(),
            loaded: Signal::new(),
            bytes: Cell::new(0),
            beside,
            deltas: Meter::default(),
            most_deltas: Cell::new(0),
            spare: RefCell::default(),
            budget,
            most: Cell::new(budget),
            short: Cell::new(false),
            tick: Cell::new(0),
            refusals: Rc::default(),
            is_refused: Cell::new(false),
        })
    }

    /// Where is what.
    pub fn geometry(&self) -> &Rc<Geometry> {
        &self.geometry
    }

    /// The device itself.
    pub fn device(&self) -> &Rc<dyn BlockDevice> {
        &self.device
    }

    /// The buffer of the `size` bytes at fragment `address`.
    ///
    /// # Errors
    /// [`FsError::Io`] when it cannot be read, [`FsError::Corrupt`] when it is no such block.
    pub async fn load(&self, address: u64, size: usize, role: Role) -> Result<Rc<Buffer>, FsError> {
        loop {
            if let Some(buffer) = self.cached(address) {
                return if buffer.role() == role { Ok(buffer) } else { Err(FsError::Corrupt) };
            }
            if self.loading.borrow_mut().insert(address) {
                break;
            }
            self.loaded.wait().await;
        }
        let _loading = Loading { home: self, address };
        let mut image = self.read(address, size).await?;
        match role {
            Role::Group(group) => {
                self.geometry.turn_group(&mut image);
                self.verify_group(group, &image)?;
            }
            Role::Inodes => self.geometry.turn_inodes(&mut image),
            Role::Directory => self.geometry.turn_directory(&mut image),
            Role::Indirect => self.geometry.turn_indirect(&mut image),
        }
        let buffer = Buffer::new(address, role, image);
        self.install(&buffer);
        Ok(buffer)
    }

    /// `size` bytes of the block of inodes at fragment `address`, from byte `offset` of it on, past
    /// the buffers; nothing if the block has a buffer. Nobody can load the block meanwhile: so,
    /// until its caller waits again, this is what everybody would see.
    ///
    /// # Errors
    /// [`FsError::Io`] when it cannot be read.
    pub(crate) async fn glance(
        &self,
        address: u64,
        offset: usize,
        size: usize,
    ) -> Result<Option<block::Buffer>, FsError> {
        if self.has_buffer(address) || !self.loading.borrow_mut().insert(address) {
            return Ok(None);
        }
        let _loading = Loading { home: self, address };
        let from = address * self.geometry.fragment_size + offset as u64;
        let piece = self.device.read(from, block::Buffer::unfilled(size)).await;
        let mut piece = piece.map_err(|_| FsError::Io)?;
        self.geometry.turn_inodes(&mut piece);
        Ok(Some(piece).filter(|_| !self.has_buffer(address)))
    }

    /// Whether the block at `address` is in memory, for whoever would look past it.
    pub(crate) fn has_buffer(&self, address: u64) -> bool {
        self.buffers.borrow().contains_key(&address) && !is_planted(Bug::PassedBuffers)
    }

    /// Whether a block that is read now pushes out another soon.
    pub(crate) fn is_crowded(&self) -> bool {
        self.in_use() > self.budget / 4 * 3
    }

    /// The buffer at `address`, if it is in memory.
    pub fn cached(&self, address: u64) -> Option<Rc<Buffer>> {
        let buffer = self.buffers.borrow().get(&address).cloned()?;
        self.tick.set(self.tick.get() + 1);
        buffer.used.set(self.tick.get());
        Some(buffer)
    }

    /// Takes in a buffer that was made in memory.
    pub fn install(&self, buffer: &Rc<Buffer>) {
        self.tick.set(self.tick.get() + 1);
        buffer.used.set(self.tick.get());
        self.bytes.set(self.bytes.get() + buffer.memory());
        buffer.count_deltas(&self.deltas);
        self.most_deltas.set(self.most_deltas.get().max(self.deltas.bytes()));
        let old = self.buffers.borrow_mut().insert(buffer.address(), buffer.clone());
        assert!(old.is_none(), "one buffer for block {} (invariant 1)", buffer.address());
        if self.in_use() > self.most.get() {
            self.evict();
        }
        self.trim_spare();
        self.bound_data();
    }

    /// Memory for a block of `size` bytes, of one that was evicted if there is some.
    fn unfilled(&self, size: usize) -> block::Buffer {
        let spare = match size as u64 == self.geometry.block_size {
            true => self.spare.borrow_mut().pop(),
            false => None,
        };
        spare.unwrap_or_else(|| block::Buffer::unfilled(size))
    }

    /// Keeps the memory of a block that was evicted, if it is one of the usual size.
    fn keep_spare(&self, buffer: Rc<Buffer>) {
        let image = Rc::into_inner(buffer).map(Buffer::into_image);
        let usual = image.filter(|image| image.len() as u64 == self.geometry.block_size);
        self.spare.borrow_mut().extend(usual);
    }

    /// Gives back what is kept of evicted blocks beyond the budget.
    fn trim_spare(&self) {
        let mut spare = self.spare.borrow_mut();
        let room = self.budget.saturating_sub(self.in_use());
        spare.truncate(room / self.geometry.block_size as usize);
    }

    fn spare_bytes(&self) -> usize {
        self.spare.borrow().len() * self.geometry.block_size as usize
    }

    /// Lets go of a run of fragments that is nobody's any more: of a block of metadata, and of what
    /// is kept of data, which nobody will read again.
    pub fn forget(&self, address: u64, count: u64) {
        let byte = |address| self.geometry.byte_address(address);
        self.data.spoil(&(byte(address)..byte(address + count)));
        if let Some(buffer) = self.buffers.borrow_mut().remove(&address) {
            assert!(!buffer.is_pending(), "a freed block has nothing left to write");
            self.uncount(&buffer);
        }
    }

    fn uncount(&self, buffer: &Buffer) {
        self.bytes.set(self.bytes.get() - buffer.memory());
    }

    /// Makes a directory run longer in place ([`Buffer::grow`]).
    pub(crate) fn grow(&self, buffer: &Buffer, size: usize) {
        let before = buffer.memory();
        buffer.grow(size);
        self.bytes.set(self.bytes.get() + buffer.memory() - before);
    }

    /// Counts what is kept beside the buffers, within the same budget.
    pub(crate) fn beside(&self) -> &Meter {
        &self.beside
    }

    /// Bytes of memory that are meant to suffice.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes of memory that are in use.
    pub(crate) fn in_use(&self) -> usize {
        let deltas = self.deltas.bytes().max(self.most_deltas.get());
        let beside = self.beside.bytes();
        self.bytes.get() + beside + beside / GAPS + deltas
    }

    /// Whether more is in use than should be, and it is time for others to let go of something.
    pub(crate) fn is_short(&self) -> bool {
        self.short.get() || self.in_use() > self.most.get()
    }

    /// Drops the least recently used eighth of what may go (invariant 2).
    pub(crate) fn evict(&self) {
        let mut buffers = self.buffers.borrow_mut();
        let mut idle: Vec<(u64, u64)> = buffers
            .values()
            .filter(|buffer| Rc::strong_count(buffer) == 1)
            .filter(|buffer| !buffer.is_pending() && !buffer.is_dirty())
            .map(|buffer| (buffer.used.get(), buffer.address()))
            .collect();
        idle.sort_unstable();
        for (_, address) in idle {
            if self.in_use() <= self.budget / 8 * 7 {
                break;
            }
            let buffer = buffers.remove(&address).expect("just listed");
            self.uncount(&buffer);
            self.keep_spare(buffer);
        }
        self.trim_spare();
        let further = self.in_use() + self.budget / 64;
        self.most.set(further.max(self.budget));
        // Once told is enough, until more is in use.
        self.short.set(self.in_use() > self.budget && !self.short.get());
    }

    /// Buffers that were changed without a delta.
    pub fn dirty_buffers(&self) -> Vec<Rc<Buffer>> {
        let buffers = self.buffers.borrow();
        let mut dirty: Vec<_> =
            buffers.values().filter(|buffer| buffer.is_dirty()).cloned().collect();
        dirty.sort_unstable_by_key(|buffer| buffer.address());
        dirty
    }

    /// A sealed copy of `buffer` with everything undone that does not hold yet.
    pub fn image(&self, buffer: &Buffer, holds: impl Fn(&Delta) -> bool) -> Option<WriteImage> {
        buffer.write_image(holds, |group, copy| {
            seal_group(&self.geometry, group, copy, self.clock.wall().seconds);
        })
    }

    /// Writes copies to their places, neighbours together; they are in the order of the disk. None
    /// of these writes is so large that it goes past the page cache, where a block that memory has
    /// no room for is found again.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn write_images(&self, images: Vec<WriteImage>) -> Result<(), IoError> {
        let place =
            |image: &WriteImage| self.geometry.byte_address(image.address) + image.from as u64;
        let pieces = images.into_iter().map(|image| (place(&image), image.data));
        let runs = runs(pieces, block::LARGE_TRANSFER - 1);
        let writes = runs.into_iter().map(|run| self.write_at(run.start, run.pieces));
        all_written(join_all(writes).await)
    }

    /// Writes pieces of data, one after the other, from fragment `address`.
    pub fn write(&self, address: u64, data: Vec<Bytes>) -> Io<()> {
        self.write_at(self.geometry.byte_address(address), data)
    }

    fn write_at(&self, offset: u64, data: Vec<Bytes>) -> Io<()> {
        let range = offset..offset + block::length_of(&data);
        self.data.spoil(&range);
        let (cache, refusals) = (self.data.clone(), self.refusals.clone());
        let written = self.device.write(offset, data, Durability::Plain);
        let write = async move {
            let result = written.await;
            cache.spoil(&range);
            result.inspect_err(|error| note_failure(&refusals, error))
        };
        write.boxed_local()
    }

    /// A write to the device has failed, not through here.
    pub(crate) fn note_failure(&self, error: &IoError) {
        note_failure(&self.refusals, error);
    }

    /// Writes that were refused since the volume was opened because what holds its disk is full.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.get()
    }

    /// Says whether what is to come home waits for room below.
    pub(crate) fn set_refused(&self, is_refused: bool) {
        self.is_refused.set(is_refused);
    }

    /// Whether what is to come home waits for room below.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Holds what is kept of files to the memory that everything else leaves.
    pub(crate) fn bound_data(&self) {
        self.data.leave(self.in_use() + self.spare_bytes());
    }

    /// What is kept of files.
    pub(crate) fn data(&self) -> &Rc<DataCache> {
        &self.data
    }

    /// What is on its way to its place.
    pub(crate) fn delayed(&self) -> &DelayedWrites {
        &self.delayed
    }

    /// Reads `size` bytes of metadata from fragment `address`.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn read(&self, address: u64, size: usize) -> Result<block::Buffer, FsError> {
        let offset = address * self.geometry.fragment_size;
        self.device.read(offset, self.unfilled(size)).await.map_err(|_| FsError::Io)
    }

    /// The barrier.
    pub fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn verify_group(&self, group: u64, image: &[u8]) -> Result<(), FsError> {
        derive::check_group(&self.geometry, group, image).map_err(|_| FsError::Corrupt)
    }
}

/// Derives what follows from the maps of a group, and seals the block.
pub(crate) fn seal_group(geometry: &Geometry, group: u64, block: &mut [u8], now_seconds: i64) {
    derive::recompute_group(geometry, group, block);
    let header = GroupHeader::of_mut(block);
    header.time.set(now_seconds);
    if header.old_time.get() != 0 {
        header.old_time.set(now_seconds as i32); // whoever fills it keeps the low half there
    }
    geometry.seal_group(block);
}

/// A read on its way; dropped, it lets the next one try.
struct Loading<'a> {
    home: &'a Home,
    address: u64,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.home.loading.borrow_mut().remove(&self.address);
        self.home.loaded.notify();
    }
}
