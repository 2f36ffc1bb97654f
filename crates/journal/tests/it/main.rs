//! The tests of this crate as one program: shared helpers are compiled and linked once.

mod common;
mod cuts;
mod damage;
mod entries;
mod limits;
mod lines;
#[cfg(feature = "planted-bugs")]
mod planted;
mod saved;
mod shared;
