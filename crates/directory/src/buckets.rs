//! A map from evenly spread keys to numbers, in the order of the keys.
//!
//! A lookup in a tree of a million names is a chain of cache misses. Here the first bits of a key
//! select its bucket, and a bucket is a few cache lines: so a lookup takes two misses. This
//! requires that keys begin with a hash: with chosen keys, buckets could be long.
//!
//! Invariants:
//! 1. Bucket `i` of `2^b` holds the keys whose first `b` bits are `i`, in order. So all buckets,
//!    one after the other, are in order.
//! 2. There are between [`LEAST`] and [`MOST`] keys for each bucket, on average, or there is one
//!    bucket. Doubling or halving the number of buckets takes one step over all keys, after changes
//!    of at least half as many.

use std::mem::take;

/// Average number of keys per bucket above which buckets are split, and below which they are
/// joined.
const MOST: usize = 32;
const LEAST: usize = 8;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Slots {
    buckets: Vec<Vec<Entry>>,
    count: usize,
}

/// A key in two halves, so that an entry has no padding, and its number.
#[derive(Clone, Copy, Debug)]
struct Entry {
    high: u32,
    low: u32,
    number: u32,
}

/// Approximate bytes of memory of a number with its key: buckets are not full.
pub(crate) const COST: usize = size_of::<Entry>() * 3 / 2 + 2;

impl Entry {
    fn new(key: u64, number: u32) -> Self {
        Self { high: (key >> 32) as u32, low: key as u32, number }
    }

    fn key(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![Vec::new()], count: 0 }
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first key from `start` on, up to `end`. Both must have the same first half.
    pub(crate) fn first(&self, start: u64, end: u64) -> Option<(u64, u32)> {
        let bucket = &self.buckets[self.bucket(start)];
        let entry = bucket.get(place(bucket, start))?;
        (entry.key() <= end).then_some((entry.key(), entry.number))
    }

    /// The number of a key, for changing it.
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut u32> {
        let bucket = self.bucket(key);
        let bucket = &mut self.buckets[bucket];
        let place = place(bucket, key);
        let entry = bucket.get_mut(place).filter(|entry| entry.key() == key)?;
        Some(&mut entry.number)
    }

    /// Adds a key.
    ///
    /// # Panics
    /// If the key exists.
    pub(crate) fn insert(&mut self, key: u64, number: u32) {
        let bucket = self.bucket(key);
        let bucket = &mut self.buckets[bucket];
        let place = place(bucket, key);
        assert!(bucket.get(place).is_none_or(|entry| entry.key() != key), "a slot is taken once");
        debug_assert!(
            place.checked_sub(1).is_none_or(|before| bucket[before].key() < key),
            "invariant 1: a bucket is in order"
        );
        bucket.insert(place, Entry::new(key, number));
        self.count += 1;
        if self.count > MOST * self.buckets.len() {
            self.part();
        }
    }

    /// Removes a key, and returns its number.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u32> {
        let bucket = self.bucket(key);
        let bucket = &mut self.buckets[bucket];
        let place = place(bucket, key);
        bucket.get(place).filter(|entry| entry.key() == key)?;
        let Entry { number, .. } = bucket.remove(place);
        self.count -= 1;
        if self.buckets.len() > 1 && self.count < LEAST * self.buckets.len() {
            self.join();
        }
        Some(number)
    }

    /// All keys and numbers, in the order of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + Clone {
        self.buckets.iter().flatten().map(|entry| (entry.key(), entry.number))
    }

    /// The bucket of a key (invariant 1).
    fn bucket(&self, key: u64) -> usize {
        let bits = self.buckets.len().ilog2();
        key.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
    }

    /// Splits each bucket in two (invariant 2).
    fn part(&mut self) {
        let half = u64::BITS - 1 - self.buckets.len().ilog2();
        let mut parted = Vec::with_capacity(2 * self.buckets.len());
        for bucket in take(&mut self.buckets) {
            let middle = bucket.partition_point(|entry| entry.key() >> half & 1 == 0);
            parted.push(bucket[..middle].to_vec());
            parted.push(bucket[middle..].to_vec());
        }
        self.buckets = parted;
        assert!(self.count <= MOST * self.buckets.len(), "invariant 2: buckets are short enough");
    }

    /// Joins each pair of buckets (invariant 2).
    fn join(&mut self) {
        self.buckets = self.buckets.chunks_exact(2).map(<[_]>::concat).collect();
        let are_few = self.buckets.len() == 1 || self.count >= LEAST * self.buckets.len();
        assert!(are_few, "invariant 2: there are no more buckets than that");
    }
}

