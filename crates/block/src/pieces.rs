//! Bytes in several pieces, one behind the other.

use bytes::Bytes;

use crate::{Buffer, part_of};

/// Total length of the pieces, in bytes.
pub fn length_of(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// A range of several pieces, to be kept: by reference if it is a good part of one, else copied
/// together. So it pins no more memory than twice its own size.
pub fn gather(data: &[Bytes], start: usize, length: usize) -> Bytes {
    let mut skip = start;
    for piece in data {
        if skip + length <= piece.len() {
            return part_of(piece, skip..skip + length);
        }
        if skip < piece.len() {
            break;
        }
        skip -= piece.len();
    }
    Buffer::joined(&slices(data, start, length)).freeze()
}

/// The slices of several pieces that make up a range of them.
pub fn slices(data: &[Bytes], start: usize, length: usize) -> Vec<Bytes> {
    let mut skip = start;
    let mut left = length;
    let mut parts = Vec::new();
    for piece in data {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let take = (piece.len() - skip).min(left);
        if take > 0 {
            parts.push(piece.slice(skip..skip + take));
        }
        left -= take;
        skip = 0;
    }
    parts
}

/// Zero bytes, shared.
pub fn zeros(length: usize) -> Bytes {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    if length <= ZEROS.len() {
        Bytes::from_static(&ZEROS[..length])
    } else {
        Buffer::zeroed(length).freeze()
    }
}
