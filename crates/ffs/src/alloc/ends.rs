//! Blocks for files that become shorter and end in a hole.
//!
//! A file of more than 12 blocks may not end in a hole: one that is cut off within a hole takes a
//! block there, and the indirect blocks that lead to it. Becoming shorter is never refused for
//! that. A few blocks of the volume are kept for nothing else, not even for the superuser, and one
//! file at a time takes from them. The same Update frees at least as many: the block behind the
//! hole, and the indirect blocks that led only there. The next file waits until these are
//! allocatable. On a volume that had fewer free when it was opened, the first blocks that become
//! free are kept for this.

use runtime::sync::Permit;
use ufs2::layout::INDIRECT_POINTERS;

use super::Allocator;
use crate::planted::{Bug, is_planted};

/// The last block of a file, and the indirect blocks that lead to it.
const KEPT_BLOCKS: i64 = 1 + INDIRECT_POINTERS as i64;

/// An Update's right to the kept blocks, until the blocks that it frees are allocatable.
pub(crate) struct EndRoom(#[expect(dead_code, reason = "nobody else has it")] Permit);

impl Allocator {
    /// Wholly free blocks that are kept.
    pub(super) fn kept_blocks(&self) -> i64 {
        if is_planted(Bug::UnkeptBlocks) { 0 } else { KEPT_BLOCKS }
    }

    /// Fragments that are kept from all other uses.
    pub(crate) fn kept(&self) -> i64 {
        self.kept_blocks() * self.geometry().fragments_per_block as i64
    }

    /// The right to take blocks for the new end of a file, as soon as they are there.
    pub(crate) async fn room_for_end(&self) -> Option<EndRoom> {
        if is_planted(Bug::UnkeptBlocks) { None } else { Some(EndRoom(self.ends.acquire(1).await)) }
    }
}
