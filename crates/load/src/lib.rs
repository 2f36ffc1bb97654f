//! Load for NFS servers: workloads, and what they measure.
//!
//! Everything here is written once and runs twice: over TCP against any NFSv3 server (crate
//! `bench`), and in virtual time against our own in a simulated world. What differs is below
//! `client`, whose connections it uses; time, chance for names, and tasks come as a
//! [`runtime::Runtime`].
//!
//! # Layers, from the calls up
//! * [`tally`]: latencies in histograms, errors by what they said.
//! * [`worker`], [`run`]: what makes calls, and when: as fast as they are answered, or at a rate.
//! * [`stage`], `remove`: the connections and the directory in which a workload plays; and that
//!   nothing is left of it.
//! * [`workload`]: what is played.
//!
//! # Contract
//! A workload touches nothing outside of its stage's directory, whose name no other has. A call
//! that fails is counted, with what was said, and shown; a result that can be read and cannot be
//! right is an error, too. What is measured is what is said: a step of several calls is measured
//! as a step and call by call.
//!
//! **Absent:** sockets, reactors, real clocks, and whatever is shown to people.

pub mod chance;
mod names;
mod remove;
pub mod run;
pub mod stage;
pub mod tally;
pub mod worker;
pub mod workload;

pub use remove::LeftBehind;
