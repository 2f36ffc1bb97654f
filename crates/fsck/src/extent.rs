//! The length of a file whose size and pointers contradict each other.
//!
//! Blocks behind the end of a file show that either the size is wrong or the pointers are. There
//! are three witnesses: the size, the pointers, and the inode's count of sectors. Where the count
//! is that of all pointers, the size is wrong, and becomes one that fits them: the one that differs
//! in a single bit, or else the largest, so that no byte is cut off. Where the count fits the size,
//! or neither, the pointers are cleared.
//!
//! None of this applies to an inode that fits its check hash: it is as it was written, and blocks
//! behind its end were left by a truncation or an extension at a crash. Without hashes the same
//! holds on a disk after a crash.
//!
//! A suspect file is measured when all inodes were read, and the round begins again with the size
//! that it has then: blocks are claimed only by a size that is believed.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ufs2::layout::{
    DIRECT_BLOCKS, DIRECT_POINTERS, Dinode, Geometry, INDIRECT_POINTERS, POINTER_SIZE, SECTOR_SIZE,
};
use ufs2::map::{block_count, run_length};
use vfs::FileKind;

use super::Severity::Repairable;
use super::blocks::Walk;
use super::fields::{blocks_of, is_hole, largest};
use super::{CheckError, Checker, Invariant, Place};

/// The blocks that the pointers of a file lead to, whatever its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    /// Blocks of data.
    data: u64,
    /// Indirect blocks.
    indirect: u64,
    /// The last block of data by its number in the file, and its first fragment.
    last: Option<(u64, u64)>,
}

/// The sizes that fit the pointers of a file and its count of sectors; nothing where those two
/// contradict each other.
fn sizes(geometry: &Geometry, dinode: &Dinode, extent: &Extent) -> Option<RangeInclusive<u64>> {
    let (last, address) = extent.last?;
    let (unit, block) = (geometry.fragment_size, geometry.fragments_per_block);
    let bytes = dinode.sectors.get().checked_mul(SECTOR_SIZE)?;
    let held = bytes.is_multiple_of(unit).then_some(bytes / unit)?;
    let size = dinode.attribute_size.get().into();
    let attributes: u64 =
        (0..block_count(geometry, size)).map(|lbn| run_length(geometry, size, lbn)).sum();
    let others = (extent.data - 1 + extent.indirect) * block + attributes;
    let run = held.checked_sub(others)?;
    let start = last * geometry.block_size;
    if last >= DIRECT_BLOCKS {
        return (run == block).then(|| start + 1..=start + geometry.block_size);
    }
    let room = block - address % block;
    let fits = extent.indirect == 0 && (1..=room).contains(&run);
    fits.then(|| start + (run - 1) * unit + 1..=start + run * unit)
}

/// The size that a file should have; nothing where its own may be right, or another field is wrong.
/// `stated` is the size on the disk.
fn right_size(geometry: &Geometry, dinode: &Dinode, extent: &Extent, stated: u64) -> Option<u64> {
    let kind = dinode.kind()?;
    let sizes = sizes(geometry, dinode, extent)?;
    let size = dinode.size.get();
    // A file that ends in a hole in front of its trees is legal.
    let ends_in_hole = kind == FileKind::Regular
        && sizes.end().is_multiple_of(geometry.block_size)
        && (*sizes.end()..=DIRECT_BLOCKS * geometry.block_size).contains(&size);
    let may_be_right = sizes.contains(&size) || ends_in_hole;
    if may_be_right && stated == size {
        return None;
    }
    let step = if kind == FileKind::Directory { 512 } else { 1 };
    let fits = |size: &u64| sizes.contains(size) && size.is_multiple_of(step);
    let mut near = (0..u64::BITS).map(|bit| stated ^ 1 << bit).filter(fits);
    let (first, second) = (near.next(), near.next());
    let one = first.filter(|_| second.is_none());
    match one {
        Some(one) => (one != size).then_some(one),
        None if may_be_right => None,
        None => Some((*sizes.end()).min(largest(geometry, kind))),
    }
}

