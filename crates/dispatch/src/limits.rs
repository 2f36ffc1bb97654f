//! How much may be under way. When a bound is reached, callers wait; nothing is refused.

use nfs::record::MAX_PAYLOAD;

/// The most that one READ or WRITE moves, in bytes.
pub const MAX_TRANSFER: u32 = {
    assert!(MAX_PAYLOAD <= u32::MAX as usize, "a count of the protocol has 32 bits");
    MAX_PAYLOAD as u32
};

/// What a call counts for besides its record, in bytes, from when it is read until it is answered:
/// its execution, which has been measured to take no more.
pub const CALL_MEMORY: u64 = 8 << 10;

/// Bounds of what all clients together have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that are being carried out.
    pub calls: u32,
    /// Bytes of calls from when they are read until they are answered, with [`CALL_MEMORY`] for
    /// each. Two of the longest are the least: three quarters are for calls that are still
    /// arriving, and must hold one of them.
    pub request_memory: u64,
    /// Bytes of data and listings from when they are read until they are sent.
    pub reply_memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls: 4096, request_memory: 64 << 20, reply_memory: 64 << 20 }
    }
}
