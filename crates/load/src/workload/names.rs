//! Workloads that make, move and remove names.

use std::io::Write;

use nfs::nfs3::arguments::{CreateArgs, CreateHow, MkdirArgs, RemoveArgs, RenameArgs, RmdirArgs};
use nfs::nfs3::{Handle, SetAttributes};

use super::{directories, in_turn};
use crate::names::{at, open_to_owner};
use crate::run::{Measured, Play, measure, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

/// Most directories in a directory: many file systems count links in 15 bits.
const CHILDREN_MAX: u64 = 30_000;

/// The procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Remove,
    Mkdir,
    Rmdir,
    Rename,
}

/// Names in directories: turn by turn, in one directory after the other.
struct Names {
    directories: Vec<Handle>,
    kind: Kind,
}

pub(super) async fn play(stage: &Stage, name: &str, kind: Kind) -> Result<Measured, Trouble> {
    let count = stage.plan.count;
    let needed = match kind {
        Kind::Mkdir | Kind::Rmdir => count.div_ceil(CHILDREN_MAX),
        _ => 1,
    };
    let directories = directories(stage, name, stage.plan.directories.max(needed)).await?;
    let mut names = Names { directories, kind };
    let (before, how_many) = match kind {
        Kind::Create | Kind::Mkdir => return measure(stage, name, &names).await,
        Kind::Remove => (Kind::Create, count),
        Kind::Rmdir => (Kind::Mkdir, count),
        Kind::Rename => (Kind::Create, stage.workers() as u64),
    };
    names.kind = before;
    prepare(stage, &format!("preparing {name}"), how_many, &names).await?;
    names.kind = kind;
    measure(stage, name, &names).await
}

/// A short name, stored inline.
pub(crate) struct Name {
    bytes: [u8; 24],
    length: usize,
}

impl Name {
    /// The name of a letter and a number.
    pub(crate) fn new(letter: char, number: u64) -> Self {
        let mut bytes = [0; 24];
        let mut rest = &mut bytes[..];
        write!(rest, "{letter}{number}").expect("a letter and twenty digits fit");
        let length = 24 - rest.len();
        Self { bytes, length }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Play for Names {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        if self.kind == Kind::Rename {
            return self.rename(worker).await;
        }
        let directory = in_turn(&self.directories, turn);
        let name = Name::new('n', turn);
        let location = at(directory, name.as_bytes());
        match self.kind {
            Kind::Create => {
                let how = CreateHow::Unchecked(SetAttributes::default());
                worker.call(&CreateArgs { location, how }).await.map(drop)
            }
            Kind::Mkdir => {
                let attributes = open_to_owner();
                worker.call(&MkdirArgs { location, attributes }).await.map(drop)
            }
            Kind::Remove => worker.call(&RemoveArgs { object: location }).await.map(drop),
            Kind::Rmdir => worker.call(&RmdirArgs { object: location }).await.map(drop),
            Kind::Rename => unreachable!("it has a function of its own"),
        }
    }
}

impl Names {
    /// Each worker has a file, which it renames back and forth.
    async fn rename(&self, worker: &mut Worker) -> Step {
        let own = worker.index as u64;
        let directory = in_turn(&self.directories, own);
        let (one, other) = (Name::new('n', own), Name::new('m', own));
        let times = worker.times_done();
        let (from, to) = if times.is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
        let (from, to) = (at(directory, from.as_bytes()), at(directory, to.as_bytes()));
        worker.call(&RenameArgs { from, to }).await?;
        worker.done_once_more();
        Ok(())
    }
}
