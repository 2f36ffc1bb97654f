//! What an NVRAM has done, and how it stands.

use block::IoError;

use crate::health::Health;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes to a block that a dirty buffer held.
    pub dirty_hits: u64,
    /// Writes to a block that a clean buffer held.
    pub clean_hits: u64,
    /// Buffers that writes have taken.
    pub allocations: u64,
    /// Writes that went straight to the device below.
    pub passes: u64,
    /// Blocks that went below.
    pub write_backs: u64,
}

/// How one of two memories stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TwinState {
    /// It has everything.
    In,
    /// It comes back: it does not have everything yet.
    Filling,
    /// It is called out, for this failure since the start, or it was not there.
    Out(Option<IoError>),
}

/// How an NVRAM stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Writes pass by.
    pub is_down: bool,
    /// The memory or the device below has failed: nothing is answered any more.
    pub has_failed: bool,
    /// The memory could not be written, and the volume goes on without it.
    pub is_retired: bool,
    /// Whether the volume's record may say that it is needed.
    pub is_needed: bool,
    /// The latest reading of its battery, if there are readings. With a bad one, writes pass, and
    /// nothing is answered that is not below.
    pub health: Option<Health>,
    /// Bytes that its buffers hold.
    pub size_bytes: u64,
    /// Bytes of blocks that are not below.
    pub dirty_bytes: u64,
    /// Those of them that are pinned.
    pub pinned_bytes: u64,
    /// Bytes that are lost.
    pub lost_bytes: u64,
    /// How each of two memories stands, if it is two.
    pub twins: Option<[TwinState; 2]>,
    /// What it has done.
    pub counts: Counts,
}

impl Status {
    /// Whether writes are held.
    pub fn is_in_use(&self) -> bool {
        let is_trusted = self.health.as_ref().is_none_or(|health| *health == Health::Good);
        is_trusted && !self.is_down && !self.is_retired && !self.has_failed
    }
}
