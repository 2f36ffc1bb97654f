//! A server process, and an independent client.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use futures::executor::block_on;
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::{MountClient, Nfs3Client};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{
    CREATE3args, LINK3args, LOOKUP3args, Nfs3Result, REMOVE3args, WRITE3args, createhow3,
    diropargs3, nfs_fh3, sattr3, stable_how,
};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;

use crate::common::pause;

/// A server that has reported that it is ready.
pub(crate) struct Serving {
    process: Child,
    /// The first line of its output.
    ready: String,
    /// The rest of its output.
    output: RefCell<BufReader<ChildStdout>>,
}

impl Serving {
    /// Serves volumes on a port that the system chooses.
    pub(crate) fn start(volumes: &[&Path], more: &[&str]) -> Self {
        Self::start_saying(volumes, more, &[], Stdio::inherit())
    }

    /// Serves volumes, with these environment variables and this standard error.
    pub(crate) fn start_saying(
        volumes: &[&Path],
        more: &[&str],
        environment: &[(&str, &str)],
        standard_error: Stdio,
    ) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_duramen"));
        Self::begin(process, volumes, more, environment, standard_error)
    }

    fn begin(
        mut process: Command,
        volumes: &[&Path],
        more: &[&str],
        environment: &[(&str, &str)],
        standard_error: Stdio,
    ) -> Self {
        let mut process = process
            .arg("serve")
            .args(volumes)
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(standard_error)
            .spawn()
            .expect("the program was just built");
        let output = process.stdout.take().expect("it was asked for");
        let (mut ready, mut output) = (String::new(), BufReader::new(output));
        output.read_line(&mut ready).expect("text");
        assert!(ready.starts_with("ready: "), "{ready:?}");
        Self { process, ready, output: RefCell::new(output) }
    }

    /// Serves volumes, and survives writes beyond the end that [`Self::limit_files`] sets.
    pub(crate) fn start_limited(volumes: &[&Path]) -> Self {
        let mut process = Command::new("sh");
        process.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_duramen")]);
        Self::begin(process, volumes, &[], &[], Stdio::inherit())
    }

    /// Makes every write fail from now on that ends behind this byte of a file.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let (process, limit) = (self.process.id().to_string(), format!("--fsize={bytes}:"));
        let limited = Command::new("prlimit").args(["--pid", &process, &limit]).status();
        assert!(limited.expect("prlimit is there").success());
    }

    /// Address at which it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        let first = self.ready.split([' ', '/']).nth(1).expect("an address behind 'ready:'");
        first.parse().expect("an address")
    }

    /// Its output behind the first line, up to the hint about locks, or that there is no client.
    pub(crate) fn announcement(&self) -> String {
        let mut told = String::new();
        while !told.contains("File locks") && !told.contains("No client that reaches") {
            assert_ne!(self.output.borrow_mut().read_line(&mut told).expect("text"), 0, "{told}");
        }
        told
    }

    /// Whether it refuses to let this machine mount a volume.
    pub(crate) fn refuses(&self, name: &str) -> bool {
        let stream = Stream(TcpStream::connect(self.address()).expect("it accepts"));
        let mut mount = MountClient::new(stream);
        let path = format!("/{name}");
        block_on(mount.mnt(dirpath(Opaque::borrowed(path.as_bytes())))).is_err()
    }

    /// Whether it creates a file.
    pub(crate) fn creates(&self, volume: &str, name: &str) -> bool {
        let (mut client, root) = self.mount(volume);
        let place = diropargs3 { dir: root, name: name.as_bytes().into() };
        let how = createhow3::GUARDED(sattr3::default());
        let made = block_on(client.create(&CREATE3args { where_: place, how })).expect("a reply");
        matches!(made, Nfs3Result::Ok(_))
    }

    /// Waits for something that it does by itself.
    pub(crate) fn until(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            pause(Duration::from_millis(20));
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(self) -> ExitStatus {
        self.signal("-TERM");
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.process.wait().expect("it is our child")
    }

    /// Sends a signal, by its kill(1) name.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Its standard error, if that is a pipe.
    pub(crate) fn standard_error(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    /// Kills the server at once.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it is our child");
    }

    /// Mounts a volume: a client, and the handle of the root.
    pub(crate) fn mount(&self, name: &str) -> (Nfs3Client<Stream>, nfs_fh3) {
        let user = auth_unix { machinename: Opaque::borrowed(b"test"), ..auth_unix::default() };
        let connect = || Stream(TcpStream::connect(self.address()).expect("it accepts"));
        let (credential, none) = (opaque_auth::auth_unix(&user), opaque_auth::default());
        let mut mount = MountClient::new_with_auth(connect(), credential.clone(), none.clone());
        let path = format!("/{name}");
        let mounted = block_on(mount.mnt(dirpath(Opaque::borrowed(path.as_bytes()))));
        let handle = mounted.expect("it is exported").fhandle.0.to_vec();
        let root = nfs_fh3 { data: Opaque::owned(handle) };
        (Nfs3Client::new_with_auth(connect(), credential, none), root)
    }
}

/// A failing test leaves no server behind, whose open output would block the reader of the test's
/// output.
impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}

/// A blocking socket behind the client's async traits: nothing else runs in this thread.
pub(crate) struct Stream(TcpStream);

impl AsyncRead for Stream {
    async fn async_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl AsyncWrite for Stream {
    async fn async_write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }
}

/// The result of a successful call.
#[track_caller]
pub(crate) fn good<T, E: std::fmt::Debug>(result: Nfs3Result<T, E>) -> T {
    match result {
        Nfs3Result::Ok(value) => value,
        Nfs3Result::Err((status, _)) => panic!("{status:?}"),
    }
}

/// Creates a file with this data over NFS.
pub(crate) fn put(serving: &Serving, volume: &str, name: &str, data: &[u8]) {
    let (mut client, root) = serving.mount(volume);
    let place = diropargs3 { dir: root, name: name.as_bytes().into() };
    let how = createhow3::GUARDED(sattr3::default());
    let made = block_on(client.create(&CREATE3args { where_: place, how })).expect("a reply");
    let write = WRITE3args {
        file: good(made).obj.unwrap(),
        offset: 0,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data: Opaque::borrowed(data),
    };
    let written = good(block_on(client.write(&write)).expect("a reply"));
    assert_eq!(written.count as usize, data.len());
}

/// Adds a hard link to a file over NFS.
pub(crate) fn link(serving: &Serving, volume: &str, name: &str, other: &str) {
    let (mut client, root) = serving.mount(volume);
    let object = diropargs3 { dir: root.clone(), name: name.as_bytes().into() };
    let found = block_on(client.lookup(&LOOKUP3args { what: object })).expect("a reply");
    let to = diropargs3 { dir: root, name: other.as_bytes().into() };
    let linked = LINK3args { file: good(found).object, link: to };
    good(block_on(client.link(&linked)).expect("a reply"));
}

/// Removes a name of a file over NFS.
pub(crate) fn remove(serving: &Serving, volume: &str, name: &str) {
    let (mut client, root) = serving.mount(volume);
    let object = diropargs3 { dir: root, name: name.as_bytes().into() };
    good(block_on(client.remove(&REMOVE3args { object })).expect("a reply"));
}
