//! Folds: what records have told comes into the map, and their answers into the ring.
//!
//! The records of the update that is open are then the first of a new chain. Only a seal takes a
//! fold to the disk, with that update, as a whole.
//!
//! Invariants:
//! 1. The map as it was folded, with the records since, is what trees hold.
//! 2. A fold happens between two awaits: all that it changes was read before. If something cannot
//!    be read, nothing has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vfs::FsError;

use crate::commit::{Commits, Unfolded, ring};
use crate::format::head::Head;
use crate::format::pointer::Pointer;
use crate::format::record::{self, Change, Run};
use crate::format::{MAPPED, UNIT};
use crate::nodes::{Node, Stem};
use crate::planted::{Bug, is_planted};

impl Commits {
    /// Folds all that records have told.
    ///
    /// # Errors
    /// When what it is folded into cannot be read; then it is as it was.
    pub(crate) async fn fold(&self) -> Result<(), FsError> {
        let mut made = Vec::new();
        let read = self.read_places(&mut made).await;
        if let Ok((map, blocks)) = &read {
            // Nobody notes anything of records but the commit that folds.
            let Unfolded { changes, answers, units } = self.unfolded.take();
            self.fold_changes(&changes, map);
            if !is_planted(Bug::UnfoldedAnswers) {
                self.fold_answers(&answers, blocks);
            }
            let mut superblock = self.superblock.borrow_mut();
            (superblock.record, superblock.records) = (Pointer::NULL, 0);
            if !is_planted(Bug::KeptRecords) {
                let units = units.into_iter().map(|start| Run { start, length: 1 });
                self.open.borrow_mut().freed.extend(units);
            }
        }
        self.nodes.unmake(&mut made);
        read.map(drop)
    }

    /// The blocks of the map by their numbers, and those of the ring in their order.
    async fn read_places(
        &self,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<(BTreeMap<u64, Rc<Node>>, Vec<Rc<Node>>), FsError> {
        let (leaves, lengths) = {
            let unfolded = self.unfolded.borrow();
            let leaves = |change: &Change| {
                let (Change::Taken(run) | Change::Freed(run)) = change;
                run.start / MAPPED..=(run.end() - 1) / MAPPED
            };
            let leaves: BTreeSet<u64> = unfolded.changes.iter().flat_map(leaves).collect();
            let lengths: Vec<usize> = unfolded.answers.iter().map(|one| one.len()).collect();
            (leaves, lengths)
        };
        let mut map = BTreeMap::new();
        for leaf in leaves {
            map.insert(leaf, self.nodes.make(&Stem::Map, 0, leaf, made).await?);
        }
        let (ring, begun) = (ring(&self.shape), self.superblock.borrow().answers_begun);
        let (mut blocks, mut end) = (Vec::new(), UNIT);
        if begun > 0 {
            let last = self.nodes.make(&Stem::Answers, 0, (begun - 1) % ring, made).await?;
            end = last.read(end_of_answers).unwrap_or(UNIT);
            blocks.push(last);
        }
        let mut next = begun;
        for length in lengths {
            if end + 2 + length > UNIT {
                blocks.push(self.nodes.make(&Stem::Answers, 0, next % ring, made).await?);
                (next, end) = (next + 1, size_of::<Head>());
            }
            end += 2 + length;
        }
        Ok((map, blocks))
    }

    fn fold_changes(&self, changes: &[Change], map: &BTreeMap<u64, Rc<Node>>) {
        for change in changes {
            let (run, is_used) = match *change {
                Change::Taken(run) => (run, true),
                Change::Freed(_) if is_planted(Bug::UnfoldedFrees) => continue,
                Change::Freed(run) => (run, false),
            };
            for unit in run.start..run.end() {
                let node = &map[&(unit / MAPPED)];
                node.change(|bytes| set_bit(bytes, unit % MAPPED, is_used));
                self.nodes.mark(node);
            }
        }
    }

    /// Answers go behind those in the last block of the ring, or to the next one.
    fn fold_answers(&self, answers: &[Rc<[u8]>], blocks: &[Rc<Node>]) {
        let mut superblock = self.superblock.borrow_mut();
        let mut blocks = blocks.iter();
        let mut last = if superblock.answers_begun > 0 { blocks.next() } else { None };
        for answer in answers {
            let room = last.and_then(|node| node.read(|bytes| room_behind(bytes, answer.len())));
            let at = room.unwrap_or_else(|| {
                last = blocks.next();
                superblock.answers_begun += 1;
                last.iter().for_each(|node| node.change(|bytes| bytes.fill(0)));
                size_of::<Head>()
            });
            let node = last.expect("invariant 2: so many blocks were read before");
            node.change(|bytes| record::put_answer(bytes, at, answer));
            self.nodes.mark(node);
        }
    }
}

/// Answers in a block of the ring, the oldest first; nothing if it makes no sense.
pub(crate) fn answers_in(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let end = end_of_answers(bytes)?;
    record::split(&bytes[size_of::<Head>()..end])
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

/// Where an answer of this length goes, if it has room.
fn room_behind(bytes: &[u8], length: usize) -> Option<usize> {
    end_of_answers(bytes).filter(|at| at + 2 + length <= bytes.len())
}

/// Says in a block of the map whether a unit is in use.
fn set_bit(bytes: &mut [u8], unit: u64, is_used: bool) {
    let byte = &mut bytes[size_of::<Head>() + unit as usize / 8];
    let bit = 1 << (unit % 8);
    assert_ne!(*byte & bit != 0, is_used, "invariant 1: a fold says what was not so before");
    *byte ^= bit;
}
