//! Writing the maps of every group anew where they differ, and the summary area.

use block::{Buffer, Durability};
use runtime::Timestamp;
use vfs::FileKind;

use super::files::reserved_inodes;
use super::{Phase, Rebuild};
use crate::OpenError;
use crate::derive::{self, bits};
use crate::home::seal_group;
use crate::layout::{GroupHeader, Summary};

impl Rebuild<'_> {
    pub(super) async fn write_maps(&mut self, now: Timestamp) -> Result<(), OpenError> {
        let geometry = self.geometry;
        let size = (geometry.summary_fragments * geometry.fragment_size) as usize;
        let mut area = vec![0; size];
        for group in 0..geometry.group_count {
            let row = self.write_group(group, now).await?;
            Summary::rows_mut(&mut area)[group as usize] = row;
            self.tell(Phase::Maps, group + 1, geometry.group_count);
        }
        let address = geometry.byte_address(geometry.summary_address);
        let area = Buffer::copied(&area).freeze();
        self.device.write(address, vec![area], Durability::Plain).await?;
        Ok(())
    }

    /// One group; gives back its counts.
    async fn write_group(&mut self, group: u64, now: Timestamp) -> Result<Summary, OpenError> {
        let geometry = self.geometry;
        let address = geometry.group_header_fragment(group);
        let size = geometry.group_block_size as usize;
        let old = self.read(address, size).await?;
        let mut new = vec![0; size];
        derive::initialize_group(geometry, group, &mut new);
        self.fill_header(group, &old, &mut new);
        self.fill_maps(group, &mut new);
        let row = derive::recompute_group(geometry, group, &mut new);
        let whole = geometry.verify_group(&old).is_ok();
        let time = GroupHeader::of(&old).time;
        let old_time = GroupHeader::of(&old).old_time;
        GroupHeader::of_mut(&mut new).time = time;
        GroupHeader::of_mut(&mut new).old_time = old_time;
        geometry.seal_group(&mut new);
        if old != new || !whole {
            seal_group(geometry, group, &mut new, now.seconds);
            let byte = geometry.byte_address(address);
            let data = Buffer::copied(&new).freeze();
            self.device.write(byte, vec![data], Durability::Plain).await?;
            self.report.groups += 1;
        }
        Ok(row)
    }

    /// What does not follow from files: hints as they were, if they make sense.
    fn fill_header(&self, group: u64, old: &[u8], new: &mut [u8]) {
        let geometry = self.geometry;
        let fragments = geometry.group_size_fragments(group);
        let (old, new) = (GroupHeader::of(old), GroupHeader::of_mut(new));
        new.initialized_inodes.set(self.initialised[group as usize] as u32);
        if u64::from(old.block_rotor.get()) < fragments {
            new.block_rotor = old.block_rotor;
        }
        if u64::from(old.fragment_rotor.get()) < fragments {
            new.fragment_rotor = old.fragment_rotor;
        }
        if u64::from(old.inode_rotor.get()) < geometry.inodes_per_group {
            new.inode_rotor = old.inode_rotor;
        }
    }

    fn fill_maps(&self, group: u64, block: &mut [u8]) {
        let geometry = self.geometry;
        let first = group * geometry.inodes_per_group;
        let map = geometry.maps.inodes_in_mut(block);
        reserved_inodes(group).for_each(|index| bits::set(map, index));
        let mut directories = 0;
        for (&ino, found) in self.inodes.range(first..first + geometry.inodes_per_group) {
            bits::set(map, ino - first);
            directories += i32::from(found.kind == FileKind::Directory);
        }
        let base = geometry.group_base(group);
        let map = geometry.maps.fragments_in_mut(block);
        for offset in 0..geometry.group_size_fragments(group) {
            if bits::is_set(&self.held, base + offset) {
                bits::clear(map, offset);
            }
        }
        GroupHeader::of_mut(block).counts.directories.set(directories);
    }
}
