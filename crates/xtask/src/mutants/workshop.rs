//! The copy of the sources in which they are broken.
//!
//! 1. The work tree is never changed: the copy is `target/mutants/tree`. Only files that differ are
//!    written to it, so that what was built from it stays good from one run to the next. Building
//!    from nothing, or a copy for each run, would cost more than most tests.
//! 2. There is one at a time in a work tree: two would break each other's sources.
//!
//! Not asserted: both, which files of others are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::areas::Area;
use super::finder::{self, Mutant};
use crate::failure::While;
use crate::{Repository, Result, command};

/// Files with bugs that are planted by hand.
const PLANTED: &str = "/planted.rs";

/// Where mutants are tried.
#[derive(Debug)]
pub(super) struct Workshop {
    /// The work tree.
    root: PathBuf,
    folder: PathBuf,
    /// The files of the work tree.
    listed: BTreeSet<PathBuf>,
    /// Locked, as long as the workshop is open.
    _lock: File,
}

impl Workshop {
    /// Keeps others out, and sees what there is.
    pub(super) fn open(repository: &Repository) -> Result<Workshop> {
        Workshop::within(repository.root().to_owned(), repository.target().join("mutants"))
    }

    /// The same for this work tree, with its copy in this folder.
    pub(super) fn within(root: PathBuf, folder: PathBuf) -> Result<Workshop> {
        fs::create_dir_all(folder.join("tree")).while_doing(folder.display())?;
        let lock = lock(&folder)?;
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = command::capture(git.current_dir(&root))?;
        let listed = listed.split('\0').filter(|path| !path.is_empty());
        let listed = listed.filter(|path| root.join(path).is_file()).map(PathBuf::from).collect();
        Ok(Workshop { root, folder, listed, _lock: lock })
    }

    /// A source of the work tree.
    pub(super) fn text(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.root.join(file)).while_doing(file)
    }

    /// The mutants of a part, by their files and lines.
    pub(super) fn mutants(&self, area: &Area) -> Result<Vec<Mutant>> {
        let files = self.listed.iter().filter_map(|path| path.to_str());
        let files = files.filter(|file| area.has(file) && !file.ends_with(PLANTED));
        let (mut mutants, mut tests) = (Vec::new(), Vec::new());
        for file in files {
            let found = finder::find(file, &self.text(file)?)?;
            mutants.extend(found.mutants);
            tests.extend(found.tests.iter().map(|name| below(file).join(name)));
        }
        mutants.retain(|mutant| {
            let path = Path::new(&mutant.file).with_extension("");
            !tests.iter().any(|tests| path.starts_with(tests))
        });
        Ok(mutants)
    }

    /// Brings the copy up to date: it has what the work tree has, but for these texts.
    pub(super) fn fill(&self, texts: &BTreeMap<String, String>) -> Result<()> {
        let tree = self.folder.join("tree");
        for path in &self.listed {
            let to = tree.join(path);
            match path.to_str().and_then(|path| texts.get(path)) {
                None => bring(&self.root.join(path), &to)?,
                Some(text) if fs::read(&to).is_ok_and(|old| old == text.as_bytes()) => {}
                Some(text) => {
                    let folder = to.parent().expect("a file has a folder");
                    fs::create_dir_all(folder).while_doing(folder.display())?;
                    fs::write(&to, text).while_doing(to.display())?;
                }
            }
        }
        remove_others(&tree, Path::new(""), &self.listed)
    }

    /// cargo, in the copy, and nice.
    pub(super) fn cargo(&self) -> Command {
        let mut nice = Command::new("nice");
        nice.args(["-n", "10", "cargo"]).current_dir(self.folder.join("tree"));
        nice.env("CARGO_TARGET_DIR", self.folder.join("build"));
        // No reader looks at a trace, and little changes from one run to the next.
        nice.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
        // A mutant is not good style.
        nice.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "--cap-lints=allow");
        nice
    }
}

/// Where the modules are that a source names.
fn below(file: &str) -> PathBuf {
    let path = Path::new(file);
    let is_top = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
    if is_top { path.with_file_name("") } else { path.with_extension("") }
}

/// Keeps others out as long as the file that it gives is open.
fn lock(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join("lock")).while_doing(folder.display())?;
    lock.try_lock().while_doing("mutants are being tried in this work tree already")?;
    Ok(lock)
}

/// Copies a file, if the other is not the same.
fn bring(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).while_doing(from.display())?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let folder = to.parent().expect("a file has a folder");
    fs::create_dir_all(folder).while_doing(folder.display())?;
    // A copy, not what was read: a script can be executed there, too.
    fs::copy(from, to).while_doing(to.display()).map(drop)
}

/// Removes what is not listed.
fn remove_others(tree: &Path, folder: &Path, listed: &BTreeSet<PathBuf>) -> Result<()> {
    let whole = tree.join(folder);
    for entry in fs::read_dir(&whole).while_doing(whole.display())? {
        let entry = entry.while_doing(whole.display())?;
        let path = folder.join(entry.file_name());
        if entry.file_type().while_doing(path.display())?.is_dir() {
            remove_others(tree, &path, listed)?;
        } else if !listed.contains(&path) {
            fs::remove_file(entry.path()).while_doing(path.display())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn there_is_one_workshop_at_a_time() {
        let folder = TemporaryFolder::new("workshop").expect("there is room");
        let first = lock(folder.path()).expect("nobody else is there");
        assert!(lock(folder.path()).is_err());
        drop(first);
        lock(folder.path()).expect("the first has gone");
    }

    #[test]
    fn the_copy_becomes_what_the_work_tree_is() {
        let folder = TemporaryFolder::new("workshop").expect("there is room");
        let (from, to) = (folder.path().join("from"), folder.path().join("to/below/file"));
        fs::write(&from, "now").expect("there is room");
        bring(&from, &to).expect("it is copied");
        fs::write(to.with_file_name("other"), "left over").expect("there is room");
        let tree = folder.path().join("to");
        let listed = BTreeSet::from([PathBuf::from("below/file")]);
        remove_others(&tree, Path::new(""), &listed).expect("it is removed");
        assert_eq!(fs::read_to_string(&to).expect("it stays"), "now");
        assert!(!to.with_file_name("other").exists());
    }

    #[test]
    fn modules_are_below_the_source_that_names_them() {
        assert_eq!(below("a/src/lib.rs").join("tests"), Path::new("a/src/tests"));
        assert_eq!(below("a/src/b/mod.rs").join("tests"), Path::new("a/src/b/tests"));
        assert_eq!(below("a/src/b.rs").join("tests"), Path::new("a/src/b/tests"));
    }
}
