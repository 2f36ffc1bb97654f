//! `duramen mkfs --raid*`: creates a set of disks, and a volume on it.
//!
//! All disks are opened and inspected first, so that every refusal comes before the first write.
//! Then the set is created, the file system on it, and the settings last: a run that is cut off
//! leaves disks with labels and no volume. A run that fails or is interrupted removes the files it
//! has created: it has a thread of its own, beside a thread that handles signals
//! ([`crate::making`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use block::slice::split;
use designs::{Design, DiskRole, Made};
use duramen_settings::{NvramSettings, RaidSettings, Settings};
use futures::FutureExt;
use futures::future::Either;
use raid::assembly::Witness;
use raid::layout::{Layout, Level, UNITS};
use raid::{MakeOptions, RebuildError};
use runtime::Runtime;
use server::reactor;

use crate::failure::Failure;
use crate::folder::{create_private, missing_folders, parent, real_place, sync_folder};
use crate::front::refusal;
use crate::held_folder::HeldFolder;
use crate::log::log_size_for;
use crate::making::{Making, Stage};
use crate::mkfs_arguments::MkfsArguments;
use crate::occupied::{refuse_foreign_folder, refuse_occupied, what_is_on};
use crate::set_state;
use crate::size::show_size;
use crate::stack::{at_once, fill};
use crate::volume::{DISK_NAME, SETTINGS_NAME, write_settings};
use crate::words;
use server::reactor::elsewhere;

/// Alignment of the log's size, in bytes. It makes the log's start independent of the members'
/// sector sizes.
const LARGEST_SECTOR: u64 = 4096;
/// Bytes of an NVRAM's file that is created.
const NVRAM_SIZE: u64 = 24 << 20;
/// Minimum bytes of a member for each byte of its log, where the default log is too large for it.
const LOG_SHARE: u64 = 16;

/// The level that the command line asks for, with the disks. A volume on one disk with an NVRAM
/// stands on a set of one: without the NVRAM, the disk passes for no volume.
pub(crate) fn wanted(arguments: &MkfsArguments) -> Option<(Level, Vec<PathBuf>)> {
    let MkfsArguments { raid0, raid1, raid5, .. } = arguments;
    let all = [(Level::Striped, raid0), (Level::Mirrored, raid1), (Level::Parity, raid5)];
    let asked = all.into_iter().find(|(_, disks)| !disks.is_empty());
    let asked = asked.map(|(level, disks)| (level, disks.clone()));
    let alone = || (Level::Striped, vec![arguments.volume.join(DISK_NAME)]);
    asked.or_else(|| (!arguments.nvram.is_empty()).then(alone))
}

/// Creates the set and the volume on it.
///
/// # Errors
/// [`Failure`]; then there is no volume, and the files that this run created are removed.
pub(crate) fn make(
    arguments: &MkfsArguments,
    level: Level,
    paths: &[PathBuf],
    design: &'static Design,
) -> Result<Made, Failure> {
    let folder = &arguments.volume;
    arguments.check_log(design)?;
    check(arguments, level, paths)?;
    let names = [SETTINGS_NAME, set_state::STATE_NAME, set_state::NEW_STATE_NAME];
    let inside = names.map(|name| folder.join(name));
    let making = Arc::new(Making::default());
    let (run, arguments, paths) = (making.clone(), arguments.clone(), paths.to_vec());
    let work = move || make_all(&arguments, (level, &paths), design, &run);
    let made = reactor::block_on(|_| async {
        match server::unless_ended(elsewhere(work).boxed_local()).await? {
            Either::Left(made) => made,
            Either::Right(rest) => match making.interrupt(&inside) {
                Some(stage) => Err(stage.interrupted()),
                None => rest.await,
            },
        }
    });
    made.map_err(Failure::Start).flatten().inspect_err(|_| making.take_away(&inside))
}

