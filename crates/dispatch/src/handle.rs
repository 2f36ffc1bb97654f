//! File handles: what a client keeps to name a file for ever.
//!
//! A handle is 28 bytes, of which every one is checked on its way back in:
//!
//! ```text
//! | version 1 | 0 0 0 | fsid 8 | ino 8 | generation 4 | CRC-32C of the 24 before 4 |
//! ```
//!
//! It holds nothing that a restart changes, so a client never notices one. The check is against
//! accidents (a handle of another server, a damaged packet), not against forgery: a client that may
//! speak AUTH_SYS to us can claim any user anyway, and every verb checks permissions by itself.

use crc_fast::{CrcAlgorithm, checksum};
use vfs::{FsError, Ino, ObjectId};

/// The length of a handle, in bytes; the protocol allows 64.
pub const HANDLE_SIZE: usize = 28;

const VERSION: u8 = 1;
const CHECKED: usize = 24;

/// The number of a volume: in every file handle, and what clients see as the device number of its
/// files. It must stay the same for as long as clients may keep handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fsid(pub u64);

/// A file of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The volume.
    pub fsid: Fsid,
    /// The file.
    pub id: ObjectId,
}

impl Handle {
    /// The bytes that a client gets.
    pub fn encode(self) -> [u8; HANDLE_SIZE] {
        let mut bytes = [0; HANDLE_SIZE];
        bytes[0] = VERSION;
        bytes[4..12].copy_from_slice(&self.fsid.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.id.ino.0.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.id.generation.to_be_bytes());
        let check = check(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check);
        bytes
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] for everything that [`Handle::encode`] never made.
    pub fn decode(bytes: &[u8]) -> Result<Self, FsError> {
        let bytes: &[u8; HANDLE_SIZE] = bytes.try_into().map_err(|_| FsError::BadHandle)?;
        let handle = Self {
            fsid: Fsid(u64::from_be_bytes(field(bytes, 4))),
            id: ObjectId {
                ino: Ino(u64::from_be_bytes(field(bytes, 12))),
                generation: u32::from_be_bytes(field(bytes, 20)),
            },
        };
        // Encoding again compares version, padding and check at one stroke.
        if handle.encode() == *bytes { Ok(handle) } else { Err(FsError::BadHandle) }
    }
}

/// The volume that a handle names, if it is one: for a caller that only asks where it belongs.
pub(crate) fn fsid_of(handle: &[u8]) -> Option<Fsid> {
    let bytes: &[u8; HANDLE_SIZE] = handle.try_into().ok()?;
    Some(Fsid(u64::from_be_bytes(field(bytes, 4))))
}

fn check(bytes: &[u8]) -> [u8; 4] {
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(crc).expect("a 32-bit checksum").to_be_bytes()
}

fn field<const N: usize>(bytes: &[u8; HANDLE_SIZE], start: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[start + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Handle {
        Handle { fsid: Fsid(0x0123_4567_89ab_cdef), id: ObjectId { ino: Ino(42), generation: 7 } }
    }

    #[test]
    fn a_handle_comes_back_as_it_went() {
        assert_eq!(Handle::decode(&sample().encode()), Ok(sample()));
    }

    /// A client keeps handles over an upgrade of the server: these bytes must never change.
    #[test]
    fn the_bytes_are_fixed() {
        let expected = [
            1, 0, 0, 0, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 0, 0, 0, 42, 0,
            0, 0, 7,
        ];
        assert_eq!(sample().encode()[..CHECKED], expected);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..HANDLE_SIZE * 8 {
            let mut bytes = sample().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Handle::decode(&bytes), Err(FsError::BadHandle), "bit {bit}");
        }
    }

    #[test]
    fn a_wrong_length_is_a_bad_handle() {
        let bytes = sample().encode();
        assert_eq!(Handle::decode(&bytes[..27]), Err(FsError::BadHandle));
        assert_eq!(Handle::decode(&[0; 64]), Err(FsError::BadHandle));
        assert_eq!(Handle::decode(&[]), Err(FsError::BadHandle));
    }
}
