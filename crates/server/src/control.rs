//! The control channel: HTTP/1.1 with JSON on a socket of the volume, for administrators.
//!
//! docs/admin.md tells the routes. Each volume that is served has a [`Desk`]: its socket, what the
//! server knows of it, what carries out orders, and its [`Jobs`].
//!
//! # Who answers
//! Sockets, HTTP and JSON run on a thread of their own, with a reactor of its own; so does what
//! reads the disk to answer. The thread that serves does one thing for an asker: it reads counters
//! that it owns ([`Desk::live`]), without waiting. It is asked through a queue, and woken by the
//! event counter that its reactor has anyway. A snapshot that it publishes now and then was
//! considered: then it would wake while no one asks, or tell what is old.
//!
//! # Patience
//! A client has 5 seconds to send the head of a request and 30 for everything; so many may be
//! connected at once, the others wait in the kernel. None of this holds up the server's end: the
//! thread is told to stop and drops all that it has.
//!
//! Layers, from the bottom: `socket` is a path and what listens there, `jobs` is long work, `head`
//! judges a request before HTTP does, `routes` answers it, `client` asks.
//!
//! Invariant: the thread that serves waits for nothing here, but at its end for the other one to
//! drop what it has.
//!
//! Not asserted: it is about what is not waited for.

pub mod client;
mod head;
mod jobs;
mod routes;
mod socket;

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
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

pub use jobs::{End, Job, Jobs};
use routes::Front;
pub use socket::{ClaimError, Socket};

/// The name of the socket in the folder of a volume.
pub const SOCKET_NAME: &str = "control.sock";

/// How long a client may take for the head of its request.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take for everything.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients at once, of each socket.
const CLIENTS: usize = 64;
/// Threads for what reads disks.
const READERS: usize = 4;
/// How long to wait after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a volume is asked about.
pub struct Desk {
    /// The name by which the volume is served.
    pub volume: String,
    /// What is listened on.
    pub socket: Socket,
    /// What only the thread that serves knows, given what it is served as (`durable` or
    /// `delayed`). Called there; it reads counters and waits for nothing.
    pub live: Live,
    /// Makes the whole answer of `GET /v1/info` of that, the text of JSON, or says why it cannot.
    /// Called elsewhere; it may read disks.
    pub info: Info,
    /// Its long work.
    pub jobs: Jobs,
    /// Begins to scrub it, as `POST /v1/scrub` asks. Called on the thread that serves.
    pub scrub: Begin,
    /// Carries out what is ordered with `POST /v1/raid/ORDER`. Called on the thread that serves.
    pub act: Act,
    /// The same of `POST /v1/snapshots/ORDER`; what `GET /v1/snapshots` asks for is its order
    /// `list`.
    pub snapshots: Act,
}

/// See [`Desk::live`].
pub type Live = Rc<dyn Fn(&'static str) -> Value>;
/// Begins long work, and gives the number of its job, or says why it does not.
pub type Begin = Rc<dyn Fn() -> Result<u64, Refused>>;
/// See [`Desk::act`]: the order, and what was said with it.
pub type Act = Rc<dyn Fn(String, Value) -> LocalBoxFuture<'static, Result<Value, Refused>>>;

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such order.
    #[error("there is no such order")]
    Unknown,
    /// What was said with it makes no sense.
    #[error("{0}")]
    Senseless(String),
    /// It cannot be done now.
    #[error("{0}")]
    Conflict(String),
}

/// See [`Desk::info`].
pub type Info = Arc<dyn Fn(Value) -> Result<String, String> + Send + Sync>;

/// An answer, and what a client gets of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// That of HTTP.
    pub status: u16,
    /// The text of JSON: what was asked for, or `{"error": "a sentence"}`.
    pub body: String,
    /// What would have been allowed, if that is why it was refused.
    allow: Option<&'static str>,
}

