//! Directories with missing blocks. A directory has no holes: each gets an empty block, so that
//! only the names that were there are lost, and the names behind them stay.
//!
//! Where more blocks are missing than exist, and more than [`MOST_HOLES`], a pointer far behind the
//! others is taken for wrong, and the directory ends before it. Where the disk has no room, the
//! directory is cut off at the hole, and files named behind it are found again without a name.

use ufs2::layout::{DIRECT_POINTERS, Dinode, INDIRECT_POINTERS, SECTOR_SIZE};
use ufs2::map::{block_count, pointer, run_length};

use super::Severity::Loss;
use super::blocks::Walk;
use super::{CheckError, Checker, Invariant, Place, chunk, fields};
use crate::planted::{Bug, is_planted};

/// The most blocks that are made for a directory that has fewer itself.
const MOST_HOLES: u64 = 512;

/// A directory, and its missing blocks.
pub(super) struct Holes {
    ino: u64,
    blocks: Vec<u64>,
}

impl Checker<'_> {
    /// Searches for holes in a directory whose blocks were walked.
    pub(super) fn settle_directory_blocks(&mut self, walk: &mut Walk) {
        walk.blocks.sort_unstable();
        let count = block_count(&self.geometry, walk.dinode.size.get());
        let whole = walk.blocks.iter().map(|&(lbn, _)| lbn).eq(0..count);
        if whole {
            return;
        }
        let present = walk.blocks.iter().enumerate();
        let first = present.take_while(|&(index, &(lbn, _))| lbn == index as u64).count();
        if !walk.complete {
            walk.blocks.truncate(first);
            return;
        }
        let end = end_of(&walk.blocks);
        let is_there = |lbn: &u64| walk.blocks.binary_search_by_key(lbn, |&(lbn, _)| lbn).is_ok();
        let mut holes: Vec<u64> = (0..end.max(1)).filter(|lbn| !is_there(lbn)).collect();
        let place = Place::inode(walk.ino).block(first as u64);
        let found = format!("{} of {count} blocks", walk.blocks.len());
        let repair = if holes.is_empty() {
            "cut off behind its last block"
        } else {
            "given empty blocks in the place of those that are missing"
        };
        if !self.log.find(Invariant::DirectoryHole, Loss, place, found, "all", repair) {
            // Later passes need the blocks before the hole.
            walk.blocks.truncate(first);
            return;
        }
        self.doubted.insert(walk.ino);
        if is_planted(Bug::CutDirectories) {
            holes.retain(|&lbn| lbn == 0);
        }
        let end = if is_planted(Bug::CutDirectories) { first as u64 } else { end };
        if count > end {
            let reached = end.max(1) * self.geometry.block_size;
            walk.dinode.size.set(walk.dinode.size.get().min(reached));
        }
        walk.blocks.truncate(first);
        if !holes.is_empty() {
            // The free fragments are known when every inode has been seen.
            self.holes.push(Holes { ino: walk.ino, blocks: holes });
        }
    }

    /// Makes the missing blocks of directories; returns whether there were any.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn fill_holes(&mut self) -> Result<bool, CheckError> {
        let all = std::mem::take(&mut self.holes);
        for Holes { ino, blocks } in &all {
            let mut dinode = self.read_inode(*ino).await?;
            for &lbn in blocks {
                if self.fill_hole(&mut dinode, lbn).await? {
                    continue;
                }
                // A full disk: files named behind the hole are found again.
                match lbn {
                    0 => fields::clear(&mut dinode),
                    _ => dinode.size.set(lbn * self.geometry.block_size),
                }
                break;
            }
            self.put_inode(*ino, &mut dinode).await?;
        }
        Ok(!all.is_empty())
    }

    /// Gives a directory an empty block; returns whether there was room.
    async fn fill_hole(&mut self, dinode: &mut Dinode, lbn: u64) -> Result<bool, CheckError> {
        let run = run_length(&self.geometry, dinode.size.get(), lbn);
        let Some(address) = self.fresh(run) else { return Ok(false) };
        let bytes = (run * self.geometry.fragment_size) as usize;
        self.disk.put_fresh(self.geometry.byte_address(address), &chunk::empty_chunks(bytes));
        let is_put = self.point_at(dinode, lbn, address).await?;
        if is_put {
            self.count_held(dinode, run);
        }
        Ok(is_put)
    }

    fn count_held(&self, dinode: &mut Dinode, fragments: u64) {
        let sectors = fragments * self.geometry.fragment_size / SECTOR_SIZE;
        dinode.sectors.set(dinode.sectors.get().saturating_add(sectors));
    }

    /// Sets a pointer of a file, with the indirect blocks that it takes; returns whether there was
    /// room.
    async fn point_at(
        &mut self,
        dinode: &mut Dinode,
        lbn: u64,
        address: u64,
    ) -> Result<bool, CheckError> {
        let Some(mut rest) = lbn.checked_sub(DIRECT_POINTERS as u64) else {
            dinode.direct[lbn as usize].set(address as i64);
            return Ok(true);
        };
        let (run, fan) = (self.geometry.fragments_per_block, self.geometry.pointers_per_indirect);
        for tree in 0..INDIRECT_POINTERS {
            let mut span = fan.pow(tree as u32 + 1);
            if rest >= span {
                rest -= span;
                continue;
            }
            let mut at = dinode.indirect[tree].get() as u64;
            if !self.geometry.is_data_run(at, run) {
                let Some(made) = self.fresh_indirect(dinode) else { return Ok(false) };
                dinode.indirect[tree].set(made as i64);
                at = made;
            }
            loop {
                span /= fan;
                let slot = rest / span;
                rest %= span;
                let byte = self.geometry.byte_address(at);
                let there = byte + slot * 8;
                if span == 1 {
                    self.disk.put(there, &address.to_le_bytes()).await?;
                    return Ok(true);
                }
                let image = self.disk.read(byte, self.geometry.block_size as usize).await?;
                at = pointer(&image, slot as usize);
                if !self.geometry.is_data_run(at, run) {
                    let Some(made) = self.fresh_indirect(dinode) else { return Ok(false) };
                    self.disk.put(there, &made.to_le_bytes()).await?;
                    at = made;
                }
            }
        }
        Ok(false)
    }

    /// An indirect block of holes.
    fn fresh_indirect(&mut self, dinode: &mut Dinode) -> Option<u64> {
        let run = self.geometry.fragments_per_block;
        let made = self.fresh(run)?;
        let zeros = vec![0; self.geometry.block_size as usize];
        self.disk.put_fresh(self.geometry.byte_address(made), &zeros);
        self.count_held(dinode, run);
        Some(made)
    }
}

/// The end of a directory with these blocks: behind the last that is not too far behind all others.
fn end_of(present: &[(u64, u64)]) -> u64 {
    let mut blocks = present;
    while let Some((&(last, _), before)) = blocks.split_last() {
        let holes = last + 1 - blocks.len() as u64;
        if holes <= MOST_HOLES.max(blocks.len() as u64) {
            return last + 1;
        }
        blocks = before;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(blocks: impl IntoIterator<Item = u64>) -> u64 {
        let blocks: Vec<(u64, u64)> = blocks.into_iter().map(|lbn| (lbn, 1)).collect();
        end_of(&blocks)
    }

    #[test]
    fn a_directory_ends_before_a_pointer_that_is_too_far_away() {
        assert_eq!(end([]), 0);
        assert_eq!(end([0, 1, 2]), 3);
        assert_eq!(end([5]), 6);
        assert_eq!(end((0..3).chain([514])), 515, "512 are missing");
        assert_eq!(end((0..3).chain([516])), 3, "513 are missing");
        assert_eq!(end((0..1000).chain([2001])), 2002, "as many are missing as there are");
        assert_eq!(end((0..1000).chain([1 << 40, 1 << 41])), 1000);
    }
}
