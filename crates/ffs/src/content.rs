//! File content: placing data on the disk and pointing the file at it.
//!
//! Data reaches a file only as written blocks. An Update takes the missing fragments and writes the
//! payload. It is staged only when the device has all of the payload; the policy flushes before any
//! pointer goes out. An overwrite goes to the place of the old data, in parallel with nothing: its
//! Update follows it.
//!
//! Invariants:
//! 1. The size on disk covers only data that is stored, or holes.
//! 2. Whenever a file grows, the part of its old last block that comes to be in it is written anew:
//!    bytes on the disk behind the old end never show.
//!
//! Not asserted: 1, which takes reading the disk: the checker does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::{gather, slices, zeros};
use bytes::Bytes;
use futures::future::join_all;
use namespace::AttributeChange;
use ufs2::layout::{DIRECT_POINTERS, Geometry};
use ufs2::map::{block_count, depth, run_length};
use vfs::FsError;
use vnode::{Content, Place};

use crate::alloc::Near;
use crate::engine::Ffs;
use crate::inode::{Node, OnDisk, change_attributes};
use crate::item::Intent;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Data by the first fragment of each run.
type Runs = Vec<(u64, Vec<Bytes>)>;

impl Ffs {
    /// Places blocks of data of a file that is to be `size` bytes long. In a block that stays in
    /// place only the changed fragments are written. The old last block may join them, and a new
    /// one, filled with zeros. Also returns the blocks that are overwritten where readers see them.
    pub(crate) async fn plan_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(Payload, Vec<u64>), FsError> {
        let old_size = node.dinode().size.get();
        if size > old_size {
            self.add_end(node, set, size).await?;
            self.add_tail(node, set, old_size, size).await?;
        }
        let (mut payload, mut shown) = (Payload::default(), Vec::new());
        let fragment = self.geometry().fragment_size;
        for (&lbn, content) in set.iter() {
            let known = content.place.as_ref().map(|place| self.address(place));
            let place = self.place_block(update, node, (lbn, known), old_size, size).await?;
            let length = run_length(self.geometry(), size, lbn) * fragment;
            let part = match place {
                Spot::There(_) => content.changed.start..content.changed.end.min(length as usize),
                Spot::Grown(_) => {
                    assert_eq!(content.from, 0, "what begins within a block stays in its place");
                    0..length as usize
                }
                Spot::New(_) => 0..length as usize,
            };
            if !matches!(place, Spot::New(_)) {
                shown.push(lbn);
            }
            let first = part.start as u64 / fragment;
            let end = (part.end as u64).div_ceil(fragment);
            let start = (first * fragment) as usize;
            let before = content.from.saturating_sub(start);
            let skip = start.saturating_sub(content.from).min(content.data.len());
            let pieces = [zeros(before), content.data.slice(skip..)];
            let length = (end - first) * fragment;
            payload.add(fragment, place.address() + first, &pieces, length as usize);
            if matches!(place, Spot::New(_)) || is_planted(Bug::VacatedData) {
                payload.note_new(place.address() + first..place.address() + end);
            }
        }
        Ok((payload, shown))
    }

    /// A file of more than 12 blocks may not end in a hole.
    async fn add_end(
        &self,
        node: &Node,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(), FsError> {
        let last = block_count(self.geometry(), size).saturating_sub(1);
        if last >= DIRECT_POINTERS as u64
            && !set.contains_key(&last)
            && !is_planted(Bug::HollowEnd)
            && self.map().find(node, None, last).await? == 0
        {
            set.insert(last, Content::whole(Bytes::new()));
        }
        Ok(())
    }

    /// Makes a file `size` bytes long and points it at data that the device has.
    pub(crate) fn end_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
        change: &AttributeChange,
    ) {
        let old = node.dinode();
        let moved = {
            let new = update.dinode(node);
            let indirect = update.items.iter().any(|item| item.intent == Intent::PointerSet);
            let is_longer = size != old.size.get();
            is_longer || indirect || new.sectors != old.sectors || new.direct != old.direct
        };
        update.touch_inode(node, |dinode| {
            dinode.size.set(size);
            dinode.forget_verifier();
            change_attributes(change, node.kind, dinode);
        });
        if moved {
            update.change_inode(node, Intent::SizeSet, |_| ());
        }
    }

    /// The bytes of a block at `place` that are needed to write `new` of them, when the file grows
    /// from `old_size` to `size`. In a block that stays in place, and as far as its run reaches,
    /// these are the changed fragments, and, where the file grows behind its old end, those up to
    /// that; in a hole they are the new data alone.
    pub(crate) fn needed(
        &self,
        lbn: u64,
        place: &Place,
        new: Range<usize>,
        (old_size, size): (u64, u64),
    ) -> Range<usize> {
        if matches!(place, Place::Hole) {
            return new;
        }
        let geometry = self.geometry();
        let in_file = old_size.saturating_sub(lbn * geometry.block_size).min(geometry.block_size);
        let stored = in_file as usize;
        if stored == 0 || grows(geometry, lbn, old_size, size) {
            return 0..new.end.max(stored);
        }
        let fragment = geometry.fragment_size as usize;
        let first = new.start.min(stored);
        // The part of the old last block that the file grows into is written anew.
        let grows_behind = size > old_size && in_file < geometry.block_size;
        let whole = grows_behind && !is_planted(Bug::TornTails);
        let end = if whole { stored } else { new.end.next_multiple_of(fragment) };
        first - first % fragment..end.min(stored).max(new.end)
    }

