//! A server as people run it, its memory, and a well-behaved neighbour.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::{Opaque, Void};

use crate::common::{Folder, assert_clean};
use crate::hostile::wire::{Peer, nfs};

const MIB: u64 = 1 << 20;

/// Small, so that growth beside it shows.
const CACHE: u64 = 16 * MIB;
const REPLY_CACHE: u64 = 4 * MIB;
pub(crate) const REQUEST_MEMORY: u64 = 64 * MIB;
pub(crate) const REPLY_MEMORY: u64 = 16 * MIB;

/// Bytes per connection: the 64 KiB in which its calls arrive, and 16 KiB for everything else.
const CONNECTION: u64 = 80 << 10;

/// Bytes per call that is not answered yet, or whose reply is not received yet, beside the memory
/// that it has tokens for: its futures, the header of its reply, and its place in queues.
const CALL: u64 = 4 << 10;

/// The resources that a scenario makes the server hold, by design.
#[derive(Clone, Copy, Default)]
pub(crate) struct Load {
    /// Number at a time.
    pub(crate) connections: u64,
    /// Number of unanswered calls at a time.
    pub(crate) calls: u64,
    /// Tokens for calls and data, in bytes.
    pub(crate) tokens: u64,
}

/// `duramen serve` with the volumes `data` and `other`, each of 64 MiB.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    folder: Folder,
    /// Resident bytes when it was ready.
    at_start: u64,
}

impl Server {
    /// Starts a server with defaults, except for less memory and a rule that admits 127.0.0.1
    /// alone.
    pub(crate) fn start() -> Self {
        Self::start_with("limits.connections = 1100")
    }

    /// Starts a server with another line in its configuration.
    pub(crate) fn start_with(line: &str) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_duramen")), line)
    }

    /// Starts a server with a limit on its open files.
    pub(crate) fn start_with_files(files: u32, line: &str) -> Self {
        let mut shell = Command::new("sh");
        let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_duramen")]);
        Self::start_as(shell, line)
    }

    fn start_as(mut program: Command, line: &str) -> Self {
        let folder = Folder::new();
        let client = r#"{ network = "127.0.0.1/32", access = "rw", squash = "none" }"#;
        let config = format!(
            "cache = {CACHE}\n\
             exports.data.clients = [{client}]\n\
             exports.other.clients = [{client}]\n\
             limits.request_memory = {REQUEST_MEMORY}\n\
             limits.reply_memory = {REPLY_MEMORY}\n\
             reply_cache.memory = {REPLY_CACHE}\n\
             reply_cache.memory_per_client = {REPLY_CACHE}\n\
             {line}\n"
        );
        fs::write(folder.path("duramen.toml"), config).expect("there is room");
        let mut process = program
            .arg("serve")
            .args([folder.path("data"), folder.path("other")])
            .args(["--create", "64M", "--listen", "127.0.0.1:0", "--config"])
            .arg(folder.path("duramen.toml"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was just built");
        let mut ready = String::new();
        let output = process.stdout.take().expect("it was asked for");
        BufReader::new(output).read_line(&mut ready).expect("text");
        let address = ready.split([' ', '/']).nth(1).and_then(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {ready:?}"));
        let at_start = resident(process.id(), "VmRSS");
        Self { process, address, folder, at_start }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::connect(self.address)
    }

    /// Connects a peer, and mounts `data`.
    pub(crate) fn mounted(&self) -> (Peer, nfs_fh3) {
        let mut peer = self.peer();
        let root = peer.mount(b"/data").expect("it is exported");
        (peer, root)
    }

    pub(crate) fn neighbour(&self) -> Neighbour {
        let (peer, root) = self.mounted();
        Neighbour { peer, root, rounds: 0, address: self.address }
    }

    /// Asserts that this load explains all memory that the server ever held.
    #[track_caller]
    pub(crate) fn assert_bounded(&self, load: Load) {
        let (peak, most) = (self.peak(), self.explained(load));
        let (thread, mib) = (std::thread::current(), |bytes: u64| bytes as f64 / MIB as f64);
        println!(
            "{}: peak {:.1} MiB, at most {:.1} ({:.1} at the start)",
            thread.name().unwrap_or("?"),
            mib(peak),
            mib(most),
            mib(self.at_start)
        );
        assert!(peak <= most, "{peak} bytes were resident, {most} are explained");
    }

    /// Maximum number of bytes that were ever resident.
    pub(crate) fn peak(&self) -> u64 {
        resident(self.process.id(), "VmHWM")
    }

    /// Maximum number of bytes that a load should make resident.
    pub(crate) fn explained(&self, load: Load) -> u64 {
        let Load { connections, calls, tokens } = load;
        self.at_start + CACHE + REPLY_CACHE + connections * CONNECTION + calls * CALL + tokens
    }

    /// Stops the server cleanly, and has the independent checker check its volumes. The neighbour
    /// hangs up first, so that the server need not wait for it.
    pub(crate) fn stop(mut self, neighbour: Neighbour) {
        drop(neighbour);
        let number = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &number]).status();
        assert!(sent.expect("kill is there").success());
        assert!(self.process.wait().expect("it is our child").success());
        assert_clean(&self.folder.path("data").join("disk.img"));
    }
}

