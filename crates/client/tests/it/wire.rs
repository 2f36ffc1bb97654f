//! Files over connections, of our own server in a simulated world, which is killed and loses its
//! power meanwhile.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use client::connection::{Connection, Numbers};
use client::file::{File, Options, Remote};
use client::mount::mount;
use client::stream::{Dial, Service};
use client::{CallError, Client, Patience, Redial};
use lab::wire::Simulated;
use nfs::nfs3::arguments::{CreateArgs, CreateHow, DirectoryName};
use nfs::nfs3::{Handle, SetAttributes};
use nfs::rpc::Caller;
use sim::Prng;
use torture::explore::design::Design;
use torture::world::{SERVER, VOLUME, World, WorldOptions};

use crate::bytes;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));

/// A client machine and a server.
struct Scene {
    world: World,
    dial: Rc<Simulated>,
    caller: Rc<Caller>,
    numbers: Numbers,
    file: Handle,
}

impl Scene {
    /// A server with an empty file.
    fn new(seed: u64) -> Self {
        let mut options =
            WorldOptions { size: 64 << 20, design: Design::LOG, ..WorldOptions::default() };
        options.log_size = 4 << 20;
        options.open.cache_bytes = 32 << 20;
        let world = World::new(seed, options);
        world.start();
        world.run(world.serving());
        let host = world.network().host(CLIENT, None);
        let dial = Rc::new(Simulated { host, server: SERVER });
        let caller = Rc::new(Caller::sys(b"client", 0, 0, &[]));
        let numbers = Numbers::starting_at(1);
        let making = async {
            let runtime = world.runtime();
            let root = mount(&runtime, &*dial, &caller, &numbers, VOLUME).await;
            let root = root.expect("the volume is exported");
            let stream = dial.dial(Service::Nfs).await.expect("it listens");
            let connection = Connection::start(&runtime, stream);
            let client = Client::new(connection, caller.clone(), numbers.clone());
            let location = DirectoryName { directory: root.as_bytes(), name: b"file" };
            let how = CreateHow::Unchecked(SetAttributes::default());
            let made = client.call(&CreateArgs { location, how }).await.expect("there is room");
            made.object.expect("our server tells handles")
        };
        let file = world.run(making);
        Self { world, dial, caller, numbers, file }
    }

    async fn client(&self) -> Client {
        let stream = self.dial.dial(Service::Nfs).await.expect("it listens");
        let connection = Connection::start(&self.world.runtime(), stream);
        Client::new(connection, self.caller.clone(), self.numbers.clone())
    }

    fn redial(&self, patience: Patience) -> Redial {
        let (caller, numbers) = (self.caller.clone(), self.numbers.clone());
        Redial::new(&self.world.runtime(), self.dial.clone(), caller, numbers, patience)
    }

    fn open<L: client::Line>(&self, line: L, daemons: usize) -> File<Remote<L>> {
        let options = Options {
            daemons,
            write_size: 16 << 10,
            read_size: 16 << 10,
            uncommitted_max: 1 << 20,
            ..Options::default()
        };
        File::new(&self.world.runtime(), Remote { line, file: self.file }, options)
    }

    /// The contents of the file.
    fn contents(&self) -> Vec<u8> {
        let reading = async {
            let mut file = self.open(self.client().await, 4);
            file.read(0, 64 << 20).await.expect("it can be read").data.concat()
        };
        self.world.run(reading)
    }
}

const PATIENCE: Patience = Patience {
    pause: Duration::from_millis(100),
    silence: Duration::from_secs(5),
    call: Duration::MAX,
};

#[test]
fn daemons_make_a_file_quicker_and_change_none_of_its_bytes() {
    let mut took = Vec::new();
    for daemons in [0, 1, 8] {
        let scene = Scene::new(1);
        let data = bytes(3_000_001);
        let start = scene.world.now();
        scene.world.run(async {
            let mut file = scene.open(scene.client().await, daemons);
            file.write(0, data.clone()).await.expect("there is room");
            file.close().await.expect("it is durable");
        });
        took.push(scene.world.now().since(start));
        assert!(scene.contents() == data, "{daemons} daemons");
    }
    assert!(took[2] * 2 < took[0], "{took:?}");
}

#[test]
fn a_lost_connection_is_told_and_nothing_vouched_for() {
    let scene = Scene::new(2);
    let mut file = scene.world.run(async { scene.open(scene.client().await, 2) });
    scene.world.run(file.write(0, bytes(100_000))).expect("daemons have it");
    scene.world.kill();
    let closed = scene.world.run(file.close());
    assert!(matches!(closed, Err(CallError::Broken(_))), "{closed:?}");
}

/// Writes at random to a server that comes and goes; returns the expected contents of the file.
async fn write_on(scene: &Scene, daemons: usize, prng: &mut Prng) -> Vec<u8> {
    let mut file = scene.open(scene.redial(PATIENCE), daemons);
    let mut model: Vec<u8> = Vec::new();
    for _ in 0..60 {
        let mut data = vec![0; prng.between(1, 100_000) as usize];
        prng.fill(&mut data);
        let offset = prng.below(400_000) as usize;
        let end = offset + data.len();
        model.resize(model.len().max(end), 0);
        model[offset..end].copy_from_slice(&data);
        file.write(offset as u64, Bytes::from(data)).await.expect("there is room");
    }
    file.close().await.expect("it is durable in the end");
    model
}

/// Runs this with that many daemons; returns how often the server came back.
fn come_and_go(seed: u64, daemons: usize) -> Result<u64, String> {
    let (scene, mut prng) = (Scene::new(seed), Prng::new(seed));
    let mut chance = Prng::new(!seed);
    let mut writing = std::pin::pin!(write_on(&scene, daemons, &mut prng));
    let model = loop {
        let up = Duration::from_millis(chance.between(1, 400));
        if let Some(model) = scene.world.run_for(up, writing.as_mut()) {
            break model;
        }
        if chance.chance(1, 2) {
            scene.world.kill();
        }
        scene.world.crash_to_durable();
        scene.world.start();
        scene.world.run(scene.world.serving());
    };
    let boots = scene.world.boot();
    // Data in a cache does not count.
    scene.world.crash_to_durable();
    scene.world.start();
    scene.world.run(scene.world.serving());
    let found = scene.contents();
    if found == model {
        return Ok(boots);
    }
    let at = found.iter().zip(&model).position(|(found, expected)| found != expected);
    Err(format!("seed {seed}, {daemons} daemons: {at:?} of {} and {}", found.len(), model.len()))
}

#[test]
fn a_file_that_is_closed_has_outlived_its_server() {
    let mut boots = 0;
    for seed in 0..10 {
        let back = come_and_go(seed, seed as usize % 9);
        boots += back.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert!(boots > 20, "{boots}");
}
