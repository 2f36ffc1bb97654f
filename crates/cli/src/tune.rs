//! `duramen tune`: changes the policy of an existing volume, its label, or the space reserved for
//! root.
//!
//! # Contract
//! A volume is changed only if it was stopped cleanly, so that its log holds nothing. Its engine
//! changes the reserve first. The label is in the superblock, and changes next; so does the flag of
//! soft updates, from which other systems know the policy, as we do for a bare disk. The settings
//! are written last: a cut leaves the old policy or the new one, and either works, because a clean
//! volume without its log gets a new one.

use std::io::Write;
use std::path::{Path, PathBuf};

use block::file::Access;
use clap::{ArgGroup, Args};
use designs::{Design, DiskRole, Found, OpenError};
use duramen_settings::{NvramSettings, Settings};
use runtime::Runtime;
use server::reactor::{self, elsewhere};

use crate::choice::{Word, chosen, promises};
use crate::failure::{Failure, shown_nvrams};
use crate::folder::real_place;
use crate::found::found_on;
use crate::held_folder::HeldFolder;
use crate::intents::INTENTS_NAME;
use crate::log::{self, LOG_NAME, log_size_for};
use crate::make_set::{NvramSize, lower_size, open_nvrams, put_in_front};
use crate::making::Making;
use crate::mkfs::remove_log;
use crate::mkfs_arguments::refuse_without_log;
use crate::redo_log::LogError;
use crate::size::{parse_size, show_size};
use crate::stack::{Stack, at_once, fill};
use crate::volume::{Volume, change_settings};

/// Text at the end of `duramen tune --help`.
pub(crate) fn help() -> String {
    let promises = promises();
    format!(
        "\
The volume must have been shut down cleanly, and must not be served meanwhile.

{promises}
Examples:
  duramen tune data --policy log
  duramen tune data --policy sync
  duramen tune data --label archive
  duramen tune data --reserve 5
  duramen tune data --nvram /mnt/pmem/n0 /mnt/ssd/n1
  duramen tune data --nvram /mnt/pmem/n0 --lower 8M
  duramen tune data --nvram-health /run/battery
  duramen tune data --no-nvram
  duramen tune disk.img --label archive"
    )
}

/// The options that change something: at least one must be given.
const CHANGES: [&str; 7] =
    ["policy", "label", "reserve", "nvram", "no_nvram", "nvram_health", "no_nvram_health"];

/// The arguments of `duramen tune`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").args(CHANGES).required(true).multiple(true)))]
pub(crate) struct TuneArguments {
    /// Volume to change: a folder, or for a label or reserve also a disk
    pub(crate) volume: PathBuf,
    /// Write policy of engine ffs
    #[arg(long, value_parser = Word::Policy)]
    pub(crate) policy: Option<String>,
    /// Volume label: up to 31 letters, digits, '-' and '_'; '' for none
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Percentage of the space reserved: 0 to 20 for root (engine shadow), or 0 to 50 for the
    /// cleaner (engine lfs)
    #[arg(long, value_name = "PERCENT")]
    pub(crate) reserve: Option<u64>,
    /// Put an NVRAM, or two, in front of a volume on a RAID set. A missing file is created, of 24
    /// MiB
    #[arg(long, value_name = "PATH", num_args = 1..=2, conflicts_with = "no_nvram")]
    pub(crate) nvram: Vec<PathBuf>,
    /// Keep the log of policy 'log' in the new NVRAM: no call waits for a disk
    #[arg(long, requires = "nvram")]
    pub(crate) pin_log: bool,
    /// Size of the part of the new NVRAM that gets the log of the set, so that a small write to a
    /// mirror or RAID-5 costs the disks less. A file that is created has it in addition
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "nvram")]
    pub(crate) lower: Option<u64>,
    /// Write everything to the disks and stop using the NVRAM for good
    #[arg(long)]
    pub(crate) no_nvram: bool,
    /// Read from this file, once a second, whether the NVRAM's battery is 'ok' or 'low'
    #[arg(long, value_name = "PATH", conflicts_with_all = ["no_nvram_health", "no_nvram"])]
    pub(crate) nvram_health: Option<PathBuf>,
    /// Stop reading the state of the battery, and trust it
    #[arg(long, conflicts_with = "no_nvram")]
    pub(crate) no_nvram_health: bool,
    /// Overwrite what the new NVRAM holds, or give up data that the old one has lost
    #[arg(long)]
    pub(crate) force: bool,
}

