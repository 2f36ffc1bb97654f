//! A server's machine with its disk, behind a network.
//!
//! The server runs only in tasks of its machine, from the opening of the volume on. So the power
//! can be cut at any moment, even during the recovery from an earlier cut, and only the platter is
//! left. Clients are outside of the machine, and go on.
//!
//! A *boot* is one start of the server, counted from 1. Its number is that of the host's
//! incarnation on the network, so a client with a connection knows the boot at its other end.

mod connection;
mod cuts;
mod server;

pub use connection::{Processor, answer};
pub use cuts::Cuts;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use designs::{MkfsOptions, OpenError, OpenOptions};
use dispatch::{Dispatcher, Exports, Limits, Window};
use futures::FutureExt;
use journal::format::SMALLEST;
use ram::RamOptions;
use runtime::sync::Signal;
use runtime::{Instant, Timestamp};
use sim::{Disk, Executor, Image, Machine, Network, NetworkOptions, Platter, Prng};
use vfs::FileSystem;

use crate::client::{Client, ClientOptions, Surroundings};
use crate::explore::design::Design;
use crate::explore::disks::{Images, Recording};
use crate::history::History;
use crate::volume::exports;
pub use crate::volume::open_to_all;
use server::Plan;

/// The address of the server.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 2049);

/// The path of its volume.
pub const VOLUME: &str = "/data";

/// Options of the server, its machine and its network.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The size of the disk, in bytes.
    pub size: u64,
    /// The design of the volume.
    pub design: Design,
    /// The size of its log, in bytes, if the design has one.
    pub log_size: u64,
    /// Options for making the file system.
    pub mkfs: MkfsOptions,
    /// Options of the disk.
    pub disk: sim::Options,
    /// Options of the network.
    pub network: NetworkOptions,
    /// Options for opening the volume.
    pub open: OpenOptions,
    /// Limits on work in progress.
    pub limits: Limits,
    /// Size of the reply cache.
    pub window: Window,
    /// The clients that may use the volume, which is called `data`.
    pub exports: Exports,
    /// Most unanswered calls of one connection.
    pub connection_calls: usize,
    /// Serves files over memory with these options instead of a disk.
    pub ram: Option<RamOptions>,
}

impl Default for WorldOptions {
    /// A small disk, a good network, and the program's defaults for everything else.
    fn default() -> Self {
        Self {
            size: 16 << 20,
            design: Design::default(),
            log_size: SMALLEST,
            mkfs: small_blocks(),
            disk: sim::Options::default(),
            network: NetworkOptions::default(),
            open: OpenOptions { cache_bytes: 4 << 20, ..OpenOptions::default() },
            limits: Limits::default(),
            window: Window::default(),
            exports: exports(false),
            connection_calls: 128,
            ram: None,
        }
    }
}

/// A file system with blocks so small that a small disk has many.
pub fn small_blocks() -> MkfsOptions {
    let (block_size, fragment_size) = (Some(8192), Some(1024));
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// A world with one server. Everything in it follows from the seed.
pub struct World {
    // The executor drops first: its tasks use the other fields.
    executor: Executor,
    network: Network,
    machine: Rc<Machine>,
    options: WorldOptions,
    prng: RefCell<Prng>,
    /// The disks of the volume: one, or the members of a set.
    homes: RefCell<Vec<Rc<Disk>>>,
    /// The log, if it has one; it loses its power with the disk.
    log: RefCell<Option<Rc<Disk>>>,
    /// The platter of an engine over memory, and the effects of cuts on it.
    ram: Option<Rc<ram::Disk>>,
    cuts: Cell<Cuts>,
    boot: Rc<Cell<u64>>,
    state: Rc<Watched>,
    history: History,
}

/// The state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The server is not running.
    Off,
    /// The server is opening its volume.
    Opening,
    /// The server answers.
    Serving,
    /// The server could not open its volume.
    Failed,
}

#[derive(Default)]
enum State {
    #[default]
    Off,
    Opening,
    Serving(Running),
    Failed(Rc<OpenError>),
}

/// A running server.
#[derive(Clone)]
struct Running {
    dispatcher: Rc<Dispatcher>,
    file_system: Rc<dyn FileSystem>,
}

#[derive(Default)]
struct Watched {
    state: RefCell<State>,
    changed: Signal,
}

impl Watched {
    fn set(&self, state: State) {
        drop(self.state.replace(state)); // the old state may have effects when it is dropped
        self.changed.notify();
    }
}

impl World {
    /// A world with a new file system, and a server that is off.
    ///
    /// # Panics
    /// When the disk is too small for the file system.
    pub fn new(seed: u64, options: WorldOptions) -> Self {
        let executor = Executor::new(seed);
        let prng = Prng::new(!seed); // the executor's own streams use the seed as it is
        let now = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
        if options.ram.is_some() {
            let disk = Disk::with_options(&executor, Image::zeroed(options.size), options.disk);
            let ram = ram::Disk::new(options.size, now);
            return Self { ram: Some(ram), ..Self::on(executor, prng, vec![disk], options) };
        }
        let sizes = options.design.home_sizes(options.size);
        let new = |&size: &u64| Disk::with_options(&executor, Image::zeroed(size), options.disk);
        let homes: Vec<Rc<Disk>> = sizes.iter().map(new).collect();
        let devices = homes.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
        let runtime = executor.runtime();
        executor.block_on(options.design.make_on(devices, &options.mkfs, &runtime, now));
        Self::on(executor, prng, homes, options)
    }

