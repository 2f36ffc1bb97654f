//! A client of NFS version 3: connections with many calls in flight, and files over them.
//!
//! Everything here is written once and runs twice: over TCP against any server, and in virtual
//! time against our own in a simulated world. What differs is behind two traits,
//! [`stream::ByteStream`] and [`stream::Dial`]; time and tasks come as a [`runtime::Runtime`].
//!
//! # Layers, from the bytes up
//! * [`stream`]: bytes to and from a server.
//! * `inbox`, [`connection`]: records; a connection with many calls in flight.
//! * `call`, [`mount`]: typed calls; from an export to its root.
//! * [`file`]: files, with write-behind and read-ahead.
//!
//! **Absent:** sockets, reactors, real clocks.

mod call;
pub mod connection;
pub mod file;
mod inbox;
pub mod mount;
pub mod planted;
pub mod stream;

pub use call::{CallError, Client, results};
