//! The number of meaningful inodes in every group.
//!
//! A group's header states it, and its inode map confirms it: nothing behind the limit is used.
//! Where the header is invalid, or the two contradict each other, the inode table decides: the
//! limit is behind the last block in which an inode is perfectly plausible.

use futures::stream::{self, StreamExt};
use ufs2::derive::bits;
use ufs2::layout::{Dinode, GROUP_MAGIC, Geometry, GroupHeader, INODE_SIZE, ROOT_INODE};

use super::Severity::Repairable;
use super::blocks::READS_IN_FLIGHT;
use super::{CheckError, Checker, Invariant, Phase, Place, fields};

/// The statements of a group block about its inodes.
struct Stated {
    /// Whether it is a group block at all.
    header: bool,
    /// Number of initialised inodes.
    initialised: u64,
    /// Inodes up to the last one that the map has used.
    used: u64,
    /// The inode map; empty when this is no group's block.
    map: Vec<u8>,
}

fn stated(geometry: &Geometry, group: u64, block: &[u8]) -> Stated {
    let header = GroupHeader::of(block);
    let map = geometry.maps.inodes_in(block);
    let last = (0..geometry.inodes_per_group).rev().find(|&index| bits::is_set(map, index));
    let own = header.magic.get() == GROUP_MAGIC && u64::from(header.index.get()) == group;
    Stated {
        header: own,
        map: if own { map.to_vec() } else { Vec::new() },
        initialised: header.initialized_inodes.get().into(),
        used: last.map_or(0, |last| last + 1),
    }
}

impl Checker<'_> {
    pub(super) async fn read_groups(&mut self) -> Result<(), CheckError> {
        let count = self.geometry.group_count;
        for first in (0..count).step_by(READS_IN_FLIGHT) {
            let groups = first..(first + READS_IN_FLIGHT as u64).min(count);
            let reads = stream::iter(groups.clone()).map(|group| self.read_group(group));
            let blocks: Vec<_> = reads.buffered(READS_IN_FLIGHT).collect().await;
            for (group, block) in groups.zip(blocks) {
                let mut block = block?;
                self.note_unreadable_group(group);
                self.mend_group_bit(group, &mut block).await?;
                let stated = stated(&self.geometry, group, &block);
                let initialised = self.judge_initialised(group, &stated).await?;
                self.initialised.push(initialised);
                self.stated_maps.push(stated.map);
                self.tell(Phase::Groups, group + 1, count);
            }
        }
        Ok(())
    }

    /// Whether the header of its group is gone, so that the inodes there may belong to an earlier
    /// file system.
    pub(super) fn may_be_stale(&self, ino: u64) -> bool {
        self.stated_maps[self.geometry.group_of_inode(ino) as usize].is_empty()
    }

    pub(super) fn note_unreadable_group(&mut self, group: u64) {
        let bytes = self.geometry.group_block_size as usize;
        let block = (self.geometry.group_header_fragment(group), bytes);
        self.note_unreadable(block, Repairable, |_| Place::group(group));
    }

    /// Whether the map of its group, as it was found, has an inode used.
    pub(super) fn is_stated(&self, ino: u64) -> bool {
        let map = &self.stated_maps[self.geometry.group_of_inode(ino) as usize];
        !map.is_empty() && bits::is_set(map, ino % self.geometry.inodes_per_group)
    }

    /// Reads a group block.
    pub(super) async fn read_group(&self, group: u64) -> Result<block::Buffer, CheckError> {
        let byte = self.geometry.byte_address(self.geometry.group_header_fragment(group));
        let mut block = self.disk.read(byte, self.geometry.group_block_size as usize).await?;
        self.geometry.turn_group(&mut block);
        Ok(block)
    }

    async fn judge_initialised(&mut self, group: u64, stated: &Stated) -> Result<u64, CheckError> {
        let whole = stated.initialised <= self.geometry.inodes_per_group
            && stated.initialised.is_multiple_of(self.geometry.inodes_per_block)
            && (group > 0 || stated.initialised > ROOT_INODE);
        if stated.header && whole && stated.used <= stated.initialised {
            return Ok(stated.initialised);
        }
        let mut limit = self.probe(group).await?;
        if stated.header && whole {
            // The map goes too far, or the limit not far enough.
            limit = limit.max(stated.initialised);
            if limit == stated.initialised {
                return Ok(limit);
            }
        }
        let place = Place::group(group).named("cg_initediblk");
        let found = stated.initialised;
        let repair = "set";
        let invariant = Invariant::GroupInitialized;
        if self.log.find(invariant, Repairable, place, found, limit, repair) {
            return Ok(limit);
        }
        Ok(if whole { stated.initialised } else { limit })
    }

    /// The inodes of a group up to the last block in which one is perfectly plausible.
    async fn probe(&self, group: u64) -> Result<u64, CheckError> {
        let geometry = &self.geometry;
        let per_block = geometry.inodes_per_block;
        let blocks = geometry.inodes_per_group / per_block;
        let table = geometry.inode_table_fragment(group);
        let mut limit = if group == 0 { per_block } else { 0 };
        let reads = stream::iter(0..blocks).map(|index| async move {
            let fragment = table + index * geometry.fragments_per_block;
            let byte = geometry.byte_address(fragment);
            let mut block = self.disk.read(byte, geometry.block_size as usize).await?;
            geometry.turn_inodes(&mut block);
            let sensible = (0..per_block).any(|inode| {
                let dinode = Dinode::at(&block, (inode * INODE_SIZE) as usize);
                !dinode.is_free() && fields::implausible(geometry, dinode) == 0
            });
            Ok::<_, CheckError>((index, sensible))
        });
        let mut reads = reads.buffered(READS_IN_FLIGHT);
        while let Some(read) = reads.next().await {
            let (index, sensible) = read?;
            if sensible {
                limit = (index + 1) * per_block;
            }
        }
        Ok(limit)
    }
}
