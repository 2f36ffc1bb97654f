//! The server: listeners, connections, and a clean end.
//!
//! # Shutdown
//! A server that is stopped accepts no more clients, and its connections read no more calls. Calls
//! already read are answered, peers get [`door::GRACE`] to take their replies, calls that still run
//! (a disk may be slow) run to their end, and every volume is shut down: see [`crate::stopping`],
//! which has the limit of all that.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use dispatch::counts::Connected;
use dispatch::{Dispatcher, Exports, Volume, Volumes};
use door::{Bounds, Door, Switch};
use futures::FutureExt;
use futures::future::{join_all, select};
use runtime::{Instant, Runtime};
use tokio::net::TcpSocket;

use crate::config::{Config, ConfigError};
use crate::control::{ServerCounters, Serving, VolumeTroubles};
use crate::device_counts::DeviceBook;
use crate::ready::ReadyInfo;
use crate::recording::Recording;
use crate::serve_error::ServeError;
use crate::shares::{Share, shares};
use crate::tcp::TcpListener;
use crate::{descriptors, reactor, rpcbind, stopping};

/// Maximum number of connections that wait in the kernel while we are busy.
const BACKLOG: u32 = 1024;

/// A configuration, and the file to reload it from.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The current configuration.
    pub config: Config,
    /// The file that it came from; a reload reads the exports from there.
    pub file: Option<PathBuf>,
    /// Volumes that were to be served and were refused: the file may have rules for them all the
    /// same.
    pub refused: Vec<String>,
    /// Whether the volumes are those of the file.
    pub has_volumes_of_file: bool,
    /// The disks of the volumes.
    pub devices: DeviceBook,
}

/// A listening server.
pub struct Server {
    runtime: Runtime,
    settings: Settings,
    dispatcher: Rc<Dispatcher>,
    listeners: Vec<TcpListener>,
    ready: ReadyInfo,
    recording: Option<Rc<Recording>>,
    door: Rc<Door>,
    stop: Switch,
}

/// Handle to control a running server.
#[derive(Clone)]
pub struct ServerHandle {
    runtime: Runtime,
    start: Instant,
    stop: Switch,
    dispatcher: Rc<Dispatcher>,
    door: Rc<Door>,
    file: Option<PathBuf>,
    refused: Vec<String>,
    has_volumes_of_file: bool,
    devices: DeviceBook,
}

impl Server {
    /// Checks the configuration and starts to listen. No client is served before [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn bind(
        runtime: &Runtime,
        volumes: Vec<Volume>,
        settings: Settings,
    ) -> Result<Self, ServeError> {
        let volumes = Volumes::new(volumes)?;
        let config = &settings.config;
        let has_volumes_of_file = settings.has_volumes_of_file;
        let exports = exports(config, &volumes, &settings.refused, has_volumes_of_file)?;
        let (window, limits) = (config.window(), config.limits());
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports, window, limits);
        dispatcher.set_slow_limit(config.events.slow_call.map(|time| time.0));
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
        let shares = shares(&*runtime.clock, &dispatcher.exports(), dispatcher.volumes()).await;
        let ready = ReadyInfo { addresses, shares, registered: false };
        let (runtime, stop) = (runtime.clone(), Switch::default());
        let door = open_door(&runtime, &settings.config, &dispatcher, &stop);
        Ok(Self { runtime, settings, dispatcher, listeners, ready, recording, door, stop })
    }

    /// Addresses and volumes of the server.
    pub fn ready(&self) -> &ReadyInfo {
        &self.ready
    }

    /// A handle to control the server while it runs.
    pub fn handle(&self) -> ServerHandle {
        let (stop, dispatcher) = (self.stop.clone(), self.dispatcher.clone());
        let (runtime, door) = (self.runtime.clone(), self.door.clone());
        let Settings { file, refused, has_volumes_of_file, devices, .. } = self.settings.clone();
        let start = runtime.clock.now();
        ServerHandle {
            runtime,
            start,
            stop,
            dispatcher,
            door,
            file,
            refused,
            has_volumes_of_file,
            devices,
        }
    }

    /// Registers the ports with rpcbind, if the configuration asks for it. A failure is a warning.
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

    /// Serves until [`ServerHandle::stop`], and then ends cleanly.
    ///
    /// # Errors
    /// [`ServeError::Shutdown`] if a volume could not be left clean, [`ServeError::Stuck`] if a
    /// disk does not answer; the other volumes still are.
    pub async fn run(self) -> Result<(), ServeError> {
        let door = self.door.clone();
        let accept = self.listeners.iter().map(|listener| door.accept(listener));
        select(join_all(accept).boxed_local(), self.stop.wait().boxed_local()).await;
        self.unregister().await;
        drop(self.listeners);
        door.drain().await;
        // Calls may wait for a background scan: for free space that it counts, or for a file that
        // it is reading.
        self.dispatcher.volumes().ask_to_end();
        let ended = stopping::end_all(&self.runtime, &self.dispatcher).await;
        self.recording.iter().for_each(|recording| recording.finish());
        tell_repetitions(self.dispatcher.reply_cache_counters());
        ended
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
        // A listener on all IPv6 addresses also receives IPv4 connections.
        let serves = |address: &&SocketAddr| address.is_ipv4() || address.ip().is_unspecified();
        addresses.find(serves).map(SocketAddr::port)
    }
}

