//! The whole server in a world that is out to break it: clients that repeat themselves, a network
//! that loses and delays, power that goes at any moment, and an account of what each client was
//! told.
//!
//! Everything happens in one thread and in virtual time, and everything follows from a seed. What
//! is between the bytes of a connection and the bytes of the platter is what runs in production:
//! `nfs::reader`, `dispatch`, `namespace`, `ffs`. What is simulated is the disk and the network
//! (`sim`), and the clients.
//!
//! # Layers
//! * [`world`]: a server's machine with its disk, behind a network. It starts, loses its power,
//!   and comes back on what its disk has kept.
//! * [`client`]: an NFS client as a kernel has one. It keeps a call until it is answered, sends it
//!   again with the same number, over another connection if need be, and keeps handles over
//!   restarts of the server.
//! * [`protocol`] and [`calls`]: calls and replies, with the types of an independent
//!   implementation.
//! * [`history`]: every call of every client: when it was made, how often it was sent and to which
//!   boot of the server, and what was answered.
//! * [`explore`]: short workloads, cut at every write in every way, on the file system alone: what
//!   comes back is compared with a model.
//! * `shrink`: a workload that fails, made as small as it can be.
//! * [`campaign`]: what the program `duramen-torture` runs of all this.
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
