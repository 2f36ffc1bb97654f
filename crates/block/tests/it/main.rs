//! The tests of this crate as one program: what they share is compiled and linked once.

mod common;
mod contract;
mod devices_agree;
mod ring;
