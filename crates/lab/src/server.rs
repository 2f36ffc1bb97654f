//! A paper's server, with its disks, its processor and its network, in virtual time.
//!
//! All of our server runs on it: the codec, `dispatch`, the namespace and the engine, over disks
//! with the timing of the paper's. [`Design`]s differ only in what the paper says about them.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use dispatch::{Dispatcher, Exports, Fsid, Limits, Volume, Volumes, Window};
use ffs::logged::Sharer;
use ffs::policy::log::LogOptions;
use ffs::{Disks, Files, OpenError, OpenOptions, Opened, PolicyKind, open, open_sharing};
use futures::FutureExt;
use namespace::Namespace;
use runtime::{Instant, Runtime};
use sim::{Disk, Executor, Image, Machine, Network, NetworkOptions, Timing};
use torture::world::{SERVER, answer, client_address, open_to_all};
use vfs::FileSystem;

use crate::logging_locks::LoggingLocks;
use crate::processor::{Costs, Processor};
use crate::wire::Simulated;

/// Maximum unanswered calls of one connection.
const CONNECTION_CALLS: usize = 128;

/// Interval at which a UNIX of the time writes data that no client waits for.
const UPDATE: Duration = Duration::from_secs(30);

/// Components of a server.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Timing of each disk with a file system.
    pub data: Timing,
    /// Timing of the log's disk.
    pub log: Timing,
    /// Memory for the caches of all volumes, in bytes.
    pub cache_bytes: usize,
    /// Cost of processor time; `None` if it takes no time.
    pub processor: Option<Costs>,
    /// The network.
    pub network: NetworkOptions,
}

/// The way in which the server makes changes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Ordered writes in place, and no log.
    InPlace,
    /// A metadata log for all volumes.
    Log {
        /// Size limits and batching of the log.
        options: LogOptions,
        /// Whether changed objects stay locked until the log has the change.
        holds_locks: bool,
        /// Whether answers are kept in the log, too.
        keeps_answers: bool,
    },
}

/// Contents of the disks.
#[derive(Clone)]
pub struct Images {
    /// The file systems.
    pub volumes: Vec<Image>,
    /// Number of the first file system, in handles and in export names.
    pub first: usize,
    /// The log.
    pub log: Option<Image>,
}

/// A running server.
pub struct Server {
    // Declared first, so that tasks are dropped before the data that they use.
    executor: Executor,
    machine: Machine,
    network: Network,
    /// The disks with file systems.
    pub disks: Vec<Rc<Disk>>,
    /// The disk with the log.
    pub log: Option<Rc<Disk>>,
    /// The processor, if its time counts.
    pub processor: Option<Rc<Processor>>,
    started: Started,
    first: usize,
}

/// Result of the start.
struct Started {
    file_systems: Vec<Rc<dyn FileSystem>>,
    engines: Vec<Rc<Files>>,
    back: Back,
}

/// Result of recovery at the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Back {
    /// Time until all volumes were open.
    pub took: Duration,
    /// Totals of the replay, over all volumes.
    pub replayed: ffs::replay::Replayed,
}

impl Server {
    /// Starts a server on these images; one without a log ignores the log's image. It is serving
    /// when this returns.
    ///
    /// # Panics
    /// When a volume cannot be opened, which is an error of the model.
    pub fn start(seed: u64, hardware: &Hardware, design: Design, images: &Images) -> Self {
        let executor = Executor::new(seed);
        let machine = Machine::new(&executor);
        let network = Network::new(&executor, hardware.network);
        let disk = |image: &Image, timing| {
            let options = sim::Options { timing, ..sim::Options::default() };
            Disk::in_machine(&machine, image.clone(), options)
        };
        let disks: Vec<_> = images.volumes.iter().map(|image| disk(image, hardware.data)).collect();
        let log = images.log.as_ref().filter(|_| design != Design::InPlace);
        let log = log.map(|image| disk(image, hardware.log));
        let runtime = machine.runtime();
        let processor =
            hardware.processor.map(|costs| Processor::new(costs, runtime.clock.clone()));
        let opening = open_all(&runtime, hardware, design, &disks, log.as_ref());
        let begun = executor.now();
        let opened = executor.block_on(opening);
        let opened = opened.unwrap_or_else(|error| panic!("the server does not start: {error}"));
        let took = executor.now().since(begun);
        let started = Started::new(opened, design, took);
        let first = images.first;
        let server = Self { executor, machine, network, disks, log, processor, started, first };
        server.listen(design);
        server
    }

