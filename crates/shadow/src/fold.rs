//! Folds: the changes in records go into the map or wait in the space log, their replies go into
//! the ring, and dead runs go on the lists of the snapshots that hold them.
//!
//! The records of the open update then begin a new chain. A fold reaches the disk only when that
//! update is sealed, and as a whole with it.
//!
//! Invariants:
//! 1. The map and the log as folded, with the records since, are what trees hold.
//! 2. A fold happens between two awaits: all blocks that it changes were read before, or are filled
//!    anew, whatever was there. If one of them cannot be read, nothing has changed.
//! 3. A rotten block of the map is filled anew with all that memory has of it, and then no line
//!    waits for it in the log. A rotten block of replies has none from then on.
//!
//! Not asserted: 3, which is about blocks that cannot be read.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cow::format::answers;
use cow::format::snapshot::{Died, LISTS, RUNS};
use cow::lists::{Growing, Lists};
use cow::{
    Anew, BODY, Head, Listing, Node, Parent, Pointer, Run, Span, Stem, UNIT, below, coalesced,
};
use futures::future::join_all;
use vfs::FsError;

use crate::commit::Commits;
use crate::format::MAPPED;
use crate::format::log::{self, Logged};
use crate::format::record::Change;
use crate::planted::{Bug, is_planted};
use crate::renewed::Renewed;
use crate::room::ring;
use crate::runs::{Unfolded, most_records};
use crate::space_log::{self, Parted};
use crate::units::{LOG, MAP};

/// Blocks of the map that are read at once.
const AT_ONCE: usize = 64;

impl Commits {
    /// Folds if there are records to fold and this has not been tried too often; returns whether it
    /// may make room.
    pub(crate) fn fold_for_room(self: &Rc<Self>) -> bool {
        // A fold leaves its own records behind.
        let has_more = self.unfolded.borrow().units.len() > 2 && !self.live.horizon.has_failed();
        let is_worth_it = has_more && self.folds_for_room.begin(self.counts().changes);
        if is_worth_it {
            self.fold_soon();
        }
        is_worth_it
    }

    /// Whether the next update folds by itself.
    pub(crate) fn is_fold_due(&self) -> bool {
        self.unfolded.borrow().units.len() >= most_records(&self.shape)
    }

    /// The next update folds.
    pub(crate) fn fold_soon(self: &Rc<Self>) {
        self.is_fold_wanted.set(true);
        self.commit_soon();
    }

    /// Waits until an update that folds is durable, whatever clients do meanwhile.
    ///
    /// # Errors
    /// As [`Commits::next_release`].
    pub(crate) async fn folded(self: &Rc<Self>) -> Result<(), FsError> {
        self.fold_soon();
        let is_to_come = || self.is_busy() || self.is_due();
        while is_to_come() && self.is_fold_wanted.get() {
            self.next_release().await?;
        }
        let updates = self.counts().updates;
        while self.is_busy() && self.counts().updates == updates {
            self.next_release().await?;
        }
        Ok(())
    }

    /// Waits until an update has ended, or room was given back.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped; [`FsError::NoSpace`] if there is no room below.
    pub(crate) async fn next_release(self: &Rc<Self>) -> Result<(), FsError> {
        if self.live.horizon.has_stopped() {
            return Err(FsError::Io);
        }
        if self.is_refused() && !is_planted(Bug::EndlessFolds) {
            return Err(FsError::NoSpace);
        }
        self.kick();
        self.live.released.wait().await;
        Ok(())
    }

    /// Folds while no update is on its way, so that the map is up to date. The changes go with the
    /// next update.
    ///
    /// # Errors
    /// If a block that the fold changes cannot be read.
    pub(crate) async fn fold_now(&self) -> Result<(), FsError> {
        assert!(self.is_held.get() && !self.is_busy(), "invariant 1");
        self.open.borrow_mut().is_due = true;
        self.fold(true).await
    }

