//! Writing back: pages get their place on the disk, and the file points at them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::{gather, slices, zeros};
use bytes::Bytes;
use futures::future::join_all;
use namespace::Witness;
use runtime::sync::{Lock, Permit};
use ufs2::layout::{Dinode, Geometry};
use ufs2::map::{block_count, run_length};
use vfs::{FsError, Sequence};

use crate::alloc::Near;
use crate::engine::Ffs;
use crate::inode::Node;
use crate::item::{Budget, Intent};
use crate::pages::Content;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Pages that are written back with one Update, so that Updates stay bounded.
pub(super) const PAGES_PER_UPDATE: usize = 128;

/// Who wants pages to be written back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A caller, who is told when it is durable.
    ByCaller,
    /// Nobody: memory is to become free, and no reply waits.
    ByNobody,
    /// The same, but a WRITE waits for the memory.
    ForMemory,
}

impl Ffs {
    /// How many pages are written back at once. Where many calls wait for memory, each takes a
    /// small share, so that they wait alike.
    fn pages_at_once(&self, asked: Asked) -> usize {
        match asked {
            Asked::ByCaller => PAGES_PER_UPDATE,
            Asked::ByNobody => self.pages_behind(),
            Asked::ForMemory => PAGES_PER_UPDATE / 4,
        }
    }

    /// Writes the dirty pages back of blocks `first` up to `end`. Under the exclusive lock.
    ///
    /// # Errors
    /// [`FsError::Io`] when data was lost: those pages are gone, and the verifier is another.
    pub(crate) async fn write_back(
        &self,
        node: &Rc<Node>,
        first: u64,
        end: u64,
    ) -> Result<(), FsError> {
        while self.write_back_some(node, first..end, Asked::ByCaller).await? {}
        Ok(())
    }

    /// Writes the first of these pages back, as many as `asked` has it; returns whether there were
    /// any. Under the exclusive lock.
    ///
    /// # Errors
    /// As [`Ffs::write_back`].
    pub(crate) async fn write_back_some(
        &self,
        node: &Rc<Node>,
        range: Range<u64>,
        asked: Asked,
    ) -> Result<bool, FsError> {
        let chosen = self.choose(node, range, asked);
        let Some(Chosen { update, mut set, size }) = chosen else { return Ok(false) };
        let _writing = self.begin_write_back();
        let written = self.write_blocks(update, node, &mut set, size, |_| (), &mut ()).await;
        self.end_pages(node, &set, asked, written).map(|_| true)
    }

    /// Writes some pages back that nobody asked for, and lends the lock while the device writes
    /// them: who brings more need not wait for that. Takes only blocks that are full: how the file
    /// ends is settled by whoever holds the lock alone.
    ///
    /// # Errors
    /// As [`Ffs::write_back`].
    pub(super) async fn write_back_lending(
        &self,
        node: &Rc<Node>,
        alone: Permit,
    ) -> Result<(), FsError> {
        let full = node.size() / self.geometry().block_size;
        let Some(chosen) = self.choose(node, 0..full, Asked::ByNobody) else {
            return self.write_back_some(node, 0..u64::MAX, Asked::ByNobody).await.map(|_| ());
        };
        let Chosen { update, mut set, size } = chosen;
        let _writing = self.begin_write_back();
        let planned = self.plan_blocks(update, node, &mut set, size).await;
        let lent = Lock::lend(alone);
        let written = match planned {
            Ok((update, payload, shown)) => {
                payload.write(self, update, (node, &shown)).await.map(|update| (update, shown))
            }
            Err(error) => Err(error),
        };
        let _alone = lent.reclaim().await;
        let written = match written {
            Ok((update, shown)) => {
                let now = node.dinode_with_times(); // of those to whom the lock was lent
                let also = |dinode: &mut Dinode| {
                    dinode.set_access_time(now.access_time());
                    dinode.set_modify_time(now.modify_time());
                    dinode.set_change_time(now.change_time());
                };
                self.point_at_blocks(update, (node, &shown), size, also, &mut ()).await
            }
            Err(error) => Err(error),
        };
        self.end_pages(node, &set, Asked::ByNobody, written)
    }

