//! The repository's files, read once for all the checks.

use std::fs;
use std::path::Path;

use super::rust;
use crate::Result;
use crate::failure::While;

/// Names that are not part of the repository: folders, but in an additional work tree `.git` is a
/// file.
const OUTSIDE: &[&str] = &[".git", "target"];

/// Every file of the repository, sorted by path.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// Path relative to the top of the repository, with `/` between the parts.
    pub(super) path: String,
    /// Size in bytes.
    pub(super) size: u64,
    /// Contents, unless it is binary.
    pub(super) text: Option<String>,
    /// For Rust: the text with comments and literals blanked out.
    pub(super) code: Option<String>,
}

impl Tree {
    /// Reads all files below `root`.
    pub(super) fn load(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        load_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// A tree of these files, in the order of their paths.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| {
            let (size, code) = (text.len() as u64, Some(rust::code(text)));
            File { path: path.to_owned(), size, text: Some(text.to_owned()), code }
        };
        Tree { files: files.iter().map(file).collect() }
    }

    /// The file at `path`, if there is one.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .map(|at| &self.files[at])
    }

    /// Text files whose names end in one of `endings`, with their text.
    pub(super) fn texts<'a>(
        &'a self,
        endings: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files =
            self.files.iter().filter(|file| endings.iter().any(|end| file.path.ends_with(end)));
        files.filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// Rust files, each with its code.
    pub(super) fn codes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.code.as_deref()?)))
    }

    /// The names of the crates' folders.
    pub(super) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some(name)
        })
    }
}

fn load_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).while_doing(folder)? {
        let entry = entry.while_doing(folder)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().while_doing(&path)?;
        if OUTSIDE.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            load_folder(root, &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).while_doing(&path)?;
            let size = bytes.len() as u64;
            let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            let code = text.as_deref().filter(|_| path.ends_with(".rs")).map(rust::code);
            files.push(File { path, size, text, code });
        }
    }
    Ok(())
}
