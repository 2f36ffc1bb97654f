//! An NFS client like a kernel's: it repeats a call until it is answered.
//!
//! A call is sent, and sent again with the same number (xid) after a timeout, or when the
//! connection is known to be lost; then over another one, mostly from another port. Only dropping
//! [`Client::call`] ends that. After a JUKEBOX answer the call is made anew after a while, with
//! another number, as the protocol demands.
//!
//! Its messages meet mishaps on top of those of network connections: a call is not sent, sent
//! twice, or sent late; a reply is lost, or received late.
//!
//! Invariants:
//! 1. A number belongs to one call at a time, and is reused only after all others.
//! 2. Only the first of several replies to a number counts.
//!
//! Not asserted: 2, which the history asserts.

mod link;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};
use nfs3_types::mount::{dirpath, mountres3};
use nfs3_types::nfs3::{nfs_fh3, nfsstat3};
use nfs3_types::xdr_codec::Opaque;
use runtime::Runtime;
use runtime::sync::Lock;
use sim::{Host, Mishaps, Network, Prng};

use crate::history::{CallId, History, Sent};
use crate::protocol::{self, Answer, Mnt, Procedure, Target, User};
use link::Link;

/// Behaviour of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The user that makes the calls.
    pub user: User,
    /// The time after which a call is sent again. It doubles each time,
    pub timeout: Duration,
    /// up to this.
    pub timeout_max: Duration,
    /// Timeouts per thousand after which it gives up the connection for another.
    pub leaves_per_mille: u64,
    /// Connections per thousand from the port of the last one.
    pub same_port_per_mille: u64,
    /// The longest wait before it tries to connect again.
    pub reconnect_max: Duration,
    /// The wait after an answer of JUKEBOX.
    pub jukebox: Duration,
    /// Mishaps of its calls,
    pub calls: Mishaps,
    /// and of the replies.
    pub replies: Mishaps,
}

impl Default for ClientOptions {
    /// The superuser on a machine with a good connection.
    fn default() -> Self {
        Self {
            user: User { machine: "client".into(), uid: 0, gid: 0, groups: Vec::new() },
            timeout: Duration::from_secs(1),
            timeout_max: Duration::from_secs(30),
            leaves_per_mille: 300,
            same_port_per_mille: 200,
            reconnect_max: Duration::from_millis(100),
            jukebox: Duration::from_millis(500),
            calls: Mishaps::default(),
            replies: Mishaps::default(),
        }
    }
}

/// A call refused as such: wrong program, wrong credentials, undecodable arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refuses the call: {0}")]
pub struct Refused(pub String);

/// A client. Cheap to clone: clones share numbers and connection, like the processes of a machine.
#[derive(Clone)]
pub struct Client(Rc<Inner>);

struct Inner {
    id: u32,
    runtime: Runtime,
    network: Network,
    host: Host,
    server: SocketAddr,
    options: ClientOptions,
    history: History,
    /// The last boot of the server to begin.
    boot: Rc<Cell<u64>>,
    prng: RefCell<Prng>,
    xid: Cell<u32>,
    link: RefCell<Option<Rc<Link>>>,
    last_port: Cell<u16>,
    connecting: Lock,
    /// Waiting calls, by number.
    waiting: RefCell<BTreeMap<u32, oneshot::Sender<(u64, Answer)>>>,
}

/// The parts of its world that a client needs.
pub(crate) struct Surroundings {
    pub(crate) runtime: Runtime,
    pub(crate) network: Network,
    pub(crate) host: Host,
    pub(crate) server: SocketAddr,
    pub(crate) history: History,
    pub(crate) boot: Rc<Cell<u64>>,
    pub(crate) prng: Prng,
}

impl Client {
    pub(crate) fn new(id: u32, options: ClientOptions, world: Surroundings) -> Self {
        let Surroundings { runtime, network, host, server, history, boot, mut prng } = world;
        Self(Rc::new(Inner {
            id,
            runtime,
            network,
            host,
            server,
            options,
            history,
            boot,
            xid: Cell::new(prng.next_u64() as u32),
            prng: RefCell::new(prng),
            link: RefCell::default(),
            last_port: Cell::new(0),
            connecting: Lock::default(),
            waiting: RefCell::default(),
        }))
    }

    /// The client's number in the history.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Makes a call and waits for its answer, however long it takes.
    ///
    /// # Errors
    /// [`Refused`].
    ///
    /// # Panics
    /// When the results cannot be decoded.
    pub async fn call<P: Procedure>(&self, arguments: &P) -> Result<P::Results, Refused> {
        self.noted_call(arguments).await.1
    }

    /// Makes a call, and also returns its number in the history.
    ///
    /// # Panics
    /// When the results cannot be decoded.
    pub async fn noted_call<P: Procedure>(
        &self,
        arguments: &P,
    ) -> (CallId, Result<P::Results, Refused>) {
        let (id, answer) = self.0.answer_to(P::TARGET, protocol::packed(arguments)).await;
        let results = match answer {
            Answer::Refused(reason) => Err(Refused(reason)),
            Answer::Results(results) => {
                let read = protocol::whole(&results);
                Ok(read.unwrap_or_else(|| panic!("no results of {:?}: {results:?}", P::TARGET)))
            }
        };
        (id, results)
    }

    /// Makes a call with encoded arguments, of whatever procedure.
    pub async fn raw_call(&self, target: Target, arguments: Bytes) -> Answer {
        self.0.answer_to(target, arguments).await.1
    }

