//! Cache of members' blocks, so that a small write need not read the blocks that parity is computed
//! from.
//!
//! It holds the most recently used blocks of 4 KiB, of data and of parity. A cached block
//! equals the block on its member, so every writer updates the cache, holding the stripe lock.
//!
//! Invariants:
//! 1. A cached block is what a read of its member would return, unless that member is out.
//! 2. No more blocks are cached than there is room for.
//!
//! Not asserted: 1, which is about disks: torture's campaign `contract` looks at parity.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::label::SUMMED;
use crate::planted::{Bug, is_planted};

/// Bytes of a block: the unit of checksums.
pub(crate) const BLOCK: u64 = SUMMED;

/// Key of a block: the slot of its member, and its number there.
type Key = (usize, u64);

#[derive(Default)]
struct Known {
    /// The bytes, and the time of their last use.
    blocks: HashMap<Key, (Bytes, u64)>,
    /// Keys by time of last use.
    order: BTreeMap<u64, Key>,
    now: u64,
}

/// The cache; see the module.
pub(crate) struct Blocks {
    known: RefCell<Known>,
    most: usize,
}

impl Blocks {
    /// A cache of this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { known: RefCell::default(), most: bytes / BLOCK as usize }
    }

    /// Bytes of a member, if all their blocks are cached.
    pub(crate) fn find(&self, slot: usize, offset: u64, length: u64) -> Option<Vec<u8>> {
        let known = &mut *self.known.borrow_mut();
        let (first, end) = (offset / BLOCK, (offset + length).div_ceil(BLOCK));
        if !(first..end).all(|block| known.blocks.contains_key(&(slot, block))) {
            return None;
        }
        let mut bytes = Vec::with_capacity(((end - first) * BLOCK) as usize);
        for block in first..end {
            bytes.extend_from_slice(&known.touch((slot, block)));
        }
        bytes.truncate((offset - first * BLOCK + length) as usize);
        bytes.drain(..(offset - first * BLOCK) as usize);
        Some(bytes)
    }

    /// Forgets all blocks of a slot, which has another member.
    pub(crate) fn forget(&self, slot: usize) {
        let known = &mut *self.known.borrow_mut();
        known.blocks.retain(|key, _| key.0 != slot);
        known.order.retain(|_, key| key.0 != slot);
    }

    /// Forgets the cached blocks of a range, so that they are read again.
    pub(crate) fn forget_range(&self, slot: usize, offset: u64, length: u64) {
        let known = &mut *self.known.borrow_mut();
        for block in offset / BLOCK..(offset + length).div_ceil(BLOCK) {
            if let Some((_, used)) = known.blocks.remove(&(slot, block)) {
                known.order.remove(&used);
            }
        }
    }

    /// Caches bytes that were read from a member or are written to it. A partial block updates the
    /// cached block, and is ignored if that block is not cached.
    pub(crate) fn tell(&self, slot: usize, offset: u64, bytes: &[u8]) {
        if self.most == 0
            || is_planted(Bug::StaleBlocks) && !self.known.borrow().is_new(slot, offset)
        {
            return;
        }
        let known = &mut *self.known.borrow_mut();
        let end = offset + bytes.len() as u64;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = ((block * BLOCK).max(offset), ((block + 1) * BLOCK).min(end));
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            if part.len() as u64 == BLOCK {
                known.put((slot, block), Bytes::copy_from_slice(part));
            } else if let Some((old, _)) = known.blocks.get(&(slot, block)) {
                let mut new = old.to_vec();
                new[(from - block * BLOCK) as usize..][..part.len()].copy_from_slice(part);
                known.put((slot, block), new.into());
            }
        }
        while known.blocks.len() > self.most {
            let (_, oldest) = known.order.pop_first().expect("each block is in order");
            known.blocks.remove(&oldest);
        }
        assert!(known.blocks.len() == known.order.len(), "invariant 2");
    }
}

impl Known {
    fn is_new(&self, slot: usize, offset: u64) -> bool {
        !self.blocks.contains_key(&(slot, offset / BLOCK))
    }

    fn touch(&mut self, key: Key) -> Bytes {
        let bytes = self.blocks[&key].0.clone();
        self.put(key, bytes.clone());
        bytes
    }

    fn put(&mut self, key: Key, bytes: Bytes) {
        self.now += 1;
        if let Some((_, before)) = self.blocks.insert(key, (bytes, self.now)) {
            self.order.remove(&before);
        }
        self.order.insert(self.now, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK as usize]
    }

    #[test]
    fn what_was_told_is_found_if_all_of_it_is_known() {
        let blocks = Blocks::new(4 << 20);
        blocks.tell(1, BLOCK, &[block(1), block(2)].concat());
        let found = blocks.find(1, 2 * BLOCK - 512, 1024).expect("both are known");
        assert_eq!(found, [vec![1; 512], vec![2; 512]].concat());
        assert_eq!(blocks.find(1, 2 * BLOCK, BLOCK), Some(block(2)));
        assert_eq!(blocks.find(1, 2 * BLOCK, BLOCK + 512), None, "the third is not known");
        assert_eq!(blocks.find(0, BLOCK, 512), None, "nor is another member");
    }

    #[test]
    fn a_part_changes_a_block_that_is_known_and_makes_none() {
        let blocks = Blocks::new(4 << 20);
        blocks.tell(0, 512, &[7; 512]);
        assert_eq!(blocks.find(0, 512, 512), None);
        blocks.tell(0, 0, &block(1));
        blocks.tell(0, 512, &[7; 512]);
        assert_eq!(
            blocks.find(0, 0, 1536),
            Some([vec![1; 512], vec![7; 512], vec![1; 512]].concat())
        );
    }

    #[test]
    fn what_was_used_long_ago_makes_room() {
        let blocks = Blocks::new(2 * BLOCK as usize);
        (0..2).for_each(|number| blocks.tell(0, number * BLOCK, &block(number as u8)));
        assert!(blocks.find(0, 0, 512).is_some(), "it is used");
        blocks.tell(0, 2 * BLOCK, &block(2));
        let is_known = |number: u64| blocks.find(0, number * BLOCK, BLOCK).is_some();
        assert_eq!([is_known(0), is_known(1), is_known(2)], [true, false, true]);
        blocks.tell(1, 0, &block(9));
        blocks.forget(0);
        assert_eq!([is_known(0), is_known(2)], [false, false]);
        assert!(blocks.find(1, 0, BLOCK).is_some(), "it is another member");
        let none = Blocks::new(0);
        none.tell(0, 0, &block(1));
        assert_eq!(none.find(0, 0, 512), None);
    }
}
