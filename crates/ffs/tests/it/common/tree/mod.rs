//! Actors that work on one tree, what they believe of it, and what a cut may leave of that.

pub(crate) mod content;
pub(crate) mod found;
pub(crate) mod gardener;
pub(crate) mod model;
pub(crate) mod run;
