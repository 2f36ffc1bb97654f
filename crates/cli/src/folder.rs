//! Folders of the host: what is in one, and its entries on stable storage.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Whether there is something of this name. A process that may not look does not know.
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

/// Makes a folder for this user alone.
///
/// # Errors
/// The operating system's.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes the file that is to take the place of another one as soon as it is written. One that a cut
/// left behind goes first. Anything else of this name is refused: a FIFO would be waited for, and a
/// link may lead to a file of somebody else.
///
/// # Errors
/// The operating system's, and what is refused.
pub(crate) fn make_temporary(path: &Path, mode: u32) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(io::Error::other(format!("{name} is there, and is no regular file")));
        }
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// How many links may lead to one another, as on Linux.
const LINKS: usize = 40;

/// Where what has this path lies, or would if it were there: whatever links lead to it. As far as
/// that cannot be found out, the path as it is.
pub(crate) fn real_place(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        // A link of which the end is missing is not made canonical as a whole.
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