impl Drop for Server {
    /// Ends the server of a failed test.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A field of a process's memory statistics from the kernel: `VmRSS` now, `VmHWM` at its peak.
fn resident(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_else(|| panic!("{field} is not in {status}")) << 10
}

/// A well-behaved client with a connection.
pub(crate) struct Neighbour {
    peer: Peer,
    root: nfs_fh3,
    rounds: u32,
    address: SocketAddr,
}

impl Neighbour {
    /// Asserts that it is served, including changes, and that a new client is.
    #[track_caller]
    pub(crate) fn is_served(&mut self) {
        self.rounds += 1;
        let mut new = Peer::connect(self.address);
        assert_eq!(new.mount(b"/data").as_ref().ok(), Some(&self.root));
        let Void = new.call(nfs(NFS_PROGRAM::NFSPROC3_NULL), &Void).results();
        self.writes_and_reads(b"neighbourly");
    }

    /// Asserts that it is served with the maximum amount of data in a call.
    #[track_caller]
    pub(crate) fn is_served_with_much(&mut self) {
        self.rounds += 1;
        self.writes_and_reads(&vec![7; 1 << 20]);
    }

    #[track_caller]
    fn writes_and_reads(&mut self, data: &[u8]) {
        let name = format!("neighbour-{}", self.rounds);
        let place = at(&self.root, name.as_bytes());
        let file = made_file(&mut self.peer, &self.root, name.as_bytes());
        let args = write_args(&file, 0, data);
        assert_eq!(self.peer.nfs(NFS_PROGRAM::NFSPROC3_WRITE, &args).status(), nfsstat3::NFS3_OK);
        let args = READ3args { file, offset: 0, count: 1 << 20 };
        let read: READ3res<'_> = self.peer.nfs(NFS_PROGRAM::NFSPROC3_READ, &args).results();
        assert!(read.unwrap().data.as_ref() == data);
        let args = REMOVE3args { object: place };
        assert_eq!(self.peer.nfs(NFS_PROGRAM::NFSPROC3_REMOVE, &args).status(), nfsstat3::NFS3_OK);
    }
}

pub(crate) fn at<'a>(directory: &nfs_fh3, name: &'a [u8]) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: name.into() }
}

pub(crate) fn write_args<'a>(file: &nfs_fh3, offset: u64, data: &'a [u8]) -> WRITE3args<'a> {
    let (count, data) = (data.len() as u32, Opaque::borrowed(data));
    WRITE3args { file: file.clone(), offset, count, stable: stable_how::FILE_SYNC, data }
}

/// Creates a file and returns its handle.
pub(crate) fn made_file(peer: &mut Peer, directory: &nfs_fh3, name: &[u8]) -> nfs_fh3 {
    let how = createhow3::GUARDED(sattr3::default());
    let args = CREATE3args { where_: at(directory, name), how };
    let made: CREATE3res = peer.nfs(NFS_PROGRAM::NFSPROC3_CREATE, &args).results();
    made.unwrap().obj.unwrap()
}

/// Creates a directory and returns its handle.
pub(crate) fn made_directory(peer: &mut Peer, directory: &nfs_fh3, name: &[u8]) -> nfs_fh3 {
    let mode = Nfs3Option::Some(0o755);
    let attributes = sattr3 { mode, ..sattr3::default() };
    let args = MKDIR3args { where_: at(directory, name), attributes };
    let made: MKDIR3res = peer.nfs(NFS_PROGRAM::NFSPROC3_MKDIR, &args).results();
    made.unwrap().obj.unwrap()
}
