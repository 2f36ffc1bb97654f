//! Page-aligned memory that a device can read into directly.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;

use crate::pages::Pages;

/// Every buffer starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 4096;

/// What a buffer that is to be filled shows to whoever looks before, where tests can see it.
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

    /// A buffer of `length` bytes that are about to be replaced, all of them: they are anything.
    /// For what a device or a connection fills, since zeros take as long as the filling.
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

    /// Bytes of memory that it takes: whole pages.
    pub fn memory(&self) -> usize {
        self.pages.as_ref().expect(OWNED).bytes().len()
    }

    /// Makes the buffer shared and unchangeable. Copies nothing; the memory is given back with the
    /// last reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
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
