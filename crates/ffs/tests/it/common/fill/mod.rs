//! Filling a volume to the last fragment, and emptying it again.
//!
//! `filler` has the verbs, each of whose refusals is checked against the free space (`room`);
//! `ways` has the kinds of content for a volume, and the operations on a full one; `emptier`
//! removes everything; `round` combines them, with a clean stop or a power cut in between.

pub(crate) mod emptier;
pub(crate) mod filler;
pub(crate) mod room;
pub(crate) mod round;
pub(crate) mod ways;
