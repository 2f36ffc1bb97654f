//! Second names of directories, which a crash leaves in the middle of a rename.
//!
//! A directory has one name: the one in the directory that its ".." leads to, and of two there the
//! first. Any other was on its way in or out at the crash, and no reply shows it. An engine that
//! serves a volume before its scan of all names has ended says so
//! ([`Engine::may_have_second_names`]); then each name of a directory is checked before it is
//! listed or used, and a second one is dropped by an ordinary change. Before the name that was
//! listed changes, or goes with the directory, every other one has to be gone, because otherwise
//! '..' would make one of these the name that counts ([`Files::settle_names`]).
//!
//! Invariant: a name is taken away only if it is a second one in the step in which the change is
//! applied. Not asserted: that is the condition itself.

use directory::chunk;
use directory::entry::{CHUNK_SIZE, DIRECTORY_TYPE, EntryHeader};
use directory::index::Slot;
use namespace::Object;
use vfs::{Depends, FileKind, FsError, Ledger, Name};

use crate::engine::{Chunk, Engine, File};
use crate::files::Files;
use crate::planted::{Bug, is_planted};

impl<E: Engine> Files<E> {
    /// The inode that a name leads to, unless that is a second name.
    pub(crate) async fn find_vetted(
        &self,
        node: &File<E>,
        name: &Name,
    ) -> Result<Option<u64>, FsError> {
        let found = self.find_slot(None, node, name.as_bytes()).await?;
        let Some(found) = found else { return Ok(None) };
        let kind = found.chunk.read(|bytes| EntryHeader::at(bytes, found.at).kind);
        let ino = found.slot.ino;
        let is_told = kind != DIRECTORY_TYPE || is_planted(Bug::SecondNames);
        if is_told || !self.is_second(node, found.slot).await? {
            return Ok(Some(ino));
        }
        self.drop_second(node, name).await?;
        Ok(None)
    }

    /// Checks the names of directories in the chunk that begins at a byte of a directory.
    pub(crate) async fn vet_chunk(&self, node: &File<E>, start: u64) -> Result<(), FsError> {
        let chunk = self.engine.chunk(None, node, start).await?;
        let names = chunk.read(names_of_directories)?;
        for name in names {
            self.find(node, &name).await?;
        }
        Ok(())
    }