/// Index of the first entry in a bucket whose key is not below `key`. All entries are compared:
/// their cache misses overlap, while in a binary search each waits for the one before.
fn place(bucket: &[Entry], key: u64) -> usize {
    bucket.iter().filter(|entry| entry.key() < key).count()
}

impl FromIterator<(u64, u32)> for Slots {
    fn from_iter<T: IntoIterator<Item = (u64, u32)>>(all: T) -> Self {
        let mut slots = Self::new();
        all.into_iter().for_each(|(key, number)| slots.insert(key, number));
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::hash::{SPREAD, folded_product};
    use std::collections::BTreeMap;

    fn check(slots: &Slots, model: &BTreeMap<u64, u32>) {
        assert!(slots.iter().eq(model.iter().map(|(&key, &number)| (key, number))));
        assert_eq!(slots.is_empty(), model.is_empty());
        let (count, buckets) = (model.len(), slots.buckets.len());
        assert!(count <= MOST * buckets, "{count} in {buckets}");
        assert!(buckets == 1 || count >= LEAST * buckets, "{count} in {buckets}");
    }

    #[test]
    fn they_are_what_a_tree_would_be() {
        let (mut slots, mut model) = (Slots::new(), BTreeMap::new());
        let key = |number: u64| folded_product(number + 1, SPREAD);
        for number in 0..20_000 {
            slots.insert(key(number), number as u32);
            model.insert(key(number), number as u32);
            if number % 1_500 == 0 {
                check(&slots, &model);
            }
        }
        for number in 0..20_000 {
            *slots.get_mut(key(number)).expect("it is there") += 1;
            *model.get_mut(&key(number)).expect("it is there") += 1;
            let start = key(number) & !0xffff_ffff;
            let first = model.range(start..=start | 0xffff_ffff).next();
            let first = first.map(|(&key, &number)| (key, number));
            assert_eq!(slots.first(start, start | 0xffff_ffff), first);
            assert_eq!(slots.first(start, start), None);
        }
        assert_eq!(slots.get_mut(key(20_000)), None);
        for number in (0..20_000).rev() {
            assert_eq!(slots.remove(key(number)), model.remove(&key(number)));
            assert_eq!(slots.remove(key(number)), None);
            if number % 1_500 == 0 {
                check(&slots, &model);
            }
        }
        assert_eq!(slots.buckets.len(), 1);
    }

    #[test]
    fn they_take_about_what_is_counted() {
        for count in [5_000, 20_000, 40_000, 1 << 15, 100_000] {
            let keys = (0..count).map(|number| (folded_product(number, SPREAD), 1));
            let slots: Slots = keys.collect();
            let entries: usize = slots.buckets.iter().map(Vec::capacity).sum();
            let lists = slots.buckets.len() * size_of::<Vec<Entry>>();
            let each = (entries * size_of::<Entry>() + lists) / count as usize;
            assert!((COST - 5..COST + 5).contains(&each), "{each} bytes for each of {count}");
        }
    }

    #[test]
    #[should_panic(expected = "a slot is taken once")]
    fn a_key_is_taken_once() {
        let mut slots = Slots::new();
        slots.insert(7, 1);
        slots.insert(7, 2);
    }
}
