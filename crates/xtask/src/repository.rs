//! Paths of the repository.

use std::path::{Path, PathBuf};

use crate::{Failure, Result};

/// The work tree, and cargo's folder of build products.
#[derive(Clone, Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The repository in which cargo was called; for a program that was started without cargo, the
    /// one from which it was built. A folder of build products may be copied to another work tree.
    pub fn here() -> Result<Repository> {
        let called = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let manifest = called.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = manifest.ancestors().nth(2).map(Path::to_path_buf);
        let root = root.filter(|root| root.join("Cargo.toml").is_file()).ok_or_else(|| {
            Failure::new("the repository that this program was built from has moved: build again")
        })?;
        Ok(Repository { root })
    }

    /// Its top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of build products: `target`, or the value of `CARGO_TARGET_DIR`.
    pub fn target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => self.root.join(folder),
            None => self.root.join("target"),
        }
    }

    /// The scripts that run inside the guest.
    pub fn guest_scripts(&self) -> PathBuf {
        self.root.join("crates/xtask/guest")
    }

    /// The scripts that read a disk image with programs that we did not write.
    pub fn judges(&self) -> PathBuf {
        self.root.join("crates/xtask/judges")
    }

    /// The folder of reference material beside the work tree. A stranger's clone has none, so a
    /// test that needs it reports that and continues.
    pub fn shared(&self) -> Option<PathBuf> {
        let folder = self.root.join("../shared");
        folder.is_dir().then_some(folder)
    }
}
