//! A server's machine with its disk, behind a network.
//!
//! The server runs in tasks of its machine and nowhere else, from the opening of the volume on. So
//! the power can be cut at any moment, the return after an earlier cut included, and what is left
//! is the platter. Clients live outside of the machine, and go on.
//!
//! A *boot* is one start of the server, counted from 1. Its number is that of the host's
//! incarnation on the network, so a client that has a connection knows which boot is at its other
//! end.

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

/// What kind of server it is, on what kind of machine and network.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The size of the disk, in bytes.
    pub size: u64,
    /// What is served.
    pub design: Design,
    /// The size of its log, in bytes, if the design has one.
    pub log_size: u64,
    /// How its file system is made.
    pub mkfs: MkfsOptions,
    /// What kind of disk it is.
    pub disk: sim::Options,
    /// What kind of network it is.
    pub network: NetworkOptions,
    /// How the volume is opened.
    pub open: OpenOptions,
    /// How much may be under way.
    pub limits: Limits,
    /// How much of the replies is remembered.
    pub window: Window,
    /// The clients that may use the volume, which is called `data`.
    pub exports: Exports,
    /// The most calls of one connection that are unanswered.
    pub connection_calls: usize,
    /// Files are served over memory, as this says, and not over a disk.
    pub ram: Option<RamOptions>,
}

impl Default for WorldOptions {
    /// A small disk, a good network, and everything else as the program has it.
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

/// A file system with small blocks, of which a small disk has many.
pub fn small_blocks() -> MkfsOptions {
    let (block_size, fragment_size) = (Some(8192), Some(1024));
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// A world with one server. Everything in it follows from the seed.
pub struct World {
    // The tasks go before what they use.
    executor: Executor,
    network: Network,
    machine: Rc<Machine>,
    options: WorldOptions,
    prng: RefCell<Prng>,
    /// What the volume stands on: one, or the members of a set.
    homes: RefCell<Vec<Rc<Disk>>>,
    /// The log, if it has one; it loses its power with the disk.
    log: RefCell<Option<Rc<Disk>>>,
    /// What stands for the disk of an engine over memory, and what cuts did to it.
    ram: Option<Rc<ram::Disk>>,
    cuts: Cell<Cuts>,
    boot: Rc<Cell<u64>>,
    state: Rc<Watched>,
    history: History,
}

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does not run.
    Off,
    /// It opens its volume.
    Opening,
    /// It answers.
    Serving,
    /// It could not open its volume.
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

/// A server that answers.
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
        drop(self.state.replace(state)); // what was there may do things when it is dropped
        self.changed.notify();
    }
}