    fn listen(&self, design: Design) {
        let runtime = self.machine.runtime();
        let survives = matches!(design, Design::Log { keeps_answers: true, .. });
        let window = Window { survives, ..Window::default() };
        let (volumes, exports) = self.exports();
        let limits = Limits::default();
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports, window, limits);
        let listener = self.network.host(SERVER.ip(), Some(&self.machine)).listen(SERVER.port());
        let listener = listener.expect("nobody listens yet");
        let tasks = runtime.tasks.clone();
        let processor = self.processor.clone().map(|one| one as Rc<dyn torture::world::Processor>);
        let serving = answer(listener, dispatcher, tasks, CONNECTION_CALLS, processor);
        runtime.tasks.spawn(serving.boxed_local());
    }

    fn exports(&self) -> (Volumes, Exports) {
        let (mut volumes, mut exports) = (Vec::new(), Exports::default());
        for (number, file_system) in self.started.file_systems.iter().enumerate() {
            let number = self.first + number;
            let (name, file_system) = (name(number), file_system.clone());
            exports.insert(&name, open_to_all());
            volumes.push(Volume { name, fsid: Fsid(number as u64 + 1), file_system });
        }
        (Volumes::new(volumes).expect("each has a name of its own"), exports)
    }

    /// Export paths of its volumes.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        (0..self.disks.len()).map(|number| format!("/{}", name(self.first + number)))
    }

    /// Result of recovery.
    pub fn back(&self) -> Back {
        self.started.back
    }

    /// The engines, by volume.
    pub fn engines(&self) -> &[Rc<Files>] {
        &self.started.engines
    }

    /// Connections from a machine of their own.
    pub fn client(&self, number: u32) -> Simulated {
        let host = self.network.host(client_address(number), None);
        Simulated { host, server: SERVER }
    }

    /// Time, randomness and tasks outside of the server.
    pub fn runtime(&self) -> Runtime {
        self.executor.runtime()
    }

    /// Current time.
    pub fn now(&self) -> Instant {
        self.executor.now()
    }

    /// Runs everything until `future` is done.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.executor.block_on(future)
    }

    /// Images as left by a power failure now. Each unflushed write is lost or not, at random.
    pub fn left(&self, seed: u64) -> Images {
        let prng = &mut sim::Prng::new(seed);
        let volumes = self.disks.iter().map(|disk| disk.crash(prng)).collect();
        Images { volumes, first: self.first, log: self.log.as_ref().map(|log| log.crash(prng)) }
    }

    /// Stops the server cleanly.
    ///
    /// # Panics
    /// When a disk fails, which those of models do not.
    pub fn stop(self) -> Images {
        for file_system in &self.started.file_systems {
            let stopped = self.executor.block_on(file_system.shutdown());
            stopped.expect("the disks of a model do not fail");
        }
        let volumes = self.disks.iter().map(|disk| disk.contents()).collect();
        Images { volumes, first: self.first, log: self.log.as_ref().map(|log| log.contents()) }
    }
}

impl Started {
    fn new(opened: Vec<Opened>, design: Design, took: Duration) -> Self {
        let mut back = Back { took, ..Back::default() };
        for replayed in opened.iter().filter_map(|opened| opened.replayed) {
            back.add(&replayed);
        }
        let engines: Vec<_> = opened.into_iter().map(|opened| opened.files).collect();
        let file_systems = engines.iter().map(|engine| {
            let plain: Rc<dyn FileSystem> = Rc::new(Namespace::new(engine.clone()));
            match design {
                Design::Log { holds_locks: true, .. } => Rc::new(LoggingLocks::new(plain)),
                _ => plain,
            }
        });
        Self { file_systems: file_systems.collect(), engines, back }
    }
}

impl Back {
    fn add(&mut self, volume: &ffs::replay::Replayed) {
        let all = &mut self.replayed;
        all.entries += volume.entries;
        all.records += volume.records;
        all.changes += volume.changes;
        all.revoked += volume.revoked;
        all.writes += volume.writes;
        // There is one log, and each volume's figures cover all of it.
        all.bytes = all.bytes.max(volume.bytes);
        all.search_reads = all.search_reads.max(volume.search_reads);
    }
}

fn name(number: usize) -> String {
    format!("disk{number}")
}

async fn open_all(
    runtime: &Runtime,
    hardware: &Hardware,
    design: Design,
    disks: &[Rc<Disk>],
    log: Option<&Rc<Disk>>,
) -> Result<Vec<Opened>, OpenError> {
    let cache_bytes = hardware.cache_bytes / disks.len();
    let housekeeping_interval = UPDATE;
    let mut options = OpenOptions { cache_bytes, housekeeping_interval, ..OpenOptions::default() };
    let devices = disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>);
    let Design::Log { options: log_options, .. } = design else {
        let mut all = Vec::new();
        for device in devices {
            let disks = Disks::alone(device);
            all.push(open(PolicyKind::Sync, disks, runtime.clone(), &options, &mut |_| ()).await?);
        }
        return Ok(all);
    };
    options.housekeeping_interval = log_options.sync_interval;
    options.log = log_options;
    let sharers = devices.map(|device| Sharer { device, saved: None }).collect();
    let log = log.expect("a design with a log has a disk for it").clone();
    let save: ffs::policy::log::Save =
        Rc::new(|_, _| Err(std::io::Error::other("no volume of a model is ever absent")));
    let all = open_sharing(sharers, log, save, runtime, &options, &mut |_| ()).await?;
    all.into_iter().collect()
}
