//! The allocator of fragments and inodes: the cylinder groups, and the map of promises.
//!
//! The maps in the group buffers reflect all applied Updates. Beside them each group keeps, in
//! memory only, its *held* bits: promised to an Update that is still being prepared, or freed by
//! one that is not durable yet. A bit that is free in the map and not held may be allocated.
//!
//! Invariants:
//! 1. A fragment or inode is promised at most once; a promise that is dropped gives it back.
//! 2. Space that an Update frees is held until that Update is durable: nothing is reused while a
//!    pointer to it may still be on the disk. A file that left no trace there never had such a
//!    pointer.
//! 3. The counts here cover allocatable space only; the counts on disk are derived from the maps
//!    when a group is written.
//! 4. A group with anything held has its buffer in memory.
//! 5. A fragment or inode is freed by one Update at a time: a second one finds it held, and the
//!    file that it belongs to corrupt.
//! 6. An Update that takes a wholly free block leaves the blocks that are reserved for UNSTABLE
//!    data, and those kept for files that become shorter (`ends`).
//! 7. After a crash that left leaks, only groups that were read count. A torn group does not count,
//!    and nothing is taken from it, until reclaim is through.
//!
//! Not asserted: 3, which takes a pass over all maps; 5, which is about damage, and refused; 6,
//! since a group may have to be read between asking and taking; 7, which is where groups are read.
//!
//! Placement is that of FFS: directories are spread over the groups, files go near their
//! directory, blocks of a file follow each other, and a long file moves on to another group before
//! it fills one.

mod ends;
mod fragments;
mod group;
mod held;
mod inodes;

use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::rc::{Rc, Weak};

use runtime::sync::{Semaphore, Signal};
use ufs2::derive::bits;
use ufs2::layout::{Geometry, GroupHeader, Summary, Totals};
use vfs::FsError;

use crate::buffer::{Buffer, Role};
use crate::edit::Edit;
use crate::home::Home;
use crate::item::{Intent, Item};
use crate::leftovers::Leftovers;
use crate::planted::{Bug, is_planted};
use group::Group;

pub(crate) use ends::EndRoom;
pub(crate) use inodes::FoundInode;

/// The preferred position of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Near {
    /// At this very fragment, or after it.
    Fragment(u64),
    /// Anywhere in this group.
    Group(u64),
}

/// A run of bits in one map of a group.
#[derive(Clone, Copy, Debug)]
enum Run {
    Fragments { group: u64, first: usize, count: usize },
    Inode { group: u64, index: usize },
}

/// Fragments or an inode that one Update will take (invariant 1).
pub(crate) struct Promise {
    run: Run,
    allocator: Weak<Allocator>,
    kept: Cell<bool>,
}

impl Promise {
    /// The Update was applied, and the map has the bits: nothing needs to be held.
    pub(crate) fn keep(self) {
        self.kept.set(true);
        if let Some(allocator) = self.allocator.upgrade() {
            allocator.settle_promise(self.run);
        }
    }
}

impl Promise {
    /// Withholds the space, which turned out to be unusable, from every Update as long as the
    /// volume is open.
    pub(crate) fn withhold(self) {
        self.kept.set(true);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.kept.get()
            && let Some(allocator) = self.allocator.upgrade()
        {
            // No waiter is woken: one that waits for space would only try again, fail again, and
            // wake the next.
            allocator.change_held(self.run, false);
        }
    }
}

/// Space that an Update frees, allocatable when the Update is durable (invariant 2). It is held
/// from planning on: on a damaged disk two files may point at the same fragment, and only one of
/// them can free it (invariant 5).
pub(crate) struct Freed {
    run: Run,
    allocator: Weak<Allocator>,
    /// The Update was applied; from then on [`Allocator::free`] ends the hold.
    applied: Cell<bool>,
}