/// Refuses invalid arguments before anything is opened.
fn check(arguments: &MkfsArguments, level: Level, paths: &[PathBuf]) -> Result<(), Failure> {
    if level.spare_of(paths.len()) == 0 && !arguments.spare.is_empty() {
        return Err(Failure::Usage(format!("{level} has no use for a spare")));
    }
    let folder = &arguments.volume;
    let is_alone = paths == [folder.join(DISK_NAME)];
    if folder.join(DISK_NAME).exists() && !is_alone {
        let why = "the folder has a volume on a disk.img; name a new or an empty one";
        return Err(Failure::Usage(format!("{}: {why}", folder.display())));
    }
    if folder.join(SETTINGS_NAME).exists() {
        if !arguments.force {
            let what = "a volume, as volume.toml says".to_owned();
            return Err(Failure::Occupied { path: folder.clone(), what });
        }
    } else if folder.is_dir() {
        refuse_foreign_folder(folder)?;
    } else if folder.exists() {
        let sentence = format!("{} is no folder: a set needs one", folder.display());
        return Err(Failure::Usage(sentence));
    }
    if let Some(unit) = arguments.stripe_unit.filter(|unit| !is_unit(*unit)) {
        let (least, most) = (show_size(*UNITS.start()), show_size(*UNITS.end()));
        let sentence = format!(
            "a stripe unit of {} cannot be: it is a power of two from {least} to {most}",
            show_size(unit)
        );
        return Err(Failure::Usage(sentence));
    }
    let mut seen = BTreeSet::new();
    let mut all = paths.iter().chain(&arguments.spare).chain(&arguments.nvram);
    match all.find(|path| !seen.insert(real_place(path))) {
        Some(twice) => Err(Failure::Usage(format!("{} is named twice", twice.display()))),
        None => Ok(()),
    }
}

fn is_unit(unit: u64) -> bool {
    UNITS.contains(&unit) && unit.is_power_of_two()
}

fn make_all(
    arguments: &MkfsArguments,
    (level, paths): (Level, &[PathBuf]),
    design: &'static Design,
    making: &Making,
) -> Result<Made, Failure> {
    let (mut disks, mut spares) = (Vec::new(), Vec::new());
    if arguments.nvram.len() == 1 && level.spare_of(paths.len()) > 0 {
        words::say(format_args!(
            "one NVRAM in front of {level} is a single point of failure: if it is lost, so is what \
             it holds; two NVRAMs have it twice"
        ));
    }
    let folder = &arguments.volume;
    make_folder(folder, making)?; // it has the disk of a set of one
    for path in paths {
        disks.push(open_member(arguments, path, making)?);
    }
    for path in &arguments.spare {
        spares.push(open_member(arguments, path, making)?);
    }
    let sizes: Vec<u64> = disks.iter().map(|disk| disk.geometry().size).collect();
    let is_file = |path: &PathBuf| path.is_file();
    if paths.iter().all(is_file) && sizes.iter().any(|&size| size != sizes[0]) {
        let sizes: Vec<String> = sizes.iter().map(|size| size.to_string()).collect();
        let sentence = format!("the disks are not of one size: {} bytes", sizes.join(", "));
        return Err(Failure::Usage(sentence));
    }
    let least = sizes.iter().copied().min().unwrap_or_default();
    let usual = MakeOptions::new(level);
    let unit = arguments.stripe_unit.unwrap_or(usual.unit);
    let options = MakeOptions { unit, log: usual.log.min(least / LOG_SHARE), ..usual };
    let (log_size, layout) = check_disks((arguments, design), &options, (paths, &disks), &spares)?;
    let lower = lower_size(arguments.lower, &layout)?;
    set_state::probe(&HeldFolder::open(folder)?)?;
    if !arguments.sparse {
        let all = disks.iter().zip(paths).chain(spares.iter().zip(&arguments.spare));
        for (disk, path) in all {
            disk.allocate().map_err(|source| Failure::no_space(path, source))?;
        }
    }
    let pinned = log_size * u64::from(arguments.pin_log);
    let nvram_size = NvramSize { asked: arguments.upper, pinned, lower };
    let nvrams = open_nvrams(&arguments.nvram, &nvram_size, arguments.force, making)?;
    making.go_on(Stage::Writing)?;
    let nvram_paths = arguments.nvram.iter().map(|path| real_place(path));
    let nvram = NvramSettings::of(nvram_paths, arguments.pin_log);
    let made = reactor::block_on(|runtime| async move {
        let options = (&options, log_size, design);
        make_on(arguments, (disks, spares, (nvrams, nvram_size)), paths, options, &runtime).await
    });
    let made = made.map_err(Failure::Start)??;
    making.go_on(Stage::Ending)?;
    let members = paths.iter().map(|path| real_place(path)).collect();
    let spares = arguments.spare.iter().map(|path| real_place(path)).collect();
    let raid = Some(RaidSettings { set: made.set, members, spares, ..RaidSettings::default() });
    let settings = Settings { log_size: Some(log_size), raid, nvram, ..Settings::of(design) };
    write_settings(folder, &settings)?;
    // The state is written after the settings: until they are written, the folder has its previous
    // volume, if any.
    set_state::write(&HeldFolder::open(folder)?, &made.set, &made.witness)?;
    Ok(made.volume)
}

