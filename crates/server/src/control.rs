//! The control channel: HTTP/1.1 with JSON on a socket of the volume, for administrators.
//!
//! docs/admin.md describes the routes. Each served volume has a [`Desk`]: its socket, its state in
//! the server, the handlers of its orders, and its [`Jobs`].
//!
//! # Threads
//! Sockets, HTTP and JSON run on a thread of their own, with a reactor of its own; so does code
//! that reads the disk for an answer. The thread that serves reads its own counters for a client
//! ([`Desk::live`]) and begins jobs, scrubs and orders ([`Desk::scrub`], [`Desk::act`]), without
//! waiting. Requests reach it through a queue, and wake it by the event counter of its reactor. The
//! alternative was a snapshot of the counters that it publishes now and then: then it would wake
//! while no one asks, or the answers would be old.
//!
//! # Timeouts
//! A client has 5 seconds to send the head of a request and 30 for everything. The number of
//! clients is bounded, and further ones wait in the kernel. None of this delays the server's end: a
//! flag stops the thread, which drops all its connections.
//!
//! Layers, from the bottom: `socket` is a path with its listener, `jobs` is long work, `head`
//! checks a request before HTTP parses it, `inside` makes JSON and metrics of
//! the counters, `table` has the routes, `routes` answers them, `client` sends requests.
//!
//! Invariant: the thread that serves waits for nothing here, except at its end, until the other
//! thread has dropped its connections.
//!
//! Not asserted: it is about waits that do not occur.

pub mod client;
mod head;
mod inside;
mod jobs;
mod routes;
mod socket;
mod table;

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use dispatch::counts::Connected;
use futures::future::LocalBoxFuture;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use inside::ServerCopy;
pub use inside::{
    ClientConnection, DeviceCallStatus, DeviceStatus, Health, ServerClients, ServerCounters,
    ServerStatus, Serving, VolumeCopy, VolumeHealth, VolumeStatus, VolumeTroubles,
};
pub use jobs::{End, Job, Jobs};
use routes::Front;
pub use socket::{ClaimError, Socket};

/// Media types of answers.
const JSON_TYPE: &str = "application/json";
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// Name of the socket in the folder of a volume.
pub const SOCKET_NAME: &str = "control.sock";

/// Time that a client has for the head of its request.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Time that a client has for its whole request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of clients at once on each socket.
const CLIENTS: usize = 64;
/// Number of threads for reading disks.
const READERS: usize = 4;
/// Pause after an accept that failed for lack of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The control interface of a volume.
pub struct Desk {
    /// Name under which the volume is served.
    pub volume: String,
    /// Listening socket. A volume without one is described at the sockets of the others.
    pub socket: Option<Socket>,
    /// Copies the statistics that only the thread that serves has; the argument is the export's
    /// durability (`durable` or `delayed`). Called on that thread; it reads counters, waits for
    /// nothing, and formats nothing.
    pub live: Live,
    /// Completes the statistics to the JSON text of `GET /v1/info`, or returns the reason why it
    /// cannot. Called on another thread; it may read disks.
    pub info: Info,
    /// Jobs of the volume.
    pub jobs: Jobs,
    /// Starts a scrub for `POST /v1/scrub`. Called on the thread that serves.
    pub scrub: Begin,
    /// Carries out the orders of `POST /v1/raid/ORDER`. Called on the thread that serves.
    pub act: Act,
    /// Carries out the orders of `POST /v1/nvram/ORDER`. Called on the thread that serves.
    pub nvram: Act,
    /// Carries out the orders of `POST /v1/snapshots/ORDER`; `GET /v1/snapshots` is its order
    /// `list`.
    pub snapshots: Act,
}

