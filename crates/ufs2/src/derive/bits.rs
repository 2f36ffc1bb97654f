//! Bit maps in disk format: the least significant bit of the first byte comes first.

use std::ops::Range;

/// Whether bit `index` is set.
pub fn is_set(map: &[u8], index: u64) -> bool {
    map[(index / 8) as usize] >> (index % 8) & 1 == 1
}

/// Sets bit `index`.
pub fn set(map: &mut [u8], index: u64) {
    map[(index / 8) as usize] |= 1 << (index % 8);
}

/// Clears bit `index`.
pub fn clear(map: &mut [u8], index: u64) {
    map[(index / 8) as usize] &= !(1 << (index % 8));
}

/// Sets bit `index` to a value.
pub fn put(map: &mut [u8], index: u64, value: bool) {
    if value { set(map, index) } else { clear(map, index) }
}

/// Sets a range of bits.
pub fn set_range(map: &mut [u8], range: Range<u64>) {
    for_bytes(map, range, |byte, mask| *byte |= mask);
}

/// Clears a range of bits.
pub fn clear_range(map: &mut [u8], range: Range<u64>) {
    for_bytes(map, range, |byte, mask| *byte &= !mask);
}

/// Whether all bits of a range are set.
pub fn all_set(map: &[u8], range: Range<u64>) -> bool {
    masks(range).all(|(index, mask)| map[index] & mask == mask)
}

/// Whether no bit of a range is set.
pub fn none_set(map: &[u8], range: Range<u64>) -> bool {
    masks(range).all(|(index, mask)| map[index] & mask == 0)
}

/// Clears those of the first `count` bits of a map that are set in `others`, from bit `first` on.
pub fn clear_all(map: &mut [u8], others: &[u8], first: u64, count: u64) {
    if !first.is_multiple_of(8) {
        let set = (0..count).filter(|index| is_set(others, first + index));
        return set.for_each(|index| clear(map, index));
    }
    let others = &others[(first / 8) as usize..];
    let whole = (count / 8) as usize;
    for (byte, other) in map[..whole].iter_mut().zip(others) {
        *byte &= !other;
    }
    let rest = count / 8 * 8..count;
    rest.filter(|&index| is_set(others, index)).for_each(|index| clear(map, index));
}

/// Number of set bits.
pub fn count_ones(map: &[u8]) -> u64 {
    words(map).map(|word| u64::from(word.count_ones())).sum()
}

/// The map as 64-bit words, the last one padded with zeros.
pub(super) fn words(map: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = map.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        word
    });
    whole.iter().copied().chain(last).map(u64::from_le_bytes)
}

fn for_bytes(map: &mut [u8], range: Range<u64>, mut change: impl FnMut(&mut u8, u8)) {
    for (index, mask) in masks(range) {
        change(&mut map[index], mask);
    }
}

/// The bytes that a range of bits touches, each with a mask of its bits in the range.
fn masks(range: Range<u64>) -> impl Iterator<Item = (usize, u8)> {
    let bytes = if range.is_empty() { 0..0 } else { range.start / 8..range.end.div_ceil(8) };
    bytes.map(move |byte| {
        let low = range.start.saturating_sub(byte * 8);
        let high = (range.end - byte * 8).min(8);
        (byte as usize, (0xff_u8 << low) & (0xff_u8 >> (8 - high)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_do_what_single_bits_do(
            map in prop::collection::vec(any::<u8>(), 1..40),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let bits = map.len() * 8 + 1;
            let (a, b) = (ends.0.index(bits) as u64, ends.1.index(bits) as u64);
            let range = a.min(b)..a.max(b);

            let (mut by_range, mut by_bit) = (map.clone(), map.clone());
            set_range(&mut by_range, range.clone());
            range.clone().for_each(|index| set(&mut by_bit, index));
            prop_assert_eq!(&by_range, &by_bit);
            prop_assert!(all_set(&by_range, range.clone()));

            clear_range(&mut by_range, range.clone());
            range.clone().for_each(|index| clear(&mut by_bit, index));
            prop_assert_eq!(&by_range, &by_bit);
            prop_assert!(none_set(&by_range, range.clone()));

            prop_assert_eq!(
                all_set(&map, range.clone()),
                range.clone().all(|index| is_set(&map, index))
            );
            prop_assert_eq!(
                none_set(&map, range.clone()),
                !range.clone().any(|index| is_set(&map, index))
            );
            let others: Vec<u8> = map.iter().map(|byte| byte.rotate_left(3)).collect();
            let (mut fast, mut slow) = (map.clone(), map.clone());
            clear_all(&mut fast, &others, a / 2, b.saturating_sub(a / 2));
            (0..b.saturating_sub(a / 2))
                .filter(|index| is_set(&others, a / 2 + index))
                .for_each(|index| clear(&mut slow, index));
            prop_assert_eq!(fast, slow);
            let ones = (0..map.len() as u64 * 8).filter(|&index| is_set(&map, index)).count();
            prop_assert_eq!(count_ones(&map), ones as u64);
        }
    }
}