/// Creates the folder of the volume and its parents, as far as they do not exist.
fn make_folder(folder: &Path, making: &Making) -> Result<(), Failure> {
    for folder in missing_folders(folder) {
        let failed = |source| Failure::File { verb: "create", path: folder.clone(), source };
        making.create(&folder, || create_private(&folder).map_err(failed))?;
        sync_folder(parent(&folder))?;
    }
    Ok(())
}

/// Checks what the disks allow, and returns the size of the log and the layout of the set.
fn check_disks(
    (arguments, design): (&MkfsArguments, &Design),
    options: &MakeOptions,
    (paths, disks): (&[PathBuf], &[DiskFile]),
    spares: &[DiskFile],
) -> Result<(u64, Layout), Failure> {
    let sizes: Vec<u64> = disks.iter().map(|disk| disk.geometry().size).collect();
    let layout = options.layout(&sizes).map_err(|source| {
        let (path, disks) = (arguments.volume.clone(), paths.to_vec());
        Failure::Set { path, source, disks }
    })?;
    for (spare, path) in spares.iter().zip(&arguments.spare) {
        let has = options.rows(layout.members, spare.geometry().size);
        if has < layout.rows {
            let error = RebuildError::TooSmall { has, needed: layout.rows };
            return Err(Failure::Usage(format!("{}: {error}", path.display())));
        }
    }
    let size = layout.size();
    let log_size = arguments.log_size.unwrap_or_else(|| log_size_for(size));
    let log_size = log_size.next_multiple_of(LARGEST_SECTOR);
    let end = size.checked_sub(log_size).filter(|end| *end > 0).ok_or_else(|| {
        let (size, log) = (show_size(size), show_size(log_size));
        Failure::Usage(format!("the set has {size}, and no room for a log of {log}"))
    })?;
    let sectors = disks.iter().map(|disk| disk.geometry().logical_sector_size);
    arguments.check_file_system(design, end, options.level.sector(sectors))?;
    Ok((log_size, layout))
}

/// Creates the file of a disk.
fn create_disk(path: &Path, size: u64, making: &Making) -> Result<DiskFile, Failure> {
    let disk = making.create(path, || Ok(DiskFile::create(path, size)?))?;
    sync_folder(parent(path))?;
    Ok(disk)
}

/// Opens or creates a disk that becomes a member.
fn open_member(
    arguments: &MkfsArguments,
    path: &Path,
    making: &Making,
) -> Result<DiskFile, Failure> {
    if !path.exists() {
        let size = arguments.size.ok_or_else(|| {
            let path = path.display();
            Failure::Usage(format!("there is no {path}; with --size, such as 4G, it is made"))
        })?;
        return create_disk(path, size, making);
    }
    let disk = DiskFile::open(path, Access::ReadWrite)?;
    arguments.check_size(path, disk.geometry().size)?;
    if !arguments.force {
        refuse_occupied(&disk, path, what_is_on(&disk, path)?)?;
    }
    Ok(disk)
}