/// Changes the volume and prints the new state.
///
/// # Errors
/// [`Failure`]; then the policy is unchanged, and the label and the reserve are old or new.
pub(crate) fn run(arguments: &TuneArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let volume = &Volume::find(&arguments.volume)?;
    // Another policy of the same engine keeps the format.
    let engine = volume.design().engine;
    let design = arguments.policy.as_deref().map(|policy| chosen(Some(engine), Some(policy)));
    let design = design.transpose()?;
    refuse_impossible(volume, arguments, design)?;
    let changed = reactor::block_on(|runtime| async move {
        // A set has room for a log, whatever its old policy.
        let mut will_be = volume.clone();
        will_be.settings.design = design.filter(|_| is_on_set(volume)).unwrap_or(volume.design());
        let stack = will_be.open(Access::ReadWrite, &at_once, &runtime).await?;
        // The stack stays open to the end, so that no server serves the volume meanwhile.
        let mut changed = change(volume, arguments, design, (&stack, &runtime), output).await;
        if changed.is_ok() {
            changed = change_nvram(volume, arguments, (&stack, &runtime), output).await;
        }
        changed.and(stack.close(volume).await)
    });
    changed.map_err(Failure::Start)?
}

/// Changes the open disks, then the settings, and prints the new state.
async fn change(
    volume: &Volume,
    arguments: &TuneArguments,
    design: Option<&'static Design>,
    (stack, runtime): (&Stack, &Runtime),
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let found = change_disk(volume, arguments, design, (stack, runtime)).await?;
    let path = volume.path.display();
    if let Some(percent) = arguments.reserve {
        writeln!(output, "{path} keeps {percent} percent of its space for root")?;
    }
    if let Some(label) = &arguments.label {
        if label.is_empty() {
            writeln!(output, "{path} has no label")?
        } else {
            writeln!(output, "{path} has label {label}")?
        }
    }
    match (design, &volume.folder) {
        (None, _) => Ok(()),
        (Some(design), Some(folder)) => {
            let (volume, folder) = (volume.clone(), folder.clone());
            let change = move || change_policy(&volume, &folder, &found, design);
            Ok(writeln!(output, "{}", elsewhere(change).await?)?)
        }
        (Some(design), None) => Ok(writeln!(output, "{path} has policy {}", design.name())?),
    }
}

/// Gives the set an NVRAM, or takes it away, then changes the settings. The labels of the set
/// decide: whatever the settings say, a set that needs nothing of its NVRAM is served without it.
async fn change_nvram(
    volume: &Volume,
    arguments: &TuneArguments,
    (stack, runtime): (&Stack, &Runtime),
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let (Some(open), Some(folder)) = (&stack.set, &volume.folder) else { return Ok(()) };
    let path = volume.path.display();
    if !arguments.nvram.is_empty() {
        let making = Making::default();
        let given = give_nvram(volume, arguments, (&open.set, folder), &making, runtime);
        given.await.inspect_err(|_| making.take_away(&[]))?;
        let what = if arguments.nvram.len() == 1 { "the NVRAM" } else { "the NVRAMs" };
        writeln!(output, "{path} has {what}{}", shown_nvrams(&arguments.nvram))?;
    }
    change_health(folder, arguments, output)?;
    if arguments.no_nvram {
        let failed = |source| Failure::Device { path: volume.path.clone(), source };
        if let Some(nvram) = open.front.as_ref().and_then(|front| front.nvram().cloned()) {
            let lost = nvram.status().lost_bytes;
            if lost > 0 && !arguments.force {
                let why = format!(
                    "{lost} bytes of its NVRAM are lost, and older bytes of the disks would take \
                     their place; if that is meant, say --force"
                );
                return Err(Failure::NotDone { path: volume.path.clone(), why });
            }
            nvram.give_up_lost().await.map_err(failed)?;
        }
        if let Some(front) = &open.front {
            front.leave_lower().await.map_err(failed)?;
            front.nvram().into_iter().for_each(|nvram| nvram.part());
        }
        // In this order, a cut leaves a volume that is served without its NVRAM.
        change_settings(&HeldFolder::open(folder)?, |now| Ok(Settings { nvram: None, ..now }))?;
        open.set.stand_behind(None).await.map_err(failed)?;
        writeln!(output, "{path} has no NVRAM")?;
    }
    Ok(())
}

