//! `duramen bench`: plays the loads of crate `load` over TCP against any NFSv3 server, and reports
//! the results as a table, a JSON object, or a picture.
//!
//! # Layers
//! * [`target`]: the server's address. [`tcp`]: connections to it.
//! * [`clock`]: precise wake-ups. Time itself, randomness and tasks are handed in.
//! * [`session`]: workload after workload. `progress`: the progress bar. [`cpu`]: processor time of
//!   both sides.
//! * [`report`]: the results, and their forms.
//! * [`bare`]: a server that only moves bytes, to measure the cost of measuring, and an upper bound
//!   for any server.
//!
//! Beside `server` this is the only crate that depends on tokio. **Absent:** workloads and
//! statistics, which `load` has; command-line syntax, which the program has.

pub mod bare;
pub mod clock;
pub mod cpu;
mod progress;
pub mod report;
pub mod session;
pub mod target;
pub mod tcp;
