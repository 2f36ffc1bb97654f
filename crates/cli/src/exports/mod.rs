//! `duramen exports`: the clients that may use a volume, as the configuration of its server has
//! them.
//!
//! `edit` changes the text of the configuration, `rules` describes what it says. A command reads
//! the file once, and a change replaces it as a whole: a cut leaves the old file or the new one.

mod edit;
mod rules;

use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use server::config::{AccessWord, Network, SquashWord, VolumeSection, read_text};
use server::{Anonymous, Config, ConfigError, Exports, ServeError, toml_key};

use crate::failure::Failure;
use crate::folder::is_there;
use crate::order;
use crate::root_directory::{Owner, parse_owner};
use crate::volume::{Volume, replace};
use crate::wanted::export_name;
use crate::words::{self, quoted};
use edit::Rights;

/// Text at the end of `duramen exports --help`.
pub(crate) const HELP: &str = "\
The rules are in the configuration file of the server, in the section [exports.NAME]. NAME is the
name under which the volume is served: that of its section [volumes.NAME], or the last part of its
path. The file is the one that the volume's server uses; if the volume is not being served, name the
file with --config. Comments and layout of the file are kept. A server
uses the changed rules when it gets SIGHUP.

Examples:
  duramen exports list data
  duramen exports allow data 10.0.0.5 --access rw
  duramen exports allow data 10.0.0.0/8 --config duramen.toml
  duramen exports deny data 10.0.0.5
  duramen exports deny data --all
  duramen exports check data 10.0.0.5

'check' exits with 0 if the client may mount the volume, and with 1 if it may not.";

