//! The buffer cache: the device, and the buffers of the metadata blocks in use.
//!
//! A task that wants a metadata block asks [`Home::load`] for its buffer; an `Rc` of it pins it.
//! [`cache::BlockCache`] limits the memory of buffers and chooses which are evicted; file data goes
//! through [`cache::DataPath`].
//!
//! Invariants:
//! 1. For one address there is at most one buffer, and at most one read in flight.
//! 2. A pinned, pending or dirty buffer is not evicted.
//! 3. Metadata is written by the policy alone, one write of a block at a time.
//! 4. While a block is read past the buffers no task makes a buffer of it
//!    ([`Home::read_uncached`]).
//!
//! Not asserted: 1 and 2, which the block cache asserts; 3, which is about the writers; 4, since
//! the content of a block that was made meanwhile is unknown.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Io, IoError};
use bytes::Bytes;
use cache::coalesce::runs;
use cache::refusals::all_written;
use cache::{BlockCache, Budget, DataPath};
use futures::future::join_all;
use runtime::Clock;
use ufs2::derive;
use ufs2::layout::{Geometry, GroupHeader};
use vfs::FsError;

use crate::buffer::{Buffer, Delta, Derived, Role, WriteImage};
use crate::planted::{Bug, is_planted};

/// See the module's prose.
pub struct Home {
    geometry: Rc<Geometry>,
    clock: Rc<dyn Clock>,
    buffers: BlockCache<Buffer>,
    data: DataPath,
}

/// Parts into which the memory is divided to compare the share of pinned blocks.
const PARTS: usize = 4;
/// Parts that blocks pinned by pending changes may fill. Beyond that, Updates wait.
const PARTS_PINNED: usize = 3;
/// Parts from which on pending changes are pushed to the disk, though no caller waits for them.
const PARTS_PUSHED: usize = 2;

/// Pause before a write in place is retried after the device below was full.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The error for a caller whose data did not reach its place.
fn refused_or_lost(error: IoError) -> FsError {
    if error.is_full() { FsError::NoSpace } else { FsError::Io }
}

impl Home {
    /// The buffer cache of a volume. `budget` bytes of memory are for metadata, what counts with
    /// it, and data, if that is kept.
    pub fn new(
        device: Rc<dyn BlockDevice>,
        geometry: Rc<Geometry>,
        clock: Rc<dyn Clock>,
        budget: usize,
        keeps_data: bool,
    ) -> Rc<Self> {
        let block_size = geometry.block_size;
        let budget = Budget::new(budget, block_size, keeps_data);
        let data = DataPath::new(device, budget.clone(), (geometry.fragment_size, block_size));
        Rc::new(Self { geometry, clock, buffers: BlockCache::new(block_size, budget), data })
    }

    /// Layout of the volume.
    pub fn geometry(&self) -> &Rc<Geometry> {
        &self.geometry
    }

    /// The device itself.
    pub fn device(&self) -> &Rc<dyn BlockDevice> {
        self.data.device()
    }

    /// Memory budget of everything that is cached.
    pub(crate) fn budget(&self) -> &Budget {
        self.buffers.budget()
    }

    /// Whether blocks pinned by pending changes take so much memory that changes without a waiter
    /// are written too.
    pub(crate) fn pins_much(&self) -> bool {
        self.budget().pinned().bytes() > self.budget().bytes() / PARTS * PARTS_PUSHED
    }

    /// Whether they take so much that Updates wait until some are written.
    pub(crate) fn pins_too_much(&self) -> bool {
        let is_much = self.budget().pinned().bytes() > self.budget().bytes() / PARTS * PARTS_PINNED;
        is_much && !is_planted(Bug::UnboundedPins)
    }

    /// The path of file data.
    pub(crate) fn data(&self) -> &DataPath {
        &self.data
    }

