//! Worlds for repeated calls: a server on a disk with the state that a cut has left, and
//! connections that send the same bytes again.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use designs::{LogOptions, MkfsOptions, OpenOptions};
use dispatch::Window;
use nfs3_types::nfs3::{Nfs3Result, nfs_fh3, stable_how};
use ram::RamOptions;
use sim::Stream;
use vfs::FileSystem;

use super::cases::{BEFORE, Case, Handles, SECOND, Undo};
use crate::calls;
use crate::client::{Client, ClientOptions};
use crate::explore::design::Design;
use crate::explore::disks::Images;
use crate::explore::driver::Driver;
use crate::explore::model::View;
use crate::protocol::{self, Answer, Procedure, User};
use crate::world::{SERVER, Status, VOLUME, World, WorldOptions, client_address};

/// The client whose call is repeated, and another one.
const CALLER: u32 = 1;
const OTHER: u32 = 2;
/// The port of the call.
pub const PORT: u16 = 700;
/// The number (xid) of the call.
pub const XID: u32 = 0x5eed_0001;

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The policy of the volume.
    pub design: Design,
    /// Whether the server lets answers survive, if the policy stores them.
    pub survives: bool,
}

fn options(Served { design, survives }: Served) -> WorldOptions {
    let mkfs = MkfsOptions {
        block_size: Some(4096),
        fragment_size: Some(512),
        bytes_per_inode: Some(16_384),
        ..MkfsOptions::default()
    };
    // A sync interval that ends before the trace does, so that cuts hit the sync.
    let log = LogOptions { sync_interval: Duration::from_millis(10), ..LogOptions::default() };
    let open = OpenOptions { log, ..WorldOptions::default().open };
    let window = Window { survives, ..Window::default() };
    let ram = (!design.has_disks()).then(RamOptions::default);
    WorldOptions { design, size: 1 << 20, mkfs, open, window, ram, ..WorldOptions::default() }
}

/// The durable state for the next boot.
#[derive(Clone)]
pub enum Remains {
    /// The contents of the disks.
    Disks(Images),
    /// The state of an engine over memory.
    Memory(Box<ram::Platter>),
}

/// A world with a server.
pub struct Stage {
    /// The world.
    pub world: World,
}

/// The state before every call.
pub struct Base {
    /// The server that made it.
    pub served: Served,
    /// The durable state after its clean stop.
    pub remains: Remains,
    /// Handles of its files.
    pub handles: Handles,
}

/// A record of a call.
pub fn record(case: &Case, xid: u32) -> Bytes {
    let user = User { machine: "client".into(), uid: 0, gid: 0, groups: Vec::new() };
    protocol::call_record(xid, &user, case.target, &case.arguments)
}

impl Base {
    /// Makes the initial state.
    pub fn new(served: Served) -> Self {
        let world = World::new(1, options(served));
        world.start();
        assert_eq!(world.run(world.serving()), Status::Serving);
        let client = world.client(OTHER, ClientOptions::default());
        let handles = world.run(prepare(&client));
        world.run(world.stop());
        let remains = match world.ram() {
            Some(ram) => Remains::Memory(Box::new(ram.platter())),
            None => Remains::Disks(world.contents()),
        };
        Self { served, remains, handles }
    }
}

async fn prepare(client: &Client) -> Handles {
    let root = client.mount(VOLUME).await.expect("the volume is exported");
    for &(path, length) in BEFORE {
        let place = path.trim_end_matches('/');
        let (parent, name) = parent(client, &root, place).await;
        if path.ends_with('/') {
            ask(client, &calls::mkdir(&parent, name)).await;
        } else {
            ask(client, &calls::create(&parent, name)).await;
            let file = find(client, &root, place).await;
            let data = vec![1 + (length % 7) as u8; length];
            ask(client, &calls::write(&file, 0, data, stable_how::FILE_SYNC)).await;
        }
    }
    let file = find(client, &root, SECOND.0).await;
    ask(client, &calls::link(&file, &root, SECOND.1)).await;
    let [file, from, to] = [
        find(client, &root, "file").await,
        find(client, &root, "from").await,
        find(client, &root, "to").await,
    ];
    let told = client.call(&calls::getattr(&file)).await.expect("a call").unwrap();
    Handles { root, file, file_ctime: told.obj_attributes.ctime, from, to }
}

async fn ask<P, T, E>(client: &Client, arguments: &P)
where
    P: Procedure<Results = Nfs3Result<T, E>>,
    E: std::fmt::Debug,
{
    client.call(arguments).await.expect("a call").unwrap();
}

async fn find(client: &Client, root: &nfs_fh3, path: &str) -> nfs_fh3 {
    let mut here = root.clone();
    for name in path.split('/') {
        here = client.call(&calls::lookup(&here, name)).await.expect("a call").unwrap().object;
    }
    here
}

