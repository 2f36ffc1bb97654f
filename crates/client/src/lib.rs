//! A client of NFS version 3: connections with many calls in flight, and files over them, with
//! write-behind and read-ahead by block-I/O daemons.
//!
//! Everything here is written once and runs twice: over TCP against any server, and in virtual
//! time against our own in a simulated world. What differs is behind two traits,
//! [`stream::ByteStream`] and [`stream::Dial`]; time and tasks come as a [`runtime::Runtime`]. A
//! file needs less: whatever keeps [`file::Calls`] may be its server, so that a test or an
//! experiment hands in one that has no wire at all.
//!
//! # Layers, from the bytes up
//! * [`stream`]: bytes to and from a server.
//! * `inbox`, [`connection`]: records; a connection with many calls in flight.
//! * `call`: typed calls, [`Client`] over one connection. [`mount`]: from an export to its root.
//! * `redial`: [`Redial`], which dials anew when a connection is lost, and makes its calls again.
//! * [`mod@file`]: [`file::File`]. Below it [`file::Calls`], what a file asks of its server;
//!   `pieces`, which decides what may go out and what is durable; `behind` and `ahead`, which make
//!   calls of that.
//!
//! # Invariants
//! 1. Nothing is lost in silence: what was written is durable when a commit or close gives `Ok`,
//!    or an error was told of it. So what a server loses at a restart, which another verifier
//!    shows, is sent again; an error is told once, and what it is about is given up.
//! 2. The server has overlapping writes in the order in which they were made, sent again or not.
//! 3. Memory is bounded: by what the options let be uncommitted, and a piece for each daemon.
//! 4. A call that is made again is the same call, number and bytes.
//!
//! Not asserted: 1, which is about a server's disk, and which tests hold against a model; 2 and 3,
//! which the invariants of `file` say closer; 4, which is that of `redial`.
//!
//! # What a file costs
//! A file of one caller: it is written and read through one `&mut`. Bytes of a write are kept by
//! reference, with the buffer that they are cut from. A read makes durable what was written, so
//! reading and writing by turns is slow.
//!
//! **Absent:** sockets, reactors, real clocks. Names, attributes and directories, which are typed
//! calls. A cache: what was read is the reader's. Locks, and any word on what another client
//! writes meanwhile: what was read ahead is as old as the call that brought it.

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