    /// The buffer of the `size` bytes at fragment `address`.
    ///
    /// # Errors
    /// [`FsError::Io`] if it cannot be read, [`FsError::Corrupt`] if it is no such block.
    pub async fn load(&self, address: u64, size: usize, role: Role) -> Result<Rc<Buffer>, FsError> {
        let _loading = loop {
            if let Some(buffer) = self.cached(address) {
                return if buffer.role() == role { Ok(buffer) } else { Err(FsError::Corrupt) };
            }
            match self.buffers.begin(address) {
                Some(loading) => break loading,
                None => self.buffers.wait().await,
            }
        };
        let mut image = self.read(address, self.buffers.unfilled(size)).await?;
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

    /// The block of a group whose last write a crash may have torn. Each bit of its maps has its
    /// value from before or after that write, either of which is valid; the rest is derived anew
    /// from the maps. Also returns whether the block was torn.
    ///
    /// # Errors
    /// As [`Home::load`].
    pub(crate) async fn load_group(&self, group: u64) -> Result<(Rc<Buffer>, bool), FsError> {
        let address = self.geometry.group_header_fragment(group);
        let (size, role) = (self.geometry.group_block_size as usize, Role::Group(group));
        let loaded = self.load(address, size, role).await;
        if !matches!(loaded, Err(FsError::Corrupt)) {
            return Ok((loaded?, false));
        }
        let mut image = self.read(address, self.buffers.unfilled(size)).await?;
        self.geometry.turn_group(&mut image);
        if let Some(buffer) = self.cached(address) {
            return Ok((buffer, false)); // another task was faster
        }
        if u64::from(GroupHeader::of(&image).index.get()) != group {
            return Err(FsError::Corrupt); // a crash cannot cause that
        }
        seal_group(&self.geometry, group, &mut image, self.clock.wall().seconds);
        self.verify_group(group, &image)?;
        let buffer = Buffer::new(address, role, image);
        buffer.write_again();
        self.install(&buffer);
        Ok((buffer, true))
    }

    /// Reads `size` bytes of the block of inodes at fragment `address`, from byte `offset` on, past
    /// the buffers; `None` if the block has a buffer. No task can load the block meanwhile: until
    /// the caller awaits again, every reader would see these bytes.
    ///
    /// # Errors
    /// [`FsError::Io`] if it cannot be read.
    pub(crate) async fn read_uncached(
        &self,
        address: u64,
        offset: usize,
        size: usize,
    ) -> Result<Option<block::Buffer>, FsError> {
        if self.has_buffer(address) {
            return Ok(None);
        }
        let Some(_loading) = self.buffers.begin(address) else { return Ok(None) };
        let from = self.geometry.byte_address(address) + offset as u64;
        let piece = self.device().read(from, block::Buffer::unfilled(size)).await;
        let mut piece = piece.map_err(|_| FsError::Io)?;
        self.geometry.turn_inodes(&mut piece);
        Ok(Some(piece).filter(|_| !self.has_buffer(address)))
    }

    /// Whether the block at `address` has a buffer that a read past the buffers would miss.
    pub(crate) fn has_buffer(&self, address: u64) -> bool {
        self.buffers.has(address) && !is_planted(Bug::PassedBuffers)
    }

    /// The buffer at `address`, if it is in memory.
    pub fn cached(&self, address: u64) -> Option<Rc<Buffer>> {
        self.buffers.get(address)
    }

    /// Installs a buffer that was made in memory.
    pub fn install(&self, buffer: &Rc<Buffer>) {
        self.buffers.insert(buffer.address(), buffer);
        buffer.count_deltas(self.budget());
    }

    /// Drops a freed run of fragments from the caches: the buffer of a metadata block, and cached
    /// data, which no caller will read again.
    pub fn forget(&self, address: u64, count: u64) {
        self.data.cache().spoil(&self.bytes_of(address, count));
        if let Some(buffer) = self.buffers.remove(address) {
            assert!(!buffer.is_pending(), "a freed block has nothing left to write");
        }
    }

    /// The byte range on the device of a run of fragments.
    fn bytes_of(&self, address: u64, count: u64) -> Range<u64> {
        self.geometry.byte_address(address)..self.geometry.byte_address(address + count)
    }

    /// Makes a directory run longer in place ([`Buffer::grow`]).
    pub(crate) fn grow(&self, buffer: &Buffer, size: usize) {
        self.buffers.resize(buffer, || buffer.grow(size));
    }

    /// Drops buffers that no task needs until enough memory is free, or none is left.
    pub(crate) fn evict(&self) {
        self.buffers.evict();
    }

    /// Buffers that were changed without a delta.
    pub fn dirty_buffers(&self) -> Vec<Rc<Buffer>> {
        self.buffers.filtered(Buffer::is_dirty)
    }

    /// A sealed copy of `buffer`, with every delta undone that does not hold yet.
    pub fn image(&self, buffer: &Buffer, holds: impl Fn(&Delta) -> bool) -> Option<WriteImage> {
        buffer.write_image(holds, |derived| match derived {
            Derived::Group(group, copy) => {
                seal_group(&self.geometry, group, copy, self.clock.wall().seconds);
            }
            Derived::Inode(inode) => self.geometry.seal_inode(inode),
        })
    }

    /// Writes copies, which are in disk order, to their places, neighbours together. Each write is
    /// small enough for the page cache, where a block that memory has no room for is found again.
    ///
    /// # Errors
    /// I/O errors of the device.
    pub async fn write_images(&self, images: Vec<WriteImage>) -> Result<(), IoError> {
        let place =
            |image: &WriteImage| self.geometry.byte_address(image.address) + image.from as u64;
        let pieces = images.into_iter().map(|image| (place(&image), image.data));
        let runs = runs(pieces, block::LARGE_TRANSFER - 1);
        let writes = runs.into_iter().map(|run| self.data.write(run.start, run.pieces));
        all_written(join_all(writes).await)
    }

    /// Writes pieces of metadata, one after the other, from fragment `address`.
    pub fn write(&self, address: u64, pieces: Vec<Bytes>) -> Io<()> {
        self.data.write(self.geometry.byte_address(address), pieces)
    }

    /// Fills `buffer` with metadata from fragment `address`.
    ///
    /// # Errors
    /// [`FsError::Io`].
    async fn read(&self, address: u64, buffer: block::Buffer) -> Result<block::Buffer, FsError> {
        let offset = self.geometry.byte_address(address);
        self.device().read(offset, buffer).await.map_err(|_| FsError::Io)
    }

    /// Reads bytes of the device that are data of a file.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub(crate) async fn read_data(&self, range: Range<u64>) -> Result<Vec<Bytes>, FsError> {
        self.data.read(range, &[]).await.map_err(|_| FsError::Io)
    }

