//! The tests of this crate as one program: shared code is compiled and linked once.

mod choices;
mod counters;
mod every_image_is_legal;
mod failed_calls;
mod fault_model;
mod faults;
mod network;
mod pinned;
mod presets;
mod same_seed;
mod timing;