    /// Whole blocks to reserve for a block with a page: its own and the indirect blocks that lead
    /// to it, unless its neighbour pays for these. An existing block is overwritten in place, and
    /// needs none.
    pub(crate) async fn page_cost(
        &self,
        node: &Node,
        lbn: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError> {
        if self.map().find(node, None, lbn).await? != 0 {
            return Ok(0);
        }
        let geometry = self.geometry();
        let levels = depth(geometry, lbn)?;
        let begins = lbn >= DIRECT_POINTERS as u64
            && (lbn - DIRECT_POINTERS as u64).is_multiple_of(geometry.pointers_per_indirect);
        let is_paid = has_neighbour && !begins || is_planted(Bug::UnpaidWays);
        let leading = if is_paid { 0 } else { levels };
        Ok(1 + leading)
    }

    /// First fragment of a block; 0 for a hole.
    fn address(&self, place: &Place) -> u64 {
        match place {
            Place::Disk(byte) | Place::Summed(byte, _) => byte / self.geometry().fragment_size,
            Place::Hole => 0,
            Place::Memory(_) => unreachable!("every block of this engine is on the disk"),
        }
    }

    /// Adds the tail of a growing file, which is written anew behind the old end: within the
    /// fragment run of its last block, or, if that run has to become longer, the whole run
    /// (invariant 2).
    async fn add_tail(
        &self,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        old_size: u64,
        size: u64,
    ) -> Result<(), FsError> {
        let geometry = self.geometry();
        let Some(tail) = block_count(geometry, old_size).checked_sub(1) else { return Ok(()) };
        let (start, old_run) = (tail * geometry.block_size, run_length(geometry, old_size, tail));
        let used = old_size - start;
        let end = (size - start).min(geometry.block_size);
        let grows = grows(geometry, tail, old_size, size);
        if !grows && !has_old_bytes(geometry, used..end, old_run) {
            return Ok(());
        }
        let anew = used as usize..end as usize;
        if let Some(content) = set.get_mut(&tail) {
            let reaches = (content.from + content.data.len()) as u64 >= used;
            let is_hole = !matches!(content.place, Some(Place::Disk(_)));
            assert!(is_hole || reaches || is_planted(Bug::TornTails), "no gap (invariant 2)");
            let changed = &content.changed;
            content.changed = changed.start.min(anew.start)..changed.end.max(anew.end);
            return Ok(());
        }
        let address = self.map().find(node, None, tail).await?;
        if address == 0 {
            return Ok(()); // a hole has no bytes on the disk
        }
        // A page of the tail would do, but would be written back too early.
        let from = if grows { 0 } else { used - used % geometry.fragment_size };
        let byte = geometry.byte_address(address);
        let data = if from == used {
            Vec::new()
        } else {
            self.home.read_data(byte + from..byte + used).await?
        };
        let data = gather(&data, 0, (used - from) as usize);
        let from = from as usize;
        let place = Some(Place::Disk(byte));
        set.insert(tail, Content { from, data, changed: anew, is_part: false, place });
        Ok(())
    }

    /// Writes the whole payload of `update`, by first fragment, to the device but not yet to stable
    /// storage. Payload that the log carries is not written here. The old content of the `new`
    /// fragments is not needed: this Update takes them, and nothing durable points at them.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub(crate) async fn write_payload(
        &self,
        update: &mut Update,
        payload: Runs,
        new: &[Range<u64>],
    ) -> Result<(), FsError> {
        assert!(update.payload.is_empty(), "the payload of an Update comes at once");
        let beside = self.policy.beside();
        update.carried = beside.map(|beside| beside.carries(&payload)).unwrap_or_default();
        if !update.carried.is_delayed {
            join_all(new.iter().map(|place| self.home.vacate(place))).await;
            let write = |(address, pieces): &(_, Vec<Bytes>)| {
                self.home.write_data(*address, pieces.clone())
            };
            for result in join_all(payload.iter().map(write)).await {
                match result {
                    Err(_) if is_planted(Bug::ForgottenPayloadErrors) => {}
                    result => result?,
                }
            }
            payload.iter().for_each(|(address, pieces)| self.keep_written(*address, pieces));
        }
        payload.into_iter().for_each(|(address, pieces)| update.push_payload(address, pieces));
        Ok(())
    }

    /// Caches the whole blocks that were written at fragment `address`; smaller writes went through
    /// the page cache.
    fn keep_written(&self, address: u64, pieces: &[Bytes]) {
        let mut start = self.geometry().byte_address(address);
        for piece in pieces {
            if piece.len() as u64 == self.geometry().block_size {
                self.home.data().keep_written(start, piece);
            }
            start += piece.len() as u64;
        }
    }

