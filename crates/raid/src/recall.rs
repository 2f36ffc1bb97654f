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
use std::ops::Range;

use crate::blocks::BLOCK;
use crate::label::{MAP_BITS, SUMS};
use crate::layout::Layout;
use crate::planted::{Bug, is_planted};
use crate::sums::{Sums, Untold};
use crate::table::tables_of;
use crate::written::MapBlock;

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

/// The stripes whose checksums are in a table.
fn stripes_of(table: u64, unit: u64) -> Range<u64> {
    let bytes = SUMS * BLOCK;
    table * bytes / unit..((table + 1) * bytes).div_ceil(unit)
}
