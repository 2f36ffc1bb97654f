//! A WRITE whose payload goes into memory of its own while it arrives.
//!
//! Invariants:
//! 1. `payload[..filled]` has arrived, in order.
//! 2. Padding arrives after all of the payload, and nothing after the padding.
//! 3. If there is a digest, it includes the arguments up to `payload[..filled]`; each byte was
//!    added when it arrived: later it has left the processor's cache.

use block::Buffer;
use bytes::Bytes;
use crc_fast::Digest;

use super::RecordError;
use super::peek::WriteShape;
use crate::record::Record;
use crate::rpc::arguments_digest;

#[derive(Debug)]
pub(super) struct Placed {
    head: Bytes,
    payload: Buffer,
    filled: usize,
    /// Bytes of padding that have not arrived.
    padding: usize,
    /// Bytes of arguments before the payload.
    arguments: usize,
    digest: Option<Box<Digest>>,
}

impl Placed {
    /// Allocates memory for a record of this shape, and copies the arrived bytes into it.
    pub(super) fn begin(arrived: &[u8], shape: WriteShape, with_checksum: bool) -> Self {
        let (head, rest) = arrived.split_at(shape.head);
        let arguments = head.len() - shape.arguments;
        let digest = with_checksum.then(|| {
            let mut digest = Box::new(arguments_digest());
            digest.update(&head[shape.arguments..]);
            digest
        });
        let mut placed = Self {
            head: Bytes::copy_from_slice(head),
            payload: Buffer::unfilled(shape.payload),
            filled: 0,
            padding: shape.padding(),
            arguments,
            digest,
        };
        placed.take(rest).expect("a record is placed only if what has arrived is within its shape");
        placed
    }

    /// Bytes of the payload that have arrived.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// The memory for the next bytes of the payload, at most `limit`.
    pub(super) fn missing(&mut self, limit: usize) -> &mut [u8] {
        let missing = &mut self.payload[self.filled..];
        let length = missing.len().min(limit);
        &mut missing[..length]
    }

    /// Notes that `length` bytes have arrived in the [`missing`](Self::missing) part.
    pub(super) fn arrived(&mut self, length: usize) {
        let arrived = self.filled..self.filled + length;
        let is_within = arrived.end <= self.payload.len();
        assert!(is_within, "invariant 1: a read is no longer than its target");
        self.filled = arrived.end;
        if let Some(digest) = &mut self.digest {
            digest.update(&self.payload[arrived]);
            let seen = (self.arguments + self.filled) as u64;
            debug_assert_eq!(digest.get_amount(), seen, "invariant 3: it has seen what arrived");
        }
    }

    /// Takes bytes that arrived elsewhere, and returns how many of them were payload.
    ///
    /// # Errors
    /// [`RecordError::PayloadMismatch`] when they go on behind the padding.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        let target = self.missing(bytes.len());
        let (payload, padding) = bytes.split_at(target.len());
        target.copy_from_slice(payload);
        self.arrived(payload.len());
        let is_all = padding.is_empty() || self.filled == self.payload.len();
        assert!(is_all, "invariant 2: padding comes after all of the payload");
        let padding = self.padding.checked_sub(padding.len());
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
        let checksum = self.digest.map(|digest| digest.finalize());
        Ok(Record { head: self.head, payload: self.payload.freeze_in_parts(), checksum })
    }
}
