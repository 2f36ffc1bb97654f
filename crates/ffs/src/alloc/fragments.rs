//! Finding blocks and runs of fragments.

use ufs2::layout::Geometry;
use vfs::FsError;

use super::group::{Group, full_block};
use super::{Allocator, Near, Run, Taken};
use crate::edit::Edit;
use vnode::Space;

use crate::item::{Intent, Item};

impl Allocator {
    /// Promises `count` fragments inside one block, as near as possible. The caller has asked
    /// [`Allocator::check_space`] whether the Update may have that many; wholly free blocks that
    /// are reserved are left alone here.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; I/O errors of reading a group.
    pub(crate) async fn take(
        &self,
        space: Space,
        near: Near,
        count: u64,
    ) -> Result<Taken, FsError> {
        let geometry = self.geometry();
        let (home, goal) = match near {
            Near::Group(group) => (group, None),
            Near::Fragment(fragment) if fragment < geometry.size => {
                let group = geometry.group_of_fragment(fragment);
                (group, Some((fragment - geometry.group_base(group)) as usize))
            }
            Near::Fragment(_) => (0, None),
        };
        // While other groups have room, a group with only a partly used block is as good as a full
        // one.
        for step in 0..geometry.group_count {
            let group = (home + step) % geometry.group_count;
            let recovered = &self.groups[group as usize];
            let has_some = |group: &Group| group.free_blocks > 0 || group.free_fragments > 0;
            let is_known_full = |group: &Group| group.counts && !has_some(group);
            if is_known_full(&recovered.borrow()) {
                continue;
            }
            let buffer = self.group_buffer(group).await?;
            if !recovered.borrow().counts {
                continue; // torn (invariant 7)
            }
            let may_break = space == Space::Reserved || self.has_whole_block();
            let goal = goal.filter(|_| step == 0);
            let find = || recovered.borrow_mut().find(geometry, goal, count as usize, may_break);
            while let Some(first) = find() {
                let run = Run::Fragments { group, first, count: count as usize };
                if self.is_metadata(group, first, count as usize) {
                    self.hold(run); // for good: on a damaged disk the map may offer used space
                    continue;
                }
                let map = geometry.maps.fragments.start;
                let edit = Edit::Bits { map, first, count: count as usize, value: false };
                let item = Item::unnamed(Intent::MapTaken, Some((buffer.clone(), edit)));
                let place = geometry.group_base(group) + first as u64;
                return Ok(Taken { place, promise: self.promise(run), item });
            }
        }
        Err(FsError::NoSpace)
    }

    /// Promises the fragments behind a run, so that `old` fragments at `first` become `new`; `None`
    /// if they are not free.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the Update may not have that many; I/O errors of reading a group.
    pub(crate) async fn extend(
        &self,
        space: Space,
        first: u64,
        old: u64,
        new: u64,
    ) -> Result<Option<Taken>, FsError> {
        let geometry = self.geometry();
        if first % geometry.fragments_per_block + new > geometry.fragments_per_block {
            return Ok(None);
        }
        self.check_space(space, new - old)?;
        let group = geometry.group_of_fragment(first);
        let buffer = self.group_buffer(group).await?;
        let start = (first + old - geometry.group_base(group)) as usize;
        let count = (new - old) as usize;
        let per_block = geometry.fragments_per_block as usize;
        let known = self.groups[group as usize].borrow();
        let bits = if known.counts { known.block_bits(geometry, start / per_block) } else { 0 };
        drop(known);
        let wanted = ((1_u16 << count) - 1) << (start % per_block);
        if u16::from(bits) & wanted != wanted || self.is_metadata(group, start, count) {
            return Ok(None);
        }
        let run = Run::Fragments { group, first: start, count };
        let map = geometry.maps.fragments.start;
        let edit = Edit::Bits { map, first: start, count, value: false };
        let item = Item::unnamed(Intent::MapTaken, Some((buffer, edit)));
        Ok(Some(Taken { place: first + old, promise: self.promise(run), item }))
    }

    /// Whether a cached directory or indirect block lies there.
    fn is_metadata(&self, group: u64, first: usize, count: usize) -> bool {
        let first = self.geometry().group_base(group) + first as u64;
        (first..first + count as u64).any(|address| self.home.cached(address).is_some())
    }

    /// Checks that the volume may become fuller by `count` fragments: a user leaves the reserve.
    ///
    /// # Errors
    /// [`FsError::NoSpace`].
    pub(crate) fn check_space(&self, space: Space, count: u64) -> Result<(), FsError> {
        let is_over = self.free_space() - (count as i64) < self.reserve();
        if space == Space::User && is_over { Err(FsError::NoSpace) } else { Ok(()) }
    }

