//! Workloads that move payload.
//!
//! Sequential ones have a file for each connection, which the workers of the connection write or
//! read together, one piece after the other. A file that was written to its end is committed, and
//! written from its start again.

use std::cell::Cell;

use bytes::Bytes;
use nfs::nfs3::arguments::{CommitArgs, CreateArgs, CreateHow, LookupArgs, ReadArgs, WriteArgs};
use nfs::nfs3::{Handle, Procedure, SetAttributes, Stability, Verifier};

use super::names::Name;
use super::{directories, in_turn};
use crate::names::at;
use crate::run::{Measured, Play, measure, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

/// The payload of a small file.
const SMALL: u32 = 1 << 10;

/// A block of a random overwrite.
const BLOCK: u32 = 8 << 10;

/// The pieces in which files are made.
const PIECE: u32 = 64 << 10;

/// How much of a file is read again and again.
const CACHED: u64 = 1 << 20;

/// After how many bytes of a file a sequential writer commits.
const COMMIT_EVERY: u64 = 16 << 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CreateWrite,
    Overwrite,
    Write { size: u32 },
    ReadOnce { size: u32 },
    ReadAgain { size: u32 },
}

/// A file of a connection.
#[derive(Default)]
struct File {
    handle: Cell<Option<Handle>>,
    /// How many pieces were begun.
    begun: Cell<u64>,
    verifier: Cell<Option<Verifier>>,
}

struct Files {
    directories: Vec<Handle>,
    files: Vec<File>,
    size: u64,
    payload: Bytes,
}

/// Makes the files of all connections.
struct Making<'a>(&'a Files);

/// Fills them.
struct Filling<'a>(&'a Files);

struct Playing<'a>(&'a Files, Kind);

pub(super) async fn play(stage: &Stage, name: &str, kind: Kind) -> Result<Measured, Trouble> {
    let (asked, allowed) = match kind {
        Kind::CreateWrite => (SMALL, stage.limits.write_max),
        Kind::Overwrite => (BLOCK, stage.limits.write_max),
        Kind::Write { size } => (size, stage.limits.write_max),
        Kind::ReadOnce { size } | Kind::ReadAgain { size } => (size, stage.limits.read_max),
    };
    if asked > allowed {
        let sentence = format!("{name}: the server takes {allowed} bytes in a call at most");
        return Err(Trouble::Plan(sentence));
    }
    let mut files = Files {
        directories: directories(stage, name, stage.plan.directories).await?,
        files: (0..stage.plan.connections).map(|_| File::default()).collect(),
        size: stage.plan.file_size.next_multiple_of(1 << 20),
        payload: payload(stage.plan.seed),
    };
    if kind != Kind::CreateWrite {
        let connections = stage.plan.connections as u64;
        prepare(stage, &format!("preparing {name}"), connections, &Making(&files)).await?;
        if let Kind::ReadAgain { .. } = kind {
            files.size = CACHED;
        }
        if !matches!(kind, Kind::Write { .. }) {
            let pieces = connections * files.size / u64::from(PIECE);
            prepare(stage, &format!("filling {name}"), pieces, &Filling(&files)).await?;
            prepare(stage, "committing", connections, &Committing(&files)).await?;
            files.files.iter().for_each(|file| file.begun.set(0));
        }
    }
    let mut measured = measure(stage, name, &Playing(&files, kind)).await?;
    if let Kind::Write { .. } = kind {
        finish(stage, &files, &mut measured).await;
    }
    Ok(measured)
}

/// Bytes that no server can guess or shrink.
fn payload(seed: u64) -> Bytes {
    let mut chance = crate::chance::Chance::new(seed, u64::MAX);
    (0..(1 << 20) / 8).flat_map(|_| chance.next_u64().to_le_bytes()).collect()
}

/// What was written last is committed, too, and counts: the bytes of a measurement are durable.
async fn finish(stage: &Stage, files: &Files, measured: &mut Measured) {
    let start = stage.runtime.clock.now();
    let count = stage.plan.connections as u64;
    let pace = crate::run::Pace { count, ..Default::default() };
    let last = crate::run::paced(stage, "committing", pace, &Committing(files)).await;
    for (key, count) in last.tally.errors {
        *measured.tally.errors.entry(key).or_default() += count;
    }
    measured.elapsed += stage.runtime.clock.now().since(start);
}

impl Files {
    fn file(&self, number: usize) -> (&File, Handle) {
        let file = &self.files[number % self.files.len()];
        (file, file.handle.get().expect("all were made"))
    }