    /// Writes data of a file to its place, from fragment `address` on.
    ///
    /// # Errors
    /// [`FsError::Io`]; [`FsError::NoSpace`] if the device below is full.
    pub(crate) async fn write_data(&self, address: u64, data: Vec<Bytes>) -> Result<(), FsError> {
        let start = self.geometry.byte_address(address);
        self.data.write_over(start, data).await.map_err(refused_or_lost)
    }

    /// Marks these fragments as unneeded until data is written there. No block in use points at
    /// them.
    pub(crate) async fn vacate(&self, fragments: &Range<u64>) {
        self.data.vacate(self.bytes_of(fragments.start, fragments.end - fragments.start)).await;
    }

    /// Takes delayed data, from fragment `address` on, that the log has or is about to have.
    pub(crate) fn delay(&self, address: u64, pieces: &[Bytes]) {
        self.data.delay(self.geometry.byte_address(address), pieces);
    }

    /// Forgets the delayed data of fragments that were freed, which is durable. Completes when no
    /// write to them is in flight.
    pub(crate) async fn forget_delayed(&self, address: u64, count: u64) {
        self.data.forget_delayed(self.bytes_of(address, count)).await;
    }

    /// A write barrier.
    pub fn flush(&self) -> Io<()> {
        self.data.flush()
    }

    fn verify_group(&self, group: u64, image: &[u8]) -> Result<(), FsError> {
        derive::check_group(&self.geometry, group, image).map_err(|_| FsError::Corrupt)
    }
}

/// Derives counts and summaries of a group from its maps, and seals the block.
pub(crate) fn seal_group(geometry: &Geometry, group: u64, block: &mut [u8], now_seconds: i64) {
    derive::recompute_group(geometry, group, block);
    let header = GroupHeader::of_mut(block);
    header.time.set(now_seconds);
    if header.old_time.get() != 0 {
        header.old_time.set(now_seconds as i32); // a system that uses it keeps the low half there
    }
    geometry.seal_group(block);
}
