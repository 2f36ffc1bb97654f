//! The paper's FFS: blocks of 8 KB and inodes, written in place and synchronously.
//!
//! Consecutive blocks of a file are one block apart on the disk, so that the next one passes the
//! head when it is in the controller. Files and inodes are at random places, as in the paper's
//! calculation; on several disks a file's blocks are striped.

use std::time::Duration;

use futures::future::join_all;
use sim::Prng;

use super::disks::Disks;
use super::inputs::Inputs;

/// Bytes of a block.
pub(super) const BYTES: u64 = 8192;
/// Sectors of a block.
const BLOCK: u64 = 16;
/// Sectors from a block of a file to the next one on the same disk.
const STRIDE: u64 = 2 * BLOCK;

/// The server.
pub(super) struct Fast {
    disks: Disks,
    prng: Prng,
}

impl Fast {
    /// A server with these disks.
    pub(super) fn new(seed: u64, disks: Disks) -> Self {
        Self { disks, prng: Prng::new(seed) }
    }

    /// A random place with room for this many sectors.
    fn anywhere(&mut self, sectors: u64) -> (usize, u64) {
        let all = self.disks.layout.0.sectors();
        (self.prng.index(self.disks.count()), self.prng.below(all - sectors))
    }

    /// Mean time, over `times` runs, in which this many daemons append a block each: all data, and
    /// then one inode.
    pub(super) fn append(&mut self, daemons: u64, times: u32) -> Duration {
        self.mean(times, |this| {
            let (disk, first) = this.anywhere(daemons * STRIDE);
            let (disks, count) = (&this.disks, this.disks.count());
            let block = |number: u64| {
                let disk = (disk + number as usize) % count;
                disks.write_sectors(disk, first + number / count as u64 * STRIDE, BLOCK)
            };
            disks.run(join_all((0..daemons).map(block)));
            this.sector();
        })
    }

    /// Mean time of an NFS call that appends a block: the network transfer, and then writes of
    /// data, pointer block and inode, one after the other.
    pub(super) fn nfs(&mut self, inputs: &Inputs, times: u32) -> Duration {
        let call = Duration::from_nanos(BYTES * inputs.wire_ns_per_byte) + inputs.nfs_call;
        self.mean(times, |this| {
            let (disk, first) = this.anywhere(BLOCK);
            this.disks.run(this.disks.sleep(call));
            this.disks.run(this.disks.write_sectors(disk, first, BLOCK));
            let (disk, pointers) = this.anywhere(BLOCK);
            this.disks.run(this.disks.write_sectors(disk, pointers, BLOCK));
            this.sector();
        })
    }

    /// "Only the single sector containing the modified inode".
    fn sector(&mut self) {
        let (disk, inode) = self.anywhere(1);
        self.disks.run(self.disks.write_sectors(disk, inode, 1));
    }

    /// Mean time of an operation. Each begins at a random angle of the disk.
    fn mean(&mut self, times: u32, operation: impl Fn(&mut Self)) -> Duration {
        let mut taken_ns = 0;
        for _ in 0..times {
            let pause = Duration::from_nanos(self.prng.below(self.disks.layout.0.rotation_ns));
            self.disks.run(self.disks.sleep(pause));
            let begun_ns = self.disks.now_ns();
            operation(self);
            taken_ns += self.disks.now_ns() - begun_ns;
        }
        Duration::from_nanos(taken_ns) / times
    }
}
