//! The only crate that touches the outside: sockets, signals, the configuration, the reactor.
//!
//! # Layers
//! - [`serve`]: a server from its start to its end, with signals;
//! - [`shut_down`]: the end of volumes, with its limit;
//! - [`Server`]: listeners and connections, without signals, for a caller that brings its own;
//! - `tcp`: the transport of the crate `door`, where connections are served;
//! - `unsent`: bound on the unsent bytes of a connection in the kernel;
//! - `descriptors`: the number of connections that the system allows;
//! - `rpcbind`: registration of the ports, if the configuration asks for it;
//! - `shares`, `ready`: who may do what with each volume, and how to mount it;
//! - `recording`: a trace of the clients' calls;
//! - [`metrics`]: text of metrics;
//! - [`control`]: the control channel of each volume, and the client of it;
//! - [`config`]: the file `duramen.toml`;
//! - [`reactor`]: tokio as a [`runtime::Runtime`], for the engines;
//! - [`disks`]: devices whose calls do not block the reactor.
//!
//! # Contract
//! Everything runs on the one thread that called [`reactor::block_on`]: volumes are opened there,
//! with the runtime that it provides, and served there. Beside it the control channel has a thread,
//! which asks that one for counters, and to begin jobs and orders. The crate prints nothing: its
//! messages go to `tracing`, and information for the user at the start is in [`ReadyInfo`].
//!
//! SIGTERM and SIGINT end the server cleanly, a second one at once. A stop gives up disks that do
//! not answer ([`STOP_TIMEOUT`]). SIGHUP reloads the exports. Architecture invariant: only `bench`,
//! which measures servers, knows tokio besides; and this crate knows no engine.

pub mod config;
pub mod control;
mod descriptors;
pub mod device_counts;
pub mod disks;
pub mod metrics;
pub mod reactor;
mod ready;
mod recording;
mod rpcbind;
mod serve_error;
mod server;
mod shares;
mod signals;
mod stopping;
mod stuck;
mod tcp;
mod unsent;

pub use config::{Config, ConfigError};
pub use dispatch::{Anonymous, Export, Exports, Fsid, Rule, Squash, Volume, check_names, toml_key};
pub use ready::ReadyInfo;
pub use serve_error::ServeError;
pub use server::{Server, ServerHandle, Settings};
pub use shares::{SHARE_TIMEOUT, Share};
pub use signals::{Signals, serve, unless_ended};
pub use stopping::shut_down;
pub use stuck::{STOP_TIMEOUT, StuckVolume, StuckVolumes};
