//! The control channel, tested with raw bytes on its socket.

use std::cell::Cell;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use dispatch::counts::{CallCounts, Connected, ServerCounts};
use dispatch::{Counters, Refusals};
use door::DoorCounts;
use futures::FutureExt;
use futures::future::ready;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::{Value, json};
use server::control::client::{self, AskError};
use server::control::{
    ClaimError, Control, Desk, End, Health, Jobs, Refused, ServerCounters, Serving, Socket,
    VolumeCopy, VolumeHealth, VolumeTroubles,
};
use server::metrics::{Metric, Page};
use server::reactor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("duramen-control-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a temporary folder");
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A desk that counts the requests to the thread that serves.
fn desk(volume: &str, socket: Option<&Path>, jobs: Jobs) -> Desk {
    let (asked, serving) = (Cell::new(0), thread::current().id());
    Desk {
        volume: volume.into(),
        socket: socket.map(|path| Socket::claim(path).expect("nothing is in its way")),
        live: Rc::new(move |durability| {
            asked.set(asked.get() + 1);
            assert_eq!(thread::current().id(), serving, "what it owns is read by no other thread");
            Box::new(Copy { durability, asked: asked.get() })
        }),
        info: Arc::new(move |live| {
            assert_ne!(thread::current().id(), serving, "what may wait holds up no client");
            if live["asked"] == 2 { Err("the disk is gone".into()) } else { Ok(live.to_string()) }
        }),
        jobs: jobs.clone(),
        scrub: Rc::new(move || {
            assert_eq!(thread::current().id(), serving, "it begins where it is done");
            let job = jobs.begin("scrub", 1, "bytes", true).id();
            if job == 1 { Ok(job) } else { Err(Refused::Conflict("it is scrubbed".to_owned())) }
        }),
        nvram: Rc::new(|order, _| {
            let answer = if order == "up" { Ok(json!({})) } else { Err(Refused::Unknown) };
            ready(answer).boxed_local()
        }),
        act: Rc::new(move |order, said| {
            assert_eq!(thread::current().id(), serving, "what it owns is changed by no other");
            let answer = match order.as_str() {
                "replace" if said["slot"] == 2 => Ok(json!({ "job": 7 })),
                "replace" => Err(Refused::Senseless("no such slot".to_owned())),
                "fail" => Err(Refused::Conflict("it is out".to_owned())),
                _ => Err(Refused::Unknown),
            };
            ready(answer).boxed_local()
        }),
        snapshots: Rc::new(move |order, said| {
            assert_eq!(thread::current().id(), serving, "what it owns is changed by no other");
            let answer = match order.as_str() {
                "list" if said.is_null() => Ok(json!([{ "name": "a" }])),
                "create" => Ok(json!({ "name": said["name"] })),
                _ => Err(Refused::Unknown),
            };
            ready(answer).boxed_local()
        }),
    }
}

/// The counters of such a desk. They are read on another thread.
struct Copy {
    durability: &'static str,
    asked: u64,
}

static ASKED: Metric = Metric::counter("asked_total", "Requests.");

impl VolumeCopy for Copy {
    fn json(&self) -> Value {
        json!({ "durability": self.durability, "asked": self.asked })
    }

    fn health(&self) -> VolumeHealth {
        let mut health = VolumeHealth::default();
        if self.asked > 1 {
            health.add(Health::Degraded, "it was asked twice");
        }
        health
    }

    fn measure(&self, volume: &str, page: &mut Page) {
        page.add(&ASKED, &[("volume", volume)], self.asked);
    }
}

/// A server of the volume `data` and of one without a socket, which may have stopped.
#[derive(Clone, Default)]
struct FakeServer {
    is_stopped: Rc<Cell<bool>>,
}

