//! Snapshot commands on a volume without a server: the volume is opened for the command, and shut
//! down afterwards whether it succeeds or not.

use std::rc::Rc;

use block::file::Access;
use block::scratch::ScratchDevice;
use designs::{Disks, OpenOptions};
use vfs::FileSystem;

use super::verbs::{self, Told, Wrong};
use super::{Place, shown};
use crate::engine::open_volume;
use crate::failure::Failure;
use crate::found::found_on;
use crate::order::bar;
use crate::stack::at_once;

/// Size of the cache, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// A volume that is open for one command.
pub(super) struct Here<'a> {
    pub(super) place: &'a Place,
    pub(super) files: Rc<dyn FileSystem>,
}

/// Lists all snapshots. All writes of the opening stay in memory, and nothing on the volume
/// changes: so a volume that was cut off is listed in its recovered state.
///
/// # Errors
/// [`Failure`].
pub(super) async fn list(place: &Place) -> Result<Vec<Told>, Failure> {
    let (volume, runtime) = (&place.volume, &place.runtime);
    let told = |wrong: Wrong| place.failure(wrong);
    if !volume.design().has_snapshots {
        return Err(told(Wrong::HasNone));
    }
    let stack = volume.open(Access::ReadOnly, &at_once, runtime).await?;
    found_on(volume.design(), &*stack.disk, &volume.disk_path).await?;
    let disks = Disks::alone(Rc::new(ScratchDevice::new(stack.disk)));
    let options = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    let open = volume.design().work().open;
    let opened = open(disks, runtime.clone(), &options, &mut |_| ()).await;
    let refused = |error| Failure::refused(&volume.path, volume.words(), error);
    verbs::list(&*opened.map_err(refused)?.files).await.map_err(told)
}

impl<'a> Here<'a> {
    /// Opens the volume for a change.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn open(place: &'a Place) -> Result<Self, Failure> {
        let (volume, runtime, access) = (&place.volume, &place.runtime, Access::ReadWrite);
        let opened = open_volume(volume, access, at_once, CACHE_BYTES, runtime).await?;
        Ok(Self { place, files: opened.file_system })
    }

    /// Shuts the volume down, and returns the result.
    async fn end<T>(self, done: Result<T, Failure>) -> Result<T, Failure> {
        let ended = self.files.shutdown().await;
        let done = done?;
        ended.map_err(|error| self.place.failure(Wrong::from(error)))?;
        Ok(done)
    }

    /// Refuses to continue after an interrupt.
    fn check(&self, left: &str) -> Result<(), Failure> {
        if self.place.interrupt.is_heard() { Err(self.place.failure(left)) } else { Ok(()) }
    }

    /// Creates a snapshot.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn create(self, name: &str) -> Result<Told, Failure> {
        let made = match self.check("interrupted: no snapshot is made") {
            Ok(()) => self.told(verbs::create(&*self.files, name).await),
            Err(failure) => Err(failure),
        };
        self.end(made).await
    }

    /// Deletes a snapshot, and completes all deletions that were begun.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn delete(self, name: &str) -> Result<Told, Failure> {
        let deleted = self.do_delete(name).await;
        self.end(deleted).await
    }

    async fn do_delete(&self, name: &str) -> Result<Told, Failure> {
        self.check("interrupted: no snapshot is deleted")?;
        let told = self.told(verbs::delete(&*self.files, name).await)?;
        self.delete_all("").await?;
        Ok(told)
    }

    /// Rolls the volume back to a snapshot. Returns the names of the newer snapshots that were
    /// deleted for it.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn roll_back(
        self,
        name: &str,
        delete_newer: bool,
    ) -> Result<Vec<String>, Failure> {
        let rolled = self.do_roll_back(name, delete_newer).await;
        self.end(rolled).await
    }

    async fn do_roll_back(&self, name: &str, delete_newer: bool) -> Result<Vec<String>, Failure> {
        const LEFT: &str = "interrupted: the volume is not rolled back";
        let newer = self.told(verbs::newer(&*self.files, name).await)?;
        let ready = newer.iter().filter(|told| !told.is_deleting());
        let ready: Vec<String> = ready.map(|told| told.name.clone()).collect();
        if !ready.is_empty() && !delete_newer {
            let wrong = Wrong::Newer { name: name.to_owned(), newer: ready };
            return Err(self.place.failure(wrong));
        }
        for name in ready.iter().rev() {
            self.check(LEFT)?;
            self.told(verbs::delete(&*self.files, name).await)?;
        }
        self.check(LEFT)?;
        if !newer.is_empty() {
            self.delete_all("; it is not rolled back").await?;
        }
        self.check(LEFT)?;
        self.told(verbs::roll_back(&*self.files, name).await)?;
        Ok(ready)
    }

    fn told<T>(&self, done: Result<T, Wrong>) -> Result<T, Failure> {
        done.map_err(|wrong| self.place.failure(wrong))
    }

    /// Takes all steps of all deletions, with a progress bar. `more` is appended to the message if
    /// it is interrupted.
    async fn delete_all(&self, more: &str) -> Result<(), Failure> {
        let bar = bar("deleting");
        loop {
            let mut going = self.told(verbs::list(&*self.files).await)?;
            going.retain(Told::is_deleting);
            let Some(one) = going.first() else { break };
            let sum = |(done, total), (more, all)| (done + more, total + all);
            let (done, total) = going.iter().map(Told::progress).fold((0, 0), sum);
            bar.set_length(total);
            bar.set_position(done);
            self.check(&format!(
                "interrupted: snapshot '{}' is found no more, and the rest of it is deleted when \
                 the volume is served, or with the next 'duramen snapshot delete'{more}",
                shown(&one.name)
            ))?;
            self.told(verbs::delete_step(&*self.files, one.number).await)?;
        }
        bar.finish_and_clear();
        Ok(())
    }
}
