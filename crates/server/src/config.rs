//! The configuration file, `duramen.toml`. Every key has a default, so an empty file is valid. It
//! is a regular file of at most 1 MiB.
//!
//! ```toml
//! listen = ["127.0.0.1:2049", "[::1]:2049"]  # "[::]:2049" is every address, IPv4 as well
//! cache = "4 GiB"              # memory of each volume; without: a quarter of all there is
//! rpcbind = false              # announce the ports to rpcbind on this machine
//! trace = "load.trace"         # record what clients ask in this new file; without: nothing
//!
//! [volumes.data]               # served as "data", if the command line names no volume
//! path = "/srv/disk1/data"     # a relative one begins at the folder of this file
//! # log = "/dev/sdc1"          # as --log
//! # control = "/run/data.sock" # as --control: for a bare disk
//!
//! [exports.data]               # who may use the volume "data"; without: this machine, rw
//! clients = [
//!     { network = "10.1.0.0/16", access = "rw" },
//!     { network = "10.0.0.0/8", access = "ro", squash = "all", anonymous_uid = 1000 },
//!     { network = "127.0.0.1", access = "rw", squash = "none" },
//! ]
//!
//! # durability = "delayed"     # a crash may take back what was answered, but for what a client
//! #                            # asks to be made durable (fsync, COMMIT, stable writes)
//! # snapshots = "visible"      # each directory lists its .snapshot; "hidden", as without: it is
//! #                            # found by its name alone; "off": not at all. It takes an engine
//! #                            # that has snapshots
//!
//! [limits]
//! connections = 1024           # more: who has been quiet for 5 s and longest makes room
//! calls = 4096                 # under way at once
//! calls_per_connection = 256
//! request_memory = "64 MiB"
//! reply_memory = "64 MiB"
//!
//! [reply_cache]                # how long a repeated call is recognised: see `dispatch::Window`
//! seconds = 600
//! calls = 65536
//! memory = "96 MiB"
//! calls_per_client = 8192
//! memory_per_client = "16 MiB"
//! survives = true              # a crash or a restart, on volumes under policy log
//!
//! [events]
//! slow_call = "1 s"            # log each call that takes so long; without: none
//! ```
//!
//! SIGHUP reloads the exports; all other changes need a restart. A file that lacks the rules of a
//! volume that has some is refused as a whole: it may be empty by mistake, and would open the
//! volume to every user of this machine. `clients = []` withdraws all access.

mod value;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dispatch::{AmbiguousRules, Anonymous, Export, Exports, Limits, Rule, Squash, Window};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use vfs::SnapshotsShown;

pub use value::{BadNetwork, ByteSize, Listen, Network, Time, parse_address};

/// Maximum size of the file, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// Maximum value of a memory bound, in bytes: it fits a signed integer, and exceeds the memory of
/// any machine.
const MAX_MEMORY: u64 = 1 << 50;

/// The port of NFS.
pub const DEFAULT_PORT: u16 = 2049;

/// Contents of the file. See the module's documentation.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Addresses to listen on.
    pub listen: Listen,
    /// Cache of each volume for metadata and data; if absent, a size that suits the machine.
    pub cache: Option<ByteSize>,
    /// Whether to announce the ports to rpcbind.
    pub rpcbind: bool,
    /// Volumes to serve if the command line names none, by the names of their exports.
    pub volumes: BTreeMap<String, VolumeSection>,
    /// Rules about the clients of each volume.
    pub exports: BTreeMap<String, ExportSection>,
    /// Bounds on connections, calls and memory.
    pub limits: LimitsSection,
    /// How long the reply to a call is remembered.
    pub reply_cache: ReplyCacheSection,
    /// Lines of the log about events.
    pub events: EventsSection,
    /// A new file that records the clients' calls.
    pub trace: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT))]),
            cache: None,
            rpcbind: false,
            volumes: BTreeMap::new(),
            exports: BTreeMap::new(),
            limits: LimitsSection::default(),
            reply_cache: ReplyCacheSection::default(),
            events: EventsSection::default(),
            trace: None,
        }
    }
}

/// The section `[events]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct EventsSection {
    /// Time from which on a call is logged as slow. If absent, none is.
    pub slow_call: Option<Time>,
}

