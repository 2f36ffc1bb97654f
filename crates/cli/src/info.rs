//! `duramen info`: describes a volume and its state. The volume's server answers, if there is one;
//! otherwise the superblock and the log are read. A volume that another program uses is read as
//! well: its disk may then be some seconds out of date.

mod inside;
mod live;
mod log;
mod object;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use designs::Found;
use server::control;
use server::control::client::{self, AskError};

use crate::failure::Failure;
use crate::folder::real_place;
use crate::order::body;
use crate::volume::Volume;
use crate::words;
pub(crate) use live::live_of;
use object::Info;

/// The arguments of `duramen info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArguments {
    /// Volume to describe: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Print one JSON object; sizes are in bytes, times in seconds since 1970, or in milliseconds
    /// where the name ends in _ms
    #[arg(long)]
    pub(crate) json: bool,
    /// Control socket of a bare disk that is served with the same option
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Prints the description of a volume.
///
/// # Errors
/// [`Failure`] if there is no volume, or its superblock is invalid.
pub(crate) fn run(arguments: &InfoArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let volume = Volume::find(&arguments.volume)?;
    let socket = arguments.control.clone().or_else(|| volume.socket());
    let told = match &socket {
        Some(socket) => ask(&volume, socket)?,
        None => None,
    };
    let info = match told {
        Some(info) => info,
        None => Info::look(&volume)?,
    };
    if arguments.json {
        writeln!(output, "{}", json(&info))?;
        return Ok(());
    }
    for (name, value) in text::describe(&info) {
        writeln!(output, "{name:<16}{value}")?;
    }
    Ok(())
}

fn json(info: &Info) -> String {
    serde_json::to_string_pretty(info).expect("all keys are names")
}

/// Asks the server of a volume, and returns nothing if there is none. If a server cannot be asked,
/// the disk is read instead, like that of any other program.
fn ask(volume: &Volume, socket: &Path) -> Result<Option<Info>, Failure> {
    let answer = match client::get(socket, "/v1/info") {
        Ok(answer) => answer,
        Err(AskError::Nobody(_)) => return Ok(None),
        Err(error @ AskError::Failed { .. }) => {
            words::say(format_args!("{error}; what follows is from the disk"));
            return Ok(None);
        }
    };
    let mut info: Info = body(socket, &answer)?;
    // The server names its paths differently.
    info.volume = volume.path.display().to_string();
    info.disk = volume.disk_path.display().to_string();
    Ok(Some(info))
}

/// Answers `GET /v1/info` for a volume. `name` is that of its export, `found` is the result of its
/// opening, `configuration` the server's file. The disks of a set are not read beside the server
/// that writes to them.
pub(crate) fn served(
    volume: &Volume,
    name: &str,
    found: Found,
    configuration: Option<&Path>,
) -> control::Info {
    let export = Some(name.to_owned());
    let configuration = configuration.map(|path| real_place(path).display().to_string());
    let whole = Volume {
        path: real_place(&volume.path),
        disk_path: real_place(&volume.disk_path),
        log_path: volume.log_path.as_deref().map(real_place),
        ..volume.clone()
    };
    Arc::new(move |live| {
        let live = serde_json::from_value(live).map_err(|error| error.to_string())?;
        let known = whole.settings.raid.as_ref().map(|_| &found);
        let info = Info::of_served(&whole, known, live).map_err(|failure| failure.to_string())?;
        let (pid, configuration) = (Some(std::process::id()), configuration.clone());
        Ok(json(&Info { pid, export: export.clone(), configuration, ..info }) + "\n")
    })
}
