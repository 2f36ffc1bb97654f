//! Decodes fields without copying them.
//!
//! Invariants:
//! 1. A length is compared with its limit and with the bytes that are left before it is used;
//!    nothing is ever allocated for it.
//! 2. The placed payload of a record is the last field: it can be taken only at the end of the
//!    head.
//! 3. Padding may hold anything (RFC 4506 wants zeros, but some clients leave old bytes there); it
//!    must be there.
//!
//! Not asserted: 3, which is about bytes that no code reads.

use bytes::Bytes;

use super::{Decode, UNIT, padded};

/// The reasons for which bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("the record ends inside a field")]
    Short,
    /// A length exceeds its limit.
    #[error("an opaque field of {length} bytes, where {limit} are the most")]
    TooLong {
        /// The length in the field.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A number that is not a value of the enumeration.
    #[error("{value} is no value of {of}")]
    BadValue {
        /// The enumeration, by the name in its RFC.
        of: &'static str,
        /// The number.
        value: u32,
    },
    /// Bytes after the last field.
    #[error("{0} bytes after the last field")]
    Trailing(usize),
}

/// A position in a record (or in any other bytes). Cheap to copy, for trying something out.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// The bytes that contain `rest`, where they are reference-counted.
    source: Option<&'a Bytes>,
    /// Payload that was placed apart from the head, until it is taken.
    payload: &'a [Bytes],
}

impl<'a> Decoder<'a> {
    /// Reads from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, source: None, payload: &[] }
    }

    /// Reads from `head`, and then from the pieces of `payload`, which came after it in the record.
    /// Opaque data that is taken with [`payload`](Self::payload) or [`pieces`](Self::pieces) shares
    /// their memory.
    pub fn of_parts(head: &'a Bytes, payload: &'a [Bytes]) -> Self {
        Self { rest: head, source: Some(head), payload }
    }

    /// The bytes that are left: the rest of the head and the payload, if there is one (without its
    /// padding). Together they identify the arguments of a call for the reply cache.
    pub fn remaining(&self) -> (&'a [u8], &'a [Bytes]) {
        (self.rest, self.payload)
    }

    /// Reads one value.
    ///
    /// # Errors
    /// Those of the value's type.
    pub fn value<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// An unsigned number.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// An unsigned number of 64 bits.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A truth value: 0 or 1, nothing else.
    ///
    /// # Errors
    /// [`DecodeError::Short`], [`DecodeError::BadValue`].
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::BadValue { of: "bool", value }),
        }
    }

    /// Fixed-length opaque data of a multiple of four bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        const { assert!(N.is_multiple_of(UNIT), "unpadded opaque data must fill its units") };
        let (value, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*value)
    }

    /// Variable-length opaque data or a string of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] over the limit, [`DecodeError::Short`] over the record's end.
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.length(limit)?;
        if length > self.rest.len() || padded(length) > self.rest.len() {
            return Err(DecodeError::Short);
        }
        let is_there = length <= limit && padded(length) <= self.rest.len();
        debug_assert!(is_there, "invariant 1: a length is within its limit, and what is left");
        let (field, rest) = self.rest.split_at(padded(length));
        self.rest = rest;
        Ok(&field[..length]) // invariant 3: the padding is ignored
    }

    /// Variable-length opaque data that outlives the decoder, in pieces: the placed payload, or
    /// else as from [`payload`](Self::payload).
    ///
    /// # Errors
    /// As [`opaque`](Self::opaque); [`DecodeError::Short`] when a placed payload is not this long.
    pub fn pieces(&mut self, limit: usize) -> Result<Vec<Bytes>, DecodeError> {
        if self.payload.is_empty() || self.rest.len() != UNIT {
            return self.payload(limit).map(|piece| vec![piece]);
        }
        if self.length(limit)? as u64 != block::length_of(self.payload) {
            return Err(DecodeError::Short);
        }
        assert!(self.rest.is_empty(), "invariant 2: a placed payload is the last field");
        Ok(std::mem::take(&mut self.payload).to_vec())
    }

    /// Variable-length opaque data of the head that outlives the decoder: by reference where the
    /// head is reference-counted, else copied.
    ///
    /// # Errors
    /// As [`opaque`](Self::opaque).
    pub fn payload(&mut self, limit: usize) -> Result<Bytes, DecodeError> {
        let field = self.opaque(limit)?;
        Ok(match self.source {
            Some(source) => source.slice_ref(field),
            None => Bytes::copy_from_slice(field),
        })
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] when some are.
    pub fn finish(self) -> Result<(), DecodeError> {
        let (head, payload) = self.remaining();
        match head.len() + block::length_of(payload) as usize {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    fn length(&mut self, limit: usize) -> Result<usize, DecodeError> {
        let length = self.u32()? as usize;
        if length > limit { Err(DecodeError::TooLong { length, limit }) } else { Ok(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose head ends with a number and the length of its payload.
    fn parts(length: u32) -> (Bytes, [Bytes; 2]) {
        let head = [[0, 0, 0, 9], length.to_be_bytes()].concat();
        (head.into(), [&b"hel"[..], &b"lo"[..]].map(Bytes::from_static))
    }

    #[test]
    fn a_placed_payload_is_taken_by_reference_and_ends_the_record() {
        let (head, payload) = parts(5);
        let mut from = Decoder::of_parts(&head, &payload);
        assert_eq!(from.remaining(), (&head[..], &payload[..]));
        assert_eq!(from.u32(), Ok(9));
        let taken = from.pieces(5).expect("it has this length");
        assert_eq!(taken, payload);
        assert_eq!(taken[1].as_ptr(), payload[1].as_ptr());
        assert_eq!(from.finish(), Ok(()));
    }

    #[test]
    fn a_placed_payload_has_the_length_that_the_head_says() {
        for length in [4, 6] {
            let (head, payload) = parts(length);
            let mut from = Decoder::of_parts(&head, &payload);
            assert_eq!(from.u32(), Ok(9));
            assert_eq!(from.pieces(100), Err(DecodeError::Short));
        }
    }

    #[test]
    fn a_placed_payload_is_not_taken_before_the_head_ends() {
        let payload = [Bytes::from_static(b"hello")];
        let head = Bytes::from_static(&[0, 0, 0, 5, 0, 0, 0, 5]);
        let mut from = Decoder::of_parts(&head, &payload);
        assert_eq!(from.pieces(100), Err(DecodeError::Short));
    }

    #[test]
    fn a_placed_payload_that_nobody_takes_is_trailing() {
        let payload = [Bytes::from_static(b"hello")];
        let head = Bytes::new();
        let from = Decoder::of_parts(&head, &payload);
        assert_eq!(from.finish(), Err(DecodeError::Trailing(5)));
    }

    #[test]
    fn padding_must_be_there_and_may_hold_anything() {
        let field = [0, 0, 0, 1, 7, 0xff, 0xff, 0xff];
        assert_eq!(Decoder::new(&field).opaque(1), Ok(&[7][..]));
        assert_eq!(Decoder::new(&field[..7]).opaque(1), Err(DecodeError::Short));
    }

    #[test]
    fn the_longest_length_there_is_overflows_nothing() {
        let field = [0xff; 4];
        assert_eq!(Decoder::new(&field).opaque(usize::MAX), Err(DecodeError::Short));
        let error = DecodeError::TooLong { length: 0xffff_ffff, limit: 64 };
        assert_eq!(Decoder::new(&field).opaque(64), Err(error));
    }
}