    /// The handle of a volume's root.
    ///
    /// # Errors
    /// [`Refused`], in either of the ways that a server has to refuse it.
    pub async fn mount(&self, path: &str) -> Result<nfs_fh3, Refused> {
        let path = dirpath(Opaque::owned(path.as_bytes().to_vec()));
        match self.call(&Mnt(path)).await? {
            mountres3::Ok(ok) => Ok(nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) }),
            mountres3::Err(status) => Err(Refused(format!("{status:?}"))),
        }
    }

    /// Gives up its connection. Waiting calls are sent again over the next one.
    pub fn hang_up(&self) {
        if let Some(link) = self.0.link.take() {
            link.close();
        }
    }
}

impl Inner {
    async fn answer_to(self: &Rc<Self>, target: Target, arguments: Bytes) -> (CallId, Answer) {
        let clock = &self.runtime.clock;
        let who = (self.id, self.boot.get());
        let id = self.history.make(clock.now(), who, target, arguments.clone());
        loop {
            let xid = self.next_xid();
            let record = protocol::call_record(xid, &self.options.user, target, &arguments);
            let (boot, answer) = self.ask(id, xid, record).await;
            if answer.status(target) != Some(nfsstat3::NFS3ERR_JUKEBOX) {
                self.history.answer(id, clock.now(), boot, answer.clone());
                return (id, answer);
            }
            self.history.put_off(id);
            clock.sleep(self.options.jukebox).await;
        }
    }

    /// Sends a record until a reply arrives.
    async fn ask(self: &Rc<Self>, id: CallId, xid: u32, record: Bytes) -> (u64, Answer) {
        let (sender, mut reply) = oneshot::channel();
        let replaced = self.waiting.borrow_mut().insert(xid, sender);
        assert!(replaced.is_none(), "invariant 1");
        let _waiting = Waiting { client: self.clone(), xid };
        let mut timeout = self.options.timeout;
        loop {
            let link = match select(&mut reply, self.connected().boxed_local()).await {
                Either::Left((reply, _)) => return reply.expect("the sender waits in the map"),
                Either::Right((link, _)) => link,
            };
            self.history.send(id, self.runtime.clock.now(), |when| {
                let (connection, port) = (link.stream.connection(), link.stream.local().port());
                Sent { when, xid, boot: link.stream.peer_incarnation(), connection, port }
            });
            for wait in self.network.fate(&self.options.calls) {
                link.send_after(&self.runtime, wait, record.clone());
            }
            let given_up = {
                let broken = std::pin::pin!(link.broken());
                let silence = select(broken, self.runtime.clock.sleep(timeout));
                match select(&mut reply, silence).await {
                    Either::Left((reply, _)) => return reply.expect("the sender waits in the map"),
                    Either::Right((Either::Left(_), _)) => false,
                    Either::Right((Either::Right(_), _)) => true,
                }
            };
            if given_up {
                timeout = (timeout * 2).min(self.options.timeout_max);
                if self.chance(self.options.leaves_per_mille) {
                    link.close();
                }
            }
        }
    }

    /// The connection; a new one if there is none or it is broken.
    async fn connected(self: &Rc<Self>) -> Rc<Link> {
        let _one_at_a_time = self.connecting.exclusive().await;
        loop {
            if let Some(link) = self.link.borrow().as_ref().filter(|link| !link.is_broken()) {
                return link.clone();
            }
            let same = self.chance(self.options.same_port_per_mille);
            let port = if same { self.last_port.get() } else { 0 };
            match self.host.connect(port, self.server).await {
                Ok(stream) => {
                    self.last_port.set(stream.local().port());
                    let link = Link::begin(self, stream);
                    self.link.replace(Some(link));
                }
                Err(_) => {
                    let longest_ns = self.options.reconnect_max.as_nanos() as u64;
                    let wait_ns = self.prng.borrow_mut().between(0, longest_ns);
                    self.runtime.clock.sleep(Duration::from_nanos(wait_ns)).await;
                }
            }
        }
    }

    /// Handles a record from a boot of the server.
    fn heard(self: &Rc<Self>, boot: u64, record: &[u8]) {
        let (xid, answer) = protocol::reply(record)
            .unwrap_or_else(|| panic!("client {} was sent what is no reply: {record:?}", self.id));
        for wait in self.network.fate(&self.options.replies) {
            let (client, answer) = (self.clone(), answer.clone());
            let deliver = async move {
                if !wait.is_zero() {
                    client.runtime.clock.sleep(wait).await;
                }
                let waiting = client.waiting.borrow_mut().remove(&xid); // invariant 2
                if let Some(waiting) = waiting {
                    let _ = waiting.send((boot, answer)); // the waiter may be gone by now
                }
            };
            if wait.is_zero() {
                deliver.now_or_never().expect("it waits for nothing")
            } else {
                self.runtime.tasks.spawn(deliver.boxed_local())
            }
        }
    }

    fn next_xid(&self) -> u32 {
        let xid = self.xid.get().wrapping_add(1);
        self.xid.set(xid);
        xid
    }

    fn chance(&self, per_mille: u64) -> bool {
        self.prng.borrow_mut().chance(per_mille, 1000)
    }
}

/// The entry of a call among the waiting ones; it is removed with the call.
struct Waiting {
    client: Rc<Inner>,
    xid: u32,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.client.waiting.borrow_mut().remove(&self.xid);
    }
}
