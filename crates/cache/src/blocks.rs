//! Cached blocks of metadata, by the number at which each begins.
//!
//! A task that wants a block asks for it here; an `Rc` of it pins it. The engine owns the contents
//! of a block, and reads and writes it: the cache decides when it is evicted, and reuses the memory
//! of evicted blocks for new ones.
//!
//! ```text
//!  not here --begin--> being read --insert--> here --evict, remove--> not here
//! ```
//!
//! Invariants:
//! 1. For one number there is at most one block, and at most one read in flight.
//! 2. A block that is pinned, or may not go, is not evicted; so the budget is a soft limit. Blocks
//!    pinned by files in memory go with these, and the excess over the budget then is bounded by
//!    the operations under way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use runtime::sync::Signal;

use crate::budget::Budget;
use crate::hash::NumberMap;

/// A cached block.
pub trait Block {
    /// Bytes of memory of its image.
    fn memory(&self) -> usize;
    /// Whether it can be evicted without loss: the device has all of it.
    fn may_go(&self) -> bool;
    /// The memory itself, for another block.
    fn into_memory(self) -> block::Buffer;
}

struct Kept<B> {
    block: Rc<B>,
    /// Tick of the cache's clock at the last use.
    used: Cell<u64>,
}

/// See the module's prose.
pub struct BlockCache<B> {
    blocks: RefCell<NumberMap<Kept<B>>>,
    loading: RefCell<BTreeSet<u64>>,
    loaded: Signal,
    tick: Cell<u64>,
    /// Memory of evicted blocks: giving it back would fragment the heap.
    spare: RefCell<Vec<block::Buffer>>,
    /// Size of most blocks, in bytes.
    usual_size: usize,
    budget: Rc<Budget>,
}

impl<B: Block> BlockCache<B> {
    /// An empty cache, most of whose blocks will have `usual_size` bytes.
    pub fn new(usual_size: u64, budget: Rc<Budget>) -> Self {
        Self {
            blocks: RefCell::default(),
            loading: RefCell::default(),
            loaded: Signal::new(),
            tick: Cell::new(0),
            spare: RefCell::default(),
            usual_size: usual_size as usize,
            budget,
        }
    }

    /// The memory budget of the blocks, and of all else that is cached of the volume.
    pub fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    /// The block at `number`, if it is here.
    pub fn get(&self, number: u64) -> Option<Rc<B>> {
        let blocks = self.blocks.borrow();
        let kept = blocks.get(&number)?;
        kept.used.set(self.next_tick());
        Some(kept.block.clone())
    }

    /// Whether the block at `number` is here.
    pub fn has(&self, number: u64) -> bool {
        self.blocks.borrow().contains_key(&number)
    }

    /// The blocks for which `is_so` holds, by their numbers.
    pub fn filtered(&self, is_so: impl Fn(&B) -> bool) -> Vec<Rc<B>> {
        let blocks = self.blocks.borrow();
        let mut some: Vec<_> = blocks.iter().filter(|(_, kept)| is_so(&kept.block)).collect();
        some.sort_unstable_by_key(|&(number, _)| number);
        some.into_iter().map(|(_, kept)| kept.block.clone()).collect()
    }

    /// Begins to read the block at `number`, which is not here; nothing if a read is in flight.
    pub fn begin(&self, number: u64) -> Option<Loading<'_, B>> {
        let is_first = self.loading.borrow_mut().insert(number);
        is_first.then(|| Loading { cache: self, number })
    }

    /// Waits until any block has been read, or a read has failed.
    pub async fn wait(&self) {
        self.loaded.wait().await;
    }

    /// Adds a block that was read, or made in memory.
    ///
    /// # Panics
    /// If there is one at `number`.
    pub fn insert(&self, number: u64, block: &Rc<B>) {
        self.budget.blocks().add(block.memory());
        self.budget.note_deltas();
        let kept = Kept { block: block.clone(), used: Cell::new(self.next_tick()) };
        let old = self.blocks.borrow_mut().insert(number, kept);
        assert!(old.is_none(), "one block at {number} (invariant 1)");
        if self.budget.is_exceeded() {
            self.evict();
        }
        self.trim_spare();
        self.budget.bound_data();
    }

    /// Removes a block, even if it is dirty.
    pub fn remove(&self, number: u64) -> Option<Rc<B>> {
        let Kept { block, .. } = self.blocks.borrow_mut().remove(&number)?;
        self.budget.blocks().subtract(block.memory());
        Some(block)
    }

    /// Accounts for a change of the memory of a cached block by `change`.
    pub fn resize(&self, block: &B, change: impl FnOnce()) {
        let before = block.memory();
        change();
        self.budget.blocks().add(block.memory());
        self.budget.blocks().subtract(before);
    }

    /// Memory for a block of `size` bytes, reused from an evicted block if there is some.
    pub fn unfilled(&self, size: usize) -> block::Buffer {
        let spare = if size == self.usual_size { self.spare.borrow_mut().pop() } else { None };
        match spare {
            Some(spare) => {
                self.budget.spare().subtract(size);
                spare
            }
            None => block::Buffer::unfilled(size),
        }
    }

    /// Evicts the least recently used eighth of the blocks that may go (invariant 2).
    pub fn evict(&self) {
        let mut blocks = self.blocks.borrow_mut();
        let mut idle: Vec<(u64, u64)> = blocks
            .iter()
            .filter(|(_, kept)| Rc::strong_count(&kept.block) == 1 && kept.block.may_go())
            .map(|(&number, kept)| (kept.used.get(), number))
            .collect();
        idle.sort_unstable();
        for (_, number) in idle {
            if self.budget.has_enough_gone() {
                break;
            }
            let block = blocks.remove(&number).expect("just listed").block;
            let is_idle = Rc::strong_count(&block) == 1 && block.may_go();
            debug_assert!(is_idle, "invariant 2: what goes is not pinned, and may go");
            self.budget.blocks().subtract(block.memory());
            self.keep_spare(block);
        }
        self.trim_spare();
        self.budget.settle();
    }

    /// Keeps the memory of an evicted block for reuse, if it has the usual size.
    fn keep_spare(&self, block: Rc<B>) {
        let memory = Rc::into_inner(block).map(B::into_memory);
        if let Some(usual) = memory.filter(|memory| memory.len() == self.usual_size) {
            self.budget.spare().add(usual.len());
            self.spare.borrow_mut().push(usual);
        }
    }

    /// Frees spare memory beyond the budget.
    fn trim_spare(&self) {
        let mut spare = self.spare.borrow_mut();
        let most = self.budget.room() / self.usual_size;
        self.budget.spare().subtract(spare.len().saturating_sub(most) * self.usual_size);
        spare.truncate(most);
    }

    fn next_tick(&self) -> u64 {
        self.tick.set(self.tick.get() + 1);
        self.tick.get()
    }
}

