//! Contests: fragments that are claimed twice, and the file that keeps them.
//!
//! All claims on them are gathered and weighed. In favour of a claim: nothing else was wrong with
//! the inode; the inode map has it used, or, where the group's header is gone and inodes of an
//! older file system may lie there, a directory names it; the block fits the claim (a directory's
//! first block names its owner, an indirect block holds pointers, attributes are whole records);
//! its neighbours in the file are its neighbours on the disk; the file's inode is in the same
//! group. The heavier claim keeps the block, the other file gets a hole.
//!
//! Where two weigh the same, one of them is right, but nothing shows which. Then one keeps the
//! block and the other gets a copy, so that the file that was right is as it was; both are listed.
//! The same goes for an indirect block: the blocks below it are contested in the next round. A
//! block that is pointers for one and data for the other stays with the first. Copies wait in
//! memory until they are written and take free blocks, so they are limited: beyond that, the other
//! gets holes.
//!
//! A copy must not lie where the block of another file may be. So the claims are gathered along
//! every path, including those that lead through a block that belongs to another file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use directory::entry::CHUNK_SIZE;
use ufs2::derive::bits;
use ufs2::layout::{Dinode, Geometry, ROOT_INODE};
use ufs2::map::run_length;
use vfs::FileKind;

use super::Severity::Loss;
use super::fields::blocks_of;
use super::pointer::{Pointer, Role, Slot};
use super::sectors::is_of_the_medium;
use super::{CheckError, Checker, Invariant, Place, chunk};

/// Free blocks that are kept for naming files without names.
const RESERVE: u64 = 16;
/// The penalty of an inode that may be stale: more than everything in its favour can weigh.
const STALE: i32 = 100;
/// The most bytes that are copied.
const COPIES: u64 = 256 << 20;

/// A claim on fragments that another pointer claims as well.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pointer: Pointer,
    kind: Option<FileKind>,
    size: u64,
    /// Blocks of the file.
    blocks: u64,
    weight: i32,
}

impl Claim {
    pub(super) fn new(pointer: Pointer, dinode: &Dinode, geometry: &Geometry) -> Self {
        let (kind, size) = (dinode.kind(), dinode.size.get());
        Self { pointer, kind, size, blocks: blocks_of(geometry, dinode), weight: 0 }
    }

    fn range(&self) -> std::ops::Range<u64> {
        self.pointer.address..self.pointer.address + self.pointer.run
    }
}

