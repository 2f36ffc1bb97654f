//! Files whose name a crash has taken, until the engine has found them.
//!
//! No inode records the names that lead to it. So an engine that serves a volume before its scan of
//! all names has ended ([`Engine::may_have_second_names`]) knows of a file only that it *was
//! found*: a caller came to it by a name, or gave it one, since the volume was opened. A caller
//! with an old handle may ask for a file that has no name any more.
//!
//! The ".." of a directory shows where its name has to be, so the way up is checked at once; a
//! directory that no path leads to is stale, as if it had been freed already. So any caller that
//! adds a name to a file has found it. For every other file, only the end of the scan decides. Such
//! a file can be used meanwhile, and is kept if a caller changes it; but a caller that asks for a
//! promise that it stays waits until it has a name ([`Files::ensure_named`]).
//!
//! Invariant: names are added only to directories that were found. Not asserted: a node does not
//! know by which way its caller came to it.

use std::collections::BTreeSet;

use namespace::Object;
use vfs::{FileKind, FsError, ObjectId};

use crate::engine::{Engine, File};
use crate::files::Files;
use crate::planted::{Bug, is_planted};

impl<E: Engine> Files<E> {
    /// [`FsError::Stale`] for a directory to which no name leads.
    pub(crate) async fn check_found(&self, node: &File<E>) -> Result<(), FsError> {
        let is_known = || node.kind != FileKind::Directory || self.engine.is_found(node.ino);
        let is_held = !node.id().is_live();
        if is_held
            || !self.engine.may_have_second_names()
            || is_known()
            || is_planted(Bug::LostDirectories)
        {
            return Ok(());
        }
        // Rare, and its future would make that of each call large.
        Box::pin(self.climb(node)).await
    }

    /// Climbs from a directory to one that was found.
    async fn climb(&self, node: &File<E>) -> Result<(), FsError> {
        let mut passed = BTreeSet::new();
        let mut below = node.clone();
        while !self.engine.is_found(below.ino) {
            if below.is_dead() || passed.contains(&below.ino) {
                return Err(FsError::Stale);
            }
            self.load_directory(&below).await?;
            let parent_of = |node: &File<E>| node.directory.borrow().as_ref().map(|it| it.parent);
            let parent = parent_of(&below).ok_or(FsError::Stale)?;
            match self.find_in(parent, below.ino).await? {
                Some(above) => {
                    passed.insert(below.ino);
                    below = above;
                }
                None if parent_of(&below) == Some(parent) => return Err(FsError::Stale),
                None => {} // it has moved: try again
            }
        }
        passed.into_iter().for_each(|ino| self.engine.note_found(ino));
        Ok(())
    }

    /// The directory of this number, if it exists and names the file.
    async fn find_in(&self, parent: u64, ino: u64) -> Result<Option<File<E>>, FsError> {
        let above = match self.node_of(parent).await {
            Err(FsError::Stale) => return Ok(None),
            above => above?,
        };
        if above.kind != FileKind::Directory || above.is_dead() {
            return Ok(None);
        }
        self.load_directory(&above).await?;
        let names_it = above.directory.borrow().as_ref().is_some_and(|names| {
            names.first_of(ino).is_some() // of an inode
        });
        Ok(names_it.then_some(above))
    }

    /// Waits until a file has a name, or is gone, if a crash may have taken its name: for a caller
    /// that is about to promise that the file stays.
    ///
    /// # Errors
    /// As those of [`Files::node`]; [`FsError::Jukebox`] when that takes long, [`FsError::Io`] when
    /// the scan has ended early.
    pub(crate) async fn ensure_named(&self, id: ObjectId) -> Result<(), FsError> {
        if !id.is_live() || !self.engine.may_have_second_names() || is_planted(Bug::HastyPromises) {
            return Ok(());
        }
        let node = self.node(id).await?;
        if node.kind == FileKind::Directory {
            return Ok(()); // it is found, or stale
        }
        if !self.engine.is_found(node.ino) {
            self.engine.find(node.ino).await?;
        }
        // Its directory may have got a name only now.
        Ok(self.receipt(self.reconnected.get()).wait().await?)
    }
}
