//! Measurement of nfs-ganesha.
//!
//! Several folders are tried, since not every file system is suitable. This test is never skipped:
//! a machine that cannot run it fails.

use std::fs;
use std::path::{Path, PathBuf};

use super::all;
use crate::failure::While;
use crate::servers::ganesha::{Ganesha, last_words, mapper};
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result};

/// Measures it, with all workloads, on the first suitable file system.
pub(super) fn measure(repository: &Repository, binary: &Path, folder: &Path) -> Result<String> {
    let _mapper = mapper()?;
    let mut failures = Vec::new();
    for place in places(repository) {
        let export = place.path().join("export");
        fs::create_dir(&export).while_doing(export.display())?;
        match measure_there(binary, folder, &export) {
            Ok(note) => return Ok(format!("{note} (files in {})", export.display())),
            Err(failure) => failures.push(format!("{}: {failure}", export.display())),
        }
    }
    let log = last_words(folder);
    Err(Failure::new(format!("{}\nits log:\n{log}", failures.join("\n"))))
}

/// Folders on possibly different file systems.
fn places(repository: &Repository) -> Vec<TemporaryFolder> {
    let parents = [std::env::temp_dir(), repository.target(), PathBuf::from("/dev/shm")];
    parents.iter().filter_map(|parent| TemporaryFolder::within(parent, "ganesha").ok()).collect()
}

fn measure_there(binary: &Path, folder: &Path, export: &Path) -> Result<String> {
    let ganesha = Ganesha::start(folder, export)?;
    let note = all(binary, &ganesha.target())?;
    drop(ganesha);
    match fs::read_dir(export).while_doing(export.display())?.next() {
        None => Ok(note),
        Some(_) => Err(Failure::new("something was left behind in the export")),
    }
}
