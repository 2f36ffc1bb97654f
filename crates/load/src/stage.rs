//! Where workloads are played: connections to a server, and a directory of their own there.

use std::rc::Rc;
use std::time::Duration;

use nfs::nfs3::Handle;
use nfs::nfs3::arguments::{FsinfoArgs, MkdirArgs};
use nfs::rpc::Caller;
use runtime::Runtime;

use crate::chance::Chance;
use crate::names::{at, look_up, open_to_owner};
use client::connection::{Connection, Numbers};
use client::mount::{self, MountError};
use client::stream::{Dial, Service};
use client::{CallError, Client};

/// How much of a workload, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections, 1 to 64.
    pub connections: usize,
    /// Calls under way on each, 1 to 32.
    pub depth: usize,
    /// For how long steps are begun; `None` until `count` is reached.
    pub duration: Option<Duration>,
    /// How many steps at most.
    pub count: u64,
    /// Steps a second, begun on time whatever the server does; `None` is as fast as it answers.
    pub rate: Option<f64>,
    /// Over how many directories the files are spread.
    pub directories: u64,
    /// The size of the files of workloads that read and write, for each connection.
    pub file_size: u64,
    /// The rates of workloads that are played at one after the other.
    pub ramp: Ramp,
    /// The most bytes of a file set that grows with the rate.
    pub file_set_max: u64,
    /// What all chance follows from.
    pub seed: u64,
}

/// Rising rates, in calls a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// The first.
    pub first: f64,
    /// The last; `None` rises until the server has enough.
    pub last: Option<f64>,
    /// How many rates, if there is a last one.
    pub points: usize,
}

impl Default for Plan {
    /// One directory, four connections with eight calls each, five seconds.
    fn default() -> Self {
        Self {
            connections: 4,
            depth: 8,
            duration: Some(Duration::from_secs(5)),
            count: 100_000,
            rate: None,
            directories: 1,
            file_size: 64 << 20,
            ramp: Ramp { first: 500.0, last: None, points: 10 },
            file_set_max: 256 << 20,
            seed: 1,
        }
    }
}

/// Why a workload could not be played.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// No server is there.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] std::io::Error),
    /// There is no such export, or not for us.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A call before or after the measurement failed.
    #[error("cannot {what}: {source}")]
    Setup {
        /// What it was for.
        what: String,
        /// Why.
        source: CallError,
    },
    /// Calls before or after the measurement failed.
    #[error("{what}: {procedure} fails: {why}")]
    Prepare {
        /// What they were for.
        what: String,
        /// The first that failed.
        procedure: &'static str,
        /// Why.
        why: String,
    },
    /// The watcher has had enough.
    #[error("interrupted")]
    Interrupted,
    /// The watcher does not let it be measured.
    #[error("{0}")]
    Refused(String),
    /// The plan makes no sense.
    #[error("{0}")]
    Plan(String),
}

impl Trouble {
    /// A failure to do `what`.
    pub fn setup(what: impl Into<String>) -> impl FnOnce(CallError) -> Self {
        let what = what.into();
        |source| Self::Setup { what, source }
    }
}

/// Time on processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Of the client.
    pub client: Option<Duration>,
    /// Of the server.
    pub server: Option<Duration>,
}

impl ProcessorTime {
    /// What came on top since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let passed =
            |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        Self {
            client: passed(self.client, earlier.client),
            server: passed(self.server, earlier.server),
        }
    }
}

/// Hears how far things are.
pub trait Watch {
    /// What a workload of a procedure or two needs is made, and it is about to be measured: the
    /// moment to empty caches, say. No call is under way.
    ///
    /// # Errors
    /// A sentence: why it is not to be measured.
    fn prepared(&self, _workload: &str) -> Result<(), String> {
        Ok(())
    }
    /// A phase begins; `total` steps are the most.
    fn begin(&self, phase: &str, total: u64);
    /// So many calls of it were answered, and so many failed.
    fn progress(&self, done: u64, failed: u64);
    /// The time that we and the server have had on processors so far, where it is known.
    fn processor_time(&self) -> ProcessorTime {
        ProcessorTime::default()
    }
    /// Whether the watcher has had enough: no further step is begun then.
    fn is_over(&self) -> bool {
        false
    }
}

/// A watcher that does nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn progress(&self, _: u64, _: u64) {}
}

/// What the server says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most that a READ may ask for.
    pub read_max: u32,
    /// The most that a WRITE may bring.
    pub write_max: u32,
}

/// The stage.
pub struct Stage {
    /// Time and tasks.
    pub runtime: Runtime,
    /// How much, and how.
    pub plan: Plan,
    /// What the server says of itself.
    pub limits: Limits,
    /// The directory in which everything is done.
    pub home: Handle,
    /// Its name in the export.
    pub home_name: String,
    pub(crate) clients: Vec<Client>,
    pub(crate) watch: Rc<dyn Watch>,
    pub(crate) root: Handle,
}

impl Stage {
    /// Connects, mounts `export` and makes a directory of its own there.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn set(
        runtime: &Runtime,
        dial: &dyn Dial,
        caller: Caller,
        export: &str,
        plan: Plan,
        watch: Rc<dyn Watch>,
    ) -> Result<Self, Trouble> {
        let mut chance = Chance::new(runtime.random.next_u64(), 0);
        let (caller, numbers) = (Rc::new(caller), Numbers::starting_at(chance.next_u64() as u32));
        let root = mount::mount(runtime, dial, &caller, &numbers, export).await?;
        let mut clients = Vec::new();
        for _ in 0..plan.connections {
            let connection = Connection::start(runtime, dial.dial(Service::Nfs).await?);
            clients.push(Client::new(connection, caller.clone(), numbers.clone()));
        }
        let first =
            clients.first().ok_or_else(|| Trouble::Plan("no connection to measure".into()))?;
        let info = first.call(&FsinfoArgs { root: root.as_bytes() }).await;
        let info = info.map_err(Trouble::setup("ask what the server can do"))?;
        let limits = Limits { read_max: info.read_max, write_max: info.write_max };
        let home_name = format!("duramen-bench-{:08x}", chance.next_u64() as u32);
        let arguments =
            MkdirArgs { location: at(&root, home_name.as_bytes()), attributes: open_to_owner() };
        let what = || Trouble::setup(format!("make the directory '{home_name}' in '{export}'"));
        let made = first.call(&arguments).await.map_err(what())?;
        let home = match made.object {
            Some(home) => home,
            None => look_up(first, &root, home_name.as_bytes()).await.map_err(what())?,
        };
        let runtime = runtime.clone();
        Ok(Self { runtime, plan, limits, home, home_name, clients, watch, root })
    }

    /// A client, by the number of its connection.
    pub fn client(&self, connection: usize) -> &Client {
        &self.clients[connection % self.clients.len()]
    }

    /// How many calls are under way at once at most.
    pub fn workers(&self) -> usize {
        self.plan.connections * self.plan.depth
    }
}