impl Answer {
    /// The sentence of a refusal.
    pub fn error(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get("error")?.as_str()?.to_owned())
    }

    fn good(body: &Value) -> Self {
        Self { status: 200, body: format!("{body:#}\n"), allow: None }
    }

    fn refusal(status: StatusCode, why: impl Into<String>) -> Self {
        let body = json!({ "error": why.into() });
        Self { status: status.as_u16(), ..Self::good(&body) }
    }
}

/// A question for the thread that serves: of which desk.
struct Question {
    desk: usize,
    ask: Ask,
}

/// What is asked, and where the answer goes.
enum Ask {
    Live(oneshot::Sender<Value>),
    Scrub(oneshot::Sender<Result<Value, Refused>>),
    Act(Part, String, Value, oneshot::Sender<Result<Value, Refused>>),
}

/// The part of a volume to which an order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The set of disks on which it stands.
    Raid,
    Snapshots,
}

/// The channel while it is open. Dropped, it is closed, and its sockets are gone.
#[derive(Default)]
pub struct Control {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

impl Control {
    /// Answers at these desks from now on; `durability` says how the volume of a name is served.
    /// To be called on the thread that serves, within its reactor.
    ///
    /// # Errors
    /// The operating system's, when it gives no thread or no event queue.
    pub fn open(
        desks: Vec<Desk>,
        durability: impl Fn(&str) -> &'static str + 'static,
    ) -> io::Result<Self> {
        if desks.is_empty() {
            return Ok(Self::default());
        }
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()?;
        let (ask, mut asked) = mpsc::channel::<Question>(CLIENTS);
        let (mut lives, mut fronts, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for (desk, one) in desks.into_iter().enumerate() {
            let Desk { volume, socket, live, info, jobs, scrub, act, snapshots } = one;
            lives.push((volume, live, scrub, act, snapshots));
            sockets.push(socket.path().to_owned());
            fronts.push((socket, Arc::new(Front { desk, ask: ask.clone(), info, jobs })));
        }
        tokio::task::spawn_local(async move {
            while let Some(Question { desk, ask }) = asked.recv().await {
                let (volume, live, scrub, raid, snapshots) = &lives[desk];
                // The asker may be gone.
                match ask {
                    Ask::Live(reply) => drop(reply.send(live(durability(volume)))),
                    Ask::Scrub(reply) => drop(reply.send(scrub().map(|job| json!({ "job": job })))),
                    Ask::Act(part, order, said, reply) => {
                        let acting = match part {
                            Part::Raid => raid(order, said),
                            Part::Snapshots => snapshots(order, said),
                        };
                        tokio::task::spawn_local(async move { drop(reply.send(acting.await)) });
                    }
                }
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
            reactor.shutdown_background(); // a disk that does not answer is not waited for
        };
        let thread = thread::Builder::new().name("control".into()).spawn(attend)?;
        Ok(Self { stop, thread: Some(thread), sockets })
    }

    /// Where it listens.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.sockets.iter().map(PathBuf::as_path)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been told
        }
    }
}

/// Accepts for ever.
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
                    // A client that is too slow, or gone, has had its chance.
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

/// One request, and its answer.
async fn attend(stream: UnixStream, front: Arc<Front>) {
    let (mut reader, mut writer) = stream.into_split();
    let late = || Err(Answer::refusal(StatusCode::REQUEST_TIMEOUT, "no request came in time"));
    let head = match timeout(HEAD_PATIENCE, head::read(&mut reader)).await {
        Ok(Ok(None)) => return, // it went without a word
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
            let _ = connection.await; // a client that is gone misses nothing
        }
        Err(answer) => {
            let _ = writer.write_all(&by_hand(&answer)).await;
        }
    }
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response =
        Response::builder().status(answer.status).header(CONTENT_TYPE, "application/json");
    if let Some(allow) = answer.allow {
        response = response.header(ALLOW, allow);
    }
    response.body(Full::from(answer.body.clone())).expect("all of it is plain text")
}

/// The bytes of an answer to what was no request.
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
