//! A WRITE whose payload goes into memory of its own while it arrives.
//!
//! Invariants:
//! 1. `payload[..filled]` has arrived, in order.
//! 2. Padding arrives after all of the payload, and nothing after the padding.

use block::Buffer;
use bytes::Bytes;

use super::peek::WriteShape;
use super::{Record, RecordError};

#[derive(Debug)]
pub(super) struct Placed {
    head: Bytes,
    payload: Buffer,
    filled: usize,
    /// Bytes of padding that are still to come.
    padding: usize,
}

impl Placed {
    /// Allocates memory for a record of this shape, and copies into it what has arrived.
    pub(super) fn begin(arrived: &[u8], shape: WriteShape) -> Self {
        let (head, rest) = arrived.split_at(shape.head);
        let mut placed = Self {
            head: Bytes::copy_from_slice(head),
            payload: Buffer::unfilled(shape.payload),
            filled: 0,
            padding: shape.padding(),
        };
        placed.take(rest).expect("a record is placed only if what has arrived is within its shape");
        placed
    }

    /// Bytes of the payload that have arrived.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Where the next bytes of the payload belong, at most `limit`.
    pub(super) fn missing(&mut self, limit: usize) -> &mut [u8] {
        let missing = &mut self.payload[self.filled..];
        let length = missing.len().min(limit);
        &mut missing[..length]
    }

    /// Says that `length` bytes have arrived in what is [`missing`](Self::missing).
    pub(super) fn arrived(&mut self, length: usize) {
        self.filled += length;
        assert!(self.filled <= self.payload.len(), "a read is no longer than its target");
    }

    /// Takes bytes that arrived elsewhere, and says how many of them were payload.
    ///
    /// # Errors
    /// [`RecordError::PayloadMismatch`] when they go on behind the padding.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        let target = self.missing(bytes.len());
        let (payload, padding) = bytes.split_at(target.len());
        target.copy_from_slice(payload);
        self.arrived(payload.len());
        let padding = self.padding.checked_sub(padding.len()); // invariant 2
        self.padding = padding.ok_or(RecordError::PayloadMismatch)?;
        Ok(payload.len())
    }

    /// Ends the record.
    ///
    /// # Errors
    /// [`RecordError::PayloadMismatch`] when not everything has arrived.
    pub(super) fn finish(self) -> Result<Record, RecordError> {
        if self.filled < self.payload.len() || self.padding > 0 {
            return Err(RecordError::PayloadMismatch);
        }
        Ok(Record { head: self.head, payload: Some(self.payload.freeze()) })
    }
}
