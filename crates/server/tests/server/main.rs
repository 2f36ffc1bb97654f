//! The server over real TCP on 127.0.0.1, in front of a file system in memory, with an independent
//! client. One scenario a test, the scenarios of one theme a file; all in one program.

mod fixture;
#[path = "../../../dispatch/tests/dispatch/memory.rs"]
#[allow(dead_code)]
mod memory;

mod control;
mod door;
mod every_procedure;
mod exports;
mod hanging_up;
mod large_payload;
mod pipelining;
mod shutdown;
mod unsent;