/// Makes an NVRAM, or two, and gives them to the set.
///
/// # Errors
/// [`Failure`]; then the set has none.
async fn give_nvram(
    volume: &Volume,
    arguments: &TuneArguments,
    (set, folder): (&raid::Set, &Path),
    making: &Making,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let log_size = volume.settings.log_size.unwrap_or_default();
    let pinned = log_size * u64::from(arguments.pin_log);
    let lower = lower_size(arguments.lower, &set.layout())?;
    let size = NvramSize { asked: None, pinned, lower };
    let nvrams = open_nvrams(&arguments.nvram, &size, arguments.force, making)?;
    let mut given = put_in_front(&volume.path, nvrams, (set, &size), runtime).await;
    if given.is_ok() {
        let paths = arguments.nvram.iter().map(|place| real_place(place));
        let nvram = NvramSettings::of(paths, arguments.pin_log);
        given = HeldFolder::open(folder).and_then(|folder| {
            change_settings(&folder, |now| Ok(Settings { nvram: nvram.clone(), ..now }))
        });
    }
    if given.is_err() {
        // A set that names an NVRAM which is not there would be served all the same.
        let _ = set.stand_behind(None).await;
    }
    given
}

/// Changes where the health of the NVRAM is read.
fn change_health(
    folder: &Path,
    arguments: &TuneArguments,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let health = arguments.nvram_health.as_deref().map(real_place);
    if health.is_none() && !arguments.no_nvram_health {
        return Ok(());
    }
    change_settings(&HeldFolder::open(folder)?, |now| {
        let nvram = now.nvram.map(|nvram| NvramSettings { health: health.clone(), ..nvram });
        Ok(Settings { nvram, ..now })
    })?;
    let path = folder.display();
    match health {
        Some(health) => {
            writeln!(output, "{path} reads the health of its NVRAM from {}", health.display())?;
        }
        None => writeln!(output, "{path} trusts the battery of its NVRAM")?,
    }
    Ok(())
}

/// Refuses changes that are impossible for such a volume.
fn refuse_impossible(
    volume: &Volume,
    arguments: &TuneArguments,
    design: Option<&Design>,
) -> Result<(), Failure> {
    let (path, engine) = (volume.path.display(), volume.design().engine);
    let is_bare = volume.folder.is_none();
    if is_bare && design.is_some_and(|design| design.has(DiskRole::Log)) {
        let sentence = format!(
            "{path} is a bare disk, which has no settings: 'duramen serve --log' names its log"
        );
        return Err(Failure::Usage(sentence));
    }
    if arguments.label.as_ref().is_some_and(|label| !ufs2::label::is_legal(label)) {
        let sentence = "a label has at most 31 letters, digits, '-' and '_'".to_owned();
        return Err(Failure::Usage(sentence));
    }
    let names_health = arguments.nvram_health.is_some() || arguments.no_nvram_health;
    let is_given = !arguments.nvram.is_empty();
    let names_nvram = is_given || arguments.no_nvram || names_health;
    if names_nvram && volume.settings.raid.is_none() {
        let sentence = format!(
            "{path} does not stand on a set of disks, and an NVRAM stands in front of one: make a \
             new volume with 'duramen mkfs --nvram' and copy the files"
        );
        return Err(Failure::Usage(sentence));
    }
    if arguments.pin_log {
        refuse_without_log(volume.design(), "--pin-log")?;
    }
    let has_one = volume.settings.nvram.is_some();
    let will_have_one = has_one || is_given;
    if is_given && has_one || arguments.no_nvram && !has_one || names_health && !will_have_one {
        let what = if has_one { "has an NVRAM already" } else { "has no NVRAM" };
        return Err(Failure::Usage(format!("{path} {what}")));
    }
    if let [one, other] = &arguments.nvram[..]
        && real_place(one) == real_place(other)
    {
        return Err(Failure::Usage(format!("{} is named twice", other.display())));
    }
    if arguments.reserve.is_some() && volume.design().work().set_reserve.is_none() {
        let sentence = format!(
            "{path}: a volume of engine {engine} keeps the reserve with which it was made by \
             'duramen mkfs --reserve'"
        );
        return Err(Failure::Usage(sentence));
    }
    Ok(())
}

