//! File handles, which only the server that made them can interpret.

use crate::xdr::{DecodeError, Decoder, Encode, Encoder};

/// The longest handle, in bytes.
pub const MAX_HANDLE: usize = 64;

/// A handle of at most [`MAX_HANDLE`] bytes, stored inline. Handles in arguments are plain slices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    length: u8,
    bytes: [u8; MAX_HANDLE], // zeros from `length` on, so that all of it can be compared
}

impl Handle {
    /// A handle of these bytes, or none if there are more than [`MAX_HANDLE`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { length: u8::try_from(bytes.len()).ok()?, bytes: [0; MAX_HANDLE] };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({:02x?})", self.as_bytes())
    }
}

impl Encode for Handle {
    fn encode(&self, to: &mut Encoder) {
        to.opaque(self.as_bytes());
    }
}

/// A handle in arguments.
pub(crate) fn decode_handle<'a>(from: &mut Decoder<'a>) -> Result<&'a [u8], DecodeError> {
    from.opaque(MAX_HANDLE)
}
