//! A folder of the host that is held open: its files are read and replaced by name.
//!
//! A served volume keeps files in its folder, and a person may rename that folder, and make another
//! of its name, while the server runs. The descriptor still leads to the folder of the volume, so
//! nothing is written into the other one. A link in the folder is followed from there.
//!
//! Only regular files are read: to open a FIFO would block until a writer comes. A new file is made
//! exclusively under a temporary name, so nothing that somebody left under that name is written to.
//! All of this may wait for a disk: the serving thread leaves it to another one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, renameat};
use rustix::fs::{statat, unlinkat};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::folder::{LINKS, parent};

/// Maximum size of a file that is read whole, in bytes.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// An open folder, and the path at which it was opened.
#[derive(Debug)]
pub(crate) struct HeldFolder {
    path: PathBuf,
    handle: File,
}

impl HeldFolder {
    /// Opens the folder at this path.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let opened = open_folder(CWD, path);
        let failed = |source| Failure::File { verb: "open", path: path.to_owned(), source };
        Ok(Self { path: path.to_owned(), handle: opened.map_err(failed)? })
    }

    /// Path of a file in the folder, for a person.
    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a text; `None` if there is no file of this name.
    ///
    /// # Errors
    /// [`Failure::File`], also for anything but a regular file, and for a file that is too large or
    /// no UTF-8.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> Result<Option<String>, Failure> {
        let name = name.as_ref();
        let read = read_text(&self.handle, name);
        read.map_err(|source| Failure::File { verb: "read", path: self.path_of(name), source })
    }

    /// Replaces a file atomically and durably, through a file of another name. The file keeps its
    /// mode, and its owner if the process may give files away; a new file is its owner's alone. A
    /// link stays, and its target is replaced, through a file in the folder of the target.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub(crate) fn replace(
        &self,
        name: impl AsRef<OsStr>,
        new: impl AsRef<OsStr>,
        content: &[u8],
    ) -> Result<(), Failure> {
        self.replace_if((name.as_ref(), new.as_ref()), content, |_, _| true).map(drop)
    }

    /// Replaces a file as [`Self::replace`] does, if it still holds this text just before. Returns
    /// whether it did.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub(crate) fn replace_text(
        &self,
        name: &str,
        new: &str,
        (old, text): (&str, &str),
    ) -> Result<bool, Failure> {
        let is_same = |folder: &File, name: &OsStr| {
            read_text(folder, name).is_ok_and(|there| there.as_deref() == Some(old))
        };
        self.replace_if((name.as_ref(), new.as_ref()), text.as_bytes(), is_same)
    }

    fn replace_if(
        &self,
        (name, new): (&OsStr, &OsStr),
        content: &[u8],
        is_meant: impl Fn(&File, &OsStr) -> bool,
    ) -> Result<bool, Failure> {
        let replace = || {
            let (folder, name) = self.resolve(name)?;
            replace_in(&folder, (&name, new), content, is_meant)
        };
        replace().map_err(|source| Failure::File {
            verb: "write",
            path: self.path_of(name),
            source,
        })
    }

    /// Checks that a file of this name can be made and written, and removes it.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub(crate) fn probe(&self, name: &str, length: usize) -> Result<(), Failure> {
        let name: &OsStr = name.as_ref();
        let probe = || {
            let mut file = make_temporary_in(&self.handle, name)?;
            let written = file.write_all(&vec![0; length]);
            unlinkat(&self.handle, name, AtFlags::empty())?;
            written
        };
        probe().map_err(|source| Failure::File { verb: "write", path: self.path_of(name), source })
    }

    /// The folder and the name to which a name leads, with all links followed.
    fn resolve(&self, name: &OsStr) -> io::Result<(File, OsString)> {
        let (mut folder, mut name) = (self.handle.try_clone()?, OsString::from(name));
        for _ in 0..LINKS {
            let target = match readlinkat(&folder, &name, Vec::new()) {
                Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
                Err(Errno::INVAL | Errno::NOENT) => return Ok((folder, name)), // no link
                Err(error) => return Err(error.into()),
            };
            let Some(last) = target.file_name() else { break };
            (folder, name) = (open_folder(&folder, parent(&target))?, last.to_owned());
        }
        Err(io::Error::other("it is a link that leads to no file"))
    }
}

fn open_folder(base: impl std::os::fd::AsFd, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(base, path, flags, Mode::empty())?.into())
}

fn read_text(folder: &File, name: &OsStr) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Some(text))
}

/// Replaces `name` through `new`, both in this folder, if `is_meant` says so at the last moment.
fn replace_in(
    folder: &File,
    (name, new): (&OsStr, &OsStr),
    content: &[u8],
    is_meant: impl Fn(&File, &OsStr) -> bool,
) -> io::Result<bool> {
    let old = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile => Some(old),
        Ok(_) => return Err(io::Error::other("it is no regular file")),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let mut file = make_temporary_in(folder, new)?;
    let mut write = || {
        file.write_all(content)?;
        if let Some(old) = &old {
            keep_owner(&file, (old.st_uid, old.st_gid))?;
            file.set_permissions(fs::Permissions::from_mode(old.st_mode & 0o7777))?;
        }
        file.sync_all()?;
        if !is_meant(folder, name) {
            unlinkat(folder, new, AtFlags::empty())?;
            return Ok(false);
        }
        renameat(folder, new, folder, name)?;
        Ok(true)
    };
    let is_replaced = write().inspect_err(|_: &io::Error| {
        let _ = unlinkat(folder, new, AtFlags::empty()); // no program uses it
    })?;
    folder.sync_all()?;
    Ok(is_replaced)
}

