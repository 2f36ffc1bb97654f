//! Inputs that are kept in the repository, one file each.
//!
//! `fuzz/corpus/TARGET` has the starting inputs: small, and different from each other.
//! `fuzz/regressions/TARGET` has every input that ever failed; none is ever removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Target;

/// The folders of inputs.
const FOLDERS: [&str; 2] = ["corpus", "regressions"];

/// A kept input.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The path, from the top of the repository.
    pub path: PathBuf,
    /// The bytes.
    pub input: Vec<u8>,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The kept inputs of a target, sorted by path.
///
/// # Errors
/// When an input exists and cannot be read.
pub fn load(target: &Target) -> io::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for folder in FOLDERS {
        let folder = Path::new("fuzz").join(folder).join(target.name);
        let entries = match fs::read_dir(root().join(&folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let input = fs::read(entry.path())?;
            kept.push(Kept { path: folder.join(entry.file_name()), input });
        }
    }
    kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(kept)
}

/// Keeps an input that failed; returns the path, from the top of the repository.
///
/// # Errors
/// When it cannot be written.
pub fn keep_failure(target: &Target, input: &[u8]) -> io::Result<PathBuf> {
    keep("regressions", target, input)
}

/// Keeps a starting input; returns the path, from the top of the repository.
///
/// # Errors
/// When it cannot be written.
pub fn keep_start(target: &Target, input: &[u8]) -> io::Result<PathBuf> {
    keep("corpus", target, input)
}

fn keep(folder: &str, target: &Target, input: &[u8]) -> io::Result<PathBuf> {
    let folder = Path::new("fuzz").join(folder).join(target.name);
    fs::create_dir_all(root().join(&folder))?;
    let path = folder.join(format!("{:016x}", fingerprint(input)));
    fs::write(root().join(&path), input)?;
    Ok(path)
}

/// FNV-1a, so that an input has the same name on every machine.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
