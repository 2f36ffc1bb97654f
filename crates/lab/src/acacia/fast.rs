//! The paper's FFS: blocks of 8 KB and inodes, each at its place, all of them waited for.
//!
//! A file's blocks stand a block apart from each other, such that the next comes round when it is
//! in the controller. Files and inodes are anywhere, as in the paper's arithmetic; on several disks
//! a file's blocks go round.

use std::time::Duration;

use futures::future::join_all;
use sim::Prng;

use super::disks::Disks;
use super::inputs::Inputs;

/// Bytes of a block.
pub(super) const BYTES: u64 = 8192;
/// Sectors of a block.
const BLOCK: u64 = 16;
/// From a block of a file to the next on a disk, in sectors.
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

    /// A place with room for so many sectors.
    fn anywhere(&mut self, sectors: u64) -> (usize, u64) {
        let all = self.disks.layout.0.sectors();
        (self.prng.index(self.disks.count()), self.prng.below(all - sectors))
    }

    /// The mean time in which so many daemons append a block each, over so many times: all of the
    /// data, and then one inode.
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

    /// The mean time of a call of NFS that appends a block: it goes over the wire, and data, block
    /// of pointers and inode are written one after the other.
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

    /// The mean time of an operation. Each begins at an angle of its own.
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