/// The section `[volumes.NAME]`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct VolumeSection {
    /// Path of the volume.
    pub path: PathBuf,
    /// Its log, if it does not use its own.
    pub log: Option<PathBuf>,
    /// Control socket of a bare disk.
    pub control: Option<PathBuf>,
}

/// The section `[exports.NAME]`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExportSection {
    /// Clients that may use the volume. An empty list excludes all. If absent: this machine.
    pub clients: Option<Vec<ClientEntry>>,
    /// Whether replies wait for the disk.
    #[serde(default)]
    pub durability: DurabilityWord,
    /// How clients find snapshots, if the engine of the volume has them.
    #[serde(default)]
    pub snapshots: SnapshotsWord,
}

/// Values of `snapshots`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotsWord {
    /// Each directory lists its `.snapshot`.
    Visible,
    /// Each directory has a `.snapshot`, which only a lookup of its name finds.
    #[default]
    Hidden,
    /// No directory has a `.snapshot`.
    Off,
}

/// Values of `durability`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityWord {
    /// Acknowledged changes survive a crash.
    #[default]
    Durable,
    /// A crash may lose acknowledged changes, except those that a client asked to be made durable.
    Delayed,
}

/// One entry of `clients`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClientEntry {
    /// The clients: an address or a network.
    pub network: Network,
    /// Access rights of the clients.
    pub access: AccessWord,
    /// Users whose claimed identity is not trusted.
    #[serde(default)]
    pub squash: SquashWord,
    /// User ID of squashed users.
    #[serde(default = "anonymous_uid")]
    pub anonymous_uid: u32,
    /// Group ID of squashed users.
    #[serde(default = "anonymous_gid")]
    pub anonymous_gid: u32,
}

fn anonymous_uid() -> u32 {
    Anonymous::default().uid
}

fn anonymous_gid() -> u32 {
    Anonymous::default().gid
}

/// Values of `access`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub enum AccessWord {
    /// Read-only access.
    #[serde(rename = "ro")]
    ReadOnly,
    /// Read and write access.
    #[serde(rename = "rw")]
    ReadWrite,
}

impl AccessWord {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

/// Values of `squash`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SquashWord {
    /// No user is squashed.
    None,
    /// User 0 and group 0 are squashed.
    #[default]
    Root,
    /// Every user is squashed.
    All,
}

impl SquashWord {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Root => "root",
            Self::All => "all",
        }
    }
}

/// The section `[limits]`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of calls under way.
    pub calls: u32,
    /// Maximum number of calls under way on one connection.
    pub calls_per_connection: u32,
    /// Memory for requests.
    pub request_memory: ByteSize,
    /// Memory for replies.
    pub reply_memory: ByteSize,
}

impl Default for LimitsSection {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            connections: 1024,
            calls: limits.calls,
            calls_per_connection: 256,
            request_memory: ByteSize(limits.request_memory),
            reply_memory: ByteSize(limits.reply_memory),
        }
    }
}

/// The section `[reply_cache]`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyCacheSection {
    /// Maximum time that a reply is remembered.
    pub seconds: u64,
    /// Maximum number of replies.
    pub calls: usize,
    /// Maximum memory for replies.
    pub memory: ByteSize,
    /// Maximum number of replies of one client.
    pub calls_per_client: usize,
    /// Maximum memory for the replies of one client.
    pub memory_per_client: ByteSize,
    /// Whether replies survive a crash or a restart, on volumes that have a log.
    pub survives: bool,
}

