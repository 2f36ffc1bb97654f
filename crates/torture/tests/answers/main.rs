//! The costs of answers that survive: bytes of log, instructions, memory.

mod costs;
mod fixture;
mod memory;
