//! What members hold, kept in memory: so that a small write need not read what it takes parity of.
//!
//! Blocks of 4 KiB of data and of parity, those that were used last. A block is known as it stands
//! on its member, so whoever writes there says so, with the stripe for itself.
//!
//! Invariants:
//! 1. A block that is known is what a read of its member would give, unless that is out.
//! 2. No more blocks are known than there is room for.
//!
//! Not asserted: 1, which is about disks: torture's campaign `contract` looks at parity.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::label::SUMMED;
use crate::planted::{Bug, is_planted};

/// Bytes of a block: that of which a checksum is kept.
pub(crate) const BLOCK: u64 = SUMMED;

/// A block: the slot of its member, and its number there.
type Key = (usize, u64);

#[derive(Default)]
struct Known {
    /// The bytes, and when they were used last.
    blocks: HashMap<Key, (Bytes, u64)>,
    /// By that time.
    order: BTreeMap<u64, Key>,
    now: u64,
}

/// See the module's prose.
pub(crate) struct Blocks {
    known: RefCell<Known>,
    most: usize,
}

impl Blocks {
    /// With room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { known: RefCell::default(), most: bytes / BLOCK as usize }
    }

    /// Bytes of a member, if all their blocks are known.
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

    /// A slot has another member.
    pub(crate) fn forget(&self, slot: usize) {
        let known = &mut *self.known.borrow_mut();
        known.blocks.retain(|key, _| key.0 != slot);
        known.order.retain(|_, key| key.0 != slot);
    }

    /// What is known of these bytes of a member is to be read again.
    pub(crate) fn forget_range(&self, slot: usize, offset: u64, length: u64) {
        let known = &mut *self.known.borrow_mut();
        for block in offset / BLOCK..(offset + length).div_ceil(BLOCK) {
            if let Some((_, used)) = known.blocks.remove(&(slot, block)) {
                known.order.remove(&used);
            }
        }
    }

    /// This is what stands on a member: what was read there, or is written. Of a block of which a
    /// part is told the rest is as it was, if it is known.
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
