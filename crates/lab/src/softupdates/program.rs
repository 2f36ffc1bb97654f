//! A program: a sequence of calls, each with its share of processor time.
//!
//! *Input.* The processor is shared round-robin by the programs that want it, with a quantum of a
//! tenth of a second, that of 4.4BSD. A program that sleeps in a call gives up the rest of its
//! quantum, and queues again when it wakes up.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use runtime::sync::{Permit, Semaphore};

use super::files::{Holds, LocalFiles};

/// Quantum of a program when others want the processor.
const SLICE: Duration = Duration::from_millis(100);

/// The processor of the machine.
pub(super) struct Processor(Rc<Semaphore>);

impl Processor {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }
}

/// A call of a script. Directories are numbered from 1 in the order in which the script makes them;
/// 0 is the starting directory.
#[derive(Clone, Debug)]
pub(super) enum Call {
    MakeDirectory(usize, String),
    MakeFile(usize, String, Holds),
    Read(usize, String),
    Stat(usize, String),
    List(usize),
    Remove(usize, String),
    RemoveDirectory(usize, String),
}

/// A sequence of calls, with its total processor time.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) calls: Vec<Call>,
    pub(super) processor: Duration,
}

/// A running program.
pub(super) struct Program<'a, F: LocalFiles> {
    pub(super) files: &'a F,
    pub(super) processor: &'a Processor,
    directories: Vec<F::Directory>,
    /// The processor, and the remaining quantum.
    turn: Option<(Permit, Duration)>,
}

impl<'a, F: LocalFiles> Program<'a, F> {
    /// A program that starts in a directory.
    pub(super) fn new(files: &'a F, processor: &'a Processor, from: F::Directory) -> Self {
        Self { files, processor, directories: vec![from], turn: None }
    }

    /// Plays a script, and returns its duration.
    pub(super) async fn play(&mut self, script: &Script) -> Duration {
        let clock = self.files.clock();
        let begun = clock.now();
        let all = script.processor.as_nanos() as u64;
        let (count, mut spent) = (script.calls.len() as u64, 0);
        for (number, call) in script.calls.iter().enumerate() {
            let until = all * (number as u64 + 1) / count;
            self.work(Duration::from_nanos(until - spent)).await;
            spent = until;
            self.call(call).await;
        }
        self.turn = None;
        clock.now().since(begun)
    }

    async fn work(&mut self, mut time: Duration) {
        while !time.is_zero() {
            let (permit, left) = match self.turn.take() {
                Some(turn) => turn,
                None => (self.processor.0.acquire(1).await, SLICE),
            };
            let slice = time.min(left);
            self.files.clock().sleep(slice).await;
            time -= slice;
            self.turn = Some((permit, left - slice)).filter(|(_, left)| !left.is_zero());
        }
    }

    async fn call(&mut self, call: &Call) {
        let made = {
            let mut calling = pin!(carry_out(self.files, &self.directories, call));
            match calling.as_mut().now_or_never() {
                Some(made) => made,
                None => {
                    self.turn = None;
                    calling.await
                }
            }
        };
        self.directories.extend(made);
    }
}

/// Makes a call; returns the directory that it made, if any.
async fn carry_out<F: LocalFiles>(
    files: &F,
    at: &[F::Directory],
    call: &Call,
) -> Option<F::Directory> {
    match call {
        Call::MakeDirectory(parent, name) => {
            return Some(files.make_directory(at[*parent], name).await);
        }
        Call::MakeFile(parent, name, holds) => files.make_file(at[*parent], name, *holds).await,
        Call::Read(parent, name) => files.read(at[*parent], name).await,
        Call::Stat(parent, name) => files.stat(at[*parent], name).await,
        Call::List(directory) => files.list(at[*directory]).await,
        Call::Remove(parent, name) => files.remove(at[*parent], name).await,
        Call::RemoveDirectory(parent, name) => files.remove_directory(at[*parent], name).await,
    }
    None
}
