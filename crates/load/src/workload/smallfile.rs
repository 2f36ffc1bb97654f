//! The small-file benchmark of "Metadata Logging in an NFS Server" (Vahalia, Gray and Ting, USENIX
//! 1995, section 7): four phases over one tree, each timed as a whole.
//!
//! | phase | what it does |
//! |---|---|
//! | CD | makes 16000 directories: on each of 8 disks 20 directories of 100 |
//! | RD | removes them |
//! | CF | copies a file of 1 KiB 16000 times, over the same 160 directories |
//! | RF | removes the copies |
//!
//! An export is one volume, so that a disk is a directory here. Each change follows a client's
//! LOOKUP, as in the paper's times; it counts in the elapsed time, and is separate in the latencies
//! by procedure.

use bytes::Bytes;
use nfs::nfs3::arguments::{
    CreateArgs, CreateHow, LookupArgs, MkdirArgs, RemoveArgs, RmdirArgs, WriteArgs,
};
use nfs::nfs3::{Handle, Procedure, SetAttributes, Stability, Status};

use super::directory;
use super::names::Name;
use crate::names::{at, open_to_owner};
use crate::run::{Measured, Pace, Play, paced};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

const DISKS: u64 = 8;
const DIRECTORIES: u64 = 20;
const CHILDREN: u64 = 100;
const PARENTS: u64 = DISKS * DIRECTORIES;

/// The size of a copy, in bytes.
const SIZE: u32 = 1 << 10;

/// One of the four phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// CD.
    MakeDirectories,
    /// RD.
    RemoveDirectories,
    /// CF.
    CopyFiles,
    /// RF.
    RemoveFiles,
}

/// All four phases, in their order, by the paper's names.
pub const PHASES: [(&str, Phase); 4] = [
    ("CD", Phase::MakeDirectories),
    ("RD", Phase::RemoveDirectories),
    ("CF", Phase::CopyFiles),
    ("RF", Phase::RemoveFiles),
];

/// The parent directories of one disk, or of several.
pub struct Tree {
    parents: Vec<Handle>,
    content: Bytes,
}

struct Playing<'a>(&'a Tree, Phase);

/// Runs all four phases in their order. A plan of fewer steps than 16000 makes the directories
/// smaller.
pub(super) async fn play(stage: &Stage, name: &str) -> Result<Vec<Measured>, Trouble> {
    let tree = Tree::make(stage, DISKS).await?;
    let children = stage.plan.count.div_ceil(PARENTS).clamp(1, CHILDREN);
    let pace = Pace { rate: stage.plan.rate, ..tree.pace(children) };
    let mut phases = Vec::new();
    for (phase, kind) in PHASES {
        phases.push(tree.play(stage, &format!("{name} {phase}"), pace, kind).await);
    }
    Ok(phases)
}

impl Tree {
    /// Makes the parent directories of this many disks.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn make(stage: &Stage, disks: u64) -> Result<Self, Trouble> {
        let mut parents = Vec::new();
        for disk in 0..disks {
            let disk = directory(stage, &stage.home, &format!("disk{disk}")).await?;
            for number in 0..DIRECTORIES {
                parents.push(directory(stage, &disk, &format!("d{number}")).await?);
            }
        }
        Ok(Self { parents, content: Bytes::from(vec![b'x'; SIZE as usize]) })
    }

    /// A pace at which each directory gets this many children, as fast as they are answered.
    pub fn pace(&self, children: u64) -> Pace {
        Pace { count: self.parents.len() as u64 * children, ..Pace::default() }
    }

    /// Measures a phase. RD and RF remove the directories and files of CD and CF.
    pub async fn play(&self, stage: &Stage, name: &str, pace: Pace, phase: Phase) -> Measured {
        paced(stage, name, pace, &Playing(self, phase)).await
    }
}

impl Play for Playing<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let start = worker.step_start();
        let parents = self.0.parents.len() as u64;
        let directory = &self.0.parents[(turn % parents) as usize];
        let name = Name::new('n', turn / parents);
        let object = at(directory, name.as_bytes());
        let look_up = LookupArgs { what: object };
        match self.1 {
            Phase::MakeDirectories => {
                absent(worker, &look_up).await?;
                let arguments = MkdirArgs { location: object, attributes: open_to_owner() };
                worker.call(&arguments).await?;
            }
            Phase::RemoveDirectories => {
                worker.call(&look_up).await?;
                worker.call(&RmdirArgs { object }).await?;
            }
            Phase::CopyFiles => {
                absent(worker, &look_up).await?;
                self.copy(worker, &look_up).await?;
            }
            Phase::RemoveFiles => {
                worker.call(&look_up).await?;
                worker.call(&RemoveArgs { object }).await?;
            }
        }
        worker.step_done(start);
        Ok(())
    }
}

/// Looks up a name that must not exist.
async fn absent(worker: &mut Worker, look_up: &LookupArgs<'_>) -> Step {
    match worker.call_or(look_up, Some(Status::NoEntry)).await? {
        None => Ok(()),
        Some(_) => Err(worker.wrong(Procedure::Lookup, "a name is there already")),
    }
}

impl Playing<'_> {
    async fn copy(&self, worker: &mut Worker, look_up: &LookupArgs<'_>) -> Step {
        let how = CreateHow::Unchecked(SetAttributes::default());
        let arguments = CreateArgs { location: look_up.what, how };
        let handle = match worker.call(&arguments).await?.object {
            Some(handle) => handle,
            None => worker.call(look_up).await?.object,
        };
        let write = WriteArgs {
            file: handle.as_bytes(),
            offset: 0,
            count: SIZE,
            stable: Stability::FileSync,
            data: vec![self.0.content.clone()],
        };
        let written = worker.call(&write).await?;
        worker.moved(u64::from(written.count));
        match written.count {
            SIZE => Ok(()),
            _ => Err(worker.wrong(Procedure::Write, "it wrote less than it was given")),
        }
    }
}