async fn parent<'p>(client: &Client, root: &nfs_fh3, path: &'p str) -> (nfs_fh3, &'p str) {
    match path.rsplit_once('/') {
        Some((above, name)) => (find(client, root, above).await, name),
        None => (root.clone(), path),
    }
}

impl Stage {
    /// A world with this durable state.
    ///
    /// # Errors
    /// When the server does not come up.
    pub fn new(seed: u64, served: Served, remains: &Remains) -> Result<Self, String> {
        let world = match remains {
            Remains::Disks(images) => World::on_images(seed, options(served), images),
            Remains::Memory(platter) => {
                World::on_platter(seed, options(served), (**platter).clone())
            }
        };
        world.start();
        match world.run(world.serving()) {
            Status::Serving => Ok(Self { world }),
            _ => Err(format!("it does not come back: {:?}", world.failure())),
        }
    }

    /// Number of changes of the durable state since the start of the recording.
    pub fn events(&self) -> usize {
        match self.world.ram() {
            Some(ram) => ram.events() as usize,
            None => self.world.recording().events(),
        }
    }

    /// Connects as the caller; from any port, if it is 0.
    pub async fn connect(&self, port: u16) -> Stream {
        let host = self.world.network().host(client_address(CALLER), None);
        loop {
            match host.connect(port, SERVER).await {
                Ok(stream) => return stream,
                Err(_) => self.world.runtime().clock.sleep(Duration::from_millis(1)).await,
            }
        }
    }

    /// Makes another client's call, if its target exists.
    pub async fn undo(&self, undo: Undo) {
        let client = self.world.client(OTHER, ClientOptions::default());
        let root = client.mount(VOLUME).await.expect("the volume is exported");
        let (Undo::Remove(path) | Undo::Rmdir(path) | Undo::Create(path) | Undo::Mkdir(path)) =
            undo
        else {
            if let Undo::Resize(size) = undo {
                let file = find(&client, &root, "file").await;
                let _ = client.call(&calls::setattr(&file, calls::size(size))).await;
            }
            return;
        };
        let (directory, name) = parent(&client, &root, path).await;
        // The target may not exist if the call was not carried out.
        match undo {
            Undo::Remove(_) => drop(client.call(&calls::remove(&directory, name)).await),
            Undo::Rmdir(_) => drop(client.call(&calls::rmdir(&directory, name)).await),
            Undo::Create(_) => drop(client.call(&calls::create(&directory, name)).await),
            _ => drop(client.call(&calls::mkdir(&directory, name)).await),
        }
    }

    fn driver(&self) -> Driver {
        let files: Rc<dyn FileSystem> = self.world.file_system().expect("it serves");
        Driver::new(files)
    }

    /// The whole tree.
    ///
    /// # Errors
    /// Why something cannot be read.
    pub fn view(&self) -> Result<View, String> {
        let view = self.world.run(self.driver().view());
        view.map(|(view, _)| view).map_err(|error| format!("it cannot be read: {error}"))
    }

    /// Inode and generation of a path.
    pub fn find(&self, path: &str) -> Option<(u64, u32)> {
        let found = self.world.run(self.driver().find(path)).ok()?;
        Some((found.ino.0, found.generation))
    }
}

/// Sends a record and waits for a reply. Returns the reply as it is.
///
/// # Errors
/// When the connection ends.
pub async fn exchange(stream: &Stream, record: &Bytes) -> Result<Bytes, String> {
    send(stream, record).await?;
    receive(stream).await
}

/// Sends a record.
///
/// # Errors
/// When the connection ends.
pub async fn send(stream: &Stream, record: &Bytes) -> Result<(), String> {
    stream.write_all(record).await.map_err(|error| format!("it cannot be sent: {error}"))
}

/// Waits for a reply.
///
/// # Errors
/// When the connection ends.
pub async fn receive(stream: &Stream) -> Result<Bytes, String> {
    let mut mark = [0; 4];
    fill(stream, &mut mark).await?;
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    fill(stream, &mut reply).await?;
    Ok(reply.into())
}

async fn fill(stream: &Stream, mut target: &mut [u8]) -> Result<(), String> {
    while !target.is_empty() {
        match stream.read(target).await {
            Ok(length) if length > 0 => target = &mut target[length..],
            other => return Err(format!("no reply: {other:?}")),
        }
    }
    Ok(())
}

/// The results in a reply.
///
/// # Errors
/// When there are none.
pub fn results(reply: &Bytes) -> Result<Answer, String> {
    match protocol::reply(reply) {
        Some((_, answer @ Answer::Results(_))) => Ok(answer),
        other => Err(format!("refused: {other:?}")),
    }
}
