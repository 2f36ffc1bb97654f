//! Servers that chores start, measure and stop: ours, one that we did not write, and a bare one.

pub(crate) mod bare;
pub(crate) mod duramen;
pub(crate) mod ganesha;
mod process;
