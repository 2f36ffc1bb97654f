//! The protocol without its sockets: the messages of a TCP connection between an NFS client and us,
//! as types.
//!
//! # Layers, from the wire up
//! - [`record`]: a call or a reply as bytes.
//! - [`xdr`]: fields of a record, read without copying, written by reference where they are large.
//! - [`rpc`]: the headers of calls and replies.
//! - [`nfs3`], [`mount`]: arguments and results of the two programs that are served.
//! - [`reader`]: splits the bytes of a stream into records; large WRITE payload goes into
//!   page-aligned memory while it arrives. The only stateful part.
//! - [`portmap`]: the two calls with which a server registers itself.
//!
//! # From a call to its reply
//! ```
//! use nfs::record::Record;
//! use nfs::rpc::{self, Call, CallError, Refusal};
//! use nfs::{nfs3, xdr};
//!
//! /// The segments to send, or nothing where there is no call to answer.
//! fn reply(record: &Record) -> Result<Vec<bytes::Bytes>, xdr::DecodeError> {
//!     let call = match Call::decode(record) {
//!         Ok(call) => call,
//!         Err(CallError::Rejected(rejection)) => return Ok(rejection.reply()),
//!         Err(CallError::Unanswerable(error)) => return Err(error),
//!     };
//!     let refuse = |refusal| Ok(rpc::refuse(call.xid, refusal));
//!     let Some(procedure) = nfs3::Procedure::from_number(call.procedure) else {
//!         return refuse(Refusal::ProcedureUnavailable);
//!     };
//!     match nfs3::Arguments::decode(procedure, call.arguments) {
//!         Err(_) => refuse(Refusal::GarbageArguments),
//!         Ok(nfs3::Arguments::Null) => Ok(rpc::success(call.xid).finish()),
//!         Ok(nfs3::Arguments::Getattr(_)) => {
//!             let result: nfs3::results::GetattrResult = Err(nfs3::Status::Stale.into());
//!             let mut reply = rpc::success(call.xid);
//!             reply.value(&result);
//!             Ok(reply.finish())
//!         }
//!         Ok(_) => refuse(Refusal::SystemError),
//!     }
//! }
//! ```
//!
//! # Invariants
//! 1. No input makes anything here panic, loop, or allocate more than the input was granted.
//! 2. Lengths are checked before they are used. Decoded values borrow from the record.
//! 3. Encoded values match the RFC, in success and in failure, to the byte.
//! 4. Strict where it costs nothing: a `bool` of 2, an unknown enumeration value and bytes after
//!    the last argument are garbage. Lenient where clients are known to be sloppy: padding may hold
//!    anything.
//!
//! Not asserted: 1, 3 and 4, which are about whatever bytes there are: tests and fuzz targets show
//! them; 2, which the decoder asserts, and the type of borrowed values.
//!
//! Architecture invariant: no socket, no clock, no randomness, no file system. Types here are the
//! protocol's; `dispatch` converts them to those of `vfs`. Results are decoded and
//! arguments encoded for clients in the modules `client`. Absent on purpose: UDP, RPCSEC_GSS.

pub mod mount;
pub mod nfs3;
pub mod portmap;
pub mod reader;
pub mod record;
pub mod rpc;
pub mod xdr;
