//! The volumes that a server is to serve, by its command line or its configuration, and whether
//! they can be served together.
//!
//! `duramen serve` and `duramen config --check` judge by the same functions. Damage to a volume
//! shows only when it is opened.

use std::fs;
use std::path::{Path, PathBuf};

use server::{Config, ServeError, check_names};

use crate::failure::Failure;
use crate::volume::Volume;

/// Message about a control socket for a volume with a folder.
const OWN_SOCKET: &str =
    "--control is for one bare disk: a folder has its own socket, control.sock";

/// The words of a command line about volumes.
#[derive(Clone, Copy, Default)]
pub(crate) struct VolumeWords<'a> {
    /// The volumes; without any, those of the configuration are meant.
    pub(crate) volumes: &'a [PathBuf],
    pub(crate) log: Option<&'a Path>,
    pub(crate) control: Option<&'a Path>,
}

/// A volume to serve.
pub(crate) struct WantedVolume {
    /// Name of its export.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) log: Option<PathBuf>,
    /// Control socket of a bare disk.
    pub(crate) control: Option<PathBuf>,
}

/// A volume and its name in the export list.
pub(crate) type NamedVolume = (String, Volume);

/// The volumes of the command line or, without any, of the configuration. Nothing of them needs to
/// exist yet.
///
/// # Errors
/// [`Failure`] if there are none, if their names or logs do not go together, or if the
/// configuration has rules for others.
pub(crate) fn wanted_of(
    words: VolumeWords<'_>,
    config: &Config,
) -> Result<Vec<WantedVolume>, Failure> {
    let has_volumes_of_file = words.volumes.is_empty();
    let log = || words.log.map(Path::to_owned);
    let wanted = if has_volumes_of_file {
        let sections = config.volumes.iter().map(|(name, section)| WantedVolume {
            name: name.clone(),
            path: section.path.clone(),
            log: log().or_else(|| section.log.clone()),
            control: section.control.clone(),
        });
        sections.collect()
    } else {
        let named = words.volumes.iter().map(|path| {
            let (name, path, log) = (export_name(path)?, path.clone(), log());
            Ok(WantedVolume { name, path, log, control: None })
        });
        named.collect::<Result<Vec<_>, Failure>>()?
    };
    if wanted.is_empty() {
        let sentence = "name a VOLUME, or put a section [volumes.NAME] with its path into the \
                        configuration";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
    if let Err(error) = check_names(&names) {
        // One volume under two paths has one name: that says more.
        let find =
            |wanted: &WantedVolume| Some((wanted.name.clone(), Volume::find(&wanted.path).ok()?));
        refuse_twins(&wanted.iter().filter_map(find).collect::<Vec<_>>())?;
        return Err(ServeError::from(error).into());
    }
    config.exports_for(&names, has_volumes_of_file).map_err(ServeError::from)?;
    common_log(&wanted)?;
    Ok(wanted)
}

/// Finds the volumes to serve.
///
/// # Errors
/// [`Failure`] if one does not exist or cannot be served that way, or if two are the same.
pub(crate) fn find_all(
    wanted: &[WantedVolume],
    words: VolumeWords<'_>,
) -> Result<Vec<NamedVolume>, Failure> {
    let mut found = Vec::new();
    for WantedVolume { name, path, log, control } in wanted {
        let volume = Volume::find(path)?.with_log(log.as_deref())?;
        if control.is_some() && volume.folder.is_some() {
            return Err(Failure::Usage(OWN_SOCKET.to_owned()));
        }
        found.push((name.clone(), volume));
    }
    refuse_twins(&found)?;
    refuse_unclear_control(&found, words.control)?;
    Ok(found)
}

/// Refuses `--control` unless it can mean only one disk.
fn refuse_unclear_control(found: &[NamedVolume], control: Option<&Path>) -> Result<(), Failure> {
    let bare = found.iter().filter(|(_, volume)| volume.folder.is_none()).count();
    if control.is_none() || bare == 1 {
        return Ok(());
    }
    Err(Failure::Usage(OWN_SOCKET.to_owned()))
}

/// The log that all volumes are given. Volumes that share one are opened together.
///
/// # Errors
/// [`Failure::Usage`] if some share a log, and not all.
pub(crate) fn common_log(wanted: &[WantedVolume]) -> Result<Option<PathBuf>, Failure> {
    let logs: Vec<&PathBuf> = wanted.iter().filter_map(|wanted| wanted.log.as_ref()).collect();
    let is_common = logs.len() == wanted.len() && logs.windows(2).all(|two| two[0] == two[1]);
    let is_shared = |log: &&PathBuf| logs.iter().filter(|other| *other == log).count() > 1;
    match logs.iter().copied().find(is_shared) {
        Some(log) if !is_common => {
            let log = log.display();
            let sentence = format!("{log} is the log of some volumes: give it to all, or to one");
            Err(Failure::Usage(sentence))
        }
        _ => Ok(logs.first().filter(|_| is_common).map(|&log| log.clone())),
    }
}

/// Refuses to serve one volume twice under different names.
fn refuse_twins(found: &[NamedVolume]) -> Result<(), Failure> {
    for (index, (_, volume)) in found.iter().enumerate() {
        let mut others = found[..index].iter();
        if let Some((_, other)) = others.find(|(_, other)| volume.is_same(other)) {
            let (path, other) = (volume.path.display(), other.path.display());
            let sentence = format!("{other} and {path} are one volume: name it once");
            return Err(Failure::Usage(sentence));
        }
    }
    Ok(())
}

/// Name of a volume's export: the last component of its path, without the `.img` of an image. A
/// link counts by its own name, not by that of its target.
pub(crate) fn export_name(path: &Path) -> Result<String, Failure> {
    let whole = match path.file_name() {
        Some(_) => path.to_owned(),
        // A path such as '.' takes its name from its canonical path.
        None => fs::canonicalize(path).map_err(|source| Failure::File {
            verb: "find",
            path: path.to_owned(),
            source,
        })?,
    };
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    Ok(name.strip_suffix(".img").unwrap_or(&name).to_owned())
}