    /// Whether records have dead runs that no snapshot holds any more: a fold frees them.
    pub(crate) fn has_loose(&self) -> bool {
        let is_loose = |span: &Span| !self.pins.has_holder(*span);
        let is_open = self.open.borrow().spans.keys().any(is_loose);
        is_open || self.unfolded.borrow().died.keys().any(is_loose)
    }

    /// Dead units that are on no list yet.
    pub(crate) fn unlisted(&self) -> BTreeMap<Span, u64> {
        let (open, unfolded) = (self.open.borrow(), self.unfolded.borrow());
        let of_record = |change: &Change| match *change {
            Change::Died(run, span) => Some((run, span)),
            _ => None,
        };
        let recorded = unfolded.changes.iter().filter_map(of_record);
        let mut units: BTreeMap<Span, u64> = BTreeMap::new();
        for (run, span) in recorded.chain(open.died.iter().copied()) {
            *units.entry(span).or_default() += run.length;
        }
        units
    }

    /// Folds all records. A few lines for a block of the map wait in the log, unless `all`.
    ///
    /// # Errors
    /// If a block that the fold changes cannot be read; then nothing has changed.
    pub(crate) async fn fold(&self, mut all: bool) -> Result<(), FsError> {
        let (is_served, mut made) = (!all, Vec::new());
        let (parted, read) = loop {
            let parted = self.parted(all);
            if is_served && !self.has_room_for_lost() {
                break (parted, Err(FsError::NoSpace));
            }
            match self.read_places(&parted, &mut made).await {
                Err(Unfoldable::LostLeaves(leaves)) => {
                    self.nodes.unmake(&mut made);
                    self.lose_leaves(leaves);
                }
                Err(Unfoldable::LostLog) => {
                    self.nodes.unmake(&mut made);
                    all = true;
                }
                Err(Unfoldable::Failed(error)) => break (parted, Err(error)),
                Ok(places) => break (parted, Ok(places)),
            }
        };
        if let Ok(Places { map, anew, log, answers: blocks, lists }) = &read {
            let Unfolded { changes, answers, units, .. } = self.unfolded.take();
            self.fold_loose(&changes);
            self.fold_map(&parted, map);
            self.renew_map(&parted, anew);
            let log = log.iter().map(|(anew, lines)| (self.nodes.begin_anew(anew), lines));
            self.fold_log(&parted, log);
            if !is_planted(Bug::UnfoldedAnswers) {
                self.fold_answers(&answers, blocks.0.as_ref(), &blocks.1);
            }
            if !is_planted(Bug::UnfoldedDeaths) {
                self.fold_lists(lists);
            }
            let mut superblock = self.superblock.borrow_mut();
            if !is_planted(Bug::FoldedTwice) {
                (superblock.record, superblock.records) = (Pointer::NULL, 0);
            }
            if !is_planted(Bug::KeptRecords) {
                let units = units.into_iter().map(Run::of);
                self.open.borrow_mut().freed.extend(units);
            }
        }
        self.nodes.unmake(&mut made);
        read.map(drop)
    }

    /// Whether there is room for a fold that rewrites lost blocks of the map: no change has asked
    /// for it.
    pub(crate) fn has_room_for_lost(&self) -> bool {
        self.lost_leaves.borrow().is_empty() || self.space.has_blocks(0, self.needs(0), false)
    }

    /// Splits the changes of records between map and log. Only the commit that folds adds to
    /// records. If blocks of the map are lost, no line waits.
    fn parted(&self, all: bool) -> Parted {
        let lost = self.lost_leaves.borrow();
        let mut parted =
            self.log.borrow().part(&self.unfolded.borrow().changes, all || !lost.is_empty());
        lost.iter().for_each(|&leaf| _ = parted.mapped.entry(leaf).or_default());
        parted.lost.clone_from(&lost);
        parted
    }