impl Drop for Freed {
    fn drop(&mut self) {
        if !self.applied.get()
            && let Some(allocator) = self.allocator.upgrade()
        {
            // The map still has it as used, so nothing became allocatable and no waiter is woken: a
            // writer that waits for space would only try again, fail again, and wake the next.
            allocator.change_held(self.run, false);
            if is_planted(Bug::CircularWaits) {
                allocator.released.notify();
            }
        }
    }
}

/// Fragments or an inode that an Update is to take.
pub(crate) struct Taken {
    /// The first fragment, or the inode.
    pub(crate) place: u64,
    /// The promise that holds them.
    pub(crate) promise: Promise,
    /// The item that sets their bits.
    pub(crate) item: Item,
}

/// Fragments or an inode that an Update is to give back.
pub(crate) struct GivenBack {
    /// Holds them until the Update is durable.
    pub(crate) freed: Freed,
    /// The item that clears their bits.
    pub(crate) item: Item,
}

/// See the module's prose.
pub(crate) struct Allocator {
    home: Rc<Home>,
    groups: Vec<RefCell<Group>>,
    /// Groups whose counts are hints.
    uncounted: Cell<u64>,
    /// Leaks of a crash.
    leftovers: Option<Rc<Leftovers>>,
    free_blocks: Cell<i64>,
    free_fragments: Cell<i64>,
    free_inodes: Cell<i64>,
    directories: Cell<i64>,
    /// Fragments and inodes that were freed and are still held.
    leaving_fragments: Cell<i64>,
    leaving_inodes: Cell<i64>,
    /// Whole blocks reserved for UNSTABLE data.
    reserved_blocks: Cell<i64>,
    /// Lets one task at a time take from the kept blocks.
    ends: Rc<Semaphore>,
    /// Notified whenever space becomes allocatable.
    pub released: Signal,
    this: Weak<Allocator>,
}

impl Allocator {
    /// The allocator of a volume with true summary rows; or, with `leftovers`, of one whose rows
    /// are hints until a group is read (invariant 7).
    pub(crate) fn new(
        home: Rc<Home>,
        rows: &[Summary],
        leftovers: Option<Rc<Leftovers>>,
    ) -> Rc<Self> {
        let are_true = leftovers.is_none();
        let group = |row| RefCell::new(Group::new(row, are_true));
        let groups: Vec<_> = rows.iter().map(group).collect();
        let totals = if are_true { Totals::of(rows) } else { Totals::of(&[]) };
        Rc::new_cyclic(|this| Self {
            home,
            groups,
            uncounted: Cell::new(if are_true { 0 } else { rows.len() as u64 }),
            leftovers,
            free_blocks: Cell::new(totals.free_blocks.get()),
            free_fragments: Cell::new(totals.free_fragments.get()),
            free_inodes: Cell::new(totals.free_inodes.get()),
            directories: Cell::new(totals.directories.get()),
            leaving_fragments: Cell::new(0),
            leaving_inodes: Cell::new(0),
            reserved_blocks: Cell::new(0),
            ends: Semaphore::new(1),
            released: Signal::new(),
            this: this.clone(),
        })
    }

    fn geometry(&self) -> &Geometry {
        self.home.geometry()
    }

    /// Allocatable fragments for a caller that may use the reserve, those of the kept blocks
    /// included.
    pub(crate) fn free_space(&self) -> i64 {
        let per_block = self.geometry().fragments_per_block as i64;
        (self.free_blocks.get() - self.reserved_blocks.get()) * per_block
            + self.free_fragments.get()
    }

    /// Fragments reserved for the superuser, including those that no caller may use.
    pub(crate) fn reserve(&self) -> i64 {
        let kept = (self.geometry().data_size * self.geometry().reserve_percent / 100) as i64;
        kept.max(self.kept()) + i64::from(is_planted(Bug::EarlyRefusals))
            - i64::from(is_planted(Bug::SmallReserve))
    }

    /// Fragments and inodes that statfs counts as free, but that become allocatable only in a
    /// moment.
    pub(crate) fn leaving(&self) -> (i64, i64) {
        (self.leaving_fragments.get(), self.leaving_inodes.get())
    }