    /// A world with this memory contents, and a server that is off.
    pub fn on_platter(seed: u64, options: WorldOptions, platter: ram::Platter) -> Self {
        let executor = Executor::new(seed);
        let disk = Disk::with_options(&executor, Image::zeroed(options.size), options.disk);
        let ram = ram::Disk::of(options.size, platter);
        Self { ram: Some(ram), ..Self::on(executor, Prng::new(!seed), vec![disk], options) }
    }

    /// A world with these contents of its disks, and a server that is off.
    ///
    /// # Panics
    /// When their number differs from that in the options.
    pub fn on_images(seed: u64, options: WorldOptions, images: &Images) -> Self {
        let executor = Executor::new(seed);
        let disk = |image: &Image| Disk::with_options(&executor, image.clone(), options.disk);
        let (homes, logs) = images.0.split_at(options.design.device().disks());
        assert_eq!(logs.len(), usize::from(options.design.has_beside()), "all its disks");
        let (homes, log) = (homes.iter().map(disk).collect(), logs.first().map(disk));
        let world = Self::on(executor, Prng::new(!seed), homes, options);
        world.log.replace(log);
        world
    }

    fn on(executor: Executor, prng: Prng, homes: Vec<Rc<Disk>>, options: WorldOptions) -> Self {
        let new_log =
            || Disk::with_options(&executor, Image::zeroed(options.log_size), options.disk);
        Self {
            log: RefCell::new(options.design.has_beside().then(new_log)),
            network: Network::new(&executor, options.network),
            machine: Rc::new(Machine::new(&executor)),
            executor,
            options,
            prng: RefCell::new(prng),
            homes: RefCell::new(homes),
            ram: None,
            cuts: Cell::default(),
            boot: Rc::default(),
            state: Rc::default(),
            history: History::default(),
        }
    }

    /// The world's options.
    pub(crate) fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// The design of the volume.
    pub(crate) fn design(&self) -> Design {
        self.options.design
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The disk of the last boot, or what is left of it; for a set the first member.
    pub fn disk(&self) -> Rc<Disk> {
        self.homes.borrow()[0].clone()
    }

    /// All disks of the volume: as [`World::disk`].
    pub(crate) fn homes(&self) -> Vec<Rc<Disk>> {
        self.homes.borrow().clone()
    }

    /// The disk of its log, if it has one: as [`World::disk`].
    pub fn log(&self) -> Option<Rc<Disk>> {
        self.log.borrow().clone()
    }

    /// The platter of an engine over memory.
    pub fn ram(&self) -> Option<&Rc<ram::Disk>> {
        self.ram.as_ref()
    }

    /// Effects of cuts on the engine over memory.
    pub fn cuts(&self) -> Cuts {
        self.cuts.get()
    }

    /// Cuts the engine over memory: a random part of its pending changes survives, or none.
    fn cut_ram(&self, keeps_some: bool) {
        if let Some(ram) = &self.ram {
            let mut prng = self.fork_prng();
            let share = prng.between(1, 4);
            let cut = ram.cut(|| keeps_some && prng.chance(share, 4));
            self.cuts.set(self.cuts.get().and(cut));
        }
    }

    /// The contents that reads of its disks return now.
    pub fn contents(&self) -> Images {
        Images(self.disks().map(|disk| disk.contents()).collect())
    }

    fn disks(&self) -> impl Iterator<Item = Rc<Disk>> {
        let homes = self.homes.borrow().clone();
        homes.into_iter().chain(self.log())
    }

    /// Starts recording the events of its disks.
    pub fn start_recording(&self) {
        self.disks().for_each(|disk| disk.start_trace());
    }

    /// The recording so far.
    pub fn recording(&self) -> Recording {
        Recording::new(self.disks().map(|disk| disk.trace()).collect())
    }

    /// The calls of all clients.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Clock, random source and tasks outside of the server.
    pub fn runtime(&self) -> runtime::Runtime {
        self.executor.runtime()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.executor.now()
    }

    /// A hash of all events.
    pub fn digest(&self) -> u64 {
        self.executor.digest()
    }

    /// A random source for the caller that drives the world.
    pub fn fork_prng(&self) -> Prng {
        self.prng.borrow_mut().fork()
    }

    /// Runs everything until `future` is done.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.executor.block_on(future)
    }

    /// Runs everything until `future` is done, or `duration` has passed.
    pub fn run_for<F: Future>(&self, duration: Duration, future: F) -> Option<F::Output> {
        self.executor.block_on_for(duration, future)
    }

    /// The number of the last boot that has started.
    pub fn boot(&self) -> u64 {
        self.boot.get()
    }