impl Serving for FakeServer {
    fn durability(&self, volume: &str) -> &'static str {
        if volume == "data" { "delayed" } else { "durable" }
    }

    fn counters(&self) -> ServerCounters {
        let volume = |name: &str, is_stopped| VolumeTroubles {
            name: name.to_owned(),
            is_stopped,
            is_damaged: false,
        };
        ServerCounters {
            uptime: Duration::from_millis(1_500),
            volumes: vec![volume("data", false), volume("bare", self.is_stopped.get())],
            refused_volumes: Vec::new(),
            devices: Vec::new(),
            calls: ServerCounts {
                volumes: vec![CallCounts::default(); 2],
                no_volume: CallCounts::default(),
                mount: Default::default(),
                rejected: 3,
                memory_waits: 0,
                turn_waits: 0,
                turn_wait: Duration::ZERO,
                waiting: 0,
            },
            refusals: Refusals::default(),
            reply_cache: Counters::default(),
            remembered: (0, 0),
            under_way: (0, 0),
            arriving: 0,
            executing: 0,
            connections: (0, 0),
            door: DoorCounts::default(),
        }
    }

    fn connected(&self) -> Connected {
        Connected { total: 7, listed: Vec::new() }
    }
}

/// Runs `test` with such a desk.
fn with_desk(test: impl AsyncFnOnce(&Path, &Jobs, Control)) {
    with_desk_of(FakeServer::default(), test);
}

fn with_desk_of(server: FakeServer, test: impl AsyncFnOnce(&Path, &Jobs, Control)) {
    let (folder, jobs) = (Folder::new(), Jobs::default());
    let path = folder.socket();
    let done = reactor::block_on(|_| async {
        let bare = desk("bare", None, Jobs::default());
        let desks = vec![desk("data", Some(&path), jobs.clone()), bare];
        let control = Control::open(desks, server);
        test(&path, &jobs, control.expect("a thread")).await;
    });
    done.expect("a reactor");
    assert!(!path.exists(), "it goes with the server");
}

/// Head and body of the answer to a GET.
async fn asked(path: &Path, route: &str) -> (String, String) {
    answered(path, format!("GET {route} HTTP/1.1\r\n\r\n").as_bytes()).await
}

/// Sends these bytes, and returns the status, the head and the object of the answer.
async fn said(path: &Path, bytes: &[u8]) -> (u16, String, Value) {
    let (head, body) = answered(path, bytes).await;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = serde_json::from_str(&body).expect("all answers but the metrics are JSON");
    (status.expect("a number"), head, body)
}

async fn answered(path: &Path, bytes: &[u8]) -> (String, String) {
    let mut stream = UnixStream::connect(path).await.expect("a server listens");
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    while stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {}
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.to_owned(), body.to_owned())
}

#[test]
fn the_thread_that_serves_is_asked_and_another_one_does_the_rest() {
    with_desk(async |path, _, _control| {
        let request = b"GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n";
        let (status, head, body) = said(path, request).await;
        assert_eq!((status, &body["durability"]), (200, &json!("delayed")));
        assert!(head.contains("content-type: application/json"), "{head}");
        let (status, _, body) = said(path, request).await;
        assert_eq!((status, &body["error"]), (500, &json!("the disk is gone")));
        let (status, _, body) = said(path, b"GET /v1/info HTTP/1.0\r\n\r\n").await;
        assert_eq!((status, &body["asked"]), (200, &json!(3)));
    });
}

#[test]
fn metrics_are_text_for_prometheus() {
    with_desk(async |path, _, _control| {
        let (head, text) = asked(path, "/metrics").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        for line in [
            "asked_total{volume=\"data\"} 1",
            "asked_total{volume=\"bare\"} 1",
            "duramen_rpc_rejected_total 3",
            "duramen_uptime_seconds 1.5",
            "duramen_volume_state{volume=\"bare\",state=\"ok\"} 1",
        ] {
            assert!(text.lines().any(|its| its == line), "{line}: {text}");
        }
    });
}