/// Type of [`Desk::live`].
pub type Live = Rc<dyn Fn(&'static str) -> Box<dyn VolumeCopy>>;
/// Starts long work, and returns the number of its job or the reason for a refusal.
pub type Begin = Rc<dyn Fn() -> Result<u64, Refused>>;
/// Handler of orders, see [`Desk::act`]: the order and its arguments.
pub type Act = Rc<dyn Fn(String, Value) -> LocalBoxFuture<'static, Result<Value, Refused>>>;

/// Reason why an order is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The order does not exist.
    #[error("there is no such order")]
    Unknown,
    /// The arguments of the order are invalid.
    #[error("{0}")]
    Senseless(String),
    /// The order cannot be carried out now.
    #[error("{0}")]
    Conflict(String),
}

/// Type of [`Desk::info`].
pub type Info = Arc<dyn Fn(Value) -> Result<String, String> + Send + Sync>;

/// An answer to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON text: the requested object, or `{"error": "a sentence"}`; or the metrics.
    pub body: String,
    /// Media type of the body.
    content_type: &'static str,
    /// The allowed method, if another one was refused.
    allow: Option<&'static str>,
}

impl Default for Answer {
    fn default() -> Self {
        Self { status: 200, body: String::new(), content_type: JSON_TYPE, allow: None }
    }
}

impl Answer {
    /// Error message of a refusal.
    pub fn error(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get("error")?.as_str()?.to_owned())
    }

    fn good(body: &Value) -> Self {
        Self { body: format!("{body:#}\n"), ..Self::default() }
    }

    fn of((status, body): (u16, Value)) -> Self {
        Self { status, ..Self::good(&body) }
    }

    fn text(body: String) -> Self {
        Self { body, content_type: METRICS_TYPE, ..Self::default() }
    }

    fn refusal(status: StatusCode, why: impl Into<String>) -> Self {
        let body = json!({ "error": why.into() });
        Self { status: status.as_u16(), ..Self::good(&body) }
    }
}

/// A request to the thread that serves, with the index of its desk.
struct Question {
    desk: usize,
    ask: Ask,
}

/// Kind of a request, with the channel for its reply.
enum Ask {
    Live(oneshot::Sender<Box<dyn VolumeCopy>>),
    Server(oneshot::Sender<ServerCopy>),
    /// Connections, and the names of the volumes.
    Clients(oneshot::Sender<(Connected, Vec<String>)>),
    Scrub(oneshot::Sender<Result<Value, Refused>>),
    Act(Part, String, Value, oneshot::Sender<Result<Value, Refused>>),
}

/// Part of a volume that an order addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The underlying set of disks.
    Raid,
    /// The NVRAM in front of it.
    Nvram,
    Snapshots,
}

/// A desk on the thread that serves.
struct OpenDesk {
    volume: String,
    live: Live,
    orders: Orders,
}

struct Orders {
    scrub: Begin,
    raid: Act,
    nvram: Act,
    snapshots: Act,
}

/// Replies to a request at a desk, or begins to. The client may be gone.
fn answer(ask: Ask, desk: &OpenDesk, all: &[OpenDesk], server: &impl Serving) {
    let copy = |desk: &OpenDesk| (desk.live)(server.durability(&desk.volume));
    match ask {
        Ask::Live(reply) => drop(reply.send(copy(desk))),
        Ask::Server(reply) => {
            let volumes = all.iter().map(|desk| (desk.volume.clone(), copy(desk))).collect();
            drop(reply.send(ServerCopy { counters: server.counters(), volumes }));
        }
        Ask::Clients(reply) => {
            let names = server.counters().volumes.into_iter().map(|volume| volume.name);
            drop(reply.send((server.connected(), names.collect())));
        }
        Ask::Scrub(reply) => {
            let begun = (desk.orders.scrub)();
            drop(reply.send(begun.map(|job| json!({ "job": job }))));
        }
        Ask::Act(part, order, said, reply) => {
            let act = match part {
                Part::Raid => &desk.orders.raid,
                Part::Nvram => &desk.orders.nvram,
                Part::Snapshots => &desk.orders.snapshots,
            };
            let acting = act(order, said);
            tokio::task::spawn_local(async move { drop(reply.send(acting.await)) });
        }
    }
}

