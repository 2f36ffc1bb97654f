//! The server: listeners, connections, and an end in good order.
//!
//! # The end
//! When it is told to stop, the server accepts no client any more, and its connections read no
//! more calls. What was read is answered, [`door::GRACE`] is given to peers to take their replies,
//! calls that still run (a disk may be slow) run to their end, and every volume is shut down.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use dispatch::{Dispatcher, Exports, Volume, Volumes, VolumesError};
use door::{Bounds, Door, Switch};
use futures::FutureExt;
use futures::future::{join_all, select};
use runtime::Runtime;
use tokio::net::TcpSocket;
use vfs::FsError;

use crate::config::{Config, ConfigError};
use crate::ready::ReadyInfo;
use crate::recording::Recording;
use crate::tcp::TcpListener;
use crate::{descriptors, reactor, rpcbind};

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 1024;

/// A configuration, and where to read it again.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What holds now.
    pub config: Config,
    /// The file that it came from; exports are read anew from there.
    pub file: Option<PathBuf>,
    /// Volumes that were to be served and are not: there may be rules for them all the same.
    pub refused: Vec<String>,
}

/// Why a server cannot start, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The volumes cannot be served together.
    #[error(transparent)]
    Volumes(#[from] VolumesError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There is no place for the trace.
    #[error("cannot write the trace {}: {source}", path.display())]
    Trace {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(std::io::Error),
    /// There is no thread for the control channel.
    #[error("cannot open the control channel: {0}")]
    Control(std::io::Error),
    /// A volume stopped before it was served.
    #[error("a volume has stopped: a write to its disk failed")]
    Stopped,
    /// A volume could not be left clean. Its next start repairs it.
    #[error("the volume {volume} could not be shut down cleanly: {source}")]
    Shutdown {
        /// Which.
        volume: String,
        /// Why.
        source: FsError,
    },
    /// A second signal came before the end. Volumes are not clean; their next start repairs them.
    #[error("stopped at once by a second signal")]
    Interrupted,
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    settings: Settings,
    dispatcher: Rc<Dispatcher>,
    listeners: Vec<TcpListener>,
    ready: ReadyInfo,
    recording: Option<Rc<Recording>>,
    stop: Switch,
}

/// What can be asked of a running server.
#[derive(Clone)]
pub struct ServerHandle {
    stop: Switch,
    dispatcher: Rc<Dispatcher>,
    file: Option<PathBuf>,
    refused: Vec<String>,
}

impl Server {
    /// Checks everything and listens. No client is served before [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn bind(
        runtime: &Runtime,
        volumes: Vec<Volume>,
        settings: Settings,
    ) -> Result<Self, ServeError> {
        let volumes = Volumes::new(volumes)?;
        let names = volumes.iter().map(|volume| volume.name.clone()).collect();
        let config = &settings.config;
        let exports = exports(config, &volumes, &settings.refused)?;
        let (window, limits) = (config.window(), config.limits());
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports, window, limits);
        dispatcher.restore().await.map_err(|_| ServeError::Stopped)?;
        let (restored, _) = dispatcher.remembered();
        if restored > 0 {
            tracing::info!(restored, "calls from before the start are remembered");
        }
        let recording = record(runtime, config, &dispatcher)?;
        let mut listeners = Vec::new();
        for &address in &config.listen.0 {
            let failed = |source| ServeError::Listen { address, source };
            listeners.push(listen(address).map_err(failed)?);
        }
        let local = |listener: &TcpListener| listener.0.local_addr();
        let addresses: Result<_, _> = listeners.iter().map(local).collect();
        let addresses = addresses.expect("a socket that listens has an address");
        let ready = ReadyInfo { addresses, volumes: names, registered: false };
        let (runtime, stop) = (runtime.clone(), Switch::default());
        Ok(Self { runtime, settings, dispatcher, listeners, ready, recording, stop })
    }

    /// Where it listens, and what it serves.
    pub fn ready(&self) -> &ReadyInfo {
        &self.ready
    }

    /// What can be asked of it while it runs.
    pub fn handle(&self) -> ServerHandle {
        let (stop, dispatcher) = (self.stop.clone(), self.dispatcher.clone());
        let Settings { file, refused, .. } = self.settings.clone();
        ServerHandle { stop, dispatcher, file, refused }
    }

    /// Tells rpcbind the ports, if the configuration wants it. A failure is a warning.
    pub async fn register(&mut self) {
        if !self.settings.config.rpcbind {
            return;
        }
        let Some(port) = self.registered_port() else {
            tracing::warn!("rpcbind = true is for IPv4: no such address is listened on");
            return;
        };
        match rpcbind::register(&self.runtime, rpcbind::ADDRESS, port).await {
            Ok(()) => self.ready.registered = true,
            Err(error) => tracing::warn!(%error, "not registered; clients must be told the port"),
        }
    }

    /// Serves until [`ServerHandle::stop`], and then ends in good order.
    ///
    /// # Errors
    /// [`ServeError::Shutdown`] when a volume could not be left clean; the others still are.
    pub async fn run(self) -> Result<(), ServeError> {
        let door = self.door();
        let accept = self.listeners.iter().map(|listener| door.accept(listener));
        select(join_all(accept).boxed_local(), self.stop.wait().boxed_local()).await;
        self.unregister().await;
        drop(self.listeners);
        door.drain().await;
        // Calls may wait for space that a search counts, or for a file that it looks through.
        self.dispatcher.volumes().ask_to_end();
        let _quiet = self.dispatcher.quiesce().await;
        self.recording.iter().for_each(|recording| recording.finish());
        tell_repetitions(self.dispatcher.reply_cache_counters());
        shut_down(self.dispatcher.volumes().iter()).await
    }

    fn door(&self) -> Rc<Door> {
        let limits = &self.settings.config.limits;
        let bounds = Bounds {
            connections: descriptors::places_for(limits.connections as u64),
            calls_per_connection: limits.calls_per_connection as usize,
        };
        Door::new(self.runtime.clone(), self.dispatcher.clone(), bounds, self.stop.clone())
    }

    async fn unregister(&self) {
        if self.ready.registered
            && let Some(port) = self.registered_port()
            && let Err(error) = rpcbind::unregister(&self.runtime, rpcbind::ADDRESS, port).await
        {
            tracing::warn!(%error, "rpcbind still knows the ports");
        }
    }

    fn registered_port(&self) -> Option<u16> {
        let mut addresses = self.ready.addresses.iter();
        // A listener on all addresses of IPv6 is reached by those of IPv4, too.
        let serves = |address: &&SocketAddr| address.is_ipv4() || address.ip().is_unspecified();
        addresses.find(serves).map(SocketAddr::port)
    }
}

