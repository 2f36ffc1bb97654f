//! Repairs after a crash, for an engine that scans while the volume is served.
//!
//! Each is an ordinary change, under the locks of its files. The step that applies it first asks
//! whether it is still needed, since calls go on meanwhile. A repair that takes something back
//! rests on all changes of the file that are not durable: a link never goes before the name that it
//! was for.

use namespace::{NewFile, Object, Store};
use vfs::{Device, FileKind, FsError, Name, Sequence};

use crate::change::Change;
use crate::engine::{Engine, File, Plan, Space};
use crate::files::Files;

/// The directory for files that have lost their name.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The result of dropping the names of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// None is left.
    All,
    /// There may be more.
    Some,
    /// One may not go, or the directory has ended.
    Refused,
}

impl<E: Engine> Files<E> {
    /// A new change that mends something: it goes on with an operation that was begun before the
    /// crash.
    pub(crate) fn mending(&self) -> Change<E> {
        let mut change = self.plan(Space::Superuser);
        change.update.manner().goes_on = true;
        change
    }

    /// Applies a change if `is_needed` returns true in the step in which it is applied.
    pub(crate) async fn apply_if(
        &self,
        change: Change<E>,
        is_needed: impl FnOnce() -> bool,
    ) -> Result<Option<Sequence>, FsError> {
        let ready = self.reserve(change).await?;
        Ok(is_needed().then(|| self.apply(ready, &mut ())))
    }

    /// Applies a change that `plan` makes, and that concerns no file in memory. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// Those of `plan` and of [`Engine::reserve`].
    pub async fn repair(
        &self,
        plan: impl AsyncFnOnce(&mut E::Update) -> Result<(), FsError>,
    ) -> Result<bool, FsError> {
        let mut change = self.mending();
        plan(&mut change.update).await?;
        let is_empty = change.update.is_empty();
        self.apply(self.reserve(change).await?, &mut ());
        Ok(!is_empty)
    }

    /// Changes one file, under its exclusive lock, if `is_needed` just before it is applied.
    /// Returns whether it was.
    ///
    /// # Errors
    /// As [`Files::repair`].
    pub async fn repair_file(
        &self,
        node: &File<E>,
        plan: impl AsyncFnOnce(&mut E::Update) -> Result<(), FsError>,
        is_needed: impl Fn() -> bool,
    ) -> Result<bool, FsError> {
        let _alone = node.lock.exclusive().await;
        if node.is_dead() || !is_needed() {
            return Ok(false);
        }
        let mut change = self.mending();
        plan(&mut change.update).await?;
        self.rest_on(&mut change, &node.depends());
        Ok(self.apply_if(change, is_needed).await?.is_some())
    }

    /// Drops at most `most` names from a directory that is to be freed, each with a change of its
    /// own. Each asks `may_go`, with the inode that is named, before it is applied.
    ///
    /// # Errors
    /// As [`Files::repair`].
    pub async fn drop_names(
        &self,
        node: &File<E>,
        most: usize,
        may_go: impl Fn(u64) -> bool,
    ) -> Result<Dropped, FsError> {
        for _ in 0..most {
            let _alone = node.lock.exclusive().await;
            if node.is_dead() {
                return Ok(Dropped::Refused);
            }
            let Some((name, ino)) = self.first_name(node).await? else { return Ok(Dropped::All) };
            let mut change = self.mending();
            self.drop_entry(&mut change, node, &name).await?;
            self.rest_on(&mut change, &node.depends());
            if self.apply_if(change, || may_go(ino)).await?.is_none() {
                return Ok(Dropped::Refused);
            }
        }
        Ok(Dropped::Some)
    }