    fn count_leaving(&self, run: Run, sign: i64) {
        match run {
            Run::Fragments { count, .. } => {
                self.leaving_fragments.set(self.leaving_fragments.get() + sign * count as i64);
            }
            Run::Inode { .. } => self.leaving_inodes.set(self.leaving_inodes.get() + sign),
        }
    }

    /// Allocatable inodes.
    pub(crate) fn free_inodes(&self) -> i64 {
        self.free_inodes.get()
    }

    /// Reserves whole blocks for UNSTABLE data.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there are too few.
    pub(crate) fn reserve_blocks(&self, blocks: u64, privileged: bool) -> Result<(), FsError> {
        let blocks = blocks as i64;
        let space = blocks * self.geometry().fragments_per_block as i64;
        let kept = if privileged { self.kept() } else { self.reserve() };
        let whole = self.free_blocks.get() - self.reserved_blocks.get() - self.kept_blocks();
        if blocks > 0 && (whole < blocks || self.free_space() - space < kept) {
            return Err(FsError::NoSpace);
        }
        self.reserved_blocks.set(self.reserved_blocks.get() + blocks);
        Ok(())
    }

    /// Whether there is a wholly free block that is neither reserved nor kept.
    fn has_whole_block(&self) -> bool {
        self.free_blocks.get() > self.reserved_blocks.get() + self.kept_blocks()
            || is_planted(Bug::BrokenPromises)
    }

    /// Returns the blocks reserved by [`Allocator::reserve_blocks`], used or not.
    pub(crate) fn unreserve_blocks(&self, blocks: u64) {
        self.reserved_blocks.set(self.reserved_blocks.get() - blocks as i64);
        assert!(self.reserved_blocks.get() >= 0, "no more is given back than was set aside");
    }

    /// The buffer of a group; it stays in memory from now on.
    pub(crate) async fn group_buffer(&self, group: u64) -> Result<Rc<Buffer>, FsError> {
        if let Some(buffer) = self.groups[group as usize].borrow().buffer() {
            return Ok(buffer);
        }
        let address = self.geometry().group_header_fragment(group);
        let size = self.geometry().group_block_size as usize;
        let Some(leftovers) = self.leftovers.as_ref().filter(|leftovers| leftovers.is_open())
        else {
            let buffer = self.home.load(address, size, Role::Group(group)).await?;
            self.groups[group as usize].borrow_mut().set_buffer(buffer.clone());
            return Ok(buffer);
        };
        let (buffer, is_torn) = self.home.load_group(group).await?;
        let mut known = self.groups[group as usize].borrow_mut();
        if known.buffer().is_none() {
            known.set_buffer(buffer.clone());
            buffer.read(|image| leftovers.take_in_group(group, image, is_torn));
            drop(known);
            if !is_torn || is_planted(Bug::OpenTornGroups) {
                self.count_group(group);
            } else {
                self.released.notify(); // a torn group counts after the scan
            }
        }
        Ok(buffer)
    }

    /// Adds the allocatable space of a group that was read to the totals; until then it counts for
    /// nothing (invariant 7).
    pub(crate) fn count_group(&self, group: u64) {
        let mut known = self.groups[group as usize].borrow_mut();
        known.count_all(self.geometry());
        self.free_blocks.set(self.free_blocks.get() + known.free_blocks);
        self.free_fragments.set(self.free_fragments.get() + known.free_fragments);
        self.free_inodes.set(self.free_inodes.get() + known.free_inodes);
        self.directories.set(self.directories.get() + known.directories);
        drop(known);
        self.uncounted.set(self.uncounted.get() - 1);
        self.released.notify();
    }

    /// Whether space may soon turn up without being freed: some groups have not been read.
    pub(crate) fn has_unread(&self) -> bool {
        let is_unread = |group: &Group| !group.counts && group.buffer().is_none();
        self.is_counting() && self.groups.iter().any(|group| is_unread(&group.borrow()))
    }

    /// Whether some groups have not been counted.
    pub(crate) fn is_counting(&self) -> bool {
        self.uncounted.get() > 0
    }

