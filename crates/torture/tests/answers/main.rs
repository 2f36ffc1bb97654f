//! What it costs to remember answers where they survive: bytes of log, instructions, memory.

mod costs;
mod house;
mod memory;
