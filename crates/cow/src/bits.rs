//! One flipped bit, found by the checksum that the bytes should have.
//!
//! A CRC is linear: the change of the checksum by a flipped bit depends only on the bit's distance
//! from the end. So the difference between the two checksums, followed back byte by byte, becomes
//! that bit. With 64 bits of checksum nothing else fits by chance.
//!
//! Not asserted: that at most one bit fits, which the distance of the code ensures; tests flip
//! each.

use std::sync::LazyLock;

use crate::format::sum;

/// Change of a checksum by a last byte of this value.
static LAST: LazyLock<[u64; 256]> =
    LazyLock::new(|| std::array::from_fn(|byte| sum(&[byte as u8]) ^ sum(&[0])));

/// The value in [`LAST`] with these upper 8 bits: each occurs once.
static BY_UPPER: LazyLock<[u8; 256]> = LazyLock::new(|| {
    let mut all = [0; 256];
    for (byte, last) in (0..=u8::MAX).zip(LAST.iter()) {
        all[(last >> 56) as usize] = byte;
    }
    all
});

/// The difference before the last byte was added.
fn back(difference: u64) -> u64 {
    let byte = BY_UPPER[(difference >> 56) as usize];
    (difference ^ LAST[usize::from(byte)]) << 8 | u64::from(byte)
}

/// The byte and the bit that are flipped, if one bit is, in `length` bytes whose checksum differs
/// from the right one by `difference`.
pub fn flipped(length: usize, mut difference: u64) -> Option<(usize, u8)> {
    for at in (0..length).rev() {
        difference = back(difference);
        if difference < 256 && difference.is_power_of_two() {
            return Some((at, difference.trailing_zeros() as u8));
        }
    }
    None
}

/// A bit that may be the flipped one: its piece, the byte there, and the bit.
pub type Candidate = (usize, usize, u8);

/// The same for pieces of `grain` bytes, with a checksum of their checksums. A byte of a piece
/// changes that in the same way as the byte 8 before it in the next piece, so there may be one
/// candidate for each piece: pointers to the pieces show which it is.
pub fn flipped_in_pieces(pieces: usize, grain: usize, difference: u64) -> Vec<Candidate> {
    let (mut of_piece, mut all) = (difference, Vec::new());
    for piece in (0..pieces).rev() {
        of_piece = (0..size_of::<u64>()).fold(of_piece, |difference, _| back(difference));
        all.extend(flipped(grain, of_piece).map(|(at, bit)| (piece, at, bit)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sum_of_sums;

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| ((at * 7) ^ (at >> 3)) as u8).collect()
    }

    #[test]
    fn each_flipped_bit_is_found() {
        for length in [1, 2, 9, 600] {
            let right = bytes(length);
            for at in 0..length {
                for bit in 0..8 {
                    let mut wrong = right.clone();
                    wrong[at] ^= 1 << bit;
                    assert_eq!(flipped(length, sum(&right) ^ sum(&wrong)), Some((at, bit)));
                }
            }
        }
    }

    #[test]
    fn more_than_one_bit_is_none() {
        let right = bytes(600);
        assert_eq!(flipped(600, 0), None);
        for at in 0..599 {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            wrong[at + 1] ^= 0x80;
            assert_eq!(flipped(600, sum(&right) ^ sum(&wrong)), None, "{at}");
        }
    }

    #[test]
    fn a_bit_of_one_of_many_pieces_is_found() {
        let right = bytes(5 * 64);
        let sums = |bytes: &[u8]| bytes.chunks(64).map(sum).collect::<Vec<u64>>();
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 4;
            let difference = sum_of_sums(&sums(&right)) ^ sum_of_sums(&sums(&wrong));
            let all = flipped_in_pieces(5, 64, difference);
            assert!(all.contains(&(at / 64, at % 64, 2)), "{at}: {all:?}");
            assert!(all.iter().all(|it| it.0 * 8 + it.1 == at / 64 * 8 + at % 64), "{all:?}");
            wrong[(at + 70) % right.len()] ^= 1;
            let difference = sum_of_sums(&sums(&right)) ^ sum_of_sums(&sums(&wrong));
            assert_eq!(flipped_in_pieces(5, 64, difference), []);
        }
    }
}