    /// Frees a file that has no name. Returns whether it was freed.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub async fn free_nameless(
        &self,
        node: &File<E>,
        is_needed: impl Fn() -> bool,
    ) -> Result<bool, FsError> {
        let place = self.place_among_chains().await?;
        let _alone = node.lock.exclusive().await;
        if node.is_dead() || !is_needed() {
            return Ok(false);
        }
        if node.kind == FileKind::Directory && node.attributes().nlink > 0 {
            self.load_directory(node).await?;
            if self.first_name(node).await?.is_some() {
                return Ok(false); // a caller was faster
            }
        }
        let mut change = self.mending();
        change.follows.place = Some(place);
        let goes = self.destroy(&mut change, node).await?;
        assert!(goes, "it has its place");
        self.rest_on(&mut change, &node.depends());
        Ok(self.apply_if(change, is_needed).await?.is_some())
    }

    /// Waits until a file is not being freed in steps any more.
    ///
    /// # Errors
    /// [`FsError::Io`] when that cannot go on, or the volume has stopped.
    pub async fn wait_until_freed(&self, ino: u64) -> Result<(), FsError> {
        while self.orphan(ino).is_some() {
            self.check_running()?;
            self.check_not_stuck(ino)?;
            self.engine.released().wait().await;
        }
        Ok(())
    }

    /// Gives a file that has lost its name one in `lost+found`: `#` and its number.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`].
    pub async fn reconnect(
        &self,
        node: &File<E>,
        is_needed: impl Fn() -> bool,
    ) -> Result<bool, FsError> {
        let home = self.lost_and_found().await?;
        let (first, second) = if home.ino < node.ino { (&home, node) } else { (node, &home) };
        let _first = first.lock.exclusive().await;
        let _second = second.lock.exclusive().await;
        if node.is_dead() || home.is_dead() || !is_needed() {
            return Ok(false);
        }
        let mut name = Name::parse(format!("#{}", node.ino).as_bytes())?;
        while self.find(&home, &name).await?.is_some() {
            name = Name::parse(&[name.as_bytes(), b"+"].concat())?;
        }
        let mut change = self.mending();
        if node.kind == FileKind::Directory {
            self.engine.add_link(&mut change.update, &home)?;
            self.retarget_parent(&mut change, node, &home).await?;
        }
        self.add_entry(&mut change, &home, &name, node).await?;
        self.rest_on(&mut change, &node.depends());
        self.rest_on(&mut change, &home.depends());
        let named = self.apply_if(change, is_needed).await?;
        if let Some(sequence) = named {
            self.note_change(node, sequence); // a task that makes it durable waits for its name
            if node.kind == FileKind::Directory {
                let mut all = self.reconnected.get();
                all.retain(|change| !self.engine.horizon().has_passed(change));
                all.join(&self.engine.horizon().up_to(sequence));
                self.reconnected.set(all);
            }
        }
        Ok(named.is_some())
    }

    /// The directory for files that have lost their name, made if it is not there.
    async fn lost_and_found(&self) -> Result<File<E>, FsError> {
        let root = self.node(self.engine.limits().root).await?;
        let mut name = Name::parse(LOST_AND_FOUND)?;
        let _alone = root.lock.exclusive().await;
        while let Some(ino) = self.find(&root, &name).await? {
            let home = self.node_of(ino).await?;
            if home.kind == FileKind::Directory {
                return Ok(home);
            }
            name = Name::parse(&[name.as_bytes(), b"+"].concat())?;
        }
        let mut change = self.plan(Space::Superuser);
        let new = NewFile {
            kind: FileKind::Directory,
            mode: 0o700,
            uid: 0,
            gid: 0,
            device: Device::default(),
            target: &[],
            verifier: None,
        };
        let home = Store::create(self, &mut change, &root, new).await?;
        self.engine.add_link(&mut change.update, &root)?;
        self.add_entry(&mut change, &root, &name, &home).await?;
        self.apply(self.reserve(change).await?, &mut ());
        Ok(home)
    }

    /// Whether data waits in memory that a caller has written to this file.
    pub fn has_unstable(&self, ino: u64) -> bool {
        self.dirty_files.borrow().contains_key(&ino)
    }

    /// A large file without a name that is being freed under this number.
    pub fn orphan(&self, ino: u64) -> Option<File<E>> {
        self.orphans.borrow().get(&ino).cloned()
    }
}