/// The arguments of `duramen exports`.
#[derive(Args, Debug)]
pub(crate) struct ExportsArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the clients that may use a volume
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Allow clients to use a volume, or change what they may do
    Allow {
        #[command(flatten)]
        common: Common,
        /// Addresses or networks, such as 10.0.0.5 or 10.0.0.0/8
        #[arg(required = true, value_name = "CLIENT")]
        clients: Vec<Network>,
        /// Access of the clients [default: ro]
        #[arg(long, value_enum)]
        access: Option<Access>,
        /// Users whose identity is not trusted [default: root, or as before]
        #[arg(long, value_enum)]
        squash: Option<Squashed>,
        /// User and group that squashed users become [default: 65534:65534, or as before]
        #[arg(long, value_name = "UID:GID", value_parser = parse_owner)]
        anonymous: Option<Owner>,
    },
    /// Remove clients from those that may use a volume
    Deny {
        #[command(flatten)]
        common: Common,
        /// Addresses or networks, as they are listed
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "CLIENT")]
        clients: Vec<Network>,
        /// Remove all clients
        #[arg(long)]
        all: bool,
    },
    /// Show what a client may do, and the line that says so
    Check {
        #[command(flatten)]
        common: Common,
        /// Address of the client
        address: IpAddr,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// Volume, or the name of its export
    volume: PathBuf,
    /// Configuration file [default: the one that the volume's server uses]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Access {
    /// Read
    Ro,
    /// Read and write
    Rw,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Squashed {
    /// No user is squashed
    None,
    /// User 0 and group 0 are squashed
    Root,
    /// All users are squashed
    All,
}

impl Access {
    fn word(self) -> AccessWord {
        match self {
            Self::Ro => AccessWord::ReadOnly,
            Self::Rw => AccessWord::ReadWrite,
        }
    }
}

impl Squashed {
    fn word(self) -> SquashWord {
        match self {
            Self::None => SquashWord::None,
            Self::Root => SquashWord::Root,
            Self::All => SquashWord::All,
        }
    }
}

/// The rules of a volume in the text of a configuration.
struct Document {
    /// Name of the export.
    volume: String,
    /// Path of the configuration.
    path: PathBuf,
    /// Its text; empty if there is no file.
    text: String,
    exports: Exports,
    /// Process ID of the server that uses the file.
    server: Option<u32>,
}

/// The part of what a server says of a volume that matters here: the names are those of `duramen
/// info --json`.
#[derive(Default, Deserialize)]
struct ServerSide {
    pid: Option<u32>,
    export: Option<String>,
    configuration: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure`] if there is no configuration or volume, or the file cannot be read or written.
pub(crate) fn run(arguments: &ExportsArguments, output: &mut dyn Write) -> Result<(), Failure> {
    match &arguments.command {
        Command::List { common } => {
            let document = Document::find(common, false)?;
            rules::list(&document, common.json, output)
        }
        Command::Check { common, address } => {
            let document = Document::find(common, false)?;
            rules::check(&document, *address, common.json, output)
        }
        Command::Allow { common, clients, access, squash, anonymous } => {
            let anonymous = anonymous.map(|(uid, gid)| Anonymous { uid, gid });
            let access = access.map_or(AccessWord::ReadOnly, Access::word);
            let squash = squash.map(Squashed::word);
            let rights: Vec<Rights> = clients
                .iter()
                .map(|client| Rights { network: client.trunc(), access, squash, anonymous })
                .collect();
            change(common, output, |text, volume| edit::allow(text, volume, &rights))
        }
        Command::Deny { common, all: true, .. } => change(common, output, edit::deny_all),
        Command::Deny { common, clients, .. } => {
            let networks: Vec<Network> = clients.iter().map(|client| client.trunc()).collect();
            let changed =
                change(common, output, |text, volume| edit::deny(text, volume, &networks));
            changed?;
            refuse_admitted(&Document::find(common, false)?, &networks)
        }
    }
}

impl Document {
    /// Reads the configuration of a volume. One that is to be changed may be missing.
    fn find(common: &Common, may_be_new: bool) -> Result<Self, Failure> {
        let Common { volume: path, config, .. } = common;
        let found = Volume::find(path).ok();
        let by_server: Option<ServerSide> = found.as_ref().and_then(order::info_from_server);
        let ServerSide { pid: server, export, configuration: used } = by_server.unwrap_or_default();
        let file = match (config, &used, server) {
            (Some(named), ..) => named.clone(),
            (None, Some(used), _) => used.clone(),
            (None, None, Some(_)) => {
                let why = "it is served without a configuration: start its server with '--config \
                           FILE', and say the same here"
                    .to_owned();
                return Err(Failure::NotDone { path: path.clone(), why });
            }
            (None, None, None) => {
                let sentence =
                    "no server uses the volume: name the configuration with --config FILE";
                return Err(Failure::Usage(sentence.to_owned()));
            }
        };
        let is_used = used.as_deref().is_some_and(|used| is_same(used, &file));
        if !is_used && server.is_some() {
            words::say(format_args!("{} is not the file of its server", file.display()));
        }
        let server = server.filter(|_| is_used);
        // A server of the command line's volumes knows nothing of the names in its file.
        let volume = match export.filter(|_| is_used) {
            Some(name) => name,
            None => match name_in(&file, path, found.as_ref()) {
                Some(name) => name,
                None => export_name(path)?,
            },
        };
        let document = Self::read(volume, file, server, may_be_new)?;
        document.refuse_unknown(path, found.is_some() || is_there(path)?)?;
        Ok(document)
    }

    fn read(
        volume: String,
        path: PathBuf,
        server: Option<u32>,
        may_be_new: bool,
    ) -> Result<Self, Failure> {
        let read = if may_be_new { read_or_empty(&path) } else { read_text(&path) };
        let text = read.map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let exports = Config::parse(&text, &path)?.exports()?;
        Ok(Self { volume, path, text, exports, server })
    }

    /// Refuses the name of a volume that is neither on this machine nor in the file: it is a typing
    /// error.
    fn refuse_unknown(&self, path: &Path, is_there: bool) -> Result<(), Failure> {
        let mut named = self.exports.named();
        if is_there || named.any(|name| name == self.volume) {
            return Ok(());
        }
        let names: Vec<&str> = self.exports.named().collect();
        let why = format!(
            "there is nothing of that name, and no section [exports.{}] in {}, which has {}",
            toml_key(&self.volume),
            self.path.display(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
        Err(Failure::NotAVolume { path: path.to_owned(), why })
    }
}

/// Name under which the configuration serves the volume at a path, if it names volumes. A folder
/// and the disk in it are one volume.
fn name_in(file: &Path, path: &Path, volume: Option<&Volume>) -> Option<String> {
    let mut sections = Config::read(file).ok()?.volumes.into_iter();
    let is_it = |section: &VolumeSection| {
        let other = || Volume::find(&section.path).ok();
        let has_disk = |volume: &Volume| other().is_some_and(|other| volume.is_same(&other));
        is_same(&section.path, path) || volume.is_some_and(has_disk)
    };
    sections.find(|(_, section)| is_it(section)).map(|(name, _)| name)
}

/// The text of a file; none if there is no file.
fn read_or_empty(path: &Path) -> io::Result<String> {
    match read_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
}

/// Changes the text of the configuration, and lists the rules that it then has.
fn change(
    common: &Common,
    output: &mut dyn Write,
    edit: impl FnOnce(&str, &str) -> Result<String, &'static str>,
) -> Result<(), Failure> {
    let old = Document::find(common, true)?;
    let Document { volume, path, text, server, .. } = &old;
    let edited = edit(text, volume).map_err(|why| {
        let why = format!("{why}, so it can only be edited by hand");
        Failure::NotDone { path: path.clone(), why }
    })?;
    // Nothing that the server would refuse is written.
    Config::parse(&edited, path)?;
    if edited != *text {
        write(path, text, &edited)?;
    }
    let new = Document::read(volume.clone(), path.clone(), *server, false)?;
    rules::list(&new, common.json, output)?;
    if edited != *text && !common.json {
        match server {
            Some(pid) => writeln!(output, "in force after 'kill -HUP {pid}'")?,
            None => {
                writeln!(output, "in force when a server starts with --config {}", quoted(path))?
            }
        }
    }
    Ok(())
}

/// Replaces the configuration, unless it is no longer what was read.
fn write(path: &Path, old: &str, new: &str) -> Result<(), Failure> {
    if !read_or_empty(path).is_ok_and(|text| text == old) {
        let why = "the file has changed meanwhile: say it again".to_owned();
        return Err(Failure::NotDone { path: path.to_owned(), why });
    }
    let mut beside = std::ffi::OsString::from(".");
    beside.push(path.file_name().unwrap_or_default());
    beside.push(".new");
    replace(path, &path.with_file_name(beside), new.as_bytes()).map_err(|failure| match failure {
        Failure::File { verb, path, source } if source.kind() == ErrorKind::PermissionDenied => {
            let source = io::Error::other(format!("{source}; run this as the owner of its folder"));
            Failure::File { verb, path, source }
        }
        other => other,
    })
}

/// Fails if the rule of a larger network still admits a removed one.
fn refuse_admitted(document: &Document, networks: &[Network]) -> Result<(), Failure> {
    let rule = |network: &Network| document.exports.rule(&document.volume, network.0.addr());
    let admitted = networks.iter().find_map(|network| Some((network, rule(network)?)));
    let Some((network, rule)) = admitted else { return Ok(()) };
    let larger = Network(rule.network);
    let why = format!(
        "{network} is still admitted by the rule for {larger}: deny that, and allow smaller \
         networks without {network}"
    );
    Err(Failure::NotDone { path: document.path.clone(), why })
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Serve(ServeError::from(error))
    }
}