impl Checker<'_> {
    /// Settles all contests; returns whether there were any, so that a new round is needed.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn settle_contests(&mut self) -> Result<bool, CheckError> {
        if self.contested.is_none() {
            return Ok(false);
        }
        self.gather_claims().await?;
        let mut claims = std::mem::take(&mut self.claims);
        if claims.iter().any(|claim| self.may_be_stale(claim.pointer.ino)) {
            self.gather_named().await?;
        }
        self.room_for_copies = self.fresh_left().saturating_sub(RESERVE);
        for claim in &mut claims {
            claim.weight = self.weigh(claim).await?;
        }
        claims.sort_by_key(|claim| {
            let pointer = &claim.pointer;
            let data = pointer.role != Role::Indirect;
            (Reverse(claim.weight), data, pointer.ino, pointer.lbn)
        });
        // By their first fragments; they do not overlap.
        let mut kept: BTreeMap<u64, Claim> = BTreeMap::new();
        let mut settled = false;
        for claim in claims {
            let range = claim.range();
            let before = kept.range(..range.end).next_back();
            let winner = before.map(|(_, kept)| kept).filter(|kept| kept.range().end > range.start);
            let Some(winner) = winner.cloned() else {
                kept.insert(range.start, claim);
                continue;
            };
            settled |= self.lose(&claim, &winner).await?;
        }
        // A claim may be gone with repairs of its inode. Then no file loses anything, and the next
        // round enters the blocks from which it kept the others out.
        Ok(settled || self.log.in_round > 0)
    }

    /// Gathers all inodes that names lead to from the root. Entries of directories are not judged
    /// here: that comes later.
    async fn gather_named(&mut self) -> Result<(), CheckError> {
        let mut named = BTreeSet::from([ROOT_INODE]);
        let mut open = vec![ROOT_INODE];
        while let Some(ino) = open.pop() {
            let Some(directory) = self.directories.get(&ino) else { continue };
            for (lbn, &address) in (0..).zip(&directory.blocks) {
                let run = run_length(&self.geometry, directory.size, lbn);
                let bytes = (run * self.geometry.fragment_size) as usize;
                let mut content =
                    self.disk.probe(self.geometry.byte_address(address), bytes).await?;
                self.geometry.turn_directory(&mut content);
                for bytes in content.chunks_exact(CHUNK_SIZE) {
                    let entries = chunk::entries(bytes).into_iter();
                    let new = entries.map(|entry| entry.ino).filter(|&ino| named.insert(ino));
                    open.extend(new);
                }
            }
        }
        self.named_in_contest = named;
        Ok(())
    }

    async fn weigh(&self, claim: &Claim) -> Result<i32, CheckError> {
        let pointer = &claim.pointer;
        let mut weight = pointer.neighbours as i32;
        if self.doubted.contains(&pointer.ino) {
            weight -= 4;
        }
        if self.is_stated(pointer.ino) {
            weight += 4;
        } else if self.may_be_stale(pointer.ino) && !self.named_in_contest.contains(&pointer.ino) {
            weight -= STALE;
        }
        let group = self.geometry.group_of_fragment(pointer.address);
        weight += i32::from(group == self.geometry.group_of_inode(pointer.ino));
        if pointer.role == Role::Attribute {
            weight += 8; // blocks without whole records were dropped before
        }
        let directory = claim.kind == Some(FileKind::Directory);
        if pointer.role == Role::Indirect || directory && pointer.role == Role::Data {
            let byte = self.geometry.byte_address(pointer.address);
            let bytes = (pointer.run * self.geometry.fragment_size) as usize;
            let content = self.disk.probe(byte, bytes).await?;
            weight += match pointer.role {
                Role::Indirect => self.looks_indirect(&content),
                _ => {
                    // Behind the end of the directory, nothing has to be a chunk.
                    let start = pointer.lbn * self.geometry.block_size;
                    let used = claim.size.saturating_sub(start).min(content.len() as u64);
                    looks_like_directory(pointer, &content[..used as usize])
                }
            };
        }
        Ok(weight)
    }

    /// The weight for looking like an indirect block.
    fn looks_indirect(&self, content: &[u8]) -> i32 {
        let pointers = content.chunks_exact(8);
        let used = pointers
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .filter(|&address| address != 0);
        let run = self.geometry.fragments_per_block;
        let (mut good, mut bad) = (0, 0);
        for address in used {
            if self.geometry.is_data_run(address, run) { good += 1 } else { bad += 1 }
        }
        if bad > 0 { -4 } else { i32::from(good > 0) * 3 }
    }

    /// Takes the block away from a claim.
    async fn lose(&mut self, claim: &Claim, winner: &Claim) -> Result<bool, CheckError> {
        let pointer = claim.pointer;
        let bytes = pointer.run * self.geometry.fragment_size;
        let room = self.copied + bytes <= COPIES && self.room_for_copies > 0;
        let copies = is_tie(claim, winner) && room;
        let from = self.geometry.byte_address(pointer.address);
        let content = match self.disk.read_data(from, bytes as usize).await {
            Err(error) if !is_of_the_medium(&error) => return Err(error.into()),
            content => content.ok().filter(|_| copies),
        };
        let copy = match &content {
            Some(_) => self.fresh(pointer.run),
            None => None,
        };
        let place = Place::inode(pointer.ino).block(pointer.lbn).fragment(pointer.address);
        let mut found = format!("a block that inode {} claims as well", winner.pointer.ino);
        if pointer.role == Role::Indirect {
            let end = (pointer.lbn + pointer.covers).min(claim.blocks);
            found = format!("{found}, with the pointers to blocks {} to {}", pointer.lbn, end - 1);
        }
        let expected = "a block of its own";
        let repair = match copy {
            Some(_) => "given a copy; one of the two files holds what is not its own",
            None => "left to the other, whose claim is better",
        };
        if !self.log.find(Invariant::Duplicate, Loss, place, found, expected, repair) {
            return Ok(false);
        }
        if copy.is_none() {
            self.doubted.insert(pointer.ino); // else what hangs from the copy would lose its ties
        }
        if let (Some(address), Some(content)) = (copy, content) {
            self.copied += bytes;
            self.room_for_copies -= 1;
            self.disk.put_fresh(self.geometry.byte_address(address), &content);
        }
        self.point_elsewhere(&pointer, copy.unwrap_or(0)).await?;
        Ok(true)
    }

    /// Sets a pointer to another address; 0 for a hole.
    async fn point_elsewhere(&mut self, pointer: &Pointer, address: u64) -> Result<(), CheckError> {
        if let Slot::Disk(byte) = pointer.slot {
            return Ok(self.disk.put(byte, &address.to_le_bytes()).await?);
        }
        let mut dinode = self.read_inode(pointer.ino).await?;
        pointer.slot.set_in(&mut dinode, address);
        self.put_inode(pointer.ino, &mut dinode).await
    }

    /// Number of blocks that no file ever claimed.
    fn fresh_left(&self) -> u64 {
        let run = self.geometry.fragments_per_block;
        let firsts = (self.next_fresh..self.geometry.size).step_by(run as usize);
        let free = firsts.filter(|&first| {
            self.geometry.is_data_run(first, run)
                && bits::none_set(&self.held, first..first + run)
                && bits::none_set(&self.claimed, first..first + run)
        });
        free.count() as u64
    }

    /// Allocates a run of fragments that no file ever claimed, for a block of the repair's own.
    pub(super) fn fresh(&mut self, run: u64) -> Option<u64> {
        let block = self.geometry.fragments_per_block;
        while self.next_fresh + run <= self.geometry.size {
            let first = self.next_fresh;
            self.next_fresh += block;
            let range = first..first + run;
            let is_claimed = !bits::none_set(&self.claimed, range.clone());
            let was_claimed = is_claimed || bits::none_set(&self.held, range.clone());
            assert!(was_claimed, "invariant 4: what a file holds it has claimed");
            if self.geometry.is_data_run(first, run)
                && bits::none_set(&self.held, range.clone())
                && bits::none_set(&self.claimed, range.clone())
            {
                bits::set_range(&mut self.held, range.clone());
                bits::set_range(&mut self.claimed, range);
                return Some(first);
            }
        }
        None
    }
}

/// Whether a claim weighs as much as the one to which it loses, and a copy would help. It does not
/// for directories, which name themselves; nor for the pointers of one file, which may form a
/// cycle.
fn is_tie(claim: &Claim, winner: &Claim) -> bool {
    let (pointer, other) = (&claim.pointer, &winner.pointer);
    claim.weight == winner.weight
        && claim.kind != Some(FileKind::Directory)
        && match pointer.role {
            Role::Data => true,
            Role::Indirect => pointer.ino != other.ino && other.role == Role::Indirect,
            Role::Attribute => false,
        }
}

/// The weight for looking like a block of this directory.
fn looks_like_directory(pointer: &Pointer, content: &[u8]) -> i32 {
    let any = |_: u64, _: u8| true;
    let whole =
        content.chunks_exact(CHUNK_SIZE).all(|bytes| chunk::mend(bytes, &any).problems.is_empty());
    if !whole {
        return -4;
    }
    if pointer.lbn > 0 {
        return 2;
    }
    let Some(first) = content.get(..CHUNK_SIZE) else { return -4 };
    let first = chunk::entries(first);
    let own = first.first().is_some_and(|dot| dot.name == b"." && dot.ino == pointer.ino);
    if own { 8 } else { -4 }
}
