//! Limits of the calls under way. When a bound is reached, callers wait; nothing is refused.

use nfs::record::MAX_PAYLOAD;

/// The most that one READ or WRITE moves, in bytes.
pub const MAX_TRANSFER: u32 = {
    assert!(MAX_PAYLOAD <= u32::MAX as usize, "a count of the protocol has 32 bits");
    MAX_PAYLOAD as u32
};

/// Memory that a call counts for besides its record, in bytes, from when it is read until it is
/// answered: the measured maximum of its execution.
pub const CALL_MEMORY: u64 = 8 << 10;

/// Bounds on the calls of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that are being executed.
    pub calls: u32,
    /// Bytes of calls from when they are read until they are answered, with [`CALL_MEMORY`] for
    /// each. The minimum is two of the longest: three quarters are for calls that are still
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