/// A read in flight; dropped, it lets the next task try.
pub struct Loading<'a, B> {
    cache: &'a BlockCache<B>,
    number: u64,
}

impl<B> Drop for Loading<'_, B> {
    fn drop(&mut self) {
        self.cache.loading.borrow_mut().remove(&self.number);
        self.cache.loaded.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of 4 KiB that may be evicted or not.
    struct Sample {
        memory: block::Buffer,
        may_go: Cell<bool>,
    }

    impl Block for Sample {
        fn memory(&self) -> usize {
            self.memory.memory()
        }

        fn may_go(&self) -> bool {
            self.may_go.get()
        }

        fn into_memory(self) -> block::Buffer {
            self.memory
        }
    }

    const SIZE: usize = 4096;

    /// A cache whose budget is 64 blocks, besides the part that is always for data.
    fn cache() -> BlockCache<Sample> {
        BlockCache::new(SIZE as u64, Budget::new(64 * SIZE * 8 / 7, SIZE as u64, false))
    }

    fn sample(cache: &BlockCache<Sample>) -> Rc<Sample> {
        Rc::new(Sample { memory: cache.unfilled(SIZE), may_go: Cell::new(true) })
    }

    fn fill(cache: &BlockCache<Sample>, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| cache.insert(number, &sample(cache)));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_its_memory_is_used_again() {
        let cache = cache();
        fill(&cache, 0..64);
        assert!((0..64).all(|number| cache.has(number)), "all have room");
        cache.get(0).expect("it is here");
        cache.insert(64, &sample(&cache));
        assert!(cache.has(0) && cache.has(64) && !cache.has(1), "0 was used since 1 was");
        assert!(cache.budget.in_use() <= cache.budget.bytes() / 8 * 7);
        let spare = cache.budget.spare().bytes();
        assert!(spare >= SIZE, "{spare} bytes wait");
        let block = cache.unfilled(SIZE);
        assert_eq!(cache.budget.spare().bytes(), spare - block.len());
    }

    #[test]
    fn what_is_pinned_or_has_something_to_write_stays_whatever_the_budget_says() {
        let cache = cache();
        let pinned: Vec<_> = (0..50).map(|_| sample(&cache)).collect();
        (0..).zip(&pinned).for_each(|(number, block)| cache.insert(number, block));
        for number in 50..100 {
            let block = sample(&cache);
            block.may_go.set(false);
            cache.insert(number, &block);
        }
        assert!((0..100).all(|number| cache.has(number)));
        assert!(cache.budget.in_use() >= 100 * SIZE);
        drop(pinned);
        cache.evict();
        let left = (0..50).filter(|&number| cache.has(number)).count();
        assert_eq!(left, 6, "with the 50 others an eighth of the budget is free");
        assert!((50..100).all(|number| cache.has(number)));
        cache.filtered(|block| !block.may_go()).iter().for_each(|block| block.may_go.set(true));
        (0..100).for_each(|number| _ = cache.remove(number));
        assert_eq!(cache.budget.blocks().bytes(), 0, "each is counted once, and no more");
    }

    #[test]
    fn one_reads_and_the_next_may_try_when_that_has_ended() {
        let cache = cache();
        let first = cache.begin(7).expect("nobody reads it");
        assert!(cache.begin(8).is_some());
        assert!((0..2).all(|_| cache.begin(7).is_none()), "whoever asks again does not end it");
        drop(first);
        assert!(cache.begin(7).is_some());
    }

    #[test]
    #[should_panic(expected = "invariant 1")]
    fn two_blocks_at_one_number_are_noticed() {
        let cache = cache();
        fill(&cache, 3..4);
        fill(&cache, 3..4);
    }
}
