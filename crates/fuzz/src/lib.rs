//! No bytes can make a decoder panic, hang or use excessive memory: this crate tests that.
//!
//! # Layers
//! - [`targets`]: a plain function over bytes for each decoder, which asserts what must hold
//!   whatever the bytes are. Not only that it does not panic: decoded values are encoded and
//!   decoded again, lengths are bounded, addresses are inside the disk.
//! - [`mutate`]: turns valid inputs into nearly valid ones. Each target generates valid ones
//!   itself.
//! - [`corpus`]: kept inputs: seeds, and all that ever failed.
//! - [`harness`]: runs the cases of a seed; catches a panic, a hang, and an allocation above the
//!   target's limit; prints a line that repeats the case.
//!
//! # Contract
//! A target panics if, and only if, it finds a bug. It depends on nothing but its input: the same
//! bytes give the same result, so that an input is enough to reproduce a failure. The same
//! functions are run by the ordinary tests (the first cases of one seed, and every kept input), by
//! `cargo xtask fuzz` (seeded, for as long as one likes) and by the coverage-guided fuzzer in the
//! folder `fuzz` at the top.
//!
//! Architecture invariant: nothing depends on this crate.

mod clock;
pub mod corpus;
pub mod harness;
mod input;
pub mod mutate;
pub mod targets;
mod templates;
mod wire;

pub use targets::{TARGETS, Target};

/// Runs one case of a target for the coverage-guided fuzzer.
///
/// # Panics
/// When the target does, and when no target has this name.
pub fn check(target: &str, bytes: &[u8]) {
    let target = Target::named(target).expect("a target of this name");
    (target.check)(bytes);
}

/// Counts the allocations of every case.
#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
