//! Experiments of published papers, on models of the papers' hardware, in virtual time.
//!
//! Each published figure is compared with the result of a model of the paper's system, and with the
//! result of our own engine on the same hardware. Published figures are data; the parameters of a
//! model are marked as inputs; everything else is a result. Virtual time is exact: the same seed
//! gives the same digits.
//!
//! # Layers
//! * [`processor`], [`wire`], [`logging_locks`]: processor time, load over a simulated network, and
//!   behavior of a paper's server that ours does not have.
//! * [`server`]: a whole server built of those parts.
//! * [`calaveras`]: "Metadata Logging in an NFS Server".
//! * [`softupdates`]: the alpha distribution of soft updates, called by local programs.
//! * [`acacia`]: "A Synchronous File Server for Distributed File Systems".
//! * [`figure`], [`picture`]: results for people and programs.
//!
//! **Absent:** clocks, sockets, and typed-in results.

pub mod acacia;
pub mod calaveras;
pub mod figure;
pub mod logging_locks;
pub mod picture;
pub mod processor;
pub mod server;
pub mod softupdates;
pub mod wire;