    /// Checks the names of a directory until there is one that stays.
    pub(crate) async fn vet_until_one(&self, node: &File<E>) -> Result<(), FsError> {
        let (size, mut steps) = (self.directory_size(node)?, self.walks.begin());
        for start in (0..size).step_by(CHUNK_SIZE) {
            self.vet_chunk(node, start).await?;
            let listed = self.list(node, start, &mut steps).await?;
            if !listed.iter().all(|entry| is_dots(&entry.name)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// All inodes that the names of a directory lead to, and whether these are directories, without
    /// second names. Under its lock.
    ///
    /// # Errors
    /// As those of looking a name up.
    pub async fn look_through(&self, node: &File<E>) -> Result<Vec<(u64, bool)>, FsError> {
        self.load_directory(node).await?;
        let (mut all, mut steps) = (Vec::new(), self.walks.begin());
        for start in (0..self.directory_size(node)?).step_by(CHUNK_SIZE) {
            self.vet_chunk(node, start).await?;
            let chunk = self.engine.chunk(None, node, start).await?;
            chunk.read(|bytes| {
                for entry in chunk::entries(bytes) {
                    let entry = entry.map_err(|_| FsError::Corrupt)?;
                    if entry.is_live() && !is_dots(entry.name) {
                        all.push((entry.ino.into(), entry.kind == DIRECTORY_TYPE));
                    }
                }
                Ok::<(), FsError>(())
            })?;
            steps.step().await;
        }
        Ok(all)
    }

    /// The first name of a directory that stays, and its inode. Under its lock.
    pub(crate) async fn first_name(&self, node: &File<E>) -> Result<Option<(Name, u64)>, FsError> {
        let mut steps = self.walks.begin();
        let mut listed = self.list(node, 0, &mut steps).await?;
        while let Some(last) = listed.last() {
            if let Some(first) = listed.iter().find(|entry| !is_dots(&entry.name)) {
                return Ok(Some((Name::parse(&first.name)?, first.ino)));
            }
            listed = self.list(node, last.cookie, &mut steps).await?;
        }
        Ok(None)
    }

    /// Waits until a directory has no second name, if it may have one. A second name is counted as
    /// a link. So the wait happens only if the directory has more links than itself and its
    /// contents account for, and then lasts until the scan has ended and the drops that it made are
    /// durable. For a caller that is about to change the name that was listed, or to end the
    /// directory.
    ///
    /// # Errors
    /// As those of looking a name up; [`FsError::Jukebox`] when the scan takes long, and
    /// [`FsError::Io`] when it does not go on.
    pub(crate) async fn settle_names(&self, node: &File<E>) -> Result<(), FsError> {
        let may_have = || self.engine.may_have_second_names() && !is_planted(Bug::HastyMoves);
        if node.kind != FileKind::Directory || !may_have() {
            return Ok(());
        }
        let below = {
            let _shared = node.lock.shared().await;
            if node.is_dead() {
                return Ok(());
            }
            self.look_through(node).await?.iter().filter(|(_, is_directory)| *is_directory).count()
        };
        if u64::from(node.attributes().nlink) <= 2 + below as u64 {
            return Ok(());
        }
        self.engine.looked_through().await?;
        let horizon = self.engine.horizon();
        Ok(horizon.durable(Depends::through(self.newest())).await?)
    }

    /// Whether the name in a slot, which leads to a directory, is a second one.
    async fn is_second(&self, node: &File<E>, slot: Slot) -> Result<bool, FsError> {
        let child = self.node_of(slot.ino).await?;
        let known = child.directory.borrow().as_ref().map(|index| index.parent);
        let parent = match known {
            Some(parent) => parent,
            None => {
                let chunk = self.engine.chunk(None, &child, 0).await?;
                chunk.read(|bytes| EntryHeader::at(bytes, chunk::DOT_DOT_OFFSET).inode.get()).into()
            }
        };
        Ok(parent != node.ino || self.has_name_before(node, slot))
    }

    /// Whether an earlier name of the directory leads to the same inode.
    fn has_name_before(&self, node: &File<E>, slot: Slot) -> bool {
        let directory = node.directory.borrow();
        let first = directory.as_ref().and_then(|index| index.first_of(slot.ino));
        first.is_some_and(|first| first < slot.offset)
    }

    /// Drops a second name, if it still is one.
    async fn drop_second(&self, node: &File<E>, name: &Name) -> Result<(), FsError> {
        let _alone = loop {
            match self.scans.begin(node.ino) {
                Some(alone) => break alone,
                None => self.scans.ended.wait().await,
            }
        };
        let found = self.find_slot(None, node, name.as_bytes()).await?;
        let Some(found) = found else { return Ok(()) };
        let child = self.node_of(found.slot.ino).await?;
        self.load_directory(&child).await?;
        let mut change = self.mending();
        self.drop_entry(&mut change, node, name).await?;
        let ready = self.reserve(change).await?;
        let is_there = {
            let directory = node.directory.borrow();
            let index = directory.as_ref().ok_or(FsError::Stale)?;
            let mut slots = std::iter::successors(index.candidate(name.as_bytes(), None), |slot| {
                index.candidate(name.as_bytes(), Some(slot.offset))
            });
            slots.any(|slot| slot == found.slot)
        };
        let leads_elsewhere = child.directory.borrow().as_ref().is_some_and(|index| {
            index.parent != node.ino // read in the step of the change
        });
        if is_there && (leads_elsewhere || self.has_name_before(node, found.slot)) {
            self.apply(ready, &mut ());
        }
        Ok(())
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The names in a chunk that lead to directories.
fn names_of_directories(bytes: &[u8]) -> Result<Vec<Name>, FsError> {
    let mut names = Vec::new();
    for entry in chunk::entries(bytes) {
        let entry = entry.map_err(|_| FsError::Corrupt)?;
        if entry.is_live() && entry.kind == DIRECTORY_TYPE && !is_dots(entry.name) {
            names.push(Name::parse(entry.name).map_err(|_| FsError::Corrupt)?);
        }
    }
    Ok(names)
}
