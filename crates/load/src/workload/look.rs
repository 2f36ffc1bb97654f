//! Workloads that change nothing: NULL, GETATTR, LOOKUP, READDIRPLUS.

use std::cell::RefCell;

use nfs::nfs3::arguments::{CreateArgs, CreateHow, GetattrArgs, LookupArgs, ReaddirplusArgs};
use nfs::nfs3::{FileKind, Handle, Procedure, SetAttributes, Verifier};

use super::names::Name;
use super::{directories, in_turn};
use crate::names::{LISTING, at};
use crate::run::{Measured, Play, measure, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

/// The number of files in all.
const FILES: u64 = 1000;

/// The procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Getattr,
    Lookup,
    Readdirplus,
}

/// The files of the workload.
struct Files {
    directories: Vec<Handle>,
    handles: RefCell<Vec<Option<Handle>>>,
}

struct Making<'a>(&'a Files);

struct Looking<'a>(&'a Files, Kind);

pub(super) async fn play(stage: &Stage, name: &str, kind: Kind) -> Result<Measured, Trouble> {
    let mut files = Files { directories: Vec::new(), handles: RefCell::default() };
    if kind != Kind::Null {
        files.directories = directories(stage, name, stage.plan.directories).await?;
        files.handles.borrow_mut().resize(FILES as usize, None);
        prepare(stage, &format!("preparing {name}"), FILES, &Making(&files)).await?;
    }
    measure(stage, name, &Looking(&files, kind)).await
}

impl Files {
    /// The number of files in a directory.
    fn in_directory(&self, number: u64) -> u64 {
        let directories = self.directories.len() as u64;
        let number = number % directories;
        FILES / directories + u64::from(number < FILES % directories)
    }
}

impl Play for Making<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let name = Name::new('n', turn);
        let location = at(in_turn(&self.0.directories, turn), name.as_bytes());
        let how = CreateHow::Unchecked(SetAttributes::default());
        let made = worker.call(&CreateArgs { location, how }).await?;
        let handle = match made.object {
            Some(handle) => handle,
            None => worker.call(&LookupArgs { what: location }).await?.object,
        };
        self.0.handles.borrow_mut()[turn as usize] = Some(handle);
        Ok(())
    }
}

impl Play for Looking<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        if self.1 == Kind::Null {
            return worker.null().await;
        }
        if self.1 == Kind::Readdirplus {
            return self.list(worker, turn).await;
        }
        let number = worker.chance.below(FILES);
        let handle = self.0.handles.borrow()[number as usize].expect("all were made");
        if self.1 == Kind::Getattr {
            let attributes = worker.call(&GetattrArgs { object: handle.as_bytes() }).await?;
            return match attributes.kind {
                FileKind::Regular => Ok(()),
                _ => Err(worker.wrong(Procedure::Getattr, "a file is something else")),
            };
        }
        let name = Name::new('n', number);
        let what = at(in_turn(&self.0.directories, number), name.as_bytes());
        let found = worker.call(&LookupArgs { what }).await?;
        if found.object == handle {
            Ok(())
        } else {
            Err(worker.wrong(Procedure::Lookup, "a name leads to another file"))
        }
    }
}

impl Looking<'_> {
    /// Lists a directory, and counts its entries.
    async fn list(&self, worker: &mut Worker, turn: u64) -> Step {
        let start = worker.step_start();
        let directory = in_turn(&self.0.directories, turn).as_bytes();
        let (mut cookie, mut cookie_verifier, mut files) = (0, Verifier::default(), 0);
        loop {
            let (dircount, maxcount) = (LISTING, LISTING);
            let arguments =
                ReaddirplusArgs { directory, cookie, cookie_verifier, dircount, maxcount };
            let page = worker.call(&arguments).await?;
            cookie_verifier = page.cookie_verifier;
            let is_ours = |name: &[u8]| name.starts_with(b"n");
            files += page.entries.iter().filter(|entry| is_ours(&entry.entry.name)).count() as u64;
            match page.entries.last() {
                Some(last) if !page.eof => cookie = last.entry.cookie,
                None if !page.eof => {
                    return Err(worker.wrong(Procedure::Readdirplus, "a listing without end"));
                }
                _ => break,
            }
        }
        if files != self.0.in_directory(turn) {
            return Err(worker.wrong(Procedure::Readdirplus, "a listing with too few or many"));
        }
        worker.step_done(start);
        Ok(())
    }
}
