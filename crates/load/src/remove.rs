//! Cleanup: removes everything below a directory, and then the directory.
//!
//! It removes only objects that it has found by walking down from that directory, by handle and
//! name, so that nothing outside of it can be hit.

use futures::StreamExt;
use futures::stream;
use nfs::nfs3::arguments::{DirectoryName, ReaddirplusArgs, RemoveArgs, RmdirArgs};
use nfs::nfs3::{FileKind, Handle, Status, Verifier};

use crate::names::{LISTING, look_up};
use crate::stage::Stage;
use client::{CallError, Client};

/// An object that could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove '{name}' from the export: {source}; remove it yourself")]
pub struct LeftBehind {
    /// The remaining directory.
    pub name: String,
    /// The error.
    pub source: CallError,
}

/// A directory found by the walk.
struct Found {
    /// The index of its parent in the list.
    parent: Option<usize>,
    /// Its depth.
    depth: usize,
    name: Vec<u8>,
    handle: Handle,
}

impl Stage {
    /// Removes the remaining files of the workloads, and the directory.
    ///
    /// # Errors
    /// [`LeftBehind`]: the directory that could not be removed.
    pub async fn strike(self) -> Result<(), LeftBehind> {
        tree(&self, &self.root, &self.home, &self.home_name).await
    }
}

/// Removes the directory `name` in `root` with all its contents.
async fn tree(stage: &Stage, root: &Handle, handle: &Handle, name: &str) -> Result<(), LeftBehind> {
    stage.watch.begin("cleaning up", 0);
    let left = |source| LeftBehind { name: name.to_owned(), source };
    let home = Found { parent: None, depth: 0, name: name.as_bytes().to_vec(), handle: *handle };
    let mut found = vec![home];
    let mut next = 0;
    while next < found.len() {
        empty(stage, &mut found, next).await.map_err(left)?;
        next += 1;
    }
    // The list is in the order of depth. The deepest directories go first, concurrently.
    let mut last = found.len();
    while let Some(deepest) = found[..last].last().map(|found| found.depth) {
        let first = found[..last].partition_point(|found| found.depth < deepest);
        let parent = |index: usize| match found[index].parent {
            Some(parent) => &found[parent].handle,
            None => root,
        };
        let removals = (first..last).map(|index| {
            let directory = parent(index).as_bytes();
            let object = DirectoryName { directory, name: &found[index].name };
            remove_one(stage.client(index), object, true)
        });
        all(stage, removals).await.map_err(left)?;
        last = first;
    }
    Ok(())
}

/// Removes the files of a directory, and adds its directories to the list.
async fn empty(stage: &Stage, found: &mut Vec<Found>, index: usize) -> Result<(), CallError> {
    let directory = found[index].handle;
    let client = stage.client(index);
    let mut files = Vec::new();
    let (mut cookie, mut cookie_verifier) = (0, Verifier::default());
    loop {
        let directory = directory.as_bytes();
        let (dircount, maxcount) = (LISTING, LISTING);
        let listing = ReaddirplusArgs { directory, cookie, cookie_verifier, dircount, maxcount };
        let page = client.call(&listing).await?;
        cookie_verifier = page.cookie_verifier;
        let is_empty = page.entries.is_empty();
        for entry in page.entries {
            cookie = entry.entry.cookie;
            let name = entry.entry.name.to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            match entry.attributes.map(|attributes| attributes.kind) {
                Some(FileKind::Directory) => {
                    let handle = match entry.handle {
                        Some(handle) => handle,
                        None => look_up(client, &found[index].handle, &name).await?,
                    };
                    let depth = found[index].depth + 1;
                    found.push(Found { parent: Some(index), depth, name, handle });
                }
                _ => files.push(name),
            }
        }
        if page.eof {
            break;
        }
        if is_empty {
            return Err(CallError::Wrong("a listing that neither goes on nor ends"));
        }
    }
    let directory = directory.as_bytes();
    let removals = files.iter().enumerate().map(|(number, name)| {
        remove_one(stage.client(number), DirectoryName { directory, name }, false)
    });
    all(stage, removals).await
}

async fn remove_one(
    client: &Client,
    object: DirectoryName<'_>,
    is_directory: bool,
) -> Result<(), CallError> {
    let removed = if is_directory {
        client.call(&RmdirArgs { object }).await
    } else {
        client.call(&RemoveArgs { object }).await
    };
    match removed {
        // An object that is gone already is fine.
        Ok(_) | Err(CallError::Status(Status::NoEntry)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Runs all of them, as many concurrently as the plan allows; the first failure counts.
async fn all(
    stage: &Stage,
    removals: impl Iterator<Item = impl Future<Output = Result<(), CallError>>>,
) -> Result<(), CallError> {
    let mut results = stream::iter(removals).buffer_unordered(stage.workers());
    let mut first = Ok(());
    let mut done = 0;
    while let Some(result) = results.next().await {
        done += 1;
        stage.watch.progress(done, u64::from(first.is_err()));
        first = first.and(result);
    }
    first
}