/// The open channel. Dropping it closes it and removes its sockets.
#[derive(Default)]
pub struct Control {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

impl Control {
    /// Starts to answer at these desks of a server. Call it on the thread that serves, within its
    /// reactor.
    ///
    /// # Errors
    /// The operating system's error, if it provides no thread or no event queue.
    pub fn open(desks: Vec<Desk>, server: impl Serving + 'static) -> io::Result<Self> {
        if desks.iter().all(|desk| desk.socket.is_none()) {
            return Ok(Self::default());
        }
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()?;
        let (ask, mut asked) = mpsc::channel::<Question>(CLIENTS);
        let (mut open, mut fronts, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for (desk, one) in desks.into_iter().enumerate() {
            let Desk { volume, socket, live, info, jobs, scrub, act, nvram, snapshots } = one;
            let orders = Orders { scrub, raid: act, nvram, snapshots };
            if let Some(socket) = socket {
                sockets.push(socket.path().to_owned());
                let (volume, ask) = (volume.clone(), ask.clone());
                fronts.push((socket, Arc::new(Front { desk, volume, ask, info, jobs })));
            }
            open.push(OpenDesk { volume, live, orders });
        }
        tokio::task::spawn_local(async move {
            while let Some(Question { desk, ask }) = asked.recv().await {
                answer(ask, &open[desk], &open, &server);
            }
        });
        let (stop, mut stopped) = watch::channel(false);
        let attend = move || {
            reactor.block_on(async {
                for (socket, front) in fronts {
                    tokio::spawn(listen(socket, front));
                }
                let _ = stopped.wait_for(|&stopped| stopped).await;
            });
            reactor.shutdown_background(); // does not wait for a disk that does not answer
        };
        let thread = thread::Builder::new().name("control".into()).spawn(attend)?;
        Ok(Self { stop, thread: Some(thread), sockets })
    }

    /// Paths of the sockets.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.sockets.iter().map(PathBuf::as_path)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there was reported already
        }
    }
}

/// Accepts clients for ever.
async fn listen(socket: Socket, front: Arc<Front>) {
    let listener = match socket.listener().and_then(UnixListener::from_std) {
        Ok(listener) => listener,
        Err(error) => {
            let path = socket.path().display();
            tracing::warn!(%error, %path, "the control channel does not listen");
            return;
        }
    };
    let places = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let front = front.clone();
                tokio::spawn(async move {
                    // A client that is too slow or gone is dropped.
                    let _ = timeout(PATIENCE, attend(stream, front)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a control connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Handles one request.
async fn attend(stream: UnixStream, front: Arc<Front>) {
    let (mut reader, mut writer) = stream.into_split();
    let late = || Err(Answer::refusal(StatusCode::REQUEST_TIMEOUT, "no request came in time"));
    let head = match timeout(HEAD_PATIENCE, head::read(&mut reader)).await {
        Ok(Ok(None)) => return, // the client closed without a request
        Ok(read) => read.map(|head| head.unwrap_or_default()),
        Err(_) => late(),
    };
    match head {
        Ok(head) => {
            let io = tokio::io::join(Cursor::new(head).chain(reader), writer);
            let service = service_fn(async |request: Request<Incoming>| {
                let (head, body) = request.into_parts();
                let answer = front.answer(&head.method, head.uri.path(), body).await;
                Ok::<_, Infallible>(response(&answer))
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .half_close(true)
                .serve_connection(TokioIo::new(io), service);
            let _ = connection.await; // an error here means that the client is gone
        }
        Err(answer) => {
            let _ = writer.write_all(&by_hand(&answer)).await;
        }
    }
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response =
        Response::builder().status(answer.status).header(CONTENT_TYPE, answer.content_type);
    if let Some(allow) = answer.allow {
        response = response.header(ALLOW, allow);
    }
    response.body(Full::from(answer.body.clone())).expect("all of it is plain text")
}

/// Encodes the answer to an invalid request.
fn by_hand(answer: &Answer) -> Vec<u8> {
    let status = StatusCode::from_u16(answer.status).expect("one of ours");
    let text = &answer.body;
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}
