//! The stage of workloads: connections to a server, and a directory of their own there.

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

/// Size and pace of a workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections, 1 to 64.
    pub connections: usize,
    /// Concurrent calls on each, 1 to 32.
    pub depth: usize,
    /// Period in which steps begin; `None` until `count` is reached.
    pub duration: Option<Duration>,
    /// Most steps.
    pub count: u64,
    /// Steps per second, begun on time whatever the server does; `None` is as fast as it answers.
    pub rate: Option<f64>,
    /// The number of directories for the files.
    pub directories: u64,
    /// File size of workloads that read and write, for each connection.
    pub file_size: u64,
    /// The rates of workloads that run at several rates, one after the other.
    pub ramp: Ramp,
    /// Most bytes of a file set that grows with the rate.
    pub file_set_max: u64,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Rising rates, in calls per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// The first.
    pub first: f64,
    /// The last; `None` rises until the server is saturated.
    pub last: Option<f64>,
    /// The number of rates, if there is a last one.
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

/// Why a workload could not run.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// No server answers.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] std::io::Error),
    /// The export does not exist, or not for us.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A call before or after the measurement failed.
    #[error("cannot {what}: {source}")]
    Setup {
        /// The purpose of the call.
        what: String,
        /// The error.
        source: CallError,
    },
    /// Calls before or after the measurement failed.
    #[error("{what}: {procedure} fails: {why}")]
    Prepare {
        /// The purpose of the calls.
        what: String,
        /// The procedure of the first call that failed.
        procedure: &'static str,
        /// The error.
        why: String,
    },
    /// The watcher interrupted the workload.
    #[error("interrupted")]
    Interrupted,
    /// The watcher refuses the measurement.
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

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// The client's.
    pub client: Option<Duration>,
    /// The server's.
    pub server: Option<Duration>,
}

impl ProcessorTime {
    /// The difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let passed =
            |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        Self {
            client: passed(self.client, earlier.client),
            server: passed(self.server, earlier.server),
        }
    }
}

/// Follows the progress of workloads.
pub trait Watch {
    /// The files of a workload of one or two procedures are made, and its measurement is about to
    /// start: the moment to empty caches, for example. No call is in progress.
    ///
    /// # Errors
    /// A sentence that says why it must not be measured.
    fn prepared(&self, _workload: &str) -> Result<(), String> {
        Ok(())
    }
    /// A phase begins; `total` is its largest number of steps.
    fn begin(&self, phase: &str, total: u64);
    /// Numbers of answered and of failed calls of the phase so far.
    fn progress(&self, done: u64, failed: u64);
    /// The processor time of client and server so far, if it is known.
    fn processor_time(&self) -> ProcessorTime {
        ProcessorTime::default()
    }
    /// Whether the watcher interrupts the workload: then no further step begins.
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

/// Limits that the server announces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest READ.
    pub read_max: u32,
    /// The largest WRITE.
    pub write_max: u32,
}

/// The connections and the directory of workloads.
pub struct Stage {
    /// Clock, random source and tasks.
    pub runtime: Runtime,
    /// Size and pace.
    pub plan: Plan,
    /// Limits that the server announces.
    pub limits: Limits,
    /// The directory of all workloads.
    pub home: Handle,
    /// The name of the directory in the export.
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

    /// Most concurrent calls.
    pub fn workers(&self) -> usize {
        self.plan.connections * self.plan.depth
    }
}