/// Creates the temporary file that replaces another file once it is written; only this user may
/// access it. A temporary file that a cut left behind is removed first. Anything else of this name
/// is refused: opening a FIFO would block, and a link may lead to a file of another user.
///
/// # Errors
/// The operating system's error, or the refusal.
pub(crate) fn make_temporary(path: &Path) -> io::Result<File> {
    let folder = open_folder(CWD, parent(path))?;
    make_temporary_in(&folder, path.file_name().unwrap_or_default())
}

fn make_temporary_in(folder: &File, name: &OsStr) -> io::Result<File> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
            let name = name.to_string_lossy();
            return Err(io::Error::other(format!("{name} is there, and is no regular file")));
        }
        Ok(_) => unlinkat(folder, name, AtFlags::empty())?,
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Gives a new file to the owner of the old one. Only root may give files away. Another user owns
/// the folder, and may own the new file instead.
fn keep_owner(file: &File, (uid, gid): (u32, u32)) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (uid, gid) {
        return Ok(());
    }
    match fchown(file, Some(uid), Some(gid)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        kept => kept,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder for one test, which is removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("duramen-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("there is room");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_that_was_moved_is_written_and_the_one_in_its_place_is_not() {
        let scratch = Scratch::new("held-moved");
        let (path, moved) = (scratch.0.join("data"), scratch.0.join("old"));
        fs::create_dir(&path).expect("there is room");
        let folder = HeldFolder::open(&path).expect("it is there");
        fs::rename(&path, &moved).expect("it is ours");
        folder.replace("file", ".file.new", b"one").expect("it is there under its new name");
        fs::create_dir(&path).expect("there is room");
        folder.replace("file", ".file.new", b"two").expect("the other folder is nothing to it");
        assert_eq!(fs::read_to_string(moved.join("file")).expect("it is there"), "two");
        assert_eq!(folder.read("file").expect("it can be read").as_deref(), Some("two"));
        assert_eq!(fs::read_dir(&path).expect("it is there").count(), 0);
    }

    #[test]
    fn nothing_but_a_regular_file_is_read_or_written() {
        let scratch = Scratch::new("held-kinds");
        let folder = HeldFolder::open(&scratch.0).expect("it is there");
        let victim = scratch.0.join("victim");
        fs::write(&victim, "precious").expect("there is room");
        let made = std::process::Command::new("mkfifo").arg(scratch.0.join("fifo")).status();
        assert!(made.expect("coreutils").success());
        symlink(&victim, scratch.0.join("link")).expect("there is room");
        for name in ["fifo", "link"] {
            assert!(folder.probe(name, 8).is_err(), "{name}");
            assert!(folder.replace("file", name, b"new").is_err(), "{name}");
        }
        assert!(folder.read("fifo").is_err() && folder.replace("fifo", ".new", b"").is_err());
        assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
        fs::write(scratch.0.join(".left"), "of a cut").expect("there is room");
        folder.probe(".left", 8).expect("a regular file is replaced");
        assert!(!scratch.0.join(".left").exists());
    }

    #[test]
    fn a_link_stays_and_its_target_is_replaced_with_its_mode() {
        let scratch = Scratch::new("held-links");
        let (inside, outside) = (scratch.0.join("inside"), scratch.0.join("outside"));
        for path in [&inside, &outside] {
            fs::create_dir(path).expect("there is room");
        }
        symlink("../outside/next", inside.join("file")).expect("there is room");
        symlink(outside.join("real"), outside.join("next")).expect("there is room");
        let folder = HeldFolder::open(&inside).expect("it is there");
        folder.replace("file", ".file.new", b"one").expect("there need be no file yet");
        let real = outside.join("real");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("it is ours");
        folder.replace("file", ".file.new", b"two").expect("there is room");
        assert_eq!(fs::read_to_string(&real).expect("it is there"), "two");
        assert_eq!(fs::metadata(&real).expect("it is there").mode() & 0o7777, 0o640);
        assert!(inside.join("file").is_symlink() && outside.join("next").is_symlink());
    }

    #[test]
    fn a_file_that_has_changed_meanwhile_is_not_replaced() {
        let scratch = Scratch::new("held-changed");
        let folder = HeldFolder::open(&scratch.0).expect("it is there");
        folder.replace("file", ".new", b"theirs").expect("there is room");
        let replaced = folder.replace_text("file", ".new", ("mine", "new"));
        assert!(!replaced.expect("there is room"));
        assert_eq!(folder.read("file").expect("it is there").as_deref(), Some("theirs"));
        assert!(!scratch.0.join(".new").exists());
        let replaced = folder.replace_text("file", ".new", ("theirs", "new"));
        assert!(replaced.expect("there is room"));
    }
}