    /// The first pages of these blocks, as many as `asked` has it, to be written back;
    /// nothing if there are none.
    fn choose(&self, node: &Node, range: Range<u64>, asked: Asked) -> Option<Chosen> {
        let set = node.pages.borrow().contents(range, self.pages_at_once(asked));
        let (&last, _) = set.last_key_value()?;
        let volatile = node.volatile.get().expect("dirty pages have their size and time");
        let size = ((last + 1) * self.geometry().block_size)
            .min(volatile.size)
            .max(node.dinode().size.get());
        let mut update = Update::new(Budget::Reserved);
        update.is_unasked = asked != Asked::ByCaller;
        update.may_wait_for_batch = true; // there may be more, and one flush is enough
        Some(Chosen { update, set, size })
    }

    /// Pages are written back with this content, or lost. What was written anew meanwhile is
    /// neither.
    fn end_pages(
        &self,
        node: &Rc<Node>,
        set: &BTreeMap<u64, Content>,
        asked: Asked,
        written: Result<Sequence, FsError>,
    ) -> Result<(), FsError> {
        if asked != Asked::ByCaller && written == Err(FsError::NoSpace) {
            node.note_refusal();
        }
        for (&lbn, content) in set {
            let is_new = !node.pages.borrow().is_still(lbn, content);
            match is_new && !is_planted(Bug::ForgottenRewrites) {
                false => self.drop_page(node, lbn),
                true if written.is_ok() => self.release_page(node, lbn),
                true => {}
            }
        }
        self.settle_volatile(node);
        if written.is_err() {
            node.lose_end(self.geometry().block_size);
            self.rotate_verifier();
        }
        written.map(|_| ())
    }

    /// Writes the UNSTABLE data of all files back that nobody works on: what was set aside for it
    /// beyond its need is free then. Returns whether there was any.
    pub(crate) async fn write_back_idle(&self) -> bool {
        let nodes: Vec<Rc<Node>> = self.dirty_nodes.borrow().values().cloned().collect();
        let mut written = false;
        for node in nodes {
            if node.lock.is_free() && !self.policy.has_stopped() {
                let _alone = node.lock.exclusive().await;
                self.write_back_unasked(&node).await;
                written = true;
            }
        }
        written
    }

