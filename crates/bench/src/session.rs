//! A run of `duramen bench`: workload after workload, each on a fresh stage.

use std::net::SocketAddr;
use std::rc::Rc;

use load::stage::{Plan, Stage, Trouble, Watch};
use load::workload::{Played, Workload, replay};
use nfs::rpc::Caller;
use runtime::Runtime;
use trace::Entry;

use crate::clock::FineClock;
use crate::cpu::Process;
use crate::progress::Progress;
use crate::report::{Curve, Report, Result as Row};
use crate::target::Target;
use crate::tcp::{self, Tcp};

/// A benchmark to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// The server and its export.
    pub target: Target,
    /// The pieces to play.
    pub pieces: Vec<Piece>,
    /// Duration, load and other parameters.
    pub plan: Plan,
    /// Port of MOUNT, if known.
    pub mount_port: Option<u16>,
    /// Whether to call from a port below 1024.
    pub is_privileged: bool,
    /// User and group of the caller.
    pub user: (u32, u32),
    /// Shell command to run when the files of a workload of one or two procedures are ready, just
    /// before it is measured.
    pub prepared: Option<String>,
    /// Whether to keep the files that were created.
    pub keeps: bool,
    /// Whether to show progress.
    pub shows_progress: bool,
}

/// Something to play.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A workload.
    Workload(Workload),
    /// A trace, at a multiple of its original speed, or as fast as possible.
    Replay(Vec<Entry>, Option<f64>),
}

impl Piece {
    fn name(&self) -> &str {
        match self {
            Self::Workload(workload) => workload.name,
            Self::Replay(..) => "replay",
        }
    }

    async fn play(&self, stage: &Stage) -> Result<Played, Trouble> {
        match self {
            Self::Workload(workload) => workload.play(stage).await,
            Self::Replay(entries, speed) => {
                let phases = vec![replay(stage, entries, *speed).await?];
                Ok(Played { phases, curve: None })
            }
        }
    }
}

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The host has no address.
    #[error("cannot find the host '{host}': {source}")]
    Unknown {
        /// Name of the host.
        host: String,
        /// Error of the resolver.
        source: std::io::Error,
    },
    /// No server answers at the address.
    #[error("no NFS server answers at {address}: {source}")]
    Unreachable {
        /// Address of the server.
        address: SocketAddr,
        /// Error of the connection.
        source: std::io::Error,
    },
    /// The server answers, but its MOUNT service was not found.
    #[error("the server at {address} answers, but its MOUNT service does not: {source}")]
    NoMount {
        /// Address of the server.
        address: SocketAddr,
        /// Error of the search.
        source: std::io::Error,
    },
    /// The first stage could not be set up.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Runs a benchmark, with a finer clock. Workloads that cannot be prepared are listed in the
/// report's troubles.
///
/// # Errors
/// [`BenchError`], if there is no server to measure.
pub async fn run(order: &Order, runtime: Runtime) -> Result<Report, BenchError> {
    let clock = Rc::new(FineClock::over(runtime.clock));
    Session::begin(order, Runtime { clock, ..runtime }).await?.play().await
}

struct Session<'a> {
    order: &'a Order,
    runtime: Runtime,
    dial: Tcp,
    watch: Rc<Progress>,
    report: Report,
}

impl<'a> Session<'a> {
    async fn begin(order: &'a Order, runtime: Runtime) -> Result<Self, BenchError> {
        let target = &order.target;
        let unknown = |source| BenchError::Unknown { host: target.host.clone(), source };
        let address = target.address().await.map_err(unknown)?;
        let unreachable = |source| BenchError::Unreachable { address, source };
        drop(tcp::connect(address, order.is_privileged).await.map_err(unreachable)?);
        let mount = match order.mount_port {
            Some(port) => SocketAddr::new(address.ip(), port),
            None => {
                let found = tcp::find_mount(address, order.is_privileged).await;
                found.map_err(|source| BenchError::NoMount { address, source })?
            }
        };
        let server = Process::listening_at(address);
        let prepared = order.prepared.clone();
        let watch = Rc::new(Progress::new(order.shows_progress, server, prepared));
        watch.end_on_interrupt();
        Ok(Self {
            order,
            runtime,
            dial: Tcp { nfs: address, mount, is_privileged: order.is_privileged },
            watch,
            report: Report::new(target.to_string(), &order.plan),
        })
    }

    async fn play(mut self) -> Result<Report, BenchError> {
        for (index, piece) in self.order.pieces.iter().enumerate() {
            let stage = match self.stage().await {
                Ok(stage) => stage,
                // The first failure concerns the server and the export, not a workload.
                Err(trouble) if index == 0 => return Err(trouble.into()),
                Err(trouble) => {
                    self.trouble(piece.name(), &trouble);
                    continue;
                }
            };
            match piece.play(&stage).await {
                Ok(played) => self.note(piece.name(), &played),
                Err(trouble) => self.trouble(piece.name(), &trouble),
            }
            if !self.order.keeps
                && let Err(left) = stage.strike().await
            {
                self.report.troubles.push(left.to_string());
            }
            if self.watch.is_over() {
                self.report.troubles.push("interrupted".to_owned());
                break;
            }
        }
        self.watch.clear();
        Ok(self.report)
    }

    async fn stage(&self) -> Result<Stage, Trouble> {
        let (uid, gid) = self.order.user;
        let caller = Caller::sys(b"duramen-bench", uid, gid, &[]);
        let (export, plan) = (&self.order.target.export, self.order.plan.clone());
        Stage::set(&self.runtime, &self.dial, caller, export, plan, self.watch.clone()).await
    }

    fn note(&mut self, name: &str, played: &Played) {
        self.report.workloads.extend(played.phases.iter().map(Row::new));
        self.report.curves.extend(played.curve.as_ref().map(|curve| Curve::new(name, curve)));
    }

    fn trouble(&mut self, name: &str, trouble: &Trouble) {
        self.report.troubles.push(format!("{name}: {trouble}"));
    }
}
