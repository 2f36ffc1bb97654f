//! Tests of files: over a simulated server of one file (`server`), and over ours in a simulated
//! world (`wire`); and of the line that makes their calls (`redial`).

mod ahead;
mod behind;
mod history;
mod redial;
mod server;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use client::file::{File, Options};
use sim::{Executor, Prng};

use crate::server::{Habits, Seen, Server, State};

/// The duration of a call of the server, where time counts.
const CALL: Duration = Duration::from_millis(10);

/// The pause of a file after "try again later".
const PAUSE: Duration = Duration::from_secs(1);

/// The longest WRITE and READ, in bytes.
const PIECE: u32 = 1000;

/// A world with one server, whose calls take [`CALL`].
struct World {
    executor: Executor,
    server: Server,
}

impl World {
    fn new() -> Self {
        let executor = Executor::new(1);
        let habits = Habits { takes: CALL, ..Habits::default() };
        let server = Server::new(&executor.runtime(), habits, 1);
        Self { executor, server }
    }

    fn set(&self, set: impl FnOnce(&mut State)) {
        set(&mut self.server.state.borrow_mut());
    }

    fn file(&self, daemons: usize) -> File<Server> {
        self.file_with(Options {
            daemons,
            write_size: PIECE,
            read_size: PIECE,
            pause: PAUSE,
            ..Options::default()
        })
    }

    fn file_with(&self, options: Options) -> File<Server> {
        File::new(&self.executor.runtime(), self.server.clone(), options)
    }

    /// The result of some work, and its duration.
    fn timed<T>(&self, work: impl Future<Output = T>) -> (T, Duration) {
        let start = self.executor.now();
        let result = self.executor.block_on(work);
        (result, self.executor.now().since(start))
    }

    fn durable(&self) -> Vec<u8> {
        self.server.state.borrow().durable.clone()
    }

    fn seen(&self) -> Vec<Seen> {
        self.server.state.borrow().seen.clone()
    }
}

/// This many pseudo-random bytes.
fn bytes(length: u32) -> Bytes {
    let mut bytes = vec![0; length as usize];
    Prng::new(length.into()).fill(&mut bytes);
    bytes.into()
}
