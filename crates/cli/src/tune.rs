//! `duramen tune`: changes how an existing volume makes its changes durable.
//!
//! # Contract
//! A volume is only changed when it was stopped cleanly, so that its log holds nothing. The
//! settings are written last: whatever is cut off leaves the old policy or the new one, and either
//! works, because a clean volume that misses its log gets a new one.

use std::io::Write;
use std::path::{Path, PathBuf};

use block::file::Access;
use clap::Args;
use duramen_settings::{PolicyName, Settings};
use ffs::OpenError;

use crate::failure::Failure;
use crate::log::{self, LOG_NAME, log_size_for};
use crate::mkfs::remove_log;
use crate::size::show_size;
use crate::volume::{Volume, read_superblock, write_settings};

/// What `duramen tune --help` says at its end.
pub(crate) const HELP: &str = "\
The volume must have been stopped cleanly, and nobody may serve it meanwhile.

Examples:
  duramen tune data --policy log
  duramen tune data --policy sync";

/// The arguments of `duramen tune`.
#[derive(Args, Debug)]
pub(crate) struct TuneArguments {
    /// Which volume: a folder
    pub(crate) volume: PathBuf,
    /// How changes become durable
    #[arg(long, value_enum)]
    pub(crate) policy: PolicyName,
}

/// Changes the settings and says what they are.
///
/// # Errors
/// [`Failure`]; then the volume is as it was.
pub(crate) fn run(arguments: &TuneArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let volume = Volume::find(&arguments.volume)?;
    let path = volume.path.display();
    let Some(folder) = volume.folder.clone() else {
        let sentence = format!(
            "{path} is a bare disk, which has no settings: 'duramen serve --log' names its log"
        );
        return Err(Failure::Usage(sentence));
    };
    // Held to the end: nobody begins to serve it meanwhile.
    let disk = volume.open(Access::ReadWrite)?;
    let found = read_superblock(&disk, &volume.disk_path)?;
    if found.superblock.clean != 1 {
        let sentence = format!(
            "{path} was not stopped cleanly: serve it and stop it, or repair it with 'duramen fsck \
             --repair {path}', before its policy is changed"
        );
        return Err(Failure::Usage(sentence));
    }
    let log = folder.join(LOG_NAME);
    let size = found.geometry.byte_address(found.geometry.size);
    let policy = arguments.policy;
    if policy == PolicyName::Sync && log.exists() {
        refuse_needed(&volume, &log)?;
    }
    let log_size = (policy == PolicyName::Log)
        .then(|| volume.settings.log_size.unwrap_or_else(|| log_size_for(size)));
    if let Some(size) = log_size.filter(|_| !log.exists()) {
        log::make(&log, size)?;
    }
    // Without a log, its size is that which it is to have another day.
    let settings = Settings { policy, log_size: log_size.or(volume.settings.log_size) };
    write_settings(&folder, &settings)?;
    match log_size {
        Some(size) => {
            writeln!(output, "{path} has policy log, with a log of up to {}", show_size(size))?;
        }
        None => {
            remove_log(&log)?;
            writeln!(output, "{path} has policy sync")?;
        }
    }
    Ok(())
}

/// A log that goes holds nothing: no changes of this volume that somebody put away and brought
/// back, and none of others that were served with it.
fn refuse_needed(volume: &Volume, log: &Path) -> Result<(), Failure> {
    let (path, words) = (volume.path.clone(), volume.words());
    match log::holds_changes(log, Access::ReadOnly)? {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::Engine { path, words, source: OpenError::LogLeft.into() }),
        Err(error) => Err(Failure::Engine { path, words, source: error.into() }),
    }
}
