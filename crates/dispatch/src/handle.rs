//! File handles: the bytes by which a client names a file for ever.
//!
//! A handle of a live file has version 1 and 28 bytes. A handle of a file in a snapshot has version
//! 2 and 32 bytes, if the number of the snapshot is below 2^32 - 1; a larger number takes version
//! 3, of 36 bytes. A directory `.snapshot` has version 2 with all ones. Every byte is checked when
//! a handle is decoded:
//!
//! ```text
//! | version 1 | 0 0 0 | fsid 8 | ino 8 | generation 4 | CRC-32C of the 24 before 4 |
//! | version 2 | 0 0 0 | fsid 8 | ino 8 | generation 4 | snapshot 4 | CRC-32C of the 28 before 4 |
//! | version 3 | 0 0 0 | fsid 8 | ino 8 | generation 4 | snapshot 8 | CRC-32C of the 32 before 4 |
//! ```
//!
//! Files that had a handle before there were longer ones keep it. Each object has one handle: a
//! number in a longer field than it needs makes none.
//!
//! A handle holds nothing that a restart changes, so a client never notices one. The check is
//! against accidents (a handle of another server, a damaged packet), not against forgery: a client
//! that may speak AUTH_SYS to us can claim any user anyway, and every verb checks permissions by
//! itself.

use std::ops::Deref;

use crc_fast::{CrcAlgorithm, checksum};
use vfs::{FsError, Ino, ObjectId, SnapshotNumber};

/// The length of a handle of the live tree, in bytes; the protocol allows 64.
pub const HANDLE_SIZE: usize = 28;
/// The length of a handle of a file in a snapshot, in bytes.
pub const SNAPSHOT_HANDLE_SIZE: usize = 32;
/// The same length, for a snapshot whose number has more than 32 bits.
pub const LONG_HANDLE_SIZE: usize = 36;

const VERSION: u8 = 1;
const SNAPSHOT_VERSION: u8 = 2;
const LONG_VERSION: u8 = 3;
/// The directory `.snapshot`, in a handle of version 2.
const LISTING: u32 = u32::MAX;
const CHECK: usize = 4;

/// The number of a volume, part of every file handle; clients see it as the device number of its
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

/// An encoded handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleBytes {
    bytes: [u8; LONG_HANDLE_SIZE],
    length: usize,
}

impl Deref for HandleBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Handle {
    /// Encodes the handle for a client.
    pub fn encode(self) -> HandleBytes {
        let mut bytes = [0; LONG_HANDLE_SIZE];
        let length = handle_size(self.id);
        bytes[0] = version_of(self.id.snapshot);
        bytes[4..12].copy_from_slice(&self.fsid.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.id.ino.0.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.id.generation.to_be_bytes());
        match short(self.id.snapshot) {
            _ if self.id.is_live() => {}
            Some(number) => bytes[24..28].copy_from_slice(&number.to_be_bytes()),
            None => bytes[24..32].copy_from_slice(&self.id.snapshot.0.to_be_bytes()),
        }
        let check = check(&bytes[..length - CHECK]);
        bytes[length - CHECK..length].copy_from_slice(&check);
        HandleBytes { bytes, length }
    }

    /// Decodes bytes from a client.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] for any bytes that [`Handle::encode`] never made.
    pub fn decode(bytes: &[u8]) -> Result<Self, FsError> {
        let first: &[u8; HANDLE_SIZE] = bytes.first_chunk().ok_or(FsError::BadHandle)?;
        let (version, snapshot) = match bytes.len() {
            HANDLE_SIZE => (VERSION, SnapshotNumber::LIVE),
            SNAPSHOT_HANDLE_SIZE => match u32::from_be_bytes(field(first, 24)) {
                LISTING => (SNAPSHOT_VERSION, SnapshotNumber::LISTING),
                number => (SNAPSHOT_VERSION, SnapshotNumber(number.into())),
            },
            LONG_HANDLE_SIZE => {
                let long: &[u8; LONG_HANDLE_SIZE] =
                    bytes.first_chunk().ok_or(FsError::BadHandle)?;
                (LONG_VERSION, SnapshotNumber(u64::from_be_bytes(field(long, 24))))
            }
            _ => return Err(FsError::BadHandle),
        };
        let (checked, told) = bytes.split_at(bytes.len() - CHECK);
        let is_right = checked[..4] == [version, 0, 0, 0] && check(checked) == *told;
        let ino = Ino(u64::from_be_bytes(field(first, 12)));
        let generation = u32::from_be_bytes(field(first, 20));
        let id = ObjectId { ino, generation, snapshot };
        if !is_right || version_of(snapshot) != version {
            return Err(FsError::BadHandle);
        }
        Ok(Self { fsid: Fsid(u64::from_be_bytes(field(first, 4))), id })
    }
}

/// The length of an object's handle, in bytes.
pub(crate) fn handle_size(id: ObjectId) -> usize {
    match version_of(id.snapshot) {
        VERSION => HANDLE_SIZE,
        SNAPSHOT_VERSION => SNAPSHOT_HANDLE_SIZE,
        _ => LONG_HANDLE_SIZE,
    }
}

/// The version of the handles of a tree.
fn version_of(tree: SnapshotNumber) -> u8 {
    match short(tree) {
        Some(0) => VERSION,
        Some(_) => SNAPSHOT_VERSION,
        None => LONG_VERSION,
    }
}

/// The number of a tree in handles of version 2, if it fits.
fn short(tree: SnapshotNumber) -> Option<u32> {
    match tree {
        SnapshotNumber::LISTING => Some(LISTING),
        SnapshotNumber(number) => u32::try_from(number).ok().filter(|&number| number != LISTING),
    }
}

