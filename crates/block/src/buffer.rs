//! Page-aligned memory that a device can read into directly.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytes::Bytes;

/// Every buffer starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 4096;

/// Owned, zero-initialised memory at a page boundary. Freeze it to share it by reference.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a Buffer owns its allocation alone, as a Box<[u8]> does; u8 is Send.
unsafe impl Send for Buffer {}
// SAFETY: a shared Buffer gives out shared slices only; u8 is Sync.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `length` zero bytes. A length of 0 is legal and allocates nothing.
    pub fn zeroed(length: usize) -> Self {
        if length == 0 {
            return Self { start: NonNull::dangling(), length };
        }
        let layout = Self::layout(length);
        // SAFETY: the layout has a non-zero size, checked above.
        let memory = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, length }
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Makes the buffer shared and unchangeable. Copies nothing; the memory is freed with the
    /// last reference.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a buffer is shorter than isize::MAX")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: `start` came from alloc_zeroed with the same layout and is freed once, as
            // only drop frees and a Buffer cannot be copied.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.length)) }
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes (or dangling with length 0), and
        // the borrow of self keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref, and the mutable borrow of self makes this slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
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
    }
}
