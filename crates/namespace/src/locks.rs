//! Taking locks: all that an operation needs at once, in the order of inode numbers.
//!
//! The file behind a name is known only after the directory was searched, but its lock may have to
//! be taken before the directory's. So an operation looks up names first, takes all locks, and
//! looks them up again; if the result differs by then, it starts over.

use runtime::sync::Permit;
use vfs::{FileKind, FsError, Ino, Name, ObjectId};

use crate::call::Call;
use crate::{Namespace, Object, Store};

/// Locks held by an operation.
pub(crate) type Held = Vec<Permit>;

/// The error of a name whose file failed with `error`: a name without a file is damage.
pub(crate) fn without_file(error: FsError) -> FsError {
    if error == FsError::Stale { FsError::Corrupt } else { error }
}

/// A file that has to be a directory.
fn directory<N: Object>(node: N) -> Result<N, FsError> {
    if node.kind() == FileKind::Directory { Ok(node) } else { Err(FsError::NotDirectory) }
}

impl<S: Store> Namespace<S> {
    /// The file that `id` names; when it is gone, the reply waits for its removal.
    pub(crate) async fn open(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<S::Node, FsError> {
        self.store.check_running()?;
        if !id.is_live() {
            Box::pin(self.check_shown(call, id)).await?;
        }
        let node = self.store.node(id).await;
        match &node {
            Ok(node) => call.saw(node),
            Err(_) => call.saw_changes(&self.store.removal(id)),
        }
        node
    }

    /// [`FsError::Stale`] for an object of a snapshot, where none are shown;
    /// [`FsError::IsDirectory`] for a `.snapshot`, which is no file.
    async fn check_shown(&self, call: &mut Call<S::Node>, id: ObjectId) -> Result<(), FsError> {
        if id.is_listing() {
            self.open_listing(call, id).await?;
            return Err(FsError::IsDirectory);
        }
        if self.finds_snapshots() { Ok(()) } else { Err(FsError::Stale) }
    }

    /// As [`Namespace::open`], for a file that is to be changed: `which` is its place among the
    /// attributes of the reply.
    pub(crate) async fn open_to_change(
        &self,
        call: &mut Call<S::Node>,
        which: usize,
        id: ObjectId,
    ) -> Result<S::Node, FsError> {
        self.open_changeable(call, id).await.inspect(|node| call.about(which, node))
    }

    /// As [`Namespace::open_to_change`], for a directory; for other files the reply has no
    /// attributes.
    pub(crate) async fn open_directory_to_change(
        &self,
        call: &mut Call<S::Node>,
        which: usize,
        id: ObjectId,
    ) -> Result<S::Node, FsError> {
        let node = directory(self.open_changeable(call, id).await?)?;
        call.about(which, &node);
        Ok(node)
    }

    /// As [`Namespace::open`]; a `.snapshot` cannot be changed.
    async fn open_changeable(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<S::Node, FsError> {
        let opened = self.open(call, id).await;
        if id.is_listing() && opened.as_ref().err() == Some(&FsError::IsDirectory) {
            return Err(FsError::ReadOnly);
        }
        opened
    }

    /// As [`Namespace::open`], for a directory.
    pub(crate) async fn open_directory(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<S::Node, FsError> {
        directory(self.open(call, id).await?)
    }

    /// Takes the exclusive locks of all `nodes`; [`FsError::Stale`] if one of them was freed
    /// meanwhile.
    pub(crate) async fn lock_all(
        &self,
        call: &mut Call<S::Node>,
        nodes: &[&S::Node],
    ) -> Result<Held, FsError> {
        let mut order: Vec<&S::Node> = nodes.to_vec();
        order.sort_by_key(|node| node.id().ino);
        order.dedup_by_key(|node| node.id().ino);
        debug_assert!(
            order.is_sorted_by(|one, next| one.id().ino < next.id().ino),
            "invariant 1: locks are taken in order, each once"
        );
        let mut held = Vec::with_capacity(order.len());
        for node in &order {
            held.push(node.lock().exclusive().await);
        }
        for node in order {
            self.see_alive(call, node)?;
        }
        Ok(held)
    }

    /// Checks a file after waiting for its lock; [`FsError::Stale`] if it was freed meanwhile,
    /// [`FsError::Io`] if it cannot be used any more.
    pub(crate) fn see_alive(
        &self,
        call: &mut Call<S::Node>,
        node: &S::Node,
    ) -> Result<(), FsError> {
        call.saw(node);
        if node.is_dead() {
            call.saw_changes(&self.store.removal(node.id()));
            return Err(FsError::Stale);
        }
        self.store.check_usable(node)
    }

    /// [`FsError::Stale`] for a file of a snapshot that was deleted since its lock was taken:
    /// whatever was found or missing in it then is no damage.
    pub(crate) fn see_held(&self, call: &mut Call<S::Node>, node: &S::Node) -> Result<(), FsError> {
        let is_gone = !node.id().is_live() && node.is_dead();
        if is_gone { self.see_alive(call, node) } else { Ok(()) }
    }

    /// Repeats an attempt that finds no space for as long as space is about to become free.
    pub(crate) async fn as_space_comes<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        loop {
            match attempt().await {
                Err(FsError::NoSpace) if self.store.wait_for_space().await => {}
                other => return other,
            }
        }
    }

    /// The file that a name leads to now. Takes the directory's lock for the lookup.
    pub(crate) async fn peek(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
        name: &Name,
    ) -> Result<Option<S::Node>, FsError> {
        let _shared = directory.lock().shared().await;
        self.find_under_lock(call, directory, name).await
    }

    /// The file that a name leads to now, under the directory's lock.
    pub(crate) async fn find_under_lock(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
        name: &Name,
    ) -> Result<Option<S::Node>, FsError> {
        let found = self.number_under_lock(call, directory, name).await?;
        let Some(ino) = found else { return Ok(None) };
        let node = self.store.node_of(ino).await.map_err(without_file)?;
        call.saw(&node);
        Ok(Some(node))
    }

    /// The inode number that a name leads to now, under the directory's lock.
    pub(crate) async fn number_under_lock(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
        name: &Name,
    ) -> Result<Option<u64>, FsError> {
        self.see_alive(call, directory)?;
        self.store.find(directory, name).await
    }

    /// The files that names in directories lead to, with all of them and the directories locked.
    pub(crate) async fn lock_names<const N: usize>(
        &self,
        call: &mut Call<S::Node>,
        names: [(&S::Node, &Name); N],
    ) -> Result<([Option<S::Node>; N], Held), FsError> {
        loop {
            let mut found = [const { None }; N];
            for (slot, (directory, name)) in found.iter_mut().zip(names) {
                *slot = self.peek(call, directory, name).await?;
            }
            let directories = names.iter().map(|(directory, _)| *directory);
            let all: Vec<&S::Node> = directories.chain(found.iter().flatten()).collect();
            let held = match self.lock_all(call, &all).await {
                Err(FsError::Stale) if !names.iter().any(|(node, _)| node.is_dead()) => continue,
                other => other?,
            };
            let mut same = true;
            for (slot, (directory, name)) in found.iter().zip(names) {
                let now = self.store.find(directory, name).await?;
                same &= now.map(Ino) == slot.as_ref().map(|node| node.id().ino);
            }
            if same {
                return Ok((found, held));
            }
        }
    }
}