    /// Chooses the place of block `lbn`, which is at `known` if that is known already, when the
    /// file grows from `old_size` to `size`: in place, longer in place, or somewhere new.
    async fn place_block(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        (lbn, known): (u64, Option<u64>),
        old_size: u64,
        size: u64,
    ) -> Result<Spot, FsError> {
        let geometry = self.geometry();
        let map = self.map();
        let need = run_length(geometry, size, lbn);
        let here = match known {
            Some(here) => here,
            None => map.find(node, Some(update), lbn).await?,
        };
        if here != 0 {
            let have = run_length(geometry, old_size, lbn);
            if lbn >= block_count(geometry, old_size) {
                return Ok(Spot::Grown(here));
            }
            if have >= need {
                return Ok(Spot::There(here));
            }
            if let Some(more) = self.allocator.extend(update.space, here, have, need).await? {
                update.take(more);
                let more = ufs2::map::sectors(geometry, need - have);
                update.touch_inode(node, |dinode| dinode.sectors.set(dinode.sectors.get() + more));
                return Ok(Spot::Grown(here));
            }
            let moved = map.exchange(update, node, lbn, (here, have), need).await?;
            return Ok(Spot::New(moved));
        }
        let near = self.near(update, node, lbn).await?;
        let new = map.take(update, node, near, need).await?;
        map.set(update, node, lbn, new).await?;
        Ok(Spot::New(new))
    }

    /// The position behind the previous block, unless the file has had its share of the group.
    pub(crate) async fn near(
        &self,
        update: &Update,
        node: &Rc<Node>,
        lbn: u64,
    ) -> Result<Near, FsError> {
        let geometry = self.geometry();
        let home = Near::Group(geometry.group_of_inode(node.ino));
        if lbn == 0 {
            return Ok(home);
        }
        let before = self.map().find(node, Some(update), lbn - 1).await?;
        if lbn.is_multiple_of(geometry.max_blocks_per_group) {
            let last =
                if before == 0 { geometry.inode_position(node.ino).fragment } else { before };
            return Ok(Near::Group(self.allocator.roomy_group(last)));
        }
        let behind = before + geometry.fragments_per_block;
        Ok(if before == 0 { home } else { Near::Fragment(behind) })
    }
}

/// Whether a block takes a longer run of fragments when its file grows from `old_size` to `size`.
fn grows(geometry: &Geometry, lbn: u64, old_size: u64, size: u64) -> bool {
    run_length(geometry, size, lbn) > run_length(geometry, old_size, lbn)
}

/// Whether stale bytes may be on the disk in the range `new` of the old last block of a growing
/// file, whose run has `run` fragments.
fn has_old_bytes(geometry: &Geometry, new: Range<u64>, run: u64) -> bool {
    let stand = new.start < new.end.min(run * geometry.fragment_size);
    let is_ragged = !new.start.is_multiple_of(geometry.fragment_size);
    stand && (is_ragged || !is_planted(Bug::FragmentTails)) && !is_planted(Bug::RaggedTail)
}

/// The place of a block, by its first fragment.
#[derive(Clone, Copy)]
enum Spot {
    /// In place.
    There(u64),
    /// In place, but longer than readers have seen.
    Grown(u64),
    /// At fragments that no reader sees yet.
    New(u64),
}

impl Spot {
    fn address(self) -> u64 {
        match self {
            Self::There(address) | Self::Grown(address) | Self::New(address) => address,
        }
    }
}

/// Writes of data, joined where they meet on the disk.
#[derive(Default)]
pub struct Payload {
    /// Address, pieces, and the fragment behind the last.
    runs: Vec<(u64, Vec<Bytes>, u64)>,
    /// Fragments whose old content is not needed.
    new: Vec<Range<u64>>,
}

impl Payload {
    /// Adds `length` bytes: the pieces, and zeros behind them.
    fn add(&mut self, fragment_size: u64, address: u64, data: &[Bytes], length: usize) {
        let mut pieces = slices(data, 0, length);
        let given = block::length_of(&pieces) as usize;
        if given < length {
            pieces.push(zeros(length - given));
        }
        let end = address + length as u64 / fragment_size;
        match self.runs.last_mut() {
            Some((_, before, behind)) if *behind == address => {
                before.append(&mut pieces);
                *behind = end;
            }
            _ => self.runs.push((address, pieces, end)),
        }
    }

    /// Notes fragments that were taken for the data.
    fn note_new(&mut self, fragments: Range<u64>) {
        match self.new.last_mut() {
            Some(before) if before.end == fragments.start => before.end = fragments.end,
            _ => self.new.push(fragments),
        }
    }

    /// Addresses and pieces; and the fragments taken for them, neighbours joined.
    pub(crate) fn parts(self) -> (Runs, Vec<Range<u64>>) {
        let runs = self.runs.into_iter().map(|(address, pieces, _)| (address, pieces));
        (runs.collect(), self.new)
    }
}
