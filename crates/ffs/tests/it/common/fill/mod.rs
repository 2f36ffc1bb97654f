//! Filling a volume to the last fragment, and emptying it again.
//!
//! `filler` has the verbs, each checked against what fits (`room`) when it is refused; `ways` says
//! what a volume is filled with, and what is done on it once it is full; `emptier` takes everything
//! away; `round` puts them together, with a clean stop or a power cut in between.

pub(crate) mod emptier;
pub(crate) mod filler;
pub(crate) mod room;
pub(crate) mod round;
pub(crate) mod ways;
