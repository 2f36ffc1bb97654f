//! Finding inodes: directories apart from each other, files near their directory.

use std::time::Duration;

use runtime::Instant;
use ufs2::layout::{GroupHeader, ROOT_INODE};
use vfs::FsError;

use super::group::Group;
use super::{Allocator, Run, Taken};
use crate::edit::Edit;
use crate::item::{Intent, Item};

/// Result of a search for an inode.
pub(crate) enum FoundInode {
    /// An inode was promised.
    Promised(Taken),
    /// The next block of inodes of this group has to be initialised first.
    Uninitialised(u64),
}

/// Maximum number of inode blocks that are initialised at once.
const MOST_AHEAD: u64 = 16;
/// An initialisation older than this means that inodes are taken slowly.
const LONG_AGO: Duration = Duration::from_secs(10);

impl Allocator {
    /// Promises an inode near `parent`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there is none; I/O errors of reading a group.
    pub(crate) async fn take_inode(
        &self,
        parent: u64,
        is_directory: bool,
    ) -> Result<FoundInode, FsError> {
        let geometry = self.geometry();
        let home = if is_directory {
            self.group_for_directory(parent)
        } else {
            geometry.group_of_inode(parent)
        };
        for step in 0..geometry.group_count {
            let group = (home + step) % geometry.group_count;
            let is_known_full = |group: &Group| group.counts && group.free_inodes <= 0;
            if is_known_full(&self.groups[group as usize].borrow()) {
                continue;
            }
            let buffer = self.group_buffer(group).await?;
            if !self.groups[group as usize].borrow().counts {
                continue; // torn (invariant 7)
            }
            let Some(index) = self.find_inode(group) else { continue };
            let initialised = buffer.read(|image| GroupHeader::of(image).initialized_inodes.get());
            if self.needs_inodes(group, initialised.into()) {
                return Ok(FoundInode::Uninitialised(group));
            }
            let map = geometry.maps.inodes.start;
            let edit = Edit::Bits { map, first: index, count: 1, value: true };
            let item = Item::unnamed(Intent::MapTaken, Some((buffer, edit)));
            let place = group * geometry.inodes_per_group + index as u64;
            let promise = self.promise(Run::Inode { group, index });
            return Ok(FoundInode::Promised(Taken { place, promise, item }));
        }
        Err(FsError::NoSpace)
    }

    /// The next allocatable inode of a loaded group.
    fn find_inode(&self, group: u64) -> Option<usize> {
        let geometry = self.geometry();
        let mut group = self.groups[group as usize].borrow_mut();
        let count = geometry.inodes_per_group as usize;
        let start = group.inode_rotor.min(count - 1);
        let found =
            (start..count).chain(0..start).find(|&index| group.is_inode_free(geometry, index))?;
        group.inode_rotor = found;
        Some(found)
    }

    /// Whether the next inode of a loaded group lies in the last initialised blocks, or behind
    /// them.
    pub(crate) fn needs_inodes(&self, group: u64, initialised: u64) -> bool {
        let geometry = self.geometry();
        let next = self.find_inode(group).map_or(0, |index| index as u64);
        let ahead = self.groups[group as usize].borrow().inode_blocks_ahead;
        let ahead = ahead * geometry.inodes_per_block;
        next + ahead > initialised && initialised < geometry.inodes_per_group
    }

    /// Number of inode blocks of a loaded group to initialise together now, and to keep ahead of
    /// the next inode from then on. More if the last ones `were_late`, needed before they were
    /// durable; fewer if that was long ago.
    pub(crate) fn inode_blocks_at_once(&self, group: u64, were_late: bool, now: Instant) -> u64 {
        let mut group = self.groups[group as usize].borrow_mut();
        let before = group.inode_blocks_ahead;
        if were_late {
            group.inode_blocks_ahead = MOST_AHEAD.min(before * 2);
        } else if now.since(group.initialised_at) > LONG_AGO {
            group.inode_blocks_ahead = 1.max(before / 2);
        }
        group.initialised_at = now;
        group.inode_blocks_ahead
    }

    /// Directories below the root go where there are few. All others go near their parent as long
    /// as its group has its share of inodes and blocks left and not too many directories.
    fn group_for_directory(&self, parent: u64) -> u64 {
        let geometry = self.geometry();
        let count = geometry.group_count;
        let inodes = self.free_inodes.get() / count as i64;
        let blocks = self.free_blocks.get() / count as i64;
        let home = geometry.group_of_inode(parent);
        let order = || (0..count).map(|step| (home + step) % count);
        let group = |index: u64| self.groups[index as usize].borrow();
        if parent == ROOT_INODE {
            return order()
                .filter(|&index| {
                    group(index).free_inodes >= inodes && group(index).free_blocks >= blocks
                })
                .min_by_key(|&index| group(index).directories)
                .unwrap_or(home);
        }
        let most = self.directories.get() / count as i64 + geometry.inodes_per_group as i64 / 16;
        order()
            .find(|&index| {
                let group = group(index);
                group.free_inodes > inodes / 2
                    && group.free_blocks > blocks / 2
                    && group.directories < most.max(1)
            })
            .unwrap_or(home)
    }
}
