//! Opens the engine of a volume.

use std::path::Path;
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use ffs::check::{Progress, Report};
use ffs::{OpenOptions, Opened};
use indicatif::{ProgressBar, ProgressStyle};
use namespace::Namespace;
use runtime::Runtime;
use vfs::FileSystem;

use crate::failure::Failure;
use crate::volume::{FileSystem as Superblock, Volume, read_superblock};

/// A volume that is open.
pub(crate) struct OpenVolume {
    /// The file system's own number, which stays the same wherever it is served.
    pub(crate) id: u64,
    /// What it holds.
    pub(crate) file_system: Rc<dyn FileSystem>,
}

/// Opens a volume on what `device` makes of its disk; one that was cut off is repaired first, with
/// a progress bar for whoever watches.
///
/// # Errors
/// [`Failure`] when it cannot be opened that way.
pub(crate) async fn open_volume(
    volume: &Volume,
    access: Access,
    device: impl FnOnce(DiskFile) -> Rc<dyn BlockDevice>,
    cache_bytes: usize,
    runtime: &Runtime,
) -> Result<OpenVolume, Failure> {
    let path = &volume.path;
    let disk = volume.open(access)?;
    let Superblock { superblock, .. } = read_superblock(&disk, &volume.disk_path)?;
    let [second, random] = superblock.id.map(|half| u64::from(half.get()));

    let options = OpenOptions { read_only: access == Access::ReadOnly, cache_bytes };
    let bar = repair_bar(path);
    let mut show = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let opened = ffs::open(device(disk), runtime.clone(), &options, &mut show).await;
    bar.finish_and_clear();
    let opened = opened.map_err(|source| Failure::Engine { path: path.clone(), source })?;
    report(path, &opened);
    let file_system = Rc::new(Namespace::new(opened.engine));
    Ok(OpenVolume { id: second << 32 | random, file_system })
}

/// Is drawn on standard error from its first step on, if that is a terminal.
fn repair_bar(path: &Path) -> ProgressBar {
    let template = "repairing {msg} {bar:40} {percent}% {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::no_length().with_style(style).with_message(path.display().to_string())
}

/// What the administrator should know of a volume that opened.
fn report(path: &Path, opened: &Opened) {
    let path = path.display();
    if let Some(reason) = opened.read_only {
        eprintln!("duramen: {path} can only be read: {reason}");
    }
    if let Some(found) = &opened.rebuilt {
        let Report { files, freed, .. } = found;
        eprintln!(
            "duramen: {path} was cut off and is repaired: {files} files are kept, {freed} \
             that had no name any more are freed"
        );
    }
}