impl Checker<'_> {
    /// Whether the size of a file may be wrong, and has not been measured yet.
    pub(super) fn may_have_wrong_size(&self, ino: u64) -> bool {
        let is_sealed = self.geometry.inode_hashes && !self.unsealed.contains(&ino);
        let is_as_cut = !self.geometry.inode_hashes && self.was_cut;
        let is_asked = self.stated_sizes.contains_key(&ino) || !is_sealed && !is_as_cut;
        self.thorough && is_asked && !self.sized.contains(&ino)
    }

    /// Whether a file has to be measured before its blocks have any consequence.
    pub(super) fn is_suspect(&self, walk: &Walk) -> bool {
        let dinode = &walk.dinode;
        let kind = dinode.kind();
        if !matches!(kind, Some(FileKind::Regular | FileKind::Directory))
            || !walk.complete
            || !self.may_have_wrong_size(walk.ino)
        {
            return false;
        }
        let count = blocks_of(&self.geometry, dinode);
        let is_long = kind == Some(FileKind::Directory) || count > DIRECT_BLOCKS;
        let ends_early = is_long && walk.last.map_or(0, |last| last + 1) < count;
        let sectors = walk.held * self.geometry.fragment_size / SECTOR_SIZE;
        let is_contradicted =
            self.behind_end.contains(&walk.ino) || ends_early || dinode.sectors.get() != sectors;
        is_contradicted || self.stated_sizes.contains_key(&walk.ino)
    }

    /// Measures the suspect files, and corrects wrong sizes. Returns whether there were any: then
    /// the round has to begin again.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn settle_sizes(&mut self) -> Result<bool, CheckError> {
        let suspects = std::mem::take(&mut self.suspects);
        self.begins_again |= !suspects.is_empty();
        for &ino in &suspects {
            self.sized.insert(ino);
            let mut dinode = self.read_inode(ino).await?;
            let extent = self.measure(&dinode).await?;
            let size = dinode.size.get();
            let stated = self.stated_sizes.get(&ino).copied().unwrap_or(size);
            let Some(right) = right_size(&self.geometry, &dinode, &extent, stated) else {
                continue;
            };
            let place = Place::inode(ino).named("di_size");
            let repair = "set to what its blocks and their count say";
            if self.log.find(Invariant::InodeSize, Repairable, place, stated, right, repair) {
                dinode.size.set(right);
                self.put_inode(ino, &mut dinode).await?;
            }
        }
        Ok(!suspects.is_empty())
    }

    /// Follows all pointers of a file, each indirect block once.
    async fn measure(&self, dinode: &Dinode) -> Result<Extent, CheckError> {
        let geometry = &self.geometry;
        let (run, fan) = (geometry.fragments_per_block, geometry.pointers_per_indirect);
        let mut extent = Extent::default();
        let data = |extent: &mut Extent, lbn: u64, address: u64| {
            extent.data += 1;
            extent.last = extent.last.max(Some((lbn, address)));
        };
        for (lbn, address) in dinode.direct.iter().enumerate() {
            let address = address.get() as u64;
            if !is_hole(dinode, address) && geometry.is_data_run(address, 1) {
                data(&mut extent, lbn as u64, address);
            }
        }
        // Sixteen bytes for each indirect block, which maps 2 MiB of the file at least.
        let mut entered = BTreeSet::new();
        let mut first = DIRECT_POINTERS as u64;
        let mut open = Vec::new();
        for tree in 0..INDIRECT_POINTERS {
            let span = fan.pow(tree as u32);
            let address = dinode.indirect[tree].get() as u64;
            if !is_hole(dinode, address) && geometry.is_data_run(address, run) {
                open.push((address, first, span));
            }
            first += span * fan;
        }
        while let Some((address, first, span)) = open.pop() {
            if !entered.insert(address) {
                continue;
            }
            extent.indirect += 1;
            let byte = geometry.byte_address(address);
            let mut image = self.disk.read(byte, geometry.block_size as usize).await?;
            geometry.turn_indirect(&mut image);
            for (index, bytes) in image.chunks_exact(POINTER_SIZE).enumerate() {
                let address = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                let lbn = first + index as u64 * span;
                if is_hole(dinode, address) || !geometry.is_data_run(address, run) {
                    continue;
                }
                if span == 1 {
                    data(&mut extent, lbn, address);
                } else {
                    open.push((address, lbn, span / fan));
                }
            }
        }
        Ok(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ufs2::mkfs::{MkfsOptions, plan};

    /// Blocks of 8 fragments of 512 bytes.
    fn geometry() -> Geometry {
        let options =
            MkfsOptions { block_size: 4096, fragment_size: 512, ..MkfsOptions::default() };
        plan(64 << 20, 512, &options).expect("it fits").geometry
    }

    /// The corrected size, where a file has this many blocks, and counts this many fragments.
    fn right(
        (kind, size): (FileKind, u64),
        fragments: u64,
        (data, indirect, last): (u64, u64, u64),
    ) -> Option<u64> {
        let mut dinode = Dinode::zeroed();
        dinode.mode.set(ufs2::layout::mode_of(kind, 0o644));
        dinode.size.set(size);
        dinode.sectors.set(fragments);
        let extent = Extent { data, indirect, last: Some((last, 8000)) };
        right_size(&geometry(), &dinode, &extent, size)
    }

    #[test]
    fn the_count_of_sectors_decides_between_size_and_pointers() {
        let regular = |size| (FileKind::Regular, size);
        // Three blocks, of which the last holds two fragments.
        assert_eq!(right(regular(9000), 18, (3, 0, 2)), None);
        assert_eq!(right(regular(9000 - 8192), 18, (3, 0, 2)), Some(9000), "one bit");
        assert_eq!(right(regular(9000 | 1 << 40), 18, (3, 0, 2)), Some(9000));
        assert_eq!(right(regular(1), 18, (3, 0, 2)), Some(9216), "more than one bit");
        assert_eq!(right(regular(5000), 10, (3, 0, 2)), None, "the pointers are wrong");
        assert_eq!(right(regular(5000), 77, (3, 0, 2)), None, "nobody knows");
    }

    #[test]
    fn a_file_may_end_in_a_hole_before_its_trees_and_a_directory_may_not() {
        assert_eq!(right((FileKind::Regular, 5 * 4096 + 7), 16, (2, 0, 1)), None);
        assert_eq!(right((FileKind::Regular, 12 * 4096), 16, (2, 0, 1)), None);
        assert_eq!(right((FileKind::Regular, 12 * 4096 + 1), 16, (2, 0, 1)), Some(8192));
        let directory = (FileKind::Directory, 8192 | 1 << 14);
        assert_eq!(right(directory, 16, (2, 0, 1)), Some(8192));
    }

    #[test]
    fn trees_hold_whole_blocks() {
        let counted = 8 * 14;
        for size in [4096, 12 * 4096 + 4000 + (1 << 20)] {
            let right = right((FileKind::Regular, size), counted, (13, 1, 12));
            assert!(right.is_some_and(|size| size.div_ceil(4096) == 13), "{size}: {right:?}");
        }
        assert_eq!(right((FileKind::Regular, 13 * 4096 - 1), counted, (13, 1, 12)), None);
    }
}
