//! What a look at all that a volume has checksums of comes to: see the crate `designs` for who has
//! one.

/// A place of which nothing right is left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// The file whose it is; none if it is no file's, or no name leads to that.
    pub path: Option<String>,
    /// The snapshot that has the file so, if the live tree has not.
    pub snapshot: Option<String>,
    /// Where in the file it begins, in bytes; on the volume, if there is no path.
    pub offset: u64,
}

/// How far a look is, and what it has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were looked at.
    pub done_bytes: u64,
    /// The same in all.
    pub total_bytes: u64,
    /// Places that were wrong, and are right again.
    pub mended: u64,
    /// What is lost.
    pub lost: Vec<Lost>,
}

/// Why a look does not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// One is under way.
    #[error("the volume is being scrubbed already")]
    Busy,
    /// It was told to end.
    #[error("it was told to end")]
    Ended,
    /// What was changed last is not on the disk, and may not be for long.
    #[error("what was changed last waits for room: what holds the disk is full")]
    NoRoom,
    /// The volume takes no calls any more.
    #[error("the volume has stopped")]
    Stopped,
}

/// Is told how far a look is, and says whether it goes on.
pub type Watch<'a> = &'a mut dyn FnMut(&Scrubbed) -> bool;
