//! The experiments of the papers, on models of the papers' hardware, in virtual time.
//!
//! What is published stands beside what the model of the paper's system gives, and what our own
//! finished engine gives on the same hardware. What is published is data; what goes into a model is
//! named as an input; everything else comes out of it. Virtual time is exact: the same seed gives
//! the same digits.
//!
//! # Layers
//! * [`processor`], [`wire`], [`logging_locks`]: a processor's time, loads over a simulated
//!   network, and what a paper's server does that ours does not.
//! * [`server`]: a whole server of those parts.
//! * [`calaveras`]: "Metadata Logging in an NFS Server".
//! * [`softupdates`]: the alpha distribution of soft updates, called by local programs.
//! * [`acacia`]: "A Synchronous File Server for Distributed File Systems".
//! * [`figure`], [`picture`]: what came of it, for people and programs.
//!
//! **Absent:** clocks, sockets, and any figure that was typed in.

pub mod acacia;
pub mod calaveras;
pub mod figure;
pub mod logging_locks;
pub mod picture;
pub mod processor;
pub mod server;
pub mod softupdates;
pub mod wire;
