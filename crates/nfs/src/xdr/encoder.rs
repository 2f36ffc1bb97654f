//! Building a record: small fields in one growing buffer, payload by reference.
//!
//! Invariants:
//! 1. The buffer starts with the four bytes of the record mark, which are filled in at the end.
//! 2. `insertions` are ordered by their offsets in the buffer, which are within it.

use bytes::Bytes;

use super::{Encode, UNIT, padded};
use crate::record::mark_of_whole;

/// Payload shorter than this is copied: a segment of its own costs about as much as the copy, and
/// while a reply waits to be sent it would pin all of the memory that it is a part of.
const COPIED_BELOW: usize = (8 << 10) + 1;

/// A record under construction. Encoding cannot fail: the values are our own.
#[derive(Debug)]
pub struct Encoder {
    buffer: Vec<u8>,
    /// Payload, and the offset in `buffer` before which it belongs.
    insertions: Vec<(usize, Bytes)>,
    /// Bytes in `insertions`.
    inserted: usize,
}

impl Encoder {
    /// An empty record, with room for `capacity` bytes of small fields.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut buffer = Vec::with_capacity(UNIT + capacity);
        buffer.extend_from_slice(&[0; UNIT]); // invariant 1
        Self { buffer, insertions: Vec::new(), inserted: 0 }
    }

    /// Bytes that the record holds so far, without its mark.
    pub fn length(&self) -> usize {
        self.buffer.len() - UNIT + self.inserted
    }

    /// Appends a value.
    pub fn value(&mut self, value: &impl Encode) {
        value.encode(self);
    }

    /// Appends a number.
    pub fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a number of 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a truth value.
    pub fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// Appends fixed-length opaque data of a multiple of four bytes.
    pub fn array<const N: usize>(&mut self, value: &[u8; N]) {
        const { assert!(N.is_multiple_of(UNIT), "unpadded opaque data must fill its units") };
        self.buffer.extend_from_slice(value);
    }

    /// Appends fields that were encoded before.
    pub fn encoded(&mut self, value: &[u8]) {
        debug_assert!(value.len().is_multiple_of(UNIT), "whole fields");
        self.buffer.extend_from_slice(value);
    }

    /// Appends variable-length opaque data or a string, copied.
    pub fn opaque(&mut self, value: &[u8]) {
        self.opaque_length(value.len());
        self.buffer.extend_from_slice(value);
        self.pad(value.len());
    }

    /// Appends the pieces as one field of variable-length opaque data, by reference.
    pub fn payload(&mut self, pieces: &[Bytes]) {
        let length = pieces.iter().map(Bytes::len).sum();
        self.opaque_length(length);
        for piece in pieces {
            if piece.len() < COPIED_BELOW {
                self.buffer.extend_from_slice(piece);
            } else {
                self.insertions.push((self.buffer.len(), piece.clone())); // invariant 2
                self.inserted += piece.len();
            }
        }
        self.pad(length);
    }

    /// Fills in the record mark and returns the segments to send, in order.
    pub fn finish(mut self) -> Vec<Bytes> {
        let mark = mark_of_whole(self.length());
        assert_eq!(self.buffer[..UNIT], [0; UNIT], "invariant 1: the mark comes last");
        self.buffer[..UNIT].copy_from_slice(&mark);
        let small = Bytes::from(self.buffer);
        let mut segments = Vec::with_capacity(1 + 2 * self.insertions.len());
        let mut sent = 0;
        for (before, piece) in self.insertions {
            assert!(sent <= before, "invariant 2: insertions are in their order");
            if before > sent {
                segments.push(small.slice(sent..before));
            }
            segments.push(piece);
            sent = before;
        }
        if sent < small.len() {
            segments.push(small.slice(sent..));
        }
        segments
    }

    fn opaque_length(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("what we send is shorter than 4 GiB"));
    }

    fn pad(&mut self, length: usize) {
        self.buffer.extend_from_slice(&[0; UNIT][..padded(length) - length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::xdr::opaque_size;

    #[test]
    fn large_pieces_are_segments_of_their_own_and_small_ones_are_copied() {
        let length = COPIED_BELOW + 1002; // it needs 2 bytes of padding with the small one
        let [first, last] = [1, 2].map(|byte| Bytes::from(vec![byte; length]));
        let small = Bytes::from(vec![3; COPIED_BELOW - 1]);
        let mut record = Encoder::with_capacity(16);
        record.u32(7);
        record.payload(&[first.clone(), small.clone(), last.clone()]);
        record.u32(9);
        let payload = 2 * length + (COPIED_BELOW - 1);
        assert_eq!(record.length(), 4 + opaque_size(payload) + 4);

        let segments = record.finish();
        assert_eq!(segments.len(), 5);
        assert_eq!(segments[1].as_ptr(), first.as_ptr());
        assert_eq!(segments[2], small);
        assert_eq!(segments[3].as_ptr(), last.as_ptr());
        assert_eq!(segments[4][..], [0, 0, 0, 0, 0, 9]); // 2 bytes of padding
    }

    #[test]
    fn payload_at_the_end_leaves_no_empty_segment() {
        let piece = Bytes::from(vec![1; 16 << 10]);
        let mut record = Encoder::with_capacity(16);
        record.payload(&[piece.clone(), piece]);
        assert_eq!(
            record.finish().iter().map(Bytes::len).collect::<Vec<_>>(),
            [8, 16 << 10, 16 << 10]
        );
    }

    #[test]
    fn the_mark_covers_small_fields_and_payload() {
        let mut record = Encoder::with_capacity(0);
        record.u64(1);
        record.payload(&[Bytes::from(vec![1; 1 << 20])]);
        let mark = 0x8000_0000 | (8 + 4 + (1_u32 << 20));
        assert!(record.finish()[0].starts_with(&mark.to_be_bytes()));
    }
}