/// Refuses a volume that must not be changed, and changes the contents of its disk.
async fn change_disk(
    volume: &Volume,
    arguments: &TuneArguments,
    design: Option<&'static Design>,
    (stack, runtime): (&Stack, &Runtime),
) -> Result<Found, Failure> {
    let found = found_on(volume.design(), &*stack.disk, &volume.disk_path).await?;
    let (path, words) = (volume.path.display(), volume.words());
    if !found.is_clean || found.is_torn {
        let why = format!(
            "it was not stopped cleanly: serve it until 'duramen info' says that nothing is left \
             to reclaim, and stop it, or repair it with 'duramen fsck --repair {words}', before it \
             is changed"
        );
        return Err(Failure::NotDone { path: volume.path.clone(), why });
    }
    if let Some(what) = found.only_read {
        return Err(Failure::Usage(format!("{path} is {what}: it can only be read")));
    }
    if let Some(doubt) = &found.doubt {
        let why = format!("{doubt}: check it with 'duramen fsck {words}' first");
        return Err(Failure::NotDone { path: volume.path.clone(), why });
    }
    let refused = |error: OpenError| Failure::refused(&volume.path, volume.words(), error);
    if let Some(percent) = arguments.reserve
        && let Some(set_reserve) = volume.design().work().set_reserve
    {
        set_reserve(&stack.disk, runtime, percent).await.map_err(refused)?;
    }
    if let Some(label) = &arguments.label {
        let set_label = volume.design().work().set_label;
        set_label(&*stack.disk, label).await.map_err(refused)?;
    }
    if let Some(design) = design {
        let note_policy = design.work().note_policy;
        note_policy(&*stack.disk, design).await.map_err(refused)?;
    }
    if let Some(log) = stack.log.as_ref().filter(|_| !volume.design().has(DiskRole::Log)) {
        let filled = fill(&**log).await;
        filled.map_err(|source| Failure::Device { path: volume.path.clone(), source })?;
    }
    Ok(found)
}

fn is_on_set(volume: &Volume) -> bool {
    volume.settings.raid.is_some()
}

/// Changes the settings in a folder, and its log. Returns a message about it.
fn change_policy(
    volume: &Volume,
    folder: &Path,
    found: &Found,
    design: &'static Design,
) -> Result<String, Failure> {
    let path = volume.path.display();
    let log = folder.join(LOG_NAME);
    let size = found.size;
    if !design.has(DiskRole::Log) && log.exists() {
        refuse_needed(volume, &log, found)?;
    }
    let log_size = design
        .has(DiskRole::Log)
        .then(|| volume.settings.log_size.unwrap_or_else(|| log_size_for(size)));
    if let Some(size) = log_size.filter(|_| !is_on_set(volume) && !log.exists()) {
        log::make(&log, size)?;
    }
    change_settings(&HeldFolder::open(folder)?, |now| {
        // Without a log, the setting is kept as the size of a later log.
        let log_size = now.log_size.or(log_size);
        Ok(Settings { design, log_size, ..now })
    })?;
    if !design.keeps_intents {
        remove_log(&folder.join(INTENTS_NAME))?;
    }
    let name = design.name();
    if let Some(size) = log_size {
        return Ok(format!("{path} has policy {name}, with a log of up to {}", show_size(size)));
    }
    remove_log(&log)?;
    Ok(format!("{path} has policy {name}"))
}

/// Refuses to remove a log that holds changes: of this volume, saved and recovered since, or of
/// other volumes that were served with it.
fn refuse_needed(volume: &Volume, log: &Path, found: &Found) -> Result<(), Failure> {
    match log::holds_changes(log, Access::ReadOnly)? {
        Ok(false) => Ok(()),
        Ok(true) => {
            let owner = log::owner(log)?;
            let is_anothers = owner.is_some_and(|owner| owner != found.number);
            let error = if is_anothers { LogError::LogAnothers } else { LogError::LogLeft };
            Err(Failure::refused(&volume.path, volume.words(), error))
        }
        Err(error) => Err(Failure::refused(&volume.path, volume.words(), error)),
    }
}
