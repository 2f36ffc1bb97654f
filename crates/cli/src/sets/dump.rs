//! `duramen raid dump`: the volume as one plain image, for programs that know no sets.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use block::Buffer;
use block::file::Access;
use server::reactor;

use crate::failure::Failure;
use crate::found::found_on;
use crate::size::show_size;
use crate::stack::at_once;
use crate::volume::Volume;

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

/// Writes the image, with holes where there are zeros.
///
/// # Errors
/// [`Failure`]; the file is gone then, if it was made.
pub(super) fn run(volume: &Volume, file: &Path, output: &mut dyn Write) -> Result<(), Failure> {
    let written = |source| Failure::File { verb: "write", path: file.to_owned(), source };
    let image = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let image = image.map_err(written)?;
    let dumped = reactor::block_on(|runtime| async move {
        let stack = volume.open(Access::ReadOnly, &at_once, &runtime).await?;
        let read = |source| Failure::Device { path: volume.path.clone(), source };
        let size = stack.disk.geometry().size;
        let mut at = 0;
        while at < size {
            let room = Buffer::unfilled(STEP.min(size - at) as usize);
            let bytes = stack.disk.read(at, room).await.map_err(read)?;
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
    let (size, is_clean) =
        dumped.inspect_err(|_| drop::<io::Result<()>>(std::fs::remove_file(file)))?;
    writeln!(
        output,
        "wrote {} of {} to {}",
        show_size(size),
        volume.path.display(),
        file.display()
    )?;
    if !is_clean {
        let note = "it was not stopped cleanly, and what its log holds is not in the image";
        writeln!(output, "note: {note}")?;
    }
    Ok(())
}
