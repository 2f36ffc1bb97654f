//! `duramen raid find`: reports for each disk its set and its state in that set.

use std::io::Write;
use std::path::PathBuf;

use block::file::{Access, DiskFile, FileDevice};
use futures::FutureExt;
use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::membership::{Membership, membership_of};

/// Result for one disk. The names are those of the JSON object.
#[derive(Serialize)]
struct DiskReport<'p> {
    path: &'p PathBuf,
    /// Null if the disk belongs to no set.
    disk: Option<Membership>,
}

/// Reads the label of each disk, of whatever set, and prints the role of the disk.
///
/// # Errors
/// [`Failure`] if a disk cannot be opened; the disks before it are printed.
pub(super) fn run(disks: &[PathBuf], json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for path in disks {
        let device = FileDevice::new(DiskFile::open(path, Access::Glance)?);
        let disk = membership_of(&device).now_or_never().expect("a file is read at once");
        if !json {
            let what = disk.as_ref().map_or("of no set".to_owned(), ToString::to_string);
            writeln!(output, "{}: {what}", path.display())?;
        }
        reports.push(DiskReport { path, disk });
    }
    if json { print_json(&reports, output) } else { Ok(()) }
}
