//! Page-aligned memory that a device can read into directly.

use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;

use crate::pages::{ALIGNMENT, Pages};

/// Size of the parts in which large buffers can be freed: [`Buffer::freeze_in_parts`].
pub const PART: usize = crate::chunks::UNIT;

/// Size of the largest buffer that can be freed in parts.
pub const PARTED_MOST: usize = crate::chunks::MOST;

/// The byte that fills a new unfilled buffer where tests can see it.
const UNFILLED: u8 = 0xb5;

/// Owned memory at a page boundary. Freeze it to share it by reference.
pub struct Buffer {
    /// Empty only while the buffer is dropped.
    pages: Option<Pages>,
    length: usize,
}

const OWNED: &str = "only drop takes the pages";

impl Buffer {
    /// A buffer of `length` zero bytes. A length of 0 is legal and allocates nothing.
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self { pages: Some(Pages::take(length)), length };
        buffer.fill(0);
        buffer
    }

    /// A buffer of `length` arbitrary bytes, all of which are about to be overwritten. For data
    /// from a device or a connection, since zeroing takes as long as filling.
    pub fn unfilled(length: usize) -> Self {
        let mut buffer = Self { pages: Some(Pages::take(length)), length };
        if cfg!(debug_assertions) {
            buffer.fill(UNFILLED);
        }
        buffer
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Self {
        let mut buffer = Self::unfilled(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// A buffer of `length` bytes that holds a copy of `bytes`, and zeros behind.
    pub fn padded(bytes: &[u8], length: usize) -> Self {
        let mut buffer = Self::unfilled(length);
        let (copy, rest) = buffer.split_at_mut(bytes.len());
        copy.copy_from_slice(bytes);
        rest.fill(0);
        buffer
    }

    /// A buffer that holds copies of pieces, one after the other.
    pub fn joined(pieces: &[Bytes]) -> Self {
        let mut buffer = Self::unfilled(pieces.iter().map(Bytes::len).sum());
        let mut rest = &mut buffer[..];
        for piece in pieces {
            let (target, behind) = rest.split_at_mut(piece.len());
            target.copy_from_slice(piece);
            rest = behind;
        }
        buffer
    }

    /// Bytes of memory that it takes, in whole pages.
    pub fn memory(&self) -> usize {
        self.pages.as_ref().expect(OWNED).bytes().len()
    }

    /// Makes the buffer shared and immutable. Copies nothing; the memory is freed with the last
    /// reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// As [`Buffer::freeze`], but a large buffer is split into parts of [`PART`] bytes, one after
    /// the other: the memory of each is freed with the last reference to it. A short last part is
    /// copied, so that it does not keep the memory of a whole one.
    pub fn freeze_in_parts(mut self) -> Vec<Bytes> {
        let mut left = self.length;
        let pages = self.pages.take().expect(OWNED);
        let parts = pages.into_parts().map(|part| {
            let length = left.min(part.bytes().len());
            left -= length;
            Self { pages: Some(part), length }
        });
        // Parts behind the end are freed at once.
        let parts = parts.filter(|part| part.length > 0);
        parts
            .map(|part| {
                if is_worth(part.length, part.memory()) { part } else { Self::copied(&part) }
                    .freeze()
            })
            .collect()
    }
}

/// Whether `length` bytes are enough to keep `memory` bytes of memory for them.
fn is_worth(length: usize, memory: usize) -> bool {
    memory <= ALIGNMENT || 2 * length > memory
}

/// A part of `whole`: by reference if it is more than half of it, else copied. So a part that is
/// kept for long pins little memory beside its own.
pub fn part_of(whole: &Bytes, range: Range<usize>) -> Bytes {
    if is_worth(range.len(), whole.len()) {
        whole.slice(range)
    } else {
        Buffer::copied(&whole[range]).freeze()
    }
}

/// Bytes of memory that a buffer of `length` bytes takes.
pub fn memory_of(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_power_of_two().max(ALIGNMENT) }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pages.take().into_iter().for_each(Pages::give_back);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.as_ref().expect(OWNED).bytes()[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut().expect(OWNED).bytes_mut()[..self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_the_same_bytes_and_no_memory_beside_them() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART - 7, 1 << 20, (1 << 20) + 1] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let buffer = Buffer::copied(&content);
            let start = buffer.as_ptr();
            let parts = buffer.freeze_in_parts();
            assert_eq!(parts.concat(), content);
            assert!(length == 0 || length % PART == 1 || parts[0].as_ptr() == start);
            let is_part = |part: &Bytes| part.len() <= PART || length > 1 << 20;
            assert!(parts.iter().all(is_part), "{length}");
        }
    }

    #[test]
    fn a_part_is_taken_by_reference_if_it_is_more_than_half_of_the_whole() {
        let whole = Buffer::copied(&[7; 3 * ALIGNMENT]).freeze();
        let is_shared = |range: Range<usize>| {
            let part = part_of(&whole, range.clone());
            assert_eq!(part, whole[range.clone()]);
            part.as_ptr() == whole[range].as_ptr()
        };
        assert!(is_shared(0..3 * ALIGNMENT) && is_shared(ALIGNMENT..3 * ALIGNMENT));
        assert!(is_shared(0..3 * ALIGNMENT / 2 + 1) && !is_shared(0..3 * ALIGNMENT / 2));
    }

    #[test]
    fn aligned_zeroed_and_kept_alive_by_its_slices() {
        let mut buffer = Buffer::zeroed(10_000);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[9_999] = 7;
        let tail = buffer.freeze().slice(9_990..);
        assert_eq!(tail[9], 7);
        assert!(Buffer::zeroed(0).freeze().is_empty());
        drop(tail);
        assert!(Buffer::zeroed(10_000).iter().all(|&byte| byte == 0), "whatever was there before");
    }
}
