//! Interface for programs on the simulated machine, with counters of writes.

use std::rc::Rc;

use runtime::Clock;

/// Number of writes that reached the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// Writes that a program waited for.
    pub(super) sync: u64,
    /// All other writes.
    pub(super) async_: u64,
}

impl Writes {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { sync: self.sync - earlier.sync, async_: self.async_ - earlier.async_ }
    }

    pub(super) fn all(self) -> f64 {
        (self.sync + self.async_) as f64
    }
}

/// Contents of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// This many bytes.
    Bytes(u32),
    /// None: it is a device.
    Device,
}

/// A file system as called by a program of the same machine. Every error is a mistake of the model,
/// and panics.
pub(super) trait LocalFiles: 'static {
    /// An open directory.
    type Directory: Copy;

    /// The root directory.
    fn root(&self) -> Self::Directory;
    /// The machine's clock.
    fn clock(&self) -> Rc<dyn Clock>;
    /// Writes since the start.
    fn written(&self) -> Writes;
    /// Makes a directory.
    async fn make_directory(&self, parent: Self::Directory, name: &str) -> Self::Directory;
    /// Makes a file with its contents.
    async fn make_file(&self, parent: Self::Directory, name: &str, holds: Holds);
    /// Reads all of a file.
    async fn read(&self, parent: Self::Directory, name: &str);
    /// Reads the attributes of a name.
    async fn stat(&self, parent: Self::Directory, name: &str);
    /// Lists a directory.
    async fn list(&self, directory: Self::Directory);
    /// Removes a file.
    async fn remove(&self, parent: Self::Directory, name: &str);
    /// Removes an empty directory.
    async fn remove_directory(&self, parent: Self::Directory, name: &str);
}
