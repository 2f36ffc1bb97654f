//! The loads in virtual time: against a server double that stalls and lies, to show that the
//! figures leave nothing out; and against the whole server in its simulated world, to show that a
//! workload is the same there as anywhere.
//!
//! Nothing here waits for a real clock, and every figure is exact.

mod double;
mod lies;
mod replayed;
mod simulated;
mod stall;
