//! What it costs to remember answers where they survive: bytes of log, instructions, memory.

mod costs;
mod fixture;
mod memory;
