//! Parity: the exclusive or of all units of a stripe, parity included, is zero.

/// Replaces `sum` by the exclusive or of `sum` and `bytes`. Adding the same bytes again removes
/// them.
///
/// # Panics
/// When the lengths differ.
pub fn add(sum: &mut [u8], bytes: &[u8]) {
    assert_eq!(sum.len(), bytes.len(), "units are as long");
    let (mut sums, mut words) = (sum.chunks_exact_mut(8), bytes.chunks_exact(8));
    for (sum, word) in sums.by_ref().zip(words.by_ref()) {
        for (sum, byte) in sum.iter_mut().zip(word) {
            *sum ^= byte;
        }
    }
    for (sum, byte) in sums.into_remainder().iter_mut().zip(words.remainder()) {
        *sum ^= byte;
    }
}

/// The missing unit: the exclusive or of all `others`.
pub fn missing<'u>(length: usize, others: impl IntoIterator<Item = &'u [u8]>) -> Vec<u8> {
    let mut sum = vec![0; length];
    others.into_iter().for_each(|unit| add(&mut sum, unit));
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_unit_of_a_stripe_is_made_again_of_the_others(
            units in (1..100_usize).prop_flat_map(|length| {
                prop::collection::vec(prop::collection::vec(any::<u8>(), length), 2..7)
            }),
        ) {
            let length = units[0].len();
            let mut all = units.clone();
            all.push(missing(length, units.iter().map(Vec::as_slice)));
            for lost in 0..all.len() {
                let others = all.iter().enumerate().filter(|(index, _)| *index != lost);
                let made = missing(length, others.map(|(_, unit)| unit.as_slice()));
                prop_assert_eq!(&made, &all[lost]);
            }
        }

        #[test]
        fn an_overwrite_changes_parity_by_what_was_and_what_is(
            (old, new, other) in (1..70_usize).prop_flat_map(|length| {
                let unit = || prop::collection::vec(any::<u8>(), length);
                (unit(), unit(), unit())
            }),
        ) {
            let mut parity = missing(old.len(), [&old[..], &other[..]]);
            add(&mut parity, &old);
            add(&mut parity, &new);
            prop_assert_eq!(parity, missing(new.len(), [&new[..], &other[..]]));
        }
    }
}
