//! Every pointer of a batch of files, level by level, each level in the order of the disk.
//!
//! A walk begins with the pointers of the inodes, then reads all their indirect blocks with many
//! reads in flight, then the next level, and so on: three levels at most. The walk's [`Purpose`]
//! decides what it does with a pointer.
//!
//! An indirect block of which half of the pointers or more are invalid is no indirect block: it is
//! dropped with all its pointers. A single bad pointer is cleared. Changes of an indirect block are
//! made when all files were walked, and only where no block on the path is claimed twice: a file
//! whose own pointer is wrong leads into blocks of others.
//!
//! To keep a walk finite, a block that is claimed a second time is not entered, so that every block
//! of the disk is entered once. Where contests are gathered, it is entered for the later files too,
//! once for each level of a tree, but only to note the blocks that they lead to.

use futures::stream::{self, StreamExt};
use ufs2::derive::bits;
use ufs2::layout::{
    DIRECT_BLOCKS, DIRECT_POINTERS, Dinode, INDIRECT_POINTERS, POINTER_SIZE, SECTOR_SIZE,
};
use ufs2::map::has_blocks;
use ufs2::map::{block_count, run_length};
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::Severity::{Loss, Repairable};
use super::contest::Claim;
use super::fields::{blocks_of, is_hole};
use super::pointer::{Pointer, Role, Slot};
use super::{CheckError, Checker, Invariant, Place};

/// Reads in flight at once.
pub(super) const READS_IN_FLIGHT: usize = 64;

/// The purpose of a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Repair pointers, and claim the fragments behind them.
    Claim,
    /// Gather the claims of fragments that several files claim.
    Contest,
    /// Release all fragments: the file is freed.
    Release,
    /// Read all data.
    Data,
}

/// Whether a walk enters the block behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    No,
    /// It is entered for the file that owns it, as far as is known.
    Own,
    /// It is entered for a later file: its pointers are noted, and nothing follows from them.
    Shared,
}

/// A file during a walk.
pub(super) struct Walk {
    pub(super) ino: u64,
    pub(super) dinode: Dinode,
    /// Number of fragments that it holds.
    pub(super) held: u64,
    /// The number of its last block, and how many blocks of data it has.
    pub(super) last: Option<u64>,
    pub(super) data_blocks: u64,
    /// For a directory: block numbers and addresses of its blocks.
    pub(super) blocks: Vec<(u64, u64)>,
    /// All indirect blocks were entered: none is claimed twice, as far as is known. Else the walk
    /// has no consequence for the inode before that is settled.
    pub(super) complete: bool,
}

impl Walk {
    pub(super) fn new(ino: u64, dinode: Dinode) -> Self {
        Self {
            ino,
            dinode,
            held: 0,
            last: None,
            data_blocks: 0,
            blocks: Vec::new(),
            complete: true,
        }
    }
}

/// The path to a block: addresses of indirect blocks, from the inode's on; 0 for none.
type Way = [u64; INDIRECT_POINTERS];

/// A pointer in an indirect block that is to be cleared.
pub(super) struct BadSlot {
    /// Its byte address on the disk.
    byte: u64,
    /// The path to it: the last block contains it.
    way: Way,
}

/// An indirect block that is to be read.
#[derive(Clone, Copy)]
struct Branch {
    /// Index of its walk in the batch.
    walk: usize,
    address: u64,
    /// The path to it: the last block is this one.
    way: Way,
    /// The place of the pointer to it.
    slot: Slot,
    /// Blocks of the file that one of its pointers covers.
    span: u64,
    /// The first block of the file that it covers.
    first: u64,
    /// It was already entered for another file.
    shared: bool,
}

/// A path with one more block.
fn longer(mut way: Way, address: u64) -> Way {
    if let Some(free) = way.iter_mut().find(|block| **block == 0) {
        *free = address;
    }
    way
}

/// A path without its last block.
fn shorter(mut way: Way) -> Way {
    if let Some(last) = way.iter_mut().rfind(|block| **block != 0) {
        *last = 0;
    }
    way
}

