//! Servers that chores start, measure and stop: ours, and one that we did not write.

pub(crate) mod duramen;
pub(crate) mod ganesha;
mod process;
