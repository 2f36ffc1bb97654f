//! Operations on a file system that is open: a call is made, and its answer awaited, so that
//! several can be under way.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::{
    CreateHow, Credentials, FileKind, FileSystem, FsError, Name, ObjectId, Sealed, SetAttributes,
    Stability,
};

use super::model::{Act, ROOT, Seen, View, What};
use super::op::{Mode, Op, Stable, extent, payload};

/// More than any file of a workload is long.
const LONGEST: u32 = 1 << 20;

/// A file system, and who asks it.
pub struct Driver {
    files: Rc<dyn FileSystem>,
    who: Credentials,
}

/// An answer that has not come yet.
pub type Pending = LocalBoxFuture<'static, Result<(), FsError>>;

/// Handles, by the number of the file in the model.
pub type Handles = BTreeMap<usize, ObjectId>;

/// An answer of which only the status matters.
fn answer<T: 'static, W: 'static>(sealed: Sealed<vfs::Answer<T, W>>) -> Pending {
    async move { opened(sealed).await.map(drop) }.boxed_local()
}

/// An answer, once it is durable.
async fn opened<T, W>(sealed: Sealed<vfs::Answer<T, W>>) -> Result<T, FsError> {
    sealed.open().await.map_err(|_| FsError::Io)?.into_inner().result
}

fn stability(stable: Stable) -> Stability {
    match stable {
        Stable::Unstable | Stable::Commit => Stability::Unstable,
        Stable::DataSync => Stability::DataSync,
        Stable::FileSync => Stability::FileSync,
    }
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("workloads have legal names")
}

fn last_name(path: &str) -> Name {
    name(path.rsplit_once('/').map_or(path, |(_, last)| last))
}

fn with_mode(mode: u16) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

impl Driver {
    /// As the superuser.
    pub fn new(files: Rc<dyn FileSystem>) -> Self {
        Self { files, who: Credentials::root() }
    }

    /// Makes a call. When this comes back, the operation has been done; what it gives is to be
    /// awaited for the answer, which comes when all of it is durable.
    pub async fn begin(&self, act: &Act, handles: &Handles) -> Pending {
        let (files, who) = (self.files.clone(), self.who.clone());
        let subject = handles[&act.subject];
        let last = name(act.op.last_name());
        match act.op {
            Op::Create(_, mode) => {
                let how = match mode {
                    Mode::Unchecked => CreateHow::Unchecked(with_mode(0o644)),
                    Mode::Guarded => CreateHow::Guarded(with_mode(0o644)),
                    Mode::Exclusive => CreateHow::Exclusive([act.number as u8 + 1; 8]),
                };
                answer(files.create(&who, subject, &last, how).await)
            }
            Op::Mkdir(_) => answer(files.mkdir(&who, subject, &last, with_mode(0o755)).await),
            Op::Rmdir(_) => answer(files.rmdir(&who, subject, &last).await),
            Op::Write(_, part, stable) => {
                let (offset, length) = extent(part, act.size);
                let pieces = vec![Bytes::from(payload(act.number, length))];
                let stability = stability(stable);
                let written = answer(files.write(&who, subject, offset, pieces, stability).await);
                if stable != Stable::Commit {
                    return written;
                }
                let commit = async move {
                    written.await?;
                    answer(files.commit(&who, subject, 0, 0).await).await
                };
                commit.boxed_local()
            }
            Op::Resize(_, size) => {
                let size = SetAttributes { size: Some(size), ..Default::default() };
                answer(files.setattr(&who, subject, size, None).await)
            }
            Op::Chmod(_, mode) => answer(files.setattr(&who, subject, with_mode(mode), None).await),
            Op::Link(_, to) => {
                let parent = handles[&act.destination.expect("LINK has one")];
                answer(files.link(&who, subject, parent, &last_name(to)).await)
            }
            Op::Symlink(_, length) => {
                let target = vec![b't'; length];
                let mode = with_mode(0o777);
                answer(files.symlink(&who, subject, &last, &target, mode).await)
            }
            Op::Rename(_, to) => {
                let parent = handles[&act.destination.expect("RENAME has one")];
                answer(files.rename(&who, subject, &last, parent, &last_name(to)).await)
            }
            Op::Remove(_) => answer(files.remove(&who, subject, &last).await),
        }
    }

    /// The handles of what a model holds, by the numbers of the model.
    ///
    /// # Errors
    /// What a LOOKUP says.
    pub async fn handles(&self, view: &View) -> Result<Handles, FsError> {
        let mut handles = Handles::from([(ROOT, self.files.root())]);
        for (path, seen) in view {
            handles.insert(seen.file, self.find(path).await?);
        }
        Ok(handles)
    }

