//! Rebuilds a block of the map that no member has whole, from the checksum tables.
//!
//! The first write of a stripe gives each of its units checksums, and these stay. So a stripe was
//! written if any table has a checksum of it, and was not if no table has. A table that is damaged
//! or unreadable proves nothing. If that is true of the tables of all units of a stripe, the stripe
//! counts as written. In such a stripe, a block without a known checksum is lost: the bytes there
//! may be older than the set.
//!
//! Recovery has already replayed the map blocks and checksums of the records that are needed.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::IoError;

use crate::blocks::BLOCK;
use crate::label::MAP_BITS;
use crate::layout::Layout;
use crate::planted::{Bug, is_planted};
use crate::sums::{Seen, Sums, are_unread};
use crate::table::{Found, Table, stripes_of, tables_of};
use crate::written::MapBlock;

/// Reason why a table is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untold {
    /// It is there, and cannot be read.
    Unread,
    /// It has rotted.
    Damaged,
}

/// A block of the map, derived from the tables.
pub(crate) struct Recalled {
    pub(crate) block: MapBlock,
    /// The stripes that the block calls written.
    pub(crate) written: BTreeSet<u64>,
    /// Whether some stripes count as written only because tables cannot be read; a later read may
    /// succeed.
    pub(crate) is_unread: bool,
}

/// Rebuilds a block of the map.
pub(crate) async fn map_block(sums: &Sums, layout: &Layout, number: u64) -> Recalled {
    let Layout { rows, unit, members, .. } = *layout;
    let first = number * MAP_BITS * 8;
    let all = first..(first + MAP_BITS * 8).min(rows);
    let (mut written, mut untold) = (BTreeSet::new(), all.clone().collect::<BTreeSet<u64>>());
    let mut is_unread = false;
    for slot in (0..members).filter(|slot| *slot == 0 || !is_planted(Bug::HalfRecalls)) {
        for table in tables_of(all.start * unit, (all.end - all.start) * unit) {
            let known = match sums.known_by_members(slot, table).await {
                Ok(known) => known,
                Err(why) => {
                    is_unread |= why == Untold::Unread;
                    continue;
                }
            };
            stripes_of(table, unit).for_each(|stripe| _ = untold.remove(&stripe));
            written.extend(known.into_iter().map(|block| block * BLOCK / unit));
        }
    }
    written.retain(|stripe| all.contains(stripe));
    is_unread &= !untold.is_empty();
    if !is_planted(Bug::ForgottenStripes) {
        written.extend(untold);
    }
    let bits = written.iter().map(|stripe| stripe - first);
    Recalled { block: MapBlock::recalled(bits), written, is_unread }
}

impl Sums {
    /// The blocks whose checksums are in a table, by the latest version that members have.
    ///
    /// # Errors
    /// The reason why the table is unusable.
    async fn known_by_members(&self, slot: usize, number: u64) -> Result<Vec<u64>, Untold> {
        let Seen { found, lent } = self.look_everywhere(slot, number).await;
        if lent.is_none() && !found.iter().any(Found::has_any) {
            if are_unread(&found) {
                return Err(Untold::Unread);
            }
            if found.iter().any(|found| found.is_damaged) {
                return Err(Untold::Damaged);
            }
        }
        let (of_none, lent) = ((0, &Rc::default()), lent.as_ref());
        Ok(Table::new((slot, number), of_none, (&found, [true; 2]), lent).known())
    }

    /// Marks blocks of stripes without a known checksum as lost, durably. Returns whether there was
    /// room.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped, or of [`TableUnread`].
    pub(crate) async fn lose_unknown(&self, stripes: &BTreeSet<u64>) -> Result<bool, IoError> {
        let Layout { unit, members, .. } = self.layout;
        for (stripe, slot) in stripes.iter().flat_map(|it| (0..members).map(move |s| (it, s))) {
            let sums = self.of(slot, stripe * unit, unit).await?;
            let blocks = (stripe * unit..(stripe + 1) * unit).step_by(BLOCK as usize);
            blocks.filter(|&at| sums.sum(at) == 0).for_each(|at| sums.lose(at));
        }
        self.bring_home(false).await?;
        Ok(self.are_home())
    }
}