impl Checker<'_> {
    /// Walks a batch of files.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn walk(
        &mut self,
        batch: &mut [Walk],
        purpose: Purpose,
    ) -> Result<(), CheckError> {
        let mut level = Vec::new();
        for (index, walk) in batch.iter_mut().enumerate() {
            self.walk_attributes(walk, purpose);
            if walk.dinode.kind().is_some_and(|kind| has_blocks(kind, &walk.dinode)) {
                self.walk_direct(walk, purpose);
                self.walk_roots(walk, index, purpose, &mut level);
            }
        }
        while !level.is_empty() {
            level.sort_by_key(|branch| branch.address);
            let mut below = Vec::new();
            // A part of the level at a time: the images are in memory.
            for part in level.chunks(READS_IN_FLIGHT) {
                for (branch, image) in self.read_branches(part).await? {
                    let place = Place::inode(batch[branch.walk].ino).block(branch.first);
                    let whole = (branch.address, self.geometry.block_size as usize);
                    self.note_unreadable(whole, Loss, |_| place.clone().fragment(branch.address));
                    self.enter(batch, branch, &image, purpose, &mut below);
                }
                self.read_data().await;
            }
            level = below;
        }
        self.read_data().await;
        Ok(())
    }

    async fn read_branches(&self, part: &[Branch]) -> Result<Vec<(Branch, Vec<u64>)>, CheckError> {
        let size = self.geometry.block_size as usize;
        let reads = stream::iter(part.to_vec()).map(|branch| async move {
            let byte = self.geometry.byte_address(branch.address);
            let mut image = self.disk.read(byte, size).await?;
            self.geometry.turn_indirect(&mut image);
            let pointers = image.chunks_exact(POINTER_SIZE);
            let pointers =
                pointers.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            Ok((branch, pointers.collect()))
        });
        let read: Vec<Result<_, block::IoError>> = reads.buffered(READS_IN_FLIGHT).collect().await;
        Ok(read.into_iter().collect::<Result<_, _>>()?)
    }

    fn walk_attributes(&mut self, walk: &mut Walk, purpose: Purpose) {
        let size = u64::from(walk.dinode.attribute_size.get());
        for index in 0..walk.dinode.attribute_blocks.len() {
            let address = walk.dinode.attribute_blocks[index].get() as u64;
            if address == 0 {
                continue;
            }
            let run = run_length(&self.geometry, size, index as u64);
            let slot = Slot::Attribute(index);
            let (role, lbn) = (Role::Attribute, index as u64);
            let ino = walk.ino;
            let pointer = Pointer { ino, role, slot, lbn, address, run, covers: 1, neighbours: 0 };
            let behind = index as u64 >= block_count(&self.geometry, size);
            if !self.is_sound(&pointer, behind) {
                self.clear_in(walk, &pointer, behind, purpose);
                continue;
            }
            self.meet(walk, &pointer, purpose, false);
        }
    }

    fn walk_direct(&mut self, walk: &mut Walk, purpose: Purpose) {
        let size = walk.dinode.size.get();
        let count = blocks_of(&self.geometry, &walk.dinode);
        for lbn in 0..DIRECT_POINTERS {
            let address = walk.dinode.direct[lbn].get() as u64;
            if is_hole(&walk.dinode, address) {
                continue;
            }
            let slot = Slot::Inode(lbn);
            let run = run_length(&self.geometry, size, lbn as u64);
            let around = &walk.dinode.direct;
            let before = lbn.checked_sub(1).map_or(0, |before| around[before].get() as u64);
            let after = around.get(lbn + 1).map_or(0, |after| after.get() as u64);
            let pointer = Pointer {
                ino: walk.ino,
                role: Role::Data,
                slot,
                lbn: lbn as u64,
                address,
                run,
                covers: 1,
                neighbours: self.neighbours(before, address, after),
            };
            let behind = lbn as u64 >= count;
            if !self.is_sound(&pointer, behind) {
                self.clear_in(walk, &pointer, behind, purpose);
                continue;
            }
            self.meet(walk, &pointer, purpose, false);
        }
    }

    fn walk_roots(
        &mut self,
        walk: &mut Walk,
        index: usize,
        purpose: Purpose,
        level: &mut Vec<Branch>,
    ) {
        let count = blocks_of(&self.geometry, &walk.dinode);
        let fan = self.geometry.pointers_per_indirect;
        let mut first = DIRECT_BLOCKS;
        for tree in 0..INDIRECT_POINTERS {
            let span = fan.pow(tree as u32);
            let address = walk.dinode.indirect[tree].get() as u64;
            let slot = Slot::Inode(DIRECT_POINTERS + tree);
            if !is_hole(&walk.dinode, address) {
                let pointer = self.indirect_pointer(walk.ino, slot, (first, span * fan), address);
                let behind = first >= count;
                if !self.is_sound(&pointer, behind) {
                    self.clear_in(walk, &pointer, behind, purpose);
                } else {
                    let entry = self.meet(walk, &pointer, purpose, false);
                    let (way, shared) = ([address, 0, 0], entry == Entry::Shared);
                    let branch = Branch { walk: index, address, way, slot, span, first, shared };
                    level.extend((entry != Entry::No).then_some(branch));
                    walk.complete &= entry == Entry::Own;
                }
            }
            first += span * fan;
        }
    }

    /// The range of blocks that a pointer in a tree leads to: first block and number.
    fn indirect_pointer(
        &self,
        ino: u64,
        slot: Slot,
        (lbn, covers): (u64, u64),
        address: u64,
    ) -> Pointer {
        let run = self.geometry.fragments_per_block;
        Pointer { ino, role: Role::Indirect, slot, lbn, address, run, covers, neighbours: 0 }
    }

    fn neighbours(&self, before: u64, address: u64, after: u64) -> u32 {
        let block = self.geometry.fragments_per_block;
        u32::from(before != 0 && before.checked_add(block) == Some(address))
            + u32::from(after != 0 && address.checked_add(block) == Some(after))
    }

    /// Handles the pointers of an indirect block.
    fn enter(
        &mut self,
        batch: &mut [Walk],
        branch: Branch,
        image: &[u64],
        purpose: Purpose,
        below: &mut Vec<Branch>,
    ) {
        let walk = &mut batch[branch.walk];
        if purpose == Purpose::Claim && self.is_gone_wild(walk, image) {
            return self.drop_branch(walk, branch, image);
        }
        let count = blocks_of(&self.geometry, &walk.dinode);
        let fan = self.geometry.pointers_per_indirect;
        for (index, &address) in image.iter().enumerate() {
            if is_hole(&walk.dinode, address) {
                continue;
            }
            let byte = self.geometry.byte_address(branch.address) + (index * POINTER_SIZE) as u64;
            let slot = Slot::Disk(byte);
            let lbn = branch.first + index as u64 * branch.span;
            let mut pointer = self.indirect_pointer(walk.ino, slot, (lbn, branch.span), address);
            if branch.span == 1 {
                pointer.role = Role::Data;
                let before = index.checked_sub(1).map_or(0, |before| image[before]);
                let after = image.get(index + 1).copied().unwrap_or(0);
                pointer.neighbours = self.neighbours(before, address, after);
            }
            let behind = lbn >= count;
            if !self.is_sound(&pointer, behind) {
                let of = (behind, walk.dinode.kind());
                if self.blame(&pointer, of, purpose, Invariant::IndirectPointers) {
                    self.bad_slots.push(BadSlot { byte, way: branch.way });
                }
                continue;
            }
            let entry = self.meet(walk, &pointer, purpose, branch.shared);
            if branch.span == 1 {
                continue;
            }
            walk.complete &= entry == Entry::Own;
            if entry != Entry::No {
                let (span, way) = (branch.span / fan, longer(branch.way, address));
                let shared = entry == Entry::Shared;
                below.push(Branch { address, way, slot, span, first: lbn, shared, ..branch });
            }
        }
    }

    /// Whether a block that is used as an indirect one holds something else.
    fn is_gone_wild(&self, walk: &Walk, image: &[u64]) -> bool {
        let used = image.iter().filter(|&&address| !is_hole(&walk.dinode, address));
        let (mut all, mut wild) = (0, 0);
        for &address in used {
            all += 1;
            let run = self.geometry.fragments_per_block;
            wild += u64::from(!self.geometry.is_data_run(address, run));
        }
        wild > 2 && wild * 2 >= all
    }

    fn drop_branch(&mut self, walk: &mut Walk, branch: Branch, image: &[u64]) {
        let place = Place::inode(walk.ino).block(branch.first).fragment(branch.address);
        let found = format!("a block of which {} words are no pointers", image.len());
        let repair = "dropped, with what lay behind it";
        if !self.log.find(
            Invariant::IndirectPointers,
            Loss,
            place,
            found,
            "an indirect block",
            repair,
        ) {
            return;
        }
        self.doubted.insert(walk.ino);
        match branch.slot {
            Slot::Disk(byte) => self.bad_slots.push(BadSlot { byte, way: shorter(branch.way) }),
            slot => slot.set_in(&mut walk.dinode, 0),
        }
        let run = self.geometry.fragments_per_block;
        walk.held -= run;
        let range = branch.address..branch.address + run;
        bits::clear_range(&mut self.held, range);
    }

    /// Clears the bad pointers that were found, except those in blocks that are claimed twice, or
    /// on a path through such: they are found again, unless the file loses the block.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn clear_bad_slots(&mut self) -> Result<(), CheckError> {
        let run = self.geometry.fragments_per_block;
        for slot in std::mem::take(&mut self.bad_slots) {
            let mut blocks = slot.way.into_iter().filter(|&address| address != 0);
            if !blocks.any(|address| self.is_contested(address..address + run)) {
                self.disk.put(slot.byte, &[0; POINTER_SIZE]).await?;
            }
        }
        Ok(())
    }

    /// Whether a pointer may be followed.
    fn is_sound(&self, pointer: &Pointer, behind: bool) -> bool {
        !behind && self.geometry.is_data_run(pointer.address, pointer.run)
    }

    /// Reports a pointer that must not be followed. Returns whether to clear it.
    fn blame(
        &mut self,
        pointer: &Pointer,
        (behind, kind): (bool, Option<FileKind>),
        purpose: Purpose,
        invariant: Invariant,
    ) -> bool {
        if purpose != Purpose::Claim {
            return false;
        }
        let place = Place::inode(pointer.ino).block(pointer.lbn).fragment(pointer.address);
        // A wrong size also gives the last run a wrong length.
        let may_be_size = behind || self.geometry.is_data_fragment(pointer.address);
        let has_size = matches!(kind, Some(FileKind::Regular | FileKind::Directory));
        if may_be_size
            && has_size
            && pointer.role != Role::Attribute
            && self.may_have_wrong_size(pointer.ino)
        {
            self.behind_end.insert(pointer.ino);
            return false;
        }
        if behind {
            // A crash leaves blocks that were never acknowledged; else the size may be wrong.
            let severity = if self.was_cut { Repairable } else { Loss };
            let repair = "the pointer cleared";
            let invariant = Invariant::PointersBehindEnd;
            return self.log.find(invariant, severity, place, "a block", "none", repair);
        }
        self.doubted.insert(pointer.ino);
        let expected = "data fragments of this disk";
        let found = format!("{} fragments from {}", pointer.run, pointer.address as i64);
        self.log.find(invariant, Loss, place, found, expected, "made a hole")
    }

    /// The same for a pointer in the inode, which is cleared at once.
    fn clear_in(&mut self, walk: &mut Walk, pointer: &Pointer, behind: bool, purpose: Purpose) {
        let of = (behind, walk.dinode.kind());
        if !self.blame(pointer, of, purpose, Invariant::InodePointers) {
            return;
        }
        pointer.slot.set_in(&mut walk.dinode, 0);
    }

    /// Handles a sound pointer by the purpose of the walk. Returns whether to enter its block.
    fn meet(
        &mut self,
        walk: &mut Walk,
        pointer: &Pointer,
        purpose: Purpose,
        shared: bool,
    ) -> Entry {
        let range = pointer.address..pointer.address + pointer.run;
        match purpose {
            Purpose::Claim => {
                walk.held += pointer.run;
                if pointer.role == Role::Data {
                    walk.last = walk.last.max(Some(pointer.lbn));
                    walk.data_blocks += 1;
                    if walk.dinode.kind() == Some(vfs::FileKind::Directory) {
                        walk.blocks.push((pointer.lbn, pointer.address));
                    }
                }
                if self.claim(range) { Entry::Own } else { Entry::No }
            }
            Purpose::Contest => {
                // Blocks behind a second claim were not walked before: no copy may lie there.
                bits::set_range(&mut self.claimed, range.clone());
                if !shared && self.is_contested(range) {
                    self.claims.push(Claim::new(*pointer, &walk.dinode, &self.geometry));
                }
                self.enter_in_contest(pointer, shared)
            }
            Purpose::Data => {
                if pointer.role != Role::Indirect {
                    self.data.push(*pointer);
                }
                Entry::Own
            }
            Purpose::Release => {
                bits::clear_range(&mut self.held, range);
                Entry::Own
            }
        }
    }

    /// An indirect block is entered once for the first file that leads to it, and once more for
    /// each level of a tree at which other files have it.
    fn enter_in_contest(&mut self, pointer: &Pointer, shared: bool) -> Entry {
        if pointer.role != Role::Indirect {
            Entry::No
        } else if !shared && self.entered.insert((pointer.address, 0)) {
            Entry::Own
        } else if self.entered.insert((pointer.address, pointer.covers)) {
            Entry::Shared
        } else {
            Entry::No
        }
    }

    /// Claims fragments; returns whether no other pointer had.
    fn claim(&mut self, range: std::ops::Range<u64>) -> bool {
        let alone = bits::none_set(&self.held, range.clone());
        if !alone {
            let contested = self.contested.get_or_insert_with(|| vec![0; self.held.len()]);
            for fragment in range.clone() {
                if bits::is_set(&self.held, fragment) {
                    bits::set(contested, fragment);
                }
            }
        }
        bits::set_range(&mut self.held, range.clone());
        bits::set_range(&mut self.claimed, range);
        alone
    }

    fn is_contested(&self, range: std::ops::Range<u64>) -> bool {
        self.contested.as_ref().is_some_and(|contested| !bits::none_set(contested, range))
    }

    /// Updates the inode by the blocks that were found.
    pub(super) fn settle_walk(&mut self, walk: &mut Walk) {
        let Some(kind) = walk.dinode.kind() else { return };
        if has_blocks(kind, &walk.dinode) {
            self.settle_end(walk, kind);
        }
        let sectors = walk.held * self.geometry.fragment_size / SECTOR_SIZE;
        let found = walk.dinode.sectors.get();
        let place = Place::inode(walk.ino);
        let invariant = Invariant::BlockCount;
        if found != sectors && self.log.find(invariant, Repairable, place, found, sectors, "set") {
            // Its size or its pointers may be wrong, too.
            self.doubted.insert(walk.ino);
            walk.dinode.sectors.set(sectors);
        }
    }

    /// A file that reaches behind its direct blocks ends in a block; a long target has its block.
    fn settle_end(&mut self, walk: &mut Walk, kind: vfs::FileKind) {
        let count = blocks_of(&self.geometry, &walk.dinode);
        let place = Place::inode(walk.ino);
        if kind == vfs::FileKind::Symlink && walk.data_blocks == 0 {
            let repair = "made a link to '?'";
            let expected = "a block with the target";
            if self.log.find(Invariant::SymlinkTarget, Loss, place, "none", expected, repair) {
                walk.dinode.size.set(1);
                walk.dinode.inline_symlink_area_mut().fill(0);
                walk.dinode.inline_symlink_area_mut()[0] = b'?';
            }
            return;
        }
        let blocks = walk.last.map_or(0, |last| last + 1);
        if kind == vfs::FileKind::Directory || count <= DIRECT_BLOCKS || blocks >= count {
            return;
        }
        let wanted = blocks.max(DIRECT_BLOCKS) * self.geometry.block_size;
        let found = format!("{} bytes, and a hole at the end", walk.dinode.size.get());
        let expected = format!("{wanted} bytes");
        let repair = "the hole cut off";
        if self.log.find(Invariant::LastBlock, Loss, place, found, expected, repair) {
            self.doubted.insert(walk.ino);
            walk.dinode.size.set(wanted);
        }
    }

    /// Writes an inode back, sealed.
    pub(super) async fn put_inode(
        &mut self,
        ino: u64,
        dinode: &mut Dinode,
    ) -> Result<(), CheckError> {
        self.geometry.seal_inode(dinode);
        let position = self.geometry.inode_position(ino);
        let byte = self.geometry.byte_address(position.fragment) + position.offset as u64;
        Ok(self.disk.put(byte, dinode.as_bytes()).await?)
    }

    /// Reads one inode.
    pub(super) async fn read_inode(&self, ino: u64) -> Result<Dinode, CheckError> {
        let position = self.geometry.inode_position(ino);
        let byte = self.geometry.byte_address(position.fragment);
        let mut block = self.disk.read(byte, self.geometry.block_size as usize).await?;
        self.geometry.turn_inodes(&mut block);
        Ok(*Dinode::at(&block, position.offset))
    }
}
