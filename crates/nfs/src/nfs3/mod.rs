//! NFS version 3 (RFC 1813): 22 procedures.
//!
//! [`Arguments::decode`] reads the arguments of any of them; they borrow from the record. Results
//! are owned, and each is an [`Outcome`]: the results of the procedure, or a [`Failure`] with its
//! [`Status`] and the attributes that go along with a refusal. All are written with
//! [`Encode`](crate::xdr::Encode). A client writes arguments and reads results: [`Request`].

pub mod arguments;
mod attributes;
mod client;
mod front;
mod handle;
mod outcome;
mod procedure;
mod readdir_budget;
pub mod results;
mod status;

pub use arguments::Arguments;
pub use attributes::{
    Attributes, Device, FileKind, PostOp, SetAttributes, SetTime, Stability, Time, Verifier, Wcc,
    WccAttributes,
};
pub use client::Request;
pub use front::handle_of;
pub use handle::{Handle, MAX_HANDLE};
pub use outcome::{Failure, Outcome};
pub use procedure::Procedure;
pub use readdir_budget::{EMPTY_LISTING, ReaddirBudget, ReaddirplusBudget};
pub use status::Status;

/// The version of the protocol.
pub const VERSION: u32 = 3;

/// The port where clients look first.
pub const PORT: u16 = 2049;
