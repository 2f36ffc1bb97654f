//! A volume with soft updates and its counters; answers are awaited or not.

use std::rc::Rc;
use std::time::Duration;

use ffs::policy::SoftUpdatesCounts;
use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use runtime::{Clock, Timestamp};
use sim::{Disk, Executor, Image};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{CreateHow, Delayed, FileSystem, FsError, ObjectId, Sealed, SetAttributes, Stability};

use super::volume::{Volume, name};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// Settings of the volume.
pub(crate) struct Setting {
    /// How long its changes wait.
    pub(crate) options: SoftUpdatesOptions,
    /// How it is made.
    pub(crate) make: MkfsOptions,
    /// Its size.
    pub(crate) megabytes: u64,
    /// Bytes of memory.
    pub(crate) cache: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            options: SoftUpdatesOptions::default(),
            make: MkfsOptions::default(),
            megabytes: 64,
            cache: 64 << 20,
        }
    }
}

/// A volume that was just made.
pub(crate) struct Soft {
    pub(crate) volume: Volume,
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) root: ObjectId,
}

/// Takes an answer when it is durable, or at once.
async fn answer<T, A>(sealed: Sealed<vfs::Answer<T, A>>, waits: bool) -> Result<T, FsError> {
    if waits {
        sealed.open().await.expect("the disk is good").into_inner().result
    } else {
        sealed.accept(Delayed::declared()).expect("running").into_inner().result
    }
}

impl Soft {
    /// Makes a volume, opens it on a consumer's SSD, and runs `test` with it.
    pub(crate) fn with(setting: &Setting, test: impl AsyncFnOnce(&Self)) {
        let executor = Executor::new(3);
        let image = Image::zeroed(setting.megabytes << 20);
        let options = sim::Options { timing: sim::presets::SATA_SSD, ..sim::Options::default() };
        let disk = Disk::with_options(&executor, image, options);
        executor.block_on(async {
            let runtime = executor.runtime();
            mkfs(&*disk, &setting.make, &*runtime.random, NOW).await.expect("it fits");
            let (softdep, cache_bytes) = (setting.options, setting.cache);
            let options = OpenOptions { softdep, cache_bytes, ..OpenOptions::default() };
            let clock = runtime.clock.clone();
            let disks = Disks::alone(disk.clone());
            let opened = open(PolicyKind::SoftUpdates, disks, runtime, &options, &mut |_| ()).await;
            let volume = Volume::new(opened.expect("it is clean").files);
            let root = volume.files.root();
            test(&Self { volume, clock, root }).await;
        });
    }

    pub(crate) fn counts(&self) -> SoftUpdatesCounts {
        self.volume.files.store().engine().soft_updates().expect("it has them")
    }

    /// Makes a file in the root; waits until that is durable if `waits`.
    pub(crate) async fn create(&self, file: &str, waits: bool) -> ObjectId {
        self.create_in(self.root, file, waits).await
    }

    pub(crate) async fn create_in(&self, parent: ObjectId, file: &str, waits: bool) -> ObjectId {
        let how = CreateHow::Guarded(SetAttributes::default());
        let sealed = self.volume.files.create(&self.volume.root, parent, &name(file), how).await;
        answer(sealed, waits).await.expect("it can be made").id
    }

    pub(crate) async fn make_directory(&self, directory: &str, waits: bool) -> ObjectId {
        let mode = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        let (files, who) = (&self.volume.files, &self.volume.root);
        let sealed = files.mkdir(who, self.root, &name(directory), mode).await;
        answer(sealed, waits).await.expect("it can be made").id
    }

    /// Removes a file of the root.
    pub(crate) async fn remove(&self, file: &str, waits: bool) {
        let sealed = self.volume.files.remove(&self.volume.root, self.root, &name(file)).await;
        answer(sealed, waits).await.expect("it is there");
    }

    /// Writes UNSTABLE data at the beginning of a file.
    pub(crate) async fn write(&self, file: ObjectId, data: Vec<u8>) {
        let (files, who) = (&self.volume.files, &self.volume.root);
        let sealed = files.write(who, file, 0, vec![data.into()], Stability::Unstable).await;
        answer(sealed, false).await.expect("there is room");
    }

    /// Makes a file durable.
    pub(crate) async fn commit(&self, file: ObjectId) {
        let sealed = self.volume.files.commit(&self.volume.root, file, 0, 0).await;
        answer(sealed, true).await.expect("it is there");
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}
