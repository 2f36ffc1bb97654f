//! The tests of this crate as one program: what they share is compiled and linked once.

mod common;
mod cuts;
mod damage;
mod entries;
mod lines;
#[cfg(feature = "planted-bugs")]
mod planted;
