//! `duramen raid find`: says of each disk to which set it belongs, and how it stands there.

use std::io::Write;
use std::path::PathBuf;

use block::file::{Access, DiskFile, FileDevice};
use futures::FutureExt;
use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::membership::{Membership, membership_of};

/// What was found on a disk. The names are those of the JSON object.
#[derive(Serialize)]
struct DiskReport<'p> {
    path: &'p PathBuf,
    /// Null if the disk is of no set.
    disk: Option<Membership>,
}

/// Looks at each disk, whoever has it, and tells what it is.
///
/// # Errors
/// [`Failure`] of a disk that cannot be opened; those before it are told.
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