impl Default for ReplyCacheSection {
    fn default() -> Self {
        let window = Window::default();
        Self {
            seconds: window.age.as_secs(),
            calls: window.calls,
            memory: ByteSize(window.bytes as u64),
            calls_per_client: window.client_calls,
            memory_per_client: ByteSize(window.client_bytes as u64),
            survives: window.survives,
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A key or a value is wrong. The text names the line, the key and the expected value.
    #[error("in the configuration {path}: {source}", path = path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// The place and the reason.
        source: Box<toml::de::Error>,
    },
    /// Two entries of a volume name the same network.
    #[error(
        "in exports.{volume}.clients: {source}; expected: each network once (of networks that \
         overlap, the smaller one counts)"
    )]
    Rules {
        /// The volume.
        volume: String,
        /// The network.
        source: AmbiguousRules,
    },
    /// A number that must not be 0.
    #[error("{key} is 0; expected: at least {least}")]
    TooSmall {
        /// The key.
        key: &'static str,
        /// Its minimum.
        least: u64,
    },
    /// A number that exceeds the memory of any machine.
    #[error("{key} is more than {most} bytes, which is the most that can be said")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// Its maximum.
        most: u64,
    },
    /// Rules for a volume that is not served.
    #[error("exports.{volume}: no volume of this name is served; expected one of: {served}")]
    NoVolume {
        /// Name of the volume.
        volume: String,
        /// Names of the served volumes.
        served: String,
    },
    /// A reload that would open a volume to this machine, because its rules are missing.
    #[error(
        "the rules of exports.{volume} are gone: nobody's access has changed; expected: the \
         section [exports.{volume}] with its clients (clients = [] withdraws the access of all)"
    )]
    RulesGone {
        /// The volume.
        volume: String,
    },
    /// A reload without the section of a served volume.
    #[error(
        "the section [volumes.{volume}] is gone, and the volume is served: nothing has changed; \
         restart the server to take the volume out"
    )]
    VolumeGone {
        /// The volume.
        volume: String,
    },
    /// No address to listen on.
    #[error("listen is empty; expected: at least one address such as \"127.0.0.1:2049\"")]
    Deaf,
}

impl Config {
    /// Reads a regular file of at most [`MAX_BYTES`].
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let config = Self::parse(&read_text(path).map_err(read)?, path)?;
        Ok(config.with_paths_of(path))
    }

    /// The same with the paths of its volumes as a server uses them: a relative one begins at the
    /// folder of the file.
    pub fn with_paths_of(mut self, file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new(""));
        for section in self.volumes.values_mut() {
            let paths = [Some(&mut section.path), section.log.as_mut(), section.control.as_mut()];
            paths.into_iter().flatten().for_each(|path| *path = folder.join(&*path));
        }
        self
    }

    /// Parses the text of a file; `path` is for error messages.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let wrong = |source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) };
        let config: Self = toml::from_str(text).map_err(wrong)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.listen.0.is_empty() {
            return Err(ConfigError::Deaf);
        }
        let limits = &self.limits;
        let record = dispatch::MAX_TRANSFER.into();
        for (key, value, least) in [
            ("limits.connections", limits.connections as u64, 1),
            ("limits.calls", limits.calls.into(), 1),
            ("limits.calls_per_connection", limits.calls_per_connection.into(), 1),
            ("limits.request_memory", limits.request_memory.0, 2 * record),
            ("limits.reply_memory", limits.reply_memory.0, record),
        ] {
            if value < least {
                return Err(ConfigError::TooSmall { key, least });
            }
        }
        for (key, size) in [
            ("limits.request_memory", limits.request_memory),
            ("limits.reply_memory", limits.reply_memory),
        ] {
            if size.0 > MAX_MEMORY {
                return Err(ConfigError::TooLarge { key, most: MAX_MEMORY });
            }
        }
        self.exports().map(|_| ())
    }

    /// The rules of all volumes.
    ///
    /// # Errors
    /// [`ConfigError::Rules`].
    pub fn exports(&self) -> Result<Exports, ConfigError> {
        let mut exports = Exports::default();
        for (volume, section) in &self.exports {
            let wrong = |source| ConfigError::Rules { volume: volume.clone(), source };
            let export = match &section.clients {
                Some(clients) => Export::new(clients.iter().map(ClientEntry::rule).collect()),
                None => Ok(Export::loopback()),
            };
            let export = export.map_err(wrong)?;
            let export = match section.durability {
                DurabilityWord::Durable => export,
                DurabilityWord::Delayed => export.declared_delayed(),
            };
            let shown = match section.snapshots {
                SnapshotsWord::Visible => SnapshotsShown::Visible,
                SnapshotsWord::Hidden => SnapshotsShown::Hidden,
                SnapshotsWord::Off => SnapshotsShown::Off,
            };
            exports.insert(volume, export.with_snapshots(shown));
        }
        Ok(exports)
    }

    /// The rules for a server of volumes with these names. Rules for an unknown volume are a typing
    /// error, and a dangerous one: the intended volume would be open to this machine instead. The
    /// volumes are those of the file, or else those of a command line.
    ///
    /// # Errors
    /// [`ConfigError::Rules`], [`ConfigError::NoVolume`].
    pub fn exports_for(
        &self,
        names: &[&str],
        has_volumes_of_file: bool,
    ) -> Result<Exports, ConfigError> {
        let exports = self.exports()?;
        // A volume of the command line has a name of its own, whatever the file calls it: rules for
        // the volumes of the file do no harm if it has rules, too.
        let has_rules = |name: &&str| exports.named().any(|named| named == *name);
        let are_others_fine = has_volumes_of_file || names.iter().all(has_rules);
        let is_known = |name: &str| {
            let is_of_file = are_others_fine && self.volumes.contains_key(name);
            is_of_file || names.contains(&name)
        };
        let unknown = exports.named().find(|name| !is_known(name));
        if let Some(volume) = unknown {
            let (volume, served) = (volume.to_owned(), names.join(", "));
            return Err(ConfigError::NoVolume { volume, served });
        }
        Ok(exports)
    }

    /// Bounds on calls and memory.
    pub fn limits(&self) -> Limits {
        Limits {
            calls: self.limits.calls,
            request_memory: self.limits.request_memory.0,
            reply_memory: self.limits.reply_memory.0,
        }
    }

    /// How long the reply to a call is remembered.
    pub fn window(&self) -> Window {
        let section = &self.reply_cache;
        let bytes = |size: ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
        Window {
            age: Duration::from_secs(section.seconds),
            calls: section.calls,
            bytes: bytes(section.memory),
            client_calls: section.calls_per_client,
            client_bytes: bytes(section.memory_per_client),
            survives: section.survives,
        }
    }
}

