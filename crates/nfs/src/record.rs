//! Records on a byte stream (RFC 5531, section 11).
//!
//! A record is one or more fragments; each has a mark of four bytes in front: its length, and in
//! the highest bit whether it is the record's last. The [`reader`](crate::reader) splits the bytes
//! of a connection into records.

use bytes::Bytes;

/// The largest payload of a READ or WRITE, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Room for everything else in a record: an RPC header with the longest credential and verifier,
/// and the arguments of a WRITE with the longest handle, take 931 bytes.
pub const HEADER_ROOM: usize = 1024;

/// The bit of a mark that makes its fragment the last of the record.
pub(crate) const LAST: u32 = 1 << 31;

/// One record without its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// All of it, or all but the payload and its padding.
    pub head: Bytes,
    /// Payload that was placed at a page boundary, one piece after the other, each with memory of
    /// its own; none if it was not placed. The last bytes of `head` are its length.
    pub payload: Vec<Bytes>,
    /// The checksum of the call's arguments, if it was taken while they arrived: see
    /// [`Call::checksum`](crate::rpc::Call::checksum).
    pub checksum: Option<u64>,
}

impl Record {
    /// A record that is all in one piece.
    pub fn whole(head: impl Into<Bytes>) -> Self {
        Self { head: head.into(), payload: Vec::new(), checksum: None }
    }

    /// Bytes of memory that it holds, which are those that were granted for it.
    pub fn memory(&self) -> usize {
        self.head.len() + block::length_of(&self.payload) as usize
    }
}

/// The mark of a record of one fragment.
pub(crate) fn mark_of_whole(length: usize) -> [u8; 4] {
    let length = u32::try_from(length).ok().filter(|length| length & LAST == 0);
    (length.expect("what we send is shorter than 2 GiB") | LAST).to_be_bytes()
}
