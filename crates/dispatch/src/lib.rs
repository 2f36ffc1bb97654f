//! From calls to verbs: permission checks, exactly-once execution, and replies that are never
//! early.
//!
//! # Layers
//! - [`Session`]: the calls of one connection;
//! - [`Dispatcher`]: the path of one call, from its record to its reply;
//! - [`Exports`]: the clients that may use each volume, and the users that they act as;
//! - [`ReplyCache`]: a repeated call is answered again, not executed again, even if the server was
//!   restarted in between ([`Dispatcher::restore`]);
//! - `nfs3`, `mount`: one function for each procedure of the two programs;
//! - `told`: the types of answers that may be sent;
//! - [`Handle`], [`Volumes`]: file handles, and the volumes that they name.
//!
//! # Contract
//! The owner of a connection makes a session of it ([`Dispatcher::connect`]). Before it reads a
//! record it takes memory for it ([`Session::request_memory`], or [`Session::arriving_memory`] when
//! the record has only begun), and then it calls [`Session::call`], for as many records at a time
//! as it likes, and sends each [`Reply`]. To abandon a lost connection, it drops the futures: a
//! call that has begun to change something still ends.
//!
//! No reply is encoded before the changes that it shows are on stable storage: verbs return a
//! [`vfs::Sealed`] value, and the encoder takes a [`vfs::Durable`] one, which only the receipt of
//! the disk can make. The exception is a volume that an administrator has declared delayed: see
//! `told`. When the receipt says that the volume was lost, the reply is a bare NFS3ERR_IO.
//!
//! Architecture invariant: runs the same in production and under the simulator. No socket, no clock
//! but [`runtime::Clock`], no task but of [`runtime::Spawn`], nothing of any disk layout.

mod accounts;
mod caller;
pub mod counts;
mod dispatcher;
mod exports;
mod handle;
mod hashed;
mod key;
mod limits;
mod mount;
mod mount_lists;
mod nfs3;
mod parties;
#[doc(hidden)]
pub mod planted;
mod refused;
mod reply;
pub mod reply_cache;
mod reports;
mod session;
mod slow;
mod told;
mod volume;

pub use dispatcher::{CallObserver, Dispatcher};
pub use exports::{AmbiguousRules, Anonymous, Export, Exports, Rule, Squash, toml_key};
pub use handle::{Fsid, HANDLE_SIZE, Handle, HandleBytes, LONG_HANDLE_SIZE, SNAPSHOT_HANDLE_SIZE};
pub use limits::{CALL_MEMORY, Limits, MAX_TRANSFER};
pub use reply::{Reply, ReplyMemory};
pub use reply_cache::{Counters, ReplyCache, Window};
pub use reports::Refusals;
pub use session::{Arriving, Session};
pub use volume::{Volume, Volumes, VolumesError, check_names};

use key::Key;
use reply_cache::Begin;
