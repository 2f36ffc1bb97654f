//! What the tests of this crate share.

#![allow(dead_code, reason = "every test binary uses its own part of this")]

use std::path::PathBuf;
use std::process::Command;

/// A file of the folder `shared` beside the repository, where independent judges and foreign disks
/// lie. A clone alone does not have it: then this says so, and the caller skips.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if file.exists() {
        return Some(file);
    }
    skip(&format!("{} is not there", file.display()))
}

/// Says loudly that a test shows nothing here, and why.
pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    eprintln!("SKIPPED, NOTHING TESTED: {reason}");
    None
}

/// A disk that a FreeBSD 14 kernel wrote, `little` or `big` endian.
pub(crate) fn freebsd_disk(endian: &str) -> Option<Vec<u8>> {
    let file = shared(&format!("images/freebsd14-{endian}-endian.img.xz"))?;
    match Command::new("xz").arg("-dkc").arg(&file).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => panic!("xz: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(&format!("xz cannot be run: {error}")),
    }
}
