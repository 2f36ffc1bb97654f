//! Remote procedure calls, version 2 (RFC 5531): the header of a call, the header of a reply.
//!
//! [`Call::decode`] reads the header of a record and leaves its `arguments` to be decoded by the
//! program that the call names. A reply begins with [`success`] or is a whole [`refuse`]. A client
//! begins a call with [`call`] and reads the header of the reply with [`Reply::decode`].

mod call;
mod client;
mod credential;
mod reply;

pub(crate) use call::arguments_digest;
pub use call::{Call, CallError, Rejection};
pub use client::{Caller, Reply, call};
pub use credential::{
    AUTH_NONE, AUTH_SYS, AuthSys, Credential, Gids, MAX_AUTH_BODY, MAX_GIDS, MAX_MACHINE_NAME,
};
pub use reply::{AuthStatus, Refusal, refuse, success};

/// The version of the protocol.
pub const VERSION: u32 = 2;

/// `msg_type` of a call.
pub(crate) const CALL: u32 = 0;

/// `msg_type` of a reply.
pub(crate) const REPLY: u32 = 1;

/// The number of the NFS program.
pub const PROGRAM_NFS: u32 = 100_003;

/// The number of the MOUNT program.
pub const PROGRAM_MOUNT: u32 = 100_005;

/// The number of the port mapper.
pub const PROGRAM_PORTMAP: u32 = 100_000;
