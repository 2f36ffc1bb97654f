//! Plays a workload: the whole server in a world, four clients, and cuts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use designs::{LogOptions, MkfsOptions, OpenOptions};
use dispatch::Window;
use futures::FutureExt;
use nfs3_types::nfs3::{
    CREATE3args, Nfs3Option, Nfs3Result, cookieverf3, createhow3, createverf3, nfs_fh3, sattr3,
    stable_how,
};
use ram::RamOptions;
use sim::{Latency, Mishaps, NetworkOptions, Timing};

use super::words::{CELL, How};
use super::workload::{BELOW, Cut, Loss, Spot, Stable, Step, When, Workload};
use crate::calls;
use crate::client::{Client, ClientOptions};
use crate::history::Call;
use crate::protocol::Procedure;
use crate::world::{Cuts, Status, VOLUME, World, WorldOptions};

/// The permissions of new files.
const MODE: u32 = 0o644;
/// The count of a READ: more than any file holds.
const ALL: u32 = 1 << 16;

/// A workload that was played.
pub struct Played {
    /// The handle of the root.
    pub root: nfs_fh3,
    /// All calls.
    pub calls: Vec<Call>,
    /// When each boot but the last one ended, in the order of the calls.
    pub cuts: Vec<u64>,
    /// A hash of all events.
    pub digest: u64,
    /// Effects of the cuts, for an engine over memory.
    pub in_memory: Cuts,
}