/// Reads the text of a regular file of at most [`MAX_BYTES`]: reading any other might block or
/// never end.
///
/// # Errors
/// The operating system's error, or the refusal of such a file.
pub fn read_text(path: &Path) -> io::Result<String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY; // opening a FIFO must not wait for a writer
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

impl ClientEntry {
    fn rule(&self) -> Rule {
        Rule {
            network: self.network.0,
            writable: self.access == AccessWord::ReadWrite,
            squash: match self.squash {
                SquashWord::None => Squash::None,
                SquashWord::Root => Squash::Root,
                SquashWord::All => Squash::All,
            },
            anonymous: Anonymous { uid: self.anonymous_uid, gid: self.anonymous_gid },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("duramen.toml")).map_err(|error| error.to_string())
    }

    /// The example at the head of this file, as a user would copy it.
    fn example() -> String {
        let source = include_str!("config.rs");
        let fenced = source.split("//! ```").nth(1).expect("an example").trim_start_matches("toml");
        fenced.lines().map(|line| line.trim_start_matches("//!").to_owned() + "\n").collect()
    }

    #[test]
    fn an_empty_file_listens_on_this_machine_alone() {
        let config = parse("").expect("all has defaults");
        assert_eq!(config.listen.0, ["127.0.0.1:2049".parse().expect("an address")]);
        assert_eq!(config.window(), Window::default());
        assert_eq!(config.limits(), Limits::default());
    }

    #[test]
    fn the_documented_example_is_valid_and_shows_the_defaults() {
        let config = parse(&example()).expect("the example");
        let defaults = Config::default();
        assert_eq!(config.limits, defaults.limits);
        assert_eq!(config.reply_cache, defaults.reply_cache);
        assert_eq!((config.cache, defaults.cache), (Some(ByteSize(4 << 30)), None));
        let exports = config.exports().expect("rules");
        let rule = exports.rule("data", "10.2.0.1".parse().expect("an address")).expect("a rule");
        assert!(!rule.writable);
        assert_eq!(rule.anonymous, Anonymous { uid: 1000, gid: 65_534 });
    }

    #[test]
    fn a_bound_of_memory_that_cannot_be_counted_is_refused() {
        for key in ["request_memory", "reply_memory"] {
            let parse = |size: &str| parse(&format!("[limits]\n{key} = \"{size}\"\n"));
            let error = parse("16777215 TiB").expect_err("too much");
            assert!(error.contains(&format!("limits.{key} is more than")), "{error}");
            let limits = parse("1024 TiB").expect("as much as may be").limits();
            runtime::pool::Pool::new(limits.request_memory.max(limits.reply_memory), &[], 0);
        }
    }

