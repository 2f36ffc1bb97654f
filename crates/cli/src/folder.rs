//! Folders of the host: what is in one, and its entries on stable storage.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use crate::failure::Failure;

/// Whether there is something of this name. Who may not look does not know.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn is_there(path: &Path) -> Result<bool, Failure> {
    match path.try_exists() {
        // A file has nothing below it.
        Err(source) if source.kind() == ErrorKind::NotADirectory => Ok(false),
        looked => looked.map_err(|source| Failure::look(path, source)),
    }
}

/// Puts the entries of a folder on stable storage.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Failure> {
    let result = File::open(folder).and_then(|handle| handle.sync_all());
    result.map_err(|source| Failure::File { verb: "sync", path: folder.to_owned(), source })
}

/// The folder that holds a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
