//! Load for NFS servers: workloads and their measurements.
//!
//! Everything here is written once and runs twice: over TCP against any NFSv3 server (crate
//! `bench`), and in virtual time against our own in a simulated world. The difference is below
//! `client`, whose connections it uses; clock, random source for names, and tasks come as a
//! [`runtime::Runtime`].
//!
//! # Layers, from the calls up
//! * [`tally`]: latencies in histograms, errors by their message.
//! * [`worker`], [`run`]: the makers of calls, and their pace: as fast as the server answers, or at
//!   a rate.
//! * [`stage`], `remove`: the connections and the directory in which a workload runs, and the
//!   cleanup afterwards.
//! * [`workload`]: the workloads.
//!
//! # Contract
//! A workload touches nothing outside of its stage's directory, whose name is unique. A failed call
//! is counted with its message, and shown; a result that decodes but cannot be right is an error,
//! too. Measurements are of the described step: a step of several calls is measured as a step and
//! call by call.
//!
//! **Absent:** sockets, reactors, real clocks, and output for users.

pub mod chance;
mod names;
mod remove;
pub mod run;
pub mod stage;
pub mod tally;
pub mod worker;
pub mod workload;

pub use remove::LeftBehind;
