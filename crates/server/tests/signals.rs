//! The server under a daemon's signals, sent to this very process: a program of its own, in which
//! the scenarios run one at a time.

#[path = "../../dispatch/tests/dispatch/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, id};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use memory::MemoryFileSystem;
use nfs3_client::MountClient;
use nfs3_client::tokio::TokioIo;
use nfs3_types::mount::dirpath;
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;
use server::config::Listen;
use server::{Config, Fsid, ReadyInfo, ServeError, Settings, Signals, Volume, reactor, serve};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Lock for one scenario at a time, because a signal reaches all that run.
static TURN: Mutex<()> = Mutex::new(());

struct Fixture {
    address: SocketAddr,
    data: Rc<MemoryFileSystem>,
    running: JoinHandle<Result<(), ServeError>>,
}

fn with_server<F: Future<Output = ()>>(file: Option<PathBuf>, test: impl FnOnce(Fixture) -> F) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = reactor::block_on(|runtime| async move {
        let data = MemoryFileSystem::new();
        let file_system = data.clone();
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system };
        let listen = Listen(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]);
        let settings = Settings {
            config: Config { listen, ..Config::default() },
            file,
            ..Settings::default()
        };
        let ready: Rc<RefCell<Option<ReadyInfo>>> = Rc::default();
        let note = ready.clone();
        let running = tokio::task::spawn_local(async move {
            let signals = Signals::new().expect("they can be received");
            serve(&runtime, vec![volume], settings, vec![], signals, |info| {
                note.replace(Some(info.clone()));
            })
            .await
        });
        until(|| ready.borrow().is_some()).await;
        let address = ready.take().expect("ready").addresses[0];
        let test = test(Fixture { address, data, running });
        tokio::time::timeout(Duration::from_secs(60), test).await
    });
    outcome.expect("a reactor").expect("the test ends before its deadline");
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn send(signal: &str) {
    let sent = Command::new("kill").args([signal, &id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
}

async fn can_mount(address: SocketAddr) -> bool {
    let io = TokioIo::new(TcpStream::connect(address).await.expect("the server accepts"));
    let machinename = Opaque::borrowed(b"machine");
    let user = auth_unix { machinename, ..auth_unix::default() };
    let credential = opaque_auth::auth_unix(&user);
    let mut mount = MountClient::new_with_auth(io, credential, opaque_auth::default());
    mount.mnt(dirpath(Opaque::borrowed(b"/data"))).await.is_ok()
}

#[test]
fn sigterm_and_sigint_end_it_well() {
    for signal in ["-TERM", "-INT"] {
        with_server(None, async |fixture: Fixture| {
            send(signal);
            fixture.running.await.expect("no panic").expect("a good end");
            assert!(fixture.data.stopped());
        });
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    with_server(None, async |fixture: Fixture| {
        fixture.data.gate().close();
        assert!(can_mount(fixture.address).await);
        let address = fixture.address;
        // A call that waits for the disk, and so delays the server's end.
        tokio::task::spawn_local(async move {
            let mut stream = TcpStream::connect(address).await.expect("the server accepts");
            tokio::io::AsyncWriteExt::write_all(&mut stream, &mkdir()).await.expect("sent");
            std::future::pending::<()>().await;
        });
        until(|| fixture.data.executed() == 1).await;
        send("-TERM");
        // The first signal must have been handled before the second is sent, or they count as one.
        while TcpStream::connect(fixture.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!fixture.running.is_finished());
        send("-TERM");
        let ended = fixture.running.await.expect("no panic");
        assert!(matches!(ended, Err(ServeError::Interrupted)), "{ended:?}");
        assert!(!fixture.data.stopped());
    });
}

/// A start that takes as long as `opening`, under signals.
fn starting<F: Future<Output = ()>>(opening: impl FnOnce() -> F) -> (bool, bool) {
    starting_with(opening, || false)
}

/// The same, where the start may wait for a disk.
fn starting_with<F: Future<Output = ()>>(
    opening: impl FnOnce() -> F,
    is_waiting: impl Fn() -> bool,
) -> (bool, bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = reactor::block_on(|runtime| async move {
        let mut signals = Signals::new().expect("they can be received");
        if let Err(ServeError::Interrupted) = signals.while_starting(opening(), is_waiting).await {
            return (false, false);
        }
        let (data, settings) = (MemoryFileSystem::new(), Settings::default());
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system: data.clone() };
        let served =
            serve(&runtime, vec![volume], settings, vec![], signals, |_| panic!("it serves"));
        (served.await.is_ok(), data.stopped())
    });
    ended.expect("a reactor")
}

#[test]
fn a_signal_while_it_starts_is_heeded_when_it_has_started() {
    let opening = || async {
        send("-HUP");
        send("-TERM");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(starting(opening), (true, true), "it ends well, and leaves its volume clean");
}

#[test]
fn a_signal_ends_a_start_that_waits_for_a_disk_or_comes_to_wait() {
    for is_early in [true, false] {
        let is_waiting = Rc::new(Cell::new(is_early));
        let waits = is_waiting.clone();
        let opening = || async move {
            send("-TERM");
            tokio::time::sleep(Duration::from_millis(50)).await;
            waits.set(true);
            std::future::pending().await
        };
        let ended = starting_with(opening, || is_waiting.get());
        assert_eq!(ended, (false, false), "waits from the beginning: {is_early}");
    }
}

#[test]
fn a_second_signal_while_it_starts_ends_the_start() {
    let opening = || async {
        loop {
            send("-INT");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert_eq!(starting(opening), (false, false));
}

#[test]
fn sighup_reads_the_exports_anew() {
    let path = std::env::temp_dir().join(format!("duramen-{}-sighup.toml", id()));
    std::fs::write(&path, "").expect("the temporary directory can be written");
    with_server(Some(path.clone()), async |fixture: Fixture| {
        assert!(can_mount(fixture.address).await);
        std::fs::write(&path, "[exports.data]\nclients = []\n").expect("it can be written");
        send("-HUP");
        while can_mount(fixture.address).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        send("-TERM");
        fixture.running.await.expect("no panic").expect("a good end");
    });
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_disk_that_does_not_answer_keeps_no_later_reload_from_withdrawing_access() {
    let path = std::env::temp_dir().join(format!("duramen-{}-stuck.toml", id()));
    let open = "[exports.data]\nclients = [{ network = \"127.0.0.1\", access = \"rw\" }]\n";
    std::fs::write(&path, "").expect("the temporary directory can be written");
    with_server(Some(path.clone()), async |fixture: Fixture| {
        fixture.data.gate().close();
        let closed = "[exports.data]\nclients = []\n";
        for (rules, admits) in [(closed, false), (open, true), (closed, false)] {
            std::fs::write(&path, rules).expect("it can be written");
            send("-HUP");
            while can_mount(fixture.address).await != admits {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        send("-TERM");
        fixture.running.await.expect("no panic").expect("a good end");
    });
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_signal_while_a_disk_keeps_the_start_waiting_is_handled_and_a_second_one_ends_it() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = reactor::block_on(|runtime| async move {
        let signals = Signals::new().expect("they can be received");
        let (data, settings) = (MemoryFileSystem::new(), Settings::default());
        data.gate().close();
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system: data };
        let served =
            serve(&runtime, vec![volume], settings, vec![], signals, |_| panic!("it serves"));
        let sent = async {
            loop {
                send("-TERM");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let either = futures::future::select(Box::pin(served), Box::pin(sent)).await;
        let futures::future::Either::Left((ended, _)) = either;
        ended
    });
    let ended = ended.expect("a reactor");
    assert!(matches!(ended, Err(ServeError::Interrupted)), "{ended:?}");
}

#[test]
fn sighup_with_a_fifo_for_a_configuration_leaves_the_server_as_it_is() {
    let path = std::env::temp_dir().join(format!("duramen-{}-fifo.toml", id()));
    let made = Command::new("mkfifo").arg(&path).status().expect("coreutils");
    assert!(made.success());
    with_server(Some(path.clone()), async |fixture: Fixture| {
        send("-HUP");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(can_mount(fixture.address).await);
        send("-TERM");
        fixture.running.await.expect("no panic").expect("a good end");
        assert!(fixture.data.stopped());
    });
    std::fs::remove_file(&path).expect("it is there");
}

/// A MKDIR in the root of the volume.
fn mkdir() -> Vec<u8> {
    use nfs3_types::nfs3::{
        MKDIR3args, NFS_PROGRAM, PROGRAM, VERSION, diropargs3, nfs_fh3, sattr3,
    };
    use nfs3_types::rpc::{call_body, fragment_header, msg_body, rpc_msg};
    use nfs3_types::xdr_codec::Pack;
    let root = vfs::ObjectId::live(vfs::Ino(2), 7);
    let handle = dispatch::Handle { fsid: Fsid(7), id: root }.encode();
    let dir = nfs_fh3 { data: Opaque::owned(handle.to_vec()) };
    let where_ = diropargs3 { dir, name: b"made".as_slice().into() };
    let user = auth_unix { machinename: Opaque::borrowed(b"machine"), ..auth_unix::default() };
    let body = call_body {
        rpcvers: 2,
        prog: PROGRAM,
        vers: VERSION,
        proc: NFS_PROGRAM::NFSPROC3_MKDIR as u32,
        cred: opaque_auth::auth_unix(&user),
        verf: opaque_auth::default(),
    };
    let mut call = Vec::new();
    let message = rpc_msg { xid: 1, body: msg_body::CALL(body) };
    message.pack(&mut call).expect("memory takes everything");
    let args = MKDIR3args { where_, attributes: sattr3::default() };
    args.pack(&mut call).expect("memory takes everything");
    let mark = fragment_header::new(call.len() as u32, true).into_xdr_buf();
    [&mark[..], &call].concat()
}