    /// A group with more free blocks than average, searched from the group after that of
    /// `fragment`: the next one for a long file.
    pub(crate) fn roomy_group(&self, fragment: u64) -> u64 {
        let count = self.geometry().group_count;
        let average = self.free_blocks.get() / count as i64;
        let here = self.geometry().group_of_fragment(fragment);
        (1..=count)
            .map(|step| (here + step) % count)
            .find(|&group| self.groups[group as usize].borrow().free_blocks >= average.max(1))
            .unwrap_or(here)
    }
}

impl Group {
    /// An allocatable run of `count` fragments, as a group offset. The goal is tried first; then
    /// blocks behind it, or, for less than a block, partly used blocks. Without `may_break` a
    /// wholly free block stays whole.
    fn find(
        &mut self,
        geometry: &Geometry,
        goal: Option<usize>,
        count: usize,
        may_break: bool,
    ) -> Option<usize> {
        let per_block = geometry.fragments_per_block as usize;
        if let Some(goal) = goal
            && (count < per_block || goal.is_multiple_of(per_block))
            && self.is_free(geometry, goal, count)
            && (may_break || self.block_bits(geometry, goal / per_block) != full_block(geometry))
        {
            return Some(goal);
        }
        if count < per_block
            && let Some(run) = self.find_in_used_block(geometry, goal, count)
        {
            return Some(run);
        }
        if !may_break {
            return None;
        }
        let block = self.find_block(geometry, goal.map(|goal| goal / per_block))?;
        Some(block * per_block)
    }

    /// Whether a run is free and inside one block of the group.
    fn is_free(&self, geometry: &Geometry, first: usize, count: usize) -> bool {
        let per_block = geometry.fragments_per_block as usize;
        let start = first % per_block;
        let block = first / per_block;
        let blocks = geometry.maps.fragments.len() * 8 / per_block;
        if block >= blocks || start + count > per_block {
            return false;
        }
        let wanted = (((1_u16 << count) - 1) << start) as u8;
        self.block_bits(geometry, block) & wanted == wanted
    }

    fn find_block(&mut self, geometry: &Geometry, goal: Option<usize>) -> Option<usize> {
        if self.free_blocks <= 0 {
            return None;
        }
        let blocks = self.block_count(geometry);
        let start = goal.unwrap_or(self.block_rotor).min(blocks - 1);
        let full = full_block(geometry);
        let found = (start..blocks)
            .chain(0..start)
            .find(|&block| self.block_bits(geometry, block) == full)?;
        self.block_rotor = found;
        Some(found)
    }

    fn find_in_used_block(
        &mut self,
        geometry: &Geometry,
        goal: Option<usize>,
        count: usize,
    ) -> Option<usize> {
        if self.free_fragments < count as i64 {
            return None;
        }
        let per_block = geometry.fragments_per_block as usize;
        let blocks = self.block_count(geometry);
        let start = goal.map_or(self.fragment_rotor, |goal| goal / per_block).min(blocks - 1);
        let full = full_block(geometry);
        for block in (start..blocks).chain(0..start) {
            let bits = self.block_bits(geometry, block);
            if bits != 0
                && bits != full
                && let Some(first) = run_in_block(bits, per_block, count)
            {
                self.fragment_rotor = block;
                return Some(block * per_block + first);
            }
        }
        None
    }

    /// Blocks that the map describes, including a partial one at the end.
    fn block_count(&self, geometry: &Geometry) -> usize {
        let per_group = geometry.fragments_per_group as usize;
        per_group.div_ceil(geometry.fragments_per_block as usize)
    }
}

/// The shortest free run of at least `count` fragments in a block, so that longer ones stay whole.
fn run_in_block(bits: u8, per_block: usize, count: usize) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    let mut start = 0;
    while start < per_block {
        let length = (bits >> start).trailing_ones() as usize;
        if length >= count && best.is_none_or(|(_, shortest)| length < shortest) {
            best = Some((start, length));
        }
        start += length + 1;
    }
    best.map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::run_in_block;

    #[test]
    fn the_shortest_run_that_fits_is_taken() {
        assert_eq!(run_in_block(0b0110_1111, 8, 2), Some(5));
        assert_eq!(run_in_block(0b0110_1111, 8, 3), Some(0));
        assert_eq!(run_in_block(0b0110_1111, 8, 5), None);
        assert_eq!(run_in_block(0b1000, 4, 1), Some(3));
        assert_eq!(run_in_block(0b1111_1111, 8, 8), Some(0));
    }
}
