//! A client of NFS version 3: connections with many calls in flight, and files over them, with
//! write-behind and read-ahead by block-I/O daemons.
//!
//! Everything here is written once and runs twice: over TCP against any server, and in virtual time
//! against our own in a simulated world. The differences are behind two traits,
//! [`stream::ByteStream`] and [`stream::Dial`]; time and tasks come as a [`runtime::Runtime`]. A
//! file needs less: anything that implements [`file::Calls`] may be its server, so a test or an
//! experiment supplies one without a wire.
//!
//! # Layers, from the bytes up
//! * [`stream`]: bytes to and from a server.
//! * `inbox`, [`connection`]: records; a connection with many calls in flight.
//! * `call`: typed calls, [`Client`] over one connection. [`mount`]: from an export to its root.
//! * `redial`: [`Redial`], which reconnects when a connection is lost, and repeats its calls.
//! * [`mod@file`]: [`file::File`]. Below it [`file::Calls`], the calls of a file to its server;
//!   `pieces`, which decides what may be sent and what is durable; `behind` and `ahead`, which turn
//!   that into calls.
//!
//! # Invariants
//! 1. Nothing is lost silently: written data is durable when a commit or close returns `Ok`, or an
//!    error was reported for it. So data that a server loses at a restart, which a changed verifier
//!    shows, is sent again; an error is reported once, and its data is given up.
//! 2. The server gets overlapping writes in the order in which they were made, sent again or not.
//! 3. Memory is bounded: by the uncommitted bytes of the options, and a piece for each daemon.
//! 4. A repeated call is the same call, with the same number and bytes.
//!
//! Not asserted: 1, which is about a server's disk, and which tests check against a model; 2 and 3,
//! which the invariants of `file` state more exactly; 4, which is that of `redial`.
//!
//! # Costs of a file
//! A file has one caller: it is written and read through one `&mut`. Bytes of a write are kept by
//! reference, with the buffer that they are cut from. A read first makes written data durable, so
//! alternating reads and writes are slow.
//!
//! **Absent:** sockets, reactors, real clocks. Names, attributes and directories, which are typed
//! calls. A cache: data that was read belongs to the reader. Locks, and any statement about another
//! client's writes: data that was read ahead is as old as the call that brought it.

mod call;
pub mod connection;
pub mod file;
mod inbox;
pub mod mount;
pub mod planted;
mod redial;
pub mod stream;

pub use call::{CallError, Client, Line, results};
pub use redial::{Patience, Redial};
