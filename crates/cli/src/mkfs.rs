//! `duramen mkfs`: creates a volume, or a file system on a bare disk.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use block::file::{Access, DiskFile, FileDevice, free_below};
use designs::{Design, DiskRole, Made};
use duramen_settings::Settings;

use crate::choice::promises;
use crate::error_counts::ERRORS_NAME;
use crate::failure::Failure;
use crate::folder::{create_private, missing_folders, parent, remove_empty, sync_folder};
use crate::found::{anything_in, found_in};
use crate::intents::{self, INTENTS_NAME};
use crate::log::{self, LOG_NAME, log_size_for};
use crate::losses;
use crate::make_set;
use crate::mkfs_arguments::MkfsArguments;
use crate::occupied::{
    head, is_begun, is_leftover, on_it, refuse_foreign_folder, refuse_occupied, was_never_written,
};
use crate::redo_log::other_version;
use crate::set_state::STATE_NAME;
use crate::size::show_size;
use crate::volume::{
    DISK_NAME, NEW_SETTINGS_NAME, SETTINGS_NAME, Volume, read_settings, write_settings,
};
use crate::words::{self, quoted};

/// Text at the end of `duramen mkfs --help`.
pub(crate) fn help() -> String {
    let promises = promises();
    format!(
        "\
What is created depends on VOLUME:
  a new path              a folder with disk.img and volume.toml; with --bare, an image file
  an empty folder         the same in that folder; a folder 'lost+found' does not count
  a volume, a file or a   a file system on it, if it is empty; --force overwrites existing
  device                  contents

{promises}
Examples:
  duramen mkfs data --size 100G
  duramen mkfs data --size 100G --policy sync
  duramen mkfs data --size 100G --engine shadow
  duramen mkfs disk.img --bare --size 4G --block-size 16K --fragment-size 2K
  duramen mkfs /dev/sdb1 --label backup
  duramen mkfs data --raid5 /dev/sdb /dev/sdc /dev/sdd /dev/sde
  duramen mkfs data --raid1 one.img two.img --size 4G"
    )
}

/// Creates the volume and prints a description of it.
///
/// # Errors
/// [`Failure`]. Files that this run created and could not complete are removed again.
pub(crate) fn run(arguments: &MkfsArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let (made, design) = make(arguments)?;
    let policy = design.and_then(|design| design.policy);
    writeln!(output, "made {}: {}", arguments.volume.display(), shape(&made, policy))?;
    if let Some(note) = lack_of_space(&arguments.volume) {
        writeln!(output, "note: {note}")?;
    }
    Ok(())
}

