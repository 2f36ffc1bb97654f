//! A temporary folder, removed on drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::failure::While;

/// An empty folder under the system's folder for temporary files.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    kept: bool,
}

impl TemporaryFolder {
    /// Makes one, with `purpose` in its name.
    pub(crate) fn new(purpose: &str) -> Result<TemporaryFolder> {
        TemporaryFolder::within(&std::env::temp_dir(), purpose)
    }

    /// Makes one in this folder instead.
    pub(crate) fn within(parent: &Path, purpose: &str) -> Result<TemporaryFolder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("duramen-{purpose}-{process}-{number}");
        let path = parent.join(name);
        // One with the same name can only remain from a process that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).while_doing(path.display())?;
        Ok(TemporaryFolder { path, kept: false })
    }

    /// The same folder, which is not removed on drop.
    pub(crate) fn keep(mut self) -> TemporaryFolder {
        self.kept = true;
        self
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
