//! Nothing that bytes can do to a decoder makes it panic, hang or grow: the room where that is
//! tried.
//!
//! # Layers
//! - [`targets`]: one plain function over bytes for each decoder, with what must hold of it
//!   whatever the bytes are. Not only that it does not panic: what was decoded is encoded and
//!   decoded again, lengths are bounded, addresses lie on the disk.
//! - [`mutate`]: from valid inputs to nearly valid ones. Each target makes valid ones itself.
//! - [`corpus`]: inputs that are kept: seeds, and all that ever failed.
//! - [`harness`]: runs the cases of a seed; catches a panic, a case that does not end, and one
//!   that allocates more than its target may; says in one line how to see it again.
//!
//! # Contract
//! A target panics if, and only if, something is wrong. It depends on nothing but its input: the
//! same bytes do the same, so that an input is all that a failure needs. The same functions are
//! run by the ordinary tests (the first cases of one seed, and every input that is kept), by
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

/// Runs one case of a target, as the coverage-guided fuzzer calls it.
///
/// # Panics
/// When the target does, and when there is none of this name.
pub fn check(target: &str, bytes: &[u8]) {
    let target = Target::named(target).expect("a target of this name");
    (target.check)(bytes);
}

/// Counts what every case allocates.
#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