    /// The leaves below the highest unreadable block on the way to this one; none if all of them
    /// can be read by now.
    pub(crate) async fn lost_with(
        &self,
        stem: &Stem,
        leaf: u64,
    ) -> Result<Option<Range<u64>>, FsError> {
        let all = self.nodes.unreadable(stem, leaf).await?;
        Ok(all.first().map(|&(level, index, _)| below(level, index)))
    }

    /// Has the next fold rewrite these leaves of the map, as far as there are so many.
    pub(crate) fn lose_leaves(&self, leaves: Range<u64>) {
        let end = leaves.end.min(self.shape.units.div_ceil(MAPPED));
        self.lost_leaves.borrow_mut().extend(leaves.start..end);
    }

    /// Blocks of the map to fill anew, from the top down.
    async fn anew(&self, blocks: Unreadable) -> Vec<Anew<'_>> {
        let mut anew = Vec::new();
        for ((Reverse(level), index), parent) in blocks {
            anew.push(self.nodes.instead(MAP, (level, index), parent).await);
        }
        anew
    }

    /// Reads the blocks that a fold changes.
    async fn read_places(
        &self,
        parted: &Parted,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Places<'_>, Unfoldable> {
        let lengths: Vec<usize> =
            self.unfolded.borrow().answers.iter().map(|one| one.len()).collect();
        let (map, anew) = self.read_map_of(parted, made).await?;
        let mut log = Vec::new();
        let written = self.log.borrow().written(parted);
        for (block, lines) in written {
            let place = block % space_log::ring(&self.shape);
            match self.nodes.make_anew(LOG, place, &[], made).await {
                Err(error) if LOG.goes_without(error) => return Err(Unfoldable::LostLog),
                anew => log.push((anew?, lines)),
            }
        }
        let (ring, begun) = (ring(&self.shape), self.superblock.borrow().answers_begun);
        let (mut last, mut blocks, mut end) = (None, Vec::new(), UNIT);
        if begun > self.superblock.borrow().answers_from {
            last = self.last_answers((begun - 1) % ring, made).await?;
            end = last.as_ref().and_then(|node| node.read(end_of_answers)).unwrap_or(UNIT);
        }
        let mut next = begun;
        for length in lengths {
            if end + 2 + length > UNIT {
                let place = next % ring;
                let parent = self.nodes.parent(&Stem::Answers, 0, place).await;
                if matches!(parent, Err(FsError::Corrupt)) {
                    self.forget_answers(place).await?;
                }
                let anew = self.nodes.make_anew(Stem::Answers, place, &blocks, made);
                blocks.push(anew.await?);
                (next, end) = (next + 1, size_of::<Head>());
            }
            end += 2 + length;
        }
        let lists = self.read_lists(made).await?;
        Ok(Places { map, anew, log, answers: (last, blocks), lists })
    }

    /// The blocks of the map that a fold changes, and those that it fills anew.
    async fn read_map_of(
        &self,
        parted: &Parted,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<(Vec<(u64, Rc<Node>)>, Vec<Anew<'_>>), Unfoldable> {
        let leaves: Vec<u64> = parted.mapped.keys().copied().collect();
        let (mut map, mut blocks, mut lost) = (Vec::new(), Unreadable::new(), 0..0);
        for some in leaves.chunks(AT_ONCE) {
            let read = some.iter().map(|&leaf| self.nodes.get(&MAP, 0, leaf));
            let _in_memory = join_all(read).await;
            for &leaf in some {
                let error = match self.nodes.make(&MAP, 0, leaf, made).await {
                    Ok(node) => {
                        map.push((leaf, node));
                        continue;
                    }
                    Err(error) => error,
                };
                let is_kept = is_planted(Bug::KeptLeaves) && !parted.lost.contains(&leaf);
                if !MAP.goes_without(error) || is_kept {
                    return Err(error.into());
                }
                // One look decides: what can be read a moment later counts as lost all the same,
                // or as read.
                let unreadable = self.nodes.unreadable(&MAP, leaf).await?;
                let Some(&(level, index, _)) = unreadable.first() else {
                    map.push((leaf, self.nodes.make(&MAP, 0, leaf, made).await?));
                    continue;
                };
                // With a block of pointers all is lost that is below it.
                let with = below(level, index);
                if lost != with && !self.are_lost(parted, &with) {
                    return Err(Unfoldable::LostLeaves(with));
                }
                lost = with;
                for (level, index, parent) in unreadable {
                    blocks.entry((Reverse(level), index)).or_insert(parent);
                }
            }
        }
        let anew = self.anew(blocks).await;
        Ok((map, anew))
    }

    /// Whether a fold fills all these leaves anew, as far as there are so many.
    fn are_lost(&self, parted: &Parted, leaves: &Range<u64>) -> bool {
        let end = leaves.end.min(self.shape.units.div_ceil(MAPPED));
        (leaves.start..end).all(|leaf| parted.lost.contains(&leaf))
    }

    /// The last block of the ring of replies, if it can be read. Otherwise the next replies go to
    /// the block behind it, and those in a rotten one are forgotten.
    async fn last_answers(
        &self,
        place: u64,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Option<Rc<Node>>, FsError> {
        match self.nodes.make(&Stem::Answers, 0, place, made).await {
            Err(FsError::Corrupt) => {
                self.forget_answers(place).await?;
                Ok(None)
            }
            Err(error) if Stem::Answers.goes_without(error) => Ok(None),
            made => made.map(Some),
        }
    }

    /// Forgets the replies of a rotten block. Where a block of pointers has rotted, the ring has
    /// holes in place of the other blocks below it: they need no room.
    pub(crate) async fn forget_answers(&self, place: u64) -> Result<(), FsError> {
        if !matches!(self.nodes.get(&Stem::Answers, 0, place).await, Ok(None)) {
            self.nodes.renew(&Stem::Answers, place).await?;
        }
        self.count_forgotten();
        Ok(())
    }

    pub(crate) fn count_forgotten(&self) {
        let renewed = self.renewed.get();
        self.renewed.set(Renewed { answer_blocks: renewed.answer_blocks + 1, ..renewed });
    }

    /// Reads the blocks of lists that get new runs. A deletion may free such a block while another
    /// is read, and places turn out to be unusable: then all are read again.
    async fn read_lists(
        &self,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Vec<(Growing, Vec<Run>)>, FsError> {
        loop {
            let (before, mut own) = (self.pins.changes(), Vec::new());
            let lists = self.try_lists(&mut own).await;
            let is_so_still = self.pins.changes() == before;
            let may_differ = !is_so_still && matches!(lists, Ok(_) | Err(FsError::Corrupt));
            if !may_differ {
                made.append(&mut own);
                return lists;
            }
            drop(lists);
            self.nodes.unmake(&mut own);
        }
    }

    async fn try_lists(
        &self,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Vec<(Growing, Vec<Run>)>, FsError> {
        let held = self.died();
        let new = held.keys().filter(|span| self.pins.list(**span).is_none()).count();
        let mut slots = self.pins.next_lists(new).into_iter();
        let blocks = held.values().map(|runs| runs.len().div_ceil(RUNS)).sum();
        let mut places = self.pins.next_died(blocks).into_iter();
        let mut lists = Vec::new();
        for (span, runs) in held {
            let known = self.pins.list(span);
            let slot = known.map_or_else(|| slots.next(), |known| Some(known.slot));
            let slot = slot.expect("so many were asked for");
            let line = match self.nodes.make(&Stem::Lists, 0, slot / LISTS, made).await {
                Err(FsError::Corrupt) if !is_planted(Bug::LostLines) => {
                    Lists { nodes: &self.nodes, pins: &self.pins }
                        .renew_lines(&Stem::Lists)
                        .await?;
                    self.nodes.renew(&Stem::Lists, slot / LISTS).await?;
                    self.nodes.make(&Stem::Lists, 0, slot / LISTS, made).await?
                }
                line => line?,
            };
            let (mut last, mut unread) = (None, None);
            if let Some(Listing { list, .. }) = known {
                match self.nodes.get(&Stem::Died, 0, list.last).await {
                    Ok(Some(block)) => last = Some(block),
                    // The runs on it are unknown now: a check reports the loss.
                    Ok(None) | Err(FsError::Corrupt) => self.pins.note_damage(span),
                    // It may be read when the list is needed: the list goes on behind it.
                    Err(FsError::Io) if !is_planted(Bug::AwaitedLists) => unread = Some(list.last),
                    Err(error) => return Err(error),
                }
            }
            let room = last.as_ref().map_or(0, |last| last.read(Died::room));
            let mut next = Vec::new();
            for _ in 0..runs.len().saturating_sub(room).div_ceil(RUNS) {
                let place = places.next().expect("so many were asked for");
                match self.nodes.make(&Stem::Died, 0, place, made).await {
                    Err(FsError::Corrupt) if !is_planted(Bug::UnpassedPlaces) => {
                        // Lists may have blocks below it.
                        let with = self.lost_with(&Stem::Died, place).await?;
                        with.into_iter().for_each(|with| self.pins.pass_died(with));
                        return Err(FsError::Corrupt);
                    }
                    block => next.push(block?),
                }
            }
            lists.push((Growing { span, slot, line, last, unread, next }, runs));
        }
        Ok(lists)
    }

    /// Dead runs in records that a snapshot holds, with adjacent ones joined.
    fn died(&self) -> BTreeMap<Span, Vec<Run>> {
        let mut held: BTreeMap<Span, Vec<Run>> = BTreeMap::new();
        for change in &self.unfolded.borrow().changes {
            if let Change::Died(run, span) = change
                && self.pins.has_holder(*span)
            {
                held.entry(*span).or_default().push(*run);
            }
        }
        held.values_mut().for_each(|runs| *runs = coalesced(std::mem::take(runs)));
        held
    }

    /// Frees dead runs that no snapshot holds any more.
    fn fold_loose(&self, changes: &[Change]) {
        for change in changes {
            if let Change::Died(run, span) = *change
                && !self.pins.has_holder(span)
            {
                self.open.borrow_mut().freed.push(run);
            }
        }
    }

    fn fold_map(&self, parted: &Parted, map: &[(u64, Rc<Node>)]) {
        for (leaf, node) in map {
            if parted.lost.contains(leaf) {
                self.fill_leaf(node);
                continue;
            }
            node.change(|bytes| {
                for &(run, is_used) in &parted.mapped[leaf] {
                    run.units().for_each(|unit| set_bit(bytes, unit.start % MAPPED, is_used));
                }
            });
            self.nodes.mark(node);
        }
    }

    /// Fills a block of the map with all that memory has of it.
    fn fill_leaf(&self, node: &Rc<Node>) {
        let body = self.space.recorded(node.place.index);
        node.change(|bytes| {
            bytes[size_of::<Head>()..size_of::<Head>() + BODY].copy_from_slice(&body)
        });
        self.nodes.mark(node);
        let renewed = self.renewed.get();
        self.renewed.set(Renewed { map_blocks: renewed.map_blocks + 1, ..renewed });
    }

    /// Fills anew the blocks of the map that could not be read (invariant 3).
    fn renew_map(&self, parted: &Parted, anew: &[Anew<'_>]) {
        for block in anew {
            let node = self.nodes.begin_anew(block);
            if node.place.level == 0 {
                self.fill_leaf(&node);
            } else {
                self.nodes.mark(&node);
            }
        }
        // A scrub may have found others since this fold looked: they are for the next one.
        let mut lost = self.lost_leaves.borrow_mut();
        lost.retain(|leaf| !parted.lost.contains(leaf));
        self.is_fold_wanted.set(self.is_fold_wanted.get() || !lost.is_empty());
    }

    fn fold_log<'a>(
        &self,
        parted: &Parted,
        blocks: impl Iterator<Item = (Rc<Node>, &'a Vec<Logged>)>,
    ) {
        for (node, lines) in blocks {
            node.change(|bytes| log::write(bytes, lines));
            self.nodes.mark(&node);
        }
        self.log.borrow_mut().fold(parted);
    }

    fn fold_lists(&self, lists: &[(Growing, Vec<Run>)]) {
        let books = Lists { nodes: &self.nodes, pins: &self.pins };
        lists.iter().for_each(|(list, runs)| books.grow(list, runs));
    }

    /// Puts replies behind those in the last block of the ring, or into the next one.
    fn fold_answers(&self, answers: &[Rc<[u8]>], last: Option<&Rc<Node>>, next: &[Anew<'_>]) {
        let mut superblock = self.superblock.borrow_mut();
        let (mut last, mut next) = (last.cloned(), next.iter());
        for answer in answers {
            let read = |node: &Rc<Node>| node.read(|bytes| room_behind(bytes, answer.len()));
            let at = last.as_ref().and_then(read).unwrap_or_else(|| {
                last = next.next().map(|anew| self.nodes.begin_anew(anew));
                superblock.answers_begun += 1;
                last.iter().for_each(|node| node.change(|bytes| bytes.fill(0)));
                size_of::<Head>()
            });
            let node = last.as_ref().expect("invariant 2: so many blocks were found before");
            node.change(|bytes| answers::put_answer(bytes, at, answer));
            self.nodes.mark(node);
        }
    }
}

/// Blocks that cannot be read, from the top down, each with its parent if that can be.
type Unreadable = BTreeMap<(Reverse<u8>, u64), Option<Parent>>;

/// Why a fold does not happen.
enum Unfoldable {
    /// These leaves of the map have rotted: the fold is retried with new blocks in their place.
    LostLeaves(Range<u64>),
    /// A block that leads to those of the log has rotted: the map has to be brought up to date.
    LostLog,
    Failed(FsError),
}

impl From<FsError> for Unfoldable {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}

/// The blocks that a fold changes.
struct Places<'a> {
    /// Blocks of the map, by their numbers.
    map: Vec<(u64, Rc<Node>)>,
    /// Blocks that are filled anew, from the top down.
    anew: Vec<Anew<'a>>,
    /// Blocks of the log, and their new lines.
    log: Vec<(Anew<'a>, Vec<Logged>)>,
    /// The last block of the ring, if there is one, and those that follow.
    answers: (Option<Rc<Node>>, Vec<Anew<'a>>),
    lists: Vec<(Growing, Vec<Run>)>,
}

/// The replies in a block of the ring, the oldest first; none if it makes no sense.
pub(crate) fn answers_in(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let end = end_of_answers(bytes)?;
    answers::split(&bytes[size_of::<Head>()..end])
}

fn end_of_answers(bytes: &[u8]) -> Option<usize> {
    let mut at = size_of::<Head>();
    while let Some(length) = bytes.get(at..at + 2) {
        match u16::from_le_bytes([length[0], length[1]]) {
            0 => break,
            length => at += 2 + usize::from(length),
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// The byte at which a reply of this length goes, if it fits.
fn room_behind(bytes: &[u8], length: usize) -> Option<usize> {
    end_of_answers(bytes).filter(|at| at + 2 + length <= bytes.len())
}

/// Sets whether a unit is in use in a block of the map.
pub(crate) fn set_bit(bytes: &mut [u8], unit: u64, is_used: bool) {
    let byte = &mut bytes[size_of::<Head>() + unit as usize / 8];
    let bit = 1 << (unit % 8);
    assert_ne!(*byte & bit != 0, is_used, "invariant 1: a fold says what was not so before");
    *byte ^= bit;
}