    /// Notes that space may be counted twice for a moment, as set aside and as taken.
    pub(crate) fn begin_write_back(&self) -> WritingBack<'_> {
        self.write_backs.set(self.write_backs.get() + 1);
        WritingBack(self)
    }

    /// A file has ended: its UNSTABLE data ends with it.
    pub(crate) fn discard_pages(&self, node: &Node) {
        let blocks = node.pages.borrow().blocks();
        blocks.into_iter().for_each(|lbn| self.drop_page(node, lbn));
        self.settle_volatile(node);
    }

    fn settle_volatile(&self, node: &Node) {
        if node.pages.borrow().is_empty() {
            node.volatile.set(None);
            self.dirty_nodes.borrow_mut().remove(&node.ino);
        }
    }

    /// Writes blocks of data, makes the file point at them and be `size` bytes long, all in
    /// `update`, which is new. Of a block that stays where it is only those fragments are written
    /// that change. Never shortens a file. The old last block may join what is written.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`]; then nothing changed but,
    /// perhaps, the bytes of blocks that were overwritten.
    pub(crate) async fn write_blocks(
        &self,
        update: Update,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
        also: impl FnOnce(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let (update, payload, shown) = self.plan_blocks(update, node, set, size).await?;
        let update = payload.write(self, update, (node, &shown)).await?;
        self.point_at_blocks(update, (node, &shown), size, also, witness).await
    }

    /// The first step of [`Ffs::write_blocks`]: finds a place for everything. The second is to
    /// write it ([`Payload::write`]). Gives back, too, which blocks readers see where they are
    /// written.
    async fn plan_blocks(
        &self,
        mut update: Update,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(Update, Payload, Vec<u64>), FsError> {
        let old_size = node.dinode().size.get();
        if size > old_size {
            self.add_tail(node, set, old_size, size).await?;
        }
        let (mut payload, mut shown) = (Payload::default(), Vec::new());
        let fragment = self.geometry().fragment_size;
        for (&lbn, content) in set.iter() {
            let known = content.place;
            let place = self.place(&mut update, node, (lbn, known), old_size, size).await?;
            let length = run_length(self.geometry(), size, lbn) * fragment;
            let part = match place {
                Place::There(_) => content.changed.start..content.changed.end.min(length as usize),
                Place::Grown(_) => {
                    assert_eq!(content.from, 0, "what begins within a block stays in its place");
                    0..length as usize
                }
                Place::New(_) => 0..length as usize,
            };
            if !matches!(place, Place::New(_)) {
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
        }
        Ok((update, payload, shown))
    }

    /// The last step of [`Ffs::write_blocks`]: makes the file point at what the device has.
    async fn point_at_blocks(
        &self,
        mut update: Update,
        (node, shown): (&Rc<Node>, &[u64]),
        size: u64,
        also: impl FnOnce(&mut Dinode),
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
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
            also(dinode);
        });
        if moved {
            update.change_inode(node, Intent::SizeSet, |_| ());
        }
        let is_written = !update.carried.is_delayed;
        let ready = self.reserve(update).await;
        if matches!(ready, Err(FsError::NoSpace))
            && is_written
            && !is_planted(Bug::UndoubtedRefusals)
        {
            // What was overwritten shows, and the log may hold older data of that place.
            self.doubts.borrow_mut().add(node, shown.iter().copied());
            self.rotate_verifier();
        }
        Ok(self.apply_seen(ready?, witness))
    }

    /// A file that grows writes anew what stands behind its old end and comes to be in it: in the
    /// run of fragments that its last block has, or, if that has to become longer, in all of it
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
            let is_hole = content.place.is_none_or(|place| place == 0);
            assert!(is_hole || reaches || is_planted(Bug::TornTails), "no gap (invariant 2)");
            let changed = &content.changed;
            content.changed = changed.start.min(anew.start)..changed.end.max(anew.end);
            return Ok(());
        }
        let address = self.map().find(node, None, tail).await?;
        if address == 0 {
            return Ok(()); // of a hole nothing stands anywhere
        }
        // A page of the tail would do as well, but would be written back before its time.
        let from = if grows { 0 } else { used - used % geometry.fragment_size };
        let byte = geometry.byte_address(address);
        let data = match from == used {
            true => Vec::new(),
            false => self.home.read_data(byte + from..byte + used).await?,
        };
        let data = gather(&data, 0, (used - from) as usize);
        let from = from as usize;
        set.insert(tail, Content { from, data, changed: anew, place: Some(address) });
        Ok(())
    }

    /// Writes payload for `update`, all that it has, by the fragments at which it begins: to the
    /// device and not yet to stable storage. What the log carries is not written here.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub(crate) async fn write_payload(
        &self,
        update: &mut Update,
        payload: Vec<(u64, Vec<Bytes>)>,
    ) -> Result<(), FsError> {
        assert!(update.payload.is_empty(), "the payload of an Update comes at once");
        update.carried = self.policy.carries(&payload);
        if !update.carried.is_delayed {
            let write = |(address, pieces): &(_, Vec<Bytes>)| {
                self.home.write_data(*address, pieces.clone())
            };
            for result in join_all(payload.iter().map(write)).await {
                match result {
                    Err(_) if is_planted(Bug::ForgottenPayloadErrors) => {}
                    Err(_) if update.is_unasked && is_planted(Bug::RottenLosses) => {
                        self.rotate_verifier();
                    }
                    result => result?,
                }
            }
            payload.iter().for_each(|(address, pieces)| self.keep_written(*address, pieces));
        }
        payload.into_iter().for_each(|(address, pieces)| update.push_payload(address, pieces));
        Ok(())
    }

    /// Keeps the whole blocks of what was written at fragment `address`: what is less went through
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

    /// Where block `lbn`, which is at `known` if that was asked before, goes when the file grows
    /// from `old_size` to `size`: where it is, longer in place, or somewhere new.
    async fn place(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        (lbn, known): (u64, Option<u64>),
        old_size: u64,
        size: u64,
    ) -> Result<Place, FsError> {
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
                return Ok(Place::Grown(here));
            }
            if have >= need {
                return Ok(Place::There(here));
            }
            if let Some(more) = self.allocator.extend(update.budget, here, have, need).await? {
                update.take(more);
                let more = ufs2::map::sectors(geometry, need - have);
                update.touch_inode(node, |dinode| dinode.sectors.set(dinode.sectors.get() + more));
                return Ok(Place::Grown(here));
            }
            let moved = map.exchange(update, node, lbn, (here, have), need).await?;
            return Ok(Place::New(moved));
        }
        let near = self.near(update, node, lbn).await?;
        let new = map.take(update, node, near, need).await?;
        map.set(update, node, lbn, new).await?;
        Ok(Place::New(new))
    }

    /// Behind the block before, unless the file has had its share of the group.
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
pub(super) fn grows(geometry: &Geometry, lbn: u64, old_size: u64, size: u64) -> bool {
    run_length(geometry, size, lbn) > run_length(geometry, old_size, lbn)
}