/// The volume of a handle, if the bytes are one, for a caller that needs no more.
pub(crate) fn fsid_of(handle: &[u8]) -> Option<Fsid> {
    let has_length = matches!(handle.len(), HANDLE_SIZE | SNAPSHOT_HANDLE_SIZE | LONG_HANDLE_SIZE);
    let first: &[u8; HANDLE_SIZE] = handle.first_chunk().filter(|_| has_length)?;
    Some(Fsid(u64::from_be_bytes(field(first, 4))))
}

fn check(bytes: &[u8]) -> [u8; CHECK] {
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(crc).expect("a 32-bit checksum").to_be_bytes()
}

/// A field of the part that all handles have.
fn field<const N: usize, const OF: usize>(bytes: &[u8; OF], start: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[start + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 10] = [
        0,
        1,
        7,
        0x1_0000,
        0xff_fffe,
        u32::MAX as u64 - 1,
        u32::MAX as u64,
        1 << 32,
        SnapshotNumber::LAST.0,
        u64::MAX,
    ];

    fn sample() -> Handle {
        Handle { fsid: Fsid(0x0123_4567_89ab_cdef), id: ObjectId::live(Ino(42), 7) }
    }

    /// The same file in each of several trees.
    fn samples() -> impl Iterator<Item = Handle> {
        let id = |number| sample().id.within(SnapshotNumber(number));
        NUMBERS.into_iter().map(move |number| Handle { id: id(number), ..sample() })
    }

    #[test]
    fn a_handle_comes_back_as_it_went() {
        for handle in samples() {
            assert_eq!(Handle::decode(&handle.encode()), Ok(handle));
            assert_eq!(fsid_of(&handle.encode()), Some(handle.fsid));
            assert_eq!(handle.encode().len(), handle_size(handle.id));
        }
    }

    /// A client keeps handles over an upgrade of the server: these bytes must never change.
    #[test]
    fn the_bytes_are_fixed() {
        let expected = [
            1, 0, 0, 0, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 0, 0, 0, 42, 0,
            0, 0, 7,
        ];
        assert_eq!(sample().encode()[..HANDLE_SIZE - CHECK], expected);
        let held = Handle { id: sample().id.within(SnapshotNumber(0x0102_0304)), ..sample() };
        let expected = [&[2], &expected[1..], &[1, 2, 3, 4]].concat();
        assert_eq!(held.encode()[..SNAPSHOT_HANDLE_SIZE - CHECK], expected);
        let listing = Handle { id: sample().id.within(SnapshotNumber::LISTING), ..sample() };
        assert_eq!(listing.encode()[24..SNAPSHOT_HANDLE_SIZE - CHECK], [255; 4]);
        assert_eq!(listing.encode()[..24], held.encode()[..24]);
        let long = Handle { id: sample().id.within(SnapshotNumber(0x1_0203_0405)), ..sample() };
        let expected = [&[3], &expected[1..24], &[0, 0, 0, 1, 2, 3, 4, 5]].concat();
        assert_eq!(long.encode()[..LONG_HANDLE_SIZE - CHECK], expected);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for handle in samples() {
            for bit in 0..handle.encode().len() * 8 {
                let mut bytes = handle.encode().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Handle::decode(&bytes), Err(FsError::BadHandle), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_wrong_length_is_a_bad_handle() {
        for handle in samples() {
            let bytes = handle.encode();
            assert_eq!(Handle::decode(&bytes[..bytes.len() - 1]), Err(FsError::BadHandle));
            assert_eq!(Handle::decode(&[&bytes[..], &[0]].concat()), Err(FsError::BadHandle));
        }
        assert_eq!(Handle::decode(&[0; 64]), Err(FsError::BadHandle));
        assert_eq!(Handle::decode(&[]), Err(FsError::BadHandle));
    }

    /// Bytes with a valid check but no valid form: an object has one handle.
    #[test]
    fn another_version_is_a_bad_handle() {
        let sealed = |mut bytes: Vec<u8>| {
            let end = bytes.len() - CHECK;
            let check = check(&bytes[..end]);
            bytes[end..].copy_from_slice(&check);
            Handle::decode(&bytes)
        };
        let bytes_of = |id: ObjectId| Handle { id, ..sample() }.encode().to_vec();
        let forged = |version: u8, id: ObjectId| {
            let mut bytes = bytes_of(id);
            bytes[0] = version;
            sealed(bytes)
        };
        let (live, held) = (sample().id, sample().id.within(SnapshotNumber(9)));
        let long = sample().id.within(SnapshotNumber(1 << 40));
        assert_eq!(forged(3, long).map(|handle| handle.id), Ok(long));
        for version in [0, 1, 2, 4] {
            assert_eq!(forged(version, long), Err(FsError::BadHandle), "{version}: {long:?}");
        }
        for number in [0, 9, u64::from(u32::MAX) - 1, u64::MAX] {
            let mut bytes = bytes_of(long);
            bytes[24..32].copy_from_slice(&number.to_be_bytes());
            assert_eq!(sealed(bytes), Err(FsError::BadHandle), "{number} has a shorter handle");
        }
        assert_eq!(forged(1, live).map(|handle| handle.id), Ok(live));
        assert_eq!(forged(2, held).map(|handle| handle.id), Ok(held));
        for (version, id) in [(2, live), (1, held), (0, live), (3, live), (3, held), (255, held)] {
            assert_eq!(forged(version, id), Err(FsError::BadHandle), "{version}: {id:?}");
        }
        let mut live_in_version_2 = bytes_of(held);
        live_in_version_2[24..28].fill(0);
        assert_eq!(sealed(live_in_version_2), Err(FsError::BadHandle));
    }
}
