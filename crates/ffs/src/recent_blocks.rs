//! Blocks that a task has looked into recently.

use std::cell::RefCell;

use cache::hash::SPREAD;

/// Number of blocks that are remembered.
const REMEMBERED: usize = 512;

/// Blocks that a task has looked into recently: a direct-mapped table.
pub(crate) struct RecentBlocks(RefCell<Vec<u64>>);

impl Default for RecentBlocks {
    fn default() -> Self {
        Self(RefCell::new(vec![u64::MAX; REMEMBERED]))
    }
}

impl RecentBlocks {
    /// Notes a block; returns whether it was noted already.
    pub(crate) fn seen(&self, block: u64) -> bool {
        let place = (block.wrapping_mul(SPREAD) >> 32) as usize % REMEMBERED;
        std::mem::replace(&mut self.0.borrow_mut()[place], block) == block
    }
}

#[cfg(test)]
mod tests {
    use super::RecentBlocks;

    #[test]
    fn a_block_comes_back_unless_others_have_come_meanwhile() {
        let recent = RecentBlocks::default();
        assert!(!recent.seen(8));
        assert!(recent.seen(8));
        let many = (0..100_000).filter(|block| recent.seen(1000 + 8 * block));
        assert_eq!(many.count(), 0, "each comes once");
        assert!(!recent.seen(8), "it is long ago");
    }
}