/// Whether bytes of a file that grows may stand on the disk before they are in it: these bytes of
/// its old last block, which has a run of so many fragments.
fn has_old_bytes(geometry: &Geometry, new: Range<u64>, run: u64) -> bool {
    let stand = new.start < new.end.min(run * geometry.fragment_size);
    let is_ragged = !new.start.is_multiple_of(geometry.fragment_size);
    stand && (is_ragged || !is_planted(Bug::FragmentTails)) && !is_planted(Bug::RaggedTail)
}

/// Where a block goes, by its first fragment.
#[derive(Clone, Copy)]
enum Place {
    /// Where it is.
    There(u64),
    /// Where it is, and where more stands than readers have seen of it.
    Grown(u64),
    /// Where no reader sees anything yet.
    New(u64),
}

impl Place {
    fn address(self) -> u64 {
        match self {
            Self::There(address) | Self::Grown(address) | Self::New(address) => address,
        }
    }
}

/// What writing back begins with: pages, and how long the file is when they are there.
struct Chosen {
    update: Update,
    set: BTreeMap<u64, Content>,
    size: u64,
}

/// See [`Ffs::begin_write_back`]. Whoever has one waits for the device alone, never for space.
pub(crate) struct WritingBack<'a>(&'a Ffs);

impl Drop for WritingBack<'_> {
    fn drop(&mut self) {
        self.0.write_backs.set(self.0.write_backs.get() - 1);
        self.0.allocator.released.notify();
    }
}

/// Writes of data, joined where they meet on the disk.
#[derive(Default)]
struct Payload {
    /// Address, pieces, and the fragment behind the last.
    runs: Vec<(u64, Vec<Bytes>, u64)>,
}

impl Payload {
    /// `length` bytes: those pieces, and zeros behind them.
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

    /// To the device, though not to stable storage. Of these blocks of the file readers see what is
    /// written, even if that fails: from then on they are in doubt.
    async fn write(
        self,
        engine: &Ffs,
        mut update: Update,
        (node, shown): (&Rc<Node>, &[u64]),
    ) -> Result<Update, FsError> {
        let runs = self.runs.into_iter().map(|(address, pieces, _)| (address, pieces));
        let written = engine.write_payload(&mut update, runs.collect()).await;
        if written.is_err() {
            engine.doubts.borrow_mut().add(node, shown.iter().copied());
        }
        written.map(|()| update)
    }
}
