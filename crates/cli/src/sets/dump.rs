//! `duramen raid dump`: writes the volume as one plain image, for programs that do not know sets.
//!
//! An unreadable disk ends it. [`remains`] continues without the lost data, even if too few disks
//! are left.

pub(super) mod remains;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use block::Buffer;
use block::file::Access;
use raid::assembly::Refused;
use server::reactor;

use crate::failure::Failure;
use crate::found::found_on;
use crate::size::show_size;
use crate::stack::at_once;
use crate::volume::Volume;

/// Bytes read at a time.
const STEP: u64 = 1 << 20;
/// Advice to a user whose disks do not have all of the data.
const ADVICE: &str = "'duramen raid dump --accept-loss' writes what the disks still have";

/// Writes the image, with holes for zeros.
///
/// # Errors
/// [`Failure`]; then the file is removed, if it was created.
pub(super) fn run(volume: &Volume, file: &Path, output: &mut dyn Write) -> Result<(), Failure> {
    let written = |source| Failure::File { verb: "write", path: file.to_owned(), source };
    let image = new_image(file)?;
    let dumped = reactor::block_on(|runtime| async move {
        let stack = volume.open(Access::ReadOnly, &at_once, &runtime).await;
        let stack = stack.map_err(|failure| advised(volume, failure))?;
        let not_read = |source: block::IoError| {
            let (path, why) = (volume.path.clone(), format!("{source}; {ADVICE}"));
            Failure::NotDone { path, why }
        };
        let size = stack.disk.geometry().size;
        let mut at = 0;
        while at < size {
            let room = Buffer::unfilled(STEP.min(size - at) as usize);
            let bytes = stack.disk.read(at, room).await.map_err(not_read)?;
            if bytes.iter().any(|&byte| byte != 0) {
                image.write_all_at(&bytes, at).map_err(written)?;
            }
            at += bytes.len() as u64;
        }
        image.set_len(size).and_then(|()| image.sync_all()).map_err(written)?;
        let found = found_on(volume.design(), &*stack.disk, &volume.disk_path).await;
        Ok((size, found.is_ok_and(|found| found.is_clean)))
    });
    let dumped: Result<_, Failure> = dumped.map_err(Failure::Start).flatten();
    let (size, is_clean) = dumped.inspect_err(|_| remove(file))?;
    tell_size(volume, file, size, output)?;
    if !is_clean {
        let note = "it was not stopped cleanly, and what its log holds is not in the image";
        writeln!(output, "note: {note}")?;
    }
    Ok(())
}

/// Creates the file of an image.
fn new_image(file: &Path) -> Result<File, Failure> {
    let image = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    image.map_err(|source| Failure::File { verb: "write", path: file.to_owned(), source })
}

/// Removes an incomplete image, which would be useless.
fn remove(file: &Path) {
    drop::<io::Result<()>>(std::fs::remove_file(file));
}

fn tell_size(
    volume: &Volume,
    file: &Path,
    size: u64,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let (volume, file) = (volume.path.display(), file.display());
    Ok(writeln!(output, "wrote {} of {volume} to {file}", show_size(size))?)
}

/// Adds advice to the failure of a set with too few disks.
fn advised(volume: &Volume, failure: Failure) -> Failure {
    match failure {
        Failure::Set {
            source: source @ raid::OpenError::Refused(Refused::TooFew { .. }), ..
        } => {
            let (path, why) = (volume.path.clone(), format!("{source}; {ADVICE}"));
            Failure::NotDone { path, why }
        }
        other => other,
    }
}
