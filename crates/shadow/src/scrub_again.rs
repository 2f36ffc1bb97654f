//! Second tries of a scrub: below blocks that could not be read on its walk, and for rotten blocks
//! of the map and of records, whose contents memory has.

use cow::format::inode::Record;
use cow::{FAN, Stem, below};
use vfs::FsError;

use crate::engine::SUCCESSOR;
use crate::planted::{Bug, is_planted};
use crate::scrub::{Block, RECORDS, Scrub};
use crate::units::MAP;
use vnode::scrub::ScrubError;

/// Walks below blocks that could not be read, besides the first one.
const WALKS: u32 = 2;

impl Scrub<'_> {
    /// Notes a block that could not be read on the walk, so that nothing below it was collected.
    pub(crate) fn note_unwalked(&mut self, is_unread: bool, place: (u64, u8, u64)) {
        if is_unread && !is_planted(Bug::SkippedSubtrees) {
            self.unwalked.insert(place);
        }
    }

    /// Walks again below blocks that could not be read, although they are not lost. Those that
    /// still cannot be read are reported as lost: nothing is known of what is below them.
    ///
    /// # Errors
    /// As for the walk.
    pub(crate) async fn walk_again(&mut self) -> Result<(), ScrubError> {
        for _ in 0..WALKS {
            for (owner, level, index) in std::mem::take(&mut self.unwalked) {
                if !self.reported.contains(&(owner, level, index)) {
                    self.walk_below(owner, level, index).await?;
                }
            }
            self.read_batch().await?;
        }
        for (owner, level, index) in std::mem::take(&mut self.unwalked) {
            if self.reported.contains(&(owner, level, index)) {
                continue;
            }
            let block = Block { at: 0, length: 0, birth: 0, sum: 0, owner, level, index };
            let pointers = self.pointers_to(&block).await;
            let at = pointers.map_or(0, |[first, _]| first.offset());
            let damage = self.damage_of(&Block { at, ..block });
            self.damage.push(damage);
        }
        self.reported.clear();
        self.name_damage().await
    }

    async fn walk_below(&mut self, owner: u64, level: u8, index: u64) -> Result<(), ScrubError> {
        let stem = match self.stem_of(owner).await {
            Ok(Some(stem)) => stem,
            Ok(None) => return Ok(()),              // its file is gone
            Err(FsError::Corrupt) => return Ok(()), // reported with the block of its inode
            Err(_) => {
                self.note_unwalked(true, (owner, level, index));
                return Ok(());
            }
        };
        if level == 0 {
            return self.files(index).await;
        }
        let facts = match &stem {
            Stem::File(_, home, slot) => match home.inode(*slot, Record::facts) {
                Some(facts) => Some(facts),
                None => return Ok(()),
            },
            _ => None,
        };
        self.below(&stem, facts.as_ref(), level - 1, index * FAN, FAN).await
    }

    /// Whether a fold replaces a rotten block of the map or of the records of an open volume.
    pub(crate) fn renews(&mut self, block: &Block) -> bool {
        let Some(volume) = self.volume.filter(|_| self.held.is_none()) else { return false };
        let leaves = match block.owner {
            RECORDS => 0..0,
            owner if owner == MAP.owner() => below(block.level, block.index),
            _ => return false,
        };
        let sequence =
            if is_planted(Bug::ScrubbedBooks) { None } else { volume.write_again([], SUCCESSOR) };
        let Some(sequence) = sequence else { return false };
        volume.commits.lose_leaves(leaves);
        volume.commits.fold_soon();
        self.renewed.push((sequence, *block));
        true
    }
}