/// A small disk: every workload formats it anew.
fn options(workload: &Workload) -> WorldOptions {
    let mkfs = MkfsOptions {
        block_size: Some(4096),
        fragment_size: Some(512),
        bytes_per_inode: Some(16_384),
        ..MkfsOptions::default()
    };
    let network = if workload.is_bad { NetworkOptions::bad() } else { NetworkOptions::default() };
    let slow = Latency {
        write_ns: (100_000, 3_000_000),
        flush_ns: (500_000, 6_000_000),
        ..Latency::default()
    };
    let latency = if workload.is_slow { slow } else { Latency::default() };
    let disk = sim::Options { timing: Timing::Random(latency), ..sim::Options::default() };
    let log = LogOptions {
        sync_interval: Duration::from_millis(20),
        sync_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let open = OpenOptions { cache_bytes: 4 << 20, log, ..OpenOptions::default() };
    let window = Window { survives: workload.survives, ..Window::default() };
    let size = 1 << 20;
    let most = Duration::from_millis(if workload.is_slow { 60 } else { 10 });
    let delay = Duration::from_micros(100)..most;
    let ram = (!workload.design.has_disks()).then(|| RamOptions { delay, ..RamOptions::default() });
    let defaults = WorldOptions::default();
    let design = workload.design;
    WorldOptions { design, size, mkfs, network, disk, open, window, ram, ..defaults }
}

fn behaviour(is_bad: bool) -> ClientOptions {
    let mishaps = if is_bad { Mishaps::many() } else { Mishaps::default() };
    ClientOptions { calls: mishaps, replies: mishaps, ..ClientOptions::default() }
}

/// Plays a workload to its end: one client prepares, four work, one inspects the result.
///
/// # Errors
/// When the server does not come back, or a client never gets an answer.
pub fn play(workload: &Workload) -> Result<Played, String> {
    let world = World::new(workload.world, options(workload));
    world.start();
    if world.run(world.serving()) != Status::Serving {
        return Err(format!("the server does not start: {:?}", world.failure()));
    }
    let number = workload.clients.len() as u32;
    let first = Hand::new(world.client(number + 1, ClientOptions::default()));
    let prepared = world.run(first.prepare());
    let ended = Rc::new(Cell::new(0));
    for (index, steps) in workload.clients.iter().enumerate() {
        let client = world.client(index as u32 + 1, behaviour(workload.is_bad));
        let (mut hand, steps) = (Hand { client, ..prepared.clone() }, steps.clone());
        let (clock, ended) = (world.runtime().clock.clone(), ended.clone());
        let work = async move {
            for (_, pause_us, step) in steps {
                clock.sleep(Duration::from_micros(pause_us)).await;
                hand.take(step).await;
            }
            ended.set(ended.get() + 1);
        };
        world.runtime().tasks.spawn(work.boxed_local());
    }
    let all = workload.clients.len();
    for (_, cut) in &workload.cuts {
        cut_power(&world, *cut, || ended.get() == all)?;
    }
    wait_until(&world, Duration::from_millis(1), || ended.get() == all)?;
    let last = Hand { client: world.client(number + 2, ClientOptions::default()), ..prepared };
    world.run(last.look_at_everything());
    let cuts = world.history().ends().into_iter().map(|end| end.order).collect();
    let (calls, digest) = (world.history().calls(), world.digest());
    Ok(Played { root: last.root, calls, cuts, digest, in_memory: world.cuts() })
}

fn pass(world: &World, time: Duration) {
    world.run_for(time, std::future::pending::<()>());
}

fn wait_until(world: &World, step: Duration, holds: impl Fn() -> bool) -> Result<(), String> {
    let hour = Duration::from_secs(3600);
    let start = world.now();
    while !holds() {
        pass(world, step);
        if world.now().since(start) > hour {
            return Err("an hour has passed, and somebody still waits".into());
        }
        if let Some(failure) = world.failure() {
            return Err(format!("the volume does not come back: {failure}"));
        }
    }
    Ok(())
}

fn cut_power(world: &World, cut: Cut, all_ended: impl Fn() -> bool) -> Result<(), String> {
    let (made, answered) = (world.history().len(), world.history().answered());
    match cut.when {
        When::Made(calls, then_us) => {
            let holds = || world.history().len() >= made + calls || all_ended();
            wait_until(world, Duration::from_micros(200), holds)?;
            pass(world, Duration::from_micros(then_us));
        }
        When::Answered(calls) => {
            let holds = || world.history().answered() >= answered + calls || all_ended();
            wait_until(world, Duration::from_micros(5), holds)?;
        }
    }
    match cut.loss {
        Loss::Some => world.crash(),
        Loss::All => world.crash_to_durable(),
        Loss::Process => world.kill(),
    }
    pass(world, Duration::from_micros(cut.off_us));
    world.start();
    Ok(())
}

/// A client with the handles that it knows.
#[derive(Clone)]
struct Hand {
    client: Client,
    root: nfs_fh3,
    below: nfs_fh3,
    known: BTreeMap<Spot, nfs_fh3>,
}

impl Hand {
    fn new(client: Client) -> Self {
        let none = nfs_fh3::default();
        Self { client, root: none.clone(), below: none, known: BTreeMap::new() }
    }

    /// Makes the initial tree: a directory, and a file in the root.
    async fn prepare(mut self) -> Self {
        self.root = self.client.mount(VOLUME).await.expect("the volume is exported");
        let below = self.ask(&calls::mkdir(&self.root, BELOW)).await.expect("an empty volume");
        self.below = below.obj.unwrap();
        self.known.insert(Spot { below: false, name: BELOW }, self.below.clone());
        let spot = Spot { below: false, name: "x" };
        self.create(spot, How::Guarded).await;
        let file = self.known[&spot].clone();
        let write = calls::write(&file, 0, vec![255; 2 * CELL as usize], stable_how::FILE_SYNC);
        self.ask(&write).await.expect("there is room");
        self
    }

    /// Lists the directories and reads their files.
    async fn look_at_everything(&self) {
        for directory in [&self.root, &self.below] {
            let args = calls::readdirplus(directory, 0, cookieverf3::default());
            let Some(listed) = self.ask(&args).await else { continue };
            for entry in listed.reply.entries.0 {
                let name = String::from_utf8_lossy(entry.name.as_ref()).into_owned();
                if let Nfs3Option::Some(handle) = entry.name_handle
                    && name != "."
                    && name != ".."
                {
                    self.ask(&calls::getattr(&handle)).await;
                    self.ask(&calls::read(&handle, 0, ALL)).await;
                }
            }
        }
    }

    async fn ask<P, T, E>(&self, arguments: &P) -> Option<T>
    where
        P: Procedure<Results = Nfs3Result<T, E>>,
    {
        match self.client.call(arguments).await.ok()? {
            Nfs3Result::Ok(ok) => Some(ok),
            Nfs3Result::Err(_) => None,
        }
    }

    /// Makes a call whose answer matters to the history alone.
    async fn tell<P: Procedure>(&self, arguments: &P) {
        let _ = self.client.call(arguments).await; // a refusal is in the history too
    }

    fn directory(&self, below: bool) -> nfs_fh3 {
        if below { self.below.clone() } else { self.root.clone() }
    }

    fn learn(&mut self, spot: Spot, handle: Option<Nfs3Option<nfs_fh3>>) {
        if let Some(Nfs3Option::Some(handle)) = handle {
            self.known.insert(spot, handle);
        }
    }

    async fn create(&mut self, spot: Spot, how: How) {
        let set = sattr3 { mode: Nfs3Option::Some(MODE), ..sattr3::default() };
        let how = match how {
            How::Unchecked { empty: true } => {
                createhow3::UNCHECKED(sattr3 { size: Nfs3Option::Some(0), ..set })
            }
            How::Unchecked { empty: false } => createhow3::UNCHECKED(set),
            How::Guarded => createhow3::GUARDED(set),
            How::Exclusive(verifier) => createhow3::EXCLUSIVE(createverf3(verifier.to_be_bytes())),
        };
        let where_ = calls::place(&self.directory(spot.below), spot.name);
        let made = self.ask(&CREATE3args { where_, how }).await;
        self.learn(spot, made.map(|ok| ok.obj));
    }

    async fn lookup(&mut self, spot: Spot) {
        let found = self.ask(&calls::lookup(&self.directory(spot.below), spot.name)).await;
        self.learn(spot, found.map(|ok| Nfs3Option::Some(ok.object)));
    }

    async fn take(&mut self, step: Step) {
        let subject = match step {
            Step::Getattr(spot)
            | Step::Access(spot)
            | Step::Read(spot)
            | Step::Resize(spot, _)
            | Step::Chmod(spot, _)
            | Step::Write { spot, .. }
            | Step::Commit(spot)
            | Step::Link(spot, _) => spot,
            other => return self.at_a_place(other).await,
        };
        match self.known.get(&subject).cloned() {
            Some(file) => self.to_a_file(&file, step).await,
            None => self.lookup(subject).await,
        }
    }

    async fn to_a_file(&self, file: &nfs_fh3, step: Step) {
        let mode = |mode| sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() };
        match step {
            Step::Getattr(_) => self.tell(&calls::getattr(file)).await,
            Step::Access(_) => self.tell(&calls::access(file, 0x3f)).await,
            Step::Read(_) => self.tell(&calls::read(file, 0, ALL)).await,
            Step::Resize(_, cells) => {
                self.tell(&calls::setattr(file, calls::size(cells * CELL))).await;
            }
            Step::Chmod(_, bits) => self.tell(&calls::setattr(file, mode(bits))).await,
            Step::Write { at, count, value, stable, .. } => {
                let stable = match stable {
                    Stable::Unstable => stable_how::UNSTABLE,
                    Stable::DataSync => stable_how::DATA_SYNC,
                    Stable::FileSync => stable_how::FILE_SYNC,
                };
                let data = vec![value; (count * CELL) as usize];
                self.tell(&calls::write(file, at * CELL, data, stable)).await;
            }
            Step::Commit(_) => self.tell(&calls::commit(file)).await,
            Step::Link(_, to) => {
                self.tell(&calls::link(file, &self.directory(to.below), to.name)).await;
            }
            _ => unreachable!("a step to a file"),
        }
    }

    async fn at_a_place(&mut self, step: Step) {
        match step {
            Step::Lookup(spot) => self.lookup(spot).await,
            Step::Create(spot, how) => self.create(spot, how).await,
            Step::List { below, plus } => {
                let (directory, start) = (self.directory(below), cookieverf3::default());
                if plus {
                    self.tell(&calls::readdirplus(&directory, 0, start)).await
                } else {
                    self.tell(&calls::readdir(&directory, 0, start)).await
                }
            }
            Step::Mkdir(spot) => {
                let made = self.ask(&calls::mkdir(&self.directory(spot.below), spot.name)).await;
                self.learn(spot, made.map(|ok| ok.obj));
            }
            Step::Symlink(spot) => {
                let directory = self.directory(spot.below);
                let args = calls::symlink(&directory, spot.name, super::model::TARGET);
                let made = self.ask(&args).await;
                self.learn(spot, made.map(|ok| ok.obj));
            }
            Step::Mkfifo(spot) => {
                let made = self.ask(&calls::mkfifo(&self.directory(spot.below), spot.name)).await;
                self.learn(spot, made.map(|ok| ok.obj));
            }
            Step::Remove(spot) => {
                self.tell(&calls::remove(&self.directory(spot.below), spot.name)).await;
            }
            Step::Rmdir(spot) => {
                self.tell(&calls::rmdir(&self.directory(spot.below), spot.name)).await;
            }
            Step::Rename(from, to) => {
                let (source, goal) = (self.directory(from.below), self.directory(to.below));
                self.tell(&calls::rename((&source, from.name), (&goal, to.name))).await;
            }
            _ => unreachable!("a step at a place"),
        }
    }
}
