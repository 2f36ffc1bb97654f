//! Servers that may be running: the one of a named volume, or those of the volumes that a
//! configuration names.
//!
//! A socket belongs to a volume, and the server that listens there says under which name it serves
//! that volume. A server that serves a volume of the configuration under another name is not the
//! one that the configuration describes.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use server::Config;
use server::config::VolumeSection;
use server::control::ServerStatus;
use server::control::client::{self, AskError};

use super::ServerArguments;
use crate::configuration::DEFAULT_FILE;
use crate::failure::Failure;
use crate::order::body;
use crate::volume::Volume;
use crate::wanted::export_name;
use crate::words;

/// Route of the state of a server.
const STATUS: &str = "/v1/server/status";
/// Message about a volume without a server.
pub(super) const NO_SERVER: &str = "no server serves it";

/// The place of a volume whose server is to be asked.
#[derive(Clone, Debug)]
struct VolumePlace {
    /// Name of the export.
    name: String,
    /// Its control socket, or the reason why it has none.
    socket: Result<PathBuf, String>,
}

/// The places at which servers may be found.
#[derive(Clone, Debug)]
pub(super) struct ServerPlaces {
    volumes: Vec<VolumePlace>,
    /// The configuration that names the volumes; none if the command line does.
    configuration: Option<PathBuf>,
}

/// A server that was found.
pub(super) struct FoundServer {
    pub(super) socket: PathBuf,
    pub(super) status: ServerStatus,
}

/// Result of a look at all places.
#[derive(Default)]
pub(super) struct FoundServers {
    /// The servers, each once.
    pub(super) servers: Vec<FoundServer>,
    /// Volumes whose own place shows no server, with the reason.
    pub(super) missing: Vec<MissingVolume>,
}

/// A volume whose own place shows no server of it.
pub(super) struct MissingVolume {
    pub(super) name: String,
    pub(super) reason: String,
    /// Whether its socket answered, and not as it should.
    pub(super) has_failed: bool,
}

impl ServerPlaces {
    /// Finds the places that the command line asks for.
    pub(super) fn find(arguments: &ServerArguments) -> Result<Self, Failure> {
        let ServerArguments { volume, control, config } = arguments;
        if let Some(path) = volume {
            let socket = Ok(socket_of(path, control.as_deref())?);
            let volumes = vec![VolumePlace { name: export_name(path)?, socket }];
            return Ok(Self { volumes, configuration: None });
        }
        let file = config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let sections = Config::read(file)?.volumes;
        if sections.is_empty() {
            let file = file.display();
            let sentence = format!("name a VOLUME: {file} has no section [volumes.NAME]");
            return Err(Failure::Usage(sentence));
        }
        let volumes = sections.into_iter().map(|(name, section)| {
            let socket = socket_of_section(&section);
            VolumePlace { name, socket }
        });
        Ok(Self { volumes: volumes.collect(), configuration: Some(file.to_owned()) })
    }

    /// Looks at all places.
    pub(super) fn look(&self) -> FoundServers {
        let mut found = FoundServers::default();
        for VolumePlace { name, socket } in &self.volumes {
            let reached = match socket {
                Ok(socket) => {
                    ask::<ServerStatus>(socket, STATUS).map(|it| it.map(|it| (it, socket)))
                }
                Err(_) => Ok(None),
            };
            let (reason, has_failed) = match reached {
                Ok(Some((status, socket))) if self.is_its(name, &status) => {
                    found.add(socket, status);
                    continue;
                }
                Ok(Some((ServerStatus { pid, socket_volume, .. }, _))) => {
                    (format!("process {pid} serves it under the name '{socket_volume}'"), true)
                }
                Ok(None) => {
                    let why = socket.as_ref().err().map_or(String::new(), |why| format!("; {why}"));
                    (format!("{NO_SERVER}{why}"), false)
                }
                Err(failure) => (failure.to_string(), true),
            };
            found.missing.push(MissingVolume { name: name.clone(), reason, has_failed });
        }
        // A volume without a socket, or with a busy one, is known to the server all the same.
        let FoundServers { servers, missing } = &mut found;
        missing.retain(|MissingVolume { name, reason, has_failed }| {
            let mut volumes = servers.iter().flat_map(|it| &it.status.volumes);
            let is_known = volumes.any(|volume| volume.volume == *name);
            if is_known && *has_failed {
                words::say(format_args!("{name}: {reason}"));
            }
            !is_known
        });
        found
    }

    /// Whether this is the server of a volume: the command line names a volume by any path.
    fn is_its(&self, name: &str, status: &ServerStatus) -> bool {
        self.configuration.is_none() || status.socket_volume == name
    }

    /// The socket of the one server, for a command that needs one.
    pub(super) fn one_socket(&self) -> Result<PathBuf, Failure> {
        let FoundServers { mut servers, missing } = self.look();
        if servers.len() > 1 {
            let file = self.configuration.as_deref().unwrap_or(Path::new("")).display();
            let sentence = format!("name a VOLUME: several servers have the volumes of {file}");
            return Err(Failure::Usage(sentence));
        }
        servers.pop().map(|server| server.socket).ok_or_else(|| {
            // A reason that says more than that there is no server comes first.
            let failed = missing.iter().find(|volume| volume.has_failed);
            let names = missing.iter().map(|volume| volume.name.as_str());
            let (path, why) = match failed {
                Some(volume) => (volume.name.clone(), volume.reason.clone()),
                None => (names.collect::<Vec<_>>().join(", "), NO_SERVER.to_owned()),
            };
            Failure::NotDone { path: path.into(), why }
        })
    }
}

impl FoundServers {
    fn add(&mut self, socket: &Path, status: ServerStatus) {
        if !self.servers.iter().any(|server| server.status.pid == status.pid) {
            self.servers.push(FoundServer { socket: socket.to_owned(), status });
        }
    }
}

/// Asks a server that was there a moment ago.
///
/// # Errors
/// [`Failure`], also if it has ended.
pub(super) fn ask_again<T: DeserializeOwned>(socket: &Path, route: &str) -> Result<T, Failure> {
    let ended = || Failure::NotDone { path: socket.to_owned(), why: NO_SERVER.to_owned() };
    ask(socket, route)?.ok_or_else(ended)
}

/// Asks a server; returns nothing if there is none.
fn ask<T: DeserializeOwned>(socket: &Path, route: &str) -> Result<Option<T>, Failure> {
    match client::get(socket, route) {
        Ok(answer) => body(socket, &answer).map(Some),
        Err(AskError::Nobody(_)) => Ok(None),
        Err(error @ AskError::Failed { .. }) => {
            Err(Failure::Control { path: socket.to_owned(), why: error.to_string() })
        }
    }
}

/// The control socket of a volume.
fn socket_of(volume: &Path, control: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(control) = control {
        return Ok(control.to_owned());
    }
    Volume::find(volume)?.socket().ok_or_else(|| {
        let sentence = "a bare disk has no socket of its own: name the one of 'duramen serve' with \
                        --control";
        Failure::Usage(sentence.to_owned())
    })
}

/// The control socket of a volume of the configuration, or the reason why it has none.
fn socket_of_section(section: &VolumeSection) -> Result<PathBuf, String> {
    if let Some(control) = &section.control {
        return Ok(control.clone());
    }
    let volume = Volume::find(&section.path).map_err(|failure| failure.to_string())?;
    volume.socket().ok_or_else(|| "a bare disk needs 'control' in its section".to_owned())
}
