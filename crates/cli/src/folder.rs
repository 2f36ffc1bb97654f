//! Folders of the host: their contents, and their entries on stable storage.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Whether a path exists. A process without permission to look gets an error.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn is_there(path: &Path) -> Result<bool, Failure> {
    match path.try_exists() {
        // A file has no entries.
        Err(source) if source.kind() == ErrorKind::NotADirectory => Ok(false),
        looked => looked.map_err(|source| Failure::look(path, source)),
    }
}

/// The missing folders of a path: itself and its parents, the outermost first.
pub(crate) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let mut missing: Vec<_> = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Creates a folder that only this user may access.
///
/// # Errors
/// The operating system's error.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Removes empty folders, which are given the outermost first. A folder that is not empty stays.
pub(crate) fn remove_empty(folders: &[PathBuf]) {
    folders.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
}

/// Maximum number of links in a chain, as on Linux.
pub(crate) const LINKS: usize = 40;

/// The real path of a file that may not exist yet, with all links followed. A path that cannot be
/// resolved is returned as far as it could be.
pub(crate) fn real_place(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        // A dangling link cannot be canonicalized as a whole.
        let Ok(target) = fs::read_link(&place) else { break };
        place = parent(&place).join(target);
    }
    if let Ok(whole) = fs::canonicalize(&place) {
        return whole;
    }
    match (fs::canonicalize(parent(&place)), place.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Syncs the entries of a folder to stable storage.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Failure> {
    let result = File::open(folder).and_then(|handle| handle.sync_all());
    result.map_err(|source| Failure::File { verb: "sync", path: folder.to_owned(), source })
}

/// The folder of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
