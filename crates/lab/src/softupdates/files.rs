//! What a program on the machine calls, and what is counted of it.

use std::rc::Rc;

use runtime::Clock;

/// Writes that reached the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    /// Those for which a program waited.
    pub(super) sync: u64,
    /// All others.
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

/// What a file holds when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// So many bytes.
    Bytes(u32),
    /// Nothing: it is a device.
    Device,
}

/// A file system as a program of the same machine calls it. Whatever goes wrong is a mistake of the
/// model, and a panic.
pub(super) trait LocalFiles: 'static {
    /// A directory that is open.
    type Directory: Copy;

    /// The root directory.
    fn root(&self) -> Self::Directory;
    /// Time.
    fn clock(&self) -> Rc<dyn Clock>;
    /// What has been written since the start.
    fn written(&self) -> Writes;
    /// Makes a directory.
    async fn make_directory(&self, parent: Self::Directory, name: &str) -> Self::Directory;
    /// Makes a file and fills it.
    async fn make_file(&self, parent: Self::Directory, name: &str, holds: Holds);
    /// Reads all of a file.
    async fn read(&self, parent: Self::Directory, name: &str);
    /// Asks for the attributes of a name.
    async fn stat(&self, parent: Self::Directory, name: &str);
    /// Lists a directory.
    async fn list(&self, directory: Self::Directory);
    /// Removes a file.
    async fn remove(&self, parent: Self::Directory, name: &str);
    /// Removes an empty directory.
    async fn remove_directory(&self, parent: Self::Directory, name: &str);
}
