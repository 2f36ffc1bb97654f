//! Workloads that move payload.
//!
//! Sequential ones have a file for each connection, which the workers of the connection write or
//! read together, one piece after the other. Once written to its end a file is committed, and
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

/// Bytes of a random overwrite.
const BLOCK: u32 = 8 << 10;

/// Bytes of a WRITE when files are made.
const PIECE: u32 = 64 << 10;

/// Bytes of a file that are read repeatedly.
const CACHED: u64 = 1 << 20;

/// Bytes of a file after which a sequential writer commits.
const COMMIT_EVERY: u64 = 16 << 20;

/// The kind of workload.
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
    /// The number of pieces begun.
    begun: Cell<u64>,
    /// UNSTABLE data that no COMMIT has made durable.
    open: Cell<Open>,
}

/// Writes to be committed.
#[derive(Clone, Copy, Default)]
struct Open {
    writes: u64,
    bytes: u64,
    /// The verifier of the first of them, and whether another one has a different one: then the
    /// server has lost data.
    verifier: Option<Verifier>,
    is_mixed: bool,
}

impl Open {
    /// Adds another write.
    fn and(self, bytes: u64, verifier: Verifier) -> Self {
        let is_other = self.verifier.is_some_and(|first| first != verifier);
        Self {
            writes: self.writes + 1,
            bytes: self.bytes + bytes,
            verifier: self.verifier.or(Some(verifier)),
            is_mixed: self.is_mixed || is_other,
        }
    }
}

struct Files {
    directories: Vec<Handle>,
    files: Vec<File>,
    size: u64,
    payload: Bytes,
}

/// Play that makes the files of all connections.
struct Making<'a>(&'a Files);

/// Play that fills them.
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

/// Bytes that no server can predict or compress.
fn payload(seed: u64) -> Bytes {
    let mut chance = crate::chance::Chance::new(seed, u64::MAX);
    (0..(1 << 20) / 8).flat_map(|_| chance.next_u64().to_le_bytes()).collect()
}

/// Commits the last writes, too, and counts that: the bytes of a measurement are durable.
async fn finish(stage: &Stage, files: &Files, measured: &mut Measured) {
    let start = stage.runtime.clock.now();
    let count = stage.plan.connections as u64;
    let pace = crate::run::Pace { count, ..Default::default() };
    let last = crate::run::paced(stage, "committing", pace, &Committing(files)).await;
    for ((procedure, what), count) in last.tally.errors {
        measured.tally.errors_alike(procedure, what, count);
    }
    measured.tally.bytes += last.tally.bytes;
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

    /// Writes this many bytes; returns the entry for their COMMIT.
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
        Ok(written.verifier)
    }

    /// Writes this many bytes UNSTABLE: they count when a COMMIT has made them durable.
    async fn write_unstable(
        &self,
        worker: &mut Worker,
        file: &File,
        place: (&Handle, u64, u32),
    ) -> Step {
        let verifier = self.write(worker, place, Stability::Unstable).await?;
        file.open.set(file.open.get().and(place.2.into(), verifier));
        Ok(())
    }

    /// Writes this many bytes durably.
    async fn write_stable(&self, worker: &mut Worker, place: (&Handle, u64, u32)) -> Step {
        self.write(worker, place, Stability::FileSync).await?;
        worker.moved(place.2.into());
        Ok(())
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
        let open = file.open.take(); // later answers are for the next COMMIT
        let committed = match worker.call(&arguments).await {
            Ok(committed) => committed,
            Err(noted) => {
                worker.lost(open.writes);
                return Err(noted);
            }
        };
        let is_there = open.verifier.is_none_or(|written| written == committed.verifier);
        if is_there && !open.is_mixed {
            worker.moved(open.bytes);
            Ok(())
        } else {
            worker.lost(open.writes);
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
        self.0.write_unstable(worker, file, (&handle, offset, PIECE)).await
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
                files.write_stable(worker, (&handle, 0, SMALL)).await?;
                worker.step_done(start);
                Ok(())
            }
            Kind::Overwrite => {
                let (_, handle) = files.file(worker.connection);
                let offset = block(worker, files.size, BLOCK);
                files.write_stable(worker, (&handle, offset, BLOCK)).await
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

/// The offset of a random block.
fn block(worker: &mut Worker, size: u64, block: u32) -> u64 {
    worker.chance.below(size / u64::from(block)) * u64::from(block)
}

impl Playing<'_> {
    /// Writes the next piece of the connection's file, and commits with the last of several.
    async fn write_on(&self, worker: &mut Worker, size: u32) -> Step {
        let (file, handle) = self.0.file(worker.connection);
        let begun = file.begun.replace(file.begun.get() + 1);
        let offset = begun * u64::from(size) % self.0.size;
        self.0.write_unstable(worker, file, (&handle, offset, size)).await?;
        if (offset + u64::from(size)).is_multiple_of(COMMIT_EVERY) {
            self.0.commit(worker, file, &handle).await?;
        }
        Ok(())
    }
}