/// Bytes of the log device in an NVRAM, for a set with this layout; 0 for none.
///
/// # Errors
/// [`Failure::Usage`] if they are too few, or the set has no log.
pub(crate) fn lower_size(asked: Option<u64>, layout: &Layout) -> Result<u64, Failure> {
    let Some(asked) = asked else { return Ok(0) };
    let Some(least) = raid::least_log_device(layout) else {
        let sentence = "--lower is for the log of a mirror or RAID-5, and this set has none";
        return Err(Failure::Usage(sentence.to_owned()));
    };
    if asked < least {
        let [asked, least] = [asked, least].map(show_size);
        let sentence = format!("--lower {asked} is too little: this set takes {least} at least");
        return Err(Failure::Usage(sentence));
    }
    Ok(asked.next_multiple_of(LARGEST_SECTOR))
}

/// The size of an NVRAM.
#[derive(Clone, Copy)]
pub(crate) struct NvramSize {
    /// That of a new file, as a user asked for it.
    pub(crate) asked: Option<u64>,
    /// Bytes of a log that is to stay in it.
    pub(crate) pinned: u64,
    /// Bytes of the log device behind it in its file; 0 for none.
    pub(crate) lower: u64,
}

impl NvramSize {
    /// Where the log device begins in a file of this size, if there is one.
    fn log_start(&self, size: u64) -> Option<u64> {
        let start = size.saturating_sub(self.lower);
        (self.lower > 0).then_some(start - start % LARGEST_SECTOR)
    }

    /// The least that is enough for the log, in whole MiB.
    fn least(&self) -> u64 {
        let needed = |pinned| nvram::size_to_pin(&(0..pinned)).next_multiple_of(1 << 20);
        if self.pinned == 0 { 0 } else { needed(self.pinned) }
    }
}

/// Opens or creates files or devices that become NVRAMs.
///
/// # Errors
/// As for [`open_nvram`].
pub(crate) fn open_nvrams(
    paths: &[PathBuf],
    size: &NvramSize,
    is_forced: bool,
    making: &Making,
) -> Result<Vec<(PathBuf, DiskFile)>, Failure> {
    let open = |path: &PathBuf| Ok((path.clone(), open_nvram(path, size, is_forced, making)?));
    let opened = paths.iter().map(open).collect::<Result<Vec<(PathBuf, DiskFile)>, Failure>>()?;
    if let [(one, disk), (other, second)] = &opened[..]
        && size.log_start(disk.geometry().size) != size.log_start(second.geometry().size)
    {
        let [one, other] = [one, other].map(|path| path.display());
        let sentence = format!("with --lower, {one} and {other} have to be of one size");
        return Err(Failure::Usage(sentence));
    }
    Ok(opened)
}

/// Opens or creates a file or device that becomes an NVRAM, with room on its host for all of it.
///
/// # Errors
/// [`Failure`] if there is something else on it, or it is too small.
fn open_nvram(
    path: &Path,
    size: &NvramSize,
    is_forced: bool,
    making: &Making,
) -> Result<DiskFile, Failure> {
    let disk = if path.exists() {
        let disk = DiskFile::open(path, Access::ReadWrite)?;
        if !is_forced {
            refuse_occupied(&disk, path, what_is_on(&disk, path)?)?;
        }
        disk
    } else {
        let upper = size.asked.unwrap_or(NVRAM_SIZE.max(size.least()));
        create_disk(path, upper + size.lower, making)?
    };
    if u64::from(disk.geometry().logical_sector_size) > nvram::format::SECTOR {
        let path = path.display();
        return Err(Failure::Usage(format!("{path} has sectors of more than 512 bytes")));
    }
    let (shown, has) = (path.display(), disk.geometry().size);
    let has = size.log_start(has).unwrap_or(has);
    if nvram::format::Layout::of(has).is_none() {
        let has = show_size(has);
        return Err(Failure::Usage(format!("{shown} has {has}, which is too little for an NVRAM")));
    }
    if has < size.least() {
        let [has, log, least] = [has, size.pinned, size.least()].map(show_size);
        return Err(Failure::Usage(format!(
            "{shown} has {has}, and a log of {log} that stays in the NVRAM takes {least}"
        )));
    }
    disk.allocate().map_err(|source| Failure::no_space(path, source))?;
    Ok(disk)
}

