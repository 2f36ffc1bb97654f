//! Finds the one wrong bit in a structure with a check hash.
//!
//! A CRC is linear: flipping a bit of the bytes flips a fixed pattern of the hash, which depends
//! only on the bit's distance from the end. In every structure that has a hash here (at most 64
//! KiB), CRC-32C gives any two bits different patterns, and also differs for a flip of the stored
//! hash itself, so at most one bit explains a difference. That bit need not be the damage: bytes
//! with more errors match some bit with a chance of their number of bits in 2^32, 5 in 10 million
//! for an inode. So a caller checks that the structure makes sense with the bit put back before it
//! believes it.

use super::check_hash;

/// The polynomial of CRC-32C, for bits that are processed from the lowest of a byte on.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A bit of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitPosition {
    /// The index of the byte.
    pub byte: usize,
    /// The bit within the byte, from 0 for the lowest.
    pub bit: u32,
}

impl BitPosition {
    /// Flips the bit.
    ///
    /// # Panics
    /// When it is beyond the end.
    pub fn flip(self, bytes: &mut [u8]) {
        bytes[self.byte] ^= 1 << self.bit;
    }
}

/// The bit of `bytes` that has to be flipped so that they fit the little-endian hash at `field`;
/// nothing if they fit as they are, or if no bit does it.
///
/// # Panics
/// When `field` is not 4 bytes inside.
pub fn wrong_bit(bytes: &[u8], field: usize) -> Option<BitPosition> {
    let stored = u32::from_le_bytes(bytes[field..field + 4].try_into().expect("four bytes"));
    let difference = stored ^ check_hash(bytes, field);
    if difference == 0 {
        return None;
    }
    if difference.is_power_of_two() {
        let bit = difference.trailing_zeros();
        return Some(BitPosition { byte: field + (bit / 8) as usize, bit: bit % 8 });
    }
    // From the last bit to the first: each step is one bit further from the end.
    let mut pattern = POLYNOMIAL;
    for byte in (0..bytes.len()).rev() {
        for bit in (0..8).rev() {
            // The hash field counts as zeros: a flip in it does not change the computed hash.
            if pattern == difference && !(field..field + 4).contains(&byte) {
                return Some(BitPosition { byte, bit });
            }
            pattern = pattern >> 1 ^ if pattern & 1 == 1 { POLYNOMIAL } else { 0 };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes with a valid hash.
    fn sealed(length: usize, field: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length).map(|at| ((at * 37) ^ (at >> 3)) as u8).collect();
        let hash = check_hash(&bytes, field);
        bytes[field..field + 4].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    #[test]
    fn every_bit_of_an_inode_is_found() {
        let good = sealed(256, 244);
        assert_eq!(wrong_bit(&good, 244), None);
        for byte in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[byte] ^= 1 << bit;
                assert_eq!(wrong_bit(&bytes, 244), Some(BitPosition { byte, bit }));
            }
        }
    }

    #[test]
    fn bits_of_the_largest_structures_are_found() {
        for (length, field) in [(8192, 1304), (65_536, 132)] {
            let good = sealed(length, field);
            for byte in [0, field - 1, field, field + 3, field + 4, length / 2, length - 1] {
                for bit in [0, 7] {
                    let mut bytes = good.clone();
                    let wrong = BitPosition { byte, bit };
                    wrong.flip(&mut bytes);
                    assert_eq!(wrong_bit(&bytes, field), Some(wrong), "{length}");
                }
            }
        }
    }

    #[test]
    fn two_wrong_bits_are_no_single_one() {
        let good = sealed(256, 244);
        for (first, second) in [(0, 1), (17, 1900), (100, 244 * 8 + 5), (244 * 8, 244 * 8 + 1)] {
            let mut bytes = good.clone();
            for at in [first, second] {
                bytes[at / 8] ^= 1 << (at % 8);
            }
            assert_eq!(wrong_bit(&bytes, 244), None, "{first} and {second}");
        }
    }
}
