//! The whole server in a hostile simulated world: clients that repeat calls, a network that loses
//! and delays, power cuts at any moment, and a record of every reply to every client.
//!
//! Everything happens in one thread and in virtual time, and everything follows from a seed.
//! Between the bytes of a connection and the bytes of the platter runs production code:
//! `nfs::reader`, `dispatch`, `namespace`, and the engine of a design. The disk and the network
//! (`sim`), and the clients, are simulated.
//!
//! # Layers
//! * [`world`]: a server's machine with its disk, behind a network. It starts, loses its power, and
//!   recovers from the contents of its disk.
//! * [`client`]: an NFS client like a kernel's. It repeats a call until it is answered, with the
//!   same number, over another connection if need be, and keeps handles over restarts of the
//!   server.
//! * [`protocol`] and [`calls`]: calls and replies, with the types of an independent
//!   implementation.
//! * [`history`]: every call of every client: when it was made, how often and to which boots of the
//!   server it was sent, and its answer.
//! * [`explore`]: short workloads over the protocol, without a network, cut at every write in every
//!   way: the recovered state is compared with a model.
//! * `shrink`: makes a failing workload as small as possible.
//! * [`campaign`]: the campaigns of the program `duramen-torture`.
//!
//! Architecture invariant: no socket, no reactor, no real clock: it depends on neither tokio nor
//! `server`, and nothing but a test or a chore depends on it.

pub mod calls;
pub mod campaign;
pub mod client;
pub mod explore;
pub mod history;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod protocol;
mod shrink;
mod volume;
pub mod world;