impl ServerHandle {
    /// Starts the end of the server. See the module's documentation.
    pub fn stop(&self) {
        self.stop.throw();
    }

    /// Reloads the exports. On an error the old ones stay. A file without the rules of a served
    /// volume is an error.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub async fn reload_exports(&self) -> Result<(), ConfigError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let config = reactor::elsewhere(move || Config::read(&file)).await?;
        if self.has_volumes_of_file {
            refuse_lost_volumes(&config, self.dispatcher.volumes())?;
        }
        let has_volumes_of_file = self.has_volumes_of_file;
        let volumes = self.dispatcher.volumes();
        let exports = exports(&config, volumes, &self.refused, has_volumes_of_file)?;
        refuse_lost_rules(&self.dispatcher.exports(), &exports, self.dispatcher.volumes())?;
        self.dispatcher.set_exports(exports);
        Ok(())
    }

    /// The volumes, and who may do what with them now. A volume whose disk does not answer for
    /// [`SHARE_TIMEOUT`](crate::SHARE_TIMEOUT) is described without its root directory.
    pub async fn shares(&self) -> Vec<Share> {
        let exports = self.dispatcher.exports();
        shares(&*self.runtime.clock, &exports, self.dispatcher.volumes()).await
    }

    /// Logs the access to each volume. A task of its own waits for the disks, so that neither a
    /// signal nor the next reload does.
    pub(crate) fn log_shares(&self) {
        let handle = self.clone();
        let log = async move {
            for share in handle.shares().await {
                tracing::info!("{share}");
            }
        };
        self.runtime.tasks.spawn(log.boxed_local());
    }

    /// Whether there is a configuration file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Counters of the reply cache.
    pub fn reply_cache_counters(&self) -> dispatch::Counters {
        self.dispatcher.reply_cache_counters()
    }
}

impl Serving for ServerHandle {
    fn durability(&self, volume: &str) -> &'static str {
        if self.dispatcher.is_delayed(volume) { "delayed" } else { "durable" }
    }

    fn counters(&self) -> ServerCounters {
        let dispatcher = &self.dispatcher;
        let troubles = |(name, is_stopped, is_damaged): (&str, _, _)| VolumeTroubles {
            name: name.to_owned(),
            is_stopped,
            is_damaged,
        };
        ServerCounters {
            uptime: self.runtime.clock.now().since(self.start),
            volumes: dispatcher.volumes().troubles().map(troubles).collect(),
            refused_volumes: self.refused.clone(),
            devices: self.devices.copy(),
            calls: dispatcher.counts(),
            refusals: dispatcher.refusals(),
            reply_cache: dispatcher.reply_cache_counters(),
            remembered: dispatcher.remembered(),
            under_way: dispatcher.under_way(),
            arriving: dispatcher.arriving(),
            executing: dispatcher.turns_taken(),
            connections: self.door.occupants(),
            door: self.door.counts(),
        }
    }

    fn connected(&self) -> Connected {
        self.dispatcher.connected()
    }
}

fn open_door(
    runtime: &Runtime,
    config: &Config,
    dispatcher: &Rc<Dispatcher>,
    stop: &Switch,
) -> Rc<Door> {
    let bounds = Bounds {
        connections: descriptors::places_for(config.limits.connections as u64),
        calls_per_connection: config.limits.calls_per_connection as usize,
    };
    Door::new(runtime.clone(), dispatcher.clone(), bounds, stop.clone())
}

/// Builds the exports, and warns about those that are declared delayed.
fn exports(
    config: &Config,
    volumes: &Volumes,
    refused: &[String],
    has_volumes_of_file: bool,
) -> Result<Exports, ConfigError> {
    let names = volumes.iter().map(|volume| volume.name.as_str());
    let names: Vec<&str> = names.chain(refused.iter().map(String::as_str)).collect();
    let exports = config.exports_for(&names, has_volumes_of_file)?;
    for volume in volumes.iter().filter(|volume| exports.of(&volume.name).delayed().is_some()) {
        tracing::warn!(
            volume = volume.name,
            "answers before the disk has it, as its export declares: a crash may take back what \
             was answered, but for what a client asked to be made durable"
        );
    }
    Ok(exports)
}

/// Refuses a reload without the section of a served volume: such a file may be another one, or half
/// of one.
fn refuse_lost_volumes(config: &Config, volumes: &Volumes) -> Result<(), ConfigError> {
    match volumes.iter().find(|volume| !config.volumes.contains_key(&volume.name)) {
        Some(volume) => Err(ConfigError::VolumeGone { volume: volume.name.clone() }),
        None => Ok(()),
    }
}

/// Refuses a reload without the rules of a served volume, which would be open to every user of this
/// machine. A start has no earlier rules, and trusts the file.
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

/// Starts the trace, if the configuration asks for one.
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
    socket.set_keepalive(true)?; // inherited by connections: a client that lost its power goes away
    socket.bind(address)?;
    socket.listen(BACKLOG).map(TcpListener)
}

/// Reports the repeated calls that the reply cache has answered: losses of the network, and ours,
/// that no client noticed.
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
