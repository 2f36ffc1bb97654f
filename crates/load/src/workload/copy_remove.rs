//! The torture loop of the paper on soft updates, over NFS: every worker repeatedly copies, reads
//! and removes a small tree, all concurrently. Directories appear, fill, empty and go all the time,
//! and reads must return the copied data.

use bytes::Bytes;
use nfs::nfs3::arguments::{
    CommitArgs, CreateArgs, CreateHow, LookupArgs, MkdirArgs, ReadArgs, RemoveArgs, RmdirArgs,
    WriteArgs,
};
use nfs::nfs3::{Handle, Procedure, SetAttributes, Stability};

use super::names::Name;
use super::{directories, directory, in_turn};
use crate::chance::Chance;
use crate::names::{at, open_to_owner};
use crate::run::{Measured, Play, measure, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

/// The files of the tree, each a little longer than one block.
const FILES: u64 = 10;
const SIZE: u32 = 9 << 10;

struct Loop {
    source: Handle,
    targets: Vec<Handle>,
    contents: Vec<Bytes>,
}

struct Sowing<'a>(&'a Loop);

pub(super) async fn play(stage: &Stage, name: &str) -> Result<Measured, Trouble> {
    let mut chance = Chance::new(stage.plan.seed, u64::MAX);
    let mut content = || (0..SIZE / 8).flat_map(|_| chance.next_u64().to_le_bytes()).collect();
    let work = Loop {
        source: directory(stage, &stage.home, "source").await?,
        targets: directories(stage, name, stage.plan.directories).await?,
        contents: (0..FILES).map(|_| content()).collect(),
    };
    prepare(stage, "making what is copied", FILES, &Sowing(&work)).await?;
    measure(stage, name, &work).await
}

impl Play for Sowing<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let content = self.0.contents[turn as usize].clone();
        self.0.make(worker, &self.0.source, turn, content).await
    }
}

impl Play for Loop {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let start = worker.step_start();
        let target = in_turn(&self.targets, turn);
        let name = Name::new('c', turn);
        let location = at(target, name.as_bytes());
        let made = worker.call(&MkdirArgs { location, attributes: open_to_owner() }).await?;
        let copy = match made.object {
            Some(handle) => handle,
            None => worker.call(&LookupArgs { what: location }).await?.object,
        };
        for number in 0..FILES {
            let content = self.read(worker, &self.source, number).await?;
            self.make(worker, &copy, number, content).await?;
        }
        for number in 0..FILES {
            self.read(worker, &copy, number).await?;
        }
        for number in 0..FILES {
            let object_name = Name::new('n', number);
            let object = at(&copy, object_name.as_bytes());
            worker.call(&RemoveArgs { object }).await?;
        }
        worker.call(&RmdirArgs { object: location }).await?;
        worker.step_done(start);
        Ok(())
    }
}

impl Loop {
    /// Makes a file with this content, and commits it.
    async fn make(
        &self,
        worker: &mut Worker,
        directory: &Handle,
        number: u64,
        data: Bytes,
    ) -> Step {
        let name = Name::new('n', number);
        let location = at(directory, name.as_bytes());
        let how = CreateHow::Guarded(SetAttributes::default());
        let made = worker.call(&CreateArgs { location, how }).await?;
        let handle = match made.object {
            Some(handle) => handle,
            None => worker.call(&LookupArgs { what: location }).await?.object,
        };
        let file = handle.as_bytes();
        let (stable, count) = (Stability::Unstable, SIZE);
        let write = WriteArgs { file, offset: 0, count, stable, data: vec![data] };
        let written = worker.call(&write).await?;
        let committed = worker.call(&CommitArgs { file, offset: 0, count: 0 }).await?;
        if written.count != SIZE {
            return Err(worker.wrong(Procedure::Write, "it wrote less than it was given"));
        }
        if written.verifier != committed.verifier {
            return Err(worker.wrong(Procedure::Commit, "the verifier changed: data was lost"));
        }
        worker.moved(u64::from(SIZE));
        Ok(())
    }

    /// Looks up a file and reads it; its content must be the written one.
    async fn read(&self, worker: &mut Worker, directory: &Handle, number: u64) -> Step<Bytes> {
        let name = Name::new('n', number);
        let what = at(directory, name.as_bytes());
        let found = worker.call(&LookupArgs { what }).await?.object;
        let arguments = ReadArgs { file: found.as_bytes(), offset: 0, count: SIZE };
        let read = worker.call(&arguments).await?;
        let content = &self.contents[number as usize];
        if read.data.concat() != content[..] {
            return Err(worker.wrong(Procedure::Read, "a copy differs from what was copied"));
        }
        worker.moved(u64::from(SIZE));
        Ok(content.clone())
    }
}