    /// Free fragments and inodes in groups that do not count, according to the hints.
    pub(crate) fn hinted(&self) -> (i64, i64) {
        if !self.is_counting() {
            return (0, 0);
        }
        let per_block = self.geometry().fragments_per_block as i64;
        let groups = self.groups.iter().map(|group| group.borrow());
        groups.filter(|group| !group.counts).fold((0, 0), |(fragments, inodes), group| {
            let free = group.free_blocks * per_block + group.free_fragments;
            (fragments + free, inodes + group.free_inodes)
        })
    }

    /// Plans to set the directory count of a group; returns the difference to the old count.
    ///
    /// # Errors
    /// I/O errors of reading the group.
    pub(crate) async fn correct_directories(
        &self,
        group: u64,
        there: i32,
    ) -> Result<(i32, Item), FsError> {
        let buffer = self.group_buffer(group).await?;
        let offset = offset_of!(GroupHeader, counts) + offset_of!(Summary, directories);
        let stated = buffer.read(|image| GroupHeader::of(image).counts.directories.get()) as i32;
        let change = there - stated;
        let edit = Edit::Count { offset, change };
        Ok((change, Item::unnamed(Intent::MapGivenBack, Some((buffer, edit)))))
    }

    /// Plans to give fragments back.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if they are no data fragments, or already free or about to be.
    pub(crate) async fn give_back(&self, first: u64, count: u64) -> Result<GivenBack, FsError> {
        if !self.geometry().is_data_run(first, count) {
            return Err(FsError::Corrupt);
        }
        let count = if is_planted(Bug::LeakedFragments) { (count - 1).max(1) } else { count };
        let group = self.geometry().group_of_fragment(first);
        let buffer = self.group_buffer(group).await?;
        let first = (first - self.geometry().group_base(group)) as usize;
        let count = count as usize;
        let map = self.geometry().maps.fragments.start;
        let free = |image: &[u8], bit: usize| bits::is_set(&image[map..], bit as u64);
        if buffer.read(|image| (first..first + count).any(|bit| free(image, bit))) {
            return Err(FsError::Corrupt);
        }
        if self.groups[group as usize].borrow().holds_fragments(first, count) {
            return Err(FsError::Corrupt); // invariant 5
        }
        let edit = Edit::Bits { map, first, count, value: true };
        let item = Item::unnamed(Intent::MapGivenBack, Some((buffer, edit)));
        Ok(GivenBack { item, freed: self.freed(Run::Fragments { group, first, count }) })
    }

    /// Plans to give an inode back.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if it is already free or about to be.
    pub(crate) async fn give_back_inode(&self, ino: u64) -> Result<GivenBack, FsError> {
        let group = self.geometry().group_of_inode(ino);
        let index = (ino % self.geometry().inodes_per_group) as usize;
        let buffer = self.group_buffer(group).await?;
        let map = self.geometry().maps.inodes.start;
        if !buffer.read(|image| bits::is_set(&image[map..], index as u64)) {
            return Err(FsError::Corrupt);
        }
        if self.groups[group as usize].borrow().holds_inode(index) {
            return Err(FsError::Corrupt); // invariant 5
        }
        let edit = Edit::Bits { map, first: index, count: 1, value: false };
        let item = Item::unnamed(Intent::MapGivenBack, Some((buffer, edit)));
        Ok(GivenBack { item, freed: self.freed(Run::Inode { group, index }) })
    }

    fn freed(&self, run: Run) -> Freed {
        self.hold(run);
        Freed { run, allocator: self.this.clone(), applied: Cell::new(false) }
    }

    /// An Update that frees this is about to be applied: the space stays held until it is durable.
    pub(crate) fn hold_freed(&self, freed: &Freed) {
        self.count_leaving(freed.run, 1);
        freed.applied.set(true);
    }

