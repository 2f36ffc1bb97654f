//! External data representation (RFC 4506): big-endian fields in units of four bytes.
//!
//! [`Decoder`] borrows from a record and copies nothing; [`Encoder`] collects small fields in one
//! buffer and large payload by reference. A protocol type implements [`Decode`] and [`Encode`] to
//! be read from one and written to the other.
//!
//! An optional value (`bool` in front of it) is an [`Option`], an empty one is `()`.

mod decoder;
mod encoder;

pub use decoder::{DecodeError, Decoder};
pub use encoder::Encoder;

/// The unit of the representation: every field takes a multiple of this many bytes.
pub const UNIT: usize = 4;

/// The length of `length` bytes of opaque data with their padding, without the length field.
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(UNIT)
}

/// The length of variable-length opaque data: length field, `length` bytes, padding.
pub const fn opaque_size(length: usize) -> usize {
    UNIT + padded(length)
}

/// A type that can be read from a record. It may borrow from it for `'a`.
pub trait Decode<'a>: Sized {
    /// Reads one value and leaves the decoder behind it.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no such value; the decoder is of no use afterwards.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

/// A type that can be written into a record.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, to: &mut Encoder);
}

impl Decode<'_> for u32 {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.u32()
    }
}

impl Decode<'_> for u64 {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.u64()
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        if from.bool()? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl Decode<'_> for () {
    fn decode(_: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Encode for u32 {
    fn encode(&self, to: &mut Encoder) {
        to.u32(*self);
    }
}

impl Encode for u64 {
    fn encode(&self, to: &mut Encoder) {
        to.u64(*self);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Encoder) {
        to.bool(self.is_some());
        if let Some(value) = self {
            value.encode(to);
        }
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder) {}
}