    /// Writes a file from its start, durably.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn fill(&self, path: &str, data: Vec<u8>) -> Result<(), FsError> {
        self.write(self.find(path).await?, 0, data).await
    }

    async fn write(&self, id: ObjectId, offset: u64, data: Vec<u8>) -> Result<(), FsError> {
        let pieces = vec![Bytes::from(data)];
        answer(self.files.write(&self.who, id, offset, pieces, Stability::FileSync).await).await
    }

    async fn lookup(&self, directory: ObjectId, last: &str) -> Result<ObjectId, FsError> {
        let found = opened(self.files.lookup(&self.who, directory, &name(last)).await).await?;
        Ok(found.id)
    }

    /// The root directory.
    pub fn root(&self) -> ObjectId {
        self.files.root()
    }

    /// The handle of a path.
    ///
    /// # Errors
    /// What a LOOKUP says.
    pub async fn find(&self, path: &str) -> Result<ObjectId, FsError> {
        let mut id = self.files.root();
        for part in path.split('/') {
            id = self.lookup(id, part).await?;
        }
        Ok(id)
    }

    async fn parent(&self, path: &str) -> Result<(ObjectId, Name), FsError> {
        match path.rsplit_once('/') {
            None => Ok((self.files.root(), name(path))),
            Some((above, last)) => Ok((self.find(above).await?, name(last))),
        }
    }

    async fn attributes(&self, id: ObjectId) -> Result<vfs::Attributes, FsError> {
        self.files.getattr(id).await.open().await.map_err(|_| FsError::Io)?.into_inner()
    }

    async fn list(&self, directory: ObjectId) -> Result<Vec<(String, ObjectId)>, FsError> {
        let mut accept = |_: &vfs::DirectoryEntry| true;
        let listed = self.files.readdir(&self.who, directory, 0, true, &mut accept).await;
        let listed = opened(listed).await?;
        let entries =
            listed.entries.into_iter().filter(|one| !matches!(&one.name[..], b"." | b".."));
        Ok(entries.map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one.id)).collect())
    }

    /// All that can be seen.
    ///
    /// # Errors
    /// The first that anything gives.
    pub async fn view(&self) -> Result<View, FsError> {
        let mut view = View::new();
        let mut files = BTreeMap::new();
        let mut waiting = vec![(String::new(), self.files.root())];
        while let Some((prefix, directory)) = waiting.pop() {
            for (last, _) in self.list(directory).await? {
                let id = self.lookup(directory, &last).await?;
                let attributes = self.attributes(id).await?;
                let path = format!("{prefix}{last}");
                let what = match attributes.kind {
                    FileKind::Directory => {
                        waiting.push((format!("{path}/"), id));
                        What::Directory
                    }
                    FileKind::Symlink => {
                        let target = opened(self.files.readlink(&self.who, id).await).await?;
                        What::Symlink(Rc::new(target.to_vec()))
                    }
                    FileKind::Fifo => What::Fifo,
                    _ => {
                        let read = self.files.read(&self.who, id, 0, LONGEST).await;
                        What::Regular(Rc::new(opened(read).await?.data.concat()))
                    }
                };
                let known = files.len();
                let file = *files.entry(id).or_insert(known);
                let (mode, links) = (attributes.mode, attributes.nlink);
                view.insert(path, Seen { what, mode, links, file });
            }
        }
        Ok(view)
    }

    /// Does something with every file and every directory, then removes them all.
    ///
    /// # Errors
    /// The path at which something failed, and how.
    pub async fn use_and_empty(&self, view: &View) -> Result<(), String> {
        // Backwards, so that a directory comes after what is in it.
        for (path, seen) in view.iter().rev() {
            let done = self.use_and_remove(path, seen).await;
            done.map_err(|error| format!("{path}: {error}"))?;
        }
        match self.list(self.files.root()).await {
            Ok(rest) if rest.is_empty() => Ok(()),
            rest => Err(format!("after everything was removed there is {rest:?}")),
        }
    }

    async fn use_and_remove(&self, path: &str, seen: &Seen) -> Result<(), FsError> {
        let id = self.find(path).await?;
        let (parent, last) = self.parent(path).await?;
        match seen.what {
            What::Directory => {
                let made = with_mode(0o600);
                let inside = name("inside");
                let how = CreateHow::Guarded(made);
                answer(self.files.create(&self.who, id, &inside, how).await).await?;
                answer(self.files.remove(&self.who, id, &inside).await).await?;
                answer(self.files.rmdir(&self.who, parent, &last).await).await
            }
            What::Regular(_) => {
                self.write(id, 100, vec![7; 5000]).await?;
                answer(self.files.remove(&self.who, parent, &last).await).await
            }
            What::Symlink(_) | What::Fifo => {
                answer(self.files.remove(&self.who, parent, &last).await).await
            }
        }
    }

    /// Stops the file system cleanly.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn stop(&self) -> Result<(), FsError> {
        self.files.shutdown().await
    }
}