    /// Whether there may be a buffer with something left to write there; true for an inode.
    pub(crate) fn holds_metadata(&self, freed: &Freed) -> bool {
        match freed.run {
            Run::Inode { .. } => true,
            Run::Fragments { group, first, .. } => {
                self.home.cached(self.geometry().group_base(group) + first as u64).is_some()
            }
        }
    }

    /// First fragment and number of fragments that are freed; `None` for an inode.
    pub(crate) fn run_of(&self, freed: &Freed) -> Option<(u64, u64)> {
        match freed.run {
            Run::Fragments { group, first, count } => {
                Some((self.geometry().group_base(group) + first as u64, count as u64))
            }
            Run::Inode { .. } => None,
        }
    }

    /// The Update is durable, or has left no trace: the space that it freed becomes allocatable.
    pub(crate) fn free(&self, freed: Freed) {
        assert!(freed.applied.get(), "invariant 2: who gives it back was applied");
        if let Some((address, count)) = self.run_of(&freed) {
            self.home.forget(address, count);
        }
        self.count_leaving(freed.run, -1);
        self.release(freed.run);
    }

    /// Plans to count a directory that is made (1) or removed (-1) in the group of `ino`.
    ///
    /// # Errors
    /// I/O errors of reading the group.
    pub(crate) async fn count_in_group(&self, ino: u64, change: i32) -> Result<Item, FsError> {
        let buffer = self.group_buffer(self.geometry().group_of_inode(ino)).await?;
        let offset = offset_of!(GroupHeader, counts) + offset_of!(Summary, directories);
        let intent = if change > 0 { Intent::MapTaken } else { Intent::MapGivenBack };
        Ok(Item::unnamed(intent, Some((buffer, Edit::Count { offset, change }))))
    }

    /// Number of directories.
    pub(crate) fn directories(&self) -> u64 {
        self.directories.get().max(0) as u64
    }

    /// A directory was made (1) or removed (-1) in the group of `ino`.
    pub(crate) fn count_directory(&self, ino: u64, change: i64) {
        self.count_directory_of(self.geometry().group_of_inode(ino), change);
    }

    /// A directory was made (1) or removed (-1) in a group.
    pub(crate) fn count_directory_of(&self, group: u64, change: i64) {
        let mut group = self.groups[group as usize].borrow_mut();
        if group.counts {
            self.directories.set(self.directories.get() + change);
        }
        group.count_directory(change);
    }

    fn promise(&self, run: Run) -> Promise {
        self.hold(run);
        Promise { run, allocator: self.this.clone(), kept: Cell::new(false) }
    }

    /// Makes a run unallocatable without touching the map. A run that the map has as used may be
    /// held too: it is about to be freed.
    fn hold(&self, run: Run) {
        self.change_held(run, true);
    }

    /// The reverse of [`Allocator::hold`].
    fn release(&self, run: Run) {
        self.change_held(run, false);
        self.released.notify();
    }

    /// A promise was applied: the map has it as used now, so nothing needs to be held.
    fn settle_promise(&self, run: Run) {
        self.change_held(run, false);
    }

    fn change_held(&self, run: Run, held: bool) {
        let geometry = self.geometry();
        let (Run::Fragments { group, .. } | Run::Inode { group, .. }) = run;
        debug_assert!(
            self.groups[group as usize].borrow().buffer().is_some(),
            "invariant 4: a group of which something is held is here"
        );
        match run {
            Run::Fragments { group, first, count } => {
                let mut group = self.groups[group as usize].borrow_mut();
                let (blocks, fragments) = group.hold_fragments(geometry, first, count, held);
                let (blocks, fragments) = if group.counts { (blocks, fragments) } else { (0, 0) };
                self.free_blocks.set(self.free_blocks.get() + blocks);
                self.free_fragments.set(self.free_fragments.get() + fragments);
            }
            Run::Inode { group, index } => {
                let mut group = self.groups[group as usize].borrow_mut();
                let change = group.hold_inode(geometry, index, held);
                let change = if group.counts { change } else { 0 };
                self.free_inodes.set(self.free_inodes.get() + change);
            }
        }
    }
}