/// Describes a new file system.
fn shape(made: &Made, policy: Option<&str>) -> String {
    let parts = [
        Some(format!("{} of {}", show_size(made.size), made.format)),
        Some(format!("blocks of {}", show_size(made.block_size))),
        made.fragment_size.map(|size| format!("fragments of {}", show_size(size))),
        made.groups.map(|groups| format!("{groups} groups")),
        made.most_files.map(|files| format!("up to {files} files")),
        policy.map(|policy| format!("policy {policy}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Warning about a sparse disk that may grow beyond the free space of its host.
fn lack_of_space(volume: &Path) -> Option<String> {
    let path = if volume.is_dir() { volume.join(DISK_NAME) } else { volume.to_owned() };
    let file = File::open(&path).ok()?;
    let (found, free) = (file.metadata().ok()?, free_below(&file).ok()?);
    let (size, has) = (found.len(), found.blocks() * 512);
    (found.is_file() && size.saturating_sub(has) > free).then(|| {
        format!(
            "{} may grow to {}, and {} are free where it lies: when they are used up, changes are \
             refused until there is more",
            path.display(),
            show_size(size),
            show_size(free)
        )
    })
}

/// A volume that this run has created, and the folders that it had to create for it.
pub(crate) struct Created {
    volume: PathBuf,
    folders: Vec<PathBuf>,
}

/// Creates the volume of `duramen serve --create`, unless there is one. A volume whose creation was
/// cut off is completed. Returns what was created.
///
/// # Errors
/// [`Failure`]. Files that this run created and could not complete are removed again.
pub(crate) fn create_missing(arguments: &MkfsArguments) -> Result<Option<Created>, Failure> {
    let volume = &arguments.volume;
    let folders = missing_folders(volume);
    if volume.exists() && !is_unfinished(volume) {
        let is_foreign = |name| !volume.join(name).exists();
        if volume.is_dir() && [SETTINGS_NAME, DISK_NAME].into_iter().all(is_foreign) {
            refuse_foreign_folder(volume)?;
        }
        note_difference(arguments)?;
        return Ok(None);
    }
    if volume.join(DISK_NAME).exists() {
        finish(arguments)?;
        return Ok(None);
    }
    make_folder(arguments)?;
    if let Some(note) = lack_of_space(volume) {
        words::say(note);
    }
    Ok(Some(Created { volume: volume.clone(), folders }))
}

/// Says what distinguishes an existing volume from the one that was to be created. It is served as
/// it is.
fn note_difference(arguments: &MkfsArguments) -> Result<(), Failure> {
    let path = &arguments.volume;
    let found = Volume::find(path)?;
    let design = arguments.design()?;
    let is_chosen = arguments.engine.is_some() || arguments.policy.is_some();
    if is_chosen && found.design().name() != design.name() {
        let (has, wanted) = (found.design().name(), design.name());
        words::say(format_args!(
            "{} is there already, with {has} and not {wanted}: it is served as it is",
            path.display()
        ));
    }
    if found.settings.raid.is_some() {
        return Ok(()); // its disks have sizes of their own
    }
    // An unreadable disk is reported when it is opened.
    let disk = DiskFile::open(&found.disk_path, Access::Glance).ok();
    let has = disk.map(|disk| disk.geometry().size);
    if let Some((has, wanted)) = has.zip(arguments.size).filter(|(has, wanted)| has != wanted) {
        words::say(format_args!(
            "{} is there already, with {} and not {}: it is served as it is",
            path.display(),
            show_size(has),
            show_size(wanted)
        ));
    }
    Ok(())
}

/// Completes a volume whose creation was cut off behind that of its disk: the folder has no
/// settings, and nothing in it is foreign. An existing file system stays unchanged.
fn finish(arguments: &MkfsArguments) -> Result<(), Failure> {
    let volume = &arguments.volume;
    let path = volume.join(DISK_NAME);
    let disk = DiskFile::open(&path, Access::ReadWrite)?;
    match found_in(arguments.design()?, &disk, &path) {
        Ok(found) if found.is_clean => {
            refuse_needed_log(&volume.join(LOG_NAME), false)?;
            settle_in(arguments, found.size)
        }
        Err(Failure::Superblock { .. }) if is_empty_file(&path, &head(&disk, &path)?) => {
            fs::remove_file(&path).map_err(|source| Failure::File {
                verb: "remove",
                path,
                source,
            })?;
            make_in_folder(arguments).map(drop)
        }
        _ => {
            let why = format!(
                "the folder has a {DISK_NAME} and no {SETTINGS_NAME}, and nobody can say whether \
                 it was ever used: see 'duramen info {}'",
                quoted(&path)
            );
            Err(Failure::NotAVolume { path: volume.clone(), why })
        }
    }
}

/// Whether an image is a plain file: no run of ours creates a link to a device or another file.
fn is_own_file(image: &Path) -> bool {
    fs::symlink_metadata(image).is_ok_and(|found| found.is_file())
}

/// Whether an image with this head holds no more than an interrupted run leaves before there is a
/// file system.
fn is_empty_file(image: &Path, head: &[u8]) -> bool {
    is_own_file(image) && (was_never_written(image, head) || is_begun(head))
}

/// Whether this is a folder for a volume whose creation was cut off, or has not begun: it has no
/// settings, and nothing in it is foreign.
fn is_unfinished(folder: &Path) -> bool {
    let is_own = |name: &OsStr| name == DISK_NAME || name != STATE_NAME && is_leftover(name);
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    !folder.join(SETTINGS_NAME).exists()
        && entries.all(|entry| entry.is_ok_and(|entry| is_own(&entry.file_name())))
}

/// Creates the volume. Returns the design for a folder; a bare disk cannot record its design.
fn make(arguments: &MkfsArguments) -> Result<(Made, Option<&'static Design>), Failure> {
    let path = &arguments.volume;
    let design = arguments.design()?;
    if let Some((level, disks)) = make_set::wanted(arguments) {
        return Ok((make_set::make(arguments, level, &disks, design)?, Some(design)));
    }
    match fs::metadata(path) {
        Err(_) if arguments.bare => Ok((make_image(arguments, path)?, None)),
        Err(_) => make_folder(arguments),
        Ok(found) if !found.is_dir() => {
            // An empty image comes from a run that was about to set its length.
            let is_begun = arguments.bare && found.is_file() && found.len() == 0;
            Ok((remake_disk(arguments, path, is_begun)?, None))
        }
        Ok(_) if arguments.bare => {
            let sentence =
                format!("{} is a folder, but --bare makes an image file", path.display());
            Err(Failure::Usage(sentence))
        }
        Ok(_) => make_in_folder(arguments),
    }
}

/// Creates a folder with a volume in it, and the parents of the folder, or nothing at all. The
/// folder may exist.
fn make_folder(arguments: &MkfsArguments) -> Result<(Made, Option<&'static Design>), Failure> {
    require_size(arguments)?;
    let folders = missing_folders(&arguments.volume);
    let make = || {
        for folder in &folders {
            let failed = |source| Failure::File { verb: "create", path: folder.clone(), source };
            create_private(folder).map_err(failed)?;
            sync_folder(parent(folder))?;
        }
        make_in_folder(arguments)
    };
    make().inspect_err(|_| remove_empty(&folders))
}

/// Creates a volume in an empty folder, or over its existing volume.
fn make_in_folder(arguments: &MkfsArguments) -> Result<(Made, Option<&'static Design>), Failure> {
    let folder = &arguments.volume;
    let disk = folder.join(DISK_NAME);
    let design = arguments.design()?;
    arguments.check_log(design)?;
    let is_of_set = folder.join(STATE_NAME).exists() || names_a_set(folder);
    if is_of_set && !arguments.force {
        let what = "a volume on a set of disks".to_owned();
        return Err(Failure::Occupied { path: folder.clone(), what });
    }
    refuse_needed_log(&folder.join(LOG_NAME), arguments.force)?;
    let made = if disk.exists() {
        let made = remake_disk(arguments, &disk, is_unfinished(folder))?;
        settle_in(arguments, made.size)?;
        losses::forget(folder)?; // losses of the previous volume
        made
    } else {
        refuse_foreign_folder(folder)?;
        let made = make_image(arguments, &disk)?;
        settle_in(arguments, made.size).inspect_err(|_| remove_volume(folder))?;
        made
    };
    if is_of_set {
        // The set no longer belongs to this volume.
        for name in [STATE_NAME, ERRORS_NAME] {
            let _ = fs::remove_file(folder.join(name));
        }
    }
    Ok((made, Some(design)))
}

/// Whether the settings in a folder say that its volume is on a set of disks.
fn names_a_set(folder: &Path) -> bool {
    let found = read_settings(&folder.join(SETTINGS_NAME));
    found.is_ok_and(|settings| settings.is_some_and(|it| it.raid.is_some()))
}

/// Adds a log to the disk in a folder, and settings to the folder. `size` is the size of the file
/// system in bytes.
fn settle_in(arguments: &MkfsArguments, size: u64) -> Result<(), Failure> {
    let folder = &arguments.volume;
    let design = arguments.design()?;
    remove_log(&folder.join(LOG_NAME))?;
    remove_log(&folder.join(INTENTS_NAME))?;
    let has_log = design.has(DiskRole::Log);
    let log_size = has_log.then(|| arguments.log_size.unwrap_or_else(|| log_size_for(size)));
    if let Some(size) = log_size {
        log::make(&folder.join(LOG_NAME), size)?;
    }
    if design.keeps_intents {
        intents::make(&folder.join(INTENTS_NAME), size)?;
    }
    write_settings(folder, &Settings { log_size, ..Settings::of(design) })
}

/// Refuses to remove a log that a server is writing. A log that holds changes is removed only with
/// `force`: another volume may need it.
fn refuse_needed_log(path: &Path, force: bool) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    let what = match log::holds_changes(path, Access::ReadWrite)? {
        Ok(true) => "changes that a volume needs, the one that is here or another one".to_owned(),
        Ok(false) => return Ok(()),
        Err(error) => match other_version(&error) {
            Some(version) => format!(
                "a log of version {version} of its format, which this program does not know: it \
                 may hold changes that a volume needs"
            ),
            // A file that is unreadable as a log holds nothing that a replay could write in place.
            None => return Ok(()),
        },
    };
    if force { Ok(()) } else { Err(Failure::Occupied { path: path.to_owned(), what }) }
}

/// Removes the log of the previous volume, which is useless to the new one.
pub(crate) fn remove_log(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::File { verb: "remove", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Removes the files that this run created in a folder. Errors are ignored: the failure that caused
/// the removal is the one reported.
fn remove_volume(folder: &Path) {
    for name in [SETTINGS_NAME, NEW_SETTINGS_NAME, LOG_NAME, INTENTS_NAME, DISK_NAME] {
        let _ = fs::remove_file(folder.join(name));
    }
}

impl Created {
    /// Removes the volume, unless another program has opened it.
    pub(crate) fn undo(self) {
        let Self { volume, folders } = self;
        let Ok(_disk) = DiskFile::open(&volume.join(DISK_NAME), Access::ReadWrite) else { return };
        remove_volume(&volume);
        remove_empty(&folders);
    }
}

fn require_size(arguments: &MkfsArguments) -> Result<u64, Failure> {
    arguments.size.ok_or_else(|| {
        let path = arguments.volume.display();
        Failure::Usage(format!("say how large {path} is to be, for instance --size 1G"))
    })
}

/// Creates an image file with a file system in it, or nothing at all.
fn make_image(arguments: &MkfsArguments, path: &Path) -> Result<Made, Failure> {
    let disk = DiskFile::create(path, require_size(arguments)?)?;
    let made = make_file_system(arguments, disk, path).and_then(|made| {
        sync_folder(parent(path))?;
        Ok(made)
    });
    made.inspect_err(|_| {
        // We created the file, and it holds nothing.
        let _ = fs::remove_file(path);
    })
}

/// Creates a file system on an existing disk. An empty one that an interrupted run may have left at
/// this path is made anew.
fn remake_disk(arguments: &MkfsArguments, path: &Path, may_be_left: bool) -> Result<Made, Failure> {
    let disk = DiskFile::open(path, Access::ReadWrite)?;
    let size = disk.geometry().size;
    let head = head(&disk, path)?;
    let is_left = may_be_left && is_left(&disk, path, &head);
    if !arguments.force && !is_left {
        refuse_occupied(&disk, path, on_it(&head).or(of_a_volume(path)))?;
    }
    let is_other = arguments.size.is_some_and(|wanted| wanted != size);
    if is_left && is_other {
        let verb = "remove";
        let removed = fs::remove_file(path);
        removed.map_err(|source| Failure::File { verb, path: path.to_owned(), source })?;
        drop(disk); // held until now, so that no other program took it
        return make_image(arguments, path);
    }
    arguments.check_size(path, size)?;
    make_file_system(arguments, disk, path)
}

/// Describes a disk whose first bytes are not recognised: they may be lost while the rest remains.
fn of_a_volume(disk: &Path) -> Option<&'static str> {
    let is_of_one = disk.ends_with(DISK_NAME) && disk.with_file_name(SETTINGS_NAME).exists();
    is_of_one.then_some("the disk of a volume, as volume.toml says")
}

/// Whether an interrupted run could have left this image: it was never written, or its file system
/// was begun, or was completed and never used.
fn is_left(disk: &DiskFile, path: &Path, head: &[u8]) -> bool {
    is_empty_file(path, head) || is_own_file(path) && is_fresh(disk)
}

/// Whether a file system is empty and always was: no server has served it since its creation.
fn is_fresh(disk: &DiskFile) -> bool {
    anything_in(disk).is_some_and(|(_, found)| found.is_fresh)
}

fn make_file_system(
    arguments: &MkfsArguments,
    disk: DiskFile,
    path: &Path,
) -> Result<Made, Failure> {
    if arguments.preallocate {
        disk.allocate().map_err(|source| Failure::no_space(path, source))?;
    }
    let (device, design) = (FileDevice::new(disk), arguments.design()?);
    let made = server::reactor::block_on(|runtime| async move {
        let made = arguments.make_on(&device, path, design, &runtime).await?;
        // Otherwise the disk would still pass for a member of its previous set.
        let forgotten = raid::forget_member(&device).await;
        let path = path.to_owned();
        forgotten.map_err(|source| Failure::Device { path, source }).map(|()| made)
    });
    made.map_err(Failure::Start)?
}