impl World {
    /// A world with a new file system, and a server that is off.
    ///
    /// # Panics
    /// When the disk does not hold the file system that is asked for.
    pub fn new(seed: u64, options: WorldOptions) -> Self {
        let executor = Executor::new(seed);
        let prng = Prng::new(!seed); // the executor's own streams come of the seed as it is
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

    /// A world whose memory holds this, and a server that is off.
    pub fn on_platter(seed: u64, options: WorldOptions, platter: ram::Platter) -> Self {
        let executor = Executor::new(seed);
        let disk = Disk::with_options(&executor, Image::zeroed(options.size), options.disk);
        let ram = ram::Disk::of(options.size, platter);
        Self { ram: Some(ram), ..Self::on(executor, Prng::new(!seed), vec![disk], options) }
    }

    /// A world with disks that hold this, and a server that is off.
    ///
    /// # Panics
    /// When there are more or fewer than its options say.
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

    /// What it is like.
    pub(crate) fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// What is served.
    pub(crate) fn design(&self) -> Design {
        self.options.design
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The disk: the one of the last boot, or what is left of it; of a set the first member.
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

    /// What stands for the disk of an engine over memory.
    pub fn ram(&self) -> Option<&Rc<ram::Disk>> {
        self.ram.as_ref()
    }

    /// What cuts did to that.
    pub fn cuts(&self) -> Cuts {
        self.cuts.get()
    }

    /// What is on its way to memory stays by chance, or none of it does.
    fn cut_ram(&self, keeps_some: bool) {
        if let Some(ram) = &self.ram {
            let mut prng = self.fork_prng();
            let share = prng.between(1, 4);
            let cut = ram.cut(|| keeps_some && prng.chance(share, 4));
            self.cuts.set(self.cuts.get().and(cut));
        }
    }

    /// What reads of its disks see now.
    pub fn contents(&self) -> Images {
        Images(self.disks().map(|disk| disk.contents()).collect())
    }

    fn disks(&self) -> impl Iterator<Item = Rc<Disk>> {
        let homes = self.homes.borrow().clone();
        homes.into_iter().chain(self.log())
    }

    /// Records from now on what happens to its disks.
    pub fn start_recording(&self) {
        self.disks().for_each(|disk| disk.start_trace());
    }

    /// What was recorded.
    pub fn recording(&self) -> Recording {
        Recording::new(self.disks().map(|disk| disk.trace()).collect())
    }

    /// What the clients have called.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Time, chance and tasks outside of the server.
    pub fn runtime(&self) -> runtime::Runtime {
        self.executor.runtime()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.executor.now()
    }

    /// A hash of everything that has happened.
    pub fn digest(&self) -> u64 {
        self.executor.digest()
    }

    /// Chance for the caller that drives the world.
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

    /// The number of the last boot that has begun.
    pub fn boot(&self) -> u64 {
        self.boot.get()
    }

    /// How the server is.
    pub fn status(&self) -> Status {
        match &*self.state.state.borrow() {
            State::Off => Status::Off,
            State::Opening => Status::Opening,
            State::Serving(_) => Status::Serving,
            State::Failed(_) => Status::Failed,
        }
    }

    /// Why the volume could not be opened.
    pub fn failure(&self) -> Option<Rc<OpenError>> {
        match &*self.state.state.borrow() {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// What answers the calls, if it runs. Not to be kept over a crash.
    pub fn dispatcher(&self) -> Option<Rc<Dispatcher>> {
        Some(self.running()?.dispatcher)
    }

    /// The volume behind it, if it runs. Not to be kept over a crash.
    pub fn file_system(&self) -> Option<Rc<dyn FileSystem>> {
        Some(self.running()?.file_system)
    }

    fn running(&self) -> Option<Running> {
        match &*self.state.state.borrow() {
            State::Serving(running) => Some(running.clone()),
            _ => None,
        }
    }

    /// Switches the server on. It answers after a while: see [`World::serving`].
    ///
    /// # Panics
    /// When it runs.
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

    /// Completes when the server answers, or could not open its volume.
    pub async fn serving(&self) -> Status {
        loop {
            let changed = self.state.changed.wait();
            match self.status() {
                status @ (Status::Serving | Status::Failed) => return status,
                Status::Off | Status::Opening => changed.await,
            }
        }
    }

    /// The power goes: of the writes that no flush covers any may be lost or torn, by chance.
    pub fn crash(&self) {
        self.cut_ram(true);
        let prng = &mut self.fork_prng();
        self.crash_to(|platter| platter.image(&sim::Choice::random(platter, prng)));
    }

    /// The power goes, and nothing is left but what flushes cover.
    pub fn crash_to_durable(&self) {
        self.cut_ram(false);
        self.crash_to(Platter::durable_image);
    }

    /// The power goes, and this is left.
    ///
    /// # Panics
    /// When there are fewer images than disks, or the engine needs none.
    pub fn crash_with(&self, images: &Images) {
        assert!(self.ram().is_none(), "what a cut leaves of memory is no image");
        let mut images = images.0.iter();
        self.crash_to(|_| images.next().expect("one for each disk").clone());
    }

    /// The power goes, and `choose` says what is left, of the volume first.
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

    /// The process is killed: its connections are closed, and its disk goes on. What it wrote and
    /// did not flush may still be lost, when the power goes.
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

    /// A client on a machine of its own, which never loses its power. Those of one number are one
    /// machine.
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
