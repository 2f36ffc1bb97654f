//! The result of a scrub: a read of everything that a volume has checksums of. The crate `designs`
//! says which engines have one.

/// A place without any good copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// The file that it belongs to; none if it belongs to no file, or no name leads to that.
    pub path: Option<String>,
    /// The snapshot that holds this file, if the live tree does not.
    pub snapshot: Option<String>,
    /// Offset in the file, in bytes; on the volume, if there is no path.
    pub offset: u64,
}

/// Progress of a scrub, and its findings so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Places that were bad, and are repaired.
    pub mended: u64,
    /// Places that are lost.
    pub lost: Vec<Lost>,
}

/// The reasons for which a scrub ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// A scrub is under way.
    #[error("the volume is being scrubbed already")]
    Busy,
    /// The caller asked it to end.
    #[error("it was told to end")]
    Ended,
    /// The newest changes are not on the disk, and may not be for long.
    #[error("what was changed last waits for room: what holds the disk is full")]
    NoRoom,
    /// The volume takes no calls any more.
    #[error("the volume has stopped")]
    Stopped,
}

/// Called with the progress of a scrub; returns whether it goes on.
pub type Watch<'a> = &'a mut dyn FnMut(&Scrubbed) -> bool;
