//! Reading every initialised inode.

use super::{Found, Phase, Rebuild, damaged};
use crate::OpenError;
use crate::layout::{Dinode, GROUP_MAGIC, GroupHeader, INODE_SIZE, ROOT_INODE};

impl Rebuild<'_> {
    pub(super) async fn read_inodes(&mut self) -> Result<(), OpenError> {
        for group in 0..self.geometry.group_count {
            let initialised = self.initialised_inodes(group).await?;
            self.initialised.push(initialised);
            for first in (0..initialised).step_by(self.geometry.inodes_per_block as usize) {
                self.read_inode_block(group * self.geometry.inodes_per_group + first).await?;
            }
            self.tell(Phase::Inodes, group + 1, self.geometry.group_count);
        }
        Ok(())
    }

    /// From the group's header. Its sector is written at once, so it is never torn; the maps behind
    /// it may be, and are not looked at.
    async fn initialised_inodes(&self, group: u64) -> Result<u64, OpenError> {
        let address = self.geometry.group_header_fragment(group);
        let block = self.read(address, self.geometry.group_block_size as usize).await?;
        let header = GroupHeader::of(&block);
        let initialised = u64::from(header.initialized_inodes.get());
        let sane = header.magic.get() == GROUP_MAGIC
            && u64::from(header.index.get()) == group
            && initialised <= self.geometry.inodes_per_group
            && initialised.is_multiple_of(self.geometry.inodes_per_block);
        if sane { Ok(initialised) } else { Err(damaged(format!("group {group} has no header"))) }
    }

    async fn read_inode_block(&mut self, first: u64) -> Result<(), OpenError> {
        let address = self.geometry.inode_position(first).fragment;
        let block = self.read(address, self.geometry.block_size as usize).await?;
        for index in 0..self.geometry.inodes_per_block {
            let ino = first + index;
            let dinode = Dinode::at(&block, (index * INODE_SIZE) as usize);
            if dinode.is_free() || ino < ROOT_INODE {
                continue;
            }
            let kind = dinode.kind().filter(|_| self.geometry.verify_inode(dinode).is_ok());
            let kind = kind.ok_or_else(|| damaged(format!("inode {ino} is none")))?;
            self.inodes.insert(ino, Found { kind, names: 0, reached: false });
        }
        Ok(())
    }
}
