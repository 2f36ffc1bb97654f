//! The dispatcher seen from outside, over a file system in memory. One scenario a test, the
//! scenarios of one theme a file; all in one program, which is built once.

mod fixture;
mod memory;

mod caller;
mod changes;
mod counted;
mod delayed;
mod directory;
mod durability;
mod exports;
mod facts;
mod handles;
mod hostile;
mod limits;
mod log;
mod mounting;
mod once;
#[cfg(feature = "planted-bugs")]
mod planted;
mod put_off;
mod rpc;
mod spectators;
mod squash;
mod starts;
mod strangers;
mod transfers;
mod under_load;
mod volumes;
mod watched;
