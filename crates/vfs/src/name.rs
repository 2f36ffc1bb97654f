//! A name of one directory entry, checked once when it is received.

use crate::FsError;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// One component of a path: 1 to 255 bytes without '/' and NUL. May be "." or "..".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// [`FsError::NameTooLong`] over 255 bytes; [`FsError::Invalid`] when empty or with a '/' or
    /// NUL inside.
    pub fn parse(bytes: &[u8]) -> Result<Self, FsError> {
        if bytes.len() > MAX_NAME {
            return Err(FsError::NameTooLong);
        }
        if bytes.is_empty() || bytes.iter().any(|&byte| byte == b'/' || byte == 0) {
            return Err(FsError::Invalid);
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes, in no particular encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is "." or "..", which no operation may make or remove.
    pub fn is_dot_or_dot_dot(&self) -> bool {
        matches!(&*self.0, b"." | b"..")
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
