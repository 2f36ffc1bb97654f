//! The outside world as a [`Runtime`]: one thread with tokio's sockets and tasks.

use std::io;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use runtime::{Random, Runtime, Spawn};
use tokio::task::LocalSet;

use crate::clock::FineClock;

/// Runs `main` on this thread until it ends. Tasks that still run then are dropped.
///
/// # Errors
/// The operating system's, when it gives no event queue.
pub fn block_on<F: Future>(main: impl FnOnce(Runtime) -> F) -> io::Result<F::Output> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let runtime = Runtime {
        clock: Rc::new(FineClock::new()),
        random: Rc::new(SystemRandom),
        tasks: Rc::new(LocalTasks),
    };
    Ok(LocalSet::new().block_on(&reactor, main(runtime)))
}

struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random numbers to every process")
    }
}

struct LocalTasks;

impl Spawn for LocalTasks {
    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        tokio::task::spawn_local(task);
    }
}
