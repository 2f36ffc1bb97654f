//! `duramen bench`: the loads of crate `load` over TCP, against any NFSv3 server, and what came of
//! them as a table, an object for programs, a picture.
//!
//! # Layers
//! * [`target`]: which server. [`tcp`]: connections to it.
//! * [`clock`]: waking on time. Time itself, chance and tasks are handed in.
//! * [`session`]: workload after workload. `progress`: what is seen meanwhile. [`cpu`]: processor
//!   time of both sides.
//! * [`report`]: what was measured, and its forms.
//! * [`bare`]: a server that only moves bytes, to measure what measuring costs, and what any server
//!   can come to.
//!
//! Beside `server` this is the only crate that depends on tokio. **Absent:** workloads and
//! statistics, which `load` has; words of a command line, which the program has.

pub mod bare;
pub mod clock;
pub mod cpu;
mod progress;
pub mod report;
pub mod session;
pub mod target;
pub mod tcp;
