//! Recovery of rotten blocks of the engine's own books, without loss.
//!
//! Memory, or the trees, have everything that is in the map, its log and the records. So the
//! contents of a lost block of the map are *derived* from the trees. If a block of the trees is
//! damaged as well, the blocks below it are unknown, and all units of the lost block count as in
//! use: `fsck` finds those that are not. Only the replies in a rotten block are forgotten. The
//! books are rewritten with the next update.
//!
//! Invariants:
//! 1. A unit counts as free only if the map, its log and the records have it as free, or if no tree
//!    holds it and all trees could be read.
//!
//! Not asserted: 1, which is about blocks that cannot be read.

use std::collections::BTreeSet;
use std::rc::Rc;

use cow::{Balance, Run, Stem};
use futures::future::try_join;
use vfs::{FsError, LoggedReply};

use crate::books::{read_answers_left, read_map_left, read_records_left};
use crate::check::Look;
use crate::commit::Commits;
use crate::error::OpenError;
use crate::format::MAPPED;
use crate::format::record::Change;
use crate::format::superblock::Superblock;
use crate::planted::{Bug, is_planted};
use crate::renewed::Renewed;
use crate::runs::{Unfolded, changes_for_record};
use crate::space::Space;
use crate::space_log::{self, Log};
use crate::units::{LOG, MAP, Nodes};

/// The engine's own books, as far as they can be read.
pub(crate) struct Books {
    pub(crate) unfolded: Unfolded,
    pub(crate) log: Log,
    pub(crate) remembered: Vec<LoggedReply>,
    pub(crate) lost: LostBooks,
}

/// The unreadable parts of the books.
pub(crate) struct LostBooks {
    /// Blocks of the map.
    leaves: BTreeSet<u64>,
    /// Whether blocks of the log, or records, are lost.
    has_lost: bool,
    /// Places of lost blocks in the ring of replies.
    answers: Vec<u64>,
}

/// Reads records, map and replies. Lost blocks of the map are derived from trees.
///
/// # Errors
/// [`OpenError`] if something makes no sense, or the disk fails.
pub(crate) async fn read_books(
    nodes: &Rc<Nodes>,
    space: &Space,
    superblock: &Superblock,
) -> Result<Books, OpenError> {
    let (device, shape) = (&**nodes.path.device(), space.shape());
    let secret = nodes.secret();
    let (unfolded, is_all) = read_records_left(device, shape, superblock, secret).await?;
    let map = async {
        if is_all {
            return read_map_left(nodes, space, superblock, &unfolded).await;
        }
        let log = Log::from(shape, superblock.log_blocks.end);
        Ok((log, (0..shape.units.div_ceil(MAPPED)).collect()))
    };
    let answers = read_answers_left(nodes, shape, superblock, &unfolded);
    let ((log, leaves), (remembered, answers)) = try_join(map, answers).await?;
    if !leaves.is_empty() {
        let mut silent = |_, _| ();
        let look = Look::new(nodes.clone(), *shape, false, &mut silent);
        let held = look.held_by_all(superblock, &unfolded).await;
        leaves.iter().for_each(|&leaf| space.take_held(leaf, held.as_ref()));
    }
    let has_lost = !leaves.is_empty() && log.range() != superblock.log_blocks || !is_all;
    let lost = LostBooks { leaves, has_lost, answers };
    Ok(Books { unfolded, log, remembered, lost })
}

impl Commits {
    /// Rewrites with the next update the blocks that an opening could not read, and counts them:
    /// mended runs, lost blocks of lines of lists, and the books.
    ///
    /// # Errors
    /// If another block that a fold changes cannot be read.
    pub(crate) async fn renew_all(
        &self,
        mended_runs: u64,
        lost_lists: &[u64],
        lost: LostBooks,
    ) -> Result<(), FsError> {
        self.renewed.set(Renewed { mended_runs, ..Renewed::default() });
        self.renew_lists(lost_lists).await?;
        self.renew_books(lost).await
    }

    /// Counts a pointer to an unreadable block that was removed.
    pub(crate) fn note_given_up(&self) {
        let renewed = self.renewed.get();
        self.renewed.set(Renewed { given_up: renewed.given_up + 1, ..renewed });
    }

    /// The changes for the record of an update, and the runs that are free when it is durable. Runs
    /// that are not in use are left out: the pointers to them were wrong.
    pub(crate) fn changes_of(&self, mut balance: Balance) -> (Vec<Change>, Vec<Run>) {
        if !is_planted(Bug::WrongFrees) && !is_planted(Bug::EarlyFrees) {
            (0..balance.leave_out_wrong(|run| self.space.may_free(run)))
                .for_each(|_| self.note_given_up());
        }
        changes_for_record(balance)
    }

    /// Makes the blocks of lines of lists that an opening could not read empty.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub(crate) async fn renew_lists(&self, lost: &[u64]) -> Result<(), FsError> {
        for &leaf in lost {
            self.nodes.renew(&Stem::Lists, leaf).await?;
            self.note_given_up();
        }
        Ok(())
    }

    /// Rewrites with the next update the blocks of the books that an opening could not read.
    ///
    /// # Errors
    /// If another block that a fold changes cannot be read, or if a block of the map may be read
    /// again and there is no room to rewrite it.
    pub(crate) async fn renew_books(&self, lost: LostBooks) -> Result<(), FsError> {
        let LostBooks { leaves, has_lost, answers } = lost;
        for place in answers {
            // Replies that may be read again stay on the disk, and a hole needs no block.
            let there = self.nodes.get(&Stem::Answers, 0, place).await;
            if !matches!(there, Ok(None) | Err(FsError::Io)) {
                self.nodes.renew(&Stem::Answers, place).await?;
            }
            self.count_forgotten();
        }
        if leaves.is_empty() {
            return Ok(());
        }
        self.renewed.set(Renewed { has_lost_records: has_lost, ..self.renewed.get() });
        self.lost_leaves.borrow_mut().extend(&leaves);
        if !has_lost && !self.has_room_for_lost() {
            for leaf in leaves {
                // What may be read again at the next opening would not fit the records of this one.
                match self.nodes.get(&MAP, 0, leaf).await {
                    Err(FsError::Corrupt) => {}
                    _ => return Err(FsError::Io),
                }
            }
            return Ok(()); // a later fold rewrites them
        }
        // The fold makes the log unnecessary.
        for place in 0..space_log::ring(&self.shape) {
            if self.nodes.get(&LOG, 0, place).await.is_err() {
                self.nodes.renew(&LOG, place).await?;
            }
        }
        self.fold(true).await
    }
}