/// Makes a file or device the NVRAM of a set, or two: empty, and named on the labels.
///
/// # Errors
/// [`Failure::Nvram`]; [`Failure::Device`].
pub(crate) async fn put_in_front(
    volume: &Path,
    nvrams: Vec<(PathBuf, DiskFile)>,
    (set, size): (&raid::Set, &NvramSize),
    runtime: &Runtime,
) -> Result<(), Failure> {
    let (paths, disks): (Vec<PathBuf>, Vec<DiskFile>) = nvrams.into_iter().unzip();
    let (mut devices, mut lowers, mut log_start) = (Vec::new(), Vec::new(), None);
    for disk in disks {
        let device = at_once(disk);
        let whole = device.geometry().size;
        log_start = size.log_start(whole);
        let [device, lower] = split(device, log_start.unwrap_or(whole));
        devices.push(Rc::new(device) as Rc<dyn BlockDevice>);
        lowers.push(lower);
    }
    let id = raid::label::new_id(&*runtime.random);
    let covers = set.geometry().size;
    let (made, out) = match &devices[..] {
        [one, other] => (nvram::make_two([one, other], id, covers).await, Some([false; 2])),
        [one] => (nvram::make(one, id, covers).await, None),
        _ => return Ok(()),
    };
    let label = made.map_err(|source| refusal(volume, &paths, source))?;
    let failed = |at: &Path| {
        let path = at.to_owned();
        move |source| Failure::Device { path, source }
    };
    for ((device, lower), path) in devices.iter().zip(&lowers).zip(&paths) {
        device.close().await.map_err(failed(path))?;
        lower.close().await.map_err(failed(path))?;
    }
    let generation = label.generation;
    let paired = raid::label::Nvram { id, generation, is_dirty: false, out, log_start };
    set.stand_behind(Some(paired)).await.map_err(failed(volume))
}

/// A file or device that becomes an NVRAM, with its path.
type NewNvrams = (Vec<(PathBuf, DiskFile)>, NvramSize);

/// A newly created set with its volume.
struct MadeSet {
    volume: Made,
    set: raid::label::Id,
    witness: Witness,
}

async fn make_on(
    arguments: &MkfsArguments,
    (disks, spares, nvrams): (Vec<DiskFile>, Vec<DiskFile>, NewNvrams),
    paths: &[PathBuf],
    (options, log_size, design): (&MakeOptions, u64, &'static Design),
    runtime: &Runtime,
) -> Result<MadeSet, Failure> {
    let (path, disks) = (arguments.volume.clone(), disks.into_iter().map(at_once));
    let devices: Vec<Rc<dyn BlockDevice>> = disks.collect();
    let failed = |source| Failure::Set { path: path.clone(), source, disks: paths.to_vec() };
    raid::make(&devices, options, runtime).await.map_err(failed)?;
    let set = raid::open(devices, runtime, raid::OpenOptions::default()).await.map_err(failed)?;
    for (spare, at) in spares.into_iter().zip(&arguments.spare) {
        let device = at_once(spare);
        let made = raid::make_spare(&*device, &set.label().set).await;
        made.map_err(|source| Failure::Device { path: at.clone(), source })?;
    }
    let set = Rc::new(set);
    let end = set.geometry().size - log_size;
    let [disk, log] = split(set.clone(), end);
    let volume = arguments.make_on(&disk, &path, design, runtime).await?;
    let device = |source| Failure::Device { path: path.clone(), source };
    if arguments.sparse && design.has(DiskRole::Log) {
        fill(&log).await.map_err(device)?; // allocates its space, so a full host cannot stop it
    }
    disk.flush().await.map_err(device)?;
    let (nvrams, size) = nvrams;
    put_in_front(&arguments.volume, nvrams, (&set, &size), runtime).await?;
    let label = set.label();
    disk.close().await.map_err(device)?;
    log.close().await.map_err(device)?;
    Ok(MadeSet { volume, set: label.set, witness: Witness::of(&label) })
}