impl ServerHandle {
    /// Begins the end. See the module.
    pub fn stop(&self) {
        self.stop.throw();
    }

    /// Reads the exports anew. On an error the old ones stay. A file in which the rules of a served
    /// volume are gone is one.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub async fn reload_exports(&self) -> Result<(), ConfigError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let config = reactor::elsewhere(move || Config::read(&file)).await?;
        let exports = exports(&config, self.dispatcher.volumes(), &self.refused)?;
        refuse_lost_rules(&self.dispatcher.exports(), &exports, self.dispatcher.volumes())?;
        self.dispatcher.set_exports(exports);
        Ok(())
    }

    /// How a volume is exported: `durable`, or `delayed` when answers do not wait for the disk.
    pub fn durability(&self, volume: &str) -> &'static str {
        if self.dispatcher.is_delayed(volume) { "delayed" } else { "durable" }
    }

    /// What the reply cache has seen.
    pub fn reply_cache_counters(&self) -> dispatch::Counters {
        self.dispatcher.reply_cache_counters()
    }
}

/// Rules for a volume that is not there are a typing error, and a dangerous one: the volume that
/// was meant would be open to this machine instead.
fn exports(config: &Config, volumes: &Volumes, refused: &[String]) -> Result<Exports, ConfigError> {
    let exports = config.exports()?;
    let is_known = |name: &str| {
        volumes.iter().any(|volume| volume.name == name) || refused.iter().any(|one| one == name)
    };
    let unknown = exports.named().find(|name| !is_known(name));
    if let Some(volume) = unknown {
        let served: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        let (volume, served) = (volume.to_owned(), served.join(", "));
        return Err(ConfigError::NoVolume { volume, served });
    }
    for volume in volumes.iter().filter(|volume| exports.of(&volume.name).delayed().is_some()) {
        tracing::warn!(
            volume = volume.name,
            "answers before the disk has it, as its export declares: a crash may take back what \
             was answered, but for what a client asked to be made durable"
        );
    }
    Ok(exports)
}

/// A served volume whose rules are gone would be open to every user of this machine. A start has
/// no rules before it, and believes what the file says.
fn refuse_lost_rules(old: &Exports, new: &Exports, volumes: &Volumes) -> Result<(), ConfigError> {
    let is_lost = |volume: &&Volume| {
        let name = &volume.name;
        old.of(name).has_written_rules() && !new.of(name).has_written_rules()
    };
    match volumes.iter().find(is_lost) {
        Some(volume) => Err(ConfigError::RulesGone { volume: volume.name.clone() }),
        None => Ok(()),
    }
}

/// Begins the trace, if the configuration wants one.
fn record(
    runtime: &Runtime,
    config: &Config,
    dispatcher: &Dispatcher,
) -> Result<Option<Rc<Recording>>, ServeError> {
    let Some(path) = &config.trace else { return Ok(None) };
    let failed = |source| ServeError::Trace { path: path.clone(), source };
    let recording = Rc::new(Recording::begin(path, runtime.clock.now()).map_err(failed)?);
    dispatcher.set_observer(recording.clone());
    Ok(Some(recording))
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?; // a restart must not wait for connections of the past
    socket.set_keepalive(true)?; // and is inherited: a client that lost its power goes away
    socket.bind(address)?;
    socket.listen(BACKLOG).map(TcpListener)
}

/// What the reply cache was good for: the network's losses, and ours, that no client noticed.
fn tell_repetitions(counters: dispatch::Counters) {
    let dispatch::Counters { hits, in_progress_hits, restored_hits, .. } = counters;
    if hits + in_progress_hits > 0 {
        tracing::info!(
            answered_before = hits - restored_hits,
            answered_before_the_start = restored_hits,
            under_way = in_progress_hits,
            "calls that were repeated and not executed again"
        );
    }
}

/// Shuts all volumes down; one that cannot stop keeps none of the others.
pub(crate) async fn shut_down(volumes: impl Iterator<Item = &Volume>) -> Result<(), ServeError> {
    let mut outcome = Ok(());
    for volume in volumes {
        if let Err(source) = volume.file_system.shutdown().await {
            tracing::error!(volume = volume.name, %source, "not shut down cleanly");
            outcome = Err(ServeError::Shutdown { volume: volume.name.clone(), source });
        }
    }
    outcome
}
