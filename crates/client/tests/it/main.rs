//! Tests of files: over a server that is not there (`server`), and over ours in a simulated world
//! (`wire`); and of what carries their calls (`redial`).

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

/// What a call of the server takes, where time counts.
const CALL: Duration = Duration::from_millis(10);

/// What a file waits when it is put off.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest WRITE and READ.
const PIECE: u32 = 1000;

/// A world of one server, whose calls take [`CALL`].
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

    /// What some work gives, and how long it takes.
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

/// So many bytes that are like no others.
fn bytes(length: u32) -> Bytes {
    let mut bytes = vec![0; length as usize];
    Prng::new(length.into()).fill(&mut bytes);
    bytes.into()
}