#[test]
fn health_says_degraded_with_200_and_stopped_with_503() {
    let server = FakeServer::default();
    with_desk_of(server.clone(), async |path, _, _control| {
        let request = b"GET /healthz HTTP/1.1\r\n\r\n";
        let (status, _, body) = said(path, request).await;
        assert_eq!((status, &body["state"]), (200, &json!("ok")), "{body}");
        let (status, _, body) = said(path, request).await;
        assert_eq!((status, &body["state"]), (200, &json!("degraded")), "{body}");
        for volume in [0, 1] {
            assert_eq!(body["volumes"][volume]["reasons"], json!(["it was asked twice"]));
        }
        server.is_stopped.set(true);
        let (status, _, body) = said(path, request).await;
        assert_eq!((status, &body["state"]), (503, &json!("stopped")), "{body}");
        assert_eq!(body["volumes"][1]["volume"], "bare", "{body}");
        let (status, _, body) = said(path, b"GET /v1/server/status HTTP/1.1\r\n\r\n").await;
        assert_eq!((status, &body["state"]), (200, &json!("stopped")), "{body}");
        assert_eq!(body["volumes"][1]["calls"], 0);
        assert_eq!(body["socket_volume"], "data", "the one whose socket it is");
        let (_, _, body) = said(path, b"GET /v1/server/clients HTTP/1.1\r\n\r\n").await;
        assert_eq!(body, json!({ "total": 7, "connections": [] }));
    });
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    with_desk(async |path, _, _control| {
        for (request, status, expected) in [
            ("POST /v1/info HTTP/1.1\r\n\r\n", 405, "asked for with GET"),
            ("GET /v1/jobs/7/cancel HTTP/1.1\r\n\r\n", 405, "asked for with POST"),
            ("GET /v1/infos HTTP/1.1\r\n\r\n", 404, "GET /v1/info, GET /v1/jobs"),
            ("GET / HTTP/1.1\r\n\r\n", 404, "there are these"),
            ("GET /v1/jobs/7 HTTP/1.1\r\n\r\n", 404, "there are these: none"),
            ("GET /v1/jobs/-1 HTTP/1.1\r\n\r\n", 404, "no such job"),
            ("hello\r\n\r\n", 400, "no request of HTTP/1.1"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "no request of HTTP/1.1"),
            ("\0\0\0\0", 400, "no request of HTTP/1.1"),
            ("GET /v1/info HTTP/1.1\r\nHost", 400, "ends before its head does"),
            ("GET /v1/info HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400, "one number"),
            ("GET /v1/info HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400, "one number"),
            ("GET /v1/info HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413, "at most 65536"),
            ("GET /v1/info HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "sent whole"),
        ] {
            let (told, _, body) = said(path, request.as_bytes()).await;
            let why = body["error"].as_str().unwrap_or_else(|| panic!("{request:?}: {body}"));
            assert!(told == status && why.contains(expected), "{request:?}: {told} {why}");
        }
        let (_, head, _) = said(path, b"DELETE /v1/info HTTP/1.1\r\n\r\n").await;
        assert!(head.contains("allow: GET"), "{head}");
    });
}

#[test]
fn orders_are_given_to_the_thread_that_serves() {
    with_desk(async |path, _, _control| {
        for (order, said_with, status, expected) in [
            ("replace", r#"{"slot":2}"#, 200, r#"{"job":7}"#),
            ("replace", r#"{"slot":3}"#, 400, r#"{"error":"no such slot"}"#),
            ("fail", "{}", 409, r#"{"error":"it is out"}"#),
            ("sing", "{}", 404, r#"{"error":"there is no order 'sing'"}"#),
            ("replace", "", 400, r#"{"error":"what is said with an order is JSON"}"#),
            ("replace", "{", 400, r#"{"error":"what is said with an order is JSON"}"#),
        ] {
            let length = said_with.len();
            let request = format!(
                "POST /v1/raid/{order} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{said_with}"
            );
            let (told, _, body) = said(path, request.as_bytes()).await;
            assert_eq!(
                (told, body.to_string().as_str()),
                (status, expected),
                "{order} {said_with}"
            );
        }
        let (status, ..) = said(path, b"GET /v1/raid/fail HTTP/1.1\r\n\r\n").await;
        assert_eq!(status, 405);
    });
}

#[test]
fn snapshots_have_routes_of_their_own() {
    with_desk(async |path, _, _control| {
        let (status, _, body) = said(path, b"GET /v1/snapshots HTTP/1.1\r\n\r\n").await;
        assert_eq!((status, body.to_string().as_str()), (200, r#"[{"name":"a"}]"#));
        for (order, status, expected) in [
            ("create", 200, r#"{"name":"b"}"#),
            ("replace", 404, r#"{"error":"there is no order 'replace'"}"#),
            ("list", 404, r#"{"error":"there is no such route; "#),
        ] {
            let head = format!("POST /v1/snapshots/{order} HTTP/1.1\r\nContent-Length: 12");
            let request = head + "\r\n\r\n{\"name\":\"b\"}";
            let (told, _, body) = said(path, request.as_bytes()).await;
            let body = body.to_string();
            assert!(told == status && body.starts_with(expected), "{order}: {told} {body}");
        }
        let (status, ..) = said(path, b"POST /v1/snapshots HTTP/1.1\r\n\r\n").await;
        assert_eq!(status, 405);
    });
}

#[test]
fn a_head_without_an_end_is_refused_before_it_takes_memory() {
    with_desk(async |path, _, _control| {
        let long = [b"GET /v1/info HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
        let (status, _, body) = said(path, &long).await;
        assert_eq!(status, 431, "{body}");
        assert!(body["error"].as_str().is_some_and(|why| why.contains("8192 bytes")), "{body}");
        let many = format!("GET /v1/info HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(65));
        let (status, _, body) = said(path, many.as_bytes()).await;
        assert_eq!(status, 431, "{body}");
        assert!(body["error"].as_str().is_some_and(|why| why.contains("64 lines")), "{body}");
    });
}

#[test]
fn clients_that_say_nothing_hold_up_neither_others_nor_the_end() {
    with_desk(async |path, _, control| {
        let mut silent = Vec::new();
        for said in
            ["", "GET /v1/in", "POST /v1/jobs/1/cancel HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
        {
            let mut stream = UnixStream::connect(path).await.expect("a server listens");
            stream.write_all(said.as_bytes()).await.expect("it reads");
            silent.push(stream);
        }
        let mut answer = [0; 12];
        silent[2].read_exact(&mut answer).await.expect("its body is not waited for");
        assert_eq!(&answer, b"HTTP/1.1 404");
        let (status, _, _) = said(path, b"GET /v1/jobs HTTP/1.1\r\n\r\n").await;
        assert_eq!(status, 200);
        drop(control);
        for stream in &mut silent[..2] {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.is_empty(), "it would be told that it is too late, if it was waited for");
        }
        assert!(UnixStream::connect(path).await.is_err());
    });
}

#[test]
fn jobs_are_told_and_cancelled() {
    with_desk(async |path, jobs, _control| {
        let job = jobs.begin("check", 8, "groups", true);
        job.advance(3, 8);
        let (_, _, body) = said(path, b"GET /v1/jobs HTTP/1.1\r\n\r\n").await;
        let expected = json!([{
            "id": 1, "kind": "check", "done": 3, "total": 8, "unit": "groups",
            "state": "running", "can_cancel": true,
        }]);
        assert_eq!(body, expected);
        let cancel = b"POST /v1/jobs/1/cancel HTTP/1.1\r\n\r\n";
        let (status, _, body) = said(path, cancel).await;
        assert_eq!((status, &body["state"]), (200, &json!("cancelling")));
        assert!(job.is_cancelled());
        job.end(End::Cancelled);
        let (status, _, body) = said(path, b"GET /v1/jobs/1 HTTP/1.1\r\n\r\n").await;
        assert_eq!((status, &body["state"]), (200, &json!("cancelled")));
        assert_eq!(said(path, cancel).await.0, 409);
        let _safe_not = jobs.begin("rebuild", 1, "blocks", false);
        assert_eq!(said(path, b"POST /v1/jobs/2/cancel HTTP/1.1\r\n\r\n").await.0, 409);
    });
}

#[test]
fn the_client_gets_answers_refusals_and_silence() {
    with_desk(async |path, _, control| {
        let get = |route: &'static str| {
            let path = path.to_owned();
            tokio::task::spawn_blocking(move || client::get(&path, route))
        };
        let answer = get("/v1/info").await.expect("no panic").expect("a server listens");
        assert_eq!((answer.status, answer.error()), (200, None));
        let answer = get("/v1/x").await.expect("no panic").expect("a server listens");
        assert!(answer.status == 404 && answer.error().is_some(), "{answer:?}");
        drop(control);
        let nobody = get("/v1/info").await.expect("no panic");
        assert!(matches!(nobody, Err(AskError::Nobody(_))), "{nobody:?}");
    });
}

#[test]
fn only_its_user_may_ask() {
    let folder = Folder::new();
    let socket = Socket::claim(&folder.socket()).expect("the folder is empty");
    let mode = fs::metadata(socket.path()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_a_killed_server_left_is_replaced_and_what_lives_is_not() {
    let folder = Folder::new();
    let path = folder.socket();
    drop(UnixListener::bind(&path).expect("the folder is empty")); // its file stays
    assert!(path.exists());
    let socket = Socket::claim(&path).expect("no server listens there");
    assert!(matches!(Socket::claim(&path), Err(ClaimError::Taken(_))));
    std::os::unix::net::UnixStream::connect(&path).expect("the first one listens still");
    drop(socket);
    assert!(!path.exists());
    fs::write(&path, "a letter").expect("there is room");
    assert!(matches!(Socket::claim(&path), Err(ClaimError::NoSocket(_))));
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "a letter");
}

/// Connects unless that would block.
fn connect_at_once(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[test]
fn a_server_that_accepts_no_one_is_waited_for_by_no_one() {
    let folder = Folder::new();
    let path = folder.socket();
    let _deaf = Socket::claim(&path).expect("the folder is empty");
    // Its queue is full once another connection would block.
    let mut waiting = Vec::new();
    while let Ok(stream) = connect_at_once(&path) {
        waiting.push(stream);
        assert!(waiting.len() < 10_000, "the queue has an end");
    }
    assert!(matches!(Socket::claim(&path), Err(ClaimError::Taken(_))), "it has a server");
    assert!(matches!(client::get(&path, "/v1/info"), Err(AskError::Failed { .. })));
}

#[test]
fn a_socket_that_has_taken_its_place_outlives_it() {
    let folder = Folder::new();
    let path = folder.socket();
    let socket = Socket::claim(&path).expect("the folder is empty");
    fs::remove_file(&path).expect("it is there");
    let other = Socket::claim(&path).expect("it is gone");
    drop(socket);
    assert!(path.exists(), "it is that of the other one");
    drop(other);
    assert!(!path.exists());
}

#[test]
fn a_path_that_is_too_long_for_an_address_is_reached() {
    let folder = Folder::new();
    let deep = folder.0.join("d".repeat(200));
    fs::create_dir(&deep).expect("a folder");
    let path = deep.join("control.sock");
    let socket = Socket::claim(&path).expect("by way of its folder");
    assert!(path.exists());
    assert!(matches!(Socket::claim(&path), Err(ClaimError::Taken(_))), "it is connected to");
    drop(socket);
    assert!(!path.exists());
}
