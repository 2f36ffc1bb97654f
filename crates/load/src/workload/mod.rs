//! The workloads, by name.
//!
//! Each is written once, against [`Stage`], [`Play`](crate::run::Play) and nothing below: its files
//! are made before, unmeasured; its turns are measured; its remaining files are removed with the
//! stage. [`ALL`] is the table from which `duramen bench` takes names and help.

mod copy_remove;
mod data;
pub mod laddis;
mod look;
mod names;
mod population;
mod replay;
pub mod smallfile;

pub use replay::replay;

use nfs::nfs3::Handle;
use nfs::nfs3::arguments::MkdirArgs;

use crate::names::{at, look_up, open_to_owner};
use crate::run::Measured;
use crate::stage::{Stage, Trouble};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name on a command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Names(names::Kind),
    Data(data::Kind),
    Look(look::Kind),
    SmallFile,
    CopyRemove,
    Laddis(Version),
    Population,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Sfs1,
    Sfs2,
}

const fn names(name: &'static str, kind: names::Kind, about: &'static str) -> Workload {
    Workload { name, about, kind: Kind::Names(kind) }
}

const fn data(name: &'static str, kind: data::Kind, about: &'static str) -> Workload {
    Workload { name, about, kind: Kind::Data(kind) }
}

const fn look(name: &'static str, kind: look::Kind, about: &'static str) -> Workload {
    Workload { name, about, kind: Kind::Look(kind) }
}

/// All workloads of one or two procedures, in the order in which they run.
pub const ALL: [Workload; 17] = [
    look("null", look::Kind::Null, "NULL: what a call costs at least"),
    look("getattr", look::Kind::Getattr, "GETATTR of files by chance"),
    look("lookup", look::Kind::Lookup, "LOOKUP of names by chance"),
    look("readdirplus", look::Kind::Readdirplus, "a directory listed from start to end"),
    names("create", names::Kind::Create, "CREATE of empty files"),
    names("remove", names::Kind::Remove, "REMOVE of empty files"),
    names("mkdir", names::Kind::Mkdir, "MKDIR, at most 30000 in a directory"),
    names("rmdir", names::Kind::Rmdir, "RMDIR of empty directories"),
    names("rename", names::Kind::Rename, "RENAME of files within their directory"),
    data("create-write", data::Kind::CreateWrite, "CREATE, then WRITE of 1 KiB, FILE_SYNC"),
    data("overwrite-8k", data::Kind::Overwrite, "8 KiB FILE_SYNC at places by chance"),
    data("write-64k", data::Kind::Write { size: 64 << 10 }, "sequential, UNSTABLE, then COMMIT"),
    data("write-1m", data::Kind::Write { size: 1 << 20 }, "sequential, UNSTABLE, then COMMIT"),
    data("read-cold-64k", data::Kind::ReadOnce { size: 64 << 10 }, "each part of a file once"),
    data("read-cold-1m", data::Kind::ReadOnce { size: 1 << 20 }, "each part of a file once"),
    data("read-cached-8k", data::Kind::ReadAgain { size: 8 << 10 }, "the same 1 MiB, by chance"),
    data("read-cached-64k", data::Kind::ReadAgain { size: 64 << 10 }, "the same 1 MiB, by chance"),
];

/// Workloads of many procedures. They take longer, and run only on request.
pub const COMPOUND: [Workload; 5] = [
    Workload {
        name: "smallfile",
        about: "16000 directories and files made and removed, as in the paper on logging",
        kind: Kind::SmallFile,
    },
    Workload {
        name: "copy-remove",
        about: "a small tree copied, read and removed, by all workers at once",
        kind: Kind::CopyRemove,
    },
    Workload {
        name: "laddis",
        about: "the mix of SPEC SFS 1.1 (LADDIS) at rising rates",
        kind: Kind::Laddis(Version::Sfs1),
    },
    Workload {
        name: "laddis3",
        about: "the mix of SPEC SFS 2.0 for NFS version 3 at rising rates",
        kind: Kind::Laddis(Version::Sfs2),
    },
    Workload {
        name: "population",
        about: "calls among '--count' files over '--directories' directories",
        kind: Kind::Population,
    },
];

/// The result of a workload.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The phases of the workload.
    pub phases: Vec<Measured>,
    /// Response time against throughput, for workloads that run at rising rates.
    pub curve: Option<laddis::Curve>,
}

impl Workload {
    /// The workload with this name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().chain(COMPOUND).find(|workload| workload.name == name)
    }

    /// Prepares the workload and measures it.
    ///
    /// # Errors
    /// [`Trouble`], when the preparation fails. Failed calls of the measurement are counted.
    pub async fn play(&self, stage: &Stage) -> Result<Played, Trouble> {
        let version = |version| match version {
            Version::Sfs1 => &laddis::rules::LADDIS,
            Version::Sfs2 => &laddis::rules::SFS2,
        };
        let measured = match self.kind {
            Kind::Names(kind) => names::play(stage, self.name, kind).await?,
            Kind::Data(kind) => data::play(stage, self.name, kind).await?,
            Kind::Look(kind) => look::play(stage, self.name, kind).await?,
            Kind::CopyRemove => copy_remove::play(stage, self.name).await?,
            Kind::Population => {
                let phases = population::play(stage, self.name).await?;
                return Ok(Played { phases, curve: None });
            }
            Kind::SmallFile => {
                let phases = smallfile::play(stage, self.name).await?;
                return Ok(Played { phases, curve: None });
            }
            Kind::Laddis(which) => {
                let (phases, curve) = laddis::play(stage, self.name, version(which)).await?;
                return Ok(Played { phases, curve: Some(curve) });
            }
        };
        Ok(Played { phases: vec![measured], curve: None })
    }
}

/// The directory for a turn: all in rotation.
pub(crate) fn in_turn(directories: &[Handle], turn: u64) -> &Handle {
    &directories[(turn % directories.len() as u64) as usize]
}

/// Makes a directory in the stage's own, for one workload.
pub(crate) async fn directory(
    stage: &Stage,
    parent: &Handle,
    name: &str,
) -> Result<Handle, Trouble> {
    let client = stage.client(0);
    let arguments =
        MkdirArgs { location: at(parent, name.as_bytes()), attributes: open_to_owner() };
    let what = || Trouble::setup(format!("make the directory '{name}'"));
    match client.call(&arguments).await.map_err(what())?.object {
        Some(handle) => Ok(handle),
        None => look_up(client, parent, name.as_bytes()).await.map_err(what()),
    }
}

/// Makes this many directories, in one with the workload's name.
pub(crate) async fn directories(
    stage: &Stage,
    name: &str,
    count: u64,
) -> Result<Vec<Handle>, Trouble> {
    let top = directory(stage, &stage.home, name).await?;
    let mut all = Vec::new();
    for number in 0..count {
        all.push(directory(stage, &top, &format!("d{number}")).await?);
    }
    Ok(all)
}
