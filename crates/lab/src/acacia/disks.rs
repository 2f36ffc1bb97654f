//! The disks of an experiment, and the host's knowledge of their geometry.

use std::rc::Rc;
use std::time::Duration;

use block::platters::Platters;
use block::{BlockDevice, Buffer, Durability};
use bytes::Bytes;
use sim::{Disk, Executor, Image, Mechanical, Options, SECTOR_SIZE, Timing};

/// A block of a file system, in bytes.
pub(super) const BLOCK: u64 = 4096;
const SECTORS: u64 = BLOCK / SECTOR_SIZE as u64;

/// Locations of a disk's blocks, and transfer times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout(pub(super) Platters);

impl Layout {
    /// Whole blocks on a track.
    pub(super) fn track_blocks(&self) -> u64 {
        u64::from(self.0.zones[0].sectors_per_track) / SECTORS
    }

    /// Blocks of a cylinder.
    pub(super) fn cylinder_blocks(&self) -> u64 {
        self.track_blocks() * self.0.heads
    }

    /// Cylinders of the disk.
    pub(super) fn cylinders(&self) -> u64 {
        self.0.cylinders()
    }

    /// Time within a rotation at which a block begins to pass the head.
    pub(super) fn angle_ns(&self, block: u64) -> u64 {
        self.0.angle_ns(&self.0.place(block * SECTORS))
    }

    /// Time for blocks of one track to pass the head.
    pub(super) fn pass_ns(&self, blocks: u64) -> u64 {
        blocks * self.0.rotation_ns / self.track_blocks()
    }

    /// Time for blocks to be transferred to the controller.
    pub(super) fn transfer_ns(&self, blocks: u64) -> u64 {
        self.0.transfer_ns(blocks * BLOCK)
    }
}

/// Disks of one kind, in a simulation of their own.
pub(super) struct Disks {
    executor: Executor,
    disks: Vec<Rc<Disk>>,
    pub(super) layout: Layout,
}

impl Disks {
    /// This many empty disks of a kind.
    pub(super) fn new(seed: u64, spec: Mechanical, count: usize) -> Self {
        let executor = Executor::new(seed);
        let options = Options { timing: Timing::Mechanical(spec), ..Options::default() };
        let disk = || Disk::with_options(&executor, Image::zeroed(spec.capacity()), options);
        let disks = std::iter::repeat_with(disk).take(count).collect();
        Self { executor, disks, layout: Layout(spec.platters()) }
    }

    /// Number of disks.
    pub(super) fn count(&self) -> usize {
        self.disks.len()
    }

    /// Current time, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.executor.now().0
    }

    /// Runs everything until `future` is done.
    pub(super) fn run<F: Future>(&self, future: F) -> F::Output {
        self.executor.block_on(future)
    }

    /// Lets time pass.
    pub(super) async fn sleep(&self, time: Duration) {
        self.executor.runtime().clock.sleep(time).await;
    }

    /// Writes blocks, and waits until they are on the platters.
    pub(super) async fn write(&self, disk: usize, first: u64, blocks: u64) {
        self.write_sectors(disk, first * SECTORS, blocks * SECTORS).await;
    }

    /// Writes sectors, and waits until they are on the platters.
    pub(super) async fn write_sectors(&self, disk: usize, first: u64, sectors: u64) {
        let data = vec![Bytes::from(vec![0; sectors as usize * SECTOR_SIZE])];
        let offset = first * SECTOR_SIZE as u64;
        let written = self.disks[disk].write(offset, data, Durability::Through).await;
        written.expect("the disks of a model do not fail");
    }

    /// Reads blocks.
    pub(super) async fn read(&self, disk: usize, first: u64, blocks: u64) {
        let buffer = Buffer::zeroed((blocks * BLOCK) as usize);
        let read = self.disks[disk].read(first * BLOCK, buffer).await;
        read.expect("the disks of a model do not fail");
    }
}