    /// The state of the server.
    pub fn status(&self) -> Status {
        match &*self.state.state.borrow() {
            State::Off => Status::Off,
            State::Opening => Status::Opening,
            State::Serving(_) => Status::Serving,
            State::Failed(_) => Status::Failed,
        }
    }

    /// Why the volume did not open.
    pub fn failure(&self) -> Option<Rc<OpenError>> {
        match &*self.state.state.borrow() {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// The dispatcher, if the server runs. Not to be kept over a crash.
    pub fn dispatcher(&self) -> Option<Rc<Dispatcher>> {
        Some(self.running()?.dispatcher)
    }

    /// The file system of the volume, if the server runs. Not to be kept over a crash.
    pub fn file_system(&self) -> Option<Rc<dyn FileSystem>> {
        Some(self.running()?.file_system)
    }

    fn running(&self) -> Option<Running> {
        match &*self.state.state.borrow() {
            State::Serving(running) => Some(running.clone()),
            _ => None,
        }
    }

    /// Starts the server. It answers after a while: see [`World::serving`].
    ///
    /// # Panics
    /// When it runs already.
    pub fn start(&self) {
        assert_eq!(self.status(), Status::Off, "it runs already");
        let disks = self.disks().collect();
        let host = self.network.host(SERVER.ip(), Some(&self.machine));
        self.boot.set(self.boot.get() + 1);
        assert_eq!(host.incarnation(), self.boot.get(), "a boot is an incarnation of the host");
        self.state.set(State::Opening);
        let runtime = self.machine.runtime();
        let (options, state) = (self.options.clone(), Rc::downgrade(&self.state));
        let (machine, ram) = (self.machine.clone(), self.ram.clone());
        let plan = Plan { machine, runtime: runtime.clone(), disks, ram, host, options, state };
        runtime.tasks.spawn(server::serve(plan).boxed_local());
    }

    /// Completes when the server answers, or when its volume did not open.
    pub async fn serving(&self) -> Status {
        loop {
            let changed = self.state.changed.wait();
            match self.status() {
                status @ (Status::Serving | Status::Failed) => return status,
                Status::Off | Status::Opening => changed.await,
            }
        }
    }

    /// A power cut: any writes that no flush covers may be lost or torn, at random.
    pub fn crash(&self) {
        self.cut_ram(true);
        let prng = &mut self.fork_prng();
        self.crash_to(|platter| platter.image(&sim::Choice::random(platter, prng)));
    }

    /// A power cut that leaves only writes that flushes cover.
    pub fn crash_to_durable(&self) {
        self.cut_ram(false);
        self.crash_to(Platter::durable_image);
    }

    /// A power cut that leaves these images.
    ///
    /// # Panics
    /// When there are fewer images than disks, or the engine has no disks.
    pub fn crash_with(&self, images: &Images) {
        assert!(self.ram().is_none(), "what a cut leaves of memory is no image");
        let mut images = images.0.iter();
        self.crash_to(|_| images.next().expect("one for each disk").clone());
    }

    /// A power cut; `choose` returns the remaining contents of each disk, the volume first.
    pub fn crash_to(&self, mut choose: impl FnMut(&Platter) -> Image) {
        self.machine.crash();
        self.ended();
        let mut left = |disk: Rc<Disk>| {
            Disk::in_machine(&self.machine, choose(&disk.platter()), self.options.disk)
        };
        let homes = self.homes.take().into_iter().map(&mut left).collect();
        self.homes.replace(homes);
        let log = self.log.take().map(left);
        self.log.replace(log);
    }

    /// Kills the process: its connections are closed, and its disk goes on. Unflushed writes may
    /// still be lost in a later power cut.
    pub fn kill(&self) {
        self.cut_ram(true);
        self.machine.kill();
        self.ended();
    }

    fn ended(&self) {
        if self.status() != Status::Off {
            self.history.end_of_boot(self.now());
        }
        self.state.set(State::Off);
    }

    /// Stops the server as an administrator does: calls are answered, and the volume is clean.
    ///
    /// # Panics
    /// When it does not run, or the disk fails.
    pub async fn stop(&self) {
        let running = self.running().expect("a server that runs is stopped");
        let quiet = running.dispatcher.quiesce().await;
        running.file_system.shutdown().await.unwrap_or_else(|error| panic!("{error}"));
        drop((quiet, running));
        self.kill();
    }

    /// A client on a machine of its own, which never loses its power. Clients with one number share
    /// one machine.
    pub fn client(&self, number: u32, options: ClientOptions) -> Client {
        let address = client_address(number);
        let host = self.network.host(address, None);
        let surroundings = Surroundings {
            runtime: self.runtime(),
            network: self.network.clone(),
            host,
            server: SERVER,
            history: self.history.clone(),
            boot: self.boot.clone(),
            prng: self.fork_prng(),
        };
        Client::new(number, options, surroundings)
    }
}

/// The address of a client's machine.
pub fn client_address(number: u32) -> IpAddr {
    let low = u16::try_from(number).expect("a few clients").to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 1, low[0], low[1]))
}
