//! A program: calls one after the other, each with its share of the processor's time.
//!
//! *Input.* The processor goes round between programs that want it, 10 ms each.

use std::rc::Rc;
use std::time::Duration;

use runtime::sync::Semaphore;

use super::files::{Holds, LocalFiles};

/// How long a program has the processor when others want it.
const SLICE: Duration = Duration::from_millis(10);

/// The processor of the machine.
pub(super) struct Processor(Rc<Semaphore>);

impl Processor {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }
}

/// A call of a script. Directories are numbered as the script makes them, from 1; 0 is the one
/// that it begins in.
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

/// What is done one after the other, in so much time of the processor.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) calls: Vec<Call>,
    pub(super) processor: Duration,
}

/// A program that runs.
pub(super) struct Program<'a, F: LocalFiles> {
    pub(super) files: &'a F,
    pub(super) processor: &'a Processor,
    directories: Vec<F::Directory>,
}

impl<'a, F: LocalFiles> Program<'a, F> {
    /// A program in a directory.
    pub(super) fn new(files: &'a F, processor: &'a Processor, from: F::Directory) -> Self {
        Self { files, processor, directories: vec![from] }
    }

    /// Plays a script, and says how long it took.
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
        clock.now().since(begun)
    }

    async fn work(&self, mut time: Duration) {
        while !time.is_zero() {
            let slice = time.min(SLICE);
            let _turn = self.processor.0.acquire(1).await;
            self.files.clock().sleep(slice).await;
            time -= slice;
        }
    }

    async fn call(&mut self, call: &Call) {
        let (files, at) = (self.files, &self.directories);
        match call {
            Call::MakeDirectory(parent, name) => {
                let made = files.make_directory(at[*parent], name).await;
                self.directories.push(made);
            }
            Call::MakeFile(parent, name, holds) => {
                files.make_file(at[*parent], name, *holds).await;
            }
            Call::Read(parent, name) => files.read(at[*parent], name).await,
            Call::Stat(parent, name) => files.stat(at[*parent], name).await,
            Call::List(directory) => files.list(at[*directory]).await,
            Call::Remove(parent, name) => files.remove(at[*parent], name).await,
            Call::RemoveDirectory(parent, name) => {
                files.remove_directory(at[*parent], name).await;
            }
        }
    }
}
