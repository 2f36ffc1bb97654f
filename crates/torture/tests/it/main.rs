//! The tests of this crate as one program: shared code is compiled and linked once.

mod concurrent;
mod contract;
mod crashes;
mod data;
mod groups;
mod in_flight;
mod late_duplicates;
mod linearizable;
mod load;
mod lost_writes;
mod memory;
#[cfg(feature = "planted-bugs")]
mod planted;
mod procedures;
mod seen;