    /// Creates a file.
    async fn create(&self, worker: &mut Worker, number: u64) -> Step<Handle> {
        let name = Name::new('n', number);
        let location = at(in_turn(&self.directories, number), name.as_bytes());
        let how = CreateHow::Unchecked(SetAttributes::default());
        match worker.call(&CreateArgs { location, how }).await?.object {
            Some(handle) => Ok(handle),
            None => Ok(worker.call(&LookupArgs { what: location }).await?.object),
        }
    }

    /// Writes so many bytes; gives what they are to be committed with.
    async fn write(
        &self,
        worker: &mut Worker,
        (file, offset, count): (&Handle, u64, u32),
        stable: Stability,
    ) -> Step<Verifier> {
        let data = self.payload.slice(..count as usize);
        let arguments =
            WriteArgs { file: file.as_bytes(), offset, count, stable, data: vec![data] };
        let written = worker.call(&arguments).await?;
        if written.count != count {
            return Err(worker.wrong(Procedure::Write, "it wrote less than it was given"));
        }
        if written.committed < stable {
            return Err(worker.wrong(Procedure::Write, "it is less stable than it should be"));
        }
        worker.moved(u64::from(count));
        Ok(written.verifier)
    }

    async fn read(&self, worker: &mut Worker, file: &Handle, offset: u64, count: u32) -> Step {
        let arguments = ReadArgs { file: file.as_bytes(), offset, count };
        let read = worker.call(&arguments).await?;
        let length: usize = read.data.iter().map(Bytes::len).sum();
        if length != count as usize {
            return Err(worker.wrong(Procedure::Read, "it read less than there is"));
        }
        worker.moved(u64::from(count));
        Ok(())
    }

    async fn commit(&self, worker: &mut Worker, file: &File, handle: &Handle) -> Step {
        let arguments = CommitArgs { file: handle.as_bytes(), offset: 0, count: 0 };
        let committed = worker.call(&arguments).await?;
        let written = file.verifier.get();
        if written.is_none_or(|written| written == committed.verifier) {
            Ok(())
        } else {
            Err(worker.wrong(Procedure::Commit, "the verifier changed: data was lost"))
        }
    }
}

impl Play for Making<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let handle = self.0.create(worker, turn).await?;
        self.0.files[turn as usize].handle.set(Some(handle));
        Ok(())
    }
}

impl Play for Filling<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let (file, handle) = self.0.file(turn as usize);
        let offset = file.begun.replace(file.begun.get() + 1) * u64::from(PIECE);
        let verifier = self.0.write(worker, (&handle, offset, PIECE), Stability::Unstable).await?;
        file.verifier.set(Some(verifier));
        Ok(())
    }
}

struct Committing<'a>(&'a Files);

impl Play for Committing<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let (file, handle) = self.0.file(turn as usize);
        self.0.commit(worker, file, &handle).await
    }
}

impl Play for Playing<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let files = self.0;
        match self.1 {
            Kind::CreateWrite => {
                let start = worker.step_start();
                let handle = files.create(worker, turn).await?;
                files.write(worker, (&handle, 0, SMALL), Stability::FileSync).await?;
                worker.step_done(start);
                Ok(())
            }
            Kind::Overwrite => {
                let (_, handle) = files.file(worker.connection);
                let offset = block(worker, files.size, BLOCK);
                files.write(worker, (&handle, offset, BLOCK), Stability::FileSync).await.map(drop)
            }
            Kind::Write { size } => self.write_on(worker, size).await,
            Kind::ReadOnce { size } => {
                let (file, handle) = files.file(worker.connection);
                let begun = file.begun.replace(file.begun.get() + 1);
                let offset = begun * u64::from(size) % files.size;
                files.read(worker, &handle, offset, size).await
            }
            Kind::ReadAgain { size } => {
                let (_, handle) = files.file(worker.connection);
                let offset = block(worker, files.size, size);
                files.read(worker, &handle, offset, size).await
            }
        }
    }
}

/// The offset of a block by chance.
fn block(worker: &mut Worker, size: u64, block: u32) -> u64 {
    worker.chance.below(size / u64::from(block)) * u64::from(block)
}

impl Playing<'_> {
    /// The next piece of the connection's file, and a COMMIT with the last of several.
    async fn write_on(&self, worker: &mut Worker, size: u32) -> Step {
        let (file, handle) = self.0.file(worker.connection);
        let begun = file.begun.replace(file.begun.get() + 1);
        let offset = begun * u64::from(size) % self.0.size;
        let verifier = self.0.write(worker, (&handle, offset, size), Stability::Unstable).await?;
        file.verifier.set(Some(verifier));
        if (offset + u64::from(size)).is_multiple_of(COMMIT_EVERY) {
            self.0.commit(worker, file, &handle).await?;
        }
        Ok(())
    }
}