    #[test]
    fn a_volume_is_delayed_only_where_that_is_declared() {
        let text = "[exports.a]\ndurability = \"delayed\"\n\n[exports.b]\nclients = []\n\n\
                    [exports.c]\ndurability = \"durable\"\n";
        let exports = parse(text).expect("words of the key").exports().expect("rules");
        let local = "127.0.0.1".parse().expect("an address");
        let found = ["a", "b", "c", "d"].map(|name| {
            (exports.of(name).delayed().is_some(), exports.rule(name, local).is_some())
        });
        assert_eq!(found, [(true, true), (false, false), (false, true), (false, true)]);
    }

    #[test]
    fn snapshots_are_found_where_the_export_says_and_by_name_where_it_does_not() {
        let text = "[exports.a]\nsnapshots = \"visible\"\n\n[exports.b]\nsnapshots = \"off\"\n\n\
                    [exports.c]\nclients = []\n\n[exports.d]\nsnapshots = \"hidden\"\n";
        let exports = parse(text).expect("words of the key").exports().expect("rules");
        let found = ["a", "b", "c", "d", "e"].map(|name| exports.of(name).snapshots());
        let (hidden, off) = (SnapshotsShown::Hidden, SnapshotsShown::Off);
        assert_eq!(found, [SnapshotsShown::Visible, off, hidden, hidden, hidden]);
    }

    #[test]
    fn rules_of_a_volume_without_a_section_are_refused_where_the_file_names_the_volumes() {
        let text = "[volumes.a]\npath = \"a\"\n[volumes.b]\npath = \"b\"\n[exports.c]\n";
        let judged = |text: &str| parse(text).expect("volumes").exports_for(&["a", "b"], true);
        let error = judged(text).expect_err("a typo");
        assert!(error.to_string().ends_with("expected one of: a, b"), "{error}");
        assert!(judged(&text.replace("exports.c", "exports.b")).is_ok());
    }

    #[test]
    fn a_slow_call_is_one_of_a_time_in_any_unit() {
        for (text, ms) in
            [("2", 2_000), ("\"500 ms\"", 500), ("\"3s\"", 3_000), ("'2 min'", 120_000)]
        {
            let config = parse(&format!("[events]\nslow_call = {text}\n")).expect(text);
            assert_eq!(config.events.slow_call, Some(Time(Duration::from_millis(ms))), "{text}");
        }
        assert_eq!(parse("[events]\n").expect("a section").events.slow_call, None);
    }

    #[test]
    fn an_unknown_key_is_named_with_those_that_are_expected() {
        let error = parse("[limits]\nconections = 5\n").expect_err("a typing error");
        assert!(error.contains("duramen.toml"), "{error}");
        assert!(error.contains("conections") && error.contains("`connections`"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_shown_with_what_is_expected() {
        for (text, expected) in [
            ("listen = \"localhost\"", "such as \"127.0.0.1:2049\""),
            ("cache = \"much\"", "such as \"64 MiB\""),
            ("cache = -5", "such as \"64 MiB\""),
            ("[exports.a]\nclients = [{ network = \"x\", access = \"rw\" }]", "\"10.0.0.0/8\""),
            ("[exports.a]\nclients = [{ network = \"::1\", access = \"w\" }]", "`ro` or `rw`"),
            ("[exports.a]\nclients = [{ network = \"::1\" }]", "access"),
            ("[exports.a]\ndurability = \"lazy\"", "`durable` or `delayed`"),
            ("[exports.a]\nsnapshots = \"listed\"", "`visible`, `hidden`, `off`"),
            ("[exports.a]\nsnapshots = true", "string or table"),
            ("[limits]\nrequest_memory = 4096", "at least 2097152"),
            ("[limits]\nreply_memory = 4096", "at least 1048576"),
            ("listen = []", "at least one address"),
            ("[events]\nslow_call = \"soon\"", "such as \"500 ms\""),
            ("[events]\nslow_call = 0", "such as \"500 ms\""),
            ("[events]\nslow_call = \"2 days\"", "such as \"500 ms\""),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_same_network_twice_is_refused_with_the_key() {
        let text = "[exports.a]\nclients = [{ network = \"10.0.0.0/8\", access = \"rw\" }, \
                    { network = \"10.1.2.3/8\", access = \"ro\" }]";
        let error = parse(text).expect_err("ambiguous");
        assert!(error.contains("exports.a.clients") && error.contains("10.0.0.0/8"), "{error}");
    }
}
